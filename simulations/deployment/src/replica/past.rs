//! The data and the entries of earlier times.

use super::{Replica, log::Entry};
use crate::store::Store;
use bson::Timestamp;
use std::sync::Arc;

/// The data of an earlier time, which is made in parts from a copy of the newest data.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    /// The index of the last entry that the data has.
    index: u64,
    /// The term of this entry, if the oplog has it.
    term: Option<u64>,
    time: Option<Timestamp>,
    store: Store,
    /// The later entries whose changes were not all reverted, in their order.
    later: Vec<Arc<Entry>>,
    /// The number of changes of the last of these that were reverted.
    reverted: usize,
    /// The entries that were reverted and whose changes the data must have, the latest first.
    visible: Vec<Arc<Entry>>,
}

impl Past {
    /// Returns the term and the index of the last entry that the data has.
    pub(crate) const fn place(&self) -> (Option<u64>, u64) {
        (self.term, self.index)
    }

    /// Returns the cluster time of the data, if it was given.
    pub(crate) const fn time(&self) -> Option<Timestamp> {
        self.time
    }

    /// Reverts the next changes, at most this number of them. Returns true if no change is left.
    pub(crate) fn go_on(&mut self, mut most: usize) -> bool {
        while let Some(entry) = self.later.last() {
            let left = entry.changes.len() - self.reverted;
            let part = left.min(most);
            let changes = entry.changes.iter().rev().skip(self.reverted);
            for change in changes.take(part) {
                self.store.revert(change);
            }
            if part < left {
                self.reverted += part;
                return false;
            }
            most -= part;
            self.reverted = 0;
            let entry = self.later.pop();
            let is_visible = |entry: &Arc<Entry>| {
                let at = entry.committed_at();
                at.is_some_and(|at| Some(at) <= self.time)
            };
            self.visible.extend(entry.filter(is_visible));
        }
        true
    }

    /// Returns the data once no change is left to revert. Returns `None` if a prepared transaction
    /// does not fit the data, which is a defect.
    pub(crate) fn into_store(self) -> Option<Store> {
        let mut store = self.store;
        // No change between its preparation and its commit concerns the same documents. It can have
        // used the same record numbers, so that the changes get new ones.
        for entry in self.visible.into_iter().rev() {
            let merged = store.without_limit(|store| store.merge(&entry.changes));
            merged.ok()?;
        }
        let _ = store.take_changes();
        Some(store)
    }
}

impl Replica {
    /// Returns the index of the first entry that is not earlier than a time. Returns `None` if the
    /// oplog may have had earlier such entries.
    pub(crate) fn index_from(&self, time: Timestamp) -> Option<u64> {
        let base = self.log.base().index;
        if base > 0 && time <= self.log.base_time() {
            return None;
        }
        let before = self.index_at(time).unwrap_or(base);
        Some(match self.log.get(before) {
            Some(entry) if entry.time == time => before,
            _ => before + 1,
        })
    }

    /// Returns the data at the entry with this index, or `None` if the oplog does not reach back to
    /// it. With a cluster time, the data also has the prepared transactions that later entries
    /// commit, if they have committed at this time or earlier.
    pub(crate) fn store_at(&self, index: u64, time: Option<Timestamp>) -> Option<Store> {
        let mut past = self.past(index, time)?;
        past.go_on(usize::MAX);
        past.into_store()
    }

    /// Starts to make the data at the entry with this index, as [`store_at`](Self::store_at) does.
    pub(crate) fn past(&self, index: u64, time: Option<Timestamp>) -> Option<Past> {
        if index < self.log.base().index {
            return None;
        }
        let later = index + 1..=self.log.last().index;
        let later = later.filter_map(|index| self.log.get(index).cloned());
        Some(Past {
            index,
            term: self.log.term_at(index),
            time,
            store: self.store.clone(),
            later: later.collect(),
            reverted: 0,
            visible: Vec::new(),
        })
    }

    /// Returns the term of the entry with this index, if the oplog has it.
    pub(crate) fn term_at(&self, index: u64) -> Option<u64> {
        self.log.term_at(index)
    }

    /// Returns the time of the entry with this index.
    pub(crate) fn time_at(&self, index: u64) -> Timestamp {
        let entry = self.log.get(index);
        entry.map_or_else(|| self.log.base_time(), |entry| entry.time)
    }

    /// Returns the index of the last entry that is not later than a time, or `None` if the time is
    /// before that of the oldest data.
    pub(crate) fn index_at(&self, time: Timestamp) -> Option<u64> {
        let (base, last) = (self.log.base().index, self.log.last().index);
        let mut entries = (base + 1..=last).rev();
        let is_reached = |index: &u64| self.log.get(*index).is_some_and(|e| e.time <= time);
        let has_base = base > 0 && time >= self.log.base_time();
        entries
            .find(is_reached)
            .or_else(|| has_base.then_some(base))
    }
}
