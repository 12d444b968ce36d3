//! Tests of the types and options of indexes, and of clustered collections.

use super::*;

fn created(store: &mut Store, index: Document) -> i32 {
    let result = store.create_indexes(&namespace(), &[index]);
    result.map_or_else(|error| error.code, |_| 0)
}

fn ids(store: &Store, find: &Find) -> Vec<i32> {
    let documents = contents(store, find);
    documents
        .iter()
        .map(|d| d.get_i32("_id").expect("an _id"))
        .collect()
}

fn insert(store: &mut Store, document: Document) -> i32 {
    let done = with(|e| store.insert(&namespace(), vec![document], true, e)).expect("a result");
    done.errors.first().map_or(0, |error| error.error.code)
}

#[test]
fn an_index_that_exists_in_another_form_is_not_built_again() {
    let mut store = filled(vec![doc! { "_id": 1 }]);
    for index in [
        doc! { "key": { "a": 1 } },
        doc! { "key": { "a": 1.0 } },
        doc! { "key": { "a": 1_i64 }, "background": true, "unique": false },
    ] {
        assert_eq!(created(&mut store, index), 0);
    }
    assert_eq!(store.list_indexes(&namespace()).expect("a list").len(), 2);
    let other = doc! { "key": { "a": 1 }, "name": "other" };
    assert_eq!(created(&mut store, other.clone()), 85);
    let mut partial = other;
    partial.insert("partialFilterExpression", doc! { "b": 1 });
    assert_eq!(created(&mut store, partial), 0);
}

#[test]
fn stores_with_equal_data_take_the_copies_of_an_index_that_was_built_before() {
    let documents = (0..20).map(|n| doc! { "_id": n, "a": [n, -n], "b": n % 3 });
    let mut store = filled(documents.collect());
    let mut replicas = [Store::new(), Store::new()];
    for change in store.take_changes() {
        for replica in &mut replicas {
            replica.apply(&change).expect("it fits");
        }
    }
    let entries = [
        doc! { "key": { "a": 1 } },
        doc! { "key": { "b": -1 }, "prepareUnique": true },
    ];
    let mut built = store.build_indexes(&namespace(), &entries, 2);
    assert_eq!(built.take_error(), None);
    assert!(built.fit(&store, &namespace()));
    let done = store.create_built(&namespace(), &entries, built);
    assert_eq!(done.expect("created").after, 3);
    for change in store.take_changes() {
        let Change::CreateIndex { built, .. } = &change else {
            panic!("an index: {change:?}");
        };
        assert!(built.description().is_some(), "a copy for the first one");
        replicas[0].apply(&change).expect("it fits");
        assert!(built.description().is_none(), "none for the second one");
        replicas[1].apply(&change).expect("it fits");
    }
    for replica in &replicas {
        assert_eq!(replica, &store);
        assert_eq!(replica.bytes(), store.bytes());
        assert_eq!(replica.problem_of(&namespace()), None);
    }
}

