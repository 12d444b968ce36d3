//! Scripts: inputs, and the events and actions that have to follow.

use super::*;
use crate::{error::NetworkFault, event::ReportedPoolOptions};

const fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn reset() -> Error {
    Error::network(NetworkFault::Reset, "reset")
}

fn options(max_size: u32, min_size: u32, max_connecting: u32) -> PoolOptions {
    PoolOptions {
        max_size,
        min_size,
        max_connecting,
        ..PoolOptions::default()
    }
}

fn new_pool(options: PoolOptions) -> Pool {
    Pool::new(Address::tcp("db", 27017), options, true)
}

fn ready_pool(options: PoolOptions) -> Pool {
    let mut pool = new_pool(options);
    pool.handle_ready(at(0));
    drain(&mut pool);
    pool
}

/// All actions, in short.
fn drain(pool: &mut Pool) -> Vec<String> {
    std::iter::from_fn(|| pool.poll_action())
        .map(short)
        .collect()
}

fn short(action: Action) -> String {
    match action {
        Action::Emit(event) => short_event(&event),
        Action::Open(PooledId(n)) => format!("open {n}"),
        Action::Close(PooledId(n)) => format!("close {n}"),
        Action::Grant {
            request,
            connection,
        } => format!("grant {} to {}", connection.0, request.0),
        Action::Fail { request, error } => {
            let kind = match error.kind() {
                ErrorKind::PoolCleared { .. } => "cleared",
                ErrorKind::PoolClosed { .. } => "closed",
                ErrorKind::WaitQueueTimeout { .. } => "timeout",
                _ => "other",
            };
            format!("fail {}: {kind}", request.0)
        }
        Action::Interrupt { connection, .. } => format!("interrupt {}", connection.0),
    }
}

fn short_event(event: &PoolEvent) -> String {
    match event {
        PoolEvent::Created { .. } => "PoolCreated".into(),
        PoolEvent::Ready { .. } => "PoolReady".into(),
        PoolEvent::Cleared {
            interrupt_in_use, ..
        } => format!("PoolCleared({interrupt_in_use})"),
        PoolEvent::Closed { .. } => "PoolClosed".into(),
        PoolEvent::ConnectionCreated { connection, .. } => format!("Created {connection}"),
        PoolEvent::ConnectionReady {
            connection,
            duration,
            ..
        } => format!("Ready {connection} after {} ms", duration.as_millis()),
        PoolEvent::ConnectionClosed {
            connection, reason, ..
        } => format!("Closed {connection}: {reason:?}"),
        PoolEvent::CheckOutStarted { .. } => "Started".into(),
        PoolEvent::CheckOutFailed {
            reason, duration, ..
        } => format!("Failed: {reason:?} after {} ms", duration.as_millis()),
        PoolEvent::CheckedOut {
            connection,
            duration,
            ..
        } => format!("CheckedOut {connection} after {} ms", duration.as_millis()),
        PoolEvent::CheckedIn { connection, .. } => format!("CheckedIn {connection}"),
    }
}

/// Checks out a new connection that is established at once.
fn fresh(pool: &mut Pool, now: Instant, request: u64) -> PooledId {
    assert_eq!(
        pool.check_out(now, RequestId(request), None),
        CheckOut::Waiting
    );
    let opened = std::iter::from_fn(|| pool.poll_action())
        .find_map(|action| match action {
            Action::Open(connection) => Some(connection),
            _ => None,
        })
        .expect("there was room");
    pool.handle_established(now, opened);
    drain(pool);
    opened
}

fn give_back(pool: &mut Pool, now: Instant, connection: PooledId) {
    assert_eq!(pool.check_in(now, connection, Condition::Healthy), Ok(()));
}

