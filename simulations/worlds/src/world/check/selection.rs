//! Checks that each server selection that started ends once, that the selected server is in the
//! topology and suits the read preference, that none fails for want of a server that the client
//! knows, and that each command of an operation reports a wait at most once.

use onionskin_core::{
    address::Address,
    description::{ServerType, TopologyDescription, TopologyType},
    error::{Error, ErrorKind},
    event::{CommandEvent, Event, EventKind, SelectionEvent, SelectionFacts},
};
use std::{collections::BTreeSet, sync::Arc};

#[derive(Debug, Default)]
pub(super) struct SelectionChecker {
    /// The operations that select a server.
    searching: BTreeSet<u64>,
    /// The operations that have selected a server. A retry avoids the servers of earlier attempts.
    selected: BTreeSet<u64>,
    /// The operations that have reported a wait, with the commands for which they did. A command
    /// that has succeeded can be followed by another one of the same name.
    waited: BTreeSet<(u64, Arc<str>)>,
}

impl SelectionChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let event = match &event.kind {
            EventKind::Selection(event) => event,
            EventKind::Command(CommandEvent::Succeeded { facts, .. }) => {
                self.waited.retain(|(id, _)| *id != facts.operation_id);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let (facts, is_right) = match event {
            SelectionEvent::Started { facts, .. } => {
                (facts, self.searching.insert(facts.operation_id))
            }
            SelectionEvent::Waiting { facts, .. } => {
                let command = (facts.operation_id, facts.operation.clone());
                let is_first = self.waited.insert(command);
                (
                    facts,
                    is_first && self.searching.contains(&facts.operation_id),
                )
            }
            SelectionEvent::Succeeded { facts, address, .. } => {
                let is_first = self.selected.insert(facts.operation_id);
                super::ensure(suits(facts, address, is_first), || {
                    format!("the selected server does not suit: {event:?}")
                })?;
                (facts, self.searching.remove(&facts.operation_id))
            }
            SelectionEvent::Failed { facts, failure, .. } => {
                super::ensure(!is_needless(facts, failure), || {
                    format!("a server suits, and its selection fails: {event:?}")
                })?;
                (facts, self.searching.remove(&facts.operation_id))
            }
            _ => return Ok(()),
        };
        super::ensure(is_right, || {
            format!(
                "out of turn for operation {}: {event:?}",
                facts.operation_id
            )
        })
    }

    pub(super) fn finish(&self) -> Result<(), String> {
        match self.searching.first() {
            None => Ok(()),
            Some(operation) => Err(format!("operation {operation} searches for ever")),
        }
    }
}

/// True if no server was found although the client knows one that accepts writes, and the operation
/// can use it.
fn is_needless(facts: &SelectionFacts, failure: &Error) -> bool {
    let is_not_found = matches!(failure.kind(), ErrorKind::ServerSelection { .. });
    // A selector of the application can refuse every server.
    let is_free = !facts.selector.contains(", ");
    let is_of_primary = mode(&facts.selector) == Some("primary");
    is_not_found && is_free && is_of_primary && has_writable(&facts.topology)
}

/// Returns the mode of the read preference in a text of criteria; `primary` for a write. `None` for
/// the criteria of an aggregation that writes, which depend on the releases of the servers.
fn mode(selector: &str) -> Option<&str> {
    if selector.starts_with("writable server") {
        return Some("primary");
    }
    let rest = selector.strip_prefix("read preference { mode: ")?;
    rest.split([',', ' ']).next()
}

/// True if the read preference permits the selected server. `is_first` is true for the first
/// selection of an operation: only that one considers all servers.
fn suits(facts: &SelectionFacts, address: &Address, is_first: bool) -> bool {
    let topology = &facts.topology;
    let Some(selected) = topology.servers.get(address).map(|s| s.server_type) else {
        return false;
    };
    let is_set = match topology.topology_type {
        TopologyType::Single => return selected.is_available(),
        TopologyType::Sharded => return selected == ServerType::Mongos,
        TopologyType::LoadBalanced => return selected == ServerType::LoadBalancer,
        TopologyType::ReplicaSetWithPrimary | TopologyType::ReplicaSetNoPrimary => true,
        _ => false,
    };
    let has = |wanted| topology.servers.values().any(|s| s.server_type == wanted);
    let (primary, secondary) = (ServerType::RsPrimary, ServerType::RsSecondary);
    // With tags, or a bound of staleness, a server of the preferred type can be unsuitable.
    let is_free = is_first && !facts.selector.contains(", ");
    let second_best = |other| !is_free || !has(other);
    is_set
        && match mode(&facts.selector) {
            Some("primary") => selected == primary,
            Some("secondary") => selected == secondary,
            Some("primaryPreferred") => {
                selected == primary || (selected == secondary && second_best(primary))
            }
            Some("secondaryPreferred") => {
                selected == secondary || (selected == primary && second_best(secondary))
            }
            Some("nearest") | None => selected == primary || selected == secondary,
            Some(_) => false,
        }
}

fn has_writable(topology: &TopologyDescription) -> bool {
    topology.servers.values().any(|server| {
        matches!(
            server.server_type,
            ServerType::RsPrimary
                | ServerType::Standalone
                | ServerType::Mongos
                | ServerType::LoadBalancer
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::oid::ObjectId;
    use onionskin_core::description::{ServerDescription, TopologyId};

    fn facts(selector: &str, servers: &[(&str, ServerType)]) -> SelectionFacts {
        let id = TopologyId(ObjectId::from_bytes([1; 12]));
        let mut topology = TopologyDescription::unknown(id);
        topology.topology_type = TopologyType::ReplicaSetWithPrimary;
        for (address, server_type) in servers {
            let address: Address = address.parse().expect("an address");
            let mut server = ServerDescription::unknown(address.clone());
            server.server_type = *server_type;
            topology.servers.insert(address, Arc::new(server));
        }
        SelectionFacts {
            operation: "find".into(),
            operation_id: 1,
            selector: selector.into(),
            topology: Arc::new(topology),
        }
    }

    #[test]
    fn a_server_that_the_read_preference_excludes_is_found() {
        let [first, second]: [Address; 2] =
            ["a:1", "b:1"].map(|text| text.parse().expect("an address"));
        let both = [
            ("a:1", ServerType::RsPrimary),
            ("b:1", ServerType::RsSecondary),
        ];
        for (selector, is_right) in [
            ("writable server", [true, false]),
            ("read preference { mode: primary }", [true, false]),
            ("read preference { mode: primaryPreferred }", [true, false]),
            ("read preference { mode: secondary }", [false, true]),
            (
                "read preference { mode: secondaryPreferred }",
                [false, true],
            ),
            ("read preference { mode: nearest }", [true, true]),
        ] {
            let facts = facts(selector, &both);
            let found = [&first, &second].map(|address| suits(&facts, address, true));
            assert_eq!(found, is_right, "{selector}");
        }
        let tagged = "read preference { mode: secondaryPreferred, tagSets: [{}] }";
        assert!(suits(&facts(tagged, &both), &first, true), "no tag fits");
        let retried = facts("read preference { mode: secondaryPreferred }", &both);
        assert!(suits(&retried, &first, false), "the secondary has failed");
        assert!(!suits(&facts("writable server", &both[1..]), &first, true));
    }
}
