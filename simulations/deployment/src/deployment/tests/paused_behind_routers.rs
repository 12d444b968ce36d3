//! Tests of commands that pause on a shard, behind routers.

use super::{
    parts::{DOCUMENTS, begin, both, documents, expensive, go_on, numbered, run},
    paused_transactions::{commit, first, of, one},
    world::{World, send},
};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Document, doc};
use onionskin_core::address::Address;
use std::time::Duration;

/// A cluster of two routers with documents on its first shard, and a connection to each router.
fn cluster(shards: usize) -> (World, ConnId, ConnId) {
    let addresses = (0..2).map(|i| Address::tcp(&format!("router{i}"), 27017));
    let mut options = DeploymentOptions::sharded(addresses.collect());
    options.shards = shards;
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(0), world.connect(1));
    let insert = doc! { "insert": "c", "documents": documents(), "$db": "left" };
    let (reply, pauses) = run(&mut world, conn, other, &insert);
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    assert!(pauses > 0, "it has not paused");
    (world, conn, other)
}

fn on_left(mut command: Document) -> Document {
    command.insert("$db", "left");
    command
}

/// Sets a field of all documents.
fn all() -> Document {
    let updates = vec![doc! { "q": {}, "u": { "$set": { "t": 1 } }, "multi": true }];
    on_left(doc! { "update": "c", "updates": updates })
}

