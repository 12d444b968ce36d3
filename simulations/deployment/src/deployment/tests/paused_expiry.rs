//! Tests of passes over documents with a time to live that are executed in parts.

use super::{
    parts::{begin, count, go_on},
    paused_transactions::{commit, first, one},
    world::{World, send, set_of},
};
use crate::{deployment::ConnId, store::Namespace};
use bson::{DateTime, Document, doc};
use std::time::Duration;

const EXPIRED: i32 = 10_000;

/// A set of one member with documents whose time to live has ended. Returns the world and two
/// connections.
fn expiring() -> (World, ConnId, ConnId) {
    let mut world = World::new(set_of(1), 1);
    let primary = world.until_primary(Duration::from_secs(60));
    let (primary, _) = primary.expect("a primary");
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(primary), world.connect(primary));
    let index = doc! { "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 1 };
    let reply = send(
        &mut world,
        conn,
        doc! { "createIndexes": "c", "indexes": [index] },
    );
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let document = |n: i32| doc! { "_id": n, "at": DateTime::from_millis(i64::from(n)) };
    let documents: Vec<Document> = (0..EXPIRED).map(document).collect();
    let name = Namespace::new("d", "c");
    let inserted = world.deployment.insert(world.now, &name, &documents);
    assert_eq!(inserted, Ok(true));
    (world, conn, other)
}

/// Runs until a pass begins.
fn until_pass(world: &mut World) {
    while world.deployment.has_parts() {
        go_on(world);
    }
    let mut millis = 0;
    while !world.deployment.has_parts() {
        world.run_for(Duration::from_millis(100));
        millis += 100;
        assert!(millis <= 60_000, "a pass each minute");
    }
}

fn left(world: &World) -> usize {
    let store = world.deployment.store(0).expect("a member");
    let found = store.collection(&Namespace::new("d", "c"));
    found.map_or(0, |found| found.documents().count())
}

#[test]
fn a_pass_pauses_between_parts_and_deletes_all_expired_documents() {
    let (mut world, _, other) = expiring();
    until_pass(&mut world);
    let mut pings = 0;
    let mut before = EXPIRED as usize;
    while world.deployment.has_parts() {
        begin(&mut world, other, &doc! { "ping": 1 });
        let (_, _, reply) = world.reply(other).expect("an answer at once");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        pings += 1;
        let now = left(&world);
        assert!(before - now <= 250, "{before}, {now}");
        before = now;
        world.deployment.run_part(world.now);
        world.drain();
    }
    assert!(pings >= EXPIRED / 250 - 1, "{pings}");
    assert_eq!(left(&world), 0);
    world.deployment.check_members().expect("equal data");
}

#[test]
fn a_pass_ends_before_a_document_of_an_open_transaction() {
    let (mut world, conn, other) = expiring();
    // The transaction must not end before the pass.
    world.run_for(Duration::from_secs(20));
    let reply = send(&mut world, conn, first(1, one(1000)));
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    until_pass(&mut world);
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    let kept = left(&world);
    assert!(
        kept < EXPIRED as usize && kept >= EXPIRED as usize - 1000,
        "{kept}"
    );
    let reply = send(&mut world, conn, commit(1));
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert_eq!(count(&mut world, other, doc! { "one": 1 }), 1);
    until_pass(&mut world);
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    assert_eq!(left(&world), 0);
}

#[test]
fn a_step_down_ends_a_pass_and_the_next_one_goes_on() {
    let (mut world, conn, _) = expiring();
    until_pass(&mut world);
    let down = doc! { "replSetStepDown": 1, "force": true, "$db": "admin" };
    begin(&mut world, conn, &down);
    world.run_for(Duration::from_millis(10));
    assert!(!world.deployment.has_parts(), "the pass has ended");
    let kept = left(&world);
    assert!(kept > 0, "{kept}");
    let primary = world.until_primary(Duration::from_secs(60));
    primary.expect("a primary");
    assert_eq!(left(&world), kept, "it waits for the next pass");
    until_pass(&mut world);
    while world.deployment.has_parts() {
        go_on(&mut world);
    }
    assert_eq!(left(&world), 0);
}
