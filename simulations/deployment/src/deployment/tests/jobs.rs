//! Tests of long queries, which the caller of the deployment runs.

use super::world::{World, send, standalone, with_primary};
use crate::deployment::{ConnId, DeploymentOptions, Job, JobDone};
use bson::{Bson, DateTime, Document, Timestamp, doc};
use onionskin_core::address::Address;
use std::{cell::Cell, rc::Rc, time::Duration};

fn command(mut command: Document) -> Document {
    command.insert("$db", "d");
    command
}

fn fill(world: &mut World, conn: ConnId, count: i32) {
    let documents: Vec<_> = (0..count).map(|n| doc! { "_id": n, "n": n % 7 }).collect();
    let insert = doc! { "insert": "c", "documents": documents };
    let reply = send(world, conn, insert);
    assert_eq!(reply.get_i32("n").ok(), Some(count), "{reply}");
}

/// A standalone with 1000 documents whose queries can become jobs, and a connection to it.
fn with_jobs() -> (World, ConnId) {
    let (mut world, conn) = standalone();
    world.deployment.run_jobs();
    fill(&mut world, conn, 1000);
    (world, conn)
}

/// A filter that is expensive for each document.
fn expensive() -> Document {
    let sum = doc! { "$sum": { "$range": [0, 1000] } };
    doc! { "$expr": { "$gte": [sum, "$n"] } }
}

/// Sends a command that needs a job. Returns the job.
fn job_of(world: &mut World, conn: ConnId, long: Document) -> Job {
    world.send(conn, &command(long));
    assert!(world.reply(conn).is_none(), "it waits");
    world.deployment.poll_job(world.now).expect("a job")
}

fn finish(world: &mut World, conn: ConnId, job: Job) -> Document {
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    world.reply(conn).expect("a reply").2
}

fn ping(world: &mut World, conn: ConnId) -> bool {
    let reply = world.send_command(conn, &command(doc! { "ping": 1 }));
    reply.is_some_and(|reply| reply.get_f64("ok").ok() == Some(1.0))
}

#[test]
fn each_kind_of_query_can_be_a_job_and_others_are_served_meanwhile() {
    let (mut world, conn) = with_jobs();
    let other = world.connect(0);
    let stages = vec![doc! { "$match": expensive() }, doc! { "$count": "n" }];
    for (long, expected) in [
        (
            doc! { "find": "c", "filter": expensive(), "skip": 998 },
            doc! { "firstBatch": [{ "_id": 998, "n": 4 }, { "_id": 999, "n": 5 }] },
        ),
        (
            doc! { "count": "c", "query": expensive() },
            doc! { "n": 1000 },
        ),
        (
            doc! { "distinct": "c", "key": "n", "query": expensive() },
            doc! { "values": [0, 1, 2, 3, 4, 5, 6] },
        ),
        (
            doc! { "aggregate": "c", "pipeline": stages, "cursor": {} },
            doc! { "firstBatch": [{ "n": 1000 }] },
        ),
    ] {
        let job = job_of(&mut world, conn, long);
        assert!(ping(&mut world, other));
        let reply = finish(&mut world, conn, job);
        let found = reply.get_document("cursor").unwrap_or(&reply);
        for (field, value) in &expected {
            assert_eq!(found.get(field), Some(value), "{reply}");
        }
        assert!(ping(&mut world, conn), "the connection can be used again");
    }
    assert!(world.deployment.poll_job(world.now).is_none());
}

#[test]
fn short_queries_are_no_jobs_and_a_deployment_that_runs_none_gives_none() {
    let (mut world, conn) = with_jobs();
    let count = command(doc! { "count": "c", "query": { "n": 3 } });
    let reply = world.send_command(conn, &count).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(143));
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1000);
    let count = command(doc! { "count": "c", "query": expensive() });
    let reply = world.send_command(conn, &count).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1000));
    assert!(world.deployment.poll_job(world.now).is_none());
}

#[test]
fn an_error_of_a_job_is_the_error_of_its_command() {
    let (mut world, conn) = with_jobs();
    let sum =
        doc! { "$divide": [{ "$sum": { "$range": [0, 1000] } }, { "$subtract": ["$_id", 900] }] };
    let filter = doc! { "$expr": sum };
    let job = job_of(&mut world, conn, doc! { "find": "c", "filter": filter });
    let reply = finish(&mut world, conn, job);
    assert_eq!(reply.get_i32("code").ok(), Some(2), "{reply}");
}

#[test]
fn max_time_ends_the_wait_for_a_job_and_its_late_result_changes_nothing() {
    let (mut world, conn) = with_jobs();
    let long = doc! { "count": "c", "query": expensive(), "maxTimeMS": 100 };
    let job = job_of(&mut world, conn, long.clone());
    world.run_for(Duration::from_millis(100));
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
    let second = job_of(&mut world, conn, long);
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    assert!(world.reply(conn).is_none(), "the result of the first one");
    let reply = finish(&mut world, conn, second);
    assert_eq!(reply.get_i32("n").ok(), Some(1000), "{reply}");
}

