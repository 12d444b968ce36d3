//! How one server's new description changes what is known of the deployment: the transition table
//! (A.4) and its actions (A.5), all in this file.
//!
//! `PossiblePrimary`, a server that another member calls primary, puts the scans of single-threaded
//! clients in order. For all other purposes it counts as unknown, and for clients with monitors it
//! is not told apart from that (SDAM-12).

use super::staleness::accept_primary;
use crate::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    error::{Error, ErrorKind},
};
use std::sync::Arc;

/// How many servers a topology can grow to by what servers report. Without a primary nothing is
/// ever removed, so a hostile member could otherwise name new ones for ever. A replica set has at
/// most 50 members. A server that is added costs about a microsecond under the client's lock.
pub const MAX_SERVERS: usize = 256;

/// A description that was replaced.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) previous: Arc<ServerDescription>,
    pub(super) new: Arc<ServerDescription>,
}

/// What one step did.
#[derive(Debug)]
pub(super) struct Update {
    /// The server that the step is about.
    pub(super) subject: Change,
    /// Primaries that were found to be old ones (SDAM-74).
    pub(super) invalidated: Vec<Change>,
    /// New servers, in the order in which they were reported.
    pub(super) added: Vec<Address>,
    /// Servers that are gone.
    pub(super) removed: Vec<Address>,
}

impl Update {
    /// True if no other server than the subject was touched, and that one is still there.
    pub(super) fn is_confined(&self) -> bool {
        self.invalidated.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }
}

/// What decides about transitions and is given from the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// One server was configured.
    pub(super) single_seed: bool,
    /// Hints which server is the primary are followed.
    pub(super) possible_primary: bool,
}

/// Puts `new` in the place of `previous` and applies the transition table.
pub(super) fn apply(
    topology: &mut TopologyDescription,
    rules: Rules,
    previous: Arc<ServerDescription>,
    new: Arc<ServerDescription>,
) -> Update {
    let address = new.address.clone();
    topology.servers.insert(address.clone(), Arc::clone(&new));
    let mut step = Step {
        topology,
        rules,
        address,
        new: Arc::clone(&new),
        invalidated: Vec::new(),
        added: Vec::new(),
        removed: Vec::new(),
    };
    step.transition();
    Update {
        subject: Change {
            previous,
            new: step.new,
        },
        invalidated: step.invalidated,
        added: step.added,
        removed: step.removed,
    }
}

struct Step<'a> {
    topology: &'a mut TopologyDescription,
    rules: Rules,
    address: Address,
    new: Arc<ServerDescription>,
    invalidated: Vec<Change>,
    added: Vec<Address>,
    removed: Vec<Address>,
}

