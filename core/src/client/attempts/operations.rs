//! The operations part: operations that move no bytes. They wait, pause, or have not resumed since
//! they were granted a connection, got an answer or failed.

use crate::{
    arena::Numbered,
    auth::Finding,
    client::QuestionId,
    connection::SocketId,
    description::ServerId,
    error::{Error, ErrorKind},
    operation::{Command, Lease, Operation, OperationId, Span, deadline},
    time::Instant,
};
use std::{
    collections::{BTreeSet, VecDeque},
    ops::RangeInclusive,
    time::Duration,
};

/// The state of an operation that waits.
#[derive(Debug)]
pub(in crate::client) enum Waiting {
    /// The operation waits for a suitable server.
    ForServer(Box<Operation>),
    /// The operation waits until its next attempt may begin.
    Paused(Box<Operation>),
    /// The operation waits for the answer of the application's server selector. If the client began
    /// the attempt in the background, the task of the operation resumes the operation first, and
    /// then asks.
    Asking(Box<Operation>),
    /// The operation waits for a connection from the pool of this server.
    ForConnection(Box<Operation>, ServerId),
    /// The operation waits for the end of the late reply on its pinned connection.
    ForPin(Box<Operation>, SocketId),
    /// The operation waits until its connection has authenticated again.
    ForAuthentication(Box<Operation>, SocketId),
    /// The operation was granted this connection; its task has to resume it.
    Granted(Box<Operation>, Lease),
    /// The operation waits for the answer to this question of its program, until this deadline.
    ForAnswer(QuestionId, Option<Instant>),
    /// The question of the program was answered; the task of the operation has to take the answer.
    Answered(Result<Finding, String>),
    /// The operation failed; its task has to take this error.
    Failed(Error),
}

impl Waiting {
    pub(in crate::client) fn operation(&self) -> Option<&Operation> {
        match self {
            Self::ForServer(operation)
            | Self::Paused(operation)
            | Self::Asking(operation)
            | Self::ForConnection(operation, _)
            | Self::ForPin(operation, _)
            | Self::ForAuthentication(operation, _)
            | Self::Granted(operation, _) => Some(operation),
            Self::ForAnswer(..) | Self::Answered(_) | Self::Failed(_) => None,
        }
    }

    #[cfg(any(test, feature = "unstable-machines"))]
    pub(in crate::client) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::ForAnswer(_, deadline) => *deadline,
            _ => self.operation()?.deadline,
        }
    }
}

/// The operations of a client that move no bytes. One that waits for the answer to a question can
/// keep its exchange.
#[derive(Debug)]
pub(in crate::client) struct Operations {
    waiting: Numbered<Waiting>,
    /// The operations in `waiting` that wait for a server, oldest first.
    without_server: BTreeSet<OperationId>,
    /// The deadlines of the operations in `without_server`, earliest first.
    deadlines_without_server: BTreeSet<(Instant, OperationId)>,
    /// The number of operations in `waiting` that pause between two attempts.
    paused: usize,
    /// The number of operations in `waiting` that have a grant.
    granted: usize,
    /// The highest number of operations that wait for a server or pause at once (SEL-37).
    max_without_server: usize,
    /// Operations whose next attempt is due.
    ready: VecDeque<Box<Operation>>,
    last: u64,
}

impl Operations {
    pub(in crate::client) const fn new(max_without_server: usize) -> Self {
        Self {
            waiting: Numbered::new(),
            without_server: BTreeSet::new(),
            deadlines_without_server: BTreeSet::new(),
            paused: 0,
            granted: 0,
            max_without_server,
            ready: VecDeque::new(),
            last: 0,
        }
    }

    /// Makes an operation of a command. All commands of a program share the operation id that the
    /// first command gets. `timeout` is the client's `timeoutMS`, for commands without a time
    /// limit.
    #[inline]
    pub(in crate::client) fn admit(
        &mut self,
        now: Instant,
        span: &mut Span,
        mut command: Command,
        timeout: Option<Duration>,
    ) -> Box<Operation> {
        command.0.request.timeout = command.0.request.timeout.or(timeout);
        let id = span.apply(&mut command).unwrap_or_else(|| self.next_id());
        if command.0.request.timeout.is_some() {
            command.0.request.ignore_w_timeout();
        }
        let operation = Operation::new(id, command, now);
        span.note(&operation);
        operation
    }

    /// Returns the id and the deadline of an operation. If it begins now, it gets both.
    pub(in crate::client) fn open(
        &mut self,
        now: Instant,
        span: &mut Span,
        timeout: Option<Duration>,
    ) -> (OperationId, Option<Instant>) {
        if let Some(bounds) = span.bounds() {
            return bounds;
        }
        let (id, deadline) = (self.next_id(), deadline(now, timeout));
        span.open(id, timeout, deadline);
        (id, deadline)
    }

