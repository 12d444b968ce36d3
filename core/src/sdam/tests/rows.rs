//! Tests of single rules and table rows of discovery and monitoring.

use super::{
    Bench, PING, Phase, addresses, command, member, polled, reset, standalone, streamed, versioned,
};
use crate::{
    description::{ServerDescription, ServerType, TopologyType},
    hello::HelloAnswer,
    sdam::MonitorConnectionId,
    time::WallTime,
};
use bson::{DateTime, RawDocumentBuf, oid::ObjectId, rawdoc};
use std::{sync::Arc, time::Duration};

fn server(bench: &Bench, address: &str) -> Arc<ServerDescription> {
    let server = bench.sdam.server(bench.id(address));
    server.expect("it is there").clone()
}

fn is_clear(order: &str) -> bool {
    order.starts_with("clear pool")
}

/// Returns a machine that polls two members: on connection 1 the first, on connection 2 the second.
fn pair() -> Bench {
    Bench::seeds(&["a:1", "b:1"], |options| {
        options.streaming = false;
        options.connect_timeout = None;
        options.replica_set = Some("rs".to_owned());
    })
}

/// Returns the reply of a primary with this `electionId` and `setVersion`.
pub(super) fn elected(election: u8, version: i64) -> RawDocumentBuf {
    let mut reply = member(true, "a:1");
    let mut id = [0; 12];
    id[11] = election;
    reply.append(bson::cstr!("electionId"), ObjectId::from_bytes(id));
    reply.append(bson::cstr!("setVersion"), version);
    reply
}

#[test]
fn a_failed_check_resets_the_round_trip_average_but_no_type_change_does() {
    // The handshake (MON-71) and each polled check (MON-72, SDAM-48) give a sample. The average
    // continues when the server type changes (SDAM-49). A failed check resets the average (MON-52),
    // and the next sample is the new average (SEL-52).
    let mut bench = pair();
    let trip = |bench: &mut Bench, reply: &RawDocumentBuf, millis: u64| {
        bench.pass(10_000);
        let trip = Duration::from_millis(millis);
        bench.sdam.handle_reply(
            bench.now,
            MonitorConnectionId(1),
            HelloAnswer::new(reply.to_owned()),
            trip,
            false,
        );
        let server = server(bench, "a:1");
        (server.round_trip_time, server.min_round_trip_time)
    };
    let millis = Duration::from_millis;
    let first = millis(10);
    bench.sdam.handle_connected(
        bench.now,
        MonitorConnectionId(1),
        HelloAnswer::new(member(false, "b:1").to_owned()),
        first,
    );
    assert_eq!(server(&bench, "a:1").round_trip_time, Some(first));
    assert_eq!(server(&bench, "a:1").min_round_trip_time, Duration::ZERO);
    let average = trip(&mut bench, &member(true, "a:1"), 20);
    assert_eq!(
        average,
        (Some(millis(12)), millis(10)),
        "a primary now, and no new start"
    );
    let refused = trip(&mut bench, &rawdoc! { "ok": 0 }, 1);
    assert_eq!(refused, (None, Duration::ZERO));
    bench.orders();
    bench.pass(10_000);
    let orders = bench.orders();
    let again = orders
        .iter()
        .find_map(|order| order.strip_prefix("open ")?.strip_suffix(" to a:1"));
    let again = again
        .and_then(|n| n.parse().ok())
        .expect("a new connection");
    let later = millis(50);
    bench.sdam.handle_connected(
        bench.now,
        MonitorConnectionId(again),
        HelloAnswer::new(member(true, "a:1").to_owned()),
        later,
    );
    assert_eq!(server(&bench, "a:1").round_trip_time, Some(later));
}

