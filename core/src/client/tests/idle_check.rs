//! Tests of connections that were closed, or received unexpected bytes, while they were idle.

use super::*;
use crate::{event::PoolEvent, operation::OperationId, options::Monitoring};
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs&retryReads=false&retryWrites=false";

/// Returns a world with one connection that was idle for this time.
fn idle_client(text: &str, pause: Duration) -> World {
    let mut world = World::with_subscriptions(text, primary(), Subscriptions::all());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world.wait(pause);
    while world.client.poll_event().is_some() {}
    world
}

/// Returns the exchange of an operation. The exchange has not begun.
fn given(start: Progress) -> Exchange {
    match start {
        Progress::Exchange(exchange) => exchange,
        other => panic!("there is a connection: {other:?}"),
    }
}

fn start(world: &mut World, command: Command) -> Exchange {
    given(world.client.start(world.now, command))
}

/// Gives `found` to the idle check of the exchange, and reports to the client that the connection
/// cannot be used.
fn refuse(world: &mut World, mut exchange: Exchange, found: &[u8]) -> Progress {
    let error = exchange
        .handle_idle_check(Some(found))
        .expect_err("it cannot be used");
    let start = world.client.refuse(world.now, exchange, error);
    world.run();
    start
}

fn waits(start: &Progress) -> OperationId {
    match start {
        Progress::Waiting(id) => *id,
        other => panic!("there is no other connection: {other:?}"),
    }
}

#[test]
fn only_a_connection_that_was_idle_for_long_is_checked() {
    let mut world = idle_client(URI, IDLE_CHECK_AFTER - Duration::from_nanos(1));
    let exchange = start(&mut world, ping());
    assert!(!exchange.wants_idle_check());
    world.check_in(exchange, Outcome::Abandoned);
    world.wait(IDLE_CHECK_AFTER);
    let mut exchange = start(&mut world, ping());
    assert!(exchange.wants_idle_check());
    exchange.begin(world.now).expect("it fits");
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert!(!start(&mut world, ping()).wants_idle_check(), "it was used");
}

#[test]
fn an_idle_connection_closed_by_the_server_causes_no_error_retry_or_clear() {
    for found in [&[][..], &[0; 20]] {
        let mut world = idle_client(URI, IDLE_CHECK_AFTER);
        let exchange = start(&mut world, insert());
        let socket = exchange.socket();
        let session = exchange.operation.request.lsid;
        let id = waits(&refuse(&mut world, exchange, found));
        assert!(world.closed.contains(&socket));
        let mut reported = Vec::new();
        while let Some(event) = world.client.poll_event() {
            match event.kind {
                EventKind::Pool(PoolEvent::ConnectionClosed { reason, error, .. }) => {
                    assert!(error.is_some_and(|e| e.server().is_some()));
                    reported.push(format!("{reason:?}"));
                }
                EventKind::Pool(PoolEvent::Cleared { .. }) => reported.push("cleared".into()),
                EventKind::Sdam(event) => panic!("nothing is known: {event:?}"),
                _ => {}
            }
        }
        assert_eq!(reported, ["Error"]);
        let mut exchange = world.exchange_of(Progress::Waiting(id));
        assert_ne!(exchange.socket(), socket);
        assert!(!exchange.wants_idle_check(), "it is new");
        assert_eq!(
            exchange.operation.retry.attempts, 1,
            "nothing was sent before"
        );
        assert_eq!(exchange.operation.request.lsid, session);
        World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
        let after = world.check_in(exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))));
    }
}

#[test]
fn idle_connections_closed_by_their_server_are_checked_one_after_the_other() {
    let mut world = World::new(URI, primary());
    let exchanges: Vec<Exchange> = (0..3).map(|_| world.begin_exchange(ping())).collect();
    for mut exchange in exchanges {
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        world.check_in(exchange, Outcome::Completed);
    }
    world.wait(IDLE_CHECK_AFTER);
    let mut next = Progress::Exchange(start(&mut world, find()));
    for left in (0..3).rev() {
        next = refuse(&mut world, given(next), &[]);
        assert_eq!(matches!(next, Progress::Exchange(_)), left > 0);
    }
    let id = waits(&next);
    assert_eq!(world.closed.len(), 3);
    world.exchange_of(Progress::Waiting(id));
    assert_eq!(world.client.counts().in_use, 1);
}

#[test]
fn after_a_failed_idle_check_the_time_limit_applies_to_the_next_exchange() {
    let mut world = idle_client(URI, IDLE_CHECK_AFTER);
    let mut command = ping();
    command.set_timeout(Some(Duration::from_secs(1)));
    let exchange = start(&mut world, command);
    let id = waits(&refuse(&mut world, exchange, &[]));
    assert!(exchange_limits(&world.client).is_empty());
    let exchange = world.exchange_of(Progress::Waiting(id));
    assert_eq!(exchange_limits(&world.client).len(), 1);
    world.wait(Duration::from_secs(1));
    let reported: Vec<_> = world.interrupted.iter().map(|(s, _)| *s).collect();
    assert_eq!(reported, [exchange.socket()]);
}

#[test]
fn after_a_failed_idle_check_a_closing_client_uses_no_other_connection() {
    let mut world = idle_client(URI, IDLE_CHECK_AFTER);
    let exchange = start(&mut world, ping());
    world.client.close(world.now);
    world.run();
    let next = refuse(&mut world, exchange, &[]);
    assert!(matches!(next, Progress::Failed(_)), "{next:?}");
    assert!(world.client.is_terminated());
}

#[test]
fn a_single_threaded_client_pings_instead_of_probing() {
    let options = uri::parse_for(URI, Monitoring::Scanning).expect("a URI");
    let mut world = World::with_options(options.options, primary(), Subscriptions::all());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world.wait(SOCKET_CHECK_INTERVAL);
    let exchange = start(&mut world, ping());
    assert!(exchange.is_preliminary() && !exchange.wants_idle_check());
}

#[test]
fn an_unexpected_message_on_an_idle_connection_closes_only_that_connection() {
    // A connection on which an unexpected message arrived cannot be used (CMAP-27). The three
    // connections were made for `minPoolSize` and never used.
    let mut world = World::with_subscriptions(
        &format!("{URI}&minPoolSize=3"),
        primary(),
        Subscriptions::all(),
    );
    for _ in 0..3 {
        world.wait(Duration::ZERO);
    }
    world.wait(IDLE_CHECK_AFTER);
    let kept = world.client.counts().sockets;
    while world.client.poll_event().is_some() {}
    let exchange = start(&mut world, insert());
    let socket = exchange.socket();
    let next = given(refuse(&mut world, exchange, b"hello?"));
    assert_ne!(next.socket(), socket);
    assert_eq!(world.closed, BTreeSet::from([socket]));
    while let Some(event) = world.client.poll_event() {
        match event.kind {
            EventKind::Sdam(event) => panic!("nothing is known: {event:?}"),
            EventKind::Pool(PoolEvent::Cleared { .. }) => panic!("the others are fine"),
            _ => {}
        }
    }
    // After `POPULATION_PAUSE`, the pool replaces the connection.
    world.wait(crate::pool::POPULATION_PAUSE);
    assert_eq!(world.client.counts().sockets, kept);
}
