//! Tests of commits of transactions that are executed in parts.

use super::{
    parts::{DOCUMENTS, begin, both, count, documents, filled_members, filled_set, go_on, run},
    paused_transactions::{commit, first, of},
    world::{World, send},
};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Bson, Document, doc};
use onionskin_core::address::Address;
use std::time::Duration;

/// The least number of pauses of a long commit in these tests.
const PAUSES: u32 = 3;

/// Sets a field of all documents.
fn all() -> Document {
    let updates = vec![doc! { "q": {}, "u": { "$set": { "t": 1 } }, "multi": true }];
    doc! { "update": "c", "updates": updates }
}

fn insert(to: &str, id: i32) -> Document {
    doc! { "insert": to, "documents": [{ "_id": id, "t": 1 }] }
}

/// Counts the first and the last document if they have the field that [`all`] sets.
fn ends() -> Document {
    doc! { "count": "c", "query": { "_id": { "$in": [0, DOCUMENTS - 1] }, "t": 1 } }
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

#[track_caller]
fn succeed(reply: &Document) {
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
}

fn finish(world: &mut World, conn: ConnId) -> Document {
    for _ in 0..100_000 {
        if let Some((_, _, reply)) = world.reply(conn) {
            return reply;
        }
        go_on(world);
    }
    panic!("the command goes on");
}

/// Runs until all members have the same data, and compares it.
fn check_members(world: &mut World) {
    for _ in 0..100_000 {
        if world.deployment.is_level() && !world.deployment.has_parts() {
            break;
        }
        go_on(world);
    }
    assert!(world.deployment.is_level());
    world.deployment.check_members().expect("equal data");
}

/// A set in which a transaction has set a field of all documents, and its commit has paused.
/// Returns the connection of the commit, and another one.
fn paused(options: Document) -> (World, ConnId, ConnId) {
    let (mut world, conn, other) = filled_set();
    let (reply, _) = run(&mut world, conn, other, &first(1, all()));
    succeed(&reply);
    let mut command = commit(1);
    command.extend(options);
    begin(&mut world, conn, &command);
    assert!(world.reply(conn).is_none(), "it has paused");
    assert!(world.deployment.has_parts());
    (world, conn, other)
}

#[test]
fn a_long_commit_pauses_and_is_visible_as_a_whole() {
    let (mut world, conn, other) = filled_members(1);
    let (reply, _) = run(&mut world, conn, other, &first(1, all()));
    succeed(&reply);
    begin(&mut world, conn, &commit(1));
    let mut pauses = 0;
    while world.reply(conn).is_none() {
        pauses += 1;
        assert!(pauses < 100, "the commit goes on");
        begin(&mut world, other, &doc! { "ping": 1 });
        begin(&mut world, other, &ends());
        for n in [None, Some(0)] {
            let (_, _, reply) = world.reply(other).expect("an answer at once");
            succeed(&reply);
            assert_eq!(reply.get_i32("n").ok(), n, "{reply}");
        }
        go_on(&mut world);
    }
    assert!(pauses >= PAUSES, "{pauses}");
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS);
    succeed(&send(&mut world, other, commit(1)));
    check_members(&mut world);
}

#[test]
fn a_short_commit_does_not_pause() {
    let (mut world, conn, _) = filled_members(1);
    begin(&mut world, conn, &first(1, insert("c", -1)));
    succeed(&finish(&mut world, conn));
    begin(&mut world, conn, &commit(1));
    let (_, _, reply) = world.reply(conn).expect("an answer at once");
    succeed(&reply);
}

