//! Tests of change streams: which events they return, their tokens, and how they end.

use super::*;
use crate::{
    error::{CommandError, ErrorKind},
    operation::{
        Abandoned, ChangeStream, Program, Step,
        crud::{ChangeStreamOptions, Defaults, Watch},
    },
};
use bson::{Bson, doc};
use std::sync::Arc;

const URI: &str = "mongodb://a/?replicaSet=rs";

/// Returns an event with this number, which is also its token.
fn event(number: i32) -> Document {
    doc! { "_id": { "_data": number } }
}

fn fragment(number: i32, of: i32) -> Document {
    doc! { "_id": { "_data": number }, "splitEvent": { "fragment": number, "of": of } }
}

/// Returns a reply with these events, and with this token of the batch.
fn batch(name: &str, events: impl IntoIterator<Item = Document>, token: Bson) -> RawDocumentBuf {
    let events: Vec<_> = events.into_iter().collect();
    let mut cursor = doc! { "id": 7_i64, "ns": "db.c", name: events };
    if token != Bson::Null {
        cursor.insert("postBatchResumeToken", token);
    }
    RawDocumentBuf::try_from(&doc! { "ok": 1, "cursor": cursor }).expect("BSON")
}

/// Opens a stream, which joins fragments, with the events of the first batch.
fn open(world: &mut World, events: impl IntoIterator<Item = Document>) -> ChangeStream {
    open_with(world, events, None)
}

fn open_with(
    world: &mut World,
    events: impl IntoIterator<Item = Document>,
    timeout: Option<std::time::Duration>,
) -> ChangeStream {
    let options = ChangeStreamOptions {
        join_split_events: Some(true),
        timeout,
        ..ChangeStreamOptions::default()
    };
    let watch = Watch::deployment(Vec::new(), options, Arc::new(Defaults::default()));
    let command = watch.command().expect("the options are valid");
    let mut exchange = world.begin_exchange(command);
    World::answer(&mut exchange, &batch("firstBatch", events, Bson::Null));
    let stream = ChangeStream::from_exchange(&mut exchange, watch).expect("a stream");
    world.check_in(exchange, Outcome::Completed);
    stream
}

/// Runs the command of a stream, which succeeds with this reply.
fn reply(
    world: &mut World,
    stream: &mut ChangeStream,
    command: Command,
    reply: &RawDocument,
) -> Step<bool> {
    let mut exchange = world.begin_exchange(command);
    World::answer(&mut exchange, reply);
    let step = stream.handle_reply(&mut exchange);
    world.check_in(exchange, Outcome::Completed);
    step
}

/// Returns the command with this name that the stream runs next.
fn next(step: Step<bool>, name: &str) -> Command {
    match step {
        Step::Run(command) if command.name() == name => command,
        other => panic!("no {name}: {other:?}"),
    }
}

/// Returns the number in the token of the stream.
fn token(stream: &ChangeStream) -> Option<i32> {
    let token = stream.resume_token()?.as_document();
    Some(token.get_i32("_data").expect("a number"))
}

#[test]
fn a_malformed_event_ends_the_stream_and_closes_its_cursor() {
    // Events of the batch would be missing if the stream went on.
    for malformed in [
        vec![event(1), fragment(2, 2), event(3)],
        vec![event(1), fragment(1, 2), event(3)],
        vec![
            event(1),
            doc! { "_id": { "_data": 2 }, "splitEvent": 1 },
            event(3),
        ],
        vec![event(1), doc! { "no": "token" }, event(3)],
    ] {
        let mut world = World::new(URI, primary());
        let mut stream = open(&mut world, malformed);
        assert!(matches!(stream.advance(), Some(Ok(()))));
        assert!(matches!(stream.advance(), Some(Err(_))));
        assert!(!stream.is_alive() && !stream.has_next());
        assert!(stream.advance().is_none());
        assert!(matches!(stream.start(), Step::Done(Ok(false))));
        assert_eq!(token(&stream), Some(1));
        let Abandoned::Run(kill) = stream.abandon() else {
            panic!("the server has a cursor");
        };
        assert_eq!(kill.name(), "killCursors");
    }
}

#[test]
fn the_token_of_a_batch_does_not_count_for_the_next_batch() {
    // The token of a batch counts after its last event only if this batch has one (Change Streams,
    // *Updating the Cached Resume Token*). Otherwise a resumed stream would repeat events.
    let mut world = World::new(URI, primary());
    let mut stream = open(&mut world, []);
    let more = next(stream.start(), "getMore");
    let first = batch("nextBatch", [event(1)], doc! { "_data": 2 }.into());
    assert!(matches!(
        reply(&mut world, &mut stream, more, &first),
        Step::Done(Ok(true))
    ));
    assert!(matches!(stream.advance(), Some(Ok(()))));
    assert_eq!(token(&stream), Some(2));
    let more = next(stream.start(), "getMore");
    let second = batch("nextBatch", [event(3), event(4)], Bson::Null);
    assert!(matches!(
        reply(&mut world, &mut stream, more, &second),
        Step::Done(Ok(true))
    ));
    for number in [3, 4] {
        assert!(matches!(stream.advance(), Some(Ok(()))));
        assert_eq!(token(&stream), Some(number));
    }
    // An empty batch without a token leaves that of the last event.
    let more = next(stream.start(), "getMore");
    let empty = batch("nextBatch", [], Bson::Null);
    next(reply(&mut world, &mut stream, more, &empty), "getMore");
    assert_eq!(token(&stream), Some(4));
}

