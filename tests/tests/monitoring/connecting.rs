//! Races that pools of drivers really had, as far as they are about connections that are being
//! made. Each test says what it was, and which mistake it catches.

use crate::{
    diary::{
        check_out_failed, connection_closed, connection_created, connection_ready, pool_cleared,
        unknown,
    },
    scene::{Scene, play, replica_set, standalone, with_login},
};
use bson::doc;
use onionskin_core::error::ErrorKind;
use onionskin_simulations::world::plan::Disaster;
use std::time::Duration;

/// Moments of a connection's making: dialled, asked for a hello, nearly done.
fn moments() -> impl Iterator<Item = Duration> {
    (0..50).map(|n| Duration::from_micros(20 * n))
}

/// Scenario 11: who waits for a connection leaves while it is being made. Catches one that is lost,
/// or that goes on to count as pending: the only place of the pool would be taken for ever.
#[test]
fn a_connection_outlives_who_it_was_made_for() {
    play([standalone(), replica_set()], |scene| async move {
        for (n, moment) in moments().enumerate() {
            let watched = scene.client("maxPoolSize=1&maxConnecting=1");
            scene.pause(50).await;
            let find = scene.leave_after(moment, watched.find());
            let found = find.await;
            let is_left = watched.diary.count(connection_created) > 0 && found.is_none();
            if n % 2 == 0 {
                // Whoever comes next while it is being made gets it.
                watched.find().await.expect("a connection");
            } else {
                // So does who comes when it is there.
                scene.pause(100).await;
                watched.find().await.expect("a connection");
            }
            assert_eq!(watched.client.counts().waiting, 0);
            // Where it was the request that stopped in its midst, the connection goes with it.
            let made = watched.diary.count(connection_created);
            let closed = watched.diary.count(connection_closed);
            assert_eq!(made, closed + 1, "{moment:?}");
            let failed = watched.diary.count(check_out_failed);
            assert!(is_left || failed == 0, "{moment:?}");
            watched.end().await;
        }
    });
}

/// Scenario 28: the time limit of an operation passes while a connection is made for it. Catches a
/// limit of the caller's that is held against the server: the pool would be cleared without cause.
#[test]
fn a_callers_limit_during_a_connect_clears_no_pool() {
    play([standalone(), replica_set()], |scene| async move {
        for slow in [false, true] {
            let options = "appname=short&serverMonitoringMode=poll";
            let watched = scene.client(options);
            scene.pause(50).await;
            if slow {
                let held = doc! {
                    "failCommands": ["hello", "isMaster"], "appName": "short",
                    "blockConnection": true, "blockTimeMS": 300,
                };
                scene.fail(scene.primary(), doc! { "times": 2 }, held).await;
            }
            let mut missed = 0;
            // A limit of zero is none.
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
                // They all waited for the same few, which came in the end.
                let made = watched.diary.count(connection_created);
                let closed = watched.diary.count(connection_closed);
                assert!(made <= 4 + closed, "{made} connections");
                assert!(watched.diary.count(connection_ready) >= 1);
            }
            watched.end().await;
        }
    });
}

/// Scenario 31: logins fail, and the pool wants to have connections all the same. Catches a pool
/// that tries again as fast as it can, and connections that stay open after they failed.
#[test]
fn logins_that_fail_make_no_endless_connections() {
    play([standalone()].map(with_login), |scene| async move {
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
            // A monitor's, a measurement's, and the one that is being made.
            let open = scene.operator.open_links();
            assert!(open <= 3 * members, "{open} connections");
        }
        let made = watched.diary.count(connection_created);
        // One with each check that finds the server, which is one a second at the most.
        assert!((5..=12).contains(&made), "{made} connections");
        watched.assert_count(made, "connection closed", connection_closed);
        for member in 0..members {
            scene.fail_no_more(member).await;
        }
        let is_full = || watched.diary.count(connection_ready) == 5 * members;
        scene.until("the pools to fill", is_full).await;
        watched.end().await;
    });
}

/// What keeps connections from being made.
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
    let held = doc! {
        "failCommands": [command], "appName": "closing", "blockConnection": true,
        "blockTimeMS": 60_000,
    };
    scene.fail(0, "alwaysOn", held).await;
}

/// Scenario 32: a client is closed while its connections are being made, some for operations that
/// wait. Catches a close that waits for them, and operations that are never told.
#[test]
fn a_client_closes_at_once_while_it_connects() {
    use Obstacle::{LostOnTheWay, Nothing, SlowHello, SlowLogin};
    play([standalone()].map(with_login), |scene| async move {
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
                let begun = scene.now();
                watched.client.clone().shutdown().await;
                let took = scene.now().saturating_since(begun);
                // Exchanges that had begun come to their end, and sessions are told goodbye.
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
