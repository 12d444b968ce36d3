//! Tests of the forms of expressions, which are checked before any document is read.

use super::*;

/// Runs an expression on no documents, in a pipeline, in a filter and in a group.
fn refused(expression: &Bson) -> [Option<i32>; 3] {
    [
        doc! { "$project": { "r": expression.clone() } },
        doc! { "$match": { "$expr": expression.clone() } },
        doc! { "$group": { "_id": expression.clone() } },
    ]
    .map(|stage| aggregate(&mut Store::new(), &[stage]).err().map(|e| e.code))
}

fn check_refused(table: impl IntoIterator<Item = (Bson, i32)>) {
    for (expression, code) in table {
        assert_eq!(refused(&expression), [Some(code); 3], "{expression}");
    }
}

#[test]
fn operators_refuse_a_wrong_number_of_operands() {
    check_refused([
        (bson!({ "$divide": 5 }), 16020),
        (bson!({ "$divide": [1] }), 16020),
        (bson!({ "$abs": [-2, 4] }), 16020),
        (bson!({ "$floor": [] }), 16020),
        (bson!({ "$toUpper": ["a", "b"] }), 16020),
        (bson!({ "$size": ["$a", "$a"] }), 16020),
        (bson!({ "$cond": [1, 2] }), 16020),
        (bson!({ "$arrayToObject": [] }), 16020),
        (bson!({ "$round": [3, 1, 2] }), 28667),
        (bson!({ "$slice": ["$a"] }), 28667),
        (bson!({ "$range": [1, 2, 3, 4] }), 28667),
        (bson!({ "$indexOfCP": ["a"] }), 28667),
        (bson!({ "$toInt": [1, 2] }), 50723),
        (bson!({ "$toDate": [] }), 50723),
        (bson!({ "$ifNull": [1] }), 1_257_300),
        (bson!({ "$setEquals": [[1]] }), 17045),
        (bson!({ "$setEquals": [] }), 17045),
        (bson!({ "$year": [1, 2] }), 40536),
        (bson!({ "$rand": 1 }), 10065),
        (bson!({ "$rand": { "k": 1 } }), 3_040_501),
        // An operand of an operator is checked as well.
        (bson!({ "x": [{ "$not": { "$abs": [] } }] }), 16020),
    ]);
}

#[test]
fn operators_refuse_unknown_arguments() {
    let codes = [
        ("$cond", 17083),
        ("$convert", 9),
        ("$dateAdd", 5_166_401),
        ("$filter", 28647),
        ("$firstN", 5_787_901),
        ("$getField", 3_041_701),
        ("$let", 16875),
        ("$map", 16879),
        ("$maxN", 5_787_901),
        ("$reduce", 40076),
        ("$regexMatch", 31024),
        ("$replaceAll", 51750),
        ("$setField", 4_161_101),
        ("$sortArray", 2_942_501),
        ("$switch", 40067),
        ("$trim", 50694),
        ("$year", 40535),
        ("$zip", 34464),
    ];
    for (name, code) in codes {
        let mut operator = Document::new();
        operator.insert(name, doc! { "k": 1 });
        check_refused([(operator.into(), code)]);
    }
    check_refused([
        (
            bson!({ "$filter": { "input": [], "cond": 1, "most": 1 } }),
            28647,
        ),
        (bson!({ "$cond": { "$add": [1, 2] } }), 17083),
    ]);
}

