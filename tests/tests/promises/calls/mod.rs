//! The options of calls: each row of the tables of options can be set on its call, and is sent.

mod cursors;
mod files;
mod handles;
mod indexes;
mod models;
mod outcomes;
mod reads;
mod refusals;
mod schema;
mod sessions;
mod streams;
mod transactions;
mod writes;

use super::wire::Sent;
use bson::{Bson, Document, doc};
use onionskin::{
    Collection, Database, Error, Runtime,
    options::{Collation, IndexModel, ReadMode, ReadPreference},
};
use onionskin_deployment::deployment::ServerVersion;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    conformance::Host,
    peers::{self, FerretDb},
};
use outcomes::{Outcome, assert_expected};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Adds the rows of a table of options to a set, as `Call::option`.
macro_rules! listed {
    ($rows:ident $call:ident $options:ident {
        $([$($doc:literal)*] $field:ident: $type:ty $(, $form:ident)?;)*
    }) => {
        $($rows.insert(concat!(stringify!($call), "::", stringify!($field)).to_owned());)*
    };
}

/// Makes a call once with each option, compares a field of the command that was sent, and records
/// the outcome. `ANY` in place of a value means any value. After `with`, a function makes the call
/// of the options that the builder has.
macro_rules! sends {
    ($calls:ident, $command:literal, $call:ident: $build:expr, { $($rows:tt)* }) => {
        $crate::calls::sends!(
            $calls, $command, $call: $build, with ::std::convert::identity, { $($rows)* }
        )
    };
    ($calls:ident, $command:literal, $call:ident: $build:expr, with $finish:expr, {
        $($option:ident($value:expr) => $path:literal = $expected:expr;)*
    }) => {$(
        $calls.sent.clear().await;
        let result = $finish($build.$option($value)).await.map(drop);
        let row = concat!(stringify!($call), "::", stringify!($option));
        $calls.add(row, ($command, $path), $expected, result).await;
    )*};
}

use sends;

/// Makes tests of a function on each adapter.
macro_rules! on_each_adapter {
    ($($test:ident: $run:ident;)*) => {$(
        mod $test {
            use super::*;
            use $crate::hosts::{AsyncStd, Blocking, Smol, Tokio};

            #[test]
            fn on_tokio() {
                $run::<Tokio>();
            }

            #[test]
            fn on_async_std() {
                $run::<AsyncStd>();
            }

            #[test]
            fn on_smol() {
                $run::<Smol>();
            }

            #[test]
            fn on_blocking() {
                $run::<Blocking>();
            }
        }
    )*};
}

use on_each_adapter;

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
const ELSEWHERE: [&str; 13] = [
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
    // The official tests of transactions (`unified`). Only the primary can read in a transaction.
    "StartTransaction::selection_criteria",
    // The command has to be that of such a cursor, so nothing follows from the type.
    "RunCursorCommand::cursor_type",
];

/// The handles with which the calls are made, and the outcomes so far.
struct Calls<R: Runtime> {
    sent: Sent<R>,
    database: Database<R>,
    /// A collection of documents with the index `a_1`.
    things: Collection<R, Document>,
    outcomes: BTreeMap<String, Outcome>,
}

impl<R: Runtime> Calls<R> {
    async fn new(runtime: R, uri: &str) -> Self {
        let sent = Sent::new(runtime, uri, "appName=calls");
        let database = sent.client.database("promises");
        let things = database.collection::<Document>("things");
        let thing = doc! { "a": 1, "c": [1, 2] };
        things.insert_one(thing).await.expect("a reply");
        things.create_index(index()).await.expect("a reply");
        let log = database.create_collection("log").capped(true).size(4096);
        log.await.expect("a reply");
        Self {
            sent,
            database,
            things,
            outcomes: BTreeMap::new(),
        }
    }

