//! Races that pools of drivers really had: those about connections that are being established. Each
//! test names the mistake that it finds.

use crate::{
    event_log::{
        check_out_failed, connection_closed, connection_created, connection_ready, pool_cleared,
        unknown,
    },
    scene::{Scene, authenticated, play, replica_set, standalone},
};
use bson::doc;
use onionskin_core::error::ErrorKind;
use onionskin_simulations::world::plan::Disaster;
use std::time::Duration;

/// Returns times within the establishment of a connection, from the dial until nearly the end.
fn moments() -> impl Iterator<Item = Duration> {
    (0..50).map(|n| Duration::from_micros(20 * n))
}

/// An operation is dropped while a connection is established for it (scenario 11). Finds a
/// connection that is lost or stays pending. Then the pool, which has one place, could never make
/// another one.
#[test]
fn a_connection_outlives_who_it_was_made_for() {
    play([standalone(), replica_set()], |scene| async move {
        for (n, moment) in moments().enumerate() {
            let watched = scene.client("maxPoolSize=1&maxConnecting=1");
            scene.pause(50).await;
            let find = scene.leave_after(moment, watched.find());
            let found = find.await;
            let is_left = watched.events.count(connection_created) > 0 && found.is_none();
            if n % 2 == 0 {
                // The next operation gets the connection, if the connection is still being
                // established.
                watched.find().await.expect("a connection");
            } else {
                // The next operation gets the connection, if the connection was established before.
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

/// The time limit of an operation ends while a connection is established for it (scenario 28).
/// Finds a limit of the caller that counts as an error of the server and clears the pool.
#[test]
fn a_callers_limit_during_a_connect_clears_no_pool() {
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
                // All operations waited for the same few connections, which were established in the
                // end.
                let made = watched.events.count(connection_created);
                let closed = watched.events.count(connection_closed);
                assert!(made <= 4 + closed, "{made} connections");
                assert!(watched.events.count(connection_ready) >= 1);
            }
            watched.end().await;
        }
    });
}

/// Authentication fails while the pool populates itself (scenario 31). Finds a pool that tries
/// again as fast as possible, and connections that stay open after they failed.
#[test]
fn logins_that_fail_make_no_endless_connections() {
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
            // The connections are one of the monitor, one of the round trip time measurement, and
            // one that is being established.
            let open = scene.operator.open_links();
            assert!(open <= 3 * members, "{open} connections");
        }
        let made = watched.events.count(connection_created);
        // There is one attempt for each check that finds the server, at most one per second.
        assert!((5..=12).contains(&made), "{made} connections");
        watched.assert_count(made, "connection closed", connection_closed);
        for member in 0..members {
            scene.fail_no_more(member).await;
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
    LostOnTheWay,
    SlowHello,
    SlowLogin,
}

async fn obstruct(scene: &Scene, obstacle: Obstacle) {
    let command = match obstacle {
        Obstacle::Nothing => return,
        Obstacle::LostOnTheWay => {
            return scene.strike(Disaster::CutClient {
                client: 0,
                member: 0,
                up: true,
                down: true,
            });
        }
        Obstacle::SlowHello => "hello",
        Obstacle::SlowLogin => "saslContinue",
    };
    let delay = doc! {
        "failCommands": [command], "appName": "closing", "blockConnection": true,
        "blockTimeMS": 60_000,
    };
    scene.fail(0, "alwaysOn", delay).await;
}

/// A client closes while its connections are established, some for operations that wait
/// (scenario 32). Finds a close that waits for them, and operations that get no error.
#[test]
fn a_client_closes_at_once_while_it_connects() {
    use Obstacle::{LostOnTheWay, Nothing, SlowHello, SlowLogin};
    play([standalone()].map(authenticated), |scene| async move {
        for obstacle in [Nothing, LostOnTheWay, SlowHello, SlowLogin] {
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
                // Only exchanges that had begun, and the command that ends the sessions, may take
                // time.
                let is_quick = took.is_zero() || matches!(obstacle, Nothing);
                assert!(is_quick, "{obstacle:?}, {moment:?}: {took:?}");
                for find in finds {
                    if let Err(error) = scene.ended("an end", find).await {
                        let is_told = matches!(error.kind(), ErrorKind::ClientClosed);
                        assert!(is_told, "{obstacle:?}, {moment:?}: {error:?}");
                    }
                }
                scene.strike(Disaster::JoinClients);
                scene.fail_no_more(0).await;
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
