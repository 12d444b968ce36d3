//! What a simulated deployment is made of.

use onionskin_core::{address::Address, time::WallTime};
use std::{fmt, time::Duration};

/// Most members of a replica set, as in the server.
pub const MAX_MEMBERS: usize = 50;

/// Most members that vote, as in the server.
pub const MAX_VOTING_MEMBERS: usize = 7;

/// Everything that is decided before a deployment starts.
#[derive(Clone, Debug)]
pub struct DeploymentOptions {
    /// What kind of deployment, and its members.
    pub shape: Shape,
    /// What the members call themselves, one address for each.
    pub addresses: Vec<Address>,
    /// Who may log in. Empty: no authentication is asked for.
    pub users: Vec<User>,
    /// SCRAM's iteration count. Default: 4096, the least that drivers accept, because each login
    /// pays for it.
    pub scram_iterations: u32,
    /// The release that the servers claim to be.
    pub version: ServerVersion,
    /// Limits that the servers announce and enforce.
    pub limits: Limits,
    /// The network between the members.
    pub network: NetworkOptions,
    /// Calendar time at the machine's start; cluster times and ObjectIds count from here.
    pub started_at: WallTime,
}

impl DeploymentOptions {
    /// One server that belongs to no replica set.
    #[must_use]
    pub fn standalone(address: Address) -> Self {
        Self::of(Shape::Standalone, vec![address])
    }

    /// A replica set of equal members; the first one starts as primary.
    #[must_use]
    pub fn replica_set(name: &str, addresses: Vec<Address>) -> Self {
        let set = ReplicaSetOptions::new(name, addresses.len());
        Self::of(Shape::ReplicaSet(set), addresses)
    }

    /// Routers in front of one shard. Each router keeps its own cursors and fail points; the data
    /// is that of the shard.
    #[must_use]
    pub fn sharded(routers: Vec<Address>) -> Self {
        Self::of(Shape::Sharded, routers)
    }

    /// Services behind a load balancer: routers in front of one shard, and somebody at `balancer`
    /// who hands each new connection to the next of them.
    #[must_use]
    pub fn load_balanced(balancer: Address, services: Vec<Address>) -> Self {
        Self::of(Shape::LoadBalanced { balancer }, services)
    }

    fn of(shape: Shape, addresses: Vec<Address>) -> Self {
        Self {
            shape,
            addresses,
            users: Vec::new(),
            scram_iterations: 4096,
            version: ServerVersion::default(),
            limits: Limits::default(),
            network: NetworkOptions::default(),
            started_at: WallTime::from_unix_millis(1_750_000_000_000),
        }
    }

    /// Says what is wrong with the options, if anything is.
    pub fn check(&self) -> Result<(), InvalidOptions> {
        let fail = |reason| Err(InvalidOptions { reason });
        let members = match &self.shape {
            Shape::Standalone => 1,
            Shape::Sharded => self.addresses.len(),
            Shape::LoadBalanced { balancer } => {
                if self.addresses.contains(balancer) {
                    return fail("a load balancer has an address of its own");
                }
                self.addresses.len()
            }
            Shape::ReplicaSet(set) => {
                if set.name.is_empty() || set.name.contains('\0') {
                    return fail("a replica set has a name");
                }
                if set.members.iter().filter(|m| m.votes).count() > MAX_VOTING_MEMBERS {
                    return fail("at most 7 members vote");
                }
                if !set.members.iter().any(MemberOptions::can_lead) {
                    return fail("no member can become primary");
                }
                if let Some(first) = set.initial_primary
                    && !set.members.get(first).is_some_and(MemberOptions::can_lead)
                {
                    return fail("the initial primary cannot be primary");
                }
                if set.heartbeat_interval.is_zero() || set.election_timeout.is_zero() {
                    return fail("heartbeats and elections take time");
                }
                set.members.len()
            }
        };
        if members == 0 || members > MAX_MEMBERS {
            return fail("a deployment has between 1 and 50 members");
        }
        if members != self.addresses.len() {
            return fail("each member has one address");
        }
        if self.limits.max_message_bytes > onionskin_core::wire::MAX_MESSAGE_BYTES {
            return fail("messages are at most 48000000 bytes long");
        }
        Ok(())
    }
}

/// Options that describe no possible deployment.
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
    /// One server alone.
    Standalone,
    /// Servers that elect a primary.
    ReplicaSet(ReplicaSetOptions),
    /// Routers, one at each address, and a shard behind them: a replica set of one member that
    /// only the routers reach.
    Sharded,
    /// The same behind a load balancer. Each router is a service with a `serviceId` of its own,
    /// which it tells clients that come by way of the balancer (LB-57).
    LoadBalanced {
        /// Where the balancer is.
        balancer: Address,
    },
}

/// A replica set.
#[derive(Clone, Debug)]
pub struct ReplicaSetOptions {
    /// Its name.
    pub name: String,
    /// Its members, in the order of their addresses.
    pub members: Vec<MemberOptions>,
    /// A secondary that hears nothing from a primary for this long stands for election; a primary
    /// that hears nothing from a majority for this long steps down. Default: 10 s, as the server's.
    pub election_timeout: Duration,
    /// How often a primary makes itself heard. Default: 2 s, as the server's.
    pub heartbeat_interval: Duration,
    /// The member that is primary from the start. `None`: the first one is elected. Default: 0.
    pub initial_primary: Option<usize>,
}

