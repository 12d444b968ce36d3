//! Tests of the bulk write of a client. They need a server that claims release 8.0.

use super::{Bench, DATABASE, in_turn, report, within};
use bson::{Bson, Document, doc};
use onionskin::{
    Error, Namespace, Runtime,
    error::{BulkWriteError, ErrorKind, PartialBulkWriteResult},
    options::{
        DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateManyModel,
        UpdateOneModel, WriteConcern, WriteModel,
    },
};

/// The `maxWriteBatchSize` of the deployment, which is lower than that of a real one, so that the
/// tests are fast.
pub const MAX_WRITE_BATCH: usize = 1_000;

/// Runs all tests of bulk writes, and prints their number.
///
/// # Panics
///
/// If a test fails, or if all together take too long.
pub async fn run<R: Runtime + Default>(name: &str, uri: &str) {
    let bench = Bench::<R>::new(uri);
    let passed = within::<R, _>(async {
        in_turn!(
            &bench,
            [
                operations_of_several_collections_are_counted,
                results_of_each_operation_are_returned,
                an_ordered_bulk_write_ends_at_the_first_failure,
                an_unordered_bulk_write_continues,
                many_operations_are_split_and_read_in_batches,
                each_command_has_only_the_namespaces_it_uses,
                each_command_is_retryable_by_its_own_operations,
                mistakes_are_found_before_anything_is_sent,
                an_unacknowledged_bulk_write_returns_no_results,
                a_write_concern_error_keeps_the_results,
                a_write_concern_error_is_retried,
            ]
        )
    })
    .await;
    report("bulk writes", name, passed);
    within::<R, _>(bench.client.shutdown()).await;
}

fn namespace(collection: &str) -> Namespace {
    Namespace::new(DATABASE, collection)
}

fn insert(collection: &str, id: i32) -> WriteModel {
    let model = InsertOneModel::builder().namespace(namespace(collection));
    model.document(doc! { "_id": id }).build().into()
}

fn update(collection: &str, filter: Document) -> WriteModel {
    let model = UpdateManyModel::builder().namespace(namespace(collection));
    let model = model.filter(filter).update(doc! { "$inc": { "n": 1 } });
    model.build().into()
}

fn failure(error: &Error) -> &BulkWriteError {
    let ErrorKind::BulkWrite(failure) = error.kind() else {
        panic!("{error:?} is of no bulk write");
    };
    failure
}

async fn operations_of_several_collections_are_counted<R: Runtime + Default>(b: &Bench<R>) {
    let (first, second) = ("bulk_a", "bulk_b");
    for name in [first, second] {
        b.empty::<Document>(name).await;
    }
    let replace = ReplaceOneModel::builder()
        .namespace(namespace(second))
        .filter(doc! { "_id": 7 })
        .replacement(doc! { "x": 1 })
        .upsert(true);
    let delete = DeleteOneModel::builder()
        .namespace(namespace(first))
        .filter(doc! { "_id": 2 });
    let all: Vec<WriteModel> = vec![
        insert(first, 1),
        insert(second, 1),
        insert(first, 2),
        update(first, doc! {}),
        replace.build().into(),
        delete.build().into(),
    ];
    let result = b.client.bulk_write(all).await.expect("a reply");
    assert_eq!(result.inserted_count, 3);
    assert_eq!((result.matched_count, result.modified_count), (2, 2));
    assert_eq!((result.upserted_count, result.deleted_count), (1, 1));
    let left = b.client.database(DATABASE).collection::<Document>(second);
    assert_eq!(left.count_documents(doc! {}).await, Ok(2));
    let sent = b.watch().await.of("bulkWrite");
    let sent = &sent.last().expect("it was sent").command;
    assert_eq!(sent.get_array("nsInfo").expect("an array").len(), 2);
    assert_eq!(sent.get_bool("errorsOnly").ok(), Some(true));
}

async fn results_of_each_operation_are_returned<R: Runtime + Default>(b: &Bench<R>) {
    b.empty::<Document>("bulk_verbose").await;
    let without_id = InsertOneModel::builder().namespace(namespace("bulk_verbose"));
    let upsert = UpdateOneModel::builder()
        .namespace(namespace("bulk_verbose"))
        .filter(doc! { "_id": 9 })
        .update(vec![doc! { "$set": { "y": 1 } }])
        .upsert(true);
    let delete = DeleteManyModel::builder().namespace(namespace("bulk_verbose"));
    let all: Vec<WriteModel> = vec![
        without_id.document(doc! { "x": 1 }).build().into(),
        upsert.build().into(),
        update("bulk_verbose", doc! { "x": 1 }),
        delete.build().into(),
    ];
    let result = b
        .client
        .bulk_write(all)
        .verbose_results()
        .await
        .expect("a reply");
    let id = &result.insert_results[&0].inserted_id;
    assert!(id.as_object_id().is_some(), "{id}");
    assert_eq!(result.update_results[&1].upserted_id, Some(Bson::from(9)));
    // The server counts the upserted document.
    assert_eq!(result.update_results[&1].matched_count, 1);
    assert_eq!(result.update_results[&2].modified_count, 1);
    assert_eq!(result.delete_results[&3].deleted_count, 2);
    assert_eq!(result.summary.inserted_count, 1);
}

