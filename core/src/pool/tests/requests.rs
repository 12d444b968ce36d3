//! Tests of check outs: order, limits, deadlines and refusals.

use super::*;

#[test]
fn a_check_out_from_an_empty_pool_emits_its_events_in_order() {
    // A check out starts (CMAP-73), creates a connection (CMAP-60, CMAP-76), establishes it
    // (CMAP-61) and ends with the checked out event (CMAP-86).
    let mut pool = new_pool(options(0, 0, 2));
    pool.handle_ready(at(0));
    pool.handle_ready(at(0));
    assert_eq!(
        pool.check_out(at(1), CheckOutId(7), None),
        CheckOut::Waiting
    );
    let expected = ["PoolCreated", "PoolReady", "Started", "Created 1", "open 1"];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_established(at(5), id(&pool, 1), ());
    let expected = [
        "Ready 1 after 4 ms",
        "CheckedOut 1 after 4 ms",
        "grant 1 to 7",
    ];
    assert_eq!(drain(&mut pool), expected);
    let back = id(&pool, 1);
    check_in(&mut pool, at(6), back);
    assert_eq!(
        pool.check_out(at(7), CheckOutId(8), None),
        CheckOut::Granted(id(&pool, 1), ())
    );
    let expected = ["CheckedIn 1", "Started", "CheckedOut 1 after 0 ms"];
    assert_eq!(drain(&mut pool), expected);
}

#[test]
fn without_subscribers_no_pool_event_is_emitted() {
    let mut pool = Pool::new(Address::tcp("db", 1), options(1, 0, 1), false);
    pool.handle_ready(at(0));
    let _ = pool.check_out(at(0), CheckOutId(1), None);
    pool.handle_established(at(1), id(&pool, 1), ());
    let back = id(&pool, 1);
    check_in(&mut pool, at(1), back);
    assert_eq!(drain(&mut pool), ["open 1", "grant 1 to 1"]);
}

#[test]
fn check_outs_are_served_in_the_order_of_their_arrival() {
    // Requests are served in the order of their arrival (CMAP-30). A new request waits behind the
    // earlier ones (CMAP-33).
    let mut pool = ready_pool(options(1, 0, 1));
    let only = fresh(&mut pool, at(0), 1);
    for request in 2..=4 {
        assert_eq!(
            pool.check_out(at(1), CheckOutId(request), None),
            CheckOut::Waiting
        );
    }
    assert_eq!(pool.counts().waiting, 3);
    for request in 2..=4_u64 {
        drain(&mut pool);
        check_in(&mut pool, at(1), only);
        assert_eq!(
            pool.check_out(at(1), CheckOutId(10 + request), None),
            CheckOut::Waiting
        );
        let orders = drain(&mut pool);
        assert!(
            orders.contains(&format!("grant 1 to {request}")),
            "{orders:?}"
        );
    }
}

#[test]
fn a_checked_in_connection_serves_a_check_out_blocked_by_max_connecting() {
    // A request that `maxConnecting` blocks takes a connection that another operation checks in
    // (CMAP-77, CMAP-78, CMAP trap 6).
    let mut pool = ready_pool(options(10, 0, 1));
    let a = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(1), CheckOutId(2), None);
    let _ = pool.check_out(at(1), CheckOutId(3), None);
    assert_eq!(
        drain(&mut pool),
        ["Started", "Created 2", "open 2", "Started"]
    );
    check_in(&mut pool, at(2), a);
    let expected = ["CheckedIn 1", "CheckedOut 1 after 1 ms", "grant 1 to 3"];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_established(at(3), id(&pool, 2), ());
    assert!(drain(&mut pool).contains(&"grant 2 to 2".to_owned()));
}

