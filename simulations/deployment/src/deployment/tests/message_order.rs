//! Tests of the order of the messages of connections that wait for a job.

use super::{
    large_messages::{DOCUMENTS, count, insert, sequence, with_jobs},
    parts::go_on,
    streams::{cursor_of, send_exhaust},
    world::{World, send, standalone},
};
use crate::deployment::ConnId;
use bson::{Bson, Document, RawDocumentBuf, doc};
use onionskin_core::unstable::wire::{Flags, MessageWriter};
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(30);

/// Sends a command on a new connection, whose first request needs no turn.
fn send_apart(world: &mut World, command: Document) -> Document {
    let conn = world.connect(0);
    send(world, conn, command)
}

#[test]
fn a_batch_that_is_being_encoded_comes_before_the_end_of_its_stream() {
    let (mut world, conn, other) = with_jobs();
    world.deployment.take_turns();
    let inserted = send(&mut world, other, insert());
    assert_eq!(inserted.get_i32("n").ok(), Some(DOCUMENTS), "{inserted}");
    let find = doc! { "find": "c", "batchSize": 1 };
    let (cursor, _) = cursor_of(&send(&mut world, conn, find));
    let batch = DOCUMENTS - 500;
    let more = doc! { "getMore": cursor, "collection": "c", "batchSize": batch };
    send_exhaust(&mut world, conn, more);
    assert!(world.deployment.next_turn(world.now, conn));
    world.drain();
    let mut jobs = Vec::new();
    while let Some(job) = world.deployment.poll_short_job() {
        jobs.push(job);
    }
    assert!(!jobs.is_empty(), "an encoding");

    let current = doc! { "currentOp": 1, "op": "getmore", "$db": "admin" };
    let current = send_apart(&mut world, current);
    let running = current.get_array("inprog").expect("operations");
    let found = running.first().and_then(Bson::as_document);
    let number = found.and_then(|found| found.get_i32("opid").ok());
    let number = number.expect("the number of the stream");
    let kill = doc! { "killOp": 1, "op": number, "$db": "admin" };
    let killed = send_apart(&mut world, kill);
    assert_eq!(killed.get_f64("ok").ok(), Some(1.0), "{killed}");
    assert!(world.reply(conn).is_none(), "the batch is not encoded yet");

    for job in jobs {
        world.deployment.handle_job_done(world.now, job.run());
    }
    world.drain();
    let (response_to, has_more, reply) = world.reply(conn).expect("the batch");
    assert_eq!((response_to, has_more), (77, true));
    let length = usize::try_from(batch).expect("a length");
    assert_eq!(cursor_of(&reply), (cursor, length));
    let (_, has_more, end) = world.reply(conn).expect("the error");
    assert_eq!(end.get_i32("code").ok(), Some(11601), "{end}");
    assert!(!has_more);
}

/// A standalone whose clients take turns, a connection to it, and the number of its connections
/// without this one.
fn with_turns() -> (World, ConnId, usize) {
    let (mut world, conn) = standalone();
    world.deployment.run_jobs();
    world.deployment.take_turns();
    let others = world.deployment.connections() - 1;
    (world, conn, others)
}

/// Returns the bytes of a large insert that a job decodes, and of a small one. Neither has a reply.
fn large_and_small() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, length) in [(1, 300 * 1024), (2, 10)] {
        add_insert(&mut bytes, id, length);
    }
    bytes
}

/// Appends the insert of a document with a text of this length, which has no reply.
fn add_insert(bytes: &mut Vec<u8>, id: i32, length: usize) {
    let insert = doc! {
        "insert": "c", "documents": [{ "_id": id, "text": "x".repeat(length) }],
        "writeConcern": { "w": 0 }, "$db": "d",
    };
    let body = RawDocumentBuf::try_from(&insert).expect("a command");
    MessageWriter::begin(bytes, id, 0)
        .flags(Flags::MORE_TO_COME)
        .body(&body)
        .end();
}

/// Runs the jobs, and checks that both inserts were executed and that their connection was
/// forgotten.
#[track_caller]
fn assert_both_executed(world: &mut World, others: usize) {
    for _ in 0..20 {
        go_on(world);
    }
    assert_eq!(world.deployment.connections(), others);
    let conn = world.connect(0);
    assert_eq!(count(world, conn), Some(2));
}

#[test]
fn a_message_behind_a_large_one_is_executed_although_its_client_has_gone() {
    let (mut world, conn, others) = with_turns();
    world.send_bytes(conn, &large_and_small());
    world.deployment.handle_disconnected(world.now, conn);
    world.drain();
    assert_eq!(world.deployment.connections(), others + 1, "the job is due");
    assert_both_executed(&mut world, others);
}

