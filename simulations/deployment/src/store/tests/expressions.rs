//! Tests of expressions and of the stages that group documents.

use super::*;

pub(super) fn evaluated(expression: Bson) -> Answer<Bson> {
    let document = doc! {
        "_id": 1, "s": "Onion soup", "list": [3, 1, 2], "words": ["b", "a"],
        "d": DateTime::from_millis(1_700_000_000_123), "t": Timestamp { time: 7, increment: 2 },
        "inner": { "x": 1 },
    };
    let mut store = filled(vec![document]);
    let stage = doc! { "$replaceWith": { "v": expression } };
    let mut rows = aggregate(&mut store, &[stage])?;
    Ok(rows.remove(0).remove("v").unwrap_or(Bson::Undefined))
}

pub(super) fn check(table: impl IntoIterator<Item = (Bson, Bson)>) {
    for (expression, expected) in table {
        let value = evaluated(expression.clone());
        assert_eq!(value.expect("a value"), expected, "{expression}");
    }
}

pub(super) fn check_errors(table: impl IntoIterator<Item = (Bson, i32)>) {
    for (expression, code) in table {
        let error = evaluated(expression.clone()).expect_err("an error");
        assert_eq!(error.code, code, "{expression}: {error}");
    }
}

fn at(text: &str) -> Bson {
    Bson::DateTime(DateTime::parse_rfc3339_str(text).expect("a date"))
}

#[test]
fn parts_of_dates_follow_the_calendar_and_the_time_zone() {
    // 1_700_000_000_123 is 2023-11-14T22:13:20.123Z, a Tuesday.
    let shifted = |name: &str| {
        let mut operator = Document::new();
        operator.insert(name, doc! { "date": "$d", "timezone": "+02:00" });
        Bson::from(operator)
    };
    check([
        (bson!({ "$dayOfWeek": "$d" }), bson!(3)),
        (bson!({ "$isoDayOfWeek": "$d" }), bson!(2)),
        (bson!({ "$week": "$d" }), bson!(46)),
        (bson!({ "$isoWeek": "$d" }), bson!(46)),
        (
            bson!({ "$isoWeekYear": at("2021-01-03T00:00:00Z") }),
            bson!(2020_i64),
        ),
        (bson!({ "$isoWeek": at("2021-01-03T00:00:00Z") }), bson!(53)),
        (bson!({ "$dayOfYear": "$d" }), bson!(318)),
        (shifted("$hour"), bson!(0)),
        (shifted("$dayOfMonth"), bson!(15)),
        (bson!({ "$year": "$nothing" }), Bson::Null),
        (bson!({ "$tsSecond": "$t" }), bson!(7_i64)),
        (bson!({ "$tsIncrement": "$t" }), bson!(2_i64)),
        (
            bson!({ "$dateToParts": { "date": "$d", "iso8601": true, "timezone": "-0100" } }),
            bson!({
                "isoWeekYear": 2023, "isoWeek": 46, "isoDayOfWeek": 2, "hour": 21, "minute": 13,
                "second": 20, "millisecond": 123,
            }),
        ),
    ]);
    check_errors([
        (bson!({ "$year": "x" }), 16006),
        (
            bson!({ "$year": { "date": "$d", "timezone": "Europe/Paris" } }),
            40485,
        ),
        (
            bson!({ "$year": { "date": "$d", "timezone": "nowhere" } }),
            40485,
        ),
        (bson!({ "$year": { "date": "$d", "timezone": 1 } }), 40517),
    ]);
}

