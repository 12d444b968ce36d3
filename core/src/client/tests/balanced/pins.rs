//! Tests of pins that are released or interrupted while a command runs or waits, of pins of another
//! client, and of pins after a fork.

use super::*;
use crate::operation::OperationId;

/// Abandons a command of a transaction and starts the next one, which waits for the late reply.
/// Returns the pin of the transaction, the id of the waiting operation, the socket, and the late
/// reply.
fn transaction_with_draining_connection(
    world: &mut World,
) -> (Pin, OperationId, SocketId, Vec<u8>) {
    let (mut exchange, pin) = pinned_transaction(world);
    let (socket, request) = (
        exchange.socket(),
        exchange.operation.exchange.context.request_id,
    );
    exchange.sent(exchange.output().len());
    world.check_in(exchange, Outcome::Abandoned);
    assert_eq!(world.draining, [socket]);
    let mut command = ping();
    command.set_pin(&pin);
    let Progress::Waiting(id) = world.client.start(world.now, command) else {
        panic!("it waits for the reply");
    };
    let mut late = Vec::new();
    MessageWriter::begin(&mut late, 9, request)
        .body(&rawdoc! { "ok": 1, "n": 1 })
        .end();
    take_events(world);
    (pin, id, socket, late)
}

fn fail(world: &mut World, id: OperationId) -> Error {
    match world.client.resume(world.now, id) {
        Progress::Failed(error) => error,
        other => panic!("it fails: {other:?}"),
    }
}

#[test]
fn releasing_a_pin_fails_the_command_that_waits_for_its_connection() {
    let mut world = world();
    let (pin, id, socket, late) = transaction_with_draining_connection(&mut world);
    world.client.release(world.now, pin);
    world.run();
    fail(&mut world, id);
    assert_eq!(take_events(&mut world), ["in 1"]);
    assert_eq!(world.client.counts().waiting, 0);
    let socket_use = world.client.handle_received(world.now, socket, &late);
    assert_eq!(socket_use, SocketUse::Parked);
    assert_eq!(world.begin_exchange(ping()).socket(), socket);
}

#[test]
fn commands_that_wait_for_a_pinned_connection_get_it_in_their_order() {
    let mut world = world();
    let (pin, first, socket, late) = transaction_with_draining_connection(&mut world);
    let [cancelled, second] = [(); 2].map(|()| {
        let mut command = ping();
        command.set_pin(&pin);
        match world.client.start(world.now, command) {
            Progress::Waiting(id) => id,
            other => panic!("{other:?} where it was to wait"),
        }
    });
    world.client.cancel(world.now, cancelled);
    let socket_use = world.client.handle_received(world.now, socket, &late);
    assert_eq!(socket_use, SocketUse::Parked);
    for id in [first, second] {
        let mut exchange = world.exchange_of(Progress::Waiting(id));
        assert_eq!(exchange.socket(), socket);
        if id == first {
            let waits = world.client.resume(world.now, second);
            assert!(matches!(waits, Progress::Waiting(_)), "{waits:?}");
        }
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        world.check_in(exchange, Outcome::Completed);
    }
}

#[test]
fn cancelling_a_granted_command_checks_in_its_connection_if_the_pin_was_released() {
    let mut world = world();
    let (pin, id, socket, late) = transaction_with_draining_connection(&mut world);
    world.client.handle_received(world.now, socket, &late);
    world.client.release(world.now, pin);
    assert!(take_events(&mut world).is_empty(), "it is the command's");
    world.client.cancel(world.now, id);
    assert_eq!(take_events(&mut world), ["in 1"]);
    assert!(world.client.snapshot().pins.is_empty());
}

#[test]
fn a_forked_child_does_not_use_a_granted_pinned_connection() {
    // A child process closes the connections of its parent (CMAP-103).
    let mut world = world();
    let (_pin, id, socket, late) = transaction_with_draining_connection(&mut world);
    world.client.handle_received(world.now, socket, &late);
    world.client.handle_forked(world.now, &Seed::new([6; 32]));
    world.run();
    fail(&mut world, id);
    assert!(world.closed.contains(&socket));
    assert!(world.client.snapshot().pins.is_empty());
}

