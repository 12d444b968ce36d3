//! Wakers of those who wait for the same thing.

use std::{collections::BTreeMap, task::Waker};

/// One waker for each that waits, and the number that it waits for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    entries: BTreeMap<u64, (u64, Waker)>,
    next: u64,
}

impl Waiters {
    /// Keeps `waker` until `number` is reached, in the place that `key` names; a new key where
    /// there is none. Gives what was in that place, to be dropped outside of all locks.
    pub(crate) fn wait(
        &mut self,
        key: &mut Option<u64>,
        number: u64,
        waker: Waker,
    ) -> Option<Waker> {
        let key = *key.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let old = self.entries.insert(key, (number, waker));
        old.map(|(_, waker)| waker)
    }

    /// Somebody waits no more. Gives what was kept, to be dropped outside of all locks.
    pub(crate) fn leave(&mut self, key: Option<u64>) -> Option<Waker> {
        let (_, waker) = self.entries.remove(&key?)?;
        Some(waker)
    }

    /// The wakers of those who wait for a number up to `reached`.
    pub(crate) fn reached(&mut self, reached: u64) -> Vec<Waker> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let due = |(number, _): &(u64, Waker)| *number <= reached;
        let entries = std::mem::take(&mut self.entries).into_iter();
        let (due, rest): (BTreeMap<_, _>, _) = entries.partition(|(_, entry)| due(entry));
        self.entries = rest;
        due.into_values().map(|(_, waker)| waker).collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
