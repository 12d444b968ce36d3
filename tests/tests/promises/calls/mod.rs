//! The options of calls: each row of the tables of options can be set on its call, and is sent.

mod files;
mod schema;
mod sessions;
mod streams;

use super::wire::{Sent, on_tokio};
use bson::{Bson, Document, doc};
use onionskin_core::options::{Collation, ReadConcern, ReadMode, ReadPreference, WriteConcern};
use onionskin_deployment::deployment::ServerVersion;
use onionskin_simulations::serve::{Embedded, ServeOptions};
use onionskin_tokio::{
    Collection,
    options::{CursorType, DeleteOneModel, Hint, InsertOneModel, ReturnDocument},
};
use std::{collections::BTreeSet, time::Duration};

/// Adds the rows of a table of options to a set, as `Call::option`.
macro_rules! listed {
    ($rows:ident $call:ident $options:ident {
        $([$($doc:literal)*] $field:ident: $type:ty $(, $form:ident)?;)*
    }) => {
        $($rows.insert(concat!(stringify!($call), "::", stringify!($field)).to_owned());)*
    };
}

/// Makes a call once with each option, and compares a field of the command that was sent. The
/// server may refuse the command. `..` in place of a value means any value.
macro_rules! sends {
    ($sent:ident, $seen:ident, $command:literal, $call:ident: $build:expr, {
        $($option:ident($value:expr) => $path:literal = $expected:expr;)*
    }) => {$(
        $seen.insert(concat!(stringify!($call), "::", stringify!($option)).to_owned());
        drop($build.$option($value).await);
        let found = $sent.path($command, $path);
        let expected: Option<::bson::Bson> = $expected;
        match expected {
            Some(expected) => assert_eq!(found, Some(expected), stringify!($call::$option)),
            None => assert!(found.is_some(), stringify!($call::$option)),
        }
    )*};
}

use sends;

/// Returns a value to compare with.
fn is(value: impl Into<Bson>) -> Option<Bson> {
    Some(value.into())
}

/// Means that any value is sent.
const ANY: Option<Bson> = None;

const MINUTE: Duration = Duration::from_secs(60);

fn secondary() -> ReadPreference {
    ReadPreference::new(ReadMode::Secondary)
}

fn collation() -> Collation {
    Collation::builder().locale("en").build()
}

/// The options that are not sent by the command of the call, with the test that shows their effect.
const ELSEWHERE: [&str; 12] = [
    // `a_tailable_cursor_waits_for_its_own_time`
    "Find::max_await_time",
    "Aggregate::max_await_time",
    // `options_of_a_cursor_command_are_sent_with_each_batch`
    "RunCursorCommand::batch_size",
    "RunCursorCommand::comment",
    "RunCursorCommand::max_time",
    // The official tests of time limits (`unified`).
    "Aggregate::timeout_mode",
    "Find::timeout_mode",
    "ListCollections::timeout_mode",
    "ListIndexes::timeout_mode",
    "RunCursorCommand::timeout_mode",
    // The official tests of change streams (`unified`).
    "Watch::max_await_time",
    // The command has to be that of such a cursor, so nothing follows from the type.
    "RunCursorCommand::cursor_type",
];

#[test]
fn options_of_a_cursor_command_are_sent_with_each_batch() {
    // The options of `run_cursor_command` are those of `getMore` (RUN-33). A comment of `find` is
    // repeated in each `getMore`.
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let sent = Sent::default();
        let client = sent.client(&deployment, "appName=calls");
        let database = client.database("promises");
        let numbers = database.collection::<Document>("numbers");
        let all = (0..5).map(|n| doc! { "_id": n });
        numbers.insert_many(all).await.expect("a reply");
        let command = || database.run_cursor_command(doc! { "find": "numbers", "batchSize": 2 });
        let cursor = command().batch_size(3).comment("why").await;
        let found = cursor.expect("a cursor").into_vec().await;
        assert_eq!(found.expect("documents").len(), 5);
        assert_eq!(sent.path("getMore", "batchSize"), is(3));
        assert_eq!(sent.path("getMore", "comment"), is("why"));
        let cursor = command().max_time(Duration::from_millis(9)).await;
        let found = cursor.expect("a cursor").into_vec().await;
        found.expect_err("the cursor does not wait");
        assert_eq!(sent.path("getMore", "maxTimeMS"), is(9));
        let find = numbers.find(doc! {}).batch_size(2).comment(5).await;
        find.expect("a cursor").into_vec().await.expect("documents");
        assert_eq!(sent.path("getMore", "comment"), is(5));
        let no_cursor = database.run_cursor_command(doc! { "ping": 1 }).await;
        no_cursor.expect_err("it has no cursor");
        client.shutdown().await;
    });
}

