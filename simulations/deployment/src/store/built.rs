//! Indexes that are built before their change is carried out, for example by a job.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;

use crate::garbage::Garbage;
use bson::Document;

use super::change::Change;
use super::collection::Collection;
use super::index::Index;
use super::types::Namespace;
use super::{Store, StoreError};

/// The steps of the keys of a document in an index, besides those for the size of the document.
const STEPS_OF_KEYS: u64 = 30;

/// The number of bytes of documents that count as one step of an index.
const BYTES_PER_STEP: u64 = 4;

/// Copies of an index that was built on the data before a change, for the stores that carry out the
/// change on equal data. Each of them takes a copy, and a store for which none is left builds the
/// index. All clones share the copies, and comparisons ignore them.
#[derive(Clone, Default)]
pub struct BuiltIndex(Arc<Mutex<Vec<Index>>>);

impl PartialEq for BuiltIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for BuiltIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BuiltIndex")
    }
}

impl BuiltIndex {
    pub(super) fn new(index: Index, copies: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![index; copies.max(1)])))
    }

    fn copies(&self) -> MutexGuard<'_, Vec<Index>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a copy, if one is left.
    pub(super) fn take(&self) -> Option<Index> {
        self.copies().pop()
    }

    /// True if a copy is left.
    pub(super) fn is_left(&self) -> bool {
        !self.copies().is_empty()
    }

    /// Drops the copies that are left.
    pub(super) fn drop_copies(&self, garbage: &mut Garbage) {
        let copies = std::mem::take(&mut *self.copies());
        garbage.add(copies.iter().map(Index::bytes).sum(), copies);
    }

    /// Returns the specification and the memory of the index in bytes, if a copy is left.
    pub(super) fn description(&self) -> Option<(Arc<Document>, usize)> {
        let copies = self.copies();
        let index = copies.last()?;
        Some((index.specification.clone(), index.bytes()))
    }
}

/// The new indexes of a `createIndexes`, built on a copy of the data.
#[derive(Debug, Default)]
pub(crate) struct BuiltIndexes {
    /// The collection on which they were built; `None` if it did not exist.
    of: Option<Arc<Collection>>,
    indexes: Vec<BuiltIndex>,
    /// The error with which the build failed, if it did. There are no indexes then.
    error: Option<StoreError>,
}

impl BuiltIndexes {
    /// Returns the indexes. The collection on which they were built is no longer held, so that a
    /// change of the collection does not copy it.
    pub(super) fn into_indexes(self) -> vec::IntoIter<BuiltIndex> {
        self.indexes.into_iter()
    }

    /// Returns the error with which the build failed, if it did. It counts only if the collection
    /// has not changed since, as [`fit`](Self::fit) tells.
    pub(crate) const fn take_error(&mut self) -> Option<StoreError> {
        self.error.take()
    }

    /// True if the collection of a store has not changed since the indexes were built.
    pub(crate) fn fit(&self, store: &Store, namespace: &Namespace) -> bool {
        match (&self.of, store.data.collection(namespace)) {
            (Some(of), Some(collection)) => Arc::ptr_eq(of, collection),
            (of, collection) => of.is_none() && collection.is_none(),
        }
    }
}

impl Store {
    /// Returns the steps that it takes to build this number of indexes of a collection.
    pub(crate) fn steps_of_build(&self, namespace: &Namespace, indexes: usize) -> u64 {
        let of_one = self.collection(namespace).map_or(0, |collection| {
            let records = collection.records.len() as u64;
            let bytes = collection.size_bytes() / BYTES_PER_STEP;
            records.saturating_mul(STEPS_OF_KEYS).saturating_add(bytes)
        });
        of_one.saturating_mul(indexes as u64)
    }

    /// Builds the indexes that [`create_indexes`](Self::create_indexes) would build, with this
    /// number of copies, and leaves the store as it is. The result has the error if the build
    /// fails.
    pub(crate) fn build_indexes(
        &self,
        namespace: &Namespace,
        indexes: &[Document],
        copies: usize,
    ) -> BuiltIndexes {
        let of = self.data.collection(namespace).cloned();
        let mut copy = self.clone();
        let _ = copy.take_changes();
        let error = copy.create_indexes(namespace, indexes).err();
        let changes = copy.take_changes();
        let is_build = |change: &&Change| matches!(change, Change::CreateIndex { .. });
        let count = changes.iter().filter(is_build).count();
        let mut built = BuiltIndexes {
            of,
            error,
            ..Default::default()
        };
        if built.error.is_none()
            && count > 0
            && let Some(collection) = copy.data.displace(namespace)
        {
            let mut all = Arc::unwrap_or_clone(collection).indexes;
            let new = all.split_off(all.len().saturating_sub(count));
            let new = new.into_iter().map(|index| BuiltIndex::new(index, copies));
            built.indexes = new.collect();
        }
        built
    }

    /// Returns the reason why an index of a collection does not have the keys of the documents;
    /// `None` if all have them.
    pub(crate) fn problem_of(&self, namespace: &Namespace) -> Option<String> {
        self.collection(namespace)?.check_indexes().err()
    }
}
