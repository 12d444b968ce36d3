//! The current topology description, and the values in it that depend on all servers.

use super::{
    order::SdamOptions,
    transition::{Rules, Update, apply},
};
use crate::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    error::TopologyVersion,
};
use std::{collections::BTreeSet, sync::Arc};

/// The smallest wire version that the driver supports, which is that of MongoDB 4.2.
pub const MIN_WIRE_VERSION: i32 = 8;

/// The largest wire version that the driver supports.
pub const MAX_WIRE_VERSION: i32 = 29;

/// The MongoDB version with [`MIN_WIRE_VERSION`].
const MIN_SERVER_RELEASE: &str = "4.2";

/// The current topology description. Readers share the description; a change copies the description
/// only if a reader holds it.
#[derive(Clone, Debug)]
pub(super) struct Topology {
    description: Arc<TopologyDescription>,
    /// The servers that stay in a full topology: those that have answered, and the seeds or the
    /// hosts of the last SRV lookup.
    kept: BTreeSet<Address>,
    /// The number of seeds, or of the hosts of the last SRV lookup.
    seeds: usize,
    /// True if the client was configured with exactly one seed, and no SRV lookup found more.
    single_seed: bool,
    possible_primary: bool,
    /// The server that reported `maxElectionId` and `maxSetVersion`; `None` if both are null.
    newest_election: Option<Address>,
}

impl Topology {
    /// Returns a topology of type Unknown without servers.
    pub(super) fn new(options: &SdamOptions) -> Self {
        Self {
            description: Arc::new(TopologyDescription::unknown(options.topology_id)),
            kept: options.seeds.iter().cloned().collect(),
            seeds: options.seeds.len(),
            single_seed: options.seeds.len() == 1,
            possible_primary: options.possible_primary || options.scanning.is_some(),
            newest_election: None,
        }
    }

    /// Sets the topology type and the set name by the options (SDAM-21), and adds all seeds as
    /// Unknown servers.
    pub(super) fn open(&mut self, options: &SdamOptions) {
        let description = Arc::make_mut(&mut self.description);
        description.topology_type = if options.load_balanced {
            TopologyType::LoadBalanced
        } else if options.direct_connection {
            TopologyType::Single
        } else if options.replica_set.is_some() {
            TopologyType::ReplicaSetNoPrimary
        } else {
            TopologyType::Unknown
        };
        description.set_name.clone_from(&options.replica_set);
        for seed in &options.seeds {
            let unknown = Arc::new(ServerDescription::unknown(seed.clone()));
            description.servers.insert(seed.clone(), unknown);
        }
    }

    /// Replaces a server description and updates the topology. Returns `None` without any change if
    /// the server is not in the topology (SDAM-66), or if the `topologyVersion` of its current
    /// description is newer (SDAM-37).
    pub(super) fn apply(&mut self, new: ServerDescription) -> Option<Update> {
        let previous = Arc::clone(self.description.servers.get(&new.address)?);
        if TopologyVersion::is_older(new.topology_version, previous.topology_version) {
            return None;
        }
        let is_news = !new.is_same(&previous);
        let description = Arc::make_mut(&mut self.description);
        let maxima = (description.max_election_id, description.max_set_version);
        if new.server_type.is_available() && !self.kept.contains(&new.address) {
            self.kept.insert(new.address.clone());
        }
        let rules = Rules {
            kept: &self.kept,
            seeds: self.seeds,
            single_seed: self.single_seed,
            possible_primary: self.possible_primary,
        };
        let update = apply(description, rules, previous, Arc::new(new));
        for removed in &update.removed {
            self.kept.remove(removed);
        }
        if maxima != (description.max_election_id, description.max_set_version) {
            self.newest_election = Some(update.subject.new.address.clone());
        }
        // The compatibility error and the session timeout depend on all servers. If the new
        // description equals the previous one and no other server changed, both values stay.
        if is_news || !update.is_confined() {
            // A load balanced topology is always compatible (LB-15).
            if description.topology_type != TopologyType::LoadBalanced {
                description.compatibility_error = compatibility_error(description);
            }
            description.logical_session_timeout_minutes = session_timeout(description);
        }
        Some(update)
    }

