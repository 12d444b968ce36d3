//! The deployment's description and what holds for it as a whole.

use super::{
    action::SdamOptions,
    transition::{Rules, Update, apply},
};
use crate::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    error::TopologyVersion,
};
use std::sync::Arc;

/// The oldest wire version that this driver speaks: MongoDB 4.2.
pub const MIN_WIRE_VERSION: i32 = 8;

/// The newest wire version that this driver speaks.
pub const MAX_WIRE_VERSION: i32 = 29;

/// The release that [`MIN_WIRE_VERSION`] came with.
const MIN_SERVER_RELEASE: &str = "4.2";

/// The current description. It is shared with whoever looks at it and copied only to be changed.
#[derive(Clone, Debug)]
pub(super) struct Topology {
    description: Arc<TopologyDescription>,
    rules: Rules,
}

impl Topology {
    /// Nothing known, no servers.
    pub(super) fn new(options: &SdamOptions) -> Self {
        Self {
            description: Arc::new(TopologyDescription::unknown(options.topology_id)),
            rules: Rules {
                single_seed: options.seeds.len() == 1,
                possible_primary: options.possible_primary || options.scanning.is_some(),
            },
        }
    }

    /// Sets the type that the options ask for, with all seeds unknown (SDAM-21).
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

    /// Replaces one server's description and everything that follows from it. `None` if the server
    /// is not in the topology or what is known is newer (SDAM-37, SDAM-66).
    pub(super) fn apply(&mut self, new: ServerDescription) -> Option<Update> {
        let previous = Arc::clone(self.description.servers.get(&new.address)?);
        if TopologyVersion::is_older(new.topology_version, previous.topology_version) {
            return None;
        }
        let is_news = !new.is_same(&previous);
        let description = Arc::make_mut(&mut self.description);
        let update = apply(description, self.rules, previous, Arc::new(new));
        // Both look at every server, and at nothing that a repeated reply brings.
        if is_news || !update.is_confined() {
            // LB-15
            if description.topology_type != TopologyType::LoadBalanced {
                description.compatibility_error = compatibility_error(description);
            }
            description.logical_session_timeout_minutes = session_timeout(description);
        }
        Some(update)
    }

    /// Forgets everything (SDAM-36).
    pub(super) fn close(&mut self) {
        self.description = Arc::new(TopologyDescription::unknown(self.description.id));
    }

    /// What is known now.
    pub(super) fn description(&self) -> &Arc<TopologyDescription> {
        &self.description
    }

    /// What is known of one server.
    pub(super) fn server(&self, address: &Address) -> Option<&Arc<ServerDescription>> {
        self.description.servers.get(address)
    }

    /// True for a server whose pool is to be ready after a successful check (SDAM-84).
    pub(super) fn wants_pool(&self, server: ServerType) -> bool {
        server.is_data_bearing()
            || (self.description.topology_type == TopologyType::Single && server.is_available())
    }
}

/// SDAM-60, SDAM-61: the text for the first server, by address, that cannot be talked to.
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

/// SDAM-83: the smallest value of the servers that hold data; none if one of them has none.
fn session_timeout(topology: &TopologyDescription) -> Option<i64> {
    let data_bearing = topology
        .servers
        .values()
        .filter(|s| s.server_type.is_data_bearing());
    // Nothing is less than every number, so one missing value makes the result missing.
    data_bearing
        .map(|s| s.logical_session_timeout_minutes)
        .min()
        .flatten()
}
