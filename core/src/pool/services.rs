//! Pools of load balancers: the generation of each service, and the counts of pinned connections.
//!
//! A service is a server behind the load balancer, identified by `serviceId` in its hello reply. A
//! clear of one service makes only the connections to that service stale. The pool stays ready,
//! because a load balancer has no monitor that could mark the pool as ready again.

use super::{ConnectionId, ConnectionState, PinnedFor, Pool, PoolState};
use crate::{
    arena::Slot,
    event::{CloseReason, PoolEvent},
    time::Instant,
};
use bson::oid::ObjectId;
use std::collections::BTreeMap;

/// The services that have connections (CMAP-99), and the number of pinned connections (LB-43).
#[derive(Clone, Debug, Default)]
pub(super) struct Services {
    /// The services that have connections, by `serviceId`.
    known: BTreeMap<ObjectId, Service>,
    /// The number of connections that are pinned to cursors.
    cursors: u32,
    /// The number of connections that are pinned to transactions, with or without a cursor.
    transactions: u32,
    /// True if stale connections may follow usable ones in the list of available connections. A
    /// clear of one service causes this.
    is_mixed: bool,
}

/// A service behind a load balancer.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    /// The number of clears of the service. The pool drops this number with the last connection of
    /// the service (CMAP-100).
    generation: u64,
    /// The number of connections to the service that are not closed.
    connections: u32,
}

impl Services {
    /// Returns the generation of a service, or `None` if the service has no connections.
    pub(super) fn generation(&self, service: &ObjectId) -> Option<u64> {
        self.known.get(service).map(|known| known.generation)
    }

    /// Returns the number of connections of all services.
    pub(super) fn connections(&self) -> u32 {
        self.known.values().map(|service| service.connections).sum()
    }

    /// Counts a new connection of a service and returns the generation of the service.
    fn join(&mut self, service: ObjectId) -> u64 {
        let known = self.known.entry(service).or_default();
        known.connections += 1;
        known.generation
    }

    /// Removes one connection from the count of a service. The last one removes the service and its
    /// generation (CMAP-100).
    fn leave(&mut self, service: ObjectId) {
        let Some(known) = self.known.get_mut(&service) else {
            return;
        };
        known.connections -= 1;
        if known.connections == 0 {
            self.known.remove(&service);
        }
    }

    fn count(&mut self, pinned_for: PinnedFor) -> Option<&mut u32> {
        match pinned_for {
            PinnedFor::Operation => None,
            PinnedFor::Cursor => Some(&mut self.cursors),
            PinnedFor::Transaction => Some(&mut self.transactions),
        }
    }
}

impl<C> Pool<C> {
    /// Assigns a pending connection to the service that answered its hello, and returns the
    /// generation of that service. The connection takes that generation ([CMAP-99], [LB-49]).
    ///
    /// Returns `None` and changes nothing if the connection is not pending or has a service
    /// already.
    ///
    /// [CMAP-99]: crate::requirements::pool#CMAP-99
    /// [LB-49]: crate::requirements::load_balancers#LB-49
    pub fn handle_hello_answered(
        &mut self,
        connection: ConnectionId,
        service: ObjectId,
    ) -> Option<u64> {
        let slot = self.find(connection)?;
        let pending = self.connections.get(slot);
        if pending.service.is_some() || !matches!(pending.state, ConnectionState::Pending { .. }) {
            return None;
        }
        let generation = self.services.join(service);
        let pending = self.connections.get_mut(slot);
        pending.generation = generation;
        pending.service = Some(service);
        Some(generation)
    }

    /// Clears one service behind the load balancer: its connections become stale. The pool does not
    /// change its state, and requests continue to wait ([CMAP-101], [CMAP-102]).
    ///
    /// Does nothing if the service has no connections or the pool is closed.
    ///
    /// [CMAP-101]: crate::requirements::pool#CMAP-101
    /// [CMAP-102]: crate::requirements::pool#CMAP-102
    pub fn handle_clear_service(&mut self, now: Instant, service: ObjectId) {
        if self.state == PoolState::Closed {
            return;
        }
        let Some(known) = self.services.known.get_mut(&service) else {
            return;
        };
        known.generation += 1;
        self.emit(|address| PoolEvent::Cleared {
            address,
            service: Some(service),
            interrupt_in_use: false,
        });
        self.services.is_mixed = !self.available.is_empty();
        if self.note_stale_draining() || self.services.is_mixed {
            self.background = Some(now);
        }
        self.settle(now);
    }

    /// Sets the use of a checked-out connection, which is [`PinnedFor::Operation`] after a check
    /// out. Does nothing if the connection is not checked out.
    pub fn pin_for(&mut self, connection: ConnectionId, pinned_for: PinnedFor) {
        let Some(slot) = self.find(connection) else {
            return;
        };
        let connection = self.connections.get_mut(slot);
        let ConnectionState::InUse {
            pinned_for: current,
            ..
        } = &mut connection.state
        else {
            return;
        };
        let before = std::mem::replace(current, pinned_for);
        if let Some(count) = self.services.count(before) {
            *count -= 1;
        }
        if let Some(count) = self.services.count(pinned_for) {
            *count += 1;
        }
    }

    /// Removes a checked-out connection from the counts of pinned connections.
    pub(super) fn uncount_pinned(&mut self, slot: Slot) {
        if let ConnectionState::InUse { pinned_for, .. } = self.connections.get(slot).state
            && let Some(count) = self.services.count(pinned_for)
        {
            *count -= 1;
        }
    }

    /// Removes one connection from the count of a service.
    pub(super) fn leave_service(&mut self, service: ObjectId) {
        self.services.leave(service);
    }

    /// Closes all stale available connections if a service was cleared since the last call. After
    /// such a clear, usable connections can precede stale ones in the list.
    pub(super) fn close_stale_among_available(&mut self) {
        if !std::mem::take(&mut self.services.is_mixed) {
            return;
        }
        for connection in
            self.connections_in(|state| matches!(state, ConnectionState::Available { .. }))
        {
            if let Some(slot) = self.find(connection)
                && self.is_stale(slot)
            {
                self.close(slot, CloseReason::Stale, None);
            }
        }
    }

    /// Returns the error message of a check out that timed out while the pool is full. The message
    /// contains the numbers of connections in use by cursors, transactions and other operations
    /// (LB-46).
    pub(super) fn full_pool_message(&self) -> String {
        let Services {
            cursors,
            transactions,
            ..
        } = self.services;
        let others = self.counts().in_use.saturating_sub(cursors + transactions);
        format!(
            "Timeout waiting for connection from the connection pool. maxPoolSize: {}, connections \
             in use by cursors: {cursors}, connections in use by transactions: {transactions}, \
             connections in use by other operations: {others}",
            self.options.max_size,
        )
    }
}
