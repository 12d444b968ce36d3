//! The consequences of application errors for servers, pools and monitors (section A.7, table A.8).

use super::{
    Bench, MonitorConnectionId, Phase, addresses, command, labelled, member, options, polled,
    reset, standalone, streamed, timeout, versioned,
};
use crate::{
    description::{ServerType, TopologyType},
    error::{CommandError, Error, ErrorKind, InsertManyError, TopologyVersion},
    hello::HelloAnswer,
    hello::HelloReply,
    sdam::ApplicationError,
};
use bson::{oid::ObjectId, rawdoc};

#[test]
fn a_network_error_cancels_the_check_and_requests_none() {
    // A network error of an operation makes the server Unknown and clears its pool (SDAM-100,
    // CMAP-147), in one input (CMAP-146). The check is cancelled (SDAM-109, MON-59, MON-60), and
    // none is requested (SDAM-108).
    let mut bench = streamed();
    bench.connected(1, &versioned(1));
    bench.orders();
    bench.application_error("a:1", Phase::Operation, reset());
    assert_eq!(
        bench.orders(),
        ["clear pool", "publish", "close 1", "close 2"]
    );
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
    assert_eq!(bench.sleeps(), Some(10_000));
    // A late reply on the closed connection changes nothing.
    bench.reply(1, &versioned(2), true);
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
    assert_eq!(bench.orders(), [""; 0]);
}

#[test]
fn a_network_error_between_checks_closes_the_monitors_connection() {
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.orders();
    bench.pass(4_000);
    bench.application_error("a:1", Phase::Operation, reset());
    assert_eq!(bench.orders(), ["clear pool", "publish", "close 1"]);
    assert_eq!(bench.sleeps(), Some(6_000));
}

#[test]
fn a_state_change_error_requests_a_check_and_cancels_none() {
    // A state change error requests a check (SDAM-96) and cancels none (A.11, trap 10). Only a
    // shutdown code clears the pool (CMAP-149).
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.orders();
    bench.pass(1_000);
    bench.application_error("a:1", Phase::Operation, command(10107));
    assert_eq!(bench.orders(), ["publish", "hello on 1"]);
    bench.application_error("a:1", Phase::Operation, command(91));
    assert_eq!(bench.orders(), ["clear pool", "publish"]);
    bench.reply(1, &standalone(), false);
    assert_eq!(bench.orders(), ["ready pool of server#1", "publish"]);
}

#[test]
fn timeouts_and_overload_errors_have_no_consequences() {
    // A timeout of an operation changes nothing (SDAM-101, CMAP-147), nor does an error of `hello`
    // with the label `SystemOverloadedError` (SDAM-104) or another transient error code (SDAM-110).
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.orders();
    for (phase, error) in [
        (Phase::Operation, timeout()),
        (Phase::Hello, labelled(reset())),
        (Phase::Hello, labelled(timeout())),
        (Phase::Operation, command(6)),
    ] {
        bench.application_error("a:1", phase, error);
        assert_eq!(bench.orders(), [""; 0], "{phase:?}");
    }
}

#[test]
fn errors_of_older_generations_are_ignored_and_others_clear_the_pool() {
    // An error of an older generation is ignored (SDAM-86, CMAP-145). An error of the current
    // generation clears the pool (E.6-4).
    let mut bench = polled();
    bench.connected(1, &standalone());
    let server = bench.id("a:1");
    bench.orders();
    for (is_stale, cleared) in [(true, false), (false, true), (true, false), (false, true)] {
        let error = ApplicationError {
            error: reset(),
            phase: Phase::Operation,
            is_stale,
            service: None,
        };
        bench
            .sdam
            .handle_application_error(bench.now, server, &error);
        let orders = bench.orders();
        assert_eq!(
            orders.contains(&"clear pool".to_owned()),
            cleared,
            "{orders:?}"
        );
    }
}

