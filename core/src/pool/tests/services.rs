//! Tests of a pool behind a load balancer: generations of services, and pinned connections.

use super::*;

fn service(n: u8) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[11] = n;
    ObjectId::from_bytes(bytes)
}

fn load_balanced_pool(max_size: u32) -> Pool<()> {
    ready_pool(PoolOptions {
        load_balanced: true,
        ..options(max_size, 0, 2)
    })
}

/// Checks out a new connection that leads to the service `to`.
fn check_out_new_to_service(pool: &mut Pool<()>, request: u64, to: u8) -> ConnectionId {
    assert_eq!(
        pool.check_out(at(0), CheckOutId(request), None),
        CheckOut::Waiting
    );
    let opened = opened(pool);
    pool.handle_hello_answered(opened, service(to));
    pool.handle_established(at(0), opened, ());
    drain(pool);
    opened
}

/// Returns the error text of the next request that fails.
fn first_failure(pool: &mut Pool<()>) -> String {
    std::iter::from_fn(|| pool.poll_order())
        .find_map(|order| match order {
            Order::Fail { error, .. } => Some(error.to_string()),
            _ => None,
        })
        .expect("its time was over")
}

/// Returns the next connection that the pool opens.
fn opened(pool: &mut Pool<()>) -> ConnectionId {
    std::iter::from_fn(|| pool.poll_order())
        .find_map(|order| match order {
            Order::Open(connection) => Some(connection),
            _ => None,
        })
        .expect("there was room")
}

#[test]
fn clearing_a_service_affects_only_its_connections_and_no_request() {
    // The clear of a service makes only its connections stale (CMAP-99, CMAP-101, LB-52). Waiting
    // requests do not fail (CMAP-102).
    let mut pool = load_balanced_pool(3);
    let (a, b) = (
        check_out_new_to_service(&mut pool, 1, 7),
        check_out_new_to_service(&mut pool, 2, 8),
    );
    let c = check_out_new_to_service(&mut pool, 3, 7);
    assert_eq!(
        pool.check_out(at(1), CheckOutId(4), None),
        CheckOut::Waiting
    );
    drain(&mut pool);
    pool.handle_clear_service(at(2), service(7));
    assert_eq!(drain(&mut pool), ["PoolCleared(service 7)"]);
    assert_eq!(pool.state(), PoolState::Ready);
    // The connection to the other service serves the waiting request. Connections to the cleared
    // service are closed at check in.
    check_in(&mut pool, at(3), b);
    assert_eq!(
        drain(&mut pool),
        ["CheckedIn 2", "CheckedOut 2 after 2 ms", "grant 2 to 4"]
    );
    check_in(&mut pool, at(4), a);
    assert_eq!(
        drain(&mut pool),
        ["CheckedIn 1", "Closed 1: Stale", "close 1"]
    );
    check_in(&mut pool, at(5), c);
    assert_eq!(
        drain(&mut pool),
        ["CheckedIn 3", "Closed 3: Stale", "close 3"]
    );
}

#[test]
fn only_available_connections_of_a_cleared_service_are_closed() {
    let mut pool = load_balanced_pool(4);
    let all: Vec<ConnectionId> = [7, 8, 7, 8]
        .into_iter()
        .zip(1..)
        .map(|(to, request)| check_out_new_to_service(&mut pool, request, to))
        .collect();
    // The oldest and the newest available connections lead to the service that is not cleared.
    for &place in &[1, 0, 2, 3] {
        check_in(&mut pool, at(1), all[place]);
    }
    drain(&mut pool);
    pool.handle_clear_service(at(2), service(7));
    assert_eq!(pool.deadline(), Some(at(2)), "the next run is due at once");
    pool.handle_timeout(at(2));
    let done = drain(&mut pool);
    assert_eq!(
        done,
        [
            "PoolCleared(service 7)",
            "Closed 1: Stale",
            "close 1",
            "Closed 3: Stale",
            "close 3",
        ]
    );
    assert_eq!(pool.counts().available, 2);
    assert_eq!(pool.deadline(), None);
}

