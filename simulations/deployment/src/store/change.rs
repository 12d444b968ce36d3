//! The changes that writes make. A change has all that is needed to repeat it on another member, or
//! to revert it.

use std::{fmt, sync::Arc};

use crate::garbage::Garbage;
use bson::Document;

use super::built::BuiltIndex;
use super::collection::Collection;
use super::size;
use super::types::{Namespace, Shared};

/// The facts about the collection of a write that only change streams use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The serial number of the collection's creation.
    pub serial: u64,
    /// True if the collection keeps the images of documents before and after their changes
    /// (`changeStreamPreAndPostImages`).
    pub keeps_images: bool,
    /// True if the collection is a time series collection, whose writes change streams do not
    /// show.
    pub is_series: bool,
}

/// The way in which an update was expressed, from which its description in a change stream follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateStyle {
    /// A document replaces the old one.
    Replacement,
    /// A pipeline makes the new document.
    Pipeline,
    /// Update operators change the values at paths.
    Operators(Arc<Vec<OperatorPath>>),
}

/// A path that an update operator changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorPath {
    /// The path, as the update names it.
    pub path: String,
    /// True if the operator adds elements to an array, and false if it sets the whole value.
    pub appends: bool,
}

/// One change of a store, with the data before the change.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A collection was created.
    CreateCollection {
        /// The collection's name.
        namespace: Namespace,
        /// The options that the collection was created with.
        options: Arc<Document>,
        /// The serial number of the creation. The collection's UUID follows from this number and
        /// the name of the database.
        serial: u64,
    },
    /// A collection was dropped, with its documents and indexes.
    DropCollection {
        /// The collection's name.
        namespace: Namespace,
        /// The collection before the drop.
        before: Arc<Collection>,
    },
    /// A new collection got all its documents and indexes at once.
    FillCollection {
        /// The collection's name.
        namespace: Namespace,
        /// The collection with its documents and indexes.
        contents: Arc<Collection>,
    },
    /// A database was dropped. The changes that drop its collections precede this change.
    DropDatabase {
        /// The database's name.
        database: String,
    },
    /// A collection was renamed.
    RenameCollection {
        /// The old name.
        from: Namespace,
        /// The new name.
        to: Namespace,
        /// The serial number of the collection's creation.
        serial: u64,
    },
    /// The options of a collection changed.
    ModifyCollection {
        /// The collection's name.
        namespace: Namespace,
        /// The options before the change.
        before: Arc<Document>,
        /// The options after the change.
        after: Arc<Document>,
        /// The serial number of the collection's creation.
        serial: u64,
    },
    /// A collection became sharded. The data does not change.
    ShardCollection {
        /// The collection's name.
        namespace: Namespace,
        /// The shard key.
        key: Arc<Document>,
        /// The serial number of the collection's creation.
        serial: u64,
    },
    /// An index was built.
    CreateIndex {
        /// The index's collection.
        namespace: Namespace,
        /// The index's specification: `v`, `key`, `name`, ...
        specification: Arc<Document>,
        /// The serial number of the collection's creation.
        serial: u64,
        /// Copies of the index, if it was built before the change.
        built: BuiltIndex,
    },
    /// An index was dropped.
    DropIndex {
        /// The index's collection.
        namespace: Namespace,
        /// The index's specification.
        specification: Arc<Document>,
        /// The index's position among the collection's secondary indexes, from 0.
        position: usize,
        /// The serial number of the collection's creation.
        serial: u64,
    },
    /// A document was inserted.
    Insert {
        /// The document's collection.
        namespace: Namespace,
        /// The document's record number. The numbers define the natural order.
        record: u64,
        /// The inserted document.
        document: Shared,
        /// The facts about the collection.
        origin: Origin,
    },
    /// A document was updated, or replaced by another one with the same `_id`.
    Replace {
        /// The document's collection.
        namespace: Namespace,
        /// The document's record number. The numbers define the natural order.
        record: u64,
        /// The document before the change.
        before: Shared,
        /// The document after the change.
        after: Shared,
        /// The facts about the collection.
        origin: Origin,
        /// The way in which the update was expressed.
        style: UpdateStyle,
    },
    /// A document was deleted.
    Delete {
        /// The document's collection.
        namespace: Namespace,
        /// The document's record number. The numbers define the natural order.
        record: u64,
        /// The deleted document.
        document: Shared,
        /// The facts about the collection.
        origin: Origin,
    },
}

