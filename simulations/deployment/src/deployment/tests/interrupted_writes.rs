//! Tests of writes in parts that end before their last part, or whose clients have gone.

use super::{
    parts::{begin, count, documents, expensive, filled, filled_set, go_on, run},
    world::{World, send},
};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Document, doc};
use onionskin_core::address::Address;
use std::time::Duration;

/// An update of all documents, which pauses.
fn mark(field: &str) -> Document {
    let updates = vec![doc! { "q": {}, "u": { "$inc": { field: 1 } }, "multi": true }];
    doc! { "update": "c", "updates": updates }
}

/// Runs jobs and parts until the reply to a command.
fn answer(world: &mut World, conn: ConnId) -> Document {
    for _ in 0..100_000 {
        if let Some((_, _, reply)) = world.reply(conn) {
            return reply;
        }
        go_on(world);
    }
    panic!("no reply");
}

fn finish_parts(world: &mut World) {
    while world.deployment.has_parts() {
        go_on(world);
    }
}

fn total() -> i32 {
    i32::try_from(documents().len()).expect("a number")
}

#[test]
fn a_write_in_parts_ends_at_a_step_down_of_its_shard() {
    let options = DeploymentOptions::sharded(vec![Address::tcp("r0", 27017)]);
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let [conn, other] = [0, 0].map(|router| world.connect(router));
    let insert = doc! { "insert": "c", "documents": documents() };
    run(&mut world, conn, other, &insert);
    begin(&mut world, conn, &mark("part"));
    assert!(world.reply(conn).is_none(), "it has paused");
    assert!(world.deployment.step_down_shard(world.now, 0));
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("an answer at once");
    // A router replaces the error 11602 of its shard.
    assert_eq!(reply.get_i32("code").ok(), Some(6), "{reply}");
    finish_parts(&mut world);
    let done = send(
        &mut world,
        other,
        doc! { "count": "c", "query": { "part": 1 } },
    );
    let done = done.get_i32("n").expect("a number");
    assert!(done > 0 && done < total(), "{done}");
}

#[test]
fn a_write_in_parts_ends_when_a_step_down_begins() {
    let (mut world, conn, other) = filled_set();
    let primary = world.deployment.primary().expect("a primary");
    // No member catches up, so that the step-down stays pending.
    world.deployment.partition(world.now, &[primary]);
    begin(&mut world, conn, &mark("part"));
    assert!(world.reply(conn).is_none(), "it has paused");
    let down = doc! { "replSetStepDown": 60, "$db": "admin" };
    begin(&mut world, other, &down);
    assert!(world.reply(other).is_none(), "it is pending");
    let (_, _, reply) = world.reply(conn).expect("an answer at once");
    assert_eq!(reply.get_i32("code").ok(), Some(11602), "{reply}");
}

