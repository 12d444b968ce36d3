//! The process was forked, and this is the child.
//!
//! Parent and child have the same sockets, sessions and random numbers from here on, and the parent
//! goes on to use them. So the child lets go of everything without a byte to anybody, and begins
//! anew (CMAP-37, CMAP-103). What the operations of the parent wait for is the parent's business as
//! well; their copies here are tried again.

use super::{Client, end::End, operations::Waiting};
use crate::{
    description::TopologyType,
    error::{Error, ErrorKind, NetworkFault},
    operation::CommandKind,
    random::Seed,
    time::Instant,
};

impl Client {
    /// The process is not the one that made the connections, but a child of it. To be said before
    /// any other input there. `seed` is new chance: numbers that the parent draws must not come
    /// again here.
    pub fn handle_forked(&mut self, now: Instant, seed: &Seed) {
        self.connections.reseed(seed.split("nonces").random());
        self.pauses = seed.split("pauses").random();
        self.choice.reseed(seed.split("selection").random());
        self.sessions.handle_forked(seed.split("sessions").random());
        self.pins.release_all();
        self.carry(now);
        if self.life.is_closed() && !self.life.is_ended() {
            // Nobody here brings back what the parent has leased.
            self.end_parts(now);
        }
        let message = "the connection belongs to the process that this one was forked from";
        let cause = Error::network(NetworkFault::Closed, message);
        self.fail_follow_ups(now);
        self.take_waiters_back(now);
        self.topology.handle_forked(now, &cause);
        self.carry(now);
        // A thread of the parent may work on the answers, and that thread is not in the child.
        self.questions.withdraw_all();
        self.take_grants_back(now);
        let message = cause.to_string();
        self.interrupt_exchanges(&Error::new(ErrorKind::Interrupted { message }));
        // Connections that nobody uses are stale now, and go at once.
        self.pools.run_background(now);
        self.settle(now);
    }

    /// Fails what waits to continue or end cursors, which the parent goes on to read.
    fn fail_follow_ups(&mut self, now: Instant) {
        let is_follow_up = |waiting: &Waiting| {
            let operation = waiting.operation();
            operation.is_some_and(|known| known.command.kind == CommandKind::CursorFollowUp)
        };
        for id in self.operations.ids_where(is_follow_up) {
            let message = "the cursor belongs to the process that this one was forked from";
            self.end_waiting(now, id, End::Final(Error::argument(message)));
        }
    }

    /// Behind a load balancer the pool is replaced by another. Operations that wait for a
    /// connection wait for one of that.
    fn take_waiters_back(&mut self, now: Instant) {
        if self.life.is_closed() || self.topology().topology_type != TopologyType::LoadBalanced {
            return;
        }
        let is_waiter = |waiting: &Waiting| matches!(waiting, Waiting::ForConnection(..));
        for id in self.operations.ids_where(is_waiter) {
            self.end_waiting(now, id, End::NotBegun);
        }
    }

    /// Takes back connections that were granted to operations which have not resumed.
    fn take_grants_back(&mut self, now: Instant) {
        let is_granted = |waiting: &Waiting| matches!(waiting, Waiting::Granted(..));
        for id in self.operations.ids_where(is_granted) {
            self.end_waiting(now, id, End::NotBegun);
        }
    }
}
