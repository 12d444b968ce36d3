//! Time limits of establishing a connection: two prose tests of client-side operations timeout
//! (CSOT prose 4a, CSOT prose 4b), a connection whose operation has no time left, and the limits
//! without `timeoutMS`.
//!
//! All times of the prose tests are multiplied by 20, because a write to a simulated socket
//! sometimes takes about as long as the original times.

use crate::{
    event_log::{
        check_out_failed, connection_closed, connection_ready, pool_cleared, pool_name, unknown,
    },
    scene::{any_topology, authenticated, play},
};
use bson::{Document, doc};
use onionskin_core::{
    error::{ErrorKind, Wait},
    event::{EventKind, PoolEvent},
};
use std::time::Duration;

const APP: &str = "slowLogin";

fn blocked(commands: &[&str], millis: i32) -> Document {
    doc! {
        "failCommands": commands, "appName": APP, "blockConnection": true, "blockTimeMS": millis,
    }
}

/// "timeoutMS used for handshake commands" (CSOT prose 4a): `timeoutMS` bounds a handshake command
/// in background population (CMAP-154).
#[test]
fn timeout_ms_bounds_the_handshake_commands_of_background_population() {
    play(any_topology().map(authenticated), |scene| async move {
        let data = blocked(&["saslContinue"], 300);
        scene.fail(0, doc! { "times": 1 }, data).await;
        let watched = scene.client(&format!(
            "minPoolSize=1&timeoutMS=200&heartbeatFrequencyMS=1000&appname={APP}"
        ));
        watched
            .wait_for(1, "connection closed", connection_closed)
            .await;
        let why = watched.events.notes(|event| match &event.kind {
            EventKind::Pool(PoolEvent::ConnectionClosed { error, .. }) => {
                error.as_ref().map(|error| error.kind().clone())
            }
            _ => None,
        });
        let [ErrorKind::Timeout { wait, message }] = why.as_slice() else {
            panic!("{why:?}");
        };
        assert_eq!(*wait, Wait::Handshake);
        assert_eq!(message, "authentication took longer than 200 ms");
        // The error of a failed authentication gets no overload label (CMAP-45), so the pool is
        // cleared, and is paused until the next check succeeds.
        watched.assert_count(1, "pool cleared", pool_cleared);
        watched
            .wait_for(1, "connection ready", connection_ready)
            .await;
        watched.end().await;
    });
}

/// "timeoutMS is refreshed for each handshake command" (CSOT prose 4b): `timeoutMS` bounds each
/// handshake command anew (CMAP-154).
#[test]
fn timeout_ms_starts_anew_for_each_handshake_command_of_background_population() {
    play(any_topology().map(authenticated), |scene| async move {
        let data = blocked(&["hello", "isMaster", "saslContinue"], 300);
        scene.fail(0, "alwaysOn", data).await;
        let watched = scene.client(&format!("minPoolSize=1&timeoutMS=400&appname={APP}"));
        watched
            .wait_for(1, "connection ready", connection_ready)
            .await;
        watched.assert_count(0, "connection closed", connection_closed);
        let reported = watched.events.notes(pool_name);
        let wanted = ["created", "ready", "connection created", "connection ready"];
        assert!(reported.starts_with(&wanted), "{reported:?}");
        scene.clear_fail_point(0).await;
        watched.end().await;
    });
}

/// The time limit of an operation ends its wait for a connection (CMAP-153). The connection is
/// established nevertheless, and the server and its pool are not affected (scenario 28).
#[test]
fn a_connection_is_still_established_after_its_operation_timed_out() {
    play(any_topology().map(authenticated), |scene| async move {
        let data = blocked(&["saslContinue"], 900);
        scene.fail(0, doc! { "times": 1 }, data).await;
        let watched = scene.client(&format!("timeoutMS=300&appname={APP}"));
        let began = scene.now();
        let error = watched.insert(1).await.expect_err("there is no time");
        assert_eq!(
            scene.now().saturating_since(began),
            Duration::from_millis(300)
        );
        assert!(error.is_timeout(), "{error:?}");
        watched.assert_count(1, "check out failed", check_out_failed);
        watched
            .wait_for(1, "connection ready", connection_ready)
            .await;
        watched.insert(2).await.expect("it is there already");
        watched.assert_count(1, "connection ready", connection_ready);
        watched.assert_count(0, "connection closed", connection_closed);
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.assert_count(0, "unknown", unknown);
        watched.end().await;
    });
}

/// Without `timeoutMS`, `socketTimeoutMS` bounds each command of the handshake (CMAP-153). If
/// `socketTimeoutMS` is not set, or if `timeoutMS` is set, also to 0, `connectTimeoutMS` bounds the
/// command, so that a silent server does not keep a pending connection for ever.
#[test]
fn socket_timeout_or_connect_timeout_bounds_each_handshake_command() {
    for (options, limit) in [
        ("connectTimeoutMS=300&socketTimeoutMS=100", 100),
        ("connectTimeoutMS=100&socketTimeoutMS=300", 300),
        ("connectTimeoutMS=200", 200),
        ("connectTimeoutMS=250&timeoutMS=0&socketTimeoutMS=100", 250),
        (
            "connectTimeoutMS=250&timeoutMS=5000&socketTimeoutMS=100",
            250,
        ),
    ] {
        play(
            [authenticated(crate::scene::standalone())],
            |scene| async move {
                let data = blocked(&["saslContinue"], 1_000);
                scene.fail(0, doc! { "times": 1 }, data).await;
                let watched = scene.client(&format!("retryWrites=false&{options}&appname={APP}"));
                let error = watched.insert(1).await.expect_err("it is silent");
                let ErrorKind::Timeout { wait, message } = error.kind() else {
                    panic!("{options}: {error:?}");
                };
                assert_eq!(*wait, Wait::Handshake);
                assert!(
                    message.contains(&format!(" {limit} ms")),
                    "{options}: {message}"
                );
                watched.end().await;
            },
        );
    }
}
