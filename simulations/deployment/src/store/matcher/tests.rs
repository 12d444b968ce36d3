use bson::{Document, bson, cstr, doc};

use super::*;

fn matches(filter: &Document, document: &Document) -> bool {
    Matcher::new(filter, Release::default())
        .expect("a good filter")
        .matches(document, &EvaluationContext::default())
        .expect("an answer")
}

#[test]
fn values_and_arrays_match_as_the_server_does() {
    check_table([
        (doc! { "a": 1 }, doc! { "a": 1.0 }, true),
        (doc! { "a": 1 }, doc! { "a": [3, 1] }, true),
        (doc! { "a": [3, 1] }, doc! { "a": [3, 1] }, true),
        (doc! { "a": [3, 1] }, doc! { "a": [[3, 1]] }, true),
        (
            doc! { "a": { "b": 1 } },
            doc! { "a": { "b": 1, "c": 2 } },
            false,
        ),
        (
            doc! { "a.b": 1 },
            doc! { "a": [{ "b": 2 }, { "b": 1 }] },
            true,
        ),
        (doc! { "a.0": 7 }, doc! { "a": [7, 8] }, true),
        (doc! { "a.1.b": 7 }, doc! { "a": [{}, { "b": 7 }] }, true),
        (doc! { "a": null }, doc! {}, true),
        (doc! { "a": null }, doc! { "a": [null] }, true),
        (doc! { "a": null }, doc! { "a": 1 }, false),
        (doc! { "a.b": null }, doc! { "a": 1 }, true),
        (doc! { "a.b": null }, doc! { "a": [1] }, false),
        (doc! { "a": { "$ne": null } }, doc! {}, false),
        (doc! { "a": { "$ne": 1 } }, doc! { "a": [1, 2] }, false),
        (
            doc! { "a": { "$gt": 1, "$lt": 3 } },
            doc! { "a": [0, 4] },
            true,
        ),
        (doc! { "a": { "$gt": 1 } }, doc! { "a": "x" }, false),
        (doc! { "a": { "$gte": null } }, doc! {}, true),
        (doc! { "a": { "$lt": f64::NAN } }, doc! { "a": 1 }, false),
        (doc! { "a": { "$in": [1, null] } }, doc! {}, true),
        (
            doc! { "a": { "$in": [regex("^x", "")] } },
            doc! { "a": "xy" },
            true,
        ),
        (doc! { "a": { "$nin": [1] } }, doc! { "a": [1] }, false),
        (
            doc! { "$or": [{ "a": 1 }, { "b": 1 }] },
            doc! { "b": 1 },
            true,
        ),
        (
            doc! { "$nor": [{ "a": 1 }, { "b": 1 }] },
            doc! { "b": 1 },
            false,
        ),
        (doc! { "a": { "$not": { "$gt": 1 } } }, doc! {}, true),
        (doc! { "a": { "$exists": true } }, doc! { "a": null }, true),
        (
            doc! { "a": { "$exists": false } },
            doc! { "a": null },
            false,
        ),
    ]);
}

#[test]
fn operators_match_as_the_server_does() {
    check_table([
        (
            doc! { "a": { "$type": "number" } },
            doc! { "a": 1_i64 },
            true,
        ),
        (doc! { "a": { "$type": 4 } }, doc! { "a": [1] }, true),
        (
            doc! { "a": { "$regex": "^B", "$options": "i" } },
            doc! { "a": "bc" },
            true,
        ),
        (doc! { "a": regex("c$", "") }, doc! { "a": ["bc"] }, true),
        (doc! { "a": { "$mod": [4, 1] } }, doc! { "a": 9.7 }, true),
        (
            doc! { "a": { "$all": [1, 2] } },
            doc! { "a": [2, 3, 1] },
            true,
        ),
        (
            doc! { "a": { "$all": [1, 4] } },
            doc! { "a": [2, 3, 1] },
            false,
        ),
        (doc! { "a": { "$all": [] } }, doc! { "a": [] }, false),
        (
            doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 3 } } },
            doc! { "a": [0, 4] },
            false,
        ),
        (
            doc! { "a": { "$elemMatch": { "b": 1, "c": 2 } } },
            doc! { "a": [{ "b": 1 }, { "b": 1, "c": 2 }] },
            true,
        ),
        (doc! { "a": { "$size": 2 } }, doc! { "a": [1, 2] }, true),
        (doc! { "a": { "$size": 1 } }, doc! { "a": 1 }, false),
        (
            doc! { "a": { "$bitsAllSet": [1, 3] } },
            doc! { "a": 10 },
            true,
        ),
        (
            doc! { "a": { "$bitsAnyClear": 2 } },
            doc! { "a": 10 },
            false,
        ),
        (
            doc! { "$expr": { "$gt": ["$a", "$b"] } },
            doc! { "a": 2, "b": 1 },
            true,
        ),
        (doc! { "$comment": "why", "a": 1 }, doc! { "a": 1 }, true),
    ]);
}

