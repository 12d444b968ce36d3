//! The first step of an attempt: select a server and check out a connection from its pool, or take
//! a pinned connection. `begin_exchange.rs` begins the exchange on that connection.

use super::{
    choice::{Selected, View},
    end::{End, Next},
    operations::Waiting,
    scanning::{Parts, ScanRules},
};
use crate::{
    client::{
        Client, Progress, Timer,
        pins::{PinCheckOut, PinRequest},
        recording::{Kind, put_begin, put_choice, put_operation},
    },
    description::ServerId,
    error::{Error, ErrorKind},
    event::EventKind,
    operation::{Command, Lease, Operation, OperationId, PinId, Span},
    pool::{CheckOut, CheckOutId},
    selection::{SelectorAnswer, SelectorQuestion},
    time::{Instant, earliest},
};

/// The result of the first step of an attempt: server selection and check out.
pub(in crate::client) enum Attempt {
    /// The attempt has a connection.
    Granted(Box<Operation>, Lease),
    /// The operation waits; the table of operations holds it.
    Waiting,
    /// The application's server selector has to answer this question.
    Asking(Box<Operation>, SelectorQuestion),
    /// The attempt has ended, as the [`End`] says.
    Ended(Box<Operation>, End),
}

/// How an attempt begins if it does not begin with an ordinary server selection.
enum AttemptPath {
    /// The operation runs on this pinned connection.
    Pin(PinId),
    /// The attempt begins at this later time.
    Pause(Instant),
    /// A server is selected by these rules, because the client scans: it checks servers on demand.
    Scan(ScanRules),
}

impl Client {
    /// Starts an operation of one command. Emits no operation events; for these, use a
    /// [`Runner`](crate::operation::Runner) and [`start_in`](Self::start_in).
    pub fn start(&mut self, now: Instant, command: Command) -> Progress {
        self.start_command(now, &mut Span::default(), command, false)
    }

    /// Starts a command of a program. The first command sets the operation id and the time limit of
    /// the span. Later commands share both.
    pub fn start_in(&mut self, now: Instant, span: &mut Span, command: Command) -> Progress {
        let observed = self.settings.subscriptions.operation;
        self.start_command(now, span, command, observed)
    }

    #[inline]
    fn start_command(
        &mut self,
        now: Instant,
        span: &mut Span,
        mut command: Command,
        observed: bool,
    ) -> Progress {
        self.begin_entry(now, Kind::Begin, |out| put_begin(out, span, &command));
        if let Some(released) = command.take_released() {
            self.release_held(now, *released);
            // Now the command can use the connection that was pinned.
            self.carry(now);
        }
        let timeout = self.settings.timeout;
        let mut operation = self.attempts.operations.admit(now, span, command, timeout);
        operation.begin_pause(now, &mut self.attempts.pauses);
        let id = operation.id;
        if observed && let Some(event) = span.observe(now, &operation) {
            self.out.emit(now, EventKind::Operation(event));
        }
        let refused = self
            .take_run_limit(now, &mut operation)
            .and_then(|()| operation.request.check_cursor())
            .and_then(|()| self.enter_session(now, &mut operation))
            .err();
        let attempt = match refused.or_else(|| operation.expired(now)) {
            _ if self.life.is_closed() => Attempt::Ended(operation, End::Final(self.life.error())),
            None => self.attempt(now, operation),
            Some(error) => Attempt::Ended(operation, End::Stopped(error)),
        };
        let start = self.advance(now, id, attempt);
        self.settle(now);
        self.end_entry(|digest| digest.progress(&start));
        start
    }

    /// Continues an operation that was woken. Returns [`Progress::Waiting`] if the operation still
    /// waits.
    pub fn resume(&mut self, now: Instant, id: OperationId) -> Progress {
        self.begin_entry(now, Kind::Resume, |out| put_operation(out, id, None));
        let progress = self.resume_waiting(now, id);
        self.end_entry(|digest| digest.progress(&progress));
        progress
    }

