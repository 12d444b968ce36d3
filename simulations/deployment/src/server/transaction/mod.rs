//! Transactions of several statements.
//!
//! A transaction has a copy of the data, which shares all collections that nobody changes. Its
//! statements read and write this copy, and each write claims its documents and unique keys. A
//! second transaction that wants to write one of them fails with a write conflict, and a write
//! outside of transactions waits. Therefore the changes of a transaction fit the newest data when
//! it commits. They become one entry of the oplog.
//!
//! The transactions of a member end with its primaryship, unless they are prepared. A committed
//! transaction that has written is recorded like a retryable write, so that a later primary knows
//! the outcome.

mod commit;
mod coordinator;
mod fields;
mod guard;
mod labels;
mod memory;
mod merging;
mod parameters;
mod paused;
mod prepare;
mod router;
mod statement;

pub(crate) use coordinator::CommitMessage;
pub(super) use coordinator::Commits;
pub(super) use fields::{Part, ends, needs_set};
pub(super) use guard::Lock;
pub(super) use labels::labels;
pub(super) use router::RoutedTransactions;
use statement::conflict;

use crate::{
    deployment::ConnId,
    replica::SessionKey,
    store::{Change, Claims, Merge, Namespace, Store},
};
use bson::Timestamp;
use guard::Guard;
use merging::Decided;
use onionskin_core::time::Instant;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The session and the number of a transaction.
pub(super) type TransactionId = (SessionKey, i64);

/// The number of a session that has neither a transaction nor a retryable write.
const NO_NUMBER: i64 = -1;

/// The state of the newest transaction number of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The number belongs to a retryable write, or the session has no number.
    Other,
    Open,
    /// The transaction waits for the decision of its coordinator.
    Prepared,
    Committed,
    Aborted,
}

/// A transaction that has neither committed nor aborted.
#[derive(Debug)]
struct Transaction {
    /// The data that the transaction sees: its snapshot with its own changes. While a statement
    /// runs, this is the newest data, because the two are exchanged.
    store: Store,
    /// The changes of all statements, in the order in which they were made.
    changes: Arc<Vec<Change>>,
    claims: Claims,
    /// The collections that statements have named.
    touched: BTreeSet<Namespace>,
    /// The memory of the collections that the transaction does not share with the newest data.
    unshared: BTreeMap<Namespace, usize>,
    /// The size of the changes in bytes, as [`Change::bytes`] counts it.
    bytes: usize,
    has_opened_cursor: bool,
    expires_at: Instant,
    /// The time at which the transaction was prepared.
    prepared: Option<Timestamp>,
    /// The connection whose statement or commit has paused, or whose statement waits for its query.
    paused: Option<ConnId>,
    /// The commit, if a part of it was executed.
    merge: Option<Box<Merge>>,
}

#[derive(Debug)]
enum State {
    Open(Box<Transaction>),
    Committed,
    Aborted,
}

/// The newest transaction of a session.
#[derive(Debug)]
struct Session {
    number: i64,
    state: State,
    /// The place of the session in [`Transactions::by_use`].
    used: u64,
}

/// The transactions of a member.
#[derive(Debug)]
pub(super) struct Transactions {
    sessions: BTreeMap<SessionKey, Session>,
    /// The sessions by the last start or end of a transaction.
    by_use: BTreeMap<u64, SessionKey>,
    /// The sessions with an open transaction.
    open: BTreeSet<SessionKey>,
    expiries: BTreeSet<(Instant, SessionKey)>,
    /// The sessions whose prepared transactions are committing.
    decided: BTreeMap<SessionKey, Decided>,
    uses: u64,
    /// The session and the number of the transaction whose statement runs.
    running: Option<(SessionKey, i64)>,
    /// The state of the running write outside of transactions, if transactions are open.
    guard: Option<Guard>,
    /// The number of transactions that have ended, by which waiting writes see that one has.
    ended: u64,
    /// The number of commands that have ended which waited to change the catalog.
    changed: u64,
    /// The parameter `transactionLifetimeLimitSeconds`.
    pub(super) lifetime: Duration,
    /// The parameter `maxTransactionLockRequestTimeoutMillis`; `None` for no limit.
    pub(super) lock_timeout: Option<Duration>,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            sessions: BTreeMap::new(),
            by_use: BTreeMap::new(),
            open: BTreeSet::new(),
            expiries: BTreeSet::new(),
            decided: BTreeMap::new(),
            uses: 0,
            running: None,
            guard: None,
            ended: 0,
            changed: 0,
            lifetime: Duration::from_secs(60),
            lock_timeout: Some(Duration::from_millis(5)),
        }
    }
}

impl Transactions {
    /// Returns the newest transaction number of a session and its state, if this member has seen
    /// one that it did not forget.
    fn newest(&self, session: &SessionKey) -> Option<(i64, Phase)> {
        let session = self.sessions.get(session)?;
        let phase = match session.state {
            State::Open(ref open) if open.prepared.is_some() => Phase::Prepared,
            State::Open(_) => Phase::Open,
            State::Committed => Phase::Committed,
            State::Aborted => Phase::Aborted,
        };
        Some((session.number, phase))
    }

