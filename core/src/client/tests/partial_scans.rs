//! Tests of scans in which a server does not answer. Operations that other servers can serve
//! continue, and the next operation continues the scan.

use super::*;
use crate::{
    error::ErrorKind,
    operation::OperationId,
    options::{Monitoring, ReadMode, ReadPreference},
    sdam::STRANGER_TIME,
};
use std::{sync::Arc, time::Duration};

const URI: &str = "mongodb://a/?replicaSet=rs&retryReads=false&retryWrites=false";

fn address(name: &str) -> Address {
    format!("{name}:27017").parse().expect("an address")
}

/// Returns a client of a replica set with the primary `a` and these secondaries. The `silent`
/// members do not answer.
fn set_of(uri: &str, secondaries: &[&str], silent: &[&str]) -> World {
    let names: Vec<String> = ["a"]
        .iter()
        .chain(secondaries)
        .map(|name| address(name).to_string())
        .collect();
    let hello = |name: &str| {
        let mut hosts = bson::RawArrayBuf::new();
        names.iter().for_each(|name| hosts.push(name.as_str()));
        rawdoc! {
            "ok": 1, "isWritablePrimary": name == "a", "secondary": name != "a", "hosts": hosts,
            "me": address(name).to_string(), "setName": "rs", "setVersion": 1, "minWireVersion": 0,
            "maxWireVersion": 21, "logicalSessionTimeoutMinutes": 30,
        }
    };
    let parsed = uri::parse_for(uri, Monitoring::Scanning).expect("a connection string");
    let mut world = World::with_options(parsed.options, hello("a"), Subscriptions::default());
    for name in secondaries {
        world.hellos.insert(address(name), hello(name));
    }
    world.silent = silent.iter().map(|name| address(name)).collect();
    world
}

fn limited(mut command: Command, millis: u64) -> Command {
    command.set_timeout(Some(Duration::from_millis(millis)));
    command
}

fn preferring_secondaries() -> Command {
    let mut command = find();
    let preference = ReadPreference::new(ReadMode::SecondaryPreferred);
    command.set_read_preference(Arc::new(preference));
    command
}

/// Starts an operation, and resumes it once if it has to wait.
fn begin(world: &mut World, command: Command) -> Progress {
    let start = world.client.start(world.now, command);
    world.run();
    match start {
        Progress::Waiting(id) => resume(world, id),
        start => start,
    }
}

fn resume(world: &mut World, id: OperationId) -> Progress {
    world.client.resume(world.now, id)
}

/// Advances the time by the 500 ms that lie between two checks of one server (MON-31), and resumes
/// the operation. The operation waits until the end of this time.
fn half_a_second_later(world: &mut World, id: OperationId) -> Progress {
    world.wait(Duration::from_millis(499));
    let id = waiting(resume(world, id));
    world.wait(Duration::from_millis(1));
    resume(world, id)
}

fn waiting(start: Progress) -> OperationId {
    match start {
        Progress::Waiting(id) => id,
        other => panic!("it does not wait: {other:?}"),
    }
}

/// Completes the exchange of an operation, and returns the address of its server.
fn finish(world: &mut World, start: Progress) -> String {
    let Progress::Exchange(mut exchange) = start else {
        panic!("it has no connection: {start:?}");
    };
    exchange.begin(world.now).expect("it fits");
    let server = exchange.facts().address.to_string();
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    server
}

/// Returns how many sockets to this server were dialled.
fn dials(world: &World, name: &str) -> usize {
    let address = address(name);
    world.dialled.iter().filter(|(_, a)| *a == address).count()
}

