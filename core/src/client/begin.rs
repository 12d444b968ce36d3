//! The road of an operation, first half: select a server, check a connection out, lease it.

use super::{
    Client, Start, Timer,
    choice::{Selected, View},
    connections::State,
    end::{End, Next},
    operations::Waiting,
    pins::Lent,
    scanning::{Parts, Scanning},
};
use crate::{
    connection::{ConnectionFacts, Established},
    description::{ServerId, ServerType},
    error::{Error, ErrorKind},
    event::EventKind,
    operation::{Command, Context, Lease, Operation, OperationId, PinId, Span},
    options::Mechanism,
    pool::{CheckOut, Condition, RequestId},
    selection::{Narrowed, Narrowing},
    time::{Instant, earliest},
};

/// How far an attempt came at once.
pub(super) enum Attempt {
    /// It has a connection.
    Granted(Box<Operation>, Box<Established>),
    /// The operation waits, and is kept.
    Waiting,
    /// The application's server selector is to be asked.
    Asking(Box<Operation>, Narrowing),
    /// The attempt is over.
    Ended(Box<Operation>, End),
}

/// What turns an operation away from the ordinary road.
enum Detour {
    /// It runs on a pinned connection.
    Pin(PinId),
    /// Its next attempt begins later.
    Pause(Instant),
    /// Servers are scanned.
    Scan(Scanning),
}

impl Client {
    /// Starts an operation of one command. Its beginning and its end are not told to listeners:
    /// that takes a [`Runner`](crate::operation::Runner) and [`start_in`](Self::start_in).
    pub fn start(&mut self, now: Instant, command: Command) -> Start {
        self.start_command(now, &mut Span::default(), command, false)
    }

    /// Starts a command of a program. The first one sets the operation id and the time limit of the
    /// span, which all later ones share.
    pub fn start_in(&mut self, now: Instant, span: &mut Span, command: Command) -> Start {
        let observed = self.settings.subscriptions.operation;
        self.start_command(now, span, command, observed)
    }

    fn start_command(
        &mut self,
        now: Instant,
        span: &mut Span,
        command: Command,
        observed: bool,
    ) -> Start {
        let timeout = self.settings.timeout;
        let operation = self.operations.admit(now, span, command, timeout);
        let id = operation.id;
        if observed && let Some(event) = span.observe(now, &operation) {
            self.out.emit(now, EventKind::Operation(event));
        }
        let attempt = match operation.expired(now) {
            _ if self.life.is_closed() => Attempt::Ended(operation, End::Final(self.life.error())),
            None => self.attempt(now, operation),
            Some(error) => Attempt::Ended(operation, End::Stopped(error)),
        };
        let start = self.go(now, id, attempt);
        self.settle(now);
        start
    }

    /// Asks how an operation that was woken goes on.
    pub fn resume(&mut self, now: Instant, id: OperationId) -> Start {
        let may_go_on = |waiting: &Waiting| {
            matches!(
                waiting,
                Waiting::Granted(..) | Waiting::Asking(_) | Waiting::Failed(_)
            )
        };
        let attempt = match self.operations.take_if(id, may_go_on) {
            Some(Waiting::Granted(operation, connection)) => {
                self.timers.cancel(Timer::Wait(id));
                Attempt::Granted(operation, connection)
            }
            Some(Waiting::Asking(operation)) => self.attempt(now, operation),
            Some(Waiting::Failed(error)) => return Start::Failed(error),
            _ => return self.still_waiting(id),
        };
        let start = self.go(now, id, attempt);
        self.settle(now);
        start
    }

    /// The application has said which servers it wants for an operation.
    pub fn handle_narrowed(&mut self, now: Instant, id: OperationId, answer: Narrowed) -> Start {
        let is_asking = |waiting: &Waiting| matches!(waiting, Waiting::Asking(_));
        let Some(Waiting::Asking(mut operation)) = self.operations.take_if(id, is_asking) else {
            return self.still_waiting(id);
        };
        operation.narrowed = Some(answer);
        let attempt = self.attempt(now, operation);
        let start = self.go(now, id, attempt);
        self.settle(now);
        start
    }

    fn still_waiting(&self, id: OperationId) -> Start {
        match self.operations.get(id) {
            Some(_) => Start::Waiting(id),
            None => Start::Failed(Error::argument("no such operation waits")),
        }
    }

