//! A slow, obvious model of one connection pool, with which tests compare the core.
//!
//! The model follows the rules in `docs/requirements/pool.md`, and keeps the counters of CMAP-48.
//! The model shares no code with the core's machine except for plain types. Where the rules leave a
//! choice, the model does what the machine documents:
//!
//! - The newest available connection is used first.
//! - Population makes one connection at a time, and pauses after a failure.
//! - An establishment continues when its request is cancelled.
//! - A connection that became stale while it was established is not checked out. Behind a load
//!   balancer its request returns to its place in the queue and keeps its start time.
//! - A draining connection counts for `maxPoolSize`.
//! - In a full load-balanced pool, the error of a timeout counts the connections in use by cursors,
//!   by transactions and by other operations (LB-46).
//!
//! Where the rules leave only an order open, every order is accepted.

mod life;
mod mistake;
mod outputs;
mod requests;
mod services;

pub use mistake::Mistake;
pub use outputs::{FailureReason, Output, Outputs};
pub use services::service;

use onionskin_core::{
    event::CloseReason,
    time::Instant,
    unstable::pool::{Counts, PinnedFor, PoolOptions, PoolState},
};
use services::Service;
use std::{collections::BTreeMap, time::Duration};

/// The address of the pool's server.
pub const SERVER: &str = "db:27017";

/// The text of the error that causes clears and failed establishments.
pub const CAUSE: &str = "reset";

/// An input of a pool. `Clear` is for pools without a load balancer. `HelloAnswered`,
/// `ClearService` and `PinFor` are for load-balanced pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A check of the server succeeded.
    Ready,
    /// The pool is cleared.
    Clear {
        /// True if connections in use are interrupted.
        interrupt: bool,
    },
    /// The pool is closed, because the client was closed or the server was removed.
    Close,
    /// An operation checks a connection out.
    CheckOut {
        /// The id of the request.
        request: u64,
        /// The deadline of the operation.
        deadline: Option<Instant>,
        /// True if the operation has a `timeoutMS`, so that `waitQueueTimeoutMS` does not apply.
        timed: bool,
    },
    /// An operation cancels the request with this id.
    Cancel(u64),
    /// A connection is checked in.
    CheckIn {
        /// The id of the connection.
        connection: u64,
        /// True after an error that rules out further use.
        broken: bool,
    },
    /// A connection is checked in while the reply to an abandoned request is outstanding.
    CheckInDue(u64),
    /// The late reply of a draining connection has arrived.
    Drained(u64),
    /// A connection is established.
    Established(u64),
    /// A connection could not be established.
    EstablishFailed(u64),
    /// The peer closed an available or draining connection.
    IdleClosed(u64),
    /// A deadline was reached.
    Timeout,
    /// A service replied to the `hello` on a connection that is being established.
    HelloAnswered {
        /// The id of the connection.
        connection: u64,
        /// The number of the service, from which [`service`] makes its id.
        service: u8,
    },
    /// The connections of a service are cleared.
    ClearService(u8),
    /// A checked-out connection is pinned.
    PinFor {
        /// The id of the connection.
        connection: u64,
        /// The purpose of the pin.
        pinned_for: PinnedFor,
    },
}

/// The result of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The input has no result.
    Done,
    /// This connection is checked out.
    Granted(u64),
    /// The request waits.
    Waiting,
    /// The check out failed.
    Failed(FailureReason),
    /// The connection is not checked out of this pool (CMAP-87).
    NotCheckedOut,
    /// The generation that the connection has after its `hello`; `None` for a connection that is
    /// not pending or has a service already.
    HelloAnswered(Option<u64>),
}

/// The state of a connection (CMAP-24). Closed connections are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Pending,
    Available,
    InUse,
    /// The connection was checked in and waits for a late reply. The specification has no such
    /// state.
    Draining,
}

#[derive(Clone, Debug)]
struct Connection {
    generation: u64,
    /// The service to which the load balancer connected.
    service: Option<u8>,
    state: ConnectionState,
    pinned_for: PinnedFor,
    /// True if a cursor has used the connection since its check out.
    was_cursors: bool,
    created: Instant,
    first_available: Option<Instant>,
    /// The time at which the connection last became available, or before that the time of creation.
    available: Instant,
    /// The time of the last check out, or before that the time of creation.
    taken: Instant,
    /// True if the connection was created for `minPoolSize`, not for a request.
    populates: bool,
    interrupted: bool,
}

/// A request that has got neither a connection nor an error.
#[derive(Clone, Debug)]
struct Waiter {
    request: u64,
    started: Instant,
    deadline: Option<Instant>,
    /// The time at which `waitQueueTimeoutMS` ends the wait.
    patience: Option<Instant>,
    /// The connection that is being established for the request. The request has then left the
    /// queue (CMAP-82).
    connection: Option<u64>,
    establishing: Instant,
}