impl ReplicaSetOptions {
    /// A set of `members` equal members with the server's timing.
    #[must_use]
    pub fn new(name: &str, members: usize) -> Self {
        Self {
            name: name.to_owned(),
            members: vec![MemberOptions::default(); members],
            election_timeout: Duration::from_secs(10),
            heartbeat_interval: Duration::from_secs(2),
            initial_primary: Some(0),
        }
    }
}

/// One member of a replica set.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// Zero never becomes primary; higher numbers stand for election sooner. Default: 1.
    pub priority: u32,
    /// Whether it has a vote. Default: true.
    pub votes: bool,
    /// Whether clients are not told about it. Default: false.
    pub hidden: bool,
    /// Whether it votes but holds no data. Default: false.
    pub arbiter: bool,
    /// Tags that read preferences choose by. Default: none.
    pub tags: Vec<(String, String)>,
}

impl Default for MemberOptions {
    fn default() -> Self {
        Self {
            priority: 1,
            votes: true,
            hidden: false,
            arbiter: false,
            tags: Vec::new(),
        }
    }
}

impl MemberOptions {
    /// A member that votes and holds no data.
    #[must_use]
    pub fn arbiter() -> Self {
        Self {
            priority: 0,
            arbiter: true,
            ..Self::default()
        }
    }

    /// True if it may become primary.
    #[must_use]
    pub const fn can_lead(&self) -> bool {
        self.priority > 0 && self.votes && !self.arbiter
    }
}

/// Someone who may log in, with SCRAM-SHA-256 or SCRAM-SHA-1.
#[derive(Clone)]
pub struct User {
    /// The database that knows the user.
    pub database: String,
    /// Name.
    pub name: String,
    /// Password, in the clear.
    pub password: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("database", &self.database)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl User {
    /// A user of the `admin` database.
    #[must_use]
    pub fn new(name: &str, password: &str) -> Self {
        Self {
            database: "admin".to_owned(),
            name: name.to_owned(),
            password: password.to_owned(),
        }
    }
}

/// The release that a server claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// Major, minor, patch.
    pub release: [u16; 3],
    /// `minWireVersion`.
    pub min_wire: i32,
    /// `maxWireVersion`.
    pub max_wire: i32,
}

impl Default for ServerVersion {
    /// 7.0, wire versions 0 to 21.
    fn default() -> Self {
        Self {
            release: [7, 0, 0],
            min_wire: 0,
            max_wire: 21,
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.release;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// What a server accepts and keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `maxMessageSizeBytes`. Default: 48 000 000.
    pub max_message_bytes: usize,
    /// `maxBsonObjectSize`. Default: 16 MiB.
    pub max_document_bytes: usize,
    /// `maxWriteBatchSize`. Default: 100 000.
    pub max_write_batch: usize,
    /// Client connections that a member accepts; more are closed at once. Default: 10 000.
    pub max_connections: usize,
    /// Cursors that a member keeps open; the oldest goes first. Default: 10 000.
    pub max_cursors: usize,
    /// Bytes of messages that are not whole yet, or wait for their turn, of all connections of a
    /// member; beyond them the connection with most is closed. Default: 512 MiB.
    pub max_unfinished_bytes: usize,
    /// Bytes of documents that only the open cursors of a member keep, such as results of
    /// pipelines; the oldest cursor goes first. Default: 512 MiB.
    pub max_cursor_bytes: usize,
    /// Documents that all open cursors of a member have yet to give; the oldest cursor goes first.
    /// Default: 2 000 000.
    pub max_cursor_documents: usize,
    /// Sessions whose retryable writes a member remembers; the one unused for longest goes
    /// first. Default: 10 000.
    pub max_sessions: usize,
    /// Bytes of the effects that those sessions' writes had, which a member remembers for a second
    /// attempt; the session unused for longest goes first. Default: 64 MiB.
    pub max_session_bytes: usize,
    /// An idle cursor is closed after this long. Default: 10 minutes.
    pub cursor_timeout: Duration,
    /// Oplog entries that are kept once everyone alive has them. Default: 10 000.
    pub max_oplog_entries: usize,
    /// Bytes of documents in the oplog that are kept once everyone alive has them; a member that
    /// lacks some takes all data anew. Twice as many are kept for a member that does not answer.
    /// Default: 64 MiB.
    pub max_oplog_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_bytes: onionskin_core::wire::MAX_MESSAGE_BYTES,
            max_document_bytes: 16 * 1024 * 1024,
            max_write_batch: 100_000,
            max_connections: 10_000,
            max_cursors: 10_000,
            max_cursor_documents: 2_000_000,
            max_unfinished_bytes: 512 * 1024 * 1024,
            max_cursor_bytes: 512 * 1024 * 1024,
            max_sessions: 10_000,
            max_session_bytes: 64 * 1024 * 1024,
            cursor_timeout: Duration::from_secs(600),
            max_oplog_entries: 10_000,
            max_oplog_bytes: 64 * 1024 * 1024,
        }
    }
}

/// The network between members. The default one is perfect: instant and lossless.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkOptions {
    /// A message takes at least this long.
    pub min_latency: Duration,
    /// A message takes at most this long.
    pub max_latency: Duration,
    /// Messages lost out of 1000.
    pub loss_per_mille: u16,
}
