//! Writes outside of transactions, which wait for the transactions that they would conflict with.

use super::Transactions;
use crate::{
    deployment::ConnId,
    replica::{Position, ReplicaEvent, Retry, SessionKey},
    server::{
        Member,
        connection::{Request, Waiting},
        dispatch::{Answer, Outcome},
        fail_point::FailEffect,
        fault::{Fault, fault},
        parts::Progress,
        reply::{Body, Reply},
    },
    store::{Change, Namespace},
};
use bson::{DateTime, Timestamp};
use onionskin_core::time::Instant;
use std::collections::BTreeSet;

/// The state of a running write while transactions are open. The changes of a part are logged at
/// its end, unless the part has to wait.
#[derive(Debug)]
pub(super) struct Guard {
    retry: Option<Retry>,
    /// The cluster time of the entry with the changes.
    next: Timestamp,
}

/// The reason why a request waits for a transaction.
#[derive(Debug)]
pub(in crate::server) struct Lock {
    /// The number of transactions that had ended when the request started to wait.
    ended: u64,
    /// The number of commands that had ended which waited to change the catalog.
    changed: u64,
    /// The collections whose options or indexes the request would change.
    catalog: BTreeSet<Namespace>,
    /// The time limit of the request, from its first start.
    deadline: Option<Instant>,
    /// True for a statement of a transaction, which waits for a change of the catalog.
    is_statement: bool,
    /// The wall clock at the first start of a write of which a part was executed.
    clock: Option<DateTime>,
    pub(in crate::server) effect: Option<FailEffect>,
}

impl Member {
    /// Executes a command that writes outside of transactions, or its next part. If this would
    /// conflict with an open transaction, undoes it and lets it wait. A retryable write waits until
    /// the transaction of its session has no paused statement, and no paused commit.
    pub(in crate::server) fn execute_write(
        &mut self,
        now: Instant,
        request: &mut Request,
    ) -> Answer {
        if !self.transactions.has_open() {
            return self.execute_data(now, request);
        }
        if let Some(session) = self.occupied_session_of(request) {
            let effect = None;
            let waiting = Waiting::Statement { session, effect };
            return Ok(Outcome::Wait(waiting, self.time_limit_of(now, request)));
        }
        let again = (request.command.clone(), again(request.progress.as_deref()));
        let next = self.replica.next_time(self.wall_millis(now));
        self.transactions.guard = Some(Guard { retry: None, next });
        let outcome = self.execute_data(now, request);
        let guard = self.transactions.guard.take();
        if let Some(catalog) = self.blocked() {
            self.forget_long_query();
            self.replica.store_mut().undo_changes();
            if let Ok(Outcome::Reply(reply) | Outcome::Written(reply)) = &outcome {
                self.close_cursor_of(reply);
            }
            (request.command, request.progress) = again;
            let deadline = self.time_limit_of(now, request);
            let lock = Lock {
                ended: self.transactions.ended,
                changed: self.transactions.changed,
                catalog,
                deadline,
                is_statement: false,
                clock: self.jobs.clock,
                effect: None,
            };
            return Ok(Outcome::Wait(Waiting::Lock(Box::new(lock)), deadline));
        }
        // The first copy alone has the documents of the command.
        let bytes = again.1.as_ref().map_or(request.bytes, |_| 0);
        self.garbage.add(bytes, again);
        self.log(now, guard.and_then(|guard| guard.retry));
        outcome
    }

    /// Closes the cursor of a reply that is not sent.
    fn close_cursor_of(&mut self, reply: &Reply) {
        if let Body::Tree(reply) = &reply.body
            && let Ok(cursor) = reply.get_document("cursor")
            && let Ok(id) = cursor.get_i64("id")
        {
            self.cursors.remove(id);
        }
    }

    /// Returns the position of the last write of the running command: its cluster time and term.
    pub(in crate::server) fn last_position(&self) -> (Timestamp, u64) {
        let Position { term, .. } = self.replica.last();
        match &self.transactions.guard {
            Some(guard) if guard.retry.is_some() || self.replica.store().has_changes() => {
                (guard.next, self.replica.term())
            }
            _ => (self.replica.last_time(), term),
        }
    }

    /// Keeps the changes of the running command from the oplog, if they belong to a transaction
    /// or must first be compared with the open transactions. Returns the argument otherwise.
    pub(in crate::server) fn defer(&mut self, retry: Option<Retry>) -> Result<(), Option<Retry>> {
        if self.transactions.is_running() {
            return Ok(());
        }
        let Some(guard) = &mut self.transactions.guard else {
            return Err(retry);
        };
        guard.retry = retry.or_else(|| guard.retry.take());
        Ok(())
    }