    /// Leads an operation from this attempt to a lease, a wait, or its end, through as many
    /// attempts as begin at once.
    pub(super) fn go(&mut self, now: Instant, id: OperationId, mut attempt: Attempt) -> Start {
        loop {
            let (operation, end) = match attempt {
                Attempt::Granted(operation, connection) => {
                    match self.lease(now, operation, connection) {
                        Ok(lease) => return Start::Leased(lease),
                        Err((operation, error)) => (operation, End::Failed(error, None)),
                    }
                }
                Attempt::Waiting => return Start::Waiting(id),
                Attempt::Asking(operation, question) => {
                    self.operations.wait(id, Waiting::Asking(operation));
                    return Start::Asking {
                        operation: id,
                        question,
                    };
                }
                Attempt::Ended(operation, end) => (operation, end),
            };
            match self.end_attempt(now, operation, end) {
                Next::Again(operation) => attempt = self.attempt(now, operation),
                Next::Over(result) => return Start::Failed(over(result)),
            }
        }
    }

    /// Begins the next attempt of an operation whose task waits.
    pub(super) fn begin_in_background(&mut self, now: Instant, operation: Box<Operation>) {
        let id = operation.id;
        match self.attempt(now, operation) {
            Attempt::Granted(operation, connection) => self.grant(now, operation, connection),
            Attempt::Waiting => {}
            Attempt::Asking(operation, _) => {
                self.operations.wait(id, Waiting::Asking(operation));
                self.wake(id);
            }
            Attempt::Ended(operation, end) => {
                let next = self.end_attempt(now, operation, end);
                self.go_on(id, next);
            }
        }
    }

    /// Selects a server and asks its pool for a connection.
    pub(super) fn attempt(&mut self, now: Instant, mut operation: Box<Operation>) -> Attempt {
        let selected = match self.detour(now, &operation) {
            None => {
                self.begin_selection(now, &mut operation);
                self.select(&mut operation)
            }
            Some(Detour::Pin(pin)) => return self.attempt_pinned(operation, pin),
            Some(Detour::Pause(until)) => return self.pause(operation, until),
            Some(Detour::Scan(scanning)) => {
                self.begin_selection(now, &mut operation);
                self.select_by_scan(now, &mut operation, scanning)
            }
        };
        let server = match selected {
            Ok(Selected::Server(server)) => server,
            Ok(Selected::Nothing) => return self.wait_for_server(now, operation),
            Ok(Selected::Ask(question)) => return Attempt::Asking(operation, question),
            Err(error) => return Attempt::Ended(operation, End::Stopped(error)),
        };
        let topology = &self.topology;
        self.choice
            .tell_succeeded(now, topology, &mut operation, server, &mut self.out);
        self.choice.note_selected(topology, &mut operation, server);
        operation.attempts += 1;
        self.check_out(now, operation, server)
    }

    /// The one question that the ordinary road asks about everything that leads away from it.
    #[inline]
    fn detour(&self, now: Instant, operation: &Operation) -> Option<Detour> {
        if let Some(until) = operation.paused_until
            && now < until
        {
            return Some(Detour::Pause(until));
        }
        if let Some(pin) = operation.command.pinned() {
            return Some(Detour::Pin(pin));
        }
        self.settings.scanning.map(Detour::Scan)
    }

    #[inline]
    fn begin_selection(&mut self, now: Instant, operation: &mut Operation) {
        operation.paused_until = None;
        // An operation that selects again after a wait keeps the start of its first selection.
        operation.selection_began.get_or_insert(now);
        self.choice
            .tell_started(now, &self.topology, operation, &mut self.out);
    }

    #[inline]
    fn select(&mut self, operation: &mut Operation) -> Result<Selected, Error> {
        let view = View {
            topology: &self.topology,
            pools: &self.pools,
        };
        self.choice.select(view, operation)
    }

    fn select_by_scan(
        &mut self,
        now: Instant,
        operation: &mut Operation,
        scanning: Scanning,
    ) -> Result<Selected, Error> {
        // Behind a load balancer there is nothing to scan.
        if !self.topology.scans() {
            return self.select(operation);
        }
        let mut parts = Parts {
            topology: &mut self.topology,
            pools: &self.pools,
            choice: &mut self.choice,
            out: &mut self.out,
        };
        scanning.select(now, operation, &mut parts)
    }

