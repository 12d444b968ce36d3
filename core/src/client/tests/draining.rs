//! Tests of exchanges that end before their reply arrives.

use super::*;
use crate::{
    error::ErrorKind, event::PoolEvent, operation::OperationId, options::Monitoring,
    time::AFTER_FREEZE,
};
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs&maxPoolSize=1&maxIdleTimeMS=20000";

fn world() -> World {
    World::with_subscriptions(URI, primary(), Subscriptions::all())
}

/// Returns the pool events since the last call, as short texts: checked in, checked out, closed and
/// cleared.
fn take_events(world: &mut World) -> Vec<String> {
    let events = std::iter::from_fn(|| world.client.poll_event());
    let kinds = events.filter_map(|event| match event.kind {
        EventKind::Pool(PoolEvent::CheckedIn { connection, .. }) => {
            Some(format!("in {connection}"))
        }
        EventKind::Pool(PoolEvent::CheckedOut { connection, .. }) => {
            Some(format!("out {connection}"))
        }
        EventKind::Pool(PoolEvent::ConnectionClosed {
            connection, reason, ..
        }) => Some(format!("closed {connection}: {reason:?}")),
        EventKind::Pool(PoolEvent::Cleared { .. }) => Some("cleared".to_owned()),
        _ => None,
    });
    kinds.collect()
}

/// Begins an exchange and sends its whole request. Returns the exchange, its socket and the request
/// id.
fn sent(world: &mut World, command: Command) -> (Exchange, SocketId, i32) {
    let mut exchange = world.begin_exchange(command);
    exchange.sent(exchange.output().len());
    let (socket, id) = (
        exchange.socket(),
        exchange.operation.exchange.context.request_id,
    );
    (exchange, socket, id)
}

fn reply_to(id: i32) -> Vec<u8> {
    reply_with(id, &rawdoc! { "ok": 1, "late": true })
}

fn reply_with(id: i32, body: &RawDocument) -> Vec<u8> {
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 9, id).body(body).end();
    bytes
}

/// Starts an operation that has to wait.
fn waiter(world: &mut World) -> OperationId {
    match world.client.start(world.now, ping()) {
        Progress::Waiting(id) => id,
        other => panic!("there is no connection: {other:?}"),
    }
}

fn receive(world: &mut World, socket: SocketId, bytes: &[u8]) -> SocketUse {
    let socket_use = world.client.handle_received(world.now, socket, bytes);
    world.run();
    socket_use
}

fn timed_out() -> Outcome {
    let message = "the reply did not arrive";
    Outcome::Failed(Error::timeout(crate::error::Wait::Exchange, message))
}

#[test]
fn the_connection_of_an_abandoned_exchange_is_drained_before_the_next_exchange() {
    for is_timeout in [false, true] {
        let mut world = world();
        let mut command = ping();
        command.set_timeout(is_timeout.then(|| Duration::from_millis(100)));
        let (exchange, socket, id) = sent(&mut world, command);
        take_events(&mut world);
        let outcome = if is_timeout {
            world.wait(Duration::from_millis(100));
            assert_eq!(world.interrupted.len(), 1);
            timed_out()
        } else {
            Outcome::Abandoned
        };
        let after = world.check_in(exchange, outcome);
        assert_eq!(matches!(after, AfterExchange::Done(Err(_))), is_timeout);
        assert_eq!(world.draining, [socket]);
        let next = waiter(&mut world);
        world.run();
        assert_eq!(world.dialled.len(), 2, "a monitor and one connection");
        for piece in reply_to(id).chunks(10) {
            let is_waiting = matches!(world.client.resume(world.now, next), Progress::Waiting(_));
            assert!(is_waiting, "the reply is not over");
            receive(&mut world, socket, piece);
        }
        let mut exchange = world.exchange_of(Progress::Waiting(next));
        assert_eq!(exchange.socket(), socket);
        World::answer(&mut exchange, &rawdoc! { "ok": 1, "mine": true });
        assert!(
            exchange
                .reply()
                .expect("a reply")
                .get("mine")
                .is_ok_and(|m| m.is_some())
        );
        world.check_in(exchange, Outcome::Completed);
        assert_eq!(take_events(&mut world), ["in 1", "out 1", "in 1"]);
        let topology = world.client.topology();
        assert!(
            topology
                .servers
                .values()
                .all(|s| s.server_type.is_available())
        );
    }
}

