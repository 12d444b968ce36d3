//! Tests of how connections and pools begin and end.

use super::*;

#[test]
fn a_paused_or_closed_pool_fails_check_outs_and_emits_events() {
    // A check out emits its started event (CMAP-73) and fails if the pool is paused (CMAP-41,
    // CMAP-49, CMAP-80) or closed (CMAP-57, CMAP-79). A paused pool creates no connection for
    // `minPoolSize` either (CMAP-53). Only a ready pool serves check outs (CMAP-50).
    let mut pool = new_pool(options(1, 1, 1));
    let CheckOut::Failed(error) = pool.check_out(at(0), CheckOutId(1), None) else {
        panic!("a paused pool serves nobody");
    };
    assert!(matches!(
        error.kind(),
        ErrorKind::ConnectionPoolCleared { .. }
    ));
    pool.handle_timeout(at(0));
    let expected = [
        "PoolCreated",
        "Started",
        "Failed: ConnectionError after 0 ms",
    ];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_close(at(1));
    pool.handle_ready(at(1));
    let CheckOut::Failed(error) = pool.check_out(at(1), CheckOutId(2), None) else {
        panic!("a closed pool serves nobody");
    };
    assert!(matches!(error.kind(), ErrorKind::PoolClosed { .. }));
    let expected = ["PoolClosed", "Started", "Failed: PoolClosed after 0 ms"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!((pool.state(), pool.deadline()), (PoolState::Closed, None));
}

#[test]
fn a_connection_of_an_earlier_generation_is_closed_at_check_in() {
    // A clear raises the generation of the pool (CMAP-90). A connection of an earlier generation
    // (CMAP-23) is stale (CMAP-40) and is closed at check in (CMAP-89).
    let mut pool = ready_pool(options(2, 0, 2));
    let connection = fresh(&mut pool, at(0), 1);
    pool.handle_clear(at(1), &reset(), false);
    assert_eq!(
        (pool.generation(), pool.generation_of(connection)),
        (1, Some(0))
    );
    check_in(&mut pool, at(2), connection);
    let expected = [
        "PoolCleared(false)",
        "CheckedIn 1",
        "Closed 1: Stale",
        "close 1",
    ];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.counts(), Counts::default());
}

#[test]
fn pool_closed_precedes_error_and_stale_as_the_close_reason() {
    // If several reasons apply at check in, the connection is closed with the first of these: the
    // pool is closed, the connection is broken, the connection is stale (CMAP trap 8).
    for (close, broken, reason) in [
        (false, false, "Stale"),
        (false, true, "Error"),
        (true, true, "PoolClosed"),
        (true, false, "PoolClosed"),
    ] {
        let mut pool = ready_pool(options(2, 0, 2));
        let connection = fresh(&mut pool, at(0), 1);
        pool.handle_clear(at(1), &reset(), false);
        if close {
            pool.handle_close(at(1));
        }
        let condition = match broken {
            true => Condition::Broken(Some(reset())),
            false => Condition::Healthy(()),
        };
        assert_eq!(pool.check_in(at(2), connection, condition), Ok(()));
        assert!(drain(&mut pool).contains(&format!("Closed 1: {reason}")));
    }
}

#[test]
fn a_check_out_closes_stale_and_idle_connections() {
    // A check out closes the perished connections that it meets (CMAP-75). Background runs do not
    // happen in this test.
    let mut pool = ready_pool(PoolOptions {
        max_idle: Some(Duration::from_millis(10)),
        ..options(5, 0, 5)
    });
    let a = fresh(&mut pool, at(0), 1);
    check_in(&mut pool, at(0), a);
    assert_eq!(
        pool.check_out(at(10), CheckOutId(2), None),
        CheckOut::Granted(a, ())
    );
    check_in(&mut pool, at(10), a);
    drain(&mut pool);
    assert_eq!(
        pool.check_out(at(21), CheckOutId(3), None),
        CheckOut::Waiting
    );
    let expected = [
        "Started",
        "Closed 1: Idle",
        "close 1",
        "Created 2",
        "open 2",
    ];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_established(at(21), id(&pool, 2), ());
    let back = id(&pool, 2);
    check_in(&mut pool, at(21), back);
    pool.handle_clear(at(22), &reset(), false);
    pool.handle_ready(at(22));
    drain(&mut pool);
    assert_eq!(
        pool.check_out(at(22), CheckOutId(4), None),
        CheckOut::Waiting
    );
    let expected = [
        "Started",
        "Closed 2: Stale",
        "close 2",
        "Created 3",
        "open 3",
    ];
    assert_eq!(drain(&mut pool), expected);
}

