//! Options of change streams.

use super::super::ResumeToken;
use crate::options::{Collation, ReadConcern, SelectionCriteria, open_names, options};
use bson::{Bson, Timestamp};
use std::time::Duration;

open_names! {
    /// The document that an event of an update has, besides the description of the update
    /// (`fullDocument`).
    FullDocumentType {
        /// No document. The default.
        Default = "default",
        /// The newest document that a majority of the members has, which later updates can have
        /// changed. There is none if the document was deleted meanwhile.
        UpdateLookup = "updateLookup",
        /// The document right after the update, if the collection keeps it
        /// (`changeStreamPreAndPostImages`). From server 6.0 on.
        WhenAvailable = "whenAvailable",
        /// The document right after the update. The stream fails if the collection does not keep
        /// it. From server 6.0 on.
        Required = "required",
    }

    /// The document from before the change that an event has (`fullDocumentBeforeChange`). From
    /// server 6.0 on.
    FullDocumentBeforeChangeType {
        /// No document. The default.
        Off = "off",
        /// The document, if the collection keeps it (`changeStreamPreAndPostImages`).
        WhenAvailable = "whenAvailable",
        /// The document. The stream fails if the collection does not keep it.
        Required = "required",
    }
}

options! { ($)
    /// Options of `watch`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::{
    ///     ChangeStreamOptions, FullDocumentBeforeChangeType, FullDocumentType,
    /// };
    /// use std::time::Duration;
    ///
    /// // Events of updates have the newest document, and the one before the update if it is kept.
    /// let options = ChangeStreamOptions::builder()
    ///     .full_document(FullDocumentType::UpdateLookup)
    ///     .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
    ///     .max_await_time(Duration::from_secs(10))
    ///     .build();
    /// assert_eq!(options.full_document, Some(FullDocumentType::UpdateLookup));
    /// ```
    ChangeStreamOptions, built by ChangeStreamOptionsBuilder, listed by change_stream_options => {
        /// Sets the maximum number of events per batch. Default: chosen by the server.
        batch_size: u32 => Kept "batchSize",
        /// Sets the rules by which the pipeline compares texts.
        collation: Collation => Body "collation",
        /// Sets a value by which the commands of the stream are found in logs and in the profiler
        /// of the server.
        comment: Bson => Body "comment" (into),
        /// Sets the document that an event of an update has. Default: none, only the description
        /// of the update.
        full_document: FullDocumentType => Stage "fullDocument",
        /// Sets the document from before the change that an event has. Default: none. From server
        /// 6.0 on.
        full_document_before_change: FullDocumentBeforeChangeType
            => Stage "fullDocumentBeforeChange",
        /// Sets whether events that are too large for a document arrive in parts, which the stream
        /// joins to one event. Adds the stage `$changeStreamSplitLargeEvent` to the pipeline.
        /// Default: such an event is an error. From server 7.0 on.
        join_split_events: bool => Kept "joinSplitEvents",
        /// Sets how long the server waits for new events before it answers a `getMore`, in whole
        /// milliseconds. Default: chosen by the server.
        max_await_time: Duration => Kept "maxAwaitTimeMS" as "crate::options::millis",
        /// Sets the read concern, which must be `majority`. Default: that of the handle.
        read_concern: ReadConcern => Kept "readConcern",
        /// Sets the token of the event after which the stream resumes.
        resume_after: ResumeToken => Kept "resumeAfter" (option),
        /// Sets how the server is selected. Default: the read preference of the handle.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets whether the stream has events of indexes, of options and of the creation of
        /// collections as well. From server 6.0 on.
        show_expanded_events: bool => Stage "showExpandedEvents",
        /// Sets the token of the event after which the stream starts. The event can be that which
        /// has invalidated an earlier stream.
        start_after: ResumeToken => Kept "startAfter",
        /// Sets the time at which the stream starts. Events of that time are included.
        start_at_operation_time: Timestamp => Kept "startAtOperationTime",
        /// Sets the time limit of the call, and then of each `next` of the stream with all that it
        /// does to resume. After a timeout error, the stream resumes with the next call of `next`.
        /// If no event was received yet, start a new stream with a longer limit instead: the server
        /// may need more time to search its oplog. Default: that of the handle, or else `timeoutMS`
        /// of the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }
}
