//! Transactions: the comparison of their data with the newest data, and their commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::Change;
use super::collection::Collection;
use super::index::out_of_space;
use super::parts::Parts;
use super::types::Namespace;
use super::{Answer, Store};

/// The new numbers of the records that a transaction has inserted, by those of its own data.
type Numbers = BTreeMap<Namespace, BTreeMap<u64, u64>>;

/// The commit of a transaction in parts, on a copy of the collections that it changes. No other
/// write may change these collections before [`Store::publish`].
#[derive(Debug)]
pub(crate) struct Merge {
    changes: Arc<Vec<Change>>,
    /// The number of changes that were made.
    made: usize,
    /// The collections, with the changes that were made.
    copy: Store,
    names: BTreeSet<Namespace>,
    /// The memory of the collections before the changes, in bytes.
    memory_before: usize,
    numbers: Numbers,
}

impl Merge {
    /// Makes further changes, until a part is over or all are made. Returns true if all are made.
    ///
    /// # Errors
    ///
    /// If a change does not fit. The transaction cannot commit then.
    pub(crate) fn go_on(&mut self, parts: &Parts) -> Answer<bool> {
        while let Some(change) = self.changes.get(self.made) {
            if parts.is_over() {
                return Ok(false);
            }
            let change = self.copy.renumbered(change.clone(), &mut self.numbers);
            let collection = change
                .namespace()
                .and_then(|name| self.copy.collection(name));
            parts.count(collection, change.bytes());
            self.copy.commit(change)?;
            self.made += 1;
        }
        Ok(true)
    }

    /// True if the transaction changes this collection.
    pub(crate) fn concerns(&self, namespace: &Namespace) -> bool {
        self.names.contains(namespace)
    }
}

impl Store {
    /// Makes the changes of a transaction, which were made on a copy of this store, as a part of
    /// the running command. Inserted documents get new record numbers, and created collections get
    /// new serial numbers.
    ///
    /// # Errors
    ///
    /// If a change does not fit, or if the data exceeds its limit. An error leaves the store
    /// unchanged.
    pub(crate) fn merge(&mut self, changes: &[Change]) -> Answer<()> {
        let before = self.data.bytes;
        self.atomically(|store| {
            let mut numbers = Numbers::new();
            for change in changes {
                let change = store.renumbered(change.clone(), &mut numbers);
                store.commit(change)?;
            }
            let bytes = store.data.bytes;
            match store.limit {
                Some(limit) if bytes > limit && bytes > before => Err(out_of_space()),
                _ => Ok(()),
            }
        })
    }

    /// Starts to make the changes of a transaction in parts. See [`merge`](Self::merge).
    pub(crate) fn begin_merge(&mut self, changes: Arc<Vec<Change>>) -> Merge {
        let names = namespaces(&changes);
        let creates = |change: &&Change| matches!(change, Change::CreateCollection { .. });
        let created = changes.iter().filter(creates).count() as u64;
        let mut copy = self.without_data();
        copy.limit = None;
        copy.data.serial = self.data.serial;
        // The collections that others create meanwhile get later serial numbers.
        self.data.serial += created;
        for name in &names {
            if let Some(collection) = self.data.collection(name) {
                copy.data.place(name, Arc::clone(collection));
            }
        }
        Merge {
            changes,
            made: 0,
            memory_before: copy.data.bytes,
            copy,
            names,
            numbers: Numbers::new(),
        }
    }

    /// True if the first part of a commit in parts makes all changes of the transaction.
    pub(crate) fn merges_in(&self, parts: &Parts, changes: &[Change]) -> bool {
        changes.iter().all(|change| {
            let is_in_part = !parts.is_over();
            let collection = change.namespace().and_then(|name| self.collection(name));
            parts.count(collection, change.bytes());
            is_in_part
        })
    }

    /// Makes the changes of a transaction, which were made in parts, as a part of the running
    /// command. All of them become visible at once.
    ///
    /// # Errors
    ///
    /// If the data would exceed its limit. The store is unchanged then.
    pub(crate) fn publish(&mut self, merge: &mut Merge) -> Answer<()> {
        let grown = merge.copy.data.bytes.saturating_sub(merge.memory_before);
        if grown > 0 && grown > self.room() {
            return Err(out_of_space());
        }
        for name in &merge.names {
            if let Some(collection) = merge.copy.data.displace(name) {
                self.data.exchange(name, collection);
            }
        }
        self.pending.append(&mut merge.copy.pending);
        Ok(())
    }

    /// Returns a change with the numbers of this store. `numbers` has the new numbers of the
    /// records that earlier changes have inserted.
    fn renumbered(&self, mut change: Change, numbers: &mut Numbers) -> Change {
        match &mut change {
            Change::CreateCollection { serial, .. } => *serial = self.data.serial + 1,
            Change::Insert {
                namespace, record, ..
            } => {
                let next = self.collection(namespace).map_or(1, |c| c.next_record());
                let numbers = numbers.entry(namespace.clone()).or_default();
                numbers.insert(*record, next);
                *record = next;
            }
            Change::Replace {
                namespace, record, ..
            } => {
                let numbers = numbers.get(namespace);
                if let Some(number) = numbers.and_then(|numbers| numbers.get(record)) {
                    *record = *number;
                }
            }
            Change::Delete {
                namespace, record, ..
            } => {
                let numbers = numbers.get_mut(namespace);
                if let Some(number) = numbers.and_then(|numbers| numbers.remove(record)) {
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

/// Returns the names of the collections that changes concern.
pub(crate) fn namespaces(changes: &[Change]) -> BTreeSet<Namespace> {
    let mut names = BTreeSet::new();
    for name in changes.iter().filter_map(Change::namespace) {
        if !names.contains(name) {
            names.insert(name.clone());
        }
    }
    names
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
