//! The split of a bulk write by `maxWriteBatchSize`, and the errors of several commands.

use super::{collection, failure, insert, limits, sent, sizes, small};
use crate::{
    bulk_writes::{COLLECTION, insert_text},
    scene::play,
};
use bson::doc;
use onionskin::{
    error::PartialBulkWriteResult,
    options::{WriteConcern, WriteModel},
};

/// CRUD prose 3: one operation more than `maxWriteBatchSize` needs a second command.
#[test]
fn operations_above_max_write_batch_size_are_sent_in_a_second_command() {
    play(small(), |scene| async move {
        let watched = scene.client("");
        let batch = limits(&watched).await.batch;
        let all = vec![insert(COLLECTION, doc! { "a": "b" }); batch + 1];
        let result = watched.client.bulk_write(all).await.expect("a reply");
        assert_eq!(result.inserted_count, batch as i64 + 1);
        assert_eq!(sizes(&watched), [batch, 1]);
        watched.end().await;
    });
}

/// CRUD prose 5: the error has the write concern errors of all commands.
#[test]
fn write_concern_errors_of_all_commands_are_collected() {
    play(small(), |scene| async move {
        let watched = scene.client("retryWrites=false");
        let batch = limits(&watched).await.batch;
        let data = doc! {
            "failCommands": ["bulkWrite"],
            "writeConcernError": { "code": 91, "errmsg": "Replication is being shut down" },
        };
        scene.fail(scene.primary(), doc! { "times": 2 }, data).await;
        let all = vec![insert(COLLECTION, doc! { "a": "b" }); batch + 1];
        let error = watched.client.bulk_write(all).await;
        let error = error.expect_err("it is not confirmed");
        let failure = failure(&error);
        let codes = failure.write_concern_errors.iter().map(|error| error.code);
        assert_eq!(codes.collect::<Vec<_>>(), [91, 91]);
        let Some(PartialBulkWriteResult::Summary(result)) = &failure.partial_result else {
            panic!("{failure:?} has no result");
        };
        assert_eq!(result.inserted_count, batch as i64 + 1);
        assert_eq!(sizes(&watched), [batch, 1]);
        watched.end().await;
    });
}

/// CRUD prose 6: an unordered bulk write collects the write errors of all commands, and an ordered
/// one ends with the first write error.
#[test]
fn write_errors_of_all_commands_are_collected_unless_the_bulk_write_is_ordered() {
    play(small(), |scene| async move {
        for (is_ordered, errors, commands) in [(false, 41, 2), (true, 1, 1)] {
            let watched = scene.client("");
            let batch = limits(&watched).await.batch;
            let things = collection(&watched);
            things.drop().await.expect("a reply");
            let insert_first = things.insert_one(doc! { "_id": 1 });
            insert_first.await.expect("it is new");
            let all = vec![insert(COLLECTION, doc! { "_id": 1 }); batch + 1];
            assert_eq!(all.len(), 41);
            let write = watched.client.bulk_write(all).ordered(is_ordered);
            let error = write.await.expect_err("it is a duplicate");
            assert_eq!(failure(&error).write_errors.len(), errors);
            assert_eq!(sent(&watched, "bulkWrite").len(), commands);
            watched.end().await;
        }
    });
}

/// CRUD prose 15: each command of an unacknowledged bulk write has the write concern `w: 0`.
#[test]
fn all_commands_of_an_unacknowledged_bulk_write_have_its_write_concern() {
    play(small(), |scene| async move {
        let watched = scene.client("");
        let limits = limits(&watched).await;
        let things = collection(&watched);
        things.drop().await.expect("a reply");
        let database = watched.client.database("db");
        database.create_collection("coll").await.expect("it is new");
        let count = limits.message_bytes / limits.document_bytes;
        let model = insert_text(COLLECTION, limits.document_bytes - 500);
        let all: Vec<WriteModel> = vec![model; count + 1];
        let write = watched.client.bulk_write(all).ordered(false);
        let result = write.write_concern(WriteConcern::nodes(0)).await;
        // The result of an unacknowledged bulk write has zero in all counts.
        assert_eq!(result.expect("it is sent").inserted_count, 0);
        assert_eq!(sizes(&watched), [count, 1]);
        for command in sent(&watched, "bulkWrite") {
            let concern = command.command.get_document("writeConcern");
            assert_eq!(concern.ok(), Some(&doc! { "w": 0 }));
        }
        let stored = things.count_documents(doc! {}).await;
        assert_eq!(stored, Ok(count as u64 + 1));
        watched.end().await;
    });
}
