//! The data and the entries of earlier times.

use super::Replica;
use crate::store::Store;
use bson::Timestamp;

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
        if index < self.log.base().index {
            return None;
        }
        let mut store = self.store.clone();
        let later = (index + 1..=self.log.last().index).rev();
        let mut visible = Vec::new();
        for entry in later.filter_map(|index| self.log.get(index)) {
            let changes = entry.changes.iter().rev();
            changes.for_each(|change| store.revert(change));
            if entry.committed_at().is_some_and(|at| Some(at) <= time) {
                visible.push(entry);
            }
        }
        // No change between its preparation and its commit concerns the same documents. It can have
        // used the same record numbers, so that the changes get new ones.
        for entry in visible.into_iter().rev() {
            let merged = store.without_limit(|store| store.merge(&entry.changes));
            merged.ok()?;
        }
        let _ = store.take_changes();
        Some(store)
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
