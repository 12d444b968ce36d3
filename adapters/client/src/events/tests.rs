//! Tests of the delivery of events to listeners.

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
use std::task::Waker;

fn event(number: u64) -> Event {
    let topology = TopologyId(bson::oid::ObjectId::from_bytes([1; 12]));
    let cause = NoServersCause::NoSeeds;
    let kind = EventKind::Sdam(SdamEvent::NoServers { topology, cause });
    Event::new(Instant::from_nanos(number), kind)
}

type Received = Arc<Mutex<Vec<(char, u64)>>>;

fn listener(
    received: &Received,
    name: char,
    act: impl Fn(u64) + Send + Sync + 'static,
) -> EventListener {
    let received = received.clone();
    Arc::new(move |event| {
        let number = event.at.as_nanos();
        received
            .lock()
            .expect("no listener panics here")
            .push((name, number));
        act(number);
    })
}

/// Publishes an event and calls the listeners at once, as on a runtime without other threads.
fn publish(delivery: &Arc<Delivery>, event: Event) {
    delivery.publish(event);
    if let Some(turn) = delivery.turn() {
        turn.run();
    }
}

fn numbers(received: &Received, name: char) -> Vec<u64> {
    let received = received.lock().expect("no listener panics here");
    let ours = received.iter().filter(|(who, _)| *who == name);
    ours.map(|&(_, number)| number).collect()
}

#[test]
fn a_panic_in_a_listener_loses_no_event() {
    let received = Received::default();
    let listeners = vec![
        listener(&received, 'a', |number| assert_ne!(number, 1, "it panics")),
        listener(&received, 'b', |_| {}),
    ];
    let delivery = Delivery::new(listeners, Subscriptions::all());
    (0..3).for_each(|number| publish(&delivery, event(number)));
    for name in ['a', 'b'] {
        assert_eq!(numbers(&received, name), [0, 1, 2], "{name}");
    }
}

#[test]
fn an_event_published_by_a_listener_is_delivered_after_the_current_event() {
    // An event that listener `a` publishes is delivered after listener `b` got the current event
    // (EVT-3, EVT-4).
    let received = Received::default();
    let slot: Arc<OnceLock<Arc<Delivery>>> = Arc::default();
    let own = slot.clone();
    let listeners = vec![
        listener(&received, 'a', move |number| {
            if number < 3 {
                publish(own.get().expect("it is set"), event(number + 1));
            }
        }),
        listener(&received, 'b', |_| {}),
    ];
    let delivery = slot.get_or_init(|| Delivery::new(listeners, Subscriptions::all()));
    publish(delivery, event(0));
    let received = received.lock().expect("no listener panics here").clone();
    let expected = [0, 1, 2, 3].map(|number| [('a', number), ('b', number)]);
    assert_eq!(received, expected.concat());
}