#[test]
fn a_command_on_a_pinned_connection_is_not_retried_on_another() {
    // All commands of a transaction use its connection (LB-39). So, unlike other retryable writes,
    // its first command is not retried on another connection.
    let mut world = world();
    let (exchange, pin) = pinned_transaction(&mut world);
    take_events(&mut world);
    let after = world.check_in(exchange, reset());
    assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
    assert_eq!(take_events(&mut world), ["cleared 1"]);
    world.client.release(world.now, pin);
    assert_eq!(take_events(&mut world), ["in 1", "closed 1: Error"]);
}

#[test]
fn a_pin_of_another_client_is_refused() {
    // The client refuses a pin of another client (CMAP-19, CMAP-87), although a pinned connection
    // of its own has the same ids.
    let text = "mongodb://lb/?loadBalanced=true";
    let options = uri::parse(text).expect("a connection string").options;
    let seed = Seed::new([8; 32]);
    let mut other = World::with_seed(options, service(1), Subscriptions::all(), seed);
    let (exchange, foreign) = pinned_transaction(&mut other);
    let mut world = world();
    let (mut own, _pin) = pinned_transaction(&mut world);
    assert_eq!(own.socket(), exchange.socket());
    World::answer(&mut own, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(own, Outcome::Completed);
    take_events(&mut world);
    let mut command = ping();
    command.set_pin(&foreign);
    let start = world.client.start(world.now, command);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    world.client.release(world.now, foreign);
    assert!(take_events(&mut world).is_empty());
    assert_eq!(world.client.counts().in_use, 1);
}

#[test]
fn a_command_with_a_released_pin_fails_although_its_connection_is_pinned_again() {
    // The pin of the first transaction was released, so its next command fails. Another transaction
    // has pinned the connection, and two transactions never use the same connection at once
    // (LB-41).
    let mut world = world();
    let (mut exchange, pin) = pinned_transaction(&mut world);
    let socket = exchange.socket();
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let mut late = ping();
    late.set_pin(&pin);
    world.client.release(world.now, pin);
    let (mut exchange, _pin) = pinned_transaction(&mut world);
    assert_eq!(exchange.socket(), socket);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let start = world.client.start(world.now, late);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
}

#[test]
fn a_fork_interrupts_exchanges_behind_a_load_balancer() {
    // A child process interrupts the exchanges on connections of its parent (CMAP-103).
    let mut world = world();
    let exchange = world.begin_exchange(find());
    let socket = exchange.socket();
    world.client.handle_forked(world.now, &Seed::new([6; 32]));
    world.run();
    let Some((interrupted, error)) = world.interrupted.pop() else {
        panic!("its holder would read what its parent is answered");
    };
    assert_eq!(interrupted, socket);
    let after = world.check_in(exchange, Outcome::Failed(error));
    let AfterExchange::Again(start) = after else {
        panic!("a read is tried again: {after:?}");
    };
    assert_ne!(world.exchange_of(start).socket(), socket);
    assert!(world.closed.contains(&socket));
}

#[test]
fn behind_a_load_balancer_waiting_operations_start_again_after_a_fork() {
    let text = "mongodb://lb/?loadBalanced=true&maxPoolSize=1";
    let mut world = World::with_subscriptions(text, service(1), Subscriptions::all());
    let other = world.begin_exchange(ping());
    let Progress::Waiting(id) = world.client.start(world.now, insert()) else {
        panic!("there is no room");
    };
    world.client.handle_forked(world.now, &Seed::new([6; 32]));
    let exchange = world.exchange_of(Progress::Waiting(id));
    assert_ne!(exchange.socket(), other.socket());
}

#[test]
fn a_pin_that_is_released_during_its_first_exchange_pins_nothing() {
    let mut world = world();
    let (mut exchange, pin) = pinned_transaction(&mut world);
    take_events(&mut world);
    world.client.release(world.now, pin);
    assert!(take_events(&mut world).is_empty(), "the exchange is out");
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(take_events(&mut world), ["in 1"]);
    assert!(world.client.snapshot().pins.is_empty());
}

#[test]
fn releasing_the_pin_of_a_cursor_leaves_the_connection_pinned_by_its_transaction() {
    // A transaction opens a cursor. The caller drops the cursor before its exchange ends.
    let mut world = world();
    let (mut exchange, transaction) = pinned_transaction(&mut world);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let mut command = find();
    command.set_pin(&transaction);
    let mut exchange = world.begin_exchange(command);
    let cursor = exchange.pin(PinnedFor::Cursor).expect("a load balancer");
    take_events(&mut world);
    world.client.release(world.now, cursor);
    World::answer(&mut exchange, &cursor_reply(5, "firstBatch"));
    world.check_in(exchange, Outcome::Completed);
    assert!(
        take_events(&mut world).is_empty(),
        "the transaction keeps it"
    );
    world.client.release(world.now, transaction);
    assert_eq!(take_events(&mut world), ["in 1"]);
    assert!(world.client.snapshot().pins.is_empty());
}

#[test]
fn a_connection_can_have_many_pins() {
    // Quadratic work on this many pins would take minutes.
    const PINS: usize = 100_000;
    let mut world = world();
    let (mut exchange, transaction) = pinned_transaction(&mut world);
    let pin = |exchange: &mut Exchange| {
        let pin = exchange.pin(PinnedFor::Cursor);
        pin.expect("a load balancer")
    };
    let mut cursors: Vec<Pin> = (0..PINS).map(|_| pin(&mut exchange)).collect();
    // Half of them are released before the exchange is checked in.
    for pin in cursors.split_off(PINS / 2) {
        world.client.release(world.now, pin);
    }
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(world.client.snapshot().pins[0].holders, 1 + PINS / 2);
    take_events(&mut world);
    for pin in cursors {
        world.client.release(world.now, pin);
    }
    assert_eq!(world.client.snapshot().pins[0].holders, 1);
    assert!(take_events(&mut world).is_empty());
    world.client.release(world.now, transaction);
    assert_eq!(take_events(&mut world), ["in 1"]);
    assert!(world.client.snapshot().pins.is_empty());
}

#[test]
fn a_pinned_connection_stays_pinned_after_a_failed_idle_check() {
    let mut world = world();
    let (exchange, pin) = pinned_transaction(&mut world);
    take_events(&mut world);
    let error = Error::network(NetworkFault::Closed, "closed");
    let start = world.client.refuse(world.now, exchange, error);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    assert!(take_events(&mut world).is_empty());
    world.client.release(world.now, pin);
    assert_eq!(take_events(&mut world), ["in 1", "closed 1: Error"]);
}

#[test]
fn a_preliminary_ping_cannot_pin_its_connection() {
    // A preliminary ping (SEL-72) is not a command of the application, so it pins nothing.
    let options = uri::parse_for(URI, crate::options::Monitoring::Scanning).expect("a URI");
    let mut world = World::with_options(options.options, service(1), Subscriptions::all());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world.wait(std::time::Duration::from_secs(6));
    let mut first = world.begin_exchange(insert());
    assert!(first.is_preliminary());
    assert_eq!(first.pin(PinnedFor::Transaction), None);
    World::answer(&mut first, &rawdoc! { "ok": 1 });
    let AfterExchange::Again(start) = world.check_in(first, Outcome::Completed) else {
        panic!("the operation follows");
    };
    let mut exchange = world.exchange_of(start);
    assert!(exchange.pin(PinnedFor::Transaction).is_some());
}

#[test]
fn a_forked_child_cannot_pin_the_connection_of_an_inherited_exchange() {
    // A child process closes the connections of its parent (CMAP-103), also that of an inherited
    // exchange.
    let mut world = world();
    let mut exchange = world.begin_exchange(find());
    let socket = exchange.socket();
    world.client.handle_forked(world.now, &Seed::new([6; 32]));
    world.run();
    World::answer(&mut exchange, &cursor_reply(5, "firstBatch"));
    let mut cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    world.check_in(exchange, Outcome::Completed);
    assert!(world.closed.contains(&socket));
    let command = cursor.more().expect("it is open");
    let start = world.client.start(world.now, command);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    let kill = cursor.end().expect("it does not know");
    world.client.discard(world.now, kill);
    assert!(world.client.snapshot().pins.is_empty());
}

/// Clears the only pool and interrupts its connections in use, as after a check that timed out.
fn interrupt(world: &mut World) {
    let cause = Error::network(NetworkFault::Other, "the server hangs");
    let now = world.now;
    let server = world.client.snapshot().pools[0].server;
    world.client.pools.clear(now, server, None, &cause, true);
    world.client.settle(now);
    world.run();
}

fn is_interrupted(error: &Error) -> bool {
    matches!(error.kind(), crate::error::ErrorKind::Interrupted { .. })
}

#[test]
fn a_pinned_connection_interrupted_between_two_commands_is_not_written_to() {
    // The next command of the cursor fails with the error of the interruption (CMAP-97).
    let mut world = world();
    let (mut cursor, facts) = open_cursor(&mut world);
    interrupt(&mut world);
    assert!(world.interrupted.is_empty(), "nothing runs on it");
    let command = cursor.more().expect("it is open");
    match world.client.start(world.now, command) {
        Progress::Failed(error) => assert!(is_interrupted(&error), "{error}"),
        other => panic!("the connection is dead: {other:?}"),
    }
    let end = cursor.end().expect("the server has a cursor");
    let next = world.client.start(world.now, end);
    assert!(matches!(next, Progress::Failed(_)), "{next:?}");
    world.run();
    assert!(world.closed.contains(&facts.socket));
}

#[test]
fn the_next_command_fails_after_an_interrupt_at_the_end_of_an_exchange() {
    // The next command of the transaction fails with the error of the interruption (CMAP-97).
    let mut world = world();
    let (mut exchange, pin) = pinned_transaction(&mut world);
    let socket = exchange.socket();
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    interrupt(&mut world);
    let reported = world.interrupted.pop().map(|(socket, _)| socket);
    assert_eq!(reported, Some(socket));
    // The exchange has its reply already, so its holder ignores the interruption.
    world.check_in(exchange, Outcome::Completed);
    let mut command = ping();
    command.set_pin(&pin);
    match world.client.start(world.now, command) {
        Progress::Failed(error) => assert!(is_interrupted(&error), "{error}"),
        other => panic!("the connection is dead: {other:?}"),
    }
    world.client.release(world.now, pin);
    world.run();
    assert!(world.closed.contains(&socket));
}

#[test]
fn an_interrupt_fails_the_command_that_waits_for_a_late_reply() {
    // The waiting command fails with the error of the interruption (CMAP-97).
    let mut world = world();
    let (pin, id, socket, _) = transaction_with_draining_connection(&mut world);
    interrupt(&mut world);
    assert!(is_interrupted(&fail(&mut world, id)));
    world.client.release(world.now, pin);
    world.run();
    assert!(world.closed.contains(&socket));
    assert!(draining(&world.client).is_empty());
}

#[test]
fn a_granted_pinned_connection_that_is_interrupted_is_not_written_to() {
    // The command fails with the error of the interruption (CMAP-97), although its connection was
    // granted before.
    let mut world = world();
    let (pin, id, socket, late) = transaction_with_draining_connection(&mut world);
    let socket_use = world.client.handle_received(world.now, socket, &late);
    assert_eq!(
        socket_use,
        SocketUse::Parked,
        "the command is granted its connection"
    );
    interrupt(&mut world);
    assert!(is_interrupted(&fail(&mut world, id)));
    world.client.release(world.now, pin);
    world.run();
    assert!(world.closed.contains(&socket));
}

#[test]
fn after_a_fork_a_paused_kill_cursors_and_its_pin_are_gone() {
    // The connection of the cursor is free while `killCursors` pauses after an overload error. The
    // fork releases the pin, and the pool grants the connection to the operation that waits for it.
    // The end of `killCursors` must not take that connection for its own.
    let text = "mongodb://lb/?loadBalanced=true&maxPoolSize=1";
    let mut world = World::new(text, service(1));
    let (mut cursor, _) = open_cursor(&mut world);
    let Progress::Waiting(next) = world.client.start(world.now, ping()) else {
        panic!("there is no room");
    };
    let kill = cursor.end().expect("it is open");
    let exchange = world.begin_exchange(kill);
    let socket = exchange.socket();
    let mut exchange = exchange;
    World::answer(&mut exchange, &super::super::adaptive::overloaded());
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(
        matches!(after, AfterExchange::Again(Progress::Waiting(_))),
        "{after:?}"
    );
    world.client.handle_forked(world.now, &Seed::new([6; 32]));
    world.run();
    assert!(world.closed.contains(&socket));
    assert!(world.client.snapshot().pins.is_empty());
    let exchange = world.exchange_of(Progress::Waiting(next));
    assert_ne!(exchange.socket(), socket);
}
