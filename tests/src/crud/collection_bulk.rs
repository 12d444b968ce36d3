//! Tests of the bulk write of a collection.

use super::{Bench, DATABASE, in_turn, report, within};
use bson::{Bson, Document, doc};
use onionskin::{
    Error, Namespace, Runtime,
    error::{BulkWriteError, ErrorKind},
    options::{
        DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateManyModel,
        UpdateOneModel, WriteConcern, WriteModel,
    },
    results::BulkWriteResult,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Runs all tests of the bulk write of a collection that need a simulated deployment, whose
/// `maxWriteBatchSize` is [`MAX_WRITE_BATCH`](super::bulk::MAX_WRITE_BATCH). Prints their number.
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
                operations_of_one_kind_share_a_command,
                unordered_operations_are_grouped_by_kind,
                a_failure_ends_an_ordered_bulk_write,
                each_command_is_retryable_by_its_own_statements,
                mistakes_are_found_before_anything_is_sent,
                an_unacknowledged_bulk_write_has_no_counts,
                a_write_concern_error_ends_nothing_and_keeps_the_results,
                a_write_concern_error_is_retried,
                an_error_that_ends_the_bulk_write_keeps_the_results,
                options_go_to_the_commands_that_take_them,
                models_are_made_of_documents_of_any_type,
            ]
        )
    })
    .await;
    report("bulk writes of a collection", name, passed);
    within::<R, _>(bench.client.shutdown()).await;
}

fn insert(id: i32) -> WriteModel {
    let document = doc! { "_id": id };
    InsertOneModel::builder().document(document).build().into()
}

fn increment_one(id: i32) -> WriteModel {
    let model = UpdateOneModel::builder().filter(doc! { "_id": id });
    model.update(doc! { "$inc": { "n": 1 } }).build().into()
}

fn increment_all() -> WriteModel {
    let model = UpdateManyModel::builder().filter(doc! {});
    model.update(doc! { "$inc": { "n": 1 } }).build().into()
}

fn delete_one(id: i32) -> WriteModel {
    let model = DeleteOneModel::builder().filter(doc! { "_id": id });
    model.build().into()
}

fn upsert(id: i32) -> WriteModel {
    let model = ReplaceOneModel::builder().filter(doc! { "_id": id });
    let model = model.replacement(doc! { "new": true }).upsert(true);
    model.build().into()
}

fn failure(error: &Error) -> (&BulkWriteError, &BulkWriteResult) {
    let ErrorKind::BulkWrite(failure) = error.kind() else {
        panic!("{error:?} is of no bulk write");
    };
    let Some(result) = &failure.collection_result else {
        panic!("{failure:?} has no results");
    };
    (failure, result)
}

/// Sets a fail point for the next commands with this name.
async fn fail<R: Runtime + Default>(b: &Bench<R>, times: i32, command: &str, how: Document) {
    let mut data = doc! { "failCommands": [command] };
    data.extend(how);
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": times }, "data": data,
    };
    let admin = b.client.database("admin");
    admin.run_command(point).await.expect("a fail point");
    b.watch().await.clear();
}

/// Returns the names of the write commands that were sent, and the number of their statements.
async fn sent<R: Runtime + Default>(b: &Bench<R>) -> Vec<(String, usize)> {
    let lists = [
        ("insert", "documents"),
        ("update", "updates"),
        ("delete", "deletes"),
    ];
    let all = b.watch().await.all().into_iter().filter_map(|sent| {
        let (_, list) = lists.iter().find(|(name, _)| *name == sent.name)?;
        Some((sent.name.clone(), sent.command.get_array(list).ok()?.len()))
    });
    all.collect()
}

fn named(commands: &[(&str, usize)]) -> Vec<(String, usize)> {
    let named = commands
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count));
    named.collect()
}

