//! Tests of race conditions that were bugs in the pools of other drivers. In these tests,
//! connections are being established. The comment of each test says with which bug of a driver it
//! fails.

use crate::{
    event_log::{
        check_out_failed, connection_closed, connection_created, connection_ready, pool_cleared,
        unknown,
    },
    scene::{Scene, authenticated, play, replica_set, standalone},
};
use bson::doc;
use onionskin_core::error::ErrorKind;
use onionskin_worlds::world::plan::Disaster;
use std::time::Duration;

/// Returns times from 0 to 0.98 ms, in steps of 20 microseconds. The establishment of a connection
/// takes about as long.
fn moments() -> impl Iterator<Item = Duration> {
    (0..50).map(|n| Duration::from_micros(20 * n))
}

/// An operation is dropped while a connection is being established for it (scenario 11). Fails if
/// the connection is lost or stays pending. The pool, whose `maxPoolSize` is 1, could then never
/// make another connection.
#[test]
fn a_connection_established_for_a_dropped_operation_is_used_by_the_next_one() {
    play([standalone(), replica_set()], |scene| async move {
        for (n, moment) in moments().enumerate() {
            let watched = scene.client("maxPoolSize=1&maxConnecting=1");
            scene.pause(50).await;
            let find = scene.drop_after(moment, watched.find());
            let found = find.await;
            let is_left = watched.events.count(connection_created) > 0 && found.is_none();
            if n % 2 == 0 {
                // If the connection is still being established, the next operation waits for it.
                watched.find().await.expect("a connection");
            } else {
                // If the connection was established, the next operation gets it.
                scene.pause(100).await;
                watched.find().await.expect("a connection");
            }
            assert_eq!(watched.client.counts().waiting, 0);
            // If the operation was dropped after a part of its request was written, its connection
            // is closed.
            let made = watched.events.count(connection_created);
            let closed = watched.events.count(connection_closed);
            assert_eq!(made, closed + 1, "{moment:?}");
            let failed = watched.events.count(check_out_failed);
            assert!(is_left || failed == 0, "{moment:?}");
            watched.end().await;
        }
    });
}

/// The time limit of an operation ends while its connection is being established (scenario 28).
/// Fails if the end of the limit counts as an error of the server and clears the pool.
#[test]
fn an_operation_timeout_during_connection_establishment_clears_no_pool() {
    play([standalone(), replica_set()], |scene| async move {
        for slow in [false, true] {
            let options = "appname=short&serverMonitoringMode=poll";
            let watched = scene.client(options);
            scene.pause(50).await;
            if slow {
                let delay = doc! {
                    "failCommands": ["hello", "isMaster"], "appName": "short",
                    "blockConnection": true, "blockTimeMS": 300,
                };
                scene
                    .fail(scene.primary(), doc! { "times": 2 }, delay)
                    .await;
            }
            let mut missed = 0;
            // A limit of zero means no limit.
            for moment in moments().skip(1) {
                let things = watched.things();
                let find = things.find_one(doc! {}).timeout(moment);
                if let Err(error) = find.await {
                    assert!(error.is_timeout(), "{error:?}");
                    missed += 1;
                }
            }
            assert!(missed > 5, "{missed} missed their limits");
            scene.pause(400).await;
            watched.find().await.expect("a connection");
            watched.assert_count(0, "pool cleared", pool_cleared);
            watched.assert_count(0, "unknown", unknown);
            if slow {
                // The operations did not start a new connection each. The operations waited for the
                // same few connections, at least one of which was established.
                let made = watched.events.count(connection_created);
                let closed = watched.events.count(connection_closed);
                assert!(made <= 4 + closed, "{made} connections");
                assert!(watched.events.count(connection_ready) >= 1);
            }
            watched.end().await;
        }
    });
}

