//! Options of the handles of collections and databases.

use crate::options::{ReadConcern, SelectionCriteria, WriteConcern, options};
use std::time::Duration;

options! { ($)
    /// The options that a handle of a collection passes on to its calls. `None` means those of the
    /// database.
    ///
    /// ```
    /// use onionskin_core::operation::crud::CollectionOptions;
    /// use onionskin_core::options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
    /// use std::time::Duration;
    ///
    /// let options = CollectionOptions::builder()
    ///     .selection_criteria(SelectionCriteria::from(ReadPreference::secondary_preferred(None)))
    ///     .read_concern(ReadConcern::majority())
    ///     .write_concern(WriteConcern::majority())
    ///     .timeout(Duration::from_secs(10))
    ///     .build();
    /// assert_eq!(options.read_concern, Some(ReadConcern::majority()));
    /// ```
    CollectionOptions, built by CollectionOptionsBuilder, listed by collection_options => {
        /// The read concern.
        read_concern: ReadConcern => Kept "readConcern",
        /// How servers are selected for reads.
        selection_criteria: SelectionCriteria => Kept "readPreference" (into),
        /// The time limit of operations. Zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// The write concern.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// The options that a handle of a database passes on to its calls and collections. `None` means
    /// those of the client.
    ///
    /// ```
    /// use onionskin_core::operation::crud::DatabaseOptions;
    /// use onionskin_core::options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
    /// use std::time::Duration;
    ///
    /// let options = DatabaseOptions::builder()
    ///     .selection_criteria(SelectionCriteria::from(ReadPreference::secondary_preferred(None)))
    ///     .read_concern(ReadConcern::majority())
    ///     .write_concern(WriteConcern::majority())
    ///     .timeout(Duration::from_secs(10))
    ///     .build();
    /// assert_eq!(options.read_concern, Some(ReadConcern::majority()));
    /// ```
    DatabaseOptions, built by DatabaseOptionsBuilder, listed by database_options => {
        /// The read concern.
        read_concern: ReadConcern => Kept "readConcern",
        /// How servers are selected for reads.
        selection_criteria: SelectionCriteria => Kept "readPreference" (into),
        /// The time limit of operations. Zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// The write concern.
        write_concern: WriteConcern => Kept "writeConcern",
    }
}
