//! Servers that cannot accept new connections: the official test files `unified/backpressure-*`,
//! and the prose test about backpressure of pools (SDAM prose 10).

use crate::{
    event_log::{
        became, check_out_failed, connection_closed, connection_ready, pool_cleared, server_changed,
    },
    scene::{Scene, play, replica_set, sharded_alone, standalone},
};
use bson::{Document, doc};
use onionskin_core::{description::ServerType, error::Label};

const POLLED: &str = "retryWrites=false&heartbeatFrequencyMS=1000000&serverMonitoringMode=poll";

/// Lets the hellos of new connections fail, by a fail point with this effect. Asserts that the
/// error has the overload labels (SDAM-105), that the server description does not change, and that
/// no pool is cleared (SDAM-104).
async fn assert_failed_hellos_are_overload_errors(
    scene: Scene,
    server: ServerType,
    app: &str,
    effect: Document,
    options: &str,
) {
    let watched = scene.client(&format!("{POLLED}&appname={app}{options}"));
    watched.wait_for(1, "the server", became(server)).await;
    let changes = if server == ServerType::RsPrimary {
        3
    } else {
        1
    };
    watched.wait_for(changes, "changes", server_changed).await;
    let mut data = doc! { "failCommands": ["isMaster", "hello"], "appName": app };
    data.extend(effect);
    scene.fail(0, "alwaysOn", data).await;
    let error = watched
        .insert_many([3, 4])
        .await
        .expect_err("no connection");
    for label in [Label::SystemOverloadedError, Label::RetryableError] {
        assert!(error.has_label(&label), "{label:?}: {error:?}");
    }
    watched.assert_count(0, "pool cleared", pool_cleared);
    watched.assert_count(changes, "changes", server_changed);
    scene.clear_fail_point(0).await;
    watched
        .insert_many([5, 6])
        .await
        .expect("it was never given up");
    watched.assert_count(changes, "changes", server_changed);
    watched.end().await;
}

/// Official test file `backpressure-network-error-fail-single`: new connections to a standalone
/// break during their hello.
#[test]
fn network_errors_in_hellos_to_a_standalone_are_overload_errors() {
    play([standalone()], |scene| {
        let (app, effect) = (
            "backpressureNetworkErrorFailTest",
            doc! { "closeConnection": true },
        );
        assert_failed_hellos_are_overload_errors(scene, ServerType::Standalone, app, effect, "")
    });
}

/// Official test file `backpressure-network-error-fail-replicaset`: new connections to a primary
/// break during their hello.
#[test]
fn network_errors_in_hellos_to_a_primary_are_overload_errors() {
    play([replica_set()], |scene| {
        let (app, effect) = (
            "backpressureNetworkErrorFailTest",
            doc! { "closeConnection": true },
        );
        assert_failed_hellos_are_overload_errors(scene, ServerType::RsPrimary, app, effect, "")
    });
}

/// Official test file `backpressure-network-timeout-fail-single`: the hellos of new connections to
/// a standalone time out.
#[test]
fn timeouts_of_hellos_to_a_standalone_are_overload_errors() {
    play([standalone()], |scene| {
        let effect = doc! { "blockConnection": true, "blockTimeMS": 500 };
        let (app, options) = (
            "backpressureNetworkTimeoutErrorTest",
            "&connectTimeoutMS=250&socketTimeoutMS=250",
        );
        assert_failed_hellos_are_overload_errors(
            scene,
            ServerType::Standalone,
            app,
            effect,
            options,
        )
    });
}

/// Official test file `backpressure-network-timeout-fail-replicaset`: the hellos of new connections
/// to a primary time out.
#[test]
fn timeouts_of_hellos_to_a_primary_are_overload_errors() {
    play([replica_set()], |scene| {
        let effect = doc! { "blockConnection": true, "blockTimeMS": 500 };
        let (app, options) = (
            "backpressureNetworkTimeoutErrorTest",
            "&connectTimeoutMS=250&socketTimeoutMS=250",
        );
        assert_failed_hellos_are_overload_errors(scene, ServerType::RsPrimary, app, effect, options)
    });
}

/// Official test file
/// `backpressure-server-description-unchanged-on-min-pool-size-population-error`. The monitor's
/// hello gets a reply, and those of the pool's connections do not. The topology gets the errors of
/// connections that are made to reach `minPoolSize` (CMAP-70), but errors with overload labels
/// change nothing (CMAP-44).
#[test]
fn hello_errors_in_background_population_do_not_change_the_server_description() {
    play([standalone()], |scene| async move {
        let data = doc! {
            "failCommands": ["hello", "isMaster"], "appName": "authErrorTest",
            "closeConnection": true,
        };
        scene.fail(0, doc! { "skip": 1 }, data).await;
        let options = "appname=authErrorTest&minPoolSize=5&maxConnecting=1\
                       &serverMonitoringMode=poll&heartbeatFrequencyMS=1000000";
        let watched = scene.client(options);
        watched.wait_for(1, "a change", server_changed).await;
        watched
            .wait_for(1, "connection closed", connection_closed)
            .await;
        scene.pause(5_000).await;
        watched.assert_count(1, "changes", server_changed);
        watched.assert_count(0, "pool cleared", pool_cleared);
        scene.clear_fail_point(0).await;
        watched
            .wait_for(5, "connection ready", connection_ready)
            .await;
        watched.end().await;
    });
}

/// A client opens up to 100 connections at once to a server that accepts 20 per second (SDAM
/// prose 10, "Connection Pool Backpressure"). At least 10 check outs fail, and no pool is cleared.
#[test]
fn a_connection_rate_limit_of_the_server_does_not_clear_the_pool() {
    const PREFIX: &str = "ingressConnectionEstablishment";
    play(
        [standalone(), replica_set(), sharded_alone()],
        |scene| async move {
            let watched = scene.client("maxConnecting=100&appname=crowd");
            watched.insert(1).await.expect("a connection");
            let slow = doc! {
                "failCommands": ["find"], "appName": "crowd", "blockConnection": true,
                "blockTimeMS": 2_000,
            };
            scene.fail(0, "alwaysOn", slow).await;
            let set = |parameter: &str, value: bson::Bson| {
                doc! { "setParameter": 1, format!("{PREFIX}{parameter}"): value }
            };
            scene.tell(0, set("RatePerSec", 20.into())).await;
            scene.tell(0, set("BurstCapacitySecs", 1.into())).await;
            scene.tell(0, set("MaxQueueDepth", 1.into())).await;
            scene.tell(0, set("RateLimiterEnabled", true.into())).await;
            let finds = (0..100).map(|_| {
                let things = watched.things();
                scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await })
            });
            let mut found = 0;
            for find in finds.collect::<Vec<_>>() {
                found += usize::from(find.join().await.is_ok());
            }
            let failed = watched.events.count(check_out_failed);
            assert!(failed >= 10, "{failed} checkouts failed");
            assert!(found >= 20, "{found} finds succeeded");
            watched.assert_count(0, "pool cleared", pool_cleared);
            scene.pause(1_000).await;
            scene.tell(0, set("RateLimiterEnabled", false.into())).await;
            watched.find().await.expect("it is not busy any more");
            watched.end().await;
        },
    );
}
