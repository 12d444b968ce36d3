//! `insert_many` with servers that have small limits: the split into batches (MSG-4, MSG-8,
//! MSG-32), the transaction number of each batch (RW-19), and inserts that fail (RW-29), are
//! dropped or are unacknowledged.

use crate::{
    event_log::EventLog,
    scene::{Scene, Watched, play, replica_set, standalone},
};
use bson::{Bson, Document, doc};
use onionskin::{Error, error::ErrorKind, options::WriteConcern};
use onionskin_core::{
    error::InsertManyError,
    event::{CommandEvent, EventKind},
};
use onionskin_deployment::deployment::DeploymentOptions;
use std::time::Duration;

/// The largest number of documents that a server accepts in one command.
const BATCH: usize = 3;

/// The content of one `insert` command.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    ids: Vec<i32>,
    operation: u64,
    number: Option<i64>,
}

fn limited(mut options: DeploymentOptions) -> DeploymentOptions {
    options.limits.max_write_batch = BATCH;
    options
}

/// Returns the `insert` commands that were sent, retries included.
fn sent(events: &EventLog) -> Vec<Sent> {
    events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command, .. })
            if &*facts.name == "insert" =>
        {
            let command = Document::try_from(&**command).expect("BSON");
            let documents = command.get_array("documents").expect("documents");
            let id = |document: &Bson| {
                let document = document.as_document().expect("a document");
                document.get_i32("_id").expect("a number")
            };
            Some(Sent {
                ids: documents.iter().map(id).collect(),
                operation: facts.operation_id,
                number: command.get_i64("txnNumber").ok(),
            })
        }
        _ => None,
    })
}

fn sent_ids(events: &EventLog) -> Vec<Vec<i32>> {
    sent(events).into_iter().map(|sent| sent.ids).collect()
}

fn documents(ids: impl IntoIterator<Item = i32>) -> Vec<Document> {
    ids.into_iter().map(|id| doc! { "_id": id }).collect()
}

/// Returns the sorted `_id`s in the collection.
async fn stored(watched: &Watched) -> Vec<i32> {
    let found = watched.things().find(doc! {}).await.expect("a reply");
    let found = found.into_vec().await.expect("documents");
    let mut ids: Vec<i32> = found
        .iter()
        .map(|document| document.get_i32("_id").expect("a number"))
        .collect();
    ids.sort_unstable();
    ids
}

fn fault(error: &Error) -> &InsertManyError {
    match error.kind() {
        ErrorKind::InsertMany(fault) => fault,
        _ => panic!("{error:?}"),
    }
}

fn failed(error: &Error) -> Vec<usize> {
    fault(error).errors().iter().map(|e| e.index).collect()
}

/// Returns the positions of the documents that a failed insert had inserted.
fn inserted(error: &Error) -> Vec<usize> {
    let partial = error.partial_insert().expect("an insert_many");
    partial.inserted_ids.keys().copied().collect()
}

/// A command has at most as many documents as the `maxWriteBatchSize` in the hello reply of the
/// connection (MSG-32).
#[test]
fn insert_many_splits_its_batches_by_max_write_batch_size() {
    play([limited(standalone()), limited(replica_set())], |scene| {
        async move {
            let watched = scene.client("");
            let result = watched.things().insert_many(documents(0..8)).await;
            let result = result.expect("all are inserted");
            let places: Vec<usize> = result.inserted_ids.keys().copied().collect();
            assert_eq!(places, (0..8).collect::<Vec<_>>());
            assert_eq!(result.inserted_ids[&7], Bson::Int32(7));
            let sent = sent(&watched.events);
            let ids: Vec<_> = sent.iter().map(|sent| &sent.ids[..]).collect();
            assert_eq!(ids, [&[0, 1, 2][..], &[3, 4, 5], &[6, 7]]);
            assert!(sent.iter().all(|s| s.operation == sent[0].operation));
            // On a replica set each batch has its own transaction number (RW-19). Commands to a
            // standalone have none.
            let mut numbers: Vec<_> = sent.iter().map(|sent| sent.number).collect();
            numbers.dedup();
            let expected = if sent[0].number.is_some() { 3 } else { 1 };
            assert_eq!(numbers.len(), expected);
            assert_eq!(stored(&watched).await, (0..8).collect::<Vec<_>>());
            watched.end().await;
        }
    });
}