#[test]
fn a_partly_read_reply_is_drained_to_its_end() {
    let mut world = world();
    let length = reply_to(0).len();
    for count in [1, 17, length - 1] {
        let (mut exchange, socket, id) = sent(&mut world, ping());
        let (head, tail) = (&reply_to(id)[..count], &reply_to(id)[count..]);
        exchange.input().expect("room")[..count].copy_from_slice(head);
        assert_eq!(exchange.received(count), Ok(false));
        world.check_in(exchange, Outcome::Abandoned);
        assert_eq!(receive(&mut world, socket, tail), SocketUse::Parked);
    }
    world.perform(ping(), &rawdoc! { "ok": 1 });
    assert!(world.closed.is_empty());
}

#[test]
fn a_late_reply_that_does_not_arrive_closes_only_its_connection() {
    let mut world = world();
    let (exchange, socket, _) = sent(&mut world, ping());
    take_events(&mut world);
    world.check_in(exchange, Outcome::Abandoned);
    let next = waiter(&mut world);
    world.wait(DRAIN_LIMIT - Duration::from_millis(1));
    assert!(!world.closed.contains(&socket));
    world.wait(Duration::from_millis(1));
    assert!(world.closed.contains(&socket));
    let exchange = world.exchange_of(Progress::Waiting(next));
    assert_ne!(exchange.socket(), socket);
    assert_eq!(
        take_events(&mut world),
        ["in 1", "closed 1: Error", "out 2"]
    );
    assert!(draining(&world.client).is_empty());
}

#[test]
fn the_drain_limit_applies_after_shorter_limits_have_passed() {
    let mut world = world();
    let (exchange, socket, _) = sent(&mut world, ping());
    world.check_in(exchange, Outcome::Abandoned);
    let limit = world.now + DRAIN_LIMIT;
    let mut command = ping();
    command.set_timeout(Some(Duration::from_secs(1)));
    let Progress::Waiting(next) = world.client.start(world.now, command) else {
        panic!("there is one connection");
    };
    world.wait(Duration::from_secs(1));
    let resumed = world.client.resume(world.now, next);
    assert!(matches!(resumed, Progress::Failed(_)), "{resumed:?}");
    assert_eq!(world.client.deadline(), Some(limit));
    world.now = limit;
    world.time_out();
    world.run();
    assert!(world.closed.contains(&socket));
}

#[test]
fn after_a_process_freeze_a_draining_connection_gets_extra_time() {
    // After the process was frozen, the client reads for a short time more (`AFTER_FREEZE`) before
    // it closes the connection (scenario 14).
    for comes in [true, false] {
        let mut world = world();
        let (exchange, socket, id) = sent(&mut world, ping());
        world.check_in(exchange, Outcome::Abandoned);
        world.wait(Duration::from_secs(600));
        assert!(!world.closed.contains(&socket));
        if comes {
            assert_eq!(
                receive(&mut world, socket, &reply_to(id)),
                SocketUse::Parked
            );
            assert!(draining(&world.client).is_empty());
        } else {
            world.wait(AFTER_FREEZE);
            assert!(world.closed.contains(&socket), "only one more moment");
        }
    }
}

#[test]
fn a_draining_connection_is_closed_by_anything_but_its_late_reply() {
    let oversized = i32::MAX.to_le_bytes();
    let cases: [&dyn Fn(i32) -> Vec<u8>; 5] = [
        &|_| Vec::new(),
        &|id| reply_to(id + 1),
        &|id| [reply_to(id), vec![0]].concat(),
        &|id| {
            let mut more = Vec::new();
            MessageWriter::begin(&mut more, 9, id)
                .flags(crate::wire::Flags::MORE_TO_COME)
                .body(&rawdoc! { "ok": 1 })
                .end();
            more
        },
        &|id| [&oversized, &reply_to(id)[4..]].concat(),
    ];
    for bytes in cases {
        let mut world = world();
        let (exchange, socket, id) = sent(&mut world, ping());
        world.check_in(exchange, Outcome::Abandoned);
        take_events(&mut world);
        assert_eq!(receive(&mut world, socket, &bytes(id)), SocketUse::Closed);
        assert!(world.closed.contains(&socket));
        assert_eq!(take_events(&mut world), ["closed 1: Error"]);
        world.perform(ping(), &rawdoc! { "ok": 1 });
    }
}

#[test]
fn a_network_error_on_a_draining_connection_clears_no_pool() {
    let mut world = world();
    let (exchange, socket, _) = sent(&mut world, ping());
    world.check_in(exchange, Outcome::Abandoned);
    take_events(&mut world);
    assert!(world.client.address_of(socket).is_some());
    let error = Error::network(NetworkFault::Reset, "reset");
    assert_eq!(
        world.client.handle_failed(world.now, socket, error),
        SocketUse::Closed
    );
    assert_eq!(take_events(&mut world), ["closed 1: Error"]);
    let topology = world.client.topology();
    assert!(
        topology
            .servers
            .values()
            .all(|s| s.server_type.is_available())
    );
}

