//! Checks that fail or time out, and the choice between streaming and polling: the official test
//! files `unified/hello-*`, `connectTimeoutMS`, `interruptInUse-pool-clear`, `minPoolSize-error`,
//! `pool-clear-min-pool-size-error` and `serverMonitoringMode`.

use crate::{
    event_log::{
        command_name, connection_closed, connection_ready, heartbeat, heartbeat_failed,
        heartbeat_started, heartbeat_succeeded, pool_cleared, pool_name, pool_ready, unknown,
    },
    scene::{Scene, Watched, any_topology, play, replica_set, sharded_alone, standalone},
};
use bson::{Document, doc};
use onionskin_core::event::Event;
use onionskin_deployment::deployment::DeploymentOptions;

/// Returns the data of a fail point for all hellos of a client.
fn hellos(app: &str, effect: Document) -> Document {
    let mut data = doc! { "failCommands": ["hello", "isMaster"], "appName": app };
    data.extend(effect);
    data
}

/// Lets the first `times` hellos of a client fail. Asserts that the client finds the server
/// afterwards.
async fn first_hellos_fail(scene: Scene, app: &str, times: i32, effect: Document) {
    scene
        .fail(0, doc! { "times": times }, hellos(app, effect))
        .await;
    let options = "retryWrites=false&connectTimeoutMS=250&heartbeatFrequencyMS=500";
    let watched = scene.client(&format!("{options}&appname={app}"));
    watched.wait_for(1, "unknown", unknown).await;
    watched
        .insert_many([1, 2])
        .await
        .expect("it comes to itself");
    let commands = watched.events.notes(command_name);
    assert_eq!(commands, ["insert started", "insert succeeded"]);
    watched.assert_count(0, "pool cleared", pool_cleared);
    watched.end().await;
}

/// After a client has found the server, lets `times` of its hellos fail. Asserts that the server
/// becomes unknown and its pool is cleared (MON-62), and that later operations succeed.
async fn later_hellos_fail(scene: Scene, app: &str, connect: u32, times: i32, effect: Document) {
    let options = "retryWrites=false&heartbeatFrequencyMS=500";
    let watched = scene.client(&format!(
        "{options}&connectTimeoutMS={connect}&appname={app}"
    ));
    watched.insert_many([1, 2]).await.expect("a reply");
    scene
        .fail(0, doc! { "times": times }, hellos(app, effect))
        .await;
    watched.wait_for(1, "unknown", unknown).await;
    watched.wait_for(1, "pool cleared", pool_cleared).await;
    watched
        .insert_many([3, 4])
        .await
        .expect("it comes to itself");
    watched.end().await;
}

/// Official test file `hello-command-error`, "Command error on Monitor handshake": the first four
/// hellos get an error reply.
#[test]
fn a_monitor_retries_a_first_hello_that_got_an_error_reply() {
    play(any_topology(), |scene| {
        let effect = doc! { "closeConnection": false, "errorCode": 91 };
        first_hellos_fail(scene, "commandErrorHandshakeTest", 4, effect)
    });
}

