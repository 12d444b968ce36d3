//! The options, orders and application errors of [`Sdam`](super::Sdam).

use crate::{
    address::Address,
    connection::Phase,
    description::{ServerId, TopologyId},
    error::{Error, TopologyVersion},
    event::SdamEvent,
    options::{DEFAULT_CONNECT_TIMEOUT, DEFAULT_HEARTBEAT_FREQUENCY},
    random::Seed,
};
use bson::oid::ObjectId;
use std::time::Duration;

/// The options of [`Sdam`](super::Sdam).
#[derive(Clone, Debug)]
pub struct SdamOptions {
    /// The id of the topology in events.
    pub topology_id: TopologyId,
    /// The configured servers, in the user's order. With `direct_connection` or `load_balanced`,
    /// there must be exactly one server ([SDAM-26], [SDAM-27], [SDAM-29]).
    ///
    /// [SDAM-26]: crate::requirements::discovery#SDAM-26
    /// [SDAM-27]: crate::requirements::discovery#SDAM-27
    /// [SDAM-29]: crate::requirements::discovery#SDAM-29
    pub seeds: Vec<Address>,
    /// `replicaSet`: the required set name. `None`, the default, requires none.
    pub replica_set: Option<String>,
    /// `directConnection`: the client connects only to its one seed, whatever the type of that
    /// server, and discovers no other servers. False by default ([SDAM-22]).
    ///
    /// [SDAM-22]: crate::requirements::discovery#SDAM-22
    pub direct_connection: bool,
    /// `loadBalanced`: the one seed is a load balancer and is not monitored. False by default.
    pub load_balanced: bool,
    /// `heartbeatFrequencyMS`: in the polling protocol, the time from the end of a check to the
    /// start of the next; in the streaming protocol, `maxAwaitTimeMS`. A value below
    /// [`MIN_HEARTBEAT_FREQUENCY`](super::MIN_HEARTBEAT_FREQUENCY) counts as this minimum. The
    /// default is [`DEFAULT_HEARTBEAT_FREQUENCY`].
    pub heartbeat_frequency: Duration,
    /// `connectTimeoutMS`: the time limit of a check, connecting included. The limit of an awaited
    /// reply is longer by `heartbeat_frequency`. `None` and zero mean no limit. 10 s by default
    /// ([MON-10], [MON-11], [MON-44]).
    ///
    /// [MON-10]: crate::requirements::monitoring#MON-10
    /// [MON-11]: crate::requirements::monitoring#MON-11
    /// [MON-44]: crate::requirements::monitoring#MON-44
    pub connect_timeout: Option<Duration>,
    /// True if monitors use the streaming protocol with servers that support streaming. True by
    /// default, and ignored with `scanning`. A client derives the value from `serverMonitoringMode`
    /// and from the platform of the process ([MON-1] to [MON-5]).
    ///
    /// [MON-1]: crate::requirements::monitoring#MON-1
    /// [MON-5]: crate::requirements::monitoring#MON-5
    pub streaming: bool,
    /// True if an Unknown server that another member names as primary becomes `PossiblePrimary`.
    /// False by default. The type decides the order of checks in a scan, so `scanning` implies this
    /// option. With background monitoring, `PossiblePrimary` means the same as Unknown ([SDAM-12]).
    ///
    /// [SDAM-12]: crate::requirements::discovery#SDAM-12
    pub possible_primary: bool,
    /// The seed for the random choices of scans, in a client that checks servers on demand. Such a
    /// client does not stream, and its next scan is due `heartbeat_frequency` after the end of the
    /// last one. `None`, the default, means background monitoring.
    pub scanning: Option<Seed>,
    /// True if the client declares no server API version and is not behind a load balancer, which
    /// is the default. A check on an open connection then uses `hello` only if the last reply had
    /// `helloOk: true`, and legacy hello otherwise ([MON-7]).
    ///
    /// [MON-7]: crate::requirements::monitoring#MON-7
    pub legacy_hello: bool,
    /// True if the machine emits events. If false, no event is built, except that of `notices`.
    /// True by default.
    pub subscribed: bool,
    /// True if the machine emits [`SdamEvent::NoServers`] and [`SdamEvent::PrimaryRefused`] even if
    /// `subscribed` is false. False by default.
    pub notices: bool,
}

impl SdamOptions {
    /// Returns the default options with these seeds.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn new(topology_id: TopologyId, seeds: Vec<Address>) -> Self {
        Self {
            topology_id,
            seeds,
            replica_set: None,
            direct_connection: false,
            load_balanced: false,
            heartbeat_frequency: DEFAULT_HEARTBEAT_FREQUENCY,
            connect_timeout: Some(DEFAULT_CONNECT_TIMEOUT),
            streaming: true,
            possible_primary: false,
            scanning: None,
            legacy_hello: true,
            subscribed: true,
            notices: false,
        }
    }
}

/// The id of a connection that a monitor opens. A heartbeat event contains the id of its
/// connection, so the id is allotted before the socket exists ([EVT-21]).
///
/// [EVT-21]: crate::requirements::monitoring_events#EVT-21
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonitorConnectionId(pub u64);

