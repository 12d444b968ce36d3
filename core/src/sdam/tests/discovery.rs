//! Tests of discovery with sequences of replies and errors.

use super::{
    Bench, PING, Phase, addresses, command, labelled, member, options, polled, reset, standalone,
    streamed, timeout,
};
use crate::{
    description::{ServerType, TopologyType},
    error::{CommandError, Error, ErrorKind},
    hello::HelloAnswer,
    sdam::{ApplicationError, MonitorConnectionId},
};
use bson::{Document, RawDocumentBuf, doc, oid::ObjectId, rawdoc};
use std::time::Duration;

/// Returns the reply of a member of the set `rs`. All members have the same lists.
fn reply(state: Document) -> RawDocumentBuf {
    let mut reply = doc! {
        "ok": 1, "helloOk": true, "maxWireVersion": 21, "setName": "rs",
        "hosts": ["a:1", "b:1"], "passives": ["p:1"], "arbiters": ["x:1"],
    };
    reply.extend(state);
    RawDocumentBuf::try_from(&reply).expect("it is BSON")
}

/// Returns a machine that polls the members of the set `rs`, with these seeds.
fn polled_set(seeds: &[&str]) -> Bench {
    Bench::seeds(seeds, |options| {
        options.streaming = false;
        options.subscribed = false;
        options.replica_set = Some("rs".to_owned());
    })
}

/// Returns the connection that was last opened to `address` for checks; `None` if none was.
fn opened(orders: &[String], address: &str) -> Option<u64> {
    let ends = format!(" to {address}");
    let order = orders.iter().rev().find(|order| order.ends_with(&ends));
    order?
        .strip_prefix("open ")?
        .strip_suffix(&ends)?
        .parse()
        .ok()
}

/// Returns the number of orders that open a connection for checks or send a `hello`.
fn checks_begun(orders: &[String]) -> usize {
    let is_check = |order: &&String| order.starts_with("hello on") || order.starts_with("open ");
    orders.iter().filter(is_check).count()
}

#[test]
fn one_seed_of_any_member_type_discovers_all_members() {
    // One seed leads to all members (SDAM-4), also while no primary is known (SDAM-6).
    for (state, expected) in [
        (
            doc! { "isWritablePrimary": true },
            TopologyType::ReplicaSetWithPrimary,
        ),
        (
            doc! { "secondary": true },
            TopologyType::ReplicaSetNoPrimary,
        ),
        (
            doc! { "arbiterOnly": true },
            TopologyType::ReplicaSetNoPrimary,
        ),
        (doc! { "hidden": true }, TopologyType::ReplicaSetNoPrimary),
        (doc! {}, TopologyType::ReplicaSetNoPrimary),
    ] {
        let mut bench = polled_set(&["a:1"]);
        bench.orders();
        bench.connected(1, &reply(state.clone()));
        assert_eq!(bench.topology_type(), expected, "{state}");
        assert_eq!(addresses(&bench), ["a:1", "b:1", "p:1", "x:1"], "{state}");
        let orders = bench.orders();
        for address in ["b:1", "p:1", "x:1"] {
            assert!(
                opened(&orders, address).is_some(),
                "{address} of {orders:?}"
            );
        }
    }
}

#[test]
fn arbiters_hidden_members_and_ghosts_are_checked_like_other_servers() {
    // Arbiters, hidden members and ghosts are monitored like other servers (SDAM-8).
    for (state, expected) in [
        (doc! { "arbiterOnly": true }, ServerType::RsArbiter),
        (doc! { "hidden": true }, ServerType::RsOther),
        (doc! {}, ServerType::RsOther),
    ] {
        let mut bench = polled_set(&["a:1"]);
        bench.connected(1, &reply(state));
        assert_eq!(bench.server_type("a:1"), expected);
        bench.orders();
        for _ in 0..3 {
            bench.pass(10_000);
            let orders = bench.orders();
            assert!(orders.contains(&"hello on 1".to_owned()), "{orders:?}");
            bench.reply(1, &reply(doc! { "arbiterOnly": true }), false);
        }
    }
    let ghost = rawdoc! { "ok": 1, "helloOk": true, "isreplicaset": true, "maxWireVersion": 21 };
    let mut bench = polled_set(&["a:1"]);
    bench.connected(1, &ghost);
    assert_eq!(bench.server_type("a:1"), ServerType::RsGhost);
    bench.orders();
    bench.pass(10_000);
    assert_eq!(bench.orders(), ["hello on 1"]);
}

