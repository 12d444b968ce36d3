//! The effects of operation errors on the server description and the pool: the official test files
//! `unified/find-*`, `insert-*`, `pool-clear-application-error`, `pool-cleared-error` and
//! `cancel-server-check`, and a test of stale errors.

use crate::{
    event_log::{command_name, heartbeat, pool_cleared, pool_name, unknown},
    scene::{
        Watched, any_topology, play, play_with_one_seed, replica_set, replica_set_of,
        sharded_alone, standalone,
    },
};
use bson::doc;
use onionskin_core::error::{Error, ErrorKind};

/// Official test file `find-network-error`: the connection of a find breaks. The server becomes
/// unknown and its pool is cleared, once (SDAM-100).
#[test]
fn a_network_error_in_a_find_marks_server_unknown_and_clears_pool() {
    play(any_topology(), |scene| async move {
        let data = doc! {
            "failCommands": ["find"], "closeConnection": true, "appName": "findNetworkErrorTest",
        };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let options = "retryWrites=false&retryReads=false&appname=findNetworkErrorTest";
        let watched = scene.client(options);
        let error = watched.find().await.expect_err("no reply");
        assert!(error.is_network(), "{error:?}");
        assert_one_pool_clear(&watched).await;
        watched.insert_many([5, 6]).await.expect("a reply");
        assert_one_pool_clear(&watched).await;
        let commands = watched.events.notes(command_name);
        let expected = [
            "find started",
            "find failed",
            "insert started",
            "insert succeeded",
        ];
        assert_eq!(commands, expected);
        watched.end().await;
    });
}

/// Official test file `insert-network-error`: the connection of an insert breaks. The server
/// becomes unknown and its pool is cleared, once.
#[test]
fn a_network_error_in_an_insert_marks_server_unknown_and_clears_pool() {
    play(any_topology(), |scene| async move {
        let data = doc! {
            "failCommands": ["insert"], "closeConnection": true,
            "appName": "insertNetworkErrorTest",
        };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let watched = scene.client("retryWrites=false&appname=insertNetworkErrorTest");
        let error = watched.insert_many([3, 4]).await.expect_err("no reply");
        assert!(error.is_network(), "{error:?}");
        assert_one_pool_clear(&watched).await;
        watched.insert_many([5, 6]).await.expect("a reply");
        assert_one_pool_clear(&watched).await;
        watched.end().await;
    });
}

/// Official test file `find-network-timeout-error`: after a timeout of an operation, the server
/// stays known and its pool is not cleared (SDAM-101).
#[test]
fn a_find_that_times_out_does_not_affect_server_and_pool() {
    play(any_topology(), |scene| async move {
        let data = doc! {
            "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 500,
            "appName": "findNetworkTimeoutErrorTest",
        };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let options = "retryWrites=false&retryReads=false\
                       &appname=findNetworkTimeoutErrorTest&socketTimeoutMS=250";
        let watched = scene.client(options);
        let error = watched.find().await.expect_err("no reply in time");
        assert!(error.is_timeout(), "{error:?}");
        watched.insert(3).await.expect("a reply");
        watched.assert_count(0, "unknown", unknown);
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// Official test file `find-shutdown-error`: two operations get the same shutdown error, and the
/// pool is cleared once (SDAM-98).
#[test]
fn shutdown_errors_of_two_finds_mark_server_unknown_and_clear_pool_once() {
    play(any_topology(), |scene| async move {
        let options = "retryWrites=false&retryReads=false&heartbeatFrequencyMS=500\
                       &appname=shutdownErrorFindTest";
        let watched = scene.client(options);
        watched.insert(1).await.expect("a reply");
        let data = doc! {
            "failCommands": ["find"], "appName": "shutdownErrorFindTest", "errorCode": 91,
            "blockConnection": true, "blockTimeMS": 500,
        };
        scene.fail(0, doc! { "times": 2 }, data).await;
        let finds = [0, 1].map(|_| {
            let things = watched.things();
            scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await })
        });
        for find in finds {
            assert_shutdown(&find.join().await.expect_err("a shutdown"));
        }
        assert_one_pool_clear(&watched).await;
        watched.insert(4).await.expect("a reply");
        assert_one_pool_clear(&watched).await;
        watched.end().await;
    });
}

/// Official test file `insert-shutdown-error`: two inserts get the same shutdown error, and the
/// pool is cleared once.
#[test]
fn shutdown_errors_of_two_inserts_mark_server_unknown_and_clear_pool_once() {
    play(any_topology(), |scene| async move {
        let options = "retryWrites=false&heartbeatFrequencyMS=500&appname=shutdownErrorInsertTest";
        let watched = scene.client(options);
        watched.insert(1).await.expect("a reply");
        let data = doc! {
            "failCommands": ["insert"], "appName": "shutdownErrorInsertTest", "errorCode": 91,
            "blockConnection": true, "blockTimeMS": 500,
        };
        scene.fail(0, doc! { "times": 2 }, data).await;
        let inserts = [2, 3].map(|id| {
            let things = watched.things();
            scene.spawn(async move { things.insert_one(doc! { "_id": id }).await })
        });
        for insert in inserts {
            assert_shutdown(&insert.join().await.expect_err("a shutdown"));
        }
        assert_one_pool_clear(&watched).await;
        watched.insert(4).await.expect("a reply");
        assert_one_pool_clear(&watched).await;
        watched.end().await;
    });
}

/// An error on a connection whose generation is older than that of the pool is stale and changes
/// nothing (SDAM-86). Here the server has recovered before the error, and stays known.
#[test]
fn a_network_error_on_a_stale_connection_does_not_clear_the_pool_again() {
    play(any_topology(), |scene| async move {
        let options = "retryWrites=false&retryReads=false&heartbeatFrequencyMS=500";
        let watched = scene.client(&format!("{options}&appname=stale"));
        watched.insert(1).await.expect("a reply");
        let late = doc! {
            "failCommands": ["find"], "appName": "stale", "blockConnection": true,
            "blockTimeMS": 3_000, "closeConnection": true,
        };
        scene.fail(0, doc! { "times": 1 }, late).await;
        let things = watched.things();
        let find = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await });
        scene.pause(100).await;
        let early = doc! {
            "failCommands": ["insert"], "appName": "stale", "closeConnection": true,
        };
        scene.fail(0, doc! { "times": 1 }, early).await;
        watched.insert(2).await.expect_err("it breaks");
        watched.insert(3).await.expect("the server is back");
        assert_one_pool_clear(&watched).await;
        find.join().await.expect_err("it breaks as well");
        scene.pause(2_000).await;
        watched.insert(4).await.expect("a reply");
        assert_one_pool_clear(&watched).await;
        watched.end().await;
    });
}

