//! The events of operations. Each operation has one started and one ended event, and the events of
//! its commands are in between.

use crate::{
    event_log::{EventLog, command_name},
    scene::{play, replica_set},
};
use bson::doc;
use onionskin_core::{
    error::ErrorKind,
    event::{EventKind, OperationEvent},
};
use onionskin_deployment::deployment::DeploymentOptions;
use std::time::Duration;

fn small_batches(mut options: DeploymentOptions) -> DeploymentOptions {
    options.limits.max_write_batch = 2;
    options
}

/// Returns the events of operations and of their commands as text, in their order.
fn spans(events: &EventLog) -> Vec<String> {
    events.notes(|event| match &event.kind {
        EventKind::Operation(OperationEvent::Started { facts, .. }) => {
            Some(format!("{} on {} begins", facts.name, facts.database))
        }
        EventKind::Operation(OperationEvent::Ended { facts, failure, .. }) => {
            let how = match failure.as_ref().map(onionskin::Error::kind) {
                None => "ends".to_owned(),
                Some(ErrorKind::Abandoned) => "is left".to_owned(),
                Some(_) => "fails".to_owned(),
            };
            Some(format!("{} {how}", facts.name))
        }
        _ => command_name(event),
    })
}

#[test]
fn an_operation_with_several_commands_emits_one_started_and_one_ended_event() {
    play([small_batches(replica_set())], |scene| async move {
        let watched = scene.client("");
        let documents = (0..5).map(|id| doc! { "_id": id });
        watched.things().insert_many(documents).await.expect("room");
        let expected = [
            "insert on app begins",
            "insert started",
            "insert succeeded",
            "insert started",
            "insert succeeded",
            "insert started",
            "insert succeeded",
            "insert ends",
        ];
        assert_eq!(spans(&watched.events), expected);
        let ids = watched.events.notes(|event| match &event.kind {
            EventKind::Operation(
                OperationEvent::Started { facts, .. } | OperationEvent::Ended { facts, .. },
            ) => Some(facts.operation_id),
            _ => None,
        });
        assert_eq!(ids[0], ids[1]);
        watched.end().await;
    });
}

#[test]
fn a_failed_or_dropped_operation_emits_an_ended_event() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        // The failed attempt and its retry belong to the same operation.
        let data = doc! { "failCommands": ["find"], "errorCode": 91 };
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        watched.find().await.expect("the retry succeeds");
        let data = doc! { "failCommands": ["find"], "errorCode": 8 };
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        watched.find().await.expect_err("an error that is final");
        let data = doc! { "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 5_000 };
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        let left = scene.drop_after(Duration::from_millis(100), watched.find());
        assert!(left.await.is_none(), "it is slow");
        let expected = [
            "find on app begins",
            "find started",
            "find failed",
            "find started",
            "find succeeded",
            "find ends",
            "find on app begins",
            "find started",
            "find failed",
            "find fails",
            "find on app begins",
            "find started",
            "find failed",
            "find is left",
        ];
        assert_eq!(spans(&watched.events), expected);
        watched.end().await;
    });
}
