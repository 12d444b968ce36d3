//! What operations do differently where servers are scanned and not monitored in the background:
//! they wait for scans, and they ask a connection that was idle for long whether it still stands.
//!
//! Finding a server may take as long as a scan where `serverSelectionTryOnce` is true, and as long
//! as `serverSelectionTimeoutMS` and one scan more where it is false (SEL-73).
//!
//! An operation uses a scan that is not over in these cases, so that a server that does not answer
//! cannot stop the operations that other servers could serve (see `sdam/scan.rs`):
//!
//! * It needs the primary of a replica set, and the primary was checked in this scan.
//! * It waited for `serverSelectionTimeoutMS`, or for half of its own time limit. The other half is
//!   left for the operation itself.
//! * An earlier operation waited for the servers that are left.
//!
//! Operations of a sharded cluster that have time wait for the whole scan: otherwise all would go
//! to the first mongos that answered (SEL-58).

use super::{
    Client, Outcome, Start, Verdict, pools::PoolSlot, selecting::Selected, waiting::Waiting,
};
use crate::{
    connection::{ConnectionFacts, Established},
    error::{Error, ErrorKind, NetworkFault},
    operation::{Command, CommandKind, Lease, Operation, OperationId, SessionUse, error_at_end},
    options::{ClientOptions, Monitoring},
    pool::Condition,
    time::{Instant, earliest},
};
use std::time::Duration;

/// `socketCheckIntervalMS`: a connection that was idle for so long is asked whether it still stands
/// before an operation uses it (SEL-7, SEL-72). Not an option.
pub const SOCKET_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The rules of a client that scans.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanRules {
    /// `serverSelectionTryOnce`: one scan decides (SEL-71).
    try_once: bool,
    /// How long the answer to a ping may take.
    ping: Option<Duration>,
}

impl ScanRules {
    pub(super) fn new(options: &ClientOptions) -> Option<Self> {
        (options.monitoring() == Monitoring::Scanning).then(|| Self {
            try_once: options.server_selection_try_once(),
            ping: options.connect_timeout(),
        })
    }
}

impl Client {
    /// Chooses a server. `None`: the operation has to wait, for a change of what is known or, where
    /// servers are scanned, for a scan (SEL-70).
    pub(super) fn select_or_scan(
        &mut self,
        now: Instant,
        operation: &mut Operation,
    ) -> Result<Selected, Error> {
        let rules = match self.limits.scan {
            Some(rules) if self.sdam.scans() => rules,
            _ => return self.select(operation),
        };
        if operation.command.target.is_some() {
            // What runs where its cursor lives scans only if it has to wait (SEL-2).
            match self.select(operation) {
                Ok(Selected::Nothing) => {}
                selected => return selected,
            }
        }
        let scans_before = match operation.scans_before {
            Some(scans) => scans,
            None => {
                self.sdam.wants_scan(now);
                *operation
                    .scans_before
                    .insert(self.sdam.scans_begun_before())
            }
        };
        let has_looked = !self.sdam.is_stale();
        if has_looked {
            match self.select(operation) {
                Ok(Selected::Server(server)) => {
                    operation.scans_before = None;
                    return Ok(Selected::Server(server));
                }
                Ok(Selected::Ask(question)) => return Ok(Selected::Ask(question)),
                Ok(Selected::Nothing) => self.sdam.mark_stale(now),
                Err(error) => {
                    if matches!(error.kind(), ErrorKind::Incompatible { .. }) {
                        self.sdam.mark_stale(now);
                    }
                    return Err(error);
                }
            }
            if rules.try_once && self.sdam.scans_completed() > scans_before {
                return Err(self.nothing_suits(operation));
            }
        }
        if !has_looked {
            match self.select_scanned(now, operation)? {
                Selected::Nothing => {}
                selected => return Ok(selected),
            }
        }
        // Without a suitable server a scan under way is waited for, however late it is (SEL-73).
        // Only the operation's own limit cuts it short.
        let began = operation.selection_began.filter(|_| !rules.try_once);
        let limit = began.and_then(|began| began.checked_add(self.limits.selection));
        if !self.sdam.is_scan_under_way() {
            let next = self.sdam.earliest_scan().max(now);
            if limit.is_some_and(|limit| next > limit) {
                return Err(self.nothing_suits(operation));
            }
        }
        // A scan that is due anyway is no news (step 9 of the algorithm).
        if has_looked {
            self.tell_selection_waits(now, operation, limit);
        }
        Ok(Selected::Nothing)
    }

