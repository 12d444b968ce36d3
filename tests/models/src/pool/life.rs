//! The model of what changes a pool as a whole: ready, clear, close, and time.

use super::{Connection, ConnectionState, FailureReason, Mistake, Model, Output, SERVER, Waiter};
use onionskin_core::{
    event::{CheckOutFailure, CloseReason},
    time::Instant,
    unstable::pool::{POPULATION_PAUSE, PoolState},
};

impl Model {
    /// Marks the pool as ready (CMAP-59). A ready pool (CMAP-58) and a closed pool (CMAP-51) do not
    /// change.
    pub(super) fn ready(&mut self, now: Instant) {
        match self.state {
            PoolState::Ready if !self.makes(Mistake::ReadyIsReportedAgain) => return,
            PoolState::Closed if !self.makes(Mistake::ReadyReopens) => return,
            _ => self.state = PoolState::Ready,
        }
        self.rest = Instant::ZERO;
        if self.makes(Mistake::PopulatesBeforeReady) {
            self.populate(now);
        }
        self.outputs.then([Output::PoolReady]);
        self.pump(now);
    }

    /// Clears the pool (CMAP-90 to CMAP-98): raises the generation, pauses the pool, fails the
    /// requests in the wait queue, and interrupts connections if `interrupt` is set. A closed pool
    /// does not change.
    pub(super) fn clear(&mut self, now: Instant, interrupt: bool) {
        if self.state == PoolState::Closed {
            return;
        }
        let (before, was) = (self.generation, self.state);
        if was == PoolState::Ready || !self.makes(Mistake::PausedClearDoesNotCount) {
            self.generation += 1;
        }
        self.was_cleared = true;
        if !self.makes(Mistake::ClearDoesNotPause) {
            self.state = PoolState::Paused;
        }
        let is_reported = was == PoolState::Ready || self.makes(Mistake::PausedClearIsReported);
        let late = self.makes(Mistake::ClearedAfterFailures);
        let output = is_reported.then_some(Output::PoolCleared { interrupt });
        if !late {
            self.outputs
                .then(output.clone().into_iter().collect::<Vec<_>>());
        }
        self.outputs.stage();
        if !self.makes(Mistake::ClearKeepsQueue) {
            self.fail_queue(now);
        }
        let interrupts = interrupt && !self.makes(Mistake::NeverInterrupts);
        if interrupts || self.makes(Mistake::AlwaysInterrupts) {
            self.interrupt(now, before);
        }
        if late {
            self.outputs.then(output.into_iter().collect::<Vec<_>>());
        }
    }

    /// Interrupts the connections of the generation before the clear and of older ones (CMAP-96),
    /// including pending connections (CMAP-98).
    fn interrupt(&mut self, now: Instant, up_to: u64) {
        let why = self.cleared();
        for (id, connection) in self.connections.clone() {
            if connection.generation > up_to {
                continue;
            }
            match connection.state {
                ConnectionState::Available | ConnectionState::Draining => {}
                ConnectionState::Pending if self.makes(Mistake::InterruptSparesPending) => {}
                ConnectionState::Pending => {
                    let owner = self.take_owner(id);
                    let outputs = self.discard(id, CloseReason::Stale);
                    let end = self.outputs.also(outputs, vec![]);
                    if let Some(owner) = owner {
                        let reason = CheckOutFailure::ConnectionError;
                        let outputs = self.refuse(now, &owner, reason, &why);
                        self.outputs.also(outputs, vec![end]);
                    }
                }
                ConnectionState::InUse if connection.interrupted => {
                    if self.makes(Mistake::InterruptsAgain) {
                        self.outputs.also([interruption(id)], vec![]);
                    }
                }
                ConnectionState::InUse => {
                    self.outputs.also([interruption(id)], vec![]);
                    let connection = self.connections.get_mut(&id).expect("it exists");
                    connection.interrupted = true;
                }
            }
        }
    }

    /// Closes the pool and its unused connections (CMAP-55), and fails waiting requests (CMAP-39).
    pub(super) fn close(&mut self, now: Instant) {
        if self.state == PoolState::Closed {
            return;
        }
        self.state = PoolState::Closed;
        let early = self.makes(Mistake::PoolClosedFirst);
        if early {
            self.outputs.then([Output::PoolClosed]);
        }
        self.outputs.stage();
        let unused = |(id, c): (&u64, &Connection)| {
            (c.state != ConnectionState::InUse).then_some((*id, CloseReason::PoolClosed))
        };
        let unused = self.connections.iter().filter_map(unused).collect();
        self.discard_all(unused);
        if !early {
            self.outputs.then([Output::PoolClosed]);
        }
        self.outputs.stage();
        if self.makes(Mistake::CloseKeepsQueue) {
            return;
        }
        let why = self.closed();
        for waiter in std::mem::take(&mut self.waiters) {
            let outputs = self.refuse(now, &waiter, CheckOutFailure::PoolClosed, &why);
            self.outputs.also(outputs, vec![]);
        }
    }

