//! Server discovery and monitoring: finds the servers of a deployment and keeps a description of
//! each.
//!
//! The machine [`Sdam`] holds the topology description, the monitors, and the state of each
//! server's pool. So the machine changes a server description and clears the server's pool in one
//! step (SDAM-85).

mod application;
mod effects;
mod forking;
mod inputs;
mod monitor;
mod order;
mod patience;
mod rtt;
mod rtt_monitor;
mod scan;
mod scan_order;
mod srv_hosts;
mod stale_primary;
mod step;
mod stored_error;
#[cfg(test)]
mod tests;
mod timers;
mod token_bucket;
mod topology;
mod transition;
mod turns;

pub use crate::{
    connection::Phase,
    options::{DEFAULT_HEARTBEAT_FREQUENCY, MIN_HEARTBEAT_FREQUENCY},
};
pub(crate) use application::{is_state_change, words_of_state_change};
pub use order::{ApplicationError, MonitorConnectionId, MonitorTask, Order, SdamOptions};
pub use patience::STRANGER_TIME;
pub use scan::COOLDOWN;
pub use stale_primary::PRIMARY_REFUSED_NOTICE;
pub(crate) use stored_error::without_reply;
pub use timers::Timer;
pub use token_bucket::MAX_EARLY_REPLIES;
pub use topology::{MAX_WIRE_VERSION, MIN_WIRE_VERSION};
pub use transition::{MAX_NAMED_SERVERS, MAX_SERVERS};
pub use turns::MAX_STRANGER_CHECKS;

use crate::{
    address::Address,
    description::{ServerDescription, ServerId, TopologyDescription, TopologyType},
    random::Seed,
    time::Instant,
};
use effects::Effects;
use monitor::Monitor;
use scan::Scan;
use stale_primary::Refusal;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use token_bucket::TokenBucket;
use topology::Topology;

/// A state machine that discovers the servers of a deployment and monitors them.
///
/// After each input, carry out all orders that [`poll_order`](Self::poll_order) returns. Then
/// wait for the next input or for the [`deadline`](Self::deadline). Inputs about connections that
/// were closed, or about servers that were removed, change nothing.
///
/// A clone is an independent machine in the same state.
///
/// ```
/// use onionskin_core::{
///     description::{ServerType, TopologyId},
///     time::Instant,
///     unstable::{hello::HelloAnswer, sdam::{Order, Sdam, SdamOptions}},
/// };
/// use std::time::Duration;
///
/// let seed = "db.example.net".parse()?;
/// let id = TopologyId(bson::oid::ObjectId::from_bytes([0; 12]));
/// let mut sdam = Sdam::new(SdamOptions::new(id, vec![seed]));
/// sdam.start(Instant::ZERO);
///
/// let check = std::iter::from_fn(|| sdam.poll_order()).find_map(|order| match order {
///     Order::Open { connection, .. } => Some(connection),
///     _ => None,
/// });
/// let reply = bson::rawdoc! { "ok": 1, "helloOk": true, "maxWireVersion": 21 };
/// let round_trip = Duration::from_millis(1);
/// let (now, answer) = (Instant::ZERO + round_trip, HelloAnswer::new(reply));
/// sdam.handle_connected(now, check.unwrap(), answer, round_trip);
///
/// let server = sdam.description().servers.values().next().unwrap();
/// assert_eq!(server.server_type, ServerType::Standalone);
/// # Ok::<(), onionskin_core::address::InvalidAddress>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sdam {
    options: SdamOptions,
    /// The current topology description.
    topology: Topology,
    /// The servers of the topology, with their monitors and the states of their pools.
    servers: BTreeMap<ServerId, Server>,
    /// The id of each server, by its address.
    ids: BTreeMap<Address, ServerId>,
    /// Limits the immediate first checks of servers that replies name. A server that gets no token
    /// waits for its first check; see [`Monitor::start`].
    first_checks: TokenBucket,
    /// The queue of orders and the timers.
    out: Effects,
    /// The scans of a client that checks servers on demand; `None` with background monitoring and
    /// behind a load balancer.
    scan: Option<Scan>,
    phase: Life,
    /// True if operations wait for a suitable server or for a scan, by the last
    /// [`Sdam::set_waiting`].
    waiting: bool,
    /// The number of the newest [`ServerId`]; 0 before the first.
    last_server: u64,
    /// The version of the topology description; see [`Sdam::version`].
    version: u64,
}

