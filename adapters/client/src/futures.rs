//! The futures of calls.
//!
//! Each call has a future of its own, which is named after the call. The program that the future
//! runs is no part of its type, so that a later version can run another program. A future can be
//! stored, moved and sent to other tasks, and it can be dropped at any time.

use crate::{
    ChangeStream, Client, ClientSession, Cursor, Execution, RawBatchCursor, Runtime,
    SessionChangeStream, SessionCursor, SessionRawBatchCursor,
    decode::{
        Counted, DatabaseNames, Databases, Deleted, DistinctValues, Done, Estimated, FirstDocument,
        FoundDocument, IndexCreated, IndexesCreated, InsertedOne, OpenCursor, OpenRawBatches,
        OpenSessionCursor, OpenSessionRawBatches, OpenSessionStream, OpenStream,
        SearchIndexCreated, SearchIndexesCreated, Updated, WholeReply,
    },
    session::UsedSession,
};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::{
        Command, Prepared, Single,
        crud::{
            self, BulkWriteResult, ChangeStreamEvent, CollectionSpecification, CreateIndexResult,
            CreateIndexesResult, DatabaseSpecification, DeleteResult, IndexModel, InsertManyResult,
            InsertOneResult, UpdateResult, VerboseBulkWriteResult,
        },
        gridfs,
    },
};
use serde::de::DeserializeOwned;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// Defines futures: the call, the name, a type parameter with its bounds, the program, the result.
macro_rules! futures {
    ($(
        $call:ident: $name:ident<R $(, $T:ident)?> $([$($bounds:tt)+])?
            = $program:ty => $output:ty;
    )*) => {$(
        #[doc = concat!("The future of [`", stringify!($call), "`].")]
        ///
        #[doc = concat!("[`", stringify!($call), "`]: crate::", stringify!($call))]
        #[must_use = "a future does nothing unless it is awaited"]
        pub struct $name<R: Runtime $(, $T)?>(pub(crate) Execution<R, $program>)
        $(where $($bounds)+)?;

        impl<R: Runtime $(, $T)?> $name<R $(, $T)?>
        $(where $($bounds)+)?
        {
            /// Returns the runtime of the client.
            ///
            /// ```no_run
            /// # use onionskin::{Collection, Runtime};
            /// # fn example<R: Runtime + Clone>(people: Collection<R, ()>) {
            /// # use std::future::IntoFuture;
            /// // A runtime that blocks polls the future with an executor of its own.
            /// let future = people.drop().into_future();
            /// let runtime = future.runtime().clone();
            /// # }
            /// ```
            #[must_use]
            pub fn runtime(&self) -> &R {
                self.0.runtime()
            }
        }

        impl<R: Runtime $(, $T)?> Future for $name<R $(, $T)?>
        $(where $($bounds)+)?
        {
            type Output = Result<$output, Error>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                Pin::new(&mut self.0).poll(context)
            }
        }
    )*};
}