    #[inline]
    const fn next_id(&mut self) -> OperationId {
        self.last += 1;
        OperationId(self.last - 1)
    }

    /// True if an operation with this id has begun and does not wait.
    pub(in crate::client) fn may_continue(&self, id: OperationId) -> bool {
        id.0 < self.last && self.get(id).is_none()
    }

    /// Adds an operation that waits.
    pub(in crate::client) fn wait(&mut self, id: OperationId, waiting: Waiting) {
        match &waiting {
            Waiting::ForServer(operation) => {
                self.without_server.insert(id);
                let deadline = operation.deadline.map(|deadline| (deadline, id));
                self.deadlines_without_server.extend(deadline);
            }
            Waiting::Paused(_) => self.paused += 1,
            Waiting::Granted(..) => self.granted += 1,
            _ => {}
        }
        self.waiting.insert(id.0, waiting);
    }

    /// Removes and returns an operation.
    pub(in crate::client) fn take(&mut self, id: OperationId) -> Option<Waiting> {
        self.take_if(id, |_| true)
    }

    /// Removes and returns an operation, if `wanted` is true for it.
    pub(in crate::client) fn take_if(
        &mut self,
        id: OperationId,
        wanted: impl FnOnce(&Waiting) -> bool,
    ) -> Option<Waiting> {
        let slot = self.waiting.find(id.0)?;
        if !wanted(self.waiting.get(slot)) {
            return None;
        }
        let waiting = self.waiting.remove(slot)?;
        match &waiting {
            Waiting::ForServer(operation) => {
                self.without_server.remove(&id);
                if let Some(deadline) = operation.deadline {
                    self.deadlines_without_server.remove(&(deadline, id));
                }
            }
            Waiting::Paused(_) => self.paused -= 1,
            Waiting::Granted(..) => self.granted -= 1,
            _ => {}
        }
        Some(waiting)
    }

    /// Returns the oldest operation that waits for a server and whose id is in `ids`.
    pub(in crate::client) fn first_without_server(
        &self,
        ids: RangeInclusive<OperationId>,
    ) -> Option<&Operation> {
        if ids.is_empty() {
            return None;
        }
        let &id = self.without_server.range(ids).next()?;
        self.get(id)?.operation()
    }

    /// Returns the newest operation that waits for a server.
    pub(in crate::client) fn last_without_server(&self) -> Option<OperationId> {
        self.without_server.last().copied()
    }

    /// True if an operation has a grant.
    pub(in crate::client) fn has_grant(&self) -> bool {
        self.granted > 0
    }

    /// True if an operation waits for a server.
    pub(in crate::client) fn want_servers(&self) -> bool {
        !self.without_server.is_empty()
    }

    /// Returns the earliest deadline of the operations that wait for a server.
    pub(in crate::client) fn deadline_without_server(&self) -> Option<Instant> {
        let earliest = self.deadlines_without_server.first();
        earliest.map(|&(deadline, _)| deadline)
    }

    /// Fails if the limit of operations that wait for a server or pause is reached (SEL-37).
    pub(in crate::client) fn check_room(&self) -> Result<(), Error> {
        let limit = self.max_without_server;
        if self.without_server.len() + self.paused < limit {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Limit {
            what: "the number of operations that wait for a server",
            limit: limit as u64,
            actual: limit as u64 + 1,
        }))
    }

    #[cfg(test)]
    pub(in crate::client) fn set_room(&mut self, limit: usize) {
        self.max_without_server = limit;
    }

    /// Queues an operation for its next attempt.
    pub(in crate::client) fn retry(&mut self, operation: Box<Operation>) {
        self.ready.push_back(operation);
    }

    /// Returns the next operation whose attempt is due.
    #[inline]
    pub(in crate::client) fn next_ready(&mut self) -> Option<Box<Operation>> {
        self.ready.pop_front()
    }

    pub(in crate::client) fn get(&self, id: OperationId) -> Option<&Waiting> {
        Some(self.waiting.get(self.waiting.find(id.0)?))
    }

    /// Returns the operations for which `wanted` is true, oldest first.
    pub(in crate::client) fn ids_where(
        &self,
        wanted: impl Fn(&Waiting) -> bool,
    ) -> Vec<OperationId> {
        let found = self.waiting.iter().filter(|(.., waiting)| wanted(waiting));
        let mut ids: Vec<_> = found.map(|(id, ..)| OperationId(id)).collect();
        ids.sort_unstable();
        ids
    }

    #[cfg(any(test, feature = "unstable-machines"))]
    pub(in crate::client) fn iter(&self) -> impl Iterator<Item = (OperationId, &Waiting)> {
        let mut all: Vec<_> = self.waiting.iter().collect();
        all.sort_unstable_by_key(|&(id, ..)| id);
        all.into_iter()
            .map(|(id, _, waiting)| (OperationId(id), waiting))
    }

    pub(in crate::client) fn len(&self) -> usize {
        self.waiting.len() as usize
    }
}