#[test]
fn an_element_that_is_named_by_its_index_is_not_searched() {
    let nested = || doc! { "a": [[3, 4]] };
    let field = || doc! { "a": [{ "0": 9 }] };
    check_table([
        (doc! { "a.0": 3 }, nested(), false),
        (doc! { "a.0": { "$gt": 1 } }, nested(), false),
        (doc! { "a.0": { "$in": [3] } }, nested(), false),
        (doc! { "a.0": { "$ne": 3 } }, nested(), true),
        (doc! { "a.0": [3, 4] }, nested(), true),
        (doc! { "a.0": { "$size": 2 } }, nested(), true),
        (doc! { "a.0": { "$type": "array" } }, nested(), true),
        (doc! { "a.0": { "$exists": true } }, nested(), true),
        (
            doc! { "a.0": { "$elemMatch": { "$gt": 3 } } },
            nested(),
            true,
        ),
        (doc! { "a.0.0": 3 }, nested(), true),
        (doc! { "a.0": { "$all": [3] } }, nested(), false),
        (doc! { "a.0": 9 }, field(), true),
        (doc! { "a.0": { "0": 9 } }, field(), true),
        (doc! { "a.0.b": 1 }, doc! { "a": [[{ "b": 1 }]] }, true),
        (doc! { "a.0": 1 }, doc! { "a": { "0": [1, 2] } }, true),
        (doc! { "a.0": null }, doc! { "a": [1] }, false),
        (doc! { "a.0.b": null }, doc! { "a": [1] }, false),
        (doc! { "a.0.b": null }, doc! { "a": [{ "c": 1 }] }, true),
    ]);
}

#[test]
fn an_element_match_does_not_search_an_element() {
    let matched = |condition: Document| doc! { "a": { "$elemMatch": condition } };
    let nested = || doc! { "a": [[5]] };
    check_table([
        (matched(doc! { "$gt": 1 }), nested(), false),
        (matched(doc! { "$eq": 5 }), nested(), false),
        (matched(doc! { "$in": [5] }), nested(), false),
        (matched(doc! { "$all": [5] }), nested(), false),
        (matched(doc! { "$all": [5] }), doc! { "a": [5] }, true),
        (matched(doc! { "$not": { "$gt": 1 } }), nested(), true),
        (matched(doc! { "$type": "array" }), nested(), true),
        (matched(doc! { "$size": 1 }), nested(), true),
        (matched(doc! { "$elemMatch": { "$gt": 1 } }), nested(), true),
        (matched(doc! {}), nested(), true),
        (matched(doc! {}), doc! { "a": [1] }, false),
        (matched(doc! { "0": 5 }), nested(), true),
        (
            matched(doc! { "b": 5 }),
            doc! { "a": [[{ "b": 5 }]] },
            false,
        ),
    ]);
}

fn regex(pattern: &str, options: &str) -> Bson {
    Bson::RegularExpression(bson::Regex {
        pattern: pattern.to_owned().try_into().expect("no nul"),
        options: options.to_owned().try_into().expect("no nul"),
    })
}

fn check_table(table: impl IntoIterator<Item = (Document, Document, bool)>) {
    for (filter, document, expected) in table {
        let found = matches(&filter, &document);
        assert_eq!(found, expected, "{filter} on {document}");
    }
}

#[test]
fn malformed_filters_are_refused_with_the_servers_messages() {
    let table = [
        (doc! { "a": { "$foo": 1 } }, 2, "unknown operator: $foo"),
        (
            doc! { "$and": [] },
            2,
            "$and/$or/$nor must be a nonempty array",
        ),
        (doc! { "a": { "$in": 1 } }, 2, "$in needs an array"),
        (doc! { "a": { "$mod": [0, 1] } }, 2, "divisor cannot be 0"),
        (
            doc! { "a": { "$options": "i" } },
            2,
            "$options needs a $regex",
        ),
        (
            doc! { "a": { "$type": "foo" } },
            2,
            "Unknown type name alias: foo",
        ),
        (
            doc! { "a": { "$elemMatch": { "b": 1, "$expr": true } } },
            2,
            "$expr can only be applied to the top-level document",
        ),
        (
            doc! { "a": { "$elemMatch": { "$or": [{ "$where": "true" }] } } },
            2,
            "$where can only be applied to the top-level document",
        ),
        (
            doc! { "a": { "$all": [{ "$elemMatch": { "b": 1 } }, 5] } },
            2,
            "$all/$elemMatch has to be consistent",
        ),
        (
            doc! { "a": { "$all": [5, { "$elemMatch": { "b": 1 } }] } },
            2,
            "no $ expressions in $all",
        ),
    ];
    for (filter, code, message) in table {
        let error = Matcher::new(&filter, Release::default()).expect_err("a bad filter");
        assert_eq!((error.code, error.message.as_str()), (code, message));
    }
}

