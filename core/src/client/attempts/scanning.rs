//! Server selection of a client that checks servers on demand: operations wait for scans.
//!
//! If `serverSelectionTryOnce` is true, server selection can last as long as a scan. If the option
//! is false, server selection can last for `serverSelectionTimeoutMS` plus one scan (SEL-73).
//!
//! In the following cases an operation uses the results of a scan that has not ended. So a server
//! that does not reply cannot stop the operations that other servers can serve (see
//! `sdam/scan.rs`):
//!
//! * The operation needs the primary of a replica set, and the primary was checked in this scan.
//! * The operation has waited for `serverSelectionTimeoutMS`, or for half of the time that it had
//!   left. The other half remains for its attempts.
//! * An earlier operation has already waited for this scan for `serverSelectionTimeoutMS`.
//! * The last check of each server that is left was cancelled, or ended less than 500 ms ago.
//! * Operations have waited for 3 seconds in total for hosts that replies named and that never
//!   answered, and only such hosts are left (see `sdam/patience.rs`).
//!
//! After the wait of the second case, an operation that none of the checked servers can serve also
//! uses the results of earlier scans. So a server that answered before and is silent now does not
//! make the operation fail if another known server suits.
//!
//! All other operations wait for the whole scan. Otherwise all operations on a sharded cluster
//! would go to the first mongos that replied (SEL-58).

use super::choice::{Choice, Selected, View};
use crate::{
    client::{control::outbox::Outbox, pools::Pools},
    error::{Error, ErrorKind},
    operation::Operation,
    options::{ClientOptions, Monitoring},
    sdam::Sdam,
    time::{Instant, earliest},
};
use std::time::Duration;

/// The rules of server selection in a client that scans.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct ScanRules {
    /// `serverSelectionTryOnce`: true if selection fails when no server suits after one scan
    /// (SEL-71).
    try_once: bool,
    /// `serverSelectionTimeoutMS`.
    selection_limit: Duration,
    /// The time limit of a preliminary ping: `connectTimeoutMS`; `None` for no limit.
    pub(in crate::client) ping_limit: Option<Duration>,
}

/// The parts that server selection by scans reads and changes.
pub(in crate::client) struct Parts<'a> {
    pub(in crate::client) topology: &'a mut Sdam,
    pub(in crate::client) pools: &'a Pools,
    pub(in crate::client) choice: &'a mut Choice,
    pub(in crate::client) out: &'a mut Outbox,
}

impl Parts<'_> {
    fn select(&mut self, operation: &mut Operation) -> Result<Selected, Error> {
        let view = View {
            topology: self.topology,
            pools: self.pools,
        };
        self.choice.select(view, operation)
    }

    /// Selects among the servers that were checked in the scan under way.
    fn select_checked(&mut self, operation: &mut Operation) -> Result<Selected, Error> {
        match self.topology.scanned_description() {
            Some(description) => self
                .choice
                .select_by(self.topology, operation, &description),
            None => Ok(Selected::NoServer),
        }
    }

    /// Selects for an operation that does not wait for the scan any more: among the checked servers
    /// and, if none of them suits, among those that earlier scans found. The answer of an
    /// application's server selector belongs to one description, so there is one selection then.
    fn select_late(&mut self, operation: &mut Operation) -> Result<Selected, Error> {
        if !self.choice.asks(operation) {
            match self.select_checked(operation) {
                Ok(Selected::NoServer) => {}
                selected => return selected,
            }
        }
        let description = self.topology.known_description();
        self.choice
            .select_by(self.topology, operation, &description)
    }

    fn no_suitable_server_error(&self, operation: &Operation) -> Error {
        self.choice
            .no_suitable_server_error(self.topology, operation)
    }
}

impl ScanRules {
    /// Returns the time limit of server selection; `None` if selection ends with one scan instead.
    pub(in crate::client) fn limit(&self) -> Option<Duration> {
        (!self.try_once).then_some(self.selection_limit)
    }

    /// Returns the rules of a client with these options; `None` if its servers are monitored in the
    /// background.
    pub(in crate::client) fn new(options: &ClientOptions) -> Option<Self> {
        (options.monitoring == Monitoring::Scanning).then(|| Self {
            try_once: options.server_selection_try_once(),
            selection_limit: options.server_selection_timeout(),
            ping_limit: options.connect_timeout(),
        })
    }

