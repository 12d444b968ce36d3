//! The options of the calls for indexes, collections, databases and clients.

use super::{ANY, MINUTE, collation, is, secondary, sends};
use crate::wire::Sent;
use bson::{Document, bson, doc};
use onionskin_core::options::WriteConcern;
use onionskin_tokio::{
    Client, Collection, Database,
    options::{
        ChangeStreamPreAndPostImages, ClusteredIndex, CommitQuorum, IndexModel,
        IndexOptionDefaults, InsertOneModel, SearchIndexModel, TimeseriesOptions, ValidationAction,
        ValidationLevel,
    },
};
use std::collections::BTreeSet;

pub(super) async fn indexes(
    sent: &Sent,
    seen: &mut BTreeSet<String>,
    things: &Collection<Document>,
) {
    let index = || IndexModel::builder().keys(doc! { "a": 1 }).build();
    sends!(sent, seen, "createIndexes", CreateIndex: things.create_index(index()), {
        comment("why") => "comment" = is("why");
        commit_quorum(CommitQuorum::Majority) => "commitQuorum" = is("majority");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "dropIndexes", DropIndex: things.drop_index("a_1"), {
        comment("why") => "comment" = is("why");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "listIndexes", ListIndexes: things.list_indexes(), {
        batch_size(3) => "cursor.batchSize" = is(3);
        comment("why") => "comment" = is("why");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

pub(super) async fn search_indexes(
    sent: &Sent,
    seen: &mut BTreeSet<String>,
    things: &Collection<Document>,
) {
    let index = || SearchIndexModel::builder().build();
    let create = || things.create_search_index(index());
    sends!(sent, seen, "createSearchIndexes", CreateSearchIndex: create(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let update = || things.update_search_index("a", doc! {});
    sends!(sent, seen, "updateSearchIndex", UpdateSearchIndex: update(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let drop = || things.drop_search_index("a");
    sends!(sent, seen, "dropSearchIndex", DropSearchIndex: drop(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "aggregate", ListSearchIndexes: things.list_search_indexes(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

pub(super) async fn handles(
    sent: &Sent,
    seen: &mut BTreeSet<String>,
    database: &Database,
    things: &Collection<Document>,
) {
    let images = ChangeStreamPreAndPostImages::builder()
        .enabled(true)
        .build();
    let defaults = IndexOptionDefaults::builder()
        .storage_engine(doc! {})
        .build();
    let create = || database.create_collection("more");
    sends!(sent, seen, "create", CreateCollection: create(), {
        capped(true) => "capped" = is(true);
        change_stream_pre_and_post_images(images.clone())
            => "changeStreamPreAndPostImages.enabled" = is(true);
        clustered_index(ClusteredIndex::default()) => "clusteredIndex.key._id" = is(1);
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        expire_after_seconds(MINUTE) => "expireAfterSeconds" = is(60);
        index_option_defaults(defaults.clone())
            => "indexOptionDefaults" = is(bson!({ "storageEngine": {} }));
        max(5) => "max" = is(5_i64);
        pipeline([doc! { "$limit": 1 }]) => "pipeline.0.$limit" = is(1);
        size(4096) => "size" = is(4096_i64);
        storage_engine(doc! {}) => "storageEngine" = is(doc! {});
        timeout(MINUTE) => "maxTimeMS" = ANY;
        timeseries(TimeseriesOptions::new("at")) => "timeseries.timeField" = is("at");
        validation_action(ValidationAction::Warn) => "validationAction" = is("warn");
        validation_level(ValidationLevel::Off) => "validationLevel" = is("off");
        validator(doc! { "a": 1 }) => "validator.a" = is(1);
        view_on("things") => "viewOn" = is("things");
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "renameCollection", RenameCollection: things.rename("others"), {
        comment("why") => "comment" = is("why");
        drop_target(true) => "dropTarget" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "drop", DropCollection: things.drop(), {
        comment("why") => "comment" = is("why");
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "dropDatabase", DropDatabase: database.drop(), {
        comment("why") => "comment" = is("why");
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let command = || database.run_cursor_command(doc! { "listCollections": 1 });
    sends!(sent, seen, "listCollections", RunCursorCommand: command(), {
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "ping", RunCommand: database.run_command(doc! { "ping": 1 }), {
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

pub(super) async fn lists(
    sent: &Sent,
    seen: &mut BTreeSet<String>,
    client: &Client,
    database: &Database,
) {
    let collections = || database.list_collections();
    sends!(sent, seen, "listCollections", ListCollections: collections(), {
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
    sends!(sent, seen, "bulkWrite", BulkWrite: bulk_write(), {
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        comment("why") => "comment" = is("why");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        ordered(false) => "ordered" = is(false);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(sent, seen, "listDatabases", ListDatabases: client.list_databases(), {
        authorized_databases(true) => "authorizedDatabases" = is(true);
        comment("why") => "comment" = is("why");
        filter(doc! { "name": "a" }) => "filter.name" = is("a");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}
