//! The pools part: the connection pool of each server, which holds the available connections.

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

/// The number of pools up to which `minPoolSize` applies. A replica set has at most 50 members, so
/// further pools are mostly those of hosts that a server made up.
const MAX_POPULATED_POOLS: usize = 50;

/// The value that a pool holds for an available connection.
type Content = Box<Established>;

/// An order of one of the pools.
pub(super) type Order = pool::Order<Content>;

/// The connection pools of a client.
#[derive(Debug)]
pub(super) struct Pools {
    pools: BTreeMap<ServerId, Pool<Content>>,
    options: PoolOptions,
    /// True if the client emits pool events.
    subscribed: bool,
    orders: VecDeque<(ServerId, Order)>,
    /// The earliest deadline of the pools that had an input since the last
    /// [`take_armed`](Self::take_armed).
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

    /// True if [`poll_order`](Self::poll_order) has an order.
    #[inline]
    pub(super) fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Returns the next order of any pool, in the order in which the pools gave them.
    #[inline]
    pub(super) fn poll_order(&mut self) -> Option<(ServerId, Order)> {
        self.orders.pop_front()
    }

    /// Creates the pool of a server, unless the server has one. A pool beyond the oldest
    /// [`MAX_POPULATED_POOLS`] makes connections only for operations.
    pub(super) fn create(&mut self, server: ServerId, address: Address) {
        if self.pools.contains_key(&server) {
            return;
        }
        let mut options = self.options.clone();
        if self.pools.len() >= MAX_POPULATED_POOLS {
            options.min_size = 0;
        }
        let pool = Pool::new(address, options, self.subscribed);
        self.pools.insert(server, pool);
        self.with(server, |_: &mut Pool<Content>| ());
    }

    /// Closes the pool of a server. The pool is removed when its last connection is closed.
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

    /// Checks out a connection from the pool of a server; `None` if the server has no pool. `limit`
    /// is `Some` if the operation has a time limit, with the deadline of the check out. Without a
    /// time limit, `waitQueueTimeoutMS` applies.
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

    /// Cancels a request that waits for a connection.
    pub(super) fn cancel(&mut self, now: Instant, server: ServerId, request: CheckOutId) {
        self.with(server, |pool: &mut Pool<Content>| pool.cancel(now, request));
    }

    /// Checks a connection in. A connection that the pool has closed meanwhile is ignored.
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

