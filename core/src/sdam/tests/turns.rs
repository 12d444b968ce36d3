//! Tests of the turns of servers that replies named and that never answered.

use super::*;
use crate::{hello::MAX_MEMBERS, sdam::MAX_STRANGER_CHECKS};
use bson::RawArrayBuf;
use std::collections::BTreeSet;

/// Returns the reply of a secondary that names this many hosts which do not exist.
fn naming(count: usize) -> RawDocumentBuf {
    let strangers = (0..count).map(|n| format!("bogus{n}:1"));
    let hosts: RawArrayBuf = ["a:1", "b:1"]
        .map(str::to_owned)
        .into_iter()
        .chain(strangers)
        .collect();
    rawdoc! { "ok": 1, "setName": "rs", "secondary": true, "maxWireVersion": 21, "hosts": hosts }
}

/// Carries out the opened and closed connections of monitors, and returns those that are open, with
/// their hosts.
fn carry(bench: &mut Bench, open: &mut BTreeSet<(u64, String)>) {
    while let Some(order) = bench.poll() {
        match order {
            Order::Open {
                connection,
                address,
                ..
            } => {
                open.insert((connection.0, address.host().to_owned()));
            }
            Order::Close { connection } => open.retain(|(id, _)| *id != connection.0),
            _ => {}
        }
    }
}

fn strangers(open: &BTreeSet<(u64, String)>) -> Vec<u64> {
    let bogus = open.iter().filter(|(_, host)| host.starts_with("bogus"));
    bogus.map(|(id, _)| *id).collect()
}

fn bench() -> Bench {
    Bench::seeds(&["a:1", "b:1"], |options| {
        options.streaming = false;
        options.replica_set = Some("rs".to_owned());
    })
}

#[test]
fn few_hosts_that_never_answered_are_checked_at_once_and_each_has_its_turn() {
    // With the two seeds, these are as many members as a reply can name.
    const HOSTS: usize = MAX_MEMBERS - 2;
    let mut bench = bench();
    let mut open = BTreeSet::new();
    carry(&mut bench, &mut open);
    bench.connected(1, &naming(HOSTS));
    bench.sdam.set_waiting(bench.now, true);
    let mut checked = BTreeSet::new();
    for _ in 0..100 {
        carry(&mut bench, &mut open);
        let now_open = strangers(&open);
        assert!(now_open.len() <= MAX_STRANGER_CHECKS, "{now_open:?}");
        let hosts = open.iter().filter(|(_, host)| host.starts_with("bogus"));
        checked.extend(hosts.map(|(_, host)| host.clone()));
        if checked.len() == HOSTS {
            break;
        }
        for id in now_open {
            bench
                .sdam
                .handle_failed(bench.now, MonitorConnectionId(id), reset());
        }
        bench.pass(1);
    }
    assert_eq!(checked.len(), HOSTS);
    // The server that answered is checked meanwhile as often as before.
    bench.connected(2, &member(false, "a:1"));
    bench.pass(600);
    let due = bench.orders();
    assert!(
        due.iter().any(|order| order.ends_with("hello on 1")),
        "{due:?}"
    );
}

#[test]
fn a_host_that_answered_needs_no_turn_and_a_removed_one_gives_its_turn_back() {
    let mut bench = bench();
    let mut open = BTreeSet::new();
    carry(&mut bench, &mut open);
    bench.connected(1, &naming(20));
    carry(&mut bench, &mut open);
    let first = strangers(&open);
    assert_eq!(first.len(), MAX_STRANGER_CHECKS);
    // A member that answers gives its turn to the next one, and keeps its connection.
    bench.connected(first[0], &member(false, "a:1"));
    bench.pass(0);
    carry(&mut bench, &mut open);
    assert_eq!(strangers(&open).len(), MAX_STRANGER_CHECKS + 1);
    // The primary removes all that it does not name. No turn is left to nobody.
    bench.connected(2, &member(true, "b:1"));
    carry(&mut bench, &mut open);
    assert!(strangers(&open).is_empty());
    assert!(bench.sdam.deadline().is_none_or(|due| due > bench.now));
}

