//! The writes of open transactions, which no other write may touch until the transaction ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::Document;

use super::change::Change;
use super::order::Key;
use super::types::{Namespace, Shared};
use super::{Store, keys};

/// A key of a unique index, with the name of the index.
pub(super) type UniqueKey = (String, Vec<Key>);

/// The documents, the unique keys and the collections that an open transaction has written.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    collections: BTreeMap<Namespace, Claim>,
    /// The memory of the unique keys in bytes.
    bytes: usize,
}

/// The writes of a transaction to one collection.
#[derive(Debug, Default)]
struct Claim {
    /// The records of the snapshot that the transaction has changed or deleted.
    records: BTreeSet<u64>,
    /// The records that the transaction has inserted, by the numbers of its own data.
    inserted: BTreeSet<u64>,
    keys: BTreeSet<UniqueKey>,
    /// True if the transaction has created the collection.
    is_created: bool,
}

impl Claims {
    /// Adds the changes of a statement. Returns false if another open transaction has written the
    /// same document or unique key, or if one of them was committed after the snapshot of the
    /// transaction. `own` is the data that the transaction sees, `committed`
    /// is the newest data, and `others` are the claims of the other open transactions.
    pub(crate) fn add(
        &mut self,
        changes: &[Change],
        own: &Store,
        committed: &Store,
        others: &[&Self],
    ) -> bool {
        changes.iter().all(|change| match change {
            Change::CreateCollection { namespace, .. } => self.create(namespace, committed, others),
            Change::Insert {
                namespace,
                record,
                document,
                ..
            } => {
                let claim = self.collections.entry(namespace.clone()).or_default();
                claim.inserted.insert(*record);
                self.claim_keys((namespace, document, None), own, committed, others)
            }
            Change::Replace {
                namespace,
                record,
                before,
                after,
                ..
            } => {
                self.claim_record((namespace, *record, before), committed, others)
                    && self.claim_keys((namespace, after, Some(before)), own, committed, others)
            }
            Change::Delete {
                namespace,
                record,
                document,
                ..
            } => {
                let done = self.claim_record((namespace, *record, document), committed, others);
                let claim = self.collections.entry(namespace.clone()).or_default();
                claim.inserted.remove(record);
                done
            }
            _ => true,
        })
    }

    fn create(&mut self, namespace: &Namespace, committed: &Store, others: &[&Self]) -> bool {
        let is_taken = others.iter().any(|other| other.has_created(namespace));
        if is_taken || committed.contains(namespace) {
            return false;
        }
        let claim = self.collections.entry(namespace.clone()).or_default();
        claim.is_created = true;
        true
    }

    /// Claims a document that is changed or deleted. Returns false at a conflict.
    fn claim_record(
        &mut self,
        (namespace, record, before): (&Namespace, u64, &Shared),
        committed: &Store,
        others: &[&Self],
    ) -> bool {
        let claim = self.collections.entry(namespace.clone()).or_default();
        if claim.is_created || claim.inserted.contains(&record) || claim.records.contains(&record) {
            return true;
        }
        // A document that was written again is another allocation, even if it has the same value.
        let newest = committed.collection(namespace);
        let newest = newest.and_then(|collection| collection.records.get(&record));
        let is_newer = !newest.is_some_and(|newest| Arc::ptr_eq(newest, before));
        let is_taken = |other: &&Self| other.has_record(namespace, record);
        if is_newer || others.iter().any(is_taken) {
            return false;
        }
        claim.records.insert(record);
        true
    }

    /// Claims the unique keys of a new document, without those of the document before it. Returns
    /// false at a conflict.
    fn claim_keys(
        &mut self,
        (namespace, document, before): (&Namespace, &Document, Option<&Shared>),
        own: &Store,
        committed: &Store,
        others: &[&Self],
    ) -> bool {
        let claim = self.collections.entry(namespace.clone()).or_default();
        let Some(collection) = own.collection(namespace).filter(|_| !claim.is_created) else {
            return true;
        };
        let mut keys = collection.unique_keys(document);
        for key in before.iter().flat_map(|d| collection.unique_keys(d)) {
            keys.remove(&key);
        }
        let newest = committed.collection(namespace);
        for key in keys {
            let holders = newest.map(|newest| newest.holders(&key));
            let is_held = |record: &u64| !claim.records.contains(record);
            if holders.is_some_and(|mut holders| holders.any(|record| is_held(&record))) {
                return false;
            }
            if others.iter().any(|other| other.has_key(namespace, &key)) {
                return false;
            }
            self.bytes += keys::bytes_of(&key.1);
            claim.keys.insert(key);
        }
        true
    }

    /// True if a change outside of the transaction must wait until the transaction ends. `store`
    /// is the data with the change.
    pub(crate) fn block(&self, change: &Change, store: &Store) -> bool {
        let has_record = |namespace, record| self.has_record(namespace, record);
        match change {
            Change::CreateCollection { namespace, .. } => self.has_created(namespace),
            Change::Insert {
                namespace,
                document,
                ..
            } => self.has_key_of(namespace, document, store),
            Change::Replace {
                namespace,
                record,
                after,
                ..
            } => has_record(namespace, *record) || self.has_key_of(namespace, after, store),
            Change::Delete {
                namespace, record, ..
            } => has_record(namespace, *record),
            _ => false,
        }
    }

    /// Returns the memory of the unique keys in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the transaction has created this collection.
    pub(crate) fn has_created(&self, namespace: &Namespace) -> bool {
        let claim = self.collections.get(namespace);
        claim.is_some_and(|claim| claim.is_created)
    }

    fn has_record(&self, namespace: &Namespace, record: u64) -> bool {
        let claim = self.collections.get(namespace);
        claim.is_some_and(|claim| claim.records.contains(&record))
    }

    fn has_key(&self, namespace: &Namespace, key: &UniqueKey) -> bool {
        let claim = self.collections.get(namespace);
        claim.is_some_and(|claim| claim.keys.contains(key))
    }

    fn has_key_of(&self, namespace: &Namespace, document: &Document, store: &Store) -> bool {
        let claim = self.collections.get(namespace);
        let Some(claim) = claim.filter(|claim| !claim.keys.is_empty()) else {
            return false;
        };
        let collection = store.collection(namespace);
        let keys = collection.map(|collection| collection.unique_keys(document));
        keys.is_some_and(|keys| keys.iter().any(|key| claim.keys.contains(key)))
    }
}