/// The purpose of a monitor's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MonitorTask {
    /// Checks the server.
    Check,
    /// Measures the round trip time while the connection that checks waits for streamed replies
    /// ([MON-45]).
    ///
    /// [MON-45]: crate::requirements::monitoring#MON-45
    Rtt,
}

/// An order of the discovery machine. The caller carries out the orders as they come, one
/// after the other.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Order {
    /// Publish an event.
    Emit(SdamEvent),
    /// Connect and do the handshake, without authentication and without `saslSupportedMechs`. The
    /// reply to the handshake is the outcome of a check or, with [`MonitorTask::Rtt`], a
    /// measurement of the round trip time ([MON-15], [MON-19]).
    ///
    /// Report the reply with `handle_connected`, and an error with `handle_failed`.
    ///
    /// [MON-15]: crate::requirements::monitoring#MON-15
    /// [MON-19]: crate::requirements::monitoring#MON-19
    Open {
        /// The id of the new connection.
        connection: MonitorConnectionId,
        /// The server of the connection.
        #[cfg_attr(
            not(any(test, feature = "unstable-machines")),
            allow(dead_code, reason = "for the module `unstable`")
        )]
        server: ServerId,
        /// The address to connect to.
        address: Address,
        /// The purpose of the connection: checks, or measurements of the round trip time.
        #[cfg_attr(
            not(any(test, feature = "unstable-machines")),
            allow(dead_code, reason = "for the module `unstable`")
        )]
        task: MonitorTask,
    },
    /// Send `hello` on an open connection. Report each reply with `handle_reply`, and an error with
    /// `handle_failed`. The command contains `helloOk: true` and no other argument of the handshake
    /// ([MON-8], [MON-9]).
    ///
    /// [MON-8]: crate::requirements::monitoring#MON-8
    /// [MON-9]: crate::requirements::monitoring#MON-9
    SendHello {
        /// The connection to send on.
        connection: MonitorConnectionId,
        /// True to send the legacy hello command instead of `hello`.
        legacy: bool,
        /// The `topologyVersion` and `maxAwaitTimeMS` of an awaitable `hello`, whose message has
        /// the flag `exhaustAllowed`. `None` for a plain `hello` ([MON-34] to [MON-36]).
        ///
        /// [MON-34]: crate::requirements::monitoring#MON-34
        /// [MON-36]: crate::requirements::monitoring#MON-36
        awaitable: Option<(TopologyVersion, Duration)>,
    },
    /// Close a connection in any state. Later inputs about this connection change nothing.
    Close {
        /// The connection to close.
        connection: MonitorConnectionId,
    },
    /// Create the pool of a server. A new pool is paused.
    CreatePool {
        /// The server of the pool.
        server: ServerId,
        /// The address that the pool's connections connect to.
        address: Address,
    },
    /// Mark a pool as ready, so that connections can be checked out.
    ReadyPool {
        /// The server of the pool.
        server: ServerId,
    },
    /// Clear a pool: its connections become stale, and the pool is paused. With a `service`, only
    /// connections of this service become stale, and the pool is not paused.
    ClearPool {
        /// The server of the pool.
        server: ServerId,
        /// The service whose connections become stale; `None` for all connections. Always `None`
        /// without a load balancer.
        service: Option<ObjectId>,
        /// The error that the pool is cleared for.
        cause: Error,
        /// True if the pool also interrupts connections in use ([MON-63]).
        ///
        /// [MON-63]: crate::requirements::monitoring#MON-63
        interrupt: bool,
    },
    /// Close the pool of a server, for example because the server left the topology.
    ClosePool {
        /// The server of the pool.
        server: ServerId,
    },
    /// A check of the scan under way ended, and other servers are left to check. Let waiting
    /// operations select again. If an operation still waits then, call
    /// [`Sdam::set_waiting`](super::Sdam::set_waiting), which continues the scan.
    CheckEnded,
    /// A scan ended. Let waiting operations select again ([MON-26]).
    ///
    /// [MON-26]: crate::requirements::monitoring#MON-26
    ScanEnded,
    /// The topology description was replaced. Let waiting operations select again ([MON-18]).
    ///
    /// [MON-18]: crate::requirements::monitoring#MON-18
    Publish,
}

/// An error of an operation or of a pool's connection, with the facts that decide its consequences.
#[derive(Clone, Debug)]
pub struct ApplicationError {
    /// The error. The label `SystemOverloadedError` marks overload ([SDAM-104]).
    ///
    /// [SDAM-104]: crate::requirements::discovery#SDAM-104
    pub error: Error,
    /// The phase of the connection in which the error occurred.
    pub phase: Phase,
    /// True if the generation of the connection is older than that of its pool or, behind a load
    /// balancer, of its service ([SDAM-10]).
    ///
    /// [SDAM-10]: crate::requirements::discovery#SDAM-10
    pub is_stale: bool,
    /// The service of the connection behind a load balancer. `None` without a load balancer, and
    /// before the reply to `hello`.
    pub service: Option<ObjectId>,
}
