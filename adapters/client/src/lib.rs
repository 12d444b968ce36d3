//! An asynchronous MongoDB driver that is independent of the async runtime.
//!
//! This crate contains the client, generic over a [`Runtime`]. Applications depend on the crate for
//! their runtime (`onionskin-tokio`, `onionskin-async-std` or `onionskin-smol`;
//! `onionskin-blocking` for programs without one). Each of these crates defines a `Client` type.
//!
//! [`onionskin_core`] makes every decision. The futures of this crate move bytes and wait. Every
//! operation of [`Collection`] and [`Database`] can be given a time limit with `.timeout(..)`, and
//! its future can be dropped at any time: the core then releases the connection and the session of
//! the operation.
//!
//! # Forking
//!
//! Connections are not fork-safe: if two processes use one socket, the data of both is corrupted.
//!
//! A client notices at its next operation or shutdown in a child process that it was forked, if the
//! runtime implements [`process_id`](Runtime::process_id) (`onionskin-blocking`). The client then
//! closes its copies of all sockets without sending anything, because the parent still uses the
//! connections. The client also clears its pools and sessions, and discovers its servers again.
//! Cursors belong to the parent: the child can read the documents that were fetched before the
//! fork, and then gets an error.
//!
//! On other runtimes, a child process does not have the threads that run the client's tasks. With
//! these runtimes, create clients only after the fork. With any runtime, do not fork while a call
//! is running, in an event listener, or while another thread uses the client: the child could
//! inherit an unfinished call or a locked mutex.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod aliases;
mod calls;
mod certificates;
mod client;
mod collection;
mod conditions;
mod cursor;
mod database;
mod decode;
mod deferred;
mod environment;
mod events;
mod exchange;
mod execution;
mod failures;
mod files;
pub mod futures;
pub mod gridfs;
mod hosts;
mod ids;
mod inquiry;
mod kept;
#[cfg(all(feature = "gssapi", unix))]
mod kerberos;
#[cfg(feature = "__lock-times")]
#[doc(hidden)]
pub mod lock_times;
mod lookup;
pub mod machine;
mod oidc;
mod questions;
mod raw_batches;
mod resolver;
mod runtime;
mod session;
mod session_cursor;
mod shared;
mod shutdown;
mod signal;
mod socket;
mod streams;
pub mod system;
mod threads;
mod timer;
mod trace;
pub mod transaction;
mod user_code;
mod waiters;
mod workspace;

pub use calls::{
    Aggregate, BulkWrite, CollectionBulkWrite, CountDocuments, CreateCollection, CreateIndex,
    CreateIndexes, CreateSearchIndex, CreateSearchIndexes, Delete, Distinct, DropCollection,
    DropDatabase, DropIndex, DropSearchIndex, EstimatedDocumentCount, Find, FindOne,
    FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate, InsertMany, InsertOne,
    ListCollectionNames, ListCollections, ListDatabaseNames, ListDatabases, ListIndexNames,
    ListIndexes, ListSearchIndexes, RawBatches, RenameCollection, Replace, RunCommand,
    RunCursorCommand, Update, UpdateSearchIndex, WarmConnectionPool, Watch,
};
pub use client::{Client, ClientBuilder};
pub use collection::Collection;
pub use cursor::Cursor;
pub use database::Database;
pub use events::{MAX_EVENT_DELAY, MAX_QUEUED_EVENT_BYTES, MAX_QUEUED_EVENTS};
pub use execution::Execution;
pub use gridfs::{
    GridFsBucket, GridFsDelete, GridFsDrop, GridFsFind, GridFsFindOne, GridFsRename,
    OpenDownloadStream, OpenUploadStream,
};
pub use kept::CloseCursor;
pub use streams::{ChangeStream, SessionChangeStream, SessionChangeStreamValues};
// For the crate `onionskin-check`, which drives a probe of the core.
#[doc(hidden)]
pub use inquiry::answer_inquiry;
#[doc(hidden)]
pub use questions::run_kerberos_step;
pub use raw_batches::{RawBatchCursor, SessionRawBatchCursor, SessionRawBatchCursorStream};
pub use resolver::{HostResolver, Resolver, ResolverFuture};
pub use runtime::Runtime;
pub use session::{ClientSession, ExplicitSession, ImplicitSession, StartSession};
pub use session_cursor::{SessionCursor, SessionCursorStream};
pub use shutdown::Shutdown;
pub use transaction::{AbortTransaction, CommitTransaction, EndSession, StartTransaction};

pub use bson::{self, RawDocument};
/// A boxed future, as the callback of [`StartTransaction::and_run`] returns it.
pub use futures_util::future::BoxFuture;

