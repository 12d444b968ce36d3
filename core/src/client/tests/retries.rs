//! Tests of retries: how often an operation is tried, what is never sent twice, and which error is
//! raised.

use super::*;
use crate::{
    error::{ErrorKind, IoError, Wait},
    event::PoolEvent,
};
use std::{error::Error as _, time::Duration};

pub(super) const URI: &str = "mongodb://a/?replicaSet=rs";
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// More attempts than an operation without a time limit has.
const ATTEMPTS: usize = 6;

pub(super) fn timed(mut command: Command, limit: Duration) -> Command {
    command.set_timeout(Some(limit));
    command
}

fn standalone() -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "isWritablePrimary": true, "maxWireVersion": 21,
        "logicalSessionTimeoutMinutes": 30,
    }
}

/// Returns an error reply after which reads and writes with a transaction number are retried. The
/// reply does not change the server description.
pub(super) fn unreachable() -> RawDocumentBuf {
    rawdoc! {
        "ok": 0, "code": 6, "errmsg": "the host is unreachable",
        "errorLabels": ["RetryableWriteError"],
    }
}

/// Replies with the error of [`unreachable`] until the operation ends, at most `most` times.
/// Returns the error of the operation and the number of attempts.
fn fail_all(world: &mut World, command: Command, most: usize) -> (Option<Error>, usize) {
    let mut exchange = world.begin_exchange(command);
    for attempt in 1..=most {
        World::answer(&mut exchange, &unreachable());
        match world.check_in(exchange, Outcome::Completed) {
            AfterExchange::Again(start) => exchange = world.exchange_of(start),
            AfterExchange::Done(result) => return (result.err(), attempt),
        }
    }
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    (None, most + 1)
}

#[test]
fn the_time_limit_decides_how_often_an_operation_is_retried() {
    // An operation without a time limit is retried once, and one with a limit until its time is
    // over (RR-18, RW-24).
    for command in [find, insert] {
        for (limit, expected) in [
            (None, 2),
            (Some(LIMIT), ATTEMPTS + 1),
            (Some(Duration::ZERO), ATTEMPTS + 1),
        ] {
            let mut world = World::new(URI, primary());
            let mut command = command();
            command.set_timeout(limit);
            let (error, attempts) = fail_all(&mut world, command, ATTEMPTS);
            assert_eq!(attempts, expected, "{limit:?}: {error:?}");
        }
        let text = "mongodb://a/?replicaSet=rs&timeoutMS=10000";
        let (_, attempts) = fail_all(&mut World::new(text, primary()), command(), ATTEMPTS);
        assert_eq!(attempts, ATTEMPTS + 1);
        // `retryReads=false` (RR-1, RR-11) and `retryWrites=false` (RW-1, RW-17) switch off
        // retries, also with a time limit.
        let text = "mongodb://a/?replicaSet=rs&retryReads=false&retryWrites=false";
        let mut world = World::new(text, primary());
        let (_, attempts) = fail_all(&mut world, timed(command(), LIMIT), ATTEMPTS);
        assert_eq!(attempts, 1);
    }
}

#[test]
fn each_attempt_of_a_write_has_a_new_request_id_and_the_same_transaction_number() {
    // A retry is a new message with another request id and the current cluster time (RW-28, RW-30,
    // RR-17). The retry has the same session and transaction number (RW-18, RW-19, RW-22, RR-25).
    let mut world = World::new(URI, primary());
    let mut exchange = world.begin_exchange(timed(insert(), LIMIT));
    let first = World::request(&exchange);
    assert_eq!(first.get_i64("txnNumber").ok(), Some(1));
    let (operation, request) = (
        exchange.operation(),
        exchange.operation.exchange.context.request_id,
    );
    for attempt in 1..4 {
        let time = bson::Timestamp {
            time: attempt,
            increment: 1,
        };
        let mut reply = unreachable();
        reply.append(bson::cstr!("$clusterTime"), rawdoc! { "clusterTime": time });
        World::answer(&mut exchange, &reply);
        let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
            panic!("it is tried again");
        };
        exchange = world.exchange_of(start);
        let again = World::request(&exchange);
        assert_eq!(again.get("txnNumber"), first.get("txnNumber"));
        assert_eq!(again.get("lsid"), first.get("lsid"));
        let reported = again.get_document("$clusterTime").expect("it is gossiped");
        assert_eq!(reported.get_timestamp("clusterTime").ok(), Some(time));
        assert_eq!(exchange.operation(), operation);
        assert_ne!(exchange.operation.exchange.context.request_id, request);
    }
}

