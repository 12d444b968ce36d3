//! Tests of race conditions that were bugs in the pools of other drivers. In these tests, a pool is
//! cleared, a connection is checked in while its reply is outstanding, or an operation follows such
//! an event. The comment of each test says with which bug of a driver it fails.

use crate::{
    event_log::{
        command_name, connection_closed, connection_created, pool_cleared, pool_name, pool_ready,
        unknown,
    },
    scene::{Scene, Watched, play, replica_set, replica_set_of, sharded, standalone},
};
use bson::{Document, doc};
use onionskin_core::{
    client::DRAIN_LIMIT,
    event::{Event, EventKind, PoolEvent, SdamEvent},
};
use onionskin_worlds::world::plan::Disaster;
use std::time::Duration;

/// Lets the primary block `find` commands of the client with this application name, for `millis`
/// milliseconds. `mode` is the mode of the fail point, such as the number of blocked commands.
async fn hold(scene: &Scene, mode: impl Into<bson::Bson>, app: &str, millis: i32) {
    let delay = doc! {
        "failCommands": ["find"], "appName": app, "blockConnection": true, "blockTimeMS": millis,
    };
    scene.fail(scene.primary(), mode, delay).await;
}

async fn insert_many(watched: &Watched, ids: std::ops::Range<i32>) {
    let documents = ids.map(|id| doc! { "_id": id });
    let inserted = watched.things().insert_many(documents).await;
    inserted.expect("a reply");
}

