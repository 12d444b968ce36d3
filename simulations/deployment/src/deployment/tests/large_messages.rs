//! Tests of large messages and large data, on which jobs work while other clients are served.

use super::{
    parts::{begin, expensive, go_on, run},
    world::{World, send, standalone},
};
use crate::{
    deployment::{CompressedReplies, CompressionOptions, ConnId, DeploymentOptions, plain_message},
    store::Namespace,
};
use bson::{Document, doc};
use onionskin_core::{
    address::Address,
    unstable::wire::{Flags, MessageWriter},
};
use std::sync::{Arc, Weak};

/// The number of documents of a large message, which has more than 256 KiB.
pub(super) const DOCUMENTS: i32 = 3000;

fn documents() -> Vec<Document> {
    let document = |n: i32| doc! { "_id": n, "text": "x".repeat(150) };
    (0..DOCUMENTS).map(document).collect()
}

pub(super) fn insert() -> Document {
    doc! { "insert": "c", "documents": documents() }
}

/// A standalone that runs jobs, and two connections to it.
pub(super) fn with_jobs() -> (World, ConnId, ConnId) {
    let (mut world, conn) = standalone();
    world.deployment.run_jobs();
    let other = world.connect(0);
    (world, conn, other)
}

fn assert_ping(world: &mut World, other: ConnId) {
    begin(world, other, &doc! { "ping": 1 });
    let (_, _, reply) = world.reply(other).expect("an answer at once");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

/// Returns the bytes of an insert with its documents as a sequence.
pub(super) fn sequence(id: i32, flags: Flags) -> Vec<u8> {
    let documents = documents().into_iter();
    let documents: Vec<u8> = documents.flat_map(|d| d.to_vec().expect("valid")).collect();
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, id, 0)
        .flags(flags)
        .body(&bson::rawdoc! { "insert": "c", "$db": "d" })
        .sequence("documents", &documents)
        .end();
    bytes
}

pub(super) fn count(world: &mut World, conn: ConnId) -> Option<i32> {
    send(world, conn, doc! { "count": "c" }).get_i32("n").ok()
}

#[test]
fn others_are_served_while_a_job_decodes_a_large_message() {
    let (mut world, conn, other) = with_jobs();
    // The bytes come in pieces, as from a socket.
    for piece in sequence(1, Flags::default()).chunks(64 * 1024) {
        world.send_bytes(conn, piece);
    }
    assert!(world.reply(conn).is_none(), "it is not decoded yet");
    assert_ping(&mut world, other);
    assert_eq!(count(&mut world, other), Some(0));
    let job = world.deployment.poll_short_job().expect("a decoding");
    assert!(world.deployment.poll_short_job().is_none(), "there is one");
    let done = job.run();
    assert_ping(&mut world, other);
    world.deployment.handle_job_done(world.now, done);
    world.drain();
    let mut parts = 0;
    let reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        assert_ping(&mut world, other);
        go_on(&mut world);
        parts += 1;
    };
    assert!(parts > 3, "{parts} parts");
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    assert_eq!(count(&mut world, other), Some(DOCUMENTS));
}

#[test]
fn the_commands_of_a_connection_keep_their_order() {
    let (mut world, conn, other) = with_jobs();
    let mut bytes = sequence(1, Flags::default());
    MessageWriter::begin(&mut bytes, 2, 0)
        .body(&bson::rawdoc! { "count": "c", "$db": "d" })
        .end();
    bytes.extend(sequence(3, Flags::default()));
    world.send_bytes(conn, &bytes);
    let mut replies = Vec::new();
    for _ in 0..1000 {
        assert_ping(&mut world, other);
        go_on(&mut world);
        let answers = std::iter::from_fn(|| world.reply(conn));
        replies.extend(answers.map(|(id, _, reply)| (id, reply.get_i32("n").ok())));
    }
    let expected = [(1, Some(DOCUMENTS)), (2, Some(DOCUMENTS)), (3, Some(0))];
    assert_eq!(replies, expected);
}

#[test]
fn a_write_that_was_received_is_executed_although_its_client_has_gone() {
    let (mut world, conn, other) = with_jobs();
    world.send_bytes(conn, &sequence(1, Flags::MORE_TO_COME));
    world.deployment.handle_disconnected(world.now, conn);
    for _ in 0..1000 {
        go_on(&mut world);
    }
    assert_eq!(count(&mut world, other), Some(DOCUMENTS));
    assert_eq!(world.deployment.connections(), 1);
}

#[test]
fn a_write_that_a_router_has_received_reaches_its_shard_although_its_client_has_gone() {
    let options = DeploymentOptions::sharded(vec![Address::tcp("r0", 27017)]);
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(0), world.connect(0));
    world.send_bytes(conn, &sequence(1, Flags::default()));
    world.deployment.handle_disconnected(world.now, conn);
    for _ in 0..1000 {
        go_on(&mut world);
    }
    assert_eq!(count(&mut world, other), Some(DOCUMENTS));
    assert_eq!(world.deployment.connections(), 1);
}

