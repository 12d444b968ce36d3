//! Tests of single rules of `docs/requirements`.

use super::*;

#[test]
fn max_pool_size_zero_means_no_limit() {
    // `maxPoolSize` 0 means no limit (CMAP-8, CMAP trap 5).
    let mut pool = ready_pool(options(0, 0, 200));
    for request in 0..150 {
        let _ = pool.check_out(at(0), CheckOutId(request), None);
    }
    assert_eq!((pool.counts().pending, pool.counts().waiting), (150, 0));
}

#[test]
fn population_does_not_exceed_max_pool_size() {
    // `minPoolSize` does not raise the number of connections above `maxPoolSize` (CMAP-9, CMAP-42).
    let mut pool = ready_pool(options(2, 5, 5));
    for number in 1..=2 {
        pool.handle_timeout(at(0));
        pool.handle_established(at(0), id(&pool, number), ());
    }
    assert_eq!(pool.deadline(), None);
    pool.handle_timeout(at(0));
    assert_eq!(pool.counts().total, 2);
}

#[test]
fn a_populated_connection_serves_a_check_out_blocked_by_max_connecting() {
    // The connection for `minPoolSize` serves a request that `maxConnecting` blocks. No other
    // connection is opened (CMAP-72, CMAP trap 7).
    let mut pool = ready_pool(options(10, 1, 1));
    pool.handle_timeout(at(0));
    let _ = pool.check_out(at(1), CheckOutId(1), None);
    drain(&mut pool);
    pool.handle_established(at(2), id(&pool, 1), ());
    let expected = [
        "Ready 1 after 2 ms",
        "CheckedOut 1 after 1 ms",
        "grant 1 to 1",
    ];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.counts().total, 1);
}

#[test]
fn max_idle_time_zero_is_no_limit_and_in_use_connections_are_not_idle() {
    // `maxIdleTimeMS` 0 means no limit (CMAP-10). Only available connections become idle, and only
    // after more than the limit (CMAP trap 12).
    for limit in [0, 10] {
        let mut pool = ready_pool(PoolOptions {
            max_idle: Some(Duration::from_millis(limit)),
            ..options(2, 0, 2)
        });
        let connection = fresh(&mut pool, at(0), 1);
        assert_eq!(pool.deadline(), None, "in use");
        check_in(&mut pool, at(500), connection);
        assert_eq!(pool.deadline().is_none(), limit == 0);
        let answer = pool.check_out(at(510), CheckOutId(2), None);
        assert_eq!(answer, CheckOut::Granted(connection, ()));
    }
}

#[test]
fn a_duplicate_check_out_id_is_refused_without_an_event() {
    let mut pool = ready_pool(options(1, 0, 1));
    let _ = pool.check_out(at(0), CheckOutId(1), None);
    let _ = pool.check_out(at(0), CheckOutId(2), None);
    drain(&mut pool);
    for request in [1, 2] {
        let answer = pool.check_out(at(1), CheckOutId(request), None);
        assert!(matches!(answer, CheckOut::Failed(_)), "{answer:?}");
    }
    assert_eq!(drain(&mut pool), [""; 0]);
    assert_eq!((pool.counts().pending, pool.counts().waiting), (1, 1));
}

#[test]
fn a_cancelled_check_out_emits_a_failed_event_with_reason_timeout() {
    // The check out of a cancelled request fails with an event (CMAP section 1.5.1). Exactly one
    // checked out or check out failed event follows each started event (CMAP trap 11).
    let mut pool = ready_pool(options(1, 0, 1));
    let _ = pool.check_out(at(0), CheckOutId(1), None);
    let _ = pool.check_out(at(0), CheckOutId(2), None);
    drain(&mut pool);
    pool.cancel(at(3), CheckOutId(2));
    pool.cancel(at(4), CheckOutId(1));
    let expected = ["Failed: Timeout after 3 ms", "Failed: Timeout after 4 ms"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.deadline(), None);
}

#[test]
fn a_clear_of_a_paused_pool_emits_no_event_and_still_interrupts() {
    // A clear of a paused pool emits no event (CMAP-92), but raises the generation (CMAP trap 4).
    // With `interruptInUseConnections` it also interrupts connections in use (CMAP-94).
    let mut pool = ready_pool(options(2, 0, 2));
    let _ = fresh(&mut pool, at(0), 1);
    pool.handle_clear(at(1), &reset(), false);
    drain(&mut pool);
    pool.handle_clear(at(2), &reset(), true);
    assert_eq!(drain(&mut pool), ["interrupt 1"]);
    assert_eq!((pool.generation(), pool.state()), (2, PoolState::Paused));
}

