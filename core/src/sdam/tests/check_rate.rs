//! Tests that a server does not decide how much work the client does, for example by early replies
//! or by replies that name new members.

use super::{Bench, PING, reset, standalone, streamed, versioned};
use crate::{
    description::ServerType,
    hello::HelloAnswer,
    hello::MAX_MEMBERS,
    sdam::{MAX_EARLY_REPLIES, MAX_SERVERS, MonitorConnectionId, MonitorTask, Order, Timer},
};
use bson::RawDocumentBuf;

/// The way in which a server answers an awaited check.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ServerBehaviour {
    /// The reply comes at once, without `moreToCome`.
    AtOnce,
    /// The reply comes at once, and further replies are streamed at once.
    StreamsAtOnce,
    /// `AtOnce` and `StreamsAtOnce` in turn.
    Alternates,
    /// The connection breaks.
    BreaksConnection,
    /// The reply comes at once, without `topologyVersion`, so that the monitor polls.
    OmitsTopologyVersion,
}

/// The work of a client for one server.
#[derive(Debug, Default)]
struct Work {
    /// The number of opened connections, including those that measure the round trip time.
    opened: u32,
    /// The number of `hello` commands on open connections.
    sent: u32,
    /// The number of handshakes for checks that got a reply, plus the number of awaited checks that
    /// ended with a reply or a broken connection.
    processed: u32,
}

/// Runs a client for `millis` milliseconds against a server that answers each millisecond.
/// `version` gives the counter of the `topologyVersion` in each reply.
fn run_against_server(
    millis: u32,
    server_behaviour: ServerBehaviour,
    version: impl Fn(u32) -> i64,
    waiting: bool,
) -> Work {
    let mut bench = streamed();
    bench.sdam.set_waiting(bench.now, waiting);
    let mut work = Work::default();
    let mut due: Vec<(MonitorConnectionId, bool, bool)> = Vec::new();
    for turn in 0..millis {
        while let Some(order) = bench.sdam.poll_order() {
            match order {
                Order::Open {
                    connection, task, ..
                } => {
                    work.opened += 1;
                    due.push((connection, false, task == MonitorTask::Check));
                }
                Order::SendHello {
                    connection,
                    awaitable,
                    ..
                } => {
                    work.sent += 1;
                    due.retain(|(other, ..)| *other != connection);
                    due.push((connection, true, awaitable.is_some()));
                }
                Order::Close { connection } => due.retain(|(other, ..)| *other != connection),
                _ => {}
            }
        }
        let reply = versioned(version(turn));
        for (connection, open, checks) in std::mem::take(&mut due) {
            work.processed += u32::from(checks);
            if !open {
                bench.sdam.handle_connected(
                    bench.now,
                    connection,
                    HelloAnswer::new(reply.to_owned()),
                    PING,
                );
                continue;
            }
            let pushes = match server_behaviour {
                ServerBehaviour::StreamsAtOnce => checks,
                ServerBehaviour::Alternates => checks && turn % 2 == 0,
                ServerBehaviour::AtOnce
                | ServerBehaviour::BreaksConnection
                | ServerBehaviour::OmitsTopologyVersion => false,
            };
            match server_behaviour {
                ServerBehaviour::BreaksConnection if checks => {
                    bench.sdam.handle_failed(bench.now, connection, reset())
                }
                ServerBehaviour::OmitsTopologyVersion if checks => {
                    answer(&mut bench, connection, &standalone(), false)
                }
                _ => answer(&mut bench, connection, &reply, pushes),
            }
            if pushes {
                due.push((connection, true, true));
            }
        }
        bench.pass(1);
    }
    work
}

fn answer(
    bench: &mut Bench,
    connection: MonitorConnectionId,
    reply: &RawDocumentBuf,
    more_to_come: bool,
) {
    bench.sdam.handle_reply(
        bench.now,
        connection,
        HelloAnswer::new(reply.to_owned()),
        PING,
        more_to_come,
    );
}

