//! Hostile servers and unusual clocks: the machine neither panics nor spins nor grows without
//! bound.

use super::{
    Bench, MonitorConnectionId, Phase, addresses, command, options, standalone, streamed, versioned,
};
use crate::{
    description::{ServerType, TopologyType},
    hello::HelloAnswer,
    hello::{HelloReply, MAX_MEMBERS},
    sdam::{MAX_SERVERS, Order, Sdam, Timer},
    time::Instant,
};
use bson::{Bson, DateTime, RawArrayBuf, RawDocumentBuf, oid::ObjectId, rawdoc};
use proptest::prelude::*;
use std::time::Duration;

fn hosts(names: impl IntoIterator<Item = String>) -> RawArrayBuf {
    names.into_iter().collect()
}

fn primary(version: i32, names: impl IntoIterator<Item = String>) -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "helloOk": true, "maxWireVersion": 21, "setName": "rs", "setVersion": version,
        "isWritablePrimary": true, "hosts": hosts(names),
    }
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Returns the last connection that was opened to the server at `address`.
fn check_of(sdam: &mut Sdam, address: &str) -> Option<u64> {
    let orders = std::iter::from_fn(|| sdam.poll_order());
    let opened = orders.filter_map(|order| match order {
        Order::Open {
            connection,
            address: at,
            ..
        } => (at.to_string() == address).then_some(connection.0),
        _ => None,
    });
    opened.last()
}

#[test]
fn a_primarys_host_list_replaces_servers_that_a_secondary_named() {
    // The primary's list replaces the servers that another member named (SDAM-80).
    let mut bench = Bench::seeds(&["liar:1", "a:1"], |options| options.streaming = false);
    let many = (0..MAX_MEMBERS).map(|n| format!("bogus{n}:1"));
    let lie = rawdoc! {
        "ok": 1, "setName": "rs", "secondary": true, "maxWireVersion": 21, "hosts": hosts(many),
    };
    let honest = check_of(&mut bench.sdam, "a:1").expect("it is checked");
    bench.connected(1, &lie);
    assert_eq!(addresses(&bench).len(), 2 + MAX_MEMBERS);
    bench.connected(honest, &primary(1, names(&["a:1", "b:1", "c:1"])));
    assert_eq!(addresses(&bench), ["a:1", "b:1", "c:1"]);
}

#[test]
fn a_host_list_of_100_000_names_is_bounded() {
    let names = (0..100_000).map(|n| format!("h{n}"));
    let reply = primary(1, std::iter::once("a:1".to_owned()).chain(names));
    assert!(reply.as_bytes().len() > 1 << 20);
    let mut bench = Bench::seeds(&["a:1"], |options| options.streaming = false);
    bench.connected(1, &reply);
    assert!(addresses(&bench).len() <= MAX_SERVERS);
    assert_eq!(bench.topology_type(), TopologyType::ReplicaSetWithPrimary);
    // The short list of the next reply applies in full.
    bench.pass(10_000);
    bench.reply(1, &primary(1, names_of_two()), false);
    assert_eq!(addresses(&bench), ["a:1", "b:1"]);
}

fn names_of_two() -> Vec<String> {
    names(&["a:1", "b:1"])
}

#[test]
fn a_primary_missing_from_its_own_host_list_is_removed() {
    // A primary that is not in its own list is removed (SDAM-77, SDAM-80). Host names become lower
    // case (SDAM-53).
    let mut bench = Bench::seeds(&["a:1"], |_| {});
    let reply = primary(
        1,
        names(&["B:1", "b:1", "b:01", "C:1", "no host:x", "", ":", "b/c:1"]),
    );
    bench.connected(1, &reply);
    assert_eq!(addresses(&bench), ["b:1", "c:1"]);
    assert_eq!(bench.topology_type(), TopologyType::ReplicaSetNoPrimary);
    let orders = bench.orders();
    assert!(
        orders.iter().all(|order| !order.contains("pool")),
        "{orders:?}"
    );
}

