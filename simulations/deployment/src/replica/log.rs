//! The oplog.

use super::records::{Records, Undo};
use crate::{
    garbage::Garbage,
    store::{Change, encoded_bytes},
};
use bson::{Bson, Document, Timestamp};
use std::{collections::VecDeque, sync::Arc};

/// The position of an entry in the oplog. A position of a later term is newer than all positions of
/// earlier terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The term of the primary that wrote the entry.
    pub(crate) term: u64,
    /// The entry's number, from 1. The number 0 stands for the position before the first entry.
    pub(crate) index: u64,
}

/// The cluster time zero, of an oplog without entries.
pub(crate) const NO_TIME: Timestamp = Timestamp {
    time: 0,
    increment: 0,
};

/// The largest number of entries or records to keep, and their largest total size. The bound is
/// exceeded if either value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) count: usize,
    /// The number of bytes, as [`Change::bytes`] and [`Effect::bytes`] count them.
    pub(crate) bytes: usize,
}

impl Bound {
    pub(super) const fn is_exceeded(self, count: usize, bytes: usize) -> bool {
        count > self.count || bytes > self.bytes
    }

    pub(crate) const fn doubled(self) -> Self {
        Self {
            count: self.count.saturating_mul(2),
            bytes: self.bytes.saturating_mul(2),
        }
    }
}

/// The changes of one command, or of one part of it. The entries that a primary writes at its
/// election and while it is idle have no changes. A member applies all changes or none.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) position: Position,
    pub(crate) time: Timestamp,
    /// The wall clock's time when the entry was written, in milliseconds since 1970.
    pub(crate) wall_millis: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) retry: Option<Retry>,
    /// The size of the entry in bytes, as [`Bound`] counts it.
    bytes: usize,
}

impl Entry {
    pub(crate) fn new(
        position: Position,
        (time, wall_millis): (Timestamp, u64),
        changes: Vec<Change>,
        retry: Option<Retry>,
    ) -> Self {
        let bytes = retry.as_ref().map_or(0, Retry::bytes) + bytes_of(&changes);
        Self::sized(position, (time, wall_millis), changes, retry, bytes)
    }

    /// Makes an entry whose size in bytes is known, as [`Bound`] counts it.
    pub(crate) const fn sized(
        position: Position,
        (time, wall_millis): (Timestamp, u64),
        changes: Vec<Change>,
        retry: Option<Retry>,
        bytes: usize,
    ) -> Self {
        Self {
            position,
            time,
            wall_millis,
            changes,
            retry,
            bytes,
        }
    }

    /// Returns the size of the entry in bytes, as [`Bound`] counts it.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the cluster time of the prepared transaction that this entry commits.
    pub(crate) fn committed_at(&self) -> Option<Timestamp> {
        match self.retry.as_ref()?.step {
            Step::Commit(at) => at,
            _ => None,
        }
    }
}

/// The UUID of a session.
pub(crate) type SessionKey = [u8; 16];

fn bytes_of(changes: &[Change]) -> usize {
    changes.iter().map(Change::bytes).sum()
}

/// The retryable statements of the command that made an entry, or a step of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    pub(crate) session: SessionKey,
    pub(crate) transaction: i64,
    pub(crate) step: Step,
}

/// The effect of an entry on the transaction number of a session.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Records the effects of retryable statements, by their ids.
    Statements(Vec<(i32, Effect)>),
    /// Prepares a transaction: from now on, it can always commit. Its changes become those of a
    /// later entry.
    Prepare(Arc<Vec<Change>>),
    /// Commits a transaction. If it was prepared, with its cluster time, which is that of all
    /// shards and not later than the time of the entry.
    Commit(Option<Timestamp>),
    /// Aborts a prepared transaction.
    Abort,
}

impl Retry {
    fn bytes(&self) -> usize {
        match &self.step {
            Step::Statements(statements) => statements.iter().map(|(_, e)| e.bytes()).sum(),
            Step::Prepare(changes) => bytes_of(changes),
            Step::Commit(_) | Step::Abort => 0,
        }
    }
}

/// The kind of a statement, or of the change that it made, as the field `op` of a server's oplog
/// has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Insert,
    Update,
    Delete,
}

/// The effect of a statement, from which its reply can be repeated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    Write {
        /// The kind of the statement. An update that inserts is an update.
        op: Op,
        matched: u64,
        modified: u64,
        upserted: Option<Bson>,
    },
    Modify {
        /// The fields `value` and `lastErrorObject` of the reply to a `findAndModify`.
        answer: Document,
        /// True if `value` is the document after the update (`new: true`).
        is_after: bool,
    },
}

/// The number of bytes that [`Effect::bytes`] counts for each effect, besides the document of
/// [`Effect::Modify`].
const EFFECT_BYTES: usize = 64;

impl Effect {
    pub(super) fn bytes(&self) -> usize {
        EFFECT_BYTES
            + match self {
                Self::Write { .. } => 0,
                Self::Modify { answer, .. } => encoded_bytes(answer),
            }
    }

