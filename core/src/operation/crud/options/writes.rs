//! Options of writes.

use super::{Hint, ReturnDocument};
use crate::options::{Collation, WriteConcern, options};
use bson::{Bson, Document};
use std::time::Duration;

options! { ($)
    /// Options of `insert_one`. All are unset by default.
    ///
    /// ```
    /// use bson::Bson;
    /// use onionskin_core::{operation::crud::InsertOneOptions, options::WriteConcern};
    ///
    /// let options = InsertOneOptions::builder()
    ///     .write_concern(WriteConcern::majority())
    ///     .comment(Bson::from("sign-up"))
    ///     .build();
    /// assert_eq!(options.write_concern, Some(WriteConcern::majority()));
    /// ```
    InsertOneOptions, built by InsertOneOptionsBuilder, listed by insert_one_options => {
        /// Sets whether the server leaves out the validation of the document.
        bypass_document_validation: bool => Body "bypassDocumentValidation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
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

    /// Options of `insert_many`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::{operation::crud::InsertManyOptions, options::WriteConcern};
    /// use std::time::Duration;
    ///
    /// // The import goes on after a document that fails, and fails after one minute.
    /// let options = InsertManyOptions::builder()
    ///     .ordered(false)
    ///     .write_concern(WriteConcern::nodes(1))
    ///     .timeout(Duration::from_secs(60))
    ///     .build();
    /// assert_eq!(options.ordered, Some(false));
    /// ```
    InsertManyOptions, built by InsertManyOptionsBuilder, listed by insert_many_options => {
        /// Sets whether the server leaves out the validation of the documents.
        bypass_document_validation: bool => Body "bypassDocumentValidation",
        /// Sets a value by which the commands are found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets whether the insert ends with the first document that fails. Default: true.
        ordered: bool => Kept "ordered",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the time limit of the whole operation with all its commands: server selections,
        /// check-outs, exchanges and retries. Default: that of the handle, or else `timeoutMS` of
        /// the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the write concern. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of the bulk write of a client or of a collection. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::BulkWriteOptions;
    ///
    /// // Pipelines, and `$expr` in filters, read the variable as `$$limit`.
    /// let options = BulkWriteOptions::builder()
    ///     .ordered(false)
    ///     .let_vars(doc! { "limit": 100 })
    ///     .build();
    /// assert_eq!(options.ordered, Some(false));
    /// ```
    BulkWriteOptions, built by BulkWriteOptionsBuilder, listed by bulk_write_options => {
        /// Sets whether the server leaves out the validation of documents.
        bypass_document_validation: bool => Body "bypassDocumentValidation",
        /// Sets a value by which the commands are found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets variables that filters and pipelines can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets whether the bulk write ends with the first operation that fails. Default: true.
        ordered: bool => Kept "ordered",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the time limit of the whole bulk write with all its commands: server selections,
        /// check-outs, exchanges and retries. Default: that of the handle, or else `timeoutMS` of
        /// the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the write concern. Default: that of the client or collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `update_one` and `update_many`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{Hint, UpdateOptions};
    /// use onionskin_core::options::WriteConcern;
    ///
    /// // For an update such as `{ "$set": { "grades.$[low]": 5 } }`.
    /// let options = UpdateOptions::builder()
    ///     .array_filters(vec![doc! { "low": { "$lt": 5 } }])
    ///     .hint(Hint::from("name_1"))
    ///     .write_concern(WriteConcern::majority())
    ///     .build();
    /// assert_eq!(options.upsert, None);
    /// ```
    UpdateOptions, built by UpdateOptionsBuilder, listed by update_options => {
        /// Sets the filters of the array elements that the operators `$[name]` change.
        array_filters: Vec<Document> => Statement "arrayFilters" (list),
        /// Sets whether the server leaves out the validation of documents.
        bypass_document_validation: bool => Body "bypassDocumentValidation",
        /// Sets the rules by which texts are compared.
        collation: Collation => Statement "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses.
        hint: Hint => Statement "hint",
        /// Sets variables that the filter and a pipeline can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the order of the documents, of which `update_one` changes the first. From server
        /// 8.0 on. `update_many` refuses it.
        sort: Document => Statement "sort",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets whether a document is inserted if none matches. Default: false.
        upsert: bool => Statement "upsert",
        /// Sets the write concern. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `replace_one`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::ReplaceOptions;
    /// use onionskin_core::options::{Collation, WriteConcern};
    ///
    /// let options = ReplaceOptions::builder()
    ///     .upsert(true)
    ///     .collation(Collation::builder().locale("de").build())
    ///     .write_concern(WriteConcern::majority())
    ///     .build();
    /// assert_eq!(options.upsert, Some(true));
    /// ```
    ReplaceOptions, built by ReplaceOptionsBuilder, listed by replace_options => {
        /// Sets whether the server leaves out the validation of the document.
        bypass_document_validation: bool => Body "bypassDocumentValidation",
        /// Sets the rules by which texts are compared.
        collation: Collation => Statement "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses.
        hint: Hint => Statement "hint",
        /// Sets variables that the filter can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the order of the documents, of which the first is replaced. From server 8.0 on.
        sort: Document => Statement "sort",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets whether a document is inserted if none matches. Default: false.
        upsert: bool => Statement "upsert",
        /// Sets the write concern. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `delete_one` and `delete_many`. All are unset by default.
    ///
    /// ```
    /// use bson::{Bson, doc};
    /// use onionskin_core::operation::crud::{DeleteOptions, Hint};
    /// use std::time::Duration;
    ///
    /// let options = DeleteOptions::builder()
    ///     .hint(Hint::from(doc! { "active": 1 }))
    ///     .comment(Bson::from("clean-up"))
    ///     .timeout(Duration::from_secs(30))
    ///     .build();
    /// assert_eq!(options.timeout, Some(Duration::from_secs(30)));
    /// ```
    DeleteOptions, built by DeleteOptionsBuilder, listed by delete_options => {
        /// Sets the rules by which texts are compared.
        collation: Collation => Statement "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses. From server 4.4 on.
        hint: Hint => Statement "hint",
        /// Sets variables that the filter can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
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

    /// Options of `find_one_and_delete`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::FindOneAndDeleteOptions;
    ///
    /// let options = FindOneAndDeleteOptions::builder()
    ///     .sort(doc! { "priority": -1 })
    ///     .projection(doc! { "task": 1 })
    ///     .build();
    /// assert_eq!(options.sort, Some(doc! { "priority": -1 }));
    /// ```
    FindOneAndDeleteOptions, built by FindOneAndDeleteOptionsBuilder,
    listed by find_one_and_delete_options => {
        /// Sets the rules by which texts are compared.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses. From server 4.4 on.
        hint: Hint => Body "hint",
        /// Sets variables that the filter can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets the fields that are returned. Default: all.
        projection: Document => Body "fields",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets the order of the documents, of which the first is deleted.
        sort: Document => Body "sort",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets the write concern, which cannot be `w: 0`. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `find_one_and_replace`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{FindOneAndReplaceOptions, ReturnDocument};
    ///
    /// let options = FindOneAndReplaceOptions::builder()
    ///     .return_document(ReturnDocument::After)
    ///     .projection(doc! { "_id": 1 })
    ///     .upsert(true)
    ///     .build();
    /// assert_eq!(options.return_document, Some(ReturnDocument::After));
    /// ```
    FindOneAndReplaceOptions, built by FindOneAndReplaceOptionsBuilder,
    listed by find_one_and_replace_options => {
        /// Sets whether the server leaves out the validation of the document.
        bypass_document_validation: bool => Body "bypassDocumentValidation",
        /// Sets the rules by which texts are compared.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses. From server 4.4 on.
        hint: Hint => Body "hint",
        /// Sets variables that the filter can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets the fields that are returned. Default: all.
        projection: Document => Body "fields",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets which state of the document is returned. Default: that before the write.
        return_document: ReturnDocument => Body "new",
        /// Sets the order of the documents, of which the first is replaced.
        sort: Document => Body "sort",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets whether a document is inserted if none matches. Default: false.
        upsert: bool => Body "upsert",
        /// Sets the write concern, which cannot be `w: 0`. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of `find_one_and_update`. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{FindOneAndUpdateOptions, ReturnDocument};
    ///
    /// // Takes the oldest job, and returns it as it is after the update.
    /// let options = FindOneAndUpdateOptions::builder()
    ///     .sort(doc! { "created": 1 })
    ///     .return_document(ReturnDocument::After)
    ///     .build();
    /// assert_eq!(options.return_document, Some(ReturnDocument::After));
    /// ```
    FindOneAndUpdateOptions, built by FindOneAndUpdateOptionsBuilder,
    listed by find_one_and_update_options => {
        /// Sets the filters of the array elements that the operators `$[name]` change.
        array_filters: Vec<Document> => Body "arrayFilters" (list),
        /// Sets whether the server leaves out the validation of the document.
        bypass_document_validation: bool => Body "bypassDocumentValidation",
        /// Sets the rules by which texts are compared.
        collation: Collation => Body "collation",
        /// Sets a value by which the command is found in logs and in the profiler of the server.
        /// From server 4.4 on.
        comment: Bson => Body "comment" (into),
        /// Sets the index that the server uses. From server 4.4 on.
        hint: Hint => Body "hint",
        /// Sets variables that the filter and a pipeline can use as `$$name`. From server 5.0 on.
        let_vars: Document => Body "let",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets the fields that are returned. Default: all.
        projection: Document => Body "fields",
        /// Sets whether the command sees the stored buckets of a time series collection instead of
        /// its documents. Only for internal use by MongoDB: it can change or disappear at any time.
        /// Not sent to servers before 8.2.
        raw_data: bool => Kept "rawData",
        /// Sets which state of the document is returned. Default: that before the write.
        return_document: ReturnDocument => Body "new",
        /// Sets the order of the documents, of which the first is updated.
        sort: Document => Body "sort",
        /// Sets the time limit of the whole operation: server selection, check-out, exchange and
        /// retries. Default: that of the handle, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// Sets whether a document is inserted if none matches. Default: false.
        upsert: bool => Body "upsert",
        /// Sets the write concern, which cannot be `w: 0`. Default: that of the collection.
        write_concern: WriteConcern => Kept "writeConcern",
    }
}
