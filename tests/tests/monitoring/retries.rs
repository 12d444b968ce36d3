//! Retries of reads and writes: prose tests of `retryable-reads/tests/README.md` and of
//! `retryable-writes/tests/README.md`.

use crate::{
    event_log::{check_out_failed, command_name, pool_cleared, pool_name},
    scene::{Scene, Watched, play, replica_set, sharded, sharded_alone},
};
use bson::{Document, doc};
use onionskin::Error;
use onionskin_core::event::{CheckOutFailure, CommandEvent, Event, EventKind, PoolEvent};

/// The reads, and then the writes.
const COMMANDS: [&str; 2] = ["find", "insert"];

async fn run(watched: &Watched, command: &str) -> Result<(), Error> {
    match command {
        "find" => watched.find().await.map(drop),
        _ => {
            let inserted = watched.things().insert_one(doc! { "x": 1 }).await;
            inserted.map(drop)
        }
    }
}

/// Makes each of these servers fail this command once.
async fn fail_once(scene: &Scene, servers: std::ops::Range<usize>, data: &Document) {
    for server in servers {
        scene.fail(server, doc! { "times": 1 }, data.clone()).await;
    }
}

/// Returns the address of the server of each event `failed` and `succeeded`, and true for a
/// success.
fn ends(event: &Event) -> Option<(String, bool)> {
    match &event.kind {
        EventKind::Command(CommandEvent::Failed { facts, .. }) => {
            Some((facts.address.to_string(), false))
        }
        EventKind::Command(CommandEvent::Succeeded { facts, .. }) => {
            Some((facts.address.to_string(), true))
        }
        _ => None,
    }
}

/// RR-P1 and RW-P2: "PoolClearedError Retryability Test". Two operations share one connection. The
/// first one clears the pool, so the check out of the second one fails.
#[test]
fn an_operation_whose_pool_is_cleared_is_retried() {
    for command in COMMANDS {
        play([replica_set(), sharded_alone()], |scene| async move {
            let watched = scene.client("maxPoolSize=1&retryReads=true&retryWrites=true");
            watched.insert(1).await.expect("a reply");
            let data = doc! {
                "failCommands": [command], "errorCode": 91, "blockConnection": true,
                "blockTimeMS": 1_000, "errorLabels": ["RetryableWriteError"],
            };
            scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
            let mark = watched.events.mark();
            let both = [(); 2].map(|()| {
                let things = watched.things();
                scene.spawn(async move {
                    match command {
                        "find" => things.find_one(doc! {}).await.map(drop),
                        _ => things.insert_one(doc! { "x": 1 }).await.map(drop),
                    }
                })
            });
            for operation in both {
                operation.join().await.expect("it is tried again");
            }
            let events = watched.events.notes_since(mark, pool_name);
            let wanted = ["checked out", "cleared", "check out failed"];
            let mut found = events.iter();
            for name in wanted {
                assert!(
                    found.any(|event| event.contains(name)),
                    "{name}: {events:?}"
                );
            }
            watched.assert_count(1, "cleared", pool_cleared);
            watched.assert_count(1, "check out failed", check_out_failed);
            watched.assert_count(1, "failed by a broken connection", |event| {
                matches!(&event.kind, EventKind::Pool(PoolEvent::CheckOutFailed { reason, .. })
                    if *reason == CheckOutFailure::ConnectionError)
            });
            let started = format!("{command} started");
            let starts = watched.events.notes_since(mark, command_name);
            let starts = starts.iter().filter(|name| **name == started).count();
            assert_eq!(starts, 3);
            watched.end().await;
        });
    }
}

/// RR-P2.1 and RW-P4: on a sharded cluster, an operation is retried on a different router if one is
/// available.
#[test]
fn an_operation_is_retried_on_another_router() {
    for command in COMMANDS {
        play([sharded()], |scene| async move {
            let data = doc! {
                "failCommands": [command], "errorCode": 6,
                "errorLabels": ["RetryableWriteError"],
            };
            fail_once(&scene, 0..2, &data).await;
            let watched = scene.client("retryReads=true&retryWrites=true");
            let available = || {
                let topology = watched.client.topology();
                let mut servers = topology.servers.values();
                servers.all(|server| server.server_type.is_available())
            };
            scene.until("both routers", available).await;
            let error = run(&watched, command).await.expect_err("both fail");
            assert_eq!(error.code(), Some(6));
            let ends = watched.events.notes(ends);
            let [(first, false), (second, false)] = ends.as_slice() else {
                panic!("{ends:?}");
            };
            assert_ne!(first, second);
            watched.end().await;
        });
    }
}

/// RR-P2.2 and RW-P5: on a sharded cluster, an operation is retried on the same router if no other
/// one is available.
#[test]
fn an_operation_is_retried_on_the_only_router() {
    for command in COMMANDS {
        play([sharded_alone()], |scene| async move {
            let mut data = doc! { "failCommands": [command], "errorCode": 6 };
            if command == "insert" {
                data.insert("errorLabels", ["RetryableWriteError"]);
                data.insert("closeConnection", true);
            }
            fail_once(&scene, 0..1, &data).await;
            let options = "directConnection=false&retryReads=true&retryWrites=true";
            let watched = scene.client(options);
            run(&watched, command).await.expect("it is tried again");
            let ends = watched.events.notes(ends);
            let [(first, false), (second, true)] = ends.as_slice() else {
                panic!("{ends:?}");
            };
            assert_eq!(first, second);
            watched.end().await;
        });
    }
}
