//! Tests of members whose process is frozen for a while.

use super::{
    parts::{begin, expensive, filled},
    world::{World, send, set_of, standalone, with_primary},
};
use crate::deployment::{DeploymentOptions, MemberState};
use bson::{doc, rawdoc};
use onionskin_core::{
    address::Address,
    unstable::wire::{Flags, MessageWriter},
};
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(30);

#[test]
fn a_frozen_primary_goes_on_as_primary_until_it_hears_of_another_one() {
    let (mut world, old, conn) = with_primary();
    world.deployment.freeze(world.now, old, PAUSE);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" };
    world.send(conn, &insert);
    world.run_for(PAUSE - Duration::from_secs(1));
    assert_eq!(world.reply(conn), None);
    let new = world.deployment.primary().expect("the others elect one");
    assert_ne!(new, old);
    assert_eq!(world.deployment.state(old), Some(MemberState::Primary));

    world.run_for(Duration::from_secs(1));
    let (_, _, reply) = world.reply(conn).expect("a reply after the pause");
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.deployment.state(old), Some(MemberState::Secondary));
    let conn = world.connect(new);
    let count = send(&mut world, conn, doc! { "count": "c" });
    assert_eq!(
        count.get_i32("n").ok(),
        Some(0),
        "the insert is rolled back"
    );
    assert_eq!(world.deployment.check_members(), Ok(()));
}

#[test]
fn a_request_takes_effect_after_the_pause_although_its_client_has_gone() {
    let (mut world, conn) = standalone();
    world.deployment.freeze(world.now, 0, PAUSE);
    let later = world.connect(0);
    world.send(later, &doc! { "ping": 1, "$db": "d" });
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" };
    world.send(conn, &insert);
    world.deployment.handle_disconnected(world.now, conn);
    world.drain();
    assert_eq!(world.deployment.connections(), 2);

    world.run_for(PAUSE);
    assert!(world.reply(later).is_some());
    assert_eq!(world.reply(conn), None);
    assert_eq!(world.deployment.connections(), 1);
    let count = send(&mut world, later, doc! { "count": "c" });
    assert_eq!(count.get_i32("n").ok(), Some(1));
}

#[test]
fn a_frozen_shard_executes_the_request_of_a_client_that_has_gone() {
    let routers = vec![Address::tcp("router", 27017)];
    let mut world = World::new(DeploymentOptions::sharded(routers), 1);
    let (conn, later) = (world.connect(0), world.connect(0));
    let shard = world.deployment.place_in_shard(0, 0).expect("a member");
    world.deployment.freeze(world.now, shard, PAUSE);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" };
    world.send(conn, &insert);
    world.deployment.handle_disconnected(world.now, conn);
    world.drain();
    world.run_for(PAUSE);
    let count = send(&mut world, later, doc! { "count": "c" });
    assert_eq!(count.get_i32("n").ok(), Some(1));
}

#[test]
fn a_pause_is_lengthened_and_ends_with_its_process() {
    let (mut world, conn) = standalone();
    let ping = doc! { "ping": 1, "$db": "d" };
    world.deployment.freeze(world.now, 0, PAUSE);
    world.deployment.freeze(world.now, 0, 2 * PAUSE);
    world.deployment.freeze(world.now, 0, Duration::ZERO);
    world.send(conn, &ping);
    world.run_for(2 * PAUSE - Duration::from_secs(1));
    assert_eq!(world.reply(conn), None);
    world.run_for(Duration::from_secs(1));
    assert!(world.reply(conn).is_some());

    world.deployment.freeze(world.now, 0, PAUSE);
    world.deployment.kill(world.now, 0);
    world.deployment.restart(world.now, 0);
    let conn = world.connect(0);
    send(&mut world, conn, ping.clone());

    world.deployment.freeze(world.now, 0, PAUSE);
    world.deployment.restore(world.now);
    send(&mut world, conn, ping);
}

#[test]
fn a_signal_to_end_wakes_a_member_and_a_step_down_does_not() {
    let mut world = World::new(set_of(3), 1);
    world.run_for(Duration::from_secs(5));
    world.deployment.freeze(world.now, 0, PAUSE);
    assert!(!world.deployment.step_down(world.now));
    world.deployment.shut_down(world.now, 0);
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.deployment.state(0), Some(MemberState::Down));
}