#[test]
fn a_secondary_shows_all_changes_of_a_long_commit_or_none() {
    let (mut world, conn, other) = paused(doc! { "writeConcern": { "w": 1 } });
    let primary = world.deployment.primary().expect("a primary");
    let secondary = world.connect((primary + 1) % 3);
    let mut read = ends();
    read.insert("$readPreference", doc! { "mode": "secondary" });
    succeed(&finish(&mut world, conn));
    let mut seen = Vec::new();
    while !world.deployment.is_level() || world.deployment.has_parts() {
        assert!(seen.len() < 10_000, "the secondary goes on");
        begin(&mut world, other, &doc! { "ping": 1 });
        succeed(&finish(&mut world, other));
        begin(&mut world, secondary, &read);
        let (_, _, reply) = world.reply(secondary).expect("an answer at once");
        seen.push(reply.get_i32("n").expect("a number"));
        go_on(&mut world);
    }
    assert!(seen.contains(&0), "{seen:?}");
    assert!(seen.iter().all(|n| [0, 2].contains(n)), "{seen:?}");
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS);
    check_members(&mut world);
}

#[test]
fn a_step_down_undoes_a_paused_commit_as_a_whole() {
    let (mut world, conn, other) = paused(doc! {});
    let down = doc! { "replSetStepDown": 60, "force": true, "$db": "admin" };
    begin(&mut world, other, &down);
    let reply = finish(&mut world, conn);
    assert_eq!(code(&reply), Some(11602), "{reply}");
    let labels = reply.get_array("errorLabels").expect("labels");
    assert_eq!(labels[..], [Bson::from("RetryableWriteError")]);
    succeed(&finish(&mut world, other));
    let mut steps = 0;
    let primary = loop {
        if let Some(primary) = world.deployment.primary() {
            break primary;
        }
        go_on(&mut world);
        steps += 1;
        assert!(steps < 100_000, "a primary");
    };
    let conn = world.connect(primary);
    let reply = send(&mut world, conn, commit(1));
    assert_eq!(code(&reply), Some(251), "{reply}");
    assert_eq!(count(&mut world, conn, doc! { "t": 1 }), 0);
    check_members(&mut world);
}

#[test]
fn a_reset_or_kill_undoes_a_paused_commit_as_a_whole() {
    for is_killed in [false, true] {
        let (mut world, conn, other) = paused(doc! {});
        if is_killed {
            let session = of(1, doc! {});
            let session = session.get_document("lsid").expect("a session").clone();
            let kill = doc! { "killSessions": [session], "$db": "admin" };
            succeed(&send(&mut world, other, kill));
        } else {
            world.deployment.restore(world.now);
            world.drain();
        }
        let (_, _, reply) = world.reply(conn).expect("an answer at once");
        assert_eq!(code(&reply), Some(11601), "{reply}");
        let reply = send(&mut world, conn, commit(1));
        assert_eq!(code(&reply), Some(251), "{reply}");
        assert_eq!(count(&mut world, other, doc! { "t": 1 }), 0);
        succeed(&send(&mut world, other, insert("c", -1)));
        check_members(&mut world);
    }
}

#[test]
fn a_commit_ends_with_its_time_limit() {
    let (mut world, conn, other) = paused(doc! { "maxTimeMS": 50 });
    world.run_for(Duration::from_millis(60));
    let reply = finish(&mut world, conn);
    assert_eq!(code(&reply), Some(50), "{reply}");
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), 0);
}

#[test]
fn a_paused_commit_goes_on_after_its_client_has_disconnected() {
    let (mut world, conn, other) = paused(doc! {});
    world.deployment.handle_disconnected(world.now, conn);
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    succeed(&send(&mut world, other, commit(1)));
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS);
    check_members(&mut world);
}

#[test]
fn another_attempt_waits_for_a_paused_commit() {
    for (command, expected) in [
        (commit(1), None),
        (
            of(1, doc! { "abortTransaction": 1, "$db": "admin" }),
            Some(256),
        ),
    ] {
        let (mut world, conn, other) = paused(doc! {});
        begin(&mut world, other, &command);
        assert!(world.reply(other).is_none(), "it waits");
        let [committed, reply] = both(&mut world, conn, other);
        succeed(&committed);
        assert_eq!(code(&reply), expected, "{reply}");
        assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS);
    }
}

