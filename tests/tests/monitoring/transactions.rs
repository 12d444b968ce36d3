//! Transactions: the prose tests of `transactions/tests/README.md` and of
//! `transactions-convenient-api/tests/README.md`, and what happens to transactions whose servers
//! and callers leave them.
//!
//! *Retry Timeout is Enforced* and *Retry Backoff is Enforced* are tested in
//! `core/src/operation/transaction_run.rs` as well, with a clock and jitter of the test.

use crate::scene::{Scene, Watched, any_topology, balanced, play, replica_set, sharded};
use bson::{Document, doc};
use onionskin::{
    ClientSession, Collection,
    error::{Error, ErrorKind, Label},
    options::{CollectionOptions, WriteConcern},
    transaction::TransactionState,
};
use onionskin_simulations::world::{SimRuntime, plan::Disaster};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

type Session = ClientSession<SimRuntime>;

fn documents(watched: &Watched) -> Collection<SimRuntime, Document> {
    watched.client.database("test").collection("test")
}

async fn session(watched: &Watched) -> Session {
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
    session.end().await;
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
        session.end().await;
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
        session.end().await;
        let found = documents(&watched)
            .find_one(doc! { "n": 1 })
            .await
            .expect("it is read");
        assert!(found.is_some());
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
        session.end().await;
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
            session.end().await;
            watched.end().await;
        });
    }
}

/// "Retry Backoff is Enforced": 13 repetitions pause for 2.2 s at most.
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
            "errorLabels": ["TransientTransactionError"],
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
        session.end().await;
        watched.end().await;
    });
}

/// A transaction whose session was dropped, or whose commit future was never polled, is aborted.
#[test]
fn a_dropped_session_leaves_no_transaction_behind() {
    play([replica_set(), sharded(), balanced()], |scene| async move {
        let watched = scene.client("");
        let all = documents(&watched);
        all.insert_one(doc! { "_id": 1, "n": 0 })
            .await
            .expect("it is inserted");
        let mut session = session(&watched).await;
        session.start_transaction().await.expect("it starts");
        let update = all.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } });
        update.session(&mut session).await.expect("it is updated");
        let unpolled = session.commit_transaction();
        drop(unpolled);
        assert_eq!(session.transaction_state(), TransactionState::InProgress);
        drop(session);
        // This write conflicts with the transaction until that is aborted.
        let began = scene.now();
        let update = all.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 10 } });
        update.await.expect("it is updated");
        assert!(scene.now() - began < Duration::from_secs(1));
        let found = all
            .find_one(doc! {})
            .await
            .expect("it is read")
            .expect("it is there");
        assert_eq!(found.get_i32("n").ok(), Some(10));
        watched.end().await;
    });
}

/// Eight tasks move money between four accounts, while the primary steps down twice. The sum is
/// kept, and each transfer that was confirmed took place once.
#[test]
fn transfers_between_accounts_keep_their_sum_across_failovers() {
    const TASKS: i32 = 8;
    const TRANSFERS: i32 = 5;
    play([replica_set()], |scene| async move {
        let watched = scene.client("w=majority&readConcernLevel=majority");
        let all = documents(&watched);
        let accounts = (0..4).map(|id| doc! { "_id": id, "sum": 100, "transfers": 0 });
        all.insert_many(accounts).await.expect("they are inserted");
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (all, client) = (all.clone(), watched.client.clone());
                scene.spawn(async move {
                    let mut session = client.start_session().await?;
                    for turn in 0..TRANSFERS {
                        let (from, to) = ((task + turn) % 4, (task + turn + 1) % 4);
                        let context = all.clone();
                        let run = session
                            .start_transaction()
                            .and_run(context, |session, all| {
                                Box::pin(transfer(all.clone(), session, from, to))
                            });
                        run.await?;
                    }
                    Ok::<(), Error>(())
                })
            })
            .collect();
        scene.pause(3).await;
        scene.strike(Disaster::StepDown);
        scene.pause(1_000).await;
        scene.strike(Disaster::StepDown);
        for task in tasks {
            let patience = Duration::from_secs(300);
            let is_over = || task.is_over();
            scene.until_within(patience, "the transfers", is_over).await;
            task.join().await.expect("all transfers succeed");
        }
        let found = all.find(doc! {}).await.expect("they are read");
        let found: Vec<Document> = found.into_vec().await.expect("they are read");
        let total = |field| {
            found
                .iter()
                .filter_map(|a| a.get_i32(field).ok())
                .sum::<i32>()
        };
        assert_eq!(total("sum"), 400);
        assert_eq!(total("transfers"), 2 * TASKS * TRANSFERS);
        watched.end().await;
    });
}