#[test]
fn an_abandoned_request_closes_its_connection_only_if_it_was_partly_sent() {
    let mut world = world();
    let mut exchange = world.begin_exchange(ping());
    let socket = exchange.socket();
    exchange.sent(1);
    world.check_in(exchange, Outcome::Abandoned);
    assert!(world.closed.contains(&socket) && world.draining.is_empty());

    let exchange = world.begin_exchange(ping());
    let socket = exchange.socket();
    let session = exchange.operation.request.lsid;
    world.check_in(exchange, Outcome::Abandoned);
    let next = world.begin_exchange(ping());
    assert_eq!(next.socket(), socket, "nothing was sent");
    assert_eq!(next.operation.request.lsid, session);
    assert_eq!(World::request(&next).get_i32("ping").ok(), Some(1));
}

#[test]
fn a_socket_timeout_or_network_error_closes_the_connection_without_draining() {
    let text = format!("{URI}&socketTimeoutMS=1000&retryReads=false");
    for outcome in [timed_out(), reset()] {
        let mut world = World::new(&text, primary());
        let (exchange, socket, _) = sent(&mut world, ping());
        world.wait(Duration::from_secs(1));
        world.check_in(exchange, outcome);
        assert!(world.closed.contains(&socket) && world.draining.is_empty());
    }
}

#[test]
fn a_protocol_error_at_the_time_limit_closes_the_connection_without_draining() {
    let mut world = world();
    let mut command = ping();
    command.set_timeout(Some(Duration::from_millis(10)));
    let (exchange, socket, _) = sent(&mut world, command);
    world.wait(Duration::from_millis(10));
    // The bytes that arrived are no reply, so there is no late reply to wait for.
    let error = Error::protocol("a length below zero");
    world.check_in(exchange, Outcome::Failed(error));
    assert!(world.closed.contains(&socket) && world.draining.is_empty());
}

#[test]
fn a_single_threaded_client_closes_the_connection_of_an_abandoned_exchange() {
    let options = uri::parse_for(URI, Monitoring::Scanning).expect("a URI");
    let mut world = World::with_options(options.options, primary(), Subscriptions::all());
    let (exchange, socket, _) = sent(&mut world, ping());
    world.check_in(exchange, Outcome::Abandoned);
    assert!(world.closed.contains(&socket) && world.draining.is_empty());
}

#[test]
fn closing_the_client_closes_draining_connections() {
    for is_closed_first in [false, true] {
        let mut world = world();
        let (exchange, socket, id) = sent(&mut world, ping());
        if is_closed_first {
            world.client.close(world.now);
        }
        world.check_in(exchange, Outcome::Abandoned);
        world.client.close(world.now);
        world.run();
        assert!(world.closed.contains(&socket));
        assert!(world.client.is_terminated() && draining(&world.client).is_empty());
        assert_eq!(world.client.deadline(), None);
        assert_eq!(
            receive(&mut world, socket, &reply_to(id)),
            SocketUse::Closed
        );
    }
}

#[test]
fn the_session_of_an_abandoned_exchange_is_not_reused_after_draining() {
    let mut world = world();
    let (exchange, socket, id) = sent(&mut world, ping());
    let session = exchange.operation.request.lsid;
    world.check_in(exchange, Outcome::Abandoned);
    receive(&mut world, socket, &reply_to(id));
    let next = world.begin_exchange(ping());
    assert_eq!(next.socket(), socket);
    assert_ne!(next.operation.request.lsid, session);
}

#[test]
fn an_exchange_that_exceeds_its_deadline_fails_with_a_timeout() {
    let mut world = world();
    let mut command = ping();
    command.set_timeout(Some(Duration::from_millis(10)));
    let (exchange, _, _) = sent(&mut world, command);
    world.wait(Duration::from_millis(10));
    let AfterExchange::Done(Err(error)) = world.check_in(exchange, timed_out()) else {
        panic!("its time is over");
    };
    assert!(matches!(error.kind(), ErrorKind::Timeout { .. }), "{error}");
}

