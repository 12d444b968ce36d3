//! Writes of the same documents.

use super::{
    super::world::{World, send, with_primary},
    TRANSIENT, batch, check_members, client, fail, find_all, insert, seen, set, succeed,
};
use crate::deployment::ConnId;
use bson::{Document, doc};
use std::time::Duration;

fn with_document() -> (World, ConnId) {
    let (mut world, _, conn) = with_primary();
    succeed(&send(
        &mut world,
        conn,
        insert(&[doc! { "_id": 1, "n": 0 }]),
    ));
    (world, conn)
}

fn add(n: i32) -> Document {
    doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": n } } }] }
}

#[test]
fn the_second_writer_of_a_document_is_aborted() {
    let (mut world, conn) = with_document();
    let (one, other) = (client(conn, 1), client(conn, 2));
    succeed(&one.start(&mut world, add(1)));
    fail(&other.start(&mut world, add(10)), 112, TRANSIENT);
    fail(&other.go_on(&mut world, find_all()), 251, TRANSIENT);
    fail(&other.commit(&mut world), 251, TRANSIENT);
    succeed(&one.commit(&mut world));
    assert_eq!(seen(&mut world, conn), [doc! { "_id": 1, "n": 1 }]);
    check_members(&mut world);
}

#[test]
fn no_update_is_lost() {
    let (mut world, conn) = with_document();
    let one = client(conn, 1);
    assert_eq!(batch(&one.start(&mut world, find_all())).len(), 1);
    succeed(&send(&mut world, conn, add(1)));
    fail(&one.go_on(&mut world, set(1, "n", 5)), 112, TRANSIENT);
    assert_eq!(seen(&mut world, conn), [doc! { "_id": 1, "n": 1 }]);
}

#[test]
fn a_write_outside_of_transactions_waits_for_their_end() {
    let (mut world, conn) = with_document();
    let one = client(conn, 1);
    let other = world.connect(world.deployment.primary().expect("a primary"));
    for (number, ends, expected) in [(1, "commitTransaction", 11), (2, "abortTransaction", 21)] {
        let one = one.numbered(number);
        succeed(&one.start(&mut world, add(1)));
        let mut plain = add(10);
        plain.insert("$db", "d");
        world.send(other, &plain);
        world.run_for(Duration::from_secs(5));
        assert!(world.reply(other).is_none(), "the write waits");
        succeed(&one.end(&mut world, ends));
        world.run_for(Duration::from_secs(5));
        let (_, _, reply) = world.reply(other).expect("a reply");
        succeed(&reply);
        assert_eq!(seen(&mut world, conn), [doc! { "_id": 1, "n": expected }]);
    }
    check_members(&mut world);
}

#[test]
fn a_waiting_write_ends_with_its_time_limit() {
    let (mut world, conn) = with_document();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, add(1)));
    let other = world.connect(world.deployment.primary().expect("a primary"));
    let mut limited = add(10);
    limited.insert("maxTimeMS", 500);
    let start = world.now;
    fail(&send(&mut world, other, limited), 50, &[]);
    assert_eq!(
        world.now.saturating_since(start),
        Duration::from_millis(500)
    );
    succeed(&one.commit(&mut world));
    assert_eq!(seen(&mut world, conn), [doc! { "_id": 1, "n": 1 }]);
}

#[test]
fn a_retryable_write_that_waits_is_done_once() {
    let (mut world, conn) = with_document();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, add(1)));
    let other = world.connect(world.deployment.primary().expect("a primary"));
    let mut retryable = add(10);
    retryable.extend(doc! { "lsid": super::lsid(7), "txnNumber": 1_i64, "$db": "d" });
    world.send(other, &retryable);
    world.run_for(Duration::from_secs(1));
    succeed(&one.commit(&mut world));
    world.run_for(Duration::from_secs(1));
    succeed(&world.reply(other).expect("a reply").2);
    let again = send(&mut world, other, retryable);
    assert!(again.contains_key("retriedStmtIds"), "{again}");
    assert_eq!(seen(&mut world, conn), [doc! { "_id": 1, "n": 11 }]);
    check_members(&mut world);
}

#[test]
fn unique_keys_are_checked_across_transactions() {
    let (mut world, conn) = with_document();
    let index = doc! { "key": { "u": 1 }, "name": "u_1", "unique": true };
    succeed(&send(
        &mut world,
        conn,
        doc! { "createIndexes": "c", "indexes": [index] },
    ));
    let (one, other) = (client(conn, 1), client(conn, 2));
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 5, "u": 5 }])));
    fail(
        &other.start(&mut world, insert(&[doc! { "_id": 5, "u": 6 }])),
        112,
        TRANSIENT,
    );
    let other = other.numbered(2);
    fail(
        &other.start(&mut world, insert(&[doc! { "_id": 6, "u": 5 }])),
        112,
        TRANSIENT,
    );
    let other = other.numbered(3);
    succeed(&other.start(&mut world, find_all()));
    succeed(&one.commit(&mut world));
    // The key was committed after the snapshot.
    fail(
        &other.go_on(&mut world, insert(&[doc! { "_id": 6, "u": 5 }])),
        112,
        TRANSIENT,
    );
    let other = other.numbered(4);
    let reply = other.start(&mut world, insert(&[doc! { "_id": 6, "u": 5 }]));
    assert!(
        reply.contains_key("writeErrors"),
        "the key is visible: {reply}"
    );
    fail(&other.commit(&mut world), 251, TRANSIENT);
    check_members(&mut world);
}

