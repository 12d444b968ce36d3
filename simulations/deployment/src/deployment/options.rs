//! The options of a simulated deployment.

use super::{
    compression::{CompressionOptions, is_compiled},
    member_options::MemberOptions,
    users::{AuthOptions, User},
    version::ServerVersion,
};
use onionskin_core::{address::Address, time::WallTime};
use std::{fmt, time::Duration};

/// The largest number of members of a deployment, which is the server's limit for a replica set.
pub const MAX_MEMBERS: usize = 50;

/// The largest number of voting members, as in the server.
pub const MAX_VOTING_MEMBERS: usize = 7;

/// The largest number of shards of a deployment, and of the members of all shards together.
pub const MAX_SHARDS: usize = 100;

/// The time without a message from a primary after which a secondary starts an election, as in the
/// server.
const DEFAULT_ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The shortest election timeout of a shard. The heartbeats of a shorter one would take all of the
/// time.
const MIN_SHARD_ELECTION_TIMEOUT: Duration = Duration::from_millis(1);

/// The options of a deployment.
#[derive(Clone, Debug)]
pub struct DeploymentOptions {
    /// The kind of the deployment, and its members.
    pub shape: Shape,
    /// The addresses of the servers that clients can reach: the standalone, the members of a
    /// replica set in the order of its options, or the routers. The hello replies of a replica set
    /// list the addresses of its members that are not hidden.
    pub addresses: Vec<Address>,
    /// The number of shards behind the routers. Each database is on one of them; see
    /// [`shard_of`](Self::shard_of). Default: 1.
    pub shards: usize,
    /// The number of members of each shard, from 1 to 7. Each shard is a replica set, whose first
    /// member starts as primary. With one member, a shard that steps down is elected again at once,
    /// and requests for a shard that does not run fail. With several, routers look for another
    /// primary. The members of all shards must be at most 100. Default: 1.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions, MemberState};
    ///
    /// let mut options = DeploymentOptions::sharded(vec![Address::tcp("localhost", 27017)]);
    /// (options.shards, options.shard_members) = (2, 3);
    /// let deployment = Deployment::new(options, &Seed::new([1; 32]))?;
    /// let second = deployment.place_in_shard(1, 0).expect("shard 1 has members");
    /// assert_eq!(second, 4, "the router and the members of shard 0 are before");
    /// assert_eq!(deployment.state(second), Some(MemberState::Primary));
    /// # Ok::<(), onionskin_deployment::deployment::InvalidOptions>(())
    /// ```
    pub shard_members: usize,
    /// The time without a message from a primary after which a member of a shard starts an
    /// election, as [`ReplicaSetOptions::election_timeout`]. It must be at least a millisecond. The
    /// interval of heartbeats is a fifth of it. Default: 10 s.
    pub shard_election_timeout: Duration,
    /// The users at the start. If there are none, the servers require no authentication.
    pub users: Vec<User>,
    /// The iteration count of SCRAM. Default: 4096, the smallest count that drivers accept, because
    /// more iterations make authentication slower.
    pub scram_iterations: u32,
    /// The options of authentication, apart from the users.
    pub auth: AuthOptions,
    /// The compressors of messages.
    pub compression: CompressionOptions,
    /// The release that the servers claim to be. A member of a replica set can have
    /// [its own](MemberOptions::version).
    pub version: ServerVersion,
    /// Limits that the servers enforce. Some of them are in hello replies.
    pub limits: Limits,
    /// The properties of the network between the members.
    pub network: NetworkOptions,
    /// The wall clock's time when the deployment starts. Cluster times and ObjectIds are made from
    /// it and the virtual time.
    pub started_at: WallTime,
}

impl DeploymentOptions {
    /// Creates the options of a server without a replica set.
    #[must_use]
    pub fn standalone(address: Address) -> Self {
        Self::of(Shape::Standalone, vec![address])
    }

    /// Creates the options of a replica set with equal members. The first member starts as primary.
    #[must_use]
    pub fn replica_set(name: &str, addresses: Vec<Address>) -> Self {
        let set = ReplicaSetOptions::new(name, addresses.len());
        Self::of(Shape::ReplicaSet(set), addresses)
    }

    /// Creates the options of routers in front of one shard. Each router has its own fail points,
    /// and knows only the cursors that it opened. The shard holds the data. For more shards, set
    /// [`shards`](Self::shards).
    #[must_use]
    pub fn sharded(routers: Vec<Address>) -> Self {
        Self::of(Shape::Sharded, routers)
    }

