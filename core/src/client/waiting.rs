//! Operations that cannot go on at once: for want of a server, or of a connection.

use super::{
    Action, Client,
    selecting::{Selected, criteria},
};
use crate::{
    connection::SocketId,
    description::ServerId,
    error::{Error, ErrorKind, Wait},
    operation::{Operation, OperationId, error_at_end},
    pool::{CheckOut, Condition, PooledId, RequestId},
    selection::{Narrowing, selection_error},
    time::{Instant, earliest},
};

/// An operation that waits, and for what.
#[derive(Debug)]
pub(super) enum Waiting {
    /// For a server that suits, no longer than the limit.
    ForServer {
        operation: Box<Operation>,
        limit: Option<Instant>,
    },
    /// For the application's server selector, which the operation's task asks when it resumes.
    Asking { operation: Box<Operation> },
    /// For a connection of this server's pool.
    ForConnection {
        operation: Box<Operation>,
        server: ServerId,
    },
    /// For an earlier command's reply on its pinned connection.
    ForPin {
        operation: Box<Operation>,
        socket: SocketId,
        limit: Option<Instant>,
    },
    /// A connection is granted; the operation runs when its task resumes it, until the limit.
    Granted {
        operation: Box<Operation>,
        server: ServerId,
        pooled: PooledId,
        limit: Option<Instant>,
    },
    /// The operation failed; its task learns that when it resumes the operation.
    Failed(Error),
}

/// What came of going for a connection.
pub(super) enum Acquired {
    /// This one.
    Granted {
        operation: Box<Operation>,
        server: ServerId,
        pooled: PooledId,
    },
    /// Not before the application has answered.
    Asking {
        operation: Box<Operation>,
        question: Narrowing,
    },
    /// Not yet.
    Waiting(Waiting),
    /// The operation is over.
    Failed(Error),
}

impl Client {
    /// Chooses a server and asks its pool for a connection; again, where a failure allows it.
    pub(super) fn acquire(&mut self, now: Instant, mut operation: Box<Operation>) -> Acquired {
        loop {
            if operation.paused_until.is_some_and(|until| now < until) {
                return self.pause(now, operation);
            }
            operation.paused_until = None;
            if let Some(id) = operation.command.pinned() {
                return self.acquire_pinned(now, operation, id);
            }
            // Who looks again after a wait began when the wait did.
            operation.selection_began.get_or_insert(now);
            self.tell_selection_started(now, &mut operation);
            let selected = match self.select_or_scan(now, &mut operation) {
                Ok(Selected::Nothing)
                    if self.without_server.len() >= self.limits.without_server =>
                {
                    Err(self.too_many_wait())
                }
                selected => selected,
            };
            let server = match selected {
                Ok(Selected::Server(server)) => server,
                Ok(Selected::Nothing) => {
                    return Acquired::Waiting(self.wait_for_server(now, operation));
                }
                Ok(Selected::Ask(question)) => {
                    return Acquired::Asking {
                        operation,
                        question,
                    };
                }
                Err(error) => {
                    self.tell_selection_failed(now, &mut operation, &error);
                    let error = error_at_end(&mut operation, now, error, false);
                    self.finish_operation(now, operation);
                    return Acquired::Failed(error);
                }
            };
            self.tell_selection_succeeded(now, &mut operation, server);
            self.note_selected(&mut operation, server);
            operation.attempts += 1;
            let error = match self.check_out(now, &operation, server) {
                CheckOut::Granted(pooled) => {
                    return Acquired::Granted {
                        operation,
                        server,
                        pooled,
                    };
                }
                CheckOut::Waiting => {
                    operation.unwaited = 0;
                    return Acquired::Waiting(Waiting::ForConnection { operation, server });
                }
                CheckOut::Failed(error) => error,
            };
            self.selector.finished(server);
            match self.on_attempt_failed(now, operation, error, None) {
                Ok(again) => operation = again,
                Err(error) => return Acquired::Failed(error),
            }
        }
    }

    fn too_many_wait(&self) -> Error {
        let limit = self.limits.without_server as u64;
        Error::new(ErrorKind::Limit {
            what: "operations that wait for a server",
            limit,
            actual: limit + 1,
        })
    }