    /// Returns the kind of the change that the statement made, or `None` if it changed nothing. An
    /// update that inserts is an insert here.
    pub(crate) fn change(&self) -> Option<Op> {
        match self {
            Self::Write {
                op: Op::Update,
                modified,
                upserted,
                ..
            } => match upserted {
                Some(_) => Some(Op::Insert),
                None => (*modified > 0).then_some(Op::Update),
            },
            Self::Write { op, matched, .. } => (*matched > 0).then_some(*op),
            Self::Modify { answer, .. } => {
                let last = answer.get_document("lastErrorObject").ok()?;
                let op = match last.get_bool("updatedExisting") {
                    Ok(true) => Op::Update,
                    Ok(false) => Op::Insert,
                    Err(_) => Op::Delete,
                };
                let is_done = last.get_i32("n").is_ok_and(|n| n > 0);
                is_done.then_some(op)
            }
        }
    }

    /// Returns the `_id` of the document that an update inserted.
    pub(crate) fn upserted(&self) -> Option<&Bson> {
        match self {
            Self::Write { upserted, .. } => upserted.as_ref(),
            Self::Modify { answer, .. } => {
                let last = answer.get_document("lastErrorObject").ok()?;
                last.get("upserted")
            }
        }
    }
}

/// The oplog: entries in order. The oldest entries may be removed.
#[derive(Debug, Default)]
pub(crate) struct Log {
    slots: VecDeque<(Arc<Entry>, Option<Undo>)>,
    /// The size of the entries and of their undo records in bytes, as [`Bound`] counts it.
    bytes: usize,
    /// The position of the entry before the first kept entry.
    base: Position,
    /// The time of the entry at `base`.
    base_time: Timestamp0,
}

/// A timestamp with a default of zero.
#[derive(Clone, Copy, Debug)]
struct Timestamp0(Timestamp);

impl Default for Timestamp0 {
    fn default() -> Self {
        Self(NO_TIME)
    }
}

impl Log {
    /// Creates a log without entries. The next entry follows the position `base`.
    pub(crate) fn starting_after(base: Position, time: Timestamp) -> Self {
        Self {
            slots: VecDeque::new(),
            bytes: 0,
            base,
            base_time: Timestamp0(time),
        }
    }

    pub(crate) fn push(&mut self, entry: Arc<Entry>, records: &mut Records, bound: Bound) {
        debug_assert_eq!(entry.position.index, self.last().index + 1, "no gap");
        let undo = entry
            .retry
            .as_ref()
            .map(|retry| records.note(retry, &entry, bound));
        self.bytes += slot_bytes(&entry, undo.as_ref());
        self.slots.push_back((entry, undo));
    }

    /// Removes the last entry, and restores the record of its session.
    pub(crate) fn pop(&mut self, records: &mut Records) -> Option<Arc<Entry>> {
        let (entry, undo) = self.slots.pop_back()?;
        self.bytes -= slot_bytes(&entry, undo.as_ref());
        if let Some(undo) = undo {
            records.undo(undo);
        }
        Some(entry)
    }

    /// Reverts the change that the entry with this index made to the records. `records` is a copy.
    pub(crate) fn undo_in(&self, index: u64, records: &mut Records) {
        let at = index.saturating_sub(self.base.index + 1);
        let slot = usize::try_from(at).ok().and_then(|at| self.slots.get(at));
        if let Some((_, Some(undo))) = slot {
            records.undo(undo.clone());
        }
    }

    /// Returns the time of the entry before the first kept entry.
    pub(crate) const fn base_time(&self) -> Timestamp {
        self.base_time.0
    }

    /// Removes the oldest entries up to `index` until the log is within `keep`. Drops them by way
    /// of `garbage`.
    pub(crate) fn trim(&mut self, index: u64, keep: Bound, garbage: &mut Garbage) {
        while self.exceeds(keep) && self.base.index < index {
            if let Some((entry, undo)) = self.slots.pop_front() {
                let bytes = slot_bytes(&entry, undo.as_ref());
                self.bytes -= bytes;
                self.base = entry.position;
                self.base_time = Timestamp0(entry.time);
                garbage.add(bytes, (entry, undo));
            }
        }
    }

    pub(crate) fn last(&self) -> Position {
        self.slots.back().map_or(self.base, |(e, _)| e.position)
    }

    /// Returns the time of the last entry, or `base_time` if the log holds no entry.
    pub(crate) fn last_time(&self) -> Timestamp {
        self.slots.back().map_or(self.base_time.0, |(e, _)| e.time)
    }

    pub(crate) const fn base(&self) -> Position {
        self.base
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Arc<Entry>> {
        let at = index.checked_sub(self.base.index + 1)?;
        self.slots
            .get(usize::try_from(at).ok()?)
            .map(|(entry, _)| entry)
    }

    /// Returns the term of a kept entry, or of the entry before the first kept one.
    pub(crate) fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.get(index).map(|e| e.position.term)
    }

    pub(crate) fn exceeds(&self, bound: Bound) -> bool {
        bound.is_exceeded(self.slots.len(), self.bytes)
    }

    /// Returns the number of kept entries, and the size in bytes of these entries and their undo
    /// records.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.slots.len(), self.bytes)
    }
}

fn slot_bytes(entry: &Entry, undo: Option<&Undo>) -> usize {
    entry.bytes + undo.map_or(0, Undo::bytes)
}