    /// Adds the outcome of a call with the option of a row. Panics if the option was sent with
    /// another value.
    async fn add(
        &mut self,
        row: &str,
        (command, path): (&str, &str),
        expected: Option<Bson>,
        result: Result<(), Error>,
    ) {
        let found = self.sent.path(command, path).await;
        if expected.is_some() && found.is_some() {
            assert_eq!(found, expected, "{row}");
        }
        let outcome = Outcome::new(found.is_some(), result);
        let earlier = self.outcomes.insert(row.to_owned(), outcome);
        assert_eq!(earlier, None, "{row} has two lines");
    }
}

fn index() -> IndexModel {
    IndexModel::builder().keys(doc! { "a": 1 }).build()
}

/// Drops a collection before a call that creates it.
async fn after_drop<R: Runtime, F>(collection: &Collection<R, Document>, call: F) -> F::Output
where
    F: IntoFuture,
{
    collection.drop().await.expect("a reply");
    call.await
}

/// Makes all calls on a deployment.
fn every_option_is_sent<H: Host>(deployment: &'static str, uri: &str) {
    H::block_on(async {
        let mut calls = Calls::new(H::runtime(), uri).await;
        reads::finds(&mut calls).await;
        reads::other_reads(&mut calls).await;
        writes::writes(&mut calls).await;
        writes::found_and_changed(&mut calls).await;
        models::models(&mut calls).await;
        indexes::indexes(&mut calls).await;
        indexes::options(&mut calls).await;
        indexes::search_indexes(&mut calls).await;
        schema::collections(&mut calls).await;
        schema::names(&mut calls).await;
        schema::lists(&mut calls).await;
        handles::options(&mut calls).await;
        streams::watch(&mut calls).await;
        files::calls(&mut calls).await;
        let client = calls.sent.client.clone();
        transactions::sessions(&mut calls, &client).await;
        transactions::transactions(&mut calls, &client).await;
        let elsewhere = ELSEWHERE.map(str::to_owned);
        let seen = calls.outcomes.keys().cloned().chain(elsewhere);
        let seen: BTreeSet<String> = seen.collect();
        let all: BTreeSet<String> = rows().union(&rows_of_values()).cloned().collect();
        assert_eq!(seen, all);
        assert_expected(deployment, &calls.outcomes);
        calls.sent.client.shutdown().await;
    });
}

/// Starts a deployment to which all options are sent. An option of the calls is sent to servers
/// from 8.2 on only. Commands to a mongos contain every read preference except `primary`.
fn start_simulated() -> Embedded {
    let mut options = ServeOptions::sharded(1);
    options.version = ServerVersion::named("8.2").expect("a release");
    Embedded::start(options).expect("a deployment")
}

fn simulated<H: Host>() {
    let deployment = start_simulated();
    every_option_is_sent::<H>(outcomes::SIMULATED, deployment.uri());
}

fn ferretdb<H: Host>() {
    let Some(server) = peers::ferretdb(FerretDb::default()).expect("starts") else {
        return;
    };
    every_option_is_sent::<H>(outcomes::FERRETDB, server.uri());
}

on_each_adapter! {
    every_option_of_every_call_is_sent: simulated;
    every_option_of_every_call_is_sent_to_ferretdb: ferretdb;
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
    onionskin_core::session_options! { listed rows StartSession }
    onionskin_core::transaction_options! { listed rows StartTransaction }
    onionskin_core::update_options! { listed rows Update }
    onionskin_core::update_search_index_options! { listed rows UpdateSearchIndex }
    rows
}

/// Returns all rows of the tables of options that are no options of a call themselves.
fn rows_of_values() -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    onionskin_core::collection_options! { listed rows CollectionOptions }
    onionskin_core::database_options! { listed rows DatabaseOptions }
    onionskin_core::index_options! { listed rows IndexOptions }
    onionskin_core::timeseries_options! { listed rows TimeseriesOptions }
    onionskin_core::delete_many_model_options! { listed rows DeleteManyModel }
    onionskin_core::delete_one_model_options! { listed rows DeleteOneModel }
    onionskin_core::replace_one_model_options! { listed rows ReplaceOneModel }
    onionskin_core::update_many_model_options! { listed rows UpdateManyModel }
    onionskin_core::update_one_model_options! { listed rows UpdateOneModel }
    rows
}
