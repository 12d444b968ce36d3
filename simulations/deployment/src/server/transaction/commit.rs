//! The end of transactions.

use super::{Part, Phase, State, conflict, merging::Merged, prepare::is_prepared};
use crate::{
    replica::{ReplicaEvent, SessionKey, Step},
    server::{
        Member,
        connection::{Request, Waiting},
        cursor::Cursor,
        dispatch::{Answer, Outcome},
        fault::{Fault, fault},
        parts::Progress,
        reply::Reply,
        retry::session_key,
    },
};
use bson::{Bson, Document};
use onionskin_core::time::Instant;
use std::collections::BTreeSet;

impl Member {
    /// Commits a transaction, or executes the next part of the commit. A transaction that has
    /// committed already commits again without an effect, but waits for the write concern.
    pub(super) fn commit_transaction(
        &mut self,
        now: Instant,
        request: &mut Request,
        part: Part,
        phase: Phase,
    ) -> Answer {
        self.write_concern(request)?;
        if phase == Phase::Prepared {
            return Err(is_prepared(part.number));
        }
        if phase != Phase::Open {
            return Ok(Outcome::Written(Reply::default()));
        }
        let session = part.session;
        let Some(open) = self.transactions.get(&session) else {
            return Err(self.has_ended(part.number, 251, "aborted"));
        };
        let (has_changes, bytes) = (!open.changes.is_empty(), open.bytes);
        if has_changes {
            match self.merge_part(&session, &self.pausing()) {
                Ok(Merged::Complete) => {}
                Ok(Merged::Later) => {
                    self.pause_commit(request, &session);
                    return self.pause(now, request);
                }
                Ok(Merged::After(first)) => {
                    self.pause_commit(request, &session);
                    let waiting = Waiting::Statement {
                        session: first,
                        effect: None,
                    };
                    return Ok(Outcome::Wait(waiting, self.time_limit_of(now, request)));
                }
                Err(error) => {
                    self.end_transaction(&session, State::Aborted);
                    // The changes fit, because of the claims. Only the memory can be exceeded.
                    return Err(match error.code {
                        14031 => error.into(),
                        _ => conflict(),
                    });
                }
            }
        }
        self.end_transaction(&session, State::Committed);
        if has_changes {
            self.log_step(now, (session, part.number), Step::Commit(None), Some(bytes));
        }
        Ok(Outcome::Written(Reply::default()))
    }

    pub(super) fn abort_transaction(&mut self, request: &Request, part: Part) -> Answer {
        self.write_concern(request)?;
        if self.transactions.is_prepared(&part.session) {
            return Err(is_prepared(part.number));
        }
        self.abort_part(part);
        Ok(Outcome::Written(Reply::default()))
    }

    /// Notes that a commit goes on later. Its transaction no longer expires.
    fn pause_commit(&mut self, request: &mut Request, session: &SessionKey) {
        self.note_paused(session, true);
        self.transactions.stop_expiry(session);
        request.progress = Some(Box::new(Progress::Commit));
    }

    /// True if a commit fails because its transaction is unknown or aborted, and another member of
    /// the shard can know another outcome. The error then waits for a majority, whatever the write
    /// concern is. A member that is no longer the primary does not get one.
    pub(in crate::server) fn must_be_certain(&self, request: &Request, fault: &Fault) -> bool {
        let commits = matches!(
            request.name.as_str(),
            "commitTransaction" | "coordinateCommitTransaction"
        );
        let has_others = self.shard.is_some() && self.options.shard_members > 1;
        let is_unknown = fault.error.code == 251;
        commits && is_unknown && has_others && self.replica.is_writable()
    }

    /// Aborts the transaction of a command, if it is open.
    pub(super) fn abort_part(&mut self, part: Part) {
        if self.newest_number(&part.session) == (part.number, Phase::Open) {
            self.abort_open(&part.session);
        }
    }