/// Official test file `hello-command-error`, "Command error on Monitor check". The fail point gives
/// two errors: one to the streaming check and one to the measurement of the round trip time. The
/// server becomes unknown and its pool is cleared only once.
#[test]
fn an_error_reply_to_a_check_marks_server_unknown_and_clears_pool_once() {
    play(any_topology(), |scene| async move {
        let app = "commandErrorCheckTest";
        let options = "retryWrites=false&connectTimeoutMS=1000&heartbeatFrequencyMS=500";
        let watched = scene.client(&format!("{options}&appname={app}"));
        watched.insert_many([1, 2]).await.expect("a reply");
        let effect = doc! {
            "closeConnection": false, "blockConnection": true, "blockTimeMS": 750, "errorCode": 91,
        };
        scene
            .fail(0, doc! { "times": 2 }, hellos(app, effect))
            .await;
        watched.wait_for(1, "unknown", unknown).await;
        watched.wait_for(1, "pool cleared", pool_cleared).await;
        watched
            .insert_many([3, 4])
            .await
            .expect("it comes to itself");
        watched.assert_count(1, "unknown", unknown);
        watched.assert_count(1, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// Official test file `hello-network-error`, "Network error on Monitor handshake": the connections
/// of the first two hellos break.
#[test]
fn a_monitor_retries_a_first_hello_that_failed_with_a_network_error() {
    play(any_topology(), |scene| {
        let effect = doc! { "closeConnection": true };
        first_hellos_fail(scene, "networkErrorHandshakeTest", 2, effect)
    });
}

/// Official test file `hello-network-error`, "Network error on Monitor check": the connections of
/// four hellos break after the server was found.
#[test]
fn a_network_error_in_a_check_marks_server_unknown_and_clears_pool() {
    play(any_topology(), |scene| {
        let effect = doc! { "closeConnection": true };
        later_hellos_fail(scene, "networkErrorCheckTest", 250, 4, effect)
    });
}

/// Official test file `hello-timeout`, "Network timeout on Monitor handshake": the replies to the
/// first two hellos take longer than `connectTimeoutMS`.
#[test]
fn a_monitor_retries_a_first_hello_that_exceeded_connect_timeout_ms() {
    play(any_topology(), |scene| {
        let effect = doc! { "blockConnection": true, "blockTimeMS": 1_000 };
        first_hellos_fail(scene, "timeoutMonitorHandshakeTest", 2, effect)
    });
}

/// Official test file `hello-timeout`, "Network timeout on Monitor check": the replies to four
/// hellos take longer than `connectTimeoutMS` after the server was found.
#[test]
fn a_check_that_times_out_marks_server_unknown_and_clears_pool() {
    play(any_topology(), |scene| {
        let effect = doc! { "blockConnection": true, "blockTimeMS": 1_000 };
        later_hellos_fail(scene, "timeoutMonitorCheckTest", 750, 4, effect)
    });
}

/// Official test file `hello-timeout`, "Driver extends timeout while streaming": the time limit of
/// an awaitable hello is `connectTimeoutMS` plus `heartbeatFrequencyMS` (MON-44).
#[test]
fn an_awaitable_hello_may_take_connect_timeout_plus_heartbeat_frequency() {
    play(any_topology(), |scene| async move {
        let options = "retryWrites=false&connectTimeoutMS=250&heartbeatFrequencyMS=500\
                       &appname=extendsTimeoutTest";
        let watched = scene.client(options);
        watched.insert_many([1, 2]).await.expect("a reply");
        scene.pause(2_000).await;
        watched.insert_many([3, 4]).await.expect("a reply");
        watched.assert_count(0, "unknown", unknown);
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// Official test file `connectTimeoutMS`, "connectTimeoutMS=0": no hello has a time limit.
#[test]
fn a_connect_timeout_ms_of_zero_disables_the_timeout_of_hellos() {
    play(any_topology(), |scene| async move {
        let app = "connectTimeoutMS=0";
        let watched = scene.client(
            "retryWrites=false&connectTimeoutMS=0&heartbeatFrequencyMS=500\
             &appname=connectTimeoutMS%3D0",
        );
        watched.insert_many([1, 2]).await.expect("a reply");
        let effect = doc! { "blockConnection": true, "blockTimeMS": 550 };
        scene
            .fail(0, doc! { "times": 2 }, hellos(app, effect))
            .await;
        scene.pause(750).await;
        watched.insert_many([3, 4]).await.expect("a reply");
        watched.assert_count(0, "unknown", unknown);
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// Runs the operation `command` while the checks of its server time out. Asserts that the operation
/// fails if `options` switch retries off, and succeeds otherwise.
async fn interrupted(scene: &Scene, app: &str, options: &str, command: &str) -> Watched {
    let fixed = "connectTimeoutMS=500&heartbeatFrequencyMS=500&minPoolSize=0";
    let watched = scene.client(&format!("{fixed}&appname={app}&{options}"));
    watched.insert(1).await.expect("a reply");
    let member = scene.primary();
    // In the official file `interruptInUse-pool-clear`, the filter has a `$where` that sleeps for 2
    // s. Here, a fail point delays the reply by 2 s instead.
    let slow = doc! {
        "failCommands": [command], "appName": app, "blockConnection": true, "blockTimeMS": 2_000,
    };
    scene.fail(member, doc! { "times": 1 }, slow).await;
    let things = watched.things();
    let is_write = command == "update";
    let operation = scene.spawn(async move {
        let filter = doc! { "_id": 1 };
        if is_write {
            let change = doc! { "$set": { "a": "bar" } };
            things.update_one(filter, change).await.map(|_| ())
        } else {
            things.find_one(filter).await.map(|_| ())
        }
    });
    scene.pause(50).await;
    let effect = doc! { "blockConnection": true, "blockTimeMS": 1_500 };
    scene
        .fail(member, doc! { "times": 4 }, hellos(app, effect))
        .await;
    let ended = operation.join().await;
    assert_eq!(ended.is_err(), options.contains("false"), "{ended:?}");
    watched
}

const INTERRUPTED: [&str; 6] = [
    "checked out",
    "checked in",
    "checked out",
    "cleared, interrupting",
    "checked in",
    "connection closed",
];

fn assert_pool(watched: &Watched, expected: &[&str]) {
    let reported = watched.events.notes(pool_name);
    let names = [
        "checked out",
        "checked in",
        "cleared",
        "cleared, interrupting",
        "connection closed",
    ];
    // The pools of the other members have none of these events.
    let reported: Vec<&str> = reported
        .into_iter()
        .filter(|name| names.contains(name))
        .collect();
    assert_eq!(reported, expected);
}

/// Official test file `interruptInUse-pool-clear`, "Connection pool clear uses
/// interruptInUseConnections=true after monitor timeout". The clear interrupts the connections in
/// use (MON-63) at once (CMAP-95), and its event has `interruptInUseConnections` set to true
/// (CMAP-115).
#[test]
fn a_check_that_times_out_interrupts_the_connections_in_use() {
    play([replica_set(), sharded_alone()], |scene| async move {
        let watched = interrupted(&scene, "interruptInUse", "retryReads=false", "find").await;
        assert_pool(&watched, &INTERRUPTED);
        let commands = watched.events.notes(command_name);
        let expected = [
            "insert started",
            "insert succeeded",
            "find started",
            "find failed",
        ];
        assert_eq!(commands, expected);
        watched.end().await;
    });
}

/// Official test file `interruptInUse-pool-clear`, "Error returned from connection pool clear with
/// interruptInUseConnections=true is retryable". An interrupted operation fails with a retryable
/// error (MON-65, CMAP-97).
#[test]
fn an_interrupted_read_is_retried() {
    play([replica_set(), sharded_alone()], |scene| async move {
        let app = "interruptInUseRetryable";
        let watched = interrupted(&scene, app, "retryReads=true", "find").await;
        assert_retried(&watched, "find");
        watched.end().await;
    });
}

/// Official test file `interruptInUse-pool-clear`, "Error returned from connection pool clear with
/// interruptInUseConnections=true is retryable for write".
#[test]
fn an_interrupted_write_is_retried() {
    play([replica_set(), sharded_alone()], |scene| async move {
        let app = "interruptInUseRetryableWrite";
        let watched = interrupted(&scene, app, "retryWrites=true", "update").await;
        assert_retried(&watched, "update");
        let found = watched.find().await.expect("a reply");
        assert_eq!(found, Some(doc! { "_id": 1, "a": "bar" }));
        watched.end().await;
    });
}

fn assert_retried(watched: &Watched, command: &str) {
    let commands = watched.events.notes(command_name);
    let of = |what: &str| format!("{command} {what}");
    let expected = [of("started"), of("failed"), of("started"), of("succeeded")];
    assert_eq!(commands[2..], expected);
    let again = [&INTERRUPTED[..], &["checked out", "checked in"]].concat();
    assert_pool(watched, &again);
}

/// Official test file `minPoolSize-error`. A connection made in the background gets a shutdown
/// error, which clears the pool. The next successful check marks the pool as ready (SDAM-84).
#[test]
fn a_cleared_pool_is_populated_again_after_the_next_successful_check() {
    play([standalone()], |scene| async move {
        let app = "SDAMminPoolSizeError";
        let effect = doc! { "errorCode": 91 };
        scene.fail(0, doc! { "skip": 3 }, hellos(app, effect)).await;
        // The client polls, because a streaming check would wait for its reply for up to 10 s, the
        // `heartbeatFrequencyMS`. The server selection of `ping` waits only for one second.
        let options = "heartbeatFrequencyMS=10000&minPoolSize=10&maxConnecting=1\
                           &serverSelectionTimeoutMS=1000";
        let watched = scene.client(&format!(
            "{options}&appname={app}&serverMonitoringMode=poll"
        ));
        watched.wait_for(1, "pool ready", pool_ready).await;
        watched.wait_for(1, "unknown", unknown).await;
        watched.wait_for(1, "pool cleared", pool_cleared).await;
        let ping = || {
            let database = watched.client.database("admin");
            async move { database.run_command(doc! { "ping": 1 }).await }
        };
        ping().await.expect_err("the server is unknown");
        scene.clear_fail_point(0).await;
        ping().await.expect("a reply");
        watched.assert_count(2, "pool ready", pool_ready);
        // Counts only connections that became ready after the pool was ready again. The older
        // connections are stale.
        let first = watched.events.times(pool_ready)[1];
        let of_second = |event: &Event| connection_ready(event) && event.at >= first;
        watched.wait_for(10, "connection ready", of_second).await;
        watched.end().await;
    });
}

/// Official test file `pool-clear-min-pool-size-error`. Connections are made to reach
/// `minPoolSize`: the pool is cleared if authentication fails, and is not cleared if the connection
/// breaks during its hello.
#[test]
fn background_authentication_errors_clear_the_pool_but_hello_errors_do_not() {
    play(
        any_topology().map(crate::scene::authenticated),
        |scene| async move {
            let options = "appname=authErrorTest&minPoolSize=1";
            let data = doc! {
                "failCommands": ["saslContinue"], "appName": "authErrorTest", "errorCode": 18,
            };
            scene.fail(0, doc! { "times": 1 }, data).await;
            let watched = scene.client(options);
            watched.wait_for(1, "pool cleared", pool_cleared).await;
            watched
                .wait_for(1, "connection closed", connection_closed)
                .await;
            let reported = watched.events.notes(pool_name);
            let expected = [
                "created",
                "ready",
                "connection created",
                "cleared",
                "connection closed",
            ];
            assert_eq!(reported[..5], expected);
            watched.end().await;

            let effect = doc! { "closeConnection": true };
            let data = hellos("authErrorTest", effect);
            scene.fail(0, doc! { "skip": 1 }, data).await;
            let options =
                format!("{options}&serverMonitoringMode=poll&heartbeatFrequencyMS=1000000");
            let watched = scene.client(&options);
            watched
                .wait_for(1, "connection closed", connection_closed)
                .await;
            watched.assert_count(0, "pool cleared", pool_cleared);
            watched.end().await;
        },
    );
}

/// Returns the deployment with servers that do not support streaming.
fn old(mut options: DeploymentOptions) -> DeploymentOptions {
    options.version.release = [4, 2, 0];
    options.version.max_wire = 8;
    options
}

/// Returns the first three heartbeat events of a client, each with whether it is awaited.
async fn first_heartbeats(scene: Scene, options: &str) -> Vec<(&'static str, bool)> {
    let watched = scene.client(options);
    let admin = watched.client.database("admin");
    admin
        .run_command(doc! { "ping": 1 })
        .await
        .expect("a reply");
    drop(admin);
    watched
        .wait_for(2, "heartbeat started", heartbeat_started)
        .await;
    let heartbeats = watched.events.notes(heartbeat);
    watched.end().await;
    heartbeats[..3].to_vec()
}

const STREAMS: [(&str, bool); 3] = [("started", false), ("succeeded", false), ("started", true)];
const POLLS: [(&str, bool); 3] = [("started", false), ("succeeded", false), ("started", false)];

/// Official test file `serverMonitoringMode`, "connect with serverMonitoringMode=auto >=4.4" and
/// the same with `stream`: a server of release 4.4 or later streams its replies.
#[test]
fn checks_are_streamed_if_the_server_supports_streaming() {
    for mode in ["auto", "stream"] {
        play([standalone(), sharded_alone()], |scene| async move {
            let options = format!("serverMonitoringMode={mode}");
            assert_eq!(first_heartbeats(scene, &options).await, STREAMS);
        });
    }
}

/// Official test file `serverMonitoringMode`, "connect with serverMonitoringMode=auto <4.4" and the
/// same with `stream`: a server before release 4.4 is polled.
#[test]
fn checks_are_polled_if_the_server_does_not_support_streaming() {
    for mode in ["auto", "stream"] {
        play(
            [old(standalone()), old(sharded_alone())],
            |scene| async move {
                let options = format!("serverMonitoringMode={mode}&heartbeatFrequencyMS=500");
                assert_eq!(first_heartbeats(scene, &options).await, POLLS);
            },
        );
    }
}

/// Official test file `serverMonitoringMode`, "connect with serverMonitoringMode=poll": a server
/// that supports streaming is polled.
#[test]
fn checks_are_polled_with_server_monitoring_mode_poll() {
    play([standalone(), sharded_alone()], |scene| async move {
        let options = "serverMonitoringMode=poll&heartbeatFrequencyMS=500";
        assert_eq!(first_heartbeats(scene, options).await, POLLS);
    });
}

/// Official test file `serverMonitoringMode`, "poll waits after successful heartbeat": the next
/// check comes after `heartbeatFrequencyMS`.
#[test]
fn polling_waits_for_heartbeat_frequency_after_a_successful_check() {
    play([standalone(), sharded_alone()], |scene| async move {
        let watched = scene.client("serverMonitoringMode=poll&heartbeatFrequencyMS=1000000");
        watched
            .wait_for(1, "heartbeat succeeded", heartbeat_succeeded)
            .await;
        scene.pause(500).await;
        watched.assert_count(1, "heartbeat started", heartbeat_started);
        watched.assert_count(0, "heartbeat failed", heartbeat_failed);
        watched.end().await;
    });
}
