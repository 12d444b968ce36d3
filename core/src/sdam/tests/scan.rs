//! Clients that check servers on demand: when a scan is due, and the order in which it checks
//! servers.

use super::{Bench, Phase, addresses, command, member, reset, standalone, timeout, versioned};
use crate::{
    description::{ServerType, TopologyType},
    error::{Error, ErrorKind, InsertManyError},
    random::Seed,
    sdam::{MonitorConnectionId, Order, SdamOptions},
};
use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};
use std::{collections::BTreeSet, time::Duration};

/// Returns a machine that checks servers on demand.
fn scanning(seeds: &[&str]) -> Bench {
    seeded(seeds, 1, |_| {})
}

fn seeded(seeds: &[&str], seed: u8, change: impl FnOnce(&mut SdamOptions)) -> Bench {
    Bench::seeds(seeds, |options| {
        options.subscribed = false;
        options.scanning = Some(Seed::new([seed; 32]));
        options.heartbeat_frequency = Duration::from_secs(60);
        change(options);
    })
}

/// Returns the reply of a member of a replica set with three members.
fn of_three(writable: bool, primary: Option<&str>) -> RawDocumentBuf {
    let mut reply = rawdoc! {
        "ok": 1, "maxWireVersion": 21, "setName": "rs", "isWritablePrimary": writable,
        "secondary": !writable, "hosts": ["a:1", "b:1", "c:1"],
    };
    if let Some(primary) = primary {
        reply.append(
            bson::raw::CString::try_from("primary").expect("a name"),
            primary,
        );
    }
    reply
}

fn mongos() -> RawDocumentBuf {
    rawdoc! { "ok": 1, "msg": "isdbgrid", "maxWireVersion": 21 }
}

/// Runs a scan to its end and returns the addresses in the order of their checks. `answer` gives
/// the reply to each check; `None` breaks the connection.
fn scan(bench: &mut Bench, answer: impl Fn(&str) -> Option<RawDocumentBuf>) -> Vec<String> {
    bench.sdam.mark_stale(bench.now);
    bench.sdam.set_waiting(bench.now, true);
    let asked = reply_to_checks(bench, answer);
    bench.sdam.set_waiting(bench.now, false);
    assert_eq!(bench.sdam.deadline(), None, "something is left to do");
    asked
}

fn reply_to_checks(
    bench: &mut Bench,
    answer: impl Fn(&str) -> Option<RawDocumentBuf>,
) -> Vec<String> {
    let mut open: Vec<(MonitorConnectionId, String)> = Vec::new();
    let mut asked = Vec::new();
    loop {
        let Some(order) = bench.poll() else {
            // No order is left, so the machine waits until the scan may begin or continue.
            let deadline = bench.sdam.deadline().expect("the scan goes on or ends");
            bench.now = deadline;
            bench.sdam.handle_timeout(bench.now);
            continue;
        };
        let (connection, address, opens) = match order {
            Order::Open {
                connection,
                address,
                ..
            } => {
                open.push((connection, address.to_string()));
                (connection, address.to_string(), true)
            }
            Order::SendHello {
                connection,
                awaitable,
                ..
            } => {
                assert!(awaitable.is_none(), "nobody would hear a pushed reply");
                let known = server_address_of(bench, connection);
                (connection, known, false)
            }
            Order::ScanEnded => return asked,
            _ => continue,
        };
        asked.push(address.clone());
        // Time passes during each check, so that no two checks end at the same time.
        bench.now = bench.now + Duration::from_millis(1);
        match answer(&address) {
            Some(reply) if opens => bench.connected(connection.0, &reply),
            Some(reply) => bench.reply(connection.0, &reply, false),
            None => bench.failed(connection.0),
        }
        assert!(asked.len() < 5_000, "the scan has no end");
    }
}

/// Returns the address of the server of a connection.
fn server_address_of(bench: &Bench, connection: MonitorConnectionId) -> String {
    let server = bench.sdam.out.server_of(connection).expect("it is open");
    let server = bench.sdam.server(server).expect("it is a server");
    server.address.to_string()
}

#[test]
fn a_scanning_client_checks_no_server_before_the_first_operation() {
    // No server is checked before the first operation (SDAM-35, MON-24).
    let mut bench = scanning(&["a:1"]);
    assert_eq!(bench.orders(), ["publish"]);
    assert_eq!(bench.sdam.deadline(), None);
    assert!(bench.sdam.wants_scan(bench.now));
    bench.sdam.set_waiting(bench.now, true);
    assert_eq!(bench.orders(), ["open 1 to a:1"]);
    bench.connected(1, &versioned(1));
    assert_eq!(
        bench.orders(),
        [
            "create pool of a:1",
            "ready pool of server#1",
            "publish",
            "scan ended"
        ]
    );
    bench.sdam.set_waiting(bench.now, false);
    // The machine neither streams nor measures round trip times on another connection.
    assert_eq!(bench.sdam.deadline(), None);
    assert!(!bench.sdam.is_stale());
}

