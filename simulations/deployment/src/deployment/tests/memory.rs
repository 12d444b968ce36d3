//! Tests of the limits on a member's memory: oplog, cursors, unfinished messages and turns.

use super::world::{World, set_of};
use crate::deployment::{Action, ConnId, DeploymentOptions, MemberEvent};
use bson::{Document, RawDocumentBuf, doc};
use onionskin_core::{address::Address, unstable::wire::MessageWriter};
use std::time::Duration;

/// The limit of the oplog's size in these tests, in bytes.
const OPLOG_BYTES: usize = 100_000;

fn insert(world: &mut World, conn: ConnId, count: usize, bytes: usize) {
    let document = doc! { "text": "x".repeat(bytes) };
    let documents: Vec<Document> = vec![document; count];
    let reply = world.send_command(
        conn,
        &doc! { "insert": "c", "documents": documents, "writeConcern": { "w": 1 }, "$db": "d" },
    );
    assert_eq!(
        reply.and_then(|r| r.get_i32("n").ok()),
        i32::try_from(count).ok()
    );
}

fn oplog_bytes(world: &World, member: usize) -> usize {
    world.deployment.oplog_size(member).expect("a member").1
}

#[test]
fn the_oplog_does_not_exceed_its_limit_in_bytes() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    options.limits.max_oplog_bytes = OPLOG_BYTES;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    for _ in 0..50 {
        insert(&mut world, conn, 20, 1000);
        world
            .send_command(conn, &doc! { "drop": "c", "$db": "d" })
            .expect("a reply");
        let bytes = oplog_bytes(&world, 0);
        assert!(bytes <= OPLOG_BYTES, "{bytes}");
    }
    let (entries, bytes) = world.deployment.oplog_size(0).expect("a member");
    assert!(
        entries > 1 && bytes > OPLOG_BYTES / 2,
        "what fits is kept: {entries}, {bytes}"
    );
}

#[test]
fn a_dropped_collection_counts_in_the_oplog_with_the_keys_of_its_indexes() {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("m0", 27017)), 1);
    let conn = world.connect(0);
    let numbers: Vec<i32> = (0..1000).collect();
    let insert = doc! { "insert": "c", "documents": [{ "a": numbers }], "$db": "d" };
    let index = doc! { "key": { "a": 1 }, "name": "a" };
    let index = doc! { "createIndexes": "c", "indexes": [index], "$db": "d" };
    let mut dropped = |commands: &[&Document]| {
        for command in commands {
            world.send_command(conn, command).expect("a reply");
        }
        let before = oplog_bytes(&world, 0);
        let drop = doc! { "drop": "c", "$db": "d" };
        world.send_command(conn, &drop).expect("a reply");
        oplog_bytes(&world, 0) - before
    };
    let documents = dropped(&[&insert]);
    let with_keys = dropped(&[&insert, &index]);
    assert!(with_keys > documents + 10_000, "{with_keys}, {documents}");
}

#[test]
fn a_member_that_falls_behind_the_oplog_copies_all_data_again() {
    let mut options = set_of(3);
    options.limits.max_oplog_bytes = OPLOG_BYTES;
    let mut world = World::new(options, 2);
    world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let primary = world.deployment.primary().expect("a primary");
    let lost = (primary + 1) % 3;
    let conn = world.connect(primary);
    insert(&mut world, conn, 1, 1000);
    world.run_for(Duration::from_secs(5));
    world.deployment.partition(world.now, &[lost]);
    for _ in 0..50 {
        insert(&mut world, conn, 10, 1000);
        world.run_for(Duration::from_millis(100));
        let bytes = oplog_bytes(&world, primary);
        // The primary may not know yet that the other member has the last inserts, so it still
        // keeps them.
        assert!(bytes <= 2 * OPLOG_BYTES + 20_000, "{bytes}");
    }
    world.deployment.heal(world.now);
    world.run_for(Duration::from_secs(60));
    let is_resync =
        |(_, event): &(_, MemberEvent)| *event == MemberEvent::Resynced { member: lost };
    assert!(world.events.iter().any(is_resync), "{:?}", world.events);
    let store = |member| world.deployment.store(member).expect("a member");
    assert_eq!(store(lost), store(primary));
    assert!(oplog_bytes(&world, lost) <= OPLOG_BYTES);
}

/// Opens cursors with a command until one is refused, and returns the open ones.
fn open_cursors(world: &mut World, conn: ConnId, command: &Document) -> Vec<i64> {
    let mut open = Vec::new();
    loop {
        let reply = world.send_command(conn, command).expect("a reply");
        world.run_for(Duration::from_secs(1));
        match reply.get_document("cursor") {
            Ok(cursor) => open.push(cursor.get_i64("id").expect("an id")),
            Err(_) => {
                assert_eq!(reply.get_i32("code").ok(), Some(146), "{reply}");
                return open;
            }
        }
        if open.len() == 5 {
            return open;
        }
    }
}

fn is_open(world: &mut World, conn: ConnId, id: i64) -> bool {
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 1, "$db": "d" };
    let reply = world.send_command(conn, &more).expect("a reply");
    reply.get_document("cursor").is_ok()
}

#[test]
fn a_cursor_beyond_the_limit_of_documents_is_refused_and_the_others_stay_open() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    options.limits.max_cursor_documents = 250;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    insert(&mut world, conn, 101, 10);
    let find = doc! { "find": "c", "batchSize": 1, "$db": "d" };
    let open = open_cursors(&mut world, conn, &find);
    assert_eq!(open.len(), 2);
    for id in open {
        assert!(is_open(&mut world, conn, id));
    }
    // A query that needs no cursor is still answered.
    let find = doc! { "find": "c", "batchSize": 1000, "$db": "d" };
    let reply = world.send_command(conn, &find).expect("a reply");
    assert!(reply.get_document("cursor").is_ok(), "{reply}");
}

