//! The reset of a client in a child process after a fork.
//!
//! After a fork, the parent and the child share sockets, server sessions and the state of random
//! numbers, and the parent continues to use them. So the child gives up all connections and
//! sessions without sending a byte, and begins anew (CMAP-37, CMAP-103). Operations that wait are
//! copies of operations that the parent continues. The child continues most of them too. Operations
//! on cursors or pinned connections of the parent fail. Without a load balancer, the pools are
//! cleared, so an operation that waits for a connection fails unless it can be retried.

use crate::{
    client::{
        Client, Timer,
        attempts::{end::End, operations::Waiting},
    },
    description::TopologyType,
    error::{Error, ErrorKind, NetworkFault},
    operation::CommandKind,
    random::Seed,
    time::Instant,
};

impl Client {
    /// Resets the client in a child process. Call this in the child before any other input. `seed`
    /// must differ from that of the parent: otherwise the child would draw the same random numbers
    /// as its parent.
    pub fn handle_forked(&mut self, now: Instant, seed: &Seed) {
        self.note_lacking(now, "a fork of the process");
        self.connections.reseed(seed.split("nonces").random());
        self.attempts.pauses = seed.split("pauses").random();
        self.attempts
            .choice
            .reseed(seed.split("selection").random());
        self.attempts
            .sessions
            .handle_forked(seed.split("sessions").random());
        self.attempts.explicit.clear();
        let random = seed.split("seed list").random();
        self.seeds.list.reseed(random);
        if let Some(scanning) = self
            .seeds
            .unresolved
            .as_mut()
            .and_then(|sdam| sdam.scanning.as_mut())
        {
            *scanning = seed.split("scan");
        }
        // A `killCursors` that waits gives up its pin. Its pin must not be released a second time.
        self.fail_follow_ups(now);
        self.pins.release_all();
        self.carry(now);
        if self.life.is_closed() && !self.life.is_ended() {
            // The child may never check in the exchanges that it inherits, so the client would not
            // end by itself.
            self.end_parts(now);
        }
        let message = "the connection belongs to the parent process";
        let cause = Error::network(NetworkFault::Closed, message);
        self.take_waiters_back(now);
        self.topology.handle_forked(now, &cause);
        self.carry(now);
        // The thread that works on an answer may exist in the parent only.
        self.fail_askers(
            now,
            &ErrorKind::Interrupted {
                message: "the process has forked".to_owned(),
            }
            .into(),
        );
        self.questions.reseed(seed.split("credentials").random());
        self.arm(Timer::Callback, None);
        self.seeds.list.forget_questions();
        self.arm_rescan();
        self.take_grants_back(now);
        let message = cause.to_string();
        self.interrupt_exchanges(&Error::new(ErrorKind::Interrupted { message }));
        // All available connections are stale now, and the background work of the pools closes them
        // at once.
        self.pools.run_background(now);
        self.settle(now);
    }

    /// Fails operations that wait to run a `getMore` or `killCursors`, because the parent continues
    /// to use these cursors.
    fn fail_follow_ups(&mut self, now: Instant) {
        let is_follow_up = |waiting: &Waiting| {
            let operation = waiting.operation();
            operation.is_some_and(|known| known.request.kind == CommandKind::CursorFollowUp)
        };
        for id in self.attempts.operations.ids_where(is_follow_up) {
            let message = "the cursor belongs to the parent process; open a new cursor in the \
                           child process";
            self.end_waiting(now, id, End::Final(Error::argument(message)));
        }
    }

    /// Begins another attempt of the operations that wait for a connection behind a load balancer,
    /// because their pool is replaced by a new one.
    fn take_waiters_back(&mut self, now: Instant) {
        if self.life.is_closed() || self.topology().topology_type != TopologyType::LoadBalanced {
            return;
        }
        let is_waiter = |waiting: &Waiting| matches!(waiting, Waiting::ForConnection(..));
        for id in self.attempts.operations.ids_where(is_waiter) {
            self.end_waiting(now, id, End::NotBegun);
        }
    }

    /// Withdraws the grants of operations that have not resumed, and the connections that
    /// authenticate again. These operations begin another attempt.
    fn take_grants_back(&mut self, now: Instant) {
        let has_connection = |waiting: &Waiting| {
            matches!(
                waiting,
                Waiting::Granted(..) | Waiting::ForAuthentication(..)
            )
        };
        for id in self.attempts.operations.ids_where(has_connection) {
            self.end_waiting(now, id, End::NotBegun);
        }
    }
}
