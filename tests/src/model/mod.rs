//! The independent judge of discovery: a slow, obvious model of the topology, of what errors of
//! operations do to it, of the pools' generations and of the monitors' pace.
//!
//! It is written as the tables of the requirements read (sections A.2 to A.8, C.2, E.4 and E.5 of
//! the discovery file), not as the core is built, and shares no code with the core's machine: only
//! its plain types. Whatever both agree on was found twice. It lives among the tests and not among
//! the simulations because it judges one machine of the core and is of no use without that.
//!
//! Each rule can be switched to a [`Mistake`], so that a net can be shown to catch it.

mod application;
mod compare;
mod hello;
mod mistake;
mod monitor;
pub mod pool;
mod primary;
mod topology;

pub use compare::{Machine, PoolView};
pub use mistake::Mistake;

use bson::oid::ObjectId;
use monitor::{Credit, Monitor, Stream};
use onionskin_core::{
    address::Address,
    description::{ServerType, TopologyType},
    error::TopologyVersion,
    time::Instant,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What the model has to know from the start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Config {
    /// The configured servers.
    pub seeds: BTreeSet<Address>,
    /// `replicaSet`.
    pub replica_set: Option<String>,
    /// `directConnection`.
    pub direct: bool,
    /// `loadBalanced`.
    pub load_balanced: bool,
    /// Servers that can push changes are asked to.
    pub streaming: bool,
    /// `heartbeatFrequencyMS`.
    pub heartbeat: Duration,
    /// `connectTimeoutMS`; none is no limit.
    pub connect_timeout: Option<Duration>,
}

impl Config {
    /// The defaults for these seeds: polling every ten seconds, checks without limit.
    #[must_use]
    pub fn new(seeds: impl IntoIterator<Item = Address>) -> Self {
        Self {
            seeds: seeds.into_iter().collect(),
            replica_set: None,
            direct: false,
            load_balanced: false,
            streaming: false,
            heartbeat: Duration::from_secs(10),
            connect_timeout: None,
        }
    }
}

/// Whether a server has an error, and what its text must contain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Complaint {
    /// No error.
    None,
    /// One whose text contains this.
    Text(String),
    /// The requirements do not say.
    Unsaid,
}

/// What is known of a server (table A.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    kind: ServerType,
    error: Complaint,
    min_wire: i64,
    max_wire: i64,
    me: Option<Address>,
    hosts: BTreeSet<Address>,
    passives: BTreeSet<Address>,
    arbiters: BTreeSet<Address>,
    tags: Vec<(String, String)>,
    set_name: Option<String>,
    election_id: Option<[u8; 12]>,
    set_version: Option<i64>,
    primary: Option<Address>,
    session_minutes: Option<i64>,
    version: Option<TopologyVersion>,
    last_write: Option<i64>,
    cryptd: bool,
    /// Average and smallest.
    round_trip: Option<(Duration, Duration)>,
}

impl Facts {
    fn unknown(error: Complaint) -> Self {
        Self {
            kind: ServerType::Unknown,
            error,
            min_wire: 0,
            max_wire: 0,
            me: None,
            hosts: BTreeSet::new(),
            passives: BTreeSet::new(),
            arbiters: BTreeSet::new(),
            tags: Vec::new(),
            set_name: None,
            election_id: None,
            set_version: None,
            primary: None,
            session_minutes: None,
            version: None,
            last_write: None,
            cryptd: false,
            round_trip: None,
        }
    }

    /// hosts, passives and arbiters are treated alike (SDAM-18).
    fn members(&self) -> BTreeSet<Address> {
        let mut all = self.hosts.clone();
        all.extend(self.passives.iter().cloned());
        all.extend(self.arbiters.iter().cloned());
        all
    }

    /// PossiblePrimary is the same as Unknown (SDAM-12).
    fn is_unknown(&self) -> bool {
        matches!(self.kind, ServerType::Unknown | ServerType::PossiblePrimary)
    }
}

