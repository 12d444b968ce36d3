//! The options of a deployment on real sockets.

#[cfg(feature = "scenarios")]
use onionskin_core::time::Instant;
use onionskin_deployment::deployment::{
    AuthOptions, CompressionOptions, Limits, MAX_VOTING_MEMBERS, MemberOptions, NetworkOptions,
    ServerVersion, User,
};
#[cfg(feature = "scenarios")]
use onionskin_worlds::world::{Disaster, Rates};
#[cfg(feature = "scenarios")]
use std::collections::VecDeque;
use std::{path::PathBuf, time::Duration};

/// Options of a deployment on real sockets.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The name of the replica set. `None`: a standalone, routers or services.
    pub replica_set: Option<String>,
    /// True if the members are routers in front of shards. Default: false.
    pub sharded: bool,
    /// The number of shards behind routers or services. Default: 1.
    pub shards: usize,
    /// The number of members of each shard, from 1 to 7. Default: 1.
    pub shard_members: usize,
    /// True if the members are services: routers behind a load balancer. Each service has a port of
    /// its own as well, for another load balancer, which may send a header of the PROXY protocol.
    /// Default: false.
    pub load_balanced: bool,
    /// The members of the replica set. For a standalone, routers or services, only their number
    /// counts.
    pub members: Vec<MemberOptions>,
    /// The first port, which is that of the load balancer or of the first member. The other ports
    /// follow. `None`: free ports. Default: `None`.
    pub port: Option<u16>,
    /// True if connections use TLS, which needs the feature `tls`. Default: false.
    pub tls: bool,
    /// The directory to which the certificates are written. `None`: a new temporary directory.
    pub tls_directory: Option<PathBuf>,
    /// The file with the certificates of the authorities that sign client certificates, as PEM.
    /// `None`: the authority of the deployment, which also signs `client.pem`. Default: `None`.
    pub tls_ca_file: Option<PathBuf>,
    /// The users. If there are none, the servers require no authentication.
    pub users: Vec<User>,
    /// The options of authentication, apart from the users.
    pub auth: AuthOptions,
    /// The compressors of messages. By default, all whose feature is enabled: `snappy`, `zlib`,
    /// `zstd`.
    pub compression: CompressionOptions,
    /// The directory to which tokens of the first issuer are written: `test_user1`, `test_user2`,
    /// `test_machine` and, with a token that has expired, `test_expired`. Default: `None`, no
    /// files.
    pub oidc_token_directory: Option<PathBuf>,
    /// The seed of all randomness. Default: 0.
    pub seed: u64,
    /// The election timeout of the replica set, or of each shard with several members. Default:
    /// 1 s, so that a failover takes about that long.
    pub election_timeout: Duration,
    /// The interval of the heartbeats of a replica set's primary. In shards, the interval is a
    /// fifth of the election timeout. Default: 200 ms.
    pub heartbeat_interval: Duration,
    /// The properties of the network between members. By default, messages arrive at once.
    pub network: NetworkOptions,
    /// The limits of the servers. Default: those of [`Limits`].
    pub limits: Limits,
    /// The release that the servers claim. Default: 7.0.24.
    pub version: ServerVersion,
    /// The faults. [`of_scenario`](Self::of_scenario) sets them. Default: `None`.
    #[cfg(feature = "scenarios")]
    pub faults: Option<FaultOptions>,
}

/// The faults of a deployment on real sockets.
#[cfg(feature = "scenarios")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultOptions {
    /// The rates of the faults of connections and messages. Those of clients have no effect.
    /// Default: zero.
    pub rates: Rates,
    /// The shortest and the longest time by which a message between a client and a member is
    /// delayed. Default: zero.
    pub latency: (Duration, Duration),
    /// The disasters with the time since the start, the earliest first. [`Disaster::Heal`] also
    /// ends the other faults. [`Disaster::CutClient`] and [`Disaster::DisconnectClient`] affect all
    /// programs. The window of a [`Disaster::SlowMember`] is that of the operating system. These
    /// have no effect, which is noted: [`Disaster::Freeze`], [`Disaster::CloseClient`],
    /// [`Disaster::ListMembers`], [`Disaster::SilenceNames`], [`Disaster::FailNames`],
    /// [`Disaster::MendNames`], and a [`Disaster::JumpClock`] of a client. Default: none.
    pub plan: VecDeque<(Instant, Disaster)>,
}

impl ServeOptions {
    /// Creates the options of a replica set with equal members. At most seven members may vote, so
    /// all later ones get no vote.
    #[must_use]
    pub fn replica_set(name: &str, members: usize) -> Self {
        let mut members = vec![MemberOptions::default(); members];
        for member in members.iter_mut().skip(MAX_VOTING_MEMBERS) {
            member.votes = false;
            member.priority = 0;
        }
        Self {
            replica_set: Some(name.to_owned()),
            sharded: false,
            shards: 1,
            shard_members: 1,
            load_balanced: false,
            members,
            port: None,
            tls: false,
            tls_directory: None,
            tls_ca_file: None,
            users: Vec::new(),
            auth: AuthOptions::default(),
            compression: CompressionOptions::default(),
            oidc_token_directory: None,
            seed: 0,
            election_timeout: Duration::from_secs(1),
            heartbeat_interval: Duration::from_millis(200),
            network: NetworkOptions::default(),
            limits: Limits::default(),
            version: ServerVersion::default(),
            #[cfg(feature = "scenarios")]
            faults: None,
        }
    }

    /// Creates the options of a server without a replica set.
    #[must_use]
    pub fn standalone() -> Self {
        Self {
            replica_set: None,
            ..Self::replica_set("", 1)
        }
    }

    /// Creates the options of routers in front of one shard. For more, set
    /// [`shards`](Self::shards).
    #[must_use]
    pub fn sharded(routers: usize) -> Self {
        Self {
            replica_set: None,
            sharded: true,
            ..Self::replica_set("", routers)
        }
    }

    /// Creates the options of services behind a load balancer.
    #[must_use]
    pub fn load_balanced(services: usize) -> Self {
        Self {
            replica_set: None,
            load_balanced: true,
            ..Self::replica_set("", services)
        }
    }
}
