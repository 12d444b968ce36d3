//! The reset of the machine in a forked child process (CMAP-103).

use super::{Bench, options, polled, reset, standalone, versioned};
use crate::description::ServerType;

#[test]
fn a_forked_child_closes_its_connections_and_checks_at_once() {
    let mut bench = polled();
    bench.connected(1, &standalone());
    bench.pass(10);
    bench.orders();
    bench.sdam.handle_forked(bench.now, &reset());
    let expected = [
        "close 1",
        "clear pool, interrupting",
        "publish",
        "open 2 to a:1",
    ];
    assert_eq!(bench.orders(), expected);
    assert_eq!(bench.server_type("a:1"), ServerType::Unknown);
    bench.connected(2, &standalone());
    assert_eq!(bench.orders(), ["ready pool of server#1", "publish"]);
}

#[test]
fn a_forked_child_closes_the_streaming_and_the_measuring_connection() {
    let mut bench = super::streamed();
    bench.connected(1, &versioned(1));
    bench.orders();
    bench.sdam.handle_forked(bench.now, &reset());
    let orders = bench.orders();
    assert!(
        orders[..2].iter().all(|order| order.starts_with("close ")),
        "{orders:?}"
    );
    assert_eq!(orders.last().map(String::as_str), Some("open 3 to a:1"));
}

#[test]
fn a_forked_child_recreates_the_pool_of_a_load_balancer() {
    let mut bench = Bench::seeds(&["a:1"], |options| options.load_balanced = true);
    let before = bench.id("a:1");
    bench.orders();
    bench.sdam.handle_forked(bench.now, &reset());
    let orders: Vec<String> = bench.orders();
    let expected = [
        "close pool of server#1",
        "create pool of a:1",
        "ready pool of server#2",
        "publish",
    ];
    assert_eq!(orders, expected);
    assert_ne!(bench.id("a:1"), before);
    assert_eq!(bench.server_type("a:1"), ServerType::LoadBalancer);
}

#[test]
fn a_fork_before_the_start_or_after_the_close_has_no_effect() {
    let mut sdam = crate::sdam::Sdam::new(options(&["a:1"]));
    sdam.handle_forked(crate::time::Instant::ZERO, &reset());
    assert!(sdam.poll_order().is_none());
    let mut bench = polled();
    bench.sdam.close(bench.now);
    bench.orders();
    bench.sdam.handle_forked(bench.now, &reset());
    assert_eq!(bench.orders(), [""; 0]);
}