#[test]
fn the_generation_of_a_service_is_dropped_with_its_last_connection() {
    // The generation of a service is dropped with its last connection (CMAP-100).
    let mut pool = load_balanced_pool(2);
    let first = check_out_new_to_service(&mut pool, 1, 7);
    pool.handle_clear_service(at(1), service(7));
    assert_eq!(pool.generation_of(first), Some(0));
    let second = check_out_new_to_service(&mut pool, 2, 7);
    assert_eq!(pool.generation_of(second), Some(1), "it is counted on");
    for connection in [first, second] {
        let broken = Condition::Broken(None);
        assert_eq!(pool.check_in(at(2), connection, broken), Ok(()));
    }
    drain(&mut pool);
    let third = check_out_new_to_service(&mut pool, 3, 7);
    assert_eq!(pool.generation_of(third), Some(0));
    // The clear of a service without connections emits no event.
    pool.handle_clear_service(at(3), service(9));
    assert_eq!(drain(&mut pool), [""; 0]);
}

#[test]
fn a_clear_of_a_service_requeues_its_pending_check_out_at_the_head() {
    // Request 2 does not fail and returns to the head of the queue (CMAP-102).
    let mut pool = ready_pool(PoolOptions {
        load_balanced: true,
        ..options(2, 0, 1)
    });
    let other = check_out_new_to_service(&mut pool, 1, 7);
    assert_eq!(
        pool.check_out(at(1), CheckOutId(2), None),
        CheckOut::Waiting
    );
    let second = opened(&mut pool);
    assert_eq!(pool.handle_hello_answered(second, service(7)), Some(0));
    assert_eq!(
        pool.check_out(at(2), CheckOutId(3), None),
        CheckOut::Waiting
    );
    pool.handle_clear_service(at(3), service(7));
    pool.handle_established(at(4), second, ());
    assert_eq!(
        drain(&mut pool),
        [
            "Started",
            "PoolCleared(service 7)",
            "Ready 2 after 3 ms",
            "Closed 2: Stale",
            "close 2",
            "Created 3",
            "open 3"
        ]
    );
    let third = id(&pool, 3);
    assert_eq!(pool.handle_hello_answered(third, service(8)), Some(0));
    pool.handle_established(at(5), third, ());
    let done = drain(&mut pool);
    assert!(done.contains(&"grant 3 to 2".to_owned()), "{done:?}");
    check_in(&mut pool, at(6), third);
    check_in(&mut pool, at(6), other);
    assert!(drain(&mut pool).contains(&"grant 3 to 3".to_owned()));
}

#[test]
fn a_check_out_timeout_reports_how_the_connections_are_used() {
    // The error of a full pool counts the connections by their use (LB-43 to LB-46).
    let mut pool = ready_pool(PoolOptions {
        load_balanced: true,
        wait_queue_timeout: Some(Duration::from_millis(50)),
        ..options(4, 0, 2)
    });
    let all: Vec<ConnectionId> = (1..=4)
        .map(|n| check_out_new_to_service(&mut pool, n, 7))
        .collect();
    pool.pin_for(all[0], PinnedFor::Cursor);
    pool.pin_for(all[1], PinnedFor::Cursor);
    pool.pin_for(all[2], PinnedFor::Cursor);
    // The connection of a cursor in a transaction counts for the transaction (LB-44).
    pool.pin_for(all[2], PinnedFor::Transaction);
    let timeout = |pool: &mut Pool<()>, request| {
        assert_eq!(
            pool.check_out(at(0), CheckOutId(request), None),
            CheckOut::Waiting
        );
        pool.handle_timeout(at(50));
        first_failure(pool)
    };
    let text = timeout(&mut pool, 10);
    assert!(
        text.contains(
            "Timeout waiting for connection from the connection pool. maxPoolSize: 4, connections \
             in use by cursors: 2, connections in use by transactions: 1, connections in use by \
             other operations: 1"
        ),
        "{text}"
    );
    // A connection that was checked in no longer counts for the cursor.
    check_in(&mut pool, at(60), all[0]);
    pool.check_out(at(60), CheckOutId(11), None)
        .expect_granted(all[0]);
    let text = timeout(&mut pool, 12);
    assert!(text.contains("cursors: 1, "), "{text}");
    assert!(text.contains("other operations: 2"), "{text}");
}

