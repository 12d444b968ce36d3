//! Failing authentication: the official test files `unified/auth-*` and
//! `unified/pool-clear-checkout-error`, and retries after such errors.

use crate::{
    event_log::{command_name, connection_closed, pool_cleared, pool_name, unknown},
    scene::{any_topology, authenticated, play, replica_set_of, sharded_alone},
};
use bson::{Document, doc};
use onionskin_core::error::{Error, ErrorKind};

/// Lets the first authentication of a client with this application name fail, by a fail point with
/// this effect. Asserts that the insert gets the expected error, that the server becomes unknown
/// and its pool is cleared exactly once (SDAM-103), and that the next insert succeeds.
fn assert_authentication_failure_clears_pool(
    app: &str,
    effect: &Document,
    options: &str,
    is_expected: fn(&Error) -> bool,
) {
    play(any_topology().map(authenticated), |scene| async move {
        let mut data = doc! { "failCommands": ["saslContinue"], "appName": app };
        data.extend(effect.clone());
        scene.fail(0, doc! { "times": 1 }, data).await;
        let watched = scene.client(&format!("retryWrites=false&appname={app}{options}"));
        let error = watched.insert_many([3, 4]).await.expect_err("no login");
        assert!(is_expected(&error), "{error:?}");
        watched.wait_for(1, "unknown", unknown).await;
        watched.wait_for(1, "pool cleared", pool_cleared).await;
        watched.insert_many([5, 6]).await.expect("a login");
        watched.assert_count(1, "unknown", unknown);
        watched.assert_count(1, "pool cleared", pool_cleared);
        let commands = watched.events.notes(command_name);
        assert_eq!(commands, ["insert started", "insert succeeded"]);
        watched.end().await;
    });
}

/// Returns the error code with which a server refused the authentication.
fn authentication_code(error: &Error) -> Option<i32> {
    match error.kind() {
        ErrorKind::Authentication { cause, .. } => cause.as_ref()?.code(),
        _ => None,
    }
}

/// Official test file `auth-error`: authentication fails with code 18, `AuthenticationFailed`.
#[test]
fn an_authentication_failed_error_marks_server_unknown_and_clears_pool() {
    let effect = doc! { "errorCode": 18 };
    assert_authentication_failure_clears_pool("authErrorTest", &effect, "", |error| {
        authentication_code(error) == Some(18)
    });
}

/// Official test file `auth-misc-command-error`: authentication fails with code 1, `InternalError`.
#[test]
fn any_error_reply_to_authentication_marks_server_unknown_and_clears_pool() {
    let effect = doc! { "errorCode": 1 };
    assert_authentication_failure_clears_pool("authMiscErrorTest", &effect, "", |error| {
        authentication_code(error) == Some(1)
    });
}

/// Official test file `auth-network-error`: the connection breaks during authentication.
#[test]
fn a_network_error_in_authentication_marks_server_unknown_and_clears_pool() {
    let effect = doc! { "closeConnection": true };
    assert_authentication_failure_clears_pool(
        "authNetworkErrorTest",
        &effect,
        "",
        Error::is_network,
    );
}

/// Official test file `auth-network-timeout-error`: authentication takes longer than
/// `socketTimeoutMS`.
#[test]
fn an_authentication_timeout_marks_server_unknown_and_clears_pool() {
    let effect = doc! { "blockConnection": true, "blockTimeMS": 500 };
    let options = "&connectTimeoutMS=250&socketTimeoutMS=250";
    let app = "authNetworkTimeoutErrorTest";
    assert_authentication_failure_clears_pool(app, &effect, options, Error::is_timeout);
}

/// Official test file `auth-shutdown-error`: authentication fails with code 91,
/// `ShutdownInProgress`.
#[test]
fn a_shutdown_error_in_authentication_marks_server_unknown_and_clears_pool() {
    let effect = doc! { "errorCode": 91 };
    assert_authentication_failure_clears_pool("authShutdownErrorTest", &effect, "", |error| {
        authentication_code(error) == Some(91)
    });
}

/// Official test file `pool-clear-checkout-error`: the event of the clear comes before the
/// connection is closed (SDAM-117).
#[test]
fn the_pool_is_cleared_before_a_connection_that_failed_authentication_is_closed() {
    play(any_topology().map(authenticated), |scene| async move {
        let data = doc! {
            "failCommands": ["saslContinue"], "appName": "authErrorTest", "errorCode": 18,
        };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let watched = scene.client("retryWrites=false&appname=authErrorTest");
        watched.insert_many([3, 4]).await.expect_err("no login");
        watched.wait_for(1, "pool cleared", pool_cleared).await;
        watched
            .wait_for(1, "connection closed", connection_closed)
            .await;
        let wanted = ["check out started", "cleared", "connection closed"];
        let reported = watched.events.notes(pool_name);
        let reported: Vec<&str> = reported
            .into_iter()
            .filter(|name| wanted.contains(name))
            .collect();
        assert_eq!(reported, wanted);
        watched.end().await;
    });
}

/// A read is retried after a shutdown error in authentication, as after other retryable errors of a
/// connection (RR-2). After an error reply, a write is retried only if the server labelled the
/// error (RW-15), and the error of this test has no label.
#[test]
fn a_shutdown_error_in_authentication_is_retried_for_reads_but_not_for_writes() {
    let deployments = [replica_set_of(1), sharded_alone()];
    play(deployments.map(authenticated), |scene| async move {
        let app = "shutdownInLogin";
        let data = doc! {
            "failCommands": ["saslContinue"], "appName": app, "errorCode": 91,
        };
        for write in [false, true] {
            scene.fail(0, doc! { "times": 1 }, data.clone()).await;
            let options = "heartbeatFrequencyMS=500&serverMonitoringMode=poll";
            let watched = scene.client(&format!("{options}&appname={app}"));
            if write {
                let error = watched.insert(1).await.expect_err("no label allows it");
                assert_eq!(authentication_code(&error), Some(91), "{error:?}");
            } else {
                watched.find().await.expect("another login");
            }
            watched.assert_count(1, "unknown", unknown);
            watched.assert_count(1, "pool cleared", pool_cleared);
            watched.end().await;
        }
    });
}