    /// Fails all requests in the wait queue (CMAP-93). A request whose connection is being
    /// established is not in the queue.
    pub(super) fn fail_queue(&mut self, now: Instant) {
        let why = self.cleared();
        let waits = |w: &Waiter| w.connection.is_none();
        let (queue, others): (Vec<_>, Vec<_>) = self.waiters.drain(..).partition(waits);
        self.waiters = others;
        for waiter in queue {
            let outputs = self.refuse(now, &waiter, CheckOutFailure::ConnectionError, &why);
            self.outputs.also(outputs, vec![]);
        }
    }

    /// Returns the time at which a request times out (CMAP-32).
    pub(super) fn end(&self, waiter: &Waiter) -> Option<Instant> {
        let in_queue =
            waiter.connection.is_none() || self.makes(Mistake::QueueLimitBoundsEstablishment);
        let patience = waiter.patience.filter(|_| in_queue);
        [waiter.deadline, patience].into_iter().flatten().min()
    }

    /// Advances the time. Fails requests that timed out (CMAP-81), closes perished connections and
    /// populates the pool (CMAP-107), all without waiting (CMAP-109).
    pub(super) fn timeout(&mut self, now: Instant) {
        self.outputs.stage();
        let is_over = |w: &Waiter| self.end(w).is_some_and(|end| end <= now);
        let over: Vec<Waiter> = self
            .waiters
            .iter()
            .filter(|w| !self.makes(Mistake::TimeoutsWait) && is_over(w))
            .cloned()
            .collect();
        for waiter in over {
            self.waiters.retain(|w| w.request != waiter.request);
            let why = self.timed_out(&waiter);
            let outputs = self.refuse(now, &waiter, CheckOutFailure::Timeout, &why);
            self.outputs.also(outputs, vec![]);
        }
        let perished = |id: &u64| Some((*id, self.perished(now, *id)?));
        let mut over = match self.makes(Mistake::StaleBetweenFreshStays) {
            false => self.shelf.iter().filter_map(perished).collect::<Vec<_>>(),
            true => self.shelf.iter().map_while(perished).collect(),
        };
        over.retain(|_| self.prunes());
        let stale = self.draining().filter(|id| self.is_stale(*id));
        over.extend(stale.map(|id| (id, CloseReason::Stale)));
        self.discard_all(over);
        self.pump(now);
        if self.may_populate() && self.rest <= now {
            self.populate(now);
        }
    }

    /// True if perished available connections are closed in the present state of the pool. This
    /// holds for a paused pool, too (CMAP-111).
    pub(super) fn prunes(&self) -> bool {
        self.state == PoolState::Ready || !self.makes(Mistake::NoPruningWhilePaused)
    }

    /// True if a connection may be created for `minPoolSize` (CMAP-67 to CMAP-69).
    pub(super) fn may_populate(&self) -> bool {
        let state = self.state == PoolState::Ready
            || self.state == PoolState::Paused && self.makes(Mistake::PopulatesWhilePaused);
        let busy = self.pending >= self.max_connecting()
            && !self.makes(Mistake::PopulationIgnoresRateLimit);
        let full = self.is_full() && !self.makes(Mistake::PopulationIgnoresMaxSize);
        let running = self.connections.values().any(|c| {
            let ignored = self.makes(Mistake::PopulationIgnoresRateLimit);
            c.state == ConnectionState::Pending && c.populates && !ignored
        });
        state && self.total < self.options.min_size && !busy && !full && !running
    }

    fn populate(&mut self, now: Instant) {
        if self.may_populate() {
            self.create(now, true);
        }
    }

    /// Pauses population after a failure, so that the client does not dial an unreachable server
    /// all the time.
    pub(super) fn rest_from(&mut self, now: Instant) {
        self.rest = now + POPULATION_PAUSE;
    }
}

/// Returns the interruption of an operation, with the text of CMAP-97.
fn interruption(id: u64) -> Output {
    let text = format!("Connection to {SERVER} interrupted due to server monitor timeout");
    Output::Interrupt(id, FailureReason::Text(text))
}