#[test]
fn of_1000_successive_primaries_only_the_newest_is_primary() {
    // Each newer primary replaces the one before it (SDAM-72, SDAM-74).
    let all: Vec<String> = (0..50).map(|n| format!("m{n}:1")).collect();
    let seeds: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut bench = Bench::seeds(&seeds, |options| {
        options.streaming = false;
        options.connect_timeout = None;
    });
    for turn in 0..1000_u32 {
        let mut election = [0; 12];
        election[8..].copy_from_slice(&turn.to_be_bytes());
        let mut reply = primary(i32::MAX, all.clone());
        reply.append(
            bson::raw::cstr!("electionId"),
            ObjectId::from_bytes(election),
        );
        let server = bench.id(&all[turn as usize % all.len()]);
        // The connections have the order of the seeds. The first 50 replies are handshakes, the
        // others are replies to later checks.
        let connection = MonitorConnectionId(1 + u64::from(turn) % 50);
        if turn < 50 {
            bench.sdam.handle_connected(
                bench.now,
                connection,
                HelloAnswer::new(reply.to_owned()),
                super::PING,
            );
        } else {
            bench.pass(500);
            bench.sdam.request_check(bench.now);
            bench.sdam.handle_reply(
                bench.now,
                connection,
                HelloAnswer::new(reply.to_owned()),
                super::PING,
                false,
            );
        }
        let servers = bench.sdam.description().servers.values();
        let primaries = servers.filter(|s| s.server_type == ServerType::RsPrimary);
        assert_eq!(primaries.count(), 1, "{turn}");
        let now_primary = bench.sdam.server(server).expect("it is there").server_type;
        assert_eq!(now_primary, ServerType::RsPrimary, "{turn}");
        bench.orders();
    }
}

#[test]
fn extreme_numbers_in_a_hello_reply_do_not_overflow() {
    // `topologyVersion`, `electionId` and `setVersion` are only compared, also at the ends of their
    // ranges (SDAM-56, SDAM-72, SDAM-73).
    for wire in [16, 17] {
        for version in [i64::MIN, -1, 0, i64::MAX] {
            let mut bench = Bench::seeds(&["a:1"], |options| options.streaming = false);
            let reply = rawdoc! {
                "ok": 1, "setName": "rs", "isWritablePrimary": true, "hosts": ["a:1"],
                "maxWireVersion": wire, "setVersion": version,
                "electionId": ObjectId::from_bytes([0xff; 12]),
                "logicalSessionTimeoutMinutes": version, "connectionId": version,
                "lastWrite": { "lastWriteDate": DateTime::from_millis(version) },
                "topologyVersion": {
                    "processId": ObjectId::from_bytes([1; 12]), "counter": version,
                },
            };
            bench.connected(1, &reply);
            assert_eq!(bench.server_type("a:1"), ServerType::RsPrimary);
            assert_eq!(bench.sdam.description().max_set_version, Some(version));
            // A `hello` with an equal `topologyVersion` is accepted, unlike an error with an equal
            // one (SDAM-87).
            bench.pass(10_000);
            bench.reply(1, &reply, false);
            assert_eq!(bench.server_type("a:1"), ServerType::RsPrimary);
        }
    }
    let mut bench = streamed();
    bench.connected(1, &versioned(i64::MIN));
    bench.reply(1, &versioned(i64::MAX), true);
    bench.reply(1, &versioned(i64::MIN), true);
    let server = bench.sdam.server(bench.id("a:1")).expect("it is there");
    assert_eq!(server.topology_version.map(|v| v.counter), Some(i64::MAX));
}