#[test]
fn a_tailable_cursor_waits_for_its_own_time() {
    // `maxAwaitTimeMS` is sent as the `maxTimeMS` of each `getMore`.
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let sent = Sent::default();
        let client = sent.client(&deployment, "appName=calls");
        let database = client.database("promises");
        let create = database.create_collection("log").capped(true).size(4096);
        create.await.expect("a reply");
        let log = database.collection::<Document>("log");
        log.insert_one(doc! { "a": 1 }).await.expect("a reply");
        let find = log.find(doc! {}).cursor_type(CursorType::TailableAwait);
        let wait = Duration::from_millis(7);
        let mut cursor = find.max_await_time(wait).await.expect("a cursor");
        let first = cursor.next().await.expect("a document");
        first.expect("a document");
        let next = tokio::time::timeout(Duration::from_secs(1), cursor.next());
        assert!(next.await.is_err(), "there is one document");
        assert_eq!(sent.path("getMore", "maxTimeMS"), is(7));
        drop(cursor);
        // The server accepts the time for change streams only.
        let aggregate = log.aggregate([]).batch_size(0);
        let aggregate = aggregate.max_await_time(Duration::from_millis(8));
        let mut cursor = aggregate.await.expect("a cursor");
        cursor
            .next()
            .await
            .expect("an error")
            .expect_err("it cannot wait");
        assert_eq!(sent.path("getMore", "maxTimeMS"), is(8));
        client.shutdown().await;
    });
}

#[test]
fn raw_data_is_not_sent_to_servers_before_8_2() {
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let sent = Sent::default();
        let client = sent.client(&deployment, "appName=calls");
        let things = client.database("promises").collection::<Document>("things");
        let found = things.find_one(doc! {}).raw_data(true).await;
        found.expect("an older server refuses the field");
        assert_eq!(sent.field("find", "rawData"), None);
        client.shutdown().await;
    });
}

#[test]
fn a_cursor_goes_on_after_a_batch_without_documents() {
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::standalone()).expect("a deployment");
        let sent = Sent::default();
        let client = sent.client(&deployment, "appName=calls");
        let database = client.database("promises");
        let create = database.create_collection("news").capped(true).size(4096);
        create.await.expect("a reply");
        let news = database.collection::<Document>("news");
        news.insert_one(doc! { "_id": 1 }).await.expect("a reply");
        let find = news.find(doc! {}).cursor_type(CursorType::Tailable);
        let mut cursor = find.await.expect("a cursor");
        let first = cursor.next_if_any().await.expect("a batch");
        assert_eq!(first, Some(doc! { "_id": 1 }));
        assert_eq!(cursor.next_if_any().await.expect("a batch"), None);
        let insert = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            news.insert_one(doc! { "_id": 2 }).await.expect("a reply");
        };
        let (advanced, ()) = tokio::join!(cursor.advance(), insert);
        assert!(advanced.expect("a batch"), "a tailable cursor has no end");
        client.shutdown().await;
    });
}

#[test]
fn every_option_of_every_call_is_sent() {
    on_tokio(async {
        let mut options = ServeOptions::sharded(1);
        // An option of the calls is sent to servers from 8.2 on only.
        options.version = ServerVersion::named("8.2").expect("a release");
        let deployment = Embedded::start(options).expect("a deployment");
        let sent = Sent::default();
        let client = sent.client(&deployment, "appName=calls");
        let database = client.database("promises");
        let things = database.collection::<Document>("things");
        let mut seen = BTreeSet::new();
        finds(&sent, &mut seen, &things).await;
        other_reads(&sent, &mut seen, &things).await;
        writes(&sent, &mut seen, &things).await;
        found_and_changed(&sent, &mut seen, &things).await;
        schema::indexes(&sent, &mut seen, &things).await;
        schema::search_indexes(&sent, &mut seen, &things).await;
        schema::handles(&sent, &mut seen, &database, &things).await;
        schema::lists(&sent, &mut seen, &client, &database).await;
        streams::watch(&sent, &mut seen, &things).await;
        files::calls(&sent, &mut seen, &database.gridfs_bucket(None)).await;
        seen.extend(ELSEWHERE.map(str::to_owned));
        assert_eq!(seen, rows());
        client.shutdown().await;
    });
}