impl UpdateStyle {
    /// Returns the size of the paths in bytes. Updates of one statement share them, but each counts
    /// them.
    fn bytes(&self) -> usize {
        match self {
            Self::Replacement | Self::Pipeline => 0,
            Self::Operators(paths) => paths.iter().map(|target| target.path.len()).sum(),
        }
    }
}

/// The size of a change apart from its documents, in bytes.
const CHANGE_BYTES: usize = 128;

impl Change {
    /// Returns the size of this change in bytes: the encoding of its documents, the keys of the
    /// indexes of a collection that was dropped or filled, and a constant for the rest. Copies of
    /// an index that was built are not counted, because they are dropped soon.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let documents = match self {
            Self::CreateCollection { options, .. } => size::of(options),
            Self::DropCollection {
                before: collection, ..
            }
            | Self::FillCollection {
                contents: collection,
                ..
            } => collection.memory(),
            Self::DropDatabase { .. } | Self::RenameCollection { .. } => 0,
            Self::ModifyCollection { before, after, .. } => size::of(before) + size::of(after),
            Self::CreateIndex { specification, .. } | Self::DropIndex { specification, .. } => {
                size::of(specification)
            }
            Self::ShardCollection { key, .. } => size::of(key),
            Self::Insert { document, .. } | Self::Delete { document, .. } => size::of(document),
            Self::Replace {
                before,
                after,
                style,
                ..
            } => size::of(before) + size::of(after) + style.bytes(),
        };
        documents.saturating_add(CHANGE_BYTES)
    }

    /// True if the change has copies of an index that was built before.
    pub(crate) fn has_copies(&self) -> bool {
        matches!(self, Self::CreateIndex { built, .. } if built.is_left())
    }

    /// Drops the copies of an index that was built before. A store that carries out the change
    /// later builds the index.
    pub(crate) fn drop_copies(&self, garbage: &mut Garbage) {
        if let Self::CreateIndex { built, .. } = self {
            built.drop_copies(garbage);
        }
    }

    /// True if the change can give documents a time to live.
    pub(crate) fn concerns_expiry(&self) -> bool {
        matches!(
            self,
            Self::CreateCollection { .. }
                | Self::ModifyCollection { .. }
                | Self::CreateIndex { .. }
                | Self::DropIndex { .. }
        )
    }

    /// Returns the name of the changed collection, or `None` for a dropped database. For a renamed
    /// collection, this is the old name.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::CreateCollection { namespace, .. }
            | Self::DropCollection { namespace, .. }
            | Self::FillCollection { namespace, .. }
            | Self::ModifyCollection { namespace, .. }
            | Self::ShardCollection { namespace, .. }
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

impl fmt::Display for Change {
    /// Writes the kind of the change and the name of what it changes, for reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateCollection { namespace, .. } => write!(f, "the creation of {namespace}"),
            Self::DropCollection { namespace, .. } => write!(f, "the drop of {namespace}"),
            Self::FillCollection { namespace, .. } => {
                write!(f, "the documents of the new collection {namespace}")
            }
            Self::DropDatabase { database } => write!(f, "the drop of {database}"),
            Self::RenameCollection { from, to, .. } => {
                write!(f, "the renaming of {from} to {to}")
            }
            Self::ModifyCollection { namespace, .. } => {
                write!(f, "the change of the options of {namespace}")
            }
            Self::ShardCollection { namespace, .. } => write!(f, "the sharding of {namespace}"),
            Self::CreateIndex { namespace, .. } => {
                write!(f, "the build of an index of {namespace}")
            }
            Self::DropIndex { namespace, .. } => write!(f, "the drop of an index of {namespace}"),
            Self::Insert {
                namespace, record, ..
            } => write!(f, "the insert of record {record} into {namespace}"),
            Self::Replace {
                namespace, record, ..
            } => write!(f, "the update of record {record} of {namespace}"),
            Self::Delete {
                namespace, record, ..
            } => write!(f, "the delete of record {record} of {namespace}"),
        }
    }
}

impl Change {
    /// Returns the collection of a write, and the facts about it.
    pub(super) const fn origin_mut(&mut self) -> Option<(&Namespace, &mut Origin)> {
        match self {
            Self::Insert {
                namespace, origin, ..
            }
            | Self::Replace {
                namespace, origin, ..
            }
            | Self::Delete {
                namespace, origin, ..
            } => Some((namespace, origin)),
            _ => None,
        }
    }
}
