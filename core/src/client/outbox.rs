//! The outputs of a client: actions for the shell, and events for listeners.

use super::Action;
use crate::{
    event::{Event, EventKind},
    time::Instant,
};
use std::collections::VecDeque;

/// The actions and the events that were not polled yet, both in the order of their creation.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) actions: VecDeque<Action>,
    pub(super) events: VecDeque<Event>,
}

impl Outbox {
    /// Queues an event.
    pub(super) fn emit(&mut self, at: Instant, kind: EventKind) {
        self.events.push_back(Event { at, kind });
    }

    /// Queues an action.
    pub(super) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }
}
