//! The operands of stages that a server refuses.

use super::*;

fn refused(stages: &[Document]) -> i32 {
    let mut store = filled(vec![doc! { "_id": 1, "v": 1 }]);
    let error = aggregate(&mut store, stages).expect_err("refused");
    error.code
}

fn check(stages: impl IntoIterator<Item = (Document, i32)>) {
    for (stage, code) in stages {
        assert_eq!(refused(std::slice::from_ref(&stage)), code, "{stage}");
    }
}

#[test]
fn malformed_amounts_are_refused() {
    check([
        (doc! { "$limit": 0 }, 15958),
        (doc! { "$limit": -1 }, 5_107_201),
        (doc! { "$limit": 2.7 }, 5_107_201),
        (doc! { "$limit": true }, 5_107_201),
        (doc! { "$limit": 1e30 }, 5_107_201),
        (doc! { "$skip": "one" }, 5_107_200),
        (doc! { "$skip": -1 }, 5_107_200),
        (doc! { "$sample": 1 }, 28745),
        (doc! { "$sample": { "size": true } }, 28746),
        (doc! { "$sample": { "size": -1 } }, 28747),
        (doc! { "$sample": { "a": 1 } }, 28748),
        (doc! { "$sample": {} }, 28749),
        (doc! { "$count": 5 }, 40156),
        (doc! { "$count": "" }, 40157),
        (doc! { "$count": "$n" }, 40158),
        (doc! { "$count": "a.b" }, 40160),
        (doc! { "$count": "_id" }, 15948),
    ]);
    let mut store = filled(vec![doc! { "_id": 1 }]);
    for (operand, text) in [
        (bson!("one"), "Expected a number in: $limit: \"one\""),
        (bson!(-1), "Expected a non-negative number in: $limit: -1"),
        (bson!(1.5), "Expected an integer: $limit: 1.5"),
        (
            bson!(f64::INFINITY),
            "Cannot represent as a 64-bit integer: $limit: inf",
        ),
    ] {
        let error = aggregate(&mut store, &[doc! { "$limit": operand }]).expect_err("refused");
        let expected = format!("invalid argument to $limit stage: {text}");
        assert_eq!(error.message, expected);
    }
    let fraction = [doc! { "$sample": { "size": 0.7 } }];
    assert_eq!(aggregate(&mut store, &fraction), Ok(vec![]));
}

#[test]
fn inner_pipelines_and_merged_values_must_be_documents() {
    let group = doc! { "_id": null, "m": { "$mergeObjects": "$v" } };
    check([
        (
            doc! { "$lookup": { "from": "x", "as": "y", "pipeline": [5] } },
            14,
        ),
        (
            doc! { "$unionWith": { "coll": "x", "pipeline": [5, { "$match": {} }] } },
            14,
        ),
        (doc! { "$group": group }, 40400),
    ]);
}

#[test]
fn paths_do_not_lead_into_arrays_within_arrays() {
    let mut store = filled(vec![
        doc! { "_id": 1, "a": [[{ "b": 1 }], { "b": 2 }], "l": [[1, 2], [3]] },
    ]);
    let below = [doc! { "$project": { "_id": 0, "x": "$a.b" } }];
    assert_eq!(aggregate(&mut store, &below), Ok(vec![doc! { "x": [2] }]));
    let unwind = [doc! { "$unwind": "$l.0" }];
    assert_eq!(aggregate(&mut store, &unwind), Ok(vec![]));
    let given = doc! { "_id": 1, "l": [{ "x": 1 }], "e": { "l": [] } };
    let mut store = filled(vec![given.clone()]);
    let mut kept = |path: &str| {
        let unwind = doc! { "path": path, "preserveNullAndEmptyArrays": true };
        aggregate(&mut store, &[doc! { "$unwind": unwind }])
    };
    assert_eq!(kept("$l.x"), Ok(vec![given]));
    let rest = doc! { "_id": 1, "l": [{ "x": 1 }], "e": {} };
    assert_eq!(kept("$e.l"), Ok(vec![rest]));
}

