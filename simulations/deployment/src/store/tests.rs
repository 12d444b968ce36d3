mod changes;
#[cfg(feature = "collation")]
mod collation;
mod conversions;
mod expressions;
mod forms;
mod index_options;
mod indexes;
mod keys;
mod limits;
mod merging;
mod numbers;
mod operands;
mod projections;
mod sorting;
mod stages;
mod validation;
#[cfg(not(feature = "collation"))]
mod without_collation;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, Timestamp, bson, doc};
use proptest::prelude::*;

use super::order::{compare, equal};
use super::*;

fn with<T>(run: impl FnOnce(&mut Environment<'_>) -> T) -> T {
    let mut next = 0_u8;
    let mut ids = || {
        next += 1;
        ObjectId::from_bytes([next; 12])
    };
    run(&mut Environment {
        now: DateTime::from_millis(1000),
        timestamp: Timestamp {
            time: 1,
            increment: 1,
        },
        ids: &mut ids,
        seed: 7,
        variables: Document::new(),
        bypasses_validation: false,
        keeps_empty_timestamps: false,
        max_steps: None,
        parts: Parts::default(),
    })
}

fn namespace() -> Namespace {
    Namespace::new("db", "c")
}

fn filled(documents: Vec<Document>) -> Store {
    let mut store = Store::new();
    let outcome = with(|e| store.insert(&namespace(), documents, true, e)).expect("an insert");
    assert_eq!(outcome.errors, []);
    store
}

fn contents(store: &Store, find: &Find) -> Vec<Document> {
    let found = with(|e| store.find(&namespace(), find, e)).expect("documents");
    found.iter().map(|d| Document::clone(d)).collect()
}

fn aggregate(store: &mut Store, pipeline: &[Document]) -> Answer<Vec<Document>> {
    let outcome = with(|e| store.aggregate("db", Some("c"), pipeline, None, None, e))?;
    Ok(outcome.iter().map(|d| Document::clone(d)).collect())
}

#[test]
fn duplicate_id_is_reported_with_its_index_and_stops_an_ordered_insert() {
    for (ordered, inserted) in [(true, 1), (false, 2)] {
        let mut store = Store::new();
        let documents = vec![doc! { "_id": 1 }, doc! { "_id": 1.0 }, doc! { "_id": 2 }];
        let outcome = with(|e| store.insert(&namespace(), documents, ordered, e)).expect("result");
        assert_eq!(outcome.inserted, inserted);
        let error = &outcome.errors[0];
        assert_eq!((error.index, error.error.code), (1, 11000));
        assert_eq!(
            error.error.message,
            "E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 1.0 }"
        );
        assert_eq!(
            error.error.details.get_document("keyPattern").ok(),
            Some(&doc! { "_id": 1 })
        );
    }
}

#[test]
fn missing_id_is_added_as_the_first_field() {
    let store = filled(vec![doc! { "a": 1 }]);
    let first = contents(&store, &Find::default()).remove(0);
    assert_eq!(first.keys().collect::<Vec<_>>(), ["_id", "a"]);
}

#[test]
fn find_sorts_skips_limits_and_projects() {
    let store = filled(
        (0..6)
            .map(|i| doc! { "_id": i, "a": i % 3, "x": [i, 9] })
            .collect(),
    );
    let find = Find {
        filter: doc! { "_id": { "$gt": 0 } },
        sort: Some(doc! { "a": -1, "_id": 1 }),
        projection: Some(doc! { "a": 1 }),
        skip: 1,
        limit: 2,
        ..Find::default()
    };
    assert_eq!(
        contents(&store, &find),
        [doc! { "_id": 5, "a": 2 }, doc! { "_id": 1, "a": 1 }]
    );
    let table = [
        (doc! { "_id": 0, "x": 1 }, bson!({ "x": [1, 9] })),
        (doc! { "x": 0 }, bson!({ "_id": 1, "a": 1 })),
        (
            doc! { "_id": 1, "x": { "$slice": -1 } },
            bson!({ "_id": 1, "x": [9] }),
        ),
        (
            doc! { "x": { "$elemMatch": { "$gt": 5 } } },
            bson!({ "_id": 1, "x": [9] }),
        ),
        (doc! { "x.$": 1 }, bson!({ "_id": 1, "x": [9] })),
        (
            doc! { "_id": 0, "b": { "$add": ["$a", 1] } },
            bson!({ "b": 2 }),
        ),
    ];
    for (projection, expected) in table {
        let filter = doc! { "_id": 1, "x": 9 };
        let find = Find {
            filter,
            projection: Some(projection.clone()),
            ..Find::default()
        };
        assert_eq!(
            Bson::Document(contents(&store, &find).remove(0)),
            expected,
            "{projection}"
        );
    }
}

#[test]
fn unique_indexes_are_enforced_and_named() {
    let mut store = filled(vec![doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2 }]);
    let spec = doc! { "key": { "a": 1 }, "unique": true };
    let built = store
        .create_indexes(&namespace(), std::slice::from_ref(&spec))
        .expect("built");
    assert_eq!((built.before, built.after), (1, 2));
    assert_eq!(
        store.list_indexes(&namespace()).expect("a list")[1]
            .get_str("name")
            .ok(),
        Some("a_1")
    );
    let statement = UpdateStatement::one(
        doc! { "_id": 2 },
        Update::Document(doc! { "$set": { "a": 1 } }),
    );
    drop(store.take_changes());
    let outcome = with(|e| store.update(&namespace(), &[statement], true, e)).expect("a result");
    assert_eq!(outcome.errors[0].error.code, 11000);
    assert_eq!(store.take_changes(), []);
    store
        .drop_indexes(&namespace(), &Bson::String("a_1".to_owned()))
        .map(|_| ())
        .expect("dropped");
    let error = store.drop_indexes(&namespace(), &Bson::String("a_1".to_owned()));
    assert_eq!(error.expect_err("gone").code, 27);
}