#[test]
fn a_background_run_closes_idle_connections_and_stale_ones_while_paused() {
    // A background run closes idle connections (CMAP-107), and stale ones also while the pool is
    // paused (CMAP-111). A run is due as soon as there is work (CMAP-110), after a clear at once
    // (CMAP-108).
    let mut pool = ready_pool(PoolOptions {
        max_idle: Some(Duration::from_millis(10)),
        ..options(5, 0, 5)
    });
    let (a, b) = (fresh(&mut pool, at(0), 1), fresh(&mut pool, at(0), 2));
    check_in(&mut pool, at(0), a);
    check_in(&mut pool, at(5), b);
    drain(&mut pool);
    let due = pool.deadline().expect("something will be idle");
    assert!(due > at(10) && due < at(11));
    pool.handle_timeout(at(10));
    assert_eq!(drain(&mut pool), [""; 0]);
    pool.handle_timeout(due);
    assert_eq!(drain(&mut pool), ["Closed 1: Idle", "close 1"]);
    pool.handle_clear(at(12), &reset(), false);
    assert_eq!(pool.deadline(), Some(at(12)));
    pool.handle_timeout(at(12));
    let expected = ["PoolCleared(false)", "Closed 2: Stale", "close 2"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.deadline(), None);
}

#[test]
fn a_failed_establishment_fails_its_check_out_after_the_clear() {
    // The order is: pool cleared, which fails request 2 in the queue, then connection closed, then
    // check out of request 1 failed (CMAP-151, CMAP trap 1). Request 1 gets the error of
    // establishment (CMAP-62, CMAP-83), and the counts fall once (CMAP trap 2).
    let mut pool = ready_pool(options(5, 0, 1));
    let _ = pool.check_out(at(0), CheckOutId(1), None);
    let _ = pool.check_out(at(0), CheckOutId(2), None);
    drain(&mut pool);
    pool.handle_clear(at(3), &reset(), false);
    pool.handle_establish_failed(at(3), id(&pool, 1), &reset());
    let expected = [
        "PoolCleared(false)",
        "Failed: ConnectionError after 3 ms",
        "fail 2: cleared",
        "Closed 1: Error",
        "close 1",
        "Failed: ConnectionError after 3 ms",
        "fail 1: other",
    ];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.counts(), Counts::default());
    pool.handle_establish_failed(at(4), id(&pool, 1), &reset());
    assert_eq!(drain(&mut pool), [""; 0]);
}

#[test]
fn a_connection_established_across_a_clear_is_closed_as_stale() {
    let mut pool = ready_pool(options(5, 0, 1));
    let _ = pool.check_out(at(0), CheckOutId(1), None);
    pool.handle_clear(at(1), &reset(), false);
    pool.handle_ready(at(2));
    drain(&mut pool);
    pool.handle_established(at(3), id(&pool, 1), ());
    let expected = [
        "Ready 1 after 3 ms",
        "Closed 1: Stale",
        "close 1",
        "Failed: ConnectionError after 3 ms",
        "fail 1: cleared",
    ];
    assert_eq!(drain(&mut pool), expected);
}

#[test]
fn a_clear_interrupts_pending_and_in_use_connections_once() {
    // A clear with `interruptInUseConnections` interrupts pending connections and connections in
    // use, each of them once (CMAP-94 to CMAP-98, CMAP trap 9). `handle_clear` itself interrupts
    // them, without a background run (CMAP-95).
    let mut pool = ready_pool(options(5, 0, 5));
    let used = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(0), CheckOutId(2), None);
    drain(&mut pool);
    pool.handle_clear(at(1), &reset(), true);
    let expected = [
        "PoolCleared(true)",
        "Closed 2: Stale",
        "close 2",
        "Failed: ConnectionError after 1 ms",
        "fail 2: cleared",
        "interrupt 1",
    ];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_clear(at(2), &reset(), true);
    assert_eq!(drain(&mut pool), [""; 0]);
    assert_eq!(
        pool.generation(),
        2,
        "trap 4: also a paused pool's clear counts"
    );
    assert_eq!(pool.check_in(at(3), used, Condition::Broken(None)), Ok(()));
    assert_eq!(
        drain(&mut pool),
        ["CheckedIn 1", "Closed 1: Error", "close 1"]
    );
}