#[test]
fn a_scan_checks_servers_that_answered_before_strangers() {
    let mut options = options(&["a:1", "b:1"]);
    options.replica_set = Some("rs".to_owned());
    options.scanning = Some(crate::random::Seed::new([3; 32]));
    let mut bench = Bench::new(options);
    bench.sdam.set_waiting(bench.now, true);
    let mut open = BTreeSet::new();
    carry(&mut bench, &mut open);
    let (first, host) = open.first().cloned().expect("the scan begins");
    bench.connected(first, &naming(50));
    open.clear();
    carry(&mut bench, &mut open);
    let (_, next) = open.first().cloned().expect("the scan goes on");
    assert_ne!(next, host);
    assert!(!next.starts_with("bogus"), "{next}");
}

#[test]
fn a_member_cannot_keep_the_primary_of_another_member_out() {
    // Two members answer. One of them names hosts that do not exist, others with each reply, and
    // one of them as the primary. The other member names the true primary, which is no seed.
    let mut bench = bench();
    let mut open = BTreeSet::new();
    carry(&mut bench, &mut open);
    let lie = |turn: usize| {
        let list = |kind: &str| -> RawArrayBuf {
            (0..MAX_MEMBERS)
                .map(|n| format!("bogus{turn}{kind}{n}:1"))
                .collect()
        };
        rawdoc! {
            "ok": 1, "setName": "rs", "secondary": true, "maxWireVersion": 21,
            "hosts": list("h"), "passives": list("p"), "arbiters": list("a"),
            "primary": format!("bogus{turn}h0:1"),
        }
    };
    bench.connected(1, &lie(0));
    for turn in 1..8 {
        bench.pass(1_000);
        bench.sdam.request_check(bench.now);
        carry(&mut bench, &mut open);
        bench.reply(1, &lie(turn), false);
    }
    let truth = rawdoc! {
        "ok": 1, "setName": "rs", "secondary": true, "maxWireVersion": 21,
        "hosts": ["a:1", "b:1", "true:1"], "primary": "true:1",
    };
    bench.sdam.set_waiting(bench.now, true);
    bench.connected(2, &truth);
    assert!(addresses(&bench).contains(&"true:1".to_owned()));
    // So many new servers have no token for a check at once, but for one after 500 ms.
    bench.pass(500);
    // Its check begins after a few of those that run ended, although the others were first.
    let mut ended = 0;
    let checks_primary = |open: &BTreeSet<(u64, String)>| open.iter().any(|(_, h)| h == "true");
    loop {
        carry(&mut bench, &mut open);
        if checks_primary(&open) {
            break;
        }
        let id = *strangers(&open).first().expect("the others are checked");
        bench
            .sdam
            .handle_failed(bench.now, MonitorConnectionId(id), reset());
        bench.pass(0);
        ended += 1;
        assert!(ended <= 4, "the primary waits for all others");
    }
}

#[test]
fn a_server_that_answered_stays_in_a_full_topology() {
    let mut bench = Bench::seeds(&["a:1"], |options| {
        options.streaming = false;
        options.replica_set = Some("rs".to_owned());
    });
    let mut open = BTreeSet::new();
    carry(&mut bench, &mut open);
    let list = |turn: usize| {
        let hosts: RawArrayBuf = (0..MAX_MEMBERS)
            .map(|n| format!("bogus{turn}n{n}:1"))
            .collect();
        rawdoc! {
            "ok": 1, "setName": "rs", "secondary": true, "maxWireVersion": 21, "hosts": hosts,
        }
    };
    let honest = rawdoc! {
        "ok": 1, "setName": "rs", "secondary": true, "maxWireVersion": 21,
        "hosts": ["a:1", "b:1"],
    };
    bench.connected(1, &honest);
    carry(&mut bench, &mut open);
    let (other, _) = open.last().cloned().expect("b is checked");
    bench.connected(other, &member(false, "a:1"));
    // The network is lost, and then the only server that answers names others with each reply.
    bench.pass(10_000);
    bench
        .sdam
        .handle_failed(bench.now, MonitorConnectionId(other), reset());
    for turn in 0..5 {
        bench.reply(1, &list(turn), false);
        bench.pass(10_000);
        carry(&mut bench, &mut open);
    }
    let known = addresses(&bench);
    assert!(known.contains(&"b:1".to_owned()), "{known:?}");
}
