//! The end of an attempt: judges its outcome, checks the connection in, and decides how the
//! operation continues.

use super::{AfterExchange, Client, Outcome, Timer, connections::State, drain::Drain, pins};
use crate::{
    connection::{ConnectionFacts, Established},
    error::{Error, ErrorKind, Wait},
    operation::{
        AfterFailure, Assessment, Exchange, FailedAttempt, Operation, PinHolder, PinUse,
        error_at_end,
    },
    pool::Condition,
    sdam::{ApplicationError, Phase},
    time::Instant,
};
use std::time::Duration;

/// How long the client waits for a late reply before it gives up the connection: 3 seconds. Not an
/// option. The size of the reply is bounded by `maxMessageSizeBytes`, as for all messages.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// How an attempt of an operation ended.
#[derive(Debug)]
pub(super) enum End {
    /// The reply is no error, or no reply was due.
    Answered,
    /// The attempt failed. The retry policy decides whether the operation is retried. The facts are
    /// those of the connection; `None` if the attempt had no connection.
    Failed(Error, Option<Box<ConnectionFacts>>),
    /// The operation is not retried. For example, no server was found, or the operation's time
    /// limit has passed. An error that was kept from an earlier attempt may be raised instead.
    Stopped(Error),
    /// The operation ends with this error, whatever errors its earlier attempts had. The client is
    /// closed, or the cursor of the operation belongs to the parent process of a fork.
    Final(Error),
    /// Nothing of the operation was sent, for example because its connection was lost or withdrawn,
    /// or the server did not run the command because of its `$clusterTime`. Such an attempt does
    /// not count.
    NotBegun,
    /// The caller abandoned the operation.
    Abandoned,
}

/// How an operation continues after an attempt.
#[derive(Debug)]
pub(super) enum Next {
    /// The next attempt begins: at once, or when the operation's pause is over.
    Again(Box<Operation>),
    /// The operation is over, with this result.
    Over(Result<(), Error>),
}

impl Client {
    /// Ends an exchange: checks its connection in, and continues or ends its operation.
    ///
    /// The socket must be parked before this call. If the connection cannot be used again, an
    /// action to close the socket follows. For a pinned connection, the action follows once the
    /// pins are released.
    pub fn check_in(
        &mut self,
        now: Instant,
        exchange: Exchange,
        outcome: Outcome,
    ) -> AfterExchange {
        let after = if self.is_ordinary(&exchange, &outcome) {
            self.end(now, exchange)
        } else {
            self.end_otherwise(now, exchange, outcome)
        };
        self.settle(now);
        after
    }

    /// True for an exchange that [`end`](Self::end) can end. The exchange is complete, and its
    /// reply, if one is due, is no error and reports no state change. The connection is not pinned.
    /// The exchange is no preliminary ping and belongs to this client.
    #[inline]
    fn is_ordinary(&self, exchange: &Exchange, outcome: &Outcome) -> bool {
        let is_good = match &exchange.assessment {
            Some(assessment) => assessment.result.is_ok() && assessment.for_topology.is_none(),
            None => !exchange.expects_reply(),
        };
        is_good
            && matches!(outcome, Outcome::Completed)
            && !exchange.is_under_way
            && exchange.pinned.is_empty()
            && exchange.operation.request.pin.is_none()
            && !exchange.is_preliminary()
            && exchange.output().is_empty()
            && self.taken_back == 0
            && exchange.facts().client == self.topology().id
    }

    /// Ends an ordinary exchange ([`is_ordinary`](Self::is_ordinary)).
    #[inline]
    fn end(&mut self, now: Instant, mut exchange: Exchange) -> AfterExchange {
        exchange.finish();
        let Exchange {
            connection,
            operation,
            context,
            assessment,
            ..
        } = exchange;
        if let Some(Assessment { cluster_time, .. }) = assessment {
            self.note_cluster_time(now, cluster_time, &connection.facts);
        }
        let facts = &connection.facts;
        if context.deadline.is_some() {
            self.timers.cancel(Timer::Exchange(facts.socket));
        }
        self.choice.finished(facts.server);
        let condition = if connection.transport.has_input() {
            Condition::Broken(connection.transport.ended().err())
        } else {
            Condition::Healthy(())
        };
        self.return_connection(now, connection, condition);
        match self.end_attempt(now, operation, End::Answered) {
            Next::Over(result) => AfterExchange::Done(result),
            Next::Again(operation) => self.again(now, operation),
        }
    }

