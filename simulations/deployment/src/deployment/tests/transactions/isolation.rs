//! The data that a transaction sees, and the data that others see of it.

use super::{
    super::world::{send, with_primary},
    batch, check_members, client, find_all, insert, seen, set, succeed,
};
use bson::doc;
use std::time::Duration;

#[test]
fn nobody_else_sees_writes_before_the_commit() {
    let (mut world, _, conn) = with_primary();
    send(&mut world, conn, insert(&[doc! { "_id": 1 }]));
    let one = client(conn, 1);
    let reply = one.start(&mut world, insert(&[doc! { "_id": 2 }]));
    succeed(&reply);
    succeed(&one.go_on(&mut world, set(1, "a", 1)));
    let own = one.go_on(&mut world, find_all());
    assert_eq!(batch(&own), [doc! { "_id": 1, "a": 1 }, doc! { "_id": 2 }]);
    assert_eq!(seen(&mut world, conn), [doc! { "_id": 1 }], "no dirty read");
    let other = client(conn, 2);
    let reply = other.start(&mut world, find_all());
    assert_eq!(batch(&reply), [doc! { "_id": 1 }]);
    succeed(&one.commit(&mut world));
    assert_eq!(seen(&mut world, conn).len(), 2);
    let reply = other.go_on(&mut world, find_all());
    assert_eq!(batch(&reply), [doc! { "_id": 1 }], "the snapshot stays");
    succeed(&other.commit(&mut world));
    check_members(&mut world);
}

#[test]
fn an_aborted_transaction_leaves_no_trace() {
    let (mut world, primary, conn) = with_primary();
    send(&mut world, conn, insert(&[doc! { "_id": 1 }]));
    world.run_for(Duration::from_secs(1));
    let before = world.deployment.store(primary).cloned();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 2 }])));
    let created = doc! { "insert": "new", "documents": [{ "_id": 1 }] };
    succeed(&one.go_on(&mut world, created));
    succeed(&one.abort(&mut world));
    assert_eq!(world.deployment.store(primary).cloned(), before);
    check_members(&mut world);
}

#[test]
fn all_reads_have_one_snapshot() {
    let (mut world, _, conn) = with_primary();
    let documents = [doc! { "_id": 1, "n": 50 }, doc! { "_id": 2, "n": 50 }];
    send(&mut world, conn, insert(&documents));
    let one = client(conn, 1);
    let of = |id: i32| doc! { "find": "c", "filter": { "_id": id } };
    let first = one.start(&mut world, of(1));
    let both = doc! { "update": "c", "updates": [
        { "q": { "_id": 1 }, "u": { "$set": { "n": 0 } } },
        { "q": { "_id": 2 }, "u": { "$set": { "n": 100 } } },
    ] };
    succeed(&send(&mut world, conn, both));
    let second = one.go_on(&mut world, of(2));
    let found = [batch(&first), batch(&second)].concat();
    assert_eq!(found, documents, "no read skew");
    succeed(&one.commit(&mut world));
}

#[test]
fn write_skew_is_possible() {
    let (mut world, _, conn) = with_primary();
    let documents = [doc! { "_id": 1, "on": true }, doc! { "_id": 2, "on": true }];
    send(&mut world, conn, insert(&documents));
    let (one, other) = (client(conn, 1), client(conn, 2));
    assert_eq!(batch(&one.start(&mut world, find_all())).len(), 2);
    assert_eq!(batch(&other.start(&mut world, find_all())).len(), 2);
    succeed(&one.go_on(&mut world, set(1, "on", false)));
    succeed(&other.go_on(&mut world, set(2, "on", false)));
    succeed(&one.commit(&mut world));
    succeed(&other.commit(&mut world));
    let found = seen(&mut world, conn);
    assert!(
        found.iter().all(|d| d.get_bool("on").ok() == Some(false)),
        "{found:?}"
    );
    check_members(&mut world);
}

#[test]
fn a_snapshot_can_be_of_an_earlier_time() {
    let (mut world, _, conn) = with_primary();
    let reply = send(&mut world, conn, insert(&[doc! { "_id": 1 }]));
    let time = reply.get_timestamp("operationTime").expect("a time");
    send(&mut world, conn, insert(&[doc! { "_id": 2 }]));
    let one = client(conn, 1);
    let mut read = find_all();
    let concern = doc! { "level": "snapshot", "atClusterTime": time };
    read.insert("readConcern", concern);
    let reply = one.start(&mut world, read);
    assert_eq!(batch(&reply), [doc! { "_id": 1 }]);
    succeed(&one.commit(&mut world));
    let mut read = find_all();
    read.insert("readConcern", doc! { "afterClusterTime": time });
    let reply = one.numbered(2).start(&mut world, read);
    assert_eq!(batch(&reply).len(), 2);
}

#[test]
fn the_changes_are_one_entry_of_the_oplog() {
    let (mut world, primary, conn) = with_primary();
    send(&mut world, conn, insert(&[doc! { "_id": 1 }]));
    let (_, before) = world.deployment.progress(primary).expect("a member");
    let one = client(conn, 1);
    one.start(&mut world, insert(&[doc! { "_id": 2 }]));
    one.go_on(&mut world, set(1, "a", 1));
    one.go_on(
        &mut world,
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] },
    );
    one.go_on(&mut world, insert(&[doc! { "_id": 3 }]));
    send(&mut world, conn, insert(&[doc! { "_id": 9 }]));
    succeed(&one.commit(&mut world));
    let (_, after) = world.deployment.progress(primary).expect("a member");
    assert_eq!(
        after,
        before + 2,
        "one entry, besides that of the other insert"
    );
    let found = seen(&mut world, conn);
    assert_eq!(
        found,
        [
            doc! { "_id": 1, "a": 1 },
            doc! { "_id": 3 },
            doc! { "_id": 9 }
        ]
    );
    check_members(&mut world);
}

#[test]
fn a_record_of_the_snapshot_can_be_replaced_by_an_insert() {
    let (mut world, _, conn) = with_primary();
    send(&mut world, conn, insert(&[doc! { "_id": 1 }]));
    let one = client(conn, 1);
    one.start(
        &mut world,
        doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] },
    );
    succeed(&one.go_on(&mut world, insert(&[doc! { "_id": 2 }])));
    send(&mut world, conn, insert(&[doc! { "_id": 7 }]));
    succeed(&one.go_on(&mut world, set(2, "a", 1)));
    let again = doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] };
    succeed(&one.go_on(&mut world, again));
    succeed(&one.go_on(&mut world, insert(&[doc! { "_id": 1, "b": 1 }])));
    succeed(&one.commit(&mut world));
    let found = seen(&mut world, conn);
    assert_eq!(found, [doc! { "_id": 1, "b": 1 }, doc! { "_id": 7 }]);
    check_members(&mut world);
}
