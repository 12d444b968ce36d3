//! Events of connections and connection pools, with their log messages (CMAP-126 to CMAP-140).

use super::table::{Fields, Millis, Visit, displayed, events};
use crate::{address::Address, error::Error};
use bson::oid::ObjectId;
use std::{fmt, time::Duration};

/// The pool options that differ from their defaults. The field of an option that has its default is
/// `None` ([CMAP-113]).
///
/// [CMAP-113]: crate::requirements::pool#CMAP-113
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedPoolOptions {
    /// The option `maxPoolSize`; 0 means no limit. Default: 100.
    pub max_pool_size: Option<u32>,
    /// The option `minPoolSize`. Default: 0.
    pub min_pool_size: Option<u32>,
    /// The option `maxIdleTimeMS`. Default: no limit.
    pub max_idle_time: Option<Duration>,
    /// The option `maxConnecting`. Default: 2.
    pub max_connecting: Option<u32>,
    /// The option `waitQueueTimeoutMS`. Default: no limit.
    pub wait_queue_timeout: Option<Duration>,
}

impl Fields for ReportedPoolOptions {
    fn visit(&self, _: &'static str, visit: &mut Visit<'_>) {
        self.max_idle_time.map(Millis).visit("maxIdleTimeMS", visit);
        self.min_pool_size.visit("minPoolSize", visit);
        self.max_pool_size.visit("maxPoolSize", visit);
        self.max_connecting.visit("maxConnecting", visit);
        let timeout = self.wait_queue_timeout.map(Millis);
        timeout.visit("waitQueueTimeoutMS", visit);
    }
}

/// The reason why a connection was closed. Log messages have a text for each reason ([CMAP-119],
/// [CMAP-139]).
///
/// [CMAP-119]: crate::requirements::pool#CMAP-119
/// [CMAP-139]: crate::requirements::pool#CMAP-139
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseReason {
    /// The pool, or the service of the connection behind a load balancer, was cleared after the
    /// connection was created.
    Stale,
    /// The connection was unused for `maxIdleTimeMS`.
    Idle,
    /// An error occurred, for example while the connection was established, used or drained, or the
    /// server closed an idle connection.
    Error,
    /// The pool was closed.
    PoolClosed,
}

/// Writes the text that log messages show (CMAP-139).
impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "Connection became stale because the pool was cleared",
            Self::Idle => {
                "Connection has been available but unused for longer than the configured max idle \
                 time"
            }
            Self::Error => "An error occurred while using the connection",
            Self::PoolClosed => "Connection pool was closed",
        })
    }
}

/// The reason why a check out failed. Log messages have a text for each reason ([CMAP-121],
/// [CMAP-140]).
///
/// [CMAP-121]: crate::requirements::pool#CMAP-121
/// [CMAP-140]: crate::requirements::pool#CMAP-140
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckOutFailure {
    /// The pool was closed.
    PoolClosed,
    /// No connection became available within the time limit, or the operation ended while it
    /// waited.
    Timeout,
    /// A new connection could not be established, the pool was cleared or is paused, or too many
    /// requests wait for a connection.
    ConnectionError,
}

/// Writes the text that log messages show (CMAP-140).
impl fmt::Display for CheckOutFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PoolClosed => "Connection pool was closed",
            Self::Timeout => "Wait queue timeout elapsed without a connection becoming available",
            Self::ConnectionError => "An error occurred while trying to establish a new connection",
        })
    }
}

displayed!(CloseReason, CheckOutFailure);

/// The text of a log message about a connection: `$words`, the address and the connection id.
macro_rules! connection {
    ($words:literal) => {
        concat!(
            $words,
            ": address={server}, driver-generated ID={driverConnectionId}"
        )
    };
}