#[test]
fn an_operation_that_needs_the_primary_does_not_wait_for_a_silent_member() {
    // An operation waits for a scan (MON-25). But an operation that needs the primary waits only
    // for the primary (`sdam/scan.rs`).
    let mut world = set_of(URI, &["b"], &["b"]);
    for command in [find, insert, ping] {
        for _ in 0..5 {
            let start = begin(&mut world, limited(command(), 1_000));
            assert_eq!(finish(&mut world, start), "a:27017");
            assert_eq!(world.client.exact_deadline(), None);
        }
    }
    assert_eq!(dials(&world, "b"), 0, "no operation needs it");
    assert_eq!(dials(&world, "a"), 2, "one to check, one for operations");
    // After `heartbeatFrequencyMS` the primary is again the first server to be checked.
    let checks = world.dialled[0].0;
    world.wait(Duration::from_secs(60));
    let start = begin(&mut world, insert());
    let sent = world.sent.iter().filter(|&&socket| socket == checks);
    assert_eq!(sent.count(), 2);
    let Progress::Exchange(exchange) = start else {
        panic!("{start:?}");
    };
    assert!(exchange.is_preliminary(), "idle for long (SEL-72)");
    world.check_in(exchange, Outcome::Abandoned);
}

#[test]
fn a_silent_member_delays_only_one_operation() {
    let mut world = set_of(URI, &["b", "c"], &["b", "c"]);
    for _ in 0..2 {
        let id = waiting(begin(&mut world, limited(preferring_secondaries(), 1_000)));
        world.wait(Duration::from_millis(499));
        let id = waiting(resume(&mut world, id));
        // The scan is suspended after half of the time limit, so the operation has the other half.
        world.wait(Duration::from_millis(1));
        let start = resume(&mut world, id);
        assert_eq!(finish(&mut world, start), "a:27017");
    }
    assert_eq!((dials(&world, "b"), dials(&world, "c")), (1, 1));
    for _ in 0..15 {
        let start = begin(&mut world, limited(preferring_secondaries(), 1_000));
        assert_eq!(finish(&mut world, start), "a:27017");
    }
    // A cancelled check does not change the server description.
    let topology = world.client.topology();
    assert!(topology.servers.values().all(|s| s.error.is_none()));
    assert_eq!(world.client.counts().waiting, 0);
    assert_eq!(world.client.exact_deadline(), None);
}

#[test]
fn the_next_operation_continues_a_suspended_scan_with_the_unchecked_members() {
    let mut world = set_of(URI, &["b", "c"], &["b", "c"]);
    let id = waiting(begin(&mut world, limited(preferring_secondaries(), 100)));
    world.wait(Duration::from_millis(50));
    let start = resume(&mut world, id);
    assert_eq!(finish(&mut world, start), "a:27017");
    let first = if dials(&world, "b") == 1 { "b" } else { "c" };
    let other = if first == "b" { "c" } else { "b" };
    assert_eq!(dials(&world, other), 0);
    world.silent.remove(&address(other));
    // The primary is not checked again. The operation does not wait for the member that did not
    // answer before.
    let asked = world.sent.len();
    let start = begin(&mut world, preferring_secondaries());
    assert_eq!(finish(&mut world, start), address(other).to_string());
    assert_eq!(world.sent.len() - asked, 2, "two handshakes of `{other}`");
}

#[test]
fn silent_members_delay_one_operation_until_the_server_selection_timeout() {
    let silent: Vec<String> = (0..12).map(|n| format!("s{n}")).collect();
    let silent: Vec<&str> = silent.iter().map(String::as_str).collect();
    let limits = "connectTimeoutMS=1000&serverSelectionTimeoutMS=2500";
    for once in [true, false] {
        let uri = format!("{URI}&{limits}&serverSelectionTryOnce={once}");
        let mut world = set_of(&uri, &silent, &silent);
        let mut id = waiting(begin(&mut world, preferring_secondaries()));
        for _ in 0..2 {
            world.wait(Duration::from_secs(1));
            id = waiting(resume(&mut world, id));
        }
        world.wait(Duration::from_millis(500));
        let start = resume(&mut world, id);
        assert_eq!(finish(&mut world, start), "a:27017", "once: {once}");
        let asked: usize = silent.iter().map(|name| dials(&world, name)).sum();
        assert_eq!(asked, 3);
        for _ in 0..15 {
            let start = begin(&mut world, preferring_secondaries());
            assert_eq!(finish(&mut world, start), "a:27017");
        }
    }
}

