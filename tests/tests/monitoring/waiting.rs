//! Tests of race conditions that were bugs in the pools of other drivers. In these tests, an
//! operation waits for a connection or for a server. The comment of each test says with which bug
//! of a driver it fails. Tests of races while a pool is cleared or a connection is closed are in
//! `clearing` and `closing`.

use crate::{
    event_log::{
        check_out_failed, command_name, connection_closed, connection_created, pool_cleared,
        pool_name, pool_ready, unknown,
    },
    scene::{Scene, Watched, play, replica_set, replica_set_of, sharded_alone, standalone},
};
use bson::{Document, doc};
use onionskin::Error;
use onionskin_core::{
    error::{ErrorKind, Label},
    event::Event,
    options::ServerSelector,
};
use onionskin_worlds::world::{Disaster, Span};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};

/// Lets the primary block commands with this name, of the client with this application name, for
/// `millis` milliseconds.
async fn hold(scene: &Scene, mode: Document, command: &str, app: &str, millis: i32) {
    let delay = doc! {
        "failCommands": [command], "appName": app, "blockConnection": true, "blockTimeMS": millis,
    };
    scene.fail(scene.primary(), mode, delay).await;
}

/// An operation is retried with `maxPoolSize=1`, so the failed attempt used the pool's only
/// connection (scenario 4). Fails if the retry checks a connection out before the failed attempt
/// has checked its connection in.
#[test]
fn a_failed_attempt_checks_in_its_connection_before_the_retry_checks_one_out() {
    play([replica_set(), sharded_alone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&heartbeatFrequencyMS=500&appname=again");
        watched.insert(1).await.expect("a reply");
        let failures = [
            // An error with code 6 affects neither the server nor the connection, so the retry
            // needs no new connection.
            (doc! { "errorCode": 6 }, 0),
            (doc! { "closeConnection": true }, 1),
            (doc! { "errorCode": 91 }, 1),
        ];
        let mut id = 1;
        for (effect, connections) in failures {
            for command in ["find", "insert"] {
                let made = watched.events.count(connection_created);
                let mut data = doc! {
                    "failCommands": [command], "appName": "again",
                    "errorLabels": ["RetryableWriteError"],
                };
                data.extend(effect.clone());
                scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
                let mark = watched.events.mark();
                id += 1;
                let things = watched.things();
                let task = scene.spawn(async move {
                    match command {
                        "find" => things.find_one(doc! { "_id": 1 }).await.map(|_| ()),
                        _ => things.insert_one(doc! { "_id": id }).await.map(|_| ()),
                    }
                });
                let result = scene.ended("the retry's end", task).await;
                assert_eq!(result, Ok(()), "{effect}");
                let reported = watched.events.notes_since(mark, command_name);
                let retried = ["started", "failed", "started", "succeeded"];
                assert_eq!(reported, retried.map(|what| format!("{command} {what}")));
                let made = watched.events.count(connection_created) - made;
                assert_eq!(made, connections, "{effect}: connections");
            }
        }
        watched.end().await;
    });
}

/// The application's server selector panics while waiting operations select a server (scenario 12).
/// Fails if the operations that wait behind one whose selection panicked select no server, or if a
/// later operation fails.
#[test]
fn a_panic_in_the_server_selector_fails_only_the_operation_that_called_it() {
    play([replica_set()], |scene| async move {
        let (armed, calls) = (Arc::new(AtomicBool::new(false)), AtomicU32::new(0));
        let is_armed = armed.clone();
        let selector = ServerSelector::new(move |servers| {
            if !servers.is_empty() && is_armed.load(Ordering::Relaxed) {
                let call = calls.fetch_add(1, Ordering::Relaxed);
                assert!(call % 3 != 1, "a third of them fail");
            }
        });
        let hosts = "member0,member1,member2";
        let watched = scene.client_with(hosts, "replicaSet=rs&retryWrites=false", |options| {
            options.server_selector = Some(selector);
        });
        watched.insert(0).await.expect("a reply");
        scene.strike(Disaster::Kill(0));
        watched.insert(1).await.expect_err("its connection breaks");
        let inserts: Vec<_> = (10..40)
            .map(|id| {
                let things = watched.things();
                scene.spawn(async move { things.insert_one(doc! { "_id": id }).await })
            })
            .collect();
        scene
            .until("the waiters", || watched.client.counts().waiting == 30)
            .await;
        armed.store(true, Ordering::Relaxed);
        let mut failed = 0;
        for insert in inserts {
            scene
                .until_within(Duration::from_secs(60), "an end", || insert.is_over())
                .await;
            if let Err(error) = insert.join().await {
                let is_reported = matches!(error.kind(), ErrorKind::InvalidArgument { .. });
                assert!(is_reported, "{error:?}");
                failed += 1;
            }
        }
        armed.store(false, Ordering::Relaxed);
        assert!((5..=15).contains(&failed), "{failed} failed");
        assert_eq!(watched.client.counts().waiting, 0);
        watched.insert(2).await.expect("a reply");
        watched.end().await;
    });
}

