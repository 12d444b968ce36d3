//! The model of changes of the topology by a server description (tables A.4 and A.5).

use super::{ExpectedError, Facts, Mistake, Model, PoolView, Server};
use onionskin_core::{
    address::Address,
    description::{ServerType, TopologyType},
    error::TopologyVersion,
};

/// The order of two values of `topologyVersion` (table A.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    CurrentIsNewer,
    Equal,
    NewIsNewer,
}

pub(super) fn compare(current: Option<TopologyVersion>, new: Option<TopologyVersion>) -> Order {
    let (Some(current), Some(new)) = (current, new) else {
        return Order::NewIsNewer;
    };
    if current.process_id != new.process_id || new.counter > current.counter {
        return Order::NewIsNewer;
    }
    if new.counter == current.counter {
        return Order::Equal;
    }
    Order::CurrentIsNewer
}

impl Model {
    /// Replaces the description of a server (table E.5, steps 4 to 6). Returns false if the new
    /// description is discarded or the topology does not have the server.
    pub(super) fn update(&mut self, address: &Address, mut new: Facts) -> bool {
        let Some(server) = self.servers.get(address) else {
            return false;
        };
        let order = compare(server.facts.version, new.version);
        let refused = self.makes(Mistake::EqualHelloRefused)
            && order == Order::Equal
            && new.kind != ServerType::Unknown;
        if order == Order::CurrentIsNewer || refused {
            return false;
        }
        // In `Single` with a set name, a server with another set name or none becomes `Unknown`
        // (SDAM-62).
        if self.kind == TopologyType::Single
            && self.set_name.is_some()
            && new.kind != ServerType::Unknown
            && new.set_name != self.set_name
        {
            new = Facts::unknown(ExpectedError::Any);
        }
        self.put(address, new.clone());
        self.transition(address, &new);
        true
    }

    /// Applies table A.4 to a new server description.
    fn transition(&mut self, address: &Address, new: &Facts) {
        use ServerType as S;
        use TopologyType as T;
        match (self.kind, new.kind) {
            (T::Single | T::LoadBalanced, _) => {}

            (T::Unknown, S::Unknown | S::PossiblePrimary | S::RsGhost | S::LoadBalancer) => {}
            (T::Unknown, S::Standalone) => self.update_unknown_with_standalone(address),
            (T::Unknown, S::Mongos) => self.kind = T::Sharded,
            (T::Unknown, S::RsPrimary) => {
                self.kind = T::ReplicaSetWithPrimary;
                self.update_rs_from_primary(address, new);
            }
            (T::Unknown, S::RsSecondary | S::RsArbiter | S::RsOther) => {
                self.kind = T::ReplicaSetNoPrimary;
                self.update_rs_without_primary(address, new);
            }

            (T::Sharded, S::Unknown | S::PossiblePrimary | S::Mongos) => {}
            (T::Sharded, _) => self.remove(address),

            (T::ReplicaSetNoPrimary, S::Unknown | S::PossiblePrimary) => {}
            (T::ReplicaSetNoPrimary, S::RsGhost) => self.on_ghost(address),
            (T::ReplicaSetNoPrimary, S::Standalone | S::Mongos | S::LoadBalancer) => {
                self.remove(address);
            }
            (T::ReplicaSetNoPrimary, S::RsPrimary) => {
                self.kind = T::ReplicaSetWithPrimary;
                self.update_rs_from_primary(address, new);
            }
            (T::ReplicaSetNoPrimary, S::RsSecondary | S::RsArbiter | S::RsOther) => {
                self.update_rs_without_primary(address, new);
            }

            (T::ReplicaSetWithPrimary, S::Unknown | S::PossiblePrimary) => {
                self.check_if_has_primary();
            }
            (T::ReplicaSetWithPrimary, S::RsGhost) => {
                self.on_ghost(address);
                self.check_if_has_primary();
            }
            (T::ReplicaSetWithPrimary, S::Standalone | S::Mongos | S::LoadBalancer) => {
                self.remove(address);
                self.check_if_has_primary();
            }
            (T::ReplicaSetWithPrimary, S::RsPrimary) => self.update_rs_from_primary(address, new),
            (T::ReplicaSetWithPrimary, S::RsSecondary | S::RsArbiter | S::RsOther) => {
                self.update_rs_with_primary_from_member(address, new);
            }
        }
    }

    fn update_unknown_with_standalone(&mut self, address: &Address) {
        let one = if self.makes(Mistake::OneServerIsOneSeed) {
            self.servers.len() == 1
        } else {
            self.config.seeds.len() == 1
        };
        if one {
            self.kind = TopologyType::Single;
        } else {
            self.remove(address);
        }
    }

    fn update_rs_without_primary(&mut self, address: &Address, new: &Facts) {
        if self.set_name.is_none() {
            self.set_name.clone_from(&new.set_name);
        } else if self.set_name != new.set_name && !self.makes(Mistake::SetNameIgnored) {
            return self.remove(address);
        }
        for member in new.members() {
            self.add(member, true);
        }
        if self.makes(Mistake::MemberRemoves) {
            self.remove_all_but(new);
        }
        self.mark_possible_primary(new);
        if self.has_other_me(address, new) {
            self.remove(address);
        }
    }

