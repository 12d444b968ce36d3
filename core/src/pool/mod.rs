//! The connection pool of one server. A pool limits the number of its connections, serves check
//! outs in the order of their arrival, and closes stale, idle and broken connections.
//!
//! A pool performs no I/O: with `Order::Open` it asks its caller for a new connection, and the
//! caller reports the result. Background work, such as keeping `minPoolSize`, needs no thread.
//! `deadline()` returns the time at which work is due, and `handle_timeout` does the work.

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

pub use background::POPULATION_PAUSE;
pub use types::{
    CheckOut, CheckOutId, Condition, ConnectionId, Counts, NotCheckedOut, Order, PinnedFor,
    PoolOptions, PoolState,
};

use crate::{
    address::Address,
    arena::{Arena, List, Numbered, Slot},
    error::{Error, ErrorKind},
    event::{CheckOutFailure, CloseReason, PoolEvent},
    time::{Instant, earliest},
};
use bson::oid::ObjectId;
use services::Services;
use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

/// The maximum number of requests in the wait queue of one pool.
///
/// The limit bounds the number of operations that wait for a connection, for example while a server
/// does not answer ([SEL-37]).
///
/// [SEL-37]: crate::requirements::server_selection#SEL-37
pub const MAX_WAITERS: u32 = 1 << 20;

/// The connection pool of one server. The pool owns all connections of a client to that server,
/// except those of the monitor ([CMAP-35]).
///
/// `C` is the type of the caller's value for a connection, such as a socket. The pool stores this
/// value while the connection is available, and returns it at check out.
///
/// ```
/// use onionskin_core::{address::Address, time::Instant};
/// use onionskin_core::unstable::pool::{Order, CheckOut, CheckOutId, Condition, Pool, PoolOptions};
///
/// let now = Instant::ZERO;
/// let mut pool: Pool<&str> = Pool::new(Address::tcp("db", 27017), PoolOptions::default(), false);
/// pool.handle_ready(now);
/// assert_eq!(pool.check_out(now, CheckOutId(1), None), CheckOut::Waiting);
/// let Some(Order::Open(connection)) = pool.poll_order() else { unreachable!() };
/// pool.handle_established(now, connection, "a socket");
/// let grant = Order::Grant { request: CheckOutId(1), connection, content: "a socket" };
/// assert_eq!(pool.poll_order(), Some(grant));
/// pool.check_in(now, connection, Condition::Healthy("a socket"))?;
/// let granted = pool.check_out(now, CheckOutId(2), None);
/// assert_eq!(granted, CheckOut::Granted(connection, "a socket"));
/// # Ok::<(), onionskin_core::unstable::pool::NotCheckedOut>(())
/// ```
///
/// [CMAP-35]: crate::requirements::pool#CMAP-35
#[derive(Clone, Debug)]
pub struct Pool<C> {
    address: Address,
    options: PoolOptions,
    /// True if the client has subscribers for pool events. Otherwise the pool builds no events.
    subscribed: bool,
    /// The state of the pool. Only a ready pool serves check outs.
    state: PoolState,
    /// The number of clears of the whole pool. Clears of one service are not counted.
    generation: u64,
    /// The cause of the last clear of the whole pool; `None` before the first.
    cause: Option<Error>,
    /// The number of the newest connection; 0 before the first. No number is used twice.
    last_id: u64,
    /// All connections that are not closed.
    connections: Arena<Connection<C>>,
    /// The available connections, in the order in which they became available. A check out takes
    /// the last one, so that connections that are not needed become idle.
    available: List,
    /// The number of pending connections.
    pending: u32,
    /// The number of draining connections.
    draining: u32,
    /// True if some draining connections may be stale because of a clear. The next background run
    /// closes the stale ones and resets this field.
    is_draining_stale: bool,
    /// The generations of services behind a load balancer, and the counts of pinned connections.
    services: Services,
    /// The check out requests that are not granted, failed or cancelled yet.
    requests: Numbered<Request>,
    /// The wait queue: requests for which no connection is being established, in the order in which
    /// they are served (CMAP-30).
    queue: List,
    /// The times at which requests time out (`Request::armed`), the earliest first.
    deadlines: BTreeSet<(Instant, CheckOutId)>,
    /// The time at which a background run is due for `minPoolSize` or for stale connections; `None`
    /// if no run is due.
    background: Option<Instant>,
    /// The connection that is being established for `minPoolSize`. There is at most one at a time,
    /// so that a `maxConnecting` of 2 or more leaves room for the connection of a request.
    populating: Option<ConnectionId>,
    /// The time before which no connection is created for `minPoolSize`. A failure sets this to the
    /// time of the failure plus [`POPULATION_PAUSE`].
    populate_from: Instant,
    /// Orders that the caller has not polled yet.
    orders: VecDeque<Order<C>>,
}

