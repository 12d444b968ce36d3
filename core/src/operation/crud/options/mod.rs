//! The options of calls, each declared as one row of a table.

mod handles;
mod reads;
mod schema;
mod schema_values;
mod search;
mod streams;
mod values;
mod writes;

pub use handles::{
    CollectionOptions, CollectionOptionsBuilder, DatabaseOptions, DatabaseOptionsBuilder,
};
pub use reads::{
    AggregateOptions, AggregateOptionsBuilder, CountOptions, CountOptionsBuilder, DistinctOptions,
    DistinctOptionsBuilder, EstimatedDocumentCountOptions, EstimatedDocumentCountOptionsBuilder,
    FindOneOptions, FindOneOptionsBuilder, FindOptions, FindOptionsBuilder,
};
pub use schema::{
    CreateCollectionOptions, CreateCollectionOptionsBuilder, CreateIndexOptions,
    CreateIndexOptionsBuilder, DropCollectionOptions, DropCollectionOptionsBuilder,
    DropDatabaseOptions, DropDatabaseOptionsBuilder, DropIndexOptions, DropIndexOptionsBuilder,
    IndexOptions, IndexOptionsBuilder, ListCollectionsOptions, ListCollectionsOptionsBuilder,
    ListDatabasesOptions, ListDatabasesOptionsBuilder, ListIndexesOptions,
    ListIndexesOptionsBuilder, RenameCollectionOptions, RenameCollectionOptionsBuilder,
    RunCommandOptions, RunCommandOptionsBuilder, RunCursorCommandOptions,
    RunCursorCommandOptionsBuilder,
};
pub(crate) use schema_values::write_seconds;
pub use schema_values::{
    ChangeStreamPreAndPostImages, ChangeStreamPreAndPostImagesBuilder, ClusteredIndex,
    CommitQuorum, IndexOptionDefaults, IndexOptionDefaultsBuilder, IndexVersion,
    Sphere2DIndexVersion, TextIndexVersion, TimeseriesGranularity, TimeseriesOptions,
    TimeseriesOptionsBuilder, ValidationAction, ValidationLevel,
};
pub use search::{
    CreateSearchIndexOptions, CreateSearchIndexOptionsBuilder, DropSearchIndexOptions,
    DropSearchIndexOptionsBuilder, ListSearchIndexOptions, ListSearchIndexOptionsBuilder,
    UpdateSearchIndexOptions, UpdateSearchIndexOptionsBuilder,
};
pub use streams::{
    ChangeStreamOptions, ChangeStreamOptionsBuilder, FullDocumentBeforeChangeType, FullDocumentType,
};
pub use values::{CursorType, Hint, ReturnDocument, UpdateModifications};
pub use writes::{
    BulkWriteOptions, BulkWriteOptionsBuilder, DeleteOptions, DeleteOptionsBuilder,
    FindOneAndDeleteOptions, FindOneAndDeleteOptionsBuilder, FindOneAndReplaceOptions,
    FindOneAndReplaceOptionsBuilder, FindOneAndUpdateOptions, FindOneAndUpdateOptionsBuilder,
    InsertManyOptions, InsertManyOptionsBuilder, InsertOneOptions, InsertOneOptionsBuilder,
    ReplaceOptions, ReplaceOptionsBuilder, UpdateOptions, UpdateOptionsBuilder,
};

use crate::{
    error::Error,
    operation::{Command, CursorSettings, gridfs::GridFsBucketOptions},
    options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern},
};
use std::{sync::Arc, time::Duration};

/// The options that a handle passes on to its calls. They apply if a call sets none.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Defaults {
    /// How servers are selected for reads; `None` for the primary.
    selection_criteria: Option<SelectionCriteria>,
    /// The read concern; `None` for the default of the server.
    pub read_concern: Option<ReadConcern>,
    /// The write concern; `None` for the default of the server.
    pub write_concern: Option<WriteConcern>,
    /// The time limit of operations; `None` for `timeoutMS` of the client.
    pub timeout: Option<Duration>,
    /// The read preference of `selection_criteria`, which the calls share; `None` with a function.
    preference: Option<Arc<ReadPreference>>,
}

/// Makes the defaults of a handle of its options.
macro_rules! defaults {
    ($options:ty) => {
        impl From<$options> for Defaults {
            fn from(options: $options) -> Self {
                Self {
                    preference: match &options.selection_criteria {
                        Some(SelectionCriteria::ReadPreference(preference)) => {
                            Some(Arc::new(preference.clone()))
                        }
                        _ => None,
                    },
                    selection_criteria: options.selection_criteria,
                    read_concern: options.read_concern,
                    write_concern: options.write_concern,
                    timeout: options.timeout,
                }
            }
        }
    };
}

defaults!(CollectionOptions);
defaults!(DatabaseOptions);
defaults!(GridFsBucketOptions);

