//! Tests of reads and writes, on any runtime and any deployment.
//!
//! The same tests run on each adapter, against FerretDB and against the simulated deployment.
//! FerretDB shares no code with this project, so it also finds errors that the driver and the
//! simulation share. Tests that need a replica set are in [`replica_set`], and those that need a
//! load balancer in [`load_balanced`].

pub mod bulk;
mod changes;
pub mod collection_bulk;
mod cursors;
mod errors;
pub mod lifecycle;
pub mod load_balanced;
mod reads;
pub mod replica_set;
mod schema;
pub mod search;
pub mod sessions;
mod watch;
mod writes;

pub use watch::{Sent, Watch};

use crate::compressors::with_compressors;
use bson::{Document, doc};
use onionskin::{Client, Collection, Error, Runtime, options::ServerApi};
use onionskin_core::uri;
use std::{
    future::{Future, poll_fn},
    io::{self, Write as _},
    pin::pin,
    task::Poll,
    time::Duration,
};

/// The time limit of [`within`], for example for all tests of one deployment together.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time limit of a wait for a condition.
const SOON: Duration = Duration::from_secs(10);

/// The pause between two evaluations of a condition that a test waits for.
const PAUSE: Duration = Duration::from_millis(2);

/// The database that the tests write to.
const DATABASE: &str = "onionskin_crud";

/// A client under test, and a record of the commands that it sends.
#[derive(Debug)]
pub struct Bench<R: Runtime> {
    /// The client under test.
    pub client: Client<R>,
    /// The connection string.
    pub(crate) uri: String,
    /// The record of the client's commands and pool events.
    pub watch: Watch,
}

impl<R: Runtime + Default> Bench<R> {
    /// Creates a client for a connection string.
    ///
    /// # Panics
    ///
    /// If the connection string or a file that it names cannot be used.
    pub fn new(uri: &str) -> Self {
        Self::declaring(uri, None)
    }

    /// Creates a client whose commands declare a version of the API.
    fn declaring(uri: &str, api: Option<ServerApi>) -> Self {
        let watch = Watch::default();
        let parsed = uri::parse(&with_compressors(uri)).and_then(|parsed| {
            let mut options = parsed.options;
            options.server_api = api;
            let builder = Client::builder(R::default(), options);
            builder.event_listener(watch.listener()).build()
        });
        let client = parsed.unwrap_or_else(|error| panic!("no client for {uri}: {error}"));
        let uri = uri.to_owned();
        Self { client, uri, watch }
    }

    /// Returns the record, after listeners have received all events so far.
    pub(crate) async fn watch(&self) -> &Watch {
        self.client.flush_events().await;
        &self.watch
    }

    /// Returns a collection for one test, after all its documents were deleted.
    pub(crate) async fn empty<T: Send + Sync>(&self, case: &str) -> Collection<R, T> {
        let collection = self.client.database(DATABASE).collection::<T>(case);
        let cleared = collection.delete_many(doc! {}).await;
        cleared.unwrap_or_else(|error| panic!("{case}: cannot be cleared: {error}"));
        collection
    }

    /// Waits until `holds` returns true. Panics after [`SOON`].
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let runtime = R::default();
        let start = runtime.now();
        while !holds() {
            let waited = runtime.now().saturating_sub(start);
            assert!(waited < SOON, "waited {waited:?} for {what}");
            runtime.sleep(PAUSE).await;
        }
    }
}

/// Runs tests one after the other and returns their number.
macro_rules! in_turn {
    ($bench:expr, [$($case:path),+ $(,)?]) => {{
        let mut passed = 0_u32;
        $(
            $case($bench).await;
            passed += 1;
        )+
        passed
    }};
}

pub(crate) use in_turn;

/// Runs all tests that any deployment must pass, and prints their number.
///
/// # Panics
///
/// If a test fails, or if all together take too long.
pub async fn run<R: Runtime + Default>(name: &str, uri: &str) {
    run_declaring::<R>(name, uri, None).await;
}

