//! Monitoring events: what the client tells about itself, in the order in which it happened.

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

/// Something that happened, and when.
#[derive(Clone, Debug)]
pub struct Event {
    /// The core's time.
    pub at: Instant,
    /// What happened.
    pub kind: EventKind,
}

/// The families of events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// Discovery and monitoring of servers.
    Sdam(SdamEvent),
    /// Connections and their pools.
    Pool(PoolEvent),
    /// Commands of operations.
    Command(CommandEvent),
    /// The choice of a server for each operation.
    Selection(SelectionEvent),
    /// The beginning and the end of operations.
    Operation(OperationEvent),
    /// Events that were dropped at this place, because listeners did not keep up. The client that
    /// delivers events makes it, whatever is subscribed to.
    Dropped {
        /// How many.
        count: u64,
    },
}

impl Event {
    /// Bytes of the documents that the event holds, such as a command and its reply: what makes one
    /// event so much larger than another that a queue of events has to count it.
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

/// Which families somebody listens to. Events that nobody wants are not built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// Discovery and monitoring.
    pub sdam: bool,
    /// Connections and pools.
    pub pool: bool,
    /// Commands.
    pub command: bool,
    /// Server selection.
    pub selection: bool,
    /// The beginning and the end of operations.
    pub operation: bool,
    /// What is worth knowing even where nobody follows every step: an operation waits for a server,
    /// no server is left. Part of `selection` and of `sdam` as well.
    pub notices: bool,
}

impl Subscriptions {
    /// Everything.
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

/// How a topology came to have no server, from which it never recovers by itself (SDAM-65).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoServersCause {
    /// The client was made without any.
    NoSeeds,
    /// The last one was removed for what it said about itself.
    LastRemoved,
}

/// Events of discovery and monitoring (EVT-12 to EVT-20).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SdamEvent {
    /// The first event: the topology exists (EVT-12).
    TopologyOpening {
        /// Its id.
        topology: TopologyId,
    },
    /// The deployment's description changed (EVT-15). The first time it is an unknown one without
    /// servers that did (EVT-10), and the last time it becomes such a one again (EVT-11).
    TopologyDescriptionChanged {
        /// The topology.
        topology: TopologyId,
        /// What was known before.
        previous: Arc<TopologyDescription>,
        /// What is known now.
        new: Arc<TopologyDescription>,
    },
    /// The last event: the client is closed (EVT-17).
    TopologyClosed {
        /// Its id.
        topology: TopologyId,
    },
    /// A server was added; its monitor starts afterwards (EVT-13).
    ServerOpening {
        /// The topology.
        topology: TopologyId,
        /// The server.
        address: Address,
    },
    /// A server's description changed; a new round trip time alone is no change (EVT-14). There
    /// always is a previous one, if only an unknown one (EVT-9).
    ServerDescriptionChanged {
        /// The topology.
        topology: TopologyId,
        /// The server.
        address: Address,
        /// What was known before.
        previous: Arc<ServerDescription>,
        /// What is known now.
        new: Arc<ServerDescription>,
    },
    /// A server was removed; its monitor has stopped.
    ServerClosed {
        /// The topology.
        topology: TopologyId,
        /// The server.
        address: Address,
    },
    /// No server is left that could be asked for others; operations will fail (SDAM-65).
    NoServers {
        /// The topology.
        topology: TopologyId,
        /// How it came to that.
        cause: NoServersCause,
    },
    /// A check begins, before its socket exists.
    HeartbeatStarted {
        /// The topology.
        topology: TopologyId,
        /// The server.
        address: Address,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u64,
        /// The server's number of it, once known.
        server_connection_id: Option<i64>,
        /// True if the server may hold back its answer until something changes.
        awaited: bool,
    },
    /// A check was answered with `ok: 1` (EVT-19).
    HeartbeatSucceeded {
        /// The topology.
        topology: TopologyId,
        /// The server.
        address: Address,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u64,
        /// The server's number of it, once known.
        server_connection_id: Option<i64>,
        /// As in the started event.
        awaited: bool,
        /// From sending to receiving.
        duration: Duration,
        /// The whole reply.
        reply: Arc<RawDocumentBuf>,
    },
    /// A check failed.
    HeartbeatFailed {
        /// The topology.
        topology: TopologyId,
        /// The server.
        address: Address,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u64,
        /// The server's number of it, once known.
        server_connection_id: Option<i64>,
        /// As in the started event.
        awaited: bool,
        /// From sending to failing.
        duration: Duration,
        /// Why.
        failure: Error,
    },
}