/// The record of one connection that is not closed (rules of connections: CMAP-17 to CMAP-24).
#[derive(Clone, Debug)]
struct Connection<C> {
    /// The generation of the pool when the connection was created. Behind a load balancer, after
    /// the hello reply, the generation that the service had when this reply arrived.
    generation: u64,
    /// The service behind the load balancer that the connection leads to. `None` without a load
    /// balancer and before the hello reply.
    service: Option<ObjectId>,
    state: ConnectionState<C>,
}

/// The state of a connection: the states of CMAP-24 except closed, and `Draining`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ConnectionState<C> {
    /// The connection is being established.
    Pending {
        /// The time at which the connection was created.
        created: Instant,
        /// The request that the connection is established for. `None` for a connection that is made
        /// for `minPoolSize`, and after the request was cancelled or has failed.
        request: Option<CheckOutId>,
    },
    /// The connection is in the list of available connections, since the time `since`.
    Available { since: Instant, content: C },
    /// The connection was checked in with an outstanding reply, counts towards `maxPoolSize`, and
    /// is not handed out.
    Draining,
    /// The connection is checked out.
    InUse {
        /// True if a clear has already ordered `Order::Interrupt` for the connection.
        interrupted: bool,
        /// The use of the connection: by an operation, a cursor or a transaction.
        pinned_for: PinnedFor,
    },
}

/// A check out request that could not be served at once.
#[derive(Clone, Debug)]
struct Request {
    /// The time at which the check out started. Events report the duration since then.
    started: Instant,
    /// The time at which the whole check out fails, establishment included; `None` for no limit.
    deadline: Option<Instant>,
    /// The time under which `Pool::deadlines` contains the request. This is the earlier of
    /// `deadline` and the end of `waitQueueTimeoutMS`, and is `deadline` after the request has left
    /// the queue once. `None` if neither limits the request.
    armed: Option<Instant>,
    /// The connection that is being established for the request. `None` while the request is in the
    /// queue.
    connection: Option<Slot>,
}

