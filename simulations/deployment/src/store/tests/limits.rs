//! Tests of limits: short commands that need too much memory or depth are refused, and numbers do
//! not overflow.

use super::*;

fn code(store: &mut Store, pipeline: &[Document]) -> i32 {
    let error = aggregate(store, pipeline).expect_err("the pipeline is refused");
    error.code
}

fn one(document: Document) -> Store {
    filled(vec![document])
}

/// Returns a store with 1,000 documents, each with a string of 20,000 bytes.
fn large() -> Store {
    let text = "x".repeat(20_000);
    filled((0..1000).map(|n| doc! { "_id": n, "s": &text }).collect())
}

fn update(store: &mut Store, filter: Document, set: Document) -> Option<i32> {
    let update = Update::Document(doc! { "$set": set });
    let statement = UpdateStatement {
        upsert: true,
        ..UpdateStatement::one(filter, update)
    };
    let outcome = with(|e| store.update(&namespace(), &[statement], true, e)).expect("a result");
    outcome.errors.first().map(|e| e.error.code)
}

#[test]
fn repeatedly_doubled_values_are_refused_at_the_document_size_limit() {
    let doubling = [
        doc! { "$set": { "s": { "$concat": ["$s", "$s"] } } },
        doc! { "$set": { "s": ["$s", "$s"] } },
        doc! { "$set": { "s": { "$concatArrays": [["$s"], ["$s"]] } } },
        doc! { "$project": { "s": ["$s", "$s"] } },
        doc! { "$replaceWith": { "s": { "a": "$s", "b": "$s" } } },
        doc! { "$group": { "_id": Bson::Null, "s": { "$push": { "a": "$s", "b": "$s" } } } },
        doc! { "$addFields": { "s": { "$map": { "input": [1, 2], "in": "$s" } } } },
    ];
    for stage in doubling {
        let mut store = one(doc! { "s": "x".repeat(1000) });
        assert_eq!(code(&mut store, &vec![stage.clone(); 34]), 10334, "{stage}");
    }
    let mut store = one(doc! { "s": "x".repeat(1000) });
    let double = doc! { "$concat": ["$$value", "$$value"] };
    let all: Vec<i32> = (0..34).collect();
    let reduce = doc! { "input": all, "initialValue": "$s", "in": double };
    let reduce = [doc! { "$set": { "s": { "$reduce": reduce } } }];
    assert_eq!(code(&mut store, &reduce), 10334);
    let stages = vec![doc! { "$set": { "s": { "$concat": ["$s", "$s"] } } }; 34];
    let statement = UpdateStatement::one(doc! {}, Update::Pipeline(stages));
    let outcome = with(|e| store.update(&namespace(), &[statement], true, e)).expect("a result");
    assert_eq!(outcome.errors[0].error.code, 10334);
}

#[test]
fn a_stage_that_uses_too_much_memory_is_refused() {
    let hundred: Vec<i32> = (0..100).collect();
    let names = ["a", "b", "c", "d", "e"];
    let mut store = one(names
        .iter()
        .map(|n| (n.to_string(), Bson::from(hundred.clone())))
        .collect());
    let stages = names.map(|name| doc! { "$unwind": format!("${name}") });
    assert_eq!(code(&mut store, &stages), 292);
    let push =
        doc! { "$push": { "a": "$s", "b": "$s", "c": "$s", "d": "$s", "e": "$s", "f": "$s" } };
    let stages = [doc! { "$group": { "_id": Bson::Null, "all": push } }];
    assert_eq!(code(&mut large(), &stages), 292);
    let copies = (0..6)
        .map(|n| (n.to_string(), Bson::from("$s")))
        .collect::<Document>();
    assert_eq!(code(&mut large(), &[doc! { "$set": copies.clone() }]), 292);
    let find = Find {
        projection: Some(copies),
        ..Find::default()
    };
    let error = with(|e| large().find(&namespace(), &find, e)).expect_err("too much");
    assert_eq!(error.code, 292);
}

#[test]
fn stages_that_combine_too_much_data_in_one_document_are_refused() {
    let lookup = doc! { "$lookup": { "from": "c", "pipeline": [], "as": "all" } };
    assert_eq!(code(&mut large(), &[lookup]), 10334);
    let facet = doc! { "$facet": { "all": [{ "$match": {} }] } };
    assert_eq!(code(&mut large(), &[facet]), 10334);
    let all: Vec<Bson> = (0..10_000).map(|_| doc! {}.into()).collect();
    let mut store = one(doc! { "a": all, "s": "x".repeat(20_000) });
    assert_eq!(code(&mut store, &[doc! { "$set": { "a.b": "$s" } }]), 292);
    let set = doc! { "a.$[].b": "x".repeat(20_000) };
    assert_eq!(update(&mut store, doc! {}, set), Some(292));
}