/// Connections that operations wait for cannot be established: they break at once or time out
/// (scenario 15). Fails if the waiting operation gets no error, or if no connection is made for the
/// next operation.
#[test]
fn each_waiting_operation_gets_the_error_of_the_connection_made_for_it() {
    play([standalone(), replica_set_of(1)], |scene| async move {
        for effect in [
            doc! { "closeConnection": true },
            doc! { "blockConnection": true, "blockTimeMS": 400 },
        ] {
            let options = "serverMonitoringMode=poll&heartbeatFrequencyMS=1000000\
                           &retryReads=false&maxPoolSize=3&connectTimeoutMS=200&appname=hello";
            let watched = scene.client(options);
            watched.wait_for(1, "pool ready", pool_ready).await;
            let mut data = doc! { "failCommands": ["hello", "isMaster"], "appName": "hello" };
            data.extend(effect);
            scene.fail(0, "alwaysOn", data).await;
            let finds: Vec<_> = (0..20)
                .map(|_| {
                    let things = watched.things();
                    scene.spawn(async move { things.find_one(doc! {}).await })
                })
                .collect();
            let start = scene.now();
            for find in finds {
                let error = scene.ended("an answer", find).await;
                let error = error.expect_err("there is no connection");
                // Each operation gets the error of the connection that was made for it (CMAP-83).
                assert!(error.has_label(&Label::SystemOverloadedError), "{error:?}");
            }
            // The pool attempts two connections at a time, and each attempt ends within
            // `connectTimeoutMS`.
            let took = scene.now().saturating_since(start);
            assert!(took <= Duration::from_millis(2_100), "{took:?}");
            watched.assert_count(20, "check out failed", check_out_failed);
            watched.assert_count(20, "connection closed", connection_closed);
            watched.assert_count(0, "pool cleared", pool_cleared);
            scene.clear_fail_point(0).await;
            watched.find().await.expect("a connection");
            watched.end().await;
        }
    });
}

/// Two thousand operations give up while the only connection is in use (scenario 16). Fails if an
/// operation that has ended stays in the wait queue or in a table, or if it gets the connection
/// later.
#[test]
fn operations_that_time_out_or_are_dropped_are_removed_from_the_wait_queue() {
    play([standalone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&appname=busy");
        watched.insert(1).await.expect("a reply");
        hold(&scene, doc! { "times": 1 }, "find", "busy", 3_000).await;
        let things = watched.things();
        let busy = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await });
        scene.pause(1).await;
        let steps = scene.operator.steps();
        for round in 0..20 {
            let short_finds: Vec<_> = (0..100)
                .map(|n| {
                    let (things, stage) = (watched.things(), scene.clone());
                    let limit = Duration::from_micros(100 * n + 1);
                    scene.spawn(async move {
                        let find = things.find_one(doc! { "_id": 1 });
                        if n % 2 == 0 {
                            let error = find.timeout(limit).await.expect_err("it is busy");
                            assert!(error.is_timeout(), "{error:?}");
                        } else {
                            assert!(stage.drop_after(limit, find).await.is_none());
                        }
                    })
                })
                .collect();
            for short_find in short_finds {
                short_find.join().await;
            }
            // The operation that uses the connection does not count as waiting.
            assert_eq!(watched.client.counts().waiting, 0, "round {round}");
        }
        let steps = scene.operator.steps() - steps;
        assert!(steps < 2_000 * 50, "{steps} steps for 2,000 waits");
        watched.assert_count(2_000, "check out failed", check_out_failed);
        assert!(!busy.is_over());
        let things = watched.things();
        let next = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await });
        busy.join().await.expect("a reply");
        next.join().await.expect("a reply");
        let is = |wanted| move |event: &Event| pool_name(event) == Some(wanted);
        let check_in_times = watched.events.times(is("checked in"));
        let granted = watched.events.times(is("checked out"));
        let count = check_in_times.len();
        assert_eq!(granted.last(), check_in_times.get(count - 2), "at once");
        watched.assert_count(1, "connection created", connection_created);
        watched.end().await;
    });
}