#[test]
fn a_check_out_on_an_empty_pool_tells_its_steps_in_order() {
    // CMAP-60, CMAP-61, CMAP-73, CMAP-86
    let mut pool = new_pool(options(0, 0, 2));
    pool.handle_ready(at(0));
    pool.handle_ready(at(0));
    assert_eq!(pool.check_out(at(1), RequestId(7), None), CheckOut::Waiting);
    let expected = ["PoolCreated", "PoolReady", "Started", "Created 1", "open 1"];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_established(at(5), PooledId(1));
    let expected = [
        "Ready 1 after 4 ms",
        "CheckedOut 1 after 4 ms",
        "grant 1 to 7",
    ];
    assert_eq!(drain(&mut pool), expected);
    give_back(&mut pool, at(6), PooledId(1));
    assert_eq!(
        pool.check_out(at(7), RequestId(8), None),
        CheckOut::Granted(PooledId(1))
    );
    let expected = ["CheckedIn 1", "Started", "CheckedOut 1 after 0 ms"];
    assert_eq!(drain(&mut pool), expected);
}

#[test]
fn without_subscribers_no_event_is_made() {
    let mut pool = Pool::new(Address::tcp("db", 1), options(1, 0, 1), false);
    pool.handle_ready(at(0));
    let _ = pool.check_out(at(0), RequestId(1), None);
    pool.handle_established(at(1), PooledId(1));
    give_back(&mut pool, at(1), PooledId(1));
    assert_eq!(drain(&mut pool), ["open 1", "grant 1 to 1"]);
}

#[test]
fn a_paused_or_closed_pool_refuses_and_says_so() {
    // CMAP-73, CMAP-79, CMAP-80
    let mut pool = new_pool(options(1, 1, 1));
    let CheckOut::Failed(error) = pool.check_out(at(0), RequestId(1), None) else {
        panic!("a paused pool serves nobody");
    };
    assert!(matches!(error.kind(), ErrorKind::PoolCleared { .. }));
    pool.handle_timeout(at(0));
    let expected = [
        "PoolCreated",
        "Started",
        "Failed: ConnectionError after 0 ms",
    ];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_close(at(1));
    pool.handle_ready(at(1));
    let CheckOut::Failed(error) = pool.check_out(at(1), RequestId(2), None) else {
        panic!("a closed pool serves nobody");
    };
    assert!(matches!(error.kind(), ErrorKind::PoolClosed { .. }));
    let expected = ["PoolClosed", "Started", "Failed: PoolClosed after 0 ms"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!((pool.state(), pool.deadline()), (PoolState::Closed, None));
}

#[test]
fn stale_generation_is_closed_on_check_in() {
    // CMAP-89, CMAP-90
    let mut pool = ready_pool(options(2, 0, 2));
    let connection = fresh(&mut pool, at(0), 1);
    pool.handle_clear(at(1), &reset(), false);
    assert_eq!(
        (pool.generation(), pool.generation_of(connection)),
        (1, Some(0))
    );
    give_back(&mut pool, at(2), connection);
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
fn reasons_have_an_order() {
    // Trap 8 of section 1.3: broken before stale, a closed pool before both.
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
            false => Condition::Healthy,
        };
        assert_eq!(pool.check_in(at(2), connection, condition), Ok(()));
        assert!(drain(&mut pool).contains(&format!("Closed 1: {reason}")));
    }
}

