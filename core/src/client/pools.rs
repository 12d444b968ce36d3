//! The pools part: one pool per server, each with the connections that nobody uses.

use crate::{
    address::Address,
    connection::Established,
    description::ServerId,
    error::Error,
    pool::{
        self, CheckOut, CheckOutId, Condition, ConnectionId, PinnedFor, Pool, PoolOptions,
        PoolState,
    },
    time::{Instant, earliest},
};
use bson::oid::ObjectId;
use std::collections::{BTreeMap, VecDeque};

/// What a pool holds for an available connection.
type Content = Box<Established>;

/// What a pool of this client orders.
pub(super) type Order = pool::Action<Content>;

/// The pools of a client.
#[derive(Debug)]
pub(super) struct Pools {
    pools: BTreeMap<ServerId, Pool<Content>>,
    options: PoolOptions,
    /// Whether somebody listens to their events.
    subscribed: bool,
    orders: VecDeque<(ServerId, Order)>,
    /// The earliest deadline of the pools that were used since it was last asked for.
    armed: Option<Instant>,
}

impl Pools {
    pub(super) fn new(options: PoolOptions, subscribed: bool) -> Self {
        Self {
            pools: BTreeMap::new(),
            options,
            subscribed,
            orders: VecDeque::new(),
            armed: None,
        }
    }

    /// The next order of any pool. Orders come out as they were given.
    #[inline]
    pub(super) fn poll_order(&mut self) -> Option<(ServerId, Order)> {
        self.orders.pop_front()
    }

    /// Makes the pool of a server.
    pub(super) fn create(&mut self, server: ServerId, address: Address) {
        if self.pools.contains_key(&server) {
            return;
        }
        let pool = Pool::new(address, self.options.clone(), self.subscribed);
        self.pools.insert(server, pool);
        self.with(server, |_: &mut Pool<Content>| ());
    }

    /// Closes the pool of a server. It is forgotten when its last connection is gone.
    pub(super) fn close(&mut self, now: Instant, server: ServerId) {
        self.with(server, |pool: &mut Pool<Content>| pool.handle_close(now));
    }

    pub(super) fn close_all(&mut self, now: Instant) {
        for server in self.servers() {
            self.close(now, server);
        }
    }

    pub(super) fn ready(&mut self, now: Instant, server: ServerId) {
        self.with(server, |pool: &mut Pool<Content>| pool.handle_ready(now));
    }

    /// Clears the pool of a server, or of one service behind a load balancer.
    pub(super) fn clear(
        &mut self,
        now: Instant,
        server: ServerId,
        service: Option<ObjectId>,
        cause: &Error,
        interrupt: bool,
    ) {
        self.with(server, |pool: &mut Pool<Content>| match service {
            Some(service) => pool.handle_clear_service(now, service),
            None => pool.handle_clear(now, cause, interrupt),
        });
    }

    /// Asks the pool of a server for a connection. `limit` is that of an operation with a time
    /// limit of its own; others have `waitQueueTimeoutMS`.
    #[inline]
    pub(super) fn check_out(
        &mut self,
        now: Instant,
        server: ServerId,
        request: CheckOutId,
        limit: Option<Option<Instant>>,
    ) -> Option<CheckOut<Content>> {
        self.with(server, |pool: &mut Pool<Content>| match limit {
            Some(limit) => pool.check_out_timed(now, request, limit),
            None => pool.check_out(now, request, None),
        })
    }

    /// Withdraws a request that waits.
    pub(super) fn cancel(&mut self, now: Instant, server: ServerId, request: CheckOutId) {
        self.with(server, |pool: &mut Pool<Content>| pool.cancel(now, request));
    }

