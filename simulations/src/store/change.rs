//! What a write did: enough to do it again on another member, or to undo it here.

use std::sync::Arc;

use bson::Document;

use super::collection::Collection;
use super::size;
use super::types::{Namespace, Shared};

/// One thing that happened to a store, with what was there before.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A collection came into being.
    CreateCollection {
        /// Its name.
        namespace: Namespace,
        /// The options it was created with.
        options: Arc<Document>,
        /// Counts the collections ever created here; its UUID follows from it and the name.
        serial: u64,
    },
    /// A collection went away, with all that was in it.
    DropCollection {
        /// Its name.
        namespace: Namespace,
        /// What it was.
        before: Arc<Collection>,
    },
    /// A database went away; its collections' own changes came before this.
    DropDatabase {
        /// Its name.
        database: String,
    },
    /// A collection got another name.
    RenameCollection {
        /// The old name.
        from: Namespace,
        /// The new name.
        to: Namespace,
    },
    /// A collection's options changed.
    ModifyCollection {
        /// Its name.
        namespace: Namespace,
        /// The options until then.
        before: Arc<Document>,
        /// The options from now on.
        after: Arc<Document>,
    },
    /// An index was built.
    CreateIndex {
        /// Its collection.
        namespace: Namespace,
        /// Its specification: `v`, `key`, `name`, ...
        specification: Arc<Document>,
    },
    /// An index went away.
    DropIndex {
        /// Its collection.
        namespace: Namespace,
        /// Its specification.
        specification: Arc<Document>,
        /// Its place among the collection's secondary indexes, from 0.
        position: usize,
    },
    /// A document went in.
    Insert {
        /// Its collection.
        namespace: Namespace,
        /// Its place in natural order.
        record: u64,
        /// It.
        document: Shared,
    },
    /// A document became another; their `_id` is the same.
    Replace {
        /// Its collection.
        namespace: Namespace,
        /// Its place in natural order.
        record: u64,
        /// What it was.
        before: Shared,
        /// What it is.
        after: Shared,
    },
    /// A document went away.
    Delete {
        /// Its collection.
        namespace: Namespace,
        /// Its place in natural order.
        record: u64,
        /// What it was.
        document: Shared,
    },
}

/// What a change is counted as, beside its documents.
const CHANGE_BYTES: usize = 128;

impl Change {
    /// The bytes that it is counted as: the encoding of its documents, and a constant for the rest.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let documents = match self {
            Self::CreateCollection { options, .. } => size::of(options),
            Self::DropCollection { before, .. } => {
                usize::try_from(before.size_bytes()).unwrap_or(usize::MAX)
            }
            Self::DropDatabase { .. } | Self::RenameCollection { .. } => 0,
            Self::ModifyCollection { before, after, .. } => size::of(before) + size::of(after),
            Self::CreateIndex { specification, .. } | Self::DropIndex { specification, .. } => {
                size::of(specification)
            }
            Self::Insert { document, .. } | Self::Delete { document, .. } => size::of(document),
            Self::Replace { before, after, .. } => size::of(before) + size::of(after),
        };
        documents.saturating_add(CHANGE_BYTES)
    }

    /// The collection it happened to; of a dropped database there is none.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::CreateCollection { namespace, .. }
            | Self::DropCollection { namespace, .. }
            | Self::ModifyCollection { namespace, .. }
            | Self::CreateIndex { namespace, .. }
            | Self::DropIndex { namespace, .. }
            | Self::Insert { namespace, .. }
            | Self::Replace { namespace, .. }
            | Self::Delete { namespace, .. } => Some(namespace),
            Self::RenameCollection { from, .. } => Some(from),
            Self::DropDatabase { .. } => None,
        }
    }
}