/// Authentication fails while the pool makes connections to reach `minPoolSize` (scenario 31).
/// Fails if the pool tries again without a pause, or if connections stay open after authentication
/// failed.
#[test]
fn population_makes_one_attempt_per_check_while_authentication_fails() {
    play([standalone()].map(authenticated), |scene| async move {
        let options = "minPoolSize=5&heartbeatFrequencyMS=1000&appname=wrong";
        let refused = doc! {
            "failCommands": ["saslStart", "saslContinue"], "appName": "wrong", "errorCode": 18,
        };
        let members = scene.options.addresses.len();
        for member in 0..members {
            scene.fail(member, "alwaysOn", refused.clone()).await;
        }
        let watched = scene.client(options);
        for _ in 0..10 {
            scene.pause(1_000).await;
            // Each member has at most three connections: that of its monitor, that for round trip
            // times, and one that its pool establishes.
            let open = scene.operator.open_links();
            assert!(open <= 3 * members, "{open} connections");
        }
        let made = watched.events.count(connection_created);
        // The pool makes one attempt after each check that finds the server, and there is about one
        // check per second.
        assert!((5..=12).contains(&made), "{made} connections");
        watched.assert_count(made, "connection closed", connection_closed);
        for member in 0..members {
            scene.clear_fail_point(member).await;
        }
        let is_full = || watched.events.count(connection_ready) == 5 * members;
        scene.until("the pools to fill", is_full).await;
        watched.end().await;
    });
}

/// An obstacle to establishing connections.
#[derive(Clone, Copy, Debug)]
enum Obstacle {
    Nothing,
    NetworkCut,
    SlowHello,
    SlowAuthentication,
}

async fn obstruct(scene: &Scene, obstacle: Obstacle) {
    let command = match obstacle {
        Obstacle::Nothing => return,
        Obstacle::NetworkCut => {
            return scene.strike(Disaster::CutClient {
                client: 0,
                member: 0,
                up: true,
                down: true,
            });
        }
        Obstacle::SlowHello => "hello",
        Obstacle::SlowAuthentication => "saslContinue",
    };
    let delay = doc! {
        "failCommands": [command], "appName": "closing", "blockConnection": true,
        "blockTimeMS": 60_000,
    };
    scene.fail(0, "alwaysOn", delay).await;
}

/// A client closes while connections are being established for its operations (scenario 32). Fails
/// if the close waits for these connections, or if an operation does not end.
#[test]
fn shutdown_does_not_wait_for_connections_that_are_being_established() {
    use Obstacle::{NetworkCut, Nothing, SlowAuthentication, SlowHello};
    play([standalone()].map(authenticated), |scene| async move {
        for obstacle in [Nothing, NetworkCut, SlowHello, SlowAuthentication] {
            for moment in moments().step_by(12) {
                let options = "serverMonitoringMode=poll&appname=closing";
                let watched = scene.client(options);
                scene.until("a server", || is_known(&watched)).await;
                obstruct(&scene, obstacle).await;
                let finds: Vec<_> = (0..5)
                    .map(|_| {
                        let things = watched.things();
                        scene.spawn(async move { things.find_one(doc! {}).await })
                    })
                    .collect();
                scene.pause_for(moment).await;
                let start = scene.now();
                watched.client.clone().shutdown().await;
                let took = scene.now().saturating_since(start);
                // Without an obstacle, the close waits for exchanges that have begun and for the
                // command that ends the sessions.
                let is_quick = took.is_zero() || matches!(obstacle, Nothing);
                assert!(is_quick, "{obstacle:?}, {moment:?}: {took:?}");
                for find in finds {
                    if let Err(error) = scene.ended("an end", find).await {
                        let is_reported = matches!(error.kind(), ErrorKind::Shutdown);
                        assert!(is_reported, "{obstacle:?}, {moment:?}: {error:?}");
                    }
                }
                scene.strike(Disaster::JoinClients);
                scene.clear_fail_point(0).await;
                watched.end().await;
            }
        }
    });
}

fn is_known(watched: &crate::scene::Watched) -> bool {
    let topology = watched.client.topology();
    topology
        .servers
        .values()
        .all(|s| s.server_type.is_available())
}
