//! The options of a run. [`WorldOptions::drawn`] draws their defaults from the seed of the run.

use super::{client::WorldClient, expect::Expect, scenario::Scheduled};
use onionskin_core::{
    options::Compressor,
    random::{Random, Seed},
};
use onionskin_deployment::deployment::{CompressedReplies, MemberOptions, ServerVersion};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// The default of [`WorldOptions::grace`].
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// The rate of a fault that happens each time.
pub(super) const PER_MILLE: u16 = 1000;

/// The way in which clients are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The core alone, in one thread.
    Core,
    /// The async client on the simulated runtime, with its tasks, wakers and locks.
    Runtime,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Core => "core",
            Self::Runtime => "runtime",
        })
    }
}

/// The rates of faults: in how many of 1000 cases each fault happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rates {
    /// A member refuses a connection.
    pub refuse: u16,
    /// A connection attempt gets no answer.
    pub vanish: u16,
    /// A connection breaks when a message is sent on it. The message arrives before or is lost.
    pub reset: u16,
    /// A connection loses a message and all further bytes in both directions, without an error.
    pub half_open: u16,
    /// A message and all later messages in the same direction are delayed.
    pub stall: u16,
    /// A message arrives in small pieces.
    pub slow: u16,
    /// A reply is cut off, and its connection breaks.
    pub truncate: u16,
    /// A bit at the beginning of a reply is flipped.
    pub corrupt: u16,
    /// A reply arrives twice.
    pub duplicate: u16,
    /// A caller abandons its operation.
    pub cancel: u16,
    /// A name lookup fails.
    pub unresolved: u16,
    /// A caller does not poll its operation for a while, although the operation could continue.
    pub unpolled: u16,
    /// A task that is ready is not polled for up to 3 s, be it one of a caller or of the client
    /// itself. A run of the core alone has no tasks.
    pub starved: u16,
    /// The server selector of a client panics, which fails the operation. Without this rate,
    /// clients have no server selector.
    pub panic: u16,
}

impl Rates {
    /// Returns the highest rate.
    pub(crate) fn highest(&self) -> u16 {
        let Self {
            refuse,
            vanish,
            reset,
            half_open,
            stall,
            slow,
            truncate,
            corrupt,
            duplicate,
            cancel,
            unresolved,
            unpolled,
            starved,
            panic,
        } = *self;
        let rates = [
            refuse, vanish, reset, half_open, stall, slow, truncate, corrupt, duplicate, cancel,
            unresolved, unpolled, starved, panic,
        ];
        rates.into_iter().max().unwrap_or_default()
    }

    /// Draws all rates but `unpolled`, `duplicate`, `starved` and `panic`. About half of them are
    /// 0, a quarter are low, and a quarter can be high.
    fn drawn(random: &mut Random) -> Self {
        let mut rate = |most: u64| match random.below(4) {
            0 | 1 => 0,
            2 => u16::try_from(random.below(most / 8 + 1)).unwrap_or(0),
            _ => u16::try_from(random.below(most + 1)).unwrap_or(0),
        };
        Self {
            refuse: rate(300),
            vanish: rate(200),
            reset: rate(80),
            half_open: rate(30),
            stall: rate(60),
            slow: rate(300),
            truncate: rate(30),
            corrupt: rate(30),
            duplicate: 0,
            cancel: rate(400),
            unresolved: rate(200),
            unpolled: 0,
            starved: 0,
            panic: 0,
        }
    }
}

/// The work of the callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Workload {
    /// Each caller inserts, changes and reads documents of its own
    /// ([`OperationKind`](super::workload::OperationKind)).
    #[default]
    Marks,
    /// Callers run transactions on shared lists and accounts, follow the lists by change streams,
    /// keep files in GridFS, and write and read notes with most other operations. A standalone has
    /// no transactions, and a run of the core alone has no sessions, so that neither can have this
    /// workload.
    Applications,
}