/// A pool with the fields of the specification (CMAP-48).
#[derive(Clone, Debug)]
pub struct Model {
    options: PoolOptions,
    subscribed: bool,
    mistake: Option<Mistake>,
    state: PoolState,
    generation: u64,
    was_cleared: bool,
    total: u32,
    available: u32,
    pending: u32,
    last_id: u64,
    connections: BTreeMap<u64, Connection>,
    /// The services with connections (CMAP-99).
    services: BTreeMap<u8, Service>,
    /// The available connections, in the order in which they became available.
    shelf: Vec<u64>,
    /// All waiting requests, in the order of their arrival.
    waiters: Vec<Waiter>,
    /// The earliest time of the next population.
    rest: Instant,
    outputs: Outputs,
}

impl Model {
    /// Returns a new pool and its first outputs (CMAP-52).
    #[must_use]
    pub fn new(
        options: PoolOptions,
        subscribed: bool,
        mistake: Option<Mistake>,
    ) -> (Self, Outputs) {
        let mut model = Self {
            options,
            subscribed,
            mistake,
            state: PoolState::Paused,
            generation: 0,
            was_cleared: false,
            total: 0,
            available: 0,
            pending: 0,
            last_id: 0,
            connections: BTreeMap::new(),
            services: BTreeMap::new(),
            shelf: Vec::new(),
            waiters: Vec::new(),
            rest: Instant::ZERO,
            outputs: Outputs::default(),
        };
        if mistake == Some(Mistake::NumbersFromZero) {
            model.last_id = u64::MAX;
        }
        model.outputs.then([Output::PoolCreated]);
        let outputs = model.take_outputs();
        (model, outputs)
    }

    /// Handles an input. Returns its result and the outputs that must follow.
    pub fn handle(&mut self, now: Instant, input: &Input) -> (Answer, Outputs) {
        let mut answer = Answer::Done;
        match *input {
            Input::Ready => self.ready(now),
            Input::Clear { interrupt } => self.clear(now, interrupt),
            Input::Close => self.close(now),
            Input::CheckOut {
                request,
                deadline,
                timed,
            } => answer = self.check_out(now, request, deadline, timed),
            Input::Cancel(request) => self.cancel(now, request),
            Input::CheckIn { connection, broken } => {
                if !self.check_in(now, connection, broken, false) {
                    answer = Answer::NotCheckedOut;
                }
            }
            Input::CheckInDue(connection) => {
                if !self.check_in(now, connection, false, true) {
                    answer = Answer::NotCheckedOut;
                }
            }
            Input::Drained(connection) => self.drained(now, connection),
            Input::Established(connection) => self.established(now, connection),
            Input::EstablishFailed(connection) => self.establish_failed(now, connection),
            Input::IdleClosed(connection) => self.idle_closed(now, connection),
            Input::Timeout => self.timeout(now),
            Input::HelloAnswered {
                connection,
                service,
            } => answer = Answer::HelloAnswered(self.hello_answered(connection, service)),
            Input::ClearService(service) => self.clear_service(now, service),
            Input::PinFor {
                connection,
                pinned_for,
            } => self.pin_for(connection, pinned_for),
        }
        (answer, self.take_outputs())
    }

    fn take_outputs(&mut self) -> Outputs {
        let mut outputs = std::mem::take(&mut self.outputs);
        if !self.subscribed {
            outputs.without_events();
        }
        outputs
    }

    /// Returns the state of the pool.
    #[must_use]
    pub const fn state(&self) -> PoolState {
        self.state
    }

    /// Returns the generation of the pool.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the generation of a connection; `None` if the connection is closed.
    #[must_use]
    pub fn generation_of(&self, connection: u64) -> Option<u64> {
        Some(self.connections.get(&connection)?.generation)
    }

    /// True if a connection is being established for `minPoolSize` (CMAP-154).
    #[must_use]
    pub fn is_population(&self, connection: u64) -> bool {
        let connection = self.connections.get(&connection);
        connection.is_some_and(|c| c.state == ConnectionState::Pending && c.populates)
    }

