//! The wakers of tasks that wait for the same counter.

use std::{collections::BTreeMap, task::Waker};

/// The wakers of waiting tasks, each with the number for which its task waits.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    entries: BTreeMap<u64, (u64, Waker)>,
    next: u64,
}

impl Waiters {
    /// Stores `waker` until the counter reaches `number`. `key` identifies the entry of the task;
    /// the first call sets `key`. Returns the previous waker of the entry, which the caller must
    /// drop outside of all locks.
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

    /// Removes the entry of a task. Returns its waker, which the caller must drop outside of all
    /// locks.
    pub(crate) fn leave(&mut self, key: Option<u64>) -> Option<Waker> {
        let (_, waker) = self.entries.remove(&key?)?;
        Some(waker)
    }

    /// Removes and returns the wakers of tasks that wait for a number of at most `reached`.
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

    /// True if no task waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
