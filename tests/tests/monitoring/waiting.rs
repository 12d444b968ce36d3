//! Races that pools of drivers really had, as far as somebody waits: for a connection, for a turn,
//! for an answer. Each test says what it was, and which mistake it catches. Those about clearing
//! and closing are in `clearing` and `closing`.

use crate::{
    diary::{
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
use onionskin_simulations::world::plan::Disaster;
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

/// Makes commands of this client slow: they are held for so long.
async fn hold(scene: &Scene, mode: Document, command: &str, app: &str, millis: i32) {
    let held = doc! {
        "failCommands": [command], "appName": app, "blockConnection": true, "blockTimeMS": millis,
    };
    scene.fail(scene.primary(), mode, held).await;
}

/// Scenario 4: a retry where there is one connection, which the failed attempt had. Catches a
/// retry that asks for a connection before the failed attempt has given its own back.
#[test]
fn a_retry_gets_the_connection_of_the_attempt_that_failed() {
    play([replica_set(), sharded_alone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&heartbeatFrequencyMS=500&appname=again");
        watched.insert(1).await.expect("a reply");
        let failures = [
            // The first one says nothing about server or connection: both are used again.
            (doc! { "errorCode": 6 }, 0),
            (doc! { "closeConnection": true }, 1),
            (doc! { "errorCode": 91 }, 1),
        ];
        let mut id = 1;
        for (effect, connections) in failures {
            for command in ["find", "insert"] {
                let made = watched.diary.count(connection_created);
                let mut data = doc! {
                    "failCommands": [command], "appName": "again",
                    "errorLabels": ["RetryableWriteError"],
                };
                data.extend(effect.clone());
                scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
                let mark = watched.diary.mark();
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
                let told = watched.diary.notes_since(mark, command_name);
                let retried = ["started", "failed", "started", "succeeded"];
                assert_eq!(told, retried.map(|what| format!("{command} {what}")));
                let made = watched.diary.count(connection_created) - made;
                assert_eq!(made, connections, "{effect}: connections");
            }
        }
        watched.end().await;
    });
}

/// Scenario 12: a selector of the application's fails while those who wait for a server have their
/// turns. Catches a failure that ends the turn of those behind, or the client.
#[test]
fn a_selector_that_fails_strands_nobody() {
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
            options.set_server_selector(selector);
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
                let is_told = matches!(error.kind(), ErrorKind::InvalidArgument { .. });
                assert!(is_told, "{error:?}");
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

/// Scenario 15: connections that are made for those who wait fail, at once or after a time. Catches
/// an attempt that fails without a word to whom it was made for, or without a turn for the next.
#[test]
fn everybody_who_waits_hears_of_the_attempt_that_failed() {
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
            let begun = scene.now();
            for find in finds {
                let error = scene.ended("an answer", find).await;
                let error = error.expect_err("there is no connection");
                // Its own attempt's error, not that of somebody else's (CMAP-83).
                assert!(error.has_label(&Label::SystemOverloadedError), "{error:?}");
            }
            // Two at a time, each as long as a connection may take.
            let took = scene.now().saturating_since(begun);
            assert!(took <= Duration::from_millis(2_100), "{took:?}");
            watched.assert_count(20, "check out failed", check_out_failed);
            watched.assert_count(20, "connection closed", connection_closed);
            watched.assert_count(0, "pool cleared", pool_cleared);
            scene.fail_no_more(0).await;
            watched.find().await.expect("a connection");
            watched.end().await;
        }
    });
}

/// Scenario 16: thousands give up while the only connection is in use. Catches places in the queue
/// and entries in tables that stay behind, and turns that go to who has left.
#[test]
fn those_who_gave_up_leave_nothing_in_the_queue() {
    play([standalone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&appname=busy");
        watched.insert(1).await.expect("a reply");
        hold(&scene, doc! { "times": 1 }, "find", "busy", 3_000).await;
        let things = watched.things();
        let busy = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await });
        scene.pause(1).await;
        let steps = scene.operator.steps();
        for round in 0..20 {
            let leavers: Vec<_> = (0..100)
                .map(|n| {
                    let (things, stage) = (watched.things(), scene.clone());
                    let limit = Duration::from_micros(100 * n + 1);
                    scene.spawn(async move {
                        let find = things.find_one(doc! { "_id": 1 });
                        if n % 2 == 0 {
                            let error = find.timeout(limit).await.expect_err("it is busy");
                            assert!(error.is_timeout(), "{error:?}");
                        } else {
                            assert!(stage.leave_after(limit, find).await.is_none());
                        }
                    })
                })
                .collect();
            for leaver in leavers {
                leaver.join().await;
            }
            // The one that is on the connection is in use, and does not wait.
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
        let given_back = watched.diary.times(is("checked in"));
        let granted = watched.diary.times(is("checked out"));
        let count = given_back.len();
        assert_eq!(granted.last(), given_back.get(count - 2), "at once");
        watched.assert_count(1, "connection created", connection_created);
        watched.end().await;
    });
}

