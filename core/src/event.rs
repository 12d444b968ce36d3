//! Monitoring events: reports of the client about its own work, in the order in which it happened.

mod operation;
mod selection;

pub use operation::{OperationEvent, OperationFacts};
pub use selection::{SelectionEvent, SelectionFacts};

use crate::{
    address::Address,
    description::{ServerDescription, TopologyDescription, TopologyId},
    error::Error,
    time::Instant,
};
use bson::{RawDocumentBuf, oid::ObjectId};
use std::{sync::Arc, time::Duration};

/// An event with the time at which it occurred.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time of the event, on the clock of the shell.
    pub at: Instant,
    /// The content of the event.
    pub kind: EventKind,
}

/// The content of an event, by family.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// Events of server discovery and monitoring.
    Sdam(SdamEvent),
    /// Events of connections and connection pools.
    Pool(PoolEvent),
    /// Events of commands.
    Command(CommandEvent),
    /// Events of server selection.
    Selection(SelectionEvent),
    /// The start and the end of operations.
    Operation(OperationEvent),
    /// A report that events were dropped at this place, because listeners were too slow. The client
    /// that delivers the events creates this report, independent of the subscriptions.
    Dropped {
        /// The number of dropped events.
        count: u64,
    },
}

impl Event {
    /// Returns the size in bytes of the documents in the event, such as a command or a reply. A
    /// queue of events limits its memory by this size.
    #[must_use]
    pub fn document_bytes(&self) -> usize {
        match &self.kind {
            EventKind::Command(CommandEvent::Started { command, .. }) => command.as_bytes().len(),
            EventKind::Command(CommandEvent::Succeeded { reply, .. }) => reply.as_bytes().len(),
            EventKind::Sdam(SdamEvent::HeartbeatSucceeded { reply, .. }) => reply.as_bytes().len(),
            _ => 0,
        }
    }
}

/// The event families that have a listener. Events of other families are not built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// Server discovery and monitoring.
    pub sdam: bool,
    /// Connections and connection pools.
    pub pool: bool,
    /// Commands.
    pub command: bool,
    /// Server selection.
    pub selection: bool,
    /// The start and the end of operations.
    pub operation: bool,
    /// Important events only: an operation waits for a server, or the topology has no server left.
    /// The families `selection` and `sdam` contain these events as well.
    pub notices: bool,
}

impl Subscriptions {
    /// Returns the subscriptions to all families.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            sdam: true,
            pool: true,
            command: true,
            selection: true,
            operation: true,
            notices: true,
        }
    }
}

/// The reason why a topology has no servers. Such a topology never gets servers again (SDAM-65).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoServersCause {
    /// The client was created without seeds.
    NoSeeds,
    /// The last server was removed because its reply did not fit the topology.
    LastRemoved,
}

/// Events of server discovery and monitoring (EVT-12 to EVT-20).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SdamEvent {
    /// The topology was created. This is the first event (EVT-12).
    TopologyOpening {
        /// The id of the topology.
        topology: TopologyId,
    },
    /// The topology description changed (EVT-15). The first such event starts from a description of
    /// type `Unknown` without servers (EVT-10), and the last one ends with such a description
    /// (EVT-11).
    TopologyDescriptionChanged {
        /// The id of the topology.
        topology: TopologyId,
        /// The topology description before the change.
        previous: Arc<TopologyDescription>,
        /// The topology description after the change.
        new: Arc<TopologyDescription>,
    },
    /// The client was closed. This is the last event (EVT-17).
    TopologyClosed {
        /// The id of the topology.
        topology: TopologyId,
    },
    /// A server was added to the topology. Its monitor starts after this event (EVT-13).
    ServerOpening {
        /// The id of the topology.
        topology: TopologyId,
        /// The address of the server.
        address: Address,
    },
    /// A server description changed. A new round trip time alone is no change (EVT-14). The
    /// previous description always exists; at first it is of type `Unknown` (EVT-9).
    ServerDescriptionChanged {
        /// The id of the topology.
        topology: TopologyId,
        /// The address of the server.
        address: Address,
        /// The server description before the change.
        previous: Arc<ServerDescription>,
        /// The server description after the change.
        new: Arc<ServerDescription>,
    },
    /// A server was removed from the topology, and its monitor stopped.
    ServerClosed {
        /// The id of the topology.
        topology: TopologyId,
        /// The address of the server.
        address: Address,
    },
    /// The topology has no servers, and no way to discover any. Operations will fail (SDAM-65).
    NoServers {
        /// The id of the topology.
        topology: TopologyId,
        /// The reason why there are no servers.
        cause: NoServersCause,
    },
    /// A check of a server starts. If the check needs a new socket, this event precedes the socket
    /// (EVT-18).
    HeartbeatStarted {
        /// The id of the topology.
        topology: TopologyId,
        /// The address of the server.
        address: Address,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u64,
        /// The server's number of the monitoring connection; `None` before the first reply.
        server_connection_id: Option<i64>,
        /// True if the server may delay its reply until its state changes.
        awaited: bool,
    },
    /// A check succeeded: the server replied with `ok: 1` (EVT-19).
    HeartbeatSucceeded {
        /// The id of the topology.
        topology: TopologyId,
        /// The address of the server.
        address: Address,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u64,
        /// The server's number of the monitoring connection, if the server reported one.
        server_connection_id: Option<i64>,
        /// The value of the started event.
        awaited: bool,
        /// The round trip time of `hello`. If `awaited` is true, the time since the started event.
        duration: Duration,
        /// The whole reply.
        reply: Arc<RawDocumentBuf>,
    },
    /// A check failed (EVT-20).
    HeartbeatFailed {
        /// The id of the topology.
        topology: TopologyId,
        /// The address of the server.
        address: Address,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u64,
        /// The server's number of the monitoring connection; `None` if no reply reported one.
        server_connection_id: Option<i64>,
        /// The value of the started event.
        awaited: bool,
        /// The time since the started event.
        duration: Duration,
        /// The error of the check.
        failure: Error,
    },
}