/// Runs the tests as [`run`] does, with a client whose commands declare a version of the API.
///
/// # Panics
///
/// If a test fails, or if all together take too long.
pub async fn run_declaring<R: Runtime + Default>(name: &str, uri: &str, api: Option<ServerApi>) {
    let bench = Bench::<R>::declaring(uri, api);
    let passed = within::<R, _>(async {
        in_turn!(
            &bench,
            [
                writes::an_inserted_document_gets_an_object_id,
                writes::a_given_id_is_kept,
                writes::many_are_inserted_in_order,
                writes::a_duplicate_key_is_a_write_error,
                writes::an_unordered_insert_goes_on_after_a_failure,
                writes::updates_change_one_or_all_that_match,
                writes::an_upsert_inserts_where_nothing_matches,
                writes::deletes_remove_one_or_all_that_match,
                writes::a_document_that_fills_several_reads_survives,
                collection_bulk::operations_of_one_kind_share_a_command,
                collection_bulk::unordered_operations_are_grouped_by_kind,
                collection_bulk::a_failure_ends_an_ordered_bulk_write,
                changes::a_replacement_keeps_the_id,
                changes::an_update_takes_a_pipeline,
                changes::a_job_is_taken_once,
                changes::the_document_before_a_change_is_returned,
                changes::values_are_listed_and_estimated,
                schema::indexes_are_created_listed_and_dropped,
                schema::collections_come_and_go,
                schema::many_collections_are_listed_batch_by_batch,
                reads::find_one_gives_the_document_or_none,
                reads::results_are_sorted_skipped_limited_and_projected,
                reads::documents_are_counted,
                reads::pipelines_are_run_and_read_as_any_type,
                reads::typed_documents_keep_their_shape,
                reads::a_document_of_another_type_is_an_error_of_its_own,
                cursors::a_cursor_fetches_batch_by_batch,
                cursors::a_cursor_is_a_stream,
                cursors::a_cursor_tells_whether_there_can_be_more,
                cursors::a_cursor_over_nothing_ends_at_once,
                cursors::a_cursor_dropped_half_way_is_killed_on_the_server,
                cursors::whole_batches_are_returned_as_the_server_sends_them,
                cursors::whole_batches_are_killed_and_fail_as_documents_do,
                cursors::two_cursors_take_turns,
                errors::commands_run_as_they_are,
                errors::an_unknown_command_is_the_servers_error,
                errors::a_deadline_that_has_passed_is_a_timeout,
                errors::a_dropped_operation_disturbs_no_other,
            ]
        )
    })
    .await;
    report("crud", name, passed);
    within::<R, _>(bench.client.shutdown()).await;
}

/// Runs a find that the deployment must refuse. Returns the error and the client.
pub async fn refusal<R: Runtime + Default>(uri: &str) -> (Error, Client<R>) {
    let bench = Bench::<R>::new(uri);
    let collection = bench.client.database(DATABASE).collection::<Document>("no");
    let outcome = within::<R, _>(async { collection.find_one(doc! {}).await }).await;
    let error = outcome.expect_err("it must not be let in");
    drop(collection);
    (error, bench.client)
}

/// Returns the output of `future`. Panics after [`PATIENCE`].
pub(crate) async fn within<R: Runtime + Default, T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut limit = pin!(R::default().sleep(PATIENCE));
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(output);
        }
        let hangs = limit.as_mut().poll(context).is_ready();
        assert!(!hangs, "nothing came of it within {PATIENCE:?}");
        Poll::Pending
    })
    .await
}

/// Writes a line for the summary of a CI run. libtest does not capture a direct write to standard
/// error.
pub(crate) fn report(suite: &str, name: &str, passed: u32) {
    // A closed standard error must not make a passing test fail.
    drop(writeln!(
        io::stderr(),
        "SUITE: {suite}: {name}: {passed} passed, 0 failed, 0 skipped"
    ));
}