#[test]
fn indexes_that_were_built_before_a_change_do_not_fit() {
    let mut store = filled(vec![doc! { "_id": 1, "a": 1 }]);
    let entry = doc! { "key": { "a": 1 } };
    let built = store.build_indexes(&namespace(), &[entry], 1);
    assert!(built.fit(&store, &namespace()));
    assert_eq!(insert(&mut store, doc! { "_id": 2, "a": 2 }), 0);
    assert!(!built.fit(&store, &namespace()));
    assert!(!built.fit(&store, &Namespace::new("db", "other")));
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    for (index, code) in [
        (doc! { "key": { "a": "hashed" } }, 0),
        (doc! { "key": { "a": "hashed", "b": 1 } }, 0),
        (doc! { "key": { "a": "hashed" }, "unique": true }, 16764),
        (doc! { "key": { "a": "hashed", "b": "hashed" } }, 31303),
        (doc! { "key": { "a": "other" } }, 67),
        (doc! { "key": { "$**": 1 } }, 0),
        (doc! { "key": { "a.$**": 1 } }, 0),
        (doc! { "key": { "$**": 1 }, "unique": true }, 67),
        (doc! { "key": { "$**": 1 }, "sparse": true }, 67),
        (doc! { "key": { "$**": 1 }, "expireAfterSeconds": 1 }, 67),
        (doc! { "key": { "a": 1 }, "hidden": 1 }, 14),
        (doc! { "key": { "a": 1 }, "sparse": "yes" }, 14),
        (doc! { "key": { "a": "text" }, "default_language": 1 }, 14),
        (doc! { "key": { "a": "2d" }, "bits": "26" }, 14),
        (doc! { "key": { "a": 1 }, "weights": 5 }, 14),
        (doc! { "key": { "a": 1 }, "weights": { "a": 1 } }, 67),
        (
            doc! { "key": { "a": 1 }, "v": 1, "collation": { "locale": "simple" } },
            67,
        ),
        (
            doc! { "key": { "a": 1 }, "unique": true, "prepareUnique": true },
            67,
        ),
        (doc! { "key": { "_id": 1 }, "sparse": true }, 197),
        (doc! { "key": { "a": 1 }, "expireAfterSeconds": 60 }, 0),
        (doc! { "key": { "a": 1 }, "expireAfterSeconds": -1 }, 67),
        (
            doc! { "key": { "a": 1, "b": 1 }, "expireAfterSeconds": 60 },
            67,
        ),
        (doc! { "key": { "a": 1 }, "expireAfterSeconds": "60" }, 67),
        (
            doc! { "key": { "a": 1 }, "partialFilterExpression": { "b": { "$gt": 1 } } },
            0,
        ),
        (
            doc! { "key": { "a": 1 }, "partialFilterExpression": { "b": { "$ne": 1 } } },
            67,
        ),
        (
            doc! { "key": { "a": 1 }, "partialFilterExpression": { "b": 1 }, "sparse": true },
            67,
        ),
    ] {
        let mut store = Store::new();
        assert_eq!(created(&mut store, index.clone()), code, "{index}");
    }
}

#[test]
fn malformed_keys_are_refused() {
    let long = "x".repeat(2100);
    let all =
        |key: Document, projection: Bson| doc! { "key": key, "wildcardProjection": projection };
    let compound = || doc! { "$**": 1, "a": 1 };
    for (index, code) in [
        (doc! { "key": 5 }, 14),
        (doc! {}, 9),
        (doc! { "key": {} }, 67),
        (doc! { "key": { long: 1 } }, 67),
        (doc! { "key": { "a": true } }, 67),
        (doc! { "key": { "a": 0 } }, 67),
        (doc! { "key": { "a": "" } }, 67),
        (doc! { "key": { "a": "2d", "b": "text" } }, 67),
        (doc! { "key": { "a": "2d", "b": 1 } }, 0),
        (doc! { "key": { "a..b": 1 } }, 67),
        (doc! { "key": { "$id": 1 } }, 67),
        (doc! { "key": { "a.$id": 1 } }, 0),
        (doc! { "key": { "a.$**.b": 1 } }, 67),
        (doc! { "key": { "a.$**": "text" } }, 67),
        (doc! { "key": { "$**": "text" } }, 0),
        (doc! { "key": { "$**": 1, "b": "hashed" } }, 67),
        (doc! { "key": compound() }, 67),
        (doc! { "key": { "a.$**": 1, "b": 1 } }, 0),
        (doc! { "key": { "a.$**": 1, "b.$**": 1 } }, 7_246_201),
        (doc! { "key": { "a.$**": 1, "a.b": 1 } }, 7_246_204),
        (all(doc! { "a": 1 }, bson!({ "a": 1 })), 2),
        (all(doc! { "$**": 1 }, bson!(1)), 14),
        (all(doc! { "$**": 1 }, bson!({})), 9),
        (all(doc! { "a.$**": 1 }, bson!({ "b": 1 })), 9),
        (all(doc! { "$**": 1 }, bson!({ "b": 1 })), 0),
        (all(compound(), bson!({ "b": 1 })), 0),
        (all(compound(), bson!({ "a": 0 })), 0),
        (all(compound(), bson!({ "b": "x" })), 7_246_207),
        (all(compound(), bson!({ "a": 1 })), 7_246_208),
        (all(compound(), bson!({ "b": 0 })), 7_246_209),
        (
            all(compound(), bson!({ "a": 0, "b": 1, "c": 1 })),
            7_246_211,
        ),
    ] {
        let mut store = Store::new();
        assert_eq!(created(&mut store, index.clone()), code, "{index}");
    }
}

