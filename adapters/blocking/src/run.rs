//! Operations that are run instead of awaited.

use crate::{
    BlockingRuntime as B, ChangeStream, Cursor, GridFsDownloadStream, GridFsUploadStream,
    RawBatchCursor, SessionChangeStream, SessionCursor, SessionRawBatchCursor,
};
use onionskin::{
    ClientSession, Execution, IndexModel, Result, Shutdown, StartTransaction,
    change_stream::event::ChangeStreamEvent,
    futures,
    gridfs::FilesCollectionDocument,
    program::Program,
    results::{CollectionSpecification, VerboseBulkWriteResult},
    transaction::RepeatedTransaction,
};
use serde::de::DeserializeOwned;
use std::future::IntoFuture;

/// An operation that can be run: [`run`](Self::run) blocks until the operation has ended.
///
/// ```no_run
/// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
///
/// let client = Client::with_uri_str("mongodb://localhost")?;
/// let people = client.database("app").collection::<Document>("people");
/// for person in people.find(doc! { "born": { "$lt": 1900 } }).limit(10).run()? {
///     println!("{}", person?);
/// }
/// # Ok::<(), onionskin_blocking::Error>(())
/// ```
pub trait Run {
    /// The result of the operation.
    type Output;

    /// Runs the operation and returns its result.
    ///
    /// Delays by calls of other threads count toward the time limit of the operation. If the limit
    /// passes during name resolution, key derivation or an event listener, it takes effect
    /// afterwards. The server chooses the number of iterations of a key derivation. The client
    /// accepts up to 2,000,000, which took 0.2 s in a release build.
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client, for example if an event
    /// listener calls this method.
    fn run(self) -> Self::Output;
}

impl<C: IntoFuture<IntoFuture: Block>> Run for C {
    type Output = <C::IntoFuture as Block>::Output;

    fn run(self) -> Self::Output {
        self.into_future().block()
    }
}

/// A future of a call, which blocks the thread until it is ready.
pub trait Block {
    /// The result of the call.
    type Output;

    /// Polls the future on the runtime of its client until it is ready.
    fn block(self) -> Self::Output;
}

/// Implements `Block` for futures, each with its result and what makes it of the future's output.
macro_rules! block {
    ($([$($bounds:tt)*] $future:ty => $output:ty, $change:expr;)*) => {$(
        impl<$($bounds)*> Block for $future {
            type Output = $output;

            fn block(self) -> Self::Output {
                let runtime = self.runtime().clone();
                let change: fn(B, <Self as Future>::Output) -> $output = $change;
                change(runtime.clone(), runtime.block_on(self))
            }
        }
    )*};
    ($([$($bounds:tt)*] $future:ty;)*) => {
        block! {$([$($bounds)*] $future => <Self as Future>::Output, |_, output| output;)*}
    };
}

block! {
    [U] futures::AggregateFuture<B, U> => Result<Cursor<U>>, open;
    [T] futures::FindFuture<B, T> => Result<Cursor<T>>, open;
    [T] futures::SessionCursorFuture<B, T> => Result<SessionCursor<T>>,
        |_, cursor| cursor.map(SessionCursor::new);
    [] futures::RawBatchesFuture<B> => Result<RawBatchCursor>,
        |runtime, cursor| cursor.map(|cursor| RawBatchCursor::new(runtime, cursor));
    [] futures::SessionRawBatchesFuture<B> => Result<SessionRawBatchCursor>,
        |_, cursor| cursor.map(SessionRawBatchCursor::new);
    [] futures::ListCollectionsFuture<B> => Result<Cursor<CollectionSpecification>>, open;
    [T] futures::RunCursorCommandFuture<B, T> => Result<Cursor<T>>, open;
    [] futures::ListIndexesFuture<B> => Result<Cursor<IndexModel>>, open;
    [T] futures::ListSearchIndexesFuture<B, T> => Result<Cursor<T>>, open;
    [T] futures::WatchFuture<B, T> => Result<ChangeStream<ChangeStreamEvent<T>>>,
        |runtime, stream| stream.map(|stream| ChangeStream::new(runtime, stream));
    [T] futures::SessionChangeStreamFuture<B, T>
        => Result<SessionChangeStream<ChangeStreamEvent<T>>>,
        |_, stream| stream.map(SessionChangeStream::new);
    [] futures::GridFsFindFuture<B> => Result<Cursor<FilesCollectionDocument>>, open;
    [] futures::OpenDownloadStreamFuture<B> => Result<GridFsDownloadStream>,
        |runtime, stream| stream.map(|stream| GridFsDownloadStream::new(runtime, stream));
    [] futures::OpenUploadStreamFuture<B> => Result<GridFsUploadStream>,
        |runtime, stream| stream.map(|stream| GridFsUploadStream::new(runtime, stream));
}

