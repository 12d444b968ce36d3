//! Storms: many more operations at once than connections, on a pool that has no connections at
//! first. The [`Ledger`] checks the events of the client.

use crate::{
    event_log::{EventLog, connection_closed, connection_created, pool_cleared},
    ledger::Ledger,
    scene::{Scene, Task, Watched, balanced, balanced_alone, play, play_with_one_seed, standalone},
};
use bson::doc;
use onionskin_core::event::Event;
use onionskin_core::random::{Random, Seed};
use std::time::Duration;

/// The number of operations in a storm.
const STORM: u64 = 1_000;

/// The result of an operation: whether the document was found, or `None` if the operation was
/// dropped.
type Outcome = Option<bool>;

/// Starts operations one microsecond apart, so that their order is known. An operation is dropped
/// after the time that `patience` returns for it, if any.
async fn storm(
    scene: &Scene,
    watched: &Watched,
    mut patience: impl FnMut(u64) -> Option<Duration>,
) -> Vec<Task<Outcome>> {
    let mut tasks = Vec::new();
    for n in 0..STORM {
        let (things, stage, patience) = (watched.things(), scene.clone(), patience(n));
        tasks.push(scene.spawn(async move {
            let find = async {
                let found = things.find_one(doc! { "_id": 1 }).await;
                found.expect("a reply").is_some()
            };
            match patience {
                None => Some(find.await),
                Some(patience) => stage.drop_after(patience, Box::pin(find)).await,
            }
        }));
        scene.pause_for(Duration::from_micros(1)).await;
    }
    tasks
}

async fn outcomes(scene: &Scene, tasks: Vec<Task<Outcome>>) -> Vec<Outcome> {
    let mut all = Vec::new();
    for task in tasks {
        let limit = Duration::from_secs(60);
        scene.until_within(limit, "an end", || task.is_over()).await;
        all.push(task.join().await);
    }
    all
}

fn events(events: &EventLog) -> Vec<Event> {
    events.notes(|event| Some(event.clone()))
}

/// Inserts the document that the operations of a storm look for. Returns a client whose pool has no
/// connection yet.
async fn client_with_empty_pool(scene: &Scene, options: &str) -> Watched {
    let other = scene.client("");
    other.insert(1).await.ok();
    other.end().await;
    let watched = scene.client(options);
    scene.pause(50).await;
    watched.assert_count(0, "connection created", connection_created);
    watched
}

/// Operations get connections in the order in which they started. The pool keeps its limits, and no
/// operation waits while a connection is available.
#[test]
fn a_thousand_operations_on_an_empty_pool_get_connections_in_order() {
    for (max_size, max_connecting) in [(100, 2), (5, 2), (100, 7), (5, 5)] {
        play_with_one_seed([standalone(), balanced()], |scene| async move {
            let options = format!("maxPoolSize={max_size}&maxConnecting={max_connecting}");
            let watched = client_with_empty_pool(&scene, &options).await;
            let tasks = storm(&scene, &watched, |_| None).await;
            let found = outcomes(&scene, tasks).await;
            assert!(found.iter().all(|found| *found == Some(true)));
            let ledger = Ledger::new(max_size, max_connecting).read(&events(&watched.events));
            let books = ledger.only();
            assert!(books.is_at_rest(), "{books:?}");
            assert_eq!((books.granted, books.failed), (1_000, 0));
            assert_eq!(books.most_pending, max_connecting);
            assert!((max_connecting..=max_size).contains(&books.most));
            watched.assert_count(0, "pool cleared", pool_cleared);
            watched.end().await;
        });
    }
}

/// Returns a function for the `patience` of [`storm`]: a random time for every third operation, and
/// `None` for the others.
fn moments(random: &mut Random, most_micros: u64) -> impl FnMut(u64) -> Option<Duration> {
    move |n| (n % 3 == 0).then(|| Duration::from_micros(random.below(most_micros)))
}