#[test]
fn an_out_on_a_secondary_that_becomes_primary_goes_on() {
    let (mut world, _, _) = filled_set();
    for _ in 0..1000 {
        go_on(&mut world);
    }
    let primary = world.deployment.primary().expect("a primary");
    let secondaries: Vec<usize> = (0..3).filter(|member| *member != primary).collect();
    let pipeline = vec![doc! { "$match": expensive() }, doc! { "$out": "copy" }];
    let out = doc! {
        "aggregate": "c", "pipeline": pipeline, "cursor": {},
        "$readPreference": { "mode": "secondary" },
    };
    let clients = secondaries.iter().map(|member| {
        let conn = world.connect(*member);
        begin(&mut world, conn, &out);
        (*member, conn)
    });
    let clients: Vec<(usize, ConnId)> = clients.collect();
    let mut jobs = Vec::new();
    while let Some(job) = world.deployment.poll_long_query(world.now) {
        jobs.push(job);
    }
    assert_eq!(jobs.len(), 2);
    world.deployment.kill(world.now, primary);
    let next = world.until_primary(Duration::from_secs(60));
    let (next, _) = next.expect("another primary");
    let (_, conn) = clients[usize::from(clients[0].0 != next)];
    for job in jobs {
        world.deployment.handle_job_done(world.now, job.run());
    }
    world.drain();
    let reply = answer(&mut world, conn);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

#[test]
fn a_merge_in_parts_is_not_begun_again_after_a_step_down() {
    let (mut world, conn, other) = filled_set();
    let sum = doc! { "$add": [{ "$ifNull": ["$merged", 0] }, 1] };
    let merge = doc! { "into": "c", "whenMatched": [{ "$set": { "merged": sum } }] };
    let command = doc! {
        "aggregate": "c", "pipeline": [{ "$merge": merge }], "cursor": {},
        "$readPreference": { "mode": "primaryPreferred" },
    };
    begin(&mut world, conn, &command);
    for _ in 0..3 {
        go_on(&mut world);
    }
    assert!(world.reply(conn).is_none(), "it has paused");
    let down = doc! { "replSetStepDown": 60, "force": true, "$db": "admin" };
    begin(&mut world, other, &down);
    let reply = answer(&mut world, conn);
    assert_eq!(reply.get_i32("code").ok(), Some(11602), "{reply}");
    for _ in 0..100_000 {
        if world.deployment.primary().is_some() && !world.deployment.has_parts() {
            break;
        }
        go_on(&mut world);
    }
    let primary = world.deployment.primary().expect("a new primary");
    let conn = world.connect(primary);
    assert_eq!(count(&mut world, conn, doc! { "merged": 2 }), 0);
}

#[test]
fn a_connection_whose_write_ends_before_its_search_is_forgotten() {
    let (mut world, conn, _) = filled();
    let updates = vec![doc! { "q": expensive(), "u": { "$set": { "b": 1 } }, "multi": true }];
    let update = doc! { "update": "c", "updates": updates, "maxTimeMS": 50 };
    begin(&mut world, conn, &update);
    world.deployment.handle_disconnected(world.now, conn);
    world.drain();
    assert_eq!(world.deployment.connections(), 2, "the write goes on");
    world.run_for(Duration::from_millis(60));
    assert!(world.deployment.poll_job(world.now).is_none());
    assert_eq!(world.deployment.connections(), 1);
}

#[test]
fn a_connection_whose_write_ends_after_a_pause_of_the_process_is_forgotten() {
    let (mut world, conn, _) = filled();
    let mut update = mark("part");
    update.insert("maxTimeMS", 50);
    begin(&mut world, conn, &update);
    world.deployment.handle_disconnected(world.now, conn);
    let pause = Duration::from_secs(1);
    world.deployment.freeze(world.now, 0, pause);
    world.deployment.run_part(world.now);
    world.drain();
    assert_eq!(world.deployment.connections(), 2, "the write goes on");
    world.run_for(pause);
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    assert_eq!(world.deployment.connections(), 1);
}

#[test]
fn a_write_in_parts_goes_on_after_the_server_has_closed_its_connection() {
    let (mut world, conn, _) = filled();
    begin(&mut world, conn, &mark("part"));
    world.deployment.disconnect(world.now, 0);
    world.drain();
    assert_eq!(world.closed.len(), 2);
    finish_parts(&mut world);
    assert_eq!(world.deployment.connections(), 0);
    let conn = world.connect(0);
    assert_eq!(count(&mut world, conn, doc! { "part": 1 }), total());
}

#[test]
fn a_write_in_parts_ends_before_the_data_is_dropped() {
    let (mut world, conn, other) = filled();
    let insert = doc! { "insert": "later", "documents": documents() };
    begin(&mut world, conn, &insert);
    world.deployment.restore(world.now);
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("an answer");
    assert_eq!(reply.get_i32("code").ok(), Some(11601), "{reply}");
    assert!(world.deployment.drop_data(world.now));
    finish_parts(&mut world);
    let reply = send(&mut world, other, doc! { "count": "later" });
    assert_eq!(reply.get_i32("n").ok(), Some(0), "{reply}");
}