#[test]
fn closing_a_pool_closes_connections_before_it_fails_requests() {
    // The pool closes pending connection 3 before the closed event of the pool (CMAP-55), and
    // requests 4 and 6 fail. Connection 1 is in use and is closed at check in (CMAP-56).
    let mut pool = ready_pool(options(3, 0, 1));
    let (used, free) = (fresh(&mut pool, at(0), 1), fresh(&mut pool, at(0), 2));
    check_in(&mut pool, at(0), free);
    let _ = pool.check_out(at(0), CheckOutId(3), None);
    let _ = pool.check_out(at(0), CheckOutId(4), None);
    let _ = pool.check_out(at(0), CheckOutId(5), None);
    check_in(&mut pool, at(0), free);
    let _ = pool.check_out(at(0), CheckOutId(6), None);
    drain(&mut pool);
    pool.handle_close(at(1));
    pool.handle_close(at(1));
    let expected = [
        "Closed 3: PoolClosed",
        "close 3",
        "PoolClosed",
        "Failed: PoolClosed after 1 ms",
        "fail 4: closed",
        "Failed: PoolClosed after 1 ms",
        "fail 6: closed",
    ];
    assert_eq!(drain(&mut pool), expected);
    check_in(&mut pool, at(2), used);
    assert_eq!(
        drain(&mut pool),
        ["CheckedIn 1", "Closed 1: PoolClosed", "close 1"]
    );
}

#[test]
fn only_a_ready_pool_is_populated_and_one_connection_at_a_time() {
    // A ready pool creates connections for `minPoolSize` (CMAP-66 to CMAP-72, above all CMAP-68),
    // one after the other. A paused pool creates none (CMAP-53).
    let mut pool = new_pool(options(10, 3, 2));
    pool.handle_timeout(at(0));
    assert_eq!(drain(&mut pool), ["PoolCreated"]);
    pool.handle_ready(at(1));
    assert_eq!(drain(&mut pool), ["PoolReady"]);
    assert_eq!(pool.deadline(), Some(at(1)));
    pool.handle_timeout(at(1));
    assert_eq!(drain(&mut pool), ["Created 1", "open 1"]);
    assert_eq!(pool.deadline(), None);
    // A connection for `minPoolSize` is established with time limits of its own (CMAP-154).
    assert!(pool.is_population(id(&pool, 1)) && !pool.is_population(id(&pool, 2)));
    pool.handle_established(at(2), id(&pool, 1), ());
    assert!(!pool.is_population(id(&pool, 1)));
    assert_eq!(pool.deadline(), Some(at(2)));
    pool.handle_timeout(at(2));
    assert_eq!(
        drain(&mut pool),
        ["Ready 1 after 1 ms", "Created 2", "open 2"]
    );
    pool.handle_clear(at(3), &reset(), false);
    pool.handle_timeout(at(3));
    let expected = ["PoolCleared(false)", "Closed 1: Stale", "close 1"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.deadline(), None);
}

#[test]
fn population_pauses_after_a_failed_establishment_without_a_clear() {
    // An overloaded server does not get connection attempts in a tight loop. Its errors do not
    // clear the pool (CMAP-44).
    let mut pool = ready_pool(options(10, 1, 2));
    pool.handle_timeout(at(0));
    pool.handle_establish_failed(at(5), id(&pool, 1), &reset());
    pool.handle_timeout(at(5));
    let expected = ["Created 1", "open 1", "Closed 1: Error", "close 1"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.deadline(), Some(at(5) + POPULATION_PAUSE));
    pool.handle_timeout(at(5) + POPULATION_PAUSE);
    assert_eq!(drain(&mut pool), ["Created 2", "open 2"]);
}

#[test]
fn an_idle_connection_that_breaks_is_closed_and_removed() {
    let mut pool = ready_pool(options(10, 0, 2));
    let (a, b) = (fresh(&mut pool, at(0), 1), fresh(&mut pool, at(0), 2));
    check_in(&mut pool, at(0), a);
    drain(&mut pool);
    pool.handle_idle_closed(at(1), a, Some(reset()));
    pool.handle_idle_closed(at(1), a, Some(reset()));
    pool.handle_idle_closed(at(1), b, Some(reset()));
    assert_eq!(drain(&mut pool), ["Closed 1: Error", "close 1"]);
    assert_eq!((pool.counts().total, pool.counts().in_use), (1, 1));
}