    /// Ends an exchange that is not ordinary, for example one that failed or was abandoned.
    fn end_otherwise(
        &mut self,
        now: Instant,
        mut exchange: Exchange,
        outcome: Outcome,
    ) -> AfterExchange {
        if let Err(error) = self.check_owner(&exchange) {
            return AfterExchange::Done(Err(error));
        }
        if self.was_taken_back(&exchange) {
            return self.end_taken_back(now, exchange, outcome);
        }
        if exchange.is_preliminary() {
            return self.end_ping(now, exchange, outcome);
        }
        if self.must_authenticate_again(&exchange, &outcome) {
            return self.authenticate_again(now, exchange);
        }
        let drops_cluster_time = self.drops_cluster_time(now, &mut exchange, &outcome);
        let mut condition = self.condition_after(now, &mut exchange, &outcome);
        let assessment = exchange.assessment.take();
        exchange.finish();
        let Exchange {
            mut connection,
            operation,
            context,
            pinned,
            ..
        } = exchange;
        if let (false, Some(session)) = (
            matches!(condition, Condition::Healthy(())),
            operation.request.session,
        ) {
            // The server may still be working on the request. A dirty session is not used again
            // once its holder has ended it.
            self.sessions.mark_dirty(session);
        }
        self.timers.cancel(Timer::Exchange(connection.facts.socket));
        self.choice.finished(connection.facts.server);
        self.keep_pinned(&connection.facts, pinned);
        let was_abandoned = matches!(outcome, Outcome::Abandoned);
        let result = self.judge(now, &connection.facts, outcome, assessment);
        if let Condition::Healthy(()) = condition
            && connection.transport.has_input()
        {
            condition = Condition::Broken(None);
        }
        if let Condition::Broken(error) = &mut condition {
            let failure = result.as_ref().err().cloned();
            *error = failure.or_else(|| connection.transport.ended().err());
        }
        let end = match result {
            Err(_) if drops_cluster_time && !self.life.is_closed() => End::NotBegun,
            Err(error) => End::Failed(error, Some(Box::new(connection.facts.clone()))),
            Ok(()) if was_abandoned => End::Abandoned,
            Ok(()) => End::Answered,
        };
        if let Condition::ReplyDue = condition
            && self.pins.has_entry(connection.facts.socket)
            && let Some(error) = self.interruption(&connection.facts)
        {
            condition = Condition::Broken(Some(error));
        }
        if let Condition::ReplyDue = condition {
            let mut drain = Drain::new(connection, context.request_id, &operation.request);
            // The reply, or a part of it, may be in the buffer already.
            condition = match drain.advance() {
                Ok(true) => Condition::Healthy(()),
                Ok(false) => {
                    self.drain(now, Box::new(drain));
                    return self.after_exchange(now, operation, end, was_abandoned);
                }
                Err(error) => Condition::Broken(Some(error)),
            };
            connection = drain.connection;
            self.run_in_background(drain.end_of_cursor);
        }
        self.return_connection(now, connection, condition);
        self.after_exchange(now, operation, end, was_abandoned)
    }

    /// Returns the error with which the pool interrupted this connection, if it did.
    pub(super) fn interruption(&self, facts: &ConnectionFacts) -> Option<Error> {
        self.pools.interruption_of(facts.server, facts.pooled)
    }

    /// Returns the result of an exchange for its operation. Errors that can change the server
    /// description are reported to the topology before the connection is checked in, so that a
    /// clear precedes the check in (CMAP-150).
    pub(super) fn judge(
        &mut self,
        now: Instant,
        facts: &ConnectionFacts,
        outcome: Outcome,
        assessment: Option<Assessment>,
    ) -> Result<(), Error> {
        let result = match (outcome, assessment) {
            // If the runtime of the shell has ended, its sockets fail as well. The end of the
            // runtime is the cause to raise.
            (Outcome::Failed(error), _) => Err(self.life.lost().unwrap_or(error)),
            (Outcome::Completed, Some(assessment)) => {
                self.note_cluster_time(now, assessment.cluster_time, facts);
                if let Some(error) = assessment.for_topology {
                    self.report_to_topology(now, facts, error);
                }
                assessment.result
            }
            (Outcome::Completed | Outcome::Abandoned, _) => Ok(()),
        };
        result.map_err(|error| {
            let error = error.with_server(&facts.address);
            self.report_to_topology(now, facts, error.clone());
            error
        })
    }

