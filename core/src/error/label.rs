//! Error labels: how servers and drivers tell each other what may be done about an error.

use super::pick;
use std::{collections::BTreeSet, fmt, sync::Arc};

/// A label, by the name that the specifications give it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Label {
    /// A write that failed so may be sent once more with the same transaction number (RW-13).
    RetryableWriteError,
    /// Trying again may help, also for what is not a retryable read or write (section 5 of the
    /// retry requirements).
    RetryableError,
    /// The server is overloaded; its state is not in doubt (CMAP-44).
    SystemOverloadedError,
    /// The failed attempt wrote nothing (RW-26).
    NoWritesPerformed,
    /// The whole transaction may be tried again.
    TransientTransactionError,
    /// It is not known whether the transaction was committed.
    UnknownTransactionCommitResult,
    /// A label that this driver gives no meaning to.
    Other(Arc<str>),
}

impl Label {
    /// The label of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "RetryableWriteError" => Self::RetryableWriteError,
            "RetryableError" => Self::RetryableError,
            "SystemOverloadedError" => Self::SystemOverloadedError,
            "NoWritesPerformed" => Self::NoWritesPerformed,
            "TransientTransactionError" => Self::TransientTransactionError,
            "UnknownTransactionCommitResult" => Self::UnknownTransactionCommitResult,
            other => Self::Other(other.into()),
        }
    }

    /// Its name on the wire.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::RetryableWriteError => "RetryableWriteError",
            Self::RetryableError => "RetryableError",
            Self::SystemOverloadedError => "SystemOverloadedError",
            Self::NoWritesPerformed => "NoWritesPerformed",
            Self::TransientTransactionError => "TransientTransactionError",
            Self::UnknownTransactionCommitResult => "UnknownTransactionCommitResult",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Labels that are kept of one reply at most; servers send one or two.
const MAX_LABELS: usize = 16;

/// Bytes of a label's name; a longer one is left out. The longest of the specifications has 30.
const MAX_LABEL_BYTES: usize = 256;

/// A set of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeSet<Label>);

impl Labels {
    /// The `errorLabels` of a reply; no more than sixteen are kept.
    #[must_use]
    pub fn from_reply(reply: &bson::RawDocument) -> Self {
        let [names] = pick(reply, ["errorLabels"]);
        match names.and_then(|names| names.as_array()) {
            Some(names) => Self::from_array(names),
            None => Self::default(),
        }
    }

    /// The labels that an array of strings names; no more than sixteen are kept.
    #[must_use]
    pub fn from_array(names: &bson::RawArray) -> Self {
        let names = names.into_iter().flatten().take(MAX_LABELS);
        names
            .filter_map(|name| name.as_str())
            .filter(|name| name.len() <= MAX_LABEL_BYTES)
            .map(Label::from_name)
            .collect()
    }

    /// Adds a label; adding it twice is once.
    pub fn insert(&mut self, label: Label) {
        self.0.insert(label);
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// True if `label` is in the set.
    #[must_use]
    pub fn contains(&self, label: &Label) -> bool {
        self.0.contains(label)
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The labels, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
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
    fn a_label_longer_than_any_name_is_left_out() {
        let long = "x".repeat(MAX_LABEL_BYTES + 1);
        let reply = rawdoc! { "errorLabels": [long, "RetryableError"] };
        let labels = Labels::from_reply(&reply);
        let labels: Vec<_> = labels.iter().collect();
        assert_eq!(labels, [&Label::RetryableError]);
    }
}