#[test]
fn the_next_scan_reuses_the_connection_of_a_check() {
    let mut bench = scanning(&["a:1"]);
    scan(&mut bench, |_| Some(standalone()));
    bench.pass(60_000);
    assert!(bench.sdam.wants_scan(bench.now));
    bench.sdam.set_waiting(bench.now, true);
    assert_eq!(bench.orders(), ["hello on 1"]);
    bench.reply(1, &standalone(), false);
    assert_eq!(bench.orders(), ["publish", "scan ended"]);
}

#[test]
fn a_scan_is_due_heartbeat_frequency_after_the_last_one() {
    // A scan is due `heartbeatFrequencyMS` after the end of the last one (MON-25, SDAM-31, timer
    // T-9).
    let mut bench = scanning(&["a:1"]);
    scan(&mut bench, |_| Some(standalone()));
    bench.pass(59_999);
    assert!(!bench.sdam.wants_scan(bench.now));
    bench.pass(1);
    assert!(bench.sdam.wants_scan(bench.now));
    assert!(bench.sdam.is_stale());
}

#[test]
fn scans_are_at_least_500_ms_apart() {
    // The next scan begins 500 ms after the end of the last one at the earliest (MON-26, MON-31,
    // SDAM-120).
    let mut bench = scanning(&["a:1"]);
    scan(&mut bench, |_| None);
    let ended = bench.now;
    assert_eq!(
        bench.sdam.earliest_scan(),
        ended + Duration::from_millis(500)
    );
    bench.sdam.mark_stale(bench.now);
    bench.sdam.set_waiting(bench.now, true);
    bench.orders();
    assert_eq!(bench.sleeps(), Some(500));
    // The next scan is no longer planned after the operation has ended.
    bench.sdam.set_waiting(bench.now, false);
    assert_eq!(bench.sdam.deadline(), None);
    bench.sdam.set_waiting(bench.now, true);
    bench.pass(500);
    assert_eq!(bench.orders(), ["scan ended"], "the server rests still");
}

#[test]
fn a_scan_checks_a_possible_primary_before_other_members() {
    // A `PossiblePrimary` is checked before an Unknown server (MON-27, SDAM-12), and servers that a
    // reply names are checked in the same scan (MON-28).
    for seed in 0..10 {
        let mut bench = seeded(&["c:1"], seed, |_| {});
        let asked = scan(&mut bench, |address| {
            Some(of_three(address == "a:1", Some("a:1")))
        });
        assert_eq!(asked, ["c:1", "a:1", "b:1"], "seed {seed}");
        assert_eq!(bench.topology_type(), TopologyType::ReplicaSetWithPrimary);
        assert_eq!(addresses(&bench), ["a:1", "b:1", "c:1"]);
    }
}

#[test]
fn a_server_stays_possible_primary_until_its_check_ends() {
    let mut bench = scanning(&["c:1"]);
    bench.sdam.set_waiting(bench.now, true);
    bench.connected(1, &of_three(false, Some("a:1")));
    bench.orders();
    assert_eq!(bench.server_type("a:1"), ServerType::PossiblePrimary);
    assert_eq!(bench.server_type("b:1"), ServerType::Unknown);
    bench.failed(2);
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
}

#[test]
fn background_monitoring_marks_no_server_as_possible_primary() {
    // With background monitoring, `PossiblePrimary` means the same as Unknown (SDAM-12).
    let mut bench = Bench::seeds(&["c:1"], |_| {});
    bench.connected(1, &of_three(false, Some("a:1")));
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
}

#[test]
fn a_scan_checks_the_primary_first_and_unknown_servers_last() {
    // A scan checks the primary first and Unknown servers last (MON-27).
    for seed in 0..10 {
        let mut bench = seeded(&["a:1", "b:1", "c:1"], seed, |_| {});
        scan(&mut bench, |address| match address {
            "a:1" => None,
            _ => Some(of_three(address == "c:1", None)),
        });
        bench.pass(60_000);
        let asked = scan(&mut bench, |address| Some(of_three(address == "c:1", None)));
        assert_eq!(asked, ["c:1", "b:1", "a:1"], "seed {seed}");
    }
}