    pub(super) fn after_exchange(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        end: End,
        was_abandoned: bool,
    ) -> AfterExchange {
        match self.end_attempt(now, operation, end) {
            Next::Again(operation) => self.again(now, operation),
            Next::Over(_) if was_abandoned => AfterExchange::Done(Ok(())),
            Next::Over(result) => AfterExchange::Done(result),
        }
    }

    pub(super) fn again(&mut self, now: Instant, operation: Box<Operation>) -> AfterExchange {
        let id = operation.id;
        let attempt = self.attempt(now, operation);
        AfterExchange::Again(self.advance(now, id, attempt))
    }

    /// Returns the condition in which the connection of an exchange is checked in. If the caller
    /// left or the operation's time limit passed, retracts a request of which nothing was sent.
    fn condition_after(
        &self,
        now: Instant,
        exchange: &mut Exchange,
        outcome: &Outcome,
    ) -> Condition<()> {
        // A caller that leaves, or a time limit of the operation, shows nothing about the
        // connection. `socketTimeoutMS` is different: its purpose is to find dead connections.
        let is_late = exchange
            .operation
            .deadline
            .is_some_and(|limit| limit <= now);
        let is_left = match outcome {
            Outcome::Abandoned => true,
            Outcome::Failed(error) => is_late && is_exchange_timeout(error),
            Outcome::Completed => false,
        };
        if is_left {
            exchange.retract_request();
        }
        let is_written = exchange.output().is_empty();
        if !exchange.is_under_way && is_written {
            Condition::Healthy(())
        } else if is_left && is_written && self.settings.scanning.is_none() {
            Condition::ReplyDue
        } else {
            Condition::Broken(None)
        }
    }

    /// Gives a connection to its next owner: to its pins if it has any, otherwise to its pool.
    pub(super) fn return_connection(
        &mut self,
        now: Instant,
        mut connection: Box<Established>,
        condition: Condition<()>,
    ) {
        connection.used = now;
        let facts = &connection.facts;
        let (server, pooled, socket) = (facts.server, facts.pooled, facts.socket);
        if self.pins.has_entry(socket) && self.pins.keep_or_remove(socket) {
            // An interruption can come too late to end this exchange. The next command on the
            // connection then fails.
            let interruption = self.pools.interruption_of(server, pooled);
            let broken = match (interruption, condition) {
                (Some(error), _) => Some(error),
                (None, Condition::Broken(error)) => Some(pins::broken(error)),
                (None, Condition::Healthy(()) | Condition::ReplyDue) => None,
            };
            self.connections.set_state(socket, State::Pinned);
            return self.pins.take_back(connection, broken);
        }
        self.connections.set_state(socket, State::Idle);
        let condition = match condition {
            Condition::Healthy(()) => Condition::Healthy(connection),
            Condition::ReplyDue => Condition::ReplyDue,
            Condition::Broken(error) => Condition::Broken(error),
        };
        self.pools.check_in(now, server, pooled, condition);
    }

    /// Begins to drain a connection, whose late reply is dropped as it arrives. A connection that
    /// is not pinned is checked in at once, with [`Condition::ReplyDue`].
    fn drain(&mut self, now: Instant, drain: Box<Drain>) {
        let facts = &drain.connection.facts;
        let (server, pooled, socket) = (facts.server, facts.pooled, facts.socket);
        self.arm(Timer::Drain(socket), now.checked_add(DRAIN_LIMIT));
        self.connections.begin_drain(drain);
        if self.pins.keep_or_remove(socket) {
            self.pins.begin_drain(socket);
        } else {
            self.pools
                .check_in(now, server, pooled, Condition::ReplyDue);
        }
    }

