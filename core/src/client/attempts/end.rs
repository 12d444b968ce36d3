//! The end of an attempt: judges its outcome, checks the connection in, and decides how the
//! operation continues.

use super::lease::AtEnd;
use crate::{
    client::{
        AfterExchange, Client, Outcome,
        recording::{Kind, put_check_in},
    },
    connection::ConnectionFacts,
    error::{Error, ErrorKind},
    operation::{
        AfterFailure, Exchange, FailedAttempt, LastError, Lease, Operation, PinUse, Remains,
        error_at_end, is_refused_at_once, label_in_transaction, label_refused_commit,
        transaction_label,
    },
    sdam::{ApplicationError, Phase, without_reply},
    time::Instant,
};

/// How an attempt of an operation ended.
#[derive(Debug)]
pub(in crate::client) enum End {
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
pub(in crate::client) enum Next {
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
        self.begin_entry(now, Kind::CheckIn, |out| {
            put_check_in(out, &exchange, &outcome)
        });
        let after = match self.check_owner(&exchange) {
            Ok(()) if exchange.is_preliminary() => self.end_ping(now, exchange, outcome),
            Ok(()) => self.end_exchange(now, exchange, outcome),
            Err(error) => AfterExchange::Done(Err(error)),
        };
        self.settle(now);
        self.end_entry(|digest| digest.after_exchange(&after));
        after
    }

    #[inline]
    fn end_exchange(
        &mut self,
        now: Instant,
        mut exchange: Exchange,
        outcome: Outcome,
    ) -> AfterExchange {
        let was_abandoned = matches!(outcome, Outcome::Abandoned);
        if was_abandoned {
            let end_of_cursor = exchange.end_of_cursor();
            self.run_in_background(end_of_cursor);
        }
        let remains = exchange.close(now, &outcome);
        exchange.note_in_transaction(&remains);
        let end = match self.judge(now, &mut exchange, outcome) {
            Ok(()) if was_abandoned => End::Abandoned,
            Ok(()) => End::Answered,
            Err(error) if self.must_authenticate_again(&exchange, &error) => {
                return self.authenticate_again(now, exchange);
            }
            Err(error) => self.end_failed(now, &mut exchange, error),
        };
        let Exchange {
            lease,
            mut operation,
        } = exchange;
        self.keep_pinned(&lease, &mut operation);
        if let (Remains::Reply | Remains::Bytes, Some(session)) =
            (&remains, operation.request.session)
        {
            // The server may still be working on the request. A dirty session is not used again
            // once its holder has ended it.
            self.attempts.sessions.mark_dirty(session);
        }
        let at_end = match remains {
            Remains::Nothing => AtEnd::Usable,
            Remains::Reply if self.settings.scanning.is_none() => {
                AtEnd::ReplyDue(operation.exchange.context.request_id, &operation.request)
            }
            Remains::Reply | Remains::Bytes => AtEnd::Broken(match &end {
                End::Failed(error, _) => Some(error.clone()),
                _ => lease.transport.ended().err(),
            }),
        };
        self.end_lease(now, lease, at_end);
        self.after_exchange(now, operation, end)
    }

    /// Returns the result of an exchange for its operation. An error in a reply that reports a
    /// success is reported to the topology.
    #[inline]
    pub(in crate::client) fn judge(
        &mut self,
        now: Instant,
        exchange: &mut Exchange,
        outcome: Outcome,
    ) -> Result<(), Error> {
        let facts = &exchange.lease.facts;
        let result = match (outcome, exchange.operation.exchange.assessment.take()) {
            // If the runtime of the shell has ended, its sockets fail as well. The end of the
            // runtime is the cause to raise.
            (Outcome::Failed(error), _) => Err(self.life.lost().unwrap_or(error)),
            (Outcome::Completed, Some(assessment)) => {
                self.note_session_times(&exchange.operation, &assessment);
                self.note_cluster_time(now, assessment.cluster_time, facts.server);
                if let Some(error) = assessment.for_topology {
                    self.report_to_topology(now, facts, &error);
                }
                assessment.result
            }
            (Outcome::Completed | Outcome::Abandoned, _) => Ok(()),
        };
        result.map_err(|error| error.with_server(&facts.address))
    }

    /// Returns the end of an attempt whose exchange failed. Errors that can change the server
    /// description are reported to the topology before the connection is checked in, so that a
    /// clear precedes the check in (CMAP-150).
    fn end_failed(&mut self, now: Instant, exchange: &mut Exchange, error: Error) -> End {
        self.report_to_topology(now, &exchange.lease.facts, &error);
        let is_dropped = self.drops_cluster_time(now, exchange, &error);
        if is_dropped && is_refused_at_once(&error) && !self.life.is_closed() {
            return End::NotBegun;
        }
        End::Failed(error, Some(Box::new(exchange.lease.facts.clone())))
    }