/// The conversion of documents: serde over BSON bytes, Extended JSON, DBRef, vectors.
pub use onionskin_bson as documents;
#[cfg(feature = "tls")]
pub use onionskin_core::rustls;
pub use onionskin_core::{
    client::Counts,
    description::{ServerDescription as ServerInfo, ServerType, TopologyType},
    error::{Error, Result},
    log,
    operation::{
        ClusterTime, RawBatch,
        crud::{IndexModel, Namespace, SearchIndexModel, SearchIndexType},
    },
};

/// The calls, which have setters for their options and run when they are awaited.
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
/// use onionskin::action::Find;
///
/// // A function for all lists of the application.
/// fn first_page<R: Runtime, T>(find: Find<'_, R, T>) -> Find<'_, R, T> {
///     find.sort(doc! { "_id": -1 }).limit(20)
/// }
///
/// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
/// let page = first_page(people.find(doc! { "active": true })).await?.into_vec().await?;
/// # Ok(())
/// # }
/// ```
pub mod action {
    pub use crate::{
        calls::{
            Action, Aggregate, BulkWrite, CollectionBulkWrite, CountDocuments, CreateCollection,
            CreateIndex, CreateIndexes, CreateSearchIndex, CreateSearchIndexes, Delete, Distinct,
            DropCollection, DropDatabase, DropIndex, DropSearchIndex, EstimatedDocumentCount, Find,
            FindOne, FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate, InsertMany, InsertOne,
            ListCollectionNames, ListCollections, ListDatabaseNames, ListDatabases, ListIndexNames,
            ListIndexes, ListSearchIndexes, RawBatches, RenameCollection, Replace,
            Replace as ReplaceOne, RunCommand, RunCursorCommand, Update, UpdateSearchIndex,
            WarmConnectionPool, Watch,
        },
        session::{ExplicitSession, ImplicitSession, StartSession},
        shutdown::Shutdown,
        transaction::{AbortTransaction, CommitTransaction, EndSession, StartTransaction},
    };
    pub use onionskin_core::uri::ParseConnectionString;

    /// The calls of GridFS buckets, by their names in the official driver.
    pub mod gridfs {
        pub use crate::gridfs::{
            GridFsDelete as Delete, GridFsDelete as DeleteByName, GridFsDrop as Drop,
            GridFsFind as Find, GridFsFindOne as FindOne, GridFsRename as Rename,
            GridFsRename as RenameByName, OpenDownloadStream, OpenDownloadStreamByName,
            OpenUploadStream,
        };
    }
}

/// Cursors of whole batches.
pub mod raw_batch_cursor {
    pub use crate::{RawBatch, RawBatchCursor, SessionRawBatchCursor, SessionRawBatchCursorStream};
}