impl RunCursorCommandOptions {
    /// Returns the settings of the cursor. The `maxTimeMS` is that of each `getMore` ([RUN-33]).
    ///
    /// Fails if a `maxTimeMS` is set beside a time limit, except for a cursor that awaits new
    /// documents ([RUN-41]).
    ///
    /// [RUN-33]: crate::requirements::messages#RUN-33
    /// [RUN-41]: crate::requirements::messages#RUN-41
    pub fn cursor_settings(&self) -> Result<CursorSettings, Error> {
        let awaits = self.cursor_type == Some(CursorType::TailableAwait);
        if self.max_time.is_some() && self.timeout.is_some() && !awaits {
            return Err(Error::argument(
                "maxTimeMS of each getMore cannot be set beside timeoutMS, except for a cursor of \
                 the type tailableAwait; set only one of them",
            ));
        }
        Ok(CursorSettings {
            batch_size: self.batch_size,
            max_await_time: self.max_time,
            comment: self.comment.clone(),
            cursor_type: self.cursor_type,
            timeout_mode: self.timeout_mode,
            limit: None,
        })
    }
}

impl FindOptions {
    /// Returns how long the server waits for new documents before it answers a `getMore`. Only a
    /// cursor of the type [`TailableAwait`](CursorType::TailableAwait) waits; for others a server
    /// refuses the time.
    #[must_use]
    pub fn await_time(&self) -> Option<Duration> {
        let waits = self.cursor_type == Some(CursorType::TailableAwait);
        self.max_await_time.filter(|_| waits)
    }
}

impl Defaults {
    /// Returns these defaults, with what another handle sets in place of them.
    #[must_use]
    pub fn with(&self, own: Self) -> Self {
        let of_criteria = match own.selection_criteria {
            Some(_) => (own.preference, own.selection_criteria),
            None => (self.preference.clone(), self.selection_criteria.clone()),
        };
        let (preference, selection_criteria) = of_criteria;
        Self {
            preference,
            selection_criteria,
            read_concern: own.read_concern.or_else(|| self.read_concern.clone()),
            write_concern: own.write_concern.or_else(|| self.write_concern.clone()),
            timeout: own.timeout.or(self.timeout),
        }
    }

    /// Returns these defaults without the read concern and the write concern.
    pub(super) fn without_concerns(&self) -> Self {
        Self {
            read_concern: None,
            write_concern: None,
            ..self.clone()
        }
    }

    /// Sets the time limit of the operation.
    pub fn apply_timeout(&self, command: &mut Command, timeout: Option<Duration>) {
        command.0.request.own.timeout = timeout.is_some();
        command.set_timeout(timeout.or(self.timeout));
    }

    /// Sets how the server of a read is selected, and its read concern.
    pub(super) fn apply_to_read(
        &self,
        command: &mut Command,
        criteria: Option<&SelectionCriteria>,
        concern: Option<&ReadConcern>,
    ) {
        match (
            criteria.or(self.selection_criteria.as_ref()),
            &self.preference,
        ) {
            (_, Some(preference)) if criteria.is_none() => {
                command.set_read_preference(preference.clone());
            }
            (Some(criteria), _) => command.set_criteria(criteria),
            (None, _) => {}
        }
        command.set_read_concern(concern.or(self.read_concern.as_ref()).cloned());
        let own = &mut command.0.request.own;
        own.criteria = criteria.is_some();
        own.read_concern = concern.is_some();
    }

    /// Sets the write concern of a command whose reply is always read, also with `w: 0`, such as
    /// `renameCollection`. Fails for one that [no server could take](WriteConcern::validate).
    pub(super) fn apply_write_concern(
        &self,
        command: &mut Command,
        concern: Option<&WriteConcern>,
    ) -> Result<(), Error> {
        let request = &mut command.0.request;
        request.own.write_concern = concern.is_some();
        let concern = concern.or(self.write_concern.as_ref());
        request.set_write_concern(concern);
        concern.map_or(Ok(()), WriteConcern::validate)
    }

    /// Sets the write concern of a command such as `create`, which a causally consistent session
    /// orders after its earlier operations (Read and Write Concern, *afterClusterTime*).
    pub(super) fn apply_to_write(
        &self,
        command: &mut Command,
        concern: Option<&WriteConcern>,
    ) -> Result<(), Error> {
        command.set_read_concern(None);
        self.apply_write_concern(command, concern)
    }

    /// Sets the write concern of a command that writes documents, which has no reply with `w: 0`.
    pub(in crate::operation) fn apply_to_statements(
        &self,
        command: &mut Command,
        concern: Option<&WriteConcern>,
    ) -> Result<(), Error> {
        self.apply_to_write(command, concern)?;
        let concern = concern.or(self.write_concern.as_ref());
        if concern.is_some_and(|concern| !concern.is_acknowledged()) {
            command.set_unacknowledged();
        }
        Ok(())
    }

    /// Returns how servers are selected for reads; `None` for the primary.
    #[must_use]
    pub const fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.selection_criteria.as_ref()
    }

    /// Returns the read preference of a call.
    #[must_use]
    pub const fn read_preference(&self) -> Option<&Arc<ReadPreference>> {
        self.preference.as_ref()
    }
}
