//! The process was forked, and this is the child.
//!
//! Parent and child have the same sockets, sessions and chance from here on, and the parent goes on
//! to use them. So the child lets go of everything without a byte to anybody, and begins anew
//! (CMAP-37, CMAP-103). What its parent's operations wait for is the parent's business as well;
//! their copies here are tried again.

use super::{Client, waiting::Waiting};
use crate::{
    description::ServerId,
    error::{Error, NetworkFault},
    operation::OperationId,
    random::Seed,
    time::Instant,
};

impl Client {
    /// The process is not the one that made the connections, but a child of it. To be said before
    /// any other input there. `seed` is new chance: numbers that the parent draws must not come
    /// again here.
    pub fn handle_forked(&mut self, now: Instant, seed: &Seed) {
        self.nonces = seed.split("nonces").random();
        self.session_ids = seed.split("sessions").random();
        self.selector.reseed(seed.split("selection").random());
        self.sessions.handle_forked();
        self.disown_sessions();
        self.release_all_pins(now);
        if self.closed && !self.ended {
            // Nobody here brings back what the parent has leased.
            self.end(now);
        }
        let message = "the connection belongs to the process that this one was forked from";
        let cause = Error::network(NetworkFault::Closed, message);
        self.sdam.handle_forked(now, &cause);
        self.route_topology(now);
        self.take_grants_back(now);
        let pools: Vec<ServerId> = self.pools.keys().copied().collect();
        for server in pools {
            // Connections that nobody uses are stale now, and go at once.
            if let Some(slot) = self.pools.get_mut(&server) {
                slot.pool.handle_timeout(now);
            }
            self.drain_pool(now, server);
        }
        self.settle(now);
    }

    /// Operations that wait here have sessions that their originals in the parent use as well.
    fn disown_sessions(&mut self) {
        for waiting in self.waiting.values_mut() {
            let (Waiting::ForServer { operation, .. }
            | Waiting::ForConnection { operation, .. }
            | Waiting::Granted { operation, .. }) = waiting
            else {
                continue;
            };
            if operation.session_is_implicit {
                operation.session = None;
                operation.txn_number = None;
            }
        }
    }

    /// Connections that were granted, and that nobody has taken yet.
    fn take_grants_back(&mut self, now: Instant) {
        let is_granted = |waiting: &Waiting| matches!(waiting, Waiting::Granted { .. });
        let granted = self.waiting.iter().filter(|(_, w)| is_granted(w));
        let granted: Vec<OperationId> = granted.map(|(&id, _)| id).collect();
        for id in granted {
            let Some(mut operation) = self.withdraw(now, id) else {
                continue;
            };
            // Nothing of it was sent.
            operation.attempts = operation.attempts.saturating_sub(1);
            operation.selection_began = None;
            self.again.push_back(operation);
        }
    }
}