#[test]
fn dates_are_printed_and_parsed() {
    let print = |format: &str| bson!({ "$dateToString": { "date": "$d", "format": format } });
    let parse = |text: &str| bson!({ "$dateFromString": { "dateString": text } });
    let parse_by = |text: &str, format: &str| {
        let named = doc! { "dateString": text, "format": format };
        bson!({ "$dateFromString": named })
    };
    let day = at("2024-02-29T00:00:00Z");
    check([
        (
            bson!({ "$dateToString": { "date": "$d" } }),
            bson!("2023-11-14T22:13:20.123Z"),
        ),
        (
            bson!({ "$dateToString": {
                "date": "$d", "timezone": "+05:30", "format": "%H:%M %z %Z",
            } }),
            bson!("03:43 +0530 330"),
        ),
        (
            print("%d/%m/%Y %j %u %w %U %V %G %L %%"),
            bson!("14/11/2023 318 2 3 46 46 2023 123 %"),
        ),
        (print("%B %b"), bson!("November Nov")),
        (
            bson!({ "$dateToString": { "date": "$x", "onNull": "none" } }),
            bson!("none"),
        ),
        (parse("2024-02-29"), day.clone()),
        (parse("2024-02-29T01:00:00+01:00"), day.clone()),
        (
            parse("2024-02-29T00:00:00.5Z"),
            at("2024-02-29T00:00:00.5Z"),
        ),
        (parse_by("29.2.2024", "%d.%m.%Y"), day.clone()),
        (parse_by("Feb 29 2024", "%b %d %Y"), day.clone()),
        (
            bson!({ "$dateFromString": { "dateString": "2024-02-29", "timezone": "-01" } }),
            at("2024-02-29T01:00:00Z"),
        ),
        (
            bson!({ "$dateFromString": { "dateString": "no", "onError": "bad" } }),
            bson!("bad"),
        ),
        (
            bson!({ "$dateFromString": { "dateString": Bson::Null, "onNull": 0 } }),
            bson!(0),
        ),
    ]);
    check_errors([
        (print("%q"), 18536),
        (print("%"), 18535),
        (
            bson!({ "$dateToString": { "date": "$d", "more": 1 } }),
            18534,
        ),
        (parse("2024-02-30"), 241),
        (parse("soon"), 241),
        (bson!({ "$dateFromString": { "dateString": 5 } }), 241),
    ]);
}

#[test]
fn dates_are_computed_by_units() {
    let add = |text: &str, unit: &str, amount: i32| {
        let named = doc! { "startDate": at(text), "unit": unit, "amount": amount };
        bson!({ "$dateAdd": named })
    };
    let diff = |start: &str, end: &str, unit: &str| {
        let named = doc! { "startDate": at(start), "endDate": at(end), "unit": unit };
        bson!({ "$dateDiff": named })
    };
    let trunc = |unit: &str, size: i32| {
        let named = doc! { "date": "$d", "unit": unit, "binSize": size };
        bson!({ "$dateTrunc": named })
    };
    check([
        (
            add("2024-01-31T05:00:00Z", "month", 1),
            at("2024-02-29T05:00:00Z"),
        ),
        (
            add("2024-02-29T00:00:00Z", "year", -1),
            at("2023-02-28T00:00:00Z"),
        ),
        (
            add("2024-01-31T00:00:00Z", "quarter", 1),
            at("2024-04-30T00:00:00Z"),
        ),
        (
            add("2024-01-31T00:00:00Z", "hour", 25),
            at("2024-02-01T01:00:00Z"),
        ),
        (
            bson!({ "$dateSubtract": {
                "startDate": at("2024-03-01T00:00:00Z"), "unit": "week", "amount": 1,
            } }),
            at("2024-02-23T00:00:00Z"),
        ),
        (
            diff("2023-12-31T23:59:00Z", "2024-01-01T00:00:00Z", "year"),
            bson!(1_i64),
        ),
        (
            diff("2024-01-06T00:00:00Z", "2024-01-07T00:00:00Z", "week"),
            bson!(1_i64),
        ),
        (
            diff("2024-01-02T00:00:00Z", "2024-01-01T00:00:00Z", "hour"),
            bson!(-24_i64),
        ),
        (trunc("month", 1), at("2023-11-01T00:00:00Z")),
        (trunc("week", 1), at("2023-11-12T00:00:00Z")),
        (trunc("hour", 6), at("2023-11-14T18:00:00Z")),
        (trunc("quarter", 2), at("2023-07-01T00:00:00Z")),
        (
            bson!({ "$dateFromParts": { "year": 2024, "month": 14, "day": 0, "hour": -1 } }),
            at("2025-01-30T23:00:00Z"),
        ),
        (
            bson!({ "$dateFromParts": { "isoWeekYear": 2020, "isoWeek": 53, "isoDayOfWeek": 7 } }),
            at("2021-01-03T00:00:00Z"),
        ),
    ]);
}