#[test]
fn a_joined_regular_expression_equals_itself_only() {
    let pattern = bson::Regex {
        pattern: "^a".try_into().expect("text"),
        options: "".try_into().expect("text"),
    };
    let mut store = filled(vec![
        doc! { "_id": 1, "l": pattern.clone() },
        doc! { "_id": 2, "v": "abc" },
        doc! { "_id": 3, "v": pattern },
    ]);
    let lookup = doc! { "from": "c", "localField": "l", "foreignField": "v", "as": "found" };
    let stages = [
        doc! { "$match": { "_id": 1 } },
        doc! { "$lookup": lookup },
        doc! { "$project": { "ids": "$found._id" } },
    ];
    let found = aggregate(&mut store, &stages).expect("documents");
    assert_eq!(found, [doc! { "_id": 1, "ids": [3] }]);
}

#[test]
fn malformed_unwinds_and_groups_are_refused() {
    let unwind = |option: &str, value: Bson| doc! { "$unwind": { "path": "$v", option: value } };
    check([
        (doc! { "$unwind": { "path": 5 } }, 28808),
        (doc! { "$unwind": {} }, 28812),
        (doc! { "$unwind": "a" }, 28818),
        (doc! { "$unwind": 5 }, 15981),
        (unwind("includeArrayIndex", 5.into()), 28810),
        (unwind("includeArrayIndex", "".into()), 28810),
        (unwind("includeArrayIndex", "$i".into()), 28822),
        (unwind("preserveNullAndEmptyArrays", 5.into()), 28809),
        (unwind("other", 5.into()), 28811),
        (doc! { "$group": { "a": 1 } }, 40234),
        (doc! { "$group": { "_id": 1, "a": { "b": 1 } } }, 40234),
        (doc! { "$group": { "_id": 1, "a.b": { "$sum": 1 } } }, 40235),
        (doc! { "$group": { "_id": 1, "$a": { "$sum": 1 } } }, 40236),
        (
            doc! { "$group": { "_id": 1, "a": { "$sum": 1, "$max": 1 } } },
            40238,
        ),
        (doc! { "$group": { "_id": { "a.b": "$a" } } }, 16412),
        (
            doc! { "$group": { "_id": { "a": "$a", "$b": "$b" } } },
            16410,
        ),
        (doc! { "$group": { "_id": { "a": 1 } } }, 17390),
        (
            doc! { "$group": { "_id": 1, "a": { "$push": { "a.b": 1 } } } },
            16412,
        ),
        (doc! { "$sortByCount": 1 }, 40149),
        (doc! { "$sortByCount": "a" }, 40148),
        (doc! { "$sortByCount": { "a": 1 } }, 40147),
        (doc! { "$facet": {} }, 40169),
        (doc! { "$facet": { "a": 5 } }, 40170),
        (doc! { "$facet": { "a": [5] } }, 40171),
        (
            doc! { "$facet": { "a": [{ "$facet": { "b": [] } }] } },
            40600,
        ),
        (doc! { "$documents": [{ "a": 1 }] }, 73),
        (
            doc! { "$bucketAuto": { "groupBy": "$v", "buckets": true } },
            40241,
        ),
        (doc! { "$replaceRoot": 5 }, 40229),
        (doc! { "$replaceRoot": {} }, 40414),
        (doc! { "$replaceRoot": { "a": 1 } }, 40415),
        (doc! { "$unionWith": 1 }, 9),
        (doc! { "$unionWith": "" }, 73),
        (doc! { "$unionWith": {} }, 9),
        (doc! { "$unionWith": { "coll": 5 } }, 14),
        (doc! { "$unionWith": { "coll": "" } }, 73),
        (doc! { "$unionWith": { "coll": "c", "a": 1 } }, 40415),
    ]);
    let mut store = filled(vec![doc! { "_id": 1, "a": [7] }]);
    let stage = doc! { "$unwind": { "path": "$a", "includeArrayIndex": "at.i" } };
    assert_eq!(
        aggregate(&mut store, &[stage]),
        Ok(vec![doc! { "_id": 1, "a": 7, "at": { "i": 0_i64 } }])
    );
}

