//! Tests of write commands that are executed in parts.

use super::world::{World, of_release, send, set_of, standalone};
use crate::{
    deployment::{ConnId, DeploymentOptions},
    store::Namespace,
};
use bson::{Binary, Document, doc, spec::BinarySubtype};
use onionskin_core::address::Address;
use std::time::Duration;

pub(super) const DOCUMENTS: i32 = 1500;

/// A filter that is expensive for each document.
pub(super) fn expensive() -> Document {
    let sum = doc! { "$sum": { "$range": [0, 100] } };
    doc! { "$expr": { "$gte": [sum, "$n"] } }
}

/// Sends a command, and runs its jobs and parts until the reply. Another client sends a ping
/// between any two of them. Returns the reply and the number of pings.
pub(super) fn run(
    world: &mut World,
    conn: ConnId,
    other: ConnId,
    command: &Document,
) -> (Document, u32) {
    begin(world, conn, command);
    let mut pings = 0;
    loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            return (reply, pings);
        }
        assert!(pings < 10_000, "the command goes on");
        pings += 1;
        begin(world, other, &doc! { "ping": 1 });
        let (_, _, reply) = world.reply(other).expect("an answer at once");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        go_on(world);
    }
}

pub(super) fn begin(world: &mut World, conn: ConnId, command: &Document) {
    let mut command = command.clone();
    if !command.contains_key("$db") {
        command.insert("$db", "d");
    }
    world.send(conn, &command);
    world.drain();
}

/// Runs the next job or part, or lets the other members go on.
pub(super) fn go_on(world: &mut World) {
    if let Some(job) = world.deployment.poll_job(world.now) {
        world.deployment.handle_job_done(world.now, job.run());
    } else if world.deployment.has_parts() {
        world.deployment.run_part(world.now);
    } else {
        world.run_for(Duration::from_millis(1));
    }
    world.drain();
}

pub(super) fn documents() -> Vec<Document> {
    let document =
        |n: i32| doc! { "_id": n, "n": n % 7, "a": [n, n + 1], "k": n, "s": "x".repeat(50) };
    (0..DOCUMENTS).map(document).collect()
}

