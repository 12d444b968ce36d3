//! Tests of writes that are executed in parts while transactions are open.

use super::{
    parts::{DOCUMENTS, begin, both, count, documents, filled_set, go_on, numbered, run},
    paused_transactions::{commit, first, one},
    world::{World, send},
};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};
use std::time::Duration;

/// A set with documents and a transaction that has changed one of them, and three connections. The
/// transaction uses the last one.
fn with_transaction() -> (World, ConnId, ConnId, ConnId) {
    let (mut world, conn, other) = filled_set();
    let primary = world.deployment.primary().expect("a primary");
    let third = world.connect(primary);
    let reply = send(&mut world, third, first(1, one(1400)));
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    (world, conn, other, third)
}

fn finish(world: &mut World, conn: ConnId) -> Document {
    for _ in 0..10_000 {
        if let Some((_, _, reply)) = world.reply(conn) {
            return reply;
        }
        go_on(world);
    }
    panic!("the command goes on");
}

#[track_caller]
fn succeed(reply: &Document) {
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
}

fn check_members(world: &mut World) {
    for _ in 0..1000 {
        go_on(world);
    }
    world.deployment.check_members().expect("equal data");
}

#[test]
fn only_the_part_that_conflicts_waits_for_the_transaction() {
    let (mut world, conn, other, third) = with_transaction();
    let updates = vec![doc! { "q": {}, "u": { "$inc": { "p": 1 } }, "multi": true }];
    let update = doc! { "update": "c", "updates": updates };
    begin(&mut world, conn, &update);
    for _ in 0..200 {
        go_on(&mut world);
    }
    assert!(world.reply(conn).is_none(), "it waits");
    let done = count(&mut world, other, doc! { "p": 1 });
    assert!((500..1400).contains(&done), "{done}");
    succeed(&send(&mut world, third, commit(1)));
    let reply = finish(&mut world, conn);
    succeed(&reply);
    assert_eq!(reply.get_i32("nModified").ok(), Some(DOCUMENTS), "{reply}");
    assert_eq!(count(&mut world, other, doc! { "p": 1 }), DOCUMENTS);
    assert_eq!(count(&mut world, other, doc! { "one": 1 }), 1);
    check_members(&mut world);
}

#[test]
fn writes_pause_while_a_transaction_is_open() {
    let (mut world, conn, other, third) = with_transaction();
    let each = |n: i32| doc! { "q": { "_id": n }, "u": { "$set": { "each": n } } };
    let each: Vec<_> = (0..1000).map(each).collect();
    let into = |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    for command in [
        doc! { "insert": "fresh", "documents": documents() },
        doc! { "update": "c", "updates": each },
        into(doc! { "$merge": { "into": "merged" } }),
        into(doc! { "$out": "copy" }),
        doc! { "delete": "fresh", "deletes": [{ "q": {}, "limit": 0 }] },
    ] {
        let (reply, pauses) = run(&mut world, conn, other, &command);
        succeed(&reply);
        let name = command.keys().next();
        assert!(pauses > 0, "{name:?} has not paused");
    }
    for (name, expected) in [("fresh", 0), ("merged", DOCUMENTS), ("copy", DOCUMENTS)] {
        let (reply, _) = run(&mut world, conn, other, &doc! { "count": name });
        assert_eq!(reply.get_i32("n").ok(), Some(expected), "{name}: {reply}");
    }
    assert_eq!(count(&mut world, other, doc! { "each": 999 }), 1);
    succeed(&send(&mut world, third, commit(1)));
    check_members(&mut world);
}

#[test]
fn a_retryable_write_that_waits_in_a_later_part_is_executed_once() {
    let (mut world, conn, other, third) = with_transaction();
    let each = |n: i32| doc! { "q": { "_id": n }, "u": { "$inc": { "p": 1 } } };
    let each: Vec<_> = (0..DOCUMENTS).map(each).collect();
    let update = numbered(doc! { "update": "c", "updates": each });
    begin(&mut world, conn, &update);
    for _ in 0..200 {
        go_on(&mut world);
    }
    assert!(world.reply(conn).is_none(), "it waits");
    begin(&mut world, other, &update);
    succeed(&send(&mut world, third, commit(1)));
    for reply in both(&mut world, conn, other) {
        succeed(&reply);
        assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    }
    assert_eq!(count(&mut world, other, doc! { "p": 1 }), DOCUMENTS);
    check_members(&mut world);
}