/// The SOCKS5 proxy through which clients reach the members or the load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorldProxy {
    /// No proxy: clients connect to the servers.
    None,
    /// A proxy without authentication.
    Open,
    /// A proxy that requires a user name and a password.
    Password,
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldOptions {
    /// The number of members. Without `sharded` and `load_balanced`, one member is a standalone,
    /// and several are a replica set. Default: 1, 3 or 5.
    pub members: usize,
    /// The options of the first members of a replica set. The others have the defaults. Default:
    /// empty, so that all members are equal.
    pub member_options: Vec<MemberOptions>,
    /// The release of the servers, apart from members with [their own](MemberOptions::version).
    /// Default: `None`, for release 7.0, or with [`Workload::Applications`] for 7.0 or 8.0.
    pub version: Option<ServerVersion>,
    /// True if the members are routers in front of shards. Default: true for one seed in 6.
    pub sharded: bool,
    /// The number of shards behind routers and services. Default: 1 or 2. Some transactions of
    /// [`Workload::Applications`] concern both.
    pub shards: usize,
    /// The number of members of each shard, from 1 to 7. Several members elect their primary after
    /// [`election_timeout`](Self::election_timeout). Default: 1.
    pub shard_members: usize,
    /// True if the members are services behind a load balancer, even if `sharded` is set. Default:
    /// true for one seed in 6.
    pub load_balanced: bool,
    /// The number of clients. Default: 1 to 3.
    pub clients: usize,
    /// The number of concurrent callers of each client. Default: 1 to 8.
    pub tasks: usize,
    /// The options and the work of the first clients. The others have those of all. Default:
    /// empty.
    pub each_client: Vec<WorldClient>,
    /// The work of the callers. Default: [`Workload::Marks`].
    pub workload: Workload,
    /// The length of the safety phase. Default: 20 s to 90 s.
    pub safety: Duration,
    /// The time between the safety phase and the late operations, which must succeed. Default: 60
    /// s, twice the longest drawn `serverSelectionTimeoutMS`.
    pub grace: Duration,
    /// The rates of faults during the safety phase.
    pub rates: Rates,
    /// The number of disasters that are drawn for the safety phase, such as kills, partitions,
    /// step-downs and frozen clients. Some of them affect several members. With
    /// [`swarm`](Self::swarm), the seed draws others besides.
    pub disasters: usize,
    /// The disasters of the run. Default: `None`, so that they are drawn.
    pub schedule: Option<Vec<Scheduled>>,
    /// True if the drawn disasters have the further kinds of [`swarm`](Self::swarm). Default:
    /// false.
    pub swarm: bool,
    /// The expectations of the scenario. A run that does not meet them fails. Default: none.
    pub expect: Expect,
    /// The shortest time that a message takes.
    pub min_latency: Duration,
    /// The longest time that a message takes.
    pub max_latency: Duration,
    /// The options of the clients' connection string, after the `?`.
    pub client_options: String,
    /// True if the clients look up their seed list with a `mongodb+srv` string, which is not
    /// possible with `load_balanced`. Default: false.
    pub srv: bool,
    /// The compressors of the clients, in order of preference. Default: none for two seeds in
    /// three, else one or more.
    pub compressors: Vec<Compressor>,
    /// The replies that the servers compress, if the clients have compressors. Default: drawn.
    pub compressed_replies: CompressedReplies,
    /// The proxy. Default: none for three seeds in four.
    pub proxy: WorldProxy,
    /// True if the servers require authentication.
    pub authentication: bool,
    /// The shortest time for which a member of a replica set, or of a shard with several members,
    /// waits for a primary before it starts an election.
    pub election_timeout: Duration,
    /// The largest number of steps of a run. A run with more steps fails.
    pub max_steps: u64,
    /// True if the report has the trace: its last 32 to 64 MiB.
    pub keep_trace: bool,
    /// True if the report has a picture of the run, for [`Report::page`](super::Report::page).
    pub keep_picture: bool,
}

