//! Checks that each operation that started ends once.

use onionskin_core::event::{Event, EventKind, OperationEvent};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct OperationChecker {
    /// The ids of the operations that have started and not ended.
    running: BTreeSet<u64>,
}

impl OperationChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let EventKind::Operation(event) = &event.kind else {
            return Ok(());
        };
        let (facts, is_right) = match event {
            OperationEvent::Started { facts, .. } => {
                (facts, self.running.insert(facts.operation_id))
            }
            OperationEvent::Ended { facts, .. } => {
                (facts, self.running.remove(&facts.operation_id))
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
        match self.running.first() {
            None => Ok(()),
            Some(operation) => Err(format!("operation {operation} never ends")),
        }
    }
}