/// Every third operation is dropped after a random time, if it has not ended before. The other
/// operations get connections in the order in which they started. A connection that was established
/// for a dropped operation goes to the next operation or to the pool.
#[test]
fn dropped_operations_do_not_change_the_order_of_the_wait_queue() {
    for (max_size, most_micros) in [(100, 2_000), (100, 40_000), (5, 2_000), (5, 200_000)] {
        play_with_one_seed([standalone(), balanced()], |scene| async move {
            let watched = client_with_empty_pool(&scene, &format!("maxPoolSize={max_size}")).await;
            let seed = u8::try_from(scene.seed).unwrap_or(u8::MAX);
            let mut random = Seed::new([seed; 32]).split("leavers").random();
            let tasks = storm(&scene, &watched, moments(&mut random, most_micros)).await;
            let found = outcomes(&scene, tasks).await;
            let left = found.iter().filter(|found| found.is_none()).count();
            for (n, found) in found.iter().enumerate() {
                assert!(n % 3 == 0 || *found == Some(true), "{n}: {found:?}");
            }
            assert!(
                (100..=334).contains(&left),
                "{left} left of {max_size}, {most_micros}"
            );
            // Waits for the late replies to the operations that were dropped.
            scene.pause(4_000).await;
            let ledger = Ledger::new(max_size, 2).read(&events(&watched.events));
            let books = ledger.only();
            assert!(books.is_at_rest(), "{books:?}");
            assert_eq!(books.granted + books.failed, 1_000);
            assert!(books.failed > 0 && books.failed <= left, "{books:?}");
            watched.assert_count(0, "pool cleared", pool_cleared);
            // The next operations find available connections.
            let made = watched.events.count(connection_created);
            let closed = watched.events.count(connection_closed);
            assert!(made - closed >= 3, "{made} made, {closed} closed");
            let tasks = [0; 3].map(|_| {
                let things = watched.things();
                scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await })
            });
            for task in tasks {
                scene.ended("a reply", task).await.expect("a reply");
            }
            assert_eq!(watched.events.count(connection_created), made);
            watched.end().await;
        });
    }
}

/// All operations are dropped while connections are being established for the first of them. The
/// pool keeps these connections, and the next operation uses one of them.
#[test]
fn connections_established_for_dropped_operations_stay_in_the_pool() {
    play([standalone(), balanced_alone()], |scene| async move {
        let watched = client_with_empty_pool(&scene, "maxConnecting=3&appname=passing").await;
        let delay = doc! {
            "failCommands": ["hello", "isMaster"], "appName": "passing",
            "blockConnection": true, "blockTimeMS": 200,
        };
        scene.fail(0, doc! { "times": 3 }, delay).await;
        let tasks = storm(&scene, &watched, |_| Some(Duration::from_millis(30))).await;
        let found = outcomes(&scene, tasks).await;
        assert!(found.iter().all(Option::is_none));
        scene.pause(300).await;
        watched.assert_count(3, "connection created", connection_created);
        let ledger = Ledger::new(100, 3).read(&events(&watched.events));
        assert_eq!(ledger.only().outlived, 3);
        watched.find().await.expect("a reply");
        watched.assert_count(3, "connection created", connection_created);
        watched.end().await;
    });
}

/// Connections break, operations are dropped or reach their time limits, and the pool is cleared
/// and interrupts operations (scenario 30). Fails if the pool counts the end of a connection twice,
/// so that the pool exceeds `maxPoolSize`, or never, so that operations wait for ever.
#[test]
fn a_pool_never_exceeds_max_pool_size_despite_errors_timeouts_and_clears() {
    play([standalone(), balanced_alone()], |scene| async move {
        let options = "maxPoolSize=4&retryReads=true&heartbeatFrequencyMS=500\
                       &connectTimeoutMS=300&appname=everything";
        let watched = client_with_empty_pool(&scene, options).await;
        let seed = u8::try_from(scene.seed).unwrap_or(u8::MAX);
        let mut random = Seed::new([seed; 32]).split("everything").random();
        let mut tasks = Vec::new();
        for round in 0..40 {
            let effect = match round % 4 {
                0 => doc! { "failCommands": ["find"], "closeConnection": true },
                1 => doc! { "failCommands": ["find"], "errorCode": 91 },
                // A check times out, which interrupts the operations under way.
                2 => doc! {
                    "failCommands": ["hello", "isMaster"], "blockConnection": true,
                    "blockTimeMS": 1_500,
                },
                _ => doc! {
                    "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 700,
                },
            };
            let mut data = doc! { "appName": "everything" };
            data.extend(effect);
            scene.fail(0, doc! { "times": 2 }, data).await;
            for n in 0..25 {
                let (things, stage) = (watched.things(), scene.clone());
                let patience = Duration::from_micros(random.below(900_000));
                tasks.push(scene.spawn(async move {
                    let find = things.find_one(doc! { "_id": 1 });
                    match n % 3 {
                        0 => drop(stage.drop_after(patience, find).await),
                        1 => drop(find.timeout(patience).await),
                        _ => drop(find.await),
                    }
                }));
                scene
                    .pause_for(Duration::from_micros(random.below(30_000)))
                    .await;
            }
        }
        for task in tasks {
            let limit = Duration::from_secs(60);
            scene.until_within(limit, "an end", || task.is_over()).await;
        }
        scene.clear_fail_point(0).await;
        watched.find().await.expect("all is well again");
        scene.pause(4_000).await;
        assert!(watched.events.count(pool_cleared) > 5);
        let ledger = Ledger::new(4, 2)
            .without_order()
            .read(&events(&watched.events));
        let books = ledger.only();
        assert!(books.is_at_rest() && books.most == 4, "{books:?}");
        watched.end().await;
    });
}