#[test]
fn an_equal_hello_reply_still_updates_the_times() {
    // An equal description replaces the current one (SDAM-37, SDAM-38), because the estimate of
    // staleness needs its times.
    let mut bench = polled();
    let written = |at| {
        let mut reply = standalone();
        let last = rawdoc! { "lastWriteDate": DateTime::from_millis(at) };
        reply.append(bson::cstr!("lastWrite"), last);
        reply
    };
    bench.connected(1, &written(1000));
    let version = bench.sdam.version();
    bench.pass(10_000);
    bench.reply(1, &written(2000), false);
    let server = server(&bench, "a:1");
    assert_eq!(server.last_update_time, Some(bench.now));
    assert_eq!(
        server.last_write_date,
        Some(WallTime::from_unix_millis(2000))
    );
    assert!(bench.sdam.version() > version);
}

#[test]
fn a_stale_primary_is_not_rechecked_at_once_nor_its_pool_cleared() {
    // The old primary gets an error (SDAM-47) and is checked at once (SDAM-74), without a clear of
    // its pool (SDAM-75). If the reply to this check is still that of a primary, the old primary is
    // stale (SDAM-46) and waits for its next periodic check (SDAM-76).
    let mut bench = pair();
    bench.connected(1, &elected(1, 1));
    bench.pass(1000);
    bench.orders();
    bench.connected(2, &elected(2, 1));
    let orders = bench.orders();
    assert!(!orders.iter().any(|order| is_clear(order)), "{orders:?}");
    assert!(
        orders.contains(&"hello on 1".to_owned()),
        "the old one is asked at once: {orders:?}"
    );
    let error = server(&bench, "a:1")
        .error
        .clone()
        .expect("why")
        .to_string();
    assert!(
        error.contains("primary marked stale due to discovery of newer primary"),
        "{error}"
    );
    // The old primary still replies that it is primary.
    bench.reply(1, &elected(1, 1), false);
    let orders = bench.orders();
    assert!(
        !orders.iter().any(|o| is_clear(o) || o.starts_with("hello")),
        "{orders:?}"
    );
    let error = server(&bench, "a:1")
        .error
        .clone()
        .expect("why")
        .to_string();
    let expected = "primary marked stale due to electionId/setVersion mismatch, ";
    assert!(error.contains(expected), "{error}");
    assert_eq!(bench.server_type("b:1"), ServerType::RsPrimary);
    assert_eq!(bench.topology_type(), TopologyType::ReplicaSetWithPrimary);
    bench.pass(9999);
    assert!(!bench.orders().contains(&"hello on 1".to_owned()));
    bench.pass(1);
    assert!(bench.orders().contains(&"hello on 1".to_owned()));
}

#[test]
fn a_server_is_rechecked_early_after_an_error_only_on_request() {
    // After a network error of an operation, the topology is updated (SDAM-106), and the check is
    // cancelled (SDAM-109). The next check does not begin at once (SDAM-108), but 500 ms later if
    // one is requested (MON-60, MON-73).
    let mut bench = pair();
    bench.connected(1, &member(true, "a:1"));
    bench.connected(2, &member(false, "a:1"));
    bench.pass(10_000);
    bench.orders();
    bench.pass(100);
    bench.application_error("a:1", Phase::Operation, reset());
    assert_eq!(bench.topology_type(), TopologyType::ReplicaSetNoPrimary);
    let orders = bench.orders();
    assert!(orders.contains(&"close 1".to_owned()), "{orders:?}");
    assert!(orders.contains(&"failed 1".to_owned()), "{orders:?}");
    assert!(
        !orders.iter().any(|order| order.starts_with("open")),
        "{orders:?}"
    );
    // A late reply on the closed connection changes nothing.
    bench.reply(1, &member(true, "a:1"), false);
    assert_eq!(bench.orders(), [""; 0]);
    bench.sdam.request_check(bench.now);
    bench.pass(499);
    let asked = |bench: &mut Bench| {
        let orders = bench.orders();
        orders
            .iter()
            .any(|order| order.starts_with("open") && order.ends_with("to a:1"))
    };
    assert!(!asked(&mut bench));
    bench.pass(1);
    assert!(asked(&mut bench));
}

