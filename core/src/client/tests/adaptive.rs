//! Tests of retries after overload: what an operation holds during the backoff, and on which server
//! it continues.

use super::{retries::timed, *};
use crate::{
    event::PoolEvent,
    options::{ReadMode, ReadPreference},
};
use std::{error::Error as _, time::Duration};

const URI: &str = "mongodb://a/?replicaSet=rs&maxPoolSize=1";

/// The longest backoff before the second retry.
const BACKOFF: Duration = Duration::from_millis(400);

/// Returns the reply of a server that is overloaded.
pub(super) fn overloaded() -> RawDocumentBuf {
    rawdoc! {
        "ok": 0, "code": 462, "codeName": "IngressRequestRateLimitExceeded",
        "errorLabels": ["SystemOverloadedError", "RetryableError"],
    }
}

/// Replies with overload, so that the operation backs off. Returns the id of the operation.
fn overload(world: &mut World, mut exchange: Exchange) -> OperationId {
    World::answer(&mut exchange, &overloaded());
    match world.check_in(exchange, Outcome::Completed) {
        AfterExchange::Again(Progress::Waiting(id)) => id,
        other => panic!("it backs off: {other:?}"),
    }
}

/// Waits until the backoff is over, and returns the exchange of the retry.
fn again(world: &mut World, id: OperationId) -> Exchange {
    world.wait(BACKOFF);
    assert!(world.woken.contains(&id), "it is woken");
    world.exchange_of(Progress::Waiting(id))
}

#[test]
fn after_overload_every_kind_of_command_is_retried_at_most_twice() {
    // Every command is retried after overload (BP-2), twice by default (BP-4), as in the official
    // test `backpressure-retry-max-attempts`.
    let update_many = || {
        let mut command = Command::new("update", "db", CommandKind::Write);
        command.body().str("update", "c");
        command
    };
    let unacknowledged = || {
        let mut command = insert();
        command.set_unacknowledged();
        command
    };
    for command in [find, insert, ping, update_many] {
        for limit in [None, Some(Duration::from_secs(10))] {
            let mut world = World::new(URI, primary());
            let mut command = command();
            command.set_timeout(limit);
            let mut exchange = world.begin_exchange(command);
            let first = World::request(&exchange);
            for _ in 0..2 {
                let id = overload(&mut world, exchange);
                exchange = again(&mut world, id);
                let next = World::request(&exchange);
                for key in ["lsid", "txnNumber"] {
                    // A retry keeps the session (RR-25) and the transaction number (BP-10).
                    assert_eq!(next.get(key), first.get(key), "{key}");
                }
            }
            World::answer(&mut exchange, &overloaded());
            let after = world.check_in(exchange, Outcome::Completed);
            let AfterExchange::Done(Err(error)) = after else {
                panic!("it was tried three times: {after:?}");
            };
            assert_eq!(error.code(), Some(462));
        }
    }
    // An unacknowledged write has no reply, so it meets overload only while its connection is
    // established.
    let mut world = World::new(URI, primary());
    let Progress::Waiting(id) = world.client.start(world.now, unacknowledged()) else {
        panic!("there is no connection yet");
    };
    let Some(Action::Dial { socket, .. }) = harness::next(&mut world) else {
        panic!("it is dialled");
    };
    world.fail(socket);
    world.exchange_of(Progress::Waiting(id));
}

