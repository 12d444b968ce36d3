//! The preliminary ping, which a client that scans sends on an idle connection before an operation
//! uses the connection.

use super::{
    AfterExchange, Client, Outcome, Timer,
    authenticating::REAUTHENTICATION_REQUIRED,
    begin::Attempt,
    end::{End, Next},
};
use crate::{
    connection::{ConnectionFacts, Established},
    error::{Error, ErrorKind, NetworkFault},
    operation::{Command, CommandKind, Exchange, Operation, SessionUse},
    pool::Condition,
    time::{Instant, earliest},
};
use std::time::Duration;

/// `socketCheckIntervalMS`: how long a connection is idle before it is pinged ([SEL-7], [SEL-72]).
/// 5 seconds; not an option.
///
/// [SEL-7]: crate::requirements::server_selection#SEL-7
/// [SEL-72]: crate::requirements::server_selection#SEL-72
pub const SOCKET_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl Client {
    /// True if the client scans and the connection was idle for [`SOCKET_CHECK_INTERVAL`]. Pinned
    /// connections are not pinged.
    #[inline]
    pub(super) fn wants_ping(
        &self,
        now: Instant,
        operation: &Operation,
        connection: &Established,
    ) -> bool {
        self.settings.scanning.is_some()
            && connection.used + SOCKET_CHECK_INTERVAL <= now
            && operation.request.pin.is_none()
    }

    /// Makes the exchange of a preliminary ping. The ping is an operation of its own, which holds
    /// `operation` until the exchange ends.
    pub(super) fn ping_first(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        connection: Box<Established>,
    ) -> Exchange {
        let mut command = Command::new("ping", "admin", CommandKind::Run);
        command.body().i32("ping", 1);
        command.set_session(SessionUse::None);
        let mut ping = Operation::new(operation.id, command, now);
        let limit = self
            .settings
            .scanning
            .and_then(|rules| rules.ping_limit)
            .and_then(|limit| now.checked_add(limit));
        let deadline = earliest(operation.deadline, limit);
        ping.after_ping = Some(operation);
        self.new_exchange(connection, ping, deadline)
    }

    /// Ends the exchange of a ping. If the ping succeeded and the pool was not cleared or closed
    /// meanwhile, the operation uses the connection. If the ping failed and the caller has left or
    /// the time limit of the operation has passed, the operation ends. Otherwise the operation
    /// selects a server again (SEL-72).
    pub(super) fn end_ping(
        &mut self,
        now: Instant,
        mut exchange: Exchange,
        outcome: Outcome,
    ) -> AfterExchange {
        let drops_cluster_time = self.drops_cluster_time(now, &mut exchange, &outcome);
        let is_clean = !exchange.is_under_way && exchange.output().is_empty();
        let assessment = exchange.assessment.take();
        exchange.finish();
        let Exchange {
            connection,
            operation: ping,
            ..
        } = exchange;
        let Some(operation) = ping.after_ping else {
            let message = "the exchange is not that of a preliminary ping";
            return AfterExchange::Done(Err(Error::argument(message)));
        };
        self.timers.cancel(Timer::Exchange(connection.facts.socket));
        let failure = match (outcome, assessment) {
            (Outcome::Abandoned, _) => Some(Error::new(ErrorKind::Abandoned)),
            (Outcome::Failed(error), _) => Some(error),
            (Outcome::Completed, Some(assessment)) => {
                self.note_cluster_time(now, assessment.cluster_time, &connection.facts);
                // The operation authenticates the connection again, or sends no `$clusterTime`.
                let again = Some(REAUTHENTICATION_REQUIRED);
                assessment
                    .result
                    .err()
                    .filter(|error| error.code() != again && !drops_cluster_time)
            }
            (Outcome::Completed, None) => None,
        };
        let is_usable = failure.is_none() && is_clean && !connection.transport.has_input();
        if is_usable && self.is_current(&connection.facts) {
            return self.use_after_ping(now, operation, connection);
        }
        let server = connection.facts.server;
        self.choice.finished(server);
        if is_usable {
            self.return_connection(now, connection, Condition::Healthy(()));
            return self.select_again_after_ping(now, operation);
        }
        self.on_ping_failed(now, operation, connection, failure)
    }

    fn use_after_ping(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        mut connection: Box<Established>,
    ) -> AfterExchange {
        // No check in sets `used`, because the connection stays checked out.
        connection.used = now;
        let id = operation.id;
        let attempt = Attempt::Granted(operation, connection);
        AfterExchange::Again(self.advance(now, id, attempt))
    }

    fn on_ping_failed(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        connection: Box<Established>,
        failure: Option<Error>,
    ) -> AfterExchange {
        let failure = failure.unwrap_or_else(|| {
            let message = "the server sent bytes that answer no request";
            Error::protocol(message)
        });
        let is_late = operation.deadline.is_some_and(|deadline| deadline <= now);
        let is_left = matches!(failure.kind(), ErrorKind::Abandoned);
        if is_late || is_left {
            // The caller left or the operation's time limit passed, which shows nothing about the
            // server.
            self.return_connection(now, connection, Condition::Broken(None));
            let end = if is_left {
                End::Abandoned
            } else {
                End::Stopped(failure)
            };
            let next = self.end_attempt(now, operation, end);
            return match next {
                Next::Over(Err(_)) if is_left => AfterExchange::Done(Ok(())),
                Next::Over(result) => AfterExchange::Done(result),
                Next::Again(operation) => self.again(now, operation),
            };
        }
        let error = broken(&connection.facts, &failure);
        self.report_to_topology(now, &connection.facts, error.clone());
        self.return_connection(now, connection, Condition::Broken(Some(error)));
        self.select_again_after_ping(now, operation)
    }

    /// True if the pool of the connection is open and was not cleared since the connection was
    /// made.
    fn is_current(&self, facts: &ConnectionFacts) -> bool {
        self.pools.is_open(facts.server) && !self.pools.is_outdated(facts.server, facts.pooled)
    }

    /// Begins another attempt. The present attempt does not count, because nothing of the operation
    /// was sent.
    fn select_again_after_ping(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
    ) -> AfterExchange {
        let id = operation.id;
        let attempt = Attempt::Ended(operation, End::NotBegun);
        AfterExchange::Again(self.advance(now, id, attempt))
    }
}

/// Returns the network error to report to the topology after a ping that failed for any reason
/// (SEL-72).
fn broken(facts: &ConnectionFacts, failure: &Error) -> Error {
    if matches!(
        failure.kind(),
        ErrorKind::Network { .. } | ErrorKind::Tls { .. }
    ) {
        return failure.clone().with_server(&facts.address);
    }
    let message = format!("a ping on an idle connection failed: {failure}");
    Error::network(NetworkFault::Other, message).with_server(&facts.address)
}
