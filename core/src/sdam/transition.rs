//! The transitions of the topology: how the new description of one server changes the topology
//! description. Table A.4 has the transitions and table A.5 their actions.
//!
//! An Unknown server that another member names as primary can become a `PossiblePrimary`. The type
//! orders the scans of a client that checks servers on demand, and counts as Unknown otherwise
//! (SDAM-12).

use super::stale_primary::accept_primary;
use crate::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    error::{Error, ErrorKind},
    hello::MAX_MEMBERS,
};
use std::{collections::BTreeSet, sync::Arc};

/// The number of servers that DNS and replies can bring into a topology at most. Further hosts of
/// an SRV answer are ignored.
pub const MAX_SERVERS: usize = 256;

/// The number of servers in a topology at which replies add no more servers, if it has at most half
/// as many seeds. While no primary is known, the lists of members remove no server, so a hostile
/// member could otherwise name new servers without end. A replica set has at most 50 members; the
/// bound leaves room for as many that have left it.
pub const MAX_NAMED_SERVERS: usize = 100;

/// A server description before and after a step.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) previous: Arc<ServerDescription>,
    pub(super) new: Arc<ServerDescription>,
}

/// The servers that one step changed, without those that became `PossiblePrimary`.
#[derive(Debug)]
pub(super) struct Update {
    /// The server whose description the step replaced.
    pub(super) subject: Change,
    /// Primaries that became Unknown, because a newer primary was found (SDAM-74).
    pub(super) invalidated: Vec<Change>,
    /// The added servers, in the order of the lists: hosts, passives, arbiters.
    pub(super) added: Vec<Address>,
    /// The removed servers.
    pub(super) removed: Vec<Address>,
    /// True if the server claims to be the primary and is refused as stale (SDAM-46).
    pub(super) is_refused: bool,
}

impl Update {
    /// True if the step invalidated, added and removed no server.
    pub(super) fn is_confined(&self) -> bool {
        self.invalidated.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }
}

/// The facts that transitions depend on beside the descriptions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    /// The seeds and the servers that have answered, which stay in a full topology.
    pub(super) kept: &'a BTreeSet<Address>,
    /// The number of seeds.
    pub(super) seeds: usize,
    /// True if the client was configured with exactly one seed.
    pub(super) single_seed: bool,
    /// True if an Unknown server that a member names as primary becomes `PossiblePrimary`.
    pub(super) possible_primary: bool,
}

/// Replaces the server description `previous` by `new` and carries out the transition of table A.4.
pub(super) fn apply(
    topology: &mut TopologyDescription,
    rules: Rules<'_>,
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
        is_refused: false,
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
        is_refused: step.is_refused,
    }
}

/// The replacement of one server description under way, with the changes so far.
struct Step<'a> {
    topology: &'a mut TopologyDescription,
    rules: Rules<'a>,
    address: Address,
    new: Arc<ServerDescription>,
    invalidated: Vec<Change>,
    added: Vec<Address>,
    removed: Vec<Address>,
    is_refused: bool,
}