/// Returns all rows of the tables.
fn rows() -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    onionskin_core::aggregate_options! { listed rows Aggregate }
    onionskin_core::bulk_write_options! { listed rows BulkWrite }
    onionskin_core::bulk_write_options! { listed rows CollectionBulkWrite }
    onionskin_core::change_stream_options! { listed rows Watch }
    onionskin_core::count_options! { listed rows CountDocuments }
    onionskin_core::create_collection_options! { listed rows CreateCollection }
    onionskin_core::create_index_options! { listed rows CreateIndex }
    onionskin_core::create_search_index_options! { listed rows CreateSearchIndex }
    onionskin_core::delete_options! { listed rows Delete }
    onionskin_core::distinct_options! { listed rows Distinct }
    onionskin_core::drop_collection_options! { listed rows DropCollection }
    onionskin_core::drop_database_options! { listed rows DropDatabase }
    onionskin_core::drop_index_options! { listed rows DropIndex }
    onionskin_core::drop_search_index_options! { listed rows DropSearchIndex }
    onionskin_core::estimated_document_count_options! { listed rows EstimatedDocumentCount }
    onionskin_core::find_one_and_delete_options! { listed rows FindOneAndDelete }
    onionskin_core::find_one_and_replace_options! { listed rows FindOneAndReplace }
    onionskin_core::find_one_and_update_options! { listed rows FindOneAndUpdate }
    onionskin_core::find_one_options! { listed rows FindOne }
    onionskin_core::find_options! { listed rows Find }
    onionskin_core::gridfs_download_options! { listed rows OpenDownloadStream }
    onionskin_core::gridfs_download_by_name_options! { listed rows OpenDownloadStreamByName }
    onionskin_core::gridfs_find_options! { listed rows GridFsFind }
    onionskin_core::gridfs_find_one_options! { listed rows GridFsFindOne }
    onionskin_core::gridfs_upload_options! { listed rows OpenUploadStream }
    onionskin_core::gridfs_write_options! { listed rows GridFsDelete }
    onionskin_core::gridfs_write_options! { listed rows GridFsDrop }
    onionskin_core::gridfs_write_options! { listed rows GridFsRename }
    onionskin_core::insert_many_options! { listed rows InsertMany }
    onionskin_core::insert_one_options! { listed rows InsertOne }
    onionskin_core::list_collections_options! { listed rows ListCollections }
    onionskin_core::list_databases_options! { listed rows ListDatabases }
    onionskin_core::list_indexes_options! { listed rows ListIndexes }
    onionskin_core::list_search_index_options! { listed rows ListSearchIndexes }
    onionskin_core::rename_collection_options! { listed rows RenameCollection }
    onionskin_core::replace_options! { listed rows Replace }
    onionskin_core::run_command_options! { listed rows RunCommand }
    onionskin_core::run_cursor_command_options! { listed rows RunCursorCommand }
    onionskin_core::update_options! { listed rows Update }
    onionskin_core::update_search_index_options! { listed rows UpdateSearchIndex }
    rows
}

