//! The process was forked, and this is the child.
//!
//! Parent and child have the same sockets, sessions and chance from here on, and the parent goes on
//! to use them. So the child lets go of everything without a byte to anybody, and begins anew
//! (CMAP-37, CMAP-103). What its parent's operations wait for is the parent's business as well;
//! their copies here are tried again.

use super::{
    Action, Client,
    waiting::{Waiting, not_begun},
};
use crate::{
    description::{ServerId, TopologyType},
    error::{Error, ErrorKind, NetworkFault},
    operation::{CommandKind, Operation, OperationId},
    random::Seed,
    time::Instant,
};
use std::collections::VecDeque;

impl Client {
    /// The process is not the one that made the connections, but a child of it. To be said before
    /// any other input there. `seed` is new chance: numbers that the parent draws must not come
    /// again here.
    pub fn handle_forked(&mut self, now: Instant, seed: &Seed) {
        self.nonces = seed.split("nonces").random();
        self.session_ids = seed.split("sessions").random();
        self.pauses = seed.split("pauses").random();
        self.selector.reseed(seed.split("selection").random());
        self.sessions.handle_forked();
        self.release_all_pins(now);
        if self.closed && !self.ended {
            // Nobody here brings back what the parent has leased.
            self.end(now);
        }
        let message = "the connection belongs to the process that this one was forked from";
        let cause = Error::network(NetworkFault::Closed, message);
        self.fail_follow_ups(now);
        let waiters = self.take_waiters_back(now);
        self.sdam.handle_forked(now, &cause);
        self.route_topology(now);
        self.again.extend(waiters);
        self.take_grants_back(now);
        let message = cause.to_string();
        self.interrupt_leases(&Error::new(ErrorKind::Interrupted { message }));
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

    /// An operation that begins again here, and whose original goes on in the parent, has a session
    /// that is used there as well.
    pub(super) fn disown_session(&self, operation: &mut Operation) {
        let session = operation.session.as_ref();
        if session.is_some_and(|session| !self.sessions.has_made(session)) {
            operation.session = None;
            operation.txn_number = None;
        }
    }

    /// Batches and ends of cursors, which the parent goes on to read.
    fn fail_follow_ups(&mut self, now: Instant) {
        let is_follow_up = |waiting: &Waiting| match waiting {
            Waiting::ForServer { operation, .. }
            | Waiting::Asking { operation }
            | Waiting::ForConnection { operation, .. }
            | Waiting::ForPin { operation, .. }
            | Waiting::Granted { operation, .. } => {
                operation.command.kind == CommandKind::CursorFollowUp
            }
            Waiting::Failed(_) => false,
        };
        for id in self.waiting_where(is_follow_up) {
            if let Some(mut operation) = self.withdraw(now, id) {
                let message = "the cursor belongs to the process that this one was forked from";
                let error = Error::argument(message);
                self.tell_selection_failed(now, &mut operation, &error);
                self.finish_operation(now, operation);
                self.wake_with(id, error);
            }
        }
    }

    fn waiting_where(&self, wanted: impl Fn(&Waiting) -> bool) -> Vec<OperationId> {
        let found = self.waiting.iter().filter(|(_, waiting)| wanted(waiting));
        found.map(|(&id, _)| id).collect()
    }

    /// Behind a load balancer the pool is replaced by another. Who waits for a connection waits for
    /// one of that.
    fn take_waiters_back(&mut self, now: Instant) -> VecDeque<Box<Operation>> {
        if self.closed || self.topology().topology_type != TopologyType::LoadBalanced {
            return VecDeque::new();
        }
        let is_waiter = |waiting: &Waiting| matches!(waiting, Waiting::ForConnection { .. });
        let waiters = self.waiting_where(is_waiter);
        let withdrawn = waiters.into_iter().filter_map(|id| self.withdraw(now, id));
        withdrawn.map(not_begun).collect()
    }

    /// Interrupts what runs on a connection of a pool that was closed, and not cleared: nobody else
    /// tells it that its reply will not come.
    pub(super) fn interrupt_leases(&mut self, why: &Error) {
        let Self { pools, actions, .. } = self;
        for slot in pools.values().filter(|slot| slot.is_closed) {
            for (pooled, &socket) in &slot.sockets {
                if !slot.parked.contains_key(pooled) {
                    let error = why.clone().with_server(&slot.address);
                    actions.push_back(Action::Interrupt { socket, error });
                }
            }
        }
    }

    /// Connections that were granted, and that nobody has taken yet.
    fn take_grants_back(&mut self, now: Instant) {
        let is_granted = |waiting: &Waiting| matches!(waiting, Waiting::Granted { .. });
        for id in self.waiting_where(is_granted) {
            if let Some(operation) = self.withdraw(now, id) {
                self.again.push_back(not_begun(operation));
            }
        }
    }
}