#[test]
fn a_cursor_beyond_the_limit_of_bytes_is_refused_and_the_others_stay_open() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    options.limits.max_cursor_bytes = 25_000;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    insert(&mut world, conn, 10, 1000);
    let aggregate = |stage: Document| {
        doc! { "aggregate": "c", "pipeline": [stage], "cursor": { "batchSize": 0 }, "$db": "d" }
    };
    let made = aggregate(doc! { "$set": { "n": 1 } });
    let open = open_cursors(&mut world, conn, &made);
    assert_eq!(open.len(), 2);
    for id in open {
        assert!(is_open(&mut world, conn, id));
    }
    // Documents that the collection holds anyway are not counted.
    let stored = aggregate(doc! { "$match": {} });
    assert_eq!(open_cursors(&mut world, conn, &stored).len(), 5);
}

#[test]
fn too_many_unfinished_bytes_close_the_connection_with_the_most() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    options.limits.max_unfinished_bytes = 100_000;
    let mut world = World::new(options, 1);
    let ping = doc! { "ping": 1, "text": "x".repeat(60_000), "$db": "admin" };
    let message = messages(&[ping]);
    let sent = [50_000, 30_000, 30_000];
    let conns = sent.map(|count| {
        let conn = world.connect(0);
        world
            .deployment
            .handle_received(world.now, conn, &message[..count]);
        conn
    });
    let mut closed = Vec::new();
    while let Some(action) = world.deployment.poll_action() {
        if let Action::Close(conn) = action {
            closed.push(conn);
        }
    }
    assert_eq!(closed, [conns[0]], "the connection with most of them");
    // The other connections complete their messages. Completed messages no longer count.
    for (conn, count) in conns.into_iter().zip(sent).skip(1) {
        world
            .deployment
            .handle_received(world.now, conn, &message[count..]);
        let (answered, _) = world.deployment.poll_transmit().expect("a reply");
        assert_eq!(answered, conn);
    }
}

/// Returns the messages of some commands, one after the other.
fn messages(commands: &[Document]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, command) in (1..).zip(commands) {
        let raw = RawDocumentBuf::try_from(command).expect("a command");
        MessageWriter::begin(&mut bytes, id, 0).body(&raw).end();
    }
    bytes
}

#[test]
fn with_turns_enabled_each_request_of_a_connection_waits_for_its_turn() {
    let mut world = World::new(set_of(3), 3);
    world.deployment.take_turns();
    world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let primary = world.deployment.primary().expect("a primary");
    let conn = world.connect(primary);
    let insert = doc! {
        "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 3 }, "$db": "d",
    };
    let ping = doc! { "ping": 1, "$db": "admin" };
    world.send_bytes(conn, &messages(&[ping.clone(), ping.clone(), insert, ping]));
    let answered = |world: &mut World| world.reply(conn).map(|(id, ..)| id);
    assert_eq!(answered(&mut world), Some(1));
    assert_eq!(
        answered(&mut world),
        None,
        "the second one waits for its turn"
    );
    assert!(world.deployment.next_turn(world.now, conn));
    world.drain();
    assert_eq!(answered(&mut world), Some(2));
    assert!(world.deployment.next_turn(world.now, conn));
    world.drain();
    assert_eq!(answered(&mut world), None, "it waits for the other members");
    assert!(!world.deployment.next_turn(world.now, conn));
    while world.deployment.poll_turn().is_some() {}
    world.run_for(Duration::from_secs(5));
    assert_eq!(answered(&mut world), Some(3));
    assert_eq!(answered(&mut world), None, "no turn comes by itself");
    assert_eq!(world.deployment.poll_turn(), Some(conn));
    assert!(world.deployment.next_turn(world.now, conn));
    world.drain();
    assert_eq!(answered(&mut world), Some(4));
    assert!(!world.deployment.next_turn(world.now, conn));
}

#[test]
fn an_insert_whose_index_keys_exceed_the_limit_of_the_data_fails_alone() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    options.limits.max_data_bytes = 4 << 20;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let indexes: Vec<Document> = (0..63)
        .map(|n| doc! { "key": { "a": 1, format!("f{n}"): 1 }, "name": format!("n{n}") })
        .collect();
    let command = doc! { "createIndexes": "c", "indexes": indexes, "$db": "d" };
    let reply = world.send_command(conn, &command).expect("a reply");
    assert_eq!(reply.get_i32("numIndexesAfter").ok(), Some(64), "{reply}");
    let insert = |items: i32| {
        let array: Vec<i32> = (0..items).collect();
        doc! { "insert": "c", "documents": [{ "a": array }], "$db": "d" }
    };
    let reply = world.send_command(conn, &insert(80_000)).expect("a reply");
    let errors = reply.get_array("writeErrors").expect("a write error");
    let code = errors[0].as_document().and_then(|e| e.get_i32("code").ok());
    assert_eq!(code, Some(14031), "{reply}");
    let reply = world.send_command(conn, &insert(10)).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    // Further documents fit until the limit, and again after a drop.
    let mut count = 0;
    while world
        .send_command(conn, &insert(10))
        .is_some_and(|r| r.get_i32("n").ok() == Some(1))
    {
        count += 1;
    }
    assert!((10..100).contains(&count), "{count}");
    world
        .send_command(conn, &doc! { "drop": "c", "$db": "d" })
        .expect("a reply");
    let reply = world.send_command(conn, &insert(80_000)).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
}