/// Write commands, and whether each is so long that it must be executed in parts.
fn writes() -> Vec<(Document, bool)> {
    let all = doc! { "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true };
    let few = doc! { "q": { "_id": { "$lt": 5 } }, "u": { "$inc": { "n": 1 } }, "multi": true };
    let slow = doc! { "q": expensive(), "u": { "$set": { "b": 1 } }, "multi": true };
    let one = doc! { "q": { "$and": [expensive(), { "_id": 1490 }] }, "u": { "$set": { "c": 1 } } };
    let none = doc! {
        "q": { "$and": [expensive(), { "s": "none" }] }, "u": { "$set": { "c": 1 } },
        "upsert": true, "multi": true,
    };
    let failing = doc! { "q": {}, "u": { "$inc": { "mixed": 1 } }, "multi": true };
    let each = |n: i32| doc! { "q": { "_id": n }, "u": { "$set": { "each": n } } };
    let each: Vec<_> = (0..1000).map(each).collect();
    let sorted = doc! {
        "findAndModify": "c", "query": expensive(), "sort": { "a": -1 },
        "update": { "$set": { "top": true } }, "new": true, "fields": { "top": 1 },
    };
    let set = doc! { "$set": { "w": 1 } };
    let operations = vec![
        doc! { "update": 0, "filter": expensive(), "updateMods": set, "multi": true },
        doc! { "insert": 0, "document": { "_id": "bulk", "n": 1 } },
        doc! { "delete": 0, "filter": { "$and": [expensive(), { "n": 3 }] }, "multi": true },
    ];
    vec![
        (doc! { "insert": "c", "documents": documents() }, true),
        (
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
            true,
        ),
        (doc! { "update": "c", "updates": [few.clone()] }, false),
        (
            doc! { "update": "c", "updates": [few, all.clone(), slow, one, none, all] },
            true,
        ),
        (doc! { "update": "c", "updates": each }, true),
        (
            doc! { "update": "c", "updates": [{
                "q": { "_id": 1200 }, "u": { "$set": { "mixed": "text" } },
            }] },
            false,
        ),
        (doc! { "update": "c", "updates": [failing] }, true),
        (sorted, true),
        (
            doc! { "bulkWrite": 1, "ops": operations, "nsInfo": [{ "ns": "d.c" }], "$db": "admin" },
            true,
        ),
        (
            doc! { "delete": "c", "deletes": [{ "q": expensive(), "limit": 1 }] },
            false,
        ),
        (
            doc! { "delete": "c", "deletes": [
                { "q": { "$and": [expensive(), { "_id": { "$gt": 100 } }] }, "limit": 0 },
            ] },
            true,
        ),
    ]
}

#[test]
fn commands_in_parts_have_the_effects_and_replies_of_whole_ones() {
    let (mut whole, of_whole) = of_release([8, 0, 4]);
    let (mut world, conn) = of_release([8, 0, 4]);
    world.deployment.run_jobs();
    let other = world.connect(0);
    for (command, is_long) in writes() {
        let expected = send(&mut whole, of_whole, command.clone());
        let (reply, pings) = run(&mut world, conn, other, &command);
        let without_ids = |mut reply: Document| {
            for upserted in reply.get_array_mut("upserted").into_iter().flatten() {
                if let Some(upserted) = upserted.as_document_mut() {
                    upserted.remove("_id");
                }
            }
            reply
        };
        let name = command.keys().next();
        assert_eq!(without_ids(reply), without_ids(expected), "{name:?}");
        assert_eq!(pings > 0, is_long, "{name:?} paused {pings} times");
    }
    let name = Namespace::new("d", "c");
    let content = |world: &World| {
        let store = world.deployment.store(0).expect("a member");
        let collection = store.collection(&name).expect("the collection");
        let documents = collection.documents();
        let known = documents.filter(|document| document.get_object_id("_id").is_err());
        known
            .map(|document| Document::clone(document))
            .collect::<Vec<_>>()
    };
    assert_eq!(content(&world), content(&whole));
}

/// A standalone that executes commands in parts, with documents, and two connections.
pub(super) fn filled() -> (World, ConnId, ConnId) {
    let (mut world, conn) = standalone();
    world.deployment.run_jobs();
    let other = world.connect(0);
    let insert = doc! { "insert": "c", "documents": documents() };
    let (reply, _) = run(&mut world, conn, other, &insert);
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    (world, conn, other)
}

#[test]
fn a_document_that_changed_since_the_search_is_not_updated() {
    let (mut world, conn, other) = filled();
    let free = doc! { "k": { "$gte": 1000 }, "taken": { "$exists": false } };
    let filter = doc! { "$and": [expensive(), free] };
    let take = |by: &str| {
        let updates = vec![doc! { "q": filter.clone(), "u": { "$set": { "taken": by } } }];
        doc! { "update": "c", "updates": updates }
    };
    begin(&mut world, conn, &take("first"));
    let job = world.deployment.poll_job(world.now).expect("a search");
    let found = job.run();
    let (reply, _) = {
        let third = world.connect(0);
        run(&mut world, other, third, &take("second"))
    };
    assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
    world.deployment.handle_job_done(world.now, found);
    world.drain();
    while world.reply(conn).is_none() {
        go_on(&mut world);
    }
    for by in ["first", "second"] {
        let count = doc! { "count": "c", "query": { "taken": by } };
        let reply = send(&mut world, other, count);
        assert_eq!(reply.get_i32("n").ok(), Some(1), "{by}: {reply}");
    }
}

#[test]
fn the_time_limit_of_a_write_counts_all_its_parts() {
    let (mut world, conn, _) = filled();
    let update = doc! {
        "update": "c", "maxTimeMS": 50,
        "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true }],
    };
    begin(&mut world, conn, &update);
    assert!(world.reply(conn).is_none(), "it has paused");
    world.run_for(Duration::from_millis(60));
    assert!(world.reply(conn).is_none(), "no part runs by itself");
    go_on(&mut world);
    let (_, _, reply) = world.reply(conn).expect("an answer");
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
}

#[test]
fn a_retryable_insert_in_parts_is_executed_once() {
    let mut world = World::new(set_of(3), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(primary), world.connect(primary));
    let id = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![7; 16],
    };
    let insert = doc! {
        "insert": "c", "documents": documents(), "lsid": { "id": id }, "txnNumber": 1_i64,
    };
    let (reply, pauses) = run(&mut world, conn, other, &insert);
    assert!(pauses > 5, "{pauses}");
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    let (again, _) = run(&mut world, conn, other, &insert);
    assert_eq!(again.get_i32("n").ok(), Some(DOCUMENTS), "{again}");
    assert!(!again.contains_key("writeErrors"), "{again}");
    let retried = again.get_array("retriedStmtIds").expect("the statements");
    assert_eq!(retried.len(), documents().len());
}

