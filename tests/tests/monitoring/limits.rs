//! The time limits that commands send to servers: the tests of `command-execution`, a file of the
//! specification's `client-side-operations-timeout/tests`, and some other tests of that folder.

use crate::{
    event_log::{EventLog, connection_closed, pool_cleared},
    scene::{Scene, any_topology, play, standalone},
};
use bson::{Document, doc};
use onionskin_core::event::{CommandEvent, EventKind};
use std::time::Duration;

/// Lets the server delay every hello of the client with this application name, by `millis`
/// milliseconds.
async fn delay_hello(scene: &Scene, app: &str, millis: i32) {
    let data = doc! {
        "failCommands": ["hello", "isMaster"], "appName": app, "blockConnection": true,
        "blockTimeMS": millis,
    };
    scene.fail(0, "alwaysOn", data).await;
}

/// Returns the `maxTimeMS` of the commands with this name.
fn max_times(events: &EventLog, name: &str) -> Vec<Option<i64>> {
    events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command, .. })
            if &*facts.name == name =>
        {
            let command = Document::try_from(&**command).expect("BSON");
            let limit = command.get("maxTimeMS");
            Some(limit.map(|limit| limit.as_i32().map(i64::from).expect("an integer")))
        }
        _ => None,
    })
}

/// "maxTimeMS value in the command is less than timeoutMS": `maxTimeMS` is the remaining time minus
/// the minimum round trip time (SEL-59).
#[test]
fn max_time_ms_is_the_remaining_time_minus_the_minimum_round_trip_time() {
    play(any_topology(), |scene| async move {
        delay_hello(&scene, "reduceMaxTimeMSTest", 50).await;
        let options = "appname=reduceMaxTimeMSTest&timeoutMS=500&heartbeatFrequencyMS=500";
        let watched = scene.client(&format!("{options}&minPoolSize=1&w=1"));
        let things = watched.things();
        let first = things.insert_one(doc! { "_id": 1 });
        first
            .timeout(Duration::from_secs(100))
            .await
            .expect("a reply");
        scene.pause(1_000).await;
        watched.insert(2).await.expect("a reply");
        let limits = max_times(&watched.events, "insert");
        let [Some(_), Some(limit)] = limits[..] else {
            panic!("{limits:?}");
        };
        assert!((440..=450).contains(&limit), "{limit}");
        watched.end().await;
    });
}

