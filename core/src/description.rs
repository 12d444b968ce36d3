//! What the client knows about servers and about the deployment: plain values, replaced as a whole.

use crate::{
    address::Address,
    error::{Error, TopologyVersion, cause_text},
    time::{Instant, WallTime},
};
use bson::oid::ObjectId;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// A server's tags, as its replica set's configuration gives them.
pub type Tags = BTreeMap<String, String>;

/// What kind of server answers at an address (SDAM-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerType {
    /// A mongod that belongs to no replica set.
    Standalone,
    /// A router of a sharded cluster.
    Mongos,
    /// Not checked yet, but another member named it as primary. Treated as unknown.
    PossiblePrimary,
    /// The primary of a replica set.
    RsPrimary,
    /// A secondary.
    RsSecondary,
    /// An arbiter: it votes and holds no data.
    RsArbiter,
    /// A member that can be neither read nor written: hidden, starting up, recovering.
    RsOther,
    /// A member whose replica set is not initiated yet.
    RsGhost,
    /// The front of a load balanced deployment.
    LoadBalancer,
    /// Not checked yet, or the last check failed.
    #[default]
    Unknown,
}

impl ServerType {
    /// True for the types that hold data (SDAM-13), or lead to such (LB-20).
    #[must_use]
    pub const fn is_data_bearing(self) -> bool {
        matches!(
            self,
            Self::Standalone
                | Self::Mongos
                | Self::RsPrimary
                | Self::RsSecondary
                | Self::LoadBalancer
        )
    }

    /// True unless the server is unknown: checked, and the last check was answered.
    #[must_use]
    pub const fn is_available(self) -> bool {
        !matches!(self, Self::Unknown | Self::PossiblePrimary)
    }

    /// The name that the specifications use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standalone => "Standalone",
            Self::Mongos => "Mongos",
            Self::PossiblePrimary => "PossiblePrimary",
            Self::RsPrimary => "RSPrimary",
            Self::RsSecondary => "RSSecondary",
            Self::RsArbiter => "RSArbiter",
            Self::RsOther => "RSOther",
            Self::RsGhost => "RSGhost",
            Self::LoadBalancer => "LoadBalancer",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ServerType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of deployment the client talks to (SDAM-11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyType {
    /// One server, by direct connection or because it is a standalone.
    Single,
    /// A replica set in which no primary is known.
    ReplicaSetNoPrimary,
    /// A replica set with a primary.
    ReplicaSetWithPrimary,
    /// One or more mongos.
    Sharded,
    /// A load balancer in front of services.
    LoadBalanced,
    /// Not known yet.
    #[default]
    Unknown,
}

impl TopologyType {
    /// The name that the specifications use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "Single",
            Self::ReplicaSetNoPrimary => "ReplicaSetNoPrimary",
            Self::ReplicaSetWithPrimary => "ReplicaSetWithPrimary",
            Self::Sharded => "Sharded",
            Self::LoadBalanced => "LoadBalanced",
            Self::Unknown => "Unknown",
        }
    }

    /// True for both kinds of replica set.
    #[must_use]
    pub const fn is_replica_set(self) -> bool {
        matches!(
            self,
            Self::ReplicaSetNoPrimary | Self::ReplicaSetWithPrimary
        )
    }
}

impl fmt::Display for TopologyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The driver's number of a topology, unique within its process by construction of the adapter
/// (EVT-8). It names the topology in events and logs and has no other meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopologyId(pub ObjectId);

impl fmt::Display for TopologyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One life of a server in the topology. An address that is removed and added again gets a new one,
/// so that answers meant for the earlier life are recognised (SDAM-66, SDAM-78).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server#{}", self.0)
    }
}

/// A place in a replica set's log, as a server reports it: when something was written, and in whose
/// term. The driver only passes it on (SDAM-50).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTime {
    /// Seconds and a counter within the second.
    pub timestamp: bson::Timestamp,
    /// The term of the primary that wrote; `None` where the server's protocol has no terms.
    pub term: Option<i64>,
}

/// What the last check told about one server (SDAM-15; fields: table A.2.1). It is replaced as a
/// whole, never changed (SDAM-122).
#[derive(Clone, Debug)]
pub struct ServerDescription {
    /// What the client connects to; never the server's own `me`.
    pub address: Address,
    /// The last error, while the server is unknown because of one (SDAM-16, SDAM-45).
    pub error: Option<Error>,
    /// Moving average of the round trip time; `None` while the server is unknown.
    pub round_trip_time: Option<Duration>,
    /// Smallest of the last ten round trip times; zero until there are two.
    pub min_round_trip_time: Duration,
    /// `lastWrite.lastWriteDate`.
    pub last_write_date: Option<WallTime>,
    /// `lastWrite.opTime`.
    pub op_time: Option<OpTime>,
    /// What the server is.
    pub server_type: ServerType,
    /// `minWireVersion`; zero where the reply had none.
    pub min_wire_version: i32,
    /// `maxWireVersion`; zero where the reply had none.
    pub max_wire_version: i32,
    /// What the member calls itself.
    pub me: Option<Address>,
    /// Members that can become primary, sorted.
    pub hosts: Vec<Address>,
    /// Members with priority zero, sorted.
    pub passives: Vec<Address>,
    /// Arbiters, sorted.
    pub arbiters: Vec<Address>,
    /// The member's tags.
    pub tags: Tags,
    /// Name of the replica set.
    pub set_name: Option<String>,
    /// Identifies the election that made this primary.
    pub election_id: Option<ObjectId>,
    /// Version of the replica set's configuration.
    pub set_version: Option<i64>,
    /// Which member this one holds for the primary.
    pub primary: Option<Address>,
    /// When this was learned, by the monotonic clock (SDAM-52), without a correction for the way
    /// that the reply took (SDAM-51); `None` for never.
    pub last_update_time: Option<Instant>,
    /// Minutes that an unused server session lives.
    pub logical_session_timeout_minutes: Option<i64>,
    /// Orders the states of one server process.
    pub topology_version: Option<TopologyVersion>,
    /// The server is mongocryptd.
    pub is_cryptd: bool,
}

