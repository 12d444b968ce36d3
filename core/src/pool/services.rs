//! Behind a load balancer: each service has a generation of its own, and pinned connections are
//! counted.
//!
//! The pool of a load balancer is never paused (nobody would ever make it ready again, since there
//! is no monitor), and an error of one service says nothing about the connections to the others.

use super::{ConnectionId, PinnedFor, Place, Pool, PoolState};
use crate::{
    arena::Slot,
    event::{CloseReason, PoolEvent},
    time::Instant,
};
use bson::oid::ObjectId;
use std::collections::BTreeMap;

/// The services that have connections (CMAP-99), and how many connections are pinned to what
/// (LB-43).
#[derive(Clone, Debug, Default)]
pub(super) struct Services {
    known: BTreeMap<ObjectId, Service>,
    /// Connections that cursors hold.
    cursors: u32,
    /// Connections that transactions hold, with or without a cursor.
    transactions: u32,
    /// Whether available connections may be stale that are younger than some that are not.
    is_mixed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Service {
    generation: u64,
    connections: u32,
}

impl Services {
    /// The generation of a service; none of one that has no connections.
    pub(super) fn generation(&self, service: &ObjectId) -> Option<u64> {
        self.known.get(service).map(|known| known.generation)
    }

    /// How many connections they have together.
    pub(super) fn connections(&self) -> u32 {
        self.known.values().map(|service| service.connections).sum()
    }

    /// Counts one more connection of this service, and tells its generation.
    fn join(&mut self, service: ObjectId) -> u64 {
        let known = self.known.entry(service).or_default();
        known.connections += 1;
        known.generation
    }

    /// Counts one less. The generation is forgotten with the last connection (CMAP-100).
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
    /// The service behind the load balancer answered this connection's hello: from now on the
    /// connection is of that service's generation (CMAP-99, LB-49), which is returned. `None` if
    /// the connection is not being established.
    pub fn handle_greeted(&mut self, connection: ConnectionId, service: ObjectId) -> Option<u64> {
        let slot = self.find(connection)?;
        let pending = self.connections.get(slot);
        if pending.service.is_some() || !matches!(pending.place, Place::Pending { .. }) {
            return None;
        }
        let generation = self.services.join(service);
        let pending = self.connections.get_mut(slot);
        pending.generation = generation;
        pending.service = Some(service);
        Some(generation)
    }

    /// One service behind the load balancer is in doubt: its connections become stale. The pool
    /// goes on serving, and nobody who waits hears of it (CMAP-101, CMAP-102).
    pub fn handle_clear_service(&mut self, now: Instant, service: ObjectId) {
        if self.state == PoolState::Closed {
            return;
        }
        let Some(known) = self.services.known.get_mut(&service) else {
            // No connection is left that could become stale.
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

    /// What a connection that is checked out is kept for; an operation, unless this was said.
    /// Nothing happens to one that is not checked out.
    pub fn hold_for(&mut self, connection: ConnectionId, pinned_for: PinnedFor) {
        let Some(slot) = self.find(connection) else {
            return;
        };
        let connection = self.connections.get_mut(slot);
        let Place::InUse {
            pinned_for: held, ..
        } = &mut connection.place
        else {
            return;
        };
        let before = std::mem::replace(held, pinned_for);
        if let Some(count) = self.services.count(before) {
            *count -= 1;
        }
        if let Some(count) = self.services.count(pinned_for) {
            *count += 1;
        }
    }

    /// A checked out connection leaves its place.
    pub(super) fn release_hold(&mut self, slot: Slot) {
        if let Place::InUse { pinned_for, .. } = self.connections.get(slot).place
            && let Some(count) = self.services.count(pinned_for)
        {
            *count -= 1;
        }
    }

    /// A connection leaves the books, and its service with the last one.
    pub(super) fn leave_service(&mut self, service: ObjectId) {
        self.services.leave(service);
    }

    /// Closes stale connections that stand between others that are not: services are cleared one by
    /// one.
    pub(super) fn close_stale_among_available(&mut self) {
        if !std::mem::take(&mut self.services.is_mixed) {
            return;
        }
        for connection in self.numbers(|place| matches!(place, Place::Available { .. })) {
            if let Some(slot) = self.find(connection)
                && self.is_stale(slot)
            {
                self.close(slot, CloseReason::Stale, None);
            }
        }
    }

    /// LB-46: who has the connections that the request waited for.
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
