//! The resume token of a change stream: prose tests of `change-streams/tests/README.md`.

use crate::{
    changes::{Changes, key, sent, token},
    scene::{Watched, play, replica_set},
};
use bson::{Document, doc};
use onionskin_core::event::{CommandEvent, EventKind};

/// Returns the field `postBatchResumeToken` of the last reply with a cursor.
fn post_batch_token(watched: &Watched) -> Document {
    let tokens = watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Succeeded { reply, .. }) => {
            let cursor = reply.get_document("cursor").ok()?;
            let token = cursor.get_document("postBatchResumeToken").ok()?;
            Document::try_from(token).ok()
        }
        _ => None,
    });
    tokens.last().expect("a token").clone()
}

fn document(token: &onionskin::change_stream::event::ResumeToken) -> Document {
    Document::try_from(token.as_document()).expect("BSON")
}

async fn changes(watched: &Watched) -> Changes {
    watched.things().watch().await.expect("a stream")
}

/// Change streams prose 7 and 11: an empty first batch leaves the cursor open, and the stream has
/// the token of an empty batch.
#[test]
fn an_empty_batch_moves_the_token() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let mut stream = changes(&watched).await;
        assert!(stream.is_alive());
        assert!(sent(&watched, "killCursors").is_empty());
        let first = token(&stream);
        assert_eq!(first, post_batch_token(&watched));
        scene.pause(21_000).await;
        let none = stream.next_if_any().await.expect("a reply");
        assert!(none.is_none(), "{none:?}");
        assert_ne!(token(&stream), first);
        assert_eq!(token(&stream), post_batch_token(&watched));
        drop(stream);
        watched.end().await;
    });
}

/// Change streams prose 11, 13 and 14: the token within a batch, at its end, and before the first
/// event.
#[test]
fn the_token_follows_the_events_that_were_returned() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let mut stream = changes(&watched).await;
        let start = stream.resume_token().expect("that of the empty batch");
        watched.insert_many([1, 2]).await.expect("a reply");
        // The token of the batch is later than the last event of the batch.
        let others = watched.client.database("app").collection("others");
        others.insert_one(doc! {}).await.expect("a reply");
        scene.pause(1_000).await;
        let event = stream.next().await.expect("one").expect("an event");
        assert_eq!(stream.resume_token(), Some(event.id));
        let last = stream.next().await.expect("one").expect("an event");
        // The batch was read to its end.
        assert_eq!(token(&stream), post_batch_token(&watched));
        assert_ne!(token(&stream), document(&last.id));
        assert_eq!(key(Some(Ok(last))), 2);
        for is_start in [false, true] {
            let watch = match is_start {
                false => watched.things().watch().resume_after(start.clone()),
                true => watched.things().watch().start_after(start.clone()),
            };
            let mut resumed = watch.await.expect("a stream");
            assert_eq!(
                resumed.resume_token().as_ref(),
                Some(&start),
                "no event was returned"
            );
            assert_eq!(key(resumed.next().await), 1);
        }
    });
}

/// Change streams prose 14, third case: a stream without the options `startAfter` and `resumeAfter`
/// has no token before an event of its first batch was returned.
#[test]
fn a_stream_without_a_starting_token_has_none_before_its_first_event() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let mut session = watched.client.start_session().await.expect("a session");
        let things = watched.things();
        let insert = things.insert_one(doc! { "_id": 1 });
        insert.session(&mut session).await.expect("it is new");
        let time = session.operation_time().expect("the reply has one");
        watched.insert(2).await.expect("it is new");
        scene.pause(1_000).await;
        let watch = things.watch().start_at_operation_time(time);
        let mut stream = watch.await.expect("a stream");
        assert_eq!(stream.resume_token(), None);
        let first = stream.next().await.expect("one").expect("an event");
        assert_eq!(stream.resume_token().as_ref(), Some(&first.id));
        assert_eq!(key(Some(Ok(first))), 1);
        assert_eq!(key(stream.next().await), 2);
        assert_eq!(token(&stream), post_batch_token(&watched));
        assert!(sent(&watched, "getMore").is_empty());
        session.end().await.expect("ended");
        drop(stream);
        watched.end().await;
    });
}