#[test]
fn a_hidden_seed_is_removed_once_the_primary_has_replied() {
    // A hidden member is a source of hosts, and leaves the topology once the primary has answered
    // (SDAM-44).
    let mut bench = polled_set(&["h:1"]);
    bench.orders();
    bench.connected(1, &reply(doc! { "hidden": true }));
    assert_eq!(bench.server_type("h:1"), ServerType::RsOther);
    assert_eq!(addresses(&bench), ["a:1", "b:1", "h:1", "p:1", "x:1"]);
    let orders = bench.orders();
    let check = opened(&orders, "a:1").expect("it is checked");
    bench.connected(check, &reply(doc! { "isWritablePrimary": true }));
    assert_eq!(addresses(&bench), ["a:1", "b:1", "p:1", "x:1"]);
}

#[test]
fn monitoring_continues_while_members_fail_or_are_replaced() {
    // Monitoring continues while members are down and while reconfigurations replace them (SDAM-5).
    let mut bench = polled_set(&["a:1", "b:1"]);
    bench.connected(1, &member(true, "a:1"));
    bench.connected(2, &member(false, "a:1"));
    bench.orders();
    // A member that is down is checked again and again.
    bench.pass(10_000);
    bench.failed(2);
    let mut orders = bench.orders();
    for _ in 0..5 {
        let check = opened(&orders, "b:1").expect("b is tried again");
        bench.failed(check);
        bench.reply(1, &member(true, "a:1"), false);
        bench.orders();
        bench.pass(10_000);
        orders = bench.orders();
        assert!(orders.contains(&"hello on 1".to_owned()), "{orders:?}");
    }
    // A first reconfiguration adds two members. A second one leaves only the primary and a new
    // member, which is then checked.
    let mut reconfigured = reply(doc! { "isWritablePrimary": true });
    bench.reply(1, &reconfigured, false);
    assert_eq!(addresses(&bench), ["a:1", "b:1", "p:1", "x:1"]);
    bench.orders();
    reconfigured = rawdoc! {
        "ok": 1, "helloOk": true, "maxWireVersion": 21, "setName": "rs",
        "isWritablePrimary": true, "hosts": ["a:1", "c:1"],
    };
    bench.pass(10_000);
    bench.reply(1, &reconfigured, false);
    assert_eq!(addresses(&bench), ["a:1", "c:1"]);
    let orders = bench.orders();
    let check = opened(&orders, "c:1").expect("c is checked");
    bench.connected(check, &member(false, "a:1"));
    assert_eq!(bench.server_type("c:1"), ServerType::RsSecondary);
    // After the loss of the primary, both members are still checked.
    bench.pass(10_000);
    bench.failed(1);
    assert_eq!(bench.topology_type(), TopologyType::ReplicaSetNoPrimary);
    let check = opened(&bench.orders(), "a:1").expect("a is tried again");
    bench.failed(check);
    bench.orders();
    bench.pass(10_000);
    assert_eq!(checks_begun(&bench.orders()), 2);
}

