//! A client with monitors in a process that forks: the client notices the fork and resets itself
//! (CMAP-37, CMAP-103, CMAP-105). No process is really forked. The runtime reports another process
//! id, as it would in the child.

use crate::{
    event_log::{
        EventLog, command_name, heartbeat_failed, heartbeat_started, heartbeat_succeeded,
        pool_cleared, pool_ready,
    },
    scene::{Scene, Task, play, replica_set, standalone},
};
use bson::{Bson, Document, doc};
use onionskin::{Client, Collection, Runtime};
use onionskin_core::{
    client::Counts,
    error::ErrorKind,
    event::{CommandEvent, EventKind},
    random::Seed,
    unstable::hello::Environment,
};
use onionskin_deployment::deployment::Deployment;
use onionskin_worlds::world::SimRuntime;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// The simulated runtime with a process id that can change.
#[derive(Clone)]
struct Forkable {
    inner: SimRuntime,
    process: Arc<AtomicU32>,
}

impl Runtime for Forkable {
    type Stream = <SimRuntime as Runtime>::Stream;
    type Sleep = <SimRuntime as Runtime>::Sleep;

    onionskin_tests::forward_runtime!(
        inner: connect, connect_unix, resolve, sleep, spawn, now, wall_time, entropy
    );

    fn process_id(&self) -> Option<u32> {
        Some(self.process.load(Ordering::SeqCst))
    }
}

type Things = Collection<Forkable, Document>;

/// Starts a `find` that the server blocks for two seconds, and waits for half a second. The task
/// returns true if the `find` succeeds.
async fn slow_find(scene: &Scene, things: &Things) -> Task<bool> {
    let data = doc! {
        "failCommands": ["find"], "appName": "forks", "blockConnection": true,
        "blockTimeMS": 2_000,
    };
    scene.fail(0, doc! { "times": 1 }, data).await;
    let things = things.clone();
    let find = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await.is_ok() });
    scene.pause(500).await;
    find
}

/// Returns the session ids of all commands that were sent after the mark.
fn sessions(events: &EventLog, mark: usize) -> BTreeSet<Vec<u8>> {
    let reported = events.notes_since(mark, |event| match &event.kind {
        EventKind::Command(CommandEvent::Started { command, .. }) => {
            let command = Document::try_from(&**command).ok()?;
            match command.get_document("lsid").ok()?.get("id") {
                Some(Bson::Binary(id)) => Some(id.bytes.clone()),
                _ => None,
            }
        }
        _ => None,
    });
    reported.into_iter().collect()
}

async fn fork_during_operations(scene: Scene, uri: &str, pools: usize) {
    let events = EventLog::default();
    let runtime = Forkable {
        inner: scene.runtime.clone(),
        process: Arc::new(AtomicU32::new(1)),
    };
    let builder = Client::builder_from_uri(runtime.clone(), uri).expect("a string");
    let client = builder
        .seed(Seed::new([7; 32]))
        .environment(Environment::default())
        .event_listener(events.listener())
        .build()
        .expect("a client");
    let things: Things = client.database("app").collection("things");
    let documents = (1..6).map(|id| doc! { "_id": id });
    things.insert_many(documents).await.expect("a reply");
    let find = things.find(doc! {}).batch_size(2);
    let mut cursor = find.await.expect("a reply");
    assert!(cursor.next().await.is_some());
    let slow = slow_find(&scene, &things).await;
    scene
        .until("the pools", || events.count(pool_ready) == pools)
        .await;
    let (mark, before) = (events.mark(), sessions(&events, 0));

    runtime.process.store(2, Ordering::SeqCst);
    things.insert_one(doc! { "_id": 6 }).await.expect("a reply");
    scene
        .until("the pools", || events.count(pool_ready) == 2 * pools)
        .await;
    assert_eq!(events.count(pool_cleared), pools);
    let found = things.count_documents(doc! {}).await;
    assert_eq!(found, Ok(6));
    assert!(!slow.join().await, "it was under way in the parent");
    assert!(
        sessions(&events, mark).is_disjoint(&before),
        "they are the parent's"
    );

    assert!(cursor.next().await.is_some_and(|document| document.is_ok()));
    let error = cursor
        .next()
        .await
        .expect("an end")
        .expect_err("it is the parent's");
    let is_argument = matches!(error.kind(), ErrorKind::InvalidArgument { .. });
    assert!(is_argument, "{error:?}");
    drop(cursor);
    drop(things);
    let kills = |name: &String| name.starts_with("killCursors");
    assert!(!events.notes(command_name).iter().any(kills));
    client.clone().shutdown().await;
    assert_eq!(client.counts(), Counts::default());
    scene.pause(1_000).await;
    assert_eq!(scene.runtime.open_links(), 0, "{:#?}", events.names());
    assert_eq!(scene.runtime.inspect(Deployment::connections), 0);
    let ended = events.count(heartbeat_succeeded) + events.count(heartbeat_failed);
    assert_eq!(events.count(heartbeat_started), ended);
}

#[test]
fn a_client_with_monitors_resets_itself_after_a_fork() {
    let options = "minPoolSize=2&retryReads=false&appname=forks";
    let alone = format!("mongodb://member0/?{options}");
    play([standalone()], |scene| {
        fork_during_operations(scene, &alone, 1)
    });
    let set = format!("mongodb://member0/?replicaSet=rs&{options}");
    play([replica_set()], |scene| {
        fork_during_operations(scene, &set, 3)
    });
}
