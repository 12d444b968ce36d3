//! Checks topology events: the opening is first, the closing is last, and each change continues the
//! previous one. At most one server is primary, and none of an earlier election follows. The
//! members of a known replica set change only after a reply.

use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    event::{Event, EventKind, SdamEvent},
    time::Instant,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Debug, Default)]
pub(super) struct TopologyChecker {
    is_open: bool,
    description: Option<Arc<TopologyDescription>>,
    servers: BTreeMap<Address, Option<Arc<ServerDescription>>>,
    /// The time of the last reply, and of the last change of a server.
    news_at: Option<Instant>,
    /// The addresses of the servers, and after the end those before it.
    known: BTreeSet<Address>,
    closed_at: Option<Instant>,
    /// The latest election of which the client has known the primary.
    election: Option<ObjectId>,
}

impl TopologyChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let at = event.at;
        let EventKind::Sdam(event) = &event.kind else {
            return Ok(());
        };
        if self.closed_at.is_some() {
            return Err("something happened after the topology had closed".to_owned());
        }
        if let SdamEvent::TopologyOpening { .. } = event {
            if std::mem::replace(&mut self.is_open, true) {
                return Err("the topology opened twice".to_owned());
            }
            return Ok(());
        }
        if !self.is_open {
            return Err("something happened before the topology opened".to_owned());
        }
        match event {
            SdamEvent::TopologyClosed { .. } => {
                self.closed_at = Some(at);
                if let Some(address) = self.servers.keys().next() {
                    return Err(format!("the topology closed before {address} did"));
                }
            }
            SdamEvent::TopologyDescriptionChanged { previous, new, .. } => {
                if let Some(known) = &self.description
                    && kinds(known) != kinds(previous)
                {
                    return Err("a topology change does not continue the one before".to_owned());
                }
                self.check_primary(new)?;
                self.check_members(at, previous, new)?;
                if !new.servers.is_empty() {
                    self.known = new.servers.keys().cloned().collect();
                }
                self.description = Some(new.clone());
            }
            SdamEvent::HeartbeatSucceeded { .. } => self.news_at = Some(at),
            SdamEvent::ServerOpening { address, .. } => {
                self.servers.insert(address.clone(), None);
            }
            SdamEvent::ServerClosed { address, .. } => {
                self.servers.remove(address);
            }
            SdamEvent::ServerDescriptionChanged {
                address,
                previous,
                new,
                ..
            } => {
                let Some(known) = self.servers.get_mut(address) else {
                    return Err(format!("{address} changed without being open"));
                };
                if let Some(known) = known
                    && known.server_type != previous.server_type
                {
                    return Err(format!(
                        "a change of {address} does not continue the last one"
                    ));
                }
                *known = Some(new.clone());
                self.news_at = Some(at);
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that members of a known replica set change at the time of a reply.
    fn check_members(
        &self,
        at: Instant,
        previous: &TopologyDescription,
        new: &TopologyDescription,
    ) -> Result<(), String> {
        let is_known = is_set(previous.topology_type) && is_set(new.topology_type);
        if is_known && self.news_at != Some(at) && !previous.servers.keys().eq(new.servers.keys()) {
            return Err("members of a known replica set changed without a reply".to_owned());
        }
        Ok(())
    }

    fn check_primary(&mut self, new: &TopologyDescription) -> Result<(), String> {
        let servers = new.servers.iter();
        let mut primaries =
            servers.filter(|(_, server)| server.server_type == ServerType::RsPrimary);
        let Some((address, primary)) = primaries.next() else {
            return Ok(());
        };
        if let Some((other, _)) = primaries.next() {
            return Err(format!("{address} and {other} are primaries at once"));
        }
        if primary.election_id.is_some() && primary.election_id < self.election {
            return Err(format!("{address} is the primary of an earlier election"));
        }
        self.election = primary.election_id.or(self.election);
        Ok(())
    }

    /// Checks that the client knew these servers at the end. One that was closed before `since` did
    /// not need to learn of them.
    pub(super) fn check_servers(
        &self,
        wanted: &BTreeSet<Address>,
        since: Instant,
    ) -> Result<(), String> {
        if self.closed_at.is_some_and(|at| at < since) || self.known == *wanted {
            return Ok(());
        }
        let known = &self.known;
        Err(format!("the client knows {known:?} and not {wanted:?}"))
    }

    pub(super) fn finish(&self) -> Result<(), String> {
        if self.is_open && self.closed_at.is_none() {
            return Err("the topology never closed".to_owned());
        }
        Ok(())
    }
}

const fn is_set(topology: TopologyType) -> bool {
    use TopologyType::{ReplicaSetNoPrimary, ReplicaSetWithPrimary};
    matches!(topology, ReplicaSetNoPrimary | ReplicaSetWithPrimary)
}

/// Returns the topology type and the type of each server. The other fields are left out, because
/// some of them change without an event, such as round trip times.
fn kinds(description: &TopologyDescription) -> (TopologyType, Vec<(&Address, ServerType)>) {
    let servers = description.servers.iter();
    let kinds = servers.map(|(address, server)| (address, server.server_type));
    (description.topology_type, kinds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_client_that_lived_to_the_end_must_know_the_servers() {
        let at = |seconds| Some(Instant::ZERO + Duration::from_secs(seconds));
        let servers = |hosts: &[&str]| hosts.iter().map(|host| Address::tcp(host, 1)).collect();
        let mut checker = TopologyChecker {
            known: servers(&["a", "b"]),
            ..TopologyChecker::default()
        };
        let since = Instant::ZERO + Duration::from_secs(5);
        for (closed_at, wanted, is_right) in [
            (at(6), &["a", "b"][..], true),
            (at(6), &["a"], false),
            (at(4), &["a"], true),
            (None, &["a"], false),
        ] {
            checker.closed_at = closed_at;
            let checked = checker.check_servers(&servers(wanted), since);
            assert_eq!(checked.is_ok(), is_right, "{closed_at:?} {wanted:?}");
        }
    }
}
