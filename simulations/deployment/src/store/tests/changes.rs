//! Tests of changes: applied on another store, reverted, undone and refused.

use super::*;

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
                hint: None,
                collation: None,
            };
            store.delete(&ns, &[statement], true, e).is_ok()
        }
        Step::Modify(modification, fails) => {
            let command = FindAndModify {
                filter: doc! {},
                sort: None,
                projection: fails.then(|| doc! { "q": { "$divide": [1, "$a"] } }),
                modification: modification.clone(),
                collation: None,
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
            let set = doc! { "$set": { "_id": "$a" } };
            aggregates(store, &[set, doc! { "$out": "e" }], e)
        }
        Step::Merge(matched, other) => {
            let merge = doc! { "into": "e", "whenMatched": matched, "whenNotMatched": other };
            aggregates(store, &[doc! { "$merge": merge }], e)
        }
        Step::Collection(capped) => {
            let options = doc! { "capped": capped, "size": 100, "max": 2 };
            store.create_collection(&ns, options).is_ok()
        }
        Step::Panic(id) => panics(store, *id),
    })
}

fn aggregates(store: &mut Store, stages: &[Document], e: &mut Environment<'_>) -> bool {
    let done = store.aggregate("db", Some("c"), stages, None, None, e);
    done.is_ok()
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
        bypasses_validation: false,
        keeps_empty_timestamps: false,
        max_steps: None,
        parts: Parts::default(),
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

/// Returns changes that do not fit a collection of one document and one index.
fn wrong_changes() -> Vec<Change> {
    let missing = || Namespace::new("db", "missing");
    let one = Arc::new(doc! { "_id": 1, "a": 1 });
    let other = Arc::new(doc! { "_id": 2 });
    let replace = |namespace, record, before: &Shared| Change::Replace {
        namespace,
        record,
        before: before.clone(),
        after: other.clone(),
        origin: Origin::default(),
        style: UpdateStyle::Replacement,
    };
    let delete = |namespace, record, document: &Shared| Change::Delete {
        namespace,
        record,
        document: document.clone(),
        origin: Origin::default(),
    };
    let insert_of = |namespace, record, document: &Shared| Change::Insert {
        namespace,
        record,
        document: document.clone(),
        origin: Origin::default(),
    };
    let drop_index = |position, specification| Change::DropIndex {
        namespace: namespace(),
        specification,
        position,
        serial: 1,
    };
    vec![
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
        Change::FillCollection {
            namespace: namespace(),
            contents: Arc::new(Collection::new(Arc::default(), 1)),
        },
        Change::RenameCollection {
            from: missing(),
            to: Namespace::new("db", "free"),
            serial: 1,
        },
        Change::RenameCollection {
            from: namespace(),
            to: namespace(),
            serial: 1,
        },
        Change::ModifyCollection {
            namespace: namespace(),
            before: other.clone(),
            after: one.clone(),
            serial: 1,
        },
    ]
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
    let mut wrong = wrong_changes();
    wrong.extend([create.clone(), insert.clone(), index.clone()]);
    let before = store.clone();
    for change in wrong {
        assert!(store.apply(&change).is_err(), "{change:?}");
        assert_eq!(store, before, "{change:?}");
    }
}

#[test]
fn an_out_in_parts_reaches_a_replica_and_can_be_reverted() {
    let mut store = filled(vec![doc! { "_id": 1, "a": 1 }]);
    let index = doc! { "key": { "a": 1 } };
    store.create_indexes(&namespace(), &[index]).expect("built");
    let mut replica = Store::new();
    for change in store.take_changes() {
        replica.apply(&change).expect("it fits");
    }
    let before = replica.clone();
    for target in ["c", "new"] {
        let documents = vec![Shared::new(doc! { "_id": 2, "a": 3 })];
        let outputs = store.outputs(namespace(), &doc! { "$out": target }, documents);
        let mut outputs = outputs.expect("a target");
        with(|e| store.write_some(&mut outputs, e)).expect("written");
        assert!(outputs.is_complete());
    }
    assert_eq!(
        contents(&store, &Find::default()),
        [doc! { "_id": 2, "a": 3 }]
    );
    assert_eq!(store.list_indexes(&namespace()).expect("a list").len(), 2);
    let made = store.take_changes();
    for change in &made {
        replica.apply(change).expect("it fits");
    }
    assert_eq!(replica, store);
    assert_eq!(replica.bytes(), store.bytes());
    made.iter().rev().for_each(|change| replica.revert(change));
    assert_eq!(replica, before);
    assert_eq!(replica.bytes(), before.bytes());
}

proptest! {
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
