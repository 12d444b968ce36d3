//! Tests of transactions that commit in parts.

use super::*;

/// A store with documents, and the changes of a transaction on a copy of it: each document is
/// updated, others are inserted, and a collection is created.
fn transaction() -> (Store, Arc<Vec<Change>>) {
    let mut store = filled((0..500).map(|n| doc! { "_id": n }).collect());
    let _ = store.take_changes();
    let mut copy = store.clone();
    let update = UpdateStatement {
        filter: doc! {},
        update: Update::Document(doc! { "$set": { "a": 1 } }),
        multi: true,
        upsert: false,
        array_filters: vec![],
        sort: None,
        hint: None,
        collation: None,
        constants: None,
    };
    let new = |from: i32| (from..from + 500).map(|n| doc! { "_id": n }).collect();
    let created = Namespace::new("db", "created");
    with(|e| copy.update(&namespace(), &[update], true, e)).expect("an update");
    with(|e| copy.insert(&namespace(), new(1000), true, e)).expect("an insert");
    with(|e| copy.insert(&created, new(0), true, e)).expect("an insert");
    (store, Arc::new(copy.take_changes()))
}

fn part() -> Parts {
    Parts {
        pause_after: Some(20_000),
        ..Parts::default()
    }
}

#[test]
fn a_merge_in_parts_is_seen_at_its_end_and_equals_a_whole_one() {
    let (mut store, changes) = transaction();
    let mut whole = store.clone();
    whole.merge(&changes).expect("the changes fit");
    let before = store.clone();
    let mut merge = store.begin_merge(changes);
    let mut pauses = 0;
    while !merge.go_on(&part()).expect("the changes fit") {
        pauses += 1;
        assert_eq!(store, before);
        assert!(!store.has_changes());
    }
    assert!(pauses >= 2, "{pauses}");
    store.publish(&mut merge).expect("room");
    assert_eq!(store, whole);
    assert_eq!(store.bytes(), whole.bytes());
    let changes = store.take_changes();
    assert_eq!(changes, whole.take_changes());
    changes.iter().rev().for_each(|change| store.revert(change));
    assert_eq!(store, before);
}

#[test]
fn the_indexes_of_a_collection_decide_whether_a_merge_is_short() {
    let mut store = filled((0..300).map(|n| doc! { "_id": n }).collect());
    let _ = store.take_changes();
    let mut copy = store.clone();
    let new = (1000..1300).map(|n| doc! { "_id": n }).collect();
    with(|e| copy.insert(&namespace(), new, true, e)).expect("an insert");
    let changes = copy.take_changes();
    assert!(store.merges_in(&part(), &changes));
    for field in ["a", "b", "c", "d", "e"] {
        let created = store.create_indexes(&namespace(), &[doc! { "key": { field: 1 } }]);
        assert!(created.is_ok(), "{created:?}");
    }
    assert!(!store.merges_in(&part(), &changes));
}

#[test]
fn a_collection_that_is_created_beside_a_merge_has_its_own_serial_number() {
    let (mut store, changes) = transaction();
    let mut merge = store.begin_merge(changes);
    let other = Namespace::new("db", "other");
    let done = with(|e| store.insert(&other, vec![doc! { "_id": 1 }], true, e));
    assert_eq!(done.expect("an insert").inserted, 1);
    let _ = store.take_changes();
    assert!(merge.go_on(&Parts::default()).expect("the changes fit"));
    store.publish(&mut merge).expect("room");
    let serials =
        ["c", "created", "other"].map(|name| store.serial_of(&Namespace::new("db", name)));
    let distinct: std::collections::BTreeSet<u64> = serials.into_iter().collect();
    assert_eq!(distinct.len(), 3, "{serials:?}");
}

#[test]
fn a_merge_that_exceeds_the_limit_changes_nothing() {
    let (mut store, changes) = transaction();
    store.set_limit(store.bytes() + 1000);
    let before = store.clone();
    let mut merge = store.begin_merge(changes);
    assert!(merge.go_on(&Parts::default()).expect("the changes fit"));
    let error = store.publish(&mut merge).expect_err("no room");
    assert_eq!(error.code, 14031);
    assert_eq!(store, before);
    assert!(!store.has_changes());
}
