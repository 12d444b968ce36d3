//! Lists of documents and of operations, of which each of several commands sends a part.

use super::documents::document_bytes;
use bson::{Bson, RawDocument};
use std::{fmt, sync::Arc};

/// Documents, stored one after the other, of which each of several commands sends a part. Clones
/// share the documents.
#[derive(Clone, Default)]
pub struct DocumentList(pub(super) Arc<Contents>);

/// The contents of a [`DocumentList`].
#[derive(Default)]
pub(super) struct Contents {
    pub(super) documents: Vec<u8>,
    multi: MultiOffsets,
}

/// The offsets of the statements that can affect several documents, in ascending order. A command
/// that sends one of them is not retried (RW-8).
#[derive(Default)]
pub(crate) struct MultiOffsets(Vec<usize>);

impl MultiOffsets {
    /// Adds an offset, which follows those that were added before.
    pub(crate) fn push(&mut self, offset: usize) {
        self.0.push(offset);
    }

    fn contains(&self, offset: usize) -> bool {
        self.0.binary_search(&offset).is_ok()
    }

    /// Returns the first offset from `start` on.
    pub(super) fn next(&self, start: usize) -> Option<usize> {
        let before = self.0.partition_point(|&offset| offset < start);
        self.0.get(before).copied()
    }
}

impl DocumentList {
    /// Returns a list of these documents, which must be stored one after the other.
    #[must_use]
    pub fn new(documents: Vec<u8>) -> Self {
        Self::with_multi(documents, MultiOffsets::default())
    }

    /// Returns a list of statements, of which those at these offsets can affect several documents.
    pub(crate) fn with_multi(documents: Vec<u8>, multi: MultiOffsets) -> Self {
        Self(Arc::new(Contents { documents, multi }))
    }

    /// Returns the documents, one after the other.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0.documents
    }

    /// Returns the size of all documents in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.0.documents.len()
    }

    /// True if the statement at this offset can affect several documents.
    pub(crate) fn is_multi_at(&self, offset: usize) -> bool {
        self.0.multi.contains(offset)
    }

    /// Returns the statements that can affect several documents.
    pub(super) fn multi(&self) -> &MultiOffsets {
        &self.0.multi
    }
}

/// Shows only the size, because the documents may hold secrets.
impl fmt::Debug for DocumentList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentList")
            .field("size_bytes", &self.size_bytes())
            .finish()
    }
}

/// The operations of a bulk write, stored one after the other, with the namespaces that they use.
/// The first field of each operation has a name of six bytes, and the place of its namespace in
/// `namespaces` as an `int`. Clones share the operations.
#[derive(Clone)]
pub(crate) struct OperationList(pub(super) Arc<Operations>);

/// The contents of an [`OperationList`].
#[derive(Default)]
pub(crate) struct Operations {
    pub(crate) bytes: Vec<u8>,
    /// The documents `{ ns: .. }`.
    pub(crate) namespaces: Vec<Vec<u8>>,
    /// The place of the namespace of each operation.
    pub(crate) places: Vec<u32>,
    pub(crate) multi: MultiOffsets,
}

impl OperationList {
    pub(crate) fn new(operations: Operations) -> Self {
        Self(Arc::new(operations))
    }

    /// Returns the size of all operations in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.0.bytes.len()
    }

    /// Returns the offset of each operation.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        let mut next = 0;
        let offset = |_: &u32| {
            let offset = next;
            let rest = self.0.bytes.get(offset..).unwrap_or_default();
            next += document_bytes(rest).unwrap_or(rest.len());
            offset
        };
        self.0.places.iter().map(offset).collect()
    }

    /// Returns the `_id` of the document that the operation at this offset inserts.
    pub(crate) fn inserted_id(&self, offset: usize) -> Option<Bson> {
        let rest = self.0.bytes.get(offset..)?;
        let operation = rest.get(..document_bytes(rest).ok()?)?;
        let operation = RawDocument::from_bytes(operation).ok()?;
        let document = operation.get_document("document").ok()?;
        document.get("_id").ok()??.try_into().ok()
    }

    /// True if the operation at this offset can affect several documents.
    pub(crate) fn is_multi_at(&self, offset: usize) -> bool {
        self.0.multi.contains(offset)
    }

    /// Returns the places of the namespaces of some operations, each once, in the order of their
    /// first use.
    pub(super) fn used(&self, first: usize, count: usize) -> Vec<u32> {
        let mut is_used = vec![false; self.0.namespaces.len()];
        let mut used = Vec::new();
        for &place in self.0.places.iter().skip(first).take(count) {
            if let Some(seen) = is_used.get_mut(place as usize)
                && !std::mem::replace(seen, true)
            {
                used.push(place);
            }
        }
        used
    }

    pub(super) fn namespace(&self, place: u32) -> &[u8] {
        let namespace = self.0.namespaces.get(place as usize);
        namespace.map(Vec::as_slice).unwrap_or_default()
    }
}

/// Shows only the sizes, because the operations may hold secrets.
impl fmt::Debug for OperationList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationList")
            .field("size_bytes", &self.size_bytes())
            .field("operations", &self.0.places.len())
            .finish()
    }
}