    /// Returns the collections whose catalog the running command would change, if the command would
    /// conflict with an open transaction. Returns `None` if the changes can be logged.
    pub(in crate::server) fn blocked(&self) -> Option<BTreeSet<Namespace>> {
        let store = self.replica.store();
        let changes = store.changes();
        let open = self.transactions.open.iter();
        let mut open = open.filter_map(|session| self.transactions.get(session));
        let is_blocked = open.any(|open| {
            let mut changes = changes.iter();
            changes.any(|change| match catalog_names(change) {
                Some(mut names) => names.any(|name| open.touched.contains(name)),
                None => open.is_merging(change) || open.claims.block(change, store),
            })
        });
        is_blocked.then(|| {
            let names = changes.iter().filter_map(catalog_names);
            names.flatten().cloned().collect()
        })
    }

    /// True if a request that waits for the end of a transaction can be executed again.
    pub(in crate::server) fn is_unlocked(&self, lock: &Lock) -> bool {
        let Transactions { ended, changed, .. } = self.transactions;
        lock.ended != ended || lock.is_statement && lock.changed != changed
    }

    /// Executes a request again that waited for the end of a transaction.
    pub(in crate::server) fn resume_locked(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: Request,
        lock: Lock,
    ) {
        self.waited_deadline = lock.deadline;
        self.jobs.clock = lock.clock;
        self.run(now, conn, request, lock.effect);
        self.jobs.clock = None;
        self.waited_deadline = None;
        self.note_catalog(conn, &lock.catalog);
    }

    /// Answers a request whose time to wait for a transaction has passed.
    pub(in crate::server) fn fail_locked(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: &Request,
        lock: &Lock,
    ) {
        let limited = lock.deadline.is_some_and(|deadline| deadline <= now);
        let error = match !limited && lock.is_statement {
            true => {
                let timeout = self.transactions.lock_timeout.unwrap_or_default();
                let millis = timeout.as_millis();
                let text = format!(
                    "Unable to acquire lock within a max lock request timeout of '{millis}ms' \
                     milliseconds."
                );
                fault(24, text)
            }
            false => fault(50, "operation exceeded time limit"),
        };
        self.end_locked(conn, request, lock, error);
    }

    /// Answers a request that waits for a transaction, or for a change of the catalog, with an
    /// error. A statement aborts its transaction.
    pub(in crate::server) fn end_locked(
        &mut self,
        conn: ConnId,
        request: &Request,
        lock: &Lock,
        error: Fault,
    ) {
        if let Ok(Some(part)) = self.part(request) {
            self.abort_part(part);
        }
        self.respond(conn, request, Err(error));
        self.note_catalog(conn, &lock.catalog);
    }

    /// Returns the reason why the request of a connection waits for a transaction.
    fn lock_of(&self, conn: ConnId) -> Option<&Lock> {
        match &self.connections.get(&conn)?.pending.as_ref()?.waiting {
            Waiting::Lock(lock) => Some(lock),
            _ => None,
        }
    }

    /// Lets statements that wait for a change of the catalog be executed again, if the request with
    /// this change no longer waits.
    fn note_catalog(&mut self, conn: ConnId, catalog: &BTreeSet<Namespace>) {
        if !catalog.is_empty() && self.lock_of(conn).is_none() {
            self.transactions.changed += 1;
            self.replica.events.push_back(ReplicaEvent::Progress);
        }
    }

    /// Returns the reason why a statement must wait: a waiting command that would change the
    /// catalog of a collection that the transaction has not used yet.
    pub(super) fn wait_for_catalog(
        &self,
        session: &SessionKey,
        names: &[Namespace],
        deadline: Option<Instant>,
    ) -> Option<Waiting> {
        let open = self.transactions.get(session)?;
        let mut fresh = names.iter().filter(|name| !open.touched.contains(*name));
        let is_wanted = |name: &&Namespace| {
            let mut waiting = self.waiting.iter();
            waiting.any(|conn| {
                let lock = self.lock_of(*conn);
                lock.is_some_and(|lock| lock.catalog.contains(*name))
            })
        };
        fresh.find(is_wanted)?;
        let lock = Lock {
            ended: self.transactions.ended,
            changed: self.transactions.changed,
            catalog: BTreeSet::new(),
            deadline,
            is_statement: true,
            clock: None,
            effect: None,
        };
        Some(Waiting::Lock(Box::new(lock)))
    }
}

/// Returns the progress from which a command goes on if its next part is undone. `$out` begins
/// anew, because a copy of its progress would make it copy all its documents again.
fn again(progress: Option<&Progress>) -> Option<Box<Progress>> {
    match progress {
        Some(Progress::Outputs(outputs)) if outputs.is_out() => None,
        progress => progress.cloned().map(Box::new),
    }
}

/// Returns the collections whose name, options or indexes a change concerns. Returns `None` for
/// the creation of a collection and for the change of a document.
fn catalog_names(change: &Change) -> Option<impl Iterator<Item = &Namespace>> {
    let (name, other) = match change {
        Change::DropCollection { namespace, .. }
        | Change::ModifyCollection { namespace, .. }
        | Change::CreateIndex { namespace, .. }
        | Change::DropIndex { namespace, .. } => (namespace, None),
        Change::RenameCollection { from, to, .. } => (from, Some(to)),
        _ => return None,
    };
    Some(std::iter::once(name).chain(other))
}