#[test]
fn an_update_that_extends_arrays_too_far_is_refused() {
    let names = (0..100).map(|n| format!("a{n}"));
    let arrays: Document = names.clone().map(|n| (n, Bson::Array(vec![]))).collect();
    let set: Document = names
        .map(|n| (format!("{n}.1499999"), Bson::from(1)))
        .collect();
    assert_eq!(update(&mut one(arrays), doc! {}, set), Some(292));
}

#[test]
fn pipelines_with_too_deep_documents_or_too_many_stages_are_refused() {
    let mut nested = bson!("$a");
    for _ in 0..90 {
        nested = bson!([nested]);
    }
    let stages = vec![doc! { "$set": { "a": nested } }; 900];
    assert_eq!(code(&mut one(doc! { "a": 1 }), &stages), 15);
    let reduce = doc! {
        "input": { "$range": [0, 100_000] }, "initialValue": [], "in": ["$$value"],
    };
    let stages = [doc! { "$set": { "a": { "$reduce": reduce } } }];
    assert_eq!(code(&mut one(doc! { "a": 1 }), &stages), 15);
    let stages = vec![doc! { "$limit": 1 }; 1001];
    assert_eq!(code(&mut one(doc! {}), &stages), 7_749_501);
}

#[test]
fn field_paths_with_too_many_parts_are_refused_in_stages_and_updates() {
    let path = vec!["x"; 201].join(".");
    let mut store = one(doc! { "a": 1 });
    let dollar = format!("${path}");
    for stage in [
        doc! { "$set": { &path: 1 } },
        doc! { "$set": { "a": &dollar } },
        doc! { "$project": { &path: 1 } },
        doc! { "$match": { &path: 1 } },
        doc! { "$sort": { &path: 1 } },
        doc! { "$unwind": &dollar },
        doc! { "$group": { "_id": &dollar } },
        doc! { "$lookup": { "from": "c", "pipeline": [], "as": &path } },
    ] {
        assert_eq!(
            code(&mut store, std::slice::from_ref(&stage)),
            15,
            "{stage}"
        );
    }
    for (filter, set) in [
        (doc! {}, doc! { &path: 1 }),
        (doc! { &path: 1 }, doc! { "a": 1 }),
    ] {
        assert_eq!(update(&mut store, filter, set), Some(15));
    }
    let deepest = vec!["x"; 200].join(".");
    assert!(aggregate(&mut store, &[doc! { "$match": { &deepest: 1 } }]).is_ok());
}

#[test]
fn an_aggregation_on_a_long_chain_of_views_is_refused() {
    let mut store = Store::new();
    let names: Vec<String> = (0..30).map(|n| format!("v{n}")).collect();
    let names = std::iter::once("c").chain(names.iter().map(String::as_str));
    let names: Vec<&str> = names.collect();
    // Each view is made before the one that it is on, so that none is refused.
    for pair in names.windows(2) {
        let options = doc! { "viewOn": pair[1], "pipeline": [] };
        let made = store.create_collection(&Namespace::new("db", pair[0]), options);
        assert!(made.is_ok());
    }
    assert_eq!(code(&mut store, &[]), 57);
}

#[test]
fn extreme_numbers_do_not_overflow_in_expressions() {
    let (least, most) = (i64::MIN, i64::MAX);
    let (smallest, largest) = (i32::MIN, i32::MAX);
    let mut store = one(doc! { "list": [1, 2, 3] });
    for (range, expected) in [
        (bson!([smallest, -1]), 292),
        (bson!([smallest, largest]), 292),
        (bson!([least, most]), 34444),
    ] {
        let stage = doc! { "$project": { "x": { "$range": range } } };
        assert_eq!(code(&mut store, &[stage]), expected);
    }
    for (expression, expected) in [
        (
            bson!({ "$size": { "$range": [smallest, largest, largest] } }),
            bson!(3),
        ),
        (
            bson!({ "$size": { "$range": [0, smallest, smallest] } }),
            bson!(1),
        ),
        (
            bson!({ "$range": [largest, smallest, -largest] }),
            bson!([largest, 0, -largest]),
        ),
        (
            bson!({ "$year": DateTime::from_millis(most) }),
            bson!(292_278_994),
        ),
        (
            bson!({ "$year": DateTime::from_millis(least) }),
            bson!(-292_275_055),
        ),
        (
            bson!({ "$month": DateTime::from_millis(951_782_400_000) }),
            bson!(2),
        ),
        (
            bson!({ "$dayOfMonth": DateTime::from_millis(951_782_400_000) }),
            bson!(29),
        ),
        (
            bson!({ "$dayOfYear": DateTime::from_millis(-1) }),
            bson!(365),
        ),
        (
            bson!({ "$slice": ["$list", smallest, largest] }),
            bson!([1, 2, 3]),
        ),
        (bson!({ "$arrayElemAt": ["$list", -3] }), bson!(1)),
        (bson!({ "$mod": [least, -1] }), bson!(0_i64)),
    ] {
        let rows = aggregate(
            &mut store,
            &[doc! { "$project": { "x": expression.clone() } }],
        );
        let rows = rows.unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert_eq!(rows[0].get("x"), Some(&expected), "{expression}");
    }
}