#[test]
fn a_job_reads_the_data_of_its_start() {
    let (mut world, conn) = with_jobs();
    let other = world.connect(0);
    let job = job_of(
        &mut world,
        conn,
        doc! { "count": "c", "query": expensive() },
    );
    let drop = command(doc! { "drop": "c" });
    world.send_command(other, &drop).expect("a reply");
    let reply = finish(&mut world, conn, job);
    assert_eq!(reply.get_i32("n").ok(), Some(1000), "{reply}");
}

#[test]
fn a_job_of_a_connection_that_ended_changes_nothing() {
    let (mut world, conn) = with_jobs();
    let other = world.connect(0);
    let job = job_of(
        &mut world,
        conn,
        doc! { "count": "c", "query": expensive() },
    );
    world.deployment.handle_disconnected(world.now, conn);
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    assert_eq!(world.deployment.connections(), 1);
    let sent = world.sent.len();
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.sent.len(), sent, "nothing was sent");
    assert!(ping(&mut world, other));
}

#[test]
fn a_snapshot_read_that_becomes_a_job_keeps_its_time() {
    let (mut world, _, conn) = with_primary();
    world.deployment.run_jobs();
    fill(&mut world, conn, 1000);
    world.run_for(Duration::from_secs(5));
    let ping = world.send_command(conn, &command(doc! { "ping": 1 }));
    let past = ping.expect("a reply").get_timestamp("operationTime");
    let long = doc! {
        "find": "c", "filter": expensive(), "batchSize": 1,
        "readConcern": { "level": "snapshot", "afterClusterTime": past.expect("a time") },
    };
    let job = job_of(&mut world, conn, long);
    let other = world.connect(world.deployment.primary().expect("a primary"));
    let insert = command(doc! {
        "insert": "c", "documents": [{ "_id": -1 }], "writeConcern": { "w": "majority" },
    });
    let written = world.send_command(other, &insert).expect("a reply");
    let written = written.get_timestamp("operationTime").expect("a time");
    let reply = finish(&mut world, conn, job);
    let cursor = reply.get_document("cursor").expect("a cursor");
    let at: Timestamp = cursor.get_timestamp("atClusterTime").expect("a time");
    assert!(at < written, "{at} is before {written}");
}

#[test]
fn a_job_behind_a_router_answers_the_routers_client() {
    let options = DeploymentOptions::sharded(vec![Address::tcp("r0", 27017)]);
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let conn = world.connect(0);
    fill(&mut world, conn, 1000);
    let job = job_of(
        &mut world,
        conn,
        doc! { "count": "c", "query": expensive() },
    );
    let reply = finish(&mut world, conn, job);
    assert_eq!(reply.get_i32("n").ok(), Some(1000), "{reply}");
}

#[test]
fn a_tailable_cursor_of_a_job_misses_no_document() {
    let (mut world, conn) = standalone();
    world.deployment.run_jobs();
    let create = doc! { "create": "c", "capped": true, "size": 1_000_000 };
    send(&mut world, conn, create);
    fill(&mut world, conn, 1000);
    let other = world.connect(0);
    let long = doc! { "find": "c", "filter": expensive(), "tailable": true, "batchSize": 2000 };
    let job = job_of(&mut world, conn, long);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 2000, "n": 1 }] };
    send(&mut world, other, insert);
    let reply = finish(&mut world, conn, job);
    let cursor = reply.get_document("cursor").expect("a cursor");
    assert_eq!(cursor.get_array("firstBatch").expect("a batch").len(), 1000);
    let more = doc! { "getMore": cursor.get_i64("id").expect("an id"), "collection": "c" };
    let reply = send(&mut world, conn, more);
    let batch = reply
        .get_document("cursor")
        .and_then(|c| c.get_array("nextBatch"));
    assert_eq!(batch.expect("a batch").len(), 1, "{reply}");
}

#[test]
fn requests_that_no_longer_wait_give_no_jobs() {
    let (mut world, conn) = with_jobs();
    for _ in 0..10 {
        let long = doc! { "count": "c", "query": expensive(), "maxTimeMS": 1 };
        world.send(conn, &command(long));
        world.run_for(Duration::from_millis(1));
        let (_, _, reply) = world.reply(conn).expect("a reply");
        assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
    }
    assert!(world.deployment.poll_job(world.now).is_none());
}

#[test]
fn the_panic_of_a_job_closes_its_connection_only() {
    let (mut world, conn) = with_jobs();
    let other = world.connect(0);
    let job = job_of(
        &mut world,
        conn,
        doc! { "count": "c", "query": expensive() },
    );
    world
        .deployment
        .handle_job_done(world.now, job.key().panicked());
    world.drain();
    assert_eq!(world.closed, [conn]);
    assert!(ping(&mut world, other));
}

