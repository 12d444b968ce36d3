//! The delivery of events to listeners, in order.

pub(crate) mod handlers;
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

/// A function that the client calls for each event, one at a time and in the order of the events.
///
/// The client calls listeners on a thread for blocking work
/// ([`Runtime::spawn_blocking`](crate::Runtime::spawn_blocking)). So a slow listener delays events
/// and not operations. A new socket, however, waits up to [`MAX_EVENT_DELAY`] for the delivery of
/// the events before it.
///
/// An event can reach a listener after the call that caused the event returned.
/// [`Client::flush_events`](crate::Client::flush_events) and
/// [`Client::shutdown`](crate::Client::shutdown) wait for the delivery, for two seconds at most. If
/// listeners are too slow, at most [`MAX_QUEUED_EVENTS`] events with at most
/// [`MAX_QUEUED_EVENT_BYTES`] wait for them. Further events are dropped, and [`EventKind::Dropped`]
/// is delivered in their place.
///
/// Key derivation for authentication uses the same threads. If listeners occupy all of these
/// threads, new connections wait. A runtime without other threads (`onionskin-blocking`) calls
/// listeners in the threads of the callers. There, a slow listener also delays operations: a call
/// delivers events that it and other calls caused, a bounded number at a time. If calls cause
/// events faster than listeners take them, later calls deliver the rest.
pub type EventListener = Arc<dyn Fn(&Event) + Send + Sync>;

/// The maximum number of events that wait for listeners. Not configurable.
pub const MAX_QUEUED_EVENTS: usize = 10_000;

/// The maximum size in bytes of the commands, replies, errors and server descriptions in events
/// that wait for listeners. A single event can exceed it. Not configurable.
pub const MAX_QUEUED_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// The maximum time for which a new socket waits for listeners. Not configurable. Listeners are
/// called for earlier events before a socket is created ([EVT-18]).
///
/// [EVT-18]: onionskin_core::requirements::monitoring_events#EVT-18
pub const MAX_EVENT_DELAY: Duration = Duration::from_millis(10);

/// The maximum number of events that a thread delivers at once, on a runtime whose tasks do not run
/// in the background. The thread then returns to its own call, because the calls of other threads
/// can cause events without end.
const MAX_DELIVERED_AT_ONCE: usize = 4;

/// The maximum time for which a flush, and the shutdown of a client, wait for listeners.
pub(crate) const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// The queue of events. Events are queued in the order of the core and delivered outside of its
/// lock.
pub(crate) struct Delivery {
    listeners: Vec<EventListener>,
    subscriptions: Subscriptions,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// The size in bytes of the documents in `events`.
    bytes: usize,
    /// True while a [`Turn`] has the right to take events from the queue and to call the listeners.
    is_delivering: bool,
    /// The number of events dropped since the last queued event, and the time of the last dropped
    /// one.
    missing: Option<(u64, Instant)>,
    /// The total number of dropped events.
    dropped: u64,
    /// The total number of queued events.
    queued: u64,
    /// The number of events that were delivered to all listeners.
    delivered: u64,
    /// The wakers of tasks that wait until a certain number of events is delivered.
    waiting: Waiters,
}