/// The timeout of an operation in the wait queue does not affect the server (scenario 19). Fails if
/// such a timeout counts as a network error.
#[test]
fn a_wait_queue_timeout_does_not_affect_server_and_pool() {
    play(
        [standalone(), replica_set(), sharded_alone()],
        |scene| async move {
            for (options, limit) in [("&waitQueueTimeoutMS=50", None), ("", Some(50))] {
                let options = format!("maxPoolSize=1&appname=queue{options}");
                let watched = scene.client(&options);
                watched.insert(1).await.ok();
                hold(&scene, doc! { "times": 1 }, "find", "queue", 500).await;
                let things = watched.things();
                let busy = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await });
                scene.pause(2).await;
                for _ in 0..5 {
                    let things = watched.things();
                    let mut find = things.find_one(doc! { "_id": 1 });
                    if let Some(limit) = limit {
                        find = find.timeout(Duration::from_millis(limit));
                    }
                    let start = scene.now();
                    let error = find.await.expect_err("it is busy");
                    let took = scene.now().saturating_since(start);
                    assert_eq!(took, Duration::from_millis(50), "{error:?}");
                    let is_own = matches!(error.kind(), ErrorKind::WaitQueueTimeout { .. });
                    assert!(is_own && error.is_timeout(), "{error:?}");
                    assert!(!error.is_network(), "{error:?}");
                }
                let found = busy.join().await.expect("nobody disturbed it");
                assert!(found.is_some());
                watched.find().await.expect("a reply");
                watched.assert_count(0, "unknown", unknown);
                watched.assert_count(0, "pool cleared", pool_cleared);
                watched.assert_count(1, "connection created", connection_created);
                watched.end().await;
            }
        },
    );
}

/// Many tasks run one operation after another on few connections (scenario 33). Fails if the pool
/// serves new requests before waiting ones.
#[test]
fn two_hundred_tasks_share_five_connections_fairly() {
    play([standalone()], |scene| async move {
        let watched = scene.client("maxPoolSize=5");
        watched.insert(1).await.expect("a reply");
        let is_over = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..200)
            .map(|_| {
                let (things, is_over) = (watched.things(), is_over.clone());
                scene.spawn(async move {
                    let mut turns = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let found = things.find_one(doc! { "_id": 1 }).await;
                        assert!(found.expect("a reply").is_some());
                        turns += 1;
                    }
                    turns
                })
            })
            .collect();
        scene.pause(1_200).await;
        is_over.store(true, Ordering::Relaxed);
        let mut turns = Vec::new();
        for task in tasks {
            turns.push(task.join().await);
        }
        let (least, most) = (turns.iter().min().copied(), turns.iter().max().copied());
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
        assert!(least >= 10 && most - least <= 5, "{least} to {most} turns");
        watched.end().await;
    });
}