#[test]
fn a_retryable_error_after_the_time_limit_becomes_the_cause_of_a_timeout() {
    // If the time limit passes before a retry can begin (RR-18, RW-24), the error is a timeout with
    // the error of the attempt as its cause.
    for command in [find, insert] {
        let mut world = World::new(URI, primary());
        let mut exchange = world.begin_exchange(timed(command(), LIMIT));
        World::answer(&mut exchange, &unreachable());
        world.now = world.now + LIMIT;
        let AfterExchange::Done(Err(error)) = world.check_in(exchange, Outcome::Completed) else {
            panic!("no time is left");
        };
        assert!(error.is_timeout(), "{error:?}");
        let cause = error.source().expect("what had failed").to_string();
        assert!(cause.contains("the host is unreachable"), "{cause}");
        assert!(error.to_string().contains(&cause), "{error}");
        // An error names the server on which it arose (RR-20, RW-27).
        assert_eq!(error.server().map(Address::host), Some("a"));
    }
}

#[test]
fn a_non_retryable_error_after_the_time_limit_is_returned_unchanged() {
    let mut world = World::new(URI, primary());
    let mut exchange = world.begin_exchange(timed(insert(), LIMIT));
    World::answer(
        &mut exchange,
        &rawdoc! { "ok": 0, "code": 8000, "errmsg": "no" },
    );
    world.now = world.now + LIMIT;
    let after = world.check_in(exchange, Outcome::Completed);
    let AfterExchange::Done(Err(error)) = after else {
        panic!("{after:?}");
    };
    assert_eq!(error.code(), Some(8000));
}

#[test]
fn a_retry_that_finds_no_server_reports_the_earlier_error() {
    // If no server suits the retry, the operation raises the error of the previous attempt (RR-15,
    // RW-25). If the time limit has passed, this error is the cause of a timeout.
    let stepped_down = rawdoc! {
        "ok": 0, "code": 10107, "errmsg": "not primary", "errorLabels": ["RetryableWriteError"],
    };
    let uri = "mongodb://a/?replicaSet=rs&serverSelectionTimeoutMS=30000";
    for limit in [None, Some(LIMIT)] {
        let mut world = World::new(uri, primary());
        let mut command = insert();
        command.set_timeout(limit);
        let mut exchange = world.begin_exchange(command);
        world.hello = rawdoc! {
            "ok": 1, "secondary": true, "setName": "rs", "hosts": ["a:27017"],
            "maxWireVersion": 21, "logicalSessionTimeoutMinutes": 30,
        };
        World::answer(&mut exchange, &stepped_down);
        let AfterExchange::Again(Progress::Waiting(id)) =
            world.check_in(exchange, Outcome::Completed)
        else {
            panic!("it waits for another primary");
        };
        world.wait(limit.unwrap_or(Duration::from_secs(30)));
        let Progress::Failed(error) = world.client.resume(world.now, id) else {
            panic!("its time is over");
        };
        let Some(_) = limit else {
            assert_eq!(error.code(), Some(10107));
            continue;
        };
        let kind = error.kind();
        let wait = Wait::Selection;
        assert!(
            matches!(kind, ErrorKind::Timeout { wait: w, .. } if *w == wait),
            "{kind}"
        );
        let cause = error.source().expect("what had failed").to_string();
        assert!(cause.contains("not primary"), "{cause}");
    }
}