#[test]
fn operators_refuse_missing_arguments_and_operands_that_are_no_documents() {
    check_refused([
        (bson!({ "$map": { "input": [1] } }), 16882),
        (bson!({ "$map": 1 }), 16878),
        (bson!({ "$filter": { "input": [1] } }), 28650),
        (bson!({ "$reduce": { "input": [1], "in": 1 } }), 40078),
        (bson!({ "$let": { "vars": {} } }), 16877),
        (bson!({ "$let": { "vars": 1, "in": 1 } }), 10065),
        (bson!({ "$let": { "vars": { "X": 1 }, "in": 1 } }), 16867),
        (bson!({ "$map": { "input": [], "as": "", "in": 1 } }), 16866),
        (bson!({ "$cond": { "if": 1, "then": 1 } }), 17082),
        (bson!({ "$convert": { "input": 1 } }), 9),
        (bson!({ "$trim": {} }), 50695),
        (bson!({ "$regexFind": { "input": "a" } }), 31023),
        (
            bson!({ "$replaceOne": { "input": "a", "find": "a" } }),
            51747,
        ),
        (bson!({ "$getField": { "field": "a" } }), 3_041_703),
        (
            bson!({ "$setField": { "field": "a", "input": {} } }),
            4_161_103,
        ),
        (bson!({ "$sortArray": { "input": [] } }), 2_942_503),
        (bson!({ "$minN": { "input": [] } }), 5_787_906),
        (bson!({ "$firstN": 1 }), 5_787_801),
        (bson!({ "$switch": {} }), 40068),
        (bson!({ "$switch": { "branches": [] } }), 40068),
        (bson!({ "$switch": { "branches": 1 } }), 40061),
        (bson!({ "$switch": { "branches": [1] } }), 40062),
        (bson!({ "$switch": { "branches": [{ "k": 1 }] } }), 40063),
        (bson!({ "$switch": { "branches": [{ "then": 1 }] } }), 40064),
        (bson!({ "$switch": { "branches": [{ "case": 1 }] } }), 40065),
        (bson!({ "$zip": { "inputs": [] } }), 34465),
        (bson!({ "$zip": { "inputs": 1 } }), 34461),
        (
            bson!({ "$zip": { "inputs": [[1]], "defaults": [1] } }),
            34466,
        ),
        (
            bson!({ "$zip": { "inputs": [[1]], "useLongestLength": 1 } }),
            34463,
        ),
        (bson!({ "$year": { "timezone": "UTC" } }), 40539),
        (bson!({ "$dateToString": {} }), 18628),
        (bson!({ "$dateAdd": { "unit": "day" } }), 5_166_402),
        (bson!({ "$dateFromParts": { "month": 1 } }), 40516),
        (
            bson!({ "$dateFromParts": { "year": 1, "isoWeek": 1 } }),
            40489,
        ),
        (
            bson!({ "$dateFromParts": { "isoWeekYear": 1, "month": 1 } }),
            40525,
        ),
    ]);
}

#[test]
fn good_forms_are_accepted_on_no_documents() {
    for expression in [
        bson!({ "$getField": { "$literal": "$a" } }),
        bson!({ "$year": { "$add": ["$d", 1] } }),
        bson!({ "$rand": [] }),
        bson!({ "$literal": { "$abs": [] } }),
        bson!({ "$let": { "vars": { "CURRENT": "$a" }, "in": "$$CURRENT" } }),
        bson!({ "$switch": { "branches": [{ "case": 1, "then": 2 }] } }),
        bson!({ "$round": 1 }),
    ] {
        assert_eq!(refused(&expression), [None; 3], "{expression}");
    }
}

#[test]
fn paths_with_empty_parts_are_refused() {
    check_refused([
        (bson!("$a..b"), 15998),
        (bson!("$.a"), 15998),
        (bson!("$a."), 40353),
        (bson!("$a.$b"), 16410),
        (bson!("$$ROOT."), 40353),
        (bson!("$$ROOT..a"), 15998),
        (bson!("$$"), 9),
        (bson!({ "$abs": "$a..b" }), 15998),
    ]);
}

#[test]
fn fields_of_objects_have_names_without_dots_and_dollar_signs() {
    let object = |expression: Bson| bson!([expression]);
    check_refused([
        (object(bson!({ "a.b": 1 })), 16412),
        (object(bson!({ "a": 1, "$b": 1 })), 16410),
        (object(bson!({ "a": { "": 1 } })), 15998),
        (object(bson!({ "a": 1, ".": 1 })), 16412),
        (bson!({ "$abs": { "a.b": 1 } }), 16412),
        (bson!({ "$mergeObjects": [{ "a": { "c.d": 1 } }] }), 16412),
        (bson!({ "$cond": [1, { "a.b": 1 }, 2] }), 16412),
        (
            bson!({ "$getField": { "field": "a", "input": { "a.b": 1 } } }),
            16412,
        ),
        (object(bson!({ "$ref": "c" })), 168),
    ]);
    for expression in [
        bson!({ "$literal": { "a.b": 1, "$c": 2 } }),
        bson!({ "$sortArray": { "input": [], "sortBy": { "a.b": 1 } } }),
    ] {
        assert_eq!(refused(&expression), [None; 3], "{expression}");
    }
}