#[test]
fn the_variables_of_a_command_count_as_a_part_of_its_query() {
    let (mut world, conn) = standalone();
    world.deployment.run_jobs();
    fill(&mut world, conn, 1);
    let sum = doc! { "$sum": { "$range": [0, 100_000] } };
    let long = doc! { "find": "c", "let": { "v": sum }, "filter": { "$expr": "$$v" } };
    let job = job_of(&mut world, conn, long);
    let reply = finish(&mut world, conn, job);
    assert!(reply.get_document("cursor").is_ok(), "{reply}");
}

#[test]
fn work_besides_the_filter_makes_a_query_a_job() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 4500);
    let values: Vec<i32> = (0..30_000).collect();
    let insert = doc! { "insert": "large", "documents": [{ "_id": 1, "a": values }] };
    send(&mut world, conn, insert);
    world.deployment.run_jobs();
    let job = job_of(&mut world, conn, doc! { "distinct": "large", "key": "a" });
    let reply = finish(&mut world, conn, job);
    let found = reply.get_array("values").expect("values");
    assert_eq!(found.len(), 30_000);
    let shown = doc! { "find": "c", "projection": { "n": 1 }, "batchSize": 1 };
    let job = job_of(&mut world, conn, shown);
    let reply = finish(&mut world, conn, job);
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch").expect("a batch");
    assert_eq!(batch.len(), 1, "{reply}");
    let short = doc! { "count": "c", "query": {} };
    let reply = send(&mut world, conn, short);
    assert_eq!(reply.get_i32("n").ok(), Some(4500), "no job: {reply}");
}

#[test]
fn the_documents_of_a_job_count_for_the_memory_of_cursors() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    options.limits.max_cursor_bytes = 10_000;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    fill(&mut world, conn, 1000);
    world.deployment.run_jobs();
    let long = doc! { "find": "c", "filter": expensive(), "projection": { "n": 1 } };
    for code in [None, Some(146)] {
        let job = job_of(&mut world, conn, long.clone());
        let reply = finish(&mut world, conn, job);
        assert_eq!(reply.get_i32("code").ok(), code, "{reply}");
    }
}

#[test]
fn a_job_lets_others_have_their_turn_after_its_steps() {
    let (mut world, conn) = with_jobs();
    let job = job_of(
        &mut world,
        conn,
        doc! { "count": "c", "query": expensive() },
    );
    let (done, turns) = run_in_slices(job, 100_000);
    assert!(turns >= 10, "{turns}");
    world.deployment.handle_job_done(world.now, done);
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1000), "{reply}");
}

#[test]
fn a_job_whose_request_no_longer_waits_ends_at_its_next_slice() {
    let (mut world, conn) = with_jobs();
    let long = doc! { "count": "c", "query": expensive(), "maxTimeMS": 100 };
    let job = job_of(&mut world, conn, long.clone());
    world.run_for(Duration::from_millis(100));
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
    let (_, turns) = run_in_slices(job, 1000);
    assert!((1..=2).contains(&turns), "{turns}");
    let other = world.connect(0);
    let job = job_of(&mut world, other, long);
    world.deployment.handle_disconnected(world.now, other);
    let (_, turns) = run_in_slices(job, 1000);
    assert!((1..=2).contains(&turns), "{turns}");
}

/// Runs a job in slices. Returns its result and the number of slices that have ended.
fn run_in_slices(job: Job, steps: u64) -> (JobDone, u32) {
    let turns = Rc::new(Cell::new(0));
    let counted = Rc::clone(&turns);
    let done = job.run_in_slices(steps, move || counted.set(counted.get() + 1));
    (done, turns.get())
}

#[test]
fn the_search_of_a_write_has_the_time_of_its_command() {
    let (mut world, conn) = with_jobs();
    let started = world.deployment.options().started_at.as_unix_millis();
    let millis = started + world.now.as_nanos() / 1_000_000 + 5;
    let soon = DateTime::from_millis(i64::try_from(millis).expect("a time"));
    let is_past = doc! { "$expr": { "$lt": [soon, "$$NOW"] } };
    let modify = doc! {
        "findAndModify": "c", "query": { "$and": [expensive(), is_past] },
        "update": { "$set": { "found": true } },
    };
    world.send(conn, &command(modify));
    world.run_for(Duration::from_millis(10));
    let job = world.deployment.poll_job(world.now).expect("a job");
    let reply = finish(&mut world, conn, job);
    assert_eq!(reply.get("value"), Some(&Bson::Null), "{reply}");
}

#[test]
fn a_document_that_was_found_is_not_compared_with_random_numbers_again() {
    let (mut world, conn) = with_jobs();
    let half = doc! { "$expr": { "$lt": [{ "$rand": {} }, 0.5] } };
    let filter = doc! { "$and": [expensive(), half] };
    let updates = vec![doc! { "q": filter, "u": { "$set": { "half": 1 } }, "multi": true }];
    let job = job_of(&mut world, conn, doc! { "update": "c", "updates": updates });
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    while world.deployment.has_parts() {
        world.deployment.run_part(world.now);
        world.drain();
    }
    let (_, _, reply) = world.reply(conn).expect("a reply");
    let n = reply.get_i32("n").expect("a number");
    assert!((400..600).contains(&n), "{n} of 1000 documents");
}
