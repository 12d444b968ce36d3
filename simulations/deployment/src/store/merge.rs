//! Transactions: the comparison of their data with the newest data, and their commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::Change;
use super::collection::Collection;
use super::index::out_of_space;
use super::types::Namespace;
use super::{Answer, Store};

impl Store {
    /// Makes the changes of a transaction, which were made on a copy of this store, as a part of
    /// the running command. Inserted documents get new record numbers, and created collections get
    /// new serial numbers.
    ///
    /// # Errors
    ///
    /// If a change does not fit, or if the data exceeds its limit. An error leaves the store
    /// unchanged.
    pub(crate) fn merge(&mut self, changes: Vec<Change>) -> Answer<()> {
        let before = self.data.bytes;
        self.atomically(|store| {
            let mut numbers = BTreeMap::new();
            for change in changes {
                let change = store.renumbered(change, &mut numbers);
                store.commit(change)?;
            }
            let bytes = store.data.bytes;
            match store.limit {
                Some(limit) if bytes > limit && bytes > before => Err(out_of_space()),
                _ => Ok(()),
            }
        })
    }

    /// Returns a change with the numbers of this store. `numbers` has the new numbers of the
    /// records that earlier changes have inserted.
    fn renumbered(
        &self,
        mut change: Change,
        numbers: &mut BTreeMap<(Namespace, u64), u64>,
    ) -> Change {
        match &mut change {
            Change::CreateCollection { serial, .. } => *serial = self.data.serial + 1,
            Change::Insert {
                namespace, record, ..
            } => {
                let next = self.collection(namespace).map_or(1, |c| c.next_record());
                numbers.insert((namespace.clone(), *record), next);
                *record = next;
            }
            Change::Replace {
                namespace, record, ..
            } => {
                if let Some(number) = numbers.get(&(namespace.clone(), *record)) {
                    *record = *number;
                }
            }
            Change::Delete {
                namespace, record, ..
            } => {
                if let Some(number) = numbers.remove(&(namespace.clone(), *record)) {
                    *record = number;
                }
            }
            _ => {}
        }
        // A collection that the transaction has created has another serial number now.
        if let Some((namespace, origin)) = change.origin_mut()
            && let Some(collection) = self.collection(namespace)
        {
            *origin = collection.origin();
        }
        change
    }

    /// True if a collection has the same options and indexes in both stores, or exists in neither.
    pub(crate) fn has_catalog_of(&self, other: &Self, namespace: &Namespace) -> bool {
        let (own, other) = (self.collection(namespace), other.collection(namespace));
        match (own, other) {
            (Some(own), Some(other)) => own.has_catalog_of(other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    /// Returns the memory of a collection in bytes if this store does not share the collection
    /// with the other one.
    pub(crate) fn unshared_bytes(&self, other: &Self, namespace: &Namespace) -> Option<usize> {
        let own = self.data.collection(namespace)?;
        let theirs = other.data.collection(namespace);
        let is_shared = theirs.is_some_and(|theirs| Arc::ptr_eq(own, theirs));
        (!is_shared).then(|| own.memory())
    }

    /// Returns the changes of the running command.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.pending
    }
}

impl Collection {
    /// True if another collection is the same one with the same options and indexes.
    fn has_catalog_of(&self, other: &Self) -> bool {
        let (own, theirs) = (self.indexes.iter(), other.indexes.iter());
        let mut pairs = own.zip(theirs);
        self.serial == other.serial
            && Arc::ptr_eq(&self.options, &other.options)
            && self.indexes.len() == other.indexes.len()
            && pairs.all(|(own, other)| Arc::ptr_eq(&own.specification, &other.specification))
    }
}
