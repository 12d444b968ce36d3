//! Operations from outside: start, resume, cancel, check in.

use super::{Client, Outcome, Start, Verdict, waiting::Acquired, waiting::Waiting};
use crate::{
    connection::{ConnectionFacts, Established},
    description::{ServerId, ServerType, TopologyType},
    error::{Error, ErrorKind, NetworkFault},
    operation::{
        ClusterTime, Command, Context, Lease, Operation, OperationId, PinUse, Span, error_at_end,
        error_to_raise, pause_after, reworded,
    },
    options::Mechanism,
    pool::{Condition, PooledId, RequestId},
    sdam::{ApplicationError, Phase},
    selection::Narrowed,
    time::Instant,
};
use std::sync::Arc;

impl Client {
    /// Starts an operation of one command.
    pub fn start(&mut self, now: Instant, command: Command) -> Start {
        self.start_in(now, &mut Span::default(), command)
    }

    /// Starts a command of a program. The first one sets the operation id and the time limit of the
    /// span, which all later ones share.
    pub fn start_in(&mut self, now: Instant, span: &mut Span, mut command: Command) -> Start {
        if self.closed {
            return Start::Failed(self.closed_error());
        }
        if command.timeout.is_none() {
            command.timeout = self.limits.timeout;
        }
        let id = span.apply(&mut command).unwrap_or_else(|| {
            self.next_operation += 1;
            OperationId(self.next_operation - 1)
        });
        let operation = Operation::new(id, command, now);
        span.note(&operation);
        let start = match operation.expired(now) {
            None => self.proceed(now, operation),
            Some(error) => {
                self.finish_operation(now, operation);
                Start::Failed(error)
            }
        };
        self.settle(now);
        start
    }

    /// Asks how an operation that was woken goes on.
    pub fn resume(&mut self, now: Instant, id: OperationId) -> Start {
        let start = match self.waiting.remove(&id) {
            None => Start::Failed(Error::argument("no such operation waits")),
            Some(Waiting::Failed(error)) => Start::Failed(error),
            Some(Waiting::Granted {
                operation,
                server,
                pooled,
                limit,
            }) => {
                if let Some(limit) = limit {
                    self.wait_limits.remove(&(limit, id));
                }
                self.use_grant(now, operation, server, pooled)
            }
            Some(Waiting::Asking { operation }) => self.proceed(now, operation),
            Some(waiting) => {
                self.waiting.insert(id, waiting);
                Start::Waiting(id)
            }
        };
        self.settle(now);
        start
    }

    /// The application has said which servers it wants for an operation.
    pub fn handle_narrowed(&mut self, now: Instant, id: OperationId, answer: Narrowed) -> Start {
        let start = match self.waiting.remove(&id) {
            None => Start::Failed(Error::argument("no such operation waits")),
            Some(Waiting::Asking { mut operation }) => {
                operation.narrowed = Some(answer);
                self.proceed(now, operation)
            }
            Some(waiting) => {
                self.waiting.insert(id, waiting);
                Start::Waiting(id)
            }
        };
        self.settle(now);
        start
    }

    /// Leases a connection that was granted, or goes on where it was lost meanwhile.
    pub(super) fn use_grant(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        server: ServerId,
        pooled: PooledId,
    ) -> Start {
        match self.lease(now, operation, server, pooled) {
            Ok(lease) => Start::Leased(lease),
            Err((error, operation)) => match self.on_attempt_failed(now, operation, error, None) {
                Ok(operation) => self.proceed(now, operation),
                Err(error) => Start::Failed(error),
            },
        }
    }

    /// Whoever waited for an operation left.
    pub fn cancel(&mut self, now: Instant, id: OperationId) {
        if let Some(mut operation) = self.withdraw(now, id) {
            let left = ErrorKind::Abandoned.into();
            self.tell_selection_failed(now, &mut operation, &left);
            self.finish_operation(now, operation);
        }
        self.settle(now);
    }