#[test]
fn events_from_many_threads_reach_all_listeners_in_order_one_at_a_time() {
    // Events of several threads are delivered one at a time (EVT-4), and those of one thread in
    // their order (EVT-3).
    let received = Received::default();
    let busy = Arc::new(AtomicBool::new(false));
    let listeners = ['a', 'b'].map(|name| {
        let busy = busy.clone();
        listener(&received, name, move |_| {
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
    let (a, b) = (numbers(&received, 'a'), numbers(&received, 'b'));
    assert_eq!(a, b);
    assert!(!busy.load(Ordering::SeqCst), "nobody panicked");
    for thread in 0..4 {
        let own: Vec<u64> = a.iter().copied().filter(|n| n / 1000 == thread).collect();
        assert!(own.iter().copied().eq((0..500).map(|n| thread * 1000 + n)));
    }
}

#[test]
fn without_listeners_no_event_is_queued() {
    let delivery = Delivery::new(Vec::new(), Subscriptions::default());
    publish(&delivery, event(1));
    assert_eq!(delivery.mark(), 0, "without listeners nothing is kept");
}

#[test]
fn a_slow_listener_gets_an_event_with_the_number_of_dropped_events() {
    type Reported = Vec<(u64, Option<u64>)>;
    let reported: Arc<Mutex<Reported>> = Arc::default();
    let notes = reported.clone();
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
    // The dropped events are reported although no event follows them.
    let expected = (0..most).map(|number| (number, None));
    let expected: Vec<_> = expected.chain([(most + 6, Some(7))]).collect();
    assert_eq!(*reported.lock().expect("a list"), expected);
    reported.lock().expect("a list").clear();
    publish(&delivery, event(most + 7));
    assert_eq!(*reported.lock().expect("a list"), [(most + 7, None)]);
}

#[test]
fn a_gap_is_reported_in_order_and_lasts_until_half_of_the_queue_is_delivered() {
    let received = Received::default();
    let slot: Arc<OnceLock<Arc<Delivery>>> = Arc::default();
    let own = slot.clone();
    let most = MAX_QUEUED_EVENTS as u64;
    // During the delivery of event 0, more events come than the queue can hold. Each of the next
    // `most` deliveries publishes one more event.
    let listener = listener(&received, 'a', move |number| {
        let delivery = own.get().expect("it is set");
        match number {
            0 => (1..most + 3).for_each(|number| delivery.publish(event(number))),
            n if n <= most => delivery.publish(event(10 * most + n)),
            _ => {}
        }
    });
    let delivery = slot.get_or_init(|| Delivery::new(vec![listener], Subscriptions::all()));
    publish(delivery, event(0));
    let numbers = numbers(&received, 'a');
    let kept = usize::try_from(most).expect("a small number");
    assert!(numbers[..=kept].iter().copied().eq(0..=most), "in order");
    assert_eq!(numbers.len() as u64 + delivery.dropped(), 2 * most + 4);
    // The report of the dropped events has the time of the last one.
    assert_eq!(numbers[kept + 1], 10 * most + most / 2);
    assert_eq!(numbers[kept + 2], 10 * most + most / 2 + 1);
    assert!(numbers[kept + 1..].is_sorted());
}

#[test]
fn the_event_queue_is_limited_in_bytes() {
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
        delivery.publish(Event::new(at, kind));
    }
    assert_eq!(delivery.dropped(), 7, "three fit");
    let turn = delivery.turn().expect("there is something to tell");
    turn.run();
    assert_eq!(delivery.lock().bytes, 0);
}

#[test]
fn a_dropped_delivery_turn_can_be_taken_again() {
    let received = Received::default();
    let delivery = Delivery::new(vec![listener(&received, 'a', |_| {})], Subscriptions::all());
    delivery.publish(event(1));
    drop(delivery.turn().expect("it is free"));
    delivery.turn().expect("it is free again").run();
    assert_eq!(numbers(&received, 'a'), [1]);
}

#[test]
fn a_thread_delivers_a_bounded_number_of_events_and_returns_the_turn() {
    let received = Received::default();
    let slot: Arc<OnceLock<Arc<Delivery>>> = Arc::default();
    let own = slot.clone();
    // Each delivered event causes another one.
    let listener = listener(&received, 'a', move |number| {
        own.get().expect("it is set").publish(event(number + 1));
    });
    let delivery = slot.get_or_init(|| Delivery::new(vec![listener], Subscriptions::all()));
    delivery.publish(event(0));
    let turn = delivery.turn().expect("there is something to tell");
    let turn = turn.run_some().expect("an event is left");
    assert_eq!(numbers(&received, 'a').len(), MAX_DELIVERED_AT_ONCE);
    assert!(delivery.turn().is_none(), "one thread has the turn");
    drop(turn.run_some());
    assert_eq!(numbers(&received, 'a').len(), 2 * MAX_DELIVERED_AT_ONCE);
    assert!(
        delivery.turn().is_some(),
        "a dropped turn can be taken again"
    );
}

#[test]
fn waiting_for_listeners_ends_after_delivery_or_at_the_time_limit() {
    let received = Received::default();
    let delivery = Delivery::new(vec![listener(&received, 'a', |_| {})], Subscriptions::all());
    delivery.publish(event(1));
    let mark = delivery.mark();
    let mut context = std::task::Context::from_waker(Waker::noop());
    let mut waiting = pin!(delivery.wait_for(mark, std::future::pending));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let mut limited = pin!(delivery.wait_for(mark, || std::future::ready(())));
    assert!(limited.as_mut().poll(&mut context).is_ready());
    delivery.turn().expect("there is something to tell").run();
    assert!(waiting.as_mut().poll(&mut context).is_ready());
    assert_eq!(delivery.lock().waiting.len(), 0);
}

#[test]
fn a_repeatedly_polled_wait_is_registered_once_and_removed_when_dropped() {
    let received = Received::default();
    let delivery = Delivery::new(vec![listener(&received, 'a', |_| {})], Subscriptions::all());
    delivery.publish(event(1));
    let mut context = std::task::Context::from_waker(Waker::noop());
    {
        let mut waiting = pin!(delivery.wait_for(delivery.mark(), std::future::pending));
        for _ in 0..100 {
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(delivery.lock().waiting.len(), 1);
    }
    assert_eq!(delivery.lock().waiting.len(), 0);
}

#[test]
fn a_panic_payload_that_panics_when_dropped_loses_no_event() {
    struct PanickingPayload;
    impl Drop for PanickingPayload {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("again"));
            }
        }
    }
    let received = Received::default();
    let mine: EventListener = Arc::new(|_| std::panic::resume_unwind(Box::new(PanickingPayload)));
    let delivery = Delivery::new(
        vec![mine, listener(&received, 'b', |_| {})],
        Subscriptions::all(),
    );
    (0..3).for_each(|number| publish(&delivery, event(number)));
    assert_eq!(numbers(&received, 'b'), [0, 1, 2]);
    assert_eq!(delivery.lock().delivered, 3);
}

#[test]
fn the_event_queue_counts_the_bytes_of_errors() {
    use onionskin_core::{
        error::{CommandError, Error, ErrorKind},
        event::{OperationEvent, OperationFacts},
    };
    let delivery = Delivery::new(vec![Arc::new(|_| {})], Subscriptions::all());
    let reply = bson::rawdoc! { "ok": 0, "code": 1, "padding": "x".repeat(900_000) };
    let failure = Error::new(ErrorKind::Command(CommandError::from_reply(&reply)));
    for number in 0..40 {
        let kind = EventKind::Operation(OperationEvent::Ended {
            facts: Arc::new(OperationFacts {
                operation_id: 1,
                name: "insert".into(),
                database: "db".into(),
            }),
            duration: Duration::ZERO,
            failure: Some(failure.clone()),
        });
        delivery.publish(Event::new(Instant::from_nanos(number), kind));
    }
    assert!(delivery.dropped() > 0, "36 MB do not fit");
}
