//! Tests of cursors without a load balancer: their time limits, their retries, and their end.

use super::{adaptive::overloaded, *};
use crate::{
    error::{ErrorKind, Wait},
    operation::{ABANDON_LIMIT, Abandoned, CLOSE_LIMIT, Cursor, Program, Step},
};
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs";

const LIMIT: Duration = Duration::from_secs(1);

fn empty(batch: &str) -> RawDocumentBuf {
    let body = bson::doc! { "ok": 1, "cursor": { "id": 7_i64, "ns": "db.c", batch: [] } };
    RawDocumentBuf::try_from(&body).expect("BSON")
}

/// Runs a find with this time limit. Its cursor stays open.
fn open(world: &mut World, timeout: Option<Duration>) -> Cursor {
    let mut find = find();
    find.set_timeout(timeout);
    let mut exchange = world.begin_exchange(find);
    World::answer(&mut exchange, &empty("firstBatch"));
    let cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    world.check_in(exchange, Outcome::Completed);
    cursor
}

/// Runs a command of a cursor and replies with an empty batch. Returns the deadline of the exchange
/// and the next command.
fn fetch(world: &mut World, cursor: &mut Cursor, next: Command) -> (Option<Instant>, Command) {
    let mut exchange = world.begin_exchange(next);
    let deadline = exchange.operation.deadline;
    World::answer(&mut exchange, &empty("nextBatch"));
    let Step::Run(next) = cursor.handle_reply(&mut exchange) else {
        panic!("an empty batch is followed by another one");
    };
    world.check_in(exchange, Outcome::Completed);
    (deadline, next)
}

fn first(cursor: &mut Cursor) -> Command {
    match cursor.start() {
        Step::Run(command) => command,
        _ => panic!("it is open"),
    }
}

#[test]
fn one_time_limit_bounds_all_batches_of_a_cursor() {
    // The default `timeoutMode` is `CURSOR_LIFETIME` (RUN-25): one limit covers the whole cursor
    // (RUN-39). The limit is that of the command or `timeoutMS` of the client.
    let of_the_client = format!("{URI}&timeoutMS=1000");
    for (uri, timeout) in [(URI, Some(LIMIT)), (&of_the_client, None)] {
        let mut world = World::new(uri, primary());
        let end = Some(world.now + LIMIT);
        let mut cursor = open(&mut world, timeout);
        let mut command = first(&mut cursor);
        for _ in 0..3 {
            world.now = world.now + LIMIT / 4;
            let (deadline, next) = fetch(&mut world, &mut cursor, command);
            assert_eq!(deadline, end);
            command = next;
        }
        world.now = world.now + LIMIT / 4;
        let (in_use, sessions) = (
            world.client.counts().in_use,
            world.client.snapshot().idle_sessions,
        );
        let Progress::Failed(error) = world.client.start(world.now, command) else {
            panic!("a batch is fetched after the time limit");
        };
        let kind = error.kind();
        let is_timeout = matches!(
            kind,
            ErrorKind::Timeout {
                wait: Wait::CheckOut,
                ..
            }
        );
        assert!(is_timeout, "{error:?}");
        assert_eq!(world.client.counts().in_use, in_use);
        assert_eq!(
            world.client.snapshot().idle_sessions,
            sessions,
            "the cursor keeps it"
        );
        cursor.handle_failure(&error);
        assert!(cursor.more().is_none());
        // The time limit begins anew for `killCursors` (Client Side Operations Timeout, *Cursors*).
        assert_eq!(closing(&mut world, &mut cursor), Some(world.now + LIMIT));
    }
}

/// Closes a cursor. Returns the deadline of its `killCursors`.
fn closing(world: &mut World, cursor: &mut Cursor) -> Option<Instant> {
    let kill = cursor.end().expect("the server still has it");
    let mut exchange = world.begin_exchange(kill);
    let deadline = exchange.operation.deadline;
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    deadline
}

#[test]
fn the_batches_of_a_cursor_without_a_time_limit_have_no_deadline() {
    // A time limit of zero means no limit. Such a limit also switches off `timeoutMS` and
    // `socketTimeoutMS` of the client.
    let of_the_client = format!("{URI}&timeoutMS=1000&socketTimeoutMS=100");
    for (uri, timeout) in [(URI, None), (&of_the_client, Some(Duration::ZERO))] {
        let mut world = World::new(uri, primary());
        let mut cursor = open(&mut world, timeout);
        let mut command = first(&mut cursor);
        for _ in 0..5 {
            world.wait(LIMIT);
            let (deadline, next) = fetch(&mut world, &mut cursor, command);
            assert_eq!(deadline, None);
            command = next;
        }
        drop(command);
        let limit = Some(world.now + CLOSE_LIMIT);
        assert_eq!(closing(&mut world, &mut cursor), limit);
    }
}