    /// Takes a lease back.
    ///
    /// The socket must be parked again before this is called; if the connection is not to be used
    /// any more, an order to close it follows.
    pub fn check_in(&mut self, now: Instant, mut lease: Lease, outcome: Outcome) -> Verdict {
        if let Err(error) = self.own(&lease) {
            return Verdict::Done(Err(error));
        }
        if lease.is_preliminary() {
            return self.check_in_ping(now, lease, outcome);
        }
        let condition = self.condition_after(now, &mut lease, &outcome);
        let assessment = lease.assessment.take();
        lease.finish();
        let Lease {
            connection,
            mut operation,
            context,
            pinned,
            ..
        } = lease;
        let is_clean = condition == Condition::Healthy;
        if let (false, Some(session)) = (is_clean, &mut operation.session) {
            // The server may still work on the request: a retry uses the session once more, nobody
            // else does.
            session.mark_dirty();
        }
        let facts = &connection.facts;
        if let Some(deadline) = context.deadline {
            self.exchange_limits.remove(&(deadline, facts.socket));
        }
        self.selector.finished(facts.server);
        self.note_pins(facts, pinned);
        let mut result = Ok(());
        match (outcome, assessment) {
            (Outcome::Failed(error), _) => {
                // A socket breaks with the runtime that moved it.
                result = Err(self.lost.clone().unwrap_or(error));
            }
            (Outcome::Completed, Some(assessment)) => {
                self.note_cluster_time(assessment.cluster_time);
                if let Some(error) = assessment.for_topology {
                    self.tell_topology(now, facts, error);
                }
                result = assessment.result;
            }
            (Outcome::Completed | Outcome::Abandoned, _) => {}
        }
        if let Err(error) = &mut result {
            *error = error.clone().with_server(&facts.address);
            // The topology comes first: a clear is known before the connection goes back
            // (CMAP-150).
            self.tell_topology(now, facts, error.clone());
        }
        let condition = match condition {
            Condition::Healthy if !connection.transport.has_input() => Condition::Healthy,
            Condition::ReplyDue => Condition::ReplyDue,
            _ => {
                let error = result.as_ref().err().cloned();
                Condition::Broken(error.or_else(|| connection.transport.ended().err()))
            }
        };
        let request_id = context.request_id;
        let verdict = match result {
            Ok(()) => {
                self.take_back(now, connection, condition, request_id);
                self.finish_operation(now, operation);
                Verdict::Done(Ok(()))
            }
            Err(error) => {
                let facts = facts.clone();
                self.take_back(now, connection, condition, request_id);
                match self.on_attempt_failed(now, operation, error, Some(&facts)) {
                    Ok(operation) => Verdict::Again(self.proceed(now, operation)),
                    Err(error) => Verdict::Done(Err(error)),
                }
            }
        };
        self.settle(now);
        verdict
    }

    pub(super) fn take_back(
        &mut self,
        now: Instant,
        connection: Box<Established>,
        condition: Condition,
        request_id: i32,
    ) {
        // An interruption that came while the exchange ended is not forgotten with it.
        let condition = match self.interruption_of_pin(&connection.facts) {
            Some(error) => Condition::Broken(Some(error)),
            None => condition,
        };
        match condition {
            Condition::ReplyDue => self.park_draining(now, connection, request_id),
            other if self.is_kept(connection.facts.socket) => {
                self.keep(now, connection, Self::broken_pin(other));
            }
            other => self.park_connection(now, connection, other),
        }
    }

    /// Goes for a connection, and leases it at once where there is one.
    pub(super) fn proceed(&mut self, now: Instant, mut operation: Box<Operation>) -> Start {
        loop {
            let id = operation.id;
            let failure = match self.acquire(now, operation) {
                Acquired::Waiting(waiting) => {
                    self.waiting.insert(id, waiting);
                    return Start::Waiting(id);
                }
                Acquired::Asking {
                    operation,
                    question,
                } => {
                    self.waiting.insert(id, Waiting::Asking { operation });
                    return Start::Asking {
                        operation: id,
                        question,
                    };
                }
                Acquired::Failed(error) => return Start::Failed(error),
                Acquired::Granted {
                    operation,
                    server,
                    pooled,
                } => match self.lease(now, operation, server, pooled) {
                    Ok(lease) => return Start::Leased(lease),
                    Err(failure) => failure,
                },
            };
            let (error, failed) = failure;
            match self.on_attempt_failed(now, failed, error, None) {
                Ok(again) => operation = again,
                Err(error) => return Start::Failed(error),
            }
        }
    }