block! {
    [P: Program] Execution<B, P>;
    [O: From<VerboseBulkWriteResult>] futures::BulkWriteFuture<B, O>;
    [] futures::CollectionBulkWriteFuture<B>;
    [] futures::CountDocumentsFuture<B>;
    [] futures::CreateCollectionFuture<B>;
    [] futures::CreateIndexFuture<B>;
    [] futures::CreateIndexesFuture<B>;
    [] futures::CreateSearchIndexFuture<B>;
    [] futures::CreateSearchIndexesFuture<B>;
    [] futures::DeleteFuture<B>;
    [] futures::DistinctFuture<B>;
    [] futures::DropCollectionFuture<B>;
    [] futures::DropDatabaseFuture<B>;
    [] futures::DropIndexFuture<B>;
    [] futures::DropSearchIndexFuture<B>;
    [] futures::EstimatedDocumentCountFuture<B>;
    [T: DeserializeOwned + 'static] futures::FindOneFuture<B, T>;
    [T: DeserializeOwned + 'static] futures::FindOneAndDeleteFuture<B, T>;
    [T: DeserializeOwned + 'static] futures::FindOneAndReplaceFuture<B, T>;
    [T: DeserializeOwned + 'static] futures::FindOneAndUpdateFuture<B, T>;
    [] futures::DownloadToStreamFuture<'_, B>;
    [] futures::GridFsDeleteFuture<B>;
    [] futures::GridFsDropFuture<B>;
    [] futures::GridFsFindOneFuture<B>;
    [] futures::GridFsRenameFuture<B>;
    [] futures::UploadFromStreamFuture<'_, B>;
    [] futures::InsertManyFuture<B>;
    [] futures::InsertOneFuture<B>;
    [] futures::ListCollectionNamesFuture<B>;
    [] futures::ListDatabaseNamesFuture<B>;
    [] futures::ListDatabasesFuture<B>;
    [] futures::ListIndexNamesFuture<B>;
    [] futures::RenameCollectionFuture<B>;
    [] futures::ReplaceFuture<B>;
    [] futures::RunCommandFuture<B>;
    [] futures::AbortTransactionFuture<'_, B>;
    [] futures::CommitTransactionFuture<'_, B>;
    [] futures::EndSessionFuture<B>;
    [] futures::StartSessionFuture<B>;
    [] futures::StartTransactionFuture<'_, B>;
    [] Shutdown<B>;
    [] futures::UpdateFuture<B>;
    [] futures::UpdateSearchIndexFuture<B>;
    [] futures::WarmConnectionPoolFuture<B>;
}

/// Transactions that are run until they succeed.
pub trait RunTransaction {
    /// Runs a transaction until it succeeds: starts it, calls `callback`, commits it, and repeats
    /// what failed, as [`and_run2`](onionskin::StartTransaction::and_run2) does.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, RunTransaction, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let log = client.database("app").collection::<Document>("log");
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run_until_success(|session| {
    ///     log.insert_one(doc! { "text": "begun" }).session(session).run()?;
    ///     log.insert_one(doc! { "text": "ended" }).session(session).run()
    /// })?;
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    fn run_until_success<T, F>(self, callback: F) -> Result<T>
    where
        F: FnMut(&mut ClientSession<B>) -> Result<T>;
}

impl RunTransaction for StartTransaction<'_, B> {
    fn run_until_success<T, F>(self, mut callback: F) -> Result<T>
    where
        F: FnMut(&mut ClientSession<B>) -> Result<T>,
    {
        let mut run = RepeatedTransaction::begin(self);
        let runtime = run.session().client().runtime().clone();
        loop {
            runtime.block_on(run.start())?;
            let result = callback(run.session());
            if let Some(value) = runtime.block_on(run.end(result))? {
                return Ok(value);
            }
        }
    }
}

fn open<T>(runtime: B, cursor: Result<onionskin::Cursor<B, T>>) -> Result<Cursor<T>> {
    cursor.map(|cursor| Cursor::new(runtime, cursor))
}
