//! Tests of the application's callbacks: event listeners, with the events and their order, and
//! server selectors.

use super::{
    Host, builder, end, find, ping,
    server::{Gate, Server, Step, answer},
    things, until,
};
use bson::doc;
use onionskin::Client;
use onionskin_core::{
    error::ErrorKind,
    event::{CommandEvent, Event, EventKind, PoolEvent, SdamEvent},
    options::ServerSelector,
    uri,
};
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// A listener that records the names of events.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    fn listener(&self) -> onionskin::event::EventListener {
        let log = self.clone();
        Arc::new(move |event: &Event| log.write(event))
    }

    fn write(&self, event: &Event) {
        if let Some(name) = name(event) {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(name);
        }
    }

    fn names(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Asserts that the events `expected` occurred in this order, possibly with others in between.
    fn assert_order(&self, expected: &[&str]) {
        let names = self.names();
        let mut rest = names.iter();
        for wanted in expected {
            assert!(
                rest.any(|name| name == wanted),
                "{wanted} is not in its place in {names:#?}"
            );
        }
    }
}

fn name(event: &Event) -> Option<String> {
    Some(match &event.kind {
        EventKind::Sdam(event) => match event {
            SdamEvent::TopologyOpening { .. } => "topology opening".to_owned(),
            SdamEvent::TopologyClosed { .. } => "topology closed".to_owned(),
            SdamEvent::TopologyDescriptionChanged { new, .. } => {
                format!("topology {}", new.topology_type)
            }
            SdamEvent::ServerOpening { .. } => "server opening".to_owned(),
            SdamEvent::ServerClosed { .. } => "server closed".to_owned(),
            SdamEvent::ServerDescriptionChanged { new, .. } => {
                format!("server {}", new.server_type)
            }
            SdamEvent::HeartbeatStarted { .. } => "heartbeat started".to_owned(),
            SdamEvent::HeartbeatSucceeded { .. } => "heartbeat succeeded".to_owned(),
            SdamEvent::HeartbeatFailed { .. } => "heartbeat failed".to_owned(),
            _ => return None,
        },
        EventKind::Pool(event) => match event {
            PoolEvent::Created { .. } => "pool created".to_owned(),
            PoolEvent::Ready { .. } => "pool ready".to_owned(),
            PoolEvent::Cleared { .. } => "pool cleared".to_owned(),
            PoolEvent::Closed { .. } => "pool closed".to_owned(),
            PoolEvent::ConnectionCreated { .. } => "connection created".to_owned(),
            PoolEvent::ConnectionReady { .. } => "connection ready".to_owned(),
            PoolEvent::ConnectionClosed { .. } => "connection closed".to_owned(),
            PoolEvent::CheckOutStarted { .. } => "check out started".to_owned(),
            PoolEvent::CheckOutFailed { .. } => "check out failed".to_owned(),
            PoolEvent::CheckedOut { .. } => "checked out".to_owned(),
            PoolEvent::CheckedIn { .. } => "checked in".to_owned(),
            _ => return None,
        },
        EventKind::Command(event) => match event {
            CommandEvent::Started { facts, .. } => format!("{} started", facts.name),
            CommandEvent::Succeeded { facts, .. } => format!("{} succeeded", facts.name),
            CommandEvent::Failed { facts, .. } => format!("{} failed", facts.name),
            _ => return None,
        },
        _ => return None,
    })
}

/// A client publishes its events in order, from topology opening to topology closed.
pub async fn a_client_emits_its_events_in_order<H: Host>() {
    let server = Server::plain::<H>();
    let log = EventLog::default();
    let builder = builder::<H>(&server.uri("maxPoolSize=1"));
    let client = builder
        .event_listener(log.listener())
        .build()
        .expect("a client");
    find(&client, 1).await.expect("a reply");
    end::<H>(client, &server).await;
    let names = log.names();
    assert_eq!(names.first().map(String::as_str), Some("topology opening"));
    assert_eq!(
        names.last().map(String::as_str),
        Some("topology closed"),
        "{names:#?}"
    );
    log.assert_order(&[
        "topology opening",
        "server opening",
        "heartbeat started",
        "heartbeat succeeded",
        "server Standalone",
        "topology Single",
        "server closed",
        "topology closed",
    ]);
    log.assert_order(&[
        "pool created",
        "pool ready",
        "check out started",
        "connection created",
        "connection ready",
        "checked out",
        "find started",
        "find succeeded",
        "checked in",
        "check out started",
        "checked out",
        "endSessions started",
        "endSessions succeeded",
        "checked in",
        "connection closed",
        "pool closed",
    ]);
}

/// The events of a failure have the order of their causes: the failed command, the cleared pool,
/// the server that becomes `Unknown`, and the closed connection.
pub async fn the_events_of_a_failure_are_emitted_in_order<H: Host>() {
    let server = Server::scripted::<H>(|request| match request.n() {
        Some(1) => vec![Step::Close],
        _ => answer(request),
    });
    let log = EventLog::default();
    let builder = builder::<H>(&server.uri("maxPoolSize=1&retryReads=false"));
    let client = builder
        .event_listener(log.listener())
        .build()
        .expect("a client");
    let unknown = client
        .database("app")
        .run_command(doc! { "shrug": 1 })
        .await;
    assert_eq!(unknown.expect_err("no such command").code(), Some(59));
    find(&client, 1).await.expect_err("no reply");
    ping(&client).await.expect("a reply");
    end::<H>(client, &server).await;
    log.assert_order(&[
        "shrug started",
        "shrug failed",
        "checked in",
        "find started",
        "find failed",
        "pool cleared",
        "server Unknown",
        "checked in",
        "connection closed",
        "pool ready",
        "server Standalone",
        "ping started",
        "ping succeeded",
    ]);
}