impl ServerDescription {
    /// A server of which nothing is known.
    #[must_use]
    pub fn unknown(address: Address) -> Self {
        Self {
            address,
            error: None,
            round_trip_time: None,
            min_round_trip_time: Duration::ZERO,
            last_write_date: None,
            op_time: None,
            server_type: ServerType::Unknown,
            min_wire_version: 0,
            max_wire_version: 0,
            me: None,
            hosts: Vec::new(),
            passives: Vec::new(),
            arbiters: Vec::new(),
            tags: Tags::new(),
            set_name: None,
            election_id: None,
            set_version: None,
            primary: None,
            last_update_time: None,
            logical_session_timeout_minutes: None,
            topology_version: None,
            is_cryptd: false,
        }
    }

    /// True if nothing changed that events report: equality by the fields marked "eq" in table
    /// A.2.1, which leaves out times and round trips (SDAM-59).
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.address == other.address
            && self.server_type == other.server_type
            && self.error == other.error
            && self.topology_version == other.topology_version
            && self.min_wire_version == other.min_wire_version
            && self.max_wire_version == other.max_wire_version
            && self.me == other.me
            && self.hosts == other.hosts
            && self.passives == other.passives
            && self.arbiters == other.arbiters
            && self.tags == other.tags
            && self.set_name == other.set_name
            && self.election_id == other.election_id
            && self.set_version == other.set_version
            && self.primary == other.primary
            && self.logical_session_timeout_minutes == other.logical_session_timeout_minutes
            && self.is_cryptd == other.is_cryptd
    }

    /// True if the reply names this member.
    pub(crate) fn names(&self, member: &Address) -> bool {
        let lists = [&self.hosts, &self.passives, &self.arbiters];
        lists.iter().any(|list| list.binary_search(member).is_ok())
    }

    /// All members that the reply names: hosts, passives, arbiters.
    pub fn members(&self) -> impl Iterator<Item = &Address> {
        self.hosts
            .iter()
            .chain(&self.passives)
            .chain(&self.arbiters)
    }
}

impl fmt::Display for ServerDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.address, self.server_type)?;
        if let Some(rtt) = self.round_trip_time {
            write!(f, ", round trip {:.1} ms", rtt.as_secs_f64() * 1e3)?;
        }
        match &self.error {
            Some(error) => write!(f, ", error: {}", cause_text(error)),
            None => Ok(()),
        }
    }
}

/// What is known about the deployment (SDAM-14).
#[derive(Clone, Debug)]
pub struct TopologyDescription {
    /// Names the topology in events and logs.
    pub id: TopologyId,
    /// What kind of deployment it is.
    pub topology_type: TopologyType,
    /// Name of the replica set, once known or when the user demands one.
    pub set_name: Option<String>,
    /// Largest election id of a primary seen so far, as a pair with `max_set_version`.
    pub max_election_id: Option<ObjectId>,
    /// Set version that belongs to `max_election_id`.
    pub max_set_version: Option<i64>,
    /// The servers by address. Each description is shared, not copied, between versions.
    pub servers: BTreeMap<Address, Arc<ServerDescription>>,
    /// `None` while every known server speaks a wire version that this driver does; else the text
    /// of SDAM-60.
    pub compatibility_error: Option<String>,
    /// Smallest of the data-bearing servers' values; `None` if one of them has none (SDAM-83).
    pub logical_session_timeout_minutes: Option<i64>,
}

impl TopologyDescription {
    /// A deployment of which nothing is known, without servers.
    #[must_use]
    pub fn unknown(id: TopologyId) -> Self {
        Self {
            id,
            topology_type: TopologyType::Unknown,
            set_name: None,
            max_election_id: None,
            max_set_version: None,
            servers: BTreeMap::new(),
            compatibility_error: None,
            logical_session_timeout_minutes: None,
        }
    }

    /// True if nothing changed that events report.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.topology_type == other.topology_type
            && self.set_name == other.set_name
            && self.max_election_id == other.max_election_id
            && self.max_set_version == other.max_set_version
            && self.compatibility_error == other.compatibility_error
            && self.logical_session_timeout_minutes == other.logical_session_timeout_minutes
            && self.servers.len() == other.servers.len()
            && self
                .servers
                .iter()
                .zip(&other.servers)
                .all(|((a, x), (b, y))| a == b && (Arc::ptr_eq(x, y) || x.is_same(y)))
    }

    /// The primary, where one is known.
    #[must_use]
    pub fn primary(&self) -> Option<&Arc<ServerDescription>> {
        self.servers
            .values()
            .find(|s| s.server_type == ServerType::RsPrimary)
    }
}

impl fmt::Display for TopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.topology_type)?;
        if let Some(name) = &self.set_name {
            write!(f, " {name:?}")?;
        }
        f.write_str(" [")?;
        for (i, server) in self.servers.values().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{server}")?;
        }
        f.write_str("]")
    }
}