#[test]
fn malformed_operands_of_accumulators_are_refused() {
    let group = |accumulator: Document| doc! { "$group": { "_id": "$v", "a": accumulator } };
    let top = |name: &str, given: Document| {
        let mut operand = doc! { "output": "$v", "sortBy": { "v": 1 } };
        operand.extend(given);
        group(doc! { name: operand })
    };
    check([
        (group(doc! { "$count": 1 }), 14),
        (group(doc! { "$count": { "a": 1 } }), 14),
        (group(doc! { "$sum": ["$v", 1] }), 40237),
        (group(doc! { "$count": [] }), 40237),
        (group(doc! { "$firstN": 1 }), 5_787_801),
        (group(doc! { "$maxN": 1 }), 5_787_900),
        (
            group(doc! { "$maxN": { "n": 1, "input": 1, "x": 1 } }),
            5_787_901,
        ),
        (group(doc! { "$lastN": { "input": "$v" } }), 5_787_906),
        (group(doc! { "$lastN": { "n": 1 } }), 5_787_907),
        (
            group(doc! { "$lastN": { "n": "1", "input": "$v" } }),
            5_787_902,
        ),
        (
            group(doc! { "$lastN": { "n": 1.5, "input": "$v" } }),
            5_787_903,
        ),
        (
            group(doc! { "$lastN": { "n": -1, "input": "$v" } }),
            5_787_908,
        ),
        (group(doc! { "$topN": 1 }), 5_788_001),
        (top("$topN", doc! { "n": 1, "x": 1 }), 5_788_002),
        (top("$top", doc! { "n": 1 }), 5_788_002),
        (top("$topN", doc! {}), 5_788_003),
        (group(doc! { "$top": { "sortBy": { "v": 1 } } }), 5_788_004),
        (group(doc! { "$bottom": { "output": "$v" } }), 5_788_005),
        (top("$bottom", doc! { "sortBy": 1 }), 10065),
    ]);
}

#[test]
fn the_number_of_kept_values_depends_on_the_group() {
    let rows = [(1, 2), (1, 2), (2, 1), (2, 1)];
    let row = |(i, (k, n)): (i32, (i32, i32))| doc! { "_id": i, "k": k, "n": n };
    let mut store = filled((0..).zip(rows).map(row).collect());
    let some = doc! { "$firstN": { "input": "$_id", "n": "$n" } };
    let stages = [
        doc! { "$group": { "_id": { "k": "$k", "n": "$n" }, "some": some } },
        doc! { "$project": { "_id": 0, "some": 1 } },
    ];
    assert_eq!(
        aggregate(&mut store, &stages),
        Ok(vec![doc! { "some": [0, 1] }, doc! { "some": [2] }])
    );
}

#[test]
fn malformed_lookups_are_refused() {
    let lookup = |given: Document| {
        let mut spec = doc! { "from": "c", "as": "r" };
        spec.extend(given);
        doc! { "$lookup": spec }
    };
    let equal = || doc! { "localField": "v", "foreignField": "v" };
    let with = |more: Document| {
        let mut spec = equal();
        spec.extend(more);
        lookup(spec)
    };
    check([
        (lookup(doc! {}), 9),
        (lookup(doc! { "localField": "v" }), 9),
        (lookup(doc! { "foreignField": "v", "pipeline": [] }), 9),
        (with(doc! { "localField": 1 }), 9),
        (with(doc! { "from": 1 }), 9),
        (with(doc! { "as": 1 }), 9),
        (with(doc! { "other": 1 }), 9),
        (with(doc! { "other": "text" }), 9),
        (with(doc! { "let": 5 }), 9),
        (with(doc! { "let": {} }), 9),
        (lookup(doc! { "pipeline": 5 }), 14),
        (doc! { "$lookup": { "as": "r", "pipeline": [] } }, 9),
        (doc! { "$lookup": { "from": "c", "pipeline": [] } }, 9),
        (with(doc! { "as": "$r" }), 16410),
        (lookup(doc! { "pipeline": [], "let": { "V": 1 } }), 16867),
    ]);
    let mut store = filled(vec![doc! { "_id": 1 }]);
    let made = doc! { "as": "r", "pipeline": [{ "$documents": [{ "n": 1 }] }] };
    assert_eq!(
        aggregate(&mut store, &[doc! { "$lookup": made }]),
        Ok(vec![doc! { "_id": 1, "r": [{ "n": 1 }] }])
    );
}