    /// Chooses among the servers that were checked in the scan under way, where the operation does
    /// not wait for the rest of it.
    fn select_scanned(
        &mut self,
        now: Instant,
        operation: &mut Operation,
    ) -> Result<Selected, Error> {
        if operation.command.target.is_some() || !self.sdam.is_scan_under_way() {
            return Ok(Selected::Nothing);
        }
        let selected = if self.needs_primary(operation) && self.sdam.has_scanned_primary() {
            self.select(operation)
        } else {
            let is_late = self.scan_limit(operation).is_some_and(|limit| limit <= now);
            if !is_late && !self.sdam.is_rest_of_scan_optional() {
                return Ok(Selected::Nothing);
            }
            let Some(description) = self.sdam.scanned_description() else {
                return Ok(Selected::Nothing);
            };
            self.select_by(operation, &description)
        };
        match selected {
            // The rest of the scan may still tell otherwise.
            Err(error) if matches!(error.kind(), ErrorKind::Incompatible { .. }) => {
                Ok(Selected::Nothing)
            }
            Ok(Selected::Server(server)) => {
                operation.scans_before = None;
                let began = operation.selection_began.unwrap_or(now);
                if began + self.limits.selection <= now {
                    self.sdam.note_scan_overdue();
                }
                Ok(Selected::Server(server))
            }
            selected => selected,
        }
    }

    /// Until when the operation waits for the end of a scan although a server suits:
    /// `serverSelectionTimeoutMS`, and no longer than half of the operation's time limit.
    fn scan_limit(&self, operation: &Operation) -> Option<Instant> {
        let began = operation.selection_began?;
        let half = operation.deadline.and_then(|deadline| {
            let left = deadline.saturating_since(began);
            began.checked_add(left / 2)
        });
        earliest(began.checked_add(self.limits.selection), half)
    }

    /// When an operation that waits for a scan selects again, or fails, if nothing happens before.
    pub(super) fn scan_patience(&self, now: Instant, operation: &Operation) -> Option<Instant> {
        let limit = self.scan_limit(operation).filter(|&limit| limit > now);
        earliest(limit, operation.deadline)
    }

    /// An operation waited for a scan as long as it does if a server suits. It selects again; if no
    /// server that was checked suits, it waits on. False if its time limit has passed, or if it
    /// does not wait for a scan.
    pub(super) fn select_before_scan_ends(&mut self, now: Instant, id: OperationId) -> bool {
        let Some(Waiting::ForServer { operation, .. }) = self.waiting.get(&id) else {
            return false;
        };
        let is_late = operation.deadline.is_some_and(|deadline| deadline <= now);
        if self.limits.scan.is_none() || is_late || operation.paused_until.is_some() {
            return false;
        }
        let Some(Waiting::ForServer { operation, .. }) = self.waiting.remove(&id) else {
            return false;
        };
        self.without_server.remove(&id);
        // The check under way goes on meanwhile: the operation has not left yet.
        self.acquire_in_background(now, operation);
        self.sdam.set_waiting(now, !self.without_server.is_empty());
        true
    }

    /// True for a connection that was idle for so long that it may be dead without a sign.
    pub(super) fn wants_ping(&self, now: Instant, connection: &Established) -> bool {
        self.limits.scan.is_some() && connection.used + SOCKET_CHECK_INTERVAL <= now
    }

    /// Leases the connection for a ping; the operation goes along until it is answered.
    pub(super) fn ping_first(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        connection: Box<Established>,
    ) -> Lease {
        let mut command = Command::new("ping", "admin", CommandKind::Run);
        command.body().i32("ping", 1);
        command.set_session(SessionUse::None);
        let mut ping = Operation::new(operation.id, command, now);
        let limit = self.limits.scan.and_then(|rules| rules.ping);
        let limit = limit.and_then(|limit| now.checked_add(limit));
        let deadline = earliest(operation.deadline, limit);
        ping.behind = Some(operation);
        self.lease_out(connection, ping, deadline)
    }