futures! {
    Aggregate: AggregateFuture<R, U> = Single<OpenCursor<R, U>> => Cursor<R, U>;
    BulkWrite: BulkWriteFuture<R, O> [O: From<VerboseBulkWriteResult>]
        = Prepared<crud::BulkWrite<O>> => O;
    CollectionBulkWrite: CollectionBulkWriteFuture<R>
        = Prepared<crud::CollectionBulkWrite> => BulkWriteResult;
    CountDocuments: CountDocumentsFuture<R> = Single<Counted> => u64;
    CreateCollection: CreateCollectionFuture<R> = Single<Done> => ();
    CreateIndex: CreateIndexFuture<R> = Single<IndexCreated> => CreateIndexResult;
    CreateIndexes: CreateIndexesFuture<R> = Single<IndexesCreated> => CreateIndexesResult;
    CreateSearchIndex: CreateSearchIndexFuture<R> = Single<SearchIndexCreated> => String;
    CreateSearchIndexes: CreateSearchIndexesFuture<R>
        = Single<SearchIndexesCreated> => Vec<String>;
    Delete: DeleteFuture<R> = Single<Deleted> => DeleteResult;
    Distinct: DistinctFuture<R> = Single<DistinctValues> => Vec<Bson>;
    DropCollection: DropCollectionFuture<R> = Single<Done> => ();
    DropDatabase: DropDatabaseFuture<R> = Single<Done> => ();
    DropIndex: DropIndexFuture<R> = Single<Done> => ();
    DropSearchIndex: DropSearchIndexFuture<R> = Single<Done> => ();
    EstimatedDocumentCount: EstimatedDocumentCountFuture<R> = Single<Estimated> => u64;
    Find: FindFuture<R, T> = Single<OpenCursor<R, T>> => Cursor<R, T>;
    FindOne: FindOneFuture<R, T> [T: DeserializeOwned + 'static]
        = Single<FirstDocument<T>> => Option<T>;
    FindOneAndDelete: FindOneAndDeleteFuture<R, T> [T: DeserializeOwned + 'static]
        = Single<FoundDocument<T>> => Option<T>;
    FindOneAndReplace: FindOneAndReplaceFuture<R, T> [T: DeserializeOwned + 'static]
        = Single<FoundDocument<T>> => Option<T>;
    FindOneAndUpdate: FindOneAndUpdateFuture<R, T> [T: DeserializeOwned + 'static]
        = Single<FoundDocument<T>> => Option<T>;
    GridFsDelete: GridFsDeleteFuture<R> = gridfs::Removal => ();
    GridFsDrop: GridFsDropFuture<R> = gridfs::Dropping => ();
    GridFsFind: GridFsFindFuture<R> = Single<OpenCursor<R, gridfs::FilesCollectionDocument>>
        => Cursor<R, gridfs::FilesCollectionDocument>;
    GridFsFindOne: GridFsFindOneFuture<R> = Single<FirstDocument<gridfs::FilesCollectionDocument>>
        => Option<gridfs::FilesCollectionDocument>;
    GridFsRename: GridFsRenameFuture<R> = gridfs::Renaming => ();
    InsertMany: InsertManyFuture<R> = Prepared<crud::InsertMany> => InsertManyResult;
    InsertOne: InsertOneFuture<R> = Single<InsertedOne> => InsertOneResult;
    ListCollectionNames: ListCollectionNamesFuture<R> = crud::Names => Vec<String>;
    ListCollections: ListCollectionsFuture<R>
        = Single<OpenCursor<R, CollectionSpecification>> => Cursor<R, CollectionSpecification>;
    ListDatabaseNames: ListDatabaseNamesFuture<R> = Single<DatabaseNames> => Vec<String>;
    ListDatabases: ListDatabasesFuture<R> = Single<Databases> => Vec<DatabaseSpecification>;
    ListIndexNames: ListIndexNamesFuture<R> = crud::Names => Vec<String>;
    ListIndexes: ListIndexesFuture<R>
        = Single<OpenCursor<R, IndexModel>> => Cursor<R, IndexModel>;
    ListSearchIndexes: ListSearchIndexesFuture<R, T>
        = Single<OpenCursor<R, T>> => Cursor<R, T>;
    RawBatches: RawBatchesFuture<R> = Single<OpenRawBatches<R>> => RawBatchCursor<R>;
    RawBatches: SessionRawBatchesFuture<R>
        = Single<OpenSessionRawBatches<R>> => SessionRawBatchCursor<R>;
    RenameCollection: RenameCollectionFuture<R> = Single<Done> => ();
    Replace: ReplaceFuture<R> = Single<Updated> => UpdateResult;
    RunCommand: RunCommandFuture<R> = Single<WholeReply> => Document;
    RunCursorCommand: RunCursorCommandFuture<R, T>
        = Single<OpenCursor<R, T>> => Cursor<R, T>;
    SessionChangeStream: SessionChangeStreamFuture<R, T>
        = Single<OpenSessionStream<R, T>> => SessionChangeStream<R, ChangeStreamEvent<T>>;
    SessionCursor: SessionCursorFuture<R, T>
        = Single<OpenSessionCursor<R, T>> => SessionCursor<R, T>;
    Update: UpdateFuture<R> = Single<Updated> => UpdateResult;
    UpdateSearchIndex: UpdateSearchIndexFuture<R> = Single<Done> => ();
    Watch: WatchFuture<R, T>
        = Single<OpenStream<R, T>> => ChangeStream<R, ChangeStreamEvent<T>>;
}

impl<R: Runtime, T> SessionCursorFuture<R, T> {
    /// Returns the future of a call that opens a cursor in this session.
    pub(crate) fn new(
        session: Option<UsedSession>,
        command: Result<Command, Error>,
        opener: OpenCursor<R, T>,
    ) -> Self {
        let command = UsedSession::apply(session, command);
        let client = opener.client.clone();
        let session = session.and_then(|session| session.checked().ok());
        let decode = OpenSessionCursor { opener, session };
        Self(Execution::new(client, Single::new(command, decode)))
    }
}

pub use crate::gridfs::futures::{
    DownloadToStreamFuture, OpenDownloadStreamFuture, OpenUploadStreamFuture,
    UploadFromStreamFuture,
};
pub use crate::transaction::{
    AbortTransactionFuture, CommitTransactionFuture, EndSessionFuture, StartTransactionFuture,
};

/// The future of [`StartSession`](crate::StartSession), which is ready at once. The session starts
/// when the future is made, and ends when the future is dropped before it was awaited.
#[must_use = "the session ends when its future is dropped"]
pub struct StartSessionFuture<R: Runtime> {
    client: Client<R>,
    /// The session; `None` once it was returned.
    session: Option<Result<ClientSession<R>, Error>>,
}

// No field is pinned.
impl<R: Runtime> Unpin for StartSessionFuture<R> {}

impl<R: Runtime> StartSessionFuture<R> {
    pub(crate) const fn new(client: Client<R>, session: Result<ClientSession<R>, Error>) -> Self {
        Self {
            client,
            session: Some(session),
        }
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # fn example<R: Runtime + Clone>(client: Client<R>) {
    /// # use std::future::IntoFuture;
    /// // A runtime that blocks polls the future with an executor of its own.
    /// let future = client.start_session().into_future();
    /// let runtime = future.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.client.runtime()
    }
}

impl<R: Runtime> Future for StartSessionFuture<R> {
    type Output = Result<ClientSession<R>, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.session.take() {
            Some(session) => Poll::Ready(session),
            None => {
                let message = "the session was started already; start another one";
                Poll::Ready(Err(Error::argument(message)))
            }
        }
    }
}

/// The future of [`WarmConnectionPool`](crate::WarmConnectionPool).
#[must_use = "a future does nothing unless it is awaited"]
pub struct WarmConnectionPoolFuture<R: Runtime> {
    client: Client<R>,
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<R: Runtime> WarmConnectionPoolFuture<R> {
    pub(crate) fn new(
        client: Client<R>,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            client,
            future: Box::pin(future),
        }
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # fn example<R: Runtime + Clone>(client: Client<R>) {
    /// # use std::future::IntoFuture;
    /// // A runtime that blocks polls the future with an executor of its own.
    /// let future = client.warm_connection_pool().into_future();
    /// let runtime = future.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.client.runtime()
    }
}

impl<R: Runtime> Future for WarmConnectionPoolFuture<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.future.as_mut().poll(context)
    }
}