#[test]
fn an_equal_topology_version_makes_an_error_stale_but_not_a_hello() {
    // An error with an equal `topologyVersion` is ignored (SDAM-87), while a `hello` with an equal
    // one is accepted (table A.2.3; A.11, trap 1).
    let moved = |counter| {
        let mut fault = CommandError::from_reply(&rawdoc! { "ok": 0, "code": 10107 });
        fault.topology_version = Some(TopologyVersion {
            process_id: ObjectId::from_bytes([1; 12]),
            counter,
        });
        Error::new(ErrorKind::Command(fault))
    };
    let mut bench = streamed();
    bench.connected(1, &versioned(2));
    for counter in [1, 2] {
        bench.application_error("a:1", Phase::Operation, moved(counter));
        assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
    }
    bench.application_error("a:1", Phase::Operation, moved(3));
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
    // An older `hello` is discarded. A `hello` with the `topologyVersion` of the error, which the
    // server streams for the same change, is accepted (C.5, trap 8).
    bench.reply(1, &versioned(2), true);
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
    bench.reply(1, &versioned(3), true);
    assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
    let server = bench.sdam.server(bench.id("a:1")).expect("it is there");
    assert!(server.round_trip_time.is_some());
}

#[test]
fn a_write_concern_error_with_a_stale_topology_version_is_ignored() {
    // The `topologyVersion` beside a write concern error decides whether the error is stale
    // (SDAM-87, SDAM-93).
    let moved = |counter: i64| {
        let fault = InsertManyError::from_reply(&rawdoc! {
            "ok": 1, "writeConcernError": { "code": 10107, "errmsg": "no longer primary" },
            "topologyVersion": { "processId": ObjectId::from_bytes([1; 12]), "counter": counter },
        });
        let fault = fault.expect("valid").expect("it has errors");
        Error::new(ErrorKind::InsertMany(fault))
    };
    let mut bench = streamed();
    bench.connected(1, &versioned(2));
    bench.application_error("a:1", Phase::Operation, moved(2));
    assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
    bench.application_error("a:1", Phase::Operation, moved(3));
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
    bench.reply(1, &versioned(2), true);
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown, "older news");
}

#[test]
fn only_a_state_change_error_stores_its_topology_version() {
    // An error of authentication makes a default Unknown description. Only a state change error
    // stores its `topologyVersion` in the description (SDAM-55, SDAM-95, table A.8).
    let version = rawdoc! { "processId": ObjectId::from_bytes([1; 12]), "counter": 5_i64 };
    for (code, kept) in [(18, None), (13436, Some(5))] {
        let reply = rawdoc! { "ok": 0, "code": code, "topologyVersion": version.clone() };
        let fault = CommandError::from_reply(&reply);
        let mut bench = polled();
        bench.connected(1, &standalone());
        let error = Error::new(ErrorKind::Command(fault));
        bench.application_error("a:1", Phase::Authentication, error);
        let server = bench.sdam.server(bench.id("a:1")).expect("it stays");
        assert_eq!(server.server_type, ServerType::Unknown);
        assert_eq!(server.topology_version.map(|v| v.counter), kept, "{code}");
    }
}

#[test]
fn the_hello_of_a_pool_connection_updates_only_a_known_server() {
    // The `hello` of a pool's connection updates a known server (MON-22, SDAM-126), but not an
    // Unknown one.
    let mut bench = Bench::new(options(&["a:1", "b:1"]));
    bench.connected(1, &member(true, "a:1"));
    bench.orders();
    let (a, b) = (bench.id("a:1"), bench.id("b:1"));
    bench
        .sdam
        .handle_application_handshake(bench.now, b, HelloReply::parse(&member(false, "a:1")));
    assert_eq!(bench.server_type("b:1"), ServerType::Unknown);
    bench
        .sdam
        .handle_application_handshake(bench.now, a, HelloReply::parse(&member(false, "b:1")));
    assert_eq!(bench.server_type("a:1"), ServerType::RsSecondary);
    assert_eq!(bench.topology_type(), TopologyType::ReplicaSetNoPrimary);
    let server = bench.sdam.server(a).expect("it is there");
    assert!(server.round_trip_time.is_some());
}

#[test]
fn an_error_behind_a_load_balancer_clears_only_its_own_service() {
    // Behind a load balancer, an error clears only the connections of its service, and the server
    // never becomes Unknown (SDAM-111 to SDAM-114).
    let mut bench = Bench::seeds(&["a:1"], |options| options.load_balanced = true);
    bench.orders();
    let server = bench.id("a:1");
    let service = ObjectId::from_bytes([3; 12]);
    let mut error = ApplicationError {
        error: reset(),
        phase: Phase::Operation,
        is_stale: false,
        service: Some(service),
    };
    bench
        .sdam
        .handle_application_error(bench.now, server, &error);
    assert_eq!(bench.orders(), ["clear service"]);
    assert_eq!(bench.server_type("a:1"), ServerType::LoadBalancer);
    // An error of an older generation of the service is ignored, and so is an error in `hello`.
    error.is_stale = true;
    bench
        .sdam
        .handle_application_error(bench.now, server, &error);
    error.is_stale = false;
    error.phase = Phase::Hello;
    bench
        .sdam
        .handle_application_error(bench.now, server, &error);
    assert_eq!(bench.orders(), [""; 0]);
    assert_eq!(bench.sdam.deadline(), None);
}