#[test]
fn partial_and_sparse_indexes_check_and_find_only_their_documents() {
    let unique = |option: &str, value: Bson| {
        let mut index = doc! { "key": { "a": 1 }, "unique": true };
        index.insert(option, value);
        index
    };
    for (index, found) in [
        (unique("sparse", true.into()), vec![1, 2]),
        (
            unique("partialFilterExpression", bson!({ "p": true })),
            vec![2],
        ),
    ] {
        let mut store = filled(vec![
            doc! { "_id": 1, "a": 1 },
            doc! { "_id": 2, "a": 2, "p": true },
        ]);
        assert_eq!(created(&mut store, index.clone()), 0, "{index}");
        assert_eq!(insert(&mut store, doc! { "_id": 3 }), 0);
        assert_eq!(insert(&mut store, doc! { "_id": 4 }), 0);
        assert_eq!(insert(&mut store, doc! { "a": 2, "p": true }), 11000);
        let find = Find {
            hint: Some(bson!({ "a": 1 })),
            ..Find::default()
        };
        assert_eq!(ids(&store, &find), found, "{index}");
    }
}

#[test]
fn hashed_indexes_refuse_arrays() {
    let mut store = filled(vec![doc! { "_id": 1, "a": "x" }]);
    assert_eq!(created(&mut store, doc! { "key": { "a": "hashed" } }), 0);
    assert_eq!(insert(&mut store, doc! { "_id": 2, "a": [1] }), 16766);
    let find = Find {
        filter: doc! { "a": "x" },
        ..Find::default()
    };
    assert_eq!(ids(&store, &find), [1]);
}

#[test]
fn an_index_of_two_fields_refuses_two_arrays() {
    let mut store = filled(vec![doc! { "_id": 1, "a": [1], "b": 1 }]);
    assert_eq!(created(&mut store, doc! { "key": { "a": 1, "b": 1 } }), 0);
    assert_eq!(
        created(&mut store, doc! { "key": { "c.x": 1, "c.y": 1 } }),
        0
    );
    assert_eq!(
        insert(&mut store, doc! { "_id": 2, "a": [1], "b": [2] }),
        171
    );
    assert_eq!(
        insert(&mut store, doc! { "_id": 3, "c": [{ "x": 1, "y": 2 }] }),
        0
    );
    assert_eq!(
        insert(&mut store, doc! { "c": { "x": [1], "y": [2] } }),
        171
    );
    let mut store = filled(vec![doc! { "_id": 1, "a": [1], "b": [1] }]);
    assert_eq!(created(&mut store, doc! { "key": { "a": 1, "b": 1 } }), 171);
}

