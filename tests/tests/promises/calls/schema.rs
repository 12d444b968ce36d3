//! The options of the calls for collections, databases and clients.

use super::{ANY, Calls, MINUTE, after_drop, collation, is, secondary, sends};
use bson::{Document, doc};
use onionskin::{
    Database, Runtime,
    options::{
        ChangeStreamPreAndPostImages, ClusteredIndex, IndexOptionDefaults, InsertOneModel,
        TimeseriesGranularity, TimeseriesOptions, ValidationAction, ValidationLevel,
    },
};
use onionskin_core::{operation::crud::TimeseriesOptionsBuilder, options::WriteConcern};

pub(super) async fn collections<R: Runtime>(calls: &mut Calls<R>) {
    let database = calls.database.clone();
    let more = database.collection::<Document>("more");
    let images = ChangeStreamPreAndPostImages::builder()
        .enabled(true)
        .build();
    let engine = doc! { "storageEngine": { "wiredTiger": {} } };
    let defaults = IndexOptionDefaults::builder().storage_engine(doc! { "wiredTiger": {} });
    let create = || database.create_collection("more");
    sends!(calls, "create", CreateCollection: create(), with |call| after_drop(&more, call), {
        change_stream_pre_and_post_images(images.clone())
            => "changeStreamPreAndPostImages.enabled" = is(true);
        clustered_index(ClusteredIndex::default()) => "clusteredIndex.key._id" = is(1);
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        index_option_defaults(defaults.clone().build()) => "indexOptionDefaults" = is(engine);
        storage_engine(doc! { "wiredTiger": {} }) => "storageEngine.wiredTiger" = is(doc! {});
        timeout(MINUTE) => "maxTimeMS" = ANY;
        timeseries(TimeseriesOptions::new("at")) => "timeseries.timeField" = is("at");
        validation_action(ValidationAction::Warn) => "validationAction" = is("warn");
        validation_level(ValidationLevel::Off) => "validationLevel" = is("off");
        validator(doc! { "a": 1 }) => "validator.a" = is(1);
        view_on("things") => "viewOn" = is("things");
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let sized = || create().size(4096);
    sends!(calls, "create", CreateCollection: sized(), with |call| after_drop(&more, call), {
        capped(true) => "capped" = is(true);
    });
    let capped = || sized().capped(true);
    sends!(calls, "create", CreateCollection: capped(), with |call| after_drop(&more, call), {
        max(5) => "max" = is(5_i64);
        size(8192) => "size" = is(8192_i64);
    });
    let clustered = || create().clustered_index(ClusteredIndex::default());
    sends!(calls, "create", CreateCollection: clustered(), with |call| after_drop(&more, call), {
        expire_after_seconds(MINUTE) => "expireAfterSeconds" = is(60);
    });
    let view = || create().view_on("things");
    sends!(calls, "create", CreateCollection: view(), with |call| after_drop(&more, call), {
        pipeline([doc! { "$limit": 1 }]) => "pipeline.0.$limit" = is(1);
    });
    let series =
        |options: TimeseriesOptionsBuilder| after_drop(&more, create().timeseries(options.build()));
    let new = || TimeseriesOptions::builder().time_field("at");
    sends!(calls, "create", TimeseriesOptions: new(), with series, {
        granularity(TimeseriesGranularity::Hours) => "timeseries.granularity" = is("hours");
        meta_field("sensor".to_owned()) => "timeseries.metaField" = is("sensor");
        time_field("then") => "timeseries.timeField" = is("then");
    });
    // Servers want both, and equal ones.
    sends!(calls, "create", TimeseriesOptions: new().bucket_rounding(MINUTE), with series, {
        bucket_max_span(MINUTE) => "timeseries.bucketMaxSpanSeconds" = is(60);
    });
    sends!(calls, "create", TimeseriesOptions: new().bucket_max_span(MINUTE), with series, {
        bucket_rounding(MINUTE) => "timeseries.bucketRoundingSeconds" = is(60);
    });
}

pub(super) async fn names<R: Runtime>(calls: &mut Calls<R>) {
    let database = calls.database.clone();
    let others = database.collection::<Document>("others");
    let rename = || others.rename("renamed");
    let created = |call| created(&database, call);
    sends!(calls, "renameCollection", RenameCollection: rename(), with created, {
        comment("why") => "comment" = is("why");
        drop_target(true) => "dropTarget" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(calls, "drop", DropCollection: others.drop(), {
        comment("why") => "comment" = is("why");
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let dropped = calls.sent.client.database("dropped");
    sends!(calls, "dropDatabase", DropDatabase: dropped.drop(), {
        comment("why") => "comment" = is("why");
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let command = || database.run_cursor_command(doc! { "listCollections": 1 });
    sends!(calls, "listCollections", RunCursorCommand: command(), {
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "ping", RunCommand: database.run_command(doc! { "ping": 1 }), {
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

/// Creates the collection that a call renames, and drops the one with the new name.
async fn created<R: Runtime, F: IntoFuture>(database: &Database<R>, call: F) -> F::Output {
    let create = database.create_collection("others");
    let others = after_drop(&database.collection("others"), create).await;
    others.expect("a reply");
    after_drop(&database.collection("renamed"), call).await
}

pub(super) async fn lists<R: Runtime>(calls: &mut Calls<R>) {
    let client = calls.sent.client.clone();
    let database = calls.database.clone();
    let collections = || database.list_collections();
    sends!(calls, "listCollections", ListCollections: collections(), {
        authorized_collections(true) => "authorizedCollections" = is(true);
        batch_size(3) => "cursor.batchSize" = is(3);
        comment("why") => "comment" = is("why");
        filter(doc! { "name": "a" }) => "filter.name" = is("a");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let model =
        InsertOneModel::builder().namespace(database.collection::<Document>("a").namespace());
    let bulk_write = || client.bulk_write([model.clone().build()]);
    sends!(calls, "bulkWrite", BulkWrite: bulk_write(), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        comment("why") => "comment" = is("why");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        ordered(false) => "ordered" = is(false);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(calls, "listDatabases", ListDatabases: client.list_databases(), {
        authorized_databases(true) => "authorizedDatabases" = is(true);
        comment("why") => "comment" = is("why");
        filter(doc! { "name": "a" }) => "filter.name" = is("a");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}
