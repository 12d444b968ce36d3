//! Cursors that pin connections: the official test files `load-balancers/tests/cursors` and
//! `wait-queue-timeouts`.

use super::service;
use crate::{
    event_log::{command_name, pool_cleared, pool_name},
    scene::{Scene, Watched, balanced, balanced_alone, play},
};
use bson::{Document, doc};
use onionskin::Cursor;
use onionskin_core::event::{CommandEvent, Event, EventKind};
use onionskin_worlds::world::SimRuntime;
use std::collections::BTreeSet;

/// Returns the short names of those pool events that the official test file `cursors` checks, in
/// their order.
fn connection_events(watched: &Watched) -> Vec<&'static str> {
    let reported = watched.events.notes(pool_name);
    let wanted = |name: &&str| {
        matches!(
            *name,
            "connection ready" | "checked out" | "checked in" | "connection closed"
        )
    };
    reported.into_iter().filter(wanted).collect()
}

/// Opens a cursor over all documents, with two in the first batch. Reads the first document.
pub(super) async fn open_cursor(watched: &Watched) -> Cursor<SimRuntime, Document> {
    let mut cursor = watched
        .things()
        .find(doc! {})
        .batch_size(2)
        .await
        .expect("a cursor");
    cursor.next().await.expect("a document").expect("readable");
    cursor
}

/// Inserts three documents.
pub(super) async fn three_documents(scene: &Scene) {
    let writer = scene.client("");
    let documents = [1, 2, 3].map(|id| doc! { "_id": id });
    writer
        .things()
        .insert_many(documents)
        .await
        .expect("written");
    writer.end().await;
}

/// Official test file `cursors`, "no connection is pinned if all documents are returned in the
/// initial batch". The reply to `find` has the cursor id zero.
#[test]
fn a_cursor_whose_first_batch_has_all_documents_pins_no_connection() {
    play([balanced_alone()], |scene| async move {
        three_documents(&scene).await;
        let watched = scene.client("");
        let cursor = watched.things().find(doc! {}).await.expect("a cursor");
        assert_eq!(
            connection_events(&watched),
            ["connection ready", "checked out", "checked in"]
        );
        assert_eq!(cursor.into_vec().await.expect("documents").len(), 3);
        assert_eq!(connection_events(&watched).len(), 3);
        watched.end().await;
    });
}

/// Official test file `cursors`, "pinned connections are returned when the cursor is drained". A
/// cursor whose first reply has a cursor id other than zero (LB-32) pins its connection (LB-30).
/// The pin counts as one check out (LB-31). All `getMore` commands of the cursor use this
/// connection (LB-33), until a reply has the cursor id zero (LB-34).
#[test]
fn a_cursor_pins_its_connection_until_its_last_batch() {
    play([balanced()], |scene| async move {
        three_documents(&scene).await;
        let watched = scene.client("");
        let mut cursor = open_cursor(&watched).await;
        assert_eq!(
            connection_events(&watched),
            ["connection ready", "checked out"]
        );
        // Meanwhile other operations use the other service, which does not have the cursor.
        for _ in 0..3 {
            watched.find().await.expect("a reply");
        }
        let mut rest = 0;
        while let Some(document) = cursor.next().await {
            document.expect("a document");
            rest += 1;
        }
        assert_eq!(rest, 2);
        let reported = connection_events(&watched);
        assert_eq!(reported.last(), Some(&"checked in"));
        let count = |name| reported.iter().filter(|other| **other == name).count();
        assert_eq!((count("checked out"), count("checked in")), (4, 4));
        let services: Vec<_> = watched.events.notes(service);
        let commands = watched.events.notes(command_name);
        assert_eq!(
            commands.last().map(String::as_str),
            Some("getMore succeeded")
        );
        assert_eq!(services.first(), services.last(), "the cursor's service");
        let different: BTreeSet<_> = services.iter().flatten().collect();
        assert_eq!(different.len(), 2, "two connections, two services");
        watched.end().await;
    });
}

/// Official test file `cursors`, "pinned connections are returned to the pool when the cursor is
/// closed", and the same for a cursor that is dropped.
#[test]
fn a_closed_or_dropped_cursor_sends_kill_cursors_on_its_pinned_connection() {
    play([balanced()], |scene| async move {
        three_documents(&scene).await;
        for is_dropped in [false, true] {
            let watched = scene.client("");
            let cursor = open_cursor(&watched).await;
            let other = open_cursor(&watched).await;
            match is_dropped {
                true => drop(cursor),
                false => cursor.close().await,
            }
            let killed = |event: &Event| {
                command_name(event).is_some_and(|name| name == "killCursors succeeded")
            };
            watched.wait_for(1, "killed", killed).await;
            let replies: Vec<Document> = watched.events.notes(|event| match &event.kind {
                EventKind::Command(CommandEvent::Succeeded { facts, reply, .. })
                    if &*facts.name == "killCursors" =>
                {
                    Document::try_from(&**reply).ok()
                }
                _ => None,
            });
            let ended = replies[0].get_array("cursorsKilled").map(Vec::len);
            assert_eq!(
                ended.ok(),
                Some(1),
                "it was found where it was: {replies:?}"
            );
            other.close().await;
            let reported = connection_events(&watched);
            let count = |name| reported.iter().filter(|other| **other == name).count();
            assert_eq!(
                (count("checked out"), count("checked in")),
                (2, 2),
                "{reported:?}"
            );
            watched.end().await;
        }
    });
}

