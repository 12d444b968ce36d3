//! The road of an operation, second half: judge what came of an attempt, check the connection in,
//! and say how the operation goes on.

use super::{
    AfterExchange, Client, Outcome, Timer,
    connections::{Drain, State},
    pins,
};
use crate::{
    connection::{ConnectionFacts, Established, LateReply},
    error::{Error, ErrorKind, Wait},
    operation::{
        AfterFailure, Assessment, ClusterTime, Exchange, FailedAttempt, Operation, PinHolder,
        PinUse, error_at_end,
    },
    pool::Condition,
    sdam::{ApplicationError, Phase},
    time::Instant,
};
use std::{sync::Arc, time::Duration};

/// How long a reply may be outstanding after its operation has left. Then its connection closes. In
/// bytes the bound is that of all messages, `maxMessageSizeBytes`. Not an option.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// How an attempt of an operation ended.
#[derive(Debug)]
pub(super) enum End {
    /// The server answered, and the answer is no error.
    Answered,
    /// The attempt failed; the operation may be tried again. With the facts of the connection,
    /// where there was one.
    Failed(Error, Option<Box<ConnectionFacts>>),
    /// The operation cannot go on: no server was found, or its time is over.
    Stopped(Error),
    /// The operation ends with this error, whatever it met before: the client is closed, or the
    /// process was forked.
    Final(Error),
    /// Nothing was sent, because the connection was lost or withdrawn: this was no attempt.
    NotBegun,
    /// Whoever waited for the operation left.
    Left,
}

/// How an operation goes on after an attempt.
#[derive(Debug)]
pub(super) enum Next {
    /// With another attempt: at once, or at the instant until which the operation is paused.
    Again(Box<Operation>),
    /// It is over.
    Over(Result<(), Error>),
}

impl Client {
    /// Takes an exchange back.
    ///
    /// The socket must be parked again before this is called. The client orders to close it
    /// afterwards if the connection cannot be used again.
    pub fn check_in(
        &mut self,
        now: Instant,
        exchange: Exchange,
        outcome: Outcome,
    ) -> AfterExchange {
        let verdict = if self.is_ordinary(&exchange, &outcome) {
            self.end(now, exchange)
        } else {
            self.end_otherwise(now, exchange, outcome)
        };
        self.settle(now);
        verdict
    }

