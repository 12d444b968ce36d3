//! What goes into a pool and what comes out.

pub use crate::connection::ConnectionId;

use crate::{
    error::Error,
    event::{PoolEvent, ReportedPoolOptions},
    options::{DEFAULT_MAX_CONNECTING, DEFAULT_MAX_POOL_SIZE},
};
use std::{fmt, time::Duration};

/// A request for a connection, by the number that its operation chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckOutId(pub u64);

/// The limits of a pool. All pools of a client have the same (CMAP-5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// `maxPoolSize`: the most connections, pending ones included; 0 for no limit. Default 100.
    pub max_size: u32,
    /// `minPoolSize`: kept open even when unused; never more than `max_size`. Default 0.
    pub min_size: u32,
    /// `maxIdleTimeMS`: connections that were unused for longer are closed. `None` and zero mean
    /// no limit, which is the default.
    pub max_idle: Option<Duration>,
    /// `maxConnecting`: the most connections in establishment; 0 counts as 1. Default 2.
    pub max_connecting: u32,
    /// `waitQueueTimeoutMS`: the longest stay in the queue. It does not bound establishment, which
    /// the deadline of the request does. `None` and zero mean no limit, which is the default.
    pub wait_queue_timeout: Option<Duration>,
    /// Behind the pool's address is a load balancer: services are cleared one by one, and a time
    /// limit tells who has the connections.
    pub load_balanced: bool,
    /// What the created event tells of all this.
    pub reported: ReportedPoolOptions,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            max_size: DEFAULT_MAX_POOL_SIZE,
            min_size: 0,
            max_idle: None,
            max_connecting: DEFAULT_MAX_CONNECTING,
            wait_queue_timeout: None,
            load_balanced: false,
            reported: ReportedPoolOptions::default(),
        }
    }
}

/// Whether a pool hands out connections (CMAP-49 to CMAP-51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Nothing is handed out or made: at the beginning and after a clear.
    Paused,
    /// Serving.
    Ready,
    /// Closed for good.
    Closed,
}

/// The answer to a request for a connection.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a granted connection has to be used and checked in"]
pub enum CheckOut<C> {
    /// The connection, and what the pool held for it.
    Granted(ConnectionId, C),
    /// `Action::Grant` or `Action::Fail` follows.
    Waiting,
    /// No.
    Failed(Error),
}

/// The state in which a connection comes back.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition<C> {
    /// The next operation can use it. The pool holds it until then.
    Healthy(C),
    /// A reply is outstanding that nobody waits for. The client reads it and drops it; until the
    /// connection is [drained](super::Pool::handle_drained) the pool gives it to nobody.
    ReplyDue,
    /// It cannot be used again: it broke, timed out or is out of step with its peer (CMAP-27).
    Broken(Option<Error>),
}

/// What a checked out connection is kept for (LB-43).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinnedFor {
    /// One operation.
    #[default]
    Operation,
    /// A cursor, until it is closed or exhausted.
    Cursor,
    /// A transaction, and the cursors that were opened in it (LB-44).
    Transaction,
}

/// A connection that nobody had checked out of this pool was checked in (CMAP-87).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCheckedOut(pub ConnectionId);

impl fmt::Display for NotCheckedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not checked out of this pool", self.0)
    }
}

impl std::error::Error for NotCheckedOut {}

/// What a pool wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action<C> {
    /// Tell it to subscribers.
    Emit(PoolEvent),
    /// Establish this connection; answer with `handle_established` or `handle_establish_failed`.
    Open(ConnectionId),
    /// Tear this connection down, or abort its establishment. Each opened connection gets exactly
    /// one, also when its establishment failed.
    Close(ConnectionId),
    /// This waiting request gets this connection.
    Grant {
        /// Who asked.
        request: CheckOutId,
        /// What it gets.
        connection: ConnectionId,
        /// What the pool held for the connection.
        content: C,
    },
    /// This waiting request gets nothing.
    Fail {
        /// Who asked.
        request: CheckOutId,
        /// Why.
        error: Error,
    },
    /// Break the operation that uses this connection; it then checks the connection in (CMAP-94).
    Interrupt {
        /// The connection.
        connection: ConnectionId,
        /// What the operation fails with.
        error: Error,
    },
}

/// How many of what a pool has at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections of all kinds: pending, available, in use and draining.
    pub total: u32,
    /// Ready for the next request.
    pub available: u32,
    /// In establishment.
    pub pending: u32,
    /// Checked out.
    pub in_use: u32,
    /// Checked in while a reply was outstanding.
    pub draining: u32,
    /// Requests in the queue; those whose connection is being established have left it (CMAP-82).
    pub waiting: u32,
}
