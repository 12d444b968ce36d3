//! The events of discovery and their order (SDAM Logging and Monitoring).

use super::{Bench, Order, PING, Phase, member, options, reset, standalone, versioned};
use crate::event::SdamEvent;
use bson::rawdoc;
use std::time::Duration;

#[test]
fn the_start_of_monitoring_emits_its_events_in_order() {
    // The events at the start have this order (EVT-37): topology opening, the topology description
    // change (B.5, trap 1), then the server openings (B.5, trap 2). The connection id is allotted
    // before the connection opens (B.5, trap 6).
    let mut bench = Bench::new(options(&["b:1", "a:1", "b:1"]));
    assert_eq!(
        bench.orders(),
        [
            "publish",
            "topology opens",
            "topology Unknown to Unknown",
            "b:1 opens",
            "a:1 opens",
            "started 1 (None)",
            "open 1 to b:1",
            "started 2 (None)",
            "open 2 to a:1",
        ]
    );
}

#[test]
fn a_check_updates_pools_then_emits_events_then_starts_checks() {
    // The order is: the pool, the events of the change (EVT-38), the monitor of the new server
    // (table E.5). The pool is ready before the description is published (MON-61). The succeeded
    // event has the server's connection id (B.5, trap 7).
    let mut bench = Bench::new(options(&["a:1", "c:1"]));
    bench.orders();
    let mut reply = member(true, "a:1");
    reply.append(bson::cstr!("connectionId"), 7);
    bench.connected(1, &reply);
    assert_eq!(
        bench.orders(),
        [
            "succeeded 1 (Some(7))",
            "create pool of a:1",
            "ready pool of server#1",
            "failed 2",
            "close 2",
            "publish",
            "a:1 Unknown to RSPrimary",
            "b:1 opens",
            "c:1 closed",
            "topology Unknown to ReplicaSetWithPrimary",
            "started 3 (None)",
            "open 3 to b:1",
        ]
    );
}

#[test]
fn an_old_primary_emits_a_change_event_and_is_checked_at_once() {
    // The old primary has its own server description change event (B.5, trap 10). The old primary
    // is checked at once (SDAM-74), and its pool is not cleared (SDAM-75).
    let mut bench = Bench::new(options(&["a:1", "b:1"]));
    bench.connected(1, &member(true, "a:1"));
    bench.pass(600);
    bench.orders();
    bench.connected(2, &member(true, "b:1"));
    assert_eq!(
        bench.orders(),
        [
            "succeeded 2 (None)",
            "create pool of b:1",
            "ready pool of server#2",
            "publish",
            "b:1 Unknown to RSPrimary",
            "a:1 RSPrimary to Unknown",
            "topology ReplicaSetWithPrimary to ReplicaSetWithPrimary",
            "started 1 (None)",
            "hello on 1",
        ]
    );
}

#[test]
fn each_streamed_reply_emits_its_own_heartbeat_events() {
    // A heartbeat started event comes before each read of a streamed reply (EVT-6), with `awaited`
    // true (EVT-23).
    let mut bench = Bench::new(options(&["a:1"]));
    bench.connected(1, &versioned(1));
    bench.orders();
    bench.reply(1, &versioned(2), true);
    assert_eq!(
        bench.orders(),
        [
            "succeeded 1 (None), awaited",
            "publish",
            "a:1 Standalone to Standalone",
            "topology Single to Single",
            "started 1 (None), awaited",
        ]
    );
}

#[test]
fn an_equal_server_description_emits_no_change_event() {
    // An equal description gives no server description changed event (EVT-14), but the description
    // is replaced and published (SDAM-38).
    let mut bench = Bench::new(options(&["a:1"]));
    bench.connected(1, &standalone());
    for time in [1, 2] {
        bench.pass(10_000);
        bench.orders();
        let (version, mut reply) = (bench.sdam.version(), standalone());
        reply.append(bson::cstr!("localTime"), time);
        bench.reply(1, &reply, false);
        assert_eq!(bench.orders(), ["succeeded 1 (Some(7))", "publish"]);
        assert!(bench.sdam.version() > version);
    }
    // Two checks that fail with the same error give one server description changed event, even if
    // their replies differ in other fields (B.5, trap 4).
    bench.pass(10_000);
    bench.orders();
    bench.reply(1, &rawdoc! { "ok": 0, "code": 1, "time": 1 }, false);
    bench.pass(10_000);
    assert!(
        bench
            .orders()
            .contains(&"a:1 Standalone to Unknown".to_owned())
    );
    bench.connected(2, &rawdoc! { "ok": 0, "code": 1, "time": 2 });
    assert_eq!(
        bench.orders(),
        ["failed 2", "close 2", "clear pool", "publish"]
    );
}

#[test]
fn cancelled_checks_and_checks_at_the_close_emit_heartbeat_failed() {
    // A cancelled check has a heartbeat failed event (EVT-5), and so has a check that is running at
    // the close (B.5, trap 5). The close has the order of EVT-39.
    let mut bench = Bench::new(options(&["a:1"]));
    bench.connected(1, &versioned(1));
    bench.orders();
    bench.application_error("a:1", Phase::Operation, reset());
    assert!(bench.orders().contains(&"failed 1, awaited".to_owned()));
    bench.pass(10_000);
    bench.orders();
    bench.sdam.close(bench.now);
    assert_eq!(
        bench.orders(),
        [
            "failed 3",
            "close 3",
            "close pool of server#1",
            "publish",
            "a:1 closed",
            "topology Single to Unknown",
            "topology closed",
        ]
    );
    bench.sdam.close(bench.now);
    bench.sdam.start(bench.now);
    bench.sdam.set_waiting(bench.now, true);
    assert_eq!((bench.orders(), bench.sdam.deadline()), (vec![], None));
}