/// Pool options that differ from their defaults, as the created event reports them (CMAP-113).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedPoolOptions {
    /// `maxPoolSize`.
    pub max_pool_size: Option<u32>,
    /// `minPoolSize`.
    pub min_pool_size: Option<u32>,
    /// `maxIdleTimeMS`.
    pub max_idle_time: Option<Duration>,
    /// `maxConnecting`.
    pub max_connecting: Option<u32>,
    /// `waitQueueTimeoutMS`.
    pub wait_queue_timeout: Option<Duration>,
}

/// Why a connection was closed (CMAP-119, texts CMAP-139).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseReason {
    /// The pool was cleared after it was made.
    Stale,
    /// Unused for longer than `maxIdleTimeMS`.
    Idle,
    /// It broke.
    Error,
    /// The pool was closed.
    PoolClosed,
}

/// Why no connection could be checked out (CMAP-121, texts CMAP-140).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckOutFailure {
    /// The pool was closed.
    PoolClosed,
    /// None became free in time.
    Timeout,
    /// A new one could not be established, or the pool is paused.
    ConnectionError,
}

/// Events of connections and pools (CMAP-113 to CMAP-123). `connection` numbers a pool's
/// connections from 1.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PoolEvent {
    /// A pool exists; it is paused.
    Created {
        /// The pool's server.
        address: Address,
        /// What the user chose.
        options: ReportedPoolOptions,
    },
    /// The pool hands out connections from now on.
    Ready {
        /// The pool's server.
        address: Address,
    },
    /// All connections became stale and the pool is paused.
    Cleared {
        /// The pool's server.
        address: Address,
        /// Behind a load balancer: only this service's connections.
        service: Option<ObjectId>,
        /// Connections in use are broken too.
        interrupt_in_use: bool,
    },
    /// The pool is closed for good.
    Closed {
        /// The pool's server.
        address: Address,
    },
    /// A connection is going to be established.
    ConnectionCreated {
        /// The pool's server.
        address: Address,
        /// The connection.
        connection: u64,
    },
    /// A connection is established and authenticated.
    ConnectionReady {
        /// The pool's server.
        address: Address,
        /// The connection.
        connection: u64,
        /// Time since it was created.
        duration: Duration,
    },
    /// A connection is gone.
    ConnectionClosed {
        /// The pool's server.
        address: Address,
        /// The connection.
        connection: u64,
        /// Why.
        reason: CloseReason,
        /// The error, where that is the reason and one is known.
        error: Option<Error>,
    },
    /// An operation asks for a connection.
    CheckOutStarted {
        /// The pool's server.
        address: Address,
    },
    /// It got none.
    CheckOutFailed {
        /// The pool's server.
        address: Address,
        /// Why.
        reason: CheckOutFailure,
        /// The error that the operation got.
        error: Option<Error>,
        /// Time since it asked.
        duration: Duration,
    },
    /// It got one.
    CheckedOut {
        /// The pool's server.
        address: Address,
        /// The connection.
        connection: u64,
        /// Time since it asked.
        duration: Duration,
    },
    /// It gave the connection back.
    CheckedIn {
        /// The pool's server.
        address: Address,
        /// The connection.
        connection: u64,
    },
}

impl PoolEvent {
    /// The pool's server, which every event has (CMAP-113 to CMAP-123).
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

/// Facts that all events of one command share.
#[derive(Clone, Debug)]
pub struct CommandFacts {
    /// The command's name, for example `find`.
    pub name: Arc<str>,
    /// The database it runs on.
    pub database: Arc<str>,
    /// The wire's number of this attempt.
    pub request_id: i32,
    /// The same for all attempts of one operation.
    pub operation_id: u64,
    /// The server.
    pub address: Address,
    /// The pool's number of the connection.
    pub driver_connection_id: u64,
    /// The server's number of it, where it tells.
    pub server_connection_id: Option<i64>,
    /// Behind a load balancer, the service that answered.
    pub service: Option<ObjectId>,
}

/// Events of commands. Documents of sensitive commands are empty (AUTH-22).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CommandEvent {
    /// A command is about to be sent.
    Started {
        /// Which.
        facts: Arc<CommandFacts>,
        /// As it is sent, document sequences included.
        command: RawDocumentBuf,
    },
    /// The server answered with `ok: 1`.
    Succeeded {
        /// Which.
        facts: Arc<CommandFacts>,
        /// From encoding to the decoded reply.
        duration: Duration,
        /// The reply.
        reply: RawDocumentBuf,
    },
    /// The command failed.
    Failed {
        /// Which.
        facts: Arc<CommandFacts>,
        /// From encoding to the failure.
        duration: Duration,
        /// Why.
        failure: Error,
    },
}
