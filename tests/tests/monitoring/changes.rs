//! Change streams, and their prose tests (`change-streams/tests/README.md`).

use crate::scene::{
    Scene, Watched, balanced_alone, play, play_with_one_seed, replica_set, sharded_alone,
};
use bson::{Document, doc};
use onionskin::{
    ChangeStream, Error,
    change_stream::event::{ChangeStreamEvent, OperationType},
    options::{
        ChangeStreamPreAndPostImages, FullDocumentBeforeChangeType, FullDocumentType, ReadMode,
        ReadPreference,
    },
};
use onionskin_core::{
    error::ErrorKind,
    event::{CommandEvent, EventKind},
};
use onionskin_worlds::world::{SimRuntime, plan::Disaster};
use std::time::Duration;

pub(crate) type Changes = ChangeStream<SimRuntime, ChangeStreamEvent<Document>>;

/// Returns the commands of a name that were sent, in order.
pub(crate) fn sent(watched: &Watched, name: &str) -> Vec<Document> {
    watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command }) if &*facts.name == name => {
            Document::try_from(command.clone()).ok()
        }
        _ => None,
    })
}

/// Returns the stages `$changeStream` that were sent, in order.
fn stages(watched: &Watched) -> Vec<Document> {
    let commands = sent(watched, "aggregate").into_iter();
    let stage = |command: Document| {
        let stages = command.get_array("pipeline").expect("a pipeline");
        let first = stages.first().and_then(bson::Bson::as_document);
        let stage = first.and_then(|first| first.get_document("$changeStream").ok());
        stage.expect("the stage").clone()
    };
    commands.map(stage).collect()
}

pub(crate) fn key(event: Option<Result<ChangeStreamEvent<Document>, Error>>) -> i32 {
    let event = event.expect("the stream continues").expect("an event");
    let key = event.document_key.expect("a key");
    key.get_i32("_id").expect("a number")
}

/// Makes the next `getMore` fail with this code, and with the label if `resumes` is true.
async fn fail_get_more(scene: &Scene, code: i32, resumes: bool) {
    let labels = match resumes {
        true => vec!["ResumableChangeStreamError"],
        false => vec![],
    };
    let data = doc! { "failCommands": ["getMore"], "errorCode": code, "errorLabels": labels };
    scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
}

pub(crate) fn token(stream: &Changes) -> Document {
    let token = stream.resume_token().expect("a token");
    Document::try_from(token.as_document()).expect("BSON")
}

/// Change streams prose 1 and 3: a stream tracks the last token, and resumes once after an error
/// with the same pipeline and options and with the token.
#[test]
fn a_stream_resumes_with_its_token_and_its_options() {
    play(
        [replica_set(), sharded_alone(), balanced_alone()],
        |scene| async move {
            let watched = scene.client("");
            let watch = watched.things().watch().pipeline([doc! { "$match": {} }]);
            let mut stream = watch.full_document(FullDocumentType::UpdateLookup).await;
            let stream = stream.as_mut().expect("a stream");
            let mut tokens = Vec::new();
            for id in 0..3 {
                watched.insert(id).await.expect("a reply");
                fail_get_more(&scene, 6, true).await;
                tokens.push(token(stream));
                assert_eq!(key(stream.next().await), id);
            }
            let stages = stages(&watched);
            assert_eq!(stages.len(), 4);
            assert!(!stages[0].contains_key("resumeAfter"), "{stages:?}");
            for (stage, token) in stages[1..].iter().zip(&tokens) {
                assert_eq!(stage.get_str("fullDocument").ok(), Some("updateLookup"));
                assert_eq!(stage.get_document("resumeAfter").ok(), Some(token));
            }
            tokens.dedup();
            assert_eq!(tokens.len(), 3, "each event has moved the token");
            // The session of the stream stays the same.
            let sessions = sent(&watched, "aggregate").into_iter();
            let sessions = sessions.map(|command| command.get_document("lsid").cloned().ok());
            let sessions: Vec<_> = sessions.collect();
            assert!(
                sessions.windows(2).all(|two| two[0] == two[1]),
                "{sessions:?}"
            );
            assert_eq!(sent(&watched, "killCursors").len(), 3);
        },
    );
}