#[test]
fn malformed_targets_are_refused_and_nothing_is_written() {
    let merge = |given: Document| {
        let mut spec = doc! { "into": "target" };
        spec.extend(given);
        doc! { "$merge": spec }
    };
    let stages = [
        (merge(doc! { "whenMatched": "bogus" }), 2),
        (merge(doc! { "whenMatched": 5 }), 51191),
        (merge(doc! { "whenNotMatched": "zz" }), 2),
        (merge(doc! { "whenNotMatched": 5 }), 14),
        (
            merge(doc! { "whenMatched": "fail", "whenNotMatched": "discard" }),
            51181,
        ),
        (merge(doc! { "let": { "a": 1 } }), 51199),
        (merge(doc! { "other": 1 }), 40415),
        (merge(doc! { "on": 5 }), 51186),
        (merge(doc! { "on": ["a", 5] }), 51134),
        (merge(doc! { "on": [] }), 51187),
        (merge(doc! { "into": 5 }), 51178),
        (merge(doc! { "into": "" }), 73),
        (doc! { "$merge": {} }, 40414),
        (doc! { "$merge": 5 }, 51182),
        (doc! { "$out": 5 }, 16990),
        (doc! { "$out": "" }, 73),
        (doc! { "$out": { "db": "db" } }, 40414),
        (doc! { "$out": { "coll": "target", "other": 1 } }, 40415),
    ];
    for (stage, code) in stages {
        let mut store = filled(vec![doc! { "_id": 1 }]);
        let error = aggregate(&mut store, std::slice::from_ref(&stage)).expect_err("refused");
        assert_eq!(error.code, code, "{stage}");
        assert!(!store.contains(&Namespace::new("db", "target")), "{stage}");
    }
}

#[test]
fn a_merge_pipeline_has_its_variables() {
    let mut store = filled(vec![doc! { "_id": 1, "v": 7 }]);
    let set = doc! { "$set": { "old": "$v", "own": "$$own", "new": "$$new.v" } };
    let merge = doc! { "into": "c", "let": { "own": "$v" }, "whenMatched": [set] };
    aggregate(&mut store, &[doc! { "$merge": merge }]).expect("merged");
    let expected = doc! { "_id": 1, "v": 7, "old": 7, "own": 7, "new": 7 };
    assert_eq!(contents(&store, &Find::default()), [expected]);
}

#[test]
fn a_missing_field_makes_a_missing_variable() {
    let mut store = filled(vec![doc! { "_id": 1, "v": null }]);
    let shown = doc! {
        "_id": 0, "none": { "$type": "$$none" }, "null": { "$type": "$$v" }, "gone": "$$none.x",
    };
    let lookup = doc! {
        "from": "c", "as": "r", "let": { "none": "$none", "v": "$v" },
        "pipeline": [{ "$project": shown }],
    };
    let stages = [
        doc! { "$lookup": lookup },
        doc! { "$project": { "_id": 0, "r": 1 } },
    ];
    let expected = doc! { "r": [{ "none": "missing", "null": "null" }] };
    assert_eq!(aggregate(&mut store, &stages), Ok(vec![expected]));
    let merge = |used: &str| {
        let set = doc! { "$set": { "x": used } };
        let merge = doc! { "into": "c", "let": { "own": "$none" }, "whenMatched": [set] };
        [doc! { "$merge": merge }]
    };
    aggregate(&mut store, &merge("$$new.v")).expect("the variable is not used");
    let error = aggregate(&mut store, &merge("$$own")).expect_err("no such variable");
    assert_eq!(error.code, 17276);
}

#[test]
fn a_merge_on_other_fields_needs_a_unique_index() {
    let mut store = filled(vec![
        doc! { "_id": 1, "k": 5, "v": 1 },
        doc! { "_id": 2, "k": 6 },
    ]);
    let merge = |rows: Bson| {
        [
            doc! { "$limit": 1 },
            doc! { "$project": { "_id": 0, "rows": { "$literal": rows } } },
            doc! { "$unwind": "$rows" },
            doc! { "$replaceRoot": { "newRoot": "$rows" } },
            doc! { "$merge": { "into": "c", "on": "k" } },
        ]
    };
    let rows = bson!([{ "k": 5, "v": 2 }, { "k": 7, "v": 3 }]);
    let error = aggregate(&mut store, &merge(rows.clone())).expect_err("no index");
    assert_eq!(error.code, 51183);
    store
        .create_indexes(&namespace(), &[doc! { "key": { "k": 1 }, "unique": true }])
        .expect("built");
    aggregate(&mut store, &merge(rows)).expect("merged");
    let found = contents(&store, &Find::default());
    assert_eq!(found.len(), 3);
    assert_eq!(found[0], doc! { "_id": 1, "k": 5, "v": 2 });
    assert_eq!(found[2].get_i32("v").ok(), Some(3));
    for (row, code) in [(bson!({ "v": 1 }), 51132), (bson!({ "k": [1] }), 51185)] {
        let error = aggregate(&mut store, &merge(bson!([row]))).expect_err("refused");
        assert_eq!(error.code, code);
    }
}