    /// Returns the counters of the pool.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let waiting = self.waiters.iter().filter(|w| w.connection.is_none());
        let draining = u32::try_from(self.draining().count()).unwrap_or(u32::MAX);
        let idle = self.available + self.pending + draining;
        Counts {
            total: self.total,
            available: self.available,
            pending: self.pending,
            in_use: self.total.wrapping_sub(idle),
            draining,
            waiting: u32::try_from(waiting.count()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the earliest time at which the pool changes without an input. The time is not before
    /// `now`.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let mut due: Vec<Instant> = self.waiters.iter().filter_map(|w| self.end(w)).collect();
        for id in self.shelf.iter().filter(|_| self.prunes()) {
            if self.is_stale(*id) {
                due.push(Instant::ZERO);
            }
            if let Some(limit) = self.idle_limit() {
                // A connection is idle after the limit, not at the limit.
                let last = self.connections[id].available + limit;
                due.push(last + Duration::from_nanos(1));
            }
        }
        if self.draining().any(|id| self.is_stale(id)) {
            due.push(Instant::ZERO);
        }
        if self.may_populate() {
            due.push(self.rest);
        }
        due.into_iter().min().map(|due| due.max(now))
    }

    /// Returns the draining connections.
    fn draining(&self) -> impl Iterator<Item = u64> {
        let drains = |(_, c): &(&u64, &Connection)| c.state == ConnectionState::Draining;
        self.connections.iter().filter(drains).map(|(id, _)| *id)
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn idle_limit(&self) -> Option<Duration> {
        let zero = self.makes(Mistake::ZeroIdleIsLimit);
        self.options
            .max_idle
            .filter(|limit| zero || !limit.is_zero())
    }

    fn max_connecting(&self) -> u32 {
        self.options.max_connecting.max(1)
    }

    /// True if `maxPoolSize` is reached (CMAP-42).
    fn is_full(&self) -> bool {
        let mut total = self.total;
        if self.makes(Mistake::PendingIsNotCounted) {
            total -= self.pending;
        }
        if self.makes(Mistake::DrainingIsNotCounted) {
            total -= u32::try_from(self.draining().count()).unwrap_or(0);
        }
        let unlimited = self.options.max_size == 0 && !self.makes(Mistake::ZeroIsNoRoom);
        !unlimited && total >= self.options.max_size
    }

    /// True if the generation of a connection differs from that of its pool or service (CMAP-25).
    fn is_stale(&self, connection: u64) -> bool {
        let connection = &self.connections[&connection];
        match connection.service {
            None => connection.generation != self.generation,
            Some(service) => connection.generation != self.services[&service].generation,
        }
    }

    /// Returns why an available connection is perished: it is stale (CMAP-25) or idle (CMAP-26).
    fn perished(&self, now: Instant, id: u64) -> Option<CloseReason> {
        if self.is_stale(id) && !self.makes(Mistake::StaleIsHandedOut) {
            return Some(CloseReason::Stale);
        }
        let connection = &self.connections[&id];
        let mut since = connection.available;
        if self.makes(Mistake::IdleSinceFirst) {
            since = connection.first_available.unwrap_or(since);
        }
        let unused = now.saturating_since(since);
        let limit = self.idle_limit()?;
        let at_limit = self.makes(Mistake::IdleAtLimit) && unused == limit;
        (unused > limit || at_limit).then_some(CloseReason::Idle)
    }

    /// Creates a pending connection, without I/O (CMAP-60).
    fn create(&mut self, now: Instant, populates: bool) -> u64 {
        self.last_id = self.last_id.wrapping_add(1);
        let id = self.last_id;
        self.total += 1;
        self.pending += 1;
        let connection = Connection {
            generation: self.generation,
            service: None,
            state: ConnectionState::Pending,
            pinned_for: PinnedFor::Operation,
            was_cursors: false,
            created: now,
            first_available: None,
            available: now,
            taken: now,
            populates,
            interrupted: false,
        };
        self.connections.insert(id, connection);
        let mut outputs = vec![Output::Created(id), Output::Open(id)];
        if self.makes(Mistake::CreatedWhenReady) {
            outputs.remove(0);
        }
        self.outputs.then(outputs);
        id
    }

    /// Removes a connection (CMAP-63). Returns the outputs, which the caller adds at the right
    /// place in the order.
    fn discard(&mut self, id: u64, reason: CloseReason) -> Vec<Output> {
        self.leave_service(id);
        let state = self.connections[&id].state;
        self.connections.remove(&id);
        self.shelf.retain(|shelved| *shelved != id);
        self.available -= u32::from(state == ConnectionState::Available);
        self.pending -= u32::from(state == ConnectionState::Pending);
        self.total -= 1;
        vec![Output::Closed(id, reason), Output::Close(id)]
    }

    fn make_available(&mut self, now: Instant, id: u64) {
        self.available += 1;
        self.shelf.push(id);
        let connection = self.connections.get_mut(&id).expect("it exists");
        connection.state = ConnectionState::Available;
        connection.available = now;
        connection.first_available.get_or_insert(now);
    }

    /// Returns the newest available connection that is usable. Closes perished connections on the
    /// way (CMAP-75).
    fn find_available(&mut self, now: Instant) -> Option<u64> {
        while let Some(&id) = self.shelf.last() {
            let Some(reason) = self.perished(now, id) else {
                return Some(id);
            };
            let outputs = self.discard(id, reason);
            self.outputs.then(outputs);
        }
        None
    }

    /// Sets a connection to in use (CMAP-84).
    fn take(&mut self, now: Instant, id: u64) {
        self.shelf.retain(|shelved| *shelved != id);
        let connection = self.connections.get_mut(&id).expect("it exists");
        match connection.state {
            ConnectionState::Available => self.available -= 1,
            ConnectionState::Pending => self.pending -= 1,
            ConnectionState::InUse | ConnectionState::Draining => {}
        }
        connection.state = ConnectionState::InUse;
        connection.interrupted = false;
        connection.taken = now;
    }
}
