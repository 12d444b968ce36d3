//! Transactions: the prose tests of `transactions/tests/README.md` and of
//! `transactions-convenient-api/tests/README.md`.
//!
//! *Retry Timeout is Enforced* and *Retry Backoff is Enforced* are tested in
//! `core/src/operation/transaction_run.rs` as well, with a clock and jitter of the test.

use crate::scene::{Scene, Watched, balanced, play, replica_set, sharded};
use bson::{Document, doc};
use onionskin::{
    ClientSession, Collection,
    error::{Error, ErrorKind, Label},
    options::{CollectionOptions, WriteConcern},
    transaction::TransactionState,
};
use onionskin_worlds::world::SimRuntime;
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

pub(crate) type Session = ClientSession<SimRuntime>;

pub(crate) fn documents(watched: &Watched) -> Collection<SimRuntime, Document> {
    watched.client.database("test").collection("test")
}

pub(crate) async fn session(watched: &Watched) -> Session {
    watched.client.start_session().await.expect("it is open")
}

/// Returns the routers that found a document in 50 reads of a session, whose transaction was
/// committed before. With `starts`, each read is the first one of a transaction.
async fn routers_of_reads(scene: &Scene, starts: bool) -> BTreeSet<String> {
    let watched = scene.client("localThresholdMS=1000");
    let all = documents(&watched);
    all.insert_one(doc! {}).await.expect("it is inserted");
    let both = || {
        watched
            .client
            .topology()
            .servers
            .values()
            .all(|s| s.server_type.is_available())
    };
    scene.until("both routers", both).await;
    let mut session = session(&watched).await;
    session.start_transaction().await.expect("it starts");
    all.insert_one(doc! {})
        .session(&mut session)
        .await
        .expect("it is inserted");
    session.commit_transaction().await.expect("it is committed");
    assert!(session.pinned_server().is_some());
    let mut routers = BTreeSet::new();
    for _ in 0..50 {
        if starts {
            session.start_transaction().await.expect("it starts");
            assert_eq!(session.pinned_server(), None);
        }
        let ping = doc! { "find": "test", "limit": 1 };
        let before = watched.events.mark();
        let database = watched.client.database("test");
        let reply = database.run_command(ping).session(&mut session);
        reply.await.expect("it is found");
        let servers = watched
            .events
            .notes_since(before, crate::event_log::server_of_command);
        routers.extend(servers);
        if starts {
            session.commit_transaction().await.expect("it is committed");
        } else {
            assert_eq!(session.pinned_server(), None);
        }
    }
    session.end().await.expect("ended");
    watched.end().await;
    routers
}

/// "Mongos Pinning Prose Tests", 1.
#[test]
fn a_new_transaction_selects_a_router_again() {
    play([sharded()], |scene| async move {
        assert_eq!(routers_of_reads(&scene, true).await.len(), 2);
    });
}

/// "Mongos Pinning Prose Tests", 2.
#[test]
fn an_operation_outside_of_the_transaction_selects_a_router_again() {
    play([sharded()], |scene| async move {
        assert_eq!(routers_of_reads(&scene, false).await.len(), 2);
    });
}

/// "PoolClearedError Prose Test".
#[test]
fn an_operation_whose_pool_was_cleared_can_be_repeated_with_its_transaction() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("maxPoolSize=1&retryReads=false");
        documents(&watched)
            .insert_one(doc! { "_id": 1 })
            .await
            .expect("it is inserted");
        let primary = scene.primary();
        scene
            .fail(
                primary,
                doc! { "times": 1 },
                doc! {
                    "failCommands": ["find"], "closeConnection": true, "blockConnection": true,
                    "blockTimeMS": 500,
                },
            )
            .await;
        let blocked = documents(&watched);
        let first = scene.spawn(async move { blocked.find_one(doc! {}).await });
        scene.pause(100).await;
        // This operation waits for the only connection, whose pool is cleared.
        let mut session = session(&watched).await;
        session.start_transaction().await.expect("it starts");
        let all = documents(&watched);
        let error = all
            .find_one(doc! {})
            .session(&mut session)
            .await
            .expect_err("cleared");
        assert!(
            matches!(error.kind(), ErrorKind::ConnectionPoolCleared { .. }),
            "{error}"
        );
        assert!(error.has_label(&Label::TransientTransactionError));
        scene
            .ended("the read", first)
            .await
            .expect_err("its connection was closed");
        session.end().await.expect("ended");
        watched.end().await;
    });
}

