//! The times of checks and the commands that they send (Server Monitoring, table C.2).

use super::{
    Bench, MonitorConnectionId, PING, command, options, polled, reset, standalone, streamed,
    versioned,
};
use crate::{description::ServerType, hello::HelloAnswer, sdam::Timer};
use bson::rawdoc;
use std::time::Duration;

#[test]
fn a_polled_check_begins_heartbeat_frequency_after_the_last_one() {
    // The handshake is the first check (MON-19). Each later check begins `heartbeatFrequencyMS`
    // after the end of the one before (MON-16, MON-55).
    let mut bench = polled();
    assert_eq!(bench.orders(), ["publish", "open 1 to a:1"]);
    bench.pass(3);
    bench.connected(1, &standalone());
    assert_eq!(
        bench.orders(),
        ["create pool of a:1", "ready pool of server#1", "publish"]
    );
    assert_eq!(bench.sleeps(), Some(10_000));
    bench.pass(9_999);
    assert_eq!(bench.orders(), [""; 0]);
    bench.pass(1);
    assert_eq!(bench.orders(), ["hello on 1"]);
    bench.pass(2);
    bench.reply(1, &standalone(), false);
    assert_eq!(bench.orders(), ["publish"]);
    assert_eq!(bench.sleeps(), Some(10_000));
}

#[test]
fn checks_use_legacy_hello_until_the_server_reports_hello_ok() {
    // With a server API version, checks use `hello` (MON-6). Otherwise checks use `hello` after a
    // reply with `helloOk: true`, and legacy hello after a reply without it (MON-7, MON-8,
    // HELLO-5).
    for (declared, hello_ok, expected) in [
        (false, false, "legacy hello on 1"),
        (false, true, "hello on 1"),
        (true, false, "hello on 1"),
    ] {
        let mut bench = Bench::seeds(&["a:1"], |options| {
            options.subscribed = false;
            options.legacy_hello = !declared;
        });
        bench.connected(1, &rawdoc! { "ok": 1, "helloOk": hello_ok });
        bench.orders();
        bench.pass(10_000);
        assert_eq!(bench.orders(), [expected]);
    }
}

#[test]
fn a_topology_version_starts_streaming_and_round_trip_measurements() {
    // A `topologyVersion` in the reply starts the streaming protocol (MON-20): an awaitable `hello`
    // (MON-34, MON-35) and a connection that measures the round trip time (MON-45).
    let mut bench = streamed();
    bench.connected(1, &versioned(1));
    assert_eq!(
        bench.orders(),
        [
            "publish",
            "open 1 to a:1",
            "create pool of a:1",
            "ready pool of server#1",
            "publish",
            "measure 2 to a:1",
            "hello on 1 after 1 within 10000",
        ]
    );
    // Streamed replies need no request (MON-39); after the last one the monitor sends a new
    // awaitable `hello` (MON-40).
    bench.reply(1, &versioned(2), true);
    assert_eq!(bench.orders(), ["publish"]);
    bench.reply(1, &versioned(3), false);
    assert_eq!(
        bench.orders(),
        ["publish", "hello on 1 after 3 within 10000"]
    );
    // After a reply without `topologyVersion` the monitor polls, and the connection that measures
    // is closed (MON-42).
    bench.reply(1, &standalone(), false);
    assert_eq!(bench.orders(), ["publish", "close 2"]);
    assert_eq!(
        bench.sdam.deadline_reason(),
        Some(Timer::Heartbeat(bench.id("a:1")))
    );
}

#[test]
fn round_trip_measurements_do_not_change_the_server_description() {
    // A measurement every `heartbeatFrequencyMS` (MON-70) changes no description itself (MON-48),
    // but the description made from the next streamed reply has the measured round trip times
    // (MON-50). Streamed replies are no samples (MON-47, SEL-56).
    let mut bench = streamed();
    bench.connected(1, &versioned(1));
    bench.orders();
    let version = bench.sdam.version();
    let measured = Duration::from_millis(11);
    bench.sdam.handle_connected(
        bench.now,
        MonitorConnectionId(2),
        HelloAnswer::new(standalone()),
        measured,
    );
    assert_eq!(bench.sdam.version(), version);
    bench.pass(10_000);
    assert_eq!(bench.orders(), ["hello on 2"]);
    bench.failed(2);
    assert_eq!(bench.orders(), ["close 2"]);
    assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
    // The duration of the awaited reply does not count. The average comes from the samples of 1 ms
    // and 11 ms.
    bench.reply(1, &versioned(1), true);
    let server = bench
        .sdam
        .server(bench.id("a:1"))
        .cloned()
        .expect("it is there");
    assert_eq!(server.round_trip_time, Some(Duration::from_millis(3)));
    assert_eq!(server.min_round_trip_time, PING);
    bench.orders();
    bench.pass(10_000);
    assert_eq!(bench.orders(), ["measure 3 to a:1"]);
    // A measurement that exceeds its limit closes its connection (timer T-5).
    bench.pass(10_000);
    assert!(bench.orders().contains(&"close 3".to_owned()));
}