    fn update_rs_with_primary_from_member(&mut self, address: &Address, new: &Facts) {
        let other_set = self.set_name != new.set_name && !self.makes(Mistake::SetNameIgnored);
        if other_set || self.has_other_me(address, new) {
            self.remove(address);
            return self.check_if_has_primary();
        }
        if !self.has_primary() {
            self.kind = TopologyType::ReplicaSetNoPrimary;
            self.mark_possible_primary(new);
        }
    }

    fn update_rs_from_primary(&mut self, address: &Address, new: &Facts) {
        if self.set_name.is_none() {
            self.set_name.clone_from(&new.set_name);
        } else if self.set_name != new.set_name && !self.makes(Mistake::SetNameIgnored) {
            self.remove(address);
            return self.check_if_has_primary();
        }
        if self.is_stale_primary(new) && !self.makes(Mistake::AnyPrimaryAccepted) {
            let text = "primary marked stale due to electionId/setVersion mismatch";
            self.put(
                address,
                Facts::unknown(ExpectedError::Text(text.to_owned())),
            );
            return self.check_if_has_primary();
        }
        if !self.makes(Mistake::OldPrimaryStays) {
            self.replace_other_primaries(address);
        }
        for member in new.members() {
            self.add(member, true);
        }
        if !self.makes(Mistake::PrimaryDoesNotRemove) {
            self.remove_all_but(new);
        }
        self.check_if_has_primary();
    }

    /// Makes every other primary `Unknown` and requests its check (SDAM-74), without clearing its
    /// pool (SDAM-75). This is step 3 of updateRSFromPrimary.
    fn replace_other_primaries(&mut self, address: &Address) {
        let old: Vec<Address> = self
            .servers
            .iter()
            .filter(|(other, s)| *other != address && s.facts.kind == ServerType::RsPrimary)
            .map(|(other, _)| other.clone())
            .collect();
        for other in old {
            let text = "primary marked stale due to discovery of newer primary";
            self.put(&other, Facts::unknown(ExpectedError::Text(text.to_owned())));
            if self.makes(Mistake::OldPrimaryCleared) {
                self.clear(&other, None, false);
            }
            if !self.makes(Mistake::OldPrimaryNotChecked) {
                self.request_check_of(&other);
            }
        }
    }

    fn check_if_has_primary(&mut self) {
        self.kind = if self.has_primary() {
            TopologyType::ReplicaSetWithPrimary
        } else {
            TopologyType::ReplicaSetNoPrimary
        };
    }

    fn has_primary(&self) -> bool {
        let mut servers = self.servers.values();
        servers.any(|s| s.facts.kind == ServerType::RsPrimary)
    }

    fn on_ghost(&mut self, address: &Address) {
        if self.makes(Mistake::GhostRemoved) {
            self.remove(address);
        }
    }

    /// Changes the server that `new` names as primary from `Unknown` to `PossiblePrimary`.
    fn mark_possible_primary(&mut self, new: &Facts) {
        if let Some(primary) = &new.primary
            && let Some(server) = self.servers.get_mut(primary)
            && server.facts.kind == ServerType::Unknown
        {
            server.facts.kind = ServerType::PossiblePrimary;
        }
    }

    fn has_other_me(&self, address: &Address, new: &Facts) -> bool {
        if self.makes(Mistake::MeIgnored) {
            return false;
        }
        match &new.me {
            None => self.makes(Mistake::MissingMeRemoves),
            Some(me) => me != address,
        }
    }

    fn remove_all_but(&mut self, new: &Facts) {
        let members = new.members();
        self.servers.retain(|address, _| members.contains(address));
    }

    fn put(&mut self, address: &Address, mut facts: Facts) {
        let keep = self.makes(Mistake::UnknownKeepsRoundTrip);
        if let Some(server) = self.servers.get_mut(address) {
            if keep && facts.is_unknown() {
                facts.round_trip = server.facts.round_trip;
            }
            server.is_lost |= facts.is_unknown();
            server.facts = facts;
        }
    }

    /// Adds a server with its monitor, unless the topology has the server already. `named` is true
    /// if another server names it.
    pub(super) fn add(&mut self, address: Address, named: bool) {
        if self.servers.contains_key(&address) {
            return;
        }
        let life = self.lives.entry(address.clone()).or_insert(0);
        *life += 1;
        let life = *life;
        let mut server = Server::new(life, self.first_check(named), self.now);
        if self.config.load_balanced {
            // A load balancer is neither `Unknown` nor checked (SDAM-111).
            server.facts.kind = ServerType::LoadBalancer;
            server.pool = PoolView::Ready;
        }
        self.servers.insert(address, server);
    }

    fn remove(&mut self, address: &Address) {
        self.servers.remove(address);
    }
}
