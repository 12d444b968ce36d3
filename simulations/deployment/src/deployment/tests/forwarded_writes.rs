//! Pipelines with `$out` and `$merge` on secondaries.

use super::{
    parts::go_on,
    world::{World, set_of},
};
use crate::{
    deployment::{ConnId, ServerVersion},
    store::Namespace,
};
use bson::{Bson, Document, doc};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// The largest size of a message of the members.
const MAX_MESSAGE_BYTES: usize = 100_000;

/// The pause of a frozen member, which is shorter than the election timeout.
const PAUSE: Duration = Duration::from_secs(5);

/// Makes a world of three members with documents that all have. Returns the primary, a secondary,
/// and a connection to each.
fn with_secondary(release: [u16; 3]) -> (World, [usize; 2], [ConnId; 2]) {
    let mut options = set_of(3);
    options.limits.max_message_bytes = MAX_MESSAGE_BYTES;
    options.version = ServerVersion {
        release,
        ..options.version
    };
    let mut world = World::new(options, 1);
    let found = world.until_primary(Duration::from_secs(60));
    let (primary, _) = found.expect("a primary");
    let secondary = (primary + 1) % 3;
    let connections = [world.connect(primary), world.connect(secondary)];
    let insert = doc! {
        "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }], "writeConcern": { "w": 3 },
        "$db": "d",
    };
    let reply = world
        .send_command(connections[0], &insert)
        .expect("a reply");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    (world, [primary, secondary], connections)
}

fn writing(stage: Document) -> Document {
    doc! {
        "aggregate": "c", "pipeline": [{ "$match": { "_id": 1 } }, stage], "cursor": {},
        "$readPreference": { "mode": "secondary" }, "$db": "d",
    }
}

#[test]
fn a_secondary_has_the_primary_write() {
    let (mut world, _, [primary, secondary]) = with_secondary([5, 0, 31]);
    for stage in [
        doc! { "$out": "other" },
        doc! { "$merge": { "into": "other" } },
    ] {
        let reply = world
            .send_command(secondary, &writing(stage))
            .expect("a reply");
        let cursor = reply.get_document("cursor").expect("a cursor");
        let expected = doc! { "firstBatch": [], "id": 0_i64, "ns": "d.c" };
        assert_eq!(cursor, &expected);
    }
    let sessions = doc! {
        "aggregate": 1, "pipeline": [{ "$listLocalSessions": {} }, { "$out": "none" }],
        "cursor": {}, "$readPreference": { "mode": "secondary" }, "$db": "d",
    };
    let reply = world.send_command(secondary, &sessions).expect("a reply");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let find = doc! { "find": "other", "$db": "d" };
    let reply = world.send_command(primary, &find).expect("a reply");
    let cursor = reply.get_document("cursor").expect("a cursor");
    let found = cursor.get_array("firstBatch").expect("a batch");
    assert_eq!(found, &[Bson::from(doc! { "_id": 1 })]);
}

#[test]
fn a_secondary_checks_the_command_that_the_primary_must_write() {
    let (mut world, _, [_, secondary]) = with_secondary([5, 0, 31]);
    let mut command = writing(doc! { "$out": "other" });
    command.remove("cursor");
    let reply = world.send_command(secondary, &command).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(9), "{reply}");
    command.insert("explain", true);
    let reply = world.send_command(secondary, &command).expect("a reply");
    assert!(reply.contains_key("queryPlanner"), "{reply}");
    let mut command = writing(doc! { "$out": "other" });
    command.remove("$readPreference");
    let reply = world.send_command(secondary, &command).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(13435), "{reply}");
}

#[test]
fn a_secondary_before_5_0_and_one_without_its_primary_write_nothing() {
    let (mut world, _, [_, secondary]) = with_secondary([4, 4, 29]);
    let write = writing(doc! { "$out": "other" });
    let reply = world.send_command(secondary, &write).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(10107), "{reply}");
    let (mut world, [primary, other], [_, secondary]) = with_secondary([5, 0, 31]);
    world.deployment.cut(world.now, primary, other);
    let reply = world.send_command(secondary, &write).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(6), "{reply}");
}