#[test]
fn with_streaming_disabled_the_monitor_polls() {
    // Without streaming (MON-3, MON-41) the monitor polls a server that supports streaming, and no
    // other connection measures the round trip time (MON-42, MON-46).
    let mut bench = polled();
    bench.connected(1, &versioned(1));
    let orders = bench.orders();
    assert!(
        !orders
            .iter()
            .any(|o| o.contains("after") || o.contains("measure")),
        "{orders:?}"
    );
    assert_eq!(bench.sleeps(), Some(10_000));
    bench.pass(10_000);
    assert_eq!(bench.orders(), ["hello on 1"]);
}

#[test]
fn renewing_the_stream_opens_no_second_measuring_connection() {
    // One connection measures the round trip time while streaming is in use (MON-21); it is opened
    // once (MON-69).
    let mut bench = streamed();
    bench.connected(1, &versioned(1));
    for counter in 2..20 {
        bench.reply(1, &versioned(counter), counter % 2 == 0);
    }
    let orders = bench.orders();
    assert_eq!(
        orders
            .iter()
            .filter(|order| order.starts_with("measure"))
            .count(),
        1
    );
}

#[test]
fn each_hello_reply_decides_whether_legacy_hello_comes_next() {
    // The command follows from `helloOk` in the last reply, and on a new connection the initial
    // choice holds again (MON-8).
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.pass(10_000);
    bench.reply(1, &rawdoc! { "ok": 0 }, false);
    bench.pass(10_000);
    let quiet = rawdoc! { "ok": 1, "maxWireVersion": 21 };
    bench.connected(2, &quiet);
    for (reply, expected) in [
        (standalone(), "legacy hello on 2"),
        (quiet.clone(), "hello on 2"),
    ] {
        bench.pass(10_000);
        assert_eq!(bench.orders().last().map(String::as_str), Some(expected));
        // Each reply decides about the next command.
        bench.reply(2, &reply, false);
    }
    bench.pass(10_000);
    assert_eq!(
        bench.orders().last().map(String::as_str),
        Some("legacy hello on 2")
    );
}

#[test]
fn members_named_by_a_secondary_are_checked_at_once() {
    // The members that a secondary names are added and monitored (MON-12, SDAM-79), each
    // independently of the others (MON-13).
    let mut bench = Bench::seeds(&["a:1"], |options| options.streaming = false);
    bench.orders();
    let named = rawdoc! {
        "ok": 1, "helloOk": true, "setName": "rs", "secondary": true, "maxWireVersion": 21,
        "hosts": ["a:1", "b:1"], "passives": ["c:1"], "arbiters": ["d:1"],
    };
    bench.connected(1, &named);
    let orders = bench.orders();
    let opened = orders.iter().filter(|order| order.starts_with("open"));
    assert_eq!(opened.count(), 3);
    // The servers `b`, `c` and `d` do not reply; `a` is still checked in time.
    bench.pass(9_999);
    bench.orders();
    bench.pass(1);
    assert!(bench.orders().contains(&"hello on 1".to_owned()));
}

