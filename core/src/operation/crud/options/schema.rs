//! Options of indexes, collections and databases, and of commands of the application.

use super::{
    ChangeStreamPreAndPostImages, ClusteredIndex, CommitQuorum, CursorType, IndexOptionDefaults,
    IndexVersion, Sphere2DIndexVersion, TextIndexVersion, TimeseriesOptions, ValidationAction,
    ValidationLevel,
};
use crate::operation::TimeoutMode;
use crate::options::{Collation, SelectionCriteria, WriteConcern, options};
use bson::{Bson, Document};
use std::time::Duration;

options! { ($)
    /// Options of `run_command`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::RunCommandOptions;
    /// use onionskin_core::options::{ReadPreference, SelectionCriteria};
    /// use std::time::Duration;
    ///
    /// let options = RunCommandOptions::builder()
    ///     .selection_criteria(SelectionCriteria::from(ReadPreference::nearest(None)))
    ///     .timeout(Duration::from_secs(1))
    ///     .build();
    /// assert_eq!(options.timeout, Some(Duration::from_secs(1)));
    /// ```
    RunCommandOptions, built by RunCommandOptionsBuilder, listed by run_command_options => {
        /// Sets how the server is selected. Default: the primary.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        ///
        /// With a time limit, the driver sends `maxTimeMS`. If the command has this field itself,
        /// the field occurs twice, and the behaviour of the server is undefined (RUN-24).
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `run_cursor_command`. All are unset by default.
    ///
    /// ```
    /// use bson::Bson;
    /// use onionskin_core::operation::crud::RunCursorCommandOptions;
    ///
    /// let comment = Bson::from("nightly export");
    /// let options = RunCursorCommandOptions::builder().batch_size(100).comment(comment).build();
    /// assert_eq!(options.batch_size, Some(100));
    /// ```
    RunCursorCommandOptions, built by RunCursorCommandOptionsBuilder,
    listed by run_cursor_command_options => {
        /// Sets the maximum number of documents per further batch. Default: chosen by the server.
        batch_size: u32 => Kept "batchSize",
        /// Sets the comment of each `getMore`. The command itself has its own.
        comment: Bson => Kept "comment" (into),
        /// Names the type of the cursor, which the command itself has to demand. Nothing is sent
        /// for it.
        cursor_type: CursorType => Kept "cursorType",
        /// Sets the `maxTimeMS` of each `getMore`, in whole milliseconds: how long the server waits
        /// for new documents, for a cursor of the type `TailableAwait`. For other cursors the call
        /// fails if a `timeout` is set as well, and a time limit of the handle or the client is not
        /// supported beside it.
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets how the server is selected. Default: the primary.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets the time limit of the operation, by default with every `getMore` of its cursor (see
        /// `timeout_mode`). Default: that of the handle, or else `timeoutMS` of the client; zero
        /// means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the scope of `timeout`: the call with all batches of its cursor, or the call and
        /// then each `next` of the cursor. Fails without a time limit. Default: with all batches,
        /// except for tailable cursors.
        timeout_mode: TimeoutMode => Kept "timeoutMode",
    }

    /// Options of `create_index` and `create_indexes`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::{CommitQuorum, CreateIndexOptions};
    /// use onionskin_core::options::WriteConcern;
    ///
    /// let options = CreateIndexOptions::builder()
    ///     .commit_quorum(CommitQuorum::Majority)
    ///     .write_concern(WriteConcern::majority())
    ///     .build();
    /// assert_eq!(options.commit_quorum, Some(CommitQuorum::Majority));
    /// ```
    CreateIndexOptions, built by CreateIndexOptionsBuilder, listed by create_index_options => {
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the members that have to be ready before the primary completes the index. From
        /// server 4.4 on.
        commit_quorum: CommitQuorum => Body "commitQuorum",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the write concern. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `drop_index` and `drop_indexes`. All are unset by default.
    ///
    /// ```
    /// use bson::Bson;
    /// use onionskin_core::{operation::crud::DropIndexOptions, options::WriteConcern};
    ///
    /// let options = DropIndexOptions::builder()
    ///     .comment(Bson::from("release 3.1"))
    ///     .write_concern(WriteConcern::majority())
    ///     .build();
    /// assert_eq!(options.comment, Some(Bson::from("release 3.1")));
    /// ```
    DropIndexOptions, built by DropIndexOptionsBuilder, listed by drop_index_options => {
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the write concern. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `list_indexes` and `list_index_names`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::ListIndexesOptions;
    /// use std::time::Duration;
    ///
    /// let limit = Duration::from_secs(5);
    /// let options = ListIndexesOptions::builder().batch_size(20).timeout(limit).build();
    /// assert_eq!(options.batch_size, Some(20));
    /// ```
    ListIndexesOptions, built by ListIndexesOptionsBuilder, listed by list_indexes_options => {
        /// Sets the maximum number of documents per batch. Default: chosen by the server.
        batch_size: u32 => Cursor "batchSize",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the time limit of the operation, by default with every `getMore` of its cursor (see
        /// `timeout_mode`). Default: that of the handle, or else `timeoutMS` of the client; zero
        /// means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the scope of `timeout`: the call with all batches of its cursor, or the call and
        /// then each `next` of the cursor. Fails without a time limit. Default: with all batches,
        /// except for tailable cursors.
        timeout_mode: TimeoutMode => Kept "timeoutMode",
    }

    /// The options of an index. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{
    ///     IndexOptions, IndexVersion, Sphere2DIndexVersion, TextIndexVersion,
    /// };
    /// use onionskin_core::options::{Collation, CollationStrength};
    /// use std::time::Duration;
    ///
    /// // Deletes finished jobs an hour after the time in the field of the index.
    /// let finished = IndexOptions::builder()
    ///     .name("finished_jobs".to_owned())
    ///     .expire_after(Duration::from_secs(3_600))
    ///     .partial_filter_expression(doc! { "state": "done" })
    ///     .build();
    /// // No two people have the same name, letter case aside. Queries do not use the index yet.
    /// let names = IndexOptions::builder()
    ///     .collation(Collation::builder()
    ///         .locale("en")
    ///         .strength(CollationStrength::Secondary)
    ///         .build())
    ///     .unique(true)
    ///     .sparse(true)
    ///     .hidden(true)
    ///     .build();
    /// // A text in the title counts ten times as much as one elsewhere.
    /// let texts = IndexOptions::builder()
    ///     .weights(doc! { "title": 10 })
    ///     .default_language("german".to_owned())
    ///     .language_override("lang".to_owned())
    ///     .text_index_version(TextIndexVersion::V3)
    ///     .build();
    /// let points = IndexOptions::builder().bits(26).min(-180.0).max(180.0).build();
    /// let sphere = Sphere2DIndexVersion::V3;
    /// let places = IndexOptions::builder().sphere_2d_index_version(sphere).build();
    /// // All fields but one.
    /// let others = IndexOptions::builder()
    ///     .wildcard_projection(doc! { "notes": 0 })
    ///     .storage_engine(doc! { "wiredTiger": { "configString": "prefix_compression=false" } })
    ///     .version(IndexVersion::V2)
    ///     .build();
    /// // Old servers know these; `clustered` is set by servers only.
    /// let old = IndexOptions::builder().background(true).bucket_size(5).clustered(false).build();
    /// # let all = [finished, names, texts, points, places, others, old];
    /// # assert!(all.iter().all(|options| *options != IndexOptions::default()));
    /// ```
    IndexOptions, built by IndexOptionsBuilder, listed by index_options => {
        /// Whether the index is built in the background. Servers from 4.2 on ignore it.
        background: bool => Statement "background",
        /// The precision of a `2d` index in bits.
        bits: u32 => Statement "bits",
        /// The number of units in a bucket of a `geoHaystack` index.
        bucket_size: u32 => Statement "bucketSize",
        /// Whether the index is that of a clustered collection. Only servers set it.
        clustered: bool => Statement "clustered",
        /// The rules by which texts are compared.
        collation: Collation => Statement "collation",
        /// The language of a text index.
        default_language: String => Statement "default_language" (into),
        /// The age at which a TTL index deletes documents, in whole seconds.
        expire_after: Duration => Kept "expireAfterSeconds" as "crate::options::seconds",
        /// Whether queries ignore the index. From server 4.4 on.
        hidden: bool => Statement "hidden",
        /// The field that names the language of a document in a text index.
        language_override: String => Statement "language_override" (into),
        /// The exclusive upper bound of a `2d` index.
        max: f64 => Statement "max",
        /// The inclusive lower bound of a `2d` index.
        min: f64 => Statement "min",
        /// The name. Default: made of the keys, for example `age_1`.
        name: String => Kept "name" (into),
        /// The filter of the documents in the index.
        partial_filter_expression: Document => Statement "partialFilterExpression",
        /// Whether the index leaves out documents without its fields.
        sparse: bool => Statement "sparse",
        /// The version of a `2dsphere` index.
        sphere_2d_index_version: Sphere2DIndexVersion => Statement "2dsphereIndexVersion",
        /// Options of the storage engine.
        storage_engine: Document => Statement "storageEngine",
        /// The version of a text index.
        text_index_version: TextIndexVersion => Statement "textIndexVersion",
        /// Whether two documents cannot have the same keys.
        unique: bool => Statement "unique",
        /// The version of the index.
        version: IndexVersion => Statement "v",
        /// The weights of the fields of a text index.
        weights: Document => Statement "weights",
        /// The fields of a wildcard index.
        wildcard_projection: Document => Statement "wildcardProjection",
    }

    /// Options of `create_collection`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{CreateCollectionOptions, ValidationAction};
    ///
    /// // A log of one mebibyte. The server warns of documents without a text.
    /// let options = CreateCollectionOptions::builder()
    ///     .capped(true)
    ///     .size(1_048_576)
    ///     .validator(doc! { "text": { "$type": "string" } })
    ///     .validation_action(ValidationAction::Warn)
    ///     .build();
    /// assert_eq!(options.size, Some(1_048_576));
    /// ```
    CreateCollectionOptions, built by CreateCollectionOptionsBuilder,
    listed by create_collection_options => {
        /// Sets whether the collection has a fixed size. Such a collection needs a `size`.
        capped: bool => Body "capped",
        /// Sets whether change streams can return states before and after changes. From server 6.0
        /// on.
        change_stream_pre_and_post_images: ChangeStreamPreAndPostImages
            => Body "changeStreamPreAndPostImages",
        /// Sets the index by which the documents are stored. From server 5.3 on.
        clustered_index: ClusteredIndex => Body "clusteredIndex",
        /// Sets the rules by which texts are compared if a call sets none.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the age at which documents of a time series or clustered collection are deleted, in
        /// whole seconds.
        expire_after_seconds: Duration
            => Kept "expireAfterSeconds" as "crate::options::seconds",
        /// Sets the options of later indexes.
        index_option_defaults: IndexOptionDefaults => Body "indexOptionDefaults",
        /// Sets the maximum number of documents of a capped collection.
        max: u64 => Body "max",
        /// Sets the pipeline of a view.
        pipeline: Vec<Document> => Body "pipeline" (list),
        /// Sets the maximum size of a capped collection in bytes.
        size: u64 => Body "size",
        /// Sets options of the storage engine.
        storage_engine: Document => Body "storageEngine",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Makes the collection a time series. From server 5.0 on.
        timeseries: TimeseriesOptions => Body "timeseries",
        /// Sets what the server does with an invalid document.
        validation_action: ValidationAction => Body "validationAction",
        /// Sets which documents the server validates.
        validation_level: ValidationLevel => Body "validationLevel",
        /// Sets the rules that documents have to follow.
        validator: Document => Body "validator",
        /// Sets the collection or view from which a view is made.
        view_on: String => Body "viewOn" (into),
        /// Sets the write concern. Default: that of the database.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `Collection::drop`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::{operation::crud::DropCollectionOptions, options::WriteConcern};
    /// use std::time::Duration;
    ///
    /// let options = DropCollectionOptions::builder()
    ///     .write_concern(WriteConcern::majority())
    ///     .timeout(Duration::from_secs(30))
    ///     .build();
    /// assert_eq!(options.write_concern, Some(WriteConcern::majority()));
    /// ```
    DropCollectionOptions, built by DropCollectionOptionsBuilder,
    listed by drop_collection_options => {
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the write concern. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `Collection::rename`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::{operation::crud::RenameCollectionOptions, options::WriteConcern};
    ///
    /// let options = RenameCollectionOptions::builder()
    ///     .drop_target(true)
    ///     .write_concern(WriteConcern::majority())
    ///     .build();
    /// assert_eq!(options.drop_target, Some(true));
    /// ```
    RenameCollectionOptions, built by RenameCollectionOptionsBuilder,
    listed by rename_collection_options => {
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets whether a collection that has the new name is dropped before. Default: false.
        drop_target: bool => Body "dropTarget",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the write concern. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `Database::drop`. All are unset by default.
    ///
    /// ```
    /// use bson::Bson;
    /// use onionskin_core::{operation::crud::DropDatabaseOptions, options::WriteConcern};
    ///
    /// let options = DropDatabaseOptions::builder()
    ///     .comment(Bson::from("end of the test"))
    ///     .write_concern(WriteConcern::majority())
    ///     .build();
    /// assert_eq!(options.timeout, None);
    /// ```
    DropDatabaseOptions, built by DropDatabaseOptionsBuilder, listed by drop_database_options => {
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the write concern. Default: that of the database.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `list_collections` and `list_collection_names`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::ListCollectionsOptions;
    ///
    /// // The views that the user may access.
    /// let options = ListCollectionsOptions::builder()
    ///     .filter(doc! { "type": "view" })
    ///     .authorized_collections(true)
    ///     .build();
    /// assert_eq!(options.filter, Some(doc! { "type": "view" }));
    /// ```
    ListCollectionsOptions, built by ListCollectionsOptionsBuilder,
    listed by list_collections_options => {
        /// Sets whether only collections are listed that the user may access. A user without the
        /// privilege `listCollections` needs it for `list_collection_names`. For the other facts of
        /// `list_collections`, servers demand the privilege even so.
        authorized_collections: bool => Body "authorizedCollections",
        /// Sets the maximum number of documents per batch. Default: chosen by the server.
        batch_size: u32 => Cursor "batchSize",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the filter of the collections. Default: all.
        filter: Document => Kept "filter",
        /// Sets whether the command sees the stored buckets of time series collections instead of
        /// their documents. Only for internal use by MongoDB: it can change or disappear at any
        /// time. Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the time limit of the operation, by default with every `getMore` of its cursor (see
        /// `timeout_mode`). Default: that of the handle, or else `timeoutMS` of the client; zero
        /// means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the scope of `timeout`: the call with all batches of its cursor, or the call and
        /// then each `next` of the cursor. Fails without a time limit. Default: with all batches,
        /// except for tailable cursors.
        timeout_mode: TimeoutMode => Kept "timeoutMode",
    }

    /// Options of `list_databases` and `list_database_names`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::ListDatabasesOptions;
    ///
    /// let options = ListDatabasesOptions::builder()
    ///     .filter(doc! { "name": { "$regex": "^shop_" } })
    ///     .authorized_databases(true)
    ///     .build();
    /// assert_eq!(options.authorized_databases, Some(true));
    /// ```
    ListDatabasesOptions, built by ListDatabasesOptionsBuilder,
    listed by list_databases_options => {
        /// Sets whether only databases are listed that the user may access.
        authorized_databases: bool => Body "authorizedDatabases",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the filter of the databases. Default: all.
        filter: Document => Body "filter",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }
}