#[test]
fn stale_and_idle_connections_met_on_check_out_are_closed() {
    // CMAP-75, with the background never running
    let mut pool = ready_pool(PoolOptions {
        max_idle: Some(Duration::from_millis(10)),
        ..options(5, 0, 5)
    });
    let a = fresh(&mut pool, at(0), 1);
    give_back(&mut pool, at(0), a);
    assert_eq!(
        pool.check_out(at(10), RequestId(2), None),
        CheckOut::Granted(a)
    );
    give_back(&mut pool, at(10), a);
    drain(&mut pool);
    assert_eq!(
        pool.check_out(at(21), RequestId(3), None),
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
    pool.handle_established(at(21), PooledId(2));
    give_back(&mut pool, at(21), PooledId(2));
    pool.handle_clear(at(22), &reset(), false);
    pool.handle_ready(at(22));
    drain(&mut pool);
    assert_eq!(
        pool.check_out(at(22), RequestId(4), None),
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
fn a_background_run_closes_the_stale_while_paused_and_the_idle() {
    // CMAP-107, CMAP-108, CMAP-111
    let mut pool = ready_pool(PoolOptions {
        max_idle: Some(Duration::from_millis(10)),
        ..options(5, 0, 5)
    });
    let (a, b) = (fresh(&mut pool, at(0), 1), fresh(&mut pool, at(0), 2));
    give_back(&mut pool, at(0), a);
    give_back(&mut pool, at(5), b);
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
fn waiters_are_served_in_order_and_newcomers_do_not_overtake() {
    // CMAP-30, CMAP-33
    let mut pool = ready_pool(options(1, 0, 1));
    let only = fresh(&mut pool, at(0), 1);
    for request in 2..=4 {
        assert_eq!(
            pool.check_out(at(1), RequestId(request), None),
            CheckOut::Waiting
        );
    }
    assert_eq!(pool.counts().waiting, 3);
    for request in 2..=4_u64 {
        drain(&mut pool);
        give_back(&mut pool, at(1), only);
        assert_eq!(
            pool.check_out(at(1), RequestId(10 + request), None),
            CheckOut::Waiting
        );
        let actions = drain(&mut pool);
        assert!(
            actions.contains(&format!("grant 1 to {request}")),
            "{actions:?}"
        );
    }
}

#[test]
fn a_returned_connection_serves_a_waiter_that_max_connecting_holds_back() {
    // CMAP-77, trap 6
    let mut pool = ready_pool(options(10, 0, 1));
    let a = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(1), RequestId(2), None);
    let _ = pool.check_out(at(1), RequestId(3), None);
    assert_eq!(
        drain(&mut pool),
        ["Started", "Created 2", "open 2", "Started"]
    );
    give_back(&mut pool, at(2), a);
    let expected = ["CheckedIn 1", "CheckedOut 1 after 1 ms", "grant 1 to 3"];
    assert_eq!(drain(&mut pool), expected);
    pool.handle_established(at(3), PooledId(2));
    assert!(drain(&mut pool).contains(&"grant 2 to 2".to_owned()));
}

#[test]
fn a_waiter_past_its_deadline_leaves_at_once() {
    // CMAP-32, CMAP-81
    let mut pool = ready_pool(PoolOptions {
        wait_queue_timeout: Some(Duration::from_millis(50)),
        ..options(1, 0, 1)
    });
    let only = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(1), RequestId(2), Some(at(500)));
    let _ = pool.check_out(at(2), RequestId(3), Some(at(20)));
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
    give_back(&mut pool, at(60), only);
    assert_eq!(pool.counts().available, 1);
}

#[test]
fn the_queue_limit_ends_with_the_queue_and_the_deadline_does_not() {
    let mut pool = ready_pool(PoolOptions {
        wait_queue_timeout: Some(Duration::from_millis(50)),
        ..options(1, 0, 1)
    });
    let _ = pool.check_out(at(0), RequestId(1), Some(at(300)));
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
fn an_establishment_outlives_its_waiter_and_serves_the_next() {
    // Scenarios 11 and 28
    let mut pool = ready_pool(options(1, 0, 1));
    let _ = pool.check_out(at(0), RequestId(1), None);
    let _ = pool.check_out(at(0), RequestId(2), None);
    pool.cancel(at(1), RequestId(1));
    pool.cancel(at(1), RequestId(1));
    drain(&mut pool);
    pool.handle_established(at(2), PooledId(1));
    let expected = [
        "Ready 1 after 2 ms",
        "CheckedOut 1 after 2 ms",
        "grant 1 to 2",
    ];
    assert_eq!(drain(&mut pool), expected);
    give_back(&mut pool, at(3), PooledId(1));
    let _ = pool.check_out(at(3), RequestId(3), None);
    pool.cancel(at(3), RequestId(3));
    assert_eq!(
        pool.counts().in_use,
        1,
        "what was granted has to be checked in"
    );
}

#[test]
fn an_abandoned_establishment_becomes_available() {
    let mut pool = ready_pool(options(1, 0, 1));
    let _ = pool.check_out(at(0), RequestId(1), None);
    pool.cancel(at(1), RequestId(1));
    pool.handle_established(at(2), PooledId(1));
    assert_eq!(pool.counts().available, 1);
    assert_eq!(
        pool.check_out(at(3), RequestId(2), None),
        CheckOut::Granted(PooledId(1))
    );
}

#[test]
fn a_failed_establishment_ends_its_check_out_after_the_clear() {
    // CMAP-83, CMAP-151, traps 1 and 2
    let mut pool = ready_pool(options(5, 0, 1));
    let _ = pool.check_out(at(0), RequestId(1), None);
    let _ = pool.check_out(at(0), RequestId(2), None);
    drain(&mut pool);
    pool.handle_clear(at(3), &reset(), false);
    pool.handle_establish_failed(at(3), PooledId(1), &reset());
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
    pool.handle_establish_failed(at(4), PooledId(1), &reset());
    assert_eq!(drain(&mut pool), [""; 0]);
}

#[test]
fn a_failed_establishment_lets_the_next_waiter_try() {
    // Scenario 15
    let mut pool = ready_pool(options(5, 0, 1));
    let _ = pool.check_out(at(0), RequestId(1), None);
    let _ = pool.check_out(at(0), RequestId(2), None);
    drain(&mut pool);
    pool.handle_establish_failed(at(3), PooledId(1), &reset());
    let actions = drain(&mut pool);
    assert_eq!(actions[actions.len() - 2..], ["Created 2", "open 2"]);
}

#[test]
fn a_connection_established_across_a_clear_is_not_handed_out() {
    let mut pool = ready_pool(options(5, 0, 1));
    let _ = pool.check_out(at(0), RequestId(1), None);
    pool.handle_clear(at(1), &reset(), false);
    pool.handle_ready(at(2));
    drain(&mut pool);
    pool.handle_established(at(3), PooledId(1));
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
fn clear_with_interrupt_breaks_pending_and_used_connections_once() {
    // CMAP-94 to CMAP-98, trap 9
    let mut pool = ready_pool(options(5, 0, 5));
    let used = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(0), RequestId(2), None);
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
fn close_ends_everything_in_order() {
    // CMAP-55, CMAP-56
    let mut pool = ready_pool(options(3, 0, 1));
    let (used, free) = (fresh(&mut pool, at(0), 1), fresh(&mut pool, at(0), 2));
    give_back(&mut pool, at(0), free);
    let _ = pool.check_out(at(0), RequestId(3), None);
    let _ = pool.check_out(at(0), RequestId(4), None);
    let _ = pool.check_out(at(0), RequestId(5), None);
    give_back(&mut pool, at(0), free);
    let _ = pool.check_out(at(0), RequestId(6), None);
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
    give_back(&mut pool, at(2), used);
    assert_eq!(
        drain(&mut pool),
        ["CheckedIn 1", "Closed 1: PoolClosed", "close 1"]
    );
}

#[test]
fn the_pool_is_filled_up_within_max_connecting_and_only_while_ready() {
    // CMAP-66 to CMAP-72
    let mut pool = new_pool(options(10, 3, 2));
    pool.handle_timeout(at(0));
    assert_eq!(drain(&mut pool), ["PoolCreated"]);
    pool.handle_ready(at(1));
    assert_eq!(drain(&mut pool), ["PoolReady"]);
    assert_eq!(pool.deadline(), Some(at(1)));
    pool.handle_timeout(at(1));
    assert_eq!(
        drain(&mut pool),
        ["Created 1", "open 1", "Created 2", "open 2"]
    );
    assert_eq!(pool.deadline(), None);
    pool.handle_established(at(2), PooledId(1));
    pool.handle_timeout(at(2));
    assert_eq!(
        drain(&mut pool),
        ["Ready 1 after 1 ms", "Created 3", "open 3"]
    );
    pool.handle_clear(at(3), &reset(), false);
    pool.handle_timeout(at(3));
    let expected = ["PoolCleared(false)", "Closed 1: Stale", "close 1"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.deadline(), None);
}

#[test]
fn population_pauses_after_a_failure_that_does_not_clear() {
    // CMAP-44: an overloaded server is not asked in a tight loop.
    let mut pool = ready_pool(options(10, 1, 2));
    pool.handle_timeout(at(0));
    pool.handle_establish_failed(at(5), PooledId(1), &reset());
    pool.handle_timeout(at(5));
    let expected = ["Created 1", "open 1", "Closed 1: Error", "close 1"];
    assert_eq!(drain(&mut pool), expected);
    assert_eq!(pool.deadline(), Some(at(5) + POPULATION_PAUSE));
    pool.handle_timeout(at(5) + POPULATION_PAUSE);
    assert_eq!(drain(&mut pool), ["Created 2", "open 2"]);
}

#[test]
fn a_connection_that_breaks_while_idle_leaves() {
    let mut pool = ready_pool(options(10, 0, 2));
    let (a, b) = (fresh(&mut pool, at(0), 1), fresh(&mut pool, at(0), 2));
    give_back(&mut pool, at(0), a);
    drain(&mut pool);
    pool.handle_idle_closed(at(1), a, Some(reset()));
    pool.handle_idle_closed(at(1), a, Some(reset()));
    pool.handle_idle_closed(at(1), b, Some(reset()));
    assert_eq!(drain(&mut pool), ["Closed 1: Error", "close 1"]);
    assert_eq!((pool.counts().total, pool.counts().in_use), (1, 1));
}

#[test]
fn what_is_not_checked_out_is_refused_and_harms_nothing() {
    // CMAP-87, scenario 30
    let mut pool = ready_pool(options(2, 0, 2));
    let a = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(0), RequestId(2), None);
    drain(&mut pool);
    give_back(&mut pool, at(0), a);
    let before = pool.counts();
    for wrong in [a, PooledId(2), PooledId(99), PooledId(0)] {
        let refused = pool.check_in(at(1), wrong, Condition::Healthy);
        assert_eq!(refused, Err(NotCheckedOut(wrong)));
    }
    assert_eq!(pool.counts(), before);
    assert_eq!(drain(&mut pool), ["CheckedIn 1"]);
}

#[test]
fn the_latest_connection_is_used_first() {
    let mut pool = ready_pool(options(3, 0, 3));
    let (a, b) = (fresh(&mut pool, at(0), 1), fresh(&mut pool, at(0), 2));
    give_back(&mut pool, at(0), b);
    give_back(&mut pool, at(0), a);
    assert_eq!(
        pool.check_out(at(1), RequestId(3), None),
        CheckOut::Granted(a)
    );
}

#[test]
fn the_created_event_reports_what_the_user_chose() {
    // CMAP-113
    let reported = ReportedPoolOptions {
        max_pool_size: Some(50),
        ..ReportedPoolOptions::default()
    };
    let mut pool = new_pool(PoolOptions {
        reported: reported.clone(),
        ..PoolOptions::default()
    });
    let expected = PoolEvent::Created {
        address: Address::tcp("db", 27017),
        options: reported,
    };
    assert_eq!(pool.poll_action(), Some(Action::Emit(expected)));
}

#[test]
fn the_texts_are_those_of_the_specification() {
    // CMAP-97, CMAP-141 to CMAP-143
    let mut pool = ready_pool(options(1, 0, 1));
    let _ = fresh(&mut pool, at(0), 1);
    let _ = pool.check_out(at(0), RequestId(2), Some(at(1)));
    drain(&mut pool);
    pool.handle_timeout(at(1));
    pool.handle_clear(at(2), &reset(), true);
    let _ = pool.check_out(at(2), RequestId(3), None);
    let mut texts = Vec::new();
    while let Some(action) = pool.poll_action() {
        match action {
            Action::Fail { error, .. } | Action::Interrupt { error, .. } => {
                texts.push(error.kind().to_string());
            }
            Action::Emit(PoolEvent::CheckOutFailed { error, .. }) => {
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
