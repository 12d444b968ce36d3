//! Tests of the protocol, for example of malformed messages, hellos, fail points and error codes.

use super::world::{World, set_of, with_primary};
use crate::{
    deployment::{ConnId, DeploymentOptions, User},
    legacy::{LegacyQuery, LegacyReply},
};
use bson::{Document, doc, rawdoc};
use onionskin_core::{
    address::Address,
    random::Seed,
    unstable::wire::{Flags, MessageWriter},
};
use std::time::Duration;

fn standalone() -> World {
    World::new(DeploymentOptions::standalone(Address::tcp("s", 1)), 1)
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

#[test]
fn garbage_closes_only_the_connection_it_arrives_on() {
    let mut random = Seed::new([3; 32]).random();
    let mut world = standalone();
    let healthy = world.connect(0);
    for _ in 0..300 {
        let conn = world.connect(0);
        let mut bytes = vec![0; 16 + random.below(100) as usize];
        random.fill(&mut bytes);
        // About half of the messages have a valid header, so that the server decodes what follows.
        if random.chance(1, 2) {
            let length = bytes.len() as i32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            bytes[12..16].copy_from_slice(&2013_i32.to_le_bytes());
            if let Some(flags) = bytes[16..].first_chunk_mut::<4>() {
                *flags = [0; 4];
            }
        }
        world.send_bytes(conn, &bytes);
    }
    assert!(world.closed.len() > 200);
    assert!(!world.closed.contains(&healthy));
    let pong = world.send_command(healthy, &doc! { "ping": 1, "$db": "admin" });
    assert!(pong.is_some());
}

#[test]
fn frames_may_arrive_byte_by_byte_or_all_at_once() {
    let mut bytes = Vec::new();
    for id in 0..3 {
        MessageWriter::begin(&mut bytes, id, 0)
            .body(&rawdoc! { "ping": 1, "$db": "admin" })
            .end();
    }
    for size in [1, 7, bytes.len()] {
        let mut world = standalone();
        let conn = world.connect(0);
        for chunk in bytes.chunks(size) {
            world.send_bytes(conn, chunk);
        }
        for id in 0..3 {
            assert_eq!(world.reply(conn).map(|(to, ..)| to), Some(id));
        }
    }
}

#[test]
fn deep_nesting_is_refused_without_a_crash() {
    let mut inner = rawdoc! {};
    for _ in 0..5000 {
        inner = rawdoc! { "a": inner };
    }
    let command = rawdoc! { "ping": 1, "$db": "admin", "x": inner };
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 1, 0).body(&command).end();
    let mut world = standalone();
    let conn = world.connect(0);
    world.send_bytes(conn, &bytes);
    let (_, _, reply) = world.reply(conn).expect("an answer");
    assert_eq!(code(&reply), Some(22));
}

#[test]
fn unacknowledged_writes_are_executed_without_a_reply() {
    // A request with `moreToCome` gets no reply (MSG-18).
    let mut world = standalone();
    let conn = world.connect(0);
    let mut bytes = Vec::new();
    let command = rawdoc! {
        "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 0 }, "$db": "d",
    };
    MessageWriter::begin(&mut bytes, 1, 0)
        .flags(Flags::MORE_TO_COME)
        .body(&command)
        .end();
    world.send_bytes(conn, &bytes);
    assert!(world.reply(conn).is_none());
    let n = world.send_command(conn, &doc! { "count": "c", "$db": "d" });
    assert_eq!(n.and_then(|r| r.get_i32("n").ok()), Some(1));
}

#[test]
fn a_legacy_hello_in_op_query_gets_an_op_reply() {
    let mut world = World::new(set_of(3), 1);
    let conn = world.connect(0);
    let mut bytes = Vec::new();
    LegacyQuery {
        collection: "admin.$cmd",
        command: &rawdoc! { "isMaster": 1, "helloOk": true },
    }
    .encode(&mut bytes, 9);
    world.send_bytes(conn, &bytes);
    let (_, sent) = world.sent.last().expect("an answer");
    let reply = LegacyReply::decode(sent).expect("an OP_REPLY").body;
    assert_eq!(reply.get_bool("ismaster").ok(), Some(true));
    assert_eq!(reply.get_bool("helloOk").ok(), Some(true));
}