#[test]
fn a_load_balanced_topology_emits_exactly_the_specified_events() {
    // A load balanced client emits exactly these events (EVT-36, SDAM-64, SDAM-115).
    let mut bench = Bench::seeds(&["a:1"], |options| options.load_balanced = true);
    assert_eq!(
        bench.orders(),
        [
            "publish",
            "topology opens",
            "topology Unknown to LoadBalanced",
            "a:1 opens",
            "create pool of a:1",
            "ready pool of server#1",
            "publish",
            "a:1 Unknown to LoadBalancer",
            "topology LoadBalanced to LoadBalanced",
        ]
    );
    bench.sdam.close(bench.now);
    assert_eq!(
        bench.orders(),
        [
            "close pool of server#1",
            "publish",
            "a:1 closed",
            "topology LoadBalanced to Unknown",
            "topology closed",
        ]
    );
}

#[test]
fn a_topology_without_servers_emits_a_warning() {
    // A topology without servers gives a warning: at the start, and when its last server is removed
    // (SDAM-65).
    let mut bench = Bench::new(options(&[]));
    assert_eq!(
        bench.orders(),
        [
            "publish",
            "topology opens",
            "topology Unknown to Unknown",
            "no servers: NoSeeds",
        ]
    );
    let mut bench = Bench::seeds(&["a:1"], |options| {
        options.replica_set = Some("rs".to_owned());
    });
    bench.orders();
    bench.connected(1, &standalone());
    assert_eq!(
        bench.orders(),
        [
            "succeeded 1 (Some(7))",
            "close 1",
            "publish",
            "a:1 Unknown to Standalone",
            "a:1 closed",
            "topology ReplicaSetNoPrimary to ReplicaSetNoPrimary",
            "no servers: LastRemoved",
        ]
    );
    // The close of the client gives no warning.
    let mut bench = Bench::new(options(&["a:1"]));
    bench.sdam.close(bench.now);
    assert!(
        !bench
            .orders()
            .iter()
            .any(|order| order.contains("no servers"))
    );
}

#[test]
fn at_the_close_running_checks_end_before_the_servers_are_closed() {
    // At the close, each running check ends with an event (EVT-5). Then the servers are closed
    // (EVT-16), the topology description changes, and the topology is closed (EVT-39).
    let mut bench = Bench::new(options(&["b:1", "a:1"]));
    bench.orders();
    bench.sdam.close(bench.now);
    assert_eq!(
        bench.orders(),
        [
            "failed 1",
            "close 1",
            "failed 2",
            "close 2",
            "publish",
            "b:1 closed",
            "a:1 closed",
            "topology Unknown to Unknown",
            "topology closed",
        ]
    );
}

#[test]
fn the_server_connection_id_is_reported_from_the_first_reply_on() {
    // The server's connection id is known from the first reply on (B.5, trap 7), and `awaited`
    // belongs to the command that was sent (B.5, trap 8).
    let mut bench = Bench::new(options(&["a:1"]));
    assert!(bench.orders().contains(&"started 1 (None)".to_owned()));
    let mut first = versioned(1);
    first.append(bson::cstr!("connectionId"), 7);
    bench.connected(1, &first);
    let orders = bench.orders();
    assert!(orders.contains(&"succeeded 1 (Some(7))".to_owned()));
    assert!(orders.contains(&"started 1 (Some(7)), awaited".to_owned()));
    // A reply without `connectionId` does not remove the known one.
    bench.reply(1, &versioned(2), true);
    let orders = bench.orders();
    assert!(orders.contains(&"succeeded 1 (Some(7)), awaited".to_owned()));
    // The failed event belongs to the awaited read. The next check opens a new connection, so it is
    // not awaited.
    bench.failed(1);
    let orders = bench.orders();
    assert!(
        orders.contains(&"failed 1, awaited".to_owned()),
        "{orders:?}"
    );
    assert!(
        orders.contains(&"started 3 (None)".to_owned()),
        "{orders:?}"
    );
}

#[test]
fn round_trip_measurements_emit_no_events() {
    // Measurements of the round trip time emit no events (EVT-40, MON-54; B.5, trap 9).
    let mut bench = Bench::new(options(&["a:1"]));
    bench.connected(1, &versioned(1));
    assert!(bench.orders().contains(&"measure 2 to a:1".to_owned()));
    bench.connected(2, &versioned(1));
    bench.pass(10_000);
    bench.reply(2, &versioned(1), false);
    bench.failed(2);
    let orders = bench.orders();
    let is_reported = |order: &String| !["hello on 2", "close 2"].contains(&order.as_str());
    assert!(orders.contains(&"hello on 2".to_owned()), "{orders:?}");
    assert!(!orders.iter().any(is_reported), "{orders:?}");
}

#[test]
fn a_heartbeats_duration_is_the_round_trip_unless_awaited() {
    // The duration of a check that is not awaited is the round trip time; that of an awaited one
    // contains the server's wait (EVT-22).
    let mut bench = Bench::new(options(&["a:1"]));
    bench.now = bench.now + Duration::from_millis(30);
    bench.connected(1, &versioned(1));
    bench.now = bench.now + Duration::from_millis(500);
    bench.reply(1, &versioned(2), true);
    bench.now = bench.now + Duration::from_millis(70);
    bench.failed(1);
    let durations: Vec<_> = std::iter::from_fn(|| bench.sdam.poll_order())
        .filter_map(|order| match order {
            Order::Emit(
                SdamEvent::HeartbeatSucceeded { duration, .. }
                | SdamEvent::HeartbeatFailed { duration, .. },
            ) => Some(duration.as_millis()),
            _ => None,
        })
        .collect();
    assert_eq!(durations, [PING.as_millis(), 500, 70]);
}
