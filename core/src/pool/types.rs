//! The types in the interface of a pool.

pub use crate::connection::ConnectionId;

use crate::{
    error::Error,
    event::{PoolEvent, ReportedPoolOptions},
    options::{DEFAULT_MAX_CONNECTING, DEFAULT_MAX_POOL_SIZE},
};
use std::{fmt, time::Duration};

/// Identifies a check out request. The caller chooses the number, for example an operation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckOutId(pub u64);

/// The options of a pool. All pools of a client have the same options ([CMAP-5]).
///
/// [CMAP-5]: crate::requirements::pool#CMAP-5
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// `maxPoolSize`: the maximum number of connections, pending ones included. 0 means no limit.
    /// Default 100.
    pub max_size: u32,
    /// `minPoolSize`: the minimum number of connections that a ready pool keeps open. A `max_size`
    /// other than 0 limits this number. Default 0.
    pub min_size: u32,
    /// `maxIdleTimeMS`: the pool closes a connection that has been available for longer than this.
    /// `None` and zero mean no limit. Default `None`.
    pub max_idle: Option<Duration>,
    /// `maxConnecting`: the maximum number of pending connections. 0 counts as 1. Default 2.
    pub max_connecting: u32,
    /// `waitQueueTimeoutMS`: the maximum time that a request of
    /// [`check_out`](super::Pool::check_out) spends in the queue. The establishment of its
    /// connection does not count. `None` and zero mean no limit. Default `None`.
    pub wait_queue_timeout: Option<Duration>,
    /// True for the pool of a load balancer (`loadBalanced=true`). Default false.
    pub load_balanced: bool,
    /// The options that `PoolEvent::Created` reports.
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

/// The state of a pool, which decides whether the pool hands out connections ([CMAP-49] to
/// [CMAP-51]).
///
/// [CMAP-49]: crate::requirements::pool#CMAP-49
/// [CMAP-51]: crate::requirements::pool#CMAP-51
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// The pool hands out and creates no connections. This is the state of a new pool, and the
    /// state after a clear of the whole pool.
    Paused,
    /// The pool serves check outs and creates connections.
    Ready,
    /// The pool hands out and creates no connections, and does not leave this state.
    Closed,
}

/// The immediate result of a check out request.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a granted connection has to be used and checked in"]
pub enum CheckOut<C> {
    /// The connection with this id is checked out. The second field is the value that the pool
    /// stored for the connection.
    Granted(ConnectionId, C),
    /// The request waits. `Order::Grant` or `Order::Fail` follows, unless the request is
    /// cancelled.
    Waiting,
    /// The check out failed. No order follows.
    Failed(Error),
}

/// The condition of a connection at check in.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition<C> {
    /// The connection can be used again. The pool stores the value until the next check out.
    Healthy(C),
    /// The operation has ended, but its reply is outstanding. The pool does not hand the connection
    /// out before [`handle_drained`](super::Pool::handle_drained) reports that the late reply was
    /// read and dropped.
    ReplyDue,
    /// The connection cannot be used again, for example after a network error or a timeout
    /// ([CMAP-27]).
    ///
    /// The closed event of the connection reports the error, unless the pool is closed.
    ///
    /// [CMAP-27]: crate::requirements::pool#CMAP-27
    Broken(Option<Error>),
}

/// The use of a checked-out connection. The pool counts connections in each class ([LB-43]).
///
/// [LB-43]: crate::requirements::load_balancers#LB-43
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinnedFor {
    /// One operation uses the connection.
    #[default]
    Operation,
    /// A cursor holds the connection.
    Cursor,
    /// A transaction holds the connection, even if a cursor uses the connection as well ([LB-44]).
    ///
    /// [LB-44]: crate::requirements::load_balancers#LB-44
    Transaction,
}

/// The error of a check in of a connection that is not checked out of this pool ([CMAP-87]).
///
/// [CMAP-87]: crate::requirements::pool#CMAP-87
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCheckedOut(pub ConnectionId);

impl fmt::Display for NotCheckedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not checked out of this pool", self.0)
    }
}

impl std::error::Error for NotCheckedOut {}

/// An order that the caller of a pool carries out, in the order in which the pool gives the
/// orders.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Order<C> {
    /// Give this event to the subscribers.
    Emit(PoolEvent),
    /// Establish this connection, and report the result with `handle_established` or
    /// `handle_establish_failed`.
    Open(ConnectionId),
    /// Tear this connection down, or abort its establishment. A connection whose establishment
    /// failed gets this order as well.
    Close(ConnectionId),
    /// Give this connection to a waiting request.
    Grant {
        /// The request that is granted.
        request: CheckOutId,
        /// The connection, which is now checked out.
        connection: ConnectionId,
        /// The caller's value for the connection.
        content: C,
    },
    /// Report to a waiting request that its check out failed.
    Fail {
        /// The request that failed.
        request: CheckOutId,
        /// The error of the check out.
        error: Error,
    },
    /// Interrupt the use of this connection, which stays checked out until the caller checks it in
    /// ([CMAP-94]).
    ///
    /// [CMAP-94]: crate::requirements::pool#CMAP-94
    Interrupt {
        /// The connection that is in use.
        connection: ConnectionId,
        /// The error with which the interrupted operation fails.
        error: Error,
    },
}

/// The numbers of connections and requests of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All connections: pending, available, in use and draining.
    pub total: u32,
    /// Available connections, which can include stale and idle ones.
    pub available: u32,
    /// Connections that are being established.
    pub pending: u32,
    /// Connections that are checked out.
    pub in_use: u32,
    /// Connections that were checked in while a reply was outstanding, and whose reply has not been
    /// dropped yet.
    pub draining: u32,
    /// Requests in the queue. A request leaves the queue when the establishment of its connection
    /// begins ([CMAP-82]).
    ///
    /// [CMAP-82]: crate::requirements::pool#CMAP-82
    pub waiting: u32,
}
