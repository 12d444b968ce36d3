//! Tests of operations that end before their reply, and of idle connections that the server ends:
//! other operations are not affected.

use super::{
    Host, Stepper, builder, client, end, find,
    identity::{scripted_secure_server, secure_server},
    pause,
    server::{Gate, Request, Server, Step, TlsMessage, answer},
    things, until, wait_until_idle, within,
};
use crate::compressors::noise;
use crate::peers::Scratch;
use bson::{Document, doc};
use onionskin::{Client, Runtime};
use onionskin_core::{
    client::{DRAIN_LIMIT, IDLE_CHECK_AFTER},
    error::Error,
    event::{Event, EventKind, PoolEvent},
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// One gate for each request whose reply is held back.
#[derive(Clone, Default)]
struct Gates(Arc<Mutex<Vec<Arc<Gate>>>>);

impl Gates {
    fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    fn open_all(&self) {
        for gate in self.0.lock().expect("no panic").iter() {
            gate.open();
        }
    }

    /// Returns a script that answers a find with a negative `n` when the gate of the find is
    /// opened, and other requests at once.
    fn script(&self) -> impl Fn(&Request) -> Vec<Step> + Send + Sync + use<> {
        let gates = self.clone();
        move |request| {
            if request.n().is_none_or(|n| n >= 0) {
                return answer(request);
            }
            let gate = Gate::new();
            gates.0.lock().expect("no panic").push(gate.clone());
            [vec![Step::Hold(gate)], answer(request)].concat()
        }
    }
}

/// Returns the connections on which the server received finds.
fn connections(server: &Server) -> BTreeSet<u64> {
    let finds = server.seen("find").into_iter();
    finds.map(|seen| seen.connection).collect()
}

/// Runs a find and asserts that it times out.
async fn find_that_times_out<H: Host>(client: &Client<H::R>) {
    let things = things(client);
    let call = things.find_one(doc! { "n": -1 }).timeout(H::LIMIT);
    let result: Result<Option<Document>, Error> =
        within::<H, _>(H::LIMIT + H::SLACK, "the time limit", call.into_future()).await;
    assert!(result.expect_err("nobody answers").is_timeout());
}

/// Operations that time out one after the other close no connection. The late reply is dropped, and
/// the next operation gets its own reply on the same connection.
pub async fn operations_that_time_out_close_no_connection<H: Host>() {
    let gates = Gates::default();
    let server = Server::scripted::<H>(gates.script());
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    find(&client, 7).await.expect("a reply");
    for n in 0..5 {
        find_that_times_out::<H>(&client).await;
        assert_eq!(client.counts().in_use, 0);
        // The server can read the request after its operation has timed out.
        until::<H>("the request", || gates.count() > n).await;
        gates.open_all();
        let n = i32::try_from(n).expect("small");
        find(&client, n).await.expect("the reply to this question");
    }
    assert_eq!(gates.count(), 5);
    assert_eq!(connections(&server).len(), 1, "one connection for all");
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// A find that was dropped before its reply opens a cursor that nobody has. It is closed once the
/// late reply arrives.
pub async fn the_cursor_of_a_dropped_find_is_closed<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match &*request.name {
        "find" => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        _ => answer(request),
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let things = things(&client);
    let mut left = Stepper::new(things.find(doc! { "n": 7, "open": true }));
    while server.seen("find").is_empty() {
        assert!(left.step().await.is_none(), "nobody answers");
        pause::<H>(Duration::from_millis(1)).await;
    }
    drop(left);
    gate.open();
    until::<H>("the cursor's end", || server.seen("killCursors").len() == 1).await;
    let kill = server.seen("killCursors").remove(0).body;
    assert_eq!(kill.get_str("killCursors").ok(), Some("things"));
    assert_eq!(kill.get_array("cursors").ok(), Some(&vec![8_i64.into()]));
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
    assert_eq!(connections(&server).len(), 1);
}

/// Operations that their callers drop close no connection, even if the late reply is long and comes
/// in many pieces.
pub async fn dropped_operations_close_no_connection<H: Host>() {
    let gates = Gates::default();
    let late = gates.script();
    let server = Server::scripted::<H>(move |request| {
        let mut steps = late(request);
        if let (Some(-2), Some(reply)) = (request.n(), steps.last_mut()) {
            let text = noise(1_000_000);
            let cursor = doc! { "id": 0_i64, "ns": "app.things", "firstBatch": [{ "x": text }] };
            *reply = Step::Trickle(request.frame(&doc! { "ok": 1, "cursor": cursor }), 10_000);
        }
        steps
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    for (round, n) in [-1, -2, -1, -2].into_iter().enumerate() {
        let things = things(&client);
        let mut left = Stepper::new(things.find_one(doc! { "n": n }));
        while gates.count() == round {
            assert!(left.step().await.is_none(), "nobody answers");
            pause::<H>(Duration::from_millis(1)).await;
        }
        drop(left);
        gates.open_all();
        find(&client, 7).await.expect("the reply to this question");
    }
    assert_eq!(connections(&server).len(), 1, "one connection for all");
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// If the late reply does not arrive within `DRAIN_LIMIT`, the waiting operation gets another
/// connection, and the pool is not cleared.
pub async fn a_missing_late_reply_does_not_clear_the_pool<H: Host>() {
    let gates = Gates::default();
    let server = Server::scripted::<H>(gates.script());
    let clears = Arc::new(AtomicUsize::new(0));
    let builder = builder::<H>(&server.uri("maxPoolSize=1")).event_listener(counter(&clears));
    let client = builder.build().expect("a client");
    find(&client, 0).await.expect("a reply");
    find_that_times_out::<H>(&client).await;
    until::<H>("the request", || gates.count() == 1).await;
    let runtime = H::runtime();
    let began = runtime.now();
    find(&client, 1).await.expect("another connection");
    let took = runtime.now() - began;
    assert!(took + H::SLACK > DRAIN_LIMIT, "not waited for: {took:?}");
    assert_eq!(connections(&server).len(), 2);
    client.flush_events().await;
    assert_eq!(clears.load(Ordering::SeqCst), 0);
    gates.open_all();
    end::<H>(client, &server).await;
}

/// Returns a listener that counts pool cleared events.
pub(super) fn counter(clears: &Arc<AtomicUsize>) -> Arc<dyn Fn(&Event) + Send + Sync> {
    let clears = clears.clone();
    Arc::new(move |event: &Event| {
        if let EventKind::Pool(PoolEvent::Cleared { .. }) = &event.kind {
            clears.fetch_add(1, Ordering::SeqCst);
        }
    })
}

/// Before sending an operation on an idle connection, the client notices that the server closed,
/// half-closed or reset the connection, or wrote to it. The operation succeeds on another
/// connection, although retries are switched off.
pub async fn losing_an_idle_connection_fails_no_operation<H: Host>() {
    for ending in ways_to_end() {
        let gate = Gate::new();
        let server = Server::scripted::<H>(answer_then(&gate, &ending));
        assert_idle_loss_is_harmless::<H>(server, "", &gate, &format!("after {ending:?}")).await;
    }
}

/// The client notices that the server ended an idle connection with TLS or wrote to it, before
/// sending an operation there. The server closes, half-closes or resets the socket, or sends bytes,
/// an alert or an invalid record.
pub async fn losing_an_idle_tls_connection_fails_no_operation<H: Host>() {
    if !H::R::RUNS_IN_BACKGROUND {
        // A single-threaded client tests idle connections only by a ping, and only after five
        // seconds.
        return;
    }
    let messages = [
        TlsMessage::CloseNotify,
        TlsMessage::FatalAlert,
        TlsMessage::InvalidRecord,
    ];
    let messages = messages.map(Step::Tls);
    for ending in ways_to_end().into_iter().chain(messages) {
        let gate = Gate::new();
        let scratch = Scratch::new().expect("a directory");
        let script = answer_then(&gate, &ending);
        let (server, ca) = scripted_secure_server("127.0.0.1", &scratch, script);
        let options = format!("&tls=true&tlsCAFile={}", ca.display());
        assert_idle_loss_is_harmless::<H>(server, &options, &gate, &format!("after {ending:?}"))
            .await;
    }
}

/// Returns the steps with which a server can end an idle connection or write to it.
fn ways_to_end() -> [Step; 4] {
    let speak = Step::Send(vec![0; 40]);
    [Step::Close, Step::HalfClose, Step::Reset, speak]
}

/// Returns a script that answers all requests. After its answer to the find that asks for `n: 1`,
/// the script waits for the gate and then performs `ending` on the connection.
fn answer_then(
    gate: &Arc<Gate>,
    ending: &Step,
) -> impl Fn(&Request) -> Vec<Step> + Send + Sync + use<> {
    let (server_gate, last) = (gate.clone(), ending.clone());
    move |request| {
        let mut steps = answer(request);
        if request.n() == Some(1) {
            steps.extend([Step::Hold(server_gate.clone()), last.clone()]);
        }
        steps
    }
}

/// Asserts that an operation does not use a connection that became errored while idle (CMAP-27),
/// that the operation succeeds, and that the pool is not cleared.
async fn assert_idle_loss_is_harmless<H: Host>(
    server: Server,
    options: &str,
    gate: &Gate,
    when: &str,
) {
    let clears = Arc::new(AtomicUsize::new(0));
    let uri = server.uri(&format!("retryReads=false&retryWrites=false{options}"));
    let builder = builder::<H>(&uri).event_listener(counter(&clears));
    let client = builder.build().expect("a client");
    find(&client, 1).await.expect("a reply");
    gate.open();
    pause::<H>(IDLE_CHECK_AFTER).await;
    find(&client, 2)
        .await
        .unwrap_or_else(|error| panic!("{when}: {error}"));
    assert_eq!(connections(&server).len(), 2, "{when}");
    client.flush_events().await;
    assert_eq!(clears.load(Ordering::SeqCst), 0);
    end::<H>(client, &server).await;
}

/// A connection that was idle for `IDLE_CHECK_AFTER` is used again if it still works.
pub async fn an_idle_connection_is_reused<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    for n in 0..3 {
        find(&client, n).await.expect("a reply");
        pause::<H>(IDLE_CHECK_AFTER).await;
    }
    assert_eq!(connections(&server).len(), 1);
    until::<H>("rest", || client.counts().in_use == 0).await;
    end::<H>(client, &server).await;
}

/// With TLS, a late reply reaches no other operation. A client with monitors in the background uses
/// one connection for all operations.
pub async fn a_late_reply_over_tls_reaches_no_other_operation<H: Host>() {
    let scratch = Scratch::new().expect("a directory");
    let (server, ca) = secure_server("127.0.0.1", &scratch);
    let options = format!("maxPoolSize=1&tls=true&tlsCAFile={}", ca.display());
    let client = client::<H>(&server.uri(&options));
    find(&client, 0).await.expect("a reply");
    pause::<H>(IDLE_CHECK_AFTER).await;
    for n in 1..20 {
        let things = things(&client);
        let mut left = Stepper::new(things.find_one(doc! { "n": -n }));
        // After one poll the request is usually sent and the reply has usually not arrived.
        let _ = left.step().await;
        drop(left);
        find(&client, n).await.expect("the reply to this question");
    }
    if H::R::RUNS_IN_BACKGROUND {
        assert_eq!(connections(&server).len(), 1, "one connection for all");
    }
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}