/// The pool options that differ from their defaults (CMAP-113). The other fields are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedPoolOptions {
    /// The option `maxPoolSize`.
    pub max_pool_size: Option<u32>,
    /// The option `minPoolSize`.
    pub min_pool_size: Option<u32>,
    /// The option `maxIdleTimeMS`.
    pub max_idle_time: Option<Duration>,
    /// The option `maxConnecting`.
    pub max_connecting: Option<u32>,
    /// The option `waitQueueTimeoutMS`.
    pub wait_queue_timeout: Option<Duration>,
}

/// The reason why a connection was closed (CMAP-119). Log messages have a text for each reason
/// (CMAP-139).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseReason {
    /// The pool was cleared after the connection was created.
    Stale,
    /// The connection was unused for longer than `maxIdleTimeMS`.
    Idle,
    /// An error occurred while the connection was established or used.
    Error,
    /// The pool was closed.
    PoolClosed,
}

/// The reason why a check out failed (CMAP-121). Log messages have a text for each reason
/// (CMAP-140).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckOutFailure {
    /// The pool was closed.
    PoolClosed,
    /// No connection became available within the time limit.
    Timeout,
    /// A new connection could not be established, or the pool is paused.
    ConnectionError,
}

/// Events of connections and connection pools (CMAP-113 to CMAP-123). The field `connection` is the
/// number of the connection in its pool, from 1.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PoolEvent {
    /// A pool was created. A new pool is paused.
    Created {
        /// The address of the pool's server.
        address: Address,
        /// The pool options that differ from their defaults.
        options: ReportedPoolOptions,
    },
    /// The pool is ready: it makes connections and grants check outs.
    Ready {
        /// The address of the pool's server.
        address: Address,
    },
    /// The pool was cleared: its connections became stale, and it is paused.
    Cleared {
        /// The address of the pool's server.
        address: Address,
        /// Behind a load balancer, the service whose connections became stale. The pool is not
        /// paused then.
        service: Option<ObjectId>,
        /// True if connections in use are closed as well.
        interrupt_in_use: bool,
    },
    /// The pool was closed.
    Closed {
        /// The address of the pool's server.
        address: Address,
    },
    /// A connection was created. Its establishment starts after this event.
    ConnectionCreated {
        /// The address of the pool's server.
        address: Address,
        /// The number of the connection.
        connection: u64,
    },
    /// A connection is established and authenticated.
    ConnectionReady {
        /// The address of the pool's server.
        address: Address,
        /// The number of the connection.
        connection: u64,
        /// The time since the connection was created.
        duration: Duration,
    },
    /// A connection was closed.
    ConnectionClosed {
        /// The address of the pool's server.
        address: Address,
        /// The number of the connection.
        connection: u64,
        /// The reason of the close.
        reason: CloseReason,
        /// The error, if the reason is an error and the error is known.
        error: Option<Error>,
    },
    /// An operation requests a connection.
    CheckOutStarted {
        /// The address of the pool's server.
        address: Address,
    },
    /// The check out failed.
    CheckOutFailed {
        /// The address of the pool's server.
        address: Address,
        /// The reason of the failure.
        reason: CheckOutFailure,
        /// The error that the operation got.
        error: Option<Error>,
        /// The time since the check out started.
        duration: Duration,
    },
    /// The check out succeeded.
    CheckedOut {
        /// The address of the pool's server.
        address: Address,
        /// The number of the connection.
        connection: u64,
        /// The time since the check out started.
        duration: Duration,
    },
    /// A connection was checked in.
    CheckedIn {
        /// The address of the pool's server.
        address: Address,
        /// The number of the connection.
        connection: u64,
    },
}

impl PoolEvent {
    /// Returns the address of the pool's server, which every event has (CMAP-113 to CMAP-123).
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

/// The fields that all events of one command have in common.
#[derive(Clone, Debug)]
pub struct CommandFacts {
    /// The name of the command, for example `find`.
    pub name: Arc<str>,
    /// The database on which the command runs.
    pub database: Arc<str>,
    /// The request id of the message. Each attempt has its own.
    pub request_id: i32,
    /// The operation id, which is the same for all attempts of an operation.
    pub operation_id: u64,
    /// The address of the server.
    pub address: Address,
    /// The number of the connection in its pool.
    pub driver_connection_id: u64,
    /// The server's number of the connection, if the server reported one.
    pub server_connection_id: Option<i64>,
    /// Behind a load balancer, the id of the service that runs the command.
    pub service: Option<ObjectId>,
}

/// Events of commands. The documents of sensitive commands are empty (AUTH-22).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CommandEvent {
    /// A command is about to be sent.
    Started {
        /// The name, the ids and the connection of the command.
        facts: Arc<CommandFacts>,
        /// The command as it is sent. Document sequences are included as arrays.
        command: RawDocumentBuf,
    },
    /// The server replied with `ok: 1`.
    Succeeded {
        /// The name, the ids and the connection of the command.
        facts: Arc<CommandFacts>,
        /// The time from the encoding of the command to the decoded reply.
        duration: Duration,
        /// The reply.
        reply: RawDocumentBuf,
    },
    /// The command failed.
    Failed {
        /// The name, the ids and the connection of the command.
        facts: Arc<CommandFacts>,
        /// The time from the encoding of the command to the failure.
        duration: Duration,
        /// The error of the command.
        failure: Error,
    },
}