#[test]
fn each_mongos_has_its_own_monitor_and_round_trip_time() {
    // Each mongos has its own monitor and its own round trip time (SDAM-7).
    let mongos = rawdoc! { "ok": 1, "helloOk": true, "msg": "isdbgrid", "maxWireVersion": 21 };
    let mut bench = Bench::seeds(&["a:1", "b:1", "c:1"], |options| {
        options.streaming = false;
        options.subscribed = false;
    });
    for check in 1..=3 {
        let trip = Duration::from_millis(10 * check);
        bench.sdam.handle_connected(
            bench.now,
            MonitorConnectionId(check),
            HelloAnswer::new(mongos.to_owned()),
            trip,
        );
    }
    assert_eq!(bench.topology_type(), TopologyType::Sharded);
    let state = |bench: &Bench, address| {
        let server = bench.sdam.server(bench.id(address)).expect("it is there");
        let trip = server.round_trip_time.map(|trip| trip.as_millis());
        (server.server_type, trip)
    };
    let addresses = ["a:1", "b:1", "c:1"];
    let states = addresses.map(|address| state(&bench, address));
    let expected = [10, 20, 30].map(|trip| (ServerType::Mongos, Some(trip)));
    assert_eq!(states, expected);
    bench.pass(10_000);
    bench.orders();
    bench.failed(2);
    let states = addresses.map(|address| state(&bench, address));
    assert_eq!(
        states,
        [expected[0], (ServerType::Unknown, None), expected[2]]
    );
    assert!(opened(&bench.orders(), "b:1").is_some());
}

#[test]
fn a_direct_connection_stays_single_for_every_server_type() {
    // A topology of type `Single` keeps its type and its one server; each check replaces the
    // description (SDAM-63).
    let mut bench = polled();
    bench.connected(1, &standalone());
    let ghost = rawdoc! { "ok": 1, "isreplicaset": true, "maxWireVersion": 21 };
    let mongos = rawdoc! { "ok": 1, "msg": "isdbgrid", "maxWireVersion": 21 };
    for (reply, expected) in [
        (
            reply(doc! { "isWritablePrimary": true }),
            ServerType::RsPrimary,
        ),
        (
            reply(doc! { "secondary": true, "me": "b:1" }),
            ServerType::RsSecondary,
        ),
        (reply(doc! { "arbiterOnly": true }), ServerType::RsArbiter),
        (reply(doc! { "hidden": true }), ServerType::RsOther),
        (ghost, ServerType::RsGhost),
        (mongos.clone(), ServerType::Mongos),
        (mongos, ServerType::Mongos),
        (standalone(), ServerType::Standalone),
    ] {
        bench.pass(10_000);
        let before = bench.sdam.version();
        bench.reply(1, &reply, false);
        assert_eq!(bench.server_type("a:1"), expected);
        assert_eq!(bench.topology_type(), TopologyType::Single);
        assert_eq!(addresses(&bench), ["a:1"]);
        assert!(bench.sdam.version() > before, "each check replaces it");
        let server = bench.sdam.server(bench.id("a:1")).expect("it is there");
        assert_eq!(server.last_update_time, Some(bench.now));
    }
    bench.pass(10_000);
    bench.failed(1);
    assert_eq!(bench.topology_type(), TopologyType::Single);
    assert_eq!(addresses(&bench), ["a:1"]);
}

#[test]
fn a_missing_set_name_is_discovered_unless_the_connection_is_direct() {
    // The set name can be given or discovered (SDAM-25, SDAM-28). A direct connection verifies a
    // given one (SDAM-24).
    for (direct, name, start, found) in [
        (
            false,
            Some("rs"),
            TopologyType::ReplicaSetNoPrimary,
            TopologyType::ReplicaSetWithPrimary,
        ),
        (
            false,
            None,
            TopologyType::Unknown,
            TopologyType::ReplicaSetWithPrimary,
        ),
        (true, Some("rs"), TopologyType::Single, TopologyType::Single),
        (true, None, TopologyType::Single, TopologyType::Single),
    ] {
        let mut bench = Bench::seeds(&["a:1"], |options| {
            options.direct_connection = direct;
            options.replica_set = name.map(str::to_owned);
        });
        let description = bench.sdam.description();
        assert_eq!(description.topology_type, start);
        assert_eq!(description.set_name.as_deref(), name);
        bench.connected(1, &member(true, "a:1"));
        let description = bench.sdam.description();
        assert_eq!(description.topology_type, found);
        assert_eq!(bench.server_type("a:1"), ServerType::RsPrimary);
        let expected = if direct { name } else { Some("rs") };
        assert_eq!(description.set_name.as_deref(), expected);
    }
}

