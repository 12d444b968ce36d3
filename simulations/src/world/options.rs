//! What a run consists of: everything is drawn from its seed, and everything can be chosen.

use onionskin_core::random::{Random, Seed};
use std::{fmt, time::Duration};

/// How the client is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The core alone, in one thread: the fastest.
    Core,
    /// The async client on the simulated runtime: with its tasks, wakers and locks.
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

/// How often things go wrong, out of 1000 times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// A member refuses a connection.
    pub refuse: u16,
    /// An attempt to connect is never answered.
    pub vanish: u16,
    /// A message breaks its connection: before it arrives, or after.
    pub reset: u16,
    /// From a message on, everything on its connection is lost, and nobody is told.
    pub half_open: u16,
    /// A message and all behind it are held back for a while.
    pub stall: u16,
    /// A message arrives in small pieces.
    pub slow: u16,
    /// A reply breaks off in its middle.
    pub truncate: u16,
    /// A bit in the frame's head of a reply is flipped.
    pub corrupt: u16,
    /// An operation is left by its caller.
    pub cancel: u16,
    /// A name is not resolved.
    pub unresolved: u16,
    /// A caller is busy elsewhere and does not poll its operation for a while, although the
    /// operation could go on.
    pub unpolled: u16,
}

impl Rates {
    /// Some off, others wild.
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
            cancel: rate(400),
            unresolved: rate(200),
            unpolled: 0,
        }
    }
}

/// Everything about a run but its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldOptions {
    /// Members of the replica set; 1 for a server of its own. Default: drawn from 1, 3 and 5.
    pub members: usize,
    /// Whether the members are routers, in front of one shard. Default: one time out of 6.
    pub sharded: bool,
    /// Whether the members are services, behind a load balancer; this goes before `sharded`.
    /// Default: one time out of 6.
    pub load_balanced: bool,
    /// Clients. Default: 1 to 3.
    pub clients: usize,
    /// Concurrent callers of each client. Default: 1 to 8.
    pub tasks: usize,
    /// How long things go wrong. Default: 20 s to 90 s.
    pub safety: Duration,
    /// How long everything may take to come to rest afterwards, before operations must succeed
    /// again. Default: 60 s, twice the longest wait of any part.
    pub grace: Duration,
    /// How often things go wrong during the safety phase.
    pub rates: Rates,
    /// Disasters of the safety phase: kills, partitions, elections, frozen clients.
    pub disasters: usize,
    /// A message takes at least this long.
    pub min_latency: Duration,
    /// A message takes at most this long.
    pub max_latency: Duration,
    /// What a client's connection string says behind the `?`.
    pub client_options: String,
    /// Whether servers ask for a login.
    pub login: bool,
    /// How long a member waits for a primary before it stands for election.
    pub election_timeout: Duration,
    /// Steps after which a run counts as stuck in a busy loop.
    pub max_steps: u64,
    /// Whether the report has the whole trace.
    pub keep_trace: bool,
}

impl WorldOptions {
    /// The options that belong to a seed.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let random = &mut world_seed(seed).split("options").random();
        let members = [1, 3, 3, 3, 5][index(random, 5)];
        let shape = &mut world_seed(seed).split("shape").random();
        let balancer = &mut world_seed(seed).split("balanced").random();
        let polls = &mut world_seed(seed).split("polls").random();
        let min = Duration::from_micros(50 + random.below(2000));
        Self {
            members,
            sharded: shape.chance(1, 6),
            load_balanced: balancer.chance(1, 6),
            clients: 1 + index(random, 3),
            tasks: 1 + index(random, 8),
            safety: Duration::from_secs(20 + random.below(71)),
            grace: Duration::from_secs(60),
            rates: Rates {
                unpolled: [0, 0, 20, 200][index(polls, 4)],
                ..Rates::drawn(random)
            },
            disasters: index(random, 8),
            min_latency: min,
            max_latency: min + Duration::from_micros(random.below(20_000)),
            client_options: client_options(random),
            login: random.chance(1, 8),
            election_timeout: Duration::from_secs(1 + random.below(10)),
            max_steps: 2_000_000,
            keep_trace: false,
        }
    }

    /// The same without anything that goes wrong.
    #[must_use]
    pub fn calm(mut self) -> Self {
        self.rates = Rates::default();
        self.disasters = 0;
        self
    }

    /// The same with many callers for one connection to each server, servers that hang, and callers
    /// that poll late: what is decided about a connection while its operation is not polled.
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

    /// How many operations of a client may still fail after healing, on connections that broke
    /// before: every caller once for each member at most.
    #[must_use]
    pub fn aftermath(&self) -> usize {
        if self.is_calm() {
            0
        } else {
            self.tasks * self.members
        }
    }

    /// True if nothing goes wrong.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.disasters == 0 && self.rates == Rates::default()
    }
}

/// The seed from which all chance of a run follows.
#[must_use]
pub fn world_seed(seed: u64) -> Seed {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Seed::new(bytes)
}

/// A drawn place in something of `length` things.
pub(super) fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap_or(0)
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
    fn the_same_seed_draws_the_same_options_and_others_draw_others() {
        assert_eq!(WorldOptions::drawn(7), WorldOptions::drawn(7));
        assert_ne!(WorldOptions::drawn(7), WorldOptions::drawn(8));
    }

    #[test]
    fn a_calm_world_has_no_faults() {
        let calm = WorldOptions::drawn(7).calm();
        assert_eq!((calm.rates, calm.disasters), (Rates::default(), 0));
    }
}