    fn resume_waiting(&mut self, now: Instant, id: OperationId) -> Progress {
        let may_go_on = |waiting: &Waiting| {
            matches!(
                waiting,
                Waiting::Granted(..)
                    | Waiting::Asking(_)
                    | Waiting::Answered(_)
                    | Waiting::Failed(_)
            )
        };
        let attempt = match self.attempts.operations.take_if(id, may_go_on) {
            Some(Waiting::Granted(operation, lease)) => {
                self.disarm_grant(&operation);
                Attempt::Granted(operation, lease)
            }
            Some(Waiting::Asking(operation)) => self.attempt(now, operation),
            Some(Waiting::Answered(answer)) => return Progress::Answered(answer),
            Some(Waiting::Failed(error)) => return Progress::Failed(error),
            _ => return self.still_waiting(id),
        };
        let start = self.advance(now, id, attempt);
        self.settle(now);
        start
    }

    /// Takes the answer of the application's server selector and continues the operation.
    pub fn handle_selector_answer(
        &mut self,
        now: Instant,
        id: OperationId,
        answer: SelectorAnswer,
    ) -> Progress {
        let topology = self.topology().clone();
        self.begin_entry(now, Kind::Choice, |out| {
            put_choice(out, id, &answer, &topology)
        });
        let is_asking = |waiting: &Waiting| matches!(waiting, Waiting::Asking(_));
        let progress = match self.attempts.operations.take_if(id, is_asking) {
            Some(Waiting::Asking(mut operation)) => {
                operation.selection.answer = Some(answer);
                let attempt = self.attempt(now, operation);
                let start = self.advance(now, id, attempt);
                self.settle(now);
                start
            }
            _ => self.still_waiting(id),
        };
        self.end_entry(|digest| digest.progress(&progress));
        progress
    }

    fn still_waiting(&self, id: OperationId) -> Progress {
        match self.attempts.operations.get(id) {
            Some(_) => Progress::Waiting(id),
            None => Progress::Failed(Error::argument("no operation with this id is waiting")),
        }
    }

    /// Continues an operation from `attempt`, with further attempts if necessary. Returns when the
    /// operation has an exchange, waits, asks the server selector, or has failed.
    #[inline]
    pub(in crate::client) fn advance(
        &mut self,
        now: Instant,
        id: OperationId,
        mut attempt: Attempt,
    ) -> Progress {
        loop {
            let (operation, end) = match attempt {
                Attempt::Granted(operation, lease) => {
                    match self.begin_exchange(now, operation, lease) {
                        Ok(exchange) => return Progress::Exchange(exchange),
                        Err((operation, error)) => (operation, End::Failed(error, None)),
                    }
                }
                Attempt::Waiting => return Progress::Waiting(id),
                Attempt::Asking(operation, question) => {
                    self.attempts
                        .operations
                        .wait(id, Waiting::Asking(operation));
                    return Progress::Asking {
                        operation: id,
                        question,
                    };
                }
                Attempt::Ended(operation, end) => (operation, end),
            };
            match self.end_attempt(now, operation, end) {
                Next::Again(operation) => {
                    self.carry(now);
                    attempt = self.attempt(now, operation);
                }
                Next::Over(result) => return Progress::Failed(error_of_end(result)),
            }
        }
    }

    /// Begins the next attempt of an operation whose task waits to be woken.
    pub(in crate::client) fn begin_in_background(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
    ) {
        let id = operation.id;
        match self.attempt(now, operation) {
            Attempt::Granted(operation, lease) => self.grant(now, operation, lease),
            Attempt::Waiting => {}
            Attempt::Asking(operation, _) => {
                self.attempts
                    .operations
                    .wait(id, Waiting::Asking(operation));
                self.wake(id);
            }
            Attempt::Ended(operation, end) => {
                let next = self.end_attempt(now, operation, end);
                self.store_progress(id, next);
            }
        }
    }

