//! Tests of clients that check servers on demand.

use super::{
    Host, builder, client, end, find, pause, ping,
    server::{Gate, Server, Step, answer, hello},
    things, until, within,
};
use bson::doc;
use onionskin_core::{
    client::SOCKET_CHECK_INTERVAL,
    error::ErrorKind,
    event::{CommandEvent, Event, EventKind},
    options::{ReadMode, ReadPreference},
};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

/// Returns the number of hellos, pings, finds and inserts that the server received.
fn requests(server: &Server) -> usize {
    ["hello", "ismaster", "isMaster", "ping", "find", "insert"]
        .iter()
        .map(|name| server.seen(name).len())
        .sum()
}

/// Between operations the client sends nothing.
pub async fn no_message_is_sent_between_operations<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri("heartbeatFrequencyMS=500"));
    assert_eq!(server.accepted(), 0, "nobody asked yet");
    find(&client, 1).await.expect("a reply");
    assert_eq!(server.accepted(), 2, "one to check, one for the operation");
    let before = requests(&server);
    assert_eq!(before, 3, "two handshakes and a find");
    pause::<H>(Duration::from_millis(1700)).await;
    assert_eq!(requests(&server), before);
    end::<H>(client, &server).await;
}

/// If the last scan is as old as `heartbeatFrequencyMS`, an operation has the server checked first,
/// on the monitor's existing connection.
pub async fn an_operation_scans_servers_after_the_heartbeat_interval<H: Host>() {
    let server = Server::plain::<H>();
    // Both finds take less than this interval, even on a busy machine.
    let client = client::<H>(&server.uri("heartbeatFrequencyMS=1500"));
    find(&client, 1).await.expect("a reply");
    find(&client, 2).await.expect("a reply");
    assert_eq!(requests(&server), 4);
    pause::<H>(Duration::from_millis(1600)).await;
    find(&client, 3).await.expect("a reply");
    assert_eq!(requests(&server), 6);
    assert_eq!(server.accepted(), 2);
    end::<H>(client, &server).await;
}

/// By default an operation that finds no server fails after one scan, before
/// `serverSelectionTimeoutMS` has passed.
pub async fn server_selection_fails_after_one_scan_without_a_server<H: Host>() {
    let port = H::closed_port();
    let client = client::<H>(&format!("mongodb://{}/", port.address()));
    for _ in 0..2 {
        let error = within::<H, _>(H::SLACK, "the scan", ping(&client)).await;
        let error = error.expect_err("nobody is there");
        assert!(
            matches!(error.kind(), ErrorKind::ServerSelection { .. }),
            "{error}"
        );
    }
    client.shutdown().await;
}

/// With `serverSelectionTryOnce=false`, an operation finds a server that starts while the operation
/// waits.
pub async fn an_operation_scans_until_a_server_is_available<H: Host>() {
    let port = H::closed_port();
    let limit = H::LIMIT.as_millis();
    let options = format!("connectTimeoutMS={limit}&serverSelectionTryOnce=false");
    let client = client::<H>(&format!("mongodb://{}/?{options}", port.address()));
    let mut waiter = super::Stepper::new(things(&client).find_one(doc! { "n": 1 }));
    assert!(waiter.step().await.is_none());
    until::<H>("the first failed check", || {
        let topology = client.topology();
        topology.servers.values().any(|s| s.error.is_some())
    })
    .await;
    let server = Server::on(port);
    let found = within::<H, _>(H::WAIT_LIMIT, "the next check", async {
        loop {
            waiter.woken().await;
            if let Some(found) = waiter.step().await {
                return found;
            }
        }
    });
    assert_eq!(found.await.expect("a reply"), Some(doc! { "n": 1 }));
    end::<H>(client, &server).await;
}

/// A scan does not connect to the second server before the first one has answered.
pub async fn a_scan_connects_to_one_server_at_a_time<H: Host>() {
    let gate = Gate::new();
    let servers: Vec<Server> = (0..2)
        .map(|_| {
            let server_gate = gate.clone();
            Server::scripted::<H>(move |request| {
                if !request.is_hello() {
                    return answer(request);
                }
                let mut hello_reply = hello(request.connection);
                hello_reply.insert("msg", "isdbgrid");
                [
                    vec![Step::Hold(server_gate.clone())],
                    request.reply(&hello_reply),
                ]
                .concat()
            })
        })
        .collect();
    let uri = format!(
        "mongodb://{},{}/",
        servers[0].address(),
        servers[1].address()
    );
    let client = client::<H>(&uri);
    let accepted = || servers.iter().map(Server::accepted).sum::<u64>();
    let mut first = super::Stepper::new(things(&client).find_one(doc! { "n": 1 }));
    assert!(first.step().await.is_none());
    until::<H>("the first check", || accepted() == 1).await;
    pause::<H>(Duration::from_millis(200)).await;
    assert_eq!(accepted(), 1);
    gate.open();
    loop {
        first.woken().await;
        if let Some(found) = first.step().await {
            assert_eq!(found.expect("a reply"), Some(doc! { "n": 1 }));
            break;
        }
    }
    drop(first);
    let (first, second) = (&servers[0], &servers[1]);
    end::<H>(client, first).await;
    until::<H>("the closing of all sockets", || second.open() == 0).await;
}