/// Options of clients and operations, and how they are written in a connection string.
///
/// A call has a setter for each of its options. `with_options` sets all of them at once, so that
/// several calls can share them.
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
/// use onionskin::options::FindOptions;
///
/// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
/// let newest = FindOptions::builder().sort(doc! { "_id": -1 }).limit(10).build();
/// let active = people.find(doc! { "active": true }).with_options(newest.clone()).await?;
/// let others = people.find(doc! { "active": false }).with_options(newest).await?;
/// # Ok(())
/// # }
/// ```
pub mod options {
    #[cfg(feature = "tls")]
    pub use onionskin_core::options::TlsConfig;
    pub use onionskin_core::{
        address::{Address, InvalidAddress, ServerAddress},
        client::{DriverInfo, Environment, OsFacts},
        description::Tags as TagSet,
        operation::crud::{
            AggregateOptions, BulkWriteOptions, ChangeStreamOptions, ChangeStreamPreAndPostImages,
            ClusteredIndex, CollectionOptions, CommitQuorum, CountOptions, CreateCollectionOptions,
            CreateIndexOptions, CreateSearchIndexOptions, CursorType, DatabaseOptions,
            DeleteManyModel, DeleteOneModel, DeleteOptions, DistinctOptions, DropCollectionOptions,
            DropDatabaseOptions, DropIndexOptions, DropSearchIndexOptions,
            EstimatedDocumentCountOptions, FindOneAndDeleteOptions, FindOneAndReplaceOptions,
            FindOneAndUpdateOptions, FindOneOptions, FindOptions, FullDocumentBeforeChangeType,
            FullDocumentType, Hint, IndexModel, IndexOptionDefaults, IndexOptions, IndexVersion,
            InsertManyOptions, InsertOneModel, InsertOneOptions, ListCollectionsOptions,
            ListDatabasesOptions, ListIndexesOptions, ListSearchIndexOptions,
            RenameCollectionOptions, ReplaceOneModel, ReplaceOptions, ReturnDocument,
            RunCommandOptions, RunCursorCommandOptions, SearchIndexModel, SearchIndexType,
            Sphere2DIndexVersion, TextIndexVersion, TimeseriesGranularity, TimeseriesOptions,
            UpdateManyModel, UpdateModifications, UpdateOneModel, UpdateOptions,
            UpdateSearchIndexOptions, ValidationAction, ValidationLevel, WriteModel,
        },
        operation::gridfs::{
            GridFsBucketOptions, GridFsDownloadByNameOptions, GridFsDownloadOptions,
            GridFsFindOneOptions, GridFsFindOptions, GridFsUploadOptions, GridFsWriteOptions,
        },
        operation::{ClusterTime, SessionOptions, TimeoutMode, TransactionOptions},
        options::{
            Acknowledgment, AuthMechanism, AwsCredentialProvider, AwsCredentials, CallbackError,
            CallbackFuture, CanonicalizeHostName, ClientOptions, Collation, CollationAlternate,
            CollationCaseFirst, CollationMaxVariable, CollationStrength, Compressor, Credential,
            CredentialProvider, Cryptography, DEFAULT_ALLOWED_HOSTS, EventHandler,
            HedgedReadOptions, IdpInfo, Kerberos, KerberosTarget, Login, Monitoring,
            OIDC_CALLBACK_VERSION, OidcCallback, OidcFlow, OidcRequest, OidcTokens,
            PasswordProvider, PasswordRequest, Predicate, ReadConcern, ReadConcernLevel, ReadMode,
            ReadPreference, ReadPreferenceOptions, Secret, SecurityContext, SelectionCriteria,
            ServerApi, ServerApiVersion, ServerMonitoringMode, ServerSelector, Socks5Proxy,
            SystemRoots, Tls, TlsOptions, WriteConcern,
        },
        random::Seed,
        uri::{
            ConnectionString, OptionValue, ParseConnectionString, ParsedUri, Scheme, Warning, parse,
        },
    };

    /// The types of callbacks that provide OpenID Connect tokens, by their names in the official
    /// driver.
    pub mod oidc {
        pub use crate::oidc::{IdpServerResponse, IdpServerResponseBuilder};
        pub use onionskin_core::options::{
            IdpInfo as IdpServerInfo, OidcCallback as Callback, OidcRequest as CallbackContext,
        };
    }

    /// The builders of options.
    ///
    /// ```
    /// use onionskin::{bson::doc, options::{FindOptions, builders::FindOptionsBuilder}};
    ///
    /// // The options that all queries of the application have in common.
    /// fn usual() -> FindOptionsBuilder {
    ///     FindOptions::builder().sort(doc! { "_id": -1 }).batch_size(200)
    /// }
    ///
    /// let options = usual().limit(10).build();
    /// assert_eq!(options.batch_size, Some(200));
    /// ```
    pub mod builders {
        pub use onionskin_core::{
            operation::crud::{
                AggregateOptionsBuilder, BulkWriteOptionsBuilder, ChangeStreamOptionsBuilder,
                ChangeStreamPreAndPostImagesBuilder, CollectionOptionsBuilder, CountOptionsBuilder,
                CreateCollectionOptionsBuilder, CreateIndexOptionsBuilder,
                CreateSearchIndexOptionsBuilder, DatabaseOptionsBuilder, DeleteManyModelBuilder,
                DeleteOneModelBuilder, DeleteOptionsBuilder, DistinctOptionsBuilder,
                DropCollectionOptionsBuilder, DropDatabaseOptionsBuilder, DropIndexOptionsBuilder,
                DropSearchIndexOptionsBuilder, EstimatedDocumentCountOptionsBuilder,
                FindOneAndDeleteOptionsBuilder, FindOneAndReplaceOptionsBuilder,
                FindOneAndUpdateOptionsBuilder, FindOneOptionsBuilder, FindOptionsBuilder,
                IndexModelBuilder, IndexOptionDefaultsBuilder, IndexOptionsBuilder,
                InsertManyOptionsBuilder, InsertOneModelBuilder, InsertOneOptionsBuilder,
                ListCollectionsOptionsBuilder, ListDatabasesOptionsBuilder,
                ListIndexesOptionsBuilder, ListSearchIndexOptionsBuilder,
                RenameCollectionOptionsBuilder, ReplaceOneModelBuilder, ReplaceOptionsBuilder,
                RunCommandOptionsBuilder, RunCursorCommandOptionsBuilder, SearchIndexModelBuilder,
                TimeseriesOptionsBuilder, UpdateManyModelBuilder, UpdateOneModelBuilder,
                UpdateOptionsBuilder, UpdateSearchIndexOptionsBuilder,
            },
            operation::gridfs::{
                GridFsBucketOptionsBuilder, GridFsDownloadByNameOptionsBuilder,
                GridFsDownloadOptionsBuilder, GridFsFindOneOptionsBuilder,
                GridFsFindOptionsBuilder, GridFsUploadOptionsBuilder, GridFsWriteOptionsBuilder,
            },
            operation::{SessionOptionsBuilder, TransactionOptionsBuilder},
            options::{
                ClientOptionsBuilder, CollationBuilder, CredentialBuilder, DriverInfoBuilder,
                HedgedReadOptionsBuilder, ReadPreferenceOptionsBuilder, ServerApiBuilder,
                Socks5ProxyBuilder, TlsOptionsBuilder, WriteConcernBuilder,
            },
        };
    }
}

