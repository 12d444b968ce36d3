//! Listeners, and the order in which they hear.

#[cfg(test)]
mod tests;

use crate::{user_code::catch_panic, waiters::Waiters};
use onionskin_core::{
    client::Client as Core,
    event::{Event, EventKind, Subscriptions},
    time::Instant,
};
use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

/// Hears the client's events, one at a time and in the order in which they happened.
///
/// It is called on a thread for blocking work
/// ([`Runtime::spawn_blocking`](crate::Runtime::spawn_blocking)), never by the task of an
/// operation: a slow listener delays events and nothing else, except that a new socket waits up to
/// [`MAX_EVENT_DELAY`] for the events before it. So an event may be heard after the call that
/// caused it has returned; [`Client::flush_events`](crate::Client::flush_events) and
/// [`Client::shutdown`](crate::Client::shutdown) wait for it. Behind a listener that does not keep
/// up, [`MAX_QUEUED_EVENTS`] events wait at most; then events are dropped, which
/// [`EventKind::Dropped`] tells at their place.
///
/// Keys of authentication are derived on the same threads: where all of them are busy, new
/// connections wait. On a runtime without another thread (`onionskin-blocking`) the calling thread
/// calls the listener.
pub type EventListener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Events that wait for listeners at most. Not an option.
pub const MAX_QUEUED_EVENTS: usize = 10_000;

/// Bytes of commands and replies in events that wait for listeners at most; a single event may be
/// larger. Not an option.
pub const MAX_QUEUED_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// How long a new socket waits for listeners to hear of what happened before it (EVT-18). Not an
/// option.
pub const MAX_EVENT_DELAY: Duration = Duration::from_millis(10);

/// How long a flush, and the end of a client, waits for listeners.
pub(crate) const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// Queues events in the core's order and delivers them outside of its lock, away from operations.
pub(crate) struct Delivery {
    listeners: Vec<EventListener>,
    subscriptions: Subscriptions,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// Bytes of documents in `events`.
    bytes: usize,
    /// True while a thread takes events out and calls the listeners.
    is_delivering: bool,
    /// Events that were dropped since the last one that was queued, and the moment of the last.
    missing: Option<(u64, Instant)>,
    /// Events that were dropped in all.
    dropped: u64,
    /// Events that were queued in all, and how many of them all listeners have heard.
    queued: u64,
    heard: u64,
    /// Who waits until that many are heard.
    waiting: Waiters,
}

impl Queue {
    fn push(&mut self, event: Event) {
        let bytes = event.document_bytes();
        // Once events are dropped, they are until half of the queue is heard: a gap in many places
        // would be of less use than one large gap.
        let (events, limit) = match self.missing {
            None => (MAX_QUEUED_EVENTS, MAX_QUEUED_EVENT_BYTES),
            Some(_) => (MAX_QUEUED_EVENTS / 2, MAX_QUEUED_EVENT_BYTES / 2),
        };
        let is_full = self.events.len() >= events || self.bytes + bytes > limit;
        if is_full && !self.events.is_empty() {
            let count = self.missing.map_or(0, |(count, _)| count);
            self.missing = Some((count + 1, event.at));
            self.dropped += 1;
            return;
        }
        if let Some(gap) = self.take_gap() {
            self.append(gap);
        }
        self.bytes += bytes;
        self.append(event);
    }

    fn append(&mut self, event: Event) {
        self.events.push_back(event);
        self.queued += 1;
    }

    /// The event that tells of those which were dropped.
    fn take_gap(&mut self) -> Option<Event> {
        let (count, at) = self.missing.take()?;
        let kind = EventKind::Dropped { count };
        Some(Event { at, kind })
    }

    /// The next event. Without one the turn of whoever delivers is over.
    fn pop(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.document_bytes();
            return Some(event);
        }
        let gap = self.take_gap();
        self.queued += u64::from(gap.is_some());
        self.is_delivering = gap.is_some();
        gap
    }
}

impl Delivery {
    pub(crate) fn new(listeners: Vec<EventListener>, subscriptions: Subscriptions) -> Arc<Self> {
        Arc::new(Self {
            listeners,
            subscriptions,
            queue: Mutex::default(),
        })
    }

    /// Takes the core's new events. To be called while the core is locked, and followed by
    /// [`turn`](Self::turn) when it is not.
    pub(crate) fn queue(&self, core: &mut Core) {
        while let Some(event) = core.poll_event() {
            self.push(event);
        }
    }

    /// Adds an event of an exchange, to be followed by [`turn`](Self::turn).
    pub(crate) fn publish(&self, event: Event) {
        if matches!(event.kind, EventKind::Command(_)) && !self.subscriptions.command {
            return;
        }
        self.push(event);
    }

    /// Events that were dropped so far, because listeners did not keep up.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// The events that were queued so far, to wait for by [`heard`](Self::heard).
    pub(crate) fn mark(&self) -> u64 {
        self.lock().queued
    }

    fn push(&self, event: Event) {
        if !self.listeners.is_empty() {
            self.lock().push(event);
        }
    }

    /// The right to call the listeners, if there is something to tell and nobody does so already.
    #[must_use]
    pub(crate) fn turn(self: &Arc<Self>) -> Option<Turn> {
        if self.listeners.is_empty() {
            return None;
        }
        let mut queue = self.lock();
        if queue.events.is_empty() || std::mem::replace(&mut queue.is_delivering, true) {
            return None;
        }
        Some(Turn(Some(self.clone())))
    }

    /// Waits until the listeners have heard the events up to `mark`, no longer than `limit` lasts,
    /// which begins only if there is something to wait for.
    pub(crate) async fn heard<L: Future<Output = ()>>(&self, mark: u64, limit: impl FnOnce() -> L) {
        if self.listeners.is_empty() || self.lock().heard >= mark {
            return;
        }
        let mut limit = pin!(limit());
        let mut place = HeardPlace {
            delivery: self,
            key: None,
        };
        poll_fn(|context| {
            let waker = context.waker().clone();
            let mut queue = self.lock();
            if queue.heard >= mark {
                return Poll::Ready(());
            }
            let old = queue.waiting.wait(&mut place.key, mark, waker);
            drop(queue);
            drop(old);
            limit.as_mut().poll(context)
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one that waits, which it leaves when it is dropped.
struct HeardPlace<'a> {
    delivery: &'a Delivery,
    key: Option<u64>,
}

impl Drop for HeardPlace<'_> {
    fn drop(&mut self) {
        let left = self.delivery.lock().waiting.leave(self.key);
        drop(left);
    }
}

/// The right to call the listeners, which one has at a time. It goes back when it is dropped, as it
/// is by a runtime that has ended.
pub(crate) struct Turn(Option<Arc<Delivery>>);

impl Turn {
    /// Calls the listeners until no event is left.
    pub(crate) fn run(mut self) {
        let Some(delivery) = self.0.clone() else {
            return;
        };
        loop {
            let next = delivery.lock().pop();
            let Some(event) = next else { break };
            for listener in &delivery.listeners {
                // A listener's panic is its own: the others hear the event all the same.
                catch_panic(|| listener(&event));
            }
            let woken = {
                let mut queue = delivery.lock();
                queue.heard += 1;
                let heard = queue.heard;
                queue.waiting.reached(heard)
            };
            for waker in woken {
                catch_panic(|| waker.wake());
            }
        }
        // The turn ended under the lock, and another one may have begun.
        self.0 = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(delivery) = &self.0 {
            delivery.lock().is_delivering = false;
        }
    }
}
