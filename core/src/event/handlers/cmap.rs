//! The events of connections and connection pools ([CMAP-113] to [CMAP-123]).
//!
//! [CMAP-113]: crate::requirements::pool#CMAP-113
//! [CMAP-123]: crate::requirements::pool#CMAP-123

use super::{connection_id, event, handler};
use crate::{address::ServerAddress, error::Error, event::PoolEvent};
use bson::oid::ObjectId;
use std::time::Duration;

pub use crate::event::{
    CheckOutFailure as ConnectionCheckoutFailedReason, CloseReason as ConnectionClosedReason,
    ReportedPoolOptions as ConnectionPoolOptions,
};

event! {
    /// A pool was created. A new pool is paused.
    PoolCreatedEvent {
        /// The address of the pool's server.
        address: ServerAddress,
        /// The pool options that differ from their defaults; always set.
        options: Option<ConnectionPoolOptions>,
    }
}

event! {
    /// The pool is ready: it makes connections and grants check outs.
    PoolReadyEvent {
        /// The address of the pool's server.
        address: ServerAddress,
    }
}

event! {
    /// The pool was cleared: its connections became stale, and the pool is paused.
    PoolClearedEvent {
        /// The address of the pool's server.
        address: ServerAddress,
        /// Behind a load balancer, the service whose connections became stale. The pool is not
        /// paused then.
        service_id: Option<ObjectId>,
        /// True if operations on connections in use are interrupted.
        interrupt_in_use_connections: bool,
    }
}

event! {
    /// The pool was closed.
    PoolClosedEvent {
        /// The address of the pool's server.
        address: ServerAddress,
    }
}

event! {
    /// A connection was created. Its establishment starts after this event.
    ConnectionCreatedEvent {
        /// The address of the pool's server.
        address: ServerAddress,
        /// The number of the connection in its pool, from 1.
        connection_id: u32,
    }
}

event! {
    /// A connection is established and authenticated.
    ConnectionReadyEvent {
        /// The address of the pool's server.
        address: ServerAddress,
        /// The number of the connection in its pool, from 1.
        connection_id: u32,
        /// The time since the connection was created.
        duration: Duration,
    }
}

event! {
    /// A connection was closed.
    ConnectionClosedEvent {
        /// The address of the pool's server.
        address: ServerAddress,
        /// The number of the connection in its pool, from 1.
        connection_id: u32,
        /// The reason of the close.
        reason: ConnectionClosedReason,
        /// The error, if `reason` is [`ConnectionClosedReason::Error`] and the error is known.
        error: Option<Error>,
    }
}

event! {
    /// An operation requests a connection.
    ConnectionCheckoutStartedEvent {
        /// The address of the pool's server.
        address: ServerAddress,
    }
}

event! {
    /// The check out failed.
    ConnectionCheckoutFailedEvent {
        /// The address of the pool's server.
        address: ServerAddress,
        /// The reason of the failure.
        reason: ConnectionCheckoutFailedReason,
        /// The error of the failed check out.
        error: Option<Error>,
        /// The time since the check out started.
        duration: Duration,
    }
}

event! {
    /// The check out succeeded.
    ConnectionCheckedOutEvent {
        /// The address of the pool's server.
        address: ServerAddress,
        /// The number of the connection in its pool, from 1.
        connection_id: u32,
        /// The time since the check out started.
        duration: Duration,
    }
}

event! {
    /// A connection was checked in.
    ConnectionCheckedInEvent {
        /// The address of the pool's server.
        address: ServerAddress,
        /// The number of the connection in its pool, from 1.
        connection_id: u32,
    }
}

/// The events of connections and connection pools.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CmapEvent {
    /// A pool was created.
    PoolCreated(PoolCreatedEvent),
    /// A pool is ready.
    PoolReady(PoolReadyEvent),
    /// A pool was cleared.
    PoolCleared(PoolClearedEvent),
    /// A pool was closed.
    PoolClosed(PoolClosedEvent),
    /// A connection was created.
    ConnectionCreated(ConnectionCreatedEvent),
    /// A connection is established.
    ConnectionReady(ConnectionReadyEvent),
    /// A connection was closed.
    ConnectionClosed(ConnectionClosedEvent),
    /// A check out started.
    ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent),
    /// A check out failed.
    ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent),
    /// A connection was checked out.
    ConnectionCheckedOut(ConnectionCheckedOutEvent),
    /// A connection was checked in.
    ConnectionCheckedIn(ConnectionCheckedInEvent),
}