/// A server, and what belongs to it.
#[derive(Clone, Debug)]
struct Server {
    facts: Facts,
    /// Which life of its address this is; inputs of earlier ones change nothing (SDAM-66).
    life: u64,
    pool: PoolView,
    generation: u64,
    /// Behind a load balancer, by service (SDAM-113).
    services: BTreeMap<ObjectId, u64>,
    monitor: Monitor,
    /// When a failed check was last repeated at once.
    repeated: Option<Instant>,
    credit: Credit,
    average: Option<Duration>,
    samples: Vec<Duration>,
    /// It was unknown since the last sample, so that the next one counts alone (SEL-52, MON-51).
    is_lost: bool,
}

/// That a pool was cleared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clear {
    /// Whose.
    pub address: Address,
    /// The generation from then on.
    pub generation: u64,
    /// Only connections of this service.
    pub service: Option<ObjectId>,
    /// Connections in use are broken as well (MON-63).
    pub interrupt: bool,
}

/// The topology, as the requirements would have it.
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    mistake: Option<Mistake>,
    kind: TopologyType,
    set_name: Option<String>,
    max_election_id: Option<[u8; 12]>,
    max_set_version: Option<i64>,
    servers: BTreeMap<Address, Server>,
    /// How many lives each address has had.
    lives: BTreeMap<Address, u64>,
    newcomers: Credit,
    now: Instant,
    /// When waiting operations ask for checks again.
    pace: Option<Instant>,
    clears: Vec<Clear>,
    closed: bool,
}

impl Model {
    /// A model of a topology that starts now, at instant zero. It makes `mistake`.
    #[must_use]
    pub fn new(config: Config, mistake: Option<Mistake>) -> Self {
        let seeds = config.seeds.clone();
        // SDAM-21
        let kind = match (config.load_balanced, config.direct, &config.replica_set) {
            (true, ..) => TopologyType::LoadBalanced,
            (false, true, _) => TopologyType::Single,
            (false, false, None) => TopologyType::Unknown,
            (false, false, Some(_)) => TopologyType::ReplicaSetNoPrimary,
        };
        let mut model = Self {
            kind,
            set_name: config.replica_set.clone(),
            config,
            mistake,
            max_election_id: None,
            max_set_version: None,
            servers: BTreeMap::new(),
            lives: BTreeMap::new(),
            newcomers: Credit::of_topology(),
            now: Instant::ZERO,
            pace: None,
            clears: Vec::new(),
            closed: false,
        };
        for seed in seeds {
            model.add(seed, false);
        }
        model
    }

    /// The pools that were cleared since the last call.
    pub fn take_clears(&mut self) -> Vec<Clear> {
        std::mem::take(&mut self.clears)
    }

    /// A hello on a monitor's connection was answered. `awaited`: it was one that the server may
    /// hold back; `more_to_come`: the server will send more of itself.
    pub fn on_check_reply(
        &mut self,
        address: &Address,
        reply: &bson::RawDocument,
        round_trip: Duration,
        awaited: bool,
        more_to_come: bool,
    ) {
        let Some(mut facts) = hello::read(reply, self.mistake) else {
            return self.on_check_failure(address, Failure::NotOk);
        };
        let pushes = facts.version.is_some() || more_to_come;
        let mistake = self.mistake;
        if let Some(server) = self.servers.get_mut(address) {
            if !awaited {
                server.sample(round_trip);
            }
            facts.round_trip = server.round_trip(mistake);
        }
        if self.update(address, facts) {
            self.ready(address);
        }
        let streams = self.config.streaming && pushes;
        let stream = Stream {
            awaited,
            pushes: more_to_come,
        };
        self.after_success(address, streams.then_some(stream));
    }

    /// A check failed: the connection broke, or an answer did not come in time.
    pub fn on_check_failed(&mut self, address: &Address, timeout: bool) {
        let failure = if timeout {
            Failure::Timeout
        } else {
            Failure::Network
        };
        self.on_check_failure(address, failure);
    }

    /// A new connection of a pool shook hands (MON-22), which is news about a server that is known.
    pub fn on_handshake(&mut self, address: &Address, life: u64, reply: &bson::RawDocument) {
        let server = self.servers.get(address).filter(|s| s.life == life);
        let Some(server) = server.filter(|s| !s.facts.is_unknown()) else {
            return;
        };
        if self.config.load_balanced {
            return;
        }
        let round_trip = server.facts.round_trip;
        if let Some(mut facts) = hello::read(reply, self.mistake) {
            facts.round_trip = round_trip;
            if self.update(address, facts) {
                self.ready(address);
            }
        }
    }