/// Runs a `find` with the time limit `limit`, which waits for the only connection. The connection
/// is checked in after about 20 ms. With `freeze`, the process is suspended for the time `freeze`
/// around the end of the limit.
async fn race_for_the_connection(
    scene: &Scene,
    watched: &Watched,
    limit: Duration,
    freeze: Option<Duration>,
) -> Result<(), Error> {
    hold(scene, doc! { "times": 1 }, "find", "moment", 20).await;
    let things = watched.things();
    let busy = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await });
    scene.pause_for(Duration::from_micros(10)).await;
    let (things, stage) = (watched.things(), scene.clone());
    let mark = watched.events.mark();
    let find = scene.spawn(async move {
        let start = stage.now();
        let found = things.find_one(doc! { "_id": 1 }).timeout(limit).await;
        (found, stage.now().saturating_since(start))
    });
    if let Some(pause) = freeze {
        scene.pause_for(limit.saturating_sub(pause / 2)).await;
        scene.strike(Disaster::Freeze {
            client: 0,
            pause: Span(pause),
        });
    }
    let (found, took) = scene.ended("an end", find).await;
    busy.join().await.expect("a reply");
    if freeze.is_none() {
        assert!(took <= limit, "{took:?} of {limit:?}");
    }
    let reported = watched.events.notes_since(mark, |event| {
        let what = pool_name(event)?;
        what.starts_with("check").then_some(what)
    });
    let ends = reported
        .iter()
        .filter(|what| **what != "checked in")
        .count();
    // The check out of `find` starts and ends. The check out of the first operation can also start
    // and end after the mark.
    assert!((2..=4).contains(&ends), "{reported:?}");
    match found {
        Ok(found) => {
            assert!(found.is_some());
            Ok(())
        }
        Err(error) => {
            assert!(error.is_timeout(), "{error:?}");
            Err(error)
        }
    }
}

/// The time limit of a waiting operation ends at about the time at which a connection is checked in
/// (scenario 43). If the process is suspended, the limit can also end after the connection was
/// granted and before the operation resumes. Fails if the wait ends twice or never, if the
/// remaining time becomes negative, or if the granted connection is lost.
#[test]
fn a_wait_ends_once_if_the_timeout_and_a_check_in_coincide() {
    play([standalone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&appname=moment");
        watched.insert(1).await.expect("a reply");
        for freeze in [None, Some(Duration::from_millis(5))] {
            let closed = watched.events.count(connection_closed);
            let (mut got, mut missed) = (0, 0);
            for shift in 0..60 {
                let limit = Duration::from_micros(19_700 + 25 * shift);
                match race_for_the_connection(&scene, &watched, limit, freeze).await {
                    Ok(()) => got += 1,
                    Err(_) => missed += 1,
                }
                // The connection is available again, whichever operation had it.
                watched.find().await.expect("a reply");
            }
            assert!(missed > 3, "{freeze:?}: {got} got it, {missed} missed it");
            assert!(got > 3 || freeze.is_some(), "{got}, {missed}");
            // If a request is only partly written when the limit ends, its connection is closed.
            let closed = watched.events.count(connection_closed) - closed;
            assert!(closed <= missed, "{closed} of {missed}");
        }
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// A connection is granted to an operation that is dropped before its next poll. Fails if the
/// connection is lost with the operation.
#[test]
fn a_connection_granted_to_a_dropped_operation_goes_to_the_next_one() {
    play([standalone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&appname=grant");
        watched.insert(1).await.expect("a reply");
        let things = watched.things();
        for round in 0..10 {
            hold(&scene, doc! { "times": 1 }, "find", "grant", 30).await;
            let mut busy = Box::pin(things.find_one(doc! { "_id": 1 }).into_future());
            let mut short_find = Box::pin(things.find_one(doc! { "_id": 1 }).into_future());
            poll_once(&mut busy).await;
            poll_once(&mut short_find).await;
            let others = watched.things();
            let next = scene.spawn(async move { others.find_one(doc! { "_id": 1 }).await });
            scene.pause(1).await;
            busy.await.expect("a reply");
            // The connection is granted to `short_find`, whose future has not been polled since.
            drop(short_find);
            let found = scene.ended("the next one's turn", next).await;
            assert!(found.expect("a reply").is_some(), "round {round}");
        }
        watched.assert_count(1, "connection created", connection_created);
        watched.end().await;
    });
}

/// Polls a future once, and asserts that it is pending.
async fn poll_once<F: Future + Unpin>(future: &mut F) {
    poll_fn(|context| {
        let polled = Pin::new(&mut *future).poll(context);
        assert!(polled.is_pending(), "it has to wait");
        Poll::Ready(())
    })
    .await;
}
