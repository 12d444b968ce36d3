//! Checks that each server selection that started ends once, that the selected server is in the
//! topology, suits the read preference and is in the latency window, that none fails for want of a
//! server that the client knows, and that each command of an operation reports a wait at most once.

use super::suitability::{NARROWED, Rules};
use onionskin_core::{
    address::Address,
    description::{ServerType, TopologyDescription},
    error::{Error, ErrorKind},
    event::{CommandEvent, Event, EventKind, SelectionEvent, SelectionFacts},
    options::ClientOptions,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Debug)]
pub(super) struct SelectionChecker {
    rules: Rules,
    /// The operations that select a server.
    searching: BTreeSet<u64>,
    /// The servers that operations have selected, or to which they have sent a command. A retry
    /// avoids some of those of its operation.
    tried: BTreeMap<u64, BTreeSet<Address>>,
    /// The operations that have reported a wait, with the commands for which they did. A command
    /// that has succeeded can be followed by another one of the same name.
    waited: BTreeSet<(u64, Arc<str>)>,
}

impl SelectionChecker {
    pub(super) fn new(options: &ClientOptions) -> Self {
        Self {
            rules: Rules::of(options),
            searching: BTreeSet::new(),
            tried: BTreeMap::new(),
            waited: BTreeSet::new(),
        }
    }

    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let event = match &event.kind {
            EventKind::Selection(event) => event,
            EventKind::Command(CommandEvent::Started { facts, .. }) => {
                let tried = self.tried.entry(facts.operation_id).or_default();
                tried.insert(facts.address.clone());
                return Ok(());
            }
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
                let tried = self.tried.entry(facts.operation_id).or_default();
                if let Err(why) = self.rules.check(facts, address, tried) {
                    return Err(format!(
                        "the selected server does not suit, {why}: {event:?}"
                    ));
                }
                tried.insert(address.clone());
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
    let text = &*facts.selector;
    // With further criteria, a server that accepts writes can be unsuitable. The selectors of
    // simulated clients accept all servers.
    let is_of_primary = matches!(
        text.strip_suffix(NARROWED).unwrap_or(text),
        "writable server" | "read preference { mode: primary }"
    );
    is_not_found && is_of_primary && has_writable(&facts.topology)
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
    use onionskin_core::{
        description::{ServerDescription, TopologyId, TopologyType},
        time::Instant,
    };
    use std::time::Duration;

    fn address(host: &str) -> Address {
        Address::tcp(host, 1)
    }

    /// Returns the facts of a read with the mode `nearest`. The primary `a` is nearer than the
    /// secondary `b`.
    fn facts() -> SelectionFacts {
        let id = TopologyId(ObjectId::from_bytes([1; 12]));
        let mut topology = TopologyDescription::unknown(id);
        topology.topology_type = TopologyType::ReplicaSetWithPrimary;
        for (host, server_type, millis) in [
            ("a", ServerType::RsPrimary, 1),
            ("b", ServerType::RsSecondary, 7),
        ] {
            let mut server = ServerDescription::unknown(address(host));
            server.server_type = server_type;
            server.round_trip_time = Some(Duration::from_millis(millis));
            topology.servers.insert(address(host), Arc::new(server));
        }
        SelectionFacts {
            operation: "find".into(),
            operation_id: 1,
            selector: "read preference { mode: nearest }".into(),
            topology: Arc::new(topology),
        }
    }

    /// Observes selections of one operation, one after the other, with this `localThresholdMS`.
    fn select(threshold: u32, hosts: &[&str]) -> Result<(), String> {
        let options = format!("mongodb://a/?localThresholdMS={threshold}");
        let options: ClientOptions = options.parse().expect("options");
        let mut checker = SelectionChecker::new(&options);
        for host in hosts {
            let started = SelectionEvent::Started { facts: facts() };
            let succeeded = SelectionEvent::Succeeded {
                facts: facts(),
                address: address(host),
            };
            for event in [started, succeeded] {
                checker.observe(&Event::new(Instant::ZERO, EventKind::Selection(event)))?;
            }
        }
        checker.finish()
    }

    #[test]
    fn a_selected_server_that_does_not_suit_is_found() {
        assert_eq!(select(6, &["a", "b"]), Ok(()));
        assert_eq!(select(6, &["b"]), Ok(()), "the window is wide enough");
        let far = select(5, &["b"]).expect_err("the server is too far");
        assert!(far.contains("latency window"), "{far}");
        assert_eq!(select(5, &["a", "b"]), Ok(()), "a retry avoids `a`");
        let unknown = select(5, &["c"]).expect_err("there is no such server");
        assert!(unknown.contains("not in the topology"), "{unknown}");
    }
}
