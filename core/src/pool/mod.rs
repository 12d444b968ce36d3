//! The connections of one server: how many there may be, who gets one next, and which are too old.
//!
//! A pool makes no connection itself; it asks for one (`Action::Open`) and is told how that went.
//! Background work (keeping `minPoolSize`, closing stale and idle connections) needs no thread: it
//! is due at `deadline()`, which may be this very moment, and done by `handle_timeout`.

mod background;
mod clear;
mod draining;
mod establish;
mod services;
#[cfg(test)]
mod tests;
mod types;
mod views;
mod waiters;

pub use types::{
    Action, CheckOut, CheckOutId, Condition, ConnectionId, Counts, NotCheckedOut, PinnedFor,
    PoolOptions, PoolState,
};

use crate::{
    address::Address,
    arena::{Arena, List, Slot},
    error::{Error, ErrorKind},
    event::{CheckOutFailure, CloseReason, PoolEvent},
    time::{Instant, earliest},
};
pub use background::POPULATION_PAUSE;

use bson::oid::ObjectId;
use services::Services;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// The most requests that wait for one pool, so that a server that hangs cannot make the queue grow
/// without end (SEL-37). Far above what an application has in flight.
pub const MAX_WAITERS: u32 = 1 << 20;

/// The pool of one server (CMAP-35), generic over what it pools.
///
/// The pool holds what belongs to a connection (`C`) while the connection is available, and hands
/// it over with the connection.
///
/// ```
/// use onionskin_core::{address::Address, time::Instant};
/// use onionskin_core::pool::{Action, CheckOut, Condition, Pool, PoolOptions, CheckOutId};
///
/// let now = Instant::ZERO;
/// let mut pool: Pool<&str> = Pool::new(Address::tcp("db", 27017), PoolOptions::default(), false);
/// pool.handle_ready(now);
/// assert_eq!(pool.check_out(now, CheckOutId(1), None), CheckOut::Waiting);
/// let Some(Action::Open(connection)) = pool.poll_action() else { unreachable!() };
/// pool.handle_established(now, connection, "a socket");
/// let grant = Action::Grant { request: CheckOutId(1), connection, content: "a socket" };
/// assert_eq!(pool.poll_action(), Some(grant));
/// pool.check_in(now, connection, Condition::Healthy("a socket"))?;
/// let granted = pool.check_out(now, CheckOutId(2), None);
/// assert_eq!(granted, CheckOut::Granted(connection, "a socket"));
/// # Ok::<(), onionskin_core::pool::NotCheckedOut>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool<C> {
    address: Address,
    options: PoolOptions,
    /// Whether somebody wants events; if not, none is built.
    subscribed: bool,
    state: PoolState,
    generation: u64,
    /// Why the pool was cleared last.
    cause: Option<Error>,
    last_id: u64,
    connections: Arena<Connection<C>>,
    /// Oldest first; the newest is handed out first, so that surplus connections grow idle.
    available: List,
    pending: u32,
    draining: u32,
    /// Whether there was a clear since that made some of those stale.
    is_draining_stale: bool,
    services: Services,
    requests: Arena<Request>,
    /// Where in `requests` each of them is.
    places: BTreeMap<CheckOutId, Slot>,
    /// Requests that wait for something to become possible, first come first served (CMAP-30).
    queue: List,
    /// The deadlines of all requests that have one.
    deadlines: BTreeSet<(Instant, CheckOutId)>,
    /// When the next background run is due.
    background: Option<Instant>,
    /// The connection that is being established for `minPoolSize`, one at a time: a request that
    /// comes meanwhile finds room for its own, and is served by whichever is ready first.
    populating: Option<ConnectionId>,
    /// Population waits until then after a connection for it could not be kept.
    populate_from: Instant,
    actions: VecDeque<Action<C>>,
}