    pub(super) fn lease(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        server: ServerId,
        pooled: PooledId,
    ) -> Result<Lease, (Error, Box<Operation>)> {
        let slot = self.pools.get_mut(&server);
        let Some(connection) = slot.and_then(|slot| slot.parked.remove(&pooled)) else {
            // Closed between the grant and now.
            self.selector.finished(server);
            if let Some(id) = operation.command.pinned() {
                self.pins.remove(&id.socket);
            }
            self.return_pooled(now, server, pooled, Condition::Broken(None));
            let message = "the connection was closed before it could be used";
            return Err((Error::network(NetworkFault::Closed, message), operation));
        };
        let is_pinned = operation.command.pin.is_some();
        if !is_pinned && self.wants_ping(now, &connection) {
            return Ok(self.ping_first(now, operation, connection));
        }
        if let Err(error) = self.check_eligible(&mut operation, &connection.facts) {
            self.selector.finished(server);
            self.park_connection(now, connection, Condition::Healthy);
            return Err((error, operation));
        }
        let is_rested = !is_pinned && self.is_rested(now, &connection);
        self.take_session(now, &mut operation, &connection.facts);
        let deadline = match (operation.deadline, self.limits.socket) {
            (Some(deadline), _) => Some(deadline),
            (None, _) if operation.command.timeout.is_some() => None,
            (None, limit) => limit.and_then(|limit| now.checked_add(limit)),
        };
        operation.unwaited = 0;
        let mut lease = self.lease_out(connection, operation, deadline);
        lease.is_rested = is_rested;
        Ok(lease)
    }

    pub(super) fn lease_out(
        &mut self,
        connection: Box<Established>,
        operation: Box<Operation>,
        deadline: Option<Instant>,
    ) -> Lease {
        let facts = &connection.facts;
        if let Some(deadline) = deadline {
            self.exchange_limits.insert((deadline, facts.socket));
            self.note_deadline(Some(deadline));
        }
        self.next_request = self.next_request.wrapping_add(1) & i32::MAX;
        let context = Context {
            cluster_time: match facts.server_type {
                ServerType::Standalone => None,
                _ => self.cluster_time.clone(),
            },
            topology_type: self.sdam.description().topology_type,
            request_id: self.next_request,
            deadline,
            server_api: self.handshake.server_api,
            observed: self.subscriptions.command && operation.behind.is_none(),
        };
        Lease::new(connection, operation, context)
    }

    /// Refuses to repeat a write with a transaction number on a server that does not know it: the
    /// error of the previous attempt is raised instead (RW-25). A number that was never sent is
    /// given up.
    fn check_eligible(
        &self,
        operation: &mut Operation,
        facts: &ConnectionFacts,
    ) -> Result<(), Error> {
        let kind = operation.command.kind;
        if facts.is_unauthenticated && !operation.command.needs_no_login() {
            return Err(self.not_authenticated(operation, facts));
        }
        let is_eligible = self.limits.retry.wants_txn_number(kind, facts.server_type);
        if operation.txn_number.is_none() || is_eligible && facts.has_sessions {
            return Ok(());
        }
        if operation.kept_error.is_none() {
            operation.txn_number = None;
            return Ok(());
        }
        let message = "the server that was selected for the retry knows no retryable writes";
        Err(Error::argument(message).with_server(&facts.address))
    }

    /// Whoever answers at an address could call itself an arbiter and so be spared the proof that
    /// it knows the password. It gets nothing of the application's.
    fn not_authenticated(&self, operation: &Operation, facts: &ConnectionFacts) -> Error {
        let credential = self.handshake.credential.as_ref();
        let mechanism = credential.and_then(|credential| credential.mechanism);
        let message = format!(
            "the server calls itself an arbiter, which cannot authenticate: {} is not sent to it",
            operation.command.name(),
        );
        let kind = ErrorKind::Authentication {
            mechanism: mechanism.unwrap_or(Mechanism::ScramSha256).name(),
            message,
            cause: None,
        };
        Error::new(kind).with_server(&facts.address)
    }

