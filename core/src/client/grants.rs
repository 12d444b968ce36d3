//! Connections that were granted to operations which have not resumed yet.

use super::{
    Action, Client,
    waiting::{Waiting, not_begun},
};
use crate::{
    description::ServerId,
    error::Error,
    operation::{Operation, OperationId},
    pool::{Condition, PooledId},
    time::{Instant, earliest},
};
use std::time::Duration;

/// How long a connection stays granted to an operation that does not resume, while others wait for
/// one. Not an option.
pub const GRANT_LIMIT: Duration = Duration::from_secs(1);

/// A pinned connection serves nobody else, so that only the operation's own time counts.
fn grant_limit(now: Instant, operation: &Operation) -> Option<Instant> {
    let moment = match operation.command.pin {
        Some(_) => None,
        None => now.checked_add(GRANT_LIMIT),
    };
    earliest(operation.deadline, moment)
}

impl Client {
    /// Keeps a connection for an operation until its task resumes it.
    ///
    /// The task may be slow to do so, or wait for another operation itself. A grant is withdrawn
    /// when the operation's time is over, when the connection is interrupted, and when it has
    /// lasted for [`GRANT_LIMIT`] while other operations wait for a connection.
    pub(super) fn grant(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        server: ServerId,
        pooled: PooledId,
    ) {
        let id = operation.id;
        let limit = grant_limit(now, &operation);
        if let Some(limit) = limit {
            self.wait_limits.insert((limit, id));
        }
        self.note_deadline(limit);
        let granted = Waiting::Granted {
            operation,
            server,
            pooled,
            limit,
        };
        self.waiting.insert(id, granted);
        self.actions.push_back(Action::Wake { operation: id });
    }

    /// Sends the operations whose granted connections the pool interrupted for other ones. Nothing
    /// runs on such a connection that could be told, and a request would be written to a dead
    /// server (CMAP-94, CMAP-97). Nothing was sent, so this was no attempt.
    pub(super) fn leave_interrupted_grants(&mut self, now: Instant, server: ServerId) {
        let Some(slot) = self.pools.get(&server) else {
            return;
        };
        let interrupted = |waiting: &Waiting| match *waiting {
            Waiting::Granted {
                server: at, pooled, ..
            } if at == server => slot.pool.interruption_of(pooled),
            _ => None,
        };
        let all = self.waiting.iter();
        let found: Vec<(OperationId, Error)> = all
            .filter_map(|(&id, waiting)| Some((id, interrupted(waiting)?)))
            .collect();
        for (id, error) in found {
            self.on_grant_interrupted(now, id, error);
        }
    }

    /// A grant has lasted for its limit; false if the operation's own time is over.
    pub(super) fn on_grant_limit(&mut self, now: Instant, id: OperationId) -> bool {
        let Some(Waiting::Granted {
            operation,
            server,
            limit,
            ..
        }) = self.waiting.get_mut(&id)
        else {
            return false;
        };
        if operation.deadline.is_some_and(|deadline| deadline <= now) {
            return false;
        }
        let server = *server;
        let slot = self.pools.get(&server);
        if slot.is_none_or(|slot| slot.pool.counts().waiting == 0) {
            *limit = grant_limit(now, operation);
            let next = *limit;
            self.wait_limits.extend(next.map(|next| (next, id)));
            self.note_deadline(next);
        } else if let Some(operation) = self.withdraw(now, id) {
            self.again.push_back(not_begun(operation));
        }
        true
    }

    fn on_grant_interrupted(&mut self, now: Instant, id: OperationId, error: Error) {
        // Failing an earlier one may have ended this one as well.
        let Some(Waiting::Granted { server, pooled, .. }) = self.waiting.get(&id) else {
            return;
        };
        let (server, pooled) = (*server, *pooled);
        let Some(operation) = self.leave_grant(id) else {
            return;
        };
        match operation.command.pinned() {
            Some(pin) => self.break_pin(now, pin.socket, error),
            None => self.return_pooled(now, server, pooled, Condition::Broken(Some(error))),
        }
        self.again.push_back(not_begun(operation));
    }

    /// Takes an operation out of its grant; what becomes of the connection is for the caller to
    /// say.
    fn leave_grant(&mut self, id: OperationId) -> Option<Box<Operation>> {
        let Waiting::Granted {
            operation,
            server,
            limit,
            ..
        } = self.waiting.remove(&id)?
        else {
            return None;
        };
        if let Some(limit) = limit {
            self.wait_limits.remove(&(limit, id));
        }
        self.selector.finished(server);
        Some(operation)
    }
}
