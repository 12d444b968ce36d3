//! Server descriptions and topology descriptions.

mod getters;
mod types;

pub use types::{ServerType, TopologyType};

use crate::{
    address::Address,
    error::{Error, TopologyVersion, cause_text},
    time::{Instant, WallTime},
};
use bson::oid::ObjectId;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// The tags of a server in the configuration of its replica set.
pub type Tags = BTreeMap<String, String>;

/// The id of a topology in events and logs, which a client derives from its seed.
///
/// See [EVT-8].
///
/// [EVT-8]: crate::requirements::monitoring_events#EVT-8
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopologyId(pub ObjectId);

impl fmt::Display for TopologyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The id of a server while it is in the topology. An address that is removed and added again gets
/// a new id, so that late inputs about the removed server are ignored ([SDAM-66], [SDAM-78]).
///
/// [SDAM-66]: crate::requirements::discovery#SDAM-66
/// [SDAM-78]: crate::requirements::discovery#SDAM-78
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server#{}", self.0)
    }
}

/// A position in the oplog of a replica set, from the field `lastWrite.opTime` of a reply to
/// `hello`.
///
/// See [SDAM-50].
///
/// [SDAM-50]: crate::requirements::discovery#SDAM-50
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTime {
    /// The time of the write: seconds, and a counter within the second.
    pub timestamp: bson::Timestamp,
    /// The term of the primary that wrote; `None` if the reply has none.
    pub term: Option<i64>,
}

/// The state of one server as the client knows it, for example from the last reply to `hello`. The
/// client replaces a description that it has published, and does not change it ([SDAM-15],
/// [SDAM-122], table A.2.1).
///
/// [SDAM-15]: crate::requirements::discovery#SDAM-15
/// [SDAM-122]: crate::requirements::discovery#SDAM-122
#[derive(Clone, Debug)]
pub struct ServerDescription {
    /// The address to which the client connects, which can differ from the server's `me`.
    pub address: Address,
    /// The error because of which the server became `Unknown`; `None` if no error was the reason
    /// ([SDAM-16], [SDAM-45]).
    ///
    /// [SDAM-16]: crate::requirements::discovery#SDAM-16
    /// [SDAM-45]: crate::requirements::discovery#SDAM-45
    pub error: Option<Error>,
    /// The weighted moving average of the round trip time; `None` if it is not known, as for an
    /// `Unknown` server.
    pub round_trip_time: Option<Duration>,
    /// The minimum of the last ten round trip times. Zero while fewer than two are known, and for
    /// an `Unknown` server.
    pub min_round_trip_time: Duration,
    /// The field `lastWrite.lastWriteDate` of the reply; `None` by default.
    pub last_write_date: Option<WallTime>,
    /// The field `lastWrite.opTime` of the reply; `None` by default.
    pub op_time: Option<OpTime>,
    /// The type of the server; `Unknown` at first.
    pub server_type: ServerType,
    /// The field `minWireVersion` of the reply; zero by default.
    pub min_wire_version: i32,
    /// The field `maxWireVersion` of the reply; zero by default.
    pub max_wire_version: i32,
    /// The address of the server in the configuration of its replica set.
    pub me: Option<Address>,
    /// The members that can become primary, sorted.
    pub hosts: Vec<Address>,
    /// The members with priority zero, sorted.
    pub passives: Vec<Address>,
    /// The arbiters, sorted.
    pub arbiters: Vec<Address>,
    /// The tags of the member; empty if it has none.
    pub tags: Tags,
    /// The name of the server's replica set; `None` if it is in none or reports none.
    pub set_name: Option<String>,
    /// The id of the election in which this primary was elected.
    pub election_id: Option<ObjectId>,
    /// The version of the configuration of the replica set.
    pub set_version: Option<i64>,
    /// The address of the member that this member considers the primary.
    pub primary: Option<Address>,
    /// The time at which the client made this description, on the monotonic clock, without a
    /// correction for network latency. `None` in the description with which a server starts
    /// ([SDAM-52], [SDAM-51]).
    ///
    /// [SDAM-52]: crate::requirements::discovery#SDAM-52
    /// [SDAM-51]: crate::requirements::discovery#SDAM-51
    pub last_update_time: Option<Instant>,
    /// The lifetime of an unused server session, in minutes.
    pub logical_session_timeout_minutes: Option<i64>,
    /// The server process and the number of its state changes, by which newer replies are
    /// recognized.
    pub topology_version: Option<TopologyVersion>,
    /// True if the server is mongocryptd.
    pub is_cryptd: bool,
}