#[test]
fn a_write_in_parts_ends_at_a_step_down() {
    let mut world = World::new(set_of(3), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(primary), world.connect(primary));
    begin(
        &mut world,
        conn,
        &doc! { "insert": "c", "documents": documents() },
    );
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
    assert_eq!(reply.get_i32("code").ok(), Some(11602), "{reply}");
}

#[test]
fn a_member_that_was_down_applies_what_it_has_missed_in_parts() {
    let addresses = (0..3).map(|i| Address::tcp(&format!("m{i}"), 27017));
    let options = DeploymentOptions::replica_set("rs0", addresses.collect());
    let mut world = World::new(options, 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(primary), world.connect(primary));
    let down = (primary + 1) % 3;
    world.deployment.kill(world.now, down);
    let all = doc! { "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true };
    for command in [
        doc! { "insert": "c", "documents": documents() },
        doc! { "update": "c", "updates": [all] },
    ] {
        let (reply, _) = run(&mut world, conn, other, &command);
        assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    }
    world.deployment.restart(world.now, down);
    world.drain();
    let last = |world: &World, member| world.deployment.progress(member).map(|(_, last)| last);
    let mut parts = 0;
    for _ in 0..100_000 {
        if last(&world, down) == last(&world, primary) {
            break;
        }
        parts += u32::from(world.deployment.has_parts());
        go_on(&mut world);
    }
    assert_eq!(last(&world, down), last(&world, primary));
    assert!(parts >= 4, "{parts}");
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    world.deployment.check_members().expect("equal data");
}

/// A set that executes commands in parts, with documents, and two connections to its primary.
pub(super) fn filled_set() -> (World, ConnId, ConnId) {
    filled_members(3)
}

/// Does the same with this number of members.
pub(super) fn filled_members(members: usize) -> (World, ConnId, ConnId) {
    let mut world = World::new(set_of(members), 1);
    let primary = world.until_primary(Duration::from_secs(60));
    let (primary, _) = primary.expect("a primary");
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(primary), world.connect(primary));
    let insert = doc! { "insert": "c", "documents": documents() };
    let (reply, _) = run(&mut world, conn, other, &insert);
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    (world, conn, other)
}

/// Adds a session and a transaction number to a command.
pub(super) fn numbered(mut command: Document) -> Document {
    let id = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![9; 16],
    };
    command.extend(doc! { "lsid": { "id": id }, "txnNumber": 5_i64 });
    command
}

/// Runs the jobs and parts of the requests of two connections until both are answered.
pub(super) fn both(world: &mut World, one: ConnId, other: ConnId) -> [Document; 2] {
    let mut replies = [None, None];
    for _ in 0..10_000 {
        for (reply, conn) in replies.iter_mut().zip([one, other]) {
            let found = world.reply(conn).map(|(_, _, found)| found);
            *reply = reply.take().or(found);
        }
        if let [Some(one), Some(other)] = &replies {
            return [one.clone(), other.clone()];
        }
        go_on(world);
    }
    panic!("two replies: {replies:?}");
}

pub(super) fn count(world: &mut World, conn: ConnId, filter: Document) -> i32 {
    let other = world.connect(world.deployment.primary().unwrap_or(0));
    let count = doc! { "count": "c", "query": filter };
    let (reply, _) = run(world, conn, other, &count);
    reply.get_i32("n").expect("a number")
}