/// One connection (CMAP-17 to CMAP-24).
#[derive(Clone, Debug)]
struct Connection<C> {
    /// The pool's generation when it was made; behind a load balancer that of its service when it
    /// shook hands.
    generation: u64,
    /// Whom the load balancer connected it to.
    service: Option<ObjectId>,
    place: Place<C>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place<C> {
    /// Being established.
    Pending {
        created: Instant,
        /// Whose it will be; nobody's if made for `minPoolSize` or if its request gave up.
        request: Option<CheckOutId>,
    },
    /// In the list of available connections.
    Available { since: Instant, content: C },
    /// Checked in with a reply outstanding: it counts, and nobody gets it.
    Draining,
    /// Checked out.
    InUse {
        /// The operation was told to stop already.
        interrupted: bool,
        pinned_for: PinnedFor,
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

impl<C> Pool<C> {
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
            places: BTreeMap::new(),
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
        request: CheckOutId,
        deadline: Option<Instant>,
    ) -> CheckOut<C> {
        self.ask(now, request, deadline, self.options.wait_queue_timeout)
    }

    /// As `check_out`, for an operation with a time limit of its own, even one without end: that
    /// switches off `waitQueueTimeoutMS` (CMAP-153).
    pub fn check_out_timed(
        &mut self,
        now: Instant,
        request: CheckOutId,
        deadline: Option<Instant>,
    ) -> CheckOut<C> {
        self.ask(now, request, deadline, None)
    }

    fn ask(
        &mut self,
        now: Instant,
        request: CheckOutId,
        deadline: Option<Instant>,
        queue_limit: Option<Duration>,
    ) -> CheckOut<C> {
        if !self.places.is_empty() && self.places.contains_key(&request) {
            return CheckOut::Failed(Error::argument("this request waits already"));
        }
        self.emit(|address| PoolEvent::CheckOutStarted { address });
        if let Some((reason, error)) = self.refusal() {
            self.emit_failed(reason, &error, Duration::ZERO);
            return CheckOut::Failed(error);
        }
        // CMAP-33: nobody is served before those who wait.
        if self.queue.is_empty()
            && let Some((slot, content)) = self.take_available(now)
        {
            return CheckOut::Granted(self.emit_checked_out(slot, Duration::ZERO), content);
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
        connection: ConnectionId,
        condition: Condition<C>,
    ) -> Result<(), NotCheckedOut> {
        let slot = self.find(connection);
        let Some(slot) = slot.filter(|&slot| {
            let place = &self.connections.get(slot).place;
            matches!(place, Place::InUse { .. })
        }) else {
            return Err(NotCheckedOut(connection));
        };
        self.emit(|address| PoolEvent::CheckedIn {
            address,
            connection: connection.number(),
        });
        let stale = self.is_stale(slot);
        self.release_hold(slot);
        match condition {
            _ if self.state == PoolState::Closed => {
                self.close(slot, CloseReason::PoolClosed, None);
            }
            Condition::Broken(error) => self.close(slot, CloseReason::Error, error),
            _ if stale => self.close(slot, CloseReason::Stale, None),
            Condition::Healthy(content) => self.make_available(now, slot, content),
            Condition::ReplyDue => self.begin_draining(slot),
        }
        self.settle(now);
        Ok(())
    }

    /// The peer closed a connection that nobody uses, sent something that nobody asked for on it,
    /// or did not send in time what was still due.
    pub fn handle_idle_closed(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        error: Option<Error>,
    ) {
        let Some(slot) = self.find(connection) else {
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
    pub fn poll_action(&mut self) -> Option<Action<C>> {
        self.actions.pop_front()
    }

    /// When `handle_timeout` has something to do; it may be a moment that has passed already.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let waiter = self.deadlines.first().map(|&(at, _)| at);
        earliest(earliest(waiter, self.background), self.next_idle())
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
    fn take_available(&mut self, now: Instant) -> Option<(Slot, C)> {
        while let Some(slot) = self.available.last() {
            match self.perished(now, slot) {
                Some(reason) => self.close(slot, reason, None),
                None => {
                    self.connections.unlink(&mut self.available, slot);
                    let Place::Available { content, .. } = self.lend(slot) else {
                        debug_assert!(false, "the list holds available connections only");
                        continue;
                    };
                    return Some((slot, content));
                }
            }
        }
        None
    }

    /// Marks a connection that is in no list as in use, and returns where it was.
    fn lend(&mut self, slot: Slot) -> Place<C> {
        let place = &mut self.connections.get_mut(slot).place;
        let in_use = Place::InUse {
            interrupted: false,
            pinned_for: PinnedFor::Operation,
        };
        std::mem::replace(place, in_use)
    }

    fn emit_checked_out(&mut self, slot: Slot, duration: Duration) -> ConnectionId {
        let id = self.id(slot);
        self.emit(|address| PoolEvent::CheckedOut {
            address,
            connection: id.number(),
            duration,
        });
        id
    }

    fn id(&self, slot: Slot) -> ConnectionId {
        ConnectionId::new(self.connections.id(slot), slot.0)
    }

    /// The slot of a connection; none for one that is not there any more.
    fn find(&self, id: ConnectionId) -> Option<Slot> {
        self.connections.find(id.number(), Slot(id.slot()))
    }

    /// The slot of a request that waits.
    fn find_request(&self, id: CheckOutId) -> Option<Slot> {
        self.places.get(&id).copied()
    }

    fn make_available(&mut self, now: Instant, slot: Slot, content: C) {
        let place = Place::Available {
            since: now,
            content,
        };
        self.connections.get_mut(slot).place = place;
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
        let id = self.id(slot);
        let service = self.connections.get(slot).service;
        self.connections.remove(slot);
        self.emit(|address| PoolEvent::ConnectionClosed {
            address,
            connection: id.number(),
            reason,
            error,
        });
        self.actions.push_back(Action::Close(id));
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
            |(_, _, connection): &(u64, Slot, &Connection<C>)| connection.service.is_some();
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
}
