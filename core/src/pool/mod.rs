//! The connections of one server: how many there may be, who gets one next, and which are too old.
//!
//! A pool makes no connection itself; it asks for one (`Action::Open`) and is told how that went.
//! Background work (keeping `minPoolSize`, closing stale and idle connections) needs no thread: it
//! is due at `deadline()`, which may be this very moment, and done by `handle_timeout`.

mod arena;
mod background;
mod clear;
mod draining;
mod establish;
mod services;
#[cfg(test)]
mod tests;
mod types;
mod waiters;

pub use types::{
    Action, CheckOut, Condition, Counts, HeldFor, NotCheckedOut, PoolOptions, PoolState, PooledId,
    RequestId,
};

use crate::{
    address::Address,
    error::{Error, ErrorKind, cause_text},
    event::{CheckOutFailure, CloseReason, PoolEvent},
    time::{Instant, earliest},
};
pub use background::POPULATION_PAUSE;

use arena::{Arena, List, Slot};
use bson::oid::ObjectId;
use services::Services;
use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

/// The most requests that wait for one pool, so that a server that hangs cannot make the queue grow
/// without end (SEL-37). Far above what an application has in flight.
pub const MAX_WAITERS: u32 = 1 << 20;

/// The pool of one server (CMAP-35).
///
/// ```
/// use onionskin_core::{address::Address, time::Instant};
/// use onionskin_core::pool::{Action, CheckOut, Condition, Pool, PoolOptions, RequestId};
///
/// let now = Instant::ZERO;
/// let mut pool = Pool::new(Address::tcp("db", 27017), PoolOptions::default(), false);
/// pool.handle_ready(now);
/// assert_eq!(pool.check_out(now, RequestId(1), None), CheckOut::Waiting);
/// let Some(Action::Open(connection)) = pool.poll_action() else { unreachable!() };
/// pool.handle_established(now, connection);
/// let grant = Action::Grant { request: RequestId(1), connection };
/// assert_eq!(pool.poll_action(), Some(grant));
/// pool.check_in(now, connection, Condition::Healthy)?;
/// assert_eq!(pool.check_out(now, RequestId(2), None), CheckOut::Granted(connection));
/// # Ok::<(), onionskin_core::pool::NotCheckedOut>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    address: Address,
    options: PoolOptions,
    /// Whether somebody wants events; if not, none is built.
    subscribed: bool,
    state: PoolState,
    generation: u64,
    /// Why the pool was cleared last.
    cause: Option<Error>,
    last_id: u64,
    connections: Arena<Connection>,
    /// Oldest first; the newest is handed out first, so that surplus connections grow idle.
    available: List,
    pending: u32,
    draining: u32,
    /// Whether there was a clear since that made some of those stale.
    is_draining_stale: bool,
    services: Services,
    requests: Arena<Request>,
    /// Requests that wait for something to become possible, first come first served (CMAP-30).
    queue: List,
    /// The deadlines of all requests that have one.
    deadlines: BTreeSet<(Instant, RequestId)>,
    /// When the next background run is due.
    background: Option<Instant>,
    /// The connection that is being established for `minPoolSize`, one at a time: a request that
    /// comes meanwhile finds room for its own, and is served by whichever is ready first.
    populating: Option<PooledId>,
    /// Population waits until then after a connection for it could not be kept.
    populate_from: Instant,
    actions: VecDeque<Action>,
}

/// One connection (CMAP-17 to CMAP-24).
#[derive(Clone, Debug)]
struct Connection {
    /// The pool's generation when it was made; behind a load balancer that of its service when it
    /// shook hands.
    generation: u64,
    /// Whom the load balancer connected it to.
    service: Option<ObjectId>,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Being established.
    Pending {
        created: Instant,
        /// Whose it will be; nobody's if made for `minPoolSize` or if its request gave up.
        request: Option<RequestId>,
    },
    /// In the list of available connections.
    Available { since: Instant },
    /// Checked in with a reply outstanding: it counts, and nobody gets it.
    Draining,
    /// Checked out.
    InUse {
        /// The operation was told to stop already.
        interrupted: bool,
        held_for: HeldFor,
    },
}

/// One request that could not be served at once.
#[derive(Clone, Debug)]
struct Request {
    started: Instant,
    /// Bounds the whole check out.
    deadline: Option<Instant>,
    /// The entry in the set of deadlines.
    armed: Option<Instant>,
    /// The connection that is being established for it; until then it stands in the queue.
    connection: Option<Slot>,
}

impl Pool {
    /// A pool without connections: paused, at generation 0, with its created event queued
    /// (CMAP-52).
    #[must_use]
    pub fn new(address: Address, options: PoolOptions, subscribed: bool) -> Self {
        let mut pool = Self {
            address,
            options,
            subscribed,
            state: PoolState::Paused,
            generation: 0,
            cause: None,
            last_id: 0,
            connections: Arena::new(),
            available: List::new(),
            pending: 0,
            draining: 0,
            is_draining_stale: false,
            services: Services::default(),
            requests: Arena::new(),
            queue: List::new(),
            deadlines: BTreeSet::new(),
            background: None,
            populating: None,
            populate_from: Instant::ZERO,
            actions: VecDeque::new(),
        };
        let options = pool.options.reported.clone();
        pool.emit(|address| PoolEvent::Created { address, options });
        pool
    }