/// The state of the machine from its construction to its close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Neither [`Sdam::start`] nor [`Sdam::close`] was called yet.
    New,
    /// The machine was started and is not closed.
    Running,
    /// [`Sdam::close`] was called.
    Closed,
}

/// Returns the seed for the random choices of scans. `None` with background monitoring, and behind
/// a load balancer, where no server is checked.
fn scanning(options: &SdamOptions) -> Option<&Seed> {
    options.scanning.as_ref().filter(|_| !options.load_balanced)
}

/// A server of the topology, with its monitor and the state of its pool.
#[derive(Clone, Debug)]
struct Server {
    address: Address,
    /// `None` behind a load balancer (SDAM-111), and until the monitor starts.
    monitor: Option<Monitor>,
    pool: KnownPool,
    /// Set while the server claims to be the primary and is refused as stale.
    refusal: Option<Refusal>,
}

/// The state of a server's pool once all queued orders are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownPool {
    /// No pool was created.
    Absent,
    /// The pool is paused, because it was cleared.
    Paused,
    /// The pool is ready for check outs.
    Ready,
}

impl Sdam {
    /// Returns a machine that has not started: it has no servers and gives no orders. Duplicate
    /// seeds are removed.
    #[must_use]
    pub fn new(mut options: SdamOptions) -> Self {
        let mut seen = BTreeSet::new();
        options.seeds.retain(|seed| seen.insert(seed.clone()));
        Self {
            topology: Topology::new(&options),
            servers: BTreeMap::new(),
            ids: BTreeMap::new(),
            first_checks: TokenBucket::new(MAX_SERVERS as u32),
            out: Effects::new(&options),
            scan: scanning(&options).map(|seed| Scan::new(seed.random())),
            phase: Life::New,
            waiting: false,
            last_server: 0,
            version: 0,
            options,
        }
    }

    /// True if [`poll_order`](Self::poll_order) has an order.
    #[inline]
    pub(crate) fn has_orders(&self) -> bool {
        !self.out.orders.is_empty()
    }

    /// Removes and returns the next order; `None` if there is none. The caller carries out the
    /// orders as they come, one after the other.
    #[must_use]
    pub fn poll_order(&mut self) -> Option<Order> {
        self.out.orders.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) has to be called; `None`
    /// while no timer is armed.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.out.timers.next().map(|(deadline, _)| deadline)
    }

    /// Returns the earliest deadline that was set since the last call; `None` if none was.
    #[inline]
    pub(crate) fn take_armed(&mut self) -> Option<Instant> {
        self.out.timers.take_armed()
    }

    /// Returns the timer that expires first, at the [`deadline`](Self::deadline); `None` while no
    /// timer is armed.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn deadline_reason(&self) -> Option<Timer> {
        self.out.timers.next().map(|(_, timer)| timer)
    }

    /// Returns the topology description.
    #[must_use]
    pub fn description(&self) -> &Arc<TopologyDescription> {
        self.topology.description()
    }

    /// Returns the version of the topology description, which grows with each change, changes of
    /// round trip times included. Equal versions mean equal descriptions.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the id of the server at an address; `None` if the topology has no such server. A
    /// server that is removed and added again gets a new id.
    #[must_use]
    pub fn server_id(&self, address: &Address) -> Option<ServerId> {
        self.ids.get(address).copied()
    }

    /// Returns the description of a server; `None` if no server of the topology has this id.
    #[must_use]
    pub fn server(&self, id: ServerId) -> Option<&Arc<ServerDescription>> {
        self.topology.server(&self.servers.get(&id)?.address)
    }

    /// True once [`close`](Self::close) was called.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Life::Closed
    }

    fn is_load_balanced(&self) -> bool {
        self.topology.description().topology_type == TopologyType::LoadBalanced
    }
}
