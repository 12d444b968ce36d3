//! Tests of the operands that expressions accept and refuse.

use super::expressions::{check, check_errors};
use super::*;

#[test]
fn a_filter_stops_at_its_limit() {
    let filter = |limit: Bson| {
        let named = doc! { "input": "$list", "cond": { "$gt": ["$$this", 0] }, "limit": limit };
        bson!({ "$filter": named })
    };
    check([
        (filter(bson!(1)), bson!([3])),
        (filter(bson!(2.0)), bson!([3, 1])),
        (filter(Bson::Null), bson!([3, 1, 2])),
        (filter(bson!("$nothing")), bson!([3, 1, 2])),
    ]);
    check_errors([
        (filter(bson!(0)), 327_392),
        (filter(bson!(1.5)), 327_391),
        (filter(bson!("x")), 327_391),
        (bson!({ "$map": { "input": "$s", "in": 1 } }), 16883),
        (
            bson!({ "$reduce": { "input": "$s", "initialValue": 0, "in": 1 } }),
            40080,
        ),
    ]);
}

#[test]
fn a_missing_variable_stays_missing() {
    check([
        (
            bson!({ "$let": {
                "vars": { "x": "$nothing" }, "in": { "$eq": ["$$x", Bson::Null] },
            } }),
            bson!(false),
        ),
        (
            bson!({ "$let": { "vars": { "x": "$nothing" }, "in": { "$type": "$$x.y" } } }),
            bson!("missing"),
        ),
        (
            bson!({ "$getField": { "field": "a", "input": Bson::Null } }),
            Bson::Null,
        ),
        (
            bson!({ "$type": { "$getField": { "field": "a", "input": 1 } } }),
            bson!("missing"),
        ),
        (bson!({ "$in": [Bson::Null, [Bson::Null]] }), bson!(true)),
        (bson!({ "$in": ["$nothing", [Bson::Null]] }), bson!(false)),
    ]);
    check_errors([(bson!({ "$getField": "$_id" }), 3_041_704)]);
}

#[test]
fn documents_and_arrays_of_pairs_are_converted_strictly() {
    let pairs = |pairs: Bson| bson!({ "$arrayToObject": { "$literal": pairs } });
    check([
        (
            pairs(bson!([["a", 1], ["b", 2]])),
            bson!({ "a": 1, "b": 2 }),
        ),
        (pairs(bson!([{ "k": "a", "v": 1 }])), bson!({ "a": 1 })),
        (pairs(bson!([])), bson!({})),
        (bson!({ "$arrayToObject": "$nothing" }), Bson::Null),
        (
            bson!({ "$objectToArray": "$inner" }),
            bson!([{ "k": "x", "v": 1 }]),
        ),
        (bson!({ "$objectToArray": Bson::Null }), Bson::Null),
    ]);
    check_errors([
        (pairs(bson!(1)), 40386),
        (pairs(bson!([{ "k": "a", "v": 1 }, 1])), 40391),
        (pairs(bson!([{ "k": "a" }])), 40392),
        (pairs(bson!([{ "k": "a", "w": 1 }])), 40393),
        (pairs(bson!([{ "k": 1, "v": 1 }])), 40394),
        (pairs(bson!([[1, 1]])), 40395),
        (pairs(bson!([["a", 1], 1])), 40396),
        (pairs(bson!([["a"]])), 40397),
        (pairs(bson!([1])), 40398),
        (pairs(bson!([["a\0", 1]])), 4_940_400),
        (bson!({ "$objectToArray": 1 }), 40390),
        (bson!({ "$mergeObjects": [1] }), 40400),
    ]);
}

