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
        (0..3).for_each(|number| delivery.publish(event(number)));
        for name in ['a', 'b'] {
            assert_eq!(numbers(&heard, name), [0, 1, 2], "{name}");
        }
    }

    #[test]
    fn what_a_listener_causes_is_told_after_all_have_heard_of_the_cause() {
        // EVT-3, EVT-4: no listener is called while another one is.
        let heard = Heard::default();
        let slot: Arc<OnceLock<Delivery>> = Arc::default();
        let own = slot.clone();
        let listeners = vec![
            listener(&heard, 'a', move |number| {
                if number < 3 {
                    own.get().expect("it is set").publish(event(number + 1));
                }
            }),
            listener(&heard, 'b', |_| {}),
        ];
        let delivery = slot.get_or_init(|| Delivery::new(listeners, Subscriptions::all()));
        delivery.publish(event(0));
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
                    (0..500).for_each(|n| delivery.publish(event(thread * 1000 + n)));
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
        delivery.publish(event(1));
        // Without listeners nothing is called; the next listener's turn is free.
        delivery.deliver();
        assert!(delivery.turn.try_lock().is_ok());
    }
}