    /// A session, where the server knows them, and a transaction number, where the write is
    /// retryable. Both stay with the operation for its retries (RR-25, RW-19).
    fn take_session(&mut self, now: Instant, operation: &mut Operation, facts: &ConnectionFacts) {
        self.disown_session(operation);
        if operation.session.is_none() && operation.session_is_implicit && facts.has_sessions {
            let timeout = self.sdam.description().logical_session_timeout_minutes;
            operation.session = Some(self.sessions.take(now, timeout, &mut self.session_ids));
        }
        let kind = operation.command.kind;
        if let Some(session) = &mut operation.session {
            session.handle_use(now);
        }
        let wants_number = self.limits.retry.wants_txn_number(kind, facts.server_type);
        if let (Some(session), None, true) =
            (&mut operation.session, operation.txn_number, wants_number)
        {
            operation.txn_number = Some(session.next_txn_number());
        }
    }

    /// Decides what follows a failed attempt: the operation again, or the error that it raises.
    pub(super) fn on_attempt_failed(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        error: Error,
        facts: Option<&ConnectionFacts>,
    ) -> Result<Box<Operation>, Error> {
        let policy = self.limits.retry;
        let error = reworded(&operation, policy.label(&operation, error, facts));
        operation.unwaited += 1;
        let again = !self.closed && policy.may_retry(&operation, &error, facts.is_some());
        // A cleared pool says nothing new about its server (RR-21).
        let avoided = match error.kind() {
            ErrorKind::PoolCleared { .. } => None,
            _ if self.topology().topology_type == TopologyType::Sharded => error.server().cloned(),
            _ => None,
        };
        let is_late = operation.deadline.is_some_and(|deadline| deadline <= now);
        if !again || is_late {
            let error = error_at_end(&mut operation, now, error, again);
            self.finish_operation(now, operation);
            return Err(error);
        }
        operation.paused_until = pause_after(&operation, &error, now, &mut self.pauses);
        let error = error_to_raise(operation.kept_error.take(), error);
        let avoided = avoided.filter(|address| !operation.deprioritized.contains(address));
        operation.deprioritized.extend(avoided);
        operation.kept_error = Some(error);
        operation.selection_began = None;
        Ok(operation)
    }

    /// The operation is over: its implicit session goes back, and a connection that it was the last
    /// to use.
    pub(super) fn finish_operation(&mut self, now: Instant, mut operation: Box<Operation>) {
        if let Some(PinUse::Last(pin)) = operation.command.pin.take() {
            self.let_go(now, pin);
        }
        if let (true, Some(session)) = (operation.session_is_implicit, operation.session) {
            self.return_session(now, session);
        }
    }

    pub(super) fn note_cluster_time(&mut self, time: Option<ClusterTime>) {
        if let Some(time) = time
            && time.is_after(self.cluster_time.as_deref())
        {
            self.cluster_time = Some(Arc::new(time));
        }
    }

    /// Errors that say something about the server change what is known of it (table A.8).
    pub(super) fn tell_topology(&mut self, now: Instant, facts: &ConnectionFacts, error: Error) {
        match error.kind() {
            ErrorKind::Command(_)
            | ErrorKind::Write(_)
            | ErrorKind::Network { .. }
            | ErrorKind::Tls { .. } => {}
            _ => return,
        }
        let error = ApplicationError {
            error,
            phase: Phase::Operation,
            generation: facts.generation,
            service: facts.service,
        };
        self.sdam
            .handle_application_error(now, facts.server, &error);
        self.route_topology(now);
    }

    pub(super) fn cancel_check_out(&mut self, now: Instant, server: ServerId, id: OperationId) {
        self.selector.finished(server);
        if let Some(slot) = self.pools.get_mut(&server) {
            slot.pool.cancel(now, RequestId(id.0));
        }
        self.drain_pool(now, server);
    }
}