#[test]
fn operators_on_strings_refuse_other_types() {
    check([
        (bson!({ "$split": [Bson::Null, 1] }), Bson::Null),
        (bson!({ "$substrBytes": ["abc", 1, -1] }), bson!("bc")),
        (bson!({ "$substrBytes": ["abc", 9, 1] }), bson!("")),
        (bson!({ "$substrCP": ["\u{e4}bc", 1, 9] }), bson!("bc")),
        (
            bson!({ "$trim": { "input": "\u{3000}a\u{2028}" } }),
            bson!("\u{3000}a\u{2028}"),
        ),
        (
            bson!({ "$trim": { "input": "\u{a0}\t a\0\u{2003}" } }),
            bson!("a"),
        ),
    ]);
    check_errors([
        (bson!({ "$strLenCP": 1 }), 34471),
        (bson!({ "$strLenCP": Bson::Null }), 34471),
        (bson!({ "$strLenBytes": "$nothing" }), 34473),
        (bson!({ "$split": [1, ","] }), 40085),
        (bson!({ "$split": ["a", 1] }), 40086),
        (bson!({ "$split": ["a", ""] }), 40087),
        (bson!({ "$substrCP": ["abc", "x", 1] }), 34450),
        (bson!({ "$substrCP": ["abc", 0.5, 1] }), 34451),
        (bson!({ "$substrCP": ["abc", 0, "x"] }), 34452),
        (bson!({ "$substrCP": ["abc", 0, 0.5] }), 34453),
        (bson!({ "$substrCP": ["abc", 0, -1] }), 34454),
        (bson!({ "$substrCP": ["abc", -1, 1] }), 34455),
        (bson!({ "$substr": ["abc", "x", 1] }), 16034),
        (bson!({ "$substr": ["abc", 0, "x"] }), 16035),
        (bson!({ "$substrBytes": ["abc", -1, 1] }), 50752),
        (bson!({ "$substrBytes": ["\u{e4}", 1, 1] }), 28656),
        (bson!({ "$substrBytes": ["\u{e4}", 0, 1] }), 28657),
    ]);
}

#[test]
fn operators_on_arrays_refuse_other_types() {
    check([
        (bson!({ "$arrayElemAt": ["$list", Bson::Null] }), Bson::Null),
        (bson!({ "$slice": ["$list", "$nothing"] }), Bson::Null),
        (bson!({ "$slice": ["$list", 1, Bson::Null] }), Bson::Null),
        (bson!({ "$slice": ["$list", -2, 1] }), bson!([1])),
        (bson!({ "$indexOfArray": ["$list", 1, 1] }), bson!(1)),
        (bson!({ "$indexOfArray": ["$list", 1, 2] }), bson!(-1)),
        (bson!({ "$indexOfArray": ["$list", 2, 0, 2] }), bson!(-1)),
        (
            bson!({ "$indexOfArray": [[Bson::Null], "$nothing"] }),
            bson!(-1),
        ),
        (bson!({ "$isNumber": [1] }), bson!(true)),
        (bson!({ "$setUnion": [Bson::Null, 1] }), Bson::Null),
        (bson!({ "$setDifference": [1, Bson::Null] }), Bson::Null),
        (bson!({ "$range": [3, 0, -2] }), bson!([3, 1])),
    ]);
    check_errors([
        (bson!({ "$arrayElemAt": ["$list", "x"] }), 28690),
        (bson!({ "$arrayElemAt": ["$list", 0.5] }), 28691),
        (bson!({ "$arrayElemAt": ["$s", 0] }), 28689),
        (bson!({ "$reverseArray": "$s" }), 34435),
        (bson!({ "$slice": ["$s", 1] }), 28724),
        (bson!({ "$slice": ["$list", "x"] }), 28725),
        (bson!({ "$slice": ["$list", 0.5] }), 28726),
        (bson!({ "$slice": ["$list", 1, "x"] }), 28727),
        (bson!({ "$slice": ["$list", 1, 0.5] }), 28728),
        (bson!({ "$slice": ["$list", 1, 0] }), 28729),
        (bson!({ "$range": ["x", 1] }), 34443),
        (bson!({ "$range": [0.5, 1] }), 34444),
        (bson!({ "$range": [0, Bson::Null] }), 34445),
        (bson!({ "$range": [0, 1_i64 << 40] }), 34446),
        (bson!({ "$range": [0, 1, "x"] }), 34447),
        (bson!({ "$range": [0, 1, 0.5] }), 34448),
        (bson!({ "$range": [0, 1, 0] }), 34449),
        (bson!({ "$indexOfArray": ["$s", 1] }), 40090),
        (bson!({ "$indexOfArray": ["$list", 1, "x"] }), 40096),
        (bson!({ "$indexOfArray": ["$list", 1, -1] }), 40097),
        (bson!({ "$setUnion": [1, Bson::Null] }), 17043),
        (bson!({ "$setIntersection": [[1], 1] }), 17047),
        (bson!({ "$setDifference": [1, [1]] }), 17048),
        (bson!({ "$setDifference": [[1], 1] }), 17049),
        (bson!({ "$setIsSubset": [1, [1]] }), 17046),
        (bson!({ "$setIsSubset": [[1], Bson::Null] }), 17042),
    ]);
}