impl Step<'_> {
    /// Table A.4, one row each (SDAM-67). A server may become anything (SDAM-42).
    fn transition(&mut self) {
        match self.topology.topology_type {
            TopologyType::Single => self.verify_set_name(),
            TopologyType::LoadBalanced => {}
            TopologyType::Unknown => self.transition_from_unknown(),
            TopologyType::Sharded => self.transition_from_sharded(),
            TopologyType::ReplicaSetNoPrimary => self.transition_from_no_primary(),
            TopologyType::ReplicaSetWithPrimary => self.transition_from_with_primary(),
        }
    }

    fn transition_from_unknown(&mut self) {
        use ServerType as S;
        match self.new.server_type {
            S::Unknown | S::PossiblePrimary | S::RsGhost | S::LoadBalancer => {}
            S::Standalone => self.on_standalone(),
            S::Mongos => self.topology.topology_type = TopologyType::Sharded,
            S::RsPrimary => {
                self.topology.topology_type = TopologyType::ReplicaSetWithPrimary;
                self.on_primary();
            }
            S::RsSecondary | S::RsArbiter | S::RsOther => {
                self.topology.topology_type = TopologyType::ReplicaSetNoPrimary;
                self.on_member_without_primary();
            }
        }
    }

    fn transition_from_sharded(&mut self) {
        use ServerType as S;
        match self.new.server_type {
            S::Unknown | S::PossiblePrimary | S::Mongos | S::LoadBalancer => {}
            S::Standalone
            | S::RsPrimary
            | S::RsSecondary
            | S::RsArbiter
            | S::RsOther
            | S::RsGhost => self.remove_subject(),
        }
    }

    fn transition_from_no_primary(&mut self) {
        use ServerType as S;
        match self.new.server_type {
            S::Unknown | S::PossiblePrimary | S::RsGhost | S::LoadBalancer => {}
            S::Standalone | S::Mongos => self.remove_subject(),
            S::RsPrimary => {
                self.topology.topology_type = TopologyType::ReplicaSetWithPrimary;
                self.on_primary();
            }
            S::RsSecondary | S::RsArbiter | S::RsOther => self.on_member_without_primary(),
        }
    }

    fn transition_from_with_primary(&mut self) {
        use ServerType as S;
        match self.new.server_type {
            S::Unknown | S::PossiblePrimary | S::RsGhost | S::LoadBalancer => {
                self.check_if_has_primary();
            }
            S::Standalone | S::Mongos => {
                self.remove_subject();
                self.check_if_has_primary();
            }
            S::RsPrimary => self.on_primary(),
            S::RsSecondary | S::RsArbiter | S::RsOther => self.on_member_with_primary(),
        }
    }

    /// SDAM-62: with a direct connection, a server of another replica set than the demanded one
    /// stays in the topology as an unknown one.
    fn verify_set_name(&mut self) {
        let demanded = &self.topology.set_name;
        if demanded.is_none() || !self.new.server_type.is_available() {
            return;
        }
        if self.new.set_name != *demanded {
            let text = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
            let message = format!(
                "the replica set's name is {}, but the client asks for {}",
                text(&self.new.set_name),
                text(demanded),
            );
            self.new = self.reject(&Arc::clone(&self.new), message);
        }
    }

    /// updateUnknownWithStandalone (SDAM-68): the only configured seed, not the only server (A.11,
    /// trap 6).
    fn on_standalone(&mut self) {
        if self.rules.single_seed {
            self.topology.topology_type = TopologyType::Single;
        } else {
            self.remove_subject();
        }
    }

    /// updateRSWithoutPrimary (SDAM-69). The member's list counts even if the member itself then
    /// has to go.
    fn on_member_without_primary(&mut self) {
        if !self.has_right_set_name() {
            self.remove_subject();
            return;
        }
        self.add_members();
        self.follow_hint();
        if self.calls_itself_otherwise() {
            self.remove_subject();
        }
    }

    /// updateRSWithPrimaryFromMember (SDAM-70). Nothing is added: the primary's list is the one
    /// that counts.
    fn on_member_with_primary(&mut self) {
        if self.topology.set_name != self.new.set_name || self.calls_itself_otherwise() {
            self.remove_subject();
            self.check_if_has_primary();
            return;
        }
        self.check_if_has_primary();
        if self.topology.topology_type == TopologyType::ReplicaSetNoPrimary {
            self.follow_hint();
        }
    }

    /// updateRSFromPrimary (SDAM-71). Only a primary's set version counts (SDAM-81).
    fn on_primary(&mut self) {
        if !self.has_right_set_name() {
            self.remove_subject();
            self.check_if_has_primary();
            return;
        }
        if let Err(message) = accept_primary(self.topology, &self.new) {
            self.new = self.reject(&Arc::clone(&self.new), message);
            self.check_if_has_primary();
            return;
        }
        self.invalidate_other_primaries();
        // The other way round than in A.5, so that strangers never take the members' room.
        self.remove_non_members();
        self.add_members();
        self.check_if_has_primary();
    }

    /// SDAM-74, SDAM-75: the old primary is unknown until it is checked; its pool stays.
    fn invalidate_other_primaries(&mut self) {
        let others: Vec<_> = self
            .topology
            .servers
            .values()
            .filter(|s| s.server_type == ServerType::RsPrimary && s.address != self.address)
            .cloned()
            .collect();
        for previous in others {
            let message = "primary marked stale due to discovery of newer primary".to_owned();
            let new = self.reject(&previous, message);
            self.invalidated.push(Change { previous, new });
        }
    }

    /// Replaces a description by that of an unknown server with this error.
    fn reject(
        &mut self,
        server: &Arc<ServerDescription>,
        message: String,
    ) -> Arc<ServerDescription> {
        let address = server.address.clone();
        let unknown = Arc::new(ServerDescription {
            error: Some(Error::new(ErrorKind::Discovery { message })),
            last_update_time: self.new.last_update_time,
            ..ServerDescription::unknown(address.clone())
        });
        self.topology.servers.insert(address, Arc::clone(&unknown));
        unknown
    }

    /// Takes the name of the set where none is known yet.
    fn has_right_set_name(&mut self) -> bool {
        if self.topology.set_name.is_none() {
            self.topology.set_name.clone_from(&self.new.set_name);
        }
        self.topology.set_name == self.new.set_name
    }

    /// A missing `me` is no mismatch (A.11, trap 3).
    fn calls_itself_otherwise(&self) -> bool {
        self.new.me.as_ref().is_some_and(|me| *me != self.address)
    }

    fn add_members(&mut self) {
        let new = Arc::clone(&self.new);
        for address in new.members() {
            if self.topology.servers.len() >= MAX_SERVERS {
                return;
            }
            if !self.topology.servers.contains_key(address) {
                let unknown = Arc::new(ServerDescription::unknown(address.clone()));
                self.topology.servers.insert(address.clone(), unknown);
                self.added.push(address.clone());
            }
        }
    }

    /// A server of which nothing is known but that this member holds it for the primary (SDAM-12).
    /// No event tells of that alone, as the official files want it.
    fn follow_hint(&mut self) {
        if !self.rules.possible_primary {
            return;
        }
        let hint = self.new.primary.as_ref();
        let Some(named) = hint.and_then(|address| self.topology.servers.get_mut(address)) else {
            return;
        };
        if named.server_type == ServerType::Unknown {
            Arc::make_mut(named).server_type = ServerType::PossiblePrimary;
        }
    }

    /// SDAM-80: the primary's list is authoritative, even if the primary itself is not in it.
    fn remove_non_members(&mut self) {
        let new = Arc::clone(&self.new);
        let removed = &mut self.removed;
        self.topology.servers.retain(|address, _| {
            let stays = new.names(address);
            if !stays {
                removed.push(address.clone());
            }
            stays
        });
    }

    fn remove_subject(&mut self) {
        if self.topology.servers.remove(&self.address).is_some() {
            self.removed.push(self.address.clone());
        }
    }

    fn check_if_has_primary(&mut self) {
        self.topology.topology_type = if self.topology.primary().is_some() {
            TopologyType::ReplicaSetWithPrimary
        } else {
            TopologyType::ReplicaSetNoPrimary
        };
    }
}