    /// Begins an attempt: selects a server and checks out a connection from its pool. An operation
    /// that has a pin takes its pinned connection instead, and one that has to pause waits.
    #[inline]
    pub(in crate::client) fn attempt(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
    ) -> Attempt {
        let selected = match self.path_of(now, &operation) {
            None | Some(AttemptPath::Scan(_)) if self.seeds.list.is_unresolved() => {
                self.begin_selection(now, &mut operation);
                Ok(Selected::NoServer)
            }
            None => {
                self.begin_selection(now, &mut operation);
                self.select(&mut operation)
            }
            Some(AttemptPath::Pin(pin)) => return self.attempt_pinned(operation, pin),
            Some(AttemptPath::Pause(until)) => return self.pause(operation, until),
            Some(AttemptPath::Scan(scanning)) => {
                self.begin_selection(now, &mut operation);
                self.select_by_scan(now, &mut operation, scanning)
            }
        };
        let server = match selected {
            Ok(Selected::Server(server)) => server,
            Ok(Selected::NoServer) => return self.wait_for_server(now, operation),
            Ok(Selected::Ask(question)) => return Attempt::Asking(operation, question),
            Err(error) => return Attempt::Ended(operation, End::Stopped(error)),
        };
        let topology = &self.topology;
        self.attempts
            .choice
            .emit_succeeded(now, topology, &mut operation, server, &mut self.out);
        self.attempts
            .choice
            .note_selected(topology, &mut operation, server);
        operation.retry.attempts += 1;
        self.check_out(now, operation, server)
    }

    /// Returns how the attempt begins; `None` for an ordinary server selection.
    #[inline]
    fn path_of(&self, now: Instant, operation: &Operation) -> Option<AttemptPath> {
        if let Some(until) = operation.retry.paused_until
            && now < until
        {
            return Some(AttemptPath::Pause(until));
        }
        if let Some(pin) = operation.request.pinned() {
            return Some(AttemptPath::Pin(pin));
        }
        self.settings.scanning.map(AttemptPath::Scan)
    }

    #[inline]
    fn begin_selection(&mut self, now: Instant, operation: &mut Operation) {
        operation.retry.paused_until = None;
        // An operation that selects again after a wait keeps the time at which the selection of
        // this attempt began.
        operation.selection.began.get_or_insert(now);
        self.attempts
            .choice
            .emit_started(now, &self.topology, operation, &mut self.out);
    }

    #[inline]
    fn select(&mut self, operation: &mut Operation) -> Result<Selected, Error> {
        let view = View {
            topology: &self.topology,
            pools: &self.pools,
        };
        self.attempts.choice.select(view, operation)
    }