/// Each command has one started event and then one succeeded or failed event, with many commands at
/// the same time.
pub async fn every_command_started_event_is_followed_by_succeeded_or_failed<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.n() {
        Some(-1) => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        _ => answer(request),
    });
    let open = Arc::new(Mutex::new((Vec::new(), 0)));
    let listened = open.clone();
    let listener = Arc::new(move |event: &Event| {
        let EventKind::Command(event) = &event.kind else {
            return;
        };
        let mut open = listened.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            CommandEvent::Started { facts, command, .. } => {
                assert_eq!(command.get_str("$db").ok(), Some(&*facts.database));
                open.0.push((facts.request_id, facts.operation_id));
            }
            CommandEvent::Succeeded { facts, .. } | CommandEvent::Failed { facts, .. } => {
                let ids = (facts.request_id, facts.operation_id);
                let place = open.0.iter().position(|&started| started == ids);
                open.0.remove(place.expect("a start comes before its end"));
                open.1 += 1;
            }
            _ => {}
        }
    });
    let builder = builder::<H>(&server.uri("maxPoolSize=4"));
    let client = builder.event_listener(listener).build().expect("a client");
    super::together::<H, _>((0..100).map(|n| {
        let client = client.clone();
        async move { find(&client, n).await.expect("a reply") }
    }))
    .await;
    // A find that is dropped while it runs also has a succeeded or failed event.
    let things = things(&client);
    let mut left = super::Stepper::new(things.find_one(doc! { "n": -1 }));
    assert!(left.step().await.is_none());
    drop(left);
    gate.open();
    end::<H>(client, &server).await;
    until::<H>("the last event", || {
        let open = open.lock().unwrap_or_else(PoisonError::into_inner);
        open.0.is_empty() && open.1 >= 102
    })
    .await;
}

/// A listener may call methods of its client.
pub async fn an_event_listener_may_call_its_client<H: Host>() {
    let server = Server::plain::<H>();
    let slot: Arc<OnceLock<Client<H::R>>> = Arc::default();
    let asked = slot.clone();
    let sums = Arc::new(Mutex::new(0));
    let sum = sums.clone();
    let listener = Arc::new(move |_: &Event| {
        if let Some(client) = asked.get() {
            *sum.lock().unwrap_or_else(PoisonError::into_inner) += client.counts().sockets;
            let _ = client.topology();
        }
    });
    let builder = builder::<H>(&server.uri(""));
    let client = builder.event_listener(listener).build().expect("a client");
    let _ = slot.set(client.clone());
    find(&client, 1).await.expect("a reply");
    client.flush_events().await;
    assert!(*sums.lock().unwrap_or_else(PoisonError::into_inner) > 0);
    end::<H>(client, &server).await;
}

/// A listener that blocks delays events, but no operation.
pub async fn a_blocking_event_listener_delays_no_operation<H: Host>() {
    let server = Server::plain::<H>();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let log = EventLog::default();
    let notes = log.clone();
    let listener = Arc::new(move |event: &Event| {
        if matches!(&event.kind, EventKind::Command(_)) {
            // Returns at once when the sender was dropped.
            let _ = released
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv();
        }
        notes.write(event);
    });
    let builder = builder::<H>(&server.uri("maxPoolSize=2"));
    let client = builder.event_listener(listener).build().expect("a client");
    super::together::<H, _>((0..50).map(|n| {
        let client = client.clone();
        async move {
            let things = things(&client);
            let find = things.find_one(doc! { "n": n });
            find.timeout(std::time::Duration::from_secs(20))
                .await
                .expect("a reply");
        }
    }))
    .await;
    let names = log.names();
    assert!(!names.contains(&"find started".to_owned()), "{names:#?}");
    drop(release);
    end::<H>(client, &server).await;
    let names = log.names();
    let count = |name: &str| names.iter().filter(|names| *names == name).count();
    assert_eq!((count("find started"), count("find succeeded")), (50, 50));
    assert_eq!(names.last().map(String::as_str), Some("topology closed"));
}

/// The application's server selector is called without the client's lock, so it may call the
/// client. A panic in the selector fails only the operation that called the selector.
pub async fn a_server_selector_may_call_its_client<H: Host>() {
    let server = Server::plain::<H>();
    let slot: Arc<OnceLock<Client<H::R>>> = Arc::default();
    let asked = slot.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let selector = ServerSelector::new(move |servers| {
        let client = asked.get().expect("operations come later");
        let known = client.topology();
        servers.retain(|server| known.servers.contains_key(&server.address));
        assert!(
            counted.fetch_add(1, Ordering::SeqCst) != 1,
            "the second call fails"
        );
    });
    let mut options = uri::parse(&server.uri(""))
        .expect("a connection string")
        .options;
    options.server_selector = Some(selector);
    let client = Client::builder(H::runtime(), options)
        .build()
        .expect("a client");
    assert!(slot.set(client.clone()).is_ok(), "it is set once");
    find(&client, 1).await.expect("a reply");
    let error = find(&client, 2).await.expect_err("its selector panics");
    assert!(
        matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
        "{error:?}"
    );
    find(&client, 3)
        .await
        .expect("another operation is not concerned");
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    // The selector holds a handle of its client, so dropping the client would not close it.
    client.shutdown().await;
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}