impl ServerDescription {
    /// Returns the size in bytes of the names, tags and texts that servers have sent.
    pub(crate) fn received_bytes(&self) -> usize {
        let hosts = [&self.hosts, &self.passives, &self.arbiters];
        let hosts = hosts.into_iter().flatten();
        let hosts: usize = hosts.map(|h| size_of::<Address>() + h.host().len()).sum();
        let tags = self
            .tags
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let tags: usize = tags.map(|text| size_of::<[String; 2]>() + text).sum();
        let error = self.error.as_ref().map_or(0, Error::received_bytes);
        hosts + tags + error + self.set_name.as_ref().map_or(0, String::len)
    }

    /// Creates the description of type `Unknown` with which a server starts.
    ///
    /// ```
    /// use onionskin_core::{address::Address, description::{ServerDescription, ServerType}};
    ///
    /// let server = ServerDescription::unknown(Address::tcp("localhost", 27017));
    /// assert_eq!(server.server_type, ServerType::Unknown);
    /// ```
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

    /// True if the descriptions count as equal, so that the replacement of one by the other emits
    /// no event. Table A.2.1 lists the fields that are compared: all but round trip times,
    /// `lastWrite` and the time of the update ([SDAM-59]).
    ///
    /// ```
    /// use onionskin_core::{address::Address, description::ServerDescription};
    /// use std::time::Duration;
    ///
    /// let server = ServerDescription::unknown(Address::tcp("localhost", 27017));
    /// let mut slower = server.clone();
    /// slower.round_trip_time = Some(Duration::from_millis(9));
    /// assert!(server.is_same(&slower));
    /// ```
    ///
    /// [SDAM-59]: crate::requirements::discovery#SDAM-59
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

    /// True if the hosts, passives or arbiters contain `member`.
    pub(crate) fn names(&self, member: &Address) -> bool {
        let lists = [&self.hosts, &self.passives, &self.arbiters];
        lists.iter().any(|list| list.binary_search(member).is_ok())
    }

    /// Returns all members that the reply lists: hosts, passives and arbiters.
    ///
    /// ```
    /// use onionskin_core::{address::Address, description::ServerDescription};
    ///
    /// let server = ServerDescription::unknown(Address::tcp("localhost", 27017));
    /// assert_eq!(server.members().count(), 0);
    /// ```
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

/// The state of the deployment, made from the descriptions of its servers.
///
/// See [SDAM-14].
///
/// [SDAM-14]: crate::requirements::discovery#SDAM-14
#[derive(Clone, Debug)]
pub struct TopologyDescription {
    /// The id of the topology in events and logs.
    pub id: TopologyId,
    /// The kind of deployment, as far as it is known.
    pub topology_type: TopologyType,
    /// The name of the replica set: the one that the user configured, or the first one that was
    /// discovered. `None` if there is neither.
    pub set_name: Option<String>,
    /// The value `maxElectionId` of the specification, with which a new primary is compared (table
    /// A.6).
    pub max_election_id: Option<ObjectId>,
    /// The value `maxSetVersion` of the specification, with which a new primary is compared (table
    /// A.6).
    pub max_set_version: Option<i64>,
    /// The server descriptions by address. Successive topology descriptions share the server
    /// descriptions that did not change.
    pub servers: BTreeMap<Address, Arc<ServerDescription>>,
    /// The message about the first server whose wire versions are not supported; `None` if there is
    /// no such server, and for a load balancer ([SDAM-60]).
    ///
    /// [SDAM-60]: crate::requirements::discovery#SDAM-60
    pub compatibility_error: Option<String>,
    /// The smallest session timeout of the data-bearing servers, in minutes; `None` if one of them
    /// reports none, or if there is no such server ([SDAM-83]).
    ///
    /// [SDAM-83]: crate::requirements::discovery#SDAM-83
    pub logical_session_timeout_minutes: Option<i64>,
}

impl TopologyDescription {
    /// Creates a topology description of type `Unknown` without servers.
    ///
    /// ```
    /// use bson::oid::ObjectId;
    /// use onionskin_core::description::{TopologyDescription, TopologyId};
    ///
    /// let id = TopologyId(ObjectId::from_bytes([1; 12]));
    /// let topology = TopologyDescription::unknown(id);
    /// assert!(topology.servers.is_empty());
    /// ```
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

    /// True if the descriptions count as equal, so that the replacement of one by the other emits
    /// no event. Server descriptions are compared by [`ServerDescription::is_same`].
    ///
    /// ```
    /// use bson::oid::ObjectId;
    /// use onionskin_core::description::{TopologyDescription, TopologyId};
    ///
    /// let id = TopologyId(ObjectId::from_bytes([1; 12]));
    /// let topology = TopologyDescription::unknown(id);
    /// assert!(topology.is_same(&topology.clone()));
    /// ```
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

    /// Returns the description of the primary, if one is known.
    ///
    /// ```
    /// use onionskin_core::description::TopologyDescription;
    ///
    /// fn primary(topology: &TopologyDescription) -> String {
    ///     let address = topology.primary().map(|server| server.address.to_string());
    ///     address.unwrap_or_else(|| "none".to_owned())
    /// }
    /// ```
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