#[test]
fn a_waiting_check_out_fails_at_its_deadline() {
    // A request that waits too long fails and leaves the queue at once (CMAP-28, CMAP-32, CMAP-81).
    // One limit covers the whole wait in the queue (CMAP-34).
    let mut pool = ready_pool(PoolOptions {
        wait_queue_timeout: Some(Duration::from_millis(50)),
        ..options(1, 0, 1)
    });
    let only = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(1), CheckOutId(2), Some(at(500)));
    let _ = pool.check_out(at(2), CheckOutId(3), Some(at(20)));
    drain(&mut pool);
    assert_eq!(pool.deadline(), Some(at(20)));
    pool.handle_timeout(at(20));
    assert_eq!(
        drain(&mut pool),
        ["Failed: Timeout after 18 ms", "fail 3: timeout"]
    );
    assert_eq!(pool.deadline(), Some(at(51)));
    pool.handle_timeout(at(51));
    assert_eq!(
        drain(&mut pool),
        ["Failed: Timeout after 50 ms", "fail 2: timeout"]
    );
    assert_eq!(pool.deadline(), None);
    check_in(&mut pool, at(60), only);
    assert_eq!(pool.counts().available, 1);
}

#[test]
fn wait_queue_timeout_does_not_limit_the_establishment() {
    // `waitQueueTimeoutMS` limits only the time in the queue (CMAP-12). The deadline of the request
    // covers the establishment as well. A driver may have such a deadline instead of the option
    // (CMAP-13).
    let mut pool = ready_pool(PoolOptions {
        wait_queue_timeout: Some(Duration::from_millis(50)),
        ..options(1, 0, 1)
    });
    let _ = pool.check_out(at(0), CheckOutId(1), Some(at(300)));
    drain(&mut pool);
    assert_eq!(pool.deadline(), Some(at(300)));
    pool.handle_timeout(at(300));
    assert_eq!(
        drain(&mut pool),
        ["Failed: Timeout after 300 ms", "fail 1: timeout"]
    );
    assert_eq!(pool.counts().pending, 1, "the establishment goes on");
}

#[test]
fn the_connection_of_a_cancelled_check_out_serves_the_next_one() {
    // A connection whose request was cancelled during establishment is not leaked (scenario 11),
    // and its pool is not cleared (scenario 28).
    let mut pool = ready_pool(options(1, 0, 1));
    let _ = pool.check_out(at(0), CheckOutId(1), None);
    let _ = pool.check_out(at(0), CheckOutId(2), None);
    pool.cancel(at(1), CheckOutId(1));
    pool.cancel(at(1), CheckOutId(1));
    drain(&mut pool);
    pool.handle_established(at(2), id(&pool, 1), ());
    let expected = [
        "Ready 1 after 2 ms",
        "CheckedOut 1 after 2 ms",
        "grant 1 to 2",
    ];
    assert_eq!(drain(&mut pool), expected);
    let back = id(&pool, 1);
    check_in(&mut pool, at(3), back);
    let _ = pool.check_out(at(3), CheckOutId(3), None);
    pool.cancel(at(3), CheckOutId(3));
    assert_eq!(
        pool.counts().in_use,
        1,
        "what was granted has to be checked in"
    );
}

#[test]
fn the_connection_of_a_cancelled_check_out_becomes_available() {
    let mut pool = ready_pool(options(1, 0, 1));
    let _ = pool.check_out(at(0), CheckOutId(1), None);
    pool.cancel(at(1), CheckOutId(1));
    pool.handle_established(at(2), id(&pool, 1), ());
    assert_eq!(pool.counts().available, 1);
    assert_eq!(
        pool.check_out(at(3), CheckOutId(2), None),
        CheckOut::Granted(id(&pool, 1), ())
    );
}

#[test]
fn a_failed_establishment_lets_the_next_request_open_a_connection() {
    // After a failed establishment the next request gets a connection of its own (scenario 15).
    let mut pool = ready_pool(options(5, 0, 1));
    let _ = pool.check_out(at(0), CheckOutId(1), None);
    let _ = pool.check_out(at(0), CheckOutId(2), None);
    drain(&mut pool);
    pool.handle_establish_failed(at(3), id(&pool, 1), &reset());
    let orders = drain(&mut pool);
    assert_eq!(orders[orders.len() - 2..], ["Created 2", "open 2"]);
}