#[test]
fn an_out_waits_for_a_transaction_that_uses_its_target() {
    let (mut world, conn, other) = filled_set();
    let old = doc! { "insert": "copy", "documents": [{ "_id": -1, "old": true }] };
    succeed(&send(&mut world, other, old));
    let insert = doc! { "insert": "copy", "documents": [{ "_id": -2 }] };
    succeed(&send(&mut world, other, first(1, insert)));
    let out = doc! { "aggregate": "c", "pipeline": [{ "$out": "copy" }], "cursor": {} };
    begin(&mut world, conn, &out);
    for _ in 0..200 {
        go_on(&mut world);
    }
    assert!(world.reply(conn).is_none(), "it waits");
    let third = world.connect(world.deployment.primary().expect("a primary"));
    let (reply, _) = run(&mut world, third, other, &doc! { "count": "copy" });
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    succeed(&send(&mut world, other, commit(1)));
    succeed(&finish(&mut world, conn));
    let (reply, _) = run(&mut world, third, other, &doc! { "count": "copy" });
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    check_members(&mut world);
}

/// An update of all documents that waits for a transaction, after it has changed some of them.
fn waiting(options: Document) -> (World, ConnId, ConnId, ConnId) {
    let (mut world, conn, other, third) = with_transaction();
    let updates = vec![doc! { "q": {}, "u": { "$inc": { "p": 1 } }, "multi": true }];
    let mut update = doc! { "update": "c", "updates": updates };
    update.extend(options);
    begin(&mut world, conn, &update);
    for _ in 0..200 {
        go_on(&mut world);
    }
    assert!(world.reply(conn).is_none(), "it waits");
    (world, conn, other, third)
}

#[test]
fn a_write_that_waits_in_a_later_part_goes_on_after_its_client_has_disconnected() {
    let (mut world, conn, other, third) = waiting(doc! {});
    world.deployment.handle_disconnected(world.now, conn);
    assert_eq!(world.deployment.connections(), 3, "the write goes on");
    succeed(&send(&mut world, third, commit(1)));
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    assert_eq!(world.deployment.connections(), 2);
    assert_eq!(count(&mut world, other, doc! { "p": 1 }), DOCUMENTS);
    check_members(&mut world);
}

#[test]
fn a_connection_whose_write_ends_while_it_waits_for_a_transaction_is_forgotten() {
    let (mut world, conn, _, _) = waiting(doc! { "maxTimeMS": 5000 });
    world.deployment.handle_disconnected(world.now, conn);
    assert_eq!(world.deployment.connections(), 3, "the write goes on");
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.deployment.connections(), 2);
}

#[test]
fn a_write_that_waits_for_a_transaction_can_be_killed() {
    let mut session = numbered(doc! {});
    session.remove("txnNumber");
    let id = session.get_document("lsid").expect("a session").clone();
    for is_of_session in [false, true] {
        let (mut world, conn, other, _) = waiting(session.clone());
        let current = doc! { "currentOp": 1, "$db": "admin", "command.update": "c" };
        let current = send(&mut world, other, current);
        let running = current.get_array("inprog").expect("operations");
        let found = running.first().and_then(Bson::as_document);
        let number = found.and_then(|found| found.get_i32("opid").ok());
        let kill = match is_of_session {
            true => doc! { "killSessions": [id.clone()], "$db": "admin" },
            false => doc! { "killOp": 1, "op": number, "$db": "admin" },
        };
        succeed(&send(&mut world, other, kill));
        let (_, _, reply) = world.reply(conn).expect("an answer at once");
        assert_eq!(reply.get_i32("code").ok(), Some(11601), "{reply}");
    }
}

#[test]
fn a_killed_command_that_waits_to_change_the_catalog_delays_no_statement() {
    let (mut world, conn, other, third) = with_transaction();
    let parameter = doc! {
        "setParameter": 1, "maxTransactionLockRequestTimeoutMillis": -1, "$db": "admin",
    };
    succeed(&send(&mut world, third, parameter));
    let hello = send(&mut world, conn, doc! { "hello": 1, "$db": "admin" });
    let number = hello.get_i32("connectionId").expect("a number");
    begin(&mut world, conn, &doc! { "drop": "c" });
    assert!(world.reply(conn).is_none(), "it waits for the transaction");
    begin(&mut world, other, &first(2, one(3)));
    assert!(
        world.reply(other).is_none(),
        "it waits for the other command"
    );
    let kill = doc! { "killOp": 1, "op": number, "$db": "admin" };
    succeed(&send(&mut world, third, kill));
    let (_, _, reply) = world.reply(conn).expect("an answer at once");
    assert_eq!(reply.get_i32("code").ok(), Some(11601), "{reply}");
    let (_, _, reply) = world.reply(other).expect("an answer at once");
    succeed(&reply);
}