    fn get(&self, session: &SessionKey) -> Option<&Transaction> {
        match &self.sessions.get(session)?.state {
            State::Open(open) => Some(open),
            State::Committed | State::Aborted => None,
        }
    }

    fn get_mut(&mut self, session: &SessionKey) -> Option<&mut Transaction> {
        match &mut self.sessions.get_mut(session)?.state {
            State::Open(open) => Some(open),
            State::Committed | State::Aborted => None,
        }
    }

    /// True while a statement of a transaction runs.
    pub(super) const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the number of the transaction whose statement runs.
    pub(super) fn running_number(&self) -> Option<i64> {
        self.running.map(|(_, number)| number)
    }

    /// Notes that the running statement opens a cursor. Returns the number of its transaction.
    pub(super) fn note_cursor(&mut self) -> Option<i64> {
        let (session, number) = self.running?;
        self.get_mut(&session)?.has_opened_cursor = true;
        Some(number)
    }

    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the time at which the oldest open transaction is aborted.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.expiries.first().map(|&(at, _)| at)
    }

    /// Notes the start of a transaction. The transaction of the session before it has ended.
    fn start(&mut self, session: SessionKey, number: i64, transaction: Transaction) {
        self.expiries.insert((transaction.expires_at, session));
        self.open.insert(session);
        self.put(session, number, State::Open(Box::new(transaction)));
    }

    /// Notes that the open transaction of a session was prepared. It no longer expires. Returns its
    /// data, which no statement reads any more.
    fn note_prepared(&mut self, session: &SessionKey, time: Timestamp) -> Option<Store> {
        self.stop_expiry(session);
        let open = self.get_mut(session)?;
        open.prepared = Some(time);
        open.unshared.clear();
        Some(std::mem::take(&mut open.store))
    }

    /// Lets the open transaction of a session no longer expire.
    fn stop_expiry(&mut self, session: &SessionKey) {
        if let Some(open) = self.get(session) {
            let expiry = (open.expires_at, *session);
            self.expiries.remove(&expiry);
        }
    }

    /// True if prepared transactions are committing.
    pub(super) fn are_committing(&self) -> bool {
        !self.decided.is_empty()
    }

    /// Returns the prepared transactions.
    fn prepared(&self) -> impl Iterator<Item = &Transaction> {
        let open = self.open.iter().filter_map(|session| self.get(session));
        open.filter(|open| open.prepared.is_some())
    }

    fn is_prepared(&self, session: &SessionKey) -> bool {
        self.get(session)
            .is_some_and(|open| open.prepared.is_some())
    }

    /// Forgets the prepared transactions, which the next primary opens again.
    pub(super) fn forget_prepared(&mut self) {
        for session in self.open.clone() {
            if self.is_prepared(&session) {
                self.end(&session, State::Aborted);
                if let Some(forgotten) = self.sessions.remove(&session) {
                    self.by_use.remove(&forgotten.used);
                }
            }
        }
    }

    /// Forgets the transactions that have ended. After a rollback only the records of the sessions
    /// say which of them were committed.
    pub(super) fn forget_ended(&mut self) {
        let open = &self.open;
        self.sessions.retain(|session, _| open.contains(session));
        self.by_use.retain(|_, session| open.contains(session));
    }

    /// Ends the open transaction of a session. Returns it with its number.
    fn end(&mut self, session: &SessionKey, state: State) -> Option<(i64, Transaction)> {
        if !self.open.remove(session) {
            return None;
        }
        let number = self.sessions.get(session)?.number;
        let before = self.put(*session, number, state)?;
        let State::Open(transaction) = before.state else {
            return None;
        };
        self.expiries.remove(&(transaction.expires_at, *session));
        self.decided.remove(session);
        self.ended += 1;
        Some((number, *transaction))
    }

    fn put(&mut self, session: SessionKey, number: i64, state: State) -> Option<Session> {
        self.uses += 1;
        let used = self.uses;
        let entry = Session {
            number,
            state,
            used,
        };
        let before = self.sessions.insert(session, entry);
        if let Some(before) = &before {
            self.by_use.remove(&before.used);
        }
        self.by_use.insert(used, session);
        before
    }

    /// Forgets the sessions without an open transaction that were used longest ago, until there are
    /// at most this many sessions.
    fn trim(&mut self, most: usize) {
        let excess = self.sessions.len().saturating_sub(most);
        let ended = self.by_use.iter().filter(|(_, s)| !self.open.contains(*s));
        let ended: Vec<(u64, SessionKey)> = ended.map(|(u, s)| (*u, *s)).take(excess).collect();
        for (used, session) in ended {
            self.by_use.remove(&used);
            self.sessions.remove(&session);
        }
    }

    /// Returns the claims of the open transactions other than that of a session.
    fn claims_besides(&self, session: &SessionKey) -> Vec<&Claims> {
        let others = self.open.iter().filter(|other| *other != session);
        let others = others.filter_map(|other| self.get(other));
        others.map(|other| &other.claims).collect()
    }
}
