//! The records of retryable writes and transactions, by session.

use super::log::{Bound, Effect, Entry, Retry, SessionKey, Step};
use crate::store::Change;
use bson::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

/// The latest transaction number of a session, and the effects of the statements with that number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) transaction: i64,
    pub(crate) statements: BTreeMap<i32, Effect>,
    /// True if the number is that of a committed transaction.
    pub(crate) is_committed: bool,
    /// The changes of the transaction with this number, if it is prepared, and the time at which it
    /// was.
    pub(crate) prepared: Option<(Arc<Vec<Change>>, Timestamp)>,
    /// The size of the statements in bytes, as [`Effect::bytes`] counts it.
    bytes: usize,
    /// The index of the last entry that changed the record.
    used: u64,
}

impl Record {
    fn note(&mut self, step: &Step, time: Timestamp) {
        match step {
            Step::Statements(statements) => {
                self.note_statements(statements);
                return;
            }
            Step::Prepare(changes) => {
                self.prepared = Some((Arc::clone(changes), time));
                return;
            }
            Step::Commit(_) => self.is_committed = true,
            Step::Abort => {}
        }
        self.prepared = None;
    }

    /// Records the effects of statements. Returns the former effects of those that were recorded
    /// before.
    fn note_statements(&mut self, statements: &[(i32, Effect)]) -> Vec<(i32, Effect)> {
        let mut former = Vec::new();
        for (number, effect) in statements {
            self.bytes += effect.bytes();
            if let Some(replaced) = self.statements.insert(*number, effect.clone()) {
                self.bytes -= replaced.bytes();
                former.push((*number, replaced));
            }
        }
        former
    }

    fn forget(&mut self, ids: &[i32]) {
        for id in ids {
            self.bytes -= self
                .statements
                .remove(id)
                .map_or(0, |effect| effect.bytes());
        }
    }
}

/// The records of retryable writes, by session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    by_session: BTreeMap<SessionKey, Record>,
    by_use: BTreeMap<u64, SessionKey>,
    /// The size of the statements of all records in bytes, as [`Effect::bytes`] counts it.
    bytes: usize,
}

/// How an entry has changed the records.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    /// The session of the entry.
    session: SessionKey,
    before: Before,
    /// The records of other sessions that were removed to keep the bound.
    removed: Vec<(SessionKey, Record)>,
}

/// The state of a record before an entry.
#[derive(Clone, Debug)]
enum Before {
    /// The whole record. `None` if the session had none.
    Record(Option<Record>),
    /// The entry has added statements with these ids to the record.
    Statements {
        ids: Vec<i32>,
        /// The former effects of statements that were recorded again.
        replaced: Vec<(i32, Effect)>,
        used: u64,
    },
}

impl Undo {
    /// Returns the size of the records in bytes, as [`Effect::bytes`] counts it.
    pub(super) fn bytes(&self) -> usize {
        let removed = self.removed.iter().map(|(_, record)| record.bytes);
        self.before.bytes() + removed.sum::<usize>()
    }
}

impl Before {
    fn bytes(&self) -> usize {
        match self {
            Self::Record(record) => record.as_ref().map_or(0, |record| record.bytes),
            Self::Statements { ids, replaced, .. } => {
                let replaced = replaced.iter().map(|(_, effect)| effect.bytes());
                ids.len() * size_of::<i32>() + replaced.sum::<usize>()
            }
        }
    }
}

impl Records {
    pub(crate) fn of(&self, session: &SessionKey) -> Option<&Record> {
        self.by_session.get(session)
    }

    /// Returns the sessions with a prepared transaction, with its number, changes and time.
    pub(crate) fn prepared(
        &self,
    ) -> impl Iterator<Item = (SessionKey, i64, &Arc<Vec<Change>>, Timestamp)> {
        self.by_session.iter().filter_map(|(session, record)| {
            let (changes, time) = record.prepared.as_ref()?;
            Some((*session, record.transaction, changes, *time))
        })
    }

    /// Records the step of an entry. Then removes the records that changed longest ago, until the
    /// bound is kept. Returns how the records have changed, for a rollback.
    pub(super) fn note(&mut self, retry: &Retry, entry: &Entry, bound: Bound) -> Undo {
        let before = match self.add(retry, entry.position.index) {
            Some(before) => before,
            None => Before::Record(self.replace(retry, entry)),
        };
        let mut removed = Vec::new();
        // The newest record and the prepared transactions stay even if they exceed the bound.
        while bound.is_exceeded(self.by_session.len(), self.bytes) {
            let older = self.by_use.range(..entry.position.index);
            let mut older = older.map(|(_, session)| *session);
            let may_go = |session: &SessionKey| {
                let record = self.by_session.get(session);
                record.is_none_or(|record| record.prepared.is_none())
            };
            let Some(oldest) = older.find(may_go) else {
                break;
            };
            removed.extend(self.remove(&oldest).map(|record| (oldest, record)));
        }
        Undo {
            session: retry.session,
            before,
            removed,
        }
    }

    /// Adds the statements of an entry to the record with the same transaction number. Returns
    /// `None` without a change if there is none, or for another step.
    fn add(&mut self, retry: &Retry, index: u64) -> Option<Before> {
        let Step::Statements(statements) = &retry.step else {
            return None;
        };
        let record = self.by_session.get_mut(&retry.session)?;
        if record.transaction != retry.transaction {
            return None;
        }
        self.bytes -= record.bytes;
        let replaced = record.note_statements(statements);
        self.bytes += record.bytes;
        let used = std::mem::replace(&mut record.used, index);
        self.by_use.remove(&used);
        self.by_use.insert(index, retry.session);
        Some(Before::Statements {
            ids: statements.iter().map(|(id, _)| *id).collect(),
            replaced,
            used,
        })
    }

    /// Replaces the record of a session by that after the entry. Returns the old one.
    fn replace(&mut self, retry: &Retry, entry: &Entry) -> Option<Record> {
        let old = self.remove(&retry.session);
        let mut record = match &old {
            Some(old) if old.transaction == retry.transaction => old.clone(),
            _ => Record {
                transaction: retry.transaction,
                ..Record::default()
            },
        };
        record.used = entry.position.index;
        record.note(&retry.step, entry.time);
        self.insert(retry.session, record);
        old
    }

    fn insert(&mut self, session: SessionKey, record: Record) {
        self.by_use.insert(record.used, session);
        self.bytes += record.bytes;
        self.by_session.insert(session, record);
    }

    fn remove(&mut self, session: &SessionKey) -> Option<Record> {
        let record = self.by_session.remove(session)?;
        self.by_use.remove(&record.used);
        self.bytes -= record.bytes;
        Some(record)
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        for (session, record) in undo.removed {
            self.insert(session, record);
        }
        let record = self.remove(&undo.session);
        let old = match undo.before {
            Before::Record(old) => old,
            Before::Statements {
                ids,
                replaced,
                used,
            } => record.map(|mut record| {
                record.forget(&ids);
                record.note_statements(&replaced);
                record.used = used;
                record
            }),
        };
        if let Some(old) = old {
            self.insert(undo.session, old);
        }
    }
}