#[test]
fn malformed_computations_of_dates_are_refused() {
    let add = |unit: &str, amount: i64| {
        let named = doc! { "startDate": "$d", "unit": unit, "amount": amount };
        bson!({ "$dateAdd": named })
    };
    check_errors([
        (add("moon", 1), 9),
        (add("year", i64::MAX), 5_976_500),
        (
            bson!({ "$dateAdd": { "startDate": "$d", "unit": "day" } }),
            5_166_402,
        ),
        (
            bson!({ "$dateAdd": { "startDate": 1, "unit": "day", "amount": 1 } }),
            5_166_403,
        ),
        (
            bson!({ "$dateTrunc": { "date": "$d", "unit": "day", "binSize": 0 } }),
            5_439_018,
        ),
        (bson!({ "$dateFromParts": { "month": 1 } }), 40516),
        (bson!({ "$dateFromParts": { "year": 0 } }), 40523),
    ]);
}

#[test]
fn strings_are_searched_trimmed_and_replaced() {
    let find = |name: &str, regex: &str| {
        let mut operator = Document::new();
        operator.insert(name, doc! { "input": "$s", "regex": regex });
        Bson::from(operator)
    };
    check([
        (
            find("$regexFind", "(o)(x)?n"),
            bson!({ "match": "on", "idx": 3, "captures": ["o", Bson::Null] }),
        ),
        (find("$regexFind", "z"), Bson::Null),
        (
            find("$regexFindAll", "o."),
            bson!([
                { "match": "on", "idx": 3, "captures": [] },
                { "match": "ou", "idx": 7, "captures": [] },
            ]),
        ),
        (bson!({ "$size": find("$regexFindAll", "") }), bson!(10)),
        (
            bson!({ "$regexMatch": { "input": "$s", "regex": "ONION", "options": "i" } }),
            bson!(true),
        ),
        (
            bson!({ "$replaceOne": { "input": "$s", "find": "o", "replacement": "0" } }),
            bson!("Oni0n soup"),
        ),
        (
            bson!({ "$replaceAll": { "input": "$s", "find": "o", "replacement": "0" } }),
            bson!("Oni0n s0up"),
        ),
        (bson!({ "$ltrim": { "input": "  a " } }), bson!("a ")),
        (
            bson!({ "$rtrim": { "input": "a--", "chars": "-" } }),
            bson!("a"),
        ),
        (
            bson!({ "$trim": { "input": "xyaxy", "chars": "xy" } }),
            bson!("a"),
        ),
        (bson!({ "$strcasecmp": ["abc", "ABD"] }), bson!(-1)),
        (bson!({ "$indexOfBytes": ["äb", "b"] }), bson!(2)),
        (bson!({ "$indexOfCP": ["äb", "b"] }), bson!(1)),
        (bson!({ "$indexOfCP": ["abab", "a", 1] }), bson!(2)),
        (bson!({ "$indexOfCP": ["abab", "b", 2, 3] }), bson!(-1)),
        (bson!({ "$indexOfBytes": [Bson::Null, "b"] }), Bson::Null),
        // The places can lie within a character.
        (bson!({ "$indexOfBytes": ["äb", "b", 1] }), bson!(2)),
        (bson!({ "$indexOfBytes": ["bä", "b", 0, 2] }), bson!(0)),
        (bson!({ "$indexOfBytes": ["ä", "", 1] }), bson!(1)),
        (bson!({ "$indexOfBytes": ["äb", "ä", 1] }), bson!(-1)),
    ]);
    check_errors([
        (bson!({ "$indexOfCP": [1, "b"] }), 40093),
        (bson!({ "$indexOfCP": ["a", "b", -1] }), 40097),
        (bson!({ "$trim": { "input": 1 } }), 50699),
        (
            bson!({ "$replaceOne": { "input": 1, "find": "a", "replacement": "b" } }),
            51746,
        ),
        (bson!({ "$toHashedIndexKey": 1 }), 168),
    ]);
}

