//! The outputs of a client: actions for the shell, and events for listeners.

use crate::{
    client::Action,
    event::{Event, EventKind},
    time::Instant,
};
use std::collections::VecDeque;

/// The actions and the events that were not polled yet, both in the order of their creation.
#[derive(Debug, Default)]
pub(in crate::client) struct Outbox {
    pub(in crate::client) actions: VecDeque<Action>,
    pub(in crate::client) events: VecDeque<Event>,
    /// True while orders are carried, to find functions that carry orders within an order.
    #[cfg(debug_assertions)]
    pub(in crate::client) is_carrying: bool,
}

impl Outbox {
    /// Queues an event.
    pub(in crate::client) fn emit(&mut self, at: Instant, kind: EventKind) {
        self.events.push_back(Event { at, kind });
    }

    /// Queues an action.
    pub(in crate::client) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }
}