#[test]
fn a_path_with_many_numbers_is_refused() {
    let nested = (0..45).fold(Bson::Int32(1), |inner, _| bson!([{ "0": inner }]));
    let mut store = filled(vec![doc! { "_id": 1, "a": nested }]);
    let path = format!("a{}", ".0".repeat(90));
    let find = |find: Find| {
        with(|e| store.find(&namespace(), &find, e))
            .expect_err("refused")
            .code
    };
    let filter = doc! { path.as_str(): 1 };
    assert_eq!(
        find(Find {
            filter,
            ..Find::default()
        }),
        15
    );
    let sort = Some(doc! { path.as_str(): 1 });
    assert_eq!(
        find(Find {
            sort,
            ..Find::default()
        }),
        15
    );
    let all = Find::default();
    let distinct = with(|e| store.distinct(&namespace(), &path, &all, e));
    assert_eq!(distinct.expect_err("refused").code, 15);
    let lookup = doc! { "from": "c", "localField": &path, "foreignField": "a", "as": "found" };
    let error = aggregate(&mut store, &[doc! { "$lookup": lookup }]).expect_err("refused");
    assert_eq!(error.code, 15);
    let few = doc! { "a.0.0.0.0": { "$exists": true } };
    let find = Find {
        filter: few,
        ..Find::default()
    };
    assert_eq!(contents(&store, &find).len(), 1);
}

#[test]
fn nested_predicates_on_an_array_are_counted_before_they_are_tested() {
    let items: Vec<i32> = vec![1; 100_000];
    let store = filled(vec![doc! { "_id": 1, "a": items.clone() }]);
    let condition = doc! { "$elemMatch": { "$not": { "$all": items } } };
    let find = Find {
        filter: doc! { "a": condition },
        ..Find::default()
    };
    let error = with(|e| store.find(&namespace(), &find, e)).expect_err("10,000,000,000 tests");
    assert_eq!(error.code, 50);
}

#[test]
fn copies_of_nested_arrays_are_counted_before_they_are_made() {
    let store = filled(vec![doc! { "_id": 1, "a": [[vec![1; 500_000]]] }]);
    let clauses = vec![doc! { "a": { "$elemMatch": { "0": 7 } } }; 1000];
    let find = Find {
        filter: doc! { "$or": clauses },
        ..Find::default()
    };
    let found = with(|e| {
        e.max_steps = Some(2_000_000);
        store.find(&namespace(), &find, e)
    });
    let error = found.expect_err("1000 copies");
    assert_eq!(error.code, 50);
}

#[test]
fn removals_of_many_fields_are_counted() {
    let fields: Document = (0..4_000).map(|n| (format!("f{n}"), 1.into())).collect();
    let update = Update::Document(doc! { "$unset": fields.clone() });
    let mut store = filled(vec![fields]);
    let statements = [UpdateStatement::one(doc! {}, update)];
    let outcome = with(|e| {
        e.max_steps = Some(50_000);
        store.update(&namespace(), &statements, true, e)
    });
    let errors = outcome.expect("a result").errors;
    assert_eq!(errors[0].error.code, 50, "4,000 removals from 4,000 fields");
}

#[test]
fn a_field_that_is_computed_in_each_element_is_charged() {
    let all: Vec<Bson> = (0..10_000).map(|_| doc! {}.into()).collect();
    let mut store = one(doc! { "a": all, "s": "x".repeat(20_000) });
    for stage in [
        doc! { "$project": { "a": { "b": "$s" } } },
        doc! { "$addFields": { "a": { "b": "$s" } } },
    ] {
        assert_eq!(code(&mut store, &[stage]), 292);
    }
}