#[test]
fn two_attempts_of_one_write_at_the_same_time_have_one_effect() {
    let (mut world, conn, other) = filled_set();
    let filter = doc! { "$and": [expensive(), { "k": { "$gte": 1000 } }] };
    let update = doc! { "q": filter.clone(), "u": { "$inc": { "again": 1 } } };
    let delete = doc! { "q": filter, "limit": 1 };
    let fresh: Vec<_> = (0..1500)
        .map(|n| doc! { "_id": -1 - n, "fresh": true })
        .collect();
    for (command, n) in [
        (doc! { "update": "c", "updates": [update] }, 1),
        (doc! { "delete": "c", "deletes": [delete] }, 1),
        (doc! { "insert": "c", "documents": fresh }, 1500),
    ] {
        let mut command = numbered(command);
        let number = world.now.as_nanos();
        command.insert("txnNumber", i64::try_from(number).expect("a number"));
        begin(&mut world, conn, &command);
        begin(&mut world, other, &command);
        for reply in both(&mut world, conn, other) {
            assert_eq!(reply.get_i32("n").ok(), Some(n), "{reply}");
            assert!(!reply.contains_key("writeErrors"), "{reply}");
        }
        world.run_for(Duration::from_millis(5));
    }
    assert_eq!(count(&mut world, conn, doc! { "again": 2 }), 0);
    assert_eq!(count(&mut world, conn, doc! {}), DOCUMENTS - 1 + 1500);
}

#[test]
fn a_paused_write_does_not_change_another_collection_of_the_same_name() {
    let (mut world, conn, other) = filled();
    let insert = doc! { "insert": "big", "documents": documents() };
    let third = world.connect(0);
    run(&mut world, other, third, &insert);
    let deletes = vec![doc! { "q": { "_id": { "$gte": 0 } }, "limit": 0 }];
    begin(
        &mut world,
        conn,
        &doc! { "delete": "c", "deletes": deletes },
    );
    assert!(world.reply(conn).is_none(), "it has paused");
    let rename = doc! {
        "renameCollection": "d.big", "to": "d.c", "dropTarget": true, "$db": "admin",
    };
    let (reply, _) = run(&mut world, other, third, &rename);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    while world.reply(conn).is_none() {
        go_on(&mut world);
    }
    assert_eq!(count(&mut world, other, doc! {}), DOCUMENTS);
}

#[test]
fn a_write_goes_on_after_its_client_has_disconnected() {
    let (mut world, conn, other) = filled();
    let updates = vec![doc! { "q": {}, "u": { "$set": { "left": 1 } }, "multi": true }];
    begin(
        &mut world,
        conn,
        &doc! { "update": "c", "updates": updates },
    );
    world.deployment.handle_disconnected(world.now, conn);
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    assert_eq!(
        world.deployment.connections(),
        1,
        "the connection is forgotten"
    );
    assert_eq!(count(&mut world, other, doc! { "left": 1 }), DOCUMENTS);
}

#[test]
fn a_connection_whose_write_ends_at_the_end_of_a_pause_is_forgotten() {
    let (mut world, conn, _) = filled();
    let updates = vec![doc! { "q": {}, "u": { "$set": { "left": 1 } }, "multi": true }];
    begin(
        &mut world,
        conn,
        &doc! { "update": "c", "updates": updates },
    );
    world.deployment.handle_disconnected(world.now, conn);
    while world.deployment.has_parts() {
        let pause = Duration::from_secs(1);
        world.deployment.freeze(world.now, 0, pause);
        world.deployment.run_part(world.now);
        world.deployment.thaw(world.now, 0);
        world.deployment.run_part(world.now);
        world.drain();
    }
    assert_eq!(world.deployment.connections(), 1);
}

#[test]
fn all_parts_of_a_command_have_the_same_time() {
    let (mut world, conn, other) = filled();
    let updates = vec![doc! { "q": {}, "u": [{ "$set": { "at": "$$NOW" } }], "multi": true }];
    begin(
        &mut world,
        conn,
        &doc! { "update": "c", "updates": updates },
    );
    while world.reply(conn).is_none() {
        world.run_for(Duration::from_millis(3));
        go_on(&mut world);
    }
    let distinct = doc! { "distinct": "c", "key": "at" };
    let third = world.connect(0);
    let (reply, _) = run(&mut world, other, third, &distinct);
    let values = reply.get_array("values").expect("the times");
    assert_eq!(values.len(), 1, "{reply}");
}

#[test]
fn an_ordered_insert_reports_its_first_error_only() {
    let (mut world, conn) = of_release([4, 4, 29]);
    let documents = vec![
        doc! { "_id": 1 },
        doc! { "_id": 1 },
        doc! { "_id": 2, "$a": 1 },
    ];
    let reply = send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": documents },
    );
    let errors = reply.get_array("writeErrors").expect("an error");
    assert_eq!(errors.len(), 1, "{reply}");
    let error = errors[0].as_document().expect("a document");
    assert_eq!(error.get_i32("index").ok(), Some(1), "{reply}");
}