/// No message is larger than `maxMessageSizeBytes`, header and body included (MSG-4). The server
/// closes a connection on which a larger message arrives.
#[test]
fn insert_many_splits_its_batches_by_max_message_size() {
    let mut options = standalone();
    options.limits.max_message_bytes = 2_000;
    play([options], |scene| async move {
        let watched = scene.client("");
        for text in 0..60_usize {
            let list = (0..40).map(|id| doc! { "_id": id, "t": "x".repeat(text) });
            watched
                .things()
                .delete_many(doc! {})
                .await
                .expect("a reply");
            let result = watched.things().insert_many(list.clone()).await;
            assert_eq!(result.expect("all fit").inserted_ids.len(), 40);
            let count = watched.things().count_documents(doc! {}).await;
            assert_eq!(count, Ok(40));
        }
        // The last message but one is nearly full: with one more document, its documents would take
        // more than 1,700 of the 2,000 bytes. Header and body take the rest.
        let sent = sent(&watched.events);
        let last = sent.len() - 1;
        let size = doc! { "_id": 0, "t": "x".repeat(59) }
            .to_vec()
            .expect("BSON")
            .len();
        assert!(
            sent[last - 1].ids.len() * size > 2_000 - 300 - size,
            "{sent:?}"
        );
        watched.end().await;
    });
}

/// A document that is too large is not sent (MSG-8). The documents before it are inserted.
#[test]
fn insert_many_ends_at_a_document_that_exceeds_the_size_limit() {
    let mut options = limited(standalone());
    options.limits.max_document_bytes = 1_000;
    play([options], |scene| async move {
        let watched = scene.client("");
        let large = doc! { "_id": 4, "t": "x".repeat(1_000) };
        let mut list = documents(0..8);
        list[4] = large.clone();
        let is_limit = |error: &Error| {
            let what = "the size of a document in bytes";
            matches!(error.kind(), ErrorKind::Limit { what: w, limit: 1_000, .. } if *w == what)
        };
        let error = watched.things().insert_many(list).await;
        let error = error.expect_err("one is too large");
        assert!(is_limit(&error), "{error:?}");
        assert_eq!(inserted(&error), [0, 1, 2, 3]);
        assert_eq!(sent_ids(&watched.events), [vec![0, 1, 2], vec![3]]);
        assert_eq!(stored(&watched).await, [0, 1, 2, 3]);
        // An insert of this document alone is also refused, and sends nothing.
        let error = watched.things().insert_one(&large).await;
        assert!(is_limit(&error.expect_err("too large")));
        let error = watched.things().insert_many([large]).await;
        assert!(inserted(&error.expect_err("too large")).is_empty());
        assert_eq!(sent(&watched.events).len(), 2);
        // The limit applies to documents. An update statement contains documents and can be larger.
        let text = "x".repeat(970);
        let update = doc! { "$set": { "t": text } };
        let result = watched.things().update_one(doc! { "_id": 1 }, update).await;
        assert_eq!(result.expect("a reply").modified_count, 1);
        watched.end().await;
    });
}

#[test]
fn an_ordered_insert_many_ends_after_the_batch_that_failed() {
    play(
        [limited(standalone()), limited(replica_set())],
        |scene| async move {
            let watched = scene.client("");
            watched.insert(4).await.expect("a reply");
            let error = watched.things().insert_many(documents(0..9)).await;
            let error = error.expect_err("4 is there");
            assert_eq!((failed(&error), error.code()), (vec![4], Some(11000)));
            assert_eq!(fault(&error).written, 4);
            assert_eq!(inserted(&error), [0, 1, 2, 3]);
            assert!(error.server().is_some());
            assert_eq!(
                sent(&watched.events).len(),
                3,
                "the third batch is not sent"
            );
            assert_eq!(stored(&watched).await, [0, 1, 2, 3, 4]);
            watched.end().await;
        },
    );
}

#[test]
fn an_unordered_insert_many_sends_every_batch_and_reports_all_write_errors() {
    play(
        [limited(standalone()), limited(replica_set())],
        |scene| async move {
            let watched = scene.client("");
            for there in [1, 3, 5, 8] {
                watched.insert(there).await.expect("a reply");
            }
            let insert = watched.things();
            let error = insert.insert_many(documents(0..9)).unordered().await;
            let error = error.expect_err("some are there");
            assert_eq!(failed(&error), [1, 3, 5, 8]);
            assert_eq!(fault(&error).written, 5);
            assert_eq!(inserted(&error), [0, 2, 4, 6, 7]);
            assert_eq!(sent(&watched.events).len(), 4 + 3);
            assert_eq!(stored(&watched).await, (0..9).collect::<Vec<_>>());
            watched.end().await;
        },
    );
}