/// An operation ends at about the time at which its reply arrives. With `maxPoolSize=1`, the next
/// operation needs the same connection (scenario 10). Fails if an operation gets the late reply to
/// an earlier operation.
#[test]
fn no_operation_gets_the_late_reply_to_an_earlier_operation() {
    play([standalone(), replica_set()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&retryReads=false&appname=late");
        insert_many(&watched, 0..200).await;
        let (mut late, mut early) = (0, 0);
        for n in 0..60 {
            hold(&scene, doc! { "times": 1 }, "late", 20).await;
            let things = watched.things();
            let limit = Duration::from_micros(20_000 + 15 * u64::try_from(n).unwrap_or(0));
            let find = things.find_one(doc! { "_id": n });
            let found = match n % 2 {
                0 => find.timeout(limit).await.ok(),
                _ => scene.drop_after(limit, find).await.and_then(Result::ok),
            };
            match found {
                None => late += 1,
                Some(found) => {
                    early += 1;
                    assert_eq!(found.map(|f| f == doc! { "_id": n }), Some(true));
                }
            }
            let wanted = doc! { "_id": 100 + n };
            let found = things.find_one(wanted.clone()).await;
            assert_eq!(found, Ok(Some(wanted)), "after {limit:?}");
        }
        assert!(late > 5 && early > 5, "{late} late, {early} early");
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// A late reply does not arrive within `DRAIN_LIMIT`. Then its connection is closed, and the
/// operation that waits for the connection gets another one.
#[test]
fn a_connection_is_closed_if_its_late_reply_exceeds_the_drain_limit() {
    play([standalone()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&appname=later");
        insert_many(&watched, 0..2).await;
        hold(&scene, doc! { "times": 1 }, "later", 60_000).await;
        let things = watched.things();
        let find = things.find_one(doc! { "_id": 0 });
        // The operation has no time limit, because a limit would be sent as `maxTimeMS` (SEL-59),
        // and the server would then reply in time.
        let found = scene.drop_after(Duration::from_millis(50), find).await;
        assert_eq!(found, None, "it is held");
        let start = scene.now();
        let found = things.find_one(doc! { "_id": 1 }).await;
        assert_eq!(found, Ok(Some(doc! { "_id": 1 })));
        let took = scene.now().saturating_since(start);
        let (least, most) = (DRAIN_LIMIT, DRAIN_LIMIT + Duration::from_millis(50));
        assert!((least..most).contains(&took), "{took:?}");
        watched.assert_count(2, "connection created", connection_created);
        watched.assert_count(0, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// Many operations give up because the server is slower than their time limits (scenario 29). Fails
/// if more than 30 of the 200 operations cost a connection.
#[test]
fn operations_that_time_out_on_a_slow_server_rarely_close_their_connections() {
    play([standalone(), replica_set()], |scene| async move {
        let watched = scene.client("maxPoolSize=10&retryReads=false&appname=slow");
        insert_many(&watched, 0..2).await;
        hold(&scene, "alwaysOn", "slow", 100).await;
        let limit = Duration::from_millis(60);
        let mut missed = 0;
        for _ in 0..10 {
            let finds: Vec<_> = (0..20)
                .map(|n| {
                    let (things, stage) = (watched.things(), scene.clone());
                    scene.spawn(async move {
                        let find = things.find_one(doc! { "_id": 1 });
                        match n % 2 {
                            0 => find.timeout(limit).await.is_err(),
                            _ => stage.drop_after(limit, find).await.is_none(),
                        }
                    })
                })
                .collect();
            for find in finds {
                missed += u32::from(scene.ended("an end", find).await);
            }
        }
        assert_eq!(missed, 200);
        // If a request is only partly written when its operation ends, its connection is closed.
        let closed = watched.events.count(connection_closed);
        assert!(closed <= 30, "{closed} connections for {missed} operations");
        let made = watched.events.count(connection_created);
        assert!(made <= 10 + closed, "{made} connections");
        watched.assert_count(0, "unknown", unknown);
        scene.clear_fail_point(scene.primary()).await;
        watched.find().await.expect("a reply");
        watched.end().await;
    });
}

/// Returns the address of the server that an event is about; `None` for other events. The first
/// flag is true for an event of its pool, and false for a change of its description. The second
/// flag is true if the pool is now ready or the server can now be selected.
fn change(event: &Event) -> Option<(String, bool, bool)> {
    match &event.kind {
        EventKind::Pool(PoolEvent::Ready { address, .. }) => {
            Some((address.to_string(), true, true))
        }
        EventKind::Pool(PoolEvent::Cleared { address, .. }) => {
            Some((address.to_string(), true, false))
        }
        EventKind::Sdam(SdamEvent::ServerDescriptionChanged { address, new, .. }) => {
            let can_be_chosen = new.server_type.is_data_bearing();
            Some((address.to_string(), false, can_be_chosen))
        }
        _ => None,
    }
}

/// Starts tasks that run one `find` after another for 26 s. Each task returns the number of its
/// errors.
async fn start_repeated_finds(scene: Scene, watched: &Watched) -> Vec<crate::scene::Task<u32>> {
    let until = scene.now() + Duration::from_secs(26);
    let tasks = (0..8_u64).map(|n| {
        let (things, stage) = (watched.things(), scene.clone());
        scene.spawn(async move {
            let mut failed = 0;
            while stage.now() < until {
                let find = things.find_one(doc! { "_id": 1 });
                failed += u32::from(find.await.is_err());
                stage
                    .pause_for(Duration::from_micros(30_900 + 1_037 * n))
                    .await;
            }
            failed
        })
    });
    tasks.collect()
}

/// Operations run all the time while servers fail and recover (scenario 18). Fails if a pool
/// becomes ready later than its server can be selected, or if it is cleared earlier than its server
/// becomes unknown. In both cases an operation could select the server and find its pool paused.
#[test]
fn the_pool_of_a_server_is_ready_whenever_the_server_can_be_selected() {
    play([standalone(), sharded()], |scene| async move {
        let options = "heartbeatFrequencyMS=500&retryReads=false&maxPoolSize=4&appname=flapping";
        let watched = scene.client(options);
        watched.insert(1).await.ok();
        let tasks = start_repeated_finds(scene.clone(), &watched).await;
        let broken = doc! {
            "failCommands": ["find", "hello", "isMaster"], "appName": "flapping",
            "closeConnection": true,
        };
        for round in 0..12 {
            scene.pause(2_000).await;
            if round % 3 == 2 {
                scene.strike(Disaster::Kill(0));
                scene.pause(1_300).await;
                scene.strike(Disaster::Restart(0));
            } else {
                scene
                    .fail(0, doc! { "times": round + 1 }, broken.clone())
                    .await;
            }
        }
        let mut failed = 0;
        for task in tasks {
            failed += task.join().await;
        }
        assert!(failed > 0, "nobody was disturbed");
        // No check out fails directly after its start.
        let mut last = std::collections::BTreeMap::new();
        let asked = watched.events.notes(|event| {
            let EventKind::Pool(pool) = &event.kind else {
                return None;
            };
            Some((pool.address().to_string(), pool_name(event)?))
        });
        for (address, what) in asked {
            let before = last.insert(address, what);
            let is_refused = (before, what) == (Some("check out started"), "check out failed");
            assert!(!is_refused, "{:#?}", watched.events.names());
        }
        assert_pools_and_descriptions_change_together(&watched);
        watched.end().await;
    });
}

/// Asserts that a pool is cleared at the time at which its server becomes unknown, and is ready at
/// the time at which its server is found.
fn assert_pools_and_descriptions_change_together(watched: &Watched) {
    let changes = watched
        .events
        .notes(|event| change(event).map(|change| (event.at, change)));
    let mut clears = 0;
    for (at, (address, is_pool, is_on)) in &changes {
        if *is_pool {
            let with = (*at, (address.clone(), false, *is_on));
            assert!(changes.contains(&with), "{address} at {at}: {is_on}");
            clears += u32::from(!is_on);
        }
    }
    assert!(clears >= 4, "{clears} clears");
}

/// Inserts six documents, opens a cursor over them, and reads the two documents of its first batch.
async fn open_cursor(
    watched: &Watched,
) -> onionskin::Cursor<onionskin_worlds::world::SimRuntime, Document> {
    insert_many(watched, 0..6).await;
    let things = watched.things();
    let found = things.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(2);
    let mut cursor = found.await.expect("a cursor");
    for id in 0..2 {
        assert_eq!(cursor.next().await, Some(Ok(doc! { "_id": id })));
    }
    cursor
}

/// Breaks the connection of an insert, so that the pool is cleared.
async fn clear(scene: &Scene, watched: &Watched) {
    let broken = doc! {
        "failCommands": ["insert"], "appName": "batches", "closeConnection": true,
    };
    scene
        .fail(scene.primary(), doc! { "times": 1 }, broken)
        .await;
    watched.insert(100).await.expect_err("it breaks");
    watched.assert_count(1, "pool cleared", pool_cleared);
}

const BATCHES: &str = "retryReads=true&retryWrites=false&appname=batches";

/// A pool is cleared between two batches of a cursor (scenario 20). The next `getMore` goes to the
/// same server (SEL-2) and is not retried (RR-7), so it waits until the server is found again.
/// Fails if the `getMore` fails on the paused pool, or if the pool is cleared again.
#[test]
fn a_get_more_waits_for_its_server_while_the_pool_is_paused() {
    play([standalone(), replica_set_of(1)], |scene| async move {
        let watched = scene.client(BATCHES);
        let mut cursor = open_cursor(&watched).await;
        clear(&scene, &watched).await;
        for id in 2..6 {
            assert_eq!(cursor.next().await, Some(Ok(doc! { "_id": id })));
        }
        assert_eq!(cursor.next().await, None);
        let fetches = |event: &Event| {
            let name = command_name(event);
            name.is_some_and(|name| name == "getMore started")
        };
        watched.assert_count(2, "getMore", fetches);
        watched.assert_count(1, "pool cleared", pool_cleared);
        watched.assert_count(1, "unknown", unknown);
        drop(cursor);
        watched.end().await;
    });
}

/// When the pool is ready again after a clear, a cursor continues on another connection. Fails if
/// the cursor ends with the connection on which it was opened.
#[test]
fn a_cursor_continues_on_another_connection_after_its_pool_was_cleared() {
    play([standalone(), replica_set_of(1)], |scene| async move {
        let watched = scene.client(BATCHES);
        let mut cursor = open_cursor(&watched).await;
        let ready = watched.events.count(pool_ready);
        clear(&scene, &watched).await;
        watched.find().await.expect("a reply");
        watched.assert_count(ready + 1, "pool ready", pool_ready);
        for id in 2..6 {
            assert_eq!(cursor.next().await, Some(Ok(doc! { "_id": id })));
        }
        assert_eq!(cursor.next().await, None);
        watched.end().await;
    });
}