#[test]
fn messages_that_came_in_a_pause_are_executed_although_their_client_has_gone() {
    let (mut world, conn, others) = with_turns();
    world.deployment.freeze(world.now, 0, PAUSE);
    world.send_bytes(conn, &large_and_small());
    world.deployment.handle_disconnected(world.now, conn);
    world.deployment.thaw(world.now, 0);
    world.drain();
    assert_eq!(world.deployment.connections(), others + 1, "the job is due");
    assert_both_executed(&mut world, others);
}

#[test]
fn messages_that_came_in_a_pause_are_executed_one_at_a_time() {
    let (mut world, conn, others) = with_turns();
    world.deployment.freeze(world.now, 0, PAUSE);
    for id in 0..5 {
        let insert = doc! { "insert": "c", "documents": [{ "_id": id }], "$db": "d" };
        world.send(conn, &insert);
    }
    world.deployment.handle_disconnected(world.now, conn);
    world.deployment.thaw(world.now, 0);
    world.drain();
    for expected in 1..=5 {
        let other = world.connect(0);
        assert_eq!(count(&mut world, other), Some(expected));
        world.deployment.handle_disconnected(world.now, other);
        go_on(&mut world);
    }
    assert_eq!(world.deployment.connections(), others);
}

#[test]
fn a_message_is_executed_after_a_pause_in_which_the_job_of_the_one_before_it_ends() {
    let (mut world, conn, others) = with_turns();
    world.send_bytes(conn, &large_and_small());
    let job = world.deployment.poll_short_job().expect("a decoding");
    world.deployment.handle_disconnected(world.now, conn);
    world.deployment.freeze(world.now, 0, PAUSE);
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    assert_eq!(world.deployment.connections(), others + 1, "a pause");
    world.deployment.thaw(world.now, 0);
    world.drain();
    assert_both_executed(&mut world, others);
}

#[test]
fn a_write_that_is_being_decoded_has_no_effect_after_a_reset() {
    for flags in [Flags::default(), Flags::MORE_TO_COME] {
        let (mut world, conn, other) = with_jobs();
        world.send_bytes(conn, &sequence(1, flags));
        let job = world.deployment.poll_short_job().expect("a decoding");
        world.deployment.restore(world.now);
        assert!(world.deployment.drop_data(world.now));
        world.drain();
        world.deployment.handle_job_done(world.now, job.run());
        world.drain();
        for _ in 0..1000 {
            go_on(&mut world);
        }
        let answer = world.reply(conn).map(|(_, _, reply)| reply);
        let code = answer.and_then(|reply| reply.get_i32("code").ok());
        let is_answered = flags == Flags::default();
        assert_eq!(code, is_answered.then_some(11601), "{flags:?}");
        assert_eq!(count(&mut world, other), Some(0), "{flags:?}");
    }
}

#[test]
fn messages_behind_one_that_is_being_decoded_have_no_effect_after_a_reset() {
    for has_left in [false, true] {
        let (mut world, conn, _) = with_turns();
        world.send_bytes(conn, &large_and_small());
        let job = world.deployment.poll_short_job().expect("a decoding");
        if has_left {
            world.deployment.handle_disconnected(world.now, conn);
        }
        world.deployment.restore(world.now);
        assert!(world.deployment.drop_data(world.now));
        world.drain();
        world.deployment.handle_job_done(world.now, job.run());
        world.drain();
        for _ in 0..20 {
            go_on(&mut world);
        }
        let other = world.connect(0);
        assert_eq!(count(&mut world, other), Some(0), "{has_left}");
    }
}

#[test]
fn a_message_behind_a_write_that_has_paused_has_no_effect_after_a_reset() {
    let (mut world, conn, others) = with_turns();
    let mut bytes = sequence(1, Flags::MORE_TO_COME);
    add_insert(&mut bytes, -1, 10);
    world.send_bytes(conn, &bytes);
    let job = world.deployment.poll_short_job().expect("a decoding");
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    assert!(world.deployment.has_parts(), "the insert has paused");
    world.deployment.restore(world.now);
    assert!(world.deployment.drop_data(world.now));
    world.drain();
    for _ in 0..20 {
        while let Some(turn) = world.deployment.poll_turn() {
            while world.deployment.next_turn(world.now, turn) {}
        }
        go_on(&mut world);
    }
    assert_eq!(world.closed, [conn]);
    assert_eq!(world.deployment.connections(), others);
    let other = world.connect(0);
    assert_eq!(count(&mut world, other), Some(0));
}