pub(super) async fn operations_of_one_kind_share_a_command<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk").await;
    b.watch().await.clear();
    let all = [
        insert(1),
        insert(2),
        // FerretDB counts only upserts in the indexes of its reply, so the upsert is the first.
        upsert(7),
        increment_all(),
        increment_one(2),
        delete_one(1),
        DeleteManyModel::builder()
            .filter(doc! { "n": 9 })
            .build()
            .into(),
        insert(1),
    ];
    let result = items.bulk_write(all).await.expect("all are valid");
    assert_eq!(result.inserted_count, 3);
    let ids = [(0, 1), (1, 2), (7, 1)].map(|(at, id)| (at, Bson::from(id)));
    assert_eq!(result.inserted_ids, BTreeMap::from(ids));
    assert_eq!((result.matched_count, result.modified_count), (4, 4));
    assert_eq!(result.upserted_count, 1);
    assert_eq!(result.upserted_ids, BTreeMap::from([(2, Bson::from(7))]));
    assert_eq!(result.deleted_count, 1);
    let commands = [("insert", 2), ("update", 3), ("delete", 2), ("insert", 1)];
    assert_eq!(sent(b).await, named(&commands));
    let found = items.find_one(doc! { "_id": 2 }).await.expect("a reply");
    assert_eq!(found, Some(doc! { "_id": 2, "n": 2 }));
    assert_eq!(items.count_documents(doc! {}).await, Ok(3));
}

pub(super) async fn unordered_operations_are_grouped_by_kind<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_unordered").await;
    items.insert_one(doc! { "_id": 1 }).await.expect("new");
    b.watch().await.clear();
    // The operations 1 and 4 fail.
    let all = [
        delete_one(2),
        insert(1),
        upsert(5),
        insert(2),
        insert(1),
        increment_one(1),
    ];
    let error = items.bulk_write(all).ordered(false).await;
    let error = error.expect_err("two have a duplicate key");
    let (fault, result) = failure(&error);
    assert!(fault.write_errors.keys().eq(&[1, 4]), "{fault:?}");
    let mut errors = fault.write_errors.values();
    assert!(errors.all(|error| error.code == 11_000), "{fault:?}");
    assert!(fault.write_concern_errors.is_empty());
    assert_eq!(result.inserted_count, 1);
    assert_eq!(result.inserted_ids, BTreeMap::from([(3, Bson::from(2))]));
    assert_eq!((result.matched_count, result.upserted_count), (1, 1));
    assert_eq!(result.upserted_ids, BTreeMap::from([(2, Bson::from(5))]));
    assert_eq!(result.deleted_count, 1);
    let commands = [("insert", 3), ("update", 2), ("delete", 1)];
    assert_eq!(sent(b).await, named(&commands));
}

pub(super) async fn a_failure_ends_an_ordered_bulk_write<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_ordered").await;
    b.watch().await.clear();
    let all = [
        insert(1),
        delete_one(9),
        insert(2),
        insert(1),
        insert(3),
        delete_one(1),
    ];
    let error = items.bulk_write(all).await.expect_err("a duplicate key");
    let (fault, result) = failure(&error);
    assert!(fault.write_errors.keys().eq(&[3]), "{fault:?}");
    let ids = [(0, 1), (2, 2)].map(|(at, id)| (at, Bson::from(id)));
    assert_eq!(result.inserted_ids, BTreeMap::from(ids));
    assert_eq!((result.inserted_count, result.deleted_count), (2, 0));
    let commands = [("insert", 1), ("delete", 1), ("insert", 3)];
    assert_eq!(sent(b).await, named(&commands));
    assert_eq!(items.count_documents(doc! {}).await, Ok(2));
    let error = items.bulk_write([insert(1), insert(8)]).await;
    let error = error.expect_err("a duplicate key");
    let ErrorKind::BulkWrite(fault) = error.kind() else {
        panic!("{error:?}");
    };
    assert_eq!(fault.collection_result, None, "nothing has succeeded");
}