#[test]
fn a_unique_key_can_move_within_a_transaction() {
    let (mut world, conn) = with_document();
    let index = doc! { "key": { "u": 1 }, "name": "u_1", "unique": true };
    send(
        &mut world,
        conn,
        doc! { "createIndexes": "c", "indexes": [index] },
    );
    send(&mut world, conn, insert(&[doc! { "_id": 2, "u": 2 }]));
    let one = client(conn, 1);
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] };
    succeed(&one.start(&mut world, delete));
    succeed(&one.go_on(&mut world, insert(&[doc! { "_id": 2, "u": 3 }])));
    succeed(&one.go_on(&mut world, insert(&[doc! { "_id": 3, "u": 2 }])));
    let outside = send(&mut world, conn, insert(&[doc! { "_id": 4, "u": 2 }]));
    assert!(outside.contains_key("writeErrors"), "{outside}");
    succeed(&one.commit(&mut world));
    assert_eq!(seen(&mut world, conn).len(), 3);
    check_members(&mut world);
}

#[test]
fn a_command_that_changes_the_catalog_waits() {
    let (mut world, conn) = with_document();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, find_all()));
    let other = world.connect(world.deployment.primary().expect("a primary"));
    world.send(other, &doc! { "drop": "c", "$db": "d" });
    world.run_for(Duration::from_secs(1));
    assert!(world.reply(other).is_none(), "the drop waits");
    // A transaction that does not use the collection yet waits for the drop, but not for long.
    let late = client(conn, 2);
    let start = world.now;
    fail(&late.start(&mut world, find_all()), 24, TRANSIENT);
    assert_eq!(world.now.saturating_since(start), Duration::from_millis(5));
    fail(&late.commit(&mut world), 251, TRANSIENT);
    succeed(&one.go_on(&mut world, set(1, "a", 1)));
    succeed(&one.commit(&mut world));
    world.run_for(Duration::from_secs(1));
    succeed(&world.reply(other).expect("a reply").2);
    assert_eq!(seen(&mut world, conn), [] as [Document; 0]);
    check_members(&mut world);
}

#[test]
fn the_time_for_a_lock_can_be_set() {
    let (mut world, conn) = with_document();
    let parameter = doc! {
        "setParameter": 1, "maxTransactionLockRequestTimeoutMillis": 2_000, "$db": "admin",
    };
    let reply = send(&mut world, conn, parameter);
    assert_eq!(reply.get_i32("was").ok(), Some(5), "{reply}");
    let (one, late) = (client(conn, 1), client(conn, 2));
    succeed(&one.start(&mut world, find_all()));
    let third = world.connect(world.deployment.primary().expect("a primary"));
    let other = world.connect(world.deployment.primary().expect("a primary"));
    let index = doc! { "key": { "u": 1 }, "name": "u_1" };
    world.send(
        other,
        &doc! { "createIndexes": "c", "indexes": [index], "$db": "d" },
    );
    let mut statement = late.starting(set(1, "a", 1));
    statement.insert("$db", "d");
    world.send(third, &statement);
    world.run_for(Duration::from_secs(1));
    assert!(world.reply(third).is_none(), "the statement waits");
    succeed(&one.commit(&mut world));
    world.run_for(Duration::from_secs(1));
    succeed(&world.reply(other).expect("a reply").2);
    // The snapshot precedes the new index.
    fail(&world.reply(third).expect("a reply").2, 112, TRANSIENT);
    check_members(&mut world);
}

#[test]
fn a_changed_catalog_is_a_conflict() {
    let (mut world, conn) = with_document();
    let one = client(conn, 1);
    let other = doc! { "find": "other", "filter": {} };
    succeed(&one.start(&mut world, other));
    succeed(&send(&mut world, conn, doc! { "drop": "c" }));
    succeed(&send(&mut world, conn, insert(&[doc! { "_id": 2 }])));
    let reply = one.go_on(&mut world, find_all());
    assert_eq!(
        batch(&reply),
        [doc! { "_id": 1, "n": 0 }],
        "the catalog of the snapshot"
    );
    fail(&one.go_on(&mut world, set(1, "n", 1)), 112, TRANSIENT);
}

#[test]
fn two_transactions_cannot_create_the_same_collection() {
    let (mut world, conn) = with_document();
    let create = |id: i32| doc! { "insert": "new", "documents": [{ "_id": id }] };
    let (one, other) = (client(conn, 1), client(conn, 2));
    succeed(&one.start(&mut world, create(1)));
    fail(&other.start(&mut world, create(2)), 112, TRANSIENT);
    let third = world.connect(world.deployment.primary().expect("a primary"));
    let mut outside = create(3);
    outside.insert("$db", "d");
    world.send(third, &outside);
    world.run_for(Duration::from_secs(1));
    assert!(world.reply(third).is_none(), "the insert waits");
    succeed(&one.commit(&mut world));
    world.run_for(Duration::from_secs(1));
    succeed(&world.reply(third).expect("a reply").2);
    let reply = send(&mut world, conn, doc! { "find": "new", "filter": {} });
    assert_eq!(batch(&reply), [doc! { "_id": 1 }, doc! { "_id": 3 }]);
    check_members(&mut world);
}
