//! Listeners, and the order in which they hear.

use crate::signal::wake;
use onionskin_core::{
    client::Client as Core,
    event::{Event, EventKind, Subscriptions},
    time::Instant,
};
use std::{
    collections::VecDeque,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

/// Hears the client's events, one at a time and in the order in which they happened.
///
/// It is called on a thread for blocking work ([`Runtime::spawn_blocking`](crate::Runtime::spawn_blocking)), never by the task of an
/// operation: a slow listener delays events and nothing else, except that a new socket waits up to
/// [`MAX_EVENT_DELAY`] for the events before it. So an event may be heard after the call that caused
/// it has returned; [`Client::flush_events`](crate::Client::flush_events) and
/// [`Client::shutdown`](crate::Client::shutdown) wait for it. Behind a
/// listener that does not keep up, [`MAX_QUEUED_EVENTS`] events wait at most; then events are
/// dropped, which [`EventKind::Dropped`] tells at their place.
///
/// On a runtime without another thread (`onionskin-blocking`) the calling thread calls it.
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
    /// Somebody takes events out and calls the listeners.
    is_delivering: bool,
    /// Events that were dropped since the last one that was queued, and the moment of the last.
    missing: Option<(u64, Instant)>,
    /// Events that were dropped in all.
    dropped: u64,
    /// Events that were queued in all, and how many of them all listeners have heard.
    queued: u64,
    heard: u64,
    /// Who waits until that many are heard.
    waiting: Vec<(u64, Waker)>,
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

    /// Those who waited for the event that was heard last.
    fn take_waiting(&mut self) -> Vec<Waker> {
        let heard = self.heard;
        let due = self.waiting.extract_if(.., |(mark, _)| *mark <= heard);
        due.map(|(_, waker)| waker).collect()
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

    pub(crate) fn wants_commands(&self) -> bool {
        self.subscriptions.command
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
        poll_fn(|context| {
            let waker = context.waker().clone();
            let mut queue = self.lock();
            if queue.heard >= mark {
                return Poll::Ready(());
            }
            queue.waiting.push((mark, waker));
            drop(queue);
            limit.as_mut().poll(context)
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
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
                let _ = catch_unwind(AssertUnwindSafe(|| listener(&event)));
            }
            let woken = {
                let mut queue = delivery.lock();
                queue.heard += 1;
                queue.take_waiting()
            };
            woken.into_iter().for_each(wake);
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

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::{
        description::TopologyId,
        event::{NoServersCause, SdamEvent},
        time::Instant,
    };
    use std::sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    };

    fn event(number: u64) -> Event {
        let topology = TopologyId(bson::oid::ObjectId::from_bytes([1; 12]));
        let cause = NoServersCause::NoSeeds;
        Event {
            at: Instant::from_nanos(number),
            kind: EventKind::Sdam(SdamEvent::NoServers { topology, cause }),
        }
    }

    type Heard = Arc<Mutex<Vec<(char, u64)>>>;

    fn listener(
        heard: &Heard,
        name: char,
        act: impl Fn(u64) + Send + Sync + 'static,
    ) -> EventListener {
        let heard = heard.clone();
        Arc::new(move |event| {
            let number = event.at.as_nanos();
            heard
                .lock()
                .expect("no listener panics here")
                .push((name, number));
            act(number);
        })
    }

    /// As a runtime without another thread.
    fn publish(delivery: &Arc<Delivery>, event: Event) {
        delivery.publish(event);
        if let Some(turn) = delivery.turn() {
            turn.run();
        }
    }

    fn numbers(heard: &Heard, name: char) -> Vec<u64> {
        let heard = heard.lock().expect("no listener panics here");
        let ours = heard.iter().filter(|(who, _)| *who == name);
        ours.map(|&(_, number)| number).collect()
    }

    #[test]
    fn a_listener_that_panics_costs_nobody_an_event() {
        let heard = Heard::default();
        let listeners = vec![
            listener(&heard, 'a', |number| assert_ne!(number, 1, "it panics")),
            listener(&heard, 'b', |_| {}),
        ];
        let delivery = Delivery::new(listeners, Subscriptions::all());
        (0..3).for_each(|number| publish(&delivery, event(number)));
        for name in ['a', 'b'] {
            assert_eq!(numbers(&heard, name), [0, 1, 2], "{name}");
        }
    }

    #[test]
    fn what_a_listener_causes_is_told_after_all_have_heard_of_the_cause() {
        // EVT-3, EVT-4: no listener is called while another one is.
        let heard = Heard::default();
        let slot: Arc<OnceLock<Arc<Delivery>>> = Arc::default();
        let own = slot.clone();
        let listeners = vec![
            listener(&heard, 'a', move |number| {
                if number < 3 {
                    publish(own.get().expect("it is set"), event(number + 1));
                }
            }),
            listener(&heard, 'b', |_| {}),
        ];
        let delivery = slot.get_or_init(|| Delivery::new(listeners, Subscriptions::all()));
        publish(delivery, event(0));
        let heard = heard.lock().expect("no listener panics here").clone();
        let expected = [0, 1, 2, 3].map(|number| [('a', number), ('b', number)]);
        assert_eq!(heard, expected.concat());
    }

    #[test]
    fn two_listeners_hear_the_same_from_many_threads_one_at_a_time() {
        // EVT-3, EVT-4
        let heard = Heard::default();
        let busy = Arc::new(AtomicBool::new(false));
        let listeners = ['a', 'b'].map(|name| {
            let busy = busy.clone();
            listener(&heard, name, move |_| {
                assert!(!busy.swap(true, Ordering::SeqCst), "two at once");
                std::thread::yield_now();
                busy.store(false, Ordering::SeqCst);
            })
        });
        let delivery = Delivery::new(listeners.to_vec(), Subscriptions::all());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let delivery = &delivery;
                scope.spawn(move || {
                    (0..500).for_each(|n| publish(delivery, event(thread * 1000 + n)));
                });
            }
        });
        let (a, b) = (numbers(&heard, 'a'), numbers(&heard, 'b'));
        assert_eq!(a, b);
        assert!(!busy.load(Ordering::SeqCst), "nobody panicked");
        for thread in 0..4 {
            let own: Vec<u64> = a.iter().copied().filter(|n| n / 1000 == thread).collect();
            assert!(own.iter().copied().eq((0..500).map(|n| thread * 1000 + n)));
        }
    }

    #[test]
    fn events_of_commands_that_nobody_wants_are_not_told() {
        let delivery = Delivery::new(Vec::new(), Subscriptions::default());
        assert!(!delivery.wants_commands());
        publish(&delivery, event(1));
        assert_eq!(delivery.mark(), 0, "without listeners nothing is kept");
    }

    #[test]
    fn a_listener_that_does_not_keep_up_misses_events_and_is_told_so() {
        type Told = Vec<(u64, Option<u64>)>;
        let told: Arc<Mutex<Told>> = Arc::default();
        let notes = told.clone();
        let listener: EventListener = Arc::new(move |event| {
            let count = match event.kind {
                EventKind::Dropped { count } => Some(count),
                _ => None,
            };
            let mut notes = notes.lock().expect("no listener panics here");
            notes.push((event.at.as_nanos(), count));
        });
        let delivery = Delivery::new(vec![listener], Subscriptions::all());
        let most = MAX_QUEUED_EVENTS as u64;
        (0..most + 7).for_each(|number| delivery.publish(event(number)));
        assert_eq!(delivery.dropped(), 7);
        delivery.turn().expect("there is something to tell").run();
        // The gap is told although nothing comes after it.
        let expected = (0..most).map(|number| (number, None));
        let expected: Vec<_> = expected.chain([(most + 6, Some(7))]).collect();
        assert_eq!(*told.lock().expect("a list"), expected);
        told.lock().expect("a list").clear();
        publish(&delivery, event(most + 7));
        assert_eq!(*told.lock().expect("a list"), [(most + 7, None)]);
    }

    #[test]
    fn a_gap_is_told_at_its_place_and_lasts_until_half_of_the_queue_is_heard() {
        let heard = Heard::default();
        let slot: Arc<OnceLock<Arc<Delivery>>> = Arc::default();
        let own = slot.clone();
        let most = MAX_QUEUED_EVENTS as u64;
        // While event 0 is told, more come than there is room for, and later another one each time.
        let listener = listener(&heard, 'a', move |number| {
            let delivery = own.get().expect("it is set");
            match number {
                0 => (1..most + 3).for_each(|number| delivery.publish(event(number))),
                n if n <= most => delivery.publish(event(10 * most + n)),
                _ => {}
            }
        });
        let delivery = slot.get_or_init(|| Delivery::new(vec![listener], Subscriptions::all()));
        publish(delivery, event(0));
        let numbers = numbers(&heard, 'a');
        let kept = usize::try_from(most).expect("a small number");
        assert!(numbers[..=kept].iter().copied().eq(0..=most), "in order");
        assert_eq!(numbers.len() as u64 + delivery.dropped(), 2 * most + 4);
        // The event that tells of the gap carries the moment of the last event in it.
        assert_eq!(numbers[kept + 1], 10 * most + most / 2);
        assert_eq!(numbers[kept + 2], 10 * most + most / 2 + 1);
        assert!(numbers[kept + 1..].is_sorted());
    }

    #[test]
    fn large_commands_are_bounded_by_their_bytes() {
        use onionskin_core::event::{CommandEvent, CommandFacts};
        let delivery = Delivery::new(vec![Arc::new(|_| {})], Subscriptions::all());
        let mut command = bson::RawDocumentBuf::new();
        command.append(
            bson::cstr!("payload"),
            "x".repeat(MAX_QUEUED_EVENT_BYTES / 4),
        );
        let facts = Arc::new(CommandFacts {
            name: "insert".into(),
            database: "db".into(),
            request_id: 1,
            operation_id: 1,
            address: onionskin_core::address::Address::tcp("db", 27017),
            driver_connection_id: 1,
            server_connection_id: None,
            service: None,
        });
        for number in 0..10 {
            let (facts, command) = (facts.clone(), command.clone());
            let kind = EventKind::Command(CommandEvent::Started { facts, command });
            let at = Instant::from_nanos(number);
            delivery.publish(Event { at, kind });
        }
        assert_eq!(delivery.dropped(), 7, "three fit");
        let turn = delivery.turn().expect("there is something to tell");
        turn.run();
        assert_eq!(delivery.lock().bytes, 0);
    }

    #[test]
    fn a_turn_that_the_runtime_drops_goes_back() {
        let heard = Heard::default();
        let delivery = Delivery::new(vec![listener(&heard, 'a', |_| {})], Subscriptions::all());
        delivery.publish(event(1));
        drop(delivery.turn().expect("it is free"));
        delivery.turn().expect("it is free again").run();
        assert_eq!(numbers(&heard, 'a'), [1]);
    }

    #[test]
    fn waiting_for_listeners_ends_when_they_have_heard_or_at_the_limit() {
        let heard = Heard::default();
        let delivery = Delivery::new(vec![listener(&heard, 'a', |_| {})], Subscriptions::all());
        delivery.publish(event(1));
        let mark = delivery.mark();
        let mut context = std::task::Context::from_waker(Waker::noop());
        let mut waiting = pin!(delivery.heard(mark, std::future::pending));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let mut limited = pin!(delivery.heard(mark, || std::future::ready(())));
        assert!(limited.as_mut().poll(&mut context).is_ready());
        delivery.turn().expect("there is something to tell").run();
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        assert!(delivery.lock().waiting.is_empty());
    }
}