    /// Gives a connection back. The pool ignores a connection that it has closed meanwhile.
    #[inline]
    pub(super) fn check_in(
        &mut self,
        now: Instant,
        server: ServerId,
        pooled: ConnectionId,
        condition: Condition<Content>,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            let _ = pool.check_in(now, pooled, condition);
        });
    }

    pub(super) fn handle_established(
        &mut self,
        now: Instant,
        server: ServerId,
        pooled: ConnectionId,
        content: Content,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            pool.handle_established(now, pooled, content);
        });
    }

    pub(super) fn handle_establish_failed(
        &mut self,
        now: Instant,
        server: ServerId,
        pooled: ConnectionId,
        error: &Error,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            pool.handle_establish_failed(now, pooled, error);
        });
    }

    /// The hello of a connection was answered by this service behind the load balancer (LB-49).
    pub(super) fn handle_greeted(
        &mut self,
        server: ServerId,
        pooled: ConnectionId,
        service: ObjectId,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            pool.handle_greeted(pooled, service)
        });
    }

    pub(super) fn handle_drained(
        &mut self,
        now: Instant,
        server: ServerId,
        pooled: ConnectionId,
        content: Content,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            pool.handle_drained(now, pooled, content)
        });
    }

    pub(super) fn handle_idle_closed(
        &mut self,
        now: Instant,
        server: ServerId,
        pooled: ConnectionId,
        error: Error,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            pool.handle_idle_closed(now, pooled, Some(error));
        });
    }

    /// Says what a connection that is checked out is kept for.
    pub(super) fn hold_for(
        &mut self,
        server: ServerId,
        pooled: ConnectionId,
        pinned_for: PinnedFor,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            pool.hold_for(pooled, pinned_for)
        });
    }

    /// Does what is due in each pool.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for server in self.servers() {
            // A pool's work may make more work due at once.
            while let Some(pool) = self.pools.get(&server)
                && pool.deadline().is_some_and(|at| at <= now)
            {
                self.with(server, |pool: &mut Pool<Content>| pool.handle_timeout(now));
            }
        }
    }

    /// Closes at once what a clear has made stale, in all pools.
    pub(super) fn run_background(&mut self, now: Instant) {
        for server in self.servers() {
            self.with(server, |pool: &mut Pool<Content>| pool.handle_timeout(now));
        }
    }

    /// The earliest deadline of all pools.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = self.pools.values().filter_map(Pool::deadline);
        deadlines.min()
    }

    /// The earliest deadline of the pools that were used since the last call.
    #[inline]
    pub(super) fn take_armed(&mut self) -> Option<Instant> {
        self.armed.take()
    }

    /// The pool of a server.
    pub(super) fn get(&self, server: ServerId) -> Option<&Pool<Content>> {
        self.pools.get(&server)
    }

    /// True if there is a pool for this server that is not closed.
    pub(super) fn is_open(&self, server: ServerId) -> bool {
        let pool = self.pools.get(&server);
        pool.is_some_and(|pool: &Pool<Content>| pool.state() != PoolState::Closed)
    }

    /// True for a connection of an earlier generation than its pool or its service, and for one
    /// that its pool does not know any more.
    pub(super) fn is_outdated(&self, server: ServerId, pooled: ConnectionId) -> bool {
        let pool = self.pools.get(&server);
        pool.is_none_or(|pool: &Pool<Content>| pool.is_outdated(pooled))
    }

    /// The error of a connection that is checked out and was interrupted.
    pub(super) fn interruption_of(&self, server: ServerId, pooled: ConnectionId) -> Option<Error> {
        self.pools.get(&server)?.interruption_of(pooled)
    }

    /// Connections that are checked out.
    pub(super) fn exchange_of(&self) -> usize {
        let in_use = self
            .pools
            .values()
            .map(|pool: &Pool<Content>| pool.counts().in_use as usize);
        in_use.sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ServerId, &Pool<Content>)> {
        self.pools.iter().map(|(&server, pool)| (server, pool))
    }

    fn servers(&self) -> Vec<ServerId> {
        self.pools.keys().copied().collect()
    }

    /// Feeds one pool, if it is there, and takes over its orders.
    #[inline]
    fn with<T>(
        &mut self,
        server: ServerId,
        input: impl FnOnce(&mut Pool<Content>) -> T,
    ) -> Option<T> {
        let pool = self.pools.get_mut(&server)?;
        let result = input(pool);
        while let Some(order) = pool.poll_action() {
            self.orders.push_back((server, order));
        }
        self.armed = earliest(self.armed, pool.deadline());
        if pool.state() == PoolState::Closed && pool.counts().total == 0 {
            self.pools.remove(&server);
        }
        Some(result)
    }
}