#[test]
fn arrays_are_zipped_sorted_and_compared_as_sets() {
    check([
        (
            bson!({ "$zip": { "inputs": ["$list", "$words"] } }),
            bson!([[3, "b"], [1, "a"]]),
        ),
        (
            bson!({ "$zip": {
                "inputs": ["$list", "$words"], "useLongestLength": true, "defaults": [0, "z"],
            } }),
            bson!([[3, "b"], [1, "a"], [2, "z"]]),
        ),
        (
            bson!({ "$setEquals": ["$list", [1, 2, 3, 3.0]] }),
            bson!(true),
        ),
        (bson!({ "$setIsSubset": [[1, 2], "$list"] }), bson!(true)),
        (bson!({ "$allElementsTrue": ["$list"] }), bson!(true)),
        (bson!({ "$anyElementTrue": [[0, false]] }), bson!(false)),
        (
            bson!({ "$sortArray": { "input": "$list", "sortBy": -1 } }),
            bson!([3, 2, 1]),
        ),
        (
            bson!({ "$sortArray": { "input": [{ "a": 2 }, { "a": 1 }], "sortBy": { "a": 1 } } }),
            bson!([{ "a": 1 }, { "a": 2 }]),
        ),
        (
            bson!({ "$firstN": { "input": "$list", "n": 2 } }),
            bson!([3, 1]),
        ),
        (
            bson!({ "$lastN": { "input": "$list", "n": 2 } }),
            bson!([1, 2]),
        ),
        (
            bson!({ "$minN": { "input": "$list", "n": 2 } }),
            bson!([1, 2]),
        ),
        (
            bson!({ "$maxN": { "input": "$list", "n": 2 } }),
            bson!([3, 2]),
        ),
        (bson!({ "$binarySize": "$s" }), bson!(10)),
        (bson!({ "$bsonSize": "$inner" }), bson!(12)),
    ]);
    check_errors([
        (bson!({ "$zip": { "inputs": ["$s"] } }), 34468),
        (bson!({ "$setEquals": ["$list", 1] }), 5_887_502),
        (
            bson!({ "$firstN": { "input": "$list", "n": 0 } }),
            5_787_908,
        ),
        (
            bson!({ "$sortArray": { "input": "$s", "sortBy": 1 } }),
            2_942_504,
        ),
    ]);
}

#[test]
fn numbers_have_logarithms_and_angles() {
    check([
        (bson!({ "$log": [8, 2] }), bson!(3.0)),
        (bson!({ "$log10": 100 }), bson!(2.0)),
        (bson!({ "$sin": 0 }), bson!(0.0)),
        (bson!({ "$atan2": [0, 1] }), bson!(0.0)),
        (bson!({ "$cosh": 0 }), bson!(1.0)),
        (
            bson!({ "$degreesToRadians": 180 }),
            bson!(std::f64::consts::PI),
        ),
        (bson!({ "$stdDevPop": [[2, 4]] }), bson!(1.0)),
        (bson!({ "$stdDevSamp": [1] }), Bson::Null),
    ]);
    check_errors([
        (bson!({ "$log10": 0 }), 28761),
        (bson!({ "$log": [1, 1] }), 28759),
        (bson!({ "$acos": 2 }), 50989),
    ]);
}

#[test]
fn buckets_group_documents_by_boundaries_or_evenly() {
    let mut store = filled((0..6).map(|n| doc! { "_id": n, "n": n }).collect());
    let stage = doc! { "$bucket": {
        "groupBy": "$n", "boundaries": [0, 2, 4], "default": "more",
        "output": { "all": { "$push": "$n" } },
    } };
    let expected = [
        doc! { "_id": 0, "all": [0, 1] },
        doc! { "_id": 2, "all": [2, 3] },
        doc! { "_id": "more", "all": [4, 5] },
    ];
    assert_eq!(aggregate(&mut store, &[stage]).expect("buckets"), expected);
    let stage = doc! { "$bucketAuto": { "groupBy": "$n", "buckets": 2 } };
    let expected = [
        doc! { "_id": { "min": 0, "max": 3 }, "count": 3 },
        doc! { "_id": { "min": 3, "max": 5 }, "count": 3 },
    ];
    assert_eq!(aggregate(&mut store, &[stage]).expect("buckets"), expected);
    for (stage, code) in [
        (doc! { "$bucket": { "groupBy": "$n" } }, 40198),
        (
            doc! { "$bucket": { "groupBy": "$n", "boundaries": [1] } },
            40192,
        ),
        (
            doc! { "$bucket": { "groupBy": "$n", "boundaries": [2, 1] } },
            40194,
        ),
        (
            doc! { "$bucket": { "groupBy": "$n", "boundaries": [0, 2] } },
            40066,
        ),
        (
            doc! { "$bucketAuto": { "groupBy": "$n", "buckets": 0 } },
            40243,
        ),
        (doc! { "$graphLookup": {} }, 40324),
    ] {
        let error = aggregate(&mut store, std::slice::from_ref(&stage)).expect_err("an error");
        assert_eq!(error.code, code, "{stage}");
    }
}