#[test]
fn the_work_of_a_monitor_is_bounded_for_every_server_behaviour() {
    // No behaviour of the server makes the work of 20 seconds exceed the bound (MON-31; E.6,
    // property 2).
    type Versions = fn(u32) -> i64;
    let versions: [(&str, Versions); 4] = [
        ("equal", |_| 1),
        ("growing", i64::from),
        ("falling", |turn| -i64::from(turn)),
        ("alternating", |turn| i64::from(turn % 2)),
    ];
    for server_behaviour in [
        ServerBehaviour::AtOnce,
        ServerBehaviour::StreamsAtOnce,
        ServerBehaviour::Alternates,
        ServerBehaviour::BreaksConnection,
        ServerBehaviour::OmitsTopologyVersion,
    ] {
        for (name, version) in versions {
            for waiting in [false, true] {
                let work = run_against_server(20_000, server_behaviour, version, waiting);
                // There are 40 intervals of 500 ms. Each allows a check and its retry (MON-66),
                // both on a new connection with another one that measures. The token bucket allows
                // `MAX_EARLY_REPLIES` further checks.
                let bound = 4 * (40 + MAX_EARLY_REPLIES);
                let case =
                    format!("{server_behaviour:?}, {name} versions, waiting: {waiting}: {work:?}");
                assert!(work.processed <= bound, "{case}");
                assert!(work.sent <= bound, "{case}");
                assert!(work.opened <= bound, "{case}");
                assert!(work.processed >= 3, "the server is watched: {case}");
            }
        }
    }
}

#[test]
fn early_replies_start_the_next_check_at_once_while_there_are_tokens() {
    // After an early reply the next awaited check begins at once (MON-40, MON-56), until the token
    // bucket is empty.
    let mut bench = streamed();
    bench.connected(1, &versioned(0));
    bench.orders();
    for n in 1..=10 {
        bench.pass(1);
        bench.reply(1, &versioned(n), false);
        let expected = format!("hello on 1 after {n} within 10000");
        assert_eq!(bench.orders(), ["publish", &expected]);
    }
    bench.pass(1);
    bench.reply(1, &versioned(11), false);
    // The reply is handled at once; only the next check waits.
    assert_eq!(bench.orders(), ["publish"]);
    assert_eq!(bench.sleeps(), Some(500));
    assert_eq!(
        bench.sdam.deadline_reason(),
        Some(Timer::Heartbeat(bench.id("a:1")))
    );
    bench.pass(500);
    assert_eq!(bench.orders(), ["hello on 1 after 11 within 10000"]);
    // After 6 s without early replies, the token bucket is full again.
    bench.pass(6_000);
    bench.reply(1, &versioned(12), false);
    bench.orders();
    for n in 13..=22 {
        bench.reply(1, &versioned(n), false);
        assert_eq!(bench.orders().len(), 2, "{n}");
    }
}

#[test]
fn replies_at_the_heartbeat_frequency_do_not_use_up_the_tokens() {
    // The server replies after `maxAwaitTimeMS`, which is `heartbeatFrequencyMS` (MON-35), here the
    // smallest value of 500 ms.
    for more_to_come in [false, true] {
        let mut bench = Bench::seeds(&["a:1"], |options| {
            options.subscribed = false;
            options.heartbeat_frequency = super::super::MIN_HEARTBEAT_FREQUENCY;
        });
        bench.connected(1, &versioned(1));
        for _ in 0..100 {
            bench.pass(500);
            bench.orders();
            bench.reply(1, &versioned(1), more_to_come);
            let orders = bench.orders();
            assert!(!orders.contains(&"close 1".to_owned()), "{orders:?}");
            let asks = orders.iter().any(|order| order.starts_with("hello on 1"));
            assert_eq!(asks, !more_to_come, "{orders:?}");
        }
    }
}

#[test]
fn a_stream_of_too_many_early_replies_is_closed_and_the_server_stays_known() {
    // Each streamed reply is handled (MON-37), and the next one is awaited (MON-39), until the
    // token bucket is empty.
    let mut bench = streamed();
    bench.connected(1, &versioned(0));
    bench.connected(2, &standalone());
    bench.orders();
    for n in 1..=10 {
        bench.reply(1, &versioned(n), true);
        assert_eq!(bench.orders(), ["publish"]);
    }
    bench.reply(1, &versioned(11), true);
    assert_eq!(bench.orders(), ["publish", "close 1"]);
    // Replies that were still in the socket of the closed connection change nothing.
    let version = bench.sdam.version();
    for n in 12..10_000 {
        bench.reply(1, &versioned(n), true);
    }
    assert_eq!(bench.sdam.version(), version);
    assert_eq!(bench.orders(), [""; 0]);
    assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
    // The connection that measures the round trip time stays open, so the next check opens only its
    // own.
    assert_eq!(bench.sleeps(), Some(500));
    bench.pass(500);
    assert_eq!(bench.orders(), ["open 3 to a:1"]);
    bench.connected(3, &versioned(9_999));
    assert_eq!(
        bench.orders(),
        ["publish", "hello on 3 after 9999 within 10000"]
    );
}

