//! The model of the services of a load-balanced pool, and of the detailed message of a timeout.

use super::{ConnectionState, Mistake, Model, Output, Waiter};
use bson::oid::ObjectId;
use onionskin_core::{
    event::CloseReason,
    time::Instant,
    unstable::pool::{PinnedFor, PoolState},
};

/// The entry of a service in the pool (CMAP-99).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Service {
    pub(super) generation: u64,
    pub(super) connections: u32,
}

/// Returns the `serviceId` that a service with this number has in the tests.
#[must_use]
pub fn service(number: u8) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[11] = number;
    ObjectId::from_bytes(bytes)
}

impl Model {
    /// Sets the service of a connection that is being established. The connection takes the
    /// generation of the service (CMAP-99, LB-49). Returns this generation, or `None` if the
    /// connection is not pending or has a service already.
    pub(super) fn hello_answered(&mut self, id: u64, service: u8) -> Option<u64> {
        let connection = self.connections.get(&id)?;
        let is_pending = connection.state == ConnectionState::Pending;
        if !is_pending || connection.service.is_some() && !self.makes(Mistake::ServiceSetTwice) {
            return None;
        }
        self.leave_service(id);
        let entry = self.services.entry(service).or_default();
        entry.connections += 1;
        let mut generation = entry.generation;
        if self.makes(Mistake::BeginsAtPoolGeneration) {
            generation = self.generation;
        }
        let connection = self.connections.get_mut(&id).expect("it exists");
        connection.service = Some(service);
        connection.generation = generation;
        Some(generation)
    }

    /// Applies the mistake [`Mistake::GenerationAtTheEnd`] at the end of an establishment.
    pub(super) fn take_late_generation(&mut self, id: u64) {
        if self.makes(Mistake::GenerationAtTheEnd)
            && let Some(service) = self.connections[&id].service
        {
            let connection = self.connections.get_mut(&id).expect("it exists");
            connection.generation = self.services[&service].generation;
        }
    }

    /// Clears the connections of a service (CMAP-101). The clear neither pauses the pool nor fails
    /// requests (CMAP-102).
    pub(super) fn clear_service(&mut self, now: Instant, service: u8) {
        if self.state == PoolState::Closed {
            return;
        }
        let Some(entry) = self.services.get_mut(&service) else {
            // The service has no connections, so there is nothing to clear and no event.
            let is_reported = self.makes(Mistake::UnknownClearIsReported);
            let output = is_reported.then_some(Output::ServiceCleared(service));
            self.outputs.then(output.into_iter().collect::<Vec<_>>());
            if self.makes(Mistake::ClearMakesService) {
                self.services.entry(service).or_default().generation = 1;
            }
            return;
        };
        entry.generation += 1;
        if self.makes(Mistake::ServiceClearHitsAll) {
            let others = self.services.iter_mut().filter(|(id, _)| **id != service);
            others.for_each(|(_, other)| other.generation += 1);
        }
        if self.makes(Mistake::ServiceClearCountsForPool) {
            self.generation += 1;
        }
        if self.makes(Mistake::ServiceClearPauses) {
            self.state = PoolState::Paused;
        }
        if !self.makes(Mistake::ServiceClearIsSilent) {
            self.outputs.then([Output::ServiceCleared(service)]);
        }
        if self.makes(Mistake::ServiceClearFailsQueue) {
            self.outputs.stage();
            self.fail_queue(now);
        }
        if self.makes(Mistake::ServiceClearClosesPending) {
            let pending = self.connections.iter().filter_map(|(id, c)| {
                let hit = c.state == ConnectionState::Pending && c.service == Some(service);
                hit.then_some((*id, CloseReason::Stale))
            });
            self.discard_all(pending.collect());
        }
    }

    /// Pins a checked-out connection, which then counts in another class (LB-43). A connection is
    /// in one class at a time (LB-44).
    pub(super) fn pin_for(&mut self, id: u64, pinned_for: PinnedFor) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection.state == ConnectionState::InUse
            || self.mistake == Some(Mistake::UnusedIsPinned)
        {
            connection.pinned_for = pinned_for;
            connection.was_cursors |= pinned_for == PinnedFor::Cursor;
        }
    }

    /// Ends the pin of a connection that is checked in.
    pub(super) fn release(&mut self, id: u64) {
        let connection = self.connections.get_mut(&id).expect("it exists");
        connection.pinned_for = PinnedFor::Operation;
        connection.was_cursors = false;
    }

    /// Removes a connection from its service. A service without connections loses its entry
    /// (CMAP-100).
    pub(super) fn leave_service(&mut self, id: u64) {
        let (forgets_never, forgets_early) = (
            self.makes(Mistake::ServiceNotForgotten),
            self.makes(Mistake::ForgottenTooEarly),
        );
        let Some(service) = self.connections[&id].service else {
            return;
        };
        let Some(entry) = self.services.get_mut(&service) else {
            return;
        };
        entry.connections -= 1;
        if forgets_early && entry.connections == 1 {
            // The mistake resets the generation although a connection is left.
            entry.generation = 0;
        }
        if entry.connections == 0 && !forgets_never {
            self.services.remove(&service);
        }
    }

    /// Closes all these connections. Every order is accepted.
    pub(super) fn discard_all(&mut self, all: Vec<(u64, CloseReason)>) {
        for (id, reason) in all {
            let outputs = self.discard(id, reason);
            self.outputs.also(outputs, vec![]);
        }
    }

    /// Puts a request back into the queue, because its connection became stale during the
    /// establishment. The request keeps its place and its start time.
    pub(super) fn ask_again(&mut self, now: Instant, mut waiter: Waiter) {
        waiter.connection = None;
        if self.makes(Mistake::RequeuedStartsAnew) {
            waiter.started = now;
        }
        // Requests leave the queue in order, so the requests that are still in the queue came
        // later.
        match self.makes(Mistake::RequeuedGoesLast) {
            true => self.waiters.push(waiter),
            false => self.waiters.insert(0, waiter),
        }
    }

    /// Returns the detailed message of a timeout (LB-46), for a request that waited because a
    /// load-balanced pool was full (LB-45); otherwise `None`.
    pub(super) fn who_has_the_connections(&self, waiter: &Waiter) -> Option<String> {
        let balanced = self.options.load_balanced;
        let waits = waiter.connection.is_none() || self.makes(Mistake::EstablishingReportsUsers);
        let full = self.is_full() || self.makes(Mistake::AnyWaitReportsUsers);
        if !balanced || !waits || !full || self.makes(Mistake::FullIsNotReported) {
            return None;
        }
        let twice = self.makes(Mistake::CursorInTransactionCountsTwice);
        let (mut cursors, mut transactions, mut others) = (0, 0, 0);
        for connection in self.connections.values() {
            let used = connection.state == ConnectionState::InUse;
            match connection.pinned_for {
                PinnedFor::Cursor if used => cursors += 1,
                PinnedFor::Transaction if used => transactions += 1,
                PinnedFor::Operation if used => others += 1,
                _ if self.makes(Mistake::UnusedCountAsOthers) => others += 1,
                _ => {}
            }
            let counts = twice && used && connection.was_cursors;
            cursors += u32::from(counts && connection.pinned_for == PinnedFor::Transaction);
        }
        let max_size = self.options.max_size;
        Some(format!(
            "Timeout waiting for connection from the connection pool. maxPoolSize: {max_size}, \
             connections in use by cursors: {cursors}, connections in use by transactions: \
             {transactions}, connections in use by other operations: {others}"
        ))
    }
}
