//! What goes into the machine and what comes out of it.

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

/// What discovery has to know from the start.
#[derive(Clone, Debug)]
pub struct SdamOptions {
    /// Names the topology in events.
    pub topology_id: TopologyId,
    /// The configured servers, in the user's order. With several of them `direct_connection` and
    /// `load_balanced` are not allowed; the connection string's rules see to that (SDAM-26).
    pub seeds: Vec<Address>,
    /// `replicaSet`: accept only this replica set. None by default.
    pub replica_set: Option<String>,
    /// `directConnection`: talk to the one seed, whatever it is. False by default (SDAM-22).
    pub direct_connection: bool,
    /// `loadBalanced`: the one seed is a load balancer and is not monitored. False by default.
    pub load_balanced: bool,
    /// `heartbeatFrequencyMS`: from the end of a check to the start of the next; never below
    /// [`MIN_HEARTBEAT_FREQUENCY`](super::MIN_HEARTBEAT_FREQUENCY), by default
    /// [`DEFAULT_HEARTBEAT_FREQUENCY`].
    pub heartbeat_frequency: Duration,
    /// `connectTimeoutMS`: how long a check may take, connecting included (MON-10, MON-11); `None`
    /// is no limit. 10 s by default.
    pub connect_timeout: Option<Duration>,
    /// Servers that can push their changes are asked to (`serverMonitoringMode`, already resolved
    /// with the platform the process runs on; MON-1 to MON-5). True by default.
    pub streaming: bool,
    /// A server that another member calls primary is told apart from one of which nothing is known
    /// (`PossiblePrimary`). Clients that scan do so in any case, for the order of their checks; for
    /// others both are the same (SDAM-12). False by default.
    pub possible_primary: bool,
    /// Servers are checked by scans when operations ask for them, and not in the background; the
    /// seed decides between servers whose turn it is equally. Then nothing streams, and
    /// `heartbeat_frequency` is the time between scans. None by default.
    pub scanning: Option<Seed>,
    /// Handshakes use the old name of `hello`, because no server API version is declared (MON-7).
    /// True by default.
    pub legacy_hello: bool,
    /// Somebody listens to the events; without, they are not built. True by default.
    pub subscribed: bool,
    /// Somebody listens to [`SdamEvent::NoServers`], even if to nothing else. False by default.
    pub notices: bool,
}

impl SdamOptions {
    /// The defaults for these seeds.
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

/// One connection that a monitor asked for. It is the driver's connection id of heartbeat events,
/// given out before a socket exists (EVT-21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonitorConnectionId(pub u64);

/// What a monitor's connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MonitorTask {
    /// Checks the server.
    Check,
    /// Measures round trip times while the checking connection waits for pushed replies (MON-45).
    Rtt,
}

/// An order of the machine. Orders are carried out one after the other, as they come.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Publish an event.
    Emit(SdamEvent),
    /// Connect and do the handshake, without authentication and without asking for mechanisms
    /// (MON-15). Its reply is the outcome of the check (MON-19): answer with `handle_connected` or
    /// `handle_failed`.
    Open {
        /// The new connection.
        check: MonitorConnectionId,
        /// Its server.
        server: ServerId,
        /// Where to connect.
        address: Address,
        /// What for; only names threads and logs.
        purpose: MonitorTask,
    },
    /// Send a hello on an open connection; answer with `handle_reply` or `handle_failed`. It
    /// carries `helloOk: true` and nothing else of the handshake (MON-8, MON-9).
    SendHello {
        /// The connection.
        check: MonitorConnectionId,
        /// Under its old name.
        legacy: bool,
        /// `topologyVersion` and `maxAwaitTimeMS`, with `exhaustAllowed` set on the message
        /// (MON-34 to MON-36).
        awaitable: Option<(TopologyVersion, Duration)>,
    },
    /// Close the connection, whatever it is doing; nothing about it is wanted any more.
    Close {
        /// The connection.
        check: MonitorConnectionId,
    },
    /// A pool is needed. It is paused.
    CreatePool {
        /// Its server.
        server: ServerId,
        /// Where to connect.
        address: Address,
    },
    /// The pool may hand out connections.
    ReadyPool {
        /// Its server.
        server: ServerId,
    },
    /// Connections of earlier generations are stale, and the pool is paused unless only one service
    /// of a load balancer is meant.
    ClearPool {
        /// Its server.
        server: ServerId,
        /// Behind a load balancer: only this service's connections.
        service: Option<ObjectId>,
        /// Why.
        cause: Error,
        /// Break connections in use as well (MON-63).
        interrupt: bool,
    },
    /// The server is gone; its pool closes for good.
    ClosePool {
        /// Its server.
        server: ServerId,
    },
    /// A check of the scan under way is over, and others follow. Operations that wait select again;
    /// the next check begins with [`Sdam::set_waiting`](super::Sdam::set_waiting), if an operation
    /// still waits then.
    CheckEnded,
    /// The scan that operations waited for is over (MON-26).
    ScanEnded,
    /// There is a new description; whoever waits for a server looks again (MON-18).
    Publish,
}

/// An error that an operation or a pool's connection met.
#[derive(Clone, Debug)]
pub struct ApplicationError {
    /// The error. Overload is recognised by its label (SDAM-104).
    pub error: Error,
    /// When it occurred.
    pub phase: Phase,
    /// The connection is of an earlier generation than its pool, or than the service that it
    /// talks to. Generations are counted by pools alone (SDAM-10).
    pub is_stale: bool,
    /// Behind a load balancer, the service that the connection talks to.
    pub service: Option<ObjectId>,
}