#[test]
fn replies_streamed_during_a_freeze_close_only_one_connection() {
    let mut bench = streamed();
    bench.connected(1, &versioned(0));
    bench.connected(2, &standalone());
    bench.pass(3_600_000);
    bench.reply(2, &standalone(), false);
    bench.orders();
    // The socket contains one streamed reply for each 10 s of the pause.
    for _ in 0..360 {
        bench.reply(1, &versioned(0), true);
    }
    let orders = bench.orders();
    let closed = orders.iter().filter(|order| *order == "close 1");
    assert_eq!(closed.count(), 1, "{orders:?}");
    let cleared = orders.iter().any(|order| order.starts_with("clear"));
    assert!(!cleared, "{orders:?}");
    assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
}

#[test]
fn a_check_requested_without_tokens_is_not_awaited() {
    // A requested check (MON-17) is a plain `hello`, since the server can hold back the reply to an
    // awaited one for `maxAwaitTimeMS`.
    let mut bench = streamed();
    bench.connected(1, &versioned(0));
    for _ in 0..11 {
        bench.reply(1, &versioned(1), false);
    }
    bench.orders();
    bench.pass(100);
    bench.sdam.request_check(bench.now);
    assert_eq!(bench.sleeps(), Some(400));
    bench.pass(400);
    assert_eq!(bench.orders(), ["hello on 1"]);
    bench.reply(1, &versioned(1), false);
    assert_eq!(
        bench.orders(),
        ["publish", "hello on 1 after 1 within 10000"]
    );
}

#[test]
fn a_network_error_without_tokens_closes_the_connection() {
    // The connection is closed (MON-59), and the next check begins 500 ms after the end of the last
    // one (MON-31).
    let mut bench = streamed();
    bench.connected(1, &versioned(0));
    for _ in 0..11 {
        bench.reply(1, &versioned(1), false);
    }
    bench.orders();
    bench.pass(100);
    bench.application_error("a:1", super::Phase::Operation, reset());
    assert_eq!(
        bench.orders(),
        ["clear pool", "publish", "close 1", "close 2"]
    );
    assert_eq!(bench.sleeps(), Some(400));
    bench.pass(400);
    assert_eq!(bench.orders(), ["open 3 to a:1"]);
}

/// Each of four addresses replies that it is a newer primary, and that the next address is the only
/// other member. So each check after the first removes one server and adds another.
#[test]
fn members_removed_and_added_in_turn_are_checked_at_a_bounded_rate() {
    // A new server is checked at once (MON-12), but not more often than the token bucket allows
    // (MON-31).
    let mut bench = Bench::seeds(&["m0:1"], |options| {
        options.streaming = false;
        options.subscribed = false;
    });
    let mut opened = 0;
    let mut due = Vec::new();
    for turn in 0..20_000_u32 {
        while let Some(order) = bench.sdam.poll_order() {
            match order {
                Order::Open {
                    connection,
                    address,
                    ..
                } => {
                    opened += 1;
                    due.push((connection, address));
                }
                Order::Close { connection } => due.retain(|(other, _)| *other != connection),
                _ => {}
            }
        }
        for (connection, address) in std::mem::take(&mut due) {
            let host = address.host();
            let number: u32 = host[1..].parse().expect("a number");
            let reply = bson::rawdoc! {
                "ok": 1, "maxWireVersion": 21, "setName": "rs", "isWritablePrimary": true,
                "setVersion": i64::from(turn),
                "electionId": election(turn),
                "hosts": [address.to_string(), format!("m{}:1", (number + 1) % 4)],
            };
            bench.sdam.handle_connected(
                bench.now,
                connection,
                HelloAnswer::new(reply.to_owned()),
                PING,
            );
        }
        bench.pass(1);
    }
    // The bucket holds one token per server of the largest topology, and gains one every 500 ms.
    let bound = u32::try_from(MAX_SERVERS).expect("small") + 40;
    assert!(opened <= bound, "{opened}");
    assert!(opened >= 40, "{opened}");
}