    /// Adds the pin holders that an exchange made for its connection.
    pub(super) fn keep_pinned(&mut self, facts: &ConnectionFacts, holders: Vec<PinHolder>) {
        // In a child process after a fork, the pool of a parent's connection is closed, and the
        // connection is not kept.
        if !holders.is_empty() && !self.life.is_closed() && self.pools.is_open(facts.server) {
            self.pins.keep(facts, holders);
        }
    }

    /// Ends an attempt and decides how the operation continues.
    pub(super) fn end_attempt(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        end: End,
    ) -> Next {
        self.leave_session(now, &mut operation);
        let result = match end {
            End::Answered => Ok(()),
            End::Abandoned => Err(ErrorKind::Abandoned.into()),
            End::Final(error) => Err(error),
            End::Stopped(error) => {
                let error = with_wait(now, &operation, error);
                self.emit_selection_failed(now, &mut operation, &error);
                Err(error_at_end(&mut operation, now, error, false))
            }
            End::NotBegun if self.life.is_closed() => Err(self.life.error()),
            End::NotBegun => {
                operation.retry.attempts = operation.retry.attempts.saturating_sub(1);
                operation.selection.began = None;
                operation.retry.has_authenticated_again = false;
                return Next::Again(operation);
            }
            End::Failed(error, facts) => {
                operation.retry.has_authenticated_again = false;
                let attempt = FailedAttempt {
                    facts: facts.as_deref(),
                    topology_type: self.topology().topology_type,
                    is_closed: self.life.is_closed(),
                };
                let policy = self.settings.retry;
                match policy.after_failure(now, operation, error, attempt, &mut self.pauses) {
                    AfterFailure::RetryNow(operation) => return Next::Again(operation),
                    AfterFailure::RetryAt(mut operation, until) => {
                        operation.retry.paused_until = Some(until);
                        return Next::Again(operation);
                    }
                    AfterFailure::Over(ended, error) => {
                        operation = ended;
                        Err(error)
                    }
                }
            }
        };
        if let Err(error) = &result {
            self.emit_selection_failed(now, &mut operation, error);
        }
        self.finish(now, operation);
        Next::Over(result)
    }

    /// Ends the use of the operation's session by an attempt.
    #[inline]
    pub(super) fn leave_session(&mut self, now: Instant, operation: &mut Operation) {
        if operation.request.lsid.take().is_some()
            && let Some(session) = operation.request.session
        {
            let timeout = self.topology.description().logical_session_timeout_minutes;
            self.sessions.leave(now, timeout, session);
        }
    }

    /// Ends an operation. Gives back its session if the session ends with the operation, and
    /// releases a pin that this operation was the last to use.
    #[inline]
    fn finish(&mut self, now: Instant, mut operation: Box<Operation>) {
        if let Some(PinUse::Last(pin)) = operation.request.pin.take() {
            self.release_pin(pin);
        }
        if let (true, Some(session)) = (operation.request.ends_session, operation.request.session) {
            self.return_session(now, session);
        }
    }

    fn emit_selection_failed(&mut self, now: Instant, operation: &mut Operation, error: &Error) {
        self.choice
            .emit_failed(now, &self.topology, operation, error, &mut self.out);
    }

    /// Reports an error of an operation to the topology, if errors of this kind can change the
    /// server description or clear the pool (table A.8).
    pub(super) fn report_to_topology(
        &mut self,
        now: Instant,
        facts: &ConnectionFacts,
        error: Error,
    ) {
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
            is_stale: self.pools.is_outdated(facts.server, facts.pooled),
            service: facts.service,
        };
        self.topology
            .handle_application_error(now, facts.server, &error);
        self.carry(now);
    }
}

/// Adds the time that an operation waited for a server to the error of its server selection.
fn with_wait(now: Instant, operation: &Operation, error: Error) -> Error {
    let is_selection = matches!(error.kind(), ErrorKind::ServerSelection { .. });
    let Some(began) = operation.selection.began.filter(|_| is_selection) else {
        return error;
    };
    let waited = now.saturating_since(began);
    // A command of a cursor whose server is gone does not wait.
    let is_known_at_once = operation.request.target.is_some() && waited.is_zero();
    error.with_waited((!is_known_at_once).then_some(waited))
}

fn is_exchange_timeout(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Timeout {
            wait: Wait::Exchange,
            ..
        }
    )
}