impl Step<'_> {
    /// Carries out the row of table A.4 for the topology type (SDAM-67). A server may change from
    /// any type to any other (SDAM-42).
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

    /// Handles the new description in a topology of type Unknown (table A.4, row Unknown).
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

    /// Handles the new description in a topology of type Sharded (table A.4, row Sharded).
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

    /// Handles the new description in a replica set without a known primary (table A.4, row
    /// ReplicaSetNoPrimary).
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

    /// Handles the new description in a replica set with a known primary (table A.4, row
    /// ReplicaSetWithPrimary).
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

    /// Verifies the set name in a topology of type `Single`. If the options demand a set name, an
    /// available server with another one or none becomes a default Unknown and stays in the
    /// topology (SDAM-62).
    fn verify_set_name(&mut self) {
        let demanded = &self.topology.set_name;
        if demanded.is_none() || !self.new.server_type.is_available() {
            return;
        }
        if self.new.set_name != *demanded {
            let text = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
            let message = format!(
                "the server's replica set is {}, but replicaSet is {}; correct replicaSet or \
                 leave it out",
                text(&self.new.set_name),
                text(demanded),
            );
            self.new = self.reject(&Arc::clone(&self.new), message);
        }
    }

    /// The action updateUnknownWithStandalone: with one seed the topology becomes `Single`,
    /// otherwise the server is removed (SDAM-68). The number of configured seeds decides, not the
    /// current number of servers (A.11, trap 6).
    fn on_standalone(&mut self) {
        if self.rules.single_seed {
            self.topology.topology_type = TopologyType::Single;
        } else {
            self.remove_subject();
        }
    }

    /// The action updateRSWithoutPrimary (SDAM-69). The servers in the member's lists are added
    /// even if the member itself is then removed because of its `me`.
    fn on_member_without_primary(&mut self) {
        if !self.has_right_set_name() {
            self.remove_subject();
            return;
        }
        self.add_members();
        self.mark_possible_primary();
        if self.has_other_me() {
            self.remove_subject();
        }
    }

    /// The action updateRSWithPrimaryFromMember (SDAM-70). The action adds no servers, because the
    /// primary's list is authoritative.
    fn on_member_with_primary(&mut self) {
        if self.topology.set_name != self.new.set_name || self.has_other_me() {
            self.remove_subject();
            self.check_if_has_primary();
            return;
        }
        self.check_if_has_primary();
        if self.topology.topology_type == TopologyType::ReplicaSetNoPrimary {
            self.mark_possible_primary();
        }
    }

    /// The action updateRSFromPrimary (SDAM-71). The `setVersion` of members that are not primary
    /// is ignored (SDAM-81).
    fn on_primary(&mut self) {
        if !self.has_right_set_name() {
            self.remove_subject();
            self.check_if_has_primary();
            return;
        }
        if let Err(message) = accept_primary(self.topology, &self.new) {
            self.new = self.reject(&Arc::clone(&self.new), message);
            self.is_refused = true;
            self.check_if_has_primary();
            return;
        }
        self.invalidate_other_primaries();
        // Table A.5 adds members before it removes servers. The reverse order here means that
        // servers to be removed do not count for `MAX_NAMED_SERVERS`.
        self.remove_non_members();
        self.add_members();
        self.check_if_has_primary();
    }

    /// Makes all other primaries default Unknown servers (SDAM-74). Their pools are not cleared
    /// (SDAM-75).
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

    /// Replaces a server description by a default Unknown with this error, and returns the new one.
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

    /// True if the set name of the server is that of the topology. A topology without set name
    /// first takes that of the server.
    fn has_right_set_name(&mut self) -> bool {
        if self.topology.set_name.is_none() {
            self.topology.set_name.clone_from(&self.new.set_name);
        }
        self.topology.set_name == self.new.set_name
    }

    /// True if `me` differs from the address of the server. A missing `me` is no mismatch (A.11,
    /// trap 3).
    fn has_other_me(&self) -> bool {
        self.new.me.as_ref().is_some_and(|me| *me != self.address)
    }

    /// Adds the servers in the lists of the new description: [`MAX_MEMBERS`] at most, and up to
    /// [`MAX_NAMED_SERVERS`] in total. In a full topology, a new server takes the place of one that
    /// [nobody names](Self::nameless) any more.
    fn add_members(&mut self) {
        let new = Arc::clone(&self.new);
        let seeds = self.rules.seeds;
        let most = MAX_NAMED_SERVERS.max((seeds + MAX_MEMBERS).min(MAX_SERVERS));
        let mut nameless = None;
        for address in new.members().take(MAX_MEMBERS) {
            if self.topology.servers.contains_key(address) {
                continue;
            }
            if self.topology.servers.len() >= most {
                let nameless = nameless.get_or_insert_with(|| self.nameless());
                let Some(forgotten) = nameless.pop() else {
                    return;
                };
                self.topology.servers.remove(&forgotten);
                self.removed.push(forgotten);
            }
            let unknown = Arc::new(ServerDescription::unknown(address.clone()));
            self.topology.servers.insert(address.clone(), unknown);
            self.added.push(address.clone());
        }
    }

    /// Returns the servers that never answered, are no seeds, and are in no member's lists.
    /// Otherwise one member could fill the topology with servers that do not exist, and keep the
    /// true ones out.
    fn nameless(&self) -> Vec<Address> {
        let servers = self.topology.servers.values();
        let lists = servers.flat_map(|server| server.members().take(MAX_MEMBERS));
        let named: BTreeSet<&Address> = lists.chain(self.rules.kept).collect();
        let mut nameless = Vec::new();
        for (address, server) in &self.topology.servers {
            if !server.server_type.is_available() && !named.contains(address) {
                nameless.push(address.clone());
            }
        }
        nameless
    }

    /// Makes the server that this member names as primary a `PossiblePrimary`, if that server is
    /// Unknown and `rules` permit it (SDAM-12). No server description changed event reports this.
    fn mark_possible_primary(&mut self) {
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

    /// Removes all servers that are not in the primary's lists, possibly the primary itself
    /// (SDAM-80).
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

    /// Removes the server whose description was replaced.
    fn remove_subject(&mut self) {
        if self.topology.servers.remove(&self.address).is_some() {
            self.removed.push(self.address.clone());
        }
    }

    /// The action checkIfHasPrimary: sets the topology type by whether a primary is known
    /// (SDAM-77).
    fn check_if_has_primary(&mut self) {
        self.topology.topology_type = if self.topology.primary().is_some() {
            TopologyType::ReplicaSetWithPrimary
        } else {
            TopologyType::ReplicaSetNoPrimary
        };
    }
}
