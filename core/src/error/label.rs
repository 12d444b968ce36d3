//! Error labels, by which servers and drivers state whether and how a failed operation can be
//! retried.

use super::pick;
use crate::text::printable;
use std::{collections::BTreeSet, fmt, sync::Arc};

/// The name of [`Label::RetryableWriteError`].
pub const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";

/// The name of [`Label::RetryableError`].
pub const RETRYABLE_ERROR: &str = "RetryableError";

/// The name of [`Label::SystemOverloadedError`].
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";

/// The name of [`Label::NoWritesPerformed`].
pub const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";

/// The name of [`Label::TransientTransactionError`].
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";

/// The name of [`Label::UnknownTransactionCommitResult`].
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";

/// The name of [`Label::ResumableChangeStreamError`].
pub const RESUMABLE_CHANGE_STREAM_ERROR: &str = "ResumableChangeStreamError";

/// An error label. Each variant except `Other` has the name that the specifications define.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Label {
    /// The write can be sent again. The next attempt has the same transaction number ([RW-13]).
    ///
    /// [RW-13]: crate::requirements::retries#RW-13
    RetryableWriteError,
    /// The command can be retried if the error also has the label
    /// [`SystemOverloadedError`](Self::SystemOverloadedError). This holds even for a command that
    /// is neither a retryable read nor a retryable write ([BP-1]).
    ///
    /// [BP-1]: crate::requirements::retries#BP-1
    RetryableError,
    /// The server is overloaded. If a network error, or the error of a connection that could not be
    /// established, has this label, the server description and the pool do not change ([CMAP-44]).
    ///
    /// [CMAP-44]: crate::requirements::pool#CMAP-44
    SystemOverloadedError,
    /// The failed attempt wrote nothing. If an earlier attempt may have written, the operation
    /// fails with the error of that one ([RW-26]).
    ///
    /// [RW-26]: crate::requirements::retries#RW-26
    NoWritesPerformed,
    /// The whole transaction can be retried.
    TransientTransactionError,
    /// The client cannot know whether the transaction was committed.
    UnknownTransactionCommitResult,
    /// A change stream can resume after the error.
    ResumableChangeStreamError,
    /// A label that has no meaning to this driver.
    Other(Arc<str>),
}

impl Label {
    /// Returns the label with this name.
    ///
    /// ```
    /// use onionskin_core::error::Label;
    ///
    /// let label = Label::from_name("RetryableWriteError");
    /// assert_eq!(label, Label::RetryableWriteError);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            RETRYABLE_WRITE_ERROR => Self::RetryableWriteError,
            RETRYABLE_ERROR => Self::RetryableError,
            SYSTEM_OVERLOADED_ERROR => Self::SystemOverloadedError,
            NO_WRITES_PERFORMED => Self::NoWritesPerformed,
            TRANSIENT_TRANSACTION_ERROR => Self::TransientTransactionError,
            UNKNOWN_TRANSACTION_COMMIT_RESULT => Self::UnknownTransactionCommitResult,
            RESUMABLE_CHANGE_STREAM_ERROR => Self::ResumableChangeStreamError,
            other => Self::Other(other.into()),
        }
    }

    /// Returns the name of the label in replies.
    ///
    /// ```
    /// use onionskin_core::error::Label;
    ///
    /// assert_eq!(Label::NoWritesPerformed.name(), "NoWritesPerformed");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::RetryableWriteError => RETRYABLE_WRITE_ERROR,
            Self::RetryableError => RETRYABLE_ERROR,
            Self::SystemOverloadedError => SYSTEM_OVERLOADED_ERROR,
            Self::NoWritesPerformed => NO_WRITES_PERFORMED,
            Self::TransientTransactionError => TRANSIENT_TRANSACTION_ERROR,
            Self::UnknownTransactionCommitResult => UNKNOWN_TRANSACTION_COMMIT_RESULT,
            Self::ResumableChangeStreamError => RESUMABLE_CHANGE_STREAM_ERROR,
            Self::Other(name) => name,
        }
    }
}

/// Returns the [`name`](Label::name) of the label.
impl AsRef<str> for Label {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The maximum number of elements of `errorLabels` that are read of one reply.
const MAX_LABELS: usize = 16;

/// The maximum length of a label's name in bytes; longer names are ignored.
const MAX_LABEL_BYTES: usize = 256;

/// A set of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeSet<Label>);

impl Labels {
    /// Returns the labels in the field `errorLabels` of a reply, as
    /// [`from_array`](Self::from_array) reads them. Returns an empty set if the field is absent or
    /// not an array.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::error::{Label, Labels};
    ///
    /// let labels = Labels::from_reply(&rawdoc! { "ok": 0, "errorLabels": ["RetryableError"] });
    /// assert!(labels.contains(Label::RetryableError));
    /// ```
    #[must_use]
    pub fn from_reply(reply: &bson::RawDocument) -> Self {
        let [names] = pick(reply, ["errorLabels"]);
        match names.and_then(|names| names.as_array()) {
            Some(names) => Self::from_array(names),
            None => Self::default(),
        }
    }

