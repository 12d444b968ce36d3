//! The prepared state of a transaction, in which it can always commit and waits for the decision of
//! its coordinator.
//!
//! The oplog has the changes of a prepared transaction, so that they outlive the process and an
//! election. The next primary opens the transaction again.

use super::{Phase, State, Transaction, TransactionId, coordinator::Decision};
use crate::{
    replica::{Retry, Step},
    server::{
        Member,
        connection::Request,
        fault::{Fault, fault},
    },
    store::{Change, Claims, Store},
};
use bson::Timestamp;
use onionskin_core::time::Instant;
use std::{collections::BTreeMap, sync::Arc};

impl Member {
    /// Prepares an open transaction, and returns the time at which it was prepared. Returns `None`
    /// if there is no such transaction. One whose statement is not complete is aborted.
    pub(super) fn prepare(&mut self, now: Instant, id: TransactionId) -> Option<Timestamp> {
        let (session, number) = id;
        if self.newest_number(&session) != (number, Phase::Open) {
            let open = self.transactions.get(&session);
            let is_newest = self.newest_number(&session) == (number, Phase::Prepared);
            return open.filter(|_| is_newest)?.prepared;
        }
        let open = self.transactions.get(&session)?;
        if open.paused.is_some() {
            self.abort_open(&session);
            return None;
        }
        let (changes, bytes) = (Arc::clone(&open.changes), open.bytes);
        let time = self.replica.next_time(self.wall_millis(now));
        let data = self.transactions.note_prepared(&session, time);
        self.garbage.add(bytes, data);
        self.log_step(now, id, Step::Prepare(changes), Some(bytes));
        debug_assert_eq!(self.replica.last_time(), time, "the entry has this time");
        Some(time)
    }

    /// Carries out the decision of a coordinator on a transaction, unless that was done before.
    /// Returns false while the transaction is committing. The coordinator is told at the end.
    pub(super) fn carry_out(
        &mut self,
        now: Instant,
        id: TransactionId,
        decision: Decision,
        coordinator: usize,
    ) -> bool {
        let (session, number) = id;
        let phase = match self.newest_number(&session) {
            (newest, phase) if newest == number => phase,
            _ => return true,
        };
        match (decision, phase) {
            (Decision::Commit(at), Phase::Prepared) => {
                return self.commit_prepared(now, id, at, coordinator);
            }
            (Decision::Abort, Phase::Prepared) => {
                self.end_transaction(&session, State::Aborted);
                self.log_step(now, id, Step::Abort, None);
            }
            (Decision::Abort, Phase::Open) => self.abort_open(&session),
            _ => {}
        }
        true
    }

    /// Logs a step of a transaction. `bytes` is the size of its changes, if they are logged.
    pub(super) fn log_step(
        &mut self,
        now: Instant,
        (session, transaction): TransactionId,
        step: Step,
        bytes: Option<usize>,
    ) {
        let retry = Retry {
            session,
            transaction,
            step,
        };
        self.log_sized(now, Some(retry), bytes);
    }

    /// Opens the prepared transactions of the oplog again, after an election.
    pub(in crate::server) fn open_prepared(&mut self, now: Instant) {
        let prepared = self.replica.records().prepared();
        let prepared: Vec<_> = prepared
            .map(|(s, n, c, t)| (s, n, Arc::clone(c), t))
            .collect();
        for (session, number, changes, time) in prepared {
            let newest = self.replica.store();
            let mut claims = Claims::default();
            let has_room = claims.add(&changes, newest, newest, &[]);
            debug_assert!(
                has_room,
                "nothing has changed what a prepared transaction claims"
            );
            let transaction = Transaction {
                store: Store::new(),
                touched: changes
                    .iter()
                    .filter_map(Change::namespace)
                    .cloned()
                    .collect(),
                bytes: changes.iter().map(Change::bytes).sum(),
                changes,
                claims,
                unshared: BTreeMap::new(),
                has_opened_cursor: false,
                expires_at: now,
                prepared: Some(time),
                paused: None,
                merge: None,
            };
            self.transactions.start(session, number, transaction);
            let _ = self.transactions.note_prepared(&session, time);
        }
    }

    /// True in the cases of [`is_unsettled`](Self::is_unsettled), also for a secondary. A secondary
    /// has no open transactions, and knows the prepared ones from its oplog.
    pub(in crate::server) fn awaits_decision(&self, request: &Request, time: Timestamp) -> bool {
        if self.replica.is_leader() {
            return self.is_unsettled(request, time);
        }
        let prepared = self.replica.records().prepared();
        let mut earlier = prepared.filter(|(_, _, _, at)| *at <= time);
        earlier.any(|(_, _, changes, _)| {
            let mut names = changes.iter().filter_map(Change::namespace);
            names.any(|name| name.database == request.database)
        })
    }

    /// True if a read at a time must wait for the decision on a transaction that was prepared
    /// before and has written to the same database. The first statement of a transaction fixes the
    /// data of all databases, so that it waits in any case.
    pub(in crate::server) fn is_unsettled(&self, request: &Request, time: Timestamp) -> bool {
        let prepared = self.transactions.prepared();
        let is_first = request.command.contains_key("startTransaction");
        let mut earlier = prepared.filter(|open| open.prepared.is_some_and(|at| at <= time));
        earlier.any(|open| {
            let mut names = open.touched.iter();
            is_first || names.any(|name| name.database == request.database)
        })
    }
}

/// Returns the error of a command that a prepared transaction cannot have, and that of a session
/// that cannot start another transaction yet.
pub(super) fn is_prepared(number: i64) -> Fault {
    let text = format!(
        "The transaction {number} of the session is prepared: it takes no more statements, and the \
         session cannot start another one before its end"
    );
    fault(267, text)
}
