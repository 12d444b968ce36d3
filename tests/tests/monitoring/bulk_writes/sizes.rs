//! The split of a bulk write by `maxMessageSizeBytes`, and operations that fit into no message.

use super::{
    COLLECTION, Limits, collection, insert, insert_text, limits, namespace, release_8, sent, sizes,
    small,
};
use crate::scene::{Scene, Watched, play, play_with_one_seed};
use bson::doc;
use onionskin::{
    error::ErrorKind,
    options::{InsertOneModel, WriteModel},
};
use std::future::Future;

/// Runs a test with small limits, and once with those of a real server.
fn play_both<F: Future<Output = ()>>(act: impl Fn(Scene) -> F) {
    play(small(), &act);
    play_with_one_seed(release_8(), act);
}

/// CRUD prose 4: operations that exceed `maxMessageSizeBytes` together need a second command.
#[test]
fn operations_above_max_message_size_are_sent_in_a_second_command() {
    play_both(|scene| async move {
        let watched = scene.client("");
        let limits = limits(&watched).await;
        let count = limits.message_bytes / limits.document_bytes + 1;
        let model = insert_text(COLLECTION, limits.document_bytes - 500);
        let result = watched.client.bulk_write(vec![model; count]).await;
        assert_eq!(result.expect("a reply").inserted_count, count as i64);
        assert_eq!(sizes(&watched), [count - 1, 1]);
        watched.end().await;
    });
}

/// Returns inserts after which a message has space for one more small operation, but not for
/// another long namespace (CRUD prose 11, "Setup").
fn nearly_full(limits: &Limits) -> Vec<WriteModel> {
    let bytes = limits.message_bytes - 1_122;
    let rest = bytes % limits.document_bytes;
    let first = insert_text(COLLECTION, limits.document_bytes - 57);
    let mut models = vec![first; bytes / limits.document_bytes];
    if rest >= 217 {
        models.push(insert_text(COLLECTION, rest - 57));
    }
    models
}

async fn run_nearly_full(watched: &Watched, last: WriteModel) -> usize {
    let mut models = nearly_full(&limits(watched).await);
    let count = models.len();
    models.push(last);
    let result = watched.client.bulk_write(models).await.expect("a reply");
    assert_eq!(result.inserted_count, count as i64 + 1);
    count
}

/// CRUD prose 11, case 1: an operation that just fits is sent with the others.
#[test]
fn an_operation_of_a_known_namespace_fits_into_a_nearly_full_message() {
    play_both(|scene| async move {
        let watched = scene.client("");
        let last = insert(COLLECTION, doc! { "a": "b" });
        let count = run_nearly_full(&watched, last).await;
        assert_eq!(sizes(&watched), [count + 1]);
        assert_eq!(sent(&watched, "bulkWrite")[0].namespaces(), [COLLECTION]);
        watched.end().await;
    });
}

/// CRUD prose 11, case 2: the same operation does not fit if its namespace has to be added.
#[test]
fn an_operation_of_another_namespace_does_not_fit_into_a_nearly_full_message() {
    play_both(|scene| async move {
        let watched = scene.client("");
        let name = format!("db.{}", "c".repeat(200));
        let last = insert(&name, doc! { "a": "b" });
        let count = run_nearly_full(&watched, last).await;
        assert_eq!(sizes(&watched), [count, 1]);
        let sent = sent(&watched, "bulkWrite");
        assert_eq!(sent[0].namespaces(), [COLLECTION]);
        assert_eq!(sent[1].namespaces(), [name.as_str()]);
        watched.end().await;
    });
}

/// CRUD prose 12: a document (case 1) or a namespace (case 2) that fits into no message is an error
/// of the client.
#[test]
fn an_operation_that_fits_into_no_message_is_refused() {
    play_both(|scene| async move {
        let watched = scene.client("");
        let bytes = limits(&watched).await.message_bytes;
        let long = format!("db.{}", "c".repeat(bytes));
        let long = InsertOneModel::builder().namespace(namespace(&long));
        let models: [WriteModel; 2] = [
            insert_text(COLLECTION, bytes),
            long.document(doc! { "a": "b" }).build().into(),
        ];
        for model in models {
            let error = watched.client.bulk_write([model]).await;
            let error = error.expect_err("it is too large");
            // The error has another kind than that of a bulk write, so it has no partial result.
            assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
            assert_eq!(error.code(), None);
        }
        assert!(sent(&watched, "bulkWrite").is_empty());
        let stored = collection(&watched).count_documents(doc! {}).await;
        assert_eq!(stored, Ok(0));
        watched.end().await;
    });
}
