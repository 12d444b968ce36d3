//! Transactions that servers or callers leave, and calls that write in several batches in a
//! transaction.

use crate::{
    event_log::command_name,
    scene::{balanced, play, replica_set, sharded, standalone},
    transactions::{Session, documents, session},
};
use bson::{Document, doc};
use onionskin::{
    Collection,
    error::{Error, ErrorKind},
    options::WriteConcern,
    transaction::TransactionState,
};
use onionskin_deployment::deployment::ServerVersion;
use onionskin_worlds::world::{SimRuntime, plan::Disaster};
use std::time::Duration;

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
    play([standalone()], |scene| async move {
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
        session.end().await.expect("ended");
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
        // A cursor and then its session are dropped, so that the transaction has to be aborted.
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
        session.end().await.expect("ended");
        watched.end().await;
    });
}

/// A failed statement aborts the transaction on the server. So an insert or a bulk write of several
/// batches ends there, also if it is not ordered, and its error is that of the statement.
#[test]
fn writes_of_several_batches_end_with_the_first_error_in_a_transaction() {
    let mut options = replica_set();
    options.limits.max_write_batch = 2;
    play([options], |scene| async move {
        let watched = scene.client("");
        let all = documents(&watched);
        all.insert_one(doc! { "_id": 1 })
            .await
            .expect("it is inserted");
        let mut session = session(&watched).await;
        let ids = [0, 1, 2, 3];
        for is_bulk in [false, true] {
            let before = watched.events.mark();
            let run = session.with_transaction(async |session| match is_bulk {
                false => {
                    let documents = ids.map(|id| doc! { "_id": id });
                    let insert = all.insert_many(documents).ordered(false);
                    insert.session(session).await.map(|_| ())
                }
                true => {
                    let models = ids.map(|id| all.insert_one_model(doc! { "_id": id }));
                    let models: Result<Vec<_>, _> = models.into_iter().collect();
                    let write = all.bulk_write(models?).ordered(false);
                    write.session(session).await.map(|_| ())
                }
            });
            let error = run.await.expect_err("a key is taken");
            assert!(
                error.is_duplicate_key() && error.labels().is_empty(),
                "{error}"
            );
            let names = watched.events.notes_since(before, command_name);
            let inserts = names.iter().filter(|name| *name == "insert started");
            assert_eq!(inserts.count(), 1, "{names:?}");
        }
        session.end().await.expect("ended");
        watched.end().await;
    });
}

/// The write concern of the client has no effect on a bulk write in a transaction.
#[test]
fn a_bulk_write_in_a_transaction_ignores_the_write_concern_of_the_client() {
    let mut options = replica_set();
    options.version = ServerVersion::named("8.0").expect("it is known");
    play([options], |scene| async move {
        let watched = scene.client("w=0");
        let all = documents(&watched);
        let mut session = session(&watched).await;
        let start = session
            .start_transaction()
            .write_concern(WriteConcern::majority());
        start.await.expect("it starts");
        let model = all
            .insert_one_model(doc! { "_id": 1 })
            .expect("it is encoded");
        let write = watched.client.bulk_write([model]).session(&mut session);
        let result = write.await.expect("it is written");
        assert_eq!(result.inserted_count, 1);
        session.commit_transaction().await.expect("it is committed");
        session.end().await.expect("ended");
        watched.end().await;
    });
}