    #[inline]
    fn check_out(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        server: ServerId,
    ) -> Attempt {
        // CMAP-153: with a time limit for the operation, what selection left of it counts; the pool
        // knows its own limit.
        let limit = operation
            .command
            .timeout
            .map(|_| self.selection_limit(&operation));
        let request = RequestId(operation.id.0);
        let error = match self.pools.check_out(now, server, request, limit) {
            Some(CheckOut::Granted(_, connection)) => {
                return Attempt::Granted(operation, connection);
            }
            Some(CheckOut::Waiting) => {
                operation.unwaited = 0;
                let id = operation.id;
                self.operations
                    .wait(id, Waiting::ForConnection(operation, server));
                return Attempt::Waiting;
            }
            Some(CheckOut::Failed(error)) => error,
            None => {
                let message = "the server has no connections yet".to_owned();
                Error::new(ErrorKind::PoolCleared { message })
            }
        };
        self.choice.finished(server);
        Attempt::Ended(operation, End::Failed(error, None))
    }

    /// Until when the present attempt may look for a server (SEL-35).
    fn selection_limit(&self, operation: &Operation) -> Option<Instant> {
        let began = operation.selection_began?;
        let limit = began.checked_add(self.settings.selection);
        earliest(limit, operation.deadline)
    }

    fn wait_for_server(&mut self, now: Instant, mut operation: Box<Operation>) -> Attempt {
        if let Err(error) = self.operations.check_room() {
            return Attempt::Ended(operation, End::Stopped(error));
        }
        // The application's answer was about the servers that there are now.
        operation.narrowed = None;
        operation.unwaited = 0;
        let limit = match self.settings.scanning {
            Some(scanning) => scanning.patience(now, &operation),
            None => {
                let limit = self.selection_limit(&operation);
                let topology = &self.topology;
                self.choice
                    .tell_waits(now, topology, &mut operation, limit, &mut self.out);
                limit
            }
        };
        self.keep_without_server(now, operation, limit)
    }

    /// Lets an operation wait for the instant of its next attempt. Servers are not checked for its
    /// sake meanwhile: it has not found out yet that none suits.
    fn pause(&mut self, mut operation: Box<Operation>, until: Instant) -> Attempt {
        if let Err(error) = self.operations.check_room() {
            return Attempt::Ended(operation, End::Stopped(error));
        }
        operation.unwaited = 0;
        let id = operation.id;
        self.arm(Timer::Wait(id), earliest(Some(until), operation.deadline));
        self.operations.wait(id, Waiting::Paused(operation));
        Attempt::Waiting
    }

    fn keep_without_server(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        limit: Option<Instant>,
    ) -> Attempt {
        let id = operation.id;
        self.arm(Timer::Wait(id), limit);
        self.operations.wait(id, Waiting::ForServer(operation));
        self.topology.set_waiting(now, true);
        Attempt::Waiting
    }

    /// Takes the pinned connection of an operation, or lets the operation wait until it is free.
    fn attempt_pinned(&mut self, mut operation: Box<Operation>, pin: PinId) -> Attempt {
        operation.paused_until = None;
        operation.attempts += 1;
        match self.pins.lend(pin, operation.id) {
            Lent::Connection(connection) => {
                self.choice.started(connection.facts.server);
                Attempt::Granted(operation, connection)
            }
            Lent::Waiting(socket) => {
                let id = operation.id;
                self.arm(Timer::Wait(id), operation.deadline);
                self.operations.wait(id, Waiting::ForPin(operation, socket));
                Attempt::Waiting
            }
            Lent::Refused(error) => Attempt::Ended(operation, End::Stopped(error)),
        }
    }