#[test]
fn each_connection_is_counted_in_one_state_and_in_the_total() {
    // Each connection counts in one state and in the total (CMAP-24).
    let mut pool = ready_pool(options(9, 5, 2));
    let [_, _, available, drains] = [1, 2, 3, 4].map(|request| fresh(&mut pool, at(0), request));
    let due = pool.check_in(at(1), drains, Condition::ReplyDue);
    assert_eq!(due, Ok(()));
    check_in(&mut pool, at(1), available);
    pool.handle_timeout(at(1));
    let expected = Counts {
        total: 5,
        available: 1,
        pending: 1,
        in_use: 2,
        draining: 1,
        waiting: 0,
    };
    assert_eq!(pool.counts(), expected);
}

#[test]
fn the_wait_queue_is_bounded() {
    // The number of waiting requests is limited (SEL-37).
    let mut pool: Pool<()> = Pool::new(Address::tcp("db", 27017), options(1, 0, 1), false);
    pool.handle_ready(at(0));
    for request in 0..=u64::from(MAX_WAITERS) {
        let answer = pool.check_out(at(0), CheckOutId(request), None);
        assert_eq!(answer, CheckOut::Waiting);
    }
    assert_eq!(pool.counts().waiting, MAX_WAITERS);
    let CheckOut::Failed(error) = pool.check_out(at(0), CheckOutId(u64::MAX), None) else {
        panic!("there is no room");
    };
    let text = error.kind().to_string();
    let numbers = format!("is {}, but the limit is {MAX_WAITERS}", MAX_WAITERS + 1);
    assert!(text.contains(&numbers), "{text}");
    pool.cancel(at(0), CheckOutId(7));
    let answer = pool.check_out(at(0), CheckOutId(u64::MAX), None);
    assert_eq!(answer, CheckOut::Waiting);
}

#[test]
fn a_closed_connection_is_never_used_again() {
    // A closed connection is not used again, even if later inputs name it (CMAP-18).
    let mut pool = ready_pool(PoolOptions {
        max_idle: Some(Duration::from_millis(10)),
        ..options(5, 0, 5)
    });
    let all: Vec<ConnectionId> = (1..=4).map(|n| fresh(&mut pool, at(0), n)).collect();
    assert_eq!(
        pool.check_in(at(0), all[0], Condition::Broken(None)),
        Ok(())
    );
    check_in(&mut pool, at(0), all[1]);
    pool.handle_idle_closed(at(1), all[1], None);
    check_in(&mut pool, at(1), all[2]);
    pool.handle_timeout(at(20));
    pool.handle_clear(at(21), &reset(), false);
    check_in(&mut pool, at(21), all[3]);
    pool.handle_ready(at(22));
    drain(&mut pool);
    for &connection in &all {
        pool.handle_established(at(23), connection, ());
        pool.handle_establish_failed(at(23), connection, &reset());
        pool.handle_drained(at(23), connection, ());
        let refused = pool.check_in(at(23), connection, Condition::Healthy(()));
        assert_eq!(refused, Err(NotCheckedOut(connection)));
    }
    assert_eq!(drain(&mut pool), [""; 0]);
    assert_eq!(pool.counts(), Counts::default());
    assert_eq!(fresh(&mut pool, at(24), 9), id(&pool, 5));
}

#[test]
fn a_pending_connection_is_not_granted() {
    // A pending connection is granted to no request (CMAP-22) and is not available (CMAP-65).
    let mut pool = ready_pool(options(1, 1, 1));
    pool.handle_timeout(at(0));
    for request in 1..=2 {
        let answer = pool.check_out(at(0), CheckOutId(request), None);
        assert_eq!(answer, CheckOut::Waiting);
    }
    assert_eq!((pool.counts().available, pool.counts().pending), (0, 1));
    drain(&mut pool);
    pool.handle_timeout(at(60_000));
    assert_eq!(drain(&mut pool), [""; 0]);
    pool.handle_established(at(60_000), id(&pool, 1), ());
    let grants = drain(&mut pool);
    assert_eq!(grants.last().map(String::as_str), Some("grant 1 to 1"));
}

#[test]
fn population_does_not_block_check_outs_or_check_ins() {
    // While the establishment of a connection for `minPoolSize` hangs, check outs are served
    // (CMAP-66) and connections are checked in (CMAP-78).
    let mut pool = ready_pool(options(10, 5, 2));
    pool.handle_timeout(at(0));
    drain(&mut pool);
    let own = pool.check_out(at(1), CheckOutId(1), None);
    assert_eq!(own, CheckOut::Waiting);
    pool.handle_established(at(2), id(&pool, 2), ());
    let expected = ["Started", "Created 2", "open 2", "Ready 2 after 1 ms"];
    assert_eq!(drain(&mut pool)[..4], expected);
    let back = id(&pool, 2);
    check_in(&mut pool, at(3), back);
    let again = pool.check_out(at(4), CheckOutId(2), None);
    assert_eq!(again, CheckOut::Granted(id(&pool, 2), ()));
}