#[test]
fn extreme_round_trip_times_are_averaged_without_overflow() {
    let mut bench = Bench::seeds(&["a:1"], |options| options.streaming = false);
    let trips = [Duration::MAX, Duration::ZERO, Duration::MAX, Duration::MAX];
    for (n, trip) in trips.into_iter().enumerate() {
        if n == 0 {
            bench.sdam.handle_connected(
                bench.now,
                MonitorConnectionId(1),
                HelloAnswer::new(standalone()),
                trip,
            );
        } else {
            bench.pass(10_000);
            bench.sdam.handle_reply(
                bench.now,
                MonitorConnectionId(1),
                HelloAnswer::new(standalone()),
                trip,
                false,
            );
        }
        let server = bench.sdam.server(bench.id("a:1")).expect("it is there");
        assert!(server.round_trip_time.is_some());
        assert!(!server.to_string().is_empty());
    }
}

#[test]
fn a_stopped_clock_causes_no_repeated_checks() {
    let mut bench = streamed();
    bench.sdam.set_waiting(bench.now, true);
    bench.connected(1, &versioned(1));
    for _ in 0..10 {
        bench.sdam.handle_timeout(bench.now);
        assert!(bench.sdam.deadline().is_some_and(|at| at > bench.now));
        bench.failed(1);
        bench.application_error("a:1", Phase::Operation, command(91));
        bench.sdam.request_check(bench.now);
    }
    let orders = bench.orders();
    let opened = orders.iter().filter(|order| order.starts_with("open"));
    assert_eq!(
        opened.count(),
        2,
        "the first check and one retry: {orders:?}"
    );
}

#[test]
fn a_clock_that_runs_backwards_causes_no_panic() {
    let mut bench = streamed();
    bench.pass(3_600_000);
    bench.connected(1, &versioned(1));
    bench.now = Instant::ZERO;
    bench.sdam.set_waiting(bench.now, true);
    bench.reply(1, &versioned(2), false);
    bench.failed(1);
    bench.pass(1);
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
}

#[test]
fn no_timer_is_armed_at_instant_max() {
    // A timer whose deadline would be `Instant::MAX` is not armed.
    let mut bench = Bench::seeds(&["a:1", "b:1"], |options| options.subscribed = false);
    bench.connected(1, &versioned(1));
    bench.failed(2);
    bench.sdam.set_waiting(bench.now, true);
    bench.now = Instant::MAX;
    bench.sdam.handle_timeout(bench.now);
    bench.sdam.request_check(bench.now);
    bench.sdam.handle_timeout(bench.now);
    assert_eq!(bench.sdam.deadline(), None);
}

#[test]
fn intervals_of_duration_max_arm_no_timers() {
    let mut bench = Bench::seeds(&["a:1"], |options| {
        options.heartbeat_frequency = Duration::MAX;
        options.connect_timeout = Some(Duration::MAX);
    });
    bench.connected(1, &versioned(1));
    bench.connected(2, &standalone());
    bench.reply(1, &standalone(), false);
    assert_eq!(bench.sdam.deadline(), None);
    // A request makes a check due 500 ms after the end of the last one.
    bench.pass(1);
    bench.sdam.request_check(bench.now);
    assert_eq!(bench.sleeps(), Some(499));
    bench.sdam.set_waiting(bench.now, true);
    bench.pass(499);
    assert_eq!(bench.sdam.deadline_reason(), Some(Timer::Waiters));
}

const FIELDS: [&str; 26] = [
    "ok",
    "isWritablePrimary",
    "ismaster",
    "secondary",
    "arbiterOnly",
    "hidden",
    "isreplicaset",
    "msg",
    "setName",
    "setVersion",
    "electionId",
    "hosts",
    "passives",
    "arbiters",
    "primary",
    "me",
    "tags",
    "lastWrite",
    "topologyVersion",
    "minWireVersion",
    "maxWireVersion",
    "connectionId",
    "logicalSessionTimeoutMinutes",
    "helloOk",
    "errorLabels",
    "code",
];

const TEXTS: [&str; 9] = [
    "rs", "other", "isdbgrid", "a:1", "A:1", "b:1", "c", "", "x:y",
];