/// Scenario 19: who waits too long for a connection says nothing about the server. Catches a
/// timeout in the queue that is taken for one of the network.
#[test]
fn a_wait_that_is_too_long_pauses_no_pool() {
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
                    let begun = scene.now();
                    let error = find.await.expect_err("it is busy");
                    let took = scene.now().saturating_since(begun);
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

/// Scenario 33: many tasks that come again and again, few connections. Catches a pool that serves
/// newcomers before those who wait.
#[test]
fn two_hundred_tasks_on_five_connections_all_have_their_turns() {
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

/// Runs a find that waits for the only connection, which comes back about when the limit passes.
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
    let mark = watched.diary.mark();
    let find = scene.spawn(async move {
        let begun = stage.now();
        let found = things.find_one(doc! { "_id": 1 }).timeout(limit).await;
        (found, stage.now().saturating_since(begun))
    });
    if let Some(pause) = freeze {
        scene.pause_for(limit.saturating_sub(pause / 2)).await;
        scene.strike(Disaster::Freeze { client: 0, pause });
    }
    let (found, took) = scene.ended("an end", find).await;
    busy.join().await.expect("a reply");
    if freeze.is_none() {
        assert!(took <= limit, "{took:?} of {limit:?}");
    }
    let told = watched.diary.notes_since(mark, |event| {
        let what = pool_name(event)?;
        what.starts_with("check").then_some(what)
    });
    let ends = told.iter().filter(|what| **what != "checked in").count();
    // Its own start and end, and, if it was the first to come, the other's end.
    assert!((2..=4).contains(&ends), "{told:?}");
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

/// Scenario 43: the limit of a wait passes at about the moment at which the connection comes, or
/// between the grant and its use, since the process stood still. Catches an end that comes twice or
/// never, a remaining time below zero, and a connection that is lost with its grant.
#[test]
fn a_limit_and_a_connection_that_come_at_one_moment_end_a_wait_once() {
    play([standalone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&appname=moment");
        watched.insert(1).await.expect("a reply");
        for freeze in [None, Some(Duration::from_millis(5))] {
            let closed = watched.diary.count(connection_closed);
            let (mut got, mut missed) = (0, 0);
            for shift in 0..60 {
                let limit = Duration::from_micros(19_700 + 25 * shift);
                match race_for_the_connection(&scene, &watched, limit, freeze).await {
                    Ok(()) => got += 1,
                    Err(_) => missed += 1,
                }
                // Whoever had it, it is there again.
                watched.find().await.expect("a reply");
            }
            assert!(missed > 3, "{freeze:?}: {got} got it, {missed} missed it");
            assert!(got > 3 || freeze.is_some(), "{got}, {missed}");
            // A request that is written in part by then costs its connection.
            let closed = watched.diary.count(connection_closed) - closed;
            assert!(closed <= missed, "{closed} of {missed}");
        }
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// Whoever waits for a connection leaves in the moment in which it is granted, before it can hear
/// of it. Catches a grant that is lost with the one who left.
#[test]
fn a_grant_to_one_who_leaves_in_that_moment_goes_to_the_next() {
    play([standalone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&appname=grant");
        watched.insert(1).await.expect("a reply");
        let things = watched.things();
        for round in 0..10 {
            hold(&scene, doc! { "times": 1 }, "find", "grant", 30).await;
            let mut busy = Box::pin(things.find_one(doc! { "_id": 1 }).into_future());
            let mut leaver = Box::pin(things.find_one(doc! { "_id": 1 }).into_future());
            poll_once(&mut busy).await;
            poll_once(&mut leaver).await;
            let others = watched.things();
            let next = scene.spawn(async move { others.find_one(doc! { "_id": 1 }).await });
            scene.pause(1).await;
            busy.await.expect("a reply");
            // The connection is the leaver's now.
            drop(leaver);
            let found = scene.ended("the next one's turn", next).await;
            assert!(found.expect("a reply").is_some(), "round {round}");
        }
        watched.assert_count(1, "connection created", connection_created);
        watched.end().await;
    });
}

/// Lets a future begin.
async fn poll_once<F: Future + Unpin>(future: &mut F) {
    poll_fn(|context| {
        let polled = Pin::new(&mut *future).poll(context);
        assert!(polled.is_pending(), "it has to wait");
        Poll::Ready(())
    })
    .await;
}
