//! Tests of streams of replies to a `getMore`, of the times of routers, and of the fields that the
//! replies to writes have on members of replica sets.

use super::world::{World, send, set_of, with_primary};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Binary, Document, RawDocumentBuf, doc, spec::BinarySubtype};
use onionskin_core::{
    address::Address,
    unstable::wire::{Flags, MessageWriter},
};
use std::time::Duration;

/// Sends a `getMore` whose client accepts several replies.
pub(super) fn send_exhaust(world: &mut World, conn: ConnId, mut command: Document) {
    command.insert("$db", "d");
    let body = RawDocumentBuf::try_from(&command).expect("a command");
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 77, 0)
        .flags(Flags::EXHAUST_ALLOWED)
        .body(&body)
        .end();
    world.send_bytes(conn, &bytes);
}

pub(super) fn cursor_of(reply: &Document) -> (i64, usize) {
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch");
    let batch = batch.or_else(|_| cursor.get_array("nextBatch"));
    (
        cursor.get_i64("id").expect("an id"),
        batch.expect("a batch").len(),
    )
}

fn open(world: &mut World, conn: ConnId, find: Document) -> i64 {
    let documents: Vec<_> = (0..5).map(|n| doc! { "_id": n }).collect();
    send(world, conn, doc! { "insert": "c", "documents": documents });
    cursor_of(&send(world, conn, find)).0
}

#[test]
fn a_get_more_with_exhaust_is_answered_until_the_cursor_ends() {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("m0", 27017)), 1);
    let conn = world.connect(0);
    let id = open(&mut world, conn, doc! { "find": "c", "batchSize": 1 });
    send_exhaust(
        &mut world,
        conn,
        doc! { "getMore": id, "collection": "c", "batchSize": 2 },
    );
    world.run_for(Duration::from_millis(1));
    let mut found = Vec::new();
    while let Some((response_to, more, reply)) = world.reply(conn) {
        assert_eq!(response_to == 77, found.is_empty(), "{reply}");
        let (next, count) = cursor_of(&reply);
        assert_eq!(more, next != 0, "{reply}");
        found.push(count);
    }
    assert_eq!(found, [2, 2, 0]);
    // The connection is free for the next command.
    let reply = send(&mut world, conn, doc! { "ping": 1 });
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0));
}

#[test]
fn a_stream_of_a_tailable_cursor_waits_for_documents() {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("m0", 27017)), 1);
    let conn = world.connect(0);
    send(
        &mut world,
        conn,
        doc! { "create": "c", "capped": true, "size": 10_000 },
    );
    let find = doc! { "find": "c", "tailable": true, "awaitData": true };
    let id = open(&mut world, conn, find);
    send_exhaust(
        &mut world,
        conn,
        doc! { "getMore": id, "collection": "c", "maxTimeMS": 100 },
    );
    world.run_for(Duration::from_millis(250));
    for _ in 0..2 {
        let (_, more, reply) = world.reply(conn).expect("a reply");
        assert_eq!((more, cursor_of(&reply)), (true, (id, 0)));
    }
    let other = world.connect(0);
    send(
        &mut world,
        other,
        doc! { "insert": "c", "documents": [{ "_id": 9 }] },
    );
    let (_, more, reply) = world.reply(conn).expect("a reply");
    assert_eq!((more, cursor_of(&reply)), (true, (id, 1)));
    send(
        &mut world,
        other,
        doc! { "killCursors": "c", "cursors": [id] },
    );
    world.run_for(Duration::from_millis(250));
    let (_, more, reply) = world.reply(conn).expect("a reply");
    assert_eq!(
        (more, reply.get_i32("code").ok()),
        (false, Some(43)),
        "{reply}"
    );
}

#[test]
fn a_router_adds_the_times_of_the_shard_to_its_own_replies() {
    let options = DeploymentOptions::sharded(vec![Address::tcp("r0", 27017)]);
    let mut world = World::new(options, 1);
    world.run_for(Duration::from_secs(1));
    let conn = world.connect(0);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    let written = send(&mut world, conn, insert);
    assert!(!written.contains_key("opTime"), "{written}");
    let reply = send(&mut world, conn, doc! { "ping": 1 });
    for time in ["operationTime", "$clusterTime"] {
        assert!(written.contains_key(time), "{written}");
        assert_eq!(reply.get(time), written.get(time), "{time}");
    }
}

#[test]
fn writes_on_a_set_name_the_election_and_their_position() {
    let (mut world, _, conn) = with_primary();
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    let written = send(&mut world, conn, insert);
    let position = written.get_document("opTime").expect("opTime");
    assert_eq!(position.get("ts"), written.get("operationTime"));
    let hello = send(&mut world, conn, doc! { "hello": 1 });
    assert_eq!(written.get("electionId"), hello.get("electionId"));
}

#[test]
fn a_transaction_number_of_another_command_is_not_executed_again() {
    let mut world = World::new(set_of(1), 1);
    world
        .until_primary(Duration::from_secs(30))
        .expect("a primary");
    let conn = world.connect(0);
    let session = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![9; 16],
    };
    let with = |mut command: Document| {
        command.extend(doc! { "lsid": { "id": session.clone() }, "txnNumber": 1_i64 });
        command
    };
    let insert = with(doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    assert_eq!(send(&mut world, conn, insert).get_i32("n").ok(), Some(1));
    let modify = doc! { "findAndModify": "c", "query": { "_id": 1 }, "remove": true };
    let refused = send(&mut world, conn, with(modify));
    assert_eq!(refused.get_i32("code").ok(), Some(40608), "{refused}");
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] };
    let repeated = send(&mut world, conn, with(delete));
    assert_eq!(repeated.get_i32("n").ok(), Some(1), "{repeated}");
    let count = send(&mut world, conn, doc! { "count": "c" });
    assert_eq!(count.get_i32("n").ok(), Some(1), "{count}");
}