    /// The client is closed (SDAM-36).
    pub fn close(&mut self) {
        self.servers.clear();
        self.kind = TopologyType::Unknown;
        self.pace = None;
        self.closed = true;
    }

    /// The present life of an address, where there is one.
    #[must_use]
    pub fn life(&self, address: &Address) -> Option<u64> {
        self.servers.get(address).map(|server| server.life)
    }

    /// MON-62 to MON-67.
    fn on_check_failure(&mut self, address: &Address, failure: Failure) {
        let Some(server) = self.servers.get_mut(address) else {
            return;
        };
        let was_known = !server.facts.is_unknown();
        server.forget_round_trips();
        self.update(address, Facts::unknown(Complaint::Text(String::new())));
        if !self.makes(Mistake::FailedCheckDoesNotClear) {
            let interrupt =
                failure == Failure::Timeout && !self.makes(Mistake::TimeoutDoesNotInterrupt);
            self.clear(address, None, interrupt);
        }
        let mut again = failure != Failure::NotOk && was_known;
        if self.makes(Mistake::NoRetryOfCheck) {
            again = false;
        }
        if self.makes(Mistake::AlwaysRetryOfCheck) {
            again = true;
        }
        if again {
            self.repeat_check(address);
        } else {
            self.wait(address);
        }
    }

    /// SDAM-84: a pool for what holds data, and for everything that a direct connection reaches.
    fn ready(&mut self, address: &Address) {
        let single = self.kind == TopologyType::Single;
        if self.makes(Mistake::CheckDoesNotReady) {
            return;
        }
        if let Some(server) = self.servers.get_mut(address) {
            let kind = server.facts.kind;
            if kind.is_data_bearing() || (single && kind != ServerType::Unknown) {
                server.pool = PoolView::Ready;
            }
        }
    }

    /// SDAM-10: the generation of a pool grows by one. Without a pool there is none.
    fn clear(&mut self, address: &Address, service: Option<ObjectId>, interrupt: bool) {
        let Some(server) = self.servers.get_mut(address) else {
            return;
        };
        if server.pool == PoolView::None {
            return;
        }
        let generation = match service {
            Some(id) => server.services.entry(id).or_insert(0),
            None => &mut server.generation,
        };
        *generation += 1;
        let generation = *generation;
        if service.is_none() {
            server.pool = PoolView::Paused;
        }
        self.clears.push(Clear {
            address: address.clone(),
            generation,
            service,
            interrupt,
        });
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

/// How a check failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// A reply without `ok: 1`.
    NotOk,
    /// A broken connection, or none.
    Network,
    /// No answer in time.
    Timeout,
}

impl Server {
    fn new(life: u64, monitor: Monitor, now: Instant) -> Self {
        Self {
            facts: Facts::unknown(Complaint::None),
            life,
            pool: PoolView::None,
            generation: 0,
            services: BTreeMap::new(),
            monitor,
            repeated: None,
            credit: Credit::of_server(now),
            average: None,
            samples: Vec::new(),
            is_lost: false,
        }
    }

    /// MON-49 and MON-51.
    fn sample(&mut self, round_trip: Duration) {
        let is_lost = std::mem::replace(&mut self.is_lost, false);
        self.average = Some(match self.average.filter(|_| !is_lost) {
            None => round_trip,
            Some(old) => round_trip.mul_f64(0.2) + old.mul_f64(0.8),
        });
        self.samples.push(round_trip);
    }

    /// MON-52: with the connection goes what was measured.
    fn forget_round_trips(&mut self) {
        self.average = None;
        self.samples.clear();
    }

    /// MON-49: the smallest of the last ten, and zero until there are two.
    fn round_trip(&self, mistake: Option<Mistake>) -> Option<(Duration, Duration)> {
        let (enough, kept) = match mistake {
            Some(Mistake::SmallestOfOne) => (1, 10),
            Some(Mistake::SmallestOfAll) => (2, usize::MAX),
            _ => (2, 10),
        };
        let last = self.samples.iter().rev().take(kept).copied();
        let smallest = if self.samples.len() < enough {
            None
        } else {
            last.min()
        };
        let average = self.average?;
        Some((average, smallest.unwrap_or(Duration::ZERO)))
    }
}
