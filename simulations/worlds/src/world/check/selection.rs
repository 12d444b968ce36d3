//! Checks that each server selection that started ends once, that the selected server is in the
//! topology, and that each operation reports a wait at most once.

use onionskin_core::event::{Event, EventKind, SelectionEvent};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct SelectionChecker {
    /// The operations that select a server.
    searching: BTreeSet<u64>,
    /// The operations that have reported a wait.
    waited: BTreeSet<u64>,
}

impl SelectionChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let EventKind::Selection(event) = &event.kind else {
            return Ok(());
        };
        let (facts, is_right) = match event {
            SelectionEvent::Started { facts, .. } => {
                (facts, self.searching.insert(facts.operation_id))
            }
            SelectionEvent::Waiting { facts, .. } => {
                let first = self.waited.insert(facts.operation_id);
                (facts, first && self.searching.contains(&facts.operation_id))
            }
            SelectionEvent::Succeeded { facts, address, .. } => {
                let known = facts.topology.servers.contains_key(address);
                (facts, self.searching.remove(&facts.operation_id) && known)
            }
            SelectionEvent::Failed { facts, .. } => {
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
