//! Operations that cannot go on at once: for want of a server, or of a connection.

use super::{Action, Client};
use crate::{
    address::Address,
    connection::SocketId,
    description::ServerId,
    error::{Error, ErrorKind},
    operation::{CommandKind, Operation, OperationId, error_to_raise},
    options::ReadPreference,
    pool::{CheckOut, Condition, PooledId, RequestId},
    selection::{Criteria, selection_error},
    time::{Instant, earliest},
};
use std::sync::Arc;

/// An operation that waits, and for what.
#[derive(Debug)]
pub(super) enum Waiting {
    /// For a server that suits, no longer than the limit.
    ForServer {
        operation: Box<Operation>,
        limit: Option<Instant>,
    },
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
    /// For nothing more: the connection is its own, it only has to be resumed.
    Granted {
        operation: Box<Operation>,
        server: ServerId,
        pooled: PooledId,
    },
    /// For nothing more: it failed, and only has to hear of it.
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
    /// Not yet.
    Waiting(Waiting),
    /// The operation is over.
    Failed(Error),
}

impl Client {
    /// Chooses a server and asks its pool for a connection; again, where a failure allows it.
    pub(super) fn acquire(&mut self, now: Instant, mut operation: Box<Operation>) -> Acquired {
        if let Some(id) = operation.command.pinned() {
            return self.acquire_pinned(now, operation, id);
        }
        loop {
            // Who looks again after a wait began when the wait did.
            operation.selection_began.get_or_insert(now);
            self.tell_selection_started(now, &mut operation);
            let selected = match self.select_or_scan(now, &mut operation) {
                Ok(None) if self.without_server.len() >= self.limits.without_server => {
                    Err(self.too_many_wait())
                }
                selected => selected,
            };
            let server = match selected {
                Ok(Some(server)) => server,
                Ok(None) => return Acquired::Waiting(self.wait_for_server(now, operation)),
                Err(error) => {
                    self.tell_selection_failed(now, &mut operation, &error);
                    let error = error_to_raise(operation.kept_error.take(), error);
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

    pub(super) fn select(&mut self, operation: &Operation) -> Result<Option<ServerId>, Error> {
        let Self {
            sdam,
            selector,
            pools,
            limits,
            ..
        } = self;
        if let Some(target) = &operation.command.target {
            let Some(server) = sdam.server_id(&target.address) else {
                return Err(target_error(&target.address, "is no longer there", None));
            };
            let description = sdam.server(server);
            if description.is_some_and(|s| s.server_type.is_available())
                && pools.contains_key(&server)
            {
                selector.started(server);
                return Ok(Some(server));
            }
            if target.is_awaited {
                return Ok(None);
            }
            return Err(self.target_is_lost(&target.address));
        }
        selector.select(
            sdam.changes(),
            sdam.description(),
            |address| sdam.server_id(address),
            &criteria(operation, &limits.primary),
            &operation.deprioritized,
        )
    }

    /// The one server that could serve cannot be used.
    fn target_is_lost(&self, target: &Address) -> Error {
        let known = self.sdam.description().servers.get(target);
        let cause = known.and_then(|known| known.error.clone());
        match &cause {
            Some(error) => {
                let what = format!("cannot be used: {}", error.kind());
                target_error(target, &what, cause)
            }
            None => target_error(target, "has not answered yet", None),
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
        // Where servers are scanned, the limit of a selection is looked at after each scan.
        let limit = match self.limits.scan {
            Some(_) => operation.deadline,
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
        let (waiting, is_settled) = match self.acquire(now, operation) {
            Acquired::Waiting(waiting) => (waiting, false),
            Acquired::Granted {
                operation,
                server,
                pooled,
            } => (
                Waiting::Granted {
                    operation,
                    server,
                    pooled,
                },
                true,
            ),
            Acquired::Failed(error) => (Waiting::Failed(error), true),
        };
        self.waiting.insert(id, waiting);
        if is_settled {
            self.actions.push_back(Action::Wake { operation: id });
        }
    }

    /// The pool granted a connection to an operation that waited for one.
    pub(super) fn on_granted(&mut self, server: ServerId, request: RequestId, pooled: PooledId) {
        let id = OperationId(request.0);
        if let Some(Waiting::ForConnection { operation, .. }) = self.waiting.remove(&id) {
            self.waiting.insert(
                id,
                Waiting::Granted {
                    operation,
                    server,
                    pooled,
                },
            );
            self.actions.push_back(Action::Wake { operation: id });
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
            } => {
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
        let pin_timeout = self.pin_timeout(id);
        let Some(mut operation) = self.withdraw(now, id) else {
            return;
        };
        if let Some(error) = pin_timeout {
            self.finish_operation(now, operation);
            return self.wake_with(id, error);
        }
        let error = self.nothing_suits(&operation);
        self.tell_selection_failed(now, &mut operation, &error);
        let error = error_to_raise(operation.kept_error.take(), error);
        self.finish_operation(now, operation);
        self.wake_with(id, error);
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
                let closed = ErrorKind::ClientClosed.into();
                self.tell_selection_failed(now, &mut operation, &closed);
                self.finish_operation(now, operation);
                self.wake_with(id, ErrorKind::ClientClosed.into());
            }
        }
    }
}

fn target_error(target: &Address, what: &str, cause: Option<Error>) -> Error {
    let message = format!("{target}, where the cursor lives, {what}");
    Error::new(ErrorKind::ServerSelection { message, cause }).with_server(target)
}

/// What the operation demands. Writes select as writes (SEL-28), `runCommand` as a read of the
/// primary unless it was given a preference (SEL-29). Each operation selects anew (SEL-50).
pub(super) fn criteria(operation: &Operation, primary: &Arc<ReadPreference>) -> Criteria {
    let command = &operation.command;
    match command.kind {
        CommandKind::RetryableWrite | CommandKind::Write => Criteria::Writable,
        CommandKind::WritingAggregate => {
            let preference = command.read_preference.as_ref().unwrap_or(primary);
            Criteria::WritingAggregate(preference.clone())
        }
        CommandKind::Read | CommandKind::Run | CommandKind::CursorFollowUp => {
            match &command.read_preference {
                Some(preference) => Criteria::Readable(preference.clone()),
                None => Criteria::Readable(primary.clone()),
            }
        }
    }
}