#[test]
fn the_end_of_a_job_closes_its_connection_after_a_panic_or_a_malformed_message() {
    let (mut world, panics, other) = with_jobs();
    world.send_bytes(panics, &sequence(1, Flags::default()));
    let key = world.deployment.poll_job(world.now).expect("a job").key();
    world.deployment.handle_job_done(world.now, key.panicked());
    world.drain();
    assert_eq!(world.closed, [panics]);
    let malformed = world.connect(0);
    let mut bytes = sequence(1, Flags::CHECKSUM_PRESENT);
    // The last byte is one of the checksum.
    bytes.iter_mut().rev().take(1).for_each(|byte| *byte ^= 1);
    world.send_bytes(malformed, &bytes);
    go_on(&mut world);
    assert_eq!(world.closed, [panics, malformed]);
    assert_ping(&mut world, other);
}

#[test]
fn a_large_command_of_a_wrong_form_has_the_error_of_a_small_one() {
    let (mut world, conn, other) = with_jobs();
    let mut wrong = insert();
    let mut small = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    for command in [&mut wrong, &mut small] {
        command.insert("mutli", true);
    }
    let expected = send(&mut world, conn, small);
    assert_eq!(expected.get_i32("code").ok(), Some(40415), "{expected}");
    let (reply, _) = run(&mut world, conn, other, &wrong);
    assert_eq!(reply, expected);
    assert!(world.deployment.poll_short_job().is_some(), "its documents");
}

#[test]
fn messages_that_wait_for_their_job_count_as_unfinished() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    let message = sequence(1, Flags::default());
    options.limits.max_unfinished_bytes = message.len() + 1000;
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let (first, second) = (world.connect(0), world.connect(0));
    world.send_bytes(first, &message);
    world.send_bytes(second, &message[..100]);
    assert!(world.closed.is_empty());
    world.send_bytes(second, &message[100..2000]);
    assert_eq!(world.closed, [first], "the connection with most of them");
    world.send_bytes(second, &message[2000..]);
    for _ in 0..1000 {
        go_on(&mut world);
    }
    let (_, _, reply) = world.reply(second).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
}

#[test]
fn others_are_served_while_a_job_encodes_a_large_reply() {
    let (mut world, conn, other) = with_jobs();
    let (mut whole, of_whole) = standalone();
    run(&mut world, conn, other, &insert());
    send(&mut whole, of_whole, insert());
    let find = doc! { "find": "c", "batchSize": DOCUMENTS + 1 };
    let expected = send(&mut whole, of_whole, find.clone());
    begin(&mut world, conn, &find);
    begin(&mut world, conn, &doc! { "ping": 1 });
    assert!(world.reply(conn).is_none(), "it is not encoded yet");
    assert_ping(&mut world, other);
    let job = world.deployment.poll_short_job().expect("an encoding");
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert!(reply == expected, "the replies are not the same");
    assert!(world.reply(conn).is_some(), "the reply to the ping");
}

#[test]
fn jobs_forward_a_large_request_of_a_router_and_encode_its_reply() {
    let options = DeploymentOptions::sharded(vec![Address::tcp("r0", 27017)]);
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(0), world.connect(0));
    let run_one = |world: &mut World, step: &str| {
        assert!(world.reply(conn).is_none(), "before {step}");
        assert_ping(world, other);
        let job = world.deployment.poll_short_job().expect(step);
        assert!(world.deployment.poll_short_job().is_none(), "there is one");
        world.deployment.handle_job_done(world.now, job.run());
        world.drain();
    };
    world.send_bytes(conn, &sequence(1, Flags::default()));
    for step in [
        "the decoding",
        "the forwarding",
        "the decoding on the shard",
    ] {
        run_one(&mut world, step);
    }
    let reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        assert!(world.deployment.has_parts(), "the insert goes on");
        go_on(&mut world);
    };
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    assert!(free_jobs(&mut world) > 0, "the requests");
    let find = doc! { "find": "c", "batchSize": DOCUMENTS + 1 };
    begin(&mut world, conn, &find);
    for step in ["the encoding on the shard", "the encoding on the router"] {
        run_one(&mut world, step);
    }
    let (_, _, reply) = world.reply(conn).expect("a reply");
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch").expect("a batch");
    assert_eq!(i32::try_from(batch.len()), Ok(DOCUMENTS));
}