#[test]
fn routers_and_members_that_do_not_exist_are_not_frozen() {
    let routers = vec![Address::tcp("m0", 27017)];
    let mut world = World::new(DeploymentOptions::sharded(routers), 1);
    let conn = world.connect(0);
    for member in 0..4 {
        world.deployment.freeze(world.now, member, PAUSE);
    }
    send(&mut world, conn, doc! { "ping": 1 });
}

#[test]
fn requests_that_wait_for_their_turns_take_effect_although_their_client_has_gone() {
    let (mut world, conn) = standalone();
    world.deployment.take_turns();
    world.deployment.freeze(world.now, 0, PAUSE);
    for id in 0..5 {
        let insert = doc! { "insert": "c", "documents": [{ "_id": id }], "$db": "d" };
        world.send(conn, &insert);
    }
    world.deployment.handle_disconnected(world.now, conn);
    world.run_for(PAUSE);
    let conn = world.connect(0);
    let count = send(&mut world, conn, doc! { "count": "c" });
    assert_eq!(count.get_i32("n").ok(), Some(5));
}

/// A turn that a connection gets during a pause has no effect, and comes again after it.
#[test]
fn a_connection_gets_its_turn_after_the_pause() {
    let (mut world, conn) = standalone();
    world.deployment.take_turns();
    let ping = doc! { "ping": 1, "$db": "d" };
    send(&mut world, conn, ping.clone());
    world.send(conn, &ping);
    assert_eq!(world.deployment.poll_turn(), Some(conn));
    world.deployment.freeze(world.now, 0, PAUSE);
    assert!(!world.deployment.next_turn(world.now, conn));
    world.run_for(PAUSE);
    assert_eq!(world.deployment.poll_turn(), Some(conn));
    assert!(world.deployment.next_turn(world.now, conn));
    world.drain();
    assert!(world.reply(conn).is_some());
}

#[test]
fn a_member_that_shuts_down_does_not_end_while_it_is_frozen() {
    let mut world = World::new(set_of(3), 1);
    world.run_for(Duration::from_secs(5));
    world.deployment.shut_down(world.now, 1);
    world.deployment.freeze(world.now, 1, PAUSE);
    world.run_for(PAUSE - Duration::from_secs(1));
    assert_ne!(world.deployment.state(1), Some(MemberState::Down));
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.deployment.state(1), Some(MemberState::Down));
}

#[test]
fn frozen_shards_execute_what_they_have_received_although_the_client_has_gone() {
    let mut options = DeploymentOptions::sharded(vec![Address::tcp("m0", 27017)]);
    options.shards = 2;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    for (shard, pause) in [(0, PAUSE), (1, 2 * PAUSE)] {
        let place = world.deployment.place_in_shard(shard, 0);
        let place = place.expect("a member");
        world.deployment.freeze(world.now, place, pause);
    }
    let databases = ["left", "right"];
    for database in databases {
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, 1, 0)
            .flags(Flags::MORE_TO_COME)
            .body(&rawdoc! {
                "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 0 },
                "$db": database,
            })
            .end();
        world.send_bytes(conn, &bytes);
    }
    world.deployment.handle_disconnected(world.now, conn);
    world.drain();
    assert_eq!(world.deployment.connections(), 0);
    world.run_for(2 * PAUSE);
    let conn = world.connect(0);
    for database in databases {
        let count = doc! { "count": "c", "$db": database };
        let reply = send(&mut world, conn, count);
        assert_eq!(reply.get_i32("n").ok(), Some(1), "{database}: {reply}");
    }
}

#[test]
fn a_frozen_member_begins_no_long_query() {
    let (mut world, conn, _) = filled();
    let count = doc! { "count": "c", "query": expensive() };
    begin(&mut world, conn, &count);
    world.deployment.freeze(world.now, 0, PAUSE);
    assert!(world.deployment.poll_long_query(world.now).is_none());
    world.deployment.thaw(world.now, 0);
    let job = world.deployment.poll_long_query(world.now);
    let job = job.expect("the query after the pause");
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    assert!(world.reply(conn).is_some());
}