#[test]
fn find_and_modify_returns_the_document_before_or_after_the_update() {
    for (return_new, expected) in [(false, 1), (true, 2)] {
        let mut store = filled(vec![doc! { "_id": 1, "n": 1 }]);
        let command = FindAndModify {
            filter: doc! { "_id": 1 },
            sort: None,
            projection: Some(doc! { "_id": 0 }),
            modification: Modification::Update {
                update: Update::Document(doc! { "$inc": { "n": 1 } }),
                upsert: false,
                array_filters: vec![],
                return_new,
            },
            collation: None,
        };
        let outcome = with(|e| store.find_and_modify(&namespace(), &command, e)).expect("a value");
        assert_eq!(outcome.value, Some(doc! { "n": expected }));
    }
}

#[test]
fn pipelines_return_the_same_documents_as_the_server() {
    let mut store = filled(
        (0..4)
            .map(|i| doc! { "_id": i, "k": i % 2, "x": [i, i + 1] })
            .collect(),
    );
    let table = [
        (
            vec![doc! { "$group": { "_id": "$k", "n": { "$sum": 1 }, "m": { "$max": "$_id" } } }],
            vec![
                doc! { "_id": 0, "n": 2, "m": 2 },
                doc! { "_id": 1, "n": 2, "m": 3 },
            ],
        ),
        (
            vec![doc! { "$match": { "_id": 9 } }, doc! { "$count": "n" }],
            vec![],
        ),
        (vec![doc! { "$count": "n" }], vec![doc! { "n": 4 }]),
        (
            vec![
                doc! { "$match": { "_id": 2 } },
                doc! { "$unwind": "$x" },
                doc! { "$unset": "k" },
            ],
            vec![doc! { "_id": 2, "x": 2 }, doc! { "_id": 2, "x": 3 }],
        ),
        (
            vec![
                doc! { "$limit": 1 },
                doc! { "$project": { "y": { "$size": "$x" } } },
            ],
            vec![doc! { "_id": 0, "y": 2 }],
        ),
        (
            vec![
                doc! { "$match": { "_id": 1 } },
                doc! { "$lookup": {
                    "from": "c", "localField": "k", "foreignField": "_id", "as": "j"
                } },
                doc! { "$project": { "j._id": 1 } },
            ],
            vec![doc! { "_id": 1, "j": [{ "_id": 1 }] }],
        ),
    ];
    for (pipeline, expected) in table {
        assert_eq!(
            aggregate(&mut store, &pipeline),
            Ok(expected),
            "{pipeline:?}"
        );
    }
    let error = aggregate(&mut store, &[doc! { "$foo": 1 }]).expect_err("no such stage");
    assert_eq!(
        (error.code, error.message.as_str()),
        (40324, "Unrecognized pipeline stage name: '$foo'")
    );
}