#[test]
fn large_replies_have_their_turns_of_the_compressors_although_jobs_compress_them() {
    let compressors = CompressionOptions::default().compressors;
    if compressors.is_empty() {
        return;
    }
    let (mut world, conn, other) = with_jobs();
    run(&mut world, conn, other, &insert());
    free_jobs(&mut world);
    world
        .deployment
        .set_compressed_replies(CompressedReplies::InTurn);
    let clients = [world.connect(0), world.connect(0)];
    let names: Vec<&str> = compressors.iter().map(|c| c.name()).collect();
    for client in clients {
        let hello = doc! { "hello": 1, "compression": names.clone() };
        begin(&mut world, client, &hello);
    }
    let find = doc! { "find": "c", "batchSize": DOCUMENTS + 1 };
    for client in clients {
        begin(&mut world, client, &find);
    }
    let encodings = [(); 2].map(|()| world.deployment.poll_short_job().expect("an encoding"));
    for job in encodings {
        world.deployment.handle_job_done(world.now, job.run());
        world.drain();
        assert_ping(&mut world, other);
    }
    assert!(free_jobs(&mut world) > 0, "a compression");
    world.drain();
    let ids: Vec<u8> = compressors.iter().map(|c| c.id()).chain([0]).collect();
    let mut expected = [0_u64; 4];
    for turn in 0..4 {
        expected[usize::from(ids[turn % ids.len()])] += 1;
    }
    assert_eq!(world.deployment.compression_counts().replies, expected);
    for client in clients {
        let last = world.sent.iter().rfind(|(conn, _)| *conn == client);
        let (_, last) = last.expect("a reply");
        let plain = plain_message(last).expect("a message");
        assert!(plain.len() > 256 * 1024, "{} bytes", plain.len());
    }
}

/// Inserts documents, and returns references to those that the server has.
fn stored(world: &mut World, conn: ConnId) -> Vec<Weak<Document>> {
    let reply = send(world, conn, insert());
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    let store = world.deployment.store(0).expect("a member");
    let collection = store.collection(&Namespace::new("d", "c"));
    let documents = collection.expect("a collection").documents();
    documents.map(Arc::downgrade).collect()
}

/// Runs the short jobs, and returns their number.
fn free_jobs(world: &mut World) -> usize {
    let mut count = 0;
    while let Some(job) = world.deployment.poll_short_job() {
        world.deployment.handle_job_done(world.now, job.run());
        count += 1;
    }
    count
}

#[test]
fn a_job_frees_the_documents_of_a_dropped_collection() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    // The oplog does not keep the dropped collection.
    options.limits.max_oplog_bytes = 1000;
    for runs_jobs in [false, true] {
        for command in [
            doc! { "drop": "c" },
            doc! { "dropDatabase": 1 },
            doc! {
                "renameCollection": "d.small", "to": "d.c", "dropTarget": true, "$db": "admin",
            },
        ] {
            let mut world = World::new(options.clone(), 1);
            if runs_jobs {
                world.deployment.run_jobs();
            }
            let conn = world.connect(0);
            send(&mut world, conn, doc! { "create": "small" });
            let stored = stored(&mut world, conn);
            free_jobs(&mut world);
            let left = || stored.iter().filter(|stored| stored.strong_count() > 0);
            assert_eq!(left().count(), stored.len());
            begin(&mut world, conn, &command);
            let (_, _, reply) = world.reply(conn).expect("a reply");
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
            let expected = if runs_jobs { stored.len() } else { 0 };
            assert_eq!(left().count(), expected, "{command}");
            assert_eq!(free_jobs(&mut world) > 0, runs_jobs, "{command}");
            assert_eq!(left().count(), 0, "{command}");
        }
    }
}

#[test]
fn a_job_frees_the_documents_of_an_insert_that_fails() {
    let (mut world, conn, other) = with_jobs();
    send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": [{ "_id": 0 }] },
    );
    let (reply, _) = run(&mut world, conn, other, &insert());
    assert_eq!(reply.get_i32("n").ok(), Some(0), "{reply}");
    assert_eq!(free_jobs(&mut world), 1);
    // An insert into a view fails as a whole.
    send(
        &mut world,
        conn,
        doc! { "create": "view", "viewOn": "c", "pipeline": [] },
    );
    let mut into_view = insert();
    into_view.insert("insert", "view");
    let (reply, _) = run(&mut world, conn, other, &into_view);
    assert_eq!(reply.get_i32("code").ok(), Some(166), "{reply}");
    assert_eq!(free_jobs(&mut world), 1);
}

#[test]
fn a_write_beside_a_query_copies_few_records_and_a_rename_or_a_drop_none() {
    let (mut world, conn, other) = with_jobs();
    let stored = stored(&mut world, other);
    begin(
        &mut world,
        conn,
        &doc! { "count": "c", "query": expensive() },
    );
    free_jobs(&mut world);
    let job = world.deployment.poll_long_query(world.now);
    let job = job.expect("a query, which has a copy of the data");
    // A copy of a record is one more reference to its document.
    let counts = || -> Vec<usize> { stored.iter().map(Weak::strong_count).collect() };
    let before = counts();
    let one = doc! { "q": { "_id": 1500 }, "u": { "$set": { "text": "y" } } };
    let reply = send(&mut world, other, doc! { "update": "c", "updates": [one] });
    assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
    let after = counts();
    let copied = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after);
    let copied = copied.count();
    assert!((1..=200).contains(&copied), "{copied} records were copied");
    let rename = doc! { "renameCollection": "d.c", "to": "d.other", "$db": "admin" };
    for command in [rename, doc! { "drop": "other" }] {
        let reply = send(&mut world, other, command);
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        assert_eq!(counts(), after, "no record was copied");
    }
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
}