#[test]
fn a_timeout_of_a_retry_has_the_earlier_error_as_its_cause() {
    // The time limit passes (RR-18). The timeout has the earlier error, which proves an attempt, as
    // its cause (RR-19, RW-26).
    let mut world = World::new(URI, primary());
    let mut exchange = world.begin_exchange(timed(find(), LIMIT));
    World::answer(&mut exchange, &unreachable());
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("it is tried again");
    };
    let mut exchange = world.exchange_of(start);
    exchange.sent(exchange.output().len());
    world.wait(LIMIT);
    let (_, error) = world.interrupted.pop().expect("its time is over");
    let AfterExchange::Done(Err(error)) = world.check_in(exchange, Outcome::Failed(error)) else {
        panic!("no time is left");
    };
    assert!(error.is_timeout(), "{error:?}");
    let cause = error.source().expect("what had failed").to_string();
    assert!(cause.contains("the host is unreachable"), "{cause}");
}

#[test]
fn a_check_out_from_a_paused_pool_is_retried_once_without_a_pause() {
    // Without a time limit the second pool cleared error ends the operation (RR-21). Such an error
    // proves no attempt (RW-26). With a time limit the third attempt comes after a pause. No time
    // passes in this test.
    for limit in [None, Some(LIMIT)] {
        let mut world = World::with_subscriptions(URI, primary(), Subscriptions::all());
        let now = world.now;
        let error = Error::network(NetworkFault::Reset, "reset");
        for pool in world.client.snapshot().pools {
            world
                .client
                .pools
                .clear(now, pool.server, None, &error, false);
        }
        world.client.settle(now);
        while world.client.poll_event().is_some() {}
        let mut command = find();
        command.set_timeout(limit);
        match (limit, world.client.start(now, command)) {
            (None, Progress::Failed(error)) => assert!(error.is_pool_cleared(), "{error:?}"),
            (Some(_), Progress::Waiting(_)) => {}
            (_, other) => panic!("the pool is paused: {other:?}"),
        }
        let mut refused = 0;
        while let Some(event) = world.client.poll_event() {
            let kind = event.kind;
            refused += usize::from(matches!(
                kind,
                EventKind::Pool(PoolEvent::CheckOutFailed { .. })
            ));
        }
        assert_eq!(refused, 2);
    }
}

/// Returns a client whose server answers checks and refuses new connections. Also returns an
/// operation whose first connection was refused, and the number of sockets that were dialled before
/// the operation.
fn refused(limit: Option<Duration>) -> (World, OperationId, usize) {
    let mut world = World::new(URI, primary());
    let dialled = world.dialled.len();
    let mut command = find();
    command.set_timeout(limit);
    let Progress::Waiting(id) = world.client.start(world.now, command) else {
        panic!("there is no connection yet");
    };
    refuse_dials(&mut world);
    (world, id, dialled)
}

/// A server that answers checks and refuses connections.
struct Refusing<'a>(&'a mut World);

impl Peer for Refusing<'_> {
    fn parts(&mut self) -> Parts<'_> {
        self.0.parts()
    }

    fn dialled(&mut self, socket: SocketId, address: Address) {
        self.0.dialled.push((socket, address));
        self.0.fail(socket);
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let hello = self.0.hello.clone();
        self.respond(socket, &bytes, &hello);
    }
}

fn refuse_dials(world: &mut World) {
    harness::drain(&mut Refusing(world));
}