#[test]
fn an_awaitable_hello_is_answered_on_a_change_or_after_max_await_time() {
    // An awaitable hello is answered on a change or after `maxAwaitTimeMS` (MON-74).
    let mut world = World::new(set_of(3), 1);
    let conn = world.connect(1);
    let plain = doc! { "hello": 1, "$db": "admin" };
    let reply = world.send_command(conn, &plain).expect("at once");
    let version = reply
        .get_document("topologyVersion")
        .expect("always")
        .clone();
    let mut awaiting = plain.clone();
    awaiting.insert("topologyVersion", version.clone());
    let refused = world.send_command(conn, &awaiting).expect("an error");
    assert_eq!(code(&refused), Some(2), "both or neither");
    awaiting.insert("maxAwaitTimeMS", 3000_i64);

    world.send(conn, &awaiting);
    world.run_for(Duration::from_millis(2900));
    assert!(world.reply(conn).is_none());
    world.run_for(Duration::from_millis(200));
    let (_, more, same) = world.reply(conn).expect("time is over");
    assert_eq!(same.get_document("topologyVersion").ok(), Some(&version));
    assert!(!more);

    world.send(conn, &awaiting);
    world.deployment.step_down(world.now);
    world.run_for(Duration::from_secs(1));
    let (_, _, changed) = world.reply(conn).expect("something changed");
    let counter = |v: &Document| v.get_i64("counter").ok();
    let after = changed.get_document("topologyVersion").expect("always");
    assert!(counter(after) > counter(&version));
}

#[test]
fn each_streamed_hello_reply_responds_to_the_reply_before_it() {
    // A client that sets `exhaustAllowed` gets a stream of replies (MSG-23, MON-74). The
    // `responseTo` of each later reply names the reply before it (MSG-21).
    let mut world = World::new(set_of(3), 1);
    let conn = world.connect(1);
    let hello = doc! { "hello": 1, "$db": "admin" };
    let reply = world.send_command(conn, &hello).expect("at once");
    let version = reply.get_document("topologyVersion").expect("always");
    let process = version.get_object_id("processId").expect("an id");
    let counter = version.get_i64("counter").expect("a counter");
    let command = rawdoc! {
        "hello": 1, "topologyVersion": { "processId": process, "counter": counter },
        "maxAwaitTimeMS": 1000_i64, "$db": "admin",
    };
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 77, 0)
        .flags(Flags::EXHAUST_ALLOWED)
        .body(&command)
        .end();
    world.send_bytes(conn, &bytes);
    world.run_for(Duration::from_millis(3500));
    let (mut previous, mut count) = (77, 0);
    while let Some((to, more, _)) = world.reply(conn) {
        assert!(more);
        assert!(count == 0 && to == 77 || count > 0 && to > 0 && to != previous);
        (previous, count) = (to, count + 1);
    }
    assert_eq!(count, 3, "one per second");
}

#[test]
fn a_secondary_refuses_operations_with_not_primary_errors() {
    let mut world = World::new(set_of(3), 1);
    let conn = world.connect(1);
    let mut insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" };
    let refused = world.send_command(conn, &insert).expect("an error");
    assert_eq!(code(&refused), Some(10107));
    assert!(refused.contains_key("topologyVersion"));
    assert!(!refused.contains_key("errorLabels"));
    insert.insert("txnNumber", 1_i64);
    let refused = world.send_command(conn, &insert).expect("an error");
    let labels = refused.get_array("errorLabels").expect("a label");
    assert_eq!(labels, &["RetryableWriteError".into()]);
    let find = doc! { "find": "c", "$db": "d" };
    assert_eq!(
        world.send_command(conn, &find).as_ref().and_then(code),
        Some(13435)
    );
}