    /// True for an exchange with nothing to it but a good answer: the connection is as it was, it
    /// belongs to nobody, and nobody else has to hear of the reply.
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
            && exchange.operation.command.pin.is_none()
            && !exchange.is_preliminary()
            && exchange.output().is_empty()
            && exchange.facts().client == self.topology().id
    }

    /// Ends an ordinary exchange.
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
            self.note_cluster_time(cluster_time);
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

    /// Ends any other exchange.
    fn end_otherwise(
        &mut self,
        now: Instant,
        mut exchange: Exchange,
        outcome: Outcome,
    ) -> AfterExchange {
        if let Err(error) = self.check_owner(&exchange) {
            return AfterExchange::Done(Err(error));
        }
        if exchange.is_preliminary() {
            return self.end_ping(now, exchange, outcome);
        }
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
            operation.session,
        ) {
            // The server may still work on the request: whoever has the session uses it to its end,
            // and then it is not used again.
            self.sessions.mark_dirty(session);
        }
        self.timers.cancel(Timer::Exchange(connection.facts.socket));
        self.choice.finished(connection.facts.server);
        self.keep_pinned(&connection.facts, pinned);
        let was_left = matches!(outcome, Outcome::Abandoned);
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
            Err(error) => End::Failed(error, Some(Box::new(connection.facts.clone()))),
            Ok(()) if was_left => End::Left,
            Ok(()) => End::Answered,
        };
        if let Condition::ReplyDue = condition
            && self.pins.knows(connection.facts.socket)
            && let Some(error) = self.interruption(&connection.facts)
        {
            condition = Condition::Broken(Some(error));
        }
        if let Condition::ReplyDue = condition {
            let mut reply = LateReply::new(context.request_id);
            // A part of it may be there already.
            condition = match reply.discard(&mut connection.transport) {
                Ok(true) => Condition::Healthy(()),
                Ok(false) => {
                    self.drain(now, connection, reply);
                    return self.verdict(now, operation, end, was_left);
                }
                Err(error) => Condition::Broken(Some(error)),
            };
        }
        self.return_connection(now, connection, condition);
        self.verdict(now, operation, end, was_left)
    }

    /// The error of a connection that its pool interrupted.
    fn interruption(&self, facts: &ConnectionFacts) -> Option<Error> {
        self.pools.interruption_of(facts.server, facts.pooled)
    }

    /// What an exchange came to, for the operation. Errors that say something about the server
    /// change what is known of it before the connection goes back (CMAP-150).
    fn judge(
        &mut self,
        now: Instant,
        facts: &ConnectionFacts,
        outcome: Outcome,
        assessment: Option<Assessment>,
    ) -> Result<(), Error> {
        let result = match (outcome, assessment) {
            // A socket breaks with the runtime that moved it.
            (Outcome::Failed(error), _) => Err(self.life.lost().unwrap_or(error)),
            (Outcome::Completed, Some(assessment)) => {
                self.note_cluster_time(assessment.cluster_time);
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

    fn verdict(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        end: End,
        was_left: bool,
    ) -> AfterExchange {
        match self.end_attempt(now, operation, end) {
            Next::Again(operation) => self.again(now, operation),
            Next::Over(_) if was_left => AfterExchange::Done(Ok(())),
            Next::Over(result) => AfterExchange::Done(result),
        }
    }

    pub(super) fn again(&mut self, now: Instant, operation: Box<Operation>) -> AfterExchange {
        let id = operation.id;
        let attempt = self.attempt(now, operation);
        AfterExchange::Again(self.advance(now, id, attempt))
    }

    /// The state in which an exchange's connection comes back. Takes a request back of which
    /// nothing was sent.
    fn condition_after(
        &self,
        now: Instant,
        exchange: &mut Exchange,
        outcome: &Outcome,
    ) -> Condition<()> {
        // The caller's own end says nothing about the connection. Another limit than that of the
        // operation, `socketTimeoutMS`, is there to find dead connections.
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

    /// Gives a connection to its next owner: to those who keep it, or to its pool.
    pub(super) fn return_connection(
        &mut self,
        now: Instant,
        mut connection: Box<Established>,
        condition: Condition<()>,
    ) {
        connection.used = now;
        let facts = &connection.facts;
        let (server, pooled, socket) = (facts.server, facts.pooled, facts.socket);
        if self.pins.knows(socket) && self.pins.keeps(socket) {
            // An interruption that came while the exchange ended is not forgotten with it.
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

    /// Gives a connection back whose reply is outstanding, and throws the reply away when it comes.
    fn drain(&mut self, now: Instant, connection: Box<Established>, reply: LateReply) {
        let facts = &connection.facts;
        let (server, pooled, socket) = (facts.server, facts.pooled, facts.socket);
        self.arm(Timer::Drain(socket), now.checked_add(DRAIN_LIMIT));
        self.connections
            .drain(Box::new(Drain { connection, reply }));
        if self.pins.keeps(socket) {
            self.pins.begin_drain(socket);
        } else {
            self.pools
                .check_in(now, server, pooled, Condition::ReplyDue);
        }
    }

    /// The exchange of a connection ended that somebody wants to keep from now on.
    pub(super) fn keep_pinned(&mut self, facts: &ConnectionFacts, holders: Vec<PinHolder>) {
        // A connection of the process that this one was forked from is not for later.
        if !holders.is_empty() && !self.life.is_closed() && self.pools.is_open(facts.server) {
            self.pins.keep(facts, holders);
        }
    }

    /// The one place where all attempts end. Says how the operation goes on.
    pub(super) fn end_attempt(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        end: End,
    ) -> Next {
        if operation.lsid.take().is_some()
            && let Some(session) = operation.session
        {
            let timeout = self.topology.description().logical_session_timeout_minutes;
            self.sessions.leave(now, timeout, session);
        }
        let result = match end {
            End::Answered => Ok(()),
            End::Left => Err(ErrorKind::Abandoned.into()),
            End::Final(error) => Err(error),
            End::Stopped(error) => {
                self.emit_selection_failed(now, &mut operation, &error);
                Err(error_at_end(&mut operation, now, error, false))
            }
            End::NotBegun if self.life.is_closed() => Err(self.life.error()),
            End::NotBegun => {
                operation.attempts = operation.attempts.saturating_sub(1);
                operation.selection_began = None;
                return Next::Again(operation);
            }
            End::Failed(error, facts) => {
                let attempt = FailedAttempt {
                    facts: facts.as_deref(),
                    topology_type: self.topology().topology_type,
                    is_closed: self.life.is_closed(),
                };
                let policy = self.settings.retry;
                match policy.after_failure(now, operation, error, attempt, &mut self.pauses) {
                    AfterFailure::RetryNow(operation) => return Next::Again(operation),
                    AfterFailure::RetryAt(mut operation, until) => {
                        operation.paused_until = Some(until);
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

    /// An operation is over: its implicit session goes back, and a connection that it was the last
    /// to use.
    #[inline]
    fn finish(&mut self, now: Instant, mut operation: Box<Operation>) {
        if let Some(PinUse::Last(pin)) = operation.command.pin.take() {
            self.release_pin(pin);
        }
        if let (true, Some(session)) = (operation.ends_session, operation.session) {
            self.return_session(now, session);
        }
    }

    fn emit_selection_failed(&mut self, now: Instant, operation: &mut Operation, error: &Error) {
        self.choice
            .emit_failed(now, &self.topology, operation, error, &mut self.out);
    }

    #[inline]
    pub(super) fn note_cluster_time(&mut self, time: Option<ClusterTime>) {
        if let Some(time) = time
            && time.is_after(self.cluster_time.as_deref())
        {
            self.cluster_time = Some(Arc::new(time));
        }
    }

    /// Errors that say something about the server change what is known of it (table A.8).
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

fn is_exchange_timeout(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Timeout {
            wait: Wait::Exchange,
            ..
        }
    )
}