    #[inline]
    pub(in crate::client) fn after_exchange(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        end: End,
    ) -> AfterExchange {
        let was_abandoned = matches!(end, End::Abandoned);
        match self.end_attempt(now, operation, end) {
            Next::Again(operation) => self.again(now, operation),
            Next::Over(_) if was_abandoned => AfterExchange::Done(Ok(())),
            Next::Over(result) => AfterExchange::Done(result),
        }
    }

    pub(in crate::client) fn again(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
    ) -> AfterExchange {
        let id = operation.id;
        // A connection that the last attempt released is available to this one.
        self.carry(now);
        let attempt = self.attempt(now, operation);
        AfterExchange::Again(self.advance(now, id, attempt))
    }

    /// Adds the pin holders that an exchange made for its connection.
    #[inline]
    pub(in crate::client) fn keep_pinned(&mut self, lease: &Lease, operation: &mut Operation) {
        let holders = std::mem::take(&mut operation.exchange.pinned);
        // In a child process after a fork, the pool of a parent's connection is closed, and the
        // connection is not kept.
        if !holders.is_empty()
            && !self.was_taken_back(lease)
            && !self.life.is_closed()
            && self.pools.is_open(lease.facts.server)
        {
            self.pins.keep(&lease.facts, holders);
        }
    }

    /// Ends an attempt and decides how the operation continues.
    #[inline]
    pub(in crate::client) fn end_attempt(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        end: End,
    ) -> Next {
        self.leave_session(now, &mut operation);
        let was_abandoned = matches!(end, End::Abandoned);
        // If the client closes before the retry of a commit, its result is unknown all the same.
        let kept = operation.retry.kept_error.as_ref();
        let mut label = match end {
            End::Final(_) | End::NotBegun => {
                kept.and_then(|error| transaction_label(&operation.request, error))
            }
            _ => None,
        };
        let result = match end {
            End::Answered => Ok(()),
            End::Abandoned => Err(ErrorKind::Abandoned.into()),
            End::Final(error) => Err(error),
            End::Stopped(error) => {
                let error = with_wait(now, &operation, error);
                let error = label_in_transaction(&operation.request, error, false);
                label = transaction_label(&operation.request, &error);
                self.unpin_transaction(&mut operation, &error);
                self.emit_selection_failed(now, &mut operation, &error);
                let last = LastError {
                    error,
                    had_exchange: false,
                };
                Err(error_at_end(&mut operation, now, last, false))
            }
            End::NotBegun if self.life.is_closed() => Err(self.life.error()),
            End::NotBegun => {
                operation.retry.attempts = operation.retry.attempts.saturating_sub(1);
                operation.selection.begin_again();
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
                let error = policy.label(&operation, error, attempt.facts);
                self.unpin_transaction(&mut operation, &error);
                let error = label_refused_commit(&operation, error);
                label = transaction_label(&operation.request, &error);
                let pauses = &mut self.attempts.pauses;
                match policy.after_failure(now, operation, error, attempt, pauses) {
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
        let result = match label {
            Some(label) => result.map_err(|error| error.with_label(label)),
            None => result,
        };
        if operation.request.transaction.is_some() {
            self.end_in_transaction(&operation, result.is_ok(), was_abandoned);
        }
        self.finish(now, operation);
        Next::Over(result)
    }

    /// Ends the use of the operation's session by an attempt.
    #[inline]
    pub(in crate::client) fn leave_session(&mut self, now: Instant, operation: &mut Operation) {
        if operation.request.lsid.take().is_some()
            && let Some(session) = operation.request.session
        {
            let timeout = self.topology.description().logical_session_timeout_minutes;
            self.attempts.sessions.leave(now, timeout, session);
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
        self.attempts
            .choice
            .emit_failed(now, &self.topology, operation, error, &mut self.out);
    }

    /// Reports an error of an operation to the topology, if errors of this kind can change the
    /// server description or clear the pool (table A.8).
    pub(in crate::client) fn report_to_topology(
        &mut self,
        now: Instant,
        facts: &ConnectionFacts,
        error: &Error,
    ) {
        match error.kind() {
            // Only the error of a write concern can tell of a change of the server's state.
            ErrorKind::InsertMany(all) if all.write_concern_error.is_none() => return,
            ErrorKind::Command(_)
            | ErrorKind::InsertMany(_)
            | ErrorKind::Io(_)
            | ErrorKind::Tls { .. } => {}
            _ => return,
        }
        let error = ApplicationError {
            error: without_reply(error),
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