async fn each_command_is_retryable_by_its_own_statements<R: Runtime + Default>(b: &Bench<R>) {
    // RW-8: the statements of one command decide, after the operations were split.
    let items = b.empty::<Document>("bulk_split").await;
    let limit = i32::try_from(super::bulk::MAX_WRITE_BATCH).expect("small");
    b.watch().await.clear();
    let updates = (0..2 * limit + 5).map(increment_one);
    let deletes = (0..limit).map(delete_one);
    let all = updates.chain([increment_all()]).chain(deletes);
    let result = items.bulk_write(all).await.expect("all are valid");
    assert_eq!(result, BulkWriteResult::default(), "nothing matches");
    let max = super::bulk::MAX_WRITE_BATCH;
    let commands = [
        ("update", max),
        ("update", max),
        ("update", 6),
        ("delete", max),
    ];
    assert_eq!(sent(b).await, named(&commands));
    let numbers = b.watch().await.all().into_iter().map(|sent| {
        let number = sent.command.get_i64("txnNumber");
        (sent.operation, number.ok())
    });
    let numbers: Vec<_> = numbers.collect();
    assert!(
        numbers
            .iter()
            .all(|(operation, _)| *operation == numbers[0].0)
    );
    let given: Vec<_> = numbers.iter().map(|(_, number)| number.is_some()).collect();
    assert_eq!(given, [true, true, false, true]);
    let given: Vec<_> = numbers.iter().filter_map(|(_, number)| *number).collect();
    assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");

    // A command with a statement that can affect several documents is not retried.
    fail(b, 1, "update", doc! { "closeConnection": true }).await;
    let lost = items.bulk_write([increment_one(1), increment_all()]).await;
    assert!(lost.expect_err("the connection is lost").is_network());
    assert_eq!(b.watch().await.of("update").len(), 1);
    fail(b, 1, "update", doc! { "closeConnection": true }).await;
    let kept = items.bulk_write([increment_one(1), increment_one(2)]).await;
    kept.expect("it is retried");
    assert_eq!(b.watch().await.of("update").len(), 2);
}

async fn mistakes_are_found_before_anything_is_sent<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_mistakes").await;
    b.watch().await.clear();
    let other = Namespace::new(DATABASE, "elsewhere");
    let elsewhere = InsertOneModel::builder().namespace(other).build();
    let no_operators = UpdateOneModel::builder().update(doc! { "a": 1 }).build();
    let operators = ReplaceOneModel::builder()
        .replacement(doc! { "$set": {} })
        .build();
    let mistakes: [Vec<WriteModel>; 4] = [
        vec![],
        vec![insert(1), elsewhere.into()],
        vec![insert(1), no_operators.into()],
        vec![insert(1), operators.into()],
    ];
    for models in mistakes {
        let error = items.bulk_write(models).await.expect_err("a mistake");
        assert!(
            matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
            "{error:?}"
        );
    }
    let mut session = b.client.start_session().await.expect("a session");
    let unacknowledged = items.bulk_write([insert(1)]).session(&mut session);
    let unacknowledged = unacknowledged.write_concern(WriteConcern::nodes(0));
    unacknowledged.await.expect_err("its session would be lost");
    assert!(b.watch().await.all().is_empty());
    let own = InsertOneModel::builder()
        .namespace(items.namespace())
        .build();
    items
        .bulk_write([own])
        .session(&mut session)
        .await
        .expect("its own collection");
    let sent = b.watch().await.of("insert");
    assert_eq!(
        sent[0].command.get("lsid"),
        Some(&session.id().clone().into())
    );
}

async fn an_unacknowledged_bulk_write_has_no_counts<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_unacknowledged").await;
    b.watch().await.clear();
    let write = items.bulk_write([insert(1), increment_one(1), insert(2)]);
    let result = write.write_concern(WriteConcern::nodes(0)).await;
    let result = result.expect("no reply");
    assert_eq!((result.inserted_count, result.matched_count), (0, 0));
    assert!(!result.is_acknowledged());
    assert!(result.inserted_ids.keys().eq(&[0, 2]));
    let all = b.watch().await.all();
    assert!(
        all.iter()
            .all(|sent| !sent.command.contains_key("txnNumber"))
    );
    while items.count_documents(doc! {}).await != Ok(2) {}
}

async fn a_write_concern_error_ends_nothing_and_keeps_the_results<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = b.empty::<Document>("bulk_concern").await;
    let concern = doc! { "writeConcernError": { "code": 64, "errmsg": "waiting took too long" } };
    fail(b, 1, "update", concern).await;
    let all = [insert(1), increment_one(1), upsert(5), delete_one(1)];
    let error = items
        .bulk_write(all)
        .await
        .expect_err("a write concern error");
    let (fault, result) = failure(&error);
    assert_eq!(fault.write_concern_errors.len(), 1);
    assert_eq!(fault.write_concern_errors[0].code, 64);
    assert!(fault.write_errors.is_empty());
    assert_eq!((result.inserted_count, result.deleted_count), (1, 1));
    assert_eq!((result.matched_count, result.upserted_count), (1, 1));
    assert_eq!(result.upserted_ids, BTreeMap::from([(2, Bson::from(5))]));
}