#[test]
fn the_number_of_seeds_does_not_decide_the_topology_type() {
    // The number of seeds, for example of the hosts from an SRV lookup, does not choose the
    // starting type (SDAM-30).
    for (seeds, expected) in [
        (&["a:1"][..], ["a:1", "b:1"].as_slice()),
        (&["a:1", "b:1", "c:1"], &["a:1", "b:1"]),
    ] {
        let mut bench = Bench::new(options(seeds));
        assert_eq!(bench.topology_type(), TopologyType::Unknown);
        bench.connected(1, &member(true, "a:1"));
        assert_eq!(bench.topology_type(), TopologyType::ReplicaSetWithPrimary);
        assert_eq!(addresses(&bench), expected);
    }
}

#[test]
fn of_all_state_change_errors_only_shutdown_errors_clear_the_pool() {
    // The wire version does not decide whether the pool is cleared (SDAM-99). By an older rule, a
    // server with a wire version below 8 had its pool cleared after every state change error
    // (SDAM-98).
    for wire_version in [7, 8, 21] {
        for (code, is_cleared) in [
            (11_600, true),
            (91, true),
            (10_107, false),
            (13_435, false),
            (10_058, false),
            (11_602, false),
            (13_436, false),
            (189, false),
        ] {
            let mut bench = polled();
            bench.connected(1, &rawdoc! { "ok": 1, "maxWireVersion": wire_version });
            bench.orders();
            bench.application_error("a:1", Phase::Operation, command(code));
            assert_eq!(bench.server_type("a:1"), ServerType::Unknown, "{code}");
            let orders = bench.orders();
            let cleared = orders.iter().any(|order| order.starts_with("clear pool"));
            assert_eq!(cleared, is_cleared, "{code} of {wire_version}: {orders:?}");
        }
    }
}

#[test]
fn a_network_error_in_authentication_makes_the_server_unknown() {
    // A network error or a timeout in authentication makes the server Unknown (SDAM-102), except
    // behind a load balancer. An error of `hello` with the label `SystemOverloadedError` changes
    // nothing (SDAM-104).
    for error in [reset(), timeout()] {
        let mut bench = polled();
        bench.connected(1, &standalone());
        bench.orders();
        bench.application_error("a:1", Phase::Hello, labelled(error.clone()));
        assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
        bench.application_error("a:1", Phase::Authentication, error.clone());
        let server = bench.sdam.server(bench.id("a:1")).expect("it is there");
        assert_eq!(server.server_type, ServerType::Unknown);
        let cause = server.error.as_ref().map(Error::kind);
        assert_eq!(cause, Some(error.kind()));
        assert_eq!(server.max_wire_version, 0, "a default description");

        let mut bench = Bench::seeds(&["a:1"], |options| options.load_balanced = true);
        let service = Some(ObjectId::from_bytes([3; 12]));
        let report = ApplicationError {
            error,
            phase: Phase::Authentication,
            is_stale: false,
            service,
        };
        let server = bench.id("a:1");
        bench
            .sdam
            .handle_application_error(bench.now, server, &report);
        assert_eq!(bench.server_type("a:1"), ServerType::LoadBalancer);
    }
}

#[test]
fn the_order_of_an_error_replys_fields_does_not_matter() {
    // The order of the fields in an error reply does not matter (SDAM-118, prose test 6).
    let version = rawdoc! { "processId": ObjectId::from_bytes([1; 12]), "counter": 4_i64 };
    let fields = [
        rawdoc! { "ok": 0 },
        rawdoc! { "code": 91 },
        rawdoc! { "errmsg": "shutting down" },
        rawdoc! { "topologyVersion": version },
        rawdoc! { "codeName": "ShutdownInProgress" },
    ];
    let mut faults = Vec::new();
    for first in 0..fields.len() {
        for step in 1..fields.len() {
            let mut reply = RawDocumentBuf::new();
            for index in 0..fields.len() {
                let field = &fields[(first + index * step) % fields.len()];
                for (key, value) in field.iter().flatten() {
                    reply.append(key, value);
                }
            }
            let fault = CommandError::from_reply(&reply);
            let mut bench = polled();
            bench.connected(1, &super::versioned(3));
            bench.orders();
            let error = Error::new(ErrorKind::Command(fault.clone()));
            bench.application_error("a:1", Phase::Operation, error);
            let orders = bench.orders();
            assert!(
                orders.contains(&"clear pool".to_owned()),
                "{reply:?}: {orders:?}"
            );
            let CommandError {
                code,
                code_name,
                message,
                topology_version,
                ..
            } = fault;
            faults.push((code, code_name, message, topology_version));
        }
    }
    assert_eq!(faults[0].0, 91);
    assert!(faults.iter().all(|fault| *fault == faults[0]), "{faults:?}");
}