    /// Replaces the hosts by these: adds new ones as Unknown servers, and removes the others.
    /// Returns the added and the removed addresses.
    pub(super) fn replace_hosts(&mut self, hosts: &[Address]) -> (Vec<Address>, Vec<Address>) {
        let wanted: BTreeSet<&Address> = hosts.iter().collect();
        let known = &self.description.servers;
        let is_new = |host: &&&Address| !known.contains_key(**host);
        let added: Vec<Address> = wanted
            .iter()
            .filter(is_new)
            .map(|&host| host.clone())
            .collect();
        let is_gone = |host: &&Address| !wanted.contains(*host);
        let removed: Vec<Address> = known.keys().filter(is_gone).cloned().collect();
        if added.is_empty() && removed.is_empty() {
            return (added, removed);
        }
        // A standalone becomes the only server of the topology only if it is the only host.
        self.single_seed &= hosts.len() == 1;
        self.kept = hosts.iter().cloned().collect();
        self.seeds = hosts.len();
        let description = Arc::make_mut(&mut self.description);
        for address in &removed {
            description.servers.remove(address);
        }
        for address in &added {
            let unknown = Arc::new(ServerDescription::unknown(address.clone()));
            description.servers.insert(address.clone(), unknown);
        }
        description.compatibility_error = compatibility_error(description);
        description.logical_session_timeout_minutes = session_timeout(description);
        (added, removed)
    }

    /// Removes all servers and sets the type Unknown (SDAM-36).
    pub(super) fn close(&mut self) {
        self.description = Arc::new(TopologyDescription::unknown(self.description.id));
    }

    /// Returns the server that reported `maxElectionId` and `maxSetVersion`; `None` if both are
    /// null.
    pub(super) fn newest_election(&self) -> Option<&Address> {
        self.newest_election.as_ref()
    }

    /// Returns the topology description.
    pub(super) fn description(&self) -> &Arc<TopologyDescription> {
        &self.description
    }

    /// Returns the description of the server at an address; `None` if the topology has no such
    /// server.
    pub(super) fn server(&self, address: &Address) -> Option<&Arc<ServerDescription>> {
        self.description.servers.get(address)
    }

    /// True if a successful check of a server of this type makes its pool ready (SDAM-84).
    pub(super) fn wants_pool(&self, server: ServerType) -> bool {
        server.is_data_bearing()
            || (self.description.topology_type == TopologyType::Single && server.is_available())
    }
}

/// Returns the error text for the first incompatible server, in the order of addresses (SDAM-60).
/// `None` if all servers are compatible (SDAM-61).
fn compatibility_error(topology: &TopologyDescription) -> Option<String> {
    let mut known = topology
        .servers
        .values()
        .filter(|s| s.server_type.is_available());
    known.find_map(|server| {
        if server.min_wire_version > MAX_WIRE_VERSION {
            Some(format!(
                "Server at {} requires wire version {}, but this version of Onionskin only \
                 supports up to {MAX_WIRE_VERSION}.",
                server.address, server.min_wire_version,
            ))
        } else if server.max_wire_version < MIN_WIRE_VERSION {
            Some(format!(
                "Server at {} reports wire version {}, but this version of Onionskin requires at \
                 least {MIN_WIRE_VERSION} (MongoDB {MIN_SERVER_RELEASE}).",
                server.address, server.max_wire_version,
            ))
        } else {
            None
        }
    })
}

/// Returns the smallest session timeout of the data-bearing servers, in minutes. `None` if one of
/// them has no value, or if there is no such server (SDAM-83). Values of zero or less are ignored:
/// a session cannot have such a timeout, and one server would make all others lose theirs.
fn session_timeout(topology: &TopologyDescription) -> Option<i64> {
    let data_bearing = topology
        .servers
        .values()
        .filter(|s| s.server_type.is_data_bearing());
    // `None` is less than every `Some`, so one missing value makes the minimum `None`.
    data_bearing
        .map(|s| s.logical_session_timeout_minutes)
        .filter(|minutes| minutes.is_none_or(|minutes| minutes > 0))
        .min()
        .flatten()
}