#[test]
fn a_retryable_write_of_its_session_waits_for_a_paused_commit() {
    let (mut world, conn, other) = paused(doc! {});
    let mut write = of(1, insert("another", 1));
    write.remove("autocommit");
    write.insert("txnNumber", 2_i64);
    begin(&mut world, other, &write);
    for reply in both(&mut world, conn, other) {
        succeed(&reply);
    }
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS);
    check_members(&mut world);
}

#[test]
fn a_transaction_that_is_committing_does_not_expire() {
    let (mut world, conn, other) = filled_set();
    let (reply, _) = run(&mut world, conn, other, &first(1, all()));
    succeed(&reply);
    check_members(&mut world);
    begin(&mut world, conn, &commit(1));
    assert!(world.reply(conn).is_none(), "it has paused");
    world.run_for(Duration::from_secs(61));
    succeed(&finish(&mut world, conn));
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS);
}

/// Inserts many documents in the transaction of the second session.
fn insert_many(world: &mut World, conn: ConnId, third: ConnId) {
    let fresh = |n: i32| doc! { "_id": -1 - n, "t": 1 };
    let fresh: Vec<Document> = (0..1000).map(fresh).collect();
    let fresh = first(2, doc! { "insert": "c", "documents": fresh });
    let (reply, _) = run(world, conn, third, &fresh);
    succeed(&reply);
}

#[test]
fn a_commit_that_waits_for_another_one_goes_on_after_its_client_has_disconnected() {
    let (mut world, conn, other) = filled_set();
    let third = world.connect(world.deployment.primary().expect("a primary"));
    let (reply, _) = run(&mut world, conn, third, &first(1, all()));
    succeed(&reply);
    insert_many(&mut world, other, third);
    begin(&mut world, conn, &commit(1));
    begin(&mut world, other, &commit(2));
    world.deployment.handle_disconnected(world.now, other);
    succeed(&finish(&mut world, conn));
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    assert_eq!(count(&mut world, third, doc! { "t": 1 }), DOCUMENTS + 1000);
    succeed(&send(&mut world, third, commit(2)));
    check_members(&mut world);
}

#[test]
fn writes_to_the_collections_of_a_paused_commit_wait_and_others_do_not() {
    let (mut world, conn, other) = paused(doc! {});
    let mut apart = insert("another", 1);
    apart.insert("writeConcern", doc! { "w": 1 });
    begin(&mut world, other, &apart);
    let (_, _, reply) = world.reply(other).expect("an answer at once");
    succeed(&reply);
    begin(&mut world, other, &insert("c", -1));
    assert!(world.reply(other).is_none(), "it waits");
    for reply in both(&mut world, conn, other) {
        succeed(&reply);
    }
    assert_eq!(count(&mut world, other, doc! { "t": 1 }), DOCUMENTS + 1);
    check_members(&mut world);
}

#[test]
fn two_long_commits_of_one_collection_follow_each_other() {
    let (mut world, conn, other) = filled_set();
    let third = world.connect(world.deployment.primary().expect("a primary"));
    let (reply, _) = run(&mut world, conn, third, &first(1, all()));
    succeed(&reply);
    insert_many(&mut world, other, third);
    begin(&mut world, conn, &commit(1));
    begin(&mut world, other, &commit(2));
    let find = doc! { "count": "c", "query": { "_id": { "$in": [-1000, 0, 1499] }, "t": 1 } };
    let mut seen = Vec::new();
    let mut replies = Vec::new();
    while replies.len() < 2 {
        assert!(seen.len() < 100_000, "the commits go on");
        replies.extend(
            [conn, other]
                .into_iter()
                .filter_map(|conn| world.reply(conn)),
        );
        begin(&mut world, third, &find);
        let (_, _, reply) = world.reply(third).expect("an answer at once");
        seen.push(reply.get_i32("n").expect("a number"));
        go_on(&mut world);
    }
    for (_, _, reply) in &replies {
        succeed(reply);
    }
    seen.dedup();
    assert_eq!(seen, [0, 2, 3]);
    assert_eq!(count(&mut world, third, doc! { "t": 1 }), DOCUMENTS + 1000);
    check_members(&mut world);
}