    /// Aborts the open transaction of a session, if there is one that is not prepared.
    pub(in crate::server) fn abort_open(&mut self, session: &SessionKey) {
        if !self.transactions.is_prepared(session) {
            self.end_transaction(session, State::Aborted);
        }
    }

    /// Handles a retryable write. Aborts the open transaction of its session if it has a smaller
    /// number. Fails if a transaction has the same number or a greater one.
    pub(in crate::server) fn supersede_by(
        &mut self,
        session: &SessionKey,
        number: i64,
    ) -> Result<(), Fault> {
        let (newest, phase) = self.newest_number(session);
        if newest < number && phase == Phase::Prepared {
            return Err(is_prepared(newest));
        }
        if newest < number {
            self.abort_open(session);
        }
        if newest < number || phase == Phase::Other {
            return Ok(());
        }
        if newest > number {
            let text = format!(
                "Retryable write with txnNumber {number} is prohibited on session because a newer \
                 transaction with txnNumber {newest} has already started"
            );
            return Err(fault(225, text));
        }
        let text = "Must specify autocommit=false on all operations of a multi-statement \
                    transaction.";
        Err(fault(72, text))
    }

    /// Aborts all open transactions that are not prepared.
    pub(in crate::server) fn abort_all(&mut self) {
        for session in self.transactions.open.clone() {
            self.abort_open(&session);
        }
    }

    /// Aborts the open transactions of the sessions that a command lists. If the command kills the
    /// sessions, also closes their cursors and ends their operations that wait. An empty list of
    /// `killSessions` or `killAllSessions` stands for all sessions.
    pub(in crate::server) fn end_listed(&mut self, now: Instant, request: &Request) {
        let Ok(listed) = request.command.get_array(&request.name) else {
            return;
        };
        let kills_all = match request.name.as_str() {
            "killAllSessions" => true,
            "killSessions" => listed.is_empty(),
            _ => false,
        };
        let sessions: BTreeSet<SessionKey> = listed_sessions(listed.iter()).into_iter().collect();
        let is_meant = |session: SessionKey| kills_all || sessions.contains(&session);
        for session in self.transactions.open.clone() {
            if is_meant(session) {
                self.abort_open(&session);
            }
        }
        // The command `endSessions` closes no cursors. A server closes them when it refreshes its
        // sessions, which the simulated server does not do.
        if request.name == "endSessions" {
            return;
        }
        self.cursors
            .remove_where(|cursor| cursor.session.is_some_and(is_meant));
        self.interrupt(now, |_, request| {
            session_key(&request.command).is_some_and(is_meant)
        });
    }

    /// Aborts the transactions whose lifetime has ended.
    pub(in crate::server) fn expire_transactions(&mut self, now: Instant) {
        while let Some(&(at, session)) = self.transactions.expiries.first()
            && at <= now
        {
            self.abort_open(&session);
            self.transactions.expiries.remove(&(at, session));
        }
    }

    /// Ends the open transaction of a session, if there is one, with its cursors.
    pub(super) fn end_transaction(&mut self, session: &SessionKey, state: State) {
        let Some((number, open)) = self.transactions.end(session, state) else {
            return;
        };
        if open.has_opened_cursor {
            let is_own = |cursor: &Cursor| {
                cursor.session == Some(*session) && cursor.transaction == Some(number)
            };
            self.cursors.remove_where(is_own);
        }
        // The event lets waiting writes be executed again.
        self.replica.events.push_back(ReplicaEvent::Progress);
        self.garbage.add(open.bytes + open.claims.bytes(), open);
    }
}

/// Returns the ids of sessions in a list of documents.
pub(in crate::server) fn listed_sessions<'a>(
    listed: impl Iterator<Item = &'a Bson>,
) -> Vec<SessionKey> {
    let documents = listed.filter_map(Bson::as_document);
    let id = |session: &Document| match session.get("id") {
        Some(Bson::Binary(id)) => id.bytes.as_slice().try_into().ok(),
        _ => None,
    };
    documents.filter_map(id).collect()
}