#[test]
fn a_scan_order_is_random_at_first_and_then_repeated() {
    // Chance decides between equals (MON-27), so that clients that start at the same time do not
    // all check the same server first.
    let mut firsts = BTreeSet::new();
    for seed in 0..30 {
        let mut bench = seeded(&["a:1", "b:1", "c:1"], seed, |_| {});
        let asked = scan(&mut bench, |_| Some(mongos()));
        firsts.insert(asked[0].clone());
        for _ in 0..3 {
            bench.pass(60_000);
            assert_eq!(scan(&mut bench, |_| Some(mongos())), asked);
        }
    }
    assert_eq!(firsts.len(), 3, "{firsts:?}");
}

#[test]
fn a_scan_checks_one_server_at_a_time() {
    let mut bench = scanning(&["a:1", "b:1"]);
    bench.sdam.set_waiting(bench.now, true);
    let orders = bench.orders();
    assert_eq!(orders.len(), 2, "{orders:?}");
    assert!(orders[1].starts_with("open 1"));
    bench.sdam.set_waiting(bench.now, true);
    bench.sdam.request_check(bench.now);
    assert_eq!(bench.orders(), [""; 0]);
    bench.connected(1, &mongos());
    assert!(
        bench
            .orders()
            .iter()
            .any(|order| order.starts_with("open 2"))
    );
}

#[test]
fn a_server_is_skipped_for_5_s_after_a_network_error_of_its_check() {
    // A server whose check failed with a network error is skipped for 5 s (MON-23, timer T-10).
    let mut bench = scanning(&["a:1", "b:1"]);
    let broken = |address: &str| (address == "b:1").then(mongos);
    scan(&mut bench, broken);
    let failed = bench.now;
    bench.now = failed + Duration::from_millis(4_900);
    assert_eq!(scan(&mut bench, broken), ["b:1"]);
    bench.now = failed + Duration::from_millis(5_001);
    assert_eq!(scan(&mut bench, broken), ["b:1", "a:1"]);
    bench.pass(5_001);
    // A reply with `ok: 0` starts no cooldown.
    let refused = |address: &str| match address {
        "b:1" => Some(mongos()),
        _ => Some(rawdoc! { "ok": 0, "code": 1 }),
    };
    assert_eq!(scan(&mut bench, refused), ["b:1", "a:1"]);
    bench.pass(500);
    assert_eq!(scan(&mut bench, refused), ["b:1", "a:1"]);
}

#[test]
fn a_possible_primary_in_cooldown_is_skipped() {
    // A `PossiblePrimary` in cooldown is skipped as well (MON-23).
    let mut bench = scanning(&["a:1", "c:1"]);
    let asked = scan(&mut bench, |address| {
        (address != "a:1").then(|| of_three(false, Some("a:1")))
    });
    assert_eq!(asked.iter().filter(|address| *address == "a:1").count(), 1);
    bench.pass(500);
    let asked = scan(&mut bench, |_| Some(of_three(false, Some("a:1"))));
    assert!(!asked.contains(&"a:1".to_owned()), "{asked:?}");
}

#[test]
fn a_known_server_is_checked_twice_before_its_cooldown() {
    // A known server is checked again at once after a network error (MON-66), in a scan as well
    // (MON-29).
    let mut bench = scanning(&["a:1"]);
    scan(&mut bench, |_| Some(standalone()));
    bench.pass(60_000);
    assert_eq!(scan(&mut bench, |_| None), ["a:1", "a:1"]);
    bench.pass(500);
    assert_eq!(scan(&mut bench, |_| None), [""; 0]);
}

#[test]
fn a_check_without_a_reply_ends_at_its_time_limit() {
    let mut bench = scanning(&["a:1", "b:1"]);
    bench.sdam.set_waiting(bench.now, true);
    bench.orders();
    assert_eq!(bench.sleeps(), Some(10_000));
    bench.pass(10_000);
    assert_eq!(bench.orders()[..2], ["close 1", "publish"]);
    bench.pass(10_000);
    assert_eq!(
        bench.orders().last().map(String::as_str),
        Some("scan ended")
    );
}

#[test]
fn a_scan_stops_when_no_operation_waits_for_it() {
    let mut bench = scanning(&["a:1"]);
    scan(&mut bench, |_| Some(standalone()));
    bench.pass(60_000);
    assert!(bench.sdam.wants_scan(bench.now));
    bench.sdam.set_waiting(bench.now, true);
    bench.orders();
    bench.sdam.set_waiting(bench.now, false);
    // The server description stays, and the next operation waits for a scan again.
    assert_eq!(bench.orders(), ["close 1"]);
    assert_eq!(bench.server_type("a:1"), ServerType::Standalone);
    assert_eq!(bench.sdam.deadline(), None);
    assert!(bench.sdam.wants_scan(bench.now));
    bench.pass(3_600_000);
    assert_eq!(scan(&mut bench, |_| Some(standalone())), ["a:1"]);
}

