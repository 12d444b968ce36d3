//! The changes of the running command. Every change of a store's own passes through
//! [`Store::commit`], so that none can miss the oplog: the store keeps the changes until they are
//! taken for the oplog or undone.

use super::change::Change;
use super::error::StoreError;
use super::{Answer, Store};

impl Store {
    /// Makes a change as a part of the running command.
    pub(super) fn commit(&mut self, change: Change) -> Answer<()> {
        let Self { data, pending, .. } = self;
        data.check(&change)
            .map_err(|misfit| StoreError::new(1, misfit.to_string()))?;
        // The change is kept first, so that a panic in the middle of it is undone as well.
        pending.push(change);
        if let Some(change) = pending.last() {
            data.perform(change);
        }
        Ok(())
    }

    /// Runs a part of a command, and undoes the changes of this part if it fails.
    pub(super) fn atomically<T>(&mut self, run: impl FnOnce(&mut Self) -> Answer<T>) -> Answer<T> {
        let start = self.pending.len();
        let result = run(self);
        if result.is_err() {
            self.undo_to(start);
        }
        result
    }

    /// Undoes all changes that were not taken, except the first `start` ones.
    pub(crate) fn undo_to(&mut self, start: usize) {
        while self.pending.len() > start {
            if let Some(change) = self.pending.last() {
                self.data.revert(change);
            }
            self.pending.pop();
        }
    }

    /// Undoes the changes that were not taken: those of a command that ended in a panic.
    pub fn undo_changes(&mut self) {
        self.undo_to(0);
    }

    /// Makes changes that no limit may refuse.
    pub(crate) fn without_limit<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let limit = self.limit.take();
        let made = make(self);
        self.limit = limit;
        made
    }

    /// Returns the changes of the command that has ended, in the order in which they were made. A
    /// command that failed can have made changes as well, for example an update of many documents.
    #[must_use]
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.pending)
    }

    /// True if changes wait to be taken.
    pub(crate) fn has_changes(&self) -> bool {
        self.pending_changes() > 0
    }

    /// Returns the number of changes that wait to be taken.
    pub(crate) const fn pending_changes(&self) -> usize {
        self.pending.len()
    }
}
