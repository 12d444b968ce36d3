//! Options of reads.

use super::{CursorType, Hint};
use crate::operation::TimeoutMode;
use crate::options::{Collation, ReadConcern, SelectionCriteria, WriteConcern, options};
use bson::{Bson, Document};
use std::time::Duration;

options! { ($)
    /// Options of `find`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::FindOptions;
    /// use std::time::Duration;
    ///
    /// // The ten youngest people, within two seconds.
    /// let options = FindOptions::builder()
    ///     .projection(doc! { "name": 1, "born": 1 })
    ///     .sort(doc! { "born": -1 })
    ///     .limit(10)
    ///     .timeout(Duration::from_secs(2))
    ///     .build();
    /// assert_eq!(options.limit, Some(10));
    /// assert_eq!(options.skip, None);
    /// ```
    FindOptions, built by FindOptionsBuilder, listed by find_options => {
        /// Sets whether the server may use temporary files for a large sort. From server 4.4 on.
        allow_disk_use: bool => Body "allowDiskUse",
        /// Sets whether mongos returns what it finds if a shard is unavailable, instead of an
        /// error.
        allow_partial_results: bool => Body "allowPartialResults",
        /// Sets the maximum number of documents per batch. Default, also for zero: chosen by the
        /// server. With a negative `limit` there is one batch.
        batch_size: u32 => Kept "batchSize",
        /// Sets the rules by which texts are compared.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        comment: Bson => Body "comment" (into),
        /// Sets the type of the cursor. Default: the cursor ends with the last document.
        cursor_type: CursorType => Kept "cursorType",
        /// Sets the index that the server uses.
        hint: Hint => Body "hint",
        /// Sets variables that the filter can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets the largest number of documents; zero for all. With a negative number, the server
        /// returns one batch of at most its absolute value.
        limit: i64 => Kept "limit",
        /// Sets the exclusive upper bound of the keys of the index in `hint`.
        max: Document => Body "max",
        /// Sets how long the server waits for new documents before it answers a `getMore` of a
        /// cursor of the type `TailableAwait`, in whole milliseconds. Ignored for other cursors, as
        /// the CRUD specification demands.
        max_await_time: Duration => Kept "maxAwaitTimeMS" as "crate::options::millis",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets the inclusive lower bound of the keys of the index in `hint`.
        min: Document => Body "min",
        /// Sets whether the server keeps an idle cursor open. Default: it closes the cursor after
        /// ten minutes.
        no_cursor_timeout: bool => Body "noCursorTimeout",
        /// Sets the fields that are returned. Default: all.
        projection: Document => Body "projection",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the read concern. Default: that of the collection.
        read_concern: ReadConcern => Kept "readConcern",
        /// Sets whether only the keys of the index are returned.
        return_key: bool => Body "returnKey",
        /// Sets how the server is selected. Default: the read preference of the collection.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets whether each document gets the field `$recordId`.
        show_record_id: bool => Body "showRecordId",
        /// Sets the number of documents to leave out at the beginning. Default: zero.
        skip: u64 => Body "skip",
        /// Sets the order of the documents. Default: none.
        sort: Document => Body "sort",
        /// Sets the time limit of the operation: server selections, check-outs, exchanges and
        /// retries. Unless `timeout_mode` or a tailable cursor makes it a limit of each iteration,
        /// every `getMore` of the cursor is included. The time starts when the call is awaited, and
        /// also counts while the cursor is not read. After the limit, the cursor returns the
        /// documents that were fetched before and then a timeout error. Default: that of the
        /// handle, or else `timeoutMS` of the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the scope of `timeout`: the call with all batches of its cursor, or the call and
        /// then each `next` of the cursor. Fails without a time limit. Default: with all batches,
        /// except for tailable cursors.
        timeout_mode: TimeoutMode => Kept "timeoutMode",
    }

    /// Options of `find_one`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{FindOneOptions, Hint};
    ///
    /// let options = FindOneOptions::builder()
    ///     .sort(doc! { "born": 1 })
    ///     .projection(doc! { "name": 1 })
    ///     .hint(Hint::from("born_1"))
    ///     .build();
    /// assert_eq!(options.projection, Some(doc! { "name": 1 }));
    /// ```
    FindOneOptions, built by FindOneOptionsBuilder, listed by find_one_options => {
        /// Sets whether mongos returns what it finds if a shard is unavailable, instead of an
        /// error.
        allow_partial_results: bool => Body "allowPartialResults",
        /// Sets the rules by which texts are compared.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses.
        hint: Hint => Body "hint",
        /// Sets variables that the filter can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets the exclusive upper bound of the keys of the index in `hint`.
        max: Document => Body "max",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets the inclusive lower bound of the keys of the index in `hint`.
        min: Document => Body "min",
        /// Sets the fields that are returned. Default: all.
        projection: Document => Body "projection",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the read concern. Default: that of the collection.
        read_concern: ReadConcern => Kept "readConcern",
        /// Sets whether only the keys of the index are returned.
        return_key: bool => Body "returnKey",
        /// Sets how the server is selected. Default: the read preference of the collection.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets whether the document gets the field `$recordId`.
        show_record_id: bool => Body "showRecordId",
        /// Sets the number of documents to leave out at the beginning. Default: zero.
        skip: u64 => Body "skip",
        /// Sets the order of the documents, of which the first is returned. Default: none.
        sort: Document => Body "sort",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `count_documents`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{CountOptions, Hint};
    /// use std::time::Duration;
    ///
    /// // The server counts one thousand documents at most.
    /// let options = CountOptions::builder()
    ///     .limit(1_000)
    ///     .hint(Hint::from(doc! { "active": 1 }))
    ///     .timeout(Duration::from_secs(1))
    ///     .build();
    /// assert_eq!(options.limit, Some(1_000));
    /// ```
    CountOptions, built by CountOptionsBuilder, listed by count_options => {
        /// Sets the rules by which texts are compared.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses.
        hint: Hint => Body "hint",
        /// Sets the largest number of documents to count; zero for all.
        limit: u64 => Kept "limit",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the read concern. Default: that of the collection.
        read_concern: ReadConcern => Kept "readConcern",
        /// Sets how the server is selected. Default: the read preference of the collection.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets the number of documents to leave out before counting. Default: zero.
        skip: u64 => Kept "skip",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `estimated_document_count`. All are unset by default.
    ///
    /// ```
    /// use bson::Bson;
    /// use onionskin_core::operation::crud::EstimatedDocumentCountOptions;
    /// use onionskin_core::options::{ReadPreference, SelectionCriteria};
    ///
    /// let options = EstimatedDocumentCountOptions::builder()
    ///     .selection_criteria(SelectionCriteria::from(ReadPreference::nearest(None)))
    ///     .comment(Bson::from("dashboard"))
    ///     .build();
    /// assert_eq!(options.comment, Some(Bson::from("dashboard")));
    /// ```
    EstimatedDocumentCountOptions, built by EstimatedDocumentCountOptionsBuilder,
    listed by estimated_document_count_options => {
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// Servers before 4.4.14 take a string only.
        comment: Bson => Body "comment" (into),
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the read concern. Default: that of the collection.
        read_concern: ReadConcern => Kept "readConcern",
        /// Sets how the server is selected. Default: the read preference of the collection.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `distinct`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::DistinctOptions;
    /// use onionskin_core::options::{Collation, CollationStrength, ReadConcern};
    ///
    /// // "Paris" and "PARIS" are one value.
    /// let without_case =
    ///     Collation::builder().locale("fr").strength(CollationStrength::Secondary).build();
    /// let options = DistinctOptions::builder()
    ///     .collation(without_case)
    ///     .read_concern(ReadConcern::majority())
    ///     .build();
    /// assert_eq!(options.read_concern, Some(ReadConcern::majority()));
    /// ```
    DistinctOptions, built by DistinctOptionsBuilder, listed by distinct_options => {
        /// Sets the rules by which texts are compared.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// Servers before 4.4.14 take a string only.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses. From server 7.1 on.
        hint: Hint => Body "hint",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the read concern. Default: that of the collection.
        read_concern: ReadConcern => Kept "readConcern",
        /// Sets how the server is selected. Default: the read preference of the collection.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `aggregate`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::{TimeoutMode, crud::AggregateOptions};
    /// use std::time::Duration;
    ///
    /// // The pipeline reads the variable as `$$year`. Each `next` of the cursor has five seconds.
    /// let options = AggregateOptions::builder()
    ///     .allow_disk_use(true)
    ///     .batch_size(500)
    ///     .let_vars(doc! { "year": 2026 })
    ///     .timeout(Duration::from_secs(5))
    ///     .timeout_mode(TimeoutMode::Iteration)
    ///     .build();
    /// assert_eq!(options.batch_size, Some(500));
    /// ```
    AggregateOptions, built by AggregateOptionsBuilder, listed by aggregate_options => {
        /// Sets whether the server may use temporary files for a large sort or group.
        allow_disk_use: bool => Body "allowDiskUse",
        /// Sets the maximum number of documents per batch. Default: chosen by the server. Not sent
        /// for a pipeline that ends with `$out` or `$merge`.
        batch_size: u32 => Kept "batchSize",
        /// Sets whether `$out` and `$merge` leave out the validation of documents.
        bypass_document_validation: bool => Body "bypassDocumentValidation",
        /// Sets the rules by which texts are compared.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses.
        hint: Hint => Body "hint",
        /// Sets variables that the pipeline can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets how long the server waits for new documents before it answers a `getMore` of a
        /// cursor that waits, in whole milliseconds.
        max_await_time: Duration => Kept "maxAwaitTimeMS" as "crate::options::millis",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the read concern. Default: that of the collection or database.
        read_concern: ReadConcern => Kept "readConcern",
        /// Sets how the server is selected. Default: the read preference of the collection or
        /// database. A pipeline that ends with `$out` or `$merge` runs on the primary while an
        /// available server is older than 5.0 (SEL-34).
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets the time limit of the operation: server selections, check-outs, exchanges and
        /// retries. Unless `timeout_mode` or a tailable cursor makes it a limit of each iteration,
        /// every `getMore` of the cursor is included. The time starts when the call is awaited, and
        /// also counts while the cursor is not read. After the limit, the cursor returns the
        /// documents that were fetched before and then a timeout error. Default: that of the
        /// handle, or else `timeoutMS` of the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the scope of `timeout`: the call with all batches of its cursor, or the call and
        /// then each `next` of the cursor. Fails without a time limit. Default: with all batches,
        /// except for tailable cursors.
        timeout_mode: TimeoutMode => Kept "timeoutMode",
        /// Sets the write concern of `$out` and `$merge`. Default: that of the collection or
        /// database. Not sent for other pipelines.
        write_concern: WriteConcern => Kept "writeConcern",
    }
}

/// Makes the options of a `find` that returns one document at most.
impl From<FindOneOptions> for FindOptions {
    fn from(options: FindOneOptions) -> Self {
        let FindOneOptions {
            allow_partial_results,
            collation,
            comment,
            hint,
            let_vars,
            max,
            max_time,
            min,
            projection,
            raw_data,
            read_concern,
            return_key,
            selection_criteria,
            show_record_id,
            skip,
            sort,
            timeout,
        } = options;
        Self {
            allow_partial_results,
            collation,
            comment,
            hint,
            let_vars,
            max,
            max_time,
            min,
            projection,
            raw_data,
            read_concern,
            return_key,
            selection_criteria,
            show_record_id,
            skip,
            sort,
            timeout,
            limit: Some(-1),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn the_options_of_find_one_become_those_of_find() {
        let options = FindOneOptions::builder()
            .sort(doc! { "born": 1 })
            .skip(2)
            .timeout(Duration::from_secs(3))
            .build();
        let expected = FindOptions::builder()
            .sort(options.sort.clone())
            .skip(2)
            .timeout(Duration::from_secs(3))
            .limit(-1)
            .build();
        assert_eq!(FindOptions::from(options), expected);
    }
}
