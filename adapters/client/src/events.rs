//! Listeners, and the order in which they hear.

use onionskin_core::{
    client::Client as Core,
    event::{Event, EventKind, Subscriptions},
};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, TryLockError},
};

/// Hears the client's events, in the order in which they happened. It is called in whatever task
/// caused them, so it must be quick and must not block.
pub type EventListener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Queues events in the core's order and delivers them outside of its lock.
pub(crate) struct Delivery {
    listeners: Vec<EventListener>,
    subscriptions: Subscriptions,
    queue: Mutex<VecDeque<Event>>,
    /// Held by whoever delivers, so that nobody overtakes.
    turn: Mutex<()>,
}

impl Delivery {
    pub(crate) fn new(listeners: Vec<EventListener>, subscriptions: Subscriptions) -> Self {
        Self {
            listeners,
            subscriptions,
            queue: Mutex::new(VecDeque::new()),
            turn: Mutex::new(()),
        }
    }

    pub(crate) fn wants_commands(&self) -> bool {
        self.subscriptions.command
    }

    /// Takes the core's new events. To be called while the core is locked.
    pub(crate) fn queue(&self, core: &mut Core) {
        while let Some(event) = core.poll_event() {
            self.push(event);
        }
    }

    /// Adds an event of an exchange.
    pub(crate) fn publish(&self, event: Event) {
        if matches!(event.kind, EventKind::Command(_)) && !self.subscriptions.command {
            return;
        }
        self.push(event);
        self.deliver();
    }

    fn push(&self, event: Event) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(event);
    }

    /// Calls the listeners. If somebody does so already, that one goes on.
    pub(crate) fn deliver(&self) {
        if self.listeners.is_empty() || self.is_empty() {
            return;
        }
        loop {
            let _turn = match self.turn.try_lock() {
                Ok(turn) => turn,
                Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            while let Some(event) = self.pop() {
                for listener in &self.listeners {
                    // A listener's panic is its own: the task that tells it may be the client's
                    // timer, and must go on.
                    let _ = catch_unwind(AssertUnwindSafe(|| listener(&event)));
                }
            }
            drop(_turn);
            // An event that came between the last look and the end of the turn found it taken.
            if self.is_empty() {
                return;
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    fn pop(&self) -> Option<Event> {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}