/// Returns the `killCursors` that the client runs after this late reply to a command was dropped.
fn kill_after(command: Command, pieces: usize, reply: &RawDocument) -> Option<RawDocumentBuf> {
    let mut world = world();
    let (mut exchange, socket, id) = sent(&mut world, command);
    let reply = reply_with(id, reply);
    if pieces == 0 {
        // The reply has arrived but was not read by the exchange.
        let (head, tail) = reply.split_at(reply.len() - 1);
        exchange.input().expect("room")[..head.len()].copy_from_slice(head);
        exchange.received(head.len()).expect("a part of the reply");
        world.check_in(exchange, Outcome::Abandoned);
        receive(&mut world, socket, tail);
    } else {
        world.check_in(exchange, Outcome::Abandoned);
        for piece in reply.chunks(reply.len().div_ceil(pieces)) {
            assert!(world.background.is_empty(), "the reply is not complete");
            receive(&mut world, socket, piece);
        }
    }
    assert!(world.closed.is_empty(), "{:?}", world.closed);
    let kill = world.background.pop()?;
    assert!(world.background.is_empty());
    let exchange = world.begin_exchange(kill);
    let header = exchange.output();
    let message = Message::decode(header).expect("a message");
    assert_eq!(exchange.facts().address.host(), "a");
    Some(message.body.to_owned())
}

fn find() -> Command {
    let mut command = Command::new("find", "db", CommandKind::Read);
    command.body().str("find", "c");
    command
}

#[test]
fn the_cursor_that_a_late_reply_opens_is_closed() {
    let opened = rawdoc! {
        "cursor": { "firstBatch": [{ "a": 1 }], "id": 7_i64, "ns": "db.c.d" }, "ok": 1,
    };
    for pieces in [0, 1, 2, 50] {
        let kill = kill_after(find(), pieces, &opened).expect("the cursor is closed");
        let kill = Document::try_from(kill).expect("valid BSON");
        let expected = bson::doc! { "killCursors": "c.d", "cursors": [7_i64], "$db": "db" };
        // The session of the find is not used again.
        for key in ["killCursors", "cursors", "$db", "lsid"] {
            assert_eq!(kill.get(key), expected.get(key), "after {pieces} pieces");
        }
    }
}

#[test]
fn the_late_reply_to_a_get_more_of_the_application_leaves_its_cursor_open() {
    let batch = rawdoc! {
        "cursor": { "nextBatch": [], "id": 7_i64, "ns": "db.c" }, "ok": 1,
    };
    let mut get_more = Command::new("getMore", "db", CommandKind::Run);
    get_more.body().str("collection", "c");
    assert_eq!(kill_after(get_more, 1, &batch), None);
}

#[test]
fn a_late_reply_that_opens_no_cursor_is_only_dropped() {
    let text = "x".repeat(2 << 20);
    for reply in [
        rawdoc! { "ok": 1 },
        rawdoc! { "ok": 0, "code": 59, "errmsg": "no" },
        rawdoc! { "cursor": 5, "ok": 1 },
        rawdoc! { "cursor": { "firstBatch": [], "id": 0_i64, "ns": "db.c" }, "ok": 1 },
        rawdoc! { "cursor": { "firstBatch": [], "id": "7", "ns": "db.c" }, "ok": 1 },
        rawdoc! { "cursor": { "firstBatch": [], "id": 7_i64 }, "ok": 1 },
        rawdoc! { "cursor": { "firstBatch": [], "id": 7_i64, "ns": "x".repeat(2000) }, "ok": 1 },
        // Large replies are dropped as they arrive.
        rawdoc! { "cursor": { "firstBatch": [{ "a": text }], "id": 7_i64, "ns": "db.c" }, "ok": 1 },
    ] {
        assert_eq!(kill_after(find(), 1, &reply), None);
        assert_eq!(kill_after(find(), 9, &reply), None);
    }
    // The cursor of a `getMore` has an owner, who closes it.
    let mut more = Command::new("getMore", "db", CommandKind::CursorFollowUp);
    more.body().i64("getMore", 7).str("collection", "c");
    let next = rawdoc! { "cursor": { "nextBatch": [], "id": 7_i64, "ns": "db.c" }, "ok": 1 };
    assert_eq!(kill_after(more, 1, &next), None);
}

#[test]
fn a_closed_client_closes_no_cursor_of_a_late_reply() {
    let mut world = world();
    let (exchange, socket, id) = sent(&mut world, find());
    world.check_in(exchange, Outcome::Abandoned);
    world.client.close(world.now);
    let opened = rawdoc! { "cursor": { "firstBatch": [], "id": 7_i64, "ns": "db.c" }, "ok": 1 };
    receive(&mut world, socket, &reply_with(id, &opened));
    assert!(world.background.is_empty());
}