#[test]
fn groups_have_the_first_and_the_least_values() {
    let mut store = filled(
        (0..4)
            .map(|n| doc! { "_id": n, "n": (n * 3) % 4 })
            .collect(),
    );
    let by = doc! { "n": 1 };
    let stage = doc! { "$group": {
        "_id": Bson::Null,
        "first": { "$firstN": { "input": "$n", "n": 2 } },
        "least": { "$minN": { "input": "$n", "n": 2 } },
        "top": { "$top": { "sortBy": by.clone(), "output": "$_id" } },
        "bottom": { "$bottomN": { "n": 2, "sortBy": by, "output": "$_id" } },
        "spread": { "$stdDevPop": "$n" },
    } };
    let rows = aggregate(&mut store, &[stage]).expect("a group");
    let expected = doc! {
        "_id": Bson::Null, "first": [0, 3], "least": [0, 1], "top": 0, "bottom": [2, 1],
        "spread": 1.25_f64.sqrt(),
    };
    assert_eq!(rows, [expected]);
}

#[test]
fn documents_are_redacted_by_a_condition() {
    let document =
        doc! { "_id": 1, "l": 1, "a": { "l": 5, "x": 1 }, "b": [{ "l": 2 }, { "l": 9 }] };
    let mut store = filled(vec![document]);
    let stage = doc! { "$redact": { "$cond": [{ "$gt": ["$l", 4] }, "$$PRUNE", "$$DESCEND"] } };
    let rows = aggregate(&mut store, &[stage]).expect("documents");
    assert_eq!(rows, [doc! { "_id": 1, "l": 1, "b": [{ "l": 2 }] }]);
    let error = aggregate(&mut store, &[doc! { "$redact": 1 }]).expect_err("an error");
    assert_eq!(error.code, 17053);
}

#[test]
fn dates_are_converted_to_texts_and_back_by_one_rule() {
    let date = |millis| Bson::DateTime(DateTime::from_millis(millis));
    check([
        (
            bson!({ "$toString": date(0) }),
            bson!("1970-01-01T00:00:00.000Z"),
        ),
        (
            bson!({ "$toString": "$d" }),
            bson!("2023-11-14T22:13:20.123Z"),
        ),
        (bson!({ "$toDate": "2017-02-08" }), date(1_486_512_000_000)),
        (
            bson!({ "$toDate": "2017-02-08T12:10:40.787Z" }),
            date(1_486_555_840_787),
        ),
    ]);
    check_errors([(bson!({ "$toDate": "noon" }), 241)]);
}

#[test]
fn redact_moves_the_current_document_and_not_the_root() {
    let mut store = filled(vec![doc! { "_id": 1, "public": true, "sub": { "x": 1 } }]);
    let condition = bson!({ "$cond": ["$$ROOT.public", "$$DESCEND", "$$PRUNE"] });
    let found = aggregate(&mut store, &[doc! { "$redact": condition }]).expect("documents");
    assert_eq!(
        found,
        [doc! { "_id": 1, "public": true, "sub": { "x": 1 } }]
    );
    let condition = bson!({ "$cond": ["$public", "$$DESCEND", "$$PRUNE"] });
    let found = aggregate(&mut store, &[doc! { "$redact": condition }]).expect("documents");
    assert_eq!(found, [doc! { "_id": 1, "public": true }]);
}