#[test]
fn a_batch_token_of_a_wrong_type_ends_the_stream() {
    let mut world = World::new(URI, primary());
    let mut stream = open(&mut world, []);
    let more = next(stream.start(), "getMore");
    let wrong = batch("nextBatch", [event(1)], 5.into());
    let step = reply(&mut world, &mut stream, more, &wrong);
    assert!(matches!(step, Step::Done(Err(_))), "{step:?}");
    assert!(!stream.is_alive());
}

/// Returns documents within documents, with this many levels.
fn nested(depth: usize) -> RawDocumentBuf {
    const LEVEL: usize = 7;
    let mut bytes = Vec::new();
    for inner in (0..depth).rev() {
        let length = i32::try_from(5 + LEVEL * (inner + 1)).expect("a length");
        bytes.extend(length.to_le_bytes());
        bytes.extend([0x03, 0]);
    }
    bytes.extend([5, 0, 0, 0]);
    bytes.extend(std::iter::repeat_n(0, depth + 1));
    RawDocumentBuf::from_bytes(bytes).expect("a frame")
}

#[test]
fn a_resume_token_that_is_nested_deep_ends_the_stream_and_not_the_process() {
    let mut world = World::new(URI, primary());
    let mut stream = open(&mut world, []);
    let more = next(stream.start(), "getMore");
    let deep = rawdoc! {
        "ok": 1,
        "cursor": {
            "id": 7_i64, "ns": "db.c", "nextBatch": [], "postBatchResumeToken": nested(100_000),
        },
    };
    let more = next(reply(&mut world, &mut stream, more, &deep), "getMore");
    let lost = rawdoc! { "ok": 0, "code": 43 };
    let AfterExchange::Done(Err(error)) = world.perform(more, &lost) else {
        panic!("the cursor is lost");
    };
    let step = stream.handle_error(error);
    let Step::Done(Err(error)) = &step else {
        panic!("{step:?}");
    };
    assert!(error.to_string().contains("resume token"), "{error}");
    let token = stream.resume_token().expect("there is one").clone();
    assert_eq!(Bson::from(token), Bson::Null);
}

#[test]
fn a_stream_resumes_if_its_server_shuts_down_during_the_handshake() {
    // The server labels the errors of a `getMore`, but not those of a handshake before it.
    let reply = rawdoc! { "ok": 0, "code": 91 };
    let shuts_down = Error::new(ErrorKind::Command(CommandError::from_reply(&reply)));
    for is_begun in [false, true] {
        let mut world = World::new(URI, primary());
        let mut stream = open(&mut world, []);
        let more = next(stream.start(), "getMore");
        if is_begun {
            let mut exchange = world.begin_exchange(more);
            stream.handle_begun(&mut exchange);
            world.check_in(exchange, Outcome::Abandoned);
        }
        let step = stream.handle_error(shuts_down.clone());
        match is_begun {
            false => drop(next(step, "killCursors")),
            true => assert!(matches!(step, Step::Done(Err(_))), "{step:?}"),
        }
    }
}

#[test]
fn a_stream_pauses_before_it_resumes_again_without_a_batch() {
    let mut world = World::new(URI, primary());
    let mut stream = open(&mut world, []);
    let mut more = next(stream.start(), "getMore");
    let lost = rawdoc! { "ok": 0, "code": 43 };
    // A `getMore` succeeds before the fourth failure, after which nothing was in vain.
    for (round, pauses) in [false, true, true, false, true].into_iter().enumerate() {
        if round == 3 {
            let empty = batch("nextBatch", [], Bson::Null);
            more = next(reply(&mut world, &mut stream, more, &empty), "getMore");
        }
        let AfterExchange::Done(Err(error)) = world.perform(more, &lost) else {
            panic!("the cursor is lost");
        };
        let aggregate = next(stream.handle_error(error), "aggregate");
        let began = world.now;
        let first = batch("firstBatch", [], Bson::Null);
        more = next(reply(&mut world, &mut stream, aggregate, &first), "getMore");
        assert_eq!(world.now > began, pauses, "{round}");
    }
}

#[test]
fn a_time_limit_that_ends_in_the_pause_leaves_the_stream_alive() {
    let limit = std::time::Duration::from_millis(2);
    let mut world = World::new(URI, primary());
    let mut stream = open_with(&mut world, [], Some(limit));
    let mut more = next(stream.start(), "getMore");
    let lost = rawdoc! { "ok": 0, "code": 43 };
    let first = batch("firstBatch", [], Bson::Null);
    for _ in 0..20 {
        let AfterExchange::Done(Err(error)) = world.perform(more, &lost) else {
            panic!("the cursor is lost");
        };
        let aggregate = next(stream.handle_error(error), "aggregate");
        let mut progress = world.client.start(world.now, aggregate);
        if let Progress::Waiting(id) = progress {
            world.wait(limit);
            progress = world.client.resume(world.now, id);
        }
        if let Progress::Failed(error) = progress {
            assert!(
                error.is_timeout() && !error.is_server_selection(),
                "{error}"
            );
            assert!(matches!(stream.handle_error(error), Step::Done(Err(_))));
            assert!(stream.is_alive());
            next(stream.start(), "aggregate");
            return;
        }
        // The pause is random, and can be shorter than the limit.
        let mut exchange = world.exchange_of(progress);
        World::answer(&mut exchange, &first);
        more = next(stream.handle_reply(&mut exchange), "getMore");
        world.check_in(exchange, Outcome::Completed);
    }
    panic!("no limit ended in a pause");
}
