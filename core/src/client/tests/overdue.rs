//! Tests of exchanges that nobody checks in after their deadline.

use super::*;
use crate::error::Wait;
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs&maxPoolSize=1";

const LIMIT: Duration = Duration::from_secs(1);

fn limited(mut command: Command) -> Command {
    command.set_timeout(Some(LIMIT));
    command
}

/// Returns a world in which the connection of an exchange was taken back, and the exchange.
fn taken_back(command: Command) -> (World, Exchange) {
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(limited(command));
    let socket = exchange.socket();
    world.wait(LIMIT);
    let interrupted: Vec<SocketId> = world.interrupted.drain(..).map(|(s, _)| s).collect();
    assert_eq!(interrupted, [socket]);
    assert_eq!(world.client.counts().in_use, 1, "its holder may be late");
    world.wait(OVERDUE_LIMIT);
    assert!(world.closed.contains(&socket));
    assert_eq!(world.client.counts().in_use, 0);
    assert!(world.interrupted.is_empty(), "it was told once");
    (world, exchange)
}

/// Asserts that the only connection of the pool can be used.
fn use_pool(world: &mut World) {
    let mut exchange = world.begin_exchange(ping());
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    assert!(matches!(
        world.check_in(exchange, Outcome::Completed),
        AfterExchange::Done(Ok(()))
    ));
    assert_eq!(world.client.counts().in_use, 0);
}

fn late() -> Outcome {
    Outcome::Failed(Error::timeout(Wait::Exchange, "late"))
}

#[test]
fn an_exchange_that_nobody_polls_after_its_deadline_loses_its_connection() {
    for command in [ping(), find(), insert()] {
        let (mut world, exchange) = taken_back(command);
        use_pool(&mut world);
        // The future is polled much later, and reports the interruption.
        world.wait(Duration::from_secs(60));
        let AfterExchange::Done(Err(error)) = world.check_in(exchange, late()) else {
            panic!("its time is over");
        };
        assert!(error.is_timeout(), "{error}");
        assert!(error.server().is_some(), "{error}");
        use_pool(&mut world);
    }
}

#[test]
fn a_late_reply_on_a_connection_that_was_taken_back_is_the_result_of_its_operation() {
    let (mut world, mut exchange) = taken_back(ping());
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    use_pool(&mut world);
}

#[test]
fn an_exchange_whose_connection_was_taken_back_can_be_abandoned() {
    let (mut world, exchange) = taken_back(find());
    let after = world.check_in(exchange, Outcome::Abandoned);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    use_pool(&mut world);
    assert_eq!(world.client.attempts.taken_back, 0);
}

#[test]
fn an_exchange_that_is_refused_after_its_connection_was_taken_back_ends() {
    let (mut world, exchange) = taken_back(ping());
    let error = Error::network(NetworkFault::Closed, "closed");
    let Progress::Waiting(id) = world.client.refuse(world.now, exchange, error) else {
        panic!("it has no connection");
    };
    world.client.cancel(world.now, id);
    use_pool(&mut world);
    assert_eq!(world.client.attempts.taken_back, 0);
}

#[test]
fn a_closed_client_does_not_wait_for_an_exchange_that_nobody_polls() {
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(limited(find()));
    world.client.close(world.now);
    world.wait(LIMIT);
    assert!(!world.client.is_terminated());
    world.wait(OVERDUE_LIMIT);
    assert!(world.client.is_terminated());
    let after = world.check_in(exchange, late());
    assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
}

#[test]
fn an_exchange_without_a_deadline_keeps_its_connection() {
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(find());
    world.wait(Duration::from_secs(3600));
    assert_eq!(world.client.counts().in_use, 1);
    let after = world.check_in(exchange, Outcome::Abandoned);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
}