#[test]
fn inputs_for_a_removed_server_do_not_affect_one_added_again() {
    // After the address of a removed server was added again, inputs for the removed server change
    // nothing (SDAM-66; E.6, property 6).
    let mut bench = Bench::new(options(&["a:1", "b:1"]));
    bench.connected(1, &member(true, "a:1"));
    let (a, b) = (bench.id("a:1"), bench.id("b:1"));
    let mut alone = bson::Document::try_from(&*member(true, "a:1")).expect("a document");
    alone.insert("hosts", vec!["a:1"]);
    let alone = bson::RawDocumentBuf::try_from(&alone).expect("a document");
    bench
        .sdam
        .handle_application_handshake(bench.now, a, HelloReply::parse(&alone));
    assert_eq!(addresses(&bench), ["a:1"]);
    bench
        .sdam
        .handle_application_handshake(bench.now, a, HelloReply::parse(&member(true, "a:1")));
    assert_eq!(addresses(&bench), ["a:1", "b:1"]);
    assert_ne!(bench.id("b:1"), b);
    bench.orders();
    let version = bench.sdam.version();
    bench.connected(2, &member(false, "a:1"));
    bench
        .sdam
        .handle_application_handshake(bench.now, b, HelloReply::parse(&member(false, "a:1")));
    assert_eq!(bench.sdam.server(b).map(|s| s.server_type), None);
    assert_eq!((bench.orders(), bench.sdam.version()), (vec![], version));
}

#[test]
fn the_round_trip_average_restarts_after_a_server_was_unknown() {
    // The first sample after a server was Unknown is its new average (SEL-52, SEL-53, MON-51).
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.pass(1_000);
    bench.application_error("a:1", Phase::Operation, command(10107));
    let average = |bench: &Bench| {
        let server = bench.sdam.server(bench.id("a:1")).expect("it is there");
        server.round_trip_time
    };
    assert_eq!(average(&bench), None, "it is unknown");
    let slow = std::time::Duration::from_millis(50);
    bench.sdam.handle_reply(
        bench.now,
        MonitorConnectionId(1),
        HelloAnswer::new(standalone()),
        slow,
        false,
    );
    assert_eq!(average(&bench), Some(slow));
}

#[test]
fn each_server_description_change_sets_last_update_time() {
    // Each new server description has the time of its input as `lastUpdateTime` (table A.2.1).
    let dated = |bench: &Bench, address: &str| {
        let server = bench.sdam.server(bench.id(address)).expect("it is there");
        assert_eq!(server.last_update_time, Some(bench.now), "{server}");
    };
    let mut bench = Bench::seeds(&["a:1"], |options| options.load_balanced = true);
    dated(&bench, "a:1");
    bench = Bench::new(options(&["a:1", "b:1"]));
    bench.pass(5);
    bench.connected(1, &member(true, "a:1"));
    dated(&bench, "a:1");
    bench.pass(5);
    bench.connected(2, &member(true, "b:1"));
    dated(&bench, "a:1");
    dated(&bench, "b:1");
    bench.pass(5);
    bench.application_error("b:1", Phase::Operation, reset());
    dated(&bench, "b:1");
}

#[test]
fn a_max_time_ms_expired_reply_to_a_check_interrupts_no_connection() {
    // A timeout of a check interrupts connections in use (MON-63). A reply with `MaxTimeMSExpired`
    // does not, because the server answers (MON-64).
    for (late, expected) in [(false, "clear pool"), (true, "clear pool, interrupting")] {
        let mut bench = polled();
        bench.connected(1, &standalone());
        bench.pass(10_000);
        bench.orders();
        if late {
            let check = MonitorConnectionId(1);
            bench.sdam.handle_failed(bench.now, check, timeout());
        } else {
            bench.reply(1, &rawdoc! { "ok": 0, "code": 50, "errmsg": "late" }, false);
        }
        let orders = bench.orders();
        let clears: Vec<_> = orders.iter().filter(|o| o.starts_with("clear")).collect();
        assert_eq!(clears, [expected]);
    }
}
