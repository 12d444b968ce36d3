//! An error of a service affects only the connections of this service: the official test file
//! `load-balancers/tests/sdam-error-handling`, and services that end.

use super::{cleared, service};
use crate::{
    event_log::{connection_closed, connection_ready, pool_cleared, server_changed},
    scene::{Scene, Watched, authenticated, balanced, balanced_alone, play},
};
use bson::doc;
use onionskin_core::{
    description::ServerType,
    error::Error,
    event::{CloseReason, EventKind, PoolEvent},
};
use onionskin_worlds::world::plan::Disaster;
use std::{collections::BTreeSet, time::Duration};

/// Official test file `sdam-error-handling`: an error of an operation changes no server description
/// (LB-51). The pool clear after a shutdown error (LB-52) or a network error (LB-53) affects the
/// connections of one service only.
#[test]
fn an_error_of_a_service_clears_only_the_connections_of_that_service() {
    play([balanced()], |scene| async move {
        let effects = [
            doc! { "errorCode": 11600 },
            doc! { "closeConnection": true },
        ];
        for effect in effects {
            let watched = scene.client("retryReads=false");
            // Two operations at once leave two available connections, one for each service.
            assert!(two_at_once(&scene, &watched).await.is_empty());
            let services: BTreeSet<_> = watched.events.notes(service).into_iter().collect();
            assert_eq!(services.len(), 2, "{services:?}");
            let mut data = doc! { "failCommands": ["find"] };
            data.extend(effect);
            scene.fail(0, doc! { "times": 1 }, data).await;
            let mut failed = Vec::new();
            for _ in 0..4 {
                failed.extend(two_at_once(&scene, &watched).await);
            }
            assert_eq!(failed.len(), 1, "{failed:?}");
            assert_eq!(watched.events.notes(cleared).len(), 1);
            let known = watched.client.topology();
            let kinds: Vec<_> = known.servers.values().map(|s| s.server_type).collect();
            assert_eq!(kinds, [ServerType::LoadBalancer]);
            watched.assert_count(1, "descriptions", server_changed);
            watched.assert_count(1, "closed", connection_closed);
            watched.end().await;
        }
    });
}

/// Runs two finds at once, which need two connections. Returns their errors.
async fn two_at_once(scene: &Scene, watched: &Watched) -> Vec<Error> {
    let finds = [watched.things(), watched.things()]
        .map(|things| scene.spawn(async move { things.find_one(doc! {}).await }));
    let mut failed = Vec::new();
    for find in finds {
        failed.extend(find.join().await.err());
    }
    failed
}

/// Official test file `sdam-error-handling`, "errors during the initial connection hello are
/// ignored". Neither a broken connection (LB-47) nor an error reply (LB-48) clears the pool.
#[test]
fn hello_errors_behind_a_load_balancer_clear_no_pool() {
    play([balanced_alone()], |scene| async move {
        for effect in [
            doc! { "errorCode": 11600 },
            doc! { "closeConnection": true },
        ] {
            let mut data = doc! { "failCommands": ["hello", "isMaster"], "appName": "lbHello" };
            data.extend(effect);
            scene.fail(0, doc! { "times": 1 }, data).await;
            let watched = scene.client("appname=lbHello&retryWrites=false");
            watched
                .insert_many([1, 2])
                .await
                .expect_err("no connection");
            watched.assert_count(0, "pool cleared", pool_cleared);
            watched.assert_count(1, "closed", connection_closed);
            watched.assert_count(1, "descriptions", server_changed);
            let _ = watched.find().await.expect("a connection");
            watched.end().await;
        }
    });
}

/// Official test file `sdam-error-handling`, "errors during authentication are processed": the pool
/// clear affects the connections of one service only (LB-50).
#[test]
fn an_authentication_error_clears_only_the_connections_of_its_service() {
    play([authenticated(balanced_alone())], |scene| async move {
        let data = doc! {
            "failCommands": ["saslContinue"], "appName": "lbLogin", "closeConnection": true,
        };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let watched = scene.client("appname=lbLogin&retryWrites=false");
        watched.insert_many([1, 2]).await.expect_err("no login");
        let services = watched.events.notes(cleared);
        assert!(matches!(services.as_slice(), [Some(_)]), "{services:?}");
        watched.assert_count(1, "descriptions", server_changed);
        watched.insert_many([1, 2]).await.expect("a login");
        watched.end().await;
    });
}

/// The process of one service ends, or all its connections break. Only the connections of this
/// service are closed. Reads and writes that meet a broken connection are retried, and no operation
/// fails.
#[test]
fn when_a_service_ends_only_its_connections_are_closed_and_operations_are_retried() {
    play([balanced()], |scene| async move {
        for disaster in [Disaster::Disconnect(0), Disaster::Kill(0)] {
            let watched = scene.client("minPoolSize=4");
            watched.wait_for(4, "connections", connection_ready).await;
            scene.strike(disaster.clone());
            scene.pause(100).await;
            for id in 0..6 {
                watched.find().await.expect("a reply");
                watched.insert(100 + id).await.expect("a reply");
                assert!(two_at_once(&scene, &watched).await.is_empty());
            }
            let services: BTreeSet<_> = watched.events.notes(cleared).into_iter().collect();
            assert!(services.len() <= 1, "{services:?}");
            let closed: Vec<CloseReason> = watched.events.notes(|event| match &event.kind {
                EventKind::Pool(PoolEvent::ConnectionClosed { reason, .. }) => Some(*reason),
                _ => None,
            });
            assert_eq!(closed.len(), 2, "those of one service: {closed:?}");
            scene.strike(Disaster::Restart(0));
            let things = watched.things();
            things.delete_many(doc! {}).await.expect("a reply");
            drop(things);
            watched.end().await;
        }
    });
}

/// While no service runs, an operation fails within its time limit. After the services have started
/// again, the next operation succeeds.
#[test]
fn operations_succeed_again_after_all_services_have_restarted() {
    play([balanced()], |scene| async move {
        let watched = scene.client("");
        watched.insert(1).await.expect("a reply");
        for member in [0, 1] {
            scene.strike(Disaster::Kill(member));
        }
        let find = watched.things();
        let find = find.find_one(doc! {}).timeout(Duration::from_secs(5));
        find.await.expect_err("no service");
        for member in [0, 1] {
            scene.strike(Disaster::Restart(member));
        }
        scene.pause(100).await;
        assert!(watched.find().await.expect("a reply").is_some());
        let changes = watched.events.count(server_changed);
        assert_eq!(changes, 1, "{:#?}", watched.events.names());
        watched.end().await;
    });
}