impl Queue {
    fn push(&mut self, event: Event) {
        let bytes = event.document_bytes();
        // After a first dropped event, events are dropped until the queue is half empty. One long
        // gap is more useful than many short ones.
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

    /// Returns the event that reports the events dropped since the last queued one, and resets
    /// their number. Returns `None` if no events were dropped.
    fn take_gap(&mut self) -> Option<Event> {
        let (count, at) = self.missing.take()?;
        let kind = EventKind::Dropped { count };
        Some(Event::new(at, kind))
    }

    /// Returns the next event. If there is none, ends the turn of the thread that delivers events.
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

    /// Queues the new events of the core. Called while the core is locked; the caller calls
    /// [`turn`](Self::turn) after unlocking it.
    #[inline]
    pub(crate) fn queue(&self, core: &mut Core) {
        while let Some(event) = core.poll_event() {
            self.push(event);
        }
    }

    /// Queues an event of an operation or an exchange, except a command event without a
    /// subscription. The caller calls [`turn`](Self::turn) afterwards.
    pub(crate) fn publish(&self, event: Event) {
        if matches!(event.kind, EventKind::Command(_)) && !self.subscriptions.command {
            return;
        }
        self.push(event);
    }

    /// Returns the number of events that were dropped because listeners were too slow.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Returns the number of events queued so far. [`wait_for`](Self::wait_for) waits for the
    /// delivery of these events.
    pub(crate) fn mark(&self) -> u64 {
        self.lock().queued
    }

    fn push(&self, event: Event) {
        if !self.listeners.is_empty() {
            self.lock().push(event);
        }
    }

    /// Returns the right to call the listeners. `None` if there are no listeners, if no event is
    /// queued, or if a thread has this right.
    #[must_use]
    #[inline]
    pub(crate) fn turn(self: &Arc<Self>) -> Option<Turn> {
        match self.listeners.is_empty() {
            true => None,
            false => self.take_turn(),
        }
    }

    fn take_turn(self: &Arc<Self>) -> Option<Turn> {
        let mut queue = self.lock();
        if queue.events.is_empty() || std::mem::replace(&mut queue.is_delivering, true) {
            return None;
        }
        Some(Turn(Some(self.clone())))
    }

    /// Waits until the events up to `mark` were delivered, or until the future of `limit`
    /// completes. `limit` is called only if there is an event to wait for.
    pub(crate) async fn wait_for<L: Future<Output = ()>>(
        &self,
        mark: u64,
        limit: impl FnOnce() -> L,
    ) {
        if self.listeners.is_empty() || self.lock().delivered >= mark {
            return;
        }
        let mut limit = pin!(limit());
        let mut wait = DeliveryWait {
            delivery: self,
            key: None,
        };
        poll_fn(|context| {
            let waker = context.waker().clone();
            let mut queue = self.lock();
            if queue.delivered >= mark {
                return Poll::Ready(());
            }
            let old = queue.waiting.wait(&mut wait.key, mark, waker);
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

/// The entry of one task in `Queue::waiting`. Dropping this value removes the entry.
struct DeliveryWait<'a> {
    delivery: &'a Delivery,
    key: Option<u64>,
}

impl Drop for DeliveryWait<'_> {
    fn drop(&mut self) {
        let left = self.delivery.lock().waiting.leave(self.key);
        drop(left);
    }
}

/// The right to call the listeners, which one thread has at a time. Dropping the value returns the
/// right, for example when a runtime that has ended drops the work.
pub(crate) struct Turn(Option<Arc<Delivery>>);

impl Turn {
    /// Calls the listeners until the queue is empty.
    pub(crate) fn run(self) {
        let mut turn = Some(self);
        while let Some(left) = turn {
            turn = left.run_some();
        }
    }

    /// Calls the listeners for at most [`MAX_DELIVERED_AT_ONCE`] events. Returns the turn if the
    /// queue is not empty then.
    #[must_use]
    pub(crate) fn run_some(mut self) -> Option<Self> {
        let delivery = self.0.clone()?;
        for _ in 0..MAX_DELIVERED_AT_ONCE {
            let next = delivery.lock().pop();
            let Some(event) = next else {
                // `pop` ended the turn under the lock. Another thread can have the turn now, so
                // `drop` must not reset `is_delivering`.
                self.0 = None;
                return None;
            };
            for listener in &delivery.listeners {
                // A panic of one listener must not affect the others.
                catch_panic(|| listener(&event));
            }
            let woken = {
                let mut queue = delivery.lock();
                queue.delivered += 1;
                let delivered = queue.delivered;
                queue.waiting.reached(delivered)
            };
            for waker in woken {
                catch_panic(|| waker.wake());
            }
        }
        Some(self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(delivery) = &self.0 {
            delivery.lock().is_delivering = false;
        }
    }
}