#[test]
fn the_only_server_is_checked_again_by_the_next_operation() {
    let mut world = set_of(URI, &[], &["a"]);
    let id = waiting(begin(&mut world, limited(ping(), 100)));
    // After half of the time limit no server suits, so the check continues.
    world.wait(Duration::from_millis(50));
    let id = waiting(resume(&mut world, id));
    assert_eq!(dials(&world, "a"), 1);
    world.wait(Duration::from_millis(50));
    assert!(matches!(resume(&mut world, id), Progress::Failed(_)));
    assert_eq!(world.client.counts().sockets, 0);
    world.silent.clear();
    let id = waiting(begin(&mut world, ping()));
    let start = half_a_second_later(&mut world, id);
    assert_eq!(finish(&mut world, start), "a:27017");
}

#[test]
fn a_stale_topology_ends_a_suspended_scan() {
    // The error "not writable primary" makes the topology stale, so the next operation scans all
    // servers (SDAM-97).
    let mut world = set_of(URI, &["b"], &["b"]);
    let start = begin(&mut world, insert());
    let exchange = match start {
        Progress::Exchange(mut exchange) => {
            exchange.begin(world.now).expect("it fits");
            World::answer(
                &mut exchange,
                &rawdoc! { "ok": 0, "code": 10107, "errmsg": "x" },
            );
            exchange
        }
        other => panic!("{other:?}"),
    };
    world.check_in(exchange, Outcome::Completed);
    assert!(world.client.topology.is_stale());
    world.silent.clear();
    let id = waiting(begin(&mut world, insert()));
    let start = half_a_second_later(&mut world, id);
    assert_eq!(finish(&mut world, start), "a:27017");
}

#[test]
fn a_suspended_scan_checks_a_server_again_after_a_network_error() {
    let mut world = set_of(URI, &["b"], &[]);
    let Progress::Exchange(exchange) = begin(&mut world, insert()) else {
        panic!("the primary was checked");
    };
    let after = world.check_in(exchange, reset());
    assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
    let id = waiting(begin(&mut world, insert()));
    let start = half_a_second_later(&mut world, id);
    assert_eq!(finish(&mut world, start), "a:27017");
}

#[test]
fn after_a_continued_scan_a_second_scan_decides_server_selection() {
    // The insert began the first scan. So that scan is not newer than the start of the selection
    // for the `find`, and a second scan has to decide (SEL-71).
    let mut world = set_of(URI, &["b"], &["b"]);
    let start = begin(&mut world, insert());
    finish(&mut world, start);
    world.silent.clear();
    let mut command = find();
    let tags = vec![[("dc".to_owned(), "x".to_owned())].into_iter().collect()];
    let preference = ReadPreference::new(ReadMode::Secondary).with_tag_sets(tags);
    command.set_read_preference(Arc::new(preference.expect("tags")));
    let id = waiting(begin(&mut world, command));
    world.wait(Duration::from_millis(500));
    match resume(&mut world, id) {
        Progress::Failed(error) => assert!(
            matches!(error.kind(), ErrorKind::ServerSelection { .. }),
            "{error}"
        ),
        other => panic!("two scans found nothing: {other:?}"),
    }
}

#[test]
fn operations_are_distributed_over_every_mongos_that_replies() {
    // Each operation picks a random server of the latency window (SEL-58). If operations did not
    // wait for the scan, they would all use the first mongos.
    let uri = "mongodb://a,b,c/";
    let parsed = uri::parse_for(uri, Monitoring::Scanning).expect("a connection string");
    let mut world = World::with_options(parsed.options, mongos(), Subscriptions::default());
    world.silent.insert(address("b"));
    let id = waiting(begin(&mut world, limited(insert(), 1_000)));
    world.wait(Duration::from_millis(500));
    let start = resume(&mut world, id);
    let mut servers = BTreeSet::from([finish(&mut world, start)]);
    for _ in 0..30 {
        let start = begin(&mut world, limited(insert(), 1_000));
        servers.insert(finish(&mut world, start));
    }
    assert_eq!(servers.len(), 2, "{servers:?}");
}