#[test]
fn a_check_in_of_a_connection_that_is_not_checked_out_is_refused() {
    // A check in of a connection that is not checked out returns an error (CMAP-87) and does not
    // change the counts (scenario 30).
    let mut pool = ready_pool(options(2, 0, 2));
    let a = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(0), CheckOutId(2), None);
    drain(&mut pool);
    check_in(&mut pool, at(0), a);
    let before = pool.counts();
    for wrong in [a, id(&pool, 2), id(&pool, 99), id(&pool, 0)] {
        let refused = pool.check_in(at(1), wrong, Condition::Healthy(()));
        assert_eq!(refused, Err(NotCheckedOut(wrong)));
    }
    assert_eq!(pool.counts(), before);
    assert_eq!(drain(&mut pool), ["CheckedIn 1"]);
    let text = NotCheckedOut(a).to_string();
    assert_eq!(text, "connection#1 is not checked out of this pool");
}

#[test]
fn the_most_recently_checked_in_connection_is_checked_out_first() {
    let mut pool = ready_pool(options(3, 0, 3));
    let (a, b) = (fresh(&mut pool, at(0), 1), fresh(&mut pool, at(0), 2));
    check_in(&mut pool, at(0), b);
    check_in(&mut pool, at(0), a);
    assert_eq!(
        pool.check_out(at(1), CheckOutId(3), None),
        CheckOut::Granted(a, ())
    );
}

#[test]
fn the_pool_created_event_contains_the_non_default_options() {
    // The created event has only the options that differ from the default (CMAP-113).
    let reported = ReportedPoolOptions {
        max_pool_size: Some(50),
        ..ReportedPoolOptions::default()
    };
    let mut pool: Pool<()> = new_pool(PoolOptions {
        reported: reported.clone(),
        ..PoolOptions::default()
    });
    let expected = PoolEvent::Created {
        address: Address::tcp("db", 27017),
        options: reported,
    };
    assert_eq!(pool.poll_order(), Some(Order::Emit(expected)));
}

#[test]
fn pool_errors_have_the_texts_of_the_specification() {
    // The errors have the texts of the rules CMAP-97, CMAP-142 and CMAP-143. An official test
    // checks the text for a closed pool (CMAP-141).
    let mut pool = ready_pool(options(1, 0, 1));
    let _ = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(0), CheckOutId(2), Some(at(1)));
    drain(&mut pool);
    pool.handle_timeout(at(1));
    pool.handle_clear(at(2), &reset(), true);
    let _ = pool.check_out(at(2), CheckOutId(3), None);
    let mut texts = Vec::new();
    while let Some(order) = pool.poll_order() {
        match order {
            Order::Fail { error, .. } | Order::Interrupt { error, .. } => {
                texts.push(error.kind().to_string());
            }
            Order::Emit(PoolEvent::CheckOutFailed { error, .. }) => {
                texts.extend(error.map(|e| e.kind().to_string()));
            }
            _ => {}
        }
    }
    let timeout = "Timed out while checking out a connection from connection pool";
    let expected = [
        timeout,
        timeout,
        "Connection to db:27017 interrupted due to server monitor timeout",
        "Connection pool for db:27017 was cleared because another operation failed with: \
         network error: reset",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn wait_queue_timeout_is_ignored_for_a_request_with_a_time_limit() {
    // `waitQueueTimeoutMS` does not apply to an operation with a time limit of its own (CMAP-153).
    let mut pool = ready_pool(PoolOptions {
        wait_queue_timeout: Some(Duration::from_millis(50)),
        ..options(1, 0, 1)
    });
    let only = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out_timed(at(0), CheckOutId(2), Some(at(70)));
    let _ = pool.check_out_timed(at(0), CheckOutId(3), None);
    assert_eq!(pool.deadline(), Some(at(70)));
    pool.handle_timeout(at(70));
    assert_eq!(pool.deadline(), None);
    drain(&mut pool);
    check_in(&mut pool, at(1000), only);
    assert!(drain(&mut pool).contains(&"grant 1 to 3".to_owned()));
}
