//! Discovery and monitoring of servers: what deployment is this, and which server can do what?
//!
//! One machine holds the deployment's description, a monitor for each server, and the generations
//! of the pools, so that "the server is lost" and "its pool is stale" are one step (SDAM-85). It is
//! driven as every machine of the core is; see [`Sdam`].

mod action;
mod application;
mod forking;
mod inputs;
mod monitor;
mod outbox;
mod rtt;
mod rtt_monitor;
mod scan;
mod scan_order;
mod staleness;
mod step;
mod stored_error;
#[cfg(test)]
mod tests;
mod timers;
mod token_bucket;
mod topology;
mod transition;

pub use crate::{
    connection::Phase,
    options::{DEFAULT_HEARTBEAT_FREQUENCY, MIN_HEARTBEAT_FREQUENCY},
};
pub use action::{Action, ApplicationError, MonitorConnectionId, MonitorTask, SdamOptions};
pub use scan::COOLDOWN;
pub use timers::Timer;
pub use token_bucket::MAX_EARLY_REPLIES;
pub use topology::{MAX_WIRE_VERSION, MIN_WIRE_VERSION};
pub use transition::MAX_SERVERS;

use crate::{
    address::Address,
    description::{ServerDescription, ServerId, TopologyDescription, TopologyType},
    random::Seed,
    time::Instant,
};
use monitor::Monitor;
use outbox::Outbox;
use scan::Scan;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use token_bucket::TokenBucket;
use topology::Topology;

/// Discovers a deployment and keeps watch over it.
///
/// Feed one input, carry out everything that [`poll_action`](Self::poll_action) gives, then wait
/// for the [`deadline`](Self::deadline). Answers for connections that were closed meanwhile, and
/// facts about servers that are gone, change nothing.
///
/// A clone is a second machine in the same state: what could come next can be tried on it.
///
/// ```
/// use onionskin_core::{
///     description::{ServerType, TopologyId},
///     sdam::{Action, Sdam, SdamOptions},
///     time::Instant,
/// };
/// use std::time::Duration;
///
/// let seed = "db.example.net".parse()?;
/// let id = TopologyId(bson::oid::ObjectId::from_bytes([0; 12]));
/// let mut sdam = Sdam::new(SdamOptions::new(id, vec![seed]));
/// sdam.start(Instant::ZERO);
///
/// let check = std::iter::from_fn(|| sdam.poll_action()).find_map(|action| match action {
///     Action::Open { check, .. } => Some(check),
///     _ => None,
/// });
/// let reply = bson::rawdoc! { "ok": 1, "helloOk": true, "maxWireVersion": 21 };
/// let round_trip = Duration::from_millis(1);
/// sdam.handle_connected(Instant::ZERO + round_trip, check.unwrap(), &reply, round_trip);
///
/// let server = sdam.description().servers.values().next().unwrap();
/// assert_eq!(server.server_type, ServerType::Standalone);
/// # Ok::<(), onionskin_core::address::InvalidAddress>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sdam {
    options: SdamOptions,
    topology: Topology,
    servers: BTreeMap<ServerId, Server>,
    ids: BTreeMap<Address, ServerId>,
    /// How many servers that others name may be checked at once.
    newcomers: TokenBucket,
    out: Outbox,
    /// None where monitors work in the background.
    scan: Option<Scan>,
    phase: Life,
    waiting: bool,
    last_server: u64,
    version: u64,
}

/// Where in its life the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    New,
    Running,
    Closed,
}

/// Behind a load balancer nothing is checked, so there is nothing to scan either.
fn scanning(options: &SdamOptions) -> Option<&Seed> {
    options.scanning.as_ref().filter(|_| !options.load_balanced)
}

/// A server of the topology, with what belongs to it.
#[derive(Clone, Debug)]
struct Server {
    address: Address,
    /// None behind a load balancer (SDAM-111).
    monitor: Option<Monitor>,
    pool: PoolState,
}

/// What was last ordered of a server's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolState {
    None,
    Paused,
    Ready,
}

impl Sdam {
    /// A machine that has not started: it has no servers and wants nothing. A seed given twice
    /// counts once.
    #[must_use]
    pub fn new(mut options: SdamOptions) -> Self {
        let mut seen = BTreeSet::new();
        options.seeds.retain(|seed| seen.insert(seed.clone()));
        Self {
            topology: Topology::new(&options),
            servers: BTreeMap::new(),
            ids: BTreeMap::new(),
            newcomers: TokenBucket::new(MAX_SERVERS as u32),
            out: Outbox::new(&options),
            scan: scanning(&options).map(|seed| Scan::new(seed.random())),
            phase: Life::New,
            waiting: false,
            last_server: 0,
            version: 0,
            options,
        }
    }

    /// The next order, in the order in which they are to be carried out.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.actions.pop_front()
    }

    /// When the machine wants to be woken.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.out.timers.next().map(|(deadline, _)| deadline)
    }

    /// Why it wants to be woken then.
    #[must_use]
    pub fn deadline_reason(&self) -> Option<Timer> {
        self.out.timers.next().map(|(_, timer)| timer)
    }

    /// What is known of the deployment.
    #[must_use]
    pub fn description(&self) -> &Arc<TopologyDescription> {
        self.topology.description()
    }

    /// Grows with each change of the description, round trip times included. Equal versions are
    /// equal descriptions.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The present life of the server at an address.
    #[must_use]
    pub fn server_id(&self, address: &Address) -> Option<ServerId> {
        self.ids.get(address).copied()
    }

    /// What is known of a server; `None` once it is gone.
    #[must_use]
    pub fn server(&self, id: ServerId) -> Option<&Arc<ServerDescription>> {
        self.topology.server(&self.servers.get(&id)?.address)
    }

    /// True once [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Life::Closed
    }

    fn is_load_balanced(&self) -> bool {
        self.topology.description().topology_type == TopologyType::LoadBalanced
    }
}