/// A cluster in which a long update has paused.
fn paused(options: Document) -> (World, ConnId, ConnId) {
    let (mut world, conn, other) = cluster(1);
    let mut update = all();
    update.extend(options);
    begin(&mut world, conn, &update);
    assert!(world.reply(conn).is_none(), "it has paused");
    assert!(world.deployment.has_parts());
    (world, conn, other)
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

/// Returns the number of documents that a long update has changed.
fn changed(world: &mut World) -> i32 {
    let (conn, other) = (world.connect(0), world.connect(1));
    let count = on_left(doc! { "count": "c", "query": { "t": 1 } });
    let (reply, _) = run(world, conn, other, &count);
    reply.get_i32("n").expect("a number")
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

#[test]
fn a_write_pauses_and_queries_become_jobs_behind_a_router() {
    let (mut world, conn, other) = cluster(1);
    let (reply, pauses) = run(&mut world, conn, other, &all());
    assert_eq!(reply.get_i32("nModified").ok(), Some(DOCUMENTS), "{reply}");
    assert!(pauses >= 3, "{pauses}");
    let find = doc! { "find": "c", "filter": expensive() };
    let explain = doc! { "explain": find.clone(), "verbosity": "executionStats" };
    let distinct = doc! { "distinct": "c", "key": "n", "query": expensive() };
    let count = doc! { "count": "c", "query": expensive() };
    for command in [find, explain, distinct, count] {
        begin(&mut world, conn, &on_left(command.clone()));
        let job = world.deployment.poll_job(world.now).expect("a job");
        world.deployment.handle_job_done(world.now, job.run());
        world.drain();
        let (_, _, reply) = world.reply(conn).expect("a reply");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
    }
}

#[test]
fn a_step_down_of_the_shard_ends_a_paused_write() {
    let (mut world, conn, _) = paused(doc! {});
    assert!(world.deployment.step_down_shard(world.now, 0));
    world.drain();
    let reply = finish(&mut world, conn);
    assert_eq!(code(&reply), Some(6), "{reply}");
    let changed = changed(&mut world);
    assert!(changed > 0 && changed < DOCUMENTS, "{changed}");
}

#[test]
fn a_step_down_of_the_shard_ends_a_write_that_waits_for_its_search() {
    let (mut world, conn, _) = cluster(1);
    let updates = vec![doc! { "q": expensive(), "u": { "$set": { "t": 1 } }, "multi": true }];
    let update = on_left(doc! { "update": "c", "updates": updates });
    begin(&mut world, conn, &update);
    let job = world.deployment.poll_job(world.now).expect("a search");
    assert!(world.deployment.step_down_shard(world.now, 0));
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    let reply = finish(&mut world, conn);
    assert_eq!(code(&reply), Some(6), "{reply}");
    assert_eq!(changed(&mut world), 0);
}

#[test]
fn the_end_of_the_shard_ends_a_paused_write() {
    let (mut world, conn, other) = paused(doc! {});
    world.deployment.kill_shard(world.now, 0);
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(code(&reply), Some(6), "{reply}");
    world.deployment.restart_shard(world.now, 0);
    world.drain();
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    let changed = changed(&mut world);
    assert!(changed > 0 && changed < DOCUMENTS, "{changed}");
    let (reply, _) = run(&mut world, other, conn, &all());
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
}

#[test]
fn a_paused_write_goes_on_after_the_client_of_the_router_has_left() {
    let (mut world, conn, _) = paused(doc! {});
    world.deployment.handle_disconnected(world.now, conn);
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    assert_eq!(world.deployment.connections(), 1);
    assert_eq!(changed(&mut world), DOCUMENTS);
}

#[test]
fn two_attempts_of_one_write_through_two_routers_have_one_effect() {
    let (mut world, conn, other) = cluster(1);
    let each = |n: i32| doc! { "q": { "_id": n }, "u": { "$inc": { "t": 1 } } };
    let each: Vec<_> = (0..1000).map(each).collect();
    let update = numbered(on_left(doc! { "update": "c", "updates": each }));
    begin(&mut world, conn, &update);
    assert!(world.reply(conn).is_none(), "it has paused");
    begin(&mut world, other, &update);
    for reply in both(&mut world, conn, other) {
        assert_eq!(reply.get_i32("n").ok(), Some(1000), "{reply}");
    }
    assert_eq!(changed(&mut world), 1000);
}

#[test]
fn the_drop_of_the_collection_ends_a_paused_write() {
    let (mut world, conn, other) = paused(doc! {});
    let reply = send(&mut world, other, on_left(doc! { "drop": "c" }));
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let reply = finish(&mut world, conn);
    let errors = reply.get_array("writeErrors").expect("an error");
    let error = errors[0].as_document().expect("a document");
    assert_eq!(error.get_i32("code").ok(), Some(175), "{reply}");
}

#[test]
fn the_time_limit_and_the_end_of_its_session_end_a_paused_write() {
    let (mut world, conn, _) = paused(doc! { "maxTimeMS": 50 });
    world.run_for(Duration::from_millis(60));
    let reply = finish(&mut world, conn);
    assert_eq!(code(&reply), Some(50), "{reply}");
    let mut session = numbered(doc! {});
    session.remove("txnNumber");
    let (mut world, conn, other) = paused(session.clone());
    let id = session.get_document("lsid").expect("a session").clone();
    let kill = doc! { "killSessions": [id], "$db": "admin" };
    let reply = send(&mut world, other, kill);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(code(&reply), Some(11601), "{reply}");
}

#[test]
fn a_transaction_that_starts_again_waits_for_the_paused_statement_before_it() {
    let (mut world, conn, other) = cluster(1);
    begin(&mut world, conn, &first(1, all()));
    assert!(world.reply(conn).is_none(), "it has paused");
    begin(&mut world, other, &first(1, on_left(one(3))));
    assert!(world.reply(other).is_none(), "it waits");
    for reply in both(&mut world, conn, other) {
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    }
    let reply = send(&mut world, other, commit(1));
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert_eq!(changed(&mut world), 0, "the first transaction is aborted");
    let count = on_left(doc! { "count": "c", "query": { "one": 1 } });
    let reply = send(&mut world, other, count);
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
}

#[test]
fn a_paused_statement_does_not_go_on_in_a_transaction_with_the_same_number() {
    for has_query in [false, true] {
        let (mut world, conn, other) = cluster(1);
        let filter = match has_query {
            true => expensive(),
            false => doc! {},
        };
        let updates = vec![doc! { "q": filter, "u": { "$set": { "t": 1 } }, "multi": true }];
        let update = on_left(doc! { "update": "c", "updates": updates });
        begin(&mut world, conn, &first(1, update));
        assert!(world.reply(conn).is_none(), "it waits or has paused");
        // The transaction expires.
        world.run_for(Duration::from_secs(61));
        let reply = send(&mut world, other, first(1, on_left(one(3))));
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        let reply = finish(&mut world, conn);
        assert_eq!(code(&reply), Some(251), "{reply}");
        let reply = send(&mut world, other, commit(1));
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        assert_eq!(changed(&mut world), 0);
    }
}

#[test]
fn a_commit_on_several_shards_does_not_prepare_a_part_of_a_statement() {
    let (mut world, conn, other) = cluster(2);
    let first_on_right = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "right" };
    let third = world.connect(0);
    for command in [first(1, first_on_right), of(1, on_left(one(1)))] {
        let (reply, _) = run(&mut world, conn, other, &command);
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    }
    begin(&mut world, conn, &of(1, all()));
    assert!(world.reply(conn).is_none(), "it has paused");
    begin(&mut world, third, &commit(1));
    // The participant is asked before the statement goes on.
    world.run_for(Duration::from_millis(100));
    let replies = both(&mut world, conn, third);
    assert_eq!(code(&replies[1]), Some(251), "{replies:?}");
    assert_eq!(changed(&mut world), 0);
    let count = doc! { "count": "c", "$db": "right" };
    let reply = send(&mut world, other, count);
    assert_eq!(reply.get_i32("n").ok(), Some(0), "{reply}");
}

#[test]
fn a_write_pauses_behind_a_load_balancer_and_goes_on_without_its_client() {
    let balancer = Address::tcp("balancer", 27017);
    let services = (0..2).map(|i| Address::tcp(&format!("service{i}"), 27017));
    let options = DeploymentOptions::load_balanced(balancer, services.collect());
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let [conn, other] = [0, 1].map(|_| {
        let (_, conn) = world.connect_balanced().expect("a service runs");
        let hello = doc! { "hello": 1, "loadBalanced": true, "$db": "admin" };
        send(&mut world, conn, hello);
        conn
    });
    let insert = on_left(doc! { "insert": "c", "documents": documents() });
    let (reply, pauses) = run(&mut world, conn, other, &insert);
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    assert!(pauses > 0, "it has not paused");
    begin(&mut world, conn, &all());
    assert!(world.reply(conn).is_none(), "it has paused");
    world.deployment.handle_disconnected(world.now, conn);
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    let count = on_left(doc! { "count": "c", "query": { "t": 1 } });
    let reply = send(&mut world, other, count);
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    assert_eq!(world.deployment.connections(), 1);
}
