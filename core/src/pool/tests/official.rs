//! Official tests of the format `cmap-format`, as tests of the pool alone. Each test names its
//! official file.

use super::*;

fn check_out_waiting(pool: &mut Pool<()>, now: Instant, request: u64) {
    let answer = pool.check_out(now, CheckOutId(request), None);
    assert_eq!(answer, CheckOut::Waiting);
}

/// Runs background work while it is due, and establishes each new connection at once. Returns the
/// orders without `open` and `Ready`.
fn populate(pool: &mut Pool<()>, now: Instant) -> Vec<String> {
    let mut orders = drain(pool);
    while pool.deadline().is_some_and(|due| due <= now) {
        pool.handle_timeout(now);
        while let Some(order) = pool.poll_order() {
            if let Order::Open(connection) = order {
                pool.handle_established(now, connection, ());
            }
            orders.push(short(order));
        }
    }
    orders.retain(|word| !word.starts_with("open") && !word.starts_with("Ready"));
    orders
}

#[test]
fn a_pool_is_populated_to_min_pool_size_only_once_ready() {
    // Official test `pool-create-min-size`.
    let mut pool = new_pool(options(10, 3, 2));
    assert_eq!(populate(&mut pool, at(200)), ["PoolCreated"]);
    pool.handle_ready(at(200));
    let expected = ["PoolReady", "Created 1", "Created 2", "Created 3"];
    assert_eq!(populate(&mut pool, at(200)), expected);
    assert_eq!(pool.counts().available, 3);
}

#[test]
fn a_cleared_pool_is_not_populated_until_it_is_ready_again() {
    // Official test `pool-clear-min-size`.
    let mut pool = new_pool(options(10, 1, 2));
    pool.handle_ready(at(0));
    let expected = ["PoolCreated", "PoolReady", "Created 1"];
    assert_eq!(populate(&mut pool, at(0)), expected);
    pool.handle_clear(at(10), &reset(), false);
    let expected = ["PoolCleared(false)", "Closed 1: Stale", "close 1"];
    assert_eq!(populate(&mut pool, at(10)), expected);
    assert_eq!(populate(&mut pool, at(300)), [""; 0]);
    pool.handle_ready(at(300));
    assert_eq!(populate(&mut pool, at(300)), ["PoolReady", "Created 2"]);
}

#[test]
fn repeated_ready_and_clear_emit_one_event_each() {
    // Official tests `pool-ready-ready` and `pool-clear-paused`.
    let mut pool = new_pool(options(1, 0, 1));
    pool.handle_clear(at(0), &reset(), false);
    pool.handle_ready(at(1));
    pool.handle_ready(at(1));
    pool.handle_clear(at(2), &reset(), false);
    pool.handle_clear(at(2), &reset(), false);
    let expected = ["PoolCreated", "PoolReady", "PoolCleared(false)"];
    assert_eq!(drain(&mut pool), expected);
}

#[test]
fn a_clear_fails_all_waiting_check_outs() {
    // Official test `pool-clear-clears-waitqueue`.
    let mut pool = ready_pool(options(1, 0, 2));
    let _ = fresh(&mut pool, at(0), 1);
    for request in 2..=4 {
        check_out_waiting(&mut pool, at(0), request);
    }
    drain(&mut pool);
    pool.handle_clear(at(5), &reset(), false);
    let expected = [
        "PoolCleared(false)",
        "Failed: ConnectionError after 5 ms",
        "fail 2: cleared",
        "Failed: ConnectionError after 5 ms",
        "fail 3: cleared",
        "Failed: ConnectionError after 5 ms",
        "fail 4: cleared",
    ];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!((pool.counts().waiting, pool.deadline()), (0, None));
}

#[test]
fn a_checked_in_connection_serves_a_waiting_check_out_before_new_ones() {
    // Official test `pool-checkout-returned-connection-maxConnecting`.
    let mut pool = ready_pool(options(10, 0, 2));
    let first = fresh(&mut pool, at(0), 1);
    for request in 2..=4 {
        check_out_waiting(&mut pool, at(1), request);
    }
    drain(&mut pool);
    check_in(&mut pool, at(400), first);
    let expected = ["CheckedIn 1", "CheckedOut 1 after 399 ms", "grant 1 to 4"];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_established(at(750), id(&pool, 2), ());
    pool.handle_established(at(750), id(&pool, 3), ());
    let orders = drain(&mut pool);
    assert!(orders.contains(&"grant 2 to 2".to_owned()), "{orders:?}");
    assert!(orders.contains(&"grant 3 to 3".to_owned()), "{orders:?}");
    assert_eq!(pool.counts().total, 3);
}