/// "Options Inside Transaction Prose Tests", 1.0.
#[test]
fn the_write_concern_of_a_collection_is_not_inherited_in_a_transaction() {
    play([replica_set(), sharded(), balanced()], |scene| async move {
        let watched = scene.client("");
        documents(&watched)
            .insert_one(doc! { "n": 0 })
            .await
            .expect("it is inserted");
        let options = CollectionOptions::builder()
            .write_concern(WriteConcern::nodes(0))
            .build();
        let database = watched.client.database("test");
        let all = database.collection_with_options::<Document>("test", options);
        let mut session = session(&watched).await;
        session.start_transaction().await.expect("it starts");
        all.insert_one(doc! { "n": 1 })
            .session(&mut session)
            .await
            .expect("it is inserted");
        session.commit_transaction().await.expect("it is committed");
        session.end().await.expect("ended");
        let found = documents(&watched)
            .find_one(doc! { "n": 1 })
            .await
            .expect("it is read");
        assert!(found.is_some());
        watched.end().await;
    });
}

#[test]
fn the_start_of_a_transaction_takes_no_time_limit() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let mut session = session(&watched).await;
        let start = session.start_transaction().timeout(Duration::from_secs(1));
        let error = start.await.expect_err("nothing would be limited");
        assert!(error.to_string().contains("timeoutMS"), "{error}");
        assert_eq!(session.transaction_state(), TransactionState::None);
        session.end().await.expect("ended");
        watched.end().await;
    });
}

/// "Callback Raises a Custom Error" and "Callback Returns a Value".
#[test]
fn the_result_of_the_callback_is_the_result_of_the_run() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let mut session = session(&watched).await;
        let calls = AtomicU32::new(0);
        let failed: Result<(), Error> = session
            .with_transaction(async |_| {
                calls.fetch_add(1, Ordering::Relaxed);
                Err(Error::custom("no"))
            })
            .await;
        let error = failed.expect_err("the callback fails");
        assert_eq!(error.get_custom::<&str>(), Some(&"no"));
        assert_eq!(calls.into_inner(), 1);
        assert_eq!(session.transaction_state(), TransactionState::Aborted);
        let value = session.with_transaction(async |_| Ok("value")).await;
        assert_eq!(value.expect("it is committed"), "value");
        session.end().await.expect("ended");
        watched.end().await;
    });
}

/// "Retry Timeout is Enforced": the run ends after 120 s of commits that fail, with the labels of
/// the last error.
#[test]
fn a_run_ends_after_120_seconds_with_the_labels_of_its_last_error() {
    let codes = [
        (251, "TransientTransactionError"),
        (91, "UnknownTransactionCommitResult"),
    ];
    for (code, label) in codes {
        play([replica_set()], |scene| async move {
            let watched = scene.client("");
            documents(&watched)
                .insert_one(doc! { "_id": 0 })
                .await
                .expect("it is inserted");
            let failing = doc! {
                "failCommands": ["commitTransaction"], "errorCode": code,
                "errorLabels": [label], "blockConnection": true, "blockTimeMS": 1_000,
            };
            scene.fail(scene.primary(), "alwaysOn", failing).await;
            let all = documents(&watched);
            let mut session = session(&watched).await;
            let began = scene.now();
            let run = session
                .with_transaction(async |session| all.insert_one(doc! {}).session(session).await);
            let error = run.await.expect_err("no commit succeeds");
            let lasted = scene.now() - began;
            let seconds = Duration::from_secs(118)..Duration::from_secs(125);
            assert!(seconds.contains(&lasted), "{lasted:?}");
            assert!(error.is_timeout() && error.contains_label(label), "{error}");
            scene.clear_fail_point(scene.primary()).await;
            session.end().await.expect("ended");
            watched.end().await;
        });
    }
}

/// "Retry Backoff is Enforced": 13 repetitions pause for 2.3 s at most. The test of the same name
/// in `core/src/operation/transaction_run.rs` chooses the jitter.
#[test]
fn repetitions_of_a_transaction_pause_before_they_begin() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        documents(&watched)
            .insert_one(doc! { "_id": 0 })
            .await
            .expect("it is inserted");
        let failing = doc! {
            "failCommands": ["commitTransaction"], "errorCode": 251,
        };
        scene
            .fail(scene.primary(), doc! { "times": 13 }, failing)
            .await;
        let all = documents(&watched);
        let mut session = session(&watched).await;
        let began = scene.now();
        let run = session
            .with_transaction(async |session| all.insert_one(doc! {}).session(session).await);
        run.await.expect("the fourteenth commit succeeds");
        let lasted = scene.now() - began;
        let pauses = Duration::from_millis(300)..Duration::from_millis(2_700);
        assert!(pauses.contains(&lasted), "{lasted:?}");
        session.end().await.expect("ended");
        watched.end().await;
    });
}
