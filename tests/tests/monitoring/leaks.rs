//! Shutdown and leaks. A client closes at once in any state and leaves no connection behind. While
//! a client is open, the number of its connections does not grow, and no loop runs without a pause.

use crate::{
    event_log::{heartbeat_failed, heartbeat_started, heartbeats_of},
    scene::{balanced, play, replica_set, sharded, standalone},
};
use bson::doc;
use onionskin_core::{
    error::ErrorKind,
    event::{Event, EventKind, SdamEvent},
};
use onionskin_worlds::world::plan::Disaster;
use std::time::Duration;

/// Times after a client's start at which its connections are in different states, such as dialing,
/// in the handshake, streaming, and measuring.
const MOMENTS: [Duration; 9] = [
    Duration::ZERO,
    Duration::from_micros(30),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(20),
    Duration::from_millis(10_000),
    Duration::from_millis(10_001),
];

/// A client closes at once at each of the [`MOMENTS`] (scenario 1, scenario 8), and leaves no
/// connection of a monitor (scenario 45) or for round trip times (scenario 26).
#[test]
fn shutdown_at_any_moment_ends_at_once_and_closes_all_connections() {
    play(
        [standalone(), replica_set(), sharded(), balanced()],
        |scene| async move {
            for mode in ["stream", "poll"] {
                for moment in MOMENTS {
                    let options = format!("serverMonitoringMode={mode}&minPoolSize=1");
                    let watched = scene.client(&options);
                    scene.pause_for(moment).await;
                    let start = scene.now();
                    let client = watched.client.clone();
                    client.shutdown().await;
                    assert_eq!(scene.now(), start, "{mode}, {moment:?}");
                    watched.end().await;
                }
            }
        },
    );
}

/// A client closes at once while an operation waits for a server that is down. The operation fails.
#[test]
fn shutdown_ends_at_once_and_fails_operations_in_server_selection() {
    play([standalone()], |scene| async move {
        scene.strike(Disaster::Kill(0));
        let watched = scene.client("");
        let things = watched.things();
        let insert = scene.spawn(async move { things.insert_one(doc! { "_id": 1 }).await });
        scene.pause(700).await;
        let start = scene.now();
        watched.client.clone().shutdown().await;
        assert_eq!(scene.now(), start);
        let error = insert.join().await.expect_err("the client is closed");
        assert!(matches!(error.kind(), ErrorKind::Shutdown), "{error:?}");
        watched.end().await;
    });
}

/// When a connection of a monitor breaks, also one for round trip times, a new connection replaces
/// it. The number of connections stays the same (scenario 27).
#[test]
fn failed_checks_and_round_trip_measurements_leak_no_connections() {
    play([standalone(), sharded()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=500&appname=measured");
        scene.pause(1_000).await;
        let links = scene.operator.open_links();
        for _ in 0..20 {
            // The fail point breaks one of the two connections of a monitor: that for checks or
            // that for round trip times.
            let broken = doc! {
                "failCommands": ["hello", "isMaster"], "appName": "measured",
                "closeConnection": true,
            };
            scene.fail(0, doc! { "times": 1 }, broken).await;
            scene.pause(700).await;
        }
        scene.pause(2_000).await;
        assert_eq!(scene.operator.open_links(), links);
        watched.end().await;
    });
}

/// A polling monitor checks its server once per `heartbeatFrequencyMS`, also while the server is
/// down (scenario 38).
#[test]
fn a_polling_monitor_checks_its_server_once_per_heartbeat_frequency() {
    play(
        [standalone(), replica_set(), sharded()],
        |scene| async move {
            let watched = scene.client("serverMonitoringMode=poll&heartbeatFrequencyMS=1000");
            scene.pause(20_500).await;
            assert_pace(
                &watched.events.times(heartbeats_of(0, heartbeat_started)),
                20..=22,
            );
            scene.strike(Disaster::Kill(0));
            let mark = watched.events.mark();
            let before = scene.operator.steps();
            scene.pause(20_000).await;
            let failed = watched.events.notes_since(mark, |event| {
                heartbeats_of(0, heartbeat_failed)(event).then_some(event.at)
            });
            assert_pace(&failed, 19..=22);
            let steps = scene.operator.steps() - before;
            assert!(steps < 10_000, "{steps} steps");
            watched.end().await;
        },
    );
}

fn assert_pace(times: &[onionskin_core::time::Instant], count: std::ops::RangeInclusive<usize>) {
    assert!(count.contains(&times.len()), "{} checks", times.len());
}

/// A server whose address is not in the host list of the primary is removed, and all connections to
/// this address are closed (scenario 39). Here the address is `10.0.0.0`, another name of the first
/// member.
#[test]
fn connections_to_a_removed_server_are_closed() {
    play([replica_set()], |scene| async move {
        let options = "replicaSet=rs&minPoolSize=2";
        let seeds = "10.0.0.0,member0,member1,member2";
        let watched = scene.client_of(seeds, options);
        scene.pause(5_000).await;
        let topology = watched.client.topology();
        let addresses: Vec<String> = topology.servers.keys().map(ToString::to_string).collect();
        assert_eq!(
            addresses,
            ["member0:27017", "member1:27017", "member2:27017"]
        );
        // The client has four connections to each member: one for checks, one for round trip times,
        // and two in the pool.
        assert_eq!(scene.operator.open_links(), 3 * 4);
        assert_eq!(watched.client.counts().sockets, 3 * 4);
        let closed = watched
            .events
            .count(|event| matches!(&event.kind, EventKind::Sdam(SdamEvent::ServerClosed { .. })));
        assert_eq!(closed, 1);
        watched.end().await;
    });
}

/// Clients that are created and dropped leave no connections on the servers (scenario 45).
#[test]
fn dropped_clients_close_all_their_connections() {
    play([replica_set(), sharded()], |scene| async move {
        for _ in 0..10 {
            let watched = scene.client("");
            watched.insert(1).await.ok();
            drop(watched);
        }
        scene.pause(2_000).await;
        assert_eq!(scene.operator.open_links(), 0, "clients that were dropped");
        let is_closed = |event: &Event| {
            matches!(
                &event.kind,
                EventKind::Sdam(SdamEvent::TopologyClosed { .. })
            )
        };
        let watched = scene.client("");
        let events = watched.events.clone();
        watched.end().await;
        assert_eq!(events.count(is_closed), 1);
    });
}