#[test]
fn members_that_change_with_each_reply_are_dialled_at_a_bounded_rate() {
    // Each streamed reply of a primary names 255 new members, which would all be checked at once
    // without the token bucket (MON-12).
    let mut bench = streamed_set();
    let mut dialled = 0;
    let mut last = 1;
    let mut open = false;
    for turn in 0..2_000_u32 {
        while let Some(order) = bench.sdam.poll_order() {
            if let Order::Open {
                connection,
                address,
                task,
                ..
            } = order
            {
                dialled += 1;
                if address.host() == "a" && task == MonitorTask::Check {
                    (last, open) = (connection.0, false);
                }
            }
        }
        let mut hosts = vec!["a:1".to_owned()];
        hosts.extend((1..MAX_SERVERS).map(|n| format!("t{turn}n{n}:1")));
        let hosts: bson::RawArrayBuf = hosts.into_iter().collect();
        let reply = bson::rawdoc! {
            "ok": 1, "helloOk": true, "maxWireVersion": 21, "setName": "rs",
            "isWritablePrimary": true, "hosts": hosts,
            "topologyVersion": {
                "processId": bson::oid::ObjectId::from_bytes([1; 12]), "counter": i64::from(turn),
            },
        };
        if open {
            bench.reply(last, &reply, true);
        } else {
            bench.connected(last, &reply);
            open = true;
        }
        bench.pass(10);
    }
    // The bound is the size of the token bucket, one token per 500 ms, and two connections to the
    // primary itself per 500 ms.
    let bound = u32::try_from(MAX_SERVERS).expect("small") + 40 + 2 * 40;
    assert!(dialled <= bound, "{dialled}");
}

#[test]
fn a_new_server_without_a_token_is_checked_after_500_ms_if_an_operation_waits() {
    // New servers without a token are checked 500 ms after they were added, if an operation waits
    // (MON-17, SDAM-119).
    let mut bench = streamed_set();
    let reply = |turn: usize| {
        let others = (0..100).map(|n| format!("t{turn}n{n}:1"));
        let hosts: bson::RawArrayBuf = std::iter::once("a:1".to_owned()).chain(others).collect();
        bson::rawdoc! {
            "ok": 1, "helloOk": true, "maxWireVersion": 21, "setName": "rs",
            "isWritablePrimary": true, "hosts": hosts,
            "topologyVersion": {
                "processId": bson::oid::ObjectId::from_bytes([1; 12]), "counter": turn as i64,
            },
        }
    };
    // Each check of a new server fails, so that the next server has its turn.
    let dials = |bench: &mut Bench| {
        let mut count = 0;
        while let Some(order) = bench.poll() {
            if let Order::Open {
                connection,
                task: MonitorTask::Check,
                ..
            } = order
            {
                count += 1;
                bench.sdam.handle_failed(bench.now, connection, reset());
                bench.pass(0);
            }
        }
        count
    };
    let mut first = 0;
    bench.orders();
    bench.connected(1, &reply(0));
    for turn in 1..8 {
        first += dials(&mut bench);
        bench.reply(1, &reply(turn), true);
    }
    first += dials(&mut bench);
    assert_eq!(first, MAX_SERVERS);
    bench.sdam.set_waiting(bench.now, true);
    bench.pass(499);
    assert_eq!(dials(&mut bench), 0);
    bench.pass(1);
    // These are the servers of the last reply: those that failed, and those without a token.
    assert_eq!(dials(&mut bench), MAX_MEMBERS - 1);
}

/// Returns a machine with one seed, which uses the streaming protocol and emits no events.
fn streamed_set() -> Bench {
    Bench::seeds(&["a:1"], |options| options.subscribed = false)
}

fn election(term: u32) -> bson::oid::ObjectId {
    let mut bytes = [0; 12];
    bytes[8..].copy_from_slice(&term.to_be_bytes());
    bson::oid::ObjectId::from_bytes(bytes)
}
