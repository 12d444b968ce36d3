//! Checks that each command that started ends once.

use onionskin_core::event::{CommandEvent, Event, EventKind};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct CommandChecker {
    /// The names of the running commands, by request id.
    under_way: BTreeMap<i32, String>,
}

impl CommandChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let EventKind::Command(event) = &event.kind else {
            return Ok(());
        };
        let (facts, is_start) = match event {
            CommandEvent::Started { facts, .. } => (facts, true),
            CommandEvent::Succeeded { facts, .. } | CommandEvent::Failed { facts, .. } => {
                (facts, false)
            }
            _ => return Ok(()),
        };
        let name = facts.name.to_string();
        let request = facts.request_id;
        if is_start {
            if let Some(other) = self.under_way.insert(request, name) {
                return Err(format!(
                    "request {request} is under way already, as {other}"
                ));
            }
            return Ok(());
        }
        match self.under_way.remove(&request) {
            None => Err(format!(
                "{name} with request {request} ended without a start"
            )),
            Some(started) if started != name => Err(format!(
                "request {request} started as {started} and ended as {name}"
            )),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn finish(&self) -> Result<(), String> {
        match self.under_way.first_key_value() {
            None => Ok(()),
            Some((request, name)) => Err(format!("{name} with request {request} never ended")),
        }
    }
}
