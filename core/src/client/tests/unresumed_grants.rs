//! Tests of decisions about connections whose operation is not polled for some time.
//!
//! A grant, an exchange or a pin belongs to a future that may be polled much later, or never. A
//! decision about its connection has to take effect in the meantime.

use super::*;
use crate::error::{ErrorKind, Wait};
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs&maxPoolSize=1&connectTimeoutMS=500";

/// A minute, which is longer than a check may take.
const MINUTE: Duration = Duration::from_secs(60);

/// Returns a world in which the pool's only connection is granted to an operation that has not
/// resumed. Also returns the id of this operation and the socket of the connection.
fn granted(text: &str, command: Command) -> (World, OperationId, SocketId) {
    let mut world = World::new(text, primary());
    let mut first = world.begin_exchange(ping());
    let socket = first.socket();
    let Progress::Waiting(second) = world.client.start(world.now, command) else {
        panic!("the only connection is in use");
    };
    World::answer(&mut first, &rawdoc! { "ok": 1 });
    world.check_in(first, Outcome::Completed);
    assert_eq!(world.woken.last(), Some(&second));
    (world, second, socket)
}

/// Lets the next check of the server time out.
fn time_out_next_check(world: &mut World) {
    world.is_silent = true;
    world.wait(Duration::from_secs(10));
    world.wait(Duration::from_millis(500));
    assert_eq!(
        world.client.topology().servers.len(),
        1,
        "the server stays in the topology"
    );
    assert!(world.client.topology().primary().is_none(), "it is unknown");
}

#[test]
fn a_granted_connection_that_is_interrupted_is_not_used() {
    // The clear interrupts the granted connection (CMAP-94) as soon as possible (CMAP-95). An
    // operation whose exchange is interrupted fails (CMAP-97). The operation of this test has sent
    // nothing, so it begins another attempt.
    for command in [ping(), find(), insert()] {
        let (mut world, id, socket) = granted(URI, command);
        time_out_next_check(&mut world);
        assert!(world.closed.contains(&socket), "the dead connection closes");
        let next = world.client.resume(world.now, id);
        assert!(
            matches!(next, Progress::Waiting(_)),
            "no server is known: {next:?}"
        );
        assert!(world.interrupted.is_empty(), "no exchange ran");
        assert_eq!(world.client.counts().in_use, 0);
        world.is_silent = false;
        for _ in 0..4 {
            world.wait(Duration::from_millis(500));
        }
        let exchange = world.exchange_of(next);
        assert_ne!(exchange.socket(), socket);
        assert_eq!(
            exchange.operation.retry.attempts, 1,
            "nothing was sent before"
        );
    }
}

#[test]
fn an_operation_not_resumed_before_its_deadline_loses_its_granted_connection() {
    let mut command = ping();
    command.set_timeout(Some(Duration::from_secs(1)));
    let (mut world, id, socket) = granted(URI, command);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.client.counts().in_use, 0, "others may have it");
    assert_eq!(world.begin_exchange(ping()).socket(), socket);
    match world.client.resume(world.now + MINUTE, id) {
        Progress::Failed(error) => assert!(
            matches!(
                error.kind(),
                ErrorKind::Timeout {
                    wait: Wait::CheckOut,
                    ..
                }
            ),
            "{error}"
        ),
        other => panic!("its time is over: {other:?}"),
    }
}

#[test]
fn an_exchange_is_interrupted_once_and_never_after_its_check_in() {
    let mut world = World::new(URI, primary());
    let mut exchange = world.begin_exchange(ping());
    let socket = exchange.socket();
    time_out_next_check(&mut world);
    let interrupted: Vec<SocketId> = world.interrupted.drain(..).map(|(s, _)| s).collect();
    assert_eq!(interrupted, [socket]);
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    world.wait(MINUTE);
    assert!(world.interrupted.is_empty());
    assert!(world.closed.contains(&socket), "its generation is over");
}

#[test]
fn a_grant_that_is_not_resumed_goes_to_the_next_waiting_operation() {
    // A task may hold the future of an operation without polling the future, while the task waits
    // for another operation.
    let (mut world, first, socket) = granted(URI, find());
    world.wait(GRANT_LIMIT);
    assert_eq!(world.client.counts().in_use, 1, "nobody else wants it");
    let Progress::Waiting(second) = world.client.start(world.now, insert()) else {
        panic!("the only connection is granted");
    };
    world.woken.clear();
    world.wait(GRANT_LIMIT);
    assert_eq!(world.woken, [second]);
    let Progress::Exchange(mut exchange) = world.client.resume(world.now, second) else {
        panic!("it is its turn");
    };
    assert_eq!(exchange.socket(), socket);
    exchange.begin(world.now).expect("it fits");
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    // The first operation waits for a connection again. The grant that it lost does not count as an
    // attempt.
    let exchange = world.exchange_of(Progress::Waiting(first));
    assert_eq!(
        (exchange.socket(), exchange.operation.retry.attempts),
        (socket, 1)
    );
}
