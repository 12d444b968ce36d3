//! Tests of many operations that wait, and select a server again after a change of the topology.

use super::*;
use crate::{
    client::{OperationState, Timer, WaitingOperation},
    error::Error,
};

#[test]
fn many_waiting_operations_select_again_in_slices() {
    // One input begins the attempts of 128 operations. The others follow, with pauses in which the
    // lock of the client is free.
    const SLICE: usize = 128;
    let mut world = World::without_replies("mongodb://a/?replicaSet=rs");
    let ids: Vec<OperationId> = (0..1000).map(|_| world.waits(insert())).collect();
    let begun = |world: &World| {
        let operations = world.client.snapshot().operations;
        let waits =
            |waiting: &&WaitingOperation| matches!(waiting.state, OperationState::ForServer);
        ids.len() - operations.iter().filter(waits).count()
    };
    world.run_with_replies(&|_| Some(secondary()));
    assert_eq!(begun(&world), 0, "no server suits");
    world.pass(millis(499), &no_reply);
    world.run_with_replies(&|_| Some(primary()));
    world.pass(millis(1), &|_| Some(primary()));
    let first = begun(&world);
    assert!((1..=2 * SLICE).contains(&first), "{first}");
    for _ in 0..ids.len() / SLICE {
        let before = begun(&world);
        world.pass(millis(1), &|_| Some(primary()));
        assert!(begun(&world) - before <= SLICE);
    }
    assert_eq!(begun(&world), ids.len());
}

#[test]
fn a_closed_client_does_not_continue_to_select_again() {
    let mut world = World::without_replies("mongodb://a/?replicaSet=rs");
    for _ in 0..1000 {
        world.waits(insert());
    }
    world.run_with_replies(&|_| Some(primary()));
    let is_armed = |world: &World| {
        let timers = world.client.snapshot().timers;
        timers.iter().any(|(_, timer)| *timer == Timer::Reselection)
    };
    assert!(is_armed(&world));
    world
        .client
        .abandon(world.now, &Error::argument("the runtime has ended"));
    assert!(!is_armed(&world));
}

#[test]
fn an_operation_for_which_a_server_suits_does_not_wait_for_those_without_one() {
    let mut world = World::without_replies("mongodb://a/?replicaSet=rs");
    for _ in 0..1000 {
        world.waits(insert());
    }
    let read = world.waits(reads(ReadMode::Secondary));
    let woken = world.run_with_replies(&|_| Some(secondary()));
    assert_eq!(woken, [read]);
}