/// Official test file `pool-clear-application-error`: the clear precedes the check in of the broken
/// connection (SDAM-117, CMAP-150).
#[test]
fn the_pool_is_cleared_before_a_broken_connection_is_checked_in() {
    play(any_topology(), |scene| async move {
        let data = doc! {
            "failCommands": ["find"], "closeConnection": true, "appName": "findNetworkErrorTest",
        };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let options = "retryWrites=false&retryReads=false&appname=findNetworkErrorTest";
        let watched = scene.client(options);
        watched.find().await.expect_err("no reply");
        watched.wait_for(1, "pool cleared", pool_cleared).await;
        let is_checked_in = |event: &_| pool_name(event) == Some("checked in");
        watched.wait_for(1, "checked in", is_checked_in).await;
        let reported = watched.events.notes(pool_name);
        let wanted = ["cleared", "checked in"];
        let reported: Vec<&str> = reported
            .into_iter()
            .filter(|name| wanted.contains(name))
            .collect();
        assert_eq!(reported, wanted);
        watched.end().await;
    });
}

/// Official test file `pool-cleared-error`: check outs that wait for the only connection fail,
/// because the pool is cleared. The operations of these check outs are retried, and the errors do
/// not affect the server (SDAM-116).
#[test]
fn check_outs_that_fail_on_a_cleared_pool_are_retried_and_do_not_clear_it_again() {
    play([replica_set(), sharded_alone()], |scene| async move {
        let watched = scene.client("retryWrites=true&maxPoolSize=1&appname=poolClearedErrorTest");
        watched.insert(1).await.expect("a reply");
        let data = doc! {
            "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 100,
            "closeConnection": true, "appName": "poolClearedErrorTest",
        };
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        let inserts = [2, 3, 4, 5, 6, 7].map(|id| {
            let things = watched.things();
            scene.spawn(async move { things.insert_one(doc! { "_id": id }).await })
        });
        for insert in inserts {
            insert.join().await.expect("it is tried again");
        }
        assert_one_pool_clear(&watched).await;
        watched.insert(8).await.expect("a reply");
        assert_one_pool_clear(&watched).await;
        assert_eq!(watched.things().count_documents(doc! {}).await, Ok(8));
        watched.end().await;
    });
}

/// Official test file `cancel-server-check`: a network error cancels the check under way
/// (SDAM-109). So the next check, and with it the retry, comes after 500 ms and not after
/// `heartbeatFrequencyMS`.
#[test]
fn a_network_error_of_an_operation_cancels_the_check_in_progress() {
    play([replica_set_of(1), sharded_alone()], |scene| async move {
        let options = "retryWrites=true&heartbeatFrequencyMS=10000\
                       &serverSelectionTimeoutMS=5000&appname=cancelServerCheckTest";
        let watched = scene.client(options);
        watched.insert(1).await.expect("a reply");
        let data = doc! { "failCommands": ["insert"], "closeConnection": true };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let start = scene.now();
        watched.insert(2).await.expect("it is tried again");
        let took = scene.now().saturating_since(start);
        assert!(took.as_millis() < 1_000, "{took:?}");
        assert_one_pool_clear(&watched).await;
        let cancelled = watched.events.notes(heartbeat);
        assert!(cancelled.contains(&("failed", true)), "{cancelled:?}");
        watched.insert(3).await.expect("a reply");
        assert_one_pool_clear(&watched).await;
        watched.end().await;
    });
}

async fn assert_one_pool_clear(watched: &Watched) {
    watched.wait_for(1, "unknown", unknown).await;
    watched.wait_for(1, "pool cleared", pool_cleared).await;
    watched.assert_count(1, "unknown", unknown);
    watched.assert_count(1, "pool cleared", pool_cleared);
}

fn assert_shutdown(error: &Error) {
    assert_eq!(error.code(), Some(91), "{error:?}");
}

/// The limit of a command's document includes the fields that the driver adds.
#[test]
fn a_command_that_is_too_large_with_the_fields_of_the_driver_is_not_sent() {
    play_with_one_seed([standalone()], |scene| async move {
        let watched = scene.client("");
        let admin = watched.client.database("admin");
        let most = 16 * 1024 * 1024 + 16 * 1024;
        // The elements of the command without the text have 24 bytes.
        let command = doc! { "ping": 1, "comment": "x".repeat(most - 24) };
        let error = admin.run_command(command).await.expect_err("too large");
        assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
        let command = doc! { "ping": 1, "comment": "x".repeat(most - 1_000) };
        admin.run_command(command).await.expect("a reply");
        drop(admin);
        watched.end().await;
    });
}