    fn wait_for_server(&mut self, now: Instant, mut operation: Box<Operation>) -> Waiting {
        let id = operation.id;
        // It was about the servers that there are now.
        operation.narrowed = None;
        operation.unwaited = 0;
        let limit = match self.limits.scan {
            Some(_) => self.scan_patience(now, &operation),
            None => self.selection_limit(&operation),
        };
        if let Some(limit) = limit {
            self.wait_limits.insert((limit, id));
        }
        self.note_deadline(limit);
        if self.limits.scan.is_none() {
            self.tell_selection_waits(now, &mut operation, limit);
        }
        self.without_server.insert(id);
        self.sdam.set_waiting(now, true);
        Waiting::ForServer { operation, limit }
    }

    /// Lets an operation wait for its next attempt, among those that wait for a server: that keeps
    /// monitors checking.
    fn pause(&mut self, now: Instant, mut operation: Box<Operation>) -> Acquired {
        if self.without_server.len() >= self.limits.without_server {
            let error = self.too_many_wait();
            let error = error_at_end(&mut operation, now, error, false);
            self.finish_operation(now, operation);
            return Acquired::Failed(error);
        }
        let id = operation.id;
        operation.unwaited = 0;
        let limit = earliest(operation.paused_until, operation.deadline);
        if let Some(limit) = limit {
            self.wait_limits.insert((limit, id));
        }
        self.note_deadline(limit);
        self.without_server.insert(id);
        self.sdam.set_waiting(now, true);
        Acquired::Waiting(Waiting::ForServer { operation, limit })
    }

    /// Until when the present attempt may look for a server (SEL-35).
    fn selection_limit(&self, operation: &Operation) -> Option<Instant> {
        let began = operation.selection_began?;
        earliest(began.checked_add(self.limits.selection), operation.deadline)
    }

    fn check_out(&mut self, now: Instant, operation: &Operation, server: ServerId) -> CheckOut {
        // CMAP-153: with a time limit for the operation, what selection left over counts; the pool
        // knows its own limit.
        let timed = operation
            .command
            .timeout
            .map(|_| self.selection_limit(operation));
        let Some(slot) = self.pools.get_mut(&server) else {
            let message = "the server has no connections yet".to_owned();
            return CheckOut::Failed(Error::new(ErrorKind::PoolCleared { message }));
        };
        let request = RequestId(operation.id.0);
        let result = match timed {
            Some(limit) => slot.pool.check_out_timed(now, request, limit),
            None => slot.pool.check_out(now, request, None),
        };
        self.drain_pool(now, server);
        result
    }

    /// Tries an operation again whose caller waits for it under its number.
    pub(super) fn acquire_in_background(&mut self, now: Instant, operation: Box<Operation>) {
        let id = operation.id;
        match self.acquire(now, operation) {
            Acquired::Waiting(waiting) => {
                self.waiting.insert(id, waiting);
            }
            Acquired::Asking { operation, .. } => {
                self.waiting.insert(id, Waiting::Asking { operation });
                self.actions.push_back(Action::Wake { operation: id });
            }
            Acquired::Granted {
                operation,
                server,
                pooled,
            } => self.grant(now, operation, server, pooled),
            Acquired::Failed(error) => self.wake_with(id, error),
        }
    }

    /// The pool granted a connection to an operation that waited for one.
    pub(super) fn on_granted(
        &mut self,
        now: Instant,
        server: ServerId,
        request: RequestId,
        pooled: PooledId,
    ) {
        let id = OperationId(request.0);
        if let Some(Waiting::ForConnection { operation, .. }) = self.waiting.remove(&id) {
            self.grant(now, operation, server, pooled);
        }
    }

    /// The pool has no connection for an operation that waited for one.
    pub(super) fn on_refused(&mut self, now: Instant, request: RequestId, error: Error) {
        let id = OperationId(request.0);
        let Some(Waiting::ForConnection { operation, server }) = self.waiting.remove(&id) else {
            return;
        };
        self.selector.finished(server);
        match self.on_attempt_failed(now, operation, error, None) {
            Ok(operation) => self.again.push_back(operation),
            Err(error) => self.wake_with(id, error),
        }
    }

    pub(super) fn wake_with(&mut self, id: OperationId, error: Error) {
        self.waiting.insert(id, Waiting::Failed(error));
        self.actions.push_back(Action::Wake { operation: id });
    }