/// Starts an insert of nine documents as a task. Returns when its second batch is at the server. A
/// fail point blocks each batch except the first for half a second.
async fn hold_second_batch(
    scene: &Scene,
    watched: &Watched,
    unordered: bool,
) -> crate::scene::Task<Result<onionskin::results::InsertManyResult, Error>> {
    watched.find().await.expect("a reply");
    let data = doc! {
        "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 500,
    };
    scene.fail(scene.primary(), doc! { "skip": 1 }, data).await;
    let things = watched.things();
    let task = scene.spawn(async move {
        let mut insert = things.insert_many(documents(0..9));
        if unordered {
            insert = insert.unordered();
        }
        insert.await
    });
    let events = watched.events.clone();
    scene
        .until("a second batch", || sent(&events).len() == 2)
        .await;
    scene.pause(100).await;
    task
}

/// The retry of a batch sends the same documents with the same transaction number. No batch is
/// inserted twice or left out.
#[test]
fn a_batch_retried_after_a_step_down_has_the_same_documents_and_txn_number() {
    play([limited(replica_set())], |scene| async move {
        let watched = scene.client("");
        let task = hold_second_batch(&scene, &watched, false).await;
        let primary = scene.primary();
        scene
            .tell(primary, doc! { "replSetStepDown": 60, "force": true })
            .await;
        let patience = Duration::from_secs(60);
        scene
            .until_within(patience, "the result", || task.is_over())
            .await;
        let result = task.join().await.expect("it goes on at another primary");
        assert_eq!(result.inserted_ids.len(), 9);
        let sent = sent(&watched.events);
        let ids: Vec<_> = sent.iter().map(|sent| sent.ids[0]).collect();
        assert_eq!(ids, [0, 3, 3, 6], "{sent:?}");
        assert_eq!(sent[1], sent[2]);
        assert_ne!(sent[0].number, sent[1].number);
        assert!(sent.iter().all(|s| s.operation == sent[0].operation));
        assert_eq!(stored(&watched).await, (0..9).collect::<Vec<_>>());
        watched.end().await;
    });
}

/// The server applies a batch and replies with a write concern error about its shutdown. The retry
/// does not apply the batch again.
#[test]
fn a_batch_that_was_applied_is_not_applied_again_by_its_retry() {
    play([limited(replica_set())], |scene| async move {
        let watched = scene.client("");
        let task = hold_second_batch(&scene, &watched, false).await;
        // The fail point affects the third batch.
        let concern = doc! {
            "code": 91, "errmsg": "going away", "errorLabels": ["RetryableWriteError"],
        };
        let data = doc! {
            "failCommands": ["insert"], "writeConcernError": concern,
            "errorLabels": ["RetryableWriteError"],
        };
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        let result = scene.ended("the result", task).await;
        assert_eq!(result.expect("a reply").inserted_ids.len(), 9);
        let sent = sent(&watched.events);
        let ids: Vec<_> = sent.iter().map(|sent| sent.ids[0]).collect();
        assert_eq!(ids, [0, 3, 6, 6], "{sent:?}");
        assert_eq!(sent[2], sent[3]);
        assert_eq!(stored(&watched).await, (0..9).collect::<Vec<_>>());
        watched.end().await;
    });
}

/// A network error that is not followed by a successful retry ends the insert, even an unordered
/// one. The error contains the partial result (RW-29). Here the server is a standalone, which does
/// not support retryable writes.
#[test]
fn a_network_error_ends_insert_many_with_the_partial_result() {
    play([limited(standalone())], |scene| async move {
        let watched = scene.client("");
        watched.insert(1).await.expect("a reply");
        let data = doc! { "failCommands": ["insert"], "closeConnection": true };
        scene.fail(0, doc! { "skip": 1 }, data).await;
        let insert = watched.things();
        let error = insert.insert_many(documents(0..9)).unordered().await;
        let error = error.expect_err("the connection breaks");
        assert!(error.is_network(), "{error:?}");
        assert_eq!(inserted(&error), [0, 2]);
        let partial = error.partial_insert().expect("an insert_many");
        let earlier = partial.earlier.as_ref().expect("one was there before");
        assert_eq!((failed(earlier), fault(earlier).written), (vec![1], 2));
        scene.clear_fail_point(0).await;
        assert_eq!(sent(&watched.events).len(), 1 + 2);
        watched.end().await;
    });
}

