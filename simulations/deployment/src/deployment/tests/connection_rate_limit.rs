//! Tests of the rate limit of new connections.

use super::world::World;
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Document, doc};
use onionskin_core::address::Address;
use std::time::Duration;

const PREFIX: &str = "ingressConnectionEstablishment";

pub(super) fn limited() -> (World, ConnId) {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("s", 1)), 1);
    let operator = world.connect(0);
    let mut command = doc! { "setParameter": 1, "$db": "admin" };
    for (parameter, value) in [
        ("RatePerSec", 2),
        ("BurstCapacitySecs", 1),
        ("MaxQueueDepth", 1),
    ] {
        command.insert(format!("{PREFIX}{parameter}"), value);
    }
    command.insert(format!("{PREFIX}RateLimiterEnabled"), true);
    let reply = world.send_command(operator, &command).expect("a reply");
    assert_eq!(reply.get_bool("was").ok(), Some(false), "{reply}");
    (world, operator)
}

fn ping() -> Document {
    doc! { "ping": 1, "$db": "admin" }
}

#[test]
fn connections_beyond_the_burst_and_the_queue_are_closed() {
    let (mut world, _) = limited();
    let connections: Vec<ConnId> = (0..4).map(|_| world.connect(0)).collect();
    assert_eq!(world.closed, connections[3..]);
    let before = world.now;
    assert!(world.send_command(connections[0], &ping()).is_some());
    assert!(world.send_command(connections[1], &ping()).is_some());
    assert_eq!(world.now, before, "the burst does not wait");
    assert!(world.send_command(connections[2], &ping()).is_some());
    assert_eq!(world.now, before + Duration::from_millis(500));
}

#[test]
fn disabling_the_rate_limit_accepts_queued_and_new_connections() {
    let (mut world, operator) = limited();
    let connections: Vec<ConnId> = (0..3).map(|_| world.connect(0)).collect();
    let mut command = doc! { "setParameter": 1, "$db": "admin" };
    command.insert(format!("{PREFIX}RateLimiterEnabled"), false);
    let reply = world.send_command(operator, &command).expect("a reply");
    assert_eq!(reply.get_bool("was").ok(), Some(true), "{reply}");
    assert!(world.send_command(connections[2], &ping()).is_some());
    for _ in 0..100 {
        let connection = world.connect(0);
        assert!(world.send_command(connection, &ping()).is_some());
    }
}

#[test]
fn a_disconnect_frees_a_place_in_the_connection_queue() {
    let (mut world, _) = limited();
    let connections: Vec<ConnId> = (0..3).map(|_| world.connect(0)).collect();
    let now = world.now;
    world.deployment.handle_disconnected(now, connections[2]);
    let next = world.connect(0);
    assert!(world.closed.is_empty());
    assert!(world.send_command(next, &ping()).is_some());
    assert_eq!(world.now, now + Duration::from_millis(500));
}