    /// Leases a connection to an operation, or gives it back where the two do not go together.
    fn lease(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        connection: Box<Established>,
    ) -> Result<Lease, (Box<Operation>, Error)> {
        if self.wants_ping(now, &operation, &connection) {
            return Ok(self.ping_first(now, operation, connection));
        }
        if let Err(error) = self.check_eligible(&mut operation, &connection.facts) {
            self.choice.finished(connection.facts.server);
            self.give_back_unused(now, &operation, connection);
            return Err((operation, error));
        }
        self.take_session(now, &mut operation, &connection.facts);
        let deadline = match (operation.deadline, self.settings.socket_timeout) {
            (Some(deadline), _) => Some(deadline),
            (None, _) if operation.command.timeout.is_some() => None,
            (None, limit) => limit.and_then(|limit| now.checked_add(limit)),
        };
        operation.unwaited = 0;
        let is_rested = self.wants_probe(now, &operation, &connection);
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
        if deadline.is_some() {
            self.arm(Timer::Exchange(facts.socket), deadline);
        }
        self.connections.hand_over(facts.socket, State::Leased);
        self.last_request = self.last_request.wrapping_add(1) & i32::MAX;
        let context = Context {
            cluster_time: match facts.server_type {
                ServerType::Standalone => None,
                _ => self.cluster_time.clone(),
            },
            topology_type: self.topology.description().topology_type,
            request_id: self.last_request,
            deadline,
            server_api: self.settings.handshake.server_api,
            observed: self.settings.subscriptions.command && operation.behind.is_none(),
        };
        Lease::new(connection, operation, context)
    }

    /// Gives a connection back that an operation was granted and did not use.
    pub(super) fn give_back_unused(
        &mut self,
        now: Instant,
        operation: &Operation,
        connection: Box<Established>,
    ) {
        let facts = &connection.facts;
        let (server, pooled, socket) = (facts.server, facts.pooled, facts.socket);
        if operation.command.pin.is_some() {
            self.connections.hand_over(socket, State::Pinned);
            self.pins.give_back_unused(connection);
        } else {
            self.connections.hand_over(socket, State::Idle);
            self.pools
                .check_in(now, server, pooled, Condition::Healthy(connection));
        }
    }

    /// Refuses to repeat a write with a transaction number on a server that does not know it: the
    /// error of the previous attempt is raised instead (RW-25). A number that was never sent is
    /// given up.
    #[inline]
    fn check_eligible(
        &self,
        operation: &mut Operation,
        facts: &ConnectionFacts,
    ) -> Result<(), Error> {
        if facts.is_unauthenticated && !operation.command.needs_no_login() {
            return Err(self.not_authenticated(operation, facts));
        }
        if operation.txn_number.is_none() {
            return Ok(());
        }
        let kind = operation.command.kind;
        let is_eligible = self
            .settings
            .retry
            .wants_txn_number(kind, facts.server_type);
        if is_eligible && facts.has_sessions {
            return Ok(());
        }
        if operation.kept_error.is_none() {
            operation.txn_number = None;
            return Ok(());
        }
        let message = "the server that was selected for the retry knows no retryable writes";
        Err(Error::argument(message).with_server(&facts.address))
    }

    /// Any server could call itself an arbiter and so be spared the proof that it knows the
    /// password. It gets nothing of the application's.
    fn not_authenticated(&self, operation: &Operation, facts: &ConnectionFacts) -> Error {
        let credential = self.settings.handshake.credential.as_ref();
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

    /// Takes a session, where the server knows them, and a transaction number, where the write is
    /// retryable. Both stay with the operation for its retries (RR-25, RW-19).
    #[inline]
    fn take_session(&mut self, now: Instant, operation: &mut Operation, facts: &ConnectionFacts) {
        if let Some(session) = operation.session
            && !self.sessions.is_used(session)
        {
            // It is of the process that this one was forked from, which goes on to use it.
            operation.session = None;
            operation.txn_number = None;
        }
        if operation.session.is_none() && operation.ends_session && facts.has_sessions {
            let timeout = self.topology.description().logical_session_timeout_minutes;
            operation.session = Some(self.sessions.begin(now, timeout));
        }
        operation.lsid = None;
        let Some(session) = operation.session else {
            return;
        };
        operation.lsid = self.sessions.use_for_command(now, session);
        let kind = operation.command.kind;
        if operation.txn_number.is_none()
            && self
                .settings
                .retry
                .wants_txn_number(kind, facts.server_type)
        {
            operation.txn_number = self.sessions.next_txn_number(session);
        }
    }
}

/// The error of an operation that is over before it has a connection.
fn over(result: Result<(), Error>) -> Error {
    match result {
        Err(error) => error,
        Ok(()) => Error::argument("the operation is over"),
    }
}
