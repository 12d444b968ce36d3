//! The options of transactions.

use super::crud::Defaults;
use crate::{
    error::Error,
    options::{ReadConcern, SelectionCriteria, WriteConcern, options},
};
use std::time::Duration;

options! { ($)
    /// The options of a transaction (Transactions Specification, *TransactionOptions*).
    ///
    /// An option that is not set is taken from the default of the session
    /// ([`SessionOptions::default_transaction_options`](super::SessionOptions)), then from the
    /// client. The options of databases and collections have no effect in a transaction.
    ///
    /// ```
    /// use onionskin_core::operation::TransactionOptions;
    /// use onionskin_core::options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
    /// use std::time::Duration;
    ///
    /// // The default of the client can be another preference, with which reads in transactions
    /// // fail.
    /// let options = TransactionOptions::builder()
    ///     .read_concern(ReadConcern::snapshot())
    ///     .write_concern(WriteConcern::majority())
    ///     .selection_criteria(SelectionCriteria::from(ReadPreference::Primary))
    ///     .max_commit_time(Duration::from_secs(5))
    ///     .build();
    /// assert_eq!(options.read_concern, Some(ReadConcern::snapshot()));
    /// ```
    TransactionOptions, built by TransactionOptionsBuilder, listed by transaction_options => {
        /// Sets the `maxTimeMS` of `commitTransaction`. A time limit of the commit supersedes it:
        /// that of the call, of the session or of the client (`timeoutMS`). Default: none.
        max_commit_time: Duration => Kept "maxCommitTimeMS" as "crate::options::millis",
        /// Sets the read concern of the transaction, which its first command sends. Default: that
        /// of the session, then that of the client.
        read_concern: ReadConcern => Kept "readConcern",
        /// Sets how the server of reads is selected. Reads fail unless it is the primary. Default:
        /// that of the session, then that of the client.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// Sets the write concern of `commitTransaction` and `abortTransaction`, which cannot be
        /// `w: 0`. Default: that of the session, then that of the client.
        write_concern: WriteConcern => Kept "writeConcern",
    }
}

impl TransactionOptions {
    /// Returns a copy to be kept by the core: without the function of the application, with which
    /// no read in a transaction runs. The core would drop the function while the client is locked.
    pub(crate) fn kept(&self) -> Self {
        let criteria = self.selection_criteria.clone();
        Self {
            selection_criteria: criteria.map(without_function),
            ..self.clone()
        }
    }

    /// Returns these options, with those of the session and then those of the client in place of
    /// options that are not set. Fails if the write concern is then unacknowledged.
    pub(crate) fn resolved(
        &self,
        of_session: Option<&Self>,
        of_client: &Defaults,
    ) -> Result<Self, Error> {
        /// Returns the first of these values that is set.
        fn first<T: Clone>(values: [Option<&T>; 3]) -> Option<T> {
            values.into_iter().flatten().next().cloned()
        }
        let resolved = Self {
            read_concern: first([
                self.read_concern.as_ref(),
                of_session.and_then(|options| options.read_concern.as_ref()),
                of_client.read_concern.as_ref(),
            ]),
            write_concern: first([
                self.write_concern.as_ref(),
                of_session.and_then(|options| options.write_concern.as_ref()),
                of_client.write_concern.as_ref(),
            ]),
            selection_criteria: first([
                self.selection_criteria.as_ref(),
                of_session.and_then(|options| options.selection_criteria.as_ref()),
                of_client.selection_criteria(),
            ])
            .map(without_function),
            max_commit_time: first([
                self.max_commit_time.as_ref(),
                of_session.and_then(|options| options.max_commit_time.as_ref()),
                None,
            ]),
        };
        match &resolved.write_concern {
            Some(concern) if !concern.is_acknowledged() => {
                let message = "transactions do not support unacknowledged write concerns";
                Err(Error::argument(message))
            }
            Some(concern) => concern.validate().map(|()| resolved),
            None => Ok(resolved),
        }
    }
}

/// Returns the read preference that servers get with these criteria.
fn without_function(criteria: SelectionCriteria) -> SelectionCriteria {
    criteria.read_preference().clone().into()
}
