//! Prose tests of causal consistency (`causal-consistency/causal-consistency.md`, *Test Plan*).
//! The tests of all calls are in `tests/tests/promises/calls/sessions.rs`, and others in
//! `tests/src/crud/sessions.rs`.

use crate::scene::{Watched, play, replica_set, sharded, standalone};
use bson::{Document, Timestamp, doc};
use onionskin_core::event::{CommandEvent, EventKind};

/// Returns the commands that were sent.
fn commands(watched: &Watched) -> Vec<Document> {
    watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { command, .. }) => {
            Document::try_from(&**command).ok()
        }
        _ => None,
    })
}

/// Returns the field `operationTime` of the last reply.
fn last_time(watched: &Watched) -> Option<Timestamp> {
    let replies = watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Succeeded { reply, .. }) => Some(reply.clone()),
        EventKind::Command(CommandEvent::Failed { failure, .. }) => {
            failure.server_response().cloned()
        }
        _ => None,
    });
    let last = replies.last().expect("a reply");
    last.get_timestamp("operationTime").ok()
}

/// Causal prose 3: the first read or write of a session sets its operation time to that of the
/// reply, also if the reply is an error.
#[test]
fn the_first_reply_sets_the_operation_time_of_a_session() {
    play([replica_set(), sharded()], |scene| async move {
        let watched = scene.client("");
        watched.insert(1).await.expect("it is new");
        let things = watched.things();
        for is_causal in [true, false] {
            for case in ["read", "write", "write error", "command error"] {
                let start = watched.client.start_session();
                let start = start.causal_consistency(is_causal);
                let mut session = start.await.expect("a session");
                assert_eq!(session.operation_time(), None);
                let has_failed = match case {
                    "read" => things
                        .find_one(doc! {})
                        .session(&mut session)
                        .await
                        .is_err(),
                    "write" => {
                        let insert = things.insert_one(doc! { "a": 1 });
                        insert.session(&mut session).await.is_err()
                    }
                    "write error" => {
                        let insert = things.insert_one(doc! { "_id": 1 });
                        insert.session(&mut session).await.is_err()
                    }
                    _ => {
                        let find = things.find_one(doc! { "$unknown": 1 });
                        find.session(&mut session).await.is_err()
                    }
                };
                assert_eq!(has_failed, case.ends_with("error"), "{case}");
                let time = last_time(&watched);
                assert!(time.is_some(), "{case}");
                assert_eq!(session.operation_time(), time, "{case}");
                session.end().await.expect("ended");
            }
        }
        watched.end().await;
    });
}

/// Causal prose 7 and 11: commands to a standalone, which has no cluster times, have neither
/// `afterClusterTime` nor `$clusterTime`.
#[test]
fn a_standalone_gets_no_cluster_times() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let things = watched.things();
        let mut session = watched.client.start_session().await.expect("a session");
        // A time of another deployment is not sent to a standalone either.
        let (time, increment) = (9, 1);
        session.advance_operation_time(Timestamp { time, increment });
        for _ in 0..2 {
            let find = things.find_one(doc! {}).session(&mut session);
            find.await.expect("a reply");
            things.find_one(doc! {}).await.expect("a reply");
        }
        let commands = commands(&watched);
        assert_eq!(commands.len(), 4);
        for command in commands {
            assert!(!command.contains_key("readConcern"), "{command}");
            assert!(!command.contains_key("$clusterTime"), "{command}");
        }
        session.end().await.expect("ended");
        watched.end().await;
    });
}
