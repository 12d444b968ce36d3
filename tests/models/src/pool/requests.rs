//! The model of check out, check in and wait queue of a pool.

use super::{
    Answer, CAUSE, ConnectionState, FailureReason, Mistake, Model, Output, SERVER, Waiter,
};
use onionskin_core::{
    event::{CheckOutFailure, CloseReason},
    time::Instant,
    unstable::pool::PoolState,
};
use std::time::Duration;

impl Model {
    pub(super) fn check_out(
        &mut self,
        now: Instant,
        request: u64,
        deadline: Option<Instant>,
        timed: bool,
    ) -> Answer {
        if self.waiters.iter().any(|w| w.request == request) {
            return Answer::Failed(FailureReason::Misuse);
        }
        let refusal = self.refusal();
        if refusal.is_none() || !self.makes(Mistake::RefusedIsNotStarted) {
            self.outputs.then([Output::Started]);
        }
        if let Some((reason, why)) = refusal {
            let failed = Output::Failed(reason, why.clone(), Duration::ZERO);
            self.outputs.then([failed]);
            return Answer::Failed(why);
        }
        let first = self.waiters.iter().all(|w| w.connection.is_some())
            || self.makes(Mistake::NewcomersOvertake);
        if first && let Some(id) = self.find_available(now) {
            self.take(now, id);
            self.outputs.then([Output::CheckedOut(id, Duration::ZERO)]);
            return Answer::Granted(id);
        }
        // With a `timeoutMS`, `waitQueueTimeoutMS` does not apply (CMAP-153).
        let counts = !timed || self.makes(Mistake::QueueLimitAlwaysCounts);
        let limit = self.options.wait_queue_timeout.filter(|_| counts);
        let waiter = Waiter {
            request,
            started: now,
            deadline,
            patience: limit.filter(|l| !l.is_zero()).map(|limit| now + limit),
            connection: None,
            establishing: now,
        };
        self.waiters.push(waiter);
        self.pump(now);
        Answer::Waiting
    }

    /// Returns why a check out fails at once: the pool is closed (CMAP-79) or paused (CMAP-80).
    fn refusal(&self) -> Option<(CheckOutFailure, FailureReason)> {
        match self.state {
            PoolState::Ready => None,
            PoolState::Paused if self.makes(Mistake::PausedWaits) => None,
            PoolState::Paused => Some((CheckOutFailure::ConnectionError, self.cleared())),
            PoolState::Closed if self.makes(Mistake::ClosedIsConnectionError) => {
                Some((CheckOutFailure::ConnectionError, self.closed()))
            }
            PoolState::Closed => Some((CheckOutFailure::PoolClosed, self.closed())),
        }
    }

    /// Serves the queue in order (CMAP-33), until its first request has to wait (CMAP-77).
    pub(super) fn pump(&mut self, now: Instant) {
        if self.state == PoolState::Closed {
            return;
        }
        while let Some(at) = self.head() {
            if let Some(id) = self.find_available(now) {
                let waiter = self.waiters.remove(at);
                self.grant(now, &waiter, id);
                continue;
            }
            let busy = self.pending >= self.max_connecting() && !self.makes(Mistake::NoRateLimit);
            let unneeded = self.waiters[at].connection.is_some();
            if self.is_full() || busy || unneeded || self.state == PoolState::Paused {
                return;
            }
            let id = self.create(now, false);
            self.waiters[at].connection = Some(id);
            self.waiters[at].establishing = now;
        }
    }

    /// Returns the index of the next request to serve.
    fn head(&self) -> Option<usize> {
        let takes_returned = self.makes(Mistake::EstablishingTakesReturned) && self.available > 0;
        if takes_returned || self.makes(Mistake::EstablishingHoldsQueue) {
            return (!self.waiters.is_empty()).then_some(0);
        }
        let waits = |w: &Waiter| w.connection.is_none();
        if self.makes(Mistake::LastFirst) {
            return self.waiters.iter().rposition(waits);
        }
        self.waiters.iter().position(waits)
    }

    fn duration(&self, now: Instant, waiter: &Waiter) -> Duration {
        if self.makes(Mistake::DurationOfEstablishment) {
            return now.saturating_since(waiter.establishing);
        }
        now.saturating_since(waiter.started)
    }