async fn an_ordered_bulk_write_ends_at_the_first_failure<R: Runtime + Default>(b: &Bench<R>) {
    b.empty::<Document>("bulk_ordered").await;
    let all = [1, 2, 1, 3].map(|id| insert("bulk_ordered", id));
    let error = b.client.bulk_write(all).await.expect_err("a duplicate");
    assert!(error.is_duplicate_key(), "{error:?}");
    let fault = failure(&error);
    assert_eq!(fault.write_errors.keys().collect::<Vec<_>>(), [&2]);
    assert_eq!(fault.write_errors[&2].code, 11000);
    let Some(PartialBulkWriteResult::Summary(partial)) = &fault.partial_result else {
        panic!("{fault:?} has no sums");
    };
    assert_eq!(partial.inserted_count, 2);
    // The first operation fails, so nothing has succeeded.
    let error = b.client.bulk_write([insert("bulk_ordered", 1)]).await;
    let error = error.expect_err("a duplicate");
    assert_eq!(failure(&error).partial_result, None);
}

async fn an_unordered_bulk_write_continues<R: Runtime + Default>(b: &Bench<R>) {
    b.empty::<Document>("bulk_unordered").await;
    let all = [1, 1, 2, 1, 3].map(|id| insert("bulk_unordered", id));
    let write = b.client.bulk_write(all).ordered(false).verbose_results();
    let error = write.await.expect_err("duplicates");
    let fault = failure(&error);
    assert_eq!(fault.write_errors.keys().collect::<Vec<_>>(), [&1, &3]);
    let Some(PartialBulkWriteResult::Verbose(partial)) = &fault.partial_result else {
        panic!("{fault:?} has no results");
    };
    let inserted: Vec<_> = partial.insert_results.keys().copied().collect();
    assert_eq!(inserted, [0, 2, 4]);
}

async fn many_operations_are_split_and_read_in_batches<R: Runtime + Default>(b: &Bench<R>) {
    // The cursor of each command gives 101 results at first.
    let items = b.empty::<Document>("bulk_many").await;
    let all = (0..1_050).map(|id| insert("bulk_many", id));
    let result = b
        .client
        .bulk_write(all)
        .verbose_results()
        .await
        .expect("a reply");
    assert_eq!(result.summary.inserted_count, 1_050);
    assert_eq!(result.insert_results.len(), 1_050);
    assert_eq!(result.insert_results[&1_049].inserted_id, Bson::from(1_049));
    let watch = b.watch().await;
    let sent = watch.of("bulkWrite");
    let counts = sent
        .iter()
        .rev()
        .take(2)
        .map(|sent| sent.command.get_array("ops"));
    let counts: Vec<_> = counts.map(|ops| ops.expect("an array").len()).collect();
    assert_eq!(counts, [50, MAX_WRITE_BATCH]);
    assert!(!watch.of("getMore").is_empty());
    items.drop().await.expect("a reply");
}

async fn each_command_has_only_the_namespaces_it_uses<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_early").await;
    b.empty::<Document>("bulk_late").await;
    // The second command uses the second and third collection, whose places in it are 0 and 1.
    let early = (0..1_000).map(|id| insert("bulk_early", id));
    let late = [insert("bulk_late", 1), insert("bulk_early", 1_000)];
    let all: Vec<_> = early.chain(late).collect();
    let result = b.client.bulk_write(all).await.expect("a reply");
    assert_eq!(result.inserted_count, 1_002);
    let sent = b.watch().await.of("bulkWrite");
    let last = &sent.last().expect("it was sent").command;
    let names = last.get_array("nsInfo").expect("an array").iter();
    let names: Vec<_> = names
        .map(|info| info.as_document().expect("one").clone())
        .collect();
    let ns = |name: &str| doc! { "ns": format!("{DATABASE}.{name}") };
    assert_eq!(names, [ns("bulk_late"), ns("bulk_early")]);
    assert_eq!(items.estimated_document_count().await, Ok(1_001));
    items.drop().await.expect("a reply");
}

