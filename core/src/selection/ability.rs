//! The methods of a topology description that find out whether it has servers for reads and writes.

use super::{Criteria, suitable};
use crate::{
    description::{TopologyDescription, TopologyType},
    options::ReadPreference,
    sdam::DEFAULT_HEARTBEAT_FREQUENCY,
};
use std::sync::Arc;

impl TopologyDescription {
    /// True if the topology has a readable server for this read preference. Without an argument,
    /// mode primary applies ([EVT-24], table B.2).
    ///
    /// The estimate of staleness needs `heartbeatFrequencyMS`, which a topology description does
    /// not contain; the default is used. In a replica set, no server suits a maximum staleness
    /// below the smallest one allowed.
    ///
    /// ```
    /// use onionskin_core::{
    ///     description::{TopologyDescription, TopologyId},
    ///     options::{ReadMode, ReadPreference},
    /// };
    ///
    /// let id = TopologyId(bson::oid::ObjectId::from_bytes([0; 12]));
    /// let nothing_known = TopologyDescription::unknown(id);
    /// let anywhere = ReadPreference::new(ReadMode::Nearest);
    /// assert!(!nothing_known.has_readable_server(Some(&anywhere)));
    /// ```
    ///
    /// [EVT-24]: crate::requirements::monitoring_events#EVT-24
    #[must_use]
    pub fn has_readable_server(&self, preference: Option<&ReadPreference>) -> bool {
        match (self.topology_type, preference) {
            (TopologyType::ReplicaSetNoPrimary, Some(preference)) if preference.is_primary() => {
                false
            }
            (
                TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary,
                Some(preference),
            ) => {
                let criteria = Criteria::Readable(Arc::new(preference.clone()));
                suitable(self, &criteria, DEFAULT_HEARTBEAT_FREQUENCY, &[])
                    .is_ok_and(|servers| !servers.is_empty())
            }
            _ => self.has_writable_server(),
        }
    }

    /// True if the topology has a writable server. With type `Single` or `Sharded`, any available
    /// server counts ([EVT-24], table B.2).
    ///
    /// [EVT-24]: crate::requirements::monitoring_events#EVT-24
    #[must_use]
    pub fn has_writable_server(&self) -> bool {
        match self.topology_type {
            TopologyType::Unknown | TopologyType::ReplicaSetNoPrimary => false,
            TopologyType::ReplicaSetWithPrimary | TopologyType::LoadBalanced => true,
            TopologyType::Single | TopologyType::Sharded => {
                let mut servers = self.servers.values();
                servers.any(|server| server.server_type.is_available())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        address::Address,
        description::{ServerDescription, ServerType, Tags, TopologyId},
        options::ReadMode,
    };
    use bson::oid::ObjectId;
    use std::time::Duration;

    fn deployment(kind: TopologyType, servers: &[ServerType]) -> TopologyDescription {
        let mut topology = TopologyDescription::unknown(TopologyId(ObjectId::from_bytes([0; 12])));
        topology.topology_type = kind;
        for (port, &server_type) in (1..).zip(servers) {
            let address = Address::tcp("a", port);
            let mut server = ServerDescription::unknown(address.clone());
            server.server_type = server_type;
            server.tags = Tags::from([("dc".to_owned(), "ny".to_owned())]);
            topology.servers.insert(address, Arc::new(server));
        }
        topology
    }

    #[test]
    fn readable_and_writable_follow_the_table_of_the_specification() {
        // The rows are those of table B.2 (EVT-24). The columns: readable without read preference,
        // readable with mode secondary, readable with mode nearest, writable.
        use ServerType::{LoadBalancer, Mongos, RsArbiter, RsPrimary, RsSecondary, Standalone};
        use TopologyType::{
            LoadBalanced, ReplicaSetNoPrimary, ReplicaSetWithPrimary, Sharded, Single,
        };
        let unknown = ServerType::Unknown;
        let (yes, no) = (true, false);
        for (kind, servers, expected) in [
            (TopologyType::Unknown, vec![unknown], [no, no, no, no]),
            (Single, vec![unknown], [no, no, no, no]),
            (Single, vec![Standalone], [yes, yes, yes, yes]),
            (Single, vec![RsSecondary], [yes, yes, yes, yes]),
            (Sharded, vec![unknown, unknown], [no, no, no, no]),
            (Sharded, vec![unknown, Mongos], [yes, yes, yes, yes]),
            (LoadBalanced, vec![LoadBalancer], [yes, yes, yes, yes]),
            (ReplicaSetNoPrimary, vec![RsArbiter], [no, no, no, no]),
            (ReplicaSetNoPrimary, vec![RsSecondary], [no, yes, yes, no]),
            (ReplicaSetWithPrimary, vec![RsPrimary], [yes, no, yes, yes]),
            (
                ReplicaSetWithPrimary,
                vec![RsPrimary, RsSecondary],
                [yes, yes, yes, yes],
            ),
        ] {
            let topology = deployment(kind, &servers);
            let by = |mode| topology.has_readable_server(Some(&ReadPreference::new(mode)));
            let found = [
                topology.has_readable_server(None),
                by(ReadMode::Secondary),
                by(ReadMode::Nearest),
                topology.has_writable_server(),
            ];
            assert_eq!(found, expected, "{topology}");
            assert_eq!(by(ReadMode::Primary), found[0], "{topology}");
        }
    }

    #[test]
    fn tag_sets_and_max_staleness_restrict_readable_servers() {
        let topology = deployment(
            TopologyType::ReplicaSetNoPrimary,
            &[ServerType::RsSecondary],
        );
        let tagged = |place: &str| {
            let tags = Tags::from([("dc".to_owned(), place.to_owned())]);
            let preference = ReadPreference::new(ReadMode::Nearest);
            preference.with_tag_sets(vec![tags]).expect("no primary")
        };
        assert!(topology.has_readable_server(Some(&tagged("ny"))));
        assert!(!topology.has_readable_server(Some(&tagged("sf"))));
        let fresh = ReadPreference::new(ReadMode::Nearest);
        let fresh = fresh
            .with_max_staleness(Duration::from_secs(1))
            .expect("no primary");
        assert!(!topology.has_readable_server(Some(&fresh)));
    }
}