/// DNS queries and answers, and the configuration of the built-in resolver.
pub mod dns {
    #[cfg(feature = "dns")]
    pub use crate::resolver::built_in::BuiltInResolver;
    pub use onionskin_core::dns::{DnsAnswer, DnsData, DnsQuery, RecordKind};
    #[cfg(feature = "dns")]
    pub use onionskin_core::dns::{HostsFile, ResolverConfig};
}

/// Errors, and the facts that they carry: what failed, on which server, and who is responsible.
pub mod error {
    pub use onionskin_core::error::{
        Argument, BsonError, BulkWriteError, CommandError, CustomError, DnsFailure, Error,
        ErrorKind, GridFsErrorKind, GridFsFileIdentifier, IndexedWriteError, InsertManyError,
        IoError, Label, Labels, NO_WRITES_PERFORMED, NetworkFault, PartialBulkWriteResult,
        PartialInsert, RESUMABLE_CHANGE_STREAM_ERROR, RETRYABLE_ERROR, RETRYABLE_WRITE_ERROR,
        Responsible, Result, SYSTEM_OVERLOADED_ERROR, TRANSIENT_TRANSACTION_ERROR, TlsFault,
        TopologyVersion, UNKNOWN_TRANSACTION_COMMIT_RESULT, UriPart, Wait, WriteConcernError,
        WriteError, WriteFailure,
    };
}

/// Change streams, and the types of their events.
pub mod change_stream {
    pub use crate::streams::{ChangeStream, SessionChangeStream};

    /// The events of change streams.
    pub mod event {
        pub use onionskin_core::operation::crud::{
            ChangeNamespace, ChangeNamespaceType, ChangeStreamEvent, OperationType, ResumeToken,
            TruncatedArray, UpdateDescription,
        };
    }

    /// Change streams of sessions.
    pub mod session {
        pub use crate::streams::{SessionChangeStream, SessionChangeStreamValues};
    }
}

/// The results of operations.
pub mod results {
    pub use onionskin_core::operation::crud::{
        BulkWriteResult, CollectionSpecification, CollectionSpecificationInfo, CollectionType,
        CreateIndexResult, CreateIndexesResult, DatabaseSpecification, DeleteResult,
        InsertManyResult, InsertOneResult, SummaryBulkWriteResult, UpdateResult,
        VerboseBulkWriteResult,
    };
}

/// Events of a client, and the descriptions of servers and topologies that they carry.
pub mod event {
    pub use crate::events::EventListener;
    pub use onionskin_core::{
        description::{
            OpTime, ServerDescription, ServerType, Tags, TopologyDescription, TopologyId,
            TopologyType,
        },
        event::*,
        options::EventHandler,
        time::{Instant, WallTime},
    };

    pub use onionskin_core::event::handlers::{cmap, command};

    /// The events of server discovery and monitoring.
    pub mod sdam {
        pub use onionskin_core::{
            description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
            event::handlers::sdam::*,
        };
    }
}

/// Recordings of clients, and their replays.
pub mod recording {
    pub use onionskin_core::client::{Recording, RecordingOptions, Replay, ReplayedStep, Verdict};
}

/// The types of programs, which are operations of one or more commands, for
/// [`Client::run_program`].
pub mod program {
    pub use onionskin_core::{
        bson::DocumentWriter,
        client::{ConnectionFacts, ConnectionId, Finding, Inquiry, Outcome, SessionId, SocketId},
        description::ServerId,
        http::{HttpRequest, HttpResponse},
        operation::{
            Abandoned, Ask, CLOSE_LIMIT, Command, CommandKind, Cursor, CursorResources, Decode,
            DocumentList, Exchange, OperationId, Pin, PinnedFor, Portion, Prepared, Program, Reply,
            RetryAs, SessionUse, Single, Step,
        },
        options::{ProviderCall, Supplied},
    };
}
