//! The options of transactions.

use super::crud::Defaults;
use crate::{
    error::Error,
    options::{ReadConcern, SelectionCriteria, WriteConcern},
};
use std::time::Duration;

/// The options of a transaction (Transactions Specification, *TransactionOptions*).
///
/// An option that is not set is taken from the default of the session
/// ([`SessionOptions::default_transaction_options`](super::SessionOptions)), then from the client.
/// The options of databases and collections have no effect in a transaction.
///
/// ```
/// use onionskin_core::{operation::TransactionOptions, options::{ReadConcern, WriteConcern}};
///
/// let options = TransactionOptions::builder()
///     .read_concern(ReadConcern::snapshot())
///     .write_concern(WriteConcern::majority())
///     .build();
/// assert_eq!(options.max_commit_time, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// The read concern of the transaction, which its first command sends.
    pub read_concern: Option<ReadConcern>,
    /// The write concern of `commitTransaction` and `abortTransaction`. It cannot be `w: 0`.
    pub write_concern: Option<WriteConcern>,
    /// How the server of reads is selected. In a transaction, only the primary can read.
    pub selection_criteria: Option<SelectionCriteria>,
    /// The `maxTimeMS` of `commitTransaction`. A time limit of the commit supersedes it: that of
    /// the call, of the session or of the client (`timeoutMS`). Default: none.
    pub max_commit_time: Option<Duration>,
}

/// A builder of [`TransactionOptions`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before `build`"]
pub struct TransactionOptionsBuilder(TransactionOptions);

impl TransactionOptionsBuilder {
    /// Sets [`TransactionOptions::read_concern`].
    ///
    /// ```
    /// use onionskin_core::{operation::TransactionOptions, options::ReadConcern};
    ///
    /// let options = TransactionOptions::builder().read_concern(ReadConcern::snapshot()).build();
    /// assert_eq!(options.read_concern, Some(ReadConcern::snapshot()));
    /// ```
    pub fn read_concern(mut self, concern: impl Into<Option<ReadConcern>>) -> Self {
        self.0.read_concern = concern.into();
        self
    }

    /// Sets [`TransactionOptions::write_concern`].
    ///
    /// ```
    /// use onionskin_core::{operation::TransactionOptions, options::WriteConcern};
    ///
    /// let options = TransactionOptions::builder().write_concern(WriteConcern::majority()).build();
    /// assert_eq!(options.write_concern, Some(WriteConcern::majority()));
    /// ```
    pub fn write_concern(mut self, concern: impl Into<Option<WriteConcern>>) -> Self {
        self.0.write_concern = concern.into();
        self
    }

    /// Sets [`TransactionOptions::selection_criteria`].
    ///
    /// ```
    /// use onionskin_core::operation::TransactionOptions;
    /// use onionskin_core::options::{ReadPreference, SelectionCriteria};
    ///
    /// // The default of the client can be another one, with which reads in transactions fail.
    /// let primary = SelectionCriteria::from(ReadPreference::Primary);
    /// let options = TransactionOptions::builder().selection_criteria(primary.clone()).build();
    /// assert_eq!(options.selection_criteria, Some(primary));
    /// ```
    pub fn selection_criteria(mut self, criteria: impl Into<Option<SelectionCriteria>>) -> Self {
        self.0.selection_criteria = criteria.into();
        self
    }

    /// Sets [`TransactionOptions::max_commit_time`], which a time limit of the commit supersedes.
    ///
    /// ```
    /// use onionskin_core::operation::TransactionOptions;
    /// use std::time::Duration;
    ///
    /// let options = TransactionOptions::builder().max_commit_time(Duration::from_secs(5)).build();
    /// assert_eq!(options.max_commit_time, Some(Duration::from_secs(5)));
    /// ```
    pub fn max_commit_time(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.0.max_commit_time = time.into();
        self
    }

    /// Returns the options.
    ///
    /// ```
    /// use onionskin_core::operation::TransactionOptions;
    ///
    /// let options = TransactionOptions::builder().build();
    /// assert_eq!(options, TransactionOptions::default());
    /// ```
    #[must_use]
    pub fn build(self) -> TransactionOptions {
        self.0
    }
}

impl TransactionOptions {
    /// Returns a builder in which no option is set.
    ///
    /// ```
    /// use onionskin_core::{operation::TransactionOptions, options::ReadConcern};
    ///
    /// let options = TransactionOptions::builder().read_concern(ReadConcern::majority()).build();
    /// assert_eq!(options.write_concern, None);
    /// ```
    pub fn builder() -> TransactionOptionsBuilder {
        TransactionOptionsBuilder::default()
    }

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