fn value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        6 => any::<bool>().prop_map(Bson::Boolean),
        4 => prop::sample::select(vec![0, 1, -1, 7, 8, 16, 17, 21, 30, i32::MAX, i32::MIN])
            .prop_map(Bson::Int32),
        2 => prop::sample::select(vec![0, -1, i64::MAX, i64::MIN]).prop_map(Bson::Int64),
        2 => prop::sample::select(vec![0.0, 1.0, -0.5, f64::NAN, f64::INFINITY, 1e300])
            .prop_map(Bson::Double),
        4 => prop::sample::select(TEXTS.to_vec())
            .prop_map(|text| Bson::String(text.to_owned())),
        1 => any::<[u8; 12]>().prop_map(|id| Bson::ObjectId(ObjectId::from_bytes(id))),
        1 => any::<i64>().prop_map(|n| Bson::DateTime(DateTime::from_millis(n))),
        1 => Just(Bson::Null),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 0..6).prop_map(Bson::Array),
            1 => prop::collection::vec((prop::sample::select(vec!["processId", "counter", "x",
                "lastWriteDate", "opTime", "ts", "t"]), inner), 0..4)
                .prop_map(|fields| {
                    Bson::Document(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                }),
        ]
    })
}

/// Generates replies that are valid except for some fields with random values.
fn reply() -> impl Strategy<Value = RawDocumentBuf> {
    let lies = prop::collection::vec((prop::sample::select(FIELDS.to_vec()), value()), 0..8);
    (lies, 0_u8..6).prop_map(|(lies, kind)| {
        let mut reply = bson::doc! { "ok": 1, "maxWireVersion": 21 };
        match kind {
            0 => {}
            1 => drop(reply.insert("msg", "isdbgrid")),
            _ => {
                reply.insert("setName", "rs");
                reply.insert("hosts", vec!["a:1", "b:1"]);
                reply.insert("isWritablePrimary", kind == 2);
                reply.insert("secondary", kind == 3);
            }
        }
        for (name, value) in lies {
            reply.insert(name, value);
        }
        RawDocumentBuf::try_from(&reply).expect("BSON")
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Each change of a server description also runs the debug assertions of `check_invariants`.
    #[test]
    fn replies_with_wrong_field_types_cause_no_panic(
        script in prop::collection::vec((reply(), 0_u64..6, 0_u8..4, any::<u64>()), 1..40),
        direct in any::<bool>(),
    ) {
        let seeds: &[&str] = if direct { &["a:1"] } else { &["a:1", "b:1"] };
        let mut options = options(seeds);
        options.direct_connection = direct;
        options.replica_set = direct.then(|| "rs".to_owned());
        let mut bench = Bench::new(options);
        let mut last = 0;
        for (reply, back, kind, trip) in script {
            while let Some(order) = bench.sdam.poll_order() {
                if let Order::Open { connection, .. } = order {
                    last = connection.0;
                }
            }
            let connection = MonitorConnectionId(last.saturating_sub(back));
            let trip = Duration::from_nanos(trip);
            let now = bench.now;
            match kind {
                0 => {
                    let answer = HelloAnswer::new(reply.to_owned());
                    bench.sdam.handle_connected(now, connection, answer, trip);
                }
                1 => {
                    let answer = HelloAnswer::new(reply.to_owned());
                    bench.sdam.handle_reply(now, connection, answer, trip, back == 0);
                }
                2 => {
                    let servers = bench.sdam.description().servers.keys();
                    let id = servers.last().and_then(|a| bench.sdam.server_id(a));
                    if let Some(id) = id {
                        bench.sdam.handle_application_handshake(now, id, HelloReply::parse(&reply));
                    }
                }
                _ => bench.pass(u64::try_from(trip.as_nanos() % 20_000).expect("small")),
            }
            let description = bench.sdam.description();
            prop_assert!(description.servers.len() <= MAX_SERVERS);
            prop_assert!(!description.to_string().is_empty());
        }
    }
}