events! {
    /// Events of connections and connection pools.
    ///
    /// The field `connection` is the number of the connection in its pool, from 1.
    ///
    /// See [CMAP-113] to [CMAP-123].
    ///
    /// [CMAP-113]: crate::requirements::pool#CMAP-113
    /// [CMAP-123]: crate::requirements::pool#CMAP-123
    #[derive(Clone, Debug, PartialEq)]
    pub enum PoolEvent {
        /// A pool was created. A new pool is paused.
        Created {
            /// The address of the pool's server.
            address: Address => "server",
            /// The pool options that differ from their defaults.
            options: ReportedPoolOptions => "options",
        }
        trace ("{address} pool created: {options:?}")
        log "Connection pool created",
            "Connection pool created for {server}[ using options {options}]";

        /// The pool is ready: it makes connections and grants check outs.
        Ready {
            /// The address of the pool's server.
            address: Address => "server",
        }
        trace ("{address} pool ready")
        log "Connection pool ready", "Connection pool ready for {server}";

        /// The pool was cleared: its connections became stale, and the pool is paused.
        Cleared {
            /// The address of the pool's server.
            address: Address => "server",
            /// Behind a load balancer, the service whose connections became stale. The pool is not
            /// paused then.
            service: Option<ObjectId> => "serviceId",
            /// True if operations on connections in use are interrupted.
            interrupt_in_use: bool,
        }
        trace ("{address} pool cleared{}", scope(service.as_ref(), *interrupt_in_use))
        log "Connection pool cleared",
            "Connection pool for {server} cleared[ for serviceId {serviceId}]";

        /// The pool was closed.
        Closed {
            /// The address of the pool's server.
            address: Address => "server",
        }
        trace ("{address} pool closed")
        log "Connection pool closed", "Connection pool closed for {server}";

        /// A connection was created. Its establishment starts after this event.
        ConnectionCreated {
            /// The address of the pool's server.
            address: Address => "server",
            /// The number of the connection.
            connection: u64 => "driverConnectionId",
        }
        trace ("{address} connection {connection} created")
        log "Connection created", connection!("Connection created");

        /// A connection is established and authenticated.
        ConnectionReady {
            /// The address of the pool's server.
            address: Address => "server",
            /// The number of the connection.
            connection: u64 => "driverConnectionId",
            /// The time since the connection was created.
            duration: Duration => "durationMS",
        }
        trace ("{address} connection {connection} ready after {duration:?}")
        log "Connection ready",
            concat!(connection!("Connection ready"), ", established in={durationMS} ms");

        /// A connection was closed.
        ConnectionClosed {
            /// The address of the pool's server.
            address: Address => "server",
            /// The number of the connection.
            connection: u64 => "driverConnectionId",
            /// The reason of the close.
            reason: CloseReason => "reason",
            /// The error, if `reason` is [`CloseReason::Error`] and the error is known.
            error: Option<Error> =>
                ("error", error.as_ref().filter(|_| *reason == CloseReason::Error)),
        }
        trace ("{address} connection {connection} closed: {reason:?} {error:?}")
        log "Connection closed",
            concat!(connection!("Connection closed"), ". Reason: {reason}.[ Error: {error}]");

        /// An operation requests a connection.
        CheckOutStarted {
            /// The address of the pool's server.
            address: Address => "server",
        }
        trace ("{address} check-out started")
        log "Connection checkout started", "Checkout started for connection to {server}";

        /// The check out failed.
        CheckOutFailed {
            /// The address of the pool's server.
            address: Address => "server",
            /// The reason of the failure.
            reason: CheckOutFailure => "reason",
            /// The error of the failed check out.
            error: Option<Error> =>
                ("error", error.as_ref().filter(|_| *reason == CheckOutFailure::ConnectionError)),
            /// The time since the check out started.
            duration: Duration => "durationMS",
        }
        trace ("{address} check-out failed after {duration:?}: {reason:?}")
        log "Connection checkout failed",
            "Checkout failed for connection to {server}. Reason: {reason}.[ Error: {error}.] \
             Duration: {durationMS} ms";

        /// The check out succeeded.
        CheckedOut {
            /// The address of the pool's server.
            address: Address => "server",
            /// The number of the connection.
            connection: u64 => "driverConnectionId",
            /// The time since the check out started.
            duration: Duration => "durationMS",
        }
        trace ("{address} connection {connection} checked out after {duration:?}")
        log "Connection checked out",
            concat!(connection!("Connection checked out"), ", duration={durationMS} ms");

        /// A connection was checked in.
        CheckedIn {
            /// The address of the pool's server.
            address: Address => "server",
            /// The number of the connection.
            connection: u64 => "driverConnectionId",
        }
        trace ("{address} connection {connection} checked in")
        log "Connection checked in", connection!("Connection checked in");
    }
}

/// Returns the part of a `Display` line about the connections that a clear concerns.
fn scope(service: Option<&ObjectId>, interrupt_in_use: bool) -> String {
    match service {
        Some(service) => format!(" of service {service}"),
        None => format!(", interrupting: {interrupt_in_use}"),
    }
}

impl PoolEvent {
    /// Returns the address of the pool's server, which every event has.
    ///
    /// ```
    /// use onionskin_core::{address::Address, event::PoolEvent};
    ///
    /// let address = Address::tcp("db1.example.net", 27017);
    /// let event = PoolEvent::Ready { address: address.clone() };
    /// assert_eq!(*event.address(), address);
    /// ```
    ///
    /// See [CMAP-113] to [CMAP-123].
    ///
    /// [CMAP-113]: crate::requirements::pool#CMAP-113
    /// [CMAP-123]: crate::requirements::pool#CMAP-123
    #[must_use]
    pub const fn address(&self) -> &Address {
        match self {
            Self::Created { address, .. }
            | Self::Ready { address }
            | Self::Cleared { address, .. }
            | Self::Closed { address }
            | Self::ConnectionCreated { address, .. }
            | Self::ConnectionReady { address, .. }
            | Self::ConnectionClosed { address, .. }
            | Self::CheckOutStarted { address }
            | Self::CheckOutFailed { address, .. }
            | Self::CheckedOut { address, .. }
            | Self::CheckedIn { address, .. } => address,
        }
    }
}