    /// Creates the options of services behind a load balancer: routers in front of one shard, and a
    /// load balancer at `balancer`. The balancer gives each new connection to the next router.
    #[must_use]
    pub fn load_balanced(balancer: Address, services: Vec<Address>) -> Self {
        Self::of(Shape::LoadBalanced { balancer }, services)
    }

    fn of(shape: Shape, addresses: Vec<Address>) -> Self {
        Self {
            shape,
            addresses,
            shards: 1,
            shard_members: 1,
            shard_election_timeout: DEFAULT_ELECTION_TIMEOUT,
            users: Vec::new(),
            scram_iterations: 4096,
            auth: AuthOptions::default(),
            compression: CompressionOptions::default(),
            version: ServerVersion::default(),
            limits: Limits::default(),
            network: NetworkOptions::default(),
            started_at: WallTime::from_unix_millis(1_750_000_000_000),
        }
    }

    /// True if clients must authenticate, because there are users or issuers of tokens.
    #[must_use]
    pub const fn requires_authentication(&self) -> bool {
        !self.users.is_empty() || !self.auth.issuers.is_empty()
    }

    /// Returns the number of the shard with the data of a database: a hash of the name, modulo the
    /// number of shards. The databases of the cluster itself (`admin`, `config`, `local`) are on
    /// shard 0. A real cluster chooses the shard when the database is created.
    ///
    /// ```
    /// # use onionskin_core::address::Address;
    /// # use onionskin_deployment::deployment::DeploymentOptions;
    /// let mut options = DeploymentOptions::sharded(vec![Address::tcp("localhost", 27017)]);
    /// options.shards = 2;
    /// assert_eq!((options.shard_of("left"), options.shard_of("right")), (0, 1));
    /// ```
    #[must_use]
    pub fn shard_of(&self, database: &str) -> usize {
        if matches!(database, "admin" | "config" | "local") {
            return 0;
        }
        // FNV-1a with 64 bits.
        let hash = database
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let shards = u64::try_from(self.shards.max(1)).unwrap_or(u64::MAX);
        usize::try_from(hash % shards).unwrap_or(0)
    }

    /// Returns the options of a member of the replica set. `None` if there is no such member.
    pub(crate) fn member(&self, member: usize) -> Option<&MemberOptions> {
        match &self.shape {
            Shape::Standalone | Shape::Sharded | Shape::LoadBalanced { .. } => None,
            Shape::ReplicaSet(set) => set.members.get(member),
        }
    }

    /// Returns the release of a server when the deployment starts.
    pub(crate) fn version_of(&self, member: usize) -> ServerVersion {
        let own = self.member(member).and_then(|member| member.version);
        own.unwrap_or(self.version)
    }

    /// Returns the oldest release of a server when the deployment starts.
    pub(crate) fn oldest_version(&self) -> ServerVersion {
        let versions = (0..self.addresses.len()).map(|member| self.version_of(member));
        let oldest = versions.min_by_key(|version| version.release);
        oldest.unwrap_or(self.version)
    }

    /// Returns an error if the options are not valid.
    pub fn check(&self) -> Result<(), InvalidOptions> {
        let fail = |reason| Err(InvalidOptions { reason });
        if !self.compression.compressors.iter().all(is_compiled) {
            return fail("the Cargo feature of a compressor is not enabled");
        }
        let members = match &self.shape {
            Shape::Standalone => 1,
            Shape::Sharded => self.addresses.len(),
            Shape::LoadBalanced { balancer } => {
                if self.addresses.contains(balancer) {
                    return fail("the load balancer's address is the address of a member");
                }
                self.addresses.len()
            }
            Shape::ReplicaSet(set) => {
                if set.name.is_empty() || set.name.contains('\0') {
                    return fail("the name of the replica set is empty or has a zero byte");
                }
                if set.members.iter().filter(|m| m.has_vote()).count() > MAX_VOTING_MEMBERS {
                    return fail("more than 7 members have a vote");
                }
                if !set.members.iter().any(MemberOptions::can_lead) {
                    return fail("no member can become primary");
                }
                if let Some(first) = set.initial_primary
                    && !set.members.get(first).is_some_and(MemberOptions::can_lead)
                {
                    return fail("initial_primary is not a member that can become primary");
                }
                if let Some(fault) = set.members.iter().find_map(MemberOptions::fault) {
                    return fail(fault);
                }
                if set.heartbeat_interval.is_zero() || set.election_timeout.is_zero() {
                    return fail(
                        "heartbeat_interval and election_timeout must be longer than zero",
                    );
                }
                if let Some(reason) = set.version_fault(self.version) {
                    return fail(reason);
                }
                set.members.len()
            }
        };
        if self.shards == 0 || self.shards > MAX_SHARDS {
            return fail("the number of shards must be between 1 and 100");
        }
        if self.shards > 1 && !self.shape.has_routers() {
            return fail("only a deployment with routers has several shards");
        }
        if let Some(reason) = self.shard_fault() {
            return fail(reason);
        }
        if members == 0 || members > MAX_MEMBERS {
            return fail("the number of members must be between 1 and 50");
        }
        if members != self.addresses.len() {
            return fail("the number of addresses differs from the number of members");
        }
        if crate::identity::region(&self.auth.sts_host).is_none() {
            return fail("sts_host is empty, longer than 255 bytes or has an empty label");
        }
        if self.limits.max_message_bytes > onionskin_core::unstable::wire::MAX_MESSAGE_BYTES {
            return fail("max_message_bytes must not exceed 48000000");
        }
        Ok(())
    }

