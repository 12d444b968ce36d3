//! The results of a bulk write in a cursor with several batches. The documents of each test are so
//! large that the results of two operations do not fit into one batch.

use super::{COLLECTION, collection, failure, limits, namespace, release_8, sent};
use crate::{
    scene::{Watched, balanced_alone, play_with_one_seed},
    transactions::session,
};
use bson::{Bson, doc};
use onionskin::{
    Error,
    error::PartialBulkWriteResult,
    options::{UpdateOneModel, WriteModel},
};
use onionskin_deployment::deployment::{DeploymentOptions, ServerVersion};
use std::error::Error as _;

/// Returns two upserts whose results together are larger than a batch of a cursor.
async fn large_upserts(watched: &Watched) -> [WriteModel; 2] {
    let bytes = limits(watched).await.document_bytes / 2;
    ["a", "b"].map(|letter| {
        let model = UpdateOneModel::builder()
            .namespace(namespace(COLLECTION))
            .filter(doc! { "_id": letter.repeat(bytes) })
            .update(doc! { "$set": { "x": 1 } });
        model.upsert(true).build().into()
    })
}

/// Returns a service of release 8.0 behind a load balancer.
fn balanced() -> DeploymentOptions {
    let mut options = balanced_alone();
    options.version = ServerVersion::named("8.0").expect("a release");
    options
}

/// CRUD prose 7: the results that do not fit into the first batch are fetched with `getMore`.
#[test]
fn results_of_several_batches_are_fetched() {
    play_with_one_seed(release_8(), |scene| async move {
        let watched = scene.client("");
        collection(&watched).drop().await.expect("a reply");
        let models = large_upserts(&watched).await;
        let result = watched.client.bulk_write(models).verbose_results().await;
        let result = result.expect("both succeed");
        assert_eq!(result.summary.upserted_count, 2);
        assert_eq!(result.update_results.len(), 2);
        assert_eq!(sent(&watched, "getMore").len(), 1);
        watched.end().await;
    });
}

/// CRUD prose 8: the `getMore` of a bulk write in a transaction belongs to the transaction.
#[test]
fn results_of_several_batches_are_fetched_in_a_transaction() {
    let [_, set, sharded] = release_8();
    play_with_one_seed([set, sharded, balanced()], |scene| async move {
        let watched = scene.client("");
        collection(&watched).drop().await.expect("a reply");
        let models = large_upserts(&watched).await;
        let mut session = session(&watched).await;
        session.start_transaction().await.expect("it starts");
        let write = watched.client.bulk_write(models).session(&mut session);
        let result = write.verbose_results().await.expect("both succeed");
        assert_eq!(result.summary.upserted_count, 2);
        assert_eq!(result.update_results.len(), 2);
        let fetches = sent(&watched, "getMore");
        let [fetch] = &fetches[..] else {
            panic!("{} were sent", fetches.len());
        };
        let command = &sent(&watched, "bulkWrite")[0].command;
        for field in ["lsid", "txnNumber", "autocommit"] {
            assert!(command.contains_key(field), "{field}");
            assert_eq!(fetch.command.get(field), command.get(field), "{field}");
        }
        session.commit_transaction().await.expect("it is committed");
        session.end().await.expect("ended");
        let stored = collection(&watched).count_documents(doc! {}).await;
        assert_eq!(stored, Ok(2));
        watched.end().await;
    });
}

/// CRUD prose 9: the error of a `getMore` ends the bulk write. The error of the bulk write has the
/// results so far, and the cursor is closed.
#[test]
fn the_error_of_a_get_more_ends_the_bulk_write() {
    let [standalone, set, sharded] = release_8();
    let deployments = [standalone, set, sharded, balanced()];
    play_with_one_seed(deployments, |scene| async move {
        let watched = scene.client("");
        let data = doc! { "failCommands": ["getMore"], "errorCode": 8 };
        scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
        collection(&watched).drop().await.expect("a reply");
        let models = large_upserts(&watched).await;
        let error = watched.client.bulk_write(models).verbose_results().await;
        let error = error.expect_err("the getMore fails");
        let cause = error
            .source()
            .and_then(|cause| cause.downcast_ref::<Error>());
        assert_eq!(cause.expect("a cause").code(), Some(8), "{error:?}");
        let Some(PartialBulkWriteResult::Verbose(result)) = &failure(&error).partial_result else {
            panic!("{error:?} has no result");
        };
        assert_eq!(result.summary.upserted_count, 2);
        assert_eq!(result.update_results.len(), 1);
        assert_eq!(sent(&watched, "getMore").len(), 1);
        let opened = watched
            .events
            .notes(|event| super::reply(event, "bulkWrite"));
        let opened = opened[0].get_document("cursor").expect("a cursor");
        let id = opened.get_i64("id").expect("an id");
        let kills = sent(&watched, "killCursors");
        let [kill] = &kills[..] else {
            panic!("{} were sent", kills.len());
        };
        let killed = kill.command.get_array("cursors").expect("an array");
        assert_eq!(killed[..], [Bson::Int64(id)]);
        watched.end().await;
    });
}