/// "command is not sent if RTT is greater than timeoutMS": the minimum round trip time is longer
/// than the time limit (SEL-59). So the operation fails at once, and its connection stays open.
#[test]
fn a_command_is_not_sent_if_the_round_trip_time_exceeds_its_time_limit() {
    play(any_topology(), |scene| async move {
        delay_hello(&scene, "rttTooHighTest", 50).await;
        let options = "appname=rttTooHighTest&timeoutMS=10&heartbeatFrequencyMS=500";
        let watched = scene.client(&format!("{options}&minPoolSize=1&w=1"));
        let things = watched.things();
        let first = things.insert_one(doc! { "_id": 1 });
        first
            .timeout(Duration::from_secs(100))
            .await
            .expect("a reply");
        scene.pause(1_000).await;
        for id in 2..5 {
            let start = scene.now();
            let error = watched.insert(id).await.expect_err("no time");
            assert!(error.is_timeout() && !error.is_network(), "{error:?}");
            assert_eq!(scene.now(), start, "at once");
        }
        assert_eq!(max_times(&watched.events, "insert").len(), 1);
        watched.assert_count(0, "connection closed", connection_closed);
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// "short-circuit is not enabled with only 1 RTT measurement": with one measurement the minimum
/// round trip time is zero (SEL-55), so the command is sent with the whole remaining time (SEL-59).
#[test]
fn a_command_is_sent_if_only_one_round_trip_time_was_measured() {
    play(any_topology(), |scene| async move {
        delay_hello(&scene, "reduceMaxTimeMSTest", 100).await;
        let options = "appname=reduceMaxTimeMSTest&timeoutMS=90&heartbeatFrequencyMS=100000";
        let watched = scene.client(&format!("{options}&minPoolSize=1&w=1"));
        let things = watched.things();
        let first = things.insert_one(doc! { "_id": 1 });
        first
            .timeout(Duration::from_secs(100))
            .await
            .expect("a reply");
        watched.insert(2).await.expect("a reply");
        let limits = max_times(&watched.events, "insert");
        assert!(matches!(limits[..], [_, Some(1..=90)]), "{limits:?}");
        watched.end().await;
    });
}

/// "timeoutMS can be configured on a MongoClient" and "timeoutMS can be set to 0", for a read and
/// for `run_command`. Without a time limit, commands have no `maxTimeMS`.
#[test]
fn commands_have_max_time_ms_only_with_a_time_limit() {
    play([standalone()], |scene| async move {
        let ping = || doc! { "ping": 1 };
        for (options, expected) in [
            ("timeoutMS=1000", true),
            ("timeoutMS=0", false),
            ("", false),
        ] {
            let watched = scene.client(options);
            watched.find().await.expect("a reply");
            let app = watched.client.database("app");
            app.run_command(ping()).await.expect("a reply");
            for name in ["find", "ping"] {
                let limits = max_times(&watched.events, name);
                let is_sent = matches!(limits[..], [Some(1..=1000)]);
                let is_absent = matches!(limits[..], [None]);
                assert!(
                    if expected { is_sent } else { is_absent },
                    "{name} {limits:?}"
                );
            }
            // 25 days in milliseconds do not fit into an int32, so the driver does not send
            // `maxTimeMS`.
            let long = app
                .run_command(ping())
                .timeout(Duration::from_hours(24 * 25));
            long.await.expect("a reply");
            assert_eq!(max_times(&watched.events, "ping").pop(), Some(None));
            drop(app);
            watched.end().await;
        }
    });
}

/// If the time of `maxTimeMS` is over at the server, the operation fails with a timeout error that
/// has the server's code 50. The connection stays open.
#[test]
fn a_max_time_ms_expired_error_is_a_timeout_and_closes_no_connection() {
    play(any_topology(), |scene| async move {
        delay_hello(&scene, "expired", 50).await;
        let watched = scene.client("appname=expired&maxPoolSize=1&heartbeatFrequencyMS=500");
        watched.insert(1).await.expect("a reply");
        scene.pause(1_000).await;
        let data = doc! {
            "failCommands": ["find"], "appName": "expired", "blockConnection": true,
            "blockTimeMS": 5_000,
        };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let things = watched.things();
        let find = things.find_one(doc! { "_id": 1 });
        let error = find
            .timeout(Duration::from_millis(500))
            .await
            .expect_err("too slow");
        assert!(error.is_timeout() && !error.is_network(), "{error:?}");
        assert_eq!(error.code(), Some(50));
        assert_eq!(watched.find().await, Ok(Some(doc! { "_id": 1 })));
        watched.assert_count(0, "connection closed", connection_closed);
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// "remaining timeoutMS applied to getMore": a `getMore` does not send the time limit of its
/// cursor, because the `maxTimeMS` of a `getMore` is the time to wait for new documents.
#[test]
fn a_get_more_does_not_send_max_time_ms() {
    play([standalone()], |scene| async move {
        let watched = scene.client("timeoutMS=1000");
        let documents = (0..5).map(|id| doc! { "_id": id });
        watched
            .things()
            .insert_many(documents)
            .await
            .expect("a reply");
        let mut cursor = watched
            .things()
            .find(doc! {})
            .batch_size(2)
            .await
            .expect("a reply");
        let mut count = 0;
        while let Some(document) = cursor.next().await {
            document.expect("a document");
            count += 1;
        }
        assert_eq!(count, 5);
        assert!(matches!(
            max_times(&watched.events, "find")[..],
            [Some(1..=1000)]
        ));
        assert_eq!(max_times(&watched.events, "getMore"), [None, None]);
        drop(cursor);
        watched.end().await;
    });
}

/// The time limit of a cursor begins anew for its close, which can also have one of its own (Client
/// Side Operations Timeout, *Cursors*).
#[test]
fn a_close_has_the_time_limit_of_its_cursor_or_its_own() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        watched.insert_many([1, 2]).await.expect("a reply");
        for (of_cursor, of_close, expected) in [
            (None, None, 2_000),
            (Some(700), None, 700),
            (Some(700), Some(300), 300),
        ] {
            let things = watched.things();
            let mut find = things.find(doc! {}).batch_size(1);
            if let Some(limit) = of_cursor {
                find = find.timeout(Duration::from_millis(limit));
            }
            let mut cursor = find.await.expect("a cursor");
            cursor.next().await.expect("one").expect("a document");
            scene.pause(600).await;
            let data = doc! {
                "failCommands": ["killCursors"], "blockConnection": true, "blockTimeMS": 5_000,
            };
            scene.fail(0, doc! { "times": 1 }, data).await;
            let mut close = cursor.close();
            if let Some(limit) = of_close {
                close = close.timeout(Duration::from_millis(limit));
            }
            let began = scene.now();
            close.await;
            let waited = (scene.now() - began).as_millis();
            assert!((expected - 50..expected + 50).contains(&waited), "{waited}");
            scene.pause(6_000).await;
        }
        watched.end().await;
    });
}