#[test]
fn the_limit_of_an_awaited_check_includes_heartbeat_frequency() {
    // A check has the limit `connectTimeoutMS` (MON-43). An awaited reply has this limit plus
    // `heartbeatFrequencyMS` (MON-44, timer T-3).
    for (connect_timeout, handshake, awaited) in [
        (Some(2_000), Some(2_000), Some(12_000)),
        (None, None, None),
        (Some(0), None, None),
    ] {
        let mut options = options(&["a:1"]);
        options.connect_timeout = connect_timeout.map(Duration::from_millis);
        let mut bench = Bench::new(options);
        assert_eq!(bench.sleeps(), handshake);
        bench.connected(1, &versioned(1));
        bench.connected(2, &standalone());
        bench.orders();
        // The next measurement is due before the time limit of the awaited reply ends.
        assert_eq!(bench.sleeps(), Some(10_000));
        if let Some(awaited) = awaited {
            bench.pass(10_000);
            bench.reply(2, &standalone(), false);
            assert_eq!(bench.sleeps(), Some(awaited - 10_000));
        }
    }
}

#[test]
fn a_known_server_is_rechecked_once_after_a_network_error() {
    // After a network error of a known server the next check follows at once (MON-62, MON-66). The
    // pool is cleared without interruption (MON-64). After the second error the monitor waits
    // (MON-67).
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.pass(10_000);
    bench.orders();
    bench.failed(1);
    assert_eq!(
        bench.orders(),
        ["close 1", "clear pool", "publish", "open 2 to a:1"]
    );
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
    bench.failed(2);
    assert_eq!(bench.orders(), ["close 2", "clear pool", "publish"]);
    assert_eq!(bench.sleeps(), Some(10_000));
}

#[test]
fn a_check_timeout_interrupts_connections_in_use() {
    // After a timeout, the clear interrupts connections in use (MON-63).
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.pass(10_000);
    bench.orders();
    bench.pass(10_000);
    assert_eq!(
        bench.orders(),
        [
            "close 1",
            "clear pool, interrupting",
            "publish",
            "open 2 to a:1"
        ]
    );
}

#[test]
fn a_check_with_an_error_reply_is_not_retried_at_once() {
    // A reply with `ok: 0` closes the connection (MON-38), and no immediate retry follows (C.5,
    // trap 3).
    let mut bench = streamed();
    bench.connected(1, &versioned(1));
    bench.orders();
    bench.reply(1, &rawdoc! { "ok": 0, "code": 1, "errmsg": "no" }, false);
    assert_eq!(
        bench.orders(),
        ["close 1", "close 2", "clear pool", "publish"]
    );
    assert_eq!(bench.sleeps(), Some(10_000));
    let server = bench
        .sdam
        .server(bench.id("a:1"))
        .cloned()
        .expect("it is there");
    assert_eq!(
        server.error,
        Some(command(1)).map(|e| super::super::stored_error::without_reply(&e))
    );
    assert_eq!(server.round_trip_time, None);
}

#[test]
fn a_requested_check_begins_at_least_500_ms_after_the_last_check() {
    // A requested check begins 500 ms after the end of the last check at the earliest (MON-17,
    // MON-31).
    for (waited, expected) in [(0, 500), (100, 400), (499, 1)] {
        let mut bench = polled();
        bench.connected(1, &standalone());
        bench.orders();
        bench.pass(waited);
        bench.sdam.request_check(bench.now);
        bench.sdam.request_check(bench.now);
        assert_eq!(bench.orders(), [""; 0]);
        assert_eq!(bench.sleeps(), Some(expected));
        bench.pass(expected);
        assert_eq!(bench.orders(), ["hello on 1"]);
    }
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.orders();
    bench.pass(500);
    bench.sdam.request_check(bench.now);
    assert_eq!(bench.orders(), ["hello on 1"]);
}

#[test]
fn a_check_requested_during_a_check_is_ignored() {
    // A request during a check is dropped (C.5, trap 1).
    let mut bench = polled();
    bench.sdam.request_check(bench.now);
    bench.connected(1, &standalone());
    assert_eq!(bench.sleeps(), Some(10_000));
}