#[test]
fn compatibility_and_session_timeout_follow_each_server_change() {
    // Compatibility (SDAM-60, SDAM-61) and the session timeout (SDAM-83) of the topology follow
    // each change of a server.
    let timed = |minutes: i64, wire: i32, kind: &str| {
        let mut reply = rawdoc! {
            "ok": 1, "setName": "rs", "maxWireVersion": wire, "hosts": ["a:1", "b:1"],
            "logicalSessionTimeoutMinutes": minutes,
        };
        match kind {
            "primary" => reply.append(bson::cstr!("isWritablePrimary"), true),
            "secondary" => reply.append(bson::cstr!("secondary"), true),
            _ => reply.append(bson::cstr!("arbiterOnly"), true),
        }
        reply
    };
    let mut bench = pair();
    let known = |bench: &Bench| {
        let all = bench.sdam.description();
        (
            all.logical_session_timeout_minutes,
            all.compatibility_error.is_some(),
        )
    };
    assert_eq!(known(&bench), (None, false));
    bench.connected(1, &timed(30, 21, "primary"));
    assert_eq!(known(&bench), (Some(30), false));
    // An arbiter counts for the compatibility, but not for the session timeout.
    bench.connected(2, &timed(10, 7, "arbiter"));
    assert_eq!(known(&bench), (Some(30), true));
    bench.pass(10_000);
    bench.reply(2, &timed(10, 21, "secondary"), false);
    assert_eq!(known(&bench), (Some(10), false));
    // A server without a value makes the session timeout `None`. When this server becomes Unknown,
    // the timeout is that of the other server again.
    bench.pass(10_000);
    bench.reply(2, &member(false, "a:1"), false);
    assert_eq!(known(&bench), (None, false));
    bench.application_error("b:1", Phase::Operation, command(10_107));
    assert_eq!(known(&bench), (Some(30), false));
    // Values of zero or less are ignored.
    bench.pass(10_000);
    for minutes in [0, -5, i64::MIN] {
        bench.reply(2, &timed(minutes, 21, "secondary"), false);
        assert_eq!(known(&bench), (Some(30), false));
        bench.pass(10_000);
    }
    bench.application_error("a:1", Phase::Operation, command(10_107));
    assert_eq!(known(&bench), (None, false));
}

#[test]
fn removing_an_incompatible_member_makes_the_topology_compatible() {
    // After the host list of the primary removed an incompatible member (SDAM-80), the topology is
    // compatible (SDAM-61).
    let mut bench = pair();
    let old = rawdoc! {
        "ok": 1, "setName": "rs", "secondary": true, "maxWireVersion": 7, "hosts": ["a:1", "b:1"],
    };
    bench.connected(2, &old);
    assert!(bench.sdam.description().compatibility_error.is_some());
    let alone = rawdoc! {
        "ok": 1, "setName": "rs", "isWritablePrimary": true, "maxWireVersion": 21, "hosts": ["a:1"],
        "logicalSessionTimeoutMinutes": 30,
    };
    bench.connected(1, &alone);
    assert_eq!(addresses(&bench), ["a:1"]);
    assert_eq!(bench.sdam.description().compatibility_error, None);
    assert_eq!(
        bench.sdam.description().logical_session_timeout_minutes,
        Some(30)
    );
}

#[test]
fn late_replies_of_a_removed_server_do_not_affect_one_added_again() {
    // A late reply on the connection of a removed server changes nothing, even if its address was
    // added again (SDAM-66, SDAM-78; C.5, trap 9).
    let mut bench = pair();
    let names = |hosts: &[&str]| {
        let hosts: bson::RawArrayBuf = hosts.iter().copied().collect();
        rawdoc! {
            "ok": 1, "setName": "rs", "isWritablePrimary": true, "maxWireVersion": 21,
            "hosts": hosts,
        }
    };
    bench.connected(1, &names(&["a:1"]));
    let former = 2;
    bench.pass(10_000);
    bench.reply(1, &names(&["a:1", "b:1"]), false);
    bench.orders();
    bench.connected(former, &member(false, "a:1"));
    bench.failed(former);
    assert_eq!(bench.orders(), [""; 0]);
    assert_eq!(bench.server_type("b:1"), ServerType::Unknown);
    assert_eq!(server(&bench, "b:1").error, None);
    bench.sdam.handle_connected(
        bench.now,
        MonitorConnectionId(3),
        HelloAnswer::new(member(false, "a:1").to_owned()),
        PING,
    );
    assert_eq!(bench.server_type("b:1"), ServerType::RsSecondary);
}