async fn each_command_is_retryable_by_its_own_operations<R: Runtime + Default>(b: &Bench<R>) {
    // RW-8: the operations of one command decide, after the bulk write was split.
    let items = b.empty::<Document>("bulk_retryable").await;
    let inserts = (0..1_000).map(|id| insert("bulk_retryable", id));
    let all: Vec<_> = inserts.chain([update("bulk_retryable", doc! {})]).collect();
    b.watch().await.clear();
    let result = b.client.bulk_write(all).await.expect("a reply");
    assert_eq!(result.modified_count, 1_000);
    let sent = b.watch().await.of("bulkWrite");
    let numbered = sent
        .iter()
        .map(|sent| sent.command.contains_key("txnNumber"));
    assert_eq!(numbered.collect::<Vec<_>>(), [true, false]);
    items.drop().await.expect("a reply");
}

async fn mistakes_are_found_before_anything_is_sent<R: Runtime + Default>(b: &Bench<R>) {
    b.client.flush_events().await;
    b.watch.clear();
    let client = &b.client;
    client
        .bulk_write(Vec::<WriteModel>::new())
        .await
        .expect_err("nothing to do");
    let unnamed = InsertOneModel::builder().document(doc! {}).build();
    client
        .bulk_write([unnamed])
        .await
        .expect_err("no collection");
    let of = || namespace("bulk_mistakes");
    let update = UpdateOneModel::builder()
        .namespace(of())
        .update(doc! { "a": 1 });
    client
        .bulk_write([update.build()])
        .await
        .expect_err("no operators");
    let empty = UpdateManyModel::builder().namespace(of()).update(doc! {});
    client
        .bulk_write([empty.build()])
        .await
        .expect_err("no operators");
    let replacement = doc! { "$set": { "a": 1 } };
    let replace = ReplaceOneModel::builder()
        .namespace(of())
        .replacement(replacement);
    client
        .bulk_write([replace.build()])
        .await
        .expect_err("operators");
    let late = [insert("bulk_mistakes", 1), update_with_nul()];
    client
        .bulk_write(late)
        .await
        .expect_err("a key with a NUL byte");
    assert!(b.watch().await.all().is_empty());
}

fn update_with_nul() -> WriteModel {
    update("bulk_mistakes", doc! { "a\0": 1 })
}

async fn an_unacknowledged_bulk_write_returns_no_results<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_unacknowledged").await;
    let write = || b.client.bulk_write([insert("bulk_unacknowledged", 1)]);
    let nobody = || WriteConcern::nodes(0);
    let ordered = write().write_concern(nobody()).await;
    ordered.expect_err("it is ordered");
    let verbose = write()
        .ordered(false)
        .write_concern(nobody())
        .verbose_results();
    verbose.await.expect_err("there are no results");
    let result = write().ordered(false).write_concern(nobody()).await;
    let result = result.expect("no reply");
    assert_eq!(
        (result.inserted_count, result.is_acknowledged()),
        (0, false)
    );
    while items.find_one(doc! {}).await.expect("a reply").is_none() {}
}

async fn a_write_concern_error_keeps_the_results<R: Runtime + Default>(b: &Bench<R>) {
    b.empty::<Document>("bulk_concern").await;
    let admin = b.client.database("admin");
    let fail = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 },
        "data": {
            "failCommands": ["bulkWrite"],
            "writeConcernError": { "code": 64, "errmsg": "waiting took too long" },
        },
    };
    admin.run_command(fail).await.expect("a fail point");
    let all = [1, 2].map(|id| insert("bulk_concern", id));
    let error = b.client.bulk_write(all).verbose_results().await;
    let error = error.expect_err("a write concern error");
    let fault = failure(&error);
    assert_eq!(fault.write_concern_errors[0].code, 64);
    assert!(fault.write_errors.is_empty());
    let Some(PartialBulkWriteResult::Verbose(partial)) = &fault.partial_result else {
        panic!("{fault:?} has no results");
    };
    assert_eq!(partial.insert_results.len(), 2);
}

async fn a_write_concern_error_is_retried<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_retried").await;
    let admin = b.client.database("admin");
    let fail = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 },
        "data": {
            "failCommands": ["bulkWrite"], "errorLabels": ["RetryableWriteError"],
            "writeConcernError": { "code": 91, "errmsg": "the server shuts down" },
        },
    };
    admin.run_command(fail).await.expect("a fail point");
    b.client.flush_events().await;
    b.watch.clear();
    let all = [1, 2].map(|id| insert("bulk_retried", id));
    let result = b.client.bulk_write(all).verbose_results().await;
    let result = result.expect("the retry succeeds");
    assert_eq!(result.summary.inserted_count, 2);
    assert_eq!(result.insert_results.len(), 2);
    assert_eq!(b.watch().await.of("bulkWrite").len(), 2);
    assert_eq!(items.count_documents(doc! {}).await, Ok(2));
}