#[test]
fn malformed_schemas_are_refused() {
    for (schema, code) in [
        (doc! { "type": "string", "bsonType": "string" }, 9),
        (doc! { "type": [] }, 9),
        (doc! { "bsonType": [] }, 9),
        (doc! { "enum": [] }, 9),
        (doc! { "enum": [1, 1] }, 9),
        (doc! { "enum": [1, "1"] }, 0),
        (doc! { "required": [] }, 9),
        (doc! { "required": ["a", "a"] }, 9),
        (doc! { "required": [1] }, 14),
        (doc! { "multipleOf": 0 }, 9),
        (doc! { "multipleOf": -2 }, 9),
        (doc! { "exclusiveMaximum": true }, 9),
        (doc! { "exclusiveMinimum": true, "maximum": 5 }, 9),
        (doc! { "exclusiveMinimum": true, "minimum": 5 }, 0),
        (doc! { "allOf": [] }, 2),
        (doc! { "items": [] }, 0),
    ] {
        let filter = doc! { "$jsonSchema": { "properties": { "a": schema } } };
        let error = Matcher::new(&filter, Release::default()).err();
        assert_eq!(error.map_or(0, |error| error.code), code, "{filter}");
    }
}

#[test]
fn elements_match_filters_that_begin_with_an_operator() {
    let schema = doc! { "required": ["b"] };
    check_table([
        (
            doc! { "a": { "$elemMatch": { "$jsonSchema": schema } } },
            doc! { "a": [{ "b": 1 }] },
            true,
        ),
        (
            doc! { "a": { "$elemMatch": { "$comment": "why", "b": 2 } } },
            doc! { "a": [{ "b": 1 }] },
            false,
        ),
    ]);
}

#[test]
fn position_returns_the_index_of_the_matching_element() {
    let table = [
        (doc! { "a": 2 }, doc! { "a": [1, 2] }, Some(1)),
        (
            doc! { "a.b": { "$gt": 4 } },
            doc! { "a": [{ "b": 1 }, { "b": 5 }] },
            Some(1),
        ),
        (
            doc! { "a": { "$elemMatch": { "b": 5 } } },
            doc! { "a": [{ "b": 5 }] },
            Some(0),
        ),
        (doc! { "x": 1 }, doc! { "x": 1, "a": [1] }, None),
        (
            doc! { "a": { "$elemMatch": { "0": 60 } } },
            doc! { "a": [[40, 50], [60, 20]] },
            Some(1),
        ),
        (doc! { "a": { "$ne": 5 } }, doc! { "a": [1, 2] }, None),
        (
            doc! { "a": { "$not": { "$elemMatch": { "$gt": 5 } } } },
            doc! { "a": [1] },
            None,
        ),
        (
            doc! { "a": { "$elemMatch": { "$ne": 1 } } },
            doc! { "a": [1, 2] },
            Some(1),
        ),
        (
            doc! { "$or": [{ "a": 1 }, { "a": 2 }] },
            doc! { "a": [2, 1] },
            Some(1),
        ),
    ];
    for (filter, document, expected) in table {
        assert_eq!(
            Matcher::new(&filter, Release::default())
                .expect("a filter")
                .position(&document, &EvaluationContext::default()),
            expected
        );
    }
}

#[test]
fn the_patterns_of_a_filter_share_one_memory_limit() {
    let pattern = || bson!({ "$regex": "(x{1,30}){1,30}" });
    assert!(Matcher::new(&doc! { "a": pattern() }, Release::default()).is_ok());
    let many: Vec<Bson> = (0..300).map(|_| bson!({ "a": pattern() })).collect();
    let error =
        Matcher::new(&doc! { "$or": many }, Release::default()).expect_err("too much memory");
    assert_eq!(error.code, 51091);
    let small: Vec<Bson> = (0..1000)
        .map(|n| bson!({ "a": { "$regex": format!("^x{n}") } }))
        .collect();
    assert!(Matcher::new(&doc! { "$or": small }, Release::default()).is_ok());
}

#[test]
fn the_patterns_of_a_filter_share_one_budget_of_steps() {
    let pattern = bson::Regex {
        pattern: r"\R".repeat(8_000).try_into().expect("no zero byte"),
        options: cstr!("").into(),
    };
    let many = vec![Bson::from(pattern); 3_000];
    let filter = doc! { "a": { "$in": many } };
    let error = Matcher::new(&filter, Release::default()).expect_err("too many steps");
    assert_eq!(error.code, 50);
}

#[test]
fn a_stored_filter_keeps_the_patterns_of_the_release_that_stored_it() {
    let filter = doc! { "a": { "$regex": r"^[\w-.]+$" } };
    assert!(Matcher::new(&filter, Release([6, 0, 20])).is_ok());
    assert!(Matcher::new(&filter, Release([6, 1, 0])).is_err());
    assert!(Matcher::clauses(&filter).is_ok());
}