    fn select_by_scan(
        &mut self,
        now: Instant,
        operation: &mut Operation,
        scanning: ScanRules,
    ) -> Result<Selected, Error> {
        // Behind a load balancer there is nothing to scan.
        if !self.topology.scans() {
            return self.select(operation);
        }
        let mut parts = Parts {
            topology: &mut self.topology,
            pools: &self.pools,
            choice: &mut self.attempts.choice,
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
        // Without an operation time limit, the pool applies `waitQueueTimeoutMS` (CMAP-153).
        let timeout = operation.request.timeout;
        let limit = timeout.map(|_| self.check_out_limit(now, &operation));
        let request = CheckOutId(operation.id.0);
        let error = match self.pools.check_out(now, server, request, limit) {
            Some(CheckOut::Granted(_, connection)) => {
                return Attempt::Granted(operation, Lease::new(connection));
            }
            Some(CheckOut::Waiting) => {
                operation.retry.attempts_without_wait = 0;
                let id = operation.id;
                self.attempts
                    .operations
                    .wait(id, Waiting::ForConnection(operation, server));
                return Attempt::Waiting;
            }
            Some(CheckOut::Failed(error)) => error,
            None => {
                let message = "the server has no connection pool yet".to_owned();
                Error::new(ErrorKind::ConnectionPoolCleared { message })
            }
        };
        self.attempts.choice.finished(server);
        Attempt::Ended(operation, End::Failed(error, None))
    }

    /// Returns the time until which the current attempt may wait for a server (SEL-35).
    fn selection_limit(&self, operation: &Operation) -> Option<Instant> {
        let began = operation.selection.began?;
        let limit = began.checked_add(self.settings.selection);
        earliest(limit, operation.deadline)
    }

    /// Returns the time until which an operation with a time limit may wait for a connection: until
    /// the limit of server selection (SEL-35). In a client that scans, an operation may have waited
    /// for a scan for the whole `serverSelectionTimeoutMS`. So the check out there has a time of
    /// its own, which is as long.
    fn check_out_limit(&self, now: Instant, operation: &Operation) -> Option<Instant> {
        if self.settings.scanning.is_none() {
            return self.selection_limit(operation);
        }
        let limit = now.checked_add(self.settings.selection);
        earliest(limit, operation.deadline)
    }

    fn wait_for_server(&mut self, now: Instant, mut operation: Box<Operation>) -> Attempt {
        if let Err(error) = self.attempts.operations.check_room() {
            return Attempt::Ended(operation, End::Stopped(error));
        }
        // The next selection asks the server selector again, because the servers can have changed
        // by then.
        operation.selection.answer = None;
        operation.selection.asks_about_avoided = false;
        operation.retry.attempts_without_wait = 0;
        let limit = match self.settings.scanning {
            Some(scanning) if !self.seeds.list.is_unresolved() => {
                scanning.wait_limit(now, &operation)
            }
            _ => {
                let limit = self.selection_limit(&operation);
                let topology = &self.topology;
                self.attempts.choice.emit_waits(
                    now,
                    topology,
                    &mut operation,
                    limit,
                    &mut self.out,
                );
                limit
            }
        };
        self.keep_without_server(now, operation, limit)
    }

    /// Lets an operation wait until its next attempt may begin. Servers are not checked for a
    /// pause.
    fn pause(&mut self, mut operation: Box<Operation>, until: Instant) -> Attempt {
        if let Err(error) = self.attempts.operations.check_room() {
            return Attempt::Ended(operation, End::Stopped(error));
        }
        operation.retry.attempts_without_wait = 0;
        let id = operation.id;
        self.arm(Timer::Wait(id), earliest(Some(until), operation.deadline));
        self.attempts
            .operations
            .wait(id, Waiting::Paused(operation));
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
        self.attempts
            .operations
            .wait(id, Waiting::ForServer(operation));
        self.want_servers(now);
        Attempt::Waiting
    }

    /// Takes the pinned connection of an operation, or lets the operation wait for the end of the
    /// commands before it on that connection. Ends the attempt if the connection cannot be used.
    fn attempt_pinned(&mut self, mut operation: Box<Operation>, pin: PinId) -> Attempt {
        operation.retry.paused_until = None;
        operation.retry.attempts += 1;
        let request = PinRequest {
            operation: operation.id,
            ends_alone: operation.request.closes_cursors(),
            can_move: operation.request.ends_transaction(),
        };
        match self.pins.check_out(pin, request) {
            PinCheckOut::Connection(connection) => {
                self.attempts.choice.started(connection.facts.server);
                Attempt::Granted(operation, Lease::new(connection))
            }
            PinCheckOut::Waiting(socket) => {
                let id = operation.id;
                self.arm(Timer::Wait(id), operation.deadline);
                self.attempts
                    .operations
                    .wait(id, Waiting::ForPin(operation, socket));
                Attempt::Waiting
            }
            PinCheckOut::Refused(_) if operation.request.ends_transaction() => {
                self.leave_broken_place(&mut operation);
                Attempt::Ended(operation, End::NotBegun)
            }
            PinCheckOut::Refused(error) => Attempt::Ended(operation, End::Stopped(error)),
        }
    }
}

/// Returns the error of an operation that ended while an attempt was begun. Such an end is never
/// `Ok`.
fn error_of_end(result: Result<(), Error>) -> Error {
    match result {
        Err(error) => error,
        Ok(()) => Error::argument("the operation is over"),
    }
}
