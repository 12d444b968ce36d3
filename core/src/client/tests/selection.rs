//! Tests of server selection events, and of the application's server selector.

use super::{World, find, insert, mongos, ping, primary, reset};
use crate::{
    address::Address,
    client::{AfterExchange, Client, ClientConfig, Outcome, Progress},
    error::{Error, ErrorKind},
    event::{Event, EventKind, NoServersCause, SdamEvent, SelectionEvent, Subscriptions},
    operation::{Command, CommandKind, OperationId},
    options::ServerSelector,
    random::Seed,
    selection::SelectorQuestion,
    time::Instant,
    uri,
};
use bson::{RawDocumentBuf, rawdoc};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const URI: &str = "mongodb://a/?replicaSet=rs&serverSelectionTimeoutMS=2000";

fn secondary() -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "isWritablePrimary": false, "secondary": true, "setName": "rs",
        "hosts": ["a:27017"], "me": "a:27017", "maxWireVersion": 21,
        "logicalSessionTimeoutMinutes": 30,
    }
}

fn world(hello: RawDocumentBuf) -> World {
    World::with_subscriptions(URI, hello, Subscriptions::all())
}

fn selection(world: &mut World) -> Vec<SelectionEvent> {
    let events = std::iter::from_fn(|| world.client.poll_event());
    let ours = |event: Event| match event.kind {
        EventKind::Selection(event) => Some(event),
        _ => None,
    };
    events.filter_map(ours).collect()
}

/// Returns the server selection events since the last call, as short texts.
fn take_events(world: &mut World) -> Vec<String> {
    let describe = |event: &SelectionEvent| match event {
        SelectionEvent::Started { facts } => format!("{} started", facts.operation),
        SelectionEvent::Waiting { facts, remaining } => {
            let remaining = remaining.expect("a limit").as_millis();
            format!("{} waits {remaining}", facts.operation)
        }
        SelectionEvent::Succeeded { facts, address } => format!("{} to {address}", facts.operation),
        SelectionEvent::Failed { facts, failure } => format!("{}: {failure}", facts.operation),
    };
    selection(world).iter().map(describe).collect()
}