/// Change streams prose 2: an event without a token is an error.
#[test]
fn an_event_without_a_token_is_an_error() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let stages = [doc! { "$project": { "_id": 0 } }];
        let mut stream = watched
            .things()
            .watch()
            .pipeline(stages)
            .await
            .expect("a stream");
        watched.insert(1).await.expect("a reply");
        let error = stream
            .next()
            .await
            .expect("an error")
            .expect_err("no token");
        assert_eq!(error.code(), Some(280), "{error}");
        assert!(!stream.is_alive());
        assert!(stream.next().await.is_none(), "the stream has ended");
        drop(stream);
        watched.end().await;
    });
}

/// Change streams prose 4: the error of an `aggregate` is not followed by another `aggregate`.
#[test]
fn the_error_of_an_aggregate_ends_the_stream() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("retryReads=false");
        let data = doc! {
            "failCommands": ["aggregate"], "errorCode": 6,
            "errorLabels": ["ResumableChangeStreamError"],
        };
        scene
            .fail(scene.primary(), doc! { "times": 1 }, data.clone())
            .await;
        let error = watched.things().watch().await.expect_err("it fails");
        assert_eq!(error.code(), Some(6), "{error}");
        assert_eq!(sent(&watched, "aggregate").len(), 1);
        let mut stream = watched.things().watch().await.expect("a stream");
        scene
            .tell(
                scene.primary(),
                doc! {
                    "configureFailPoint": "failGetMoreAfterCursorCheckout", "mode": { "times": 1 },
                    "data": { "errorCode": 6 },
                },
            )
            .await;
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        let error = stream
            .next()
            .await
            .expect("an error")
            .expect_err("it cannot resume");
        assert_eq!(error.code(), Some(6), "{error}");
        assert_eq!(sent(&watched, "aggregate").len(), 3);
        assert!(!stream.is_alive());
        drop(stream);
        watched.end().await;
    });
}

/// Change streams prose 6: a stream selects a server with the original read preference when it
/// resumes.
#[test]
fn a_stream_resumes_with_its_read_preference() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let secondary = ReadPreference::new(ReadMode::Secondary);
        let watch = watched.things().watch().read_preference(secondary);
        let mut stream = watch.await.expect("a stream");
        watched.insert(1).await.expect("a reply");
        assert_eq!(key(stream.next().await), 1);
        let servers = watched.events.notes(|event| match &event.kind {
            EventKind::Command(CommandEvent::Started { facts, .. })
                if &*facts.name == "getMore" =>
            {
                Some(facts.address.clone())
            }
            _ => None,
        });
        let mut members = scene.options.addresses.iter();
        let used = members.position(|address| Some(address) == servers.last());
        scene.strike(Disaster::Kill(used.expect("a member")));
        watched.insert(2).await.expect("a reply");
        assert_eq!(key(stream.next().await), 2);
        let aggregates = sent(&watched, "aggregate");
        assert!(aggregates.len() >= 2);
        for aggregate in aggregates {
            let preference = aggregate.get_document("$readPreference").expect("one");
            assert_eq!(preference.get_str("mode").ok(), Some("secondary"));
        }
    });
}

/// Change streams prose 8: the stream resumes although `killCursors` fails.
#[test]
fn a_failing_kill_cursors_does_not_disturb() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let mut stream = watched.things().watch().await.expect("a stream");
        watched.insert(1).await.expect("a reply");
        let point = doc! {
            "configureFailPoint": "failGetMoreAfterCursorCheckout", "mode": { "times": 1 },
            "data": { "errorCode": 6 },
        };
        scene.tell(scene.primary(), point).await;
        let data = doc! { "failCommands": ["killCursors"], "closeConnection": true };
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        assert_eq!(key(stream.next().await), 1);
        assert_eq!(sent(&watched, "killCursors").len(), 1);
        assert_eq!(sent(&watched, "aggregate").len(), 2);
    });
}