async fn a_write_concern_error_is_retried<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_retried").await;
    let retryable = doc! {
        "errorLabels": ["RetryableWriteError"],
        "writeConcernError": { "code": 91, "errmsg": "the server shuts down" },
    };
    fail(b, 1, "insert", retryable.clone()).await;
    let result = items.bulk_write([insert(1), insert(2)]).await;
    let result = result.expect("the retry succeeds");
    assert_eq!((result.inserted_count, result.inserted_ids.len()), (2, 2));
    assert_eq!(b.watch().await.of("insert").len(), 2);
    // A failed retry ends the bulk write, also an unordered one (RW-29).
    fail(b, 2, "insert", retryable).await;
    let error = items.bulk_write([insert(3), delete_one(1)]).ordered(false);
    let error = error.await.expect_err("both attempts fail");
    let (fault, result) = failure(&error);
    assert_eq!(fault.write_concern_errors.len(), 1);
    assert_eq!((result.inserted_count, result.deleted_count), (1, 0));
    assert_eq!(b.watch().await.of("delete").len(), 0);
}

async fn an_error_that_ends_the_bulk_write_keeps_the_results<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = b.empty::<Document>("bulk_lost").await;
    fail(b, 2, "update", doc! { "closeConnection": true }).await;
    let all = [insert(1), increment_one(1), delete_one(1)];
    let error = items.bulk_write(all).ordered(false).await;
    let error = error.expect_err("both attempts lose their connections");
    let (fault, result) = failure(&error);
    assert!(fault.write_errors.is_empty() && fault.write_concern_errors.is_empty());
    assert_eq!(result.inserted_ids, BTreeMap::from([(0, Bson::from(1))]));
    let cause = std::error::Error::source(&error).expect("a cause");
    let cause = cause
        .downcast_ref::<Error>()
        .expect("an error of the driver");
    assert!(cause.is_network(), "{cause:?}");
    assert_eq!(b.watch().await.of("update").len(), 2);
    assert_eq!(b.watch().await.of("delete").len(), 0);
}

async fn options_go_to_the_commands_that_take_them<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("bulk_options").await;
    b.watch().await.clear();
    let write = items.bulk_write([insert(1), increment_one(1), delete_one(1)]);
    let write = write.comment("why").let_vars(doc! { "a": 1 });
    let write = write.bypass_document_validation(true);
    write.await.expect("all are valid");
    let all = b.watch().await.all();
    let fields = ["comment", "let", "bypassDocumentValidation"];
    let has = all
        .iter()
        .map(|sent| fields.map(|field| sent.command.contains_key(field)));
    let expected = [[true, false, true], [true, true, true], [true, true, false]];
    assert_eq!(has.collect::<Vec<_>>(), expected);
}

async fn models_are_made_of_documents_of_any_type<R: Runtime + Default>(b: &Bench<R>) {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Item {
        #[serde(rename = "_id")]
        id: i32,
        name: String,
    }
    let item = |name: &str| Item {
        id: 1,
        name: name.to_owned(),
    };
    let items = b.empty::<Item>("bulk_typed").await;
    let insert = items.insert_one_model(item("a")).expect("BSON");
    let replace = items.replace_one_model(doc! { "_id": 1 }, item("b"));
    let all: [WriteModel; 2] = [insert.into(), replace.expect("BSON").into()];
    let result = items.bulk_write(all).await.expect("all are valid");
    assert_eq!((result.inserted_count, result.modified_count), (1, 1));
    assert_eq!(items.find_one(doc! {}).await, Ok(Some(item("b"))));
    let operators = b
        .client
        .database(DATABASE)
        .collection::<Document>("bulk_typed");
    let refused = operators.replace_one_model(doc! {}, doc! { "$set": {} });
    refused.expect_err("operators are no replacement");
}
