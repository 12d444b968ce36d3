//! Tests of statements of transactions that are executed in parts.

use super::{
    parts::{DOCUMENTS, begin, both, count, expensive, filled_set, go_on, run},
    world::{World, send},
};
use crate::deployment::ConnId;
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use std::time::Duration;

/// The least number of pauses of a long statement in these tests.
const PAUSES: u32 = 3;

/// Adds the fields of the transaction of a session to a command.
pub(super) fn of(session: u8, mut command: Document) -> Document {
    let id = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![session; 16],
    };
    command.extend(doc! { "lsid": { "id": id }, "txnNumber": 1_i64, "autocommit": false });
    command
}

/// Makes a command the first statement of the transaction of a session.
pub(super) fn first(session: u8, command: Document) -> Document {
    let mut command = of(session, command);
    command.insert("startTransaction", true);
    command
}

pub(super) fn commit(session: u8) -> Document {
    of(session, doc! { "commitTransaction": 1, "$db": "admin" })
}

/// Sets a field of all documents.
fn all() -> Document {
    let updates = vec![doc! { "q": {}, "u": { "$set": { "t": 1 } }, "multi": true }];
    doc! { "update": "c", "updates": updates }
}

/// Sets a field of one document.
pub(super) fn one(id: i32) -> Document {
    let updates = vec![doc! { "q": { "_id": id }, "u": { "$set": { "one": 1 } } }];
    doc! { "update": "c", "updates": updates }
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

#[track_caller]
fn succeed(reply: &Document) {
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
}

/// Runs until all members have the same data, and compares it.
fn check_members(world: &mut World) {
    for _ in 0..1000 {
        go_on(world);
    }
    world.deployment.check_members().expect("equal data");
}

/// Starts a transaction with a long statement, which has paused. Returns the world, the connection
/// of the statement, and another one.
fn paused(options: Document) -> (World, ConnId, ConnId) {
    let (mut world, conn, other) = filled_set();
    let mut statement = first(1, all());
    statement.extend(options);
    begin(&mut world, conn, &statement);
    assert!(world.reply(conn).is_none(), "it has paused");
    (world, conn, other)
}

#[test]
fn long_statements_pause_and_commit_as_a_whole() {
    let (mut world, conn, other) = filled_set();
    let slow = vec![doc! { "q": expensive(), "u": { "$set": { "slow": 1 } }, "multi": true }];
    let fresh = |n: i32| doc! { "_id": -1 - n, "t": 1 };
    let delete = doc! { "q": { "_id": { "$gte": 1000 } }, "limit": 0 };
    for (command, n) in [
        (first(1, all()), DOCUMENTS),
        (of(1, doc! { "update": "c", "updates": slow }), DOCUMENTS),
        (
            of(
                1,
                doc! { "insert": "c", "documents": (0..1500).map(fresh).collect::<Vec<_>>() },
            ),
            1500,
        ),
        (of(1, doc! { "delete": "c", "deletes": [delete] }), 500),
    ] {
        let (reply, pauses) = run(&mut world, conn, other, &command);
        succeed(&reply);
        assert_eq!(reply.get_i32("n").ok(), Some(n), "{reply}");
        let name = command.keys().next();
        // Each document is looked at about once, not anew in each part.
        assert!((1..100).contains(&pauses), "{name:?} paused {pauses} times");
    }
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), 0);
    let (reply, _) = run(&mut world, conn, other, &commit(1));
    succeed(&reply);
    assert_eq!(count(&mut world, other, doc! { "slow": 1 }), 1000);
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), 2500);
    check_members(&mut world);
}

#[test]
fn a_conflict_in_a_later_part_aborts_the_transaction() {
    let (mut world, conn, other) = filled_set();
    succeed(&send(&mut world, other, first(2, one(1400))));
    let third = world.connect(world.deployment.primary().expect("a primary"));
    let (reply, pauses) = run(&mut world, conn, third, &first(1, all()));
    assert_eq!(code(&reply), Some(112), "{reply}");
    assert!(pauses >= PAUSES, "{pauses}");
    let reply = send(&mut world, conn, of(1, one(3)));
    assert_eq!(code(&reply), Some(251), "{reply}");
    succeed(&send(&mut world, conn, one(1)));
    succeed(&send(&mut world, other, commit(2)));
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), 0);
    check_members(&mut world);
}

#[test]
fn a_commit_waits_for_the_paused_statement_of_its_session() {
    let (mut world, conn, other) = paused(doc! {});
    begin(&mut world, other, &commit(1));
    assert!(world.reply(other).is_none(), "it waits");
    for reply in both(&mut world, conn, other) {
        succeed(&reply);
    }
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS);
    check_members(&mut world);
}

#[test]
fn a_commit_that_has_waited_has_the_error_of_its_fail_point() {
    let (mut world, conn, other) = paused(doc! {});
    let concern = doc! { "code": 91, "errmsg": "shutting down" };
    let data = doc! { "failCommands": ["commitTransaction"], "writeConcernError": concern };
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data, "$db": "admin",
    };
    succeed(&send(&mut world, other, point));
    begin(&mut world, other, &commit(1));
    assert!(world.reply(other).is_none(), "it waits");
    let [reply, committed] = both(&mut world, conn, other);
    succeed(&reply);
    succeed(&committed);
    let error = committed.get_document("writeConcernError").ok();
    let code = error.and_then(|error| error.get_i32("code").ok());
    assert_eq!(code, Some(91), "{committed}");
}