#[test]
fn selection_events_have_the_operation_the_selector_and_the_topology() {
    // Server selection emits a started and a succeeded event (SEL-61). Both events have the
    // operation, the selector and the topology description (SEL-62). The succeeded event also has
    // the address (SEL-63).
    let mut world = world(primary());
    let after = world.perform(insert(), &rawdoc! { "ok": 1, "n": 1 });
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
    let events = selection(&mut world);
    let [
        SelectionEvent::Started { facts },
        SelectionEvent::Succeeded {
            facts: after,
            address,
        },
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    for facts in [facts, after] {
        assert_eq!((&*facts.operation, facts.operation_id), ("insert", 0));
        assert_eq!(&*facts.selector, "writable server");
        assert!(facts.topology.primary().is_some());
    }
    assert_eq!(*address, Address::tcp("a", 27017));
    world.perform(find(), &rawdoc! { "ok": 1 });
    assert_eq!(take_events(&mut world), ["find started", "find to a:27017"]);
}

#[test]
fn the_waiting_event_is_emitted_once_and_the_failed_event_names_no_servers() {
    // The waiting event comes once (SEL-61, SEL trap 12), with the remaining time. The error in the
    // failed event does not contain the topology description (SEL-63).
    let mut world = world(secondary());
    let start = world.client.start(world.now, insert());
    assert!(matches!(start, Progress::Waiting(_)));
    assert_eq!(
        take_events(&mut world),
        ["insert started", "insert waits 2000"],
        "the check that follows changes nothing"
    );
    for _ in 0..3 {
        world.wait(Duration::from_millis(500));
    }
    assert_eq!(take_events(&mut world), Vec::<String>::new());
    world.wait(Duration::from_millis(500));
    let events = selection(&mut world);
    let [SelectionEvent::Failed { failure, facts }] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(facts.topology.servers.len(), 1);
    let text = failure.to_string();
    assert!(!text.contains("a:27017"), "{text}");
    assert!(!text.contains("ReplicaSet"), "{text}");
    // The error of the operation contains the topology, unlike the failure in the event.
    let Progress::Waiting(id) = start else {
        unreachable!("it was just looked at")
    };
    let Progress::Failed(error) = world.client.resume(world.now, id) else {
        panic!("it has failed");
    };
    assert!(error.to_string().contains("a:27017"), "{error}");
}

#[test]
fn a_retry_emits_selection_events_of_its_own() {
    // A retry is a second selection of the same operation, with another started event
    // (SEL trap 12).
    let mut world = world(primary());
    let start = world.client.start(world.now, insert());
    let exchange = world.exchange_of(start);
    assert_eq!(
        take_events(&mut world),
        ["insert started", "insert to a:27017"]
    );
    let after = world.check_in(exchange, reset());
    assert!(matches!(after, AfterExchange::Again(Progress::Waiting(_))));
    assert_eq!(
        take_events(&mut world),
        ["insert started", "insert waits 2000"],
        "the server counts as lost until its check ends"
    );
    world.wait(Duration::from_secs(1));
    assert_eq!(take_events(&mut world), ["insert to a:27017"]);
}

#[test]
fn cancelling_an_operation_or_closing_the_client_emits_a_selection_failed_event() {
    let mut world = world(secondary());
    let Progress::Waiting(id) = world.client.start(world.now, insert()) else {
        panic!("there is no primary");
    };
    let Progress::Waiting(_) = world.client.start(world.now, insert()) else {
        panic!("there is no primary");
    };
    take_events(&mut world);
    world.client.cancel(world.now, id);
    let left = Error::from(ErrorKind::Abandoned);
    assert_eq!(take_events(&mut world), [format!("insert: {left}")]);
    world.client.close(world.now);
    let closed = Error::from(ErrorKind::Shutdown);
    assert_eq!(take_events(&mut world), [format!("insert: {closed}")]);
}

#[test]
fn a_get_more_emits_no_selection_events() {
    // `getMore` is sent to the server of its cursor without server selection (SEL-2).
    let mut world = world(primary());
    let mut more = Command::new("getMore", "db", CommandKind::CursorFollowUp);
    more.body().i64("getMore", 5);
    more.set_target(Address::tcp("a", 27017));
    world.perform(more, &rawdoc! { "ok": 1 });
    assert_eq!(take_events(&mut world), Vec::<String>::new());
}

/// Returns a `getMore` and a `killCursors` for a cursor on `host`.
fn follow_ups(host: &str) -> [Command; 2] {
    let mut more = Command::new("getMore", "db", CommandKind::CursorFollowUp);
    more.body().i64("getMore", 5);
    more.set_target(Address::tcp(host, 27017));
    let mut kill = Command::new("killCursors", "db", CommandKind::CursorFollowUp);
    kill.body().str("killCursors", "c");
    kill.set_target_without_wait(Address::tcp(host, 27017));
    [more, kill]
}

#[test]
fn a_get_more_waits_for_its_server_and_kill_cursors_does_not() {
    // The pool is cleared between two batches (scenario 20).
    let mut world = world(primary());
    let exchange = world.begin_exchange(ping());
    take_events(&mut world);
    world.client.check_in(world.now, exchange, reset());
    let [more, kill] = follow_ups("a");
    let Progress::Waiting(waiting) = world.client.start(world.now, more) else {
        panic!("its server is in doubt");
    };
    let Progress::Failed(error) = world.client.start(world.now, kill) else {
        panic!("its server is in doubt");
    };
    assert!(
        error.to_string().contains("the server of the cursor"),
        "{error}"
    );
    // The server is checked again and can be used.
    world.run();
    world.wait(Duration::from_millis(500));
    let start = world.client.resume(world.now, waiting);
    let mut exchange = world.exchange_of(start);
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(
        take_events(&mut world),
        Vec::<String>::new(),
        "nobody selects"
    );
}

#[test]
fn a_get_more_fails_with_the_reason_why_its_server_cannot_be_used() {
    let mut world = world(primary());
    let exchange = world.begin_exchange(ping());
    world.is_dead = true;
    world.client.check_in(world.now, exchange, reset());
    let [more, _] = follow_ups("a");
    let Progress::Waiting(waiting) = world.client.start(world.now, more) else {
        panic!("its server is in doubt");
    };
    world.run();
    for _ in 0..6 {
        world.wait(Duration::from_millis(500));
    }
    let Progress::Failed(error) = world.client.resume(world.now, waiting) else {
        panic!("its time is over");
    };
    let text = error.to_string();
    assert!(
        text.contains("the server of the cursor or transaction, cannot be used: "),
        "{text}"
    );
    assert_eq!(error.server(), Some(&Address::tcp("a", 27017)));
    // A command of a cursor does not wait for a server that is not in the topology.
    for command in follow_ups("b") {
        let start = world.client.start(world.now, command);
        let Progress::Failed(error) = start else {
            panic!("{start:?}");
        };
        assert!(
            error.to_string().contains("no longer in the topology"),
            "{error}"
        );
    }
}

#[test]
fn no_events_are_created_without_subscriptions() {
    let mut world = World::new(URI, secondary());
    world.client.start(world.now, insert());
    world.wait(Duration::from_secs(3));
    assert!(world.client.poll_event().is_none());
}

#[test]
fn a_client_that_subscribes_only_to_notices_emits_only_notices() {
    // Notices report that the last server was removed (SDAM-65), and that an operation waits for a
    // server (SEL-61).
    let notices = Subscriptions {
        notices: true,
        ..Subscriptions::default()
    };
    let mut world = World::with_subscriptions(URI, secondary(), notices);
    world.client.start(world.now, insert());
    world.wait(Duration::from_secs(3));
    assert_eq!(take_events(&mut world), ["insert waits 2000"]);

    let stranger = rawdoc! { "ok": 1, "maxWireVersion": 21 };
    let mut world = World::with_subscriptions(URI, stranger, notices);
    let event = world.client.poll_event().map(|event| event.kind);
    let Some(EventKind::Sdam(SdamEvent::NoServers { cause, .. })) = event else {
        panic!("{event:?}");
    };
    assert_eq!(cause, NoServersCause::LastRemoved);
    assert!(world.client.poll_event().is_none());
}

#[test]
fn the_selector_text_mentions_the_server_selector_of_the_application() {
    // The text of the selector mentions the application's server selector (SEL-62).
    let mut options = uri::parse(URI).expect("a connection string").options;
    options.server_selector = Some(ServerSelector::new(|servers| servers.clear()));
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let mut client = Client::new(config.with_subscriptions(Subscriptions::all()));
    client.open(Instant::ZERO);
    client.start(Instant::ZERO, insert());
    let events = std::iter::from_fn(|| client.poll_event());
    let selector = events.filter_map(|event| match event.kind {
        EventKind::Selection(SelectionEvent::Started { facts }) => Some(facts.selector),
        _ => None,
    });
    let selectors: Vec<_> = selector.collect();
    assert_eq!(
        selectors,
        ["writable server, narrowed by the application".into()]
    );
}

/// Returns a client of two mongos servers and the number of calls of its server selector, which
/// keeps the servers with this port.
fn narrowed(port: u16) -> (World, Arc<AtomicUsize>) {
    let mut options = uri::parse("mongodb://a:1,a:2").expect("a string").options;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    options.server_selector = Some(ServerSelector::new(move |servers| {
        counted.fetch_add(1, Ordering::Relaxed);
        servers.retain(|server| server.address.port() == Some(port));
    }));
    let world = World::with_options(options, mongos(), Subscriptions::default());
    (world, calls)
}

fn asking(start: Progress) -> (OperationId, SelectorQuestion) {
    match start {
        Progress::Asking {
            operation,
            question,
        } => (operation, question),
        other => panic!("the application has a say: {other:?}"),
    }
}

#[test]
fn the_server_selector_is_called_outside_of_the_client() {
    // The server selector narrows the list of suitable servers (SEL-10). The client does not call
    // the selector itself.
    let (mut world, calls) = narrowed(2);
    let (id, question) = asking(world.client.start(world.now, ping()));
    assert_eq!(calls.load(Ordering::Relaxed), 0, "not inside of the client");
    let next = world
        .client
        .handle_selector_answer(world.now, id, question.ask());
    let exchange = world.exchange_of(next);
    assert_eq!(exchange.facts().address.port(), Some(2));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn an_operation_waits_and_asks_again_after_its_server_selector_returns_no_server() {
    // The server selector permits no server (SEL-10). The operation waits until the topology
    // changes, and then asks again (SEL-36).
    let (mut world, calls) = narrowed(3);
    let (id, question) = asking(world.client.start(world.now, ping()));
    let next = world
        .client
        .handle_selector_answer(world.now, id, question.ask());
    assert!(matches!(next, Progress::Waiting(_)), "{next:?}");
    let waiting = world.client.snapshot().operations;
    assert_eq!(waiting[0].state, crate::client::OperationState::ForServer);
    // While the operation waits, servers are checked every 500 ms, and their round trip times
    // change.
    world.woken.clear();
    world.wait(Duration::from_millis(500));
    assert_eq!(world.woken, [id]);
    assert_eq!(calls.load(Ordering::Relaxed), 1, "its own task asks");
    let (again, question) = asking(world.client.resume(world.now, id));
    assert_eq!(again, id);
    let next = world
        .client
        .handle_selector_answer(world.now, id, question.ask());
    assert!(matches!(next, Progress::Waiting(_)), "{next:?}");
    // The limit of server selection still applies.
    world.wait(Duration::from_secs(30));
    if let Progress::Asking { question, .. } = world.client.resume(world.now, id) {
        let next = world
            .client
            .handle_selector_answer(world.now, id, question.ask());
        assert!(matches!(next, Progress::Waiting(_)), "{next:?}");
        world.wait(Duration::from_secs(30));
    }
    world.client.cancel(world.now, id);
    assert!(world.client.snapshot().operations.is_empty());
}

#[test]
fn a_server_selector_answer_with_unknown_servers_is_not_used() {
    let (mut world, _) = narrowed(2);
    let (id, question) = asking(world.client.start(world.now, ping()));
    // Both servers become `Unknown` before the answer.
    world.is_dead = true;
    world.wait(Duration::from_secs(10));
    world.is_dead = false;
    let next = world
        .client
        .handle_selector_answer(world.now, id, question.ask());
    match next {
        Progress::Waiting(waiting) => assert_eq!(waiting, id),
        Progress::Asking { operation, .. } => assert_eq!(operation, id),
        other => panic!("there is no server: {other:?}"),
    }
    world.client.cancel(world.now, id);
    assert!(world.client.snapshot().operations.is_empty());
}

#[test]
fn a_server_selector_answer_for_a_cancelled_operation_is_refused() {
    let (mut world, _) = narrowed(2);
    let (id, question) = asking(world.client.start(world.now, ping()));
    world.client.cancel(world.now, id);
    let next = world
        .client
        .handle_selector_answer(world.now, id, question.ask());
    assert!(matches!(next, Progress::Failed(_)), "{next:?}");
    assert_eq!(world.client.counts().waiting, 0);
}

#[test]
fn a_panic_in_the_server_selector_fails_only_its_operation() {
    let mut options = uri::parse("mongodb://a:1").expect("a string").options;
    options.server_selector = Some(ServerSelector::new(|_| panic!("it fails")));
    let mut world = World::with_options(options, mongos(), Subscriptions::default());
    for _ in 0..2 {
        let (id, question) = asking(world.client.start(world.now, ping()));
        let next = world
            .client
            .handle_selector_answer(world.now, id, question.ask());
        let Progress::Failed(error) = next else {
            panic!("its selector panicked: {next:?}");
        };
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }));
    }
}

