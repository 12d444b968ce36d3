//! Options of connection pools. All pools of a client have the same options (CMAP-5).

use super::{
    ClientOptions, DEFAULT_MAX_CONNECTING, DEFAULT_MAX_POOL_SIZE, Duration, Error, nonzero,
};
use crate::event::ReportedPoolOptions;

impl ClientOptions {
    /// Sets [`max_pool_size`](Self::max_pool_size).
    pub fn set_max_pool_size(&mut self, connections: u32) -> &mut Self {
        self.max_pool_size = connections;
        self
    }

    /// Sets [`min_pool_size`](Self::min_pool_size).
    pub fn set_min_pool_size(&mut self, connections: u32) -> &mut Self {
        self.min_pool_size = connections;
        self
    }

    /// Sets [`max_idle_time`](Self::max_idle_time). Zero means no limit.
    pub fn set_max_idle_time(&mut self, time: impl Into<Option<Duration>>) -> &mut Self {
        self.max_idle_time = nonzero(time);
        self
    }

    /// Sets [`max_connecting`](Self::max_connecting). Fails with zero.
    pub fn set_max_connecting(&mut self, connections: u32) -> Result<&mut Self, Error> {
        if connections == 0 {
            return Err(Error::invalid_option(
                "maxConnecting",
                "with zero no connection could ever be made; use 1 or more",
            ));
        }
        self.max_connecting = connections;
        Ok(self)
    }

    /// Sets [`wait_queue_timeout`](Self::wait_queue_timeout). Zero means no limit.
    pub fn set_wait_queue_timeout(&mut self, timeout: impl Into<Option<Duration>>) -> &mut Self {
        self.wait_queue_timeout = nonzero(timeout);
        self
    }

    /// Returns `maxPoolSize`, the maximum number of connections of a pool, pending and in-use
    /// connections included. Zero means no limit. Default: 100 ([CMAP-8]).
    ///
    /// [CMAP-8]: crate::requirements::pool#CMAP-8
    #[must_use]
    pub const fn max_pool_size(&self) -> u32 {
        self.max_pool_size
    }

    /// Returns `minPoolSize`, the least number of connections that a ready pool keeps. The number
    /// must not exceed a [`max_pool_size`](Self::max_pool_size) above 0. Default: 0 ([CMAP-9]).
    ///
    /// The number applies to the oldest 50 pools, because a replica set has at most 50 members.
    /// Further pools make connections only for operations.
    ///
    /// [CMAP-9]: crate::requirements::pool#CMAP-9
    #[must_use]
    pub const fn min_pool_size(&self) -> u32 {
        self.min_pool_size
    }

    /// Returns `maxIdleTimeMS`, how long a connection may stay available before it is closed.
    /// `None` (0 in connection strings) means no limit. Default: none ([CMAP-10]).
    ///
    /// [CMAP-10]: crate::requirements::pool#CMAP-10
    #[must_use]
    pub const fn max_idle_time(&self) -> Option<Duration> {
        self.max_idle_time
    }

    /// Returns `maxConnecting`, the maximum number of connections that a pool establishes at once.
    /// Minimum: 1. Default: 2 ([CMAP-11]).
    ///
    /// [CMAP-11]: crate::requirements::pool#CMAP-11
    #[must_use]
    pub const fn max_connecting(&self) -> u32 {
        self.max_connecting
    }

    /// Returns `waitQueueTimeoutMS`, the time limit for an operation in the wait queue of a pool.
    /// The time limit of an operation ([`timeout`](Self::timeout) or that of the call) replaces
    /// this limit. `None` (0 in connection strings) means no limit. Default: none ([CMAP-12],
    /// [CMAP-13]).
    ///
    /// [CMAP-12]: crate::requirements::pool#CMAP-12
    /// [CMAP-13]: crate::requirements::pool#CMAP-13
    #[must_use]
    pub const fn wait_queue_timeout(&self) -> Option<Duration> {
        self.wait_queue_timeout
    }

    /// Returns the pool options that differ from their defaults, as the event of a pool's creation
    /// reports them ([CMAP-113]).
    ///
    /// [CMAP-113]: crate::requirements::pool#CMAP-113
    #[must_use]
    pub fn reported_pool_options(&self) -> ReportedPoolOptions {
        let unless = |value: u32, default: u32| (value != default).then_some(value);
        ReportedPoolOptions {
            max_pool_size: unless(self.max_pool_size, DEFAULT_MAX_POOL_SIZE),
            min_pool_size: unless(self.min_pool_size, 0),
            max_idle_time: self.max_idle_time,
            max_connecting: unless(self.max_connecting, DEFAULT_MAX_CONNECTING),
            wait_queue_timeout: self.wait_queue_timeout,
        }
    }
}