    /// The server was checked and is usable: the pool serves from now on (CMAP-54, CMAP-58).
    pub fn handle_ready(&mut self, now: Instant) {
        if self.state != PoolState::Paused {
            return;
        }
        self.state = PoolState::Ready;
        self.emit(|address| PoolEvent::Ready { address });
        // A new chance: what failed before the server was found usable says nothing any more.
        self.populate_from = Instant::ZERO;
        self.settle(now);
    }

    /// Asks for a connection, to be had by `deadline`.
    ///
    /// What can be granted at once is granted in the answer. Otherwise `Action::Grant` or
    /// `Action::Fail` follows, unless `cancel` comes first. A request that waits already is
    /// refused.
    pub fn check_out(
        &mut self,
        now: Instant,
        request: RequestId,
        deadline: Option<Instant>,
    ) -> CheckOut {
        self.ask(now, request, deadline, self.options.wait_queue_timeout)
    }

    /// As `check_out`, for an operation with a time limit of its own, even one without end: that
    /// switches off `waitQueueTimeoutMS` (CMAP-153).
    pub fn check_out_timed(
        &mut self,
        now: Instant,
        request: RequestId,
        deadline: Option<Instant>,
    ) -> CheckOut {
        self.ask(now, request, deadline, None)
    }

    fn ask(
        &mut self,
        now: Instant,
        request: RequestId,
        deadline: Option<Instant>,
        queue_limit: Option<Duration>,
    ) -> CheckOut {
        if self.requests.find(request.0).is_some() {
            return CheckOut::Failed(Error::argument("this request waits already"));
        }
        self.emit(|address| PoolEvent::CheckOutStarted { address });
        if let Some((reason, error)) = self.refusal() {
            self.emit_failed(reason, &error, Duration::ZERO);
            return CheckOut::Failed(error);
        }
        // CMAP-33: nobody is served before those who wait.
        if self.queue.is_empty()
            && let Some(slot) = self.take_available(now)
        {
            return CheckOut::Granted(self.hand_over(slot, Duration::ZERO));
        }
        self.enqueue(now, request, deadline, queue_limit);
        self.settle(now);
        CheckOut::Waiting
    }

    /// Takes a connection back (CMAP-88, CMAP-89).
    ///
    /// A connection that is not checked out of this pool is refused and nothing changes.
    pub fn check_in(
        &mut self,
        now: Instant,
        connection: PooledId,
        condition: Condition,
    ) -> Result<(), NotCheckedOut> {
        let slot = self.connections.find(connection.0);
        let Some(slot) = slot.filter(|&slot| {
            let place = self.connections.get(slot).place;
            matches!(place, Place::InUse { .. })
        }) else {
            return Err(NotCheckedOut(connection));
        };
        self.emit(|address| PoolEvent::CheckedIn {
            address,
            connection: connection.0,
        });
        let stale = self.is_stale(slot);
        self.release_hold(slot);
        match condition {
            _ if self.state == PoolState::Closed => {
                self.close(slot, CloseReason::PoolClosed, None);
            }
            Condition::Broken(error) => self.close(slot, CloseReason::Error, error),
            _ if stale => self.close(slot, CloseReason::Stale, None),
            Condition::Healthy => self.make_available(now, slot),
            Condition::ReplyDue => self.begin_draining(slot),
        }
        self.settle(now);
        Ok(())
    }

    /// The peer closed a connection that nobody uses, sent something that nobody asked for on it,
    /// or did not send in time what was still due.
    pub fn handle_idle_closed(&mut self, now: Instant, connection: PooledId, error: Option<Error>) {
        let Some(slot) = self.connections.find(connection.0) else {
            return;
        };
        // Handed out in the meantime: its operation will notice.
        if let Place::Pending { .. } | Place::InUse { .. } = self.connections.get(slot).place {
            return;
        }
        self.close(slot, CloseReason::Error, error);
        self.postpone_population(now);
        self.settle(now);
    }

