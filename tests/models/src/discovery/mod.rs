//! A slow, obvious model of discovery, with which tests compare the core: the topology, the effects
//! of errors of operations, the generations of pools, and the times of checks.
//!
//! The model follows the requirements (section A.2, table A.4 to table A.8, and tables C.2, E.4 and
//! E.5). The model shares no code with the core's machine except for plain types, so that an error
//! has to be made twice to stay unnoticed.
//!
//! The model can make a deliberate [`Mistake`], to show that a test finds it.

mod application;
mod compare;
mod hello;
mod mistake;
mod monitor;
mod primary;
mod topology;

pub use compare::{Machine, PoolView};
pub use mistake::Mistake;

use bson::oid::ObjectId;
use monitor::{Monitor, Stream, TokenBucket};
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

/// The options that the model needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Config {
    /// The addresses of the seeds.
    pub seeds: BTreeSet<Address>,
    /// The name that the replica set must have (`replicaSet`).
    pub replica_set: Option<String>,
    /// True if the client connects to its seed only (`directConnection`).
    pub direct: bool,
    /// True if the seed is a load balancer (`loadBalanced`).
    pub load_balanced: bool,
    /// True if monitors use the streaming protocol with servers that support it.
    pub streaming: bool,
    /// The wait between two checks of a server (`heartbeatFrequencyMS`).
    pub heartbeat: Duration,
    /// The time limit of a check (`connectTimeoutMS`); `None` means no limit.
    pub connect_timeout: Option<Duration>,
}

impl Config {
    /// Returns the defaults for these seeds: polling every ten seconds, and checks without a time
    /// limit.
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

/// The error that a server description must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpectedError {
    /// No error.
    None,
    /// An error whose text contains this string.
    Text(String),
    /// Any error or none, because the requirements do not specify the error.
    Any,
}

/// The fields of a server description (table A.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    kind: ServerType,
    error: ExpectedError,
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
    /// The average and the minimum of the round trip time.
    round_trip: Option<(Duration, Duration)>,
}

impl Facts {
    fn unknown(error: ExpectedError) -> Self {
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

    /// Returns the hosts, passives and arbiters, which are treated alike (SDAM-18).
    fn members(&self) -> BTreeSet<Address> {
        let mut all = self.hosts.clone();
        all.extend(self.passives.iter().cloned());
        all.extend(self.arbiters.iter().cloned());
        all
    }

    /// True for `Unknown` and for `PossiblePrimary`, which means the same (SDAM-12).
    fn is_unknown(&self) -> bool {
        matches!(self.kind, ServerType::Unknown | ServerType::PossiblePrimary)
    }
}

/// A server with its pool and its monitor.
#[derive(Clone, Debug)]
struct Server {
    facts: Facts,
    /// The number of times that the address was added to the topology, including this time. An
    /// error or handshake with a smaller number changes nothing, like a check of a removed server
    /// (SDAM-66).
    life: u64,
    pool: PoolView,
    generation: u64,
    /// The generation of each service behind a load balancer (SDAM-113).
    services: BTreeMap<ObjectId, u64>,
    monitor: Monitor,
    /// The time of the last immediate retry after a failed check.
    repeated: Option<Instant>,
    tokens: TokenBucket,
    average: Option<Duration>,
    samples: Vec<Duration>,
    /// True if the server was `Unknown` since the last sample. Then the next sample becomes the
    /// average (SEL-52, MON-51).
    is_lost: bool,
}

/// A clear of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clear {
    /// The address of the server.
    pub address: Address,
    /// The generation of the pool, or of the service, after the clear.
    pub generation: u64,
    /// The service whose connections are cleared; `None` for the whole pool.
    pub service: Option<ObjectId>,
    /// True if connections in use are interrupted (MON-63).
    pub interrupt: bool,
}

/// The topology and its servers, as the requirements define them.
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    mistake: Option<Mistake>,
    kind: TopologyType,
    set_name: Option<String>,
    max_election_id: Option<[u8; 12]>,
    max_set_version: Option<i64>,
    servers: BTreeMap<Address, Server>,
    /// The number of times that each address was added to the topology.
    lives: BTreeMap<Address, u64>,
    first_checks: TokenBucket,
    now: Instant,
    /// The time of the next requests for checks by waiting operations; `None` if no operation
    /// waits.
    pace: Option<Instant>,
    clears: Vec<Clear>,
    closed: bool,
}