    /// The lease of a ping comes back: the operation behind it uses the connection, or looks for a
    /// server once more (SEL-72).
    pub(super) fn check_in_ping(
        &mut self,
        now: Instant,
        mut lease: Lease,
        outcome: Outcome,
    ) -> Verdict {
        let is_clean = !lease.in_exchange && lease.output().is_empty();
        let assessment = lease.assessment.take();
        lease.finish();
        let Lease {
            connection,
            operation: ping,
            context,
            ..
        } = lease;
        let Some(operation) = ping.behind else {
            return Verdict::Done(Err(Error::argument("this lease is not a ping's")));
        };
        if let Some(deadline) = context.deadline {
            let key = (deadline, connection.facts.socket);
            self.exchange_limits.remove(&key);
        }
        let failure = match (outcome, assessment) {
            (Outcome::Abandoned, _) => Some(Error::new(ErrorKind::Abandoned)),
            (Outcome::Failed(error), _) => Some(error),
            (Outcome::Completed, Some(assessment)) => {
                self.note_cluster_time(assessment.cluster_time);
                assessment.result.err()
            }
            (Outcome::Completed, None) => None,
        };
        let stands = failure.is_none() && is_clean && !connection.transport.has_input();
        let verdict = if stands && self.is_current(&connection.facts) {
            Verdict::Again(self.use_after_ping(now, operation, connection))
        } else if stands {
            self.selector.finished(connection.facts.server);
            self.park_connection(now, connection, Condition::Healthy);
            self.go_elsewhere(now, operation)
        } else {
            self.on_ping_failed(now, operation, connection, failure)
        };
        self.settle(now);
        verdict
    }

    fn use_after_ping(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        mut connection: Box<Established>,
    ) -> Start {
        let (server, pooled) = (connection.facts.server, connection.facts.pooled);
        connection.used = now;
        // For its pool it is checked out all the time.
        if let Some(slot) = self.pools.get_mut(&server) {
            slot.parked.insert(pooled, connection);
        }
        self.use_grant(now, operation, server, pooled)
    }

    fn on_ping_failed(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        connection: Box<Established>,
        failure: Option<Error>,
    ) -> Verdict {
        let facts = connection.facts.clone();
        self.selector.finished(facts.server);
        let failure = failure.unwrap_or_else(|| Error::protocol("a reply to nothing"));
        let is_late = operation.deadline.is_some_and(|deadline| deadline <= now);
        let is_left = matches!(failure.kind(), ErrorKind::Abandoned);
        if is_late || is_left {
            // That says nothing about the server: it was not given the time.
            self.park_connection(now, connection, Condition::Broken(None));
            let failure = error_at_end(&mut operation, now, failure, false);
            self.finish_operation(now, operation);
            return Verdict::Done(if is_left { Ok(()) } else { Err(failure) });
        }
        let error = broken(&facts, &failure);
        self.tell_topology(now, &facts, error.clone());
        self.park_connection(now, connection, Condition::Broken(Some(error.clone())));
        self.go_elsewhere(now, operation)
    }

    /// False for a connection that its pool will close: it was cleared, or is the parent's of this
    /// process.
    fn is_current(&self, facts: &ConnectionFacts) -> bool {
        let slot = self.pools.get(&facts.server).filter(|slot| !slot.is_closed);
        let is_stale =
            |slot: &PoolSlot| facts.service.is_none() && slot.pool.generation() != facts.generation;
        slot.is_some_and(|slot| !is_stale(slot))
    }

    fn go_elsewhere(&mut self, now: Instant, mut operation: Box<Operation>) -> Verdict {
        if self.closed {
            self.finish_operation(now, operation);
            return Verdict::Done(Err(self.closed_error()));
        }
        // Nothing of the operation was sent, so this was no attempt of it.
        operation.attempts = operation.attempts.saturating_sub(1);
        Verdict::Again(self.proceed(now, operation))
    }
}

/// Whatever the ping met, to the topology it is a connection that no longer stands (SEL-72).
fn broken(facts: &ConnectionFacts, failure: &Error) -> Error {
    if matches!(
        failure.kind(),
        ErrorKind::Network { .. } | ErrorKind::Tls { .. }
    ) {
        return failure.clone().with_server(&facts.address);
    }
    let message = format!("a connection that had been idle did not answer a ping: {failure}");
    Error::network(NetworkFault::Other, message).with_server(&facts.address)
}