/// A member that accepts connections but never replies does not delay operations on the primary.
/// Operations that prefer secondaries succeed within their time limit, and open only one connection
/// to the member.
pub async fn a_member_that_never_replies_delays_no_operation_on_the_primary<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let silent = Server::scripted::<H>(move |_| vec![Step::Hold(server_gate.clone()), Step::Close]);
    let other = silent.address();
    let own: Arc<OnceLock<String>> = Arc::default();
    let known = own.clone();
    let server = Server::scripted::<H>(move |request| {
        if !request.is_hello() {
            return answer(request);
        }
        let own = known.get().expect("it is known by now");
        let mut hello_reply = hello(request.connection);
        hello_reply.extend(doc! { "setName": "rs", "me": own, "hosts": [own, &other] });
        request.reply(&hello_reply)
    });
    own.set(server.address()).expect("it is set once");
    let client = client::<H>(&server.uri("replicaSet=rs"));
    let limit = Duration::from_secs(1);
    for n in 0..15 {
        let things = things(&client);
        let found = things.find_one(doc! { "n": n }).timeout(limit).await;
        assert_eq!(found.expect("a reply"), Some(doc! { "n": n }));
    }
    assert_eq!(silent.accepted(), 0, "no operation needs it");
    let mode = ReadMode::SecondaryPreferred;
    for n in 0..15 {
        let things = things(&client);
        let find = things.find_one(doc! { "n": n }).timeout(limit);
        let found = find.read_preference(ReadPreference::new(mode)).await;
        assert_eq!(found.expect("a reply"), Some(doc! { "n": n }));
    }
    assert_eq!(silent.accepted(), 1);
    gate.open();
    end::<H>(client, &server).await;
    until::<H>("the closing of all sockets", || silent.open() == 0).await;
}

/// A find that is not retried succeeds although its server closed the idle connection.
pub async fn an_idle_connection_closed_by_the_server_fails_no_operation<H: Host>() {
    let server = Server::scripted::<H>(|request| {
        let mut steps = answer(request);
        if request.n() == Some(1) {
            steps.push(Step::Close);
        }
        steps
    });
    let client = client::<H>(&server.uri("retryWrites=false&retryReads=false"));
    find(&client, 1).await.expect("a reply");
    pause::<H>(SOCKET_CHECK_INTERVAL).await;
    find(&client, 2)
        .await
        .expect("a reply, on another connection");
    end::<H>(client, &server).await;
}

/// The client pings an idle connection before it uses the connection, without an event. A
/// connection that was used recently is not pinged.
pub async fn a_preliminary_ping_is_sent_once_and_emits_no_command_events<H: Host>() {
    let server = Server::plain::<H>();
    let commands = Arc::new(AtomicU32::new(0));
    let pinged = Arc::new(AtomicBool::new(false));
    let (count, noted) = (commands.clone(), pinged.clone());
    let listener = Arc::new(move |event: &Event| {
        if let EventKind::Command(CommandEvent::Started { facts, .. }) = &event.kind {
            count.fetch_add(1, Ordering::SeqCst);
            noted.fetch_or(&*facts.name == "ping", Ordering::SeqCst);
        }
    });
    let builder = builder::<H>(&server.uri(""));
    let client = builder.event_listener(listener).build().expect("a client");
    find(&client, 1).await.expect("a reply");
    pause::<H>(SOCKET_CHECK_INTERVAL).await;
    for n in 2..5 {
        find(&client, n).await.expect("the reply to this question");
    }
    assert_eq!(server.seen("ping").len(), 1);
    assert_eq!(server.seen("find").len(), 4);
    client.flush_events().await;
    assert_eq!(commands.load(Ordering::SeqCst), 4);
    assert!(!pinged.load(Ordering::SeqCst));
    end::<H>(client, &server).await;
}
