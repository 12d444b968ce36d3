//! Tells of server selection, if somebody listens (SEL-61).

use super::{Client, selecting::criteria};
use crate::{
    description::ServerId,
    error::{Error, ErrorKind},
    event::{EventKind, SelectionEvent, SelectionFacts},
    operation::Operation,
    time::Instant,
};
use std::sync::Arc;

impl Client {
    /// A server is looked for; nothing new if the operation looks again after a wait.
    pub(super) fn tell_selection_started(&mut self, now: Instant, operation: &mut Operation) {
        // What runs where its cursor lives does not select (SEL-2).
        if !self.subscriptions.selection
            || operation.told.started
            || operation.command.target.is_some()
        {
            return;
        }
        operation.told.started = true;
        let facts = self.selection_facts(operation);
        self.tell(now, SelectionEvent::Started { facts });
    }

    /// The operation has to wait for a server, until `limit` at the longest.
    pub(super) fn tell_selection_waits(
        &mut self,
        now: Instant,
        operation: &mut Operation,
        limit: Option<Instant>,
    ) {
        let wanted = self.subscriptions.selection || self.subscriptions.notices;
        // Once per operation, not once per round (SEL-61).
        let selects = operation.command.target.is_none();
        if !wanted || !selects || std::mem::replace(&mut operation.told.waiting, true) {
            return;
        }
        let facts = self.selection_facts(operation);
        let remaining = limit.map(|limit| limit - now);
        self.tell(now, SelectionEvent::Waiting { facts, remaining });
    }

    pub(super) fn tell_selection_succeeded(
        &mut self,
        now: Instant,
        operation: &mut Operation,
        server: ServerId,
    ) {
        if !std::mem::take(&mut operation.told.started) {
            return;
        }
        let Some(chosen) = self.sdam.server(server) else {
            return;
        };
        let address = chosen.address.clone();
        let facts = self.selection_facts(operation);
        self.tell(now, SelectionEvent::Succeeded { facts, address });
    }

    /// The selection that runs, if one does, ends without a server.
    pub(super) fn tell_selection_failed(
        &mut self,
        now: Instant,
        operation: &mut Operation,
        error: &Error,
    ) {
        if !std::mem::take(&mut operation.told.started) {
            return;
        }
        let failure = without_topology(error);
        let facts = self.selection_facts(operation);
        self.tell(now, SelectionEvent::Failed { facts, failure });
    }

    fn tell(&mut self, now: Instant, event: SelectionEvent) {
        self.emit(now, EventKind::Selection(event));
    }

    fn selection_facts(&self, operation: &Operation) -> SelectionFacts {
        let mut selector = criteria(operation, &self.limits.primary).to_string();
        if self.selector.is_narrowed() {
            selector.push_str(", narrowed by the application");
        }
        SelectionFacts {
            operation: operation.command.name().into(),
            operation_id: operation.id.0,
            selector: selector.into(),
            topology: Arc::clone(self.sdam.description()),
        }
    }
}

/// The text of a selection's error lists the servers, which the events tell on their own (SEL-63).
fn without_topology(error: &Error) -> Error {
    let ErrorKind::ServerSelection { cause, .. } = error.kind() else {
        return error.clone();
    };
    Error::new(ErrorKind::ServerSelection {
        message: "no server suited before the time was over".to_owned(),
        cause: cause.clone(),
    })
}
