//! The types of servers and of topologies.

use std::fmt;

/// The type of a server.
///
/// See [SDAM-12].
///
/// [SDAM-12]: crate::requirements::discovery#SDAM-12
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerType {
    /// A mongod that is not a member of a replica set.
    Standalone,
    /// A router of a sharded cluster.
    Mongos,
    /// An `Unknown` server that a replica set member named as primary. Only a client that checks
    /// servers on demand uses this type, to check the server before other `Unknown` servers. Server
    /// selection treats the type as `Unknown`.
    PossiblePrimary,
    /// The primary of a replica set.
    RsPrimary,
    /// A secondary of a replica set.
    RsSecondary,
    /// An arbiter of a replica set, which votes and holds no data.
    RsArbiter,
    /// A member of a replica set that is hidden, or that is neither primary, secondary nor arbiter,
    /// for example while it starts or recovers. Server selection in a replica set does not choose
    /// it.
    RsOther,
    /// A member of a replica set that is not initiated yet.
    RsGhost,
    /// A load balancer in front of a deployment.
    LoadBalancer,
    /// A server whose state is not known, for example because it was not checked yet or because its
    /// last check failed.
    #[default]
    Unknown,
}

impl ServerType {
    /// True for the types that hold data or give access to servers that do.
    ///
    /// ```
    /// use onionskin_core::description::ServerType;
    ///
    /// assert!(ServerType::RsSecondary.is_data_bearing());
    /// assert!(!ServerType::RsArbiter.is_data_bearing());
    /// ```
    ///
    /// See [SDAM-13] and [LB-20].
    ///
    /// [SDAM-13]: crate::requirements::discovery#SDAM-13
    /// [LB-20]: crate::requirements::load_balancers#LB-20
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

    /// True unless the type is `Unknown` or `PossiblePrimary`.
    ///
    /// ```
    /// use onionskin_core::description::ServerType;
    ///
    /// assert!(ServerType::RsArbiter.is_available());
    /// assert!(!ServerType::Unknown.is_available());
    /// ```
    #[must_use]
    pub const fn is_available(self) -> bool {
        !matches!(self, Self::Unknown | Self::PossiblePrimary)
    }

    /// Returns the name of the type in the specifications.
    ///
    /// ```
    /// use onionskin_core::description::ServerType;
    ///
    /// assert_eq!(ServerType::RsPrimary.name(), "RSPrimary");
    /// ```
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

/// The type of a topology.
///
/// See [SDAM-11].
///
/// [SDAM-11]: crate::requirements::discovery#SDAM-11
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyType {
    /// One server: a direct connection, or a standalone.
    Single,
    /// A replica set without a known primary.
    ReplicaSetNoPrimary,
    /// A replica set with a known primary.
    ReplicaSetWithPrimary,
    /// One or more mongos.
    Sharded,
    /// A load balancer in front of services.
    LoadBalanced,
    /// A deployment that is not discovered yet, or the topology of a closed client.
    #[default]
    Unknown,
}

impl TopologyType {
    /// Returns the name of the type in the specifications.
    ///
    /// ```
    /// use onionskin_core::description::TopologyType;
    ///
    /// assert_eq!(TopologyType::Sharded.name(), "Sharded");
    /// ```
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

    /// True for a replica set, with or without a known primary.
    ///
    /// ```
    /// use onionskin_core::description::TopologyType;
    ///
    /// assert!(TopologyType::ReplicaSetNoPrimary.is_replica_set());
    /// assert!(!TopologyType::Single.is_replica_set());
    /// ```
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
