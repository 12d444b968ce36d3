//! Tests of clients that send more than a member keeps for them.

use super::{
    large_messages::count,
    parts::go_on,
    world::{World, send},
};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Document, doc};
use onionskin_core::{
    address::Address,
    unstable::wire::{Flags, MessageWriter},
};
use std::time::Duration;

const MESSAGES: i32 = 6;

/// The number of documents of a message, which has 570 kB. Jobs decode it, and its insert pauses.
const DOCUMENTS: i32 = 3000;

/// Options with which a member keeps three such messages.
fn limited(mut options: DeploymentOptions) -> DeploymentOptions {
    options.limits.max_message_bytes = 700_000;
    options
}

fn standalone() -> DeploymentOptions {
    limited(DeploymentOptions::standalone(Address::tcp("m0", 27017)))
}

/// Returns large inserts without replies, one after the other.
fn inserts() -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in 1..=MESSAGES {
        let document = |n: i32| doc! { "_id": id * DOCUMENTS + n, "text": "x".repeat(150) };
        let documents = (0..DOCUMENTS).map(document);
        let documents: Vec<u8> = documents
            .flat_map(|d: Document| d.to_vec().expect("valid"))
            .collect();
        MessageWriter::begin(&mut bytes, id, 0)
            .flags(Flags::MORE_TO_COME)
            .body(&bson::rawdoc! { "insert": "c", "$db": "d" })
            .sequence("documents", &documents)
            .end();
    }
    bytes
}

/// Gives a member the bytes for which it has room. Returns the rest.
fn feed<'a>(world: &mut World, conn: ConnId, mut bytes: &'a [u8]) -> &'a [u8] {
    loop {
        let room = world.deployment.room(conn);
        let count = room.min(64 * 1024).min(bytes.len());
        if count == 0 {
            return bytes;
        }
        world.send_bytes(conn, &bytes[..count]);
        bytes = &bytes[count..];
    }
}

/// Goes on until a member has taken all bytes and is idle. With turns, it gets further bytes only
/// after a turn.
fn go_on_with(world: &mut World, conn: ConnId, mut rest: &[u8], takes_turns: bool) {
    for _ in 0..1000 {
        let mut may_read = !takes_turns;
        while let Some(turn) = world.deployment.poll_turn() {
            may_read |= turn == conn;
            while world.deployment.next_turn(world.now, turn) {}
            world.drain();
        }
        if may_read {
            rest = feed(world, conn, rest);
        }
        go_on(world);
    }
    assert_eq!(rest.len(), 0);
}

fn assert_all_inserted(world: &mut World) {
    assert!(world.closed.is_empty(), "no connection was closed");
    let other = world.connect(0);
    assert_eq!(count(world, other), Some(MESSAGES * DOCUMENTS));
}

#[test]
fn a_connection_without_room_has_room_again_after_its_messages() {
    let sharded = limited(DeploymentOptions::sharded(vec![Address::tcp("r0", 27017)]));
    for (options, takes_turns) in [(standalone(), false), (standalone(), true), (sharded, true)] {
        let mut world = World::new(options, 1);
        world.deployment.run_jobs();
        if takes_turns {
            world.deployment.take_turns();
        }
        let conn = world.connect(0);
        let bytes = inserts();
        let rest = feed(&mut world, conn, &bytes);
        let kept = bytes.len() - rest.len();
        assert!((1_700_000..2_400_000).contains(&kept), "{kept} bytes");
        go_on_with(&mut world, conn, rest, takes_turns);
        assert_all_inserted(&mut world);
    }
}

#[test]
fn a_frozen_member_keeps_a_part_of_what_its_clients_send() {
    for takes_turns in [false, true] {
        let mut world = World::new(standalone(), 1);
        world.deployment.run_jobs();
        if takes_turns {
            world.deployment.take_turns();
        }
        let conn = world.connect(0);
        world
            .deployment
            .freeze(world.now, 0, Duration::from_secs(30));
        let bytes = inserts();
        let rest = feed(&mut world, conn, &bytes);
        assert!(!rest.is_empty(), "the member keeps all");
        world.deployment.thaw(world.now, 0);
        world.drain();
        go_on_with(&mut world, conn, rest, takes_turns);
        assert_all_inserted(&mut world);
    }
}

#[test]
fn connections_that_wait_have_little_room_if_many_bytes_are_unfinished() {
    let mut options = standalone();
    options.limits.max_unfinished_bytes = 1_000_000;
    let mut world = World::new(options, 1);
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(0), world.connect(0));
    let room = 1024 * 1024;
    assert_eq!(world.deployment.room(conn), 700_000 + room);
    let bytes = inserts();
    world.send_bytes(conn, &bytes[..bytes.len() / 6]);
    assert_eq!(world.deployment.room(conn), room);
    assert_eq!(world.deployment.room(other), 700_000 + room, "it is free");
    send(&mut world, other, doc! { "ping": 1 });
}

#[test]
fn a_connection_that_gets_more_than_it_has_room_for_is_closed() {
    let mut world = World::new(standalone(), 1);
    world.deployment.run_jobs();
    let conn = world.connect(0);
    world.send_bytes(conn, &inserts());
    assert_eq!(world.closed, [conn]);
}
