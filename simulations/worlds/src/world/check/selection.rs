//! Checks that each server selection that started ends once, that the selected server is in the
//! topology, that none fails for want of a server that the client knows, and that each command of
//! an operation reports a wait at most once.

use onionskin_core::{
    description::{ServerType, TopologyDescription},
    error::{Error, ErrorKind},
    event::{CommandEvent, Event, EventKind, SelectionEvent, SelectionFacts},
};
use std::{collections::BTreeSet, sync::Arc};

/// The criteria that every server which accepts writes fulfils.
const OF_WRITABLE: [&str; 2] = ["writable server", "read preference primary"];

#[derive(Debug, Default)]
pub(super) struct SelectionChecker {
    /// The operations that select a server.
    searching: BTreeSet<u64>,
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
                let known = facts.topology.servers.contains_key(address);
                (facts, self.searching.remove(&facts.operation_id) && known)
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
    is_not_found && OF_WRITABLE.contains(&&*facts.selector) && has_writable(&facts.topology)
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
