//! Entries with many changes, which a secondary applies in parts if the caller of the deployment
//! runs jobs.
//!
//! The parts are applied to a copy of the data, so that readers see all changes of the entry or
//! none. The primary sends the entry again for each part.

use super::{Position, Replica, log::Entry};
use crate::store::{Store, Unapplied};
use std::mem;

/// The largest number of changes of a part.
const MAX_CHANGES_OF_PART: usize = 500;

/// A copy of the data with a part of the changes of the next entry.
#[derive(Debug)]
pub(super) struct Staged {
    position: Position,
    /// The number of changes that were applied.
    applied: usize,
    store: Store,
}

impl Replica {
    /// True if an entry is applied in parts.
    pub(super) const fn is_staged(&self, entry: &Entry) -> bool {
        self.has_small_messages && entry.changes.len() > MAX_CHANGES_OF_PART
    }

    /// Applies the next part of the entry that follows the oplog. Returns true if the data has all
    /// changes of the entry. An error leaves the data unchanged.
    pub(super) fn apply_part(&mut self, entry: &Entry) -> Result<bool, Unapplied> {
        // All oplogs with an entry of this position have the same entries before it.
        let is_known = |staged: &Staged| staged.position == entry.position;
        if !self.staged.as_ref().is_some_and(is_known) {
            self.forget_staged();
        }
        let mut staged = self.staged.take().unwrap_or_else(|| Staged {
            position: entry.position,
            applied: 0,
            store: self.store.clone(),
        });
        let left = entry.changes.iter().skip(staged.applied);
        for change in left.take(MAX_CHANGES_OF_PART) {
            staged.store.apply(change)?;
            staged.applied += 1;
        }
        if staged.applied < entry.changes.len() {
            self.staged = Some(staged);
            return Ok(false);
        }
        staged.store.keep_garbage();
        let before = mem::replace(&mut self.store, staged.store);
        self.garbage.add(entry.bytes(), before);
        Ok(true)
    }

    /// Drops the copy of the data with a part of an entry, if there is one.
    pub(super) fn forget_staged(&mut self) {
        if let Some(staged) = self.staged.take() {
            self.garbage.add(staged.store.bytes(), staged);
        }
    }
}