/// Change streams prose 17 and 18: a stream resumes with `startAfter` until it has returned an
/// event, and then with `resumeAfter`.
#[test]
fn a_stream_starts_after_its_token_until_the_first_event() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let mut stream = watched.things().watch().await.expect("a stream");
        watched.insert(1).await.expect("a reply");
        assert_eq!(key(stream.next().await), 1);
        let after = stream.resume_token().expect("a token");
        let mut stream = watched
            .things()
            .watch()
            .start_after(after)
            .await
            .expect("one");
        fail_get_more(&scene, 6, true).await;
        let none = stream.next_if_any().await.expect("it resumes");
        assert!(none.is_none(), "{none:?}");
        watched.insert(2).await.expect("a reply");
        assert_eq!(key(stream.next().await), 2);
        fail_get_more(&scene, 6, true).await;
        stream.next_if_any().await.expect("it resumes");
        let stages = stages(&watched);
        let [.., started, resumed] = &stages[..] else {
            panic!("two streams have resumed: {stages:?}");
        };
        let has = |stage: &Document| {
            (
                stage.contains_key("startAfter"),
                stage.contains_key("resumeAfter"),
            )
        };
        assert_eq!((has(started), has(resumed)), ((true, false), (false, true)));
    });
}

/// Change streams prose 19: events that are too large arrive in fragments, and the driver joins
/// them if the application asks for it.
#[test]
fn large_events_are_split_and_joined() {
    play_with_one_seed([replica_set()], |scene| async move {
        let watched = scene.client("");
        let database = watched.client.database("app");
        let keeps = ChangeStreamPreAndPostImages::builder()
            .enabled(true)
            .build();
        let create = database.create_collection("things");
        let create = create.change_stream_pre_and_post_images(keeps);
        create.await.expect("a reply");
        let things = watched.things();
        let large = |letter: &str| letter.repeat(10 * 1024 * 1024);
        things
            .insert_one(doc! { "value": large("q") })
            .await
            .expect("a reply");
        let watch = || {
            let watch = things.watch();
            watch.full_document_before_change(FullDocumentBeforeChangeType::Required)
        };
        let split = watch().pipeline([doc! { "$changeStreamSplitLargeEvent": {} }]);
        let mut split = split.await.expect("a stream").with_type::<Document>();
        let mut joined = watch().join_split_events(true).await.expect("a stream");
        let change = doc! { "$set": { "value": large("z") } };
        things.update_one(doc! {}, change).await.expect("a reply");
        for fragment in 1..=2 {
            let part = split.next().await.expect("one").expect("a part");
            let expected = doc! { "fragment": fragment, "of": 2 };
            assert_eq!(part.get_document("splitEvent").ok(), Some(&expected));
        }
        let event = joined.next().await.expect("one").expect("an event");
        assert_eq!(event.operation_type, OperationType::Update);
        let before = event.full_document_before_change.expect("it is kept");
        assert_eq!(
            before.get_str("value").ok().map(str::len),
            Some(10 * 1024 * 1024)
        );
        assert!(event.update_description.is_some());
        assert!(event.other.is_empty(), "all fields have a place");
    });
}

/// A stream has each event once and in order, although the primary changes again and again.
#[test]
fn failovers_lose_and_repeat_no_event() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("w=majority");
        let mut stream = watched.things().watch().await.expect("a stream");
        for round in 0..3 {
            for id in 0..4 {
                watched.insert(4 * round + id).await.expect("a reply");
            }
            assert_eq!(key(stream.next().await), 4 * round);
            let primary = scene.primary();
            scene.strike(Disaster::Kill(primary));
            scene.pause(30_000).await;
            scene.strike(Disaster::Restart(primary));
            for id in 1..4 {
                assert_eq!(key(stream.next().await), 4 * round + id);
            }
        }
    });
}