#[test]
fn get_more_and_kill_cursors_are_retried_after_overload_on_the_same_server() {
    // Commands of cursors are retried after overload (BP-2), on the same server (BP trap 4), as in
    // the official test `getMore-retried`, "getMores are retried maxAttempts=2 times".
    let mut world = World::new(URI, primary());
    let mut cursor = open(&mut world, None);
    let more = first(&mut cursor);
    let Abandoned::Run(kill) = cursor.abandon() else {
        panic!("the server has a cursor");
    };
    for command in [more, kill] {
        let mut exchange = world.begin_exchange(command);
        let first = World::request(&exchange);
        for _ in 0..2 {
            World::answer(&mut exchange, &overloaded());
            let AfterExchange::Again(Progress::Waiting(id)) =
                world.check_in(exchange, Outcome::Completed)
            else {
                panic!("it backs off");
            };
            exchange = world.exchange_of(Progress::Waiting(id));
            let next = World::request(&exchange);
            assert_eq!(next.get("lsid"), first.get("lsid"));
            assert_eq!(next.keys().next(), first.keys().next());
        }
        World::answer(&mut exchange, &overloaded());
        let after = world.check_in(exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
    }
}

#[test]
fn a_cursor_continues_after_a_retried_get_more() {
    // The `getMore` is retried, as in the official test `getMore-retried`, "getMores are retried".
    let mut world = World::new(URI, primary());
    let mut cursor = open(&mut world, None);
    let mut exchange = world.begin_exchange(first(&mut cursor));
    World::answer(&mut exchange, &overloaded());
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("it is tried again");
    };
    let mut exchange = world.exchange_of(start);
    World::answer(&mut exchange, &empty("nextBatch"));
    let step = cursor.handle_reply(&mut exchange);
    world.check_in(exchange, Outcome::Completed);
    let Step::Run(next) = step else {
        panic!("the batch was empty: {step:?}");
    };
    assert_eq!(next.name(), "getMore");
}

#[test]
fn a_dropped_cursor_sends_kill_cursors_with_a_time_limit_of_its_own() {
    // A dropped cursor still sends `killCursors` (RUN-38). Even if a late reply has to be drained
    // first, `CLOSE_LIMIT` remains for `killCursors`.
    assert!(ABANDON_LIMIT >= DRAIN_LIMIT + CLOSE_LIMIT);
    let mut world = World::new(URI, primary());
    let mut cursor = open(&mut world, None);
    let Abandoned::Run(kill) = cursor.abandon() else {
        panic!("the server has a cursor");
    };
    let limit = Some(world.now + ABANDON_LIMIT);
    let mut exchange = world.begin_exchange(kill);
    assert_eq!(exchange.operation.deadline, limit);
    assert_eq!(
        World::request(&exchange).get_str("killCursors").ok(),
        Some("c")
    );
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(world.client.snapshot().idle_sessions, 1);
    assert!(matches!(cursor.abandon(), Abandoned::Nothing));
}

#[test]
fn an_exhausted_cursor_returns_its_session_and_sends_no_kill_cursors() {
    // The cursor is exhausted when its id is zero, not earlier (MSG-22). Its session then returns
    // to the pool (RUN-29).
    let mut world = World::new(URI, primary());
    let mut cursor = open(&mut world, None);
    let mut exchange = world.begin_exchange(first(&mut cursor));
    let last = rawdoc! { "ok": 1, "cursor": { "id": 0_i64, "ns": "db.c", "nextBatch": [] } };
    World::answer(&mut exchange, &last);
    let step = cursor.handle_reply(&mut exchange);
    assert!(matches!(step, Step::Done(Ok(false))), "{step:?}");
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(world.client.snapshot().idle_sessions, 1);
    assert!(cursor.advance().is_none() && !cursor.is_open());
    assert!(matches!(cursor.start(), Step::Done(Ok(false))));
    assert!(matches!(cursor.abandon(), Abandoned::Nothing));
}