impl WorldOptions {
    /// Returns the options that are drawn from a seed.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let random = &mut world_seed(seed).split("options").random();
        let members = [1, 3, 3, 3, 5][index(random, 5)];
        let shape = &mut world_seed(seed).split("shape").random();
        let balancer = &mut world_seed(seed).split("balanced").random();
        let polls = &mut world_seed(seed).split("polls").random();
        let compression = &mut world_seed(seed).split("compression").random();
        let proxies = &mut world_seed(seed).split("proxies").random();
        let min = Duration::from_micros(50 + random.below(2000));
        Self {
            members,
            member_options: Vec::new(),
            version: None,
            sharded: shape.chance(1, 6),
            shards: 1 + index(&mut world_seed(seed).split("shards").random(), 2),
            shard_members: 1,
            load_balanced: balancer.chance(1, 6),
            clients: 1 + index(random, 3),
            tasks: 1 + index(random, 8),
            each_client: Vec::new(),
            workload: Workload::Marks,
            safety: Duration::from_secs(20 + random.below(71)),
            grace: GRACE,
            rates: Rates {
                unpolled: [0, 0, 20, 200][index(polls, 4)],
                ..Rates::drawn(random)
            },
            disasters: index(random, 8),
            schedule: None,
            swarm: false,
            expect: Expect::default(),
            min_latency: min,
            max_latency: min + Duration::from_micros(random.below(20_000)),
            client_options: client_options(random),
            srv: false,
            compressors: compressors(compression),
            compressed_replies: match compression.below(3) {
                0 => CompressedReplies::AsRequested,
                1 => CompressedReplies::InTurn,
                _ => CompressedReplies::Never,
            },
            proxy: match proxies.below(8) {
                0 => WorldProxy::Open,
                1 => WorldProxy::Password,
                _ => WorldProxy::None,
            },
            authentication: random.chance(1, 8),
            election_timeout: Duration::from_secs(1 + random.below(10)),
            max_steps: 2_000_000,
            keep_trace: false,
            keep_picture: false,
        }
    }

    /// Returns the options without faults and disasters.
    #[must_use]
    pub fn calm(mut self) -> Self {
        self.rates = Rates::default();
        self.disasters = 0;
        self.schedule = None;
        self.swarm = false;
        self
    }

    /// Returns the options with [`Workload::Applications`] and without a standalone. Behind a load
    /// balancer a change stream and a transaction keep a connection, so that the pools there have
    /// one for each caller.
    #[must_use]
    pub fn applications(mut self) -> Self {
        self.workload = Workload::Applications;
        self.members = self.members.max(3);
        if self.load_balanced {
            let others = self.client_options.split('&');
            let others = others.filter(|option| !option.starts_with("maxPoolSize="));
            let others: Vec<&str> = others.collect();
            self.client_options = others.join("&");
        }
        self
    }

    /// True if the members are routers or services, with shards behind them.
    #[must_use]
    pub const fn has_routers(&self) -> bool {
        self.sharded || self.load_balanced
    }

    /// Returns the options with many callers for one connection to each server, with connections
    /// that stall or lose bytes and with callers that poll late. Such runs test the decisions about
    /// a connection whose operation is not polled.
    #[must_use]
    pub fn crowded(mut self) -> Self {
        self.load_balanced = false;
        self.tasks = 8;
        self.disasters = 7;
        self.rates = Rates {
            half_open: 20,
            stall: 20,
            unpolled: 400,
            ..Rates::default()
        };
        self.client_options = "heartbeatFrequencyMS=500&connectTimeoutMS=1000&maxPoolSize=1\
                               &serverSelectionTimeoutMS=10000"
            .to_owned();
        self
    }

    /// Returns the number of late operations of a client that may fail on a connection that broke
    /// before healing. Each caller may fail once for each member.
    #[must_use]
    pub fn aftermath(&self, client: usize) -> usize {
        if self.is_calm() {
            0
        } else {
            self.tasks_of(client) * self.members
        }
    }

    /// Returns the options and the work of a client.
    #[must_use]
    pub fn client(&self, client: usize) -> WorldClient {
        self.each_client.get(client).cloned().unwrap_or_default()
    }

    /// Returns the number of concurrent callers of a client.
    #[must_use]
    pub fn tasks_of(&self, client: usize) -> usize {
        let own = self.each_client.get(client).and_then(|own| own.tasks);
        own.unwrap_or(self.tasks)
    }

    /// Returns the largest number of concurrent callers of a client.
    #[must_use]
    pub fn most_tasks(&self) -> usize {
        let own = self.each_client.iter().filter_map(|own| own.tasks);
        own.max().unwrap_or_default().max(self.tasks)
    }

    /// True if the run has no faults and no disasters.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let is_planned = match &self.schedule {
            Some(schedule) => !schedule.is_empty(),
            None => self.disasters > 0 || self.swarm,
        };
        !is_planned && self.rates == Rates::default()
    }
}

/// Returns the seed of all randomness of a run.
#[must_use]
pub fn world_seed(seed: u64) -> Seed {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Seed::new(bytes)
}

/// Draws an index below `length`.
pub(super) fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap_or(0)
}

fn compressors(random: &mut Random) -> Vec<Compressor> {
    if !random.chance(1, 3) {
        return Vec::new();
    }
    let mut rest = Compressor::ALL.to_vec();
    let wanted = 1 + index(random, rest.len());
    let mut chosen = || rest.remove(index(random, rest.len()));
    (0..wanted).map(|_| chosen()).collect()
}

fn client_options(random: &mut Random) -> String {
    let mut options = format!(
        "heartbeatFrequencyMS={}&connectTimeoutMS={}&serverSelectionTimeoutMS={}&maxPoolSize={}",
        500 + random.below(9_501),
        1_000 + random.below(9_001),
        5_000 + random.below(25_001),
        1 + random.below(8),
    );
    let mut maybe = |text: &str, bound: u64, least: u64| {
        if random.chance(1, 3) {
            options.push_str(&format!("&{text}={}", least + random.below(bound)));
        }
    };
    maybe("maxIdleTimeMS", 20_000, 1_000);
    maybe("maxConnecting", 4, 1);
    maybe("waitQueueTimeoutMS", 10_000, 100);
    maybe("localThresholdMS", 30, 0);
    if random.chance(1, 4) {
        options.push_str("&minPoolSize=1");
    }
    options.push_str(match random.below(4) {
        0 => "&serverMonitoringMode=poll",
        1 => "&serverMonitoringMode=stream",
        _ => "",
    });
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_options_and_another_seed_does_not() {
        assert_eq!(WorldOptions::drawn(7), WorldOptions::drawn(7));
        assert_ne!(WorldOptions::drawn(7), WorldOptions::drawn(8));
    }

    #[test]
    fn a_calm_world_has_no_faults() {
        let calm = WorldOptions::drawn(7).calm();
        assert_eq!((calm.rates, calm.disasters), (Rates::default(), 0));
    }
}