/// Two shards with a transaction that has set a field of all documents on one, and inserted a
/// document on the other. Returns a connection to each of two routers.
fn shards() -> (World, ConnId, ConnId) {
    let addresses = (0..2).map(|i| Address::tcp(&format!("router{i}"), 27017));
    let mut options = DeploymentOptions::sharded(addresses.collect());
    options.shards = 2;
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(0), world.connect(1));
    let on = |database: &str, mut command: Document| {
        command.insert("$db", database);
        command
    };
    let filled = doc! { "insert": "c", "documents": documents() };
    for command in [
        on("left", filled),
        first(1, on("left", all())),
        of(1, on("right", insert("c", 1))),
    ] {
        let (reply, _) = run(&mut world, conn, other, &command);
        succeed(&reply);
    }
    (world, conn, other)
}

/// Returns the numbers of documents of the two shards that have the field which the transaction
/// has set.
fn on_shards(world: &World) -> (usize, usize) {
    let shown = |shard: usize, database: &str| {
        let store = world.deployment.store(shard).expect("a shard");
        let name = crate::store::Namespace::new(database, "c");
        let found = store.collection(&name);
        let documents = found.into_iter().flat_map(|found| found.documents());
        documents
            .filter(|document| document.contains_key("t"))
            .count()
    };
    (shown(2, "left"), shown(3, "right"))
}

#[test]
fn a_prepared_transaction_commits_in_parts() {
    let (mut world, conn, other) = shards();
    begin(&mut world, conn, &commit(1));
    let (mut pauses, mut steps) = (0, 0);
    let reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        steps += 1;
        assert!(steps < 10_000, "the commit goes on");
        pauses += u32::from(world.deployment.has_parts());
        let (left, _) = on_shards(&world);
        assert!([0, DOCUMENTS as usize].contains(&left), "{left}");
        begin(&mut world, other, &doc! { "ping": 1 });
        let (_, _, pong) = world.reply(other).expect("an answer at once");
        succeed(&pong);
        go_on(&mut world);
    };
    succeed(&reply);
    assert!(pauses >= PAUSES, "{pauses}");
    assert_eq!(on_shards(&world), (DOCUMENTS as usize, 1));
}

#[test]
fn commits_of_prepared_transactions_take_turns() {
    let (mut world, conn, other) = shards();
    let filled = doc! { "insert": "second", "documents": documents(), "$db": "left" };
    let mut update = all();
    update.extend(doc! { "update": "second", "$db": "left" });
    let mut apart = insert("second", 1);
    apart.insert("$db", "right");
    for command in [filled, first(2, update), of(2, apart)] {
        let (reply, _) = run(&mut world, other, conn, &command);
        succeed(&reply);
    }
    begin(&mut world, conn, &commit(1));
    begin(&mut world, other, &commit(2));
    world.run_for(Duration::from_millis(100));
    let mut parts = 0;
    while world.deployment.has_parts() {
        parts += 1;
        assert!(parts < 100, "the commits go on");
        world.deployment.run_part(world.now);
        world.drain();
    }
    // Each of them makes its first part before.
    assert!(parts > 2 * (PAUSES - 1), "{parts}");
    for reply in both(&mut world, conn, other) {
        succeed(&reply);
    }
    assert_eq!(on_shards(&world), (DOCUMENTS as usize, 1));
}

#[test]
fn a_step_down_of_a_shard_does_not_lose_a_decided_commit() {
    for parts in 0..6 {
        let (mut world, conn, _) = shards();
        begin(&mut world, conn, &commit(1));
        for _ in 0..100 {
            if world.deployment.has_parts() || world.reply(conn).is_some() {
                break;
            }
            go_on(&mut world);
        }
        for _ in 0..parts {
            go_on(&mut world);
        }
        assert!(world.deployment.step_down_shard(world.now, 0));
        world.drain();
        for _ in 0..10_000 {
            go_on(&mut world);
        }
        assert!(!world.deployment.has_parts(), "after {parts} parts");
        let shown = on_shards(&world);
        assert_eq!(shown, (DOCUMENTS as usize, 1), "after {parts} parts");
    }
}