/// An insert that is dropped sends no more batches. The batches that were sent are inserted.
#[test]
fn insert_many_that_is_dropped_during_its_second_batch_sends_no_further_batch() {
    play([limited(replica_set())], |scene| async move {
        let watched = scene.client("");
        watched.find().await.expect("a reply");
        let data = doc! {
            "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 500,
        };
        scene.fail(scene.primary(), doc! { "skip": 1 }, data).await;
        let things = watched.things();
        let insert = things.insert_many(documents(0..9));
        let left = scene.drop_after(Duration::from_millis(250), insert).await;
        assert!(left.is_none(), "{left:?}");
        scene.pause(2_000).await;
        assert_eq!(sent_ids(&watched.events), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(stored(&watched).await, (0..6).collect::<Vec<_>>());
        watched.end().await;
    });
}

/// One time limit covers all batches together.
#[test]
fn a_time_limit_bounds_all_batches_together() {
    play([limited(standalone()), limited(replica_set())], |scene| {
        async move {
            // A single batch takes less time than the limit.
            for by_client in [true, false] {
                let options = if by_client { "timeoutMS=500" } else { "" };
                let watched = scene.client(options);
                watched.find().await.expect("a reply");
                let data = doc! {
                    "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 200,
                };
                scene.fail(scene.primary(), "alwaysOn", data).await;
                let things = watched.things();
                things.delete_many(doc! {}).await.expect("a reply");
                let mut insert = things.insert_many(documents(0..15));
                if !by_client {
                    insert = insert.timeout(Duration::from_millis(500));
                }
                let began = scene.now();
                let error = insert.await.expect_err("five batches take a second");
                assert!(error.is_timeout(), "{error:?}");
                let took = scene.now().saturating_since(began);
                assert!(took <= Duration::from_millis(500), "{took:?}");
                assert_eq!(inserted(&error), [0, 1, 2, 3, 4, 5]);
                scene.clear_fail_point(scene.primary()).await;
                watched.end().await;
            }
        }
    });
}

/// An unacknowledged insert gets no reply (MSG-18), and sends every batch.
#[test]
fn an_unacknowledged_insert_sends_all_batches() {
    play([limited(standalone())], |scene| async move {
        let watched = scene.client("");
        let insert = watched.things();
        let insert = insert.insert_many(documents(0..8));
        let nobody = || WriteConcern::nodes(0);
        let result = insert.write_concern(nobody()).await.expect("sent");
        assert_eq!(result.inserted_ids.len(), 8);
        assert!(!result.is_acknowledged());
        scene.pause(100).await;
        assert_eq!(sent_ids(&watched.events).len(), 3);
        assert_eq!(stored(&watched).await, (0..8).collect::<Vec<_>>());
        watched.end().await;
    });
}

/// A result says whether the write was acknowledged (CRUD, *Write Results*).
#[test]
fn results_of_unacknowledged_writes_are_told_apart() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        for nodes in [0, 1] {
            let concern = || WriteConcern::nodes(nodes);
            let things = watched.things();
            let insert = things.insert_one(doc! {}).write_concern(concern());
            let update = things.update_one(doc! {}, doc! { "$set": { "x": 1 } });
            let update = update.write_concern(concern());
            let replace = things.replace_one(doc! {}, doc! { "x": 2 });
            let replace = replace.write_concern(concern());
            let delete = things.delete_one(doc! {}).write_concern(concern());
            let acknowledged = [
                insert.await.expect("sent").is_acknowledged(),
                update.await.expect("sent").is_acknowledged(),
                replace.await.expect("sent").is_acknowledged(),
                delete.await.expect("sent").is_acknowledged(),
            ];
            assert_eq!(acknowledged, [nodes == 1; 4]);
        }
        watched.end().await;
    });
}

/// A write concern error does not stop the next batch. The error of the insert contains the write
/// concern errors of all batches.
#[test]
fn insert_many_reports_the_write_concern_errors_of_all_batches() {
    play([limited(replica_set())], |scene| async move {
        let watched = scene.client("");
        watched.find().await.expect("a reply");
        let concern = doc! { "code": 64, "errmsg": "waiting for replication timed out" };
        let data = doc! { "failCommands": ["insert"], "writeConcernError": concern };
        scene.fail(scene.primary(), "alwaysOn", data).await;
        let error = watched.things().insert_many(documents(0..8)).await;
        let error = error.expect_err("it is not confirmed");
        let fault = fault(&error);
        assert!(fault.errors().is_empty());
        assert_eq!(fault.write_concern_error.as_ref().map(|w| w.code), Some(64));
        assert_eq!(fault.more_write_concern_errors.len(), 2);
        assert_eq!((fault.written, inserted(&error).len()), (8, 8));
        scene.clear_fail_point(scene.primary()).await;
        assert_eq!(stored(&watched).await, (0..8).collect::<Vec<_>>());
        watched.end().await;
    });
}

#[test]
fn insert_many_without_documents_is_refused() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let error = watched.things().insert_many(documents([])).await;
        let error = error.expect_err("there is nothing to insert");
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }));
        assert_eq!(sent(&watched.events), []);
        watched.end().await;
    });
}