impl Model {
    /// Returns a model of a topology that starts at instant zero. The model makes `mistake`.
    #[must_use]
    pub fn new(config: Config, mistake: Option<Mistake>) -> Self {
        let seeds = config.seeds.clone();
        // The options decide the initial topology type (SDAM-21).
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
            first_checks: TokenBucket::of_topology(),
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

    /// Returns the clears since the last call.
    pub fn take_clears(&mut self) -> Vec<Clear> {
        std::mem::take(&mut self.clears)
    }

    /// Handles a reply to `hello` of a monitor. `awaited` says whether the command was awaitable,
    /// and `more_to_come` whether the server announced another reply.
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

    /// Handles a check that failed by a network error, or by a timeout.
    pub fn on_check_failed(&mut self, address: &Address, timeout: bool) {
        let failure = if timeout {
            Failure::Timeout
        } else {
            Failure::Network
        };
        self.on_check_failure(address, failure);
    }

    /// Handles the `hello` of a new connection of a pool. The reply updates a server that is not
    /// `Unknown`, as the reply to a check does (MON-22), but gives no sample of the round trip
    /// time.
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

    /// Closes the topology: removes all servers and sets the type to `Unknown` (SDAM-36).
    pub fn close(&mut self) {
        self.servers.clear();
        self.kind = TopologyType::Unknown;
        self.pace = None;
        self.closed = true;
    }

    /// Returns the number of times that this address was added to the topology; `None` if the
    /// topology does not have the server.
    #[must_use]
    pub fn life(&self, address: &Address) -> Option<u64> {
        self.servers.get(address).map(|server| server.life)
    }

    /// Handles a failed check: makes the server `Unknown`, clears its pool, and checks again at
    /// once or after a wait (MON-62 to MON-67).
    fn on_check_failure(&mut self, address: &Address, failure: Failure) {
        let Some(server) = self.servers.get_mut(address) else {
            return;
        };
        let was_known = !server.facts.is_unknown();
        server.forget_round_trips();
        self.update(address, Facts::unknown(ExpectedError::Text(String::new())));
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

    /// Creates the pool or marks it as ready (SDAM-84). The server must be data-bearing, or, in a
    /// topology of type `Single`, of any type except `Unknown`.
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

    /// Clears the pool of a server, or the connections of one service, if the pool exists. The
    /// generation of the pool or service grows by one (SDAM-10), and a clear of the whole pool
    /// pauses it.
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

/// The way in which a check failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// A reply without `ok: 1`.
    NotOk,
    /// The connection failed or could not be established.
    Network,
    /// The connection or the reply did not come within the time limit.
    Timeout,
}

impl Server {
    fn new(life: u64, monitor: Monitor, now: Instant) -> Self {
        Self {
            facts: Facts::unknown(ExpectedError::None),
            life,
            pool: PoolView::None,
            generation: 0,
            services: BTreeMap::new(),
            monitor,
            repeated: None,
            tokens: TokenBucket::of_server(now),
            average: None,
            samples: Vec::new(),
            is_lost: false,
        }
    }

    /// Adds a sample for the minimum (MON-49) and the average (MON-51) of the round trip time.
    fn sample(&mut self, round_trip: Duration) {
        let is_lost = std::mem::replace(&mut self.is_lost, false);
        self.average = Some(match self.average.filter(|_| !is_lost) {
            None => round_trip,
            Some(old) => round_trip.mul_f64(0.2) + old.mul_f64(0.8),
        });
        self.samples.push(round_trip);
    }

    /// Drops all samples and the average of the round trip time (MON-51, MON-52).
    fn forget_round_trips(&mut self) {
        self.average = None;
        self.samples.clear();
    }

    /// Returns the average round trip time and the minimum. The minimum is that of the last 10
    /// samples, and zero until there are two (MON-49). Returns `None` without an average.
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