    /// Returns the reason why the shards cannot have their members, if there is one.
    fn shard_fault(&self) -> Option<&'static str> {
        if self.shard_members == 0 || self.shard_members > MAX_VOTING_MEMBERS {
            Some("the number of members of a shard must be between 1 and 7")
        } else if self.shard_members > 1 && !self.shape.has_routers() {
            Some("only a deployment with routers has shards of several members")
        } else if self.shards.saturating_mul(self.shard_members) > MAX_SHARDS {
            Some("the shards must have at most 100 members together")
        } else if self.shard_election_timeout < MIN_SHARD_ELECTION_TIMEOUT {
            Some("shard_election_timeout must be at least a millisecond")
        } else {
            None
        }
    }
}

/// The error for options that are not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidOptions {
    reason: &'static str,
}

impl fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for InvalidOptions {}

/// The kind of a deployment.
#[derive(Clone, Debug)]
pub enum Shape {
    /// One server without a replica set.
    Standalone,
    /// A replica set, whose members elect a primary.
    ReplicaSet(ReplicaSetOptions),
    /// A sharded cluster: routers, one at each address, and the shards behind them. A shard is a
    /// replica set with [one or more members](DeploymentOptions::shard_members), which only the
    /// routers can reach.
    Sharded,
    /// A sharded cluster behind a load balancer. Each router is a service. On a connection through
    /// the balancer, the first hello reply has the `serviceId` of the router (LB-57).
    LoadBalanced {
        /// The address of the load balancer, to which clients connect.
        balancer: Address,
    },
}

impl Shape {
    /// True if the members are routers, with shards behind them.
    pub(crate) const fn has_routers(&self) -> bool {
        matches!(self, Self::Sharded | Self::LoadBalanced { .. })
    }
}

/// The options of a replica set.
#[derive(Clone, Debug)]
pub struct ReplicaSetOptions {
    /// The name of the set, which is the `setName` of hello replies.
    pub name: String,
    /// The members, in the order of the deployment's addresses.
    pub members: Vec<MemberOptions>,
    /// The time without a message from a primary after which a secondary starts an election. A
    /// secondary adds a delay that depends on chance and on its priority. A primary without
    /// messages from a majority for this time steps down at its next heartbeat. Default: 10 s, as
    /// in the server.
    pub election_timeout: Duration,
    /// The interval of a primary's heartbeats. Default: 2 s, as in the server.
    pub heartbeat_interval: Duration,
    /// The index of the member that is primary from the start. With `None`, the members elect the
    /// first primary. Default: 0.
    pub initial_primary: Option<usize>,
}

impl ReplicaSetOptions {
    /// Creates the options of a set with `members` equal members and the timing of the server.
    #[must_use]
    pub fn new(name: &str, members: usize) -> Self {
        Self {
            name: name.to_owned(),
            members: vec![MemberOptions::default(); members],
            election_timeout: DEFAULT_ELECTION_TIMEOUT,
            heartbeat_interval: Duration::from_secs(2),
            initial_primary: Some(0),
        }
    }

    /// Returns the reason why the members cannot have their releases, if there is one. `version` is
    /// that of the members without their own.
    fn version_fault(&self, version: ServerVersion) -> Option<&'static str> {
        let mut own = self.members.iter().filter_map(|member| member.version);
        if own.any(|version| version.place().is_none()) {
            return Some("the release of a member is not one of ServerVersion::NAMES");
        }
        let of = |member: &MemberOptions| member.version.unwrap_or(version);
        let versions: Vec<ServerVersion> = self.members.iter().map(of).collect();
        let fits = |one: &ServerVersion| versions.iter().all(|other| one.works_with(*other));
        (!versions.iter().all(fits))
            .then_some("the releases of two members do not follow each other")
    }
}