#[test]
fn max_adaptive_retries_sets_the_number_of_retries() {
    // `maxAdaptiveRetries` sets the number of retries (BP-4), as in the prose test BP-P4.
    for (retries, expected) in [(0, 1), (1, 2), (4, 5)] {
        let uri = format!("{URI}&maxAdaptiveRetries={retries}");
        let mut world = World::new(&uri, primary());
        let mut exchange = world.begin_exchange(find());
        let mut attempts = 1;
        loop {
            World::answer(&mut exchange, &overloaded());
            match world.check_in(exchange, Outcome::Completed) {
                AfterExchange::Again(Progress::Waiting(id)) => {
                    attempts += 1;
                    // The backoff of the fourth retry is 1.6 s at most.
                    world.wait(Duration::from_millis(1_600));
                    exchange = world.exchange_of(Progress::Waiting(id));
                }
                AfterExchange::Done(Err(_)) => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(attempts, expected);
    }
}

#[test]
fn the_connection_is_checked_in_during_the_backoff() {
    // Each attempt checks a connection out, and in again before the backoff (BP-13), as in the
    // official test `backpressure-connection-checkin`.
    let mut world = World::with_subscriptions(URI, primary(), Subscriptions::all());
    let mut exchange = world.begin_exchange(find());
    while world.client.poll_event().is_some() {}
    for _ in 0..2 {
        let id = overload(&mut world, exchange);
        assert_eq!(world.client.counts().in_use, 0);
        // The only connection is free, so another operation can use it.
        let after = world.perform(ping(), &rawdoc! { "ok": 1 });
        assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
        exchange = again(&mut world, id);
    }
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    let (mut out, mut back) = (0, 0);
    while let Some(event) = world.client.poll_event() {
        match event.kind {
            EventKind::Pool(PoolEvent::CheckedOut { .. }) => out += 1,
            EventKind::Pool(PoolEvent::CheckedIn { .. }) => back += 1,
            EventKind::Pool(PoolEvent::Cleared { .. }) => panic!("overload clears no pool"),
            _ => {}
        }
    }
    // The check outs are those of two retries and two pings. The check out of the first attempt
    // came before its events were counted.
    assert_eq!((out, back), (4, 5));
}

#[test]
fn overload_clears_no_pool_and_changes_no_server_description() {
    // Overload clears no pool (CMAP-44) and changes no server description (SDAM-104).
    let mut world = World::with_subscriptions(URI, primary(), Subscriptions::all());
    let exchange = world.begin_exchange(find());
    let known = world.client.topology().clone();
    overload(&mut world, exchange);
    assert!(Arc::ptr_eq(world.client.topology(), &known));
    while let Some(event) = world.client.poll_event() {
        let is_clear = matches!(event.kind, EventKind::Pool(PoolEvent::Cleared { .. }));
        assert!(!is_clear, "{event:?}");
    }
}

#[test]
fn an_operation_fails_at_once_if_its_backoff_would_pass_its_deadline() {
    // An operation fails at once if the backoff would pass its deadline (BP-12). With this seed the
    // first backoff takes longer than a millisecond.
    let mut world = World::new(URI, primary());
    let mut exchange = world.begin_exchange(timed(find(), Duration::from_millis(1)));
    World::answer(&mut exchange, &overloaded());
    let after = world.check_in(exchange, Outcome::Completed);
    let AfterExchange::Done(Err(error)) = after else {
        panic!("its time ends before the backoff does: {after:?}");
    };
    assert_eq!(error.code(), Some(462), "its time is not over yet");
    assert_eq!(
        world.client.counts(),
        Counts {
            in_use: 0,
            waiting: 0,
            ..world.client.counts()
        }
    );
}

#[test]
fn an_operation_in_backoff_can_be_cancelled_and_fails_when_the_client_closes() {
    for closes in [false, true] {
        let mut world = World::new(URI, primary());
        let exchange = world.begin_exchange(find());
        let sessions = world.client.snapshot().idle_sessions;
        let id = overload(&mut world, exchange);
        if closes {
            world.client.close(world.now);
            world.run();
            let resumed = world.client.resume(world.now, id);
            assert!(matches!(resumed, Progress::Failed(_)), "{resumed:?}");
        } else {
            world.client.cancel(world.now, id);
            assert_eq!(
                world.client.snapshot().idle_sessions,
                sessions + 1,
                "it comes back"
            );
        }
        assert_eq!(world.client.counts().waiting, 0);
        world.wait(BACKOFF);
    }
}

#[test]
fn a_timeout_after_a_backoff_has_the_earlier_error_as_its_cause() {
    // The connection was granted after the backoff, but the operation was not resumed in time. A
    // read is retried until its time is over (RR-18). The timeout then has the error of the
    // previous attempt as its cause, instead of replacing that error (RR-15).
    let limit = Duration::from_millis(600);
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(timed(find(), limit));
    let id = overload(&mut world, exchange);
    world.wait(BACKOFF);
    assert!(world.woken.contains(&id), "its connection is granted");
    world.wait(limit);
    let Progress::Failed(error) = world.client.resume(world.now, id) else {
        panic!("its time is over");
    };
    assert!(error.is_timeout(), "{error:?}");
    let cause = error.source().expect("what it had met").to_string();
    assert!(cause.contains("462"), "{cause}");
}

#[test]
fn a_retry_avoids_the_overloaded_server_only_with_enable_overload_retargeting() {
    // On a replica set, a retry avoids the overloaded server only with `enableOverloadRetargeting`
    // (RR-14, BP-9). These are the prose tests RR-P3.1 to RR-P3.3.
    let hosts = bson::RawArrayBuf::from_iter(["a:27017", "b:27017"]);
    let secondary = rawdoc! {
        "ok": 1, "secondary": true, "setName": "rs", "hosts": hosts.clone(),
        "maxWireVersion": 21, "logicalSessionTimeoutMinutes": 30,
    };
    let writable = rawdoc! {
        "ok": 1, "isWritablePrimary": true, "setName": "rs", "hosts": hosts,
        "maxWireVersion": 21, "logicalSessionTimeoutMinutes": 30,
    };
    for (option, reply, moves) in [
        ("true", overloaded(), true),
        (
            "true",
            rawdoc! { "ok": 0, "code": 6, "errorLabels": ["RetryableError"] },
            false,
        ),
        ("false", overloaded(), false),
    ] {
        let uri = format!("mongodb://a,b/?replicaSet=rs&enableOverloadRetargeting={option}");
        let mut world = World::new(&uri, secondary.clone());
        world
            .hellos
            .insert(Address::tcp("a", 27017), writable.clone());
        world.wait(Duration::from_secs(10));
        let preference = Arc::new(ReadPreference::new(ReadMode::PrimaryPreferred));
        let mut command = find();
        command.set_read_preference(preference);
        let mut exchange = world.begin_exchange(command);
        assert_eq!(exchange.facts().address.host(), "a");
        World::answer(&mut exchange, &reply);
        let exchange = match world.check_in(exchange, Outcome::Completed) {
            AfterExchange::Again(start @ Progress::Exchange(_)) => world.exchange_of(start),
            AfterExchange::Again(Progress::Waiting(id)) => again(&mut world, id),
            other => panic!("it is tried again: {other:?}"),
        };
        let expected = if moves { "b" } else { "a" };
        assert_eq!(
            exchange.facts().address.host(),
            expected,
            "{option} {reply:?}"
        );
    }
}