#[test]
fn a_statement_that_waits_for_another_one_ends_with_its_time_limit() {
    let (mut world, conn, other) = paused(doc! {});
    let mut limited = of(1, one(2));
    limited.insert("maxTimeMS", 20);
    begin(&mut world, other, &limited);
    world.run_for(Duration::from_millis(20));
    let (_, _, reply) = world.reply(other).expect("a reply");
    assert_eq!(code(&reply), Some(50), "{reply}");
    while world.reply(conn).is_none() {
        go_on(&mut world);
    }
    succeed(&send(&mut world, conn, commit(1)));
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS);
}

#[test]
fn a_killed_statement_aborts_its_transaction() {
    let (mut world, conn, other) = paused(doc! {});
    let current = send(
        &mut world,
        other,
        doc! { "currentOp": 1, "$db": "admin", "command.update": "c" },
    );
    let running = current.get_array("inprog").expect("operations");
    let found = running.first().and_then(Bson::as_document);
    let number = found.and_then(|found| found.get_i32("opid").ok());
    let number = number.expect("the paused operation");
    let kill = doc! { "killOp": 1, "op": number, "$db": "admin" };
    succeed(&send(&mut world, other, kill));
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(code(&reply), Some(11601), "{reply}");
    let reply = send(&mut world, conn, commit(1));
    assert_eq!(code(&reply), Some(251), "{reply}");
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), 0);
}

#[test]
fn the_time_limit_of_a_statement_counts_its_parts_and_aborts_the_transaction() {
    let (mut world, conn, other) = paused(doc! { "maxTimeMS": 50 });
    world.run_for(Duration::from_millis(60));
    let mut steps = 0;
    let reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        steps += 1;
        assert!(steps < 100, "an end");
        go_on(&mut world);
    };
    assert_eq!(code(&reply), Some(50), "{reply}");
    let reply = send(&mut world, other, commit(1));
    assert_eq!(code(&reply), Some(251), "{reply}");
}

#[test]
fn the_time_limit_of_a_statement_counts_its_query() {
    let (mut world, conn, _) = filled_set();
    let updates = vec![doc! { "q": expensive(), "u": { "$set": { "t": 1 } }, "multi": true }];
    let mut update = first(1, doc! { "update": "c", "updates": updates });
    update.insert("maxTimeMS", 50);
    begin(&mut world, conn, &update);
    let job = world.deployment.poll_job(world.now).expect("a search");
    world.run_for(Duration::from_millis(30));
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    assert!(world.reply(conn).is_none(), "it has paused");
    world.run_for(Duration::from_millis(30));
    go_on(&mut world);
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(code(&reply), Some(50), "{reply}");
}

#[test]
fn a_query_whose_time_has_passed_or_whose_client_has_gone_aborts_its_transaction() {
    for disconnects in [false, true] {
        let (mut world, conn, other) = filled_set();
        let mut find = first(1, doc! { "find": "c", "filter": expensive() });
        find.insert("maxTimeMS", 50);
        begin(&mut world, conn, &find);
        let _job = world.deployment.poll_job(world.now).expect("a query");
        if disconnects {
            world.deployment.handle_disconnected(world.now, conn);
        } else {
            world.run_for(Duration::from_millis(50));
            let (_, _, reply) = world.reply(conn).expect("a reply");
            assert_eq!(code(&reply), Some(50), "{reply}");
        }
        world.drain();
        let reply = send(&mut world, other, of(1, one(1)));
        assert_eq!(code(&reply), Some(251), "{disconnects}: {reply}");
    }
}

#[test]
fn the_panic_of_a_query_aborts_its_transaction() {
    let (mut world, conn, other) = filled_set();
    let find = first(1, doc! { "find": "c", "filter": expensive() });
    begin(&mut world, conn, &find);
    let job = world.deployment.poll_job(world.now).expect("a query");
    let panicked = job.key().panicked();
    world.deployment.handle_job_done(world.now, panicked);
    world.drain();
    let reply = send(&mut world, other, of(1, one(1)));
    assert_eq!(code(&reply), Some(251), "{reply}");
}

#[test]
fn a_step_down_ends_a_paused_statement() {
    let (mut world, conn, other) = paused(doc! {});
    let down = doc! { "replSetStepDown": 60, "force": true, "$db": "admin" };
    begin(&mut world, other, &down);
    let mut steps = 0;
    let reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        go_on(&mut world);
        steps += 1;
        assert!(steps < 100_000, "an end");
    };
    assert_eq!(code(&reply), Some(11602), "{reply}");
}

#[test]
fn queries_in_a_transaction_become_jobs_and_see_its_changes() {
    let (mut world, conn, other) = filled_set();
    let (reply, _) = run(&mut world, conn, other, &first(1, all()));
    succeed(&reply);
    let changed = doc! { "$and": [expensive(), { "t": 1 }] };
    let stages = vec![doc! { "$match": changed.clone() }, doc! { "$count": "n" }];
    let aggregate = doc! { "aggregate": "c", "pipeline": stages, "cursor": {} };
    let distinct = doc! { "distinct": "c", "key": "t", "query": changed.clone() };
    let find = doc! { "find": "c", "filter": changed, "limit": 1, "skip": 1400 };
    for command in [aggregate, distinct, find] {
        begin(&mut world, conn, &of(1, command.clone()));
        let job = world.deployment.poll_job(world.now).expect("a job");
        world.deployment.handle_job_done(world.now, job.run());
        world.drain();
        let (_, _, reply) = world.reply(conn).expect("a reply");
        succeed(&reply);
        let values = reply.get_array("values").ok();
        let batch = reply.get_document("cursor").ok();
        let batch = batch.and_then(|cursor| cursor.get_array("firstBatch").ok());
        let found = values.or(batch).expect("a result");
        assert_eq!(found.len(), 1, "{command}");
    }
}