#[test]
fn after_a_wait_for_a_scan_the_check_out_has_a_time_of_its_own() {
    // The wait for the scan takes `serverSelectionTimeoutMS` (SEL-35). The operation has time left,
    // so it opens a connection to the server that suits.
    let uri = format!("{URI}&connectTimeoutMS=4000&serverSelectionTimeoutMS=5000");
    for limit in [0, 20_000] {
        let mut world = set_of(&uri, &["b", "c", "d"], &["b", "c", "d"]);
        let mut id = waiting(begin(&mut world, limited(preferring_secondaries(), limit)));
        for millis in [4_000, 1_000] {
            world.wait(Duration::from_millis(millis));
            id = match resume(&mut world, id) {
                Progress::Waiting(id) => id,
                start => {
                    assert_eq!(finish(&mut world, start), "a:27017", "{limit}");
                    break;
                }
            };
        }
        assert_eq!(world.client.counts().waiting, 0, "{limit}");
    }
}

#[test]
fn hosts_that_never_answered_delay_operations_for_a_limited_time() {
    // Each operation would wait for the check of one further host, for half of its time limit.
    let silent: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let silent: Vec<&str> = silent.iter().map(String::as_str).collect();
    let uri = format!("{URI}&heartbeatFrequencyMS=10000");
    let mut world = set_of(&uri, &silent, &silent);
    let mut delayed = 0;
    for _ in 0..40 {
        let mut start = begin(&mut world, limited(preferring_secondaries(), 1_000));
        if let Progress::Waiting(id) = start {
            delayed += 1;
            world.wait(Duration::from_millis(500));
            start = resume(&mut world, id);
        }
        assert_eq!(finish(&mut world, start), "a:27017");
    }
    // The spent time comes back slowly, so one operation more than 6 is delayed.
    assert_eq!(delayed, 7);
    assert!(delayed * Duration::from_millis(500) < STRANGER_TIME + Duration::from_secs(1));
    // The same holds for later scans, which check the primary first.
    world.wait(Duration::from_secs(10));
    match begin(&mut world, limited(preferring_secondaries(), 1_000)) {
        Progress::Exchange(exchange) => {
            assert_eq!(exchange.facts().address.to_string(), "a:27017");
            world.check_in(exchange, Outcome::Abandoned);
        }
        other => panic!("it waits for hosts that never answered: {other:?}"),
    }
    // An operation that no server can serve waits for them.
    let mut command = find();
    command.set_read_preference(Arc::new(ReadPreference::new(ReadMode::Secondary)));
    let id = waiting(begin(&mut world, limited(command, 1_000)));
    let before: usize = silent.iter().map(|name| dials(&world, name)).sum();
    world.wait(Duration::from_secs(1));
    assert!(before > 6, "{before}");
    assert!(matches!(resume(&mut world, id), Progress::Failed(_)));
}

#[test]
fn an_operation_uses_a_server_of_an_earlier_scan_if_another_one_is_silent_now() {
    // The scan checks the primary first. The secondary is known and suits (MON-25).
    let mut world = set_of(URI, &["b"], &[]);
    let secondary = || {
        let mut command = find();
        command.set_read_preference(Arc::new(ReadPreference::new(ReadMode::Secondary)));
        limited(command, 1_000)
    };
    let start = begin(&mut world, secondary());
    assert_eq!(finish(&mut world, start), "b:27017");
    world.silent.insert(address("a"));
    world.wait(Duration::from_secs(60));
    let id = waiting(begin(&mut world, secondary()));
    world.wait(Duration::from_millis(500));
    match resume(&mut world, id) {
        Progress::Exchange(exchange) => {
            assert_eq!(exchange.facts().address.to_string(), "b:27017");
            world.check_in(exchange, Outcome::Abandoned);
        }
        other => panic!("the secondary is known: {other:?}"),
    }
}