#[test]
fn out_and_merge_write_to_the_target() {
    let mut store = filled(vec![doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2 }]);
    aggregate(
        &mut store,
        &[doc! { "$match": { "_id": 1 } }, doc! { "$out": "d" }],
    )
    .expect("out");
    aggregate(&mut store, &[doc! { "$merge": { "into": "d" } }]).expect("merge");
    let count = with(|e| store.count(&Namespace::new("db", "d"), &Find::default(), e));
    assert_eq!(count, Ok(2));
}

#[test]
fn capped_collections_remove_their_oldest_documents() {
    let mut store = Store::new();
    let options = doc! { "capped": true, "size": 1000, "max": 2 };
    store
        .create_collection(&namespace(), options)
        .map(|_| ())
        .expect("created");
    let documents = (0..5).map(|i| doc! { "_id": i }).collect();
    with(|e| store.insert(&namespace(), documents, true, e))
        .map(|_| ())
        .expect("inserted");
    assert_eq!(
        contents(&store, &Find::default()),
        [doc! { "_id": 3 }, doc! { "_id": 4 }]
    );
}

#[test]
fn too_deep_and_too_large_documents_are_refused() {
    let mut deep = doc! {};
    for _ in 0..180 {
        deep = doc! { "a": deep };
    }
    let large = doc! { "_id": 1, "a": "x".repeat(MAX_DOCUMENT_BYTES) };
    for (document, code) in [(deep, 15), (large, 10334)] {
        let mut store = Store::new();
        let outcome =
            with(|e| store.insert(&namespace(), vec![document], true, e)).expect("result");
        assert_eq!(outcome.errors[0].error.code, code);
    }
}

fn value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        Just(Bson::Null),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        any::<bool>().prop_map(Bson::Boolean),
        (-3..3_i32).prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<f64>().prop_map(Bson::Double),
        (-300..300_i32).prop_map(|n| {
            let text = format!("{n}E{}", n % 7 * 50);
            Bson::Decimal128(text.parse().expect("a decimal"))
        }),
        "[ab]{0,2}".prop_map(Bson::String),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array),
            prop::collection::vec(("[ab]", inner), 0..3)
                .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn comparison_is_a_total_order(a in value(), b in value(), c in value()) {
        prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        prop_assert!(equal(&a, &a));
        if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
            prop_assert!(compare(&a, &c).is_le());
        }
    }
}

#[test]
fn a_document_that_exceeds_a_capped_collection_is_refused() {
    let mut store = Store::new();
    store.set_release(Release([6, 0, 0]));
    let options = doc! { "capped": true, "size": 300 };
    store
        .create_collection(&namespace(), options)
        .expect("a collection");
    let lists = store
        .list_collections("db", &doc! {}, false)
        .expect("a list");
    let options = lists[0].get_document("options").expect("options");
    assert_eq!(options.get_i32("size").ok(), Some(512), "before 6.2");
    let mut insert = |id: i32, length: usize| {
        let document = doc! { "_id": id, "s": "x".repeat(length) };
        let done = with(|e| store.insert(&namespace(), vec![document], true, e));
        done.expect("a result").errors.first().map(|e| e.error.code)
    };
    assert_eq!([insert(1, 10), insert(2, 600)], [None, Some(2)]);
    assert_eq!(contents(&store, &Find::default()).len(), 1);
}