#[test]
fn an_unsatisfied_write_concern_is_reported() {
    let mut world = World::new(set_of(3), 1);
    world.deployment.kill(world.now, 1);
    world.deployment.kill(world.now, 2);
    let conn = world.connect(0);
    let insert = |w: bson::Bson| {
        doc! {
            "insert": "c", "documents": [{}], "writeConcern": { "w": w, "wtimeout": 100 },
            "$db": "d",
        }
    };
    for (w, expected) in [
        ("majority".into(), 64),
        (2.into(), 64),
        (4.into(), 100),
        ("x".into(), 79),
    ] {
        let reply = world.send_command(conn, &insert(w)).expect("an answer");
        let concern = reply.get_document("writeConcernError").expect("not met");
        assert_eq!(concern.get_i32("code").ok(), Some(expected));
        assert_eq!(reply.get_i32("n").ok(), Some(1));
    }
}

#[test]
fn fail_points_fail_commands_and_close_connections_as_configured() {
    let mut world = standalone();
    let conn = world.connect(0);
    let configure = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 2 },
        "data": { "failCommands": ["ping"], "errorCode": 91, "errorLabels": ["x"] },
        "$db": "admin",
    };
    world.send_command(conn, &configure);
    let ping = doc! { "ping": 1, "$db": "admin" };
    for expected in [Some(91), Some(91), None] {
        let reply = world.send_command(conn, &ping).expect("an answer");
        assert_eq!(code(&reply), expected);
    }
    let blocking = doc! {
        "configureFailPoint": "failCommand", "mode": "alwaysOn",
        "data": {
            "failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 500,
            "closeConnection": true,
        },
        "$db": "admin",
    };
    world.send_command(conn, &blocking);
    world.send(conn, &ping);
    world.run_for(Duration::from_millis(490));
    assert!(world.closed.is_empty());
    world.run_for(Duration::from_millis(20));
    assert_eq!(world.closed, [conn]);
}

#[test]
fn without_authentication_only_the_handshake_is_permitted() {
    let mut options = DeploymentOptions::standalone(Address::tcp("s", 1));
    options.users.push(User::new("u", "p"));
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let find = doc! { "find": "c", "$db": "d" };
    assert_eq!(
        world.send_command(conn, &find).as_ref().and_then(code),
        Some(13)
    );
    let hello = doc! { "hello": 1, "saslSupportedMechs": "admin.u", "$db": "admin" };
    let reply = world.send_command(conn, &hello).expect("an answer");
    assert_eq!(
        reply.get_array("saslSupportedMechs").map(Vec::len).ok(),
        Some(2)
    );
    let start = doc! {
        "saslStart": 1, "mechanism": "SCRAM-SHA-256", "$db": "admin",
        "payload": bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic, bytes: b"n,,n=nobody,r=abc".to_vec(),
        },
    };
    assert_eq!(
        world.send_command(conn, &start).as_ref().and_then(code),
        Some(18)
    );
}

#[test]
fn unknown_cursors_and_commands_fail_with_their_error_codes() {
    let mut world = standalone();
    let conn = world.connect(0);
    for (command, expected) in [
        (doc! { "getMore": 5_i64, "collection": "c", "$db": "d" }, 43),
        (doc! { "fly": 1, "$db": "d" }, 59),
        (doc! { "ping": 1 }, 40571),
    ] {
        assert_eq!(
            world.send_command(conn, &command).as_ref().and_then(code),
            Some(expected)
        );
    }
}

fn fail_hellos(world: &mut World, mode: Document) {
    let operator = world.connect(0);
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": mode, "$db": "admin",
        "data": { "failCommands": ["hello"], "errorCode": 91 },
    };
    world.send_command(operator, &point).expect("a reply");
}