    /// The next thing to do, in order.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `handle_timeout` has something to do; it may be a moment that has passed already.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let waiter = self.deadlines.first().map(|&(at, _)| at);
        earliest(earliest(waiter, self.background), self.next_idle())
    }

    /// The server.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// How often the pool was cleared.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The generation of this connection, which is that of its service behind a load balancer;
    /// `None` if there is no such connection.
    #[must_use]
    pub fn generation_of(&self, connection: PooledId) -> Option<u64> {
        let slot = self.connections.find(connection.0)?;
        Some(self.connections.get(slot).generation)
    }

    /// Whether the pool serves.
    #[must_use]
    pub const fn state(&self) -> PoolState {
        self.state
    }

    /// How many of what there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (total, available) = (self.connections.len(), self.available.len());
        Counts {
            total,
            available,
            pending: self.pending,
            in_use: total - available - self.pending - self.draining,
            draining: self.draining,
            waiting: self.queue.len(),
        }
    }

    /// Why a request cannot even wait.
    fn refusal(&self) -> Option<(CheckOutFailure, Error)> {
        match self.state {
            PoolState::Closed => Some((CheckOutFailure::PoolClosed, self.closed_error())),
            PoolState::Paused => Some((CheckOutFailure::ConnectionError, self.cleared_error())),
            PoolState::Ready if self.queue.len() >= MAX_WAITERS => {
                let error = Error::new(ErrorKind::Limit {
                    what: "requests that wait for a connection",
                    limit: MAX_WAITERS.into(),
                    actual: u64::from(MAX_WAITERS) + 1,
                });
                let error = error.with_server(&self.address);
                Some((CheckOutFailure::ConnectionError, error))
            }
            PoolState::Ready => None,
        }
    }

    /// The newest available connection that is neither stale nor idle; worse ones that are met are
    /// closed (CMAP-75).
    fn take_available(&mut self, now: Instant) -> Option<Slot> {
        while let Some(slot) = self.available.last() {
            match self.perished(now, slot) {
                Some(reason) => self.close(slot, reason, None),
                None => {
                    self.connections.unlink(&mut self.available, slot);
                    return Some(slot);
                }
            }
        }
        None
    }

    /// Marks a connection that is in no list as in use and tells its number.
    fn hand_over(&mut self, slot: Slot, duration: Duration) -> PooledId {
        let connection = self.connections.id(slot);
        self.connections.get_mut(slot).place = Place::InUse {
            interrupted: false,
            held_for: HeldFor::Operation,
        };
        self.emit(|address| PoolEvent::CheckedOut {
            address,
            connection,
            duration,
        });
        PooledId(connection)
    }

    fn make_available(&mut self, now: Instant, slot: Slot) {
        self.connections.get_mut(slot).place = Place::Available { since: now };
        self.connections.push_last(&mut self.available, slot);
    }

    /// Takes a connection out of the books, whatever its place, then tears it down (CMAP-63).
    fn close(&mut self, slot: Slot, reason: CloseReason, error: Option<Error>) {
        match self.connections.get(slot).place {
            Place::Pending { .. } => self.leave_pending(slot),
            Place::Available { .. } => self.connections.unlink(&mut self.available, slot),
            Place::Draining => self.draining -= 1,
            Place::InUse { .. } => {}
        }
        let connection = self.connections.id(slot);
        let service = self.connections.get(slot).service;
        self.connections.remove(slot);
        self.emit(|address| PoolEvent::ConnectionClosed {
            address,
            connection,
            reason,
            error,
        });
        self.actions.push_back(Action::Close(PooledId(connection)));
        if let Some(service) = service {
            self.leave_service(service);
        }
    }

    /// What every input ends with: waiters get what is possible now, and background work that
    /// became necessary is scheduled.
    fn settle(&mut self, now: Instant) {
        if !self.queue.is_empty() {
            self.serve_queue(now);
        }
        self.schedule(now);
        self.check();
    }

    /// Invariants that hold between any two inputs.
    fn check(&self) {
        let total = self.connections.len();
        debug_assert!(total >= self.available.len() + self.pending + self.draining);
        debug_assert!(self.options.max_size == 0 || total <= self.options.max_size);
        debug_assert!(self.pending <= self.max_connecting());
        debug_assert!(self.queue.is_empty() || self.state == PoolState::Ready);
        debug_assert!(self.queue.is_empty() || self.available.is_empty());
        let has_service =
            |(_, _, connection): &(u64, Slot, &Connection)| connection.service.is_some();
        debug_assert!(
            !self.options.load_balanced
                || self.connections.iter().filter(has_service).count()
                    == self.services.connections() as usize
        );
    }

    /// CMAP-25.
    fn is_stale(&self, slot: Slot) -> bool {
        let connection = self.connections.get(slot);
        let current = match &connection.service {
            None => Some(self.generation),
            Some(service) => self.services.generation(service),
        };
        current != Some(connection.generation)
    }

    fn emit(&mut self, event: impl FnOnce(Address) -> PoolEvent) {
        if self.subscribed {
            let event = event(self.address.clone());
            self.actions.push_back(Action::Emit(event));
        }
    }

    fn emit_failed(&mut self, reason: CheckOutFailure, error: &Error, duration: Duration) {
        self.emit(|address| PoolEvent::CheckOutFailed {
            address,
            reason,
            error: Some(error.clone()),
            duration,
        });
    }

    /// CMAP-141; the tests want the lower case form.
    fn closed_error(&self) -> Error {
        let message = "Attempted to check out a connection from closed connection pool".to_owned();
        Error::new(ErrorKind::PoolClosed { message }).with_server(&self.address)
    }

    /// CMAP-142.
    fn cleared_error(&self) -> Error {
        let address = &self.address;
        let message = match &self.cause {
            Some(cause) => format!(
                "Connection pool for {address} was cleared because another operation failed \
                 with: {}",
                cause_text(cause)
            ),
            None => format!("Connection pool for {address} is paused until the server is checked"),
        };
        Error::new(ErrorKind::PoolCleared { message }).with_server(address)
    }
}