async fn transfer(
    all: Collection<SimRuntime, Document>,
    session: &mut Session,
    from: i32,
    to: i32,
) -> Result<(), Error> {
    for (id, sum) in [(from, -1), (to, 1)] {
        let change = doc! { "$inc": { "sum": sum, "transfers": 1 } };
        all.update_one(doc! { "_id": id }, change)
            .session(&mut *session)
            .await?;
    }
    Ok(())
}

/// A server without transactions refuses the first operation, and says why.
#[test]
fn a_standalone_server_refuses_transactions() {
    let [standalone, ..] = any_topology();
    play([standalone], |scene| async move {
        let watched = scene.client("");
        let mut session = session(&watched).await;
        session.start_transaction().await.expect("nothing is sent");
        let all = documents(&watched);
        let error = all
            .insert_one(doc! {})
            .session(&mut session)
            .await
            .expect_err("refused");
        assert_eq!(error.code(), Some(20), "{error}");
        session.end().await;
        watched.end().await;
    });
}

/// The cursors that were dropped before and in a transaction are closed in the background, also on
/// the connection that the transaction uses.
#[test]
fn dropped_cursors_do_not_disturb_a_transaction() {
    play([replica_set(), sharded(), balanced()], |scene| async move {
        let watched = scene.client("");
        let all = documents(&watched);
        let ten = (0..10).map(|id| doc! { "_id": id });
        all.insert_many(ten).await.expect("they are inserted");
        let mut session = session(&watched).await;
        let read_one = async |session: &mut Session| {
            let find = all.find(doc! {}).batch_size(2).session(&mut *session);
            let mut cursor = find.await.expect("it is open");
            cursor
                .next(session)
                .await
                .expect("it has one")
                .expect("it is read");
            cursor
        };
        let earlier = read_one(&mut session).await;
        session.start_transaction().await.expect("it starts");
        drop(earlier);
        drop(read_one(&mut session).await);
        let insert = all.insert_one(doc! { "_id": 10 }).session(&mut session);
        insert.await.expect("it is inserted");
        drop(read_one(&mut session).await);
        session.commit_transaction().await.expect("it is committed");
        let found = all
            .count_documents(doc! {})
            .await
            .expect("they are counted");
        assert_eq!(found, 11);
        // The same before the session is dropped, so that its transaction has to be aborted.
        session.start_transaction().await.expect("it starts");
        let insert = all.insert_one(doc! { "_id": 11 }).session(&mut session);
        insert.await.expect("it is inserted");
        drop(read_one(&mut session).await);
        drop(session);
        all.insert_one(doc! { "_id": 11 })
            .await
            .expect("the transaction was aborted");
        watched.end().await;
    });
}

/// A callback that drops an operation cannot be committed. The run says so, and aborts.
#[test]
fn a_run_whose_callback_drops_an_operation_is_aborted() {
    play([replica_set(), sharded(), balanced()], |scene| async move {
        let watched = scene.client("");
        let all = documents(&watched);
        all.insert_one(doc! { "_id": 1 })
            .await
            .expect("it is inserted");
        let mut session = session(&watched).await;
        let run = session.with_transaction(async |session| {
            let insert = all.insert_one(doc! { "_id": 2 }).session(session);
            let soon = Duration::from_micros(10);
            assert!(
                scene.drop_after(soon, insert).await.is_none(),
                "it takes longer"
            );
            Ok(())
        });
        let error = run.await.expect_err("it cannot be committed");
        assert!(
            matches!(error.kind(), ErrorKind::Transaction { .. }),
            "{error}"
        );
        assert_eq!(session.transaction_state(), TransactionState::Aborted);
        let insert =
            async |session: &mut Session| all.insert_one(doc! { "_id": 3 }).session(session).await;
        session
            .with_transaction(insert)
            .await
            .expect("it is committed");
        let found = all
            .count_documents(doc! {})
            .await
            .expect("they are counted");
        assert_eq!(found, 2);
        session.end().await;
        watched.end().await;
    });
}