    /// Gives a connection to a waiting request: sets the connection's state to in use (CMAP-84),
    /// and emits the checked-out event right before the request gets the connection (CMAP-86).
    fn grant(&mut self, now: Instant, waiter: &Waiter, id: u64) {
        self.take(now, id);
        let duration = self.duration(now, waiter);
        self.outputs.then([
            Output::CheckedOut(id, duration),
            Output::Grant(waiter.request, id),
        ]);
    }

    /// Returns the outputs for a request that fails.
    pub(super) fn refuse(
        &self,
        now: Instant,
        waiter: &Waiter,
        reason: CheckOutFailure,
        why: &FailureReason,
    ) -> Vec<Output> {
        let failed = Output::Failed(reason, why.clone(), self.duration(now, waiter));
        vec![failed, Output::Fail(waiter.request, why.clone())]
    }

    /// Removes and returns the request for which this connection is being established.
    pub(super) fn take_owner(&mut self, id: u64) -> Option<Waiter> {
        let at = self.waiters.iter().position(|w| w.connection == Some(id))?;
        Some(self.waiters.remove(at))
    }

    /// Cancels a request. An establishment for the request continues, and its connection goes to
    /// the next request or becomes available.
    pub(super) fn cancel(&mut self, now: Instant, request: u64) {
        let Some(at) = self.waiters.iter().position(|w| w.request == request) else {
            return;
        };
        let waiter = self.waiters.remove(at);
        // The specification has no failure reason for a cancelled request. The reason `timeout` is
        // the closest.
        let duration = self.duration(now, &waiter);
        let why = self.timed_out(&waiter);
        let failed = Output::Failed(CheckOutFailure::Timeout, why, duration);
        self.outputs.then([failed]);
        self.pump(now);
    }

    /// Checks a connection in (CMAP-88, CMAP-89). Returns false if the connection was not checked
    /// out.
    pub(super) fn check_in(&mut self, now: Instant, id: u64, broken: bool, due: bool) -> bool {
        let Some(connection) = self.connections.get(&id) else {
            return false;
        };
        if connection.state != ConnectionState::InUse {
            return false;
        }
        let (taken, interrupted) = (connection.taken, connection.interrupted);
        let closed = self.state == PoolState::Closed;
        let stale = self.is_stale(id) && !self.makes(Mistake::StaleStays);
        let long = self
            .idle_limit()
            .is_some_and(|limit| now.saturating_since(taken) > limit);
        let by_precedence = [
            (
                self.makes(Mistake::StaleBeforePoolClosed) && closed && stale,
                CloseReason::Stale,
            ),
            (
                self.makes(Mistake::ErrorBeforePoolClosed) && closed && broken,
                CloseReason::Error,
            ),
            (closed, CloseReason::PoolClosed),
            (
                self.makes(Mistake::StaleBeforeError) && stale,
                CloseReason::Stale,
            ),
            (broken, CloseReason::Error),
            (stale, CloseReason::Stale),
            (
                self.makes(Mistake::IdleWhileInUse) && long,
                CloseReason::Idle,
            ),
        ];
        if !self.makes(Mistake::PinNotReleased) {
            self.release(id);
        }
        let reason = by_precedence.into_iter().find(|(holds, _)| *holds);
        let mut outputs = vec![Output::CheckedIn(id)];
        match reason {
            Some((_, reason)) => {
                outputs.extend(self.discard(id, reason));
                if self.makes(Mistake::ClosedBeforeCheckedIn) {
                    outputs.rotate_left(1);
                }
            }
            None if due && !self.makes(Mistake::DrainingIsHandedOut) => {
                let connection = self.connections.get_mut(&id).expect("it exists");
                connection.state = ConnectionState::Draining;
            }
            None => self.make_available(now, id),
        }
        if interrupted && self.makes(Mistake::InterruptCloses) {
            outputs.insert(1, Output::Closed(id, CloseReason::Error));
        }
        self.outputs.then(outputs);
        if !self.makes(Mistake::NewcomersOvertake) {
            self.pump(now);
        }
        true
    }

    /// Handles the late reply of a draining connection. The connection becomes available, or is
    /// closed if it is stale.
    pub(super) fn drained(&mut self, now: Instant, id: u64) {
        if !self.draining().any(|draining| draining == id) {
            return;
        }
        if self.is_stale(id) {
            let outputs = self.discard(id, CloseReason::Stale);
            self.outputs.then(outputs);
        } else {
            self.make_available(now, id);
        }
        self.pump(now);
    }