#[test]
fn a_clustered_collection_is_in_the_order_of_its_ids() {
    let mut store = Store::new();
    let options = doc! { "clusteredIndex": { "key": { "_id": 1 }, "unique": true, "name": "by" } };
    store
        .create_collection(&namespace(), options)
        .expect("a collection");
    for id in [3, 1, 2] {
        assert_eq!(insert(&mut store, doc! { "_id": id }), 0);
    }
    assert_eq!(insert(&mut store, doc! { "_id": 2 }), 11000);
    assert_eq!(ids(&store, &Find::default()), [1, 2, 3]);
    let two = Find {
        filter: doc! { "_id": { "$in": [3, 1] } },
        ..Find::default()
    };
    assert_eq!(ids(&store, &two), [1, 3]);
    let rows = aggregate(&mut store, &[doc! { "$limit": 1 }]).expect("a row");
    assert_eq!(rows, [doc! { "_id": 1 }]);
    let expected = doc! {
        "v": 2, "key": { "_id": 1 }, "name": "by", "unique": true, "clustered": true,
    };
    assert_eq!(
        store.list_indexes(&namespace()).expect("a list"),
        [expected]
    );
    let listed = store
        .list_collections("db", &doc! {}, false)
        .expect("a list");
    assert!(!listed[0].contains_key("idIndex"), "{}", listed[0]);
    store
        .check_hint(&namespace(), &bson!("by"))
        .expect("a hint");
    let error = store.drop_indexes(&namespace(), &bson!("by"));
    assert_eq!(error.expect_err("the clustered index").code, 72);
}

#[test]
fn malformed_clustered_indexes_are_refused() {
    let key = bson!({ "_id": 1 });
    for (index, code) in [
        (bson!({ "key": key.clone() }), 40414),
        (bson!({ "unique": true }), 40414),
        (bson!({ "key": key.clone(), "unique": false }), 5_979_700),
        (bson!({ "key": { "a": 1 }, "unique": true }), 5_979_701),
        (
            bson!({ "key": key.clone(), "unique": true, "v": 1 }),
            5_979_704,
        ),
        (bson!({ "key": key.clone(), "unique": true, "name": 1 }), 14),
        (bson!({ "key": key, "unique": true, "other": 1 }), 40415),
        (bson!(true), 5_979_703),
    ] {
        let mut store = Store::new();
        let options = doc! { "clusteredIndex": index.clone() };
        let error = store
            .create_collection(&namespace(), options)
            .expect_err("refused");
        assert_eq!(error.code, code, "{index}");
    }
    let options = doc! { "expireAfterSeconds": 1 };
    let error = Store::new()
        .create_collection(&namespace(), options)
        .expect_err("refused");
    assert_eq!(error.code, 72);
}

fn expire(store: &mut Store, now: DateTime) {
    store.expire(now, &Parts::default()).expect("a pass");
}

#[test]
fn documents_expire_by_the_date_in_an_index() {
    let date = |seconds: i64| DateTime::from_millis(seconds * 1000);
    let mut store = filled(vec![
        doc! { "_id": 1, "at": date(100) },
        doc! { "_id": 2, "at": date(101) },
        doc! { "_id": 3, "at": [date(500), date(1)] },
        doc! { "_id": 4, "at": 5 },
        doc! { "_id": 5 },
    ]);
    assert!(!store.has_expiry());
    let index = doc! { "key": { "at": 1 }, "expireAfterSeconds": 10 };
    assert_eq!(created(&mut store, index), 0);
    assert!(store.has_expiry());
    expire(&mut store, date(110));
    assert_eq!(ids(&store, &Find::default()), [2, 4, 5]);
    let change = doc! { "keyPattern": { "at": 1 }, "expireAfterSeconds": 1000 };
    let reply = store.modify_index(&namespace(), &change).expect("a change");
    assert_eq!(
        reply,
        doc! { "expireAfterSeconds_old": 10, "expireAfterSeconds_new": 1000 }
    );
    expire(&mut store, date(200));
    assert_eq!(ids(&store, &Find::default()), [2, 4, 5]);
}

#[test]
fn a_pass_deletes_the_documents_that_have_expired_first() {
    let document = |n: i32| doc! { "_id": n, "at": DateTime::from_millis(-i64::from(n)) };
    let mut store = filled((0..=50_000).map(document).collect());
    let index = doc! { "key": { "at": 1 }, "expireAfterSeconds": 10 };
    assert_eq!(created(&mut store, index), 0);
    let now = DateTime::from_millis(20_000);
    expire(&mut store, now);
    assert_eq!(ids(&store, &Find::default()), [0]);
    expire(&mut store, now);
    assert_eq!(ids(&store, &Find::default()), [0; 0]);
}