#[test]
fn a_state_change_error_during_a_scan_requires_another_scan() {
    let mut bench = scanning(&["a:1", "b:1"]);
    bench.sdam.set_waiting(bench.now, true);
    bench.orders();
    let first = server_address_of(&bench, MonitorConnectionId(1));
    bench.connected(1, &mongos());
    bench.application_error(&first, Phase::Operation, command(10107));
    bench.connected(2, &mongos());
    assert_eq!(bench.sdam.scans_completed(), 1);
    assert!(bench.sdam.is_stale());
}

#[test]
fn a_scan_is_bounded_when_each_primary_names_a_new_member() {
    let mut bench = scanning(&["n0:1"]);
    let asked = scan(&mut bench, |address| {
        let number: u32 = address[1..address.len() - 2].parse().expect("a number");
        let next = format!("n{}:1", number + 1);
        let mut election = [0; 12];
        election[8..].copy_from_slice(&number.to_be_bytes());
        Some(rawdoc! {
            "ok": 1, "maxWireVersion": 21, "setName": "rs", "isWritablePrimary": true,
            "hosts": [address, next], "setVersion": 1,
            "electionId": ObjectId::from_bytes(election),
        })
    });
    assert_eq!(asked.len(), crate::sdam::MAX_SERVERS);
}

#[test]
fn a_scan_checks_a_stale_primary_once() {
    let mut bench = scanning(&["a:1", "b:1"]);
    let claim = |address: &str| {
        let election = if address == "a:1" { 1 } else { 2 };
        Some(rawdoc! {
            "ok": 1, "maxWireVersion": 21, "setName": "rs", "isWritablePrimary": true,
            "hosts": ["a:1", "b:1"], "setVersion": 1,
            "electionId": ObjectId::from_bytes([election; 12]),
        })
    };
    let asked = scan(&mut bench, claim);
    assert_eq!(asked.len(), 2);
    assert_eq!(bench.server_type("b:1"), ServerType::RsPrimary);
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
}

/// Returns a machine that has scanned a set of the primary `a` and the secondary `b`.
fn set_of_two() -> Bench {
    let mut bench = scanning(&["a:1", "b:1"]);
    scan(&mut bench, |address| Some(member(address == "a:1", "a:1")));
    bench.pass(1_000);
    bench.orders();
    bench
}

fn shut_down_in_write_concern() -> Error {
    let reply = rawdoc! { "ok": 1, "writeConcernError": { "code": 91, "errmsg": "x" } };
    let fault = InsertManyError::from_reply(&reply)
        .expect("valid")
        .expect("it has an error");
    Error::new(ErrorKind::InsertMany(fault))
}

#[test]
fn operation_errors_make_the_server_unknown_and_some_the_topology_stale() {
    // A state change error makes the topology stale unless the server is recovering (SDAM-97; A.12,
    // point 6). As in prose tests 2 to 5 for single-threaded clients, no server is checked at once.
    use TopologyType::{ReplicaSetNoPrimary as NoPrimary, ReplicaSetWithPrimary as WithPrimary};
    for (address, error, topology, stale) in [
        ("a:1", reset(), NoPrimary, false),
        ("a:1", command(10107), NoPrimary, true),
        ("a:1", command(13435), NoPrimary, true),
        ("a:1", command(10058), NoPrimary, true),
        ("b:1", command(13436), WithPrimary, false),
        ("b:1", command(11602), WithPrimary, false),
        ("a:1", command(189), NoPrimary, false),
        ("a:1", command(91), NoPrimary, true),
        ("a:1", command(11600), NoPrimary, true),
        ("a:1", shut_down_in_write_concern(), NoPrimary, true),
        // These errors do not change the server description.
        ("", timeout(), WithPrimary, false),
        ("", command(6), WithPrimary, false),
    ] {
        let mut bench = set_of_two();
        let target = if address.is_empty() { "a:1" } else { address };
        bench.application_error(target, Phase::Operation, error.clone());
        let unknown = bench.server_type(target) == ServerType::Unknown;
        assert_eq!(unknown, !address.is_empty(), "{error}");
        assert_eq!(bench.topology_type(), topology, "{error}");
        assert_eq!(bench.sdam.is_stale(), stale, "{error}");
        let asks = |order: &String| order.starts_with("hello") || order.starts_with("open");
        assert!(
            !bench.orders().iter().any(asks),
            "{error}: it is asked at once"
        );
        assert_eq!(bench.sdam.deadline(), None);
        // The next scan checks this server, because errors of operations start no cooldown.
        let asked = scan(&mut bench, |address| Some(member(address == "a:1", "a:1")));
        assert_eq!(asked.len(), 2, "{error}");
    }
}