#[test]
fn while_operations_wait_a_server_is_checked_every_500_ms() {
    // While operations wait, a server that cannot be reached is checked every 500 ms (SDAM-119;
    // E.6-8).
    let mut bench = polled();
    bench.failed(1);
    bench.orders();
    assert_eq!(bench.sleeps(), Some(10_000));
    bench.sdam.set_waiting(bench.now, true);
    let mut checks = 0;
    for _ in 0..10 {
        bench.pass(500);
        for order in bench.orders() {
            if let Some(rest) = order.strip_prefix("open ") {
                checks += 1;
                let number = rest.split(' ').next().and_then(|n| n.parse().ok());
                bench.failed(number.expect("a number"));
            }
        }
    }
    assert_eq!(checks, 10);
    bench.sdam.set_waiting(bench.now, false);
    bench.pass(500);
    bench.orders();
    assert_eq!(
        bench.sdam.deadline_reason(),
        Some(Timer::Heartbeat(bench.id("a:1")))
    );
}

#[test]
fn a_broken_idle_monitor_connection_does_not_make_its_server_unknown() {
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.orders();
    bench
        .sdam
        .handle_failed(bench.now, MonitorConnectionId(1), reset());
    assert_eq!(bench.orders(), ["close 1"]);
    assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
    bench.pass(10_000);
    assert_eq!(bench.orders(), ["open 2 to a:1"]);
}

#[test]
fn unexpected_monitor_replies_are_ignored_or_close_the_connection() {
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.orders();
    // A reply between two checks changes nothing.
    bench.reply(1, &standalone(), false);
    assert_eq!(bench.orders(), [""; 0]);
    // A reply with `moreToCome` to a plain `hello` is an error.
    bench.pass(10_000);
    bench.reply(1, &standalone(), true);
    assert_eq!(
        bench.orders(),
        ["hello on 1", "close 1", "clear pool", "publish"]
    );
}

#[test]
fn a_server_that_breaks_each_check_is_checked_at_a_bounded_rate() {
    // A known server is retried at once after a network error. A server that answers each handshake
    // and breaks each later check still does not cause a tight loop (MON-31, MON-66; E.6, property
    // 2).
    let mut bench = streamed();
    let mut opened = 0;
    let mut last = 1;
    for _ in 0..1_000 {
        bench.connected(last, &versioned(1));
        bench.failed(last);
        bench.pass(10);
        for order in bench.orders() {
            if let Some(rest) = order.strip_prefix("open ") {
                opened += 1;
                last = rest
                    .split(' ')
                    .next()
                    .expect("a number")
                    .parse()
                    .expect("one");
            }
        }
    }
    // In ten seconds there are the first check and at most two checks per 500 ms.
    assert!((20..=41).contains(&opened), "{opened}");
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
}

#[test]
fn after_a_freeze_received_replies_are_handled_before_timeouts() {
    // After the process was frozen, monitors continue without a backlog, and a healthy server stays
    // known (scenario 14).
    let mut bench = streamed();
    bench.connected(1, &versioned(1));
    bench.connected(2, &standalone());
    bench.orders();
    bench.pass(3_600_000);
    // One measurement takes the place of all that were missed.
    assert_eq!(bench.orders(), ["hello on 2"]);
    assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
    bench.reply(1, &versioned(1), true);
    assert_eq!(bench.orders(), ["publish"]);
    assert_eq!(
        bench.sleeps(),
        Some(10_000),
        "the next limit of the measurement"
    );
    // Without a reply, the check fails once, 500 ms after the process runs again.
    bench.reply(2, &standalone(), false);
    bench.pass(3_600_000);
    bench.orders();
    assert_eq!(bench.sleeps(), Some(500));
    bench.pass(500);
    let orders = bench.orders();
    assert!(
        orders.contains(&"clear pool, interrupting".to_owned()),
        "{orders:?}"
    );
    assert_eq!(orders.iter().filter(|o| o.starts_with("open")).count(), 1);
}

#[test]
fn a_check_request_never_postpones_a_scheduled_check() {
    // A retry is due 500 ms after the last retry. A request does not postpone this retry to 500 ms
    // after the end of the last check (MON-17).
    let mut bench = streamed();
    bench.connected(1, &versioned(1));
    bench.failed(1);
    bench.pass(10);
    // The second connection measures the round trip time; the third one replaces the first, which
    // broke.
    bench.connected(3, &versioned(1));
    bench.failed(3);
    assert_eq!(bench.sleeps(), Some(490));
    bench.sdam.request_check(bench.now);
    assert_eq!(bench.sleeps(), Some(490));
}