/// Official test file `cursors`, "pinned connections are not returned after an network error during
/// getMore". The close of the cursor sends no `killCursors` and checks the connection in (LB-36).
#[test]
fn after_a_network_error_a_connection_stays_pinned_until_its_cursor_is_closed() {
    play([balanced_alone()], |scene| async move {
        three_documents(&scene).await;
        let watched = scene.client("");
        let mut cursor = open_cursor(&watched).await;
        let data = doc! { "failCommands": ["getMore"], "closeConnection": true };
        scene.fail(0, doc! { "times": 1 }, data).await;
        cursor.next().await.expect("the second").expect("readable");
        let error = cursor
            .next()
            .await
            .expect("an answer")
            .expect_err("no reply");
        assert!(error.is_network(), "{error:?}");
        assert_eq!(
            connection_events(&watched),
            ["connection ready", "checked out"]
        );
        watched.assert_count(1, "pool cleared", pool_cleared);
        cursor.close().await;
        let expected = [
            "connection ready",
            "checked out",
            "checked in",
            "connection closed",
        ];
        assert_eq!(connection_events(&watched), expected);
        let commands = watched.events.notes(command_name);
        let expected = [
            "find started",
            "find succeeded",
            "getMore started",
            "getMore failed",
        ];
        assert_eq!(commands, expected, "no killCursors");
        watched.end().await;
    });
}

/// Official test file `cursors`, "pinned connections are returned after a network error during a
/// killCursors request". The pool closes the connection.
#[test]
fn a_pinned_connection_is_checked_in_after_a_network_error_in_kill_cursors() {
    play([balanced_alone()], |scene| async move {
        three_documents(&scene).await;
        let watched = scene.client("");
        let cursor = open_cursor(&watched).await;
        let data = doc! { "failCommands": ["killCursors"], "closeConnection": true };
        scene.fail(0, doc! { "times": 1 }, data).await;
        cursor.close().await;
        let expected = [
            "connection ready",
            "checked out",
            "checked in",
            "connection closed",
        ];
        assert_eq!(connection_events(&watched), expected);
        let last = watched.events.notes(command_name).pop();
        assert_eq!(last.as_deref(), Some("killCursors failed"));
        watched.end().await;
    });
}

/// Official test file `cursors`, "pinned connections are not returned to the pool after a
/// non-network error on getMore". The close of the cursor sends `killCursors` (LB-37).
#[test]
fn a_cursor_sends_kill_cursors_after_a_non_network_error_in_get_more() {
    play([balanced_alone()], |scene| async move {
        three_documents(&scene).await;
        let watched = scene.client("");
        let mut cursor = open_cursor(&watched).await;
        let data = doc! { "failCommands": ["getMore"], "errorCode": 7 };
        scene.fail(0, doc! { "times": 1 }, data).await;
        cursor.next().await.expect("the second").expect("readable");
        let error = cursor
            .next()
            .await
            .expect("an answer")
            .expect_err("an error");
        assert_eq!(error.code(), Some(7), "{error:?}");
        assert_eq!(
            connection_events(&watched),
            ["connection ready", "checked out"]
        );
        cursor.close().await;
        let expected = ["connection ready", "checked out", "checked in"];
        assert_eq!(connection_events(&watched), expected);
        let last = watched.events.notes(command_name).pop();
        assert_eq!(last.as_deref(), Some("killCursors succeeded"));
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// Official test file `wait-queue-timeouts`, "wait queue timeout errors include cursor statistics":
/// the error says what uses the connections (LB-46).
#[test]
fn a_wait_queue_timeout_error_includes_cursor_statistics() {
    play([balanced_alone()], |scene| async move {
        three_documents(&scene).await;
        let watched = scene.client("maxPoolSize=1&waitQueueTimeoutMS=50");
        let cursor = open_cursor(&watched).await;
        let error = watched.insert(4).await.expect_err("no connection");
        let expected = "Timeout waiting for connection from the connection pool. maxPoolSize: 1, \
                    connections in use by cursors: 1, connections in use by transactions: 0, \
                    connections in use by other operations: 0";
        assert!(error.to_string().contains(expected), "{error}");
        cursor.close().await;
        watched.insert(4).await.expect("a connection");
        watched.end().await;
    });
}