    /// Sets the service of a connection: the service behind the load balancer that answered its
    /// hello (LB-49).
    pub(super) fn handle_hello_answered(
        &mut self,
        server: ServerId,
        pooled: ConnectionId,
        service: ObjectId,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            pool.handle_hello_answered(pooled, service)
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

    /// Sets what a checked-out connection is kept for.
    pub(super) fn pin_for(
        &mut self,
        server: ServerId,
        pooled: ConnectionId,
        pinned_for: PinnedFor,
    ) {
        self.with(server, |pool: &mut Pool<Content>| {
            pool.pin_for(pooled, pinned_for)
        });
    }

    /// Does the work that is due in each pool.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for server in self.servers() {
            // Work in a pool may make further work due at the same time.
            while let Some(pool) = self.pools.get(&server)
                && pool.deadline().is_some_and(|at| at <= now)
            {
                self.with(server, |pool: &mut Pool<Content>| pool.handle_timeout(now));
            }
        }
    }

    /// Does the background work of all pools now, which closes stale connections.
    pub(super) fn run_background(&mut self, now: Instant) {
        for server in self.servers() {
            self.with(server, |pool: &mut Pool<Content>| pool.handle_timeout(now));
        }
    }

    /// Returns the earliest deadline of all pools.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = self.pools.values().filter_map(Pool::deadline);
        deadlines.min()
    }

    /// Returns the earliest deadline of the pools that had an input since the last call.
    #[inline]
    pub(super) fn take_armed(&mut self) -> Option<Instant> {
        self.armed.take()
    }

    /// Returns the pool of a server.
    pub(super) fn get(&self, server: ServerId) -> Option<&Pool<Content>> {
        self.pools.get(&server)
    }

    /// True if the server has a pool that is not closed.
    pub(super) fn is_open(&self, server: ServerId) -> bool {
        let pool = self.pools.get(&server);
        pool.is_some_and(|pool: &Pool<Content>| pool.state() != PoolState::Closed)
    }

    /// True if the connection is of an earlier generation than its pool or its service, or if its
    /// pool no longer has it.
    pub(super) fn is_outdated(&self, server: ServerId, pooled: ConnectionId) -> bool {
        let pool = self.pools.get(&server);
        pool.is_none_or(|pool: &Pool<Content>| pool.is_outdated(pooled))
    }

    /// Returns the error with which a checked-out connection was interrupted, if it was.
    pub(super) fn interruption_of(&self, server: ServerId, pooled: ConnectionId) -> Option<Error> {
        self.pools.get(&server)?.interruption_of(pooled)
    }

    /// True if `minPoolSize` is not zero.
    pub(super) fn have_min_size(&self) -> bool {
        self.options.min_size > 0
    }

    /// True if each pool that is ready has the connections of `minPoolSize`.
    pub(super) fn are_filled(&self) -> bool {
        let mut pools = self.pools.values();
        pools.all(|pool: &Pool<Content>| pool.is_filled())
    }

    /// Returns the number of connections that are checked out.
    pub(super) fn in_use(&self) -> usize {
        let in_use = self
            .pools
            .values()
            .map(|pool: &Pool<Content>| pool.counts().in_use as usize);
        in_use.sum()
    }

    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (ServerId, &Pool<Content>)> {
        self.pools.iter().map(|(&server, pool)| (server, pool))
    }

    fn servers(&self) -> Vec<ServerId> {
        self.pools.keys().copied().collect()
    }

    /// Gives an input to the pool of a server and takes over its orders. `None` if the server has
    /// no pool. Removes the pool if it is closed and has no connections left.
    #[inline]
    fn with<T>(
        &mut self,
        server: ServerId,
        input: impl FnOnce(&mut Pool<Content>) -> T,
    ) -> Option<T> {
        let pool = self.pools.get_mut(&server)?;
        let result = input(pool);
        while let Some(order) = pool.poll_order() {
            self.orders.push_back((server, order));
        }
        self.armed = earliest(self.armed, pool.deadline());
        if pool.state() == PoolState::Closed && pool.counts().total == 0 {
            self.pools.remove(&server);
            self.populate_oldest();
        }
        Some(result)
    }

    /// Applies `minPoolSize` to the oldest pools, of which one was removed.
    fn populate_oldest(&mut self) {
        for pool in self.pools.values_mut().take(MAX_POPULATED_POOLS) {
            pool.set_min_size(self.options.min_size);
            self.armed = earliest(self.armed, pool.deadline());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn min_pool_size_applies_to_fifty_pools() {
        let options = PoolOptions {
            min_size: 1,
            ..PoolOptions::default()
        };
        let mut pools = Pools::new(options, false);
        for number in 0..80 {
            let server = ServerId(number);
            pools.create(server, Address::tcp("a", 27017));
            pools.ready(Instant::ZERO, server);
        }
        pools.run_background(Instant::ZERO);
        let mut populated = BTreeSet::new();
        while let Some((server, order)) = pools.poll_order() {
            if matches!(order, Order::Open(_)) {
                populated.insert(server);
            }
        }
        assert_eq!(populated.len(), MAX_POPULATED_POOLS);
        // The next pool takes the place of one that is removed.
        for number in 0..30 {
            pools.close(Instant::ZERO, ServerId(number));
        }
        assert!(pools.take_armed().is_some_and(|at| at <= Instant::ZERO));
        pools.handle_timeout(Instant::ZERO);
        let mut later = BTreeSet::new();
        while let Some((server, order)) = pools.poll_order() {
            if matches!(order, Order::Open(_)) {
                later.insert(server);
            }
        }
        assert_eq!(later, (50..80).map(ServerId).collect());
    }
}