handler! {
    /// The methods that a handler of the events of connections and pools has.
    ///
    /// The names are those of the official driver. An application can also give one function for
    /// all events of the family, with
    /// [`EventHandler::callback`](crate::options::EventHandler::callback).
    ///
    /// ```
    /// use onionskin_core::{
    ///     event::handlers::cmap::{CmapEventHandler, PoolClearedEvent},
    ///     options::ClientOptions,
    /// };
    /// use std::sync::Arc;
    ///
    /// struct Print;
    ///
    /// impl CmapEventHandler for Print {
    ///     fn handle_pool_cleared_event(&self, event: PoolClearedEvent) {
    ///         println!("{event:?}");
    ///     }
    /// }
    ///
    /// let options = ClientOptions::builder().cmap_event_handler(Arc::new(Print)).build();
    /// ```
    CmapEventHandler of CmapEvent {
        /// A pool was created.
        handle_pool_created_event: PoolCreated(PoolCreatedEvent);
        /// A pool is ready.
        handle_pool_ready_event: PoolReady(PoolReadyEvent);
        /// A pool was cleared.
        handle_pool_cleared_event: PoolCleared(PoolClearedEvent);
        /// A pool was closed.
        handle_pool_closed_event: PoolClosed(PoolClosedEvent);
        /// A connection was created.
        handle_connection_created_event: ConnectionCreated(ConnectionCreatedEvent);
        /// A connection is established.
        handle_connection_ready_event: ConnectionReady(ConnectionReadyEvent);
        /// A connection was closed.
        handle_connection_closed_event: ConnectionClosed(ConnectionClosedEvent);
        /// A check out started.
        handle_connection_checkout_started_event:
            ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent);
        /// A check out failed.
        handle_connection_checkout_failed_event:
            ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent);
        /// A connection was checked out.
        handle_connection_checked_out_event: ConnectionCheckedOut(ConnectionCheckedOutEvent);
        /// A connection was checked in.
        handle_connection_checked_in_event: ConnectionCheckedIn(ConnectionCheckedInEvent);
    }
}

impl From<&PoolEvent> for CmapEvent {
    fn from(event: &PoolEvent) -> Self {
        let address = event.address().into();
        match *event {
            PoolEvent::Created { ref options, .. } => {
                let options = Some(options.clone());
                Self::PoolCreated(PoolCreatedEvent { address, options })
            }
            PoolEvent::Ready { .. } => Self::PoolReady(PoolReadyEvent { address }),
            PoolEvent::Cleared {
                service,
                interrupt_in_use,
                ..
            } => Self::PoolCleared(PoolClearedEvent {
                address,
                service_id: service,
                interrupt_in_use_connections: interrupt_in_use,
            }),
            PoolEvent::Closed { .. } => Self::PoolClosed(PoolClosedEvent { address }),
            PoolEvent::CheckOutStarted { .. } => {
                Self::ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent { address })
            }
            PoolEvent::CheckOutFailed {
                reason,
                ref error,
                duration,
                ..
            } => Self::ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent {
                address,
                reason,
                error: error.clone(),
                duration,
            }),
            PoolEvent::ConnectionCreated { connection, .. }
            | PoolEvent::ConnectionReady { connection, .. }
            | PoolEvent::ConnectionClosed { connection, .. }
            | PoolEvent::CheckedOut { connection, .. }
            | PoolEvent::CheckedIn { connection, .. } => {
                Self::of_connection(event, address, connection_id(connection))
            }
        }
    }
}

impl CmapEvent {
    /// Returns an event about one connection.
    fn of_connection(event: &PoolEvent, address: ServerAddress, connection_id: u32) -> Self {
        match *event {
            PoolEvent::ConnectionReady { duration, .. } => {
                Self::ConnectionReady(ConnectionReadyEvent {
                    address,
                    connection_id,
                    duration,
                })
            }
            PoolEvent::ConnectionClosed {
                reason, ref error, ..
            } => Self::ConnectionClosed(ConnectionClosedEvent {
                address,
                connection_id,
                reason,
                error: error.clone(),
            }),
            PoolEvent::CheckedOut { duration, .. } => {
                Self::ConnectionCheckedOut(ConnectionCheckedOutEvent {
                    address,
                    connection_id,
                    duration,
                })
            }
            PoolEvent::CheckedIn { .. } => Self::ConnectionCheckedIn(ConnectionCheckedInEvent {
                address,
                connection_id,
            }),
            _ => Self::ConnectionCreated(ConnectionCreatedEvent {
                address,
                connection_id,
            }),
        }
    }
}