    /// Handles an established connection (CMAP-61). A stale one is closed. Otherwise the connection
    /// goes to its request (CMAP-84), or becomes available if there is none.
    pub(super) fn established(&mut self, now: Instant, id: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if connection.state != ConnectionState::Pending {
            return;
        }
        let ready = Output::Ready(id, now.saturating_since(connection.created));
        let mut outputs = vec![ready];
        if self.makes(Mistake::CreatedWhenReady) {
            outputs.insert(0, Output::Created(id));
        }
        self.outputs.then(outputs);
        self.take_late_generation(id);
        let owner = self.take_owner(id);
        if self.is_stale(id) && !self.makes(Mistake::StaleAfterEstablishment) {
            let outputs = self.discard(id, CloseReason::Stale);
            self.outputs.then(outputs);
            let asks = self.options.load_balanced && !self.makes(Mistake::StaleEstablishmentFails);
            match owner {
                Some(owner) if asks => self.ask_again(now, owner),
                Some(owner) => {
                    let why = self.cleared();
                    let reason = CheckOutFailure::ConnectionError;
                    let outputs = self.refuse(now, &owner, reason, &why);
                    self.outputs.then(outputs);
                }
                None => {}
            }
        } else if let Some(owner) = owner {
            self.grant(now, &owner, id);
        } else {
            // The pending count falls and the connection becomes available in one step. Otherwise
            // the first waiting request would open another connection (CMAP-72).
            self.pending -= 1;
            if self.makes(Mistake::SlotFirst) {
                self.pump(now);
            }
            self.make_available(now, id);
        }
        self.pump(now);
    }

    /// Handles a failed establishment. The connection is closed, then its check out fails (CMAP-83,
    /// CMAP-151), and population pauses.
    pub(super) fn establish_failed(&mut self, now: Instant, id: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if connection.state != ConnectionState::Pending {
            return;
        }
        let owner = self.take_owner(id);
        let closed = self.discard(id, CloseReason::Error);
        if self.makes(Mistake::DoubleDecrement) {
            self.total = self.total.saturating_sub(1);
            self.pending = self.pending.saturating_sub(1);
        }
        let failed = owner.map_or_else(Vec::new, |owner| {
            let why = FailureReason::Text(format!("network error: {CAUSE}"));
            self.refuse(now, &owner, CheckOutFailure::ConnectionError, &why)
        });
        let mut outputs = [closed, failed];
        if self.makes(Mistake::FailureBeforeClosed) {
            outputs.reverse();
        }
        self.outputs.then(outputs.concat());
        self.rest_from(now);
        self.pump(now);
    }

    /// Closes an available or draining connection that its peer has closed (CMAP-27), and pauses
    /// population.
    pub(super) fn idle_closed(&mut self, now: Instant, id: u64) {
        if self.shelf.contains(&id) || self.draining().any(|draining| draining == id) {
            let outputs = self.discard(id, CloseReason::Error);
            self.outputs.then(outputs);
            self.rest_from(now);
            self.pump(now);
        }
    }

    /// Returns the error of a closed pool, with the text of the official tests (CMAP-141).
    pub(super) fn closed(&self) -> FailureReason {
        let connection = self.connection();
        FailureReason::Text(format!(
            "Attempted to check out a {connection} from closed connection pool"
        ))
    }

    /// Returns the error of a paused pool: that of CMAP-142 if the pool was cleared, otherwise
    /// [`FailureReason::NeverReady`].
    pub(super) fn cleared(&self) -> FailureReason {
        if !self.was_cleared {
            return FailureReason::NeverReady;
        }
        FailureReason::Text(format!(
            "Connection pool for {SERVER} was cleared because another operation failed with: \
             network error: {CAUSE}"
        ))
    }

    /// Returns the error of a timeout, with the text of the official tests (CMAP-143). In a full
    /// load-balanced pool, the error says what uses the connections.
    pub(super) fn timed_out(&self, waiter: &Waiter) -> FailureReason {
        if let Some(text) = self.who_has_the_connections(waiter) {
            return FailureReason::Text(text);
        }
        let connection = self.connection();
        FailureReason::Text(format!(
            "Timed out while checking out a {connection} from connection pool"
        ))
    }

    const fn connection(&self) -> &'static str {
        match self.mistake {
            Some(Mistake::CapitalConnection) => "Connection",
            _ => "connection",
        }
    }
}
