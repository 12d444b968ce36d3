mod limits;

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
    let outcome = with(|e| store.aggregate("db", Some("c"), pipeline, e))?;
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
    let count = with(|e| store.count(&Namespace::new("db", "d"), &doc! {}, 0, 0, e));
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
    for _ in 0..100 {
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

#[derive(Clone, Debug)]
enum Step {
    Insert(i32, i32),
    InsertText(i32),
    /// Fails on the first document whose `a` is a text, after documents before it have changed.
    IncrementAll,
    Upsert(i32),
    Delete(i32),
    /// The first projection fails on documents whose `a` is 0 or a text.
    Modify(Modification, bool),
    Index(bool),
    DropIndexes,
    Drop,
    Rename(bool),
    Out,
    Merge(&'static str, &'static str),
    Collection(bool),
    Panic(i32),
}

fn step() -> impl Strategy<Value = Step> {
    let matched = prop::sample::select(vec!["merge", "replace", "fail", "keepExisting"]);
    let other = prop::sample::select(vec!["insert", "discard", "fail"]);
    let update = |upsert| Modification::Update {
        update: Update::Document(doc! { "$inc": { "a": 1 } }),
        upsert,
        array_filters: vec![],
        return_new: upsert,
    };
    let modification =
        prop::sample::select(vec![Modification::Remove, update(false), update(true)]);
    prop_oneof![
        5 => (0..6, 0..4).prop_map(|(id, a)| Step::Insert(id, a)),
        1 => (0..6).prop_map(Step::InsertText),
        3 => Just(Step::IncrementAll),
        2 => (0..6).prop_map(Step::Upsert),
        2 => (0..4).prop_map(Step::Delete),
        3 => (modification, any::<bool>()).prop_map(|(what, fails)| Step::Modify(what, fails)),
        2 => any::<bool>().prop_map(Step::Index),
        1 => Just(Step::DropIndexes),
        1 => Just(Step::Drop),
        1 => any::<bool>().prop_map(Step::Rename),
        2 => Just(Step::Out),
        3 => (matched, other).prop_map(|(matched, other)| Step::Merge(matched, other)),
        1 => any::<bool>().prop_map(Step::Collection),
        2 => (0..6).prop_map(Step::Panic),
    ]
}

/// Runs a step, which can fail. Returns true if it succeeded.
fn run(store: &mut Store, step: &Step) -> bool {
    let ns = namespace();
    let wrote = |errors: &[WriteError]| errors.is_empty();
    with(|e| match step {
        Step::Insert(id, a) => store
            .insert(&ns, vec![doc! { "_id": *id, "a": *a }], true, e)
            .is_ok_and(|done| wrote(&done.errors)),
        Step::InsertText(id) => store
            .insert(&ns, vec![doc! { "_id": *id, "a": "text" }], true, e)
            .is_ok_and(|done| wrote(&done.errors)),
        Step::IncrementAll => {
            let update = Update::Document(doc! { "$inc": { "a": 1 } });
            let mut statement = UpdateStatement::one(doc! {}, update);
            statement.multi = true;
            let done = store.update(&ns, &[statement], true, e);
            done.is_ok_and(|done| wrote(&done.errors))
        }
        Step::Upsert(id) => {
            let update = Update::Document(doc! { "a": *id });
            let mut statement = UpdateStatement::one(doc! { "_id": *id }, update);
            statement.upsert = true;
            let done = store.update(&ns, &[statement], true, e);
            done.is_ok_and(|done| wrote(&done.errors))
        }
        Step::Delete(a) => {
            let statement = DeleteStatement {
                filter: doc! { "a": *a },
                limit: 0,
            };
            store.delete(&ns, &[statement], true, e).is_ok()
        }
        Step::Modify(modification, fails) => {
            let command = FindAndModify {
                filter: doc! {},
                sort: None,
                projection: fails.then(|| doc! { "q": { "$divide": [1, "$a"] } }),
                modification: modification.clone(),
            };
            store.find_and_modify(&ns, &command, e).is_ok()
        }
        Step::Index(unique) => {
            let other = doc! { "key": { "b": 1 } };
            let spec = doc! { "key": { "a": 1 }, "unique": *unique };
            store.create_indexes(&ns, &[other, spec]).is_ok()
        }
        Step::DropIndexes => store
            .drop_indexes(&ns, &Bson::String("*".to_owned()))
            .is_ok(),
        Step::Drop => store.drop_database("db").is_ok(),
        Step::Rename(drop_target) => store
            .rename_collection(&ns, &Namespace::new("db", "d"), *drop_target)
            .is_ok(),
        Step::Out => {
            let pipeline = [doc! { "$set": { "_id": "$a" } }, doc! { "$out": "e" }];
            store.aggregate("db", Some("c"), &pipeline, e).is_ok()
        }
        Step::Merge(matched, other) => {
            let merge = doc! { "into": "e", "whenMatched": matched, "whenNotMatched": other };
            let pipeline = [doc! { "$merge": merge }];
            store.aggregate("db", Some("c"), &pipeline, e).is_ok()
        }
        Step::Collection(capped) => {
            let options = doc! { "capped": capped, "size": 100, "max": 2 };
            store.create_collection(&ns, options).is_ok()
        }
        Step::Panic(id) => panics(store, *id),
    })
}

/// Inserts a document and one more, for which no id can be made, so that the command ends in a
/// panic. The caller of the store undoes the changes of such a command.
fn panics(store: &mut Store, id: i32) -> bool {
    let documents = vec![doc! { "_id": id }, doc! {}];
    let mut environment = Environment {
        now: DateTime::from_millis(1000),
        timestamp: Timestamp {
            time: 1,
            increment: 1,
        },
        ids: &mut || std::panic::resume_unwind(Box::new(())),
        seed: 7,
        variables: Document::new(),
    };
    let insert = std::panic::AssertUnwindSafe(|| {
        store.insert(&namespace(), documents, false, &mut environment)
    });
    assert!(std::panic::catch_unwind(insert).is_err());
    store.undo_changes();
    false
}

/// True if a step that fails leaves the store unchanged.
fn is_atomic(step: &Step) -> bool {
    !matches!(step, Step::IncrementAll | Step::Merge(..))
}

#[test]
fn a_change_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut store = filled(vec![doc! { "_id": 1, "a": 1 }]);
    let spec = doc! { "key": { "a": 1 } };
    store.create_indexes(&namespace(), &[spec]).expect("built");
    let made = store.take_changes();
    let [create, insert, index] = &made[..] else {
        panic!("three changes: {made:?}");
    };
    let missing = || Namespace::new("db", "missing");
    let one = Arc::new(doc! { "_id": 1, "a": 1 });
    let other = Arc::new(doc! { "_id": 2 });
    let replace = |namespace, record, before: &Shared| Change::Replace {
        namespace,
        record,
        before: before.clone(),
        after: other.clone(),
    };
    let delete = |namespace, record, document: &Shared| Change::Delete {
        namespace,
        record,
        document: document.clone(),
    };
    let insert_of = |namespace, record, document: &Shared| Change::Insert {
        namespace,
        record,
        document: document.clone(),
    };
    let drop_index = |position, specification| Change::DropIndex {
        namespace: namespace(),
        specification,
        position,
    };
    let wrong = [
        create.clone(),
        insert.clone(),
        index.clone(),
        insert_of(missing(), 1, &other),
        insert_of(namespace(), 1, &other),
        insert_of(namespace(), 2, &one),
        replace(missing(), 1, &one),
        replace(namespace(), 2, &one),
        replace(namespace(), 1, &other),
        delete(missing(), 1, &one),
        delete(namespace(), 2, &one),
        delete(namespace(), 1, &other),
        drop_index(0, other.clone()),
        drop_index(1, other.clone()),
        Change::DropDatabase {
            database: "db".to_owned(),
        },
        Change::DropCollection {
            namespace: namespace(),
            before: Arc::new(Collection::default()),
        },
        Change::RenameCollection {
            from: missing(),
            to: Namespace::new("db", "free"),
        },
        Change::RenameCollection {
            from: namespace(),
            to: namespace(),
        },
        Change::ModifyCollection {
            namespace: namespace(),
            before: other.clone(),
            after: one.clone(),
        },
    ];
    let before = store.clone();
    for change in wrong {
        assert!(store.apply(&change).is_err(), "{change:?}");
        assert_eq!(store, before, "{change:?}");
    }
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

    #[test]
    fn changes_reproduce_the_store_on_a_replica_and_can_be_reverted(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (mut primary, mut replica) = (Store::new(), Store::new());
        let mut history = vec![primary.clone()];
        let mut log = Vec::new();
        for step in &steps {
            let before = primary.clone();
            let succeeded = run(&mut primary, step);
            prop_assert!(succeeded || !is_atomic(step) || primary == before);
            let made = primary.take_changes();
            for change in &made {
                prop_assert_eq!(replica.apply(change), Ok(()));
            }
            prop_assert_eq!(&replica, &primary);
            for (_, collection) in primary.collections() {
                prop_assert_eq!(collection.check_indexes(), Ok(()));
            }
            log.push(made);
            history.push(primary.clone());
        }
        for made in log.iter().rev() {
            history.pop();
            made.iter().rev().for_each(|change| replica.revert(change));
            prop_assert_eq!(Some(&replica), history.last());
        }
    }
}
