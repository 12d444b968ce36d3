//! Tests that scans leave 500 ms between two checks of one server, also while operations begin and
//! end (MON-31).

use super::{Bench, Phase, member, reset, standalone};
use crate::{random::Seed, sdam::MIN_HEARTBEAT_FREQUENCY};

fn scanning(seeds: &[&str]) -> Bench {
    Bench::seeds(seeds, |options| {
        options.subscribed = false;
        options.scanning = Some(Seed::new([1; 32]));
        options.heartbeat_frequency = MIN_HEARTBEAT_FREQUENCY;
    })
}

/// Returns the orders that begin checks.
fn checks(bench: &mut Bench) -> Vec<String> {
    let mut orders = bench.orders();
    orders.retain(|order| order.starts_with("open") || order.starts_with("hello"));
    orders
}

fn wait(bench: &mut Bench, waiting: bool) {
    bench.sdam.set_waiting(bench.now, waiting);
}

#[test]
fn short_operations_do_not_make_checks_less_than_500_ms_apart() {
    // Each operation ends 0 or 1 ms after its start. Its end cancels the check, as a network error
    // of an operation does (MON-60). The checks are 500 ms apart nevertheless (MON-31).
    for millis in [0, 1] {
        let mut bench = scanning(&["a:1"]);
        let mut opened = 0;
        for turn in 0..20_000_u64 {
            bench.sdam.wants_scan(bench.now);
            wait(&mut bench, true);
            bench.pass(millis);
            opened += checks(&mut bench).len();
            wait(&mut bench, false);
            assert_eq!(bench.sdam.deadline(), None, "turn {turn}");
            bench.pass(1 - millis);
        }
        // In 20 s there are 40 intervals of 500 ms.
        assert!((20..=41).contains(&opened), "{opened} checks");
    }
}

#[test]
fn a_cancelled_check_is_repeated_after_500_ms() {
    // The next check begins 500 ms after the end of the cancelled one, so the next operation waits
    // (MON-31).
    let mut bench = scanning(&["a:1"]);
    wait(&mut bench, true);
    assert_eq!(checks(&mut bench), ["open 1 to a:1"]);
    bench.pass(30);
    wait(&mut bench, false);
    assert_eq!(bench.orders(), ["close 1"]);
    bench.pass(20);
    wait(&mut bench, true);
    assert_eq!(bench.orders(), [""; 0]);
    assert_eq!(bench.sleeps(), Some(480));
    bench.pass(479);
    assert_eq!(bench.orders(), [""; 0]);
    bench.pass(1);
    assert_eq!(bench.orders(), ["open 2 to a:1"]);
    bench.connected(2, &standalone());
    assert!(bench.orders().contains(&"scan ended".to_owned()));
    assert!(!bench.sdam.is_stale());
}

#[test]
fn a_check_cancelled_at_its_start_and_the_next_check_are_500_ms_apart() {
    // The retry of a failed check comes at once, but only once (MON-66). The cancelled check and
    // the next one are 500 ms apart (MON-31).
    let mut bench = scanning(&["a:1"]);
    wait(&mut bench, true);
    bench.orders();
    bench.connected(1, &standalone());
    bench.pass(1_000);
    bench.orders();
    assert!(bench.sdam.wants_scan(bench.now));
    wait(&mut bench, true);
    assert_eq!(bench.orders(), ["hello on 1"]);
    wait(&mut bench, false);
    wait(&mut bench, true);
    assert_eq!(bench.orders(), ["close 1"]);
    bench.pass(500);
    assert_eq!(bench.orders(), ["open 2 to a:1"]);
    bench.failed(2);
    assert_eq!(checks(&mut bench), ["open 3 to a:1"]);
    bench.failed(3);
    assert_eq!(checks(&mut bench), [""; 0]);
}

#[test]
fn a_scan_checks_other_servers_while_one_was_checked_too_recently() {
    let mut bench = scanning(&["a:1", "b:1"]);
    wait(&mut bench, true);
    let first = checks(&mut bench);
    let (one, other) = match first[0].as_str() {
        "open 1 to a:1" => ("a:1", "b:1"),
        _ => ("b:1", "a:1"),
    };
    assert_eq!(first, [format!("open 1 to {one}")]);
    wait(&mut bench, false);
    wait(&mut bench, true);
    assert_eq!(checks(&mut bench), [format!("open 2 to {other}")]);
    bench.pass(100);
    bench.connected(2, &member(other == "a:1", "a:1"));
    // An operation for which this server is suitable does not wait for the rest of the scan.
    assert!(bench.sdam.is_rest_of_scan_optional(bench.now));
    assert_eq!(checks(&mut bench), [""; 0]);
    assert_eq!(bench.sleeps(), Some(400));
    bench.pass(400);
    assert_eq!(checks(&mut bench), [format!("open 3 to {one}")]);
}

#[test]
fn after_an_operation_error_a_server_is_checked_500_ms_after_its_last_check() {
    // While the scan is suspended, an error of an operation makes the server of its first check
    // Unknown. This server is checked again 500 ms after its first check (MON-31).
    let mut bench = scanning(&["a:1", "b:1"]);
    wait(&mut bench, true);
    let first = checks(&mut bench).concat().replace("open 1 to ", "");
    bench.connected(1, &member(first == "a:1", "a:1"));
    while bench.sdam.poll_order().is_some() {}
    wait(&mut bench, false);
    bench.application_error(&first, Phase::Operation, reset());
    bench.orders();
    wait(&mut bench, true);
    let other = checks(&mut bench);
    assert_eq!(other.len(), 1, "{other:?}");
    assert!(!other[0].ends_with(&first), "{other:?}");
    bench.connected(2, &member(first != "a:1", "a:1"));
    assert_eq!(checks(&mut bench), [""; 0]);
    bench.pass(499);
    assert_eq!(checks(&mut bench), [""; 0]);
    bench.pass(1);
    let again = checks(&mut bench);
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(again[0].ends_with(&first), "{again:?}");
}

#[test]
fn checks_of_a_suspended_and_of_the_next_scan_are_500_ms_apart() {
    // The results of the suspended scan are too old (MON-25), but its last check still counts for
    // the interval of 500 ms (MON-31).
    let mut bench = scanning(&["a:1"]);
    wait(&mut bench, true);
    bench.orders();
    bench.pass(499);
    wait(&mut bench, false);
    bench.orders();
    bench.pass(1);
    assert!(bench.sdam.wants_scan(bench.now));
    assert!(!bench.sdam.is_scan_under_way());
    wait(&mut bench, true);
    assert_eq!(checks(&mut bench), [""; 0]);
    assert_eq!(bench.sleeps(), Some(499));
    bench.pass(499);
    assert_eq!(checks(&mut bench), ["open 2 to a:1"]);
}

#[test]
fn a_scan_in_a_forked_process_checks_at_once() {
    // The parent process made the last check, so the check of the child comes at once (CMAP-103).
    let mut bench = scanning(&["a:1"]);
    wait(&mut bench, true);
    bench.orders();
    bench.connected(1, &standalone());
    wait(&mut bench, false);
    bench.pass(1);
    bench.orders();
    bench.sdam.handle_forked(bench.now, &reset());
    wait(&mut bench, true);
    assert_eq!(checks(&mut bench), ["open 2 to a:1"]);
}
