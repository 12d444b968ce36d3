//! Checks topology events: the opening is first, the closing is last, and each change continues the
//! previous one. At most one server is primary, and none of an earlier election follows.

use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    event::{Event, EventKind, SdamEvent},
};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, Default)]
pub(super) struct TopologyChecker {
    is_open: bool,
    is_closed: bool,
    description: Option<Arc<TopologyDescription>>,
    servers: BTreeMap<Address, Option<Arc<ServerDescription>>>,
    /// The latest election of which the client has known the primary.
    election: Option<ObjectId>,
}

impl TopologyChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let EventKind::Sdam(event) = &event.kind else {
            return Ok(());
        };
        if self.is_closed {
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
                self.is_closed = true;
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
                self.description = Some(new.clone());
            }
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
            }
            _ => {}
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

    pub(super) fn finish(&self) -> Result<(), String> {
        if self.is_open && !self.is_closed {
            return Err("the topology never closed".to_owned());
        }
        Ok(())
    }
}

/// Returns the topology type and the type of each server. The other fields are left out, because
/// some of them change without an event, such as round trip times.
fn kinds(description: &TopologyDescription) -> (TopologyType, Vec<(&Address, ServerType)>) {
    let servers = description.servers.iter();
    let kinds = servers.map(|(address, server)| (address, server.server_type));
    (description.topology_type, kinds.collect())
}
