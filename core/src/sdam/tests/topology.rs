//! Tests of rules about the whole topology: the supported wire versions, the maximum number of
//! servers, the set name, and which servers have a pool.

use super::{Bench, addresses, member, options, polled, standalone};
use crate::{
    description::{ServerType, TopologyType},
    hello::MAX_MEMBERS,
    sdam::{MAX_NAMED_SERVERS, MAX_WIRE_VERSION, MIN_WIRE_VERSION},
};
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

#[test]
fn the_compatibility_error_names_a_server_until_it_is_compatible() {
    // The compatibility error names the incompatible server (SDAM-60), and disappears when a later
    // reply of the server is compatible (SDAM-61).
    for (min, max, expected) in [
        (
            0,
            7,
            "Server at a:1 reports wire version 7, but this version of Onionskin requires at least \
             8 (MongoDB 4.2).",
        ),
        (
            30,
            99,
            "Server at a:1 requires wire version 30, but this version of Onionskin only supports \
             up to 29.",
        ),
    ] {
        let mut bench = Bench::new(options(&["a:1"]));
        let reply = rawdoc! { "ok": 1, "minWireVersion": min, "maxWireVersion": max };
        bench.connected(1, &reply);
        let error = bench.sdam.description().compatibility_error.as_deref();
        assert_eq!(error, Some(expected));
        bench.pass(10_000);
        bench.reply(1, &standalone(), false);
        assert_eq!(bench.sdam.description().compatibility_error, None);
    }
}

fn other(hosts: impl Iterator<Item = String>) -> RawDocumentBuf {
    let mut list = RawArrayBuf::new();
    hosts.for_each(|host| list.push(host));
    rawdoc! { "ok": 1, "setName": "rs", "maxWireVersion": 21, "hosts": list }
}

#[test]
fn the_number_of_servers_in_a_topology_is_bounded() {
    let bench = overfilled();
    assert_eq!(bench.sdam.description().servers.len(), MAX_NAMED_SERVERS);
}

#[test]
fn a_primarys_host_list_replaces_the_servers_of_a_full_topology() {
    // Servers that the primary does not name are removed before its own list is added (SDAM-80).
    let mut bench = overfilled();
    bench.pass(9_000);
    bench.sdam.request_check(bench.now);
    let primary = rawdoc! {
        "ok": 1, "setName": "rs", "maxWireVersion": 21, "isWritablePrimary": true,
        "hosts": ["a:1", "z:1", "z:2"],
    };
    bench.reply(1, &primary, false);
    assert_eq!(addresses(&bench), ["a:1", "z:1", "z:2"]);
}

/// Returns a machine whose server has named more members than a topology can have.
fn overfilled() -> Bench {
    let mut bench = Bench::new(options(&["a:1"]));
    for round in 0..10 {
        let first = round * MAX_MEMBERS + 2;
        let hosts = (first..first + MAX_MEMBERS).map(|port| format!("a:{port}"));
        if round == 0 {
            bench.connected(1, &other(hosts));
        } else {
            bench.pass(9_000);
            bench.sdam.request_check(bench.now);
            bench.reply(1, &other(hosts), false);
        }
        bench.orders();
    }
    bench
}

#[test]
fn a_direct_connection_to_a_wrong_set_name_stores_an_error() {
    // With a direct connection, a server with a wrong set name is Unknown and stays in the topology
    // (SDAM-62).
    let mut bench = Bench::seeds(&["a:1"], |options| {
        options.direct_connection = true;
        options.replica_set = Some("other".to_owned());
    });
    bench.orders();
    bench.connected(1, &member(true, "a:1"));
    assert_eq!(addresses(&bench), ["a:1"]);
    assert_eq!(bench.topology_type(), TopologyType::Single);
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
    let server = bench.sdam.server(bench.id("a:1")).expect("it is there");
    assert_eq!(
        server.error.as_ref().map(ToString::to_string).as_deref(),
        Some(
            "the server's replica set is rs, but replicaSet is other; correct replicaSet or leave \
             it out"
        )
    );
    assert!(!bench.orders().iter().any(|order| order.contains("pool")));
}

#[test]
fn only_a_direct_connection_creates_a_pool_for_a_ghost() {
    // A direct connection to an `RSGhost` (SDAM-1) has a pool, because its server can be of any
    // known type (SDAM-84, CMAP-156).
    for (direct, expected) in [(true, true), (false, false)] {
        let mut bench = Bench::seeds(&["a:1"], |options| options.direct_connection = direct);
        bench.orders();
        bench.connected(
            1,
            &rawdoc! { "ok": 1, "isreplicaset": true, "maxWireVersion": 21 },
        );
        assert_eq!(bench.server_type("a:1"), ServerType::RsGhost);
        let orders = bench.orders();
        assert_eq!(orders.contains(&"create pool of a:1".to_owned()), expected);
    }
}

#[test]
fn both_ends_of_the_supported_wire_version_range_are_compatible() {
    // Both ends of the supported range of wire versions are compatible (SDAM-60, SDAM-61).
    for (min, max, compatible) in [
        (0, MIN_WIRE_VERSION - 1, false),
        (0, MIN_WIRE_VERSION, true),
        (MAX_WIRE_VERSION, MAX_WIRE_VERSION, true),
        (MAX_WIRE_VERSION + 1, MAX_WIRE_VERSION + 1, false),
        (0, 21, true),
    ] {
        let mut bench = polled();
        bench.connected(
            1,
            &rawdoc! { "ok": 1, "minWireVersion": min, "maxWireVersion": max },
        );
        let error = &bench.sdam.description().compatibility_error;
        assert_eq!(error.is_none(), compatible, "{min} to {max}: {error:?}");
    }
}

#[test]
fn a_repeated_reply_that_removes_its_server_clears_the_incompatibility() {
    // The ghost does not change the topology of type Unknown (SDAM-82). The mongos makes the
    // topology sharded, so the second reply of the ghost removes the ghost's server and the
    // compatibility error (SDAM-61).
    let mut bench = Bench::new(options(&["a:1", "b:1"]));
    let ghost = rawdoc! { "ok": 1, "isreplicaset": true, "maxWireVersion": 7 };
    bench.connected(1, &ghost);
    bench.connected(
        2,
        &rawdoc! { "ok": 1, "msg": "isdbgrid", "maxWireVersion": 21 },
    );
    assert_eq!(bench.topology_type(), TopologyType::Sharded);
    assert!(bench.sdam.description().compatibility_error.is_some());
    bench.pass(10_000);
    bench.reply(1, &ghost, false);
    assert_eq!(addresses(&bench), ["b:1"]);
    assert_eq!(bench.sdam.description().compatibility_error, None);
}