    /// Takes an operation out of every queue; `None` if it was over already.
    pub(super) fn withdraw(&mut self, now: Instant, id: OperationId) -> Option<Box<Operation>> {
        match self.waiting.remove(&id)? {
            Waiting::Asking { operation } => Some(operation),
            Waiting::ForServer { operation, limit } => {
                if let Some(limit) = limit {
                    self.wait_limits.remove(&(limit, id));
                }
                self.without_server.remove(&id);
                self.sdam.set_waiting(now, !self.without_server.is_empty());
                Some(operation)
            }
            Waiting::ForConnection { operation, server } => {
                self.cancel_check_out(now, server, id);
                Some(operation)
            }
            Waiting::Granted {
                operation,
                server,
                pooled,
                limit,
            } => {
                if let Some(limit) = limit {
                    self.wait_limits.remove(&(limit, id));
                }
                self.selector.finished(server);
                match operation.command.pinned() {
                    Some(id) => self.leave_pinned(now, id.socket),
                    None => self.return_pooled(now, server, pooled, Condition::Healthy),
                }
                Some(operation)
            }
            Waiting::ForPin {
                operation,
                socket,
                limit,
            } => {
                if let Some(limit) = limit {
                    self.wait_limits.remove(&(limit, id));
                }
                self.leave_pinned(now, socket);
                Some(operation)
            }
            Waiting::Failed(_) => None,
        }
    }

    /// The time to find a server, or to be rid of an outstanding reply, is over.
    pub(super) fn on_wait_over(&mut self, now: Instant, id: OperationId) {
        if self.on_grant_limit(now, id) {
            return;
        }
        let has_server = self.wait_timeout(id);
        if self.select_before_scan_ends(now, id) {
            return;
        }
        let Some(mut operation) = self.withdraw(now, id) else {
            return;
        };
        if let Some(error) = has_server {
            let error = error_at_end(&mut operation, now, error, false);
            self.finish_operation(now, operation);
            return self.wake_with(id, error);
        }
        let is_late = operation.deadline.is_some_and(|deadline| deadline <= now);
        if operation.paused_until.take().is_some() && !is_late {
            return self.acquire_in_background(now, operation);
        }
        let error = self.nothing_suits(&operation);
        self.tell_selection_failed(now, &mut operation, &error);
        let error = error_at_end(&mut operation, now, error, false);
        self.finish_operation(now, operation);
        self.wake_with(id, error);
    }

    /// The error of an operation that has its server when its time is over; `None` while it looks
    /// for one.
    fn wait_timeout(&self, id: OperationId) -> Option<Error> {
        let message = match self.waiting.get(&id)? {
            Waiting::ForPin { .. } => {
                "the reply to an earlier command on the pinned connection did not come"
            }
            Waiting::Granted { .. } => {
                "a connection was checked out in time, but the operation was not resumed"
            }
            Waiting::ForServer { .. }
            | Waiting::Asking { .. }
            | Waiting::ForConnection { .. }
            | Waiting::Failed(_) => return None,
        };
        Some(Error::timeout(Wait::CheckOut, message))
    }

    /// Why the operation found no server.
    pub(super) fn nothing_suits(&self, operation: &Operation) -> Error {
        if let Some(target) = &operation.command.target {
            return self.target_is_lost(&target.address);
        }
        selection_error(
            self.sdam.description(),
            &criteria(operation, &self.limits.primary),
        )
    }

    /// The topology changed: operations without server look again, oldest first.
    pub(super) fn on_reselect(&mut self, now: Instant) {
        for id in std::mem::take(&mut self.without_server) {
            let Some(Waiting::ForServer { operation, limit }) = self.waiting.remove(&id) else {
                continue;
            };
            if let Some(limit) = limit {
                self.wait_limits.remove(&(limit, id));
            }
            self.acquire_in_background(now, operation);
        }
        self.sdam.set_waiting(now, !self.without_server.is_empty());
    }

    pub(super) fn fail_all_waiting(&mut self, now: Instant) {
        // Who has failed already hears of its own failure.
        let failed = |waiting: &Waiting| matches!(waiting, Waiting::Failed(_));
        let ids = self.waiting.iter().filter(|(_, waiting)| !failed(waiting));
        let ids: Vec<OperationId> = ids.map(|(&id, _)| id).collect();
        for id in ids {
            if let Some(mut operation) = self.withdraw(now, id) {
                let closed = self.closed_error();
                self.tell_selection_failed(now, &mut operation, &closed);
                self.finish_operation(now, operation);
                self.wake_with(id, closed);
            }
        }
    }
}

/// An operation of which nothing was sent, as it was before its attempt.
pub(super) fn not_begun(mut operation: Box<Operation>) -> Box<Operation> {
    operation.attempts = operation.attempts.saturating_sub(1);
    operation.selection_began = None;
    operation
}
