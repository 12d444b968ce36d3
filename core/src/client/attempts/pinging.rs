//! The preliminary ping, which a client that scans sends on an idle connection before an operation
//! uses the connection.

use super::{authenticating::REAUTHENTICATION_REQUIRED, begin::Attempt, end::End, lease::AtEnd};
use crate::{
    client::{AfterExchange, Client, Outcome},
    connection::{ConnectionFacts, Established},
    error::{Error, ErrorKind, NetworkFault},
    operation::{Command, CommandKind, Exchange, Lease, Operation, Remains},
    time::{Instant, earliest},
};
use std::time::Duration;

/// `socketCheckIntervalMS`: how long a connection is idle before it is pinged. 5 seconds; not an
/// option ([SEL-7], [SEL-72]).
///
/// [SEL-7]: crate::requirements::server_selection#SEL-7
/// [SEL-72]: crate::requirements::server_selection#SEL-72
pub const SOCKET_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl Client {
    /// True if the client scans and the connection was idle for [`SOCKET_CHECK_INTERVAL`]. Pinned
    /// connections are not pinged.
    #[inline]
    pub(in crate::client) fn wants_ping(
        &self,
        now: Instant,
        operation: &Operation,
        connection: &Established,
    ) -> bool {
        self.settings.scanning.is_some()
            && connection.used + SOCKET_CHECK_INTERVAL <= now
            && operation.request.pin.is_none()
    }

    /// Makes the exchange of a preliminary ping. `operation` uses the connection after it.
    pub(in crate::client) fn ping_first(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        lease: Lease,
    ) -> Exchange {
        let mut ping = Command::new("ping", "admin", CommandKind::Run);
        ping.body().i32("ping", 1);
        let limit = self
            .settings
            .scanning
            .and_then(|rules| rules.ping_limit)
            .and_then(|limit| now.checked_add(limit));
        let deadline = earliest(operation.deadline, limit);
        let mut exchange = self.new_exchange(lease, operation, deadline);
        exchange.make_preliminary(ping);
        exchange
    }

    /// Ends the exchange of a ping. If the ping succeeded and the pool was not cleared or closed
    /// meanwhile, the operation uses the connection. If the ping failed and the caller has left or
    /// the time limit of the operation has passed, the operation ends. Otherwise the operation
    /// selects a server again (SEL-72).
    pub(in crate::client) fn end_ping(
        &mut self,
        now: Instant,
        mut exchange: Exchange,
        outcome: Outcome,
    ) -> AfterExchange {
        let was_abandoned = matches!(outcome, Outcome::Abandoned);
        let remains = exchange.close(now, &outcome);
        let failure = match self.judge(now, &mut exchange, outcome) {
            Ok(()) => None,
            // The operation authenticates the connection again, or sends no `$clusterTime`.
            Err(error) if error.code() == Some(REAUTHENTICATION_REQUIRED) => None,
            Err(error) => Some(error).filter(|e| !self.drops_cluster_time(now, &mut exchange, e)),
        };
        let is_clean = matches!(remains, Remains::Nothing);
        let Exchange { lease, operation } = exchange;
        let failure = failure.or_else(|| {
            let message = "the server sent bytes that answer no request";
            (!is_clean).then(|| Error::protocol(message))
        });
        let is_late = operation.deadline.is_some_and(|deadline| deadline <= now);
        let (at_end, end) = match failure {
            // The caller left or the operation's time limit passed, which shows nothing about the
            // server.
            None if was_abandoned => (AtEnd::Usable, End::Abandoned),
            Some(_) if was_abandoned => (AtEnd::Broken(None), End::Abandoned),
            Some(failure) if is_late => (AtEnd::Broken(None), End::Stopped(failure)),
            None if self.is_current(&lease) => return self.use_after_ping(now, operation, lease),
            None => (AtEnd::Usable, End::NotBegun),
            Some(failure) => {
                let error = broken(&lease.facts, &failure);
                self.report_to_topology(now, &lease.facts, &error);
                (AtEnd::Broken(Some(error)), End::NotBegun)
            }
        };
        self.end_lease(now, lease, at_end);
        self.after_exchange(now, operation, end)
    }

    fn use_after_ping(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        mut lease: Lease,
    ) -> AfterExchange {
        self.disarm(&mut lease);
        let id = operation.id;
        let attempt = Attempt::Granted(operation, lease);
        AfterExchange::Again(self.advance(now, id, attempt))
    }

    /// True if the client has the connection of this lease, and its pool is open and was not
    /// cleared since the connection was made.
    fn is_current(&self, lease: &Lease) -> bool {
        let facts = &lease.facts;
        !self.was_taken_back(lease)
            && self.pools.is_open(facts.server)
            && !self.pools.is_outdated(facts.server, facts.pooled)
    }
}

/// Returns the network error to report to the topology after a ping that failed for any reason
/// (SEL-72).
fn broken(facts: &ConnectionFacts, failure: &Error) -> Error {
    if matches!(failure.kind(), ErrorKind::Io(_) | ErrorKind::Tls { .. }) {
        return failure.clone().with_server(&facts.address);
    }
    let message = format!("a ping on an idle connection failed: {failure}");
    Error::network(NetworkFault::Other, message).with_server(&facts.address)
}