#[test]
fn a_monitor_polls_a_server_that_does_not_support_streaming() {
    // With `serverMonitoringMode=stream` and a server that does not support streaming, the monitor
    // polls (MON-2).
    let mut bench = streamed();
    bench.connected(1, &standalone());
    let orders = bench.orders();
    assert!(
        !orders
            .iter()
            .any(|o| o.contains("after") || o.contains("measure")),
        "{orders:?}"
    );
    bench.pass(10_000);
    assert_eq!(bench.orders(), ["hello on 1"]);
    // After a reply with `topologyVersion`, the next check is awaited.
    bench.reply(1, &super::versioned(1), false);
    let orders = bench.orders();
    assert!(
        orders.contains(&"hello on 1 after 1 within 10000".to_owned()),
        "{orders:?}"
    );
}

#[test]
fn overload_labels_do_not_change_when_a_server_is_checked_next() {
    // Labels of overload have no effect on the pace of checks and of measurements (MON-68).
    let refused = rawdoc! {
        "ok": 0, "code": 462, "errmsg": "overloaded",
        "errorLabels": ["SystemOverloadedError", "RetryableError"],
    };
    let mut bench = streamed();
    bench.connected(1, &super::versioned(1));
    bench.orders();
    bench.sdam.handle_connected(
        bench.now,
        MonitorConnectionId(2),
        HelloAnswer::new(standalone()),
        PING,
    );
    bench.pass(10_000);
    assert_eq!(bench.orders(), ["hello on 2"]);
    bench.reply(2, &refused, false);
    let orders = bench.orders();
    assert_eq!(checks_begun(&orders), 0, "{orders:?}");
    bench.reply(1, &refused, false);
    let orders = bench.orders();
    assert_eq!(checks_begun(&orders), 0, "{orders:?}");
    assert_eq!(bench.sleeps(), Some(10_000));
    bench.pass(9_999);
    assert_eq!(bench.orders(), [""; 0]);
    bench.pass(1);
    assert_eq!(checks_begun(&bench.orders()), 1);
}

#[test]
fn a_failed_check_and_its_retry_each_emit_heartbeat_failed() {
    // The failed event contains the error, and the retry has its own pair of events (EVT-7).
    use crate::{event::SdamEvent, sdam::Order};
    let mut bench = Bench::seeds(&["a:1"], |options| options.streaming = false);
    bench.connected(1, &standalone());
    bench.pass(10_000);
    bench.orders();
    bench.failed(1);
    let mut orders = Vec::new();
    while let Some(order) = bench.sdam.poll_order() {
        if let Order::Emit(SdamEvent::HeartbeatFailed { failure, .. }) = &order {
            assert_eq!(failure.kind(), reset().kind());
        }
        orders.push(super::describe(&order));
    }
    let heartbeats: Vec<_> = orders
        .iter()
        .filter(|order| order.starts_with("failed") || order.starts_with("started"))
        .collect();
    assert_eq!(heartbeats, ["failed 1", "started 2 (None)"], "{orders:?}");
    let server = bench.sdam.server(bench.id("a:1")).expect("it is there");
    let kept = server.error.as_ref().map(Error::kind);
    assert_eq!(kept, Some(reset().kind()), "the error goes further");
    // The retry fails as well, with its own failed event.
    bench.failed(2);
    let ends = bench.orders();
    assert!(ends.contains(&"failed 2".to_owned()), "{ends:?}");
}