/// Sends a plain hello, and returns an awaitable hello with the `topologyVersion` of the reply, or
/// with an empty one if the reply has none.
fn awaitable_hello(world: &mut World, conn: ConnId) -> Document {
    let hello = doc! { "hello": 1, "$db": "admin" };
    let reply = world.send_command(conn, &hello).expect("a reply");
    let seen = reply.get_document("topologyVersion").cloned();
    doc! {
        "hello": 1, "topologyVersion": seen.unwrap_or_default(), "maxAwaitTimeMS": 1_000_i64,
        "$db": "admin",
    }
}

#[test]
fn a_fail_point_ends_a_stream_of_hello_replies() {
    let mut world = standalone();
    let conn = world.connect(0);
    let hello = awaitable_hello(&mut world, conn);
    let raw = bson::RawDocumentBuf::try_from(&hello).expect("a command");
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 7, 0)
        .flags(Flags::EXHAUST_ALLOWED)
        .body(&raw)
        .end();
    world.send_bytes(conn, &bytes);
    fail_hellos(&mut world, doc! { "times": 1 });
    // The hello that already waits is answered. The next reply fails and ends the stream.
    world.run_for(Duration::from_millis(1_100));
    let (_, more, reply) = world.reply(conn).expect("a reply");
    assert_eq!((more, code(&reply)), (true, None));
    let (_, more, reply) = world.reply(conn).expect("another");
    assert_eq!((more, code(&reply)), (false, Some(91)));
    world.run_for(Duration::from_secs(10));
    assert!(world.reply(conn).is_none());
}

#[test]
fn a_4_2_server_neither_sends_nor_accepts_a_topology_version() {
    let mut options = DeploymentOptions::standalone(Address::tcp("s", 1));
    options.version.release = [4, 2, 0];
    options.version.max_wire = 8;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let hello = awaitable_hello(&mut world, conn);
    assert_eq!(hello.get_document("topologyVersion").ok(), Some(&doc! {}));
    let refused = world.send_command(conn, &hello).expect("a reply");
    assert_eq!(code(&refused), Some(40415), "{refused}");
}

/// The error shows that the member changed, so the reply has the version by which a client sees
/// whether it knows of the change.
#[test]
fn a_write_concern_error_of_a_former_primary_has_the_topology_version() {
    let (mut world, _, conn) = with_primary();
    let mut versioned = |code: i32| {
        let point = doc! {
            "configureFailPoint": "failCommand", "mode": { "times": 1 }, "$db": "admin",
            "data": { "failCommands": ["insert"], "writeConcernError": { "code": code } },
        };
        world.send_command(conn, &point).expect("a reply");
        let insert = doc! { "insert": "c", "documents": [{}], "$db": "db" };
        let reply = world.send_command(conn, &insert).expect("a reply");
        assert!(reply.contains_key("writeConcernError"), "{reply}");
        reply.contains_key("topologyVersion")
    };
    assert!(versioned(10107));
    // The member does not shut down.
    assert!(!versioned(91));
    assert!(!versioned(64));
}

/// A client that knows the version of the former primary must not take the error for stale.
#[test]
fn a_write_that_a_step_down_interrupts_has_a_newer_topology_version() {
    let (mut world, primary, conn) = with_primary();
    let counter = |reply: &Document| {
        let version = reply.get_document("topologyVersion").expect("a version");
        version.get_i64("counter").expect("a counter")
    };
    let hello = doc! { "hello": 1, "$db": "admin" };
    let before = counter(&world.send_command(conn, &hello).expect("a reply"));
    for member in (0..3).filter(|&member| member != primary) {
        world.deployment.kill(world.now, member);
    }
    let insert = doc! {
        "insert": "c", "documents": [{}], "writeConcern": { "w": 2 }, "$db": "db",
    };
    world.send(conn, &insert);
    world.run_for(Duration::from_secs(60));
    let (_, _, reply) = world.reply(conn).expect("it is interrupted");
    let concern = reply.get_document("writeConcernError").expect("an error");
    assert_eq!(concern.get_i32("code").ok(), Some(189));
    assert!(counter(&reply) > before, "{reply}");
}