    /// Returns the labels among the first 16 elements of an array. Elements other than strings,
    /// strings of more than 256 bytes, and those with characters that cannot be printed, are
    /// ignored.
    ///
    /// ```
    /// use bson::rawbson;
    /// use onionskin_core::error::Labels;
    ///
    /// let names = rawbson!(["RetryableError", 7]);
    /// let labels = names.as_array().map(|names| Labels::from_array(names));
    /// assert_eq!(labels.unwrap_or_default().iter().count(), 1);
    /// ```
    #[must_use]
    pub fn from_array(names: &bson::RawArray) -> Self {
        let names = names.into_iter().flatten().take(MAX_LABELS);
        names
            .filter_map(|name| name.as_str())
            .filter(|name| name.len() <= MAX_LABEL_BYTES && printable(name) == *name)
            .map(Label::from_name)
            .collect()
    }

    /// Returns the labels that have a meaning to this driver. Others can be a secret that the
    /// server has sent back.
    pub(crate) fn known(mut self) -> Self {
        self.0.retain(|label| !matches!(label, Label::Other(_)));
        self
    }

    /// Adds `label`, if the set does not contain `label` yet.
    ///
    /// ```
    /// use onionskin_core::error::{Label, Labels};
    ///
    /// let mut labels = Labels::default();
    /// labels.insert(Label::NoWritesPerformed);
    /// assert!(labels.contains("NoWritesPerformed"));
    /// ```
    pub fn insert(&mut self, label: Label) {
        self.0.insert(label);
    }

    /// Adds all labels of `other`.
    ///
    /// ```
    /// use onionskin_core::error::{Label, Labels};
    ///
    /// let mut labels = Labels::default();
    /// labels.extend(&[Label::RetryableError, Label::SystemOverloadedError].into_iter().collect());
    /// assert_eq!(labels.iter().count(), 2);
    /// ```
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Removes the labels that are about one command, from the error of an operation of which
    /// another command has written. A caller could take them as a permission to repeat all (RW-P3).
    pub(crate) fn remove_those_of_no_write(&mut self) {
        for label in [Label::NoWritesPerformed, Label::RetryableError] {
            self.0.remove(&label);
        }
    }

    /// True if the set has this label, or a label of this name.
    ///
    /// ```
    /// use onionskin_core::error::{Label, Labels};
    ///
    /// let labels: Labels = [Label::RetryableWriteError].into_iter().collect();
    /// assert!(labels.contains(&Label::RetryableWriteError));
    /// assert!(labels.contains("RetryableWriteError"));
    /// ```
    #[must_use]
    pub fn contains(&self, label: impl AsRef<str>) -> bool {
        let name = label.as_ref();
        self.0.iter().any(|label| label.name() == name)
    }

    /// True if the set has no labels.
    ///
    /// ```
    /// use onionskin_core::error::Labels;
    ///
    /// assert!(Labels::default().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an iterator over the labels, in the order of the variants of [`Label`].
    ///
    /// ```
    /// use onionskin_core::error::{Label, Labels};
    ///
    /// let labels: Labels = [Label::RetryableError].into_iter().collect();
    /// for label in labels.iter() {
    ///     println!("{label}");
    /// }
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }
}

/// Writes the labels for the text of an error, for example ` (labels: RetryableWriteError)`, or
/// nothing. A label that is no word is left out: a server could imitate other parts of the text.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let mut before = " (labels: ";
        for label in self.iter().filter(|label| is_word(label.name())) {
            write!(f, "{before}{label}")?;
            before = ", ";
        }
        match before {
            ", " => f.write_str(")"),
            _ => Ok(()),
        }
    }
}

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        Self(labels.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_label_is_found_by_its_value_and_by_its_name() {
        let other = Label::from_name("Other");
        let labels: Labels = [Label::NoWritesPerformed, other.clone()]
            .into_iter()
            .collect();
        assert!(labels.contains(&other) && labels.contains("Other"));
        assert!(labels.contains(NO_WRITES_PERFORMED));
        assert!(!labels.contains("nowritesperformed") && !labels.contains(RETRYABLE_ERROR));
    }

    #[test]
    fn labels_that_are_no_words_are_not_shown() {
        let names = ["RetryableWriteError", "Mine_2", "x) (server good:27017"];
        let labels: Labels = names.into_iter().map(Label::from_name).collect();
        assert_eq!(labels.to_string(), " (labels: RetryableWriteError, Mine_2)");
        let other: Labels = [Label::from_name("a b")].into_iter().collect();
        assert_eq!(other.to_string() + &Labels::default().to_string(), "");
    }

    #[test]
    fn an_error_label_longer_than_the_limit_is_dropped() {
        let long = "x".repeat(MAX_LABEL_BYTES + 1);
        let reply = rawdoc! { "errorLabels": [long, "RetryableError"] };
        let labels = Labels::from_reply(&reply);
        let labels: Vec<_> = labels.iter().collect();
        assert_eq!(labels, [&Label::RetryableError]);
    }
}