async fn finds(sent: &Sent, seen: &mut BTreeSet<String>, things: &Collection<Document>) {
    sends!(sent, seen, "find", Find: things.find(doc! {}), {
        allow_disk_use(true) => "allowDiskUse" = is(true);
        allow_partial_results(true) => "allowPartialResults" = is(true);
        batch_size(3) => "batchSize" = is(3);
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        cursor_type(CursorType::TailableAwait) => "awaitData" = is(true);
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        limit(-4) => "singleBatch" = is(true);
        max(doc! { "a": 9 }) => "max.a" = is(9);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        min(doc! { "a": 1 }) => "min.a" = is(1);
        no_cursor_timeout(true) => "noCursorTimeout" = is(true);
        projection(doc! { "a": 1 }) => "projection.a" = is(1);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        return_key(true) => "returnKey" = is(true);
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        show_record_id(true) => "showRecordId" = is(true);
        skip(2) => "skip" = is(2_i64);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "find", FindOne: things.find_one(doc! {}), {
        allow_partial_results(true) => "allowPartialResults" = is(true);
        collation(collation()) => "collation.locale" = is("en");
        comment(doc! { "a": 1 }) => "comment.a" = is(1);
        hint(Hint::Keys(doc! { "a": 1 })) => "hint.a" = is(1);
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max(doc! { "a": 9 }) => "max.a" = is(9);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        min(doc! { "a": 1 }) => "min.a" = is(1);
        projection(doc! { "a": 1 }) => "projection.a" = is(1);
        read_concern(ReadConcern::majority()) => "readConcern.level" = is("majority");
        return_key(true) => "returnKey" = is(true);
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        show_record_id(true) => "showRecordId" = is(true);
        skip(2) => "skip" = is(2_i64);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

async fn other_reads(sent: &Sent, seen: &mut BTreeSet<String>, things: &Collection<Document>) {
    let out = || things.aggregate([doc! { "$out": "elsewhere" }]);
    sends!(sent, seen, "aggregate", Aggregate: things.aggregate([]), {
        allow_disk_use(true) => "allowDiskUse" = is(true);
        batch_size(3) => "cursor.batchSize" = is(3_i64);
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "collation.locale" = is("en");
        comment(7) => "comment" = is(7);
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "aggregate", Aggregate: out(), {
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "aggregate", CountDocuments: things.count_documents(doc! {}), {
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        limit(5) => "pipeline.1.$limit" = is(5_i64);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        skip(6) => "pipeline.1.$skip" = is(6_i64);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let estimate = || things.estimated_document_count();
    sends!(sent, seen, "count", EstimatedDocumentCount: estimate(), {
        comment("why") => "comment" = is("why");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "distinct", Distinct: things.distinct("a", doc! {}), {
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

async fn writes(sent: &Sent, seen: &mut BTreeSet<String>, things: &Collection<Document>) {
    sends!(sent, seen, "insert", InsertOne: things.insert_one(doc! {}), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        comment("why") => "comment" = is("why");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "insert", InsertMany: things.insert_many([doc! {}]), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        comment("why") => "comment" = is("why");
        ordered(false) => "ordered" = is(false);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::majority()) => "writeConcern.w" = is("majority");
    });
    let delete = || DeleteOneModel::builder().build();
    sends!(sent, seen, "delete", CollectionBulkWrite: things.bulk_write([delete()]), {
        comment("why") => "comment" = is("why");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        ordered(false) => "ordered" = is(false);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let insert = || InsertOneModel::builder().build();
    sends!(sent, seen, "insert", CollectionBulkWrite: things.bulk_write([insert()]), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
    });
    let set = || doc! { "$set": { "b": 1 } };
    sends!(sent, seen, "update", Update: things.update_one(doc! {}, set()), {
        array_filters([doc! { "x": 1 }]) => "updates.0.arrayFilters.0.x" = is(1);
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "updates.0.collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "updates.0.hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        sort(doc! { "a": -1 }) => "updates.0.sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        upsert(true) => "updates.0.upsert" = is(true);
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "update", Replace: things.replace_one(doc! {}, doc! {}), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "updates.0.collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "updates.0.hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        sort(doc! { "a": -1 }) => "updates.0.sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        upsert(true) => "updates.0.upsert" = is(true);
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "delete", Delete: things.delete_one(doc! {}), {
        collation(collation()) => "deletes.0.collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "deletes.0.hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
}

async fn found_and_changed(
    sent: &Sent,
    seen: &mut BTreeSet<String>,
    things: &Collection<Document>,
) {
    let delete = || things.find_one_and_delete(doc! {});
    sends!(sent, seen, "findAndModify", FindOneAndDelete: delete(), {
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        projection(doc! { "a": 1 }) => "fields.a" = is(1);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let replace = || things.find_one_and_replace(doc! {}, doc! { "b": 1 });
    sends!(sent, seen, "findAndModify", FindOneAndReplace: replace(), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        projection(doc! { "a": 1 }) => "fields.a" = is(1);
        return_document(ReturnDocument::After) => "new" = is(true);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        upsert(true) => "upsert" = is(true);
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let update = || things.find_one_and_update(doc! {}, vec![doc! { "$set": { "b": 1 } }]);
    sends!(sent, seen, "findAndModify", FindOneAndUpdate: update(), {
        array_filters([doc! { "x": 1 }]) => "arrayFilters.0.x" = is(1);
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        projection(doc! { "a": 1 }) => "fields.a" = is(1);
        return_document(ReturnDocument::Before) => "new" = is(false);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        upsert(true) => "upsert" = is(true);
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
}
