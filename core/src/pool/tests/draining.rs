//! Tests of connections that are checked in while a reply is outstanding.

use super::*;

/// Checks out a new connection, number 1 of the pool.
fn in_use(pool: &mut Pool<()>) -> ConnectionId {
    let connection = fresh(pool, at(0), 1);
    drain(pool);
    connection
}

/// Checks in a connection whose reply is outstanding.
fn check_in_with_reply_due(pool: &mut Pool<()>, connection: ConnectionId) {
    let left = pool.check_in(at(1), connection, Condition::ReplyDue);
    assert_eq!(left, Ok(()));
}

#[test]
fn a_drained_connection_is_checked_out_again() {
    let mut pool = ready_pool(options(1, 0, 2));
    let a = in_use(&mut pool);
    check_in_with_reply_due(&mut pool, a);
    assert_eq!(drain(&mut pool), ["CheckedIn 1"]);
    let counts = pool.counts();
    assert_eq!((counts.draining, counts.in_use, counts.total), (1, 0, 1));
    assert_eq!(counts.available, 0);
    // A draining connection counts towards `maxPoolSize` (CMAP-42), so the request waits.
    assert_eq!(
        pool.check_out(at(2), CheckOutId(2), None),
        CheckOut::Waiting
    );
    assert_eq!(drain(&mut pool), ["Started"]);
    pool.handle_drained(at(9), a, ());
    let expected = ["CheckedOut 1 after 7 ms", "grant 1 to 2"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!((pool.counts().draining, pool.counts().in_use), (0, 1));
}

#[test]
fn a_connection_that_fails_to_drain_is_closed_and_replaced() {
    let mut pool = ready_pool(options(1, 0, 2));
    let a = in_use(&mut pool);
    check_in_with_reply_due(&mut pool, a);
    assert_eq!(
        pool.check_out(at(2), CheckOutId(2), None),
        CheckOut::Waiting
    );
    drain(&mut pool);
    pool.handle_idle_closed(at(9), a, None);
    let expected = ["Closed 1: Error", "close 1", "Created 2", "open 2"];
    assert_eq!(drain(&mut pool), expected);
    // Inputs about the closed connection change nothing.
    pool.handle_drained(at(9), a, ());
    pool.handle_idle_closed(at(9), a, None);
    assert_eq!(drain(&mut pool), [""; 0]);
}

#[test]
fn a_draining_connection_does_not_block_other_check_outs() {
    let mut pool = ready_pool(options(2, 0, 2));
    let a = in_use(&mut pool);
    check_in_with_reply_due(&mut pool, a);
    assert_eq!(
        pool.check_out(at(2), CheckOutId(2), None),
        CheckOut::Waiting
    );
    let expected = ["CheckedIn 1", "Started", "Created 2", "open 2"];
    assert_eq!(drain(&mut pool), expected);
    // The pool is full, so request 3 waits. The connection that becomes available first serves this
    // request.
    assert_eq!(
        pool.check_out(at(3), CheckOutId(3), None),
        CheckOut::Waiting
    );
    pool.handle_drained(at(4), a, ());
    let expected = ["Started", "CheckedOut 1 after 1 ms", "grant 1 to 3"];
    assert_eq!(drain(&mut pool), expected);
}

#[test]
fn clearing_or_closing_the_pool_closes_draining_connections() {
    let mut pool = ready_pool(options(0, 0, 2));
    let a = in_use(&mut pool);
    check_in_with_reply_due(&mut pool, a);
    drain(&mut pool);
    pool.handle_clear(at(2), &reset(), false);
    assert_eq!(drain(&mut pool), ["PoolCleared(false)"]);
    assert_eq!(pool.deadline(), Some(at(2)));
    pool.handle_timeout(at(2));
    assert_eq!(drain(&mut pool), ["Closed 1: Stale", "close 1"]);
    assert_eq!(pool.deadline(), None);

    for cleared in [false, true] {
        let mut pool = ready_pool(options(0, 0, 2));
        let a = in_use(&mut pool);
        check_in_with_reply_due(&mut pool, a);
        drain(&mut pool);
        if cleared {
            // The late reply arrives between the clear and the background run that closes stale
            // connections.
            pool.handle_clear(at(2), &reset(), true);
            pool.handle_drained(at(2), a, ());
            let expected = ["PoolCleared(true)", "Closed 1: Stale", "close 1"];
            assert_eq!(drain(&mut pool), expected);
        } else {
            pool.handle_close(at(2));
            let expected = ["Closed 1: PoolClosed", "close 1", "PoolClosed"];
            assert_eq!(drain(&mut pool), expected);
        }
        assert_eq!(pool.counts(), Counts::default());
    }
}

#[test]
fn a_stale_connection_is_closed_and_not_drained() {
    let mut pool = ready_pool(options(0, 0, 2));
    let a = in_use(&mut pool);
    pool.handle_clear(at(1), &reset(), false);
    drain(&mut pool);
    check_in_with_reply_due(&mut pool, a);
    assert_eq!(
        drain(&mut pool),
        ["CheckedIn 1", "Closed 1: Stale", "close 1"]
    );
}

#[test]
fn handle_drained_is_ignored_unless_the_connection_drains() {
    let mut pool = ready_pool(options(0, 0, 2));
    let a = in_use(&mut pool);
    pool.handle_drained(at(1), a, ());
    assert_eq!(pool.counts().in_use, 1);
    check_in(&mut pool, at(1), a);
    drain(&mut pool);
    pool.handle_drained(at(2), a, ());
    assert_eq!(pool.counts().available, 1);
    assert_eq!(drain(&mut pool), [""; 0]);
}

#[test]
fn a_waiting_check_out_replaces_a_stale_connection_before_population() {
    let mut pool = ready_pool(options(1, 1, 1));
    let a = in_use(&mut pool);
    check_in_with_reply_due(&mut pool, a);
    pool.handle_clear(at(2), &reset(), false);
    pool.handle_ready(at(2));
    assert_eq!(
        pool.check_out(at(2), CheckOutId(2), None),
        CheckOut::Waiting
    );
    drain(&mut pool);
    pool.handle_timeout(at(2));
    let expected = ["Closed 1: Stale", "close 1", "Created 2", "open 2"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.counts().waiting, 0, "the new one is its own");
}