impl<C> Pool<C> {
    /// Creates a paused pool of generation 0 without connections. If `subscribed` is true, the pool
    /// emits events, beginning with `PoolEvent::Created` ([CMAP-52]).
    ///
    /// [CMAP-52]: crate::requirements::pool#CMAP-52
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
            requests: Numbered::new(),
            queue: List::new(),
            deadlines: BTreeSet::new(),
            background: None,
            populating: None,
            populate_from: Instant::ZERO,
            orders: VecDeque::new(),
        };
        let options = pool.options.reported.clone();
        pool.emit(|address| PoolEvent::Created { address, options });
        pool
    }

    /// Marks the pool as ready, for example after a successful check of its server. Does nothing if
    /// the pool is ready already or closed ([CMAP-54], [CMAP-58]).
    ///
    /// [CMAP-54]: crate::requirements::pool#CMAP-54
    /// [CMAP-58]: crate::requirements::pool#CMAP-58
    pub fn handle_ready(&mut self, now: Instant) {
        if self.state != PoolState::Paused {
            return;
        }
        self.state = PoolState::Ready;
        self.emit(|address| PoolEvent::Ready { address });
        // Failures from before the server became usable no longer delay population.
        self.populate_from = Instant::ZERO;
        self.settle(now);
    }

    /// Requests a connection, to be granted before `deadline`. `waitQueueTimeoutMS` also limits the
    /// time that the request spends in the queue.
    ///
    /// Returns a usable connection if one is available and the queue is empty. If the request has
    /// to wait, `Order::Grant` or `Order::Fail` follows, unless `cancel` is called first. The
    /// check out fails at once if the pool is paused or closed, or if its queue has [`MAX_WAITERS`]
    /// requests. A second request with the id of a waiting one fails at once as well.
    #[inline]
    pub fn check_out(
        &mut self,
        now: Instant,
        request: CheckOutId,
        deadline: Option<Instant>,
    ) -> CheckOut<C> {
        self.begin_check_out(now, request, deadline, self.options.wait_queue_timeout)
    }

    /// Requests a connection as `check_out` does, for an operation with a time limit such as
    /// `timeoutMS`. `waitQueueTimeoutMS` does not apply to such an operation, even if its time
    /// limit is infinite and `deadline` is `None` ([CMAP-153]).
    ///
    /// [CMAP-153]: crate::requirements::pool#CMAP-153
    pub fn check_out_timed(
        &mut self,
        now: Instant,
        request: CheckOutId,
        deadline: Option<Instant>,
    ) -> CheckOut<C> {
        self.begin_check_out(now, request, deadline, None)
    }

    #[inline]
    fn begin_check_out(
        &mut self,
        now: Instant,
        request: CheckOutId,
        deadline: Option<Instant>,
        queue_limit: Option<Duration>,
    ) -> CheckOut<C> {
        if self.find_request(request).is_some() {
            return CheckOut::Failed(Error::argument(
                "a check out with this id is already waiting for a connection",
            ));
        }
        self.emit(|address| PoolEvent::CheckOutStarted { address });
        if let Some((reason, error)) = self.refusal() {
            self.emit_failed(reason, &error, Duration::ZERO);
            return CheckOut::Failed(error);
        }
        // A new request is not served before requests in the queue (CMAP-33).
        if self.queue.is_empty()
            && let Some((slot, content)) = self.take_available(now)
        {
            return CheckOut::Granted(self.emit_checked_out(slot, Duration::ZERO), content);
        }
        self.enqueue(now, request, deadline, queue_limit);
        self.settle(now);
        CheckOut::Waiting
    }

    /// Takes a connection back: closes it, makes it available or starts draining it ([CMAP-88],
    /// [CMAP-89]).
    ///
    /// Returns an error and changes nothing if the connection is not checked out of this pool.
    ///
    /// [CMAP-88]: crate::requirements::pool#CMAP-88
    /// [CMAP-89]: crate::requirements::pool#CMAP-89
    #[inline]
    pub fn check_in(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        condition: Condition<C>,
    ) -> Result<(), NotCheckedOut> {
        let slot = self.find(connection);
        let Some(slot) = slot.filter(|&slot| {
            let state = &self.connections.get(slot).state;
            matches!(state, ConnectionState::InUse { .. })
        }) else {
            return Err(NotCheckedOut(connection));
        };
        self.emit(|address| PoolEvent::CheckedIn {
            address,
            connection: connection.number(),
        });
        let stale = self.is_stale(slot);
        self.uncount_pinned(slot);
        match condition {
            _ if self.state == PoolState::Closed => {
                self.close(slot, CloseReason::PoolClosed, None);
            }
            Condition::Broken(error) => self.close(slot, CloseReason::Error, error),
            _ if stale => self.close(slot, CloseReason::Stale, None),
            Condition::Healthy(content) => self.hand_over(now, slot, content),
            Condition::ReplyDue => self.begin_draining(slot),
        }
        self.settle(now);
        Ok(())
    }

    /// Closes an available or draining connection that broke. For example, its peer closed it, or
    /// an outstanding reply did not arrive in time. Does nothing for other connections.
    pub fn handle_idle_closed(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        error: Option<Error>,
    ) {
        let Some(slot) = self.find(connection) else {
            return;
        };
        // Errors of pending connections and of connections in use are reported by
        // `handle_establish_failed` and `check_in`.
        if let ConnectionState::Pending { .. } | ConnectionState::InUse { .. } =
            self.connections.get(slot).state
        {
            return;
        }
        self.close(slot, CloseReason::Error, error);
        self.postpone_population(now);
        self.settle(now);
    }

    /// Returns the next order. The caller carries out the orders as they come.
    #[must_use]
    pub fn poll_order(&mut self) -> Option<Order<C>> {
        self.orders.pop_front()
    }

    /// Returns the time at which `handle_timeout` has work to do; `None` if no work is scheduled.
    /// This time may have passed already.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.deadlines.is_empty() && self.options.max_idle.is_none() {
            return self.background;
        }
        let waiter = self.deadlines.first().map(|&(at, _)| at);
        earliest(earliest(waiter, self.background), self.next_idle())
    }

    /// Returns the reason and the error if the pool fails a new request at once.
    fn refusal(&self) -> Option<(CheckOutFailure, Error)> {
        match self.state {
            PoolState::Closed => Some((CheckOutFailure::PoolClosed, self.closed_error())),
            PoolState::Paused => Some((CheckOutFailure::ConnectionError, self.cleared_error())),
            PoolState::Ready if self.queue.len() >= MAX_WAITERS => {
                let error = Error::new(ErrorKind::Limit {
                    what: "the number of requests that wait for a connection",
                    limit: MAX_WAITERS.into(),
                    actual: u64::from(MAX_WAITERS) + 1,
                });
                let error = error.with_server(&self.address);
                Some((CheckOutFailure::ConnectionError, error))
            }
            PoolState::Ready => None,
        }
    }

    /// Takes the usable connection that became available last, and marks it as in use. Closes
    /// perished connections that the search meets (CMAP-75).
    #[inline]
    fn take_available(&mut self, now: Instant) -> Option<(Slot, C)> {
        while let Some(slot) = self.available.last() {
            match self.perished(now, slot) {
                Some(reason) => self.close(slot, reason, None),
                None => {
                    self.connections.unlink(&mut self.available, slot);
                    let ConnectionState::Available { content, .. } = self.mark_in_use(slot) else {
                        debug_assert!(false, "the list holds available connections only");
                        continue;
                    };
                    return Some((slot, content));
                }
            }
        }
        None
    }

    /// Marks a connection as in use and returns its previous state. The connection must not be in
    /// the list of available connections.
    fn mark_in_use(&mut self, slot: Slot) -> ConnectionState<C> {
        let state = &mut self.connections.get_mut(slot).state;
        let in_use = ConnectionState::InUse {
            interrupted: false,
            pinned_for: PinnedFor::Operation,
        };
        std::mem::replace(state, in_use)
    }

    fn id(&self, slot: Slot) -> ConnectionId {
        ConnectionId::new(self.connections.id(slot), slot.0)
    }

    /// Returns the slot of a connection, or `None` if the connection was closed.
    #[inline]
    fn find(&self, id: ConnectionId) -> Option<Slot> {
        self.connections.find(id.number(), Slot(id.slot()))
    }

    /// Removes a connection in any state, emits its closed event, then orders its teardown
    /// (CMAP-63).
    fn close(&mut self, slot: Slot, reason: CloseReason, error: Option<Error>) {
        match self.connections.get(slot).state {
            ConnectionState::Pending { .. } => self.leave_pending(slot),
            ConnectionState::Available { .. } => self.connections.unlink(&mut self.available, slot),
            ConnectionState::Draining => self.draining -= 1,
            ConnectionState::InUse { .. } => {}
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
        self.orders.push_back(Order::Close(id));
        if let Some(service) = service {
            self.leave_service(service);
        }
    }

    /// Serves the queue, and schedules a background run if a connection for `minPoolSize` can be
    /// created.
    fn settle(&mut self, now: Instant) {
        if !self.queue.is_empty() {
            self.serve_queue(now);
        }
        self.schedule(now);
        self.assert_invariants();
    }

    /// Asserts the invariants that hold between two inputs.
    fn assert_invariants(&self) {
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

    /// True if the generation of the connection differs from that of its service or, if the
    /// connection has no service, from that of the pool (CMAP-25).
    fn is_stale(&self, slot: Slot) -> bool {
        let connection = self.connections.get(slot);
        let current = match &connection.service {
            None => Some(self.generation),
            Some(service) => self.services.generation(service),
        };
        current != Some(connection.generation)
    }

    #[inline]
    fn emit(&mut self, event: impl FnOnce(Address) -> PoolEvent) {
        if self.subscribed {
            let event = event(self.address.clone());
            self.orders.push_back(Order::Emit(event));
        }
    }
}