/// A dropped `next` loses no event: the next call continues what it has begun.
#[test]
fn a_dropped_next_loses_no_event() {
    play([replica_set(), balanced_alone()], |scene| async move {
        let watched = scene.client("");
        let mut stream = watched.things().watch().await.expect("a stream");
        for id in 0..20 {
            let wait = Duration::from_millis(u64::try_from(id).unwrap_or(0) * 37 % 400);
            let dropped = scene.drop_after(wait, stream.next()).await;
            assert!(dropped.is_none(), "there is no event yet");
            watched.insert(id).await.expect("a reply");
            let mut found = None;
            while found.is_none() {
                found = scene
                    .drop_after(Duration::from_micros(300), stream.next())
                    .await;
            }
            assert_eq!(key(found.flatten()), id);
        }
    });
}

/// A time limit that passes leaves the stream alive: the next call resumes it
/// (`change-streams.json` of `client-side-operations-timeout`).
#[test]
fn a_stream_resumes_after_its_time_limit() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let watch = watched.things().watch().timeout(Duration::from_millis(200));
        let mut stream = watch.await.expect("a stream");
        let error = stream
            .next()
            .await
            .expect("an error")
            .expect_err("no event comes");
        assert!(error.is_timeout(), "{error}");
        assert!(stream.is_alive());
        watched.insert(1).await.expect("a reply");
        assert_eq!(key(stream.next().await), 1);
        assert_eq!(sent(&watched, "aggregate").len(), 2);
        drop(stream);
        watched.end().await;
    });
}

/// A stream in a session of the application works only with that session, and resumes in it.
#[test]
fn a_stream_of_a_session_resumes_in_it() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let mut session = watched.client.start_session().await.expect("a session");
        let mut other = watched.client.start_session().await.expect("a session");
        let watch = watched.things().watch().session(&mut session);
        let mut stream = watch.await.expect("a stream");
        watched.insert(1).await.expect("a reply");
        let refused = stream.next(&mut other).await.expect_err("another session");
        assert!(
            matches!(refused.kind(), ErrorKind::InvalidArgument { .. }),
            "{refused}"
        );
        fail_get_more(&scene, 6, true).await;
        let event = stream.next(&mut session).await.expect("a reply");
        assert_eq!(
            event.map(|event| event.operation_type),
            Some(OperationType::Insert)
        );
        let own = session.id().clone();
        for aggregate in sent(&watched, "aggregate") {
            assert_eq!(aggregate.get_document("lsid").ok(), Some(&own));
        }
        drop(stream);
        drop((session, other));
        watched.end().await;
    });
}

/// A stream ends with the event that invalidates it, and another one starts after this event.
#[test]
fn a_stream_ends_after_its_invalidation() {
    play(
        [replica_set(), sharded_alone(), balanced_alone()],
        |scene| async move {
            let watched = scene.client("");
            watched.insert(0).await.expect("a reply");
            let mut stream = watched.things().watch().await.expect("a stream");
            watched.things().drop().await.expect("a reply");
            watched.insert(1).await.expect("a reply");
            let mut kinds = Vec::new();
            let mut last = None;
            while let Some(event) = stream.next().await {
                let event = event.expect("an event");
                kinds.push(event.operation_type);
                last = Some(event.id);
            }
            assert_eq!(kinds, [OperationType::Drop, OperationType::Invalidate]);
            assert!(!stream.is_alive());
            let watch = watched.things().watch().start_after(last.expect("a token"));
            let mut stream = watch.await.expect("a stream");
            assert_eq!(key(stream.next().await), 1);
            drop(stream);
            watched.end().await;
        },
    );
}