#[test]
fn a_server_that_refuses_connections_is_dialled_three_times_with_pauses() {
    // Refused connections get the labels of overload (BP-15), so the server stays selectable
    // (CMAP-148). `MAX_RETRIES` limits the number of dials, with a time limit and without (BP-8).
    for limit in [None, Some(LIMIT)] {
        let (mut world, id, dialled) = refused(limit);
        for (attempts, longest) in [(1, 200), (2, 400)] {
            assert_eq!(world.dialled.len() - dialled, attempts);
            let resumed = world.client.resume(world.now, id);
            assert!(matches!(resumed, Progress::Waiting(_)), "{resumed:?}");
            world.now = world.now + Duration::from_millis(longest);
            world.time_out();
            refuse_dials(&mut world);
        }
        let Progress::Failed(error) = world.client.resume(world.now, id) else {
            panic!("it was tried three times");
        };
        let kind = error.kind();
        let fault = NetworkFault::Refused;
        assert!(
            matches!(kind, ErrorKind::Io(IoError { fault: f, .. }) if *f == fault),
            "{error:?}"
        );
        assert_eq!(world.dialled.len() - dialled, 3);
        assert_eq!(world.client.counts().waiting, 0);
    }
}

#[test]
fn an_operation_succeeds_when_its_server_accepts_connections_again() {
    let (mut world, id, _) = refused(Some(LIMIT));
    world.wait(Duration::from_millis(500));
    world.exchange_of(Progress::Waiting(id));
}

#[test]
fn an_operation_in_a_pause_can_be_cancelled_and_fails_when_the_client_closes() {
    let (mut world, id, dialled) = refused(Some(LIMIT));
    world.client.cancel(world.now, id);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.client.counts().waiting, 0);
    assert_eq!(world.dialled.len() - dialled, 1);
    let (mut world, id, _) = refused(Some(LIMIT));
    world.client.close(world.now);
    let resumed = world.client.resume(world.now, id);
    assert!(matches!(resumed, Progress::Failed(_)), "{resumed:?}");
}

#[test]
fn a_write_without_a_transaction_number_is_not_retried_despite_the_label() {
    // A write without a transaction number is not retried (RW-3), even if the server sets the label
    // `RetryableWriteError` (RW-13). The servers are a standalone and a primary without sessions.
    for (text, hello) in [
        ("mongodb://a/", standalone()),
        (
            "mongodb://a/?replicaSet=rs",
            rawdoc! {
                "ok": 1, "isWritablePrimary": true, "setName": "rs", "hosts": ["a:27017"],
                "maxWireVersion": 21,
            },
        ),
    ] {
        for limit in [None, Some(LIMIT)] {
            let mut world = World::new(text, hello.clone());
            let mut command = insert();
            command.set_timeout(limit);
            let mut exchange = world.begin_exchange(command);
            assert!(!World::request(&exchange).contains_key("txnNumber"));
            World::answer(&mut exchange, &unreachable());
            let after = world.check_in(exchange, Outcome::Completed);
            let AfterExchange::Done(Err(error)) = after else {
                panic!("it is sent again: {after:?}");
            };
            assert_eq!(error.code(), Some(6));
        }
    }
}

#[test]
fn an_unsent_write_is_retried_without_a_transaction_number() {
    // A network error while connecting gets the label `RetryableWriteError` (RW-14). Nothing was
    // sent, so the retry needs no transaction number.
    let mut world = World::new("mongodb://a/", standalone());
    let Progress::Waiting(id) = world.client.start(world.now, insert()) else {
        panic!("there is no connection yet");
    };
    let Some(Action::Dial { socket, .. }) = harness::next(&mut world) else {
        panic!("it is dialled");
    };
    world.fail(socket);
    let exchange = world.exchange_of(Progress::Waiting(id));
    assert!(!World::request(&exchange).contains_key("txnNumber"));
}

