//! Tests of retries after overload on pinned connections.

use super::{super::adaptive::overloaded, *};
use std::time::Duration;

/// Replies with overload and waits until the backoff is over. No operation uses the connection
/// during the backoff. Returns the exchange of the retry.
fn overload(world: &mut World, mut exchange: Exchange) -> Exchange {
    let socket = exchange.socket();
    World::answer(&mut exchange, &overloaded());
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("it is tried again");
    };
    assert!(matches!(start, Progress::Waiting(_)), "{start:?}");
    let pins = world.client.snapshot().pins;
    let state = pins.iter().find(|pin| pin.socket == socket);
    assert_eq!(state.map(|pin| pin.state), Some(PinState::Free));
    let exchange = world.exchange_of(start);
    assert_eq!(exchange.socket(), socket, "the cursor lives there");
    exchange
}

#[test]
fn get_more_and_kill_cursors_are_retried_after_overload_on_the_pinned_connection() {
    // Commands of cursors are retried after overload (BP-2). The connection stays pinned, and no
    // other connection is checked out (BP trap 4).
    let mut world = world();
    let (mut cursor, _) = open_cursor(&mut world);
    take_events(&mut world);
    let exchange = more(&mut world, &mut cursor);
    let mut exchange = overload(&mut world, exchange);
    World::answer(&mut exchange, &cursor_reply(5, "nextBatch"));
    let step = cursor.handle_reply(&mut exchange);
    assert!(!matches!(step, Step::Done(Err(_))), "{step:?}");
    world.check_in(exchange, Outcome::Completed);
    // The third attempt is the last.
    let mut exchange = more(&mut world, &mut cursor);
    for _ in 0..2 {
        exchange = overload(&mut world, exchange);
    }
    World::answer(&mut exchange, &overloaded());
    let AfterExchange::Done(Err(error)) = world.check_in(exchange, Outcome::Completed) else {
        panic!("it was tried three times");
    };
    assert_eq!(error.code(), Some(462));
    cursor.handle_failure(&error);
    assert!(take_events(&mut world).is_empty());
    let exchange = world.begin_exchange(cursor.end().expect("the server has it"));
    let mut exchange = overload(&mut world, exchange);
    assert!(
        take_events(&mut world).is_empty(),
        "it is kept during the backoff"
    );
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(take_events(&mut world), ["in 1"]);
}

#[test]
fn a_transaction_command_is_retried_after_overload_on_its_connection() {
    // Commands of transactions are retried after overload (BP-2, BP-10). The first command pins its
    // connection before it is sent, as in the official test
    // `transactions/tests/unified/backpressure-retryable-writes`.
    let mut world = world();
    let (exchange, pin) = pinned_transaction(&mut world);
    let mut exchange = overload(&mut world, exchange);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    world.client.release(world.now, pin);
}

#[test]
fn a_retry_whose_pin_is_released_during_its_backoff_fails_with_the_first_error() {
    // The retry reaches no server, so the overload error of the first attempt is raised (RR-15).
    let mut world = world();
    let (mut cursor, facts) = open_cursor(&mut world);
    let mut exchange = more(&mut world, &mut cursor);
    World::answer(&mut exchange, &overloaded());
    let AfterExchange::Again(Progress::Waiting(waiting)) =
        world.check_in(exchange, Outcome::Completed)
    else {
        panic!("it backs off");
    };
    let resources = cursor
        .end()
        .map(|kill| world.client.discard(world.now, kill));
    assert!(resources.is_ok(), "its owner gives it up");
    world.wait(Duration::from_millis(400));
    let Progress::Failed(error) = world.client.resume(world.now, waiting) else {
        panic!("its connection is gone");
    };
    assert_eq!(error.code(), Some(462), "{error:?}");
    assert_eq!(world.client.counts().in_use, 0);
    assert!(!world.closed.contains(&facts.socket), "it is whole");
}

#[test]
fn a_forked_child_does_not_retry_a_pinned_command_of_its_parent() {
    let mut world = world();
    let (mut cursor, _) = open_cursor(&mut world);
    let mut exchange = more(&mut world, &mut cursor);
    World::answer(&mut exchange, &overloaded());
    let AfterExchange::Again(Progress::Waiting(waiting)) =
        world.check_in(exchange, Outcome::Completed)
    else {
        panic!("it backs off");
    };
    world.sent.clear();
    world.client.handle_forked(world.now, &Seed::new([6; 32]));
    world.wait(Duration::from_millis(400));
    let start = world.client.resume(world.now, waiting);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    assert_eq!(world.sent, []);
}

#[test]
fn a_retry_whose_pin_is_released_before_a_late_reply_fails_with_the_first_error() {
    // The retry waits for the late reply to another command. Then the pin is released, so the
    // overload error of the first attempt is raised (RR-15).
    let mut world = world();
    let (mut exchange, pin) = pinned_transaction(&mut world);
    World::answer(&mut exchange, &overloaded());
    let AfterExchange::Again(Progress::Waiting(waiting)) =
        world.check_in(exchange, Outcome::Completed)
    else {
        panic!("it backs off");
    };
    let mut other = insert();
    other.set_pin(&pin);
    let mut other = world.begin_exchange(other);
    other.sent(other.output().len());
    world.check_in(other, Outcome::Abandoned);
    world.wait(Duration::from_millis(400));
    let start = world.client.resume(world.now, waiting);
    assert!(matches!(start, Progress::Waiting(_)), "{start:?}");
    world.client.release(world.now, pin);
    let Progress::Failed(error) = world.client.resume(world.now, waiting) else {
        panic!("its connection went back");
    };
    assert_eq!(error.code(), Some(462), "{error:?}");
}