#[test]
fn a_failed_selection_says_how_long_it_waited_and_whether_the_network_failed() {
    let failure = |world: &mut World| {
        let Progress::Waiting(id) = world.client.start(world.now, ping()) else {
            panic!("no server suits");
        };
        world.run();
        for _ in 0..4 {
            world.wait(Duration::from_millis(500));
        }
        match world.client.resume(world.now, id) {
            Progress::Failed(error) => error,
            other => panic!("its time is over: {other:?}"),
        }
    };
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(ping());
    world.is_dead = true;
    world.check_in(exchange, reset());
    let refused = failure(&mut world);
    let stranger = rawdoc! {
        "ok": 1, "isWritablePrimary": true, "setName": "another", "hosts": ["a:27017"],
        "me": "a:27017", "maxWireVersion": 21,
    };
    let other_set = failure(&mut World::new(URI, stranger));
    for (error, is_network) in [(refused, true), (other_set, false)] {
        assert!(
            error.is_server_selection() && error.is_timeout(),
            "{error:?}"
        );
        assert_eq!(error.is_network(), is_network, "{error:?}");
        assert_eq!(error.waited(), Some(Duration::from_secs(2)));
        let text = error.to_string();
        assert!(
            text.starts_with("server selection failed after 2000 ms: "),
            "{text}"
        );
    }
}

#[test]
fn a_tag_name_that_bson_does_not_permit_is_refused() {
    // Its rest would be sent as further elements of the command.
    let mut world = World::with_subscriptions("mongodb://a", mongos(), Subscriptions::all());
    let tags = [("a\0\u{1}".to_owned(), "ny".to_owned())].into();
    let nearest = crate::options::ReadMode::Nearest;
    let sets: Vec<crate::description::Tags> = vec![tags];
    let refused = crate::options::ReadPreference::new(nearest).with_tag_sets(sets.clone());
    assert!(refused.is_err());
    let options = crate::options::ReadPreferenceOptions::builder().tag_sets(sets);
    let preference = crate::options::ReadPreference::nearest(options.build());
    let mut command = find();
    command.set_criteria(&preference.into());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    let Progress::Exchange(mut exchange) = world.client.start(world.now, command) else {
        panic!("the connection is idle");
    };
    let error = exchange.begin(world.now).expect_err("it cannot be sent");
    assert!(error.to_string().contains("NUL"), "{error}");
    assert!(exchange.output().is_empty());
}