#[test]
fn a_write_with_a_transaction_number_is_not_retried_on_a_standalone() {
    // The server of the retry is a standalone, which does not support retryable writes. So the
    // error of the previous attempt is raised (RW-25).
    let mut world = World::new("mongodb://a/?directConnection=true", mongos());
    let exchange = world.begin_exchange(insert());
    assert!(World::request(&exchange).contains_key("txnNumber"));
    world.hello = standalone();
    let AfterExchange::Again(Progress::Waiting(id)) = world.check_in(exchange, reset()) else {
        panic!("it is tried again");
    };
    world.wait(Duration::from_millis(500));
    let Progress::Failed(error) = world.client.resume(world.now, id) else {
        panic!("the write is sent to a server that would apply it twice");
    };
    let kind = error.kind();
    let is_original =
        |fault| matches!(kind, ErrorKind::Io(IoError { fault: f, .. }) if *f == fault);
    assert!(is_original(NetworkFault::Reset), "{error:?}");
    assert_eq!(world.client.counts().in_use, 0);
    // The connection stays open, and the next write uses it.
    let dialled = world.dialled.len();
    let exchange = world.begin_exchange(insert());
    assert!(!World::request(&exchange).contains_key("txnNumber"));
    assert_eq!(world.dialled.len(), dialled);
}

#[test]
fn an_unsupported_retryable_write_fails_with_the_specified_message() {
    // If a command has a transaction number and fails with code 20, a message that begins with
    // "Transaction numbers" is replaced (RW-4).
    let text = "Transaction numbers are only allowed on a replica set member or mongos";
    let specified = "This MongoDB deployment does not support retryable writes. Please add \
                     retryWrites=false to your connection string.";
    for (command, code, expected) in [
        (insert(), 20, specified),
        (insert(), 21, text),
        (ping(), 20, text),
    ] {
        let mut world = World::new(URI, primary());
        let reply = rawdoc! { "ok": 0, "code": code, "errmsg": text };
        let AfterExchange::Done(Err(error)) = world.perform(command, &reply) else {
            panic!("it is an error");
        };
        let ErrorKind::Command(fault) = error.kind() else {
            panic!("{error:?}");
        };
        assert_eq!((fault.message.as_str(), fault.code), (expected, code));
        assert_eq!(error.server().map(Address::host), Some("a"));
    }
}

#[test]
fn a_failed_mongos_is_deprioritized_only_once() {
    // The failed mongos is deprioritized for each retry (RR-13, RW-23). The address is in the list
    // only once (RR-14).
    let mut world = World::new("mongodb://a/", mongos());
    let mut exchange = world.begin_exchange(timed(find(), LIMIT));
    for _ in 0..ATTEMPTS {
        World::answer(&mut exchange, &unreachable());
        let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
            panic!("it is tried again");
        };
        exchange = world.exchange_of(start);
        assert_eq!(exchange.operation.retry.deprioritized.len(), 1);
    }
}

#[test]
fn write_errors_of_single_statements_are_returned_and_not_retried() {
    // Errors of single statements are not retried (RW-5), even with a code that makes a whole
    // command retryable.
    let mut world = World::new("mongodb://a/", mongos());
    let reply = rawdoc! {
        "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 91, "errmsg": "a shard ends" }],
    };
    let after = world.perform(insert(), &reply);
    assert!(
        matches!(after, AfterExchange::Done(Err(ref e)) if e.code() == Some(91)),
        "{after:?}"
    );
}

#[test]
fn a_read_is_retried_by_error_code_and_not_by_label_or_message() {
    // After an error of the server, a read is retried only if the code of the error permits that
    // (RR-3, RR-12).
    let mut world = World::new(URI, primary());
    let reply = rawdoc! {
        "ok": 0, "code": 8000, "errmsg": "not primary", "errorLabels": ["RetryableWriteError"],
    };
    let after = world.perform(find(), &reply);
    assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
}

#[test]
fn an_operation_without_a_suitable_server_fails_with_a_server_selection_error() {
    // No attempt was made, so the operation raises the server selection error (RR-10, RW-21).
    for command in [find, insert] {
        let mut world = World::new("mongodb://a/?replicaSet=other", primary());
        let Progress::Waiting(id) = world.client.start(world.now, command()) else {
            panic!("no server suits");
        };
        world.wait(Duration::from_secs(30));
        let Progress::Failed(error) = world.client.resume(world.now, id) else {
            panic!("its time is over");
        };
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::ServerSelection { .. }), "{kind}");
    }
}