impl CheckOut<()> {
    fn expect_granted(self, connection: ConnectionId) {
        assert_eq!(self, Self::Granted(connection, ()));
    }
}

#[test]
fn a_timeout_blocked_by_max_connecting_has_the_plain_message() {
    // The pool is not full: request 2 waits because of `maxConnecting`. So its error does not have
    // the detailed message (LB-45).
    let mut pool = ready_pool(PoolOptions {
        load_balanced: true,
        wait_queue_timeout: Some(Duration::from_millis(50)),
        ..options(4, 0, 1)
    });
    for request in [1, 2] {
        let asked = pool.check_out(at(0), CheckOutId(request), None);
        assert_eq!(asked, CheckOut::Waiting);
    }
    pool.handle_timeout(at(50));
    let failed = first_failure(&mut pool);
    assert!(failed.contains("Timed out while checking out"), "{failed}");
}

#[test]
fn a_timeout_during_establishment_has_the_plain_message() {
    // The only connection of the full pool is being established for the request. So the error does
    // not have the detailed message (LB-45).
    let mut pool = load_balanced_pool(1);
    let asked = pool.check_out(at(0), CheckOutId(1), Some(at(50)));
    assert_eq!(asked, CheckOut::Waiting);
    assert_eq!(pool.counts().pending, 1);
    pool.handle_timeout(at(50));
    let failed = first_failure(&mut pool);
    assert!(failed.contains("Timed out while checking out"), "{failed}");
}

#[test]
fn the_service_is_set_only_during_establishment_and_only_once() {
    let mut pool = load_balanced_pool(1);
    let connection = check_out_new_to_service(&mut pool, 1, 7);
    assert_eq!(pool.handle_hello_answered(connection, service(8)), None);
    assert_eq!(pool.handle_hello_answered(id(&pool, 9), service(8)), None);
    let mut pending = load_balanced_pool(1);
    let asked = pending.check_out(at(0), CheckOutId(1), None);
    assert_eq!(asked, CheckOut::Waiting);
    assert_eq!(
        pending.handle_hello_answered(id(&pool, 1), service(7)),
        Some(0)
    );
    assert_eq!(
        pending.handle_hello_answered(id(&pool, 1), service(8)),
        None
    );
    pool.pin_for(id(&pool, 9), PinnedFor::Cursor);
    check_in(&mut pool, at(1), connection);
    // `pin_for` does nothing for an available connection.
    pool.pin_for(connection, PinnedFor::Cursor);
    assert_eq!(
        pool.check_out(at(1), CheckOutId(2), None),
        CheckOut::Granted(connection, ())
    );
}

#[test]
fn clearing_a_service_closes_only_its_own_draining_connections() {
    let mut pool = load_balanced_pool(2);
    for (request, to) in [(1, 7), (2, 8)] {
        let connection = check_out_new_to_service(&mut pool, request, to);
        let left = pool.check_in(at(1), connection, Condition::ReplyDue);
        assert_eq!(left, Ok(()));
    }
    drain(&mut pool);
    pool.handle_clear_service(at(2), service(7));
    assert_eq!(pool.deadline(), Some(at(2)));
    pool.handle_timeout(at(2));
    let expected = ["PoolCleared(service 7)", "Closed 1: Stale", "close 1"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!((pool.counts().draining, pool.deadline()), (1, None));
}