    /// Selects a server. [`Selected::NoServer`] means that the operation has to wait for a scan
    /// (SEL-70).
    pub(in crate::client) fn select(
        &self,
        now: Instant,
        operation: &mut Operation,
        parts: &mut Parts<'_>,
    ) -> Result<Selected, Error> {
        if operation.request.target.is_some() {
            // An operation that is bound to a server does not select one (SEL-2). Such an operation
            // waits for a scan only if that server cannot be used yet.
            match parts.select(operation) {
                Ok(Selected::NoServer) => {}
                selected => return selected,
            }
        }
        let scans_before = match operation.selection.scans_before {
            Some(scans) => scans,
            None => {
                parts.topology.wants_scan(now);
                *operation
                    .selection
                    .scans_before
                    .insert(parts.topology.scans_begun_before())
            }
        };
        let is_scanned = !parts.topology.is_stale();
        if is_scanned {
            match parts.select(operation) {
                Ok(Selected::Server(server)) => {
                    operation.selection.scans_before = None;
                    return Ok(Selected::Server(server));
                }
                Ok(Selected::Ask(question)) => return Ok(Selected::Ask(question)),
                Ok(Selected::NoServer) => parts.topology.mark_stale(now),
                Err(error) => {
                    if matches!(error.kind(), ErrorKind::IncompatibleServer { .. }) {
                        parts.topology.mark_stale(now);
                    }
                    return Err(error);
                }
            }
            if self.try_once && parts.topology.scans_completed() > scans_before {
                return Err(parts.no_suitable_server_error(operation));
            }
        } else {
            match self.select_scanned(now, operation, parts)? {
                Selected::NoServer => {}
                selected => return Ok(selected),
            }
        }
        // If no server suits, the operation waits for the end of the scan under way, even beyond
        // the limit of selection (SEL-73).
        let began = operation.selection.began.filter(|_| !self.try_once);
        let limit = began.and_then(|began| began.checked_add(self.selection_limit));
        if !parts.topology.is_scan_under_way() {
            let next = parts.topology.earliest_scan().max(now);
            if limit.is_some_and(|limit| next > limit) {
                return Err(parts.no_suitable_server_error(operation));
            }
        }
        // The event is emitted only if a scan found no suitable server, not for a scan that was due
        // anyway.
        if is_scanned {
            parts
                .choice
                .emit_waits(now, parts.topology, operation, limit, parts.out);
        }
        Ok(Selected::NoServer)
    }

    /// Selects among the servers that were checked in the scan under way, if the operation does not
    /// have to wait for the rest of the scan.
    fn select_scanned(
        &self,
        now: Instant,
        operation: &mut Operation,
        parts: &mut Parts<'_>,
    ) -> Result<Selected, Error> {
        if operation.request.target.is_some() || !parts.topology.is_scan_under_way() {
            return Ok(Selected::NoServer);
        }
        let needs_primary = parts.choice.needs_primary(parts.topology, operation);
        let selected = if needs_primary && parts.topology.has_scanned_primary() {
            parts.select(operation)
        } else {
            let is_late = self.scan_limit(operation).is_some_and(|limit| limit <= now);
            if is_late {
                parts.select_late(operation)
            } else if parts.topology.is_rest_of_scan_optional(now) {
                parts.select_checked(operation)
            } else {
                return Ok(Selected::NoServer);
            }
        };
        match selected {
            // The rest of the scan may show that the deployment is compatible.
            Err(error) if matches!(error.kind(), ErrorKind::IncompatibleServer { .. }) => {
                Ok(Selected::NoServer)
            }
            Ok(Selected::Server(server)) => {
                operation.selection.scans_before = None;
                let began = operation.selection.began.unwrap_or(now);
                if began + self.selection_limit <= now {
                    parts.topology.note_scan_overdue();
                }
                Ok(Selected::Server(server))
            }
            selected => selected,
        }
    }

    /// Returns the time until which an operation waits for the end of a scan even if a server
    /// suits. The wait lasts for `serverSelectionTimeoutMS`, but at most for half of the time that
    /// the operation had left when the selection began.
    fn scan_limit(&self, operation: &Operation) -> Option<Instant> {
        let began = operation.selection.began?;
        let half = operation.deadline.and_then(|deadline| {
            let left = deadline.saturating_since(began);
            began.checked_add(left / 2)
        });
        earliest(began.checked_add(self.selection_limit), half)
    }

    /// Returns the time at which an operation that waits for a scan selects again or fails, if the
    /// scan has not ended before.
    pub(in crate::client) fn wait_limit(
        &self,
        now: Instant,
        operation: &Operation,
    ) -> Option<Instant> {
        let limit = self.scan_limit(operation).filter(|&limit| limit > now);
        earliest(limit, operation.deadline)
    }
}