#[test]
fn a_primary_that_disconnects_takes_no_connection_of_a_secondary_along() {
    let (mut world, [primary, _], [_, secondary]) = with_secondary([5, 0, 31]);
    let write = writing(doc! { "$out": "other" });
    world.send_command(secondary, &write).expect("a reply");
    world.deployment.disconnect(world.now, primary);
    let ping = doc! { "ping": 1, "$db": "admin" };
    let reply = world.send_command(secondary, &ping).expect("a reply");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let reply = world.send_command(secondary, &write).expect("a reply");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

#[test]
fn a_secondary_forwards_each_request_while_its_clients_take_turns() {
    let (mut world, _, [_, secondary]) = with_secondary([5, 0, 31]);
    world.deployment.take_turns();
    for number in 0..3 {
        let sent = world.send(secondary, &writing(doc! { "$out": "other" }));
        if number > 0 {
            assert!(world.deployment.next_turn(world.now, secondary));
            world.drain();
        }
        world.run_for(Duration::from_secs(1));
        let (id, _, reply) = world.reply(secondary).expect("a reply");
        assert_eq!((id, reply.get_f64("ok").ok()), (sent, Some(1.0)), "{reply}");
    }
}

#[test]
fn a_job_encodes_what_a_secondary_has_the_primary_write() {
    let (mut world, _, [primary, secondary]) = with_secondary([5, 0, 31]);
    world.deployment.run_jobs();
    world.send(secondary, &writing(doc! { "$out": "other" }));
    assert!(world.reply(secondary).is_none());
    let job = world.deployment.poll_short_job().expect("an encoding");
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    for _ in 0..2000 {
        go_on(&mut world);
    }
    let (_, _, reply) = world.reply(secondary).expect("a reply");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let count = doc! { "count": "other", "$db": "d" };
    let reply = world.send_command(primary, &count).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
}

/// Returns a pipeline that a secondary has the primary write, and that waits for a majority.
fn slow_write() -> Document {
    let mut write = writing(doc! { "$out": "other" });
    write.insert("writeConcern", doc! { "w": "majority" });
    write
}

#[test]
fn a_frozen_secondary_passes_no_reply_or_failure_on_before_the_end_of_its_pause() {
    for is_killed in [false, true] {
        let (mut world, [primary, other], [_, secondary]) = with_secondary([5, 0, 31]);
        world.send(secondary, &slow_write());
        assert!(world.reply(secondary).is_none(), "it waits for a majority");
        world.deployment.freeze(world.now, other, PAUSE);
        if is_killed {
            world.deployment.kill(world.now, primary);
            world.drain();
        }
        world.run_for(PAUSE - Duration::from_secs(1));
        assert_eq!(world.reply(secondary), None, "{is_killed}");
        world.run_for(Duration::from_secs(2));
        let (_, _, reply) = world.reply(secondary).expect("a reply after the pause");
        let code = reply.get_i32("code").ok();
        assert_eq!(code, is_killed.then_some(6), "{reply}");
    }
}

#[test]
fn a_secondary_has_the_primary_write_after_a_pause_although_its_client_has_gone() {
    let (mut world, [_, other], [primary, secondary]) = with_secondary([5, 0, 31]);
    world.deployment.freeze(world.now, other, PAUSE);
    world.send(secondary, &slow_write());
    world.deployment.handle_disconnected(world.now, secondary);
    world.drain();
    assert_eq!(world.deployment.connections(), 2, "during the pause");
    world.run_for(PAUSE + Duration::from_secs(1));
    assert_eq!(world.deployment.connections(), 1);
    let count = doc! { "count": "other", "$db": "d" };
    let reply = world.send_command(primary, &count).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
}

#[test]
fn a_job_copies_the_documents_that_a_secondary_has_the_primary_write() {
    let (mut world, [_, other], [_, secondary]) = with_secondary([5, 0, 31]);
    world.deployment.run_jobs();
    let store = world.deployment.store(other).expect("a member");
    let collection = store.collection(&Namespace::new("d", "c"));
    let documents = collection.expect("a collection").documents();
    let stored: Vec<Weak<Document>> = documents.map(Arc::downgrade).collect();
    let references = || stored.iter().map(Weak::strong_count).sum::<usize>();
    let before = references();
    world.send(secondary, &writing(doc! { "$out": "other" }));
    assert_eq!(references(), before + 1, "the job has the document itself");
    let job = world.deployment.poll_short_job().expect("an encoding");
    let done = job.run();
    assert_eq!(references(), before);
    world.deployment.handle_job_done(world.now, done);
    world.drain();
    for _ in 0..2000 {
        go_on(&mut world);
    }
    let (_, _, reply) = world.reply(secondary).expect("a reply");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

#[test]
fn documents_that_exceed_a_message_are_not_sent_to_the_primary() {
    let (mut world, _, [primary, secondary]) = with_secondary([5, 0, 31]);
    let text = "x".repeat(MAX_MESSAGE_BYTES / 4);
    for id in 1..=4 {
        let insert = doc! {
            "insert": "large", "documents": [{ "_id": id, "text": &text }],
            "writeConcern": { "w": 3 }, "$db": "d",
        };
        let reply = world.send_command(primary, &insert).expect("a reply");
        assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    }
    for (most, code) in [(4, Some(10334)), (3, None)] {
        let mut write = writing(doc! { "$out": "other" });
        write.insert("aggregate", "large");
        let stages = vec![
            doc! { "$match": { "_id": { "$lte": most } } },
            doc! { "$out": "other" },
        ];
        write.insert("pipeline", stages);
        let reply = world.send_command(secondary, &write).expect("a reply");
        assert_eq!(reply.get_i32("code").ok(), code, "{reply}");
    }
}