/// The limits that a server enforces.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The size of the largest message in bytes, `maxMessageSizeBytes`. Default: 48,000,000.
    pub max_message_bytes: usize,
    /// The size of the largest document in bytes, `maxBsonObjectSize`. Default: 16 MiB.
    pub max_document_bytes: usize,
    /// The largest number of writes in a command, `maxWriteBatchSize`. Default: 100,000.
    pub max_write_batch: usize,
    /// The largest number of client connections of a member. Further ones are closed at once.
    /// Default: 10,000.
    pub max_connections: usize,
    /// The largest number of open cursors of a member. A command that would open a further one
    /// fails with the error 146. Default: 10,000.
    pub max_cursors: usize,
    /// The largest number of bytes in messages that are incomplete, wait or are being decoded, of
    /// all connections of a member. If it is exceeded, the connection with the most bytes is
    /// closed. Default: 512 MiB.
    pub max_unfinished_bytes: usize,
    /// The largest size of the documents that only the open cursors of a member hold, in bytes,
    /// such as results of pipelines. A command that would exceed it fails with the error 146,
    /// unless it opens the only cursor. Default: 512 MiB.
    pub max_cursor_bytes: usize,
    /// The largest number of documents that all open cursors of a member have yet to return. A
    /// command that would exceed it fails with the error 146, unless it opens the only cursor.
    /// Default: 2,000,000.
    pub max_cursor_documents: usize,
    /// The largest memory of a member's data in bytes: the encoding of the documents, and the keys
    /// of secondary indexes. A write that would exceed it fails with the error 14031. Default: 1
    /// GiB.
    pub max_data_bytes: usize,
    /// The largest number of sessions whose retryable writes a member records. If it is exceeded,
    /// the record that changed longest ago is removed, but not that of a prepared transaction.
    /// Default: 10,000.
    pub max_sessions: usize,
    /// The timeout of sessions in hello replies, `logicalSessionTimeoutMinutes`. `None`: the
    /// replies have no timeout, as those of `mongocryptd`, which means that the server does not
    /// support sessions. Default: 30.
    pub session_timeout_minutes: Option<i32>,
    /// The largest size of the recorded effects of retryable writes, in bytes. If it is exceeded,
    /// the record that changed longest ago is removed. Default: 64 MiB.
    pub max_session_bytes: usize,
    /// The largest number of open transactions of a member. A command that would start a further
    /// one fails with the error 146. Default: 500.
    pub max_transactions: usize,
    /// The largest memory that only the open transactions of a member hold, in bytes: their
    /// changes, and the collections that changed in them or since they started. A statement that
    /// would exceed it aborts its transaction with the error 388, before 6.2 with the error 146. A
    /// write outside of transactions that would exceed it aborts the oldest transactions. Default:
    /// 512 MiB.
    pub max_transaction_bytes: usize,
    /// The time after which an idle cursor is closed. Default: 10 minutes.
    pub cursor_timeout: Duration,
    /// The number of oplog entries above which a member removes the oldest ones that a majority
    /// has. A primary keeps up to twice as many for a member that lags behind. Default: 10,000.
    pub max_oplog_entries: usize,
    /// The size of the oplog in bytes above which a member removes the oldest entries that a
    /// majority has. A primary keeps up to twice as much for a member that lags behind. A member
    /// that lacks a removed entry copies all data. Default: 64 MiB.
    pub max_oplog_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_bytes: onionskin_core::unstable::wire::MAX_MESSAGE_BYTES,
            max_document_bytes: 16 * 1024 * 1024,
            max_write_batch: 100_000,
            max_connections: 10_000,
            max_cursors: 10_000,
            max_cursor_documents: 2_000_000,
            max_unfinished_bytes: 512 * 1024 * 1024,
            max_cursor_bytes: 512 * 1024 * 1024,
            max_data_bytes: 1 << 30,
            max_sessions: 10_000,
            session_timeout_minutes: Some(30),
            max_session_bytes: 64 * 1024 * 1024,
            max_transactions: 500,
            max_transaction_bytes: 512 * 1024 * 1024,
            cursor_timeout: Duration::from_secs(600),
            max_oplog_entries: 10_000,
            max_oplog_bytes: 64 * 1024 * 1024,
        }
    }
}

/// The properties of the network between members. By default, messages arrive at once, and none is
/// lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkOptions {
    /// The shortest time that a message takes. Default: 0.
    pub min_latency: Duration,
    /// The longest time that a message takes. Default: 0.
    pub max_latency: Duration,
    /// The number of messages out of 1000 that are lost. Default: 0.
    pub loss_per_mille: u16,
}
