//! Tests of connections that are reset or stall in each phase, of a peer that disappears, and of a
//! full backlog. A [`Proxy`] on real sockets causes the fault. A reset or a stall concerns a
//! connection of the pool, not that of the monitor.

use super::{
    Host, Stepper, both, builder, find, pause,
    server::{Fault, Gate, Proxy, Server, Step, answer},
    things, until, within,
};
use crate::compressors::noise;
use bson::doc;
use onionskin::{Client, Runtime};
use onionskin_core::{
    error::{Error, ErrorKind, Label, Wait},
    event::{Event, EventKind, PoolEvent},
};
use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use std::{
    collections::BTreeSet,
    net::TcpStream,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The size in bytes of a large request or reply.
const LARGE: usize = 300_000;

/// Counts the pool cleared events and the connection ready events of a client.
#[derive(Clone, Default)]
struct PoolEventCounts(Arc<Mutex<Counts>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    ready: usize,
    clears: usize,
}

impl PoolEventCounts {
    fn counts(&self) -> Counts {
        *self.0.lock().expect("no panic")
    }

    fn client<H: Host>(&self, uri: &str) -> Client<H::R> {
        let events = self.clone();
        let listener = move |event: &Event| {
            let mut counts = events.0.lock().expect("no panic");
            match &event.kind {
                EventKind::Pool(PoolEvent::Cleared { .. }) => counts.clears += 1,
                EventKind::Pool(PoolEvent::ConnectionReady { .. }) => counts.ready += 1,
                _ => {}
            }
        };
        let builder = builder::<H>(uri).event_listener(Arc::new(listener));
        builder.build().expect("a client")
    }
}

/// The phase of a connection in which a fault has its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// From connecting to the reply to `hello`.
    Handshake,
    Authentication,
    Exchange,
}

/// For one direction: byte counts within a resumed TLS handshake and within a request or reply, and
/// the byte count at which the search for the beginning of authentication starts.
type Places = ([usize; 3], usize);
const UP: Places = ([0, 300, LARGE / 2], 780);
const DOWN: Places = ([10, 200, LARGE / 2], 900);

/// A deployment that requires TLS and authentication, a proxy for it, and a client. The client's
/// pool has at most one connection. Each call of `exchange` begins with a pause that is longer than
/// `maxIdleTimeMS`, so it gets a new connection.
struct Secured<R: Runtime> {
    _deployment: Embedded,
    proxy: Proxy,
    client: Client<R>,
    events: PoolEventCounts,
    last_id: i32,
}

impl<R: Runtime> Secured<R> {
    /// Returns the client and its deployment. `limit` is `connectTimeoutMS` and `socketTimeoutMS`.
    async fn new<H: Host<R = R>>(limit: u32) -> Self {
        let mut options = ServeOptions::standalone();
        options.tls = true;
        options.users.push(User::new("user", "sesame"));
        let deployment = Embedded::start(options).expect("a deployment");
        let uri = deployment.uri().to_owned();
        let rest = uri.split('@').nth(1).expect("a login");
        let host = rest.split('/').next().expect("a host").to_owned();
        let proxy = Proxy::to(host.parse().expect("an address"));
        let uri = uri.replace(&host, &proxy.address().to_string());
        let options = format!(
            "serverMonitoringMode=poll&heartbeatFrequencyMS=60000&retryReads=false\
             &retryWrites=false&maxPoolSize=1&maxIdleTimeMS=1&connectTimeoutMS={limit}\
             &socketTimeoutMS={limit}"
        );
        let events = PoolEventCounts::default();
        let mut this = Self {
            _deployment: deployment,
            proxy,
            client: events.client::<H>(&format!("{uri}&{options}")),
            events,
            last_id: 0,
        };
        this.exchange::<H>().await.expect("all is well");
        this
    }

    /// Writes a large document and reads it back, on a new connection. One command does both: on a
    /// busy machine, the connection could be idle for too long between two commands.
    async fn exchange<H: Host<R = R>>(&mut self) -> Result<(), Error> {
        pause::<H>(Duration::from_millis(3)).await;
        self.last_id += 1;
        let document = doc! { "_id": self.last_id, "text": noise(LARGE) };
        let app = self.client.database("app");
        let call = async {
            let reply = app.run_command(doc! {
                "findAndModify": "things", "query": { "_id": self.last_id }, "update": &document,
                "upsert": true, "new": true,
            });
            let reply = reply.await?;
            assert_eq!(reply.get_document("value").ok(), Some(&document));
            Ok(())
        };
        within::<H, _>(H::WAIT_LIMIT, "an exchange", call).await
    }

    /// Runs an exchange whose connection has a fault. Asserts that the pool is cleared if the phase
    /// and the error require this, and only then. Returns the phase in which the exchange failed,
    /// and the error.
    async fn exchange_with_fault<H: Host<R = R>>(&mut self, fault: Fault) -> (Phase, Error) {
        self.client.flush_events().await;
        let (before, before_fault) = (self.events.counts(), self.proxy.faults_begun());
        self.proxy.fail_next(fault);
        let result = self.exchange::<H>().await;
        assert_eq!(self.proxy.faults_begun(), before_fault + 1, "{fault:?}");
        let error = result.expect_err("the connection has a fault");
        self.client.flush_events().await;
        let after = self.events.counts();
        let is_overload = error.has_label(&Label::SystemOverloadedError);
        let phase = match (is_overload, after.ready > before.ready) {
            (true, false) => Phase::Handshake,
            (false, false) => Phase::Authentication,
            (false, true) => Phase::Exchange,
            (true, true) => unreachable!("{fault:?}: {error:?}"),
        };
        let clears = match phase {
            // A network error or timeout during TCP, TLS or `hello` is a sign of overload and does
            // not clear the pool (CMAP-44).
            Phase::Handshake => 0,
            Phase::Authentication => 1,
            // A network error on an established connection clears the pool, a timeout does not
            // (CMAP-147).
            Phase::Exchange => usize::from(!error.is_timeout()),
        };
        assert_eq!(after.clears - before.clears, clears, "{fault:?}: {error:?}");
        self.exchange::<H>()
            .await
            .expect("another connection is well");
        (phase, error)
    }

    /// Causes a fault in each phase, in one direction.
    async fn fail_in_each_phase<H: Host<R = R>>(
        &mut self,
        fault: fn(usize) -> Fault,
        (places, authentication): Places,
        is_expected: fn(&Error) -> bool,
    ) {
        let mut phases = BTreeSet::new();
        for place in places {
            let (phase, error) = self.exchange_with_fault::<H>(fault(place)).await;
            assert!(is_expected(&error), "{:?}: {error:?}", fault(place));
            phases.insert(phase);
        }
        for place in (authentication..authentication + 1_000).step_by(90) {
            let (phase, error) = self.exchange_with_fault::<H>(fault(place)).await;
            assert!(is_expected(&error), "{:?}: {error:?}", fault(place));
            phases.insert(phase);
            if phase >= Phase::Authentication {
                break;
            }
        }
        assert_eq!(phases.len(), 3, "{:?}: {phases:?}", fault(authentication));
    }
}

/// A connection is reset during TLS, `hello` or authentication, or within a request or a reply. The
/// operation fails with the error, and the next operation gets another connection.
pub async fn a_reset_in_any_phase_is_reported<H: Host>() {
    // On a busy machine, a step can take a second. Only a defect reaches this limit.
    let mut secured = Secured::new::<H>(30_000).await;
    let is_broken = |error: &Error| error.is_network() && !error.is_timeout();
    for (fault, places) in [
        (Fault::ResetUp as fn(usize) -> Fault, UP),
        (Fault::ResetDown, DOWN),
    ] {
        secured
            .fail_in_each_phase::<H>(fault, places, is_broken)
            .await;
    }
    within::<H, _>(H::SLACK, "shutdown", secured.client.shutdown()).await;
}

/// A connection stalls during TLS, `hello` or authentication, or within a request or a reply. Until
/// the connection is established, `connectTimeoutMS` ends the wait, and after that
/// `socketTimeoutMS`.
pub async fn a_stall_in_any_phase_ends_at_its_timeout<H: Host>() {
    let stall = async |fault: fn(usize) -> Fault, places: Places| {
        let mut secured = Secured::new::<H>(1500).await;
        secured
            .fail_in_each_phase::<H>(fault, places, Error::is_timeout)
            .await;
        within::<H, _>(H::SLACK, "shutdown", secured.client.shutdown()).await;
    };
    // Both directions wait at the same time.
    both(stall(Fault::StallUp, UP), stall(Fault::StallDown, DOWN)).await;
}

/// The peer disappears while an operation waits for its reply. The next check times out and
/// interrupts the operation. When the peer is back, operations succeed again.
pub async fn a_check_timeout_interrupts_an_operation_on_an_unreachable_server<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.n() {
        Some(1) => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        _ => answer(request),
    });
    let proxy = Proxy::to(server.place().expect("it has an address"));
    let options = "heartbeatFrequencyMS=500&connectTimeoutMS=2000&retryReads=false";
    let events = PoolEventCounts::default();
    let client = events.client::<H>(&format!("mongodb://{}/?{options}", proxy.address()));
    find(&client, 0).await.expect("a reply");
    let things = things(&client);
    let mut waits = Stepper::new(things.find_one(doc! { "n": 1 }));
    while server.seen("find").len() < 2 {
        assert!(waits.step().await.is_none());
        pause::<H>(Duration::from_millis(1)).await;
    }
    proxy.lose(true);
    let end = async {
        loop {
            waits.woken().await;
            if let Some(end) = waits.step().await {
                return end;
            }
        }
    };
    let error = within::<H, _>(H::WAIT_LIMIT, "the interruption", end).await;
    let error = error.expect_err("nobody answers");
    let is_reported = matches!(error.kind(), ErrorKind::Interrupted { .. });
    assert!(is_reported, "{error:?}");
    client.flush_events().await;
    assert_eq!(events.counts().clears, 1);
    let lost = things.find_one(doc! { "n": 2 }).timeout(H::SLACK / 5);
    lost.await.expect_err("there is nobody");
    proxy.lose(false);
    find(&client, 3).await.expect("it is back");
    gate.open();
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
    drop(proxy);
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// The server's backlog is full: new connections fail after `connectTimeoutMS`, while existing ones
/// work. Connecting succeeds again once the server accepts connections.
pub async fn a_full_backlog_fails_new_connections_at_the_connect_timeout<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.n() {
        Some(1) => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        _ => answer(request),
    });
    let proxy = Proxy::narrow(server.place().expect("it has an address"));
    let options = "heartbeatFrequencyMS=60000&connectTimeoutMS=2000&retryReads=false";
    let events = PoolEventCounts::default();
    let client = events.client::<H>(&format!("mongodb://{}/?{options}", proxy.address()));
    find(&client, 0).await.expect("a reply");
    proxy.shut(true);
    // Fills the backlog. The proxy can still accept one connection, which makes room for another.
    let (mut waiting, mut refused) = (Vec::new(), 0);
    while refused < 2 {
        match TcpStream::connect_timeout(&proxy.address(), Duration::from_millis(300)) {
            Ok(stream) => waiting.push(stream),
            Err(_) => refused += 1,
        }
        assert!(waiting.len() < 20, "there is no end of the backlog");
    }
    let things = things(&client);
    let mut has_one = Stepper::new(things.find_one(doc! { "n": 1 }));
    assert!(has_one.step().await.is_none());
    let error = within::<H, _>(H::WAIT_LIMIT, "the limit", find(&client, 2)).await;
    let error = error.expect_err("nobody accepts");
    let is_connect = matches!(
        error.kind(),
        ErrorKind::Timeout {
            wait: Wait::Connect,
            ..
        }
    );
    assert!(is_connect, "{error:?}");
    assert!(error.has_label(&Label::SystemOverloadedError), "{error:?}");
    gate.open();
    let end = async {
        loop {
            if let Some(end) = has_one.step().await {
                return end;
            }
            has_one.woken().await;
        }
    };
    let found = within::<H, _>(H::WAIT_LIMIT, "the reply", end).await;
    assert_eq!(found, Ok(Some(doc! { "n": 1 })));
    client.flush_events().await;
    assert_eq!(events.counts().clears, 0);
    proxy.shut(false);
    drop(waiting);
    // The system repeats its connection requests at its own intervals, so this can take several
    // finds.
    let again = async {
        while let Err(error) = find(&client, 3).await {
            assert!(error.is_timeout(), "{error:?}");
        }
    };
    within::<H, _>(H::WAIT_LIMIT, "the next connection", again).await;
    find(&client, 4).await.expect("a reply");
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
    drop(proxy);
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}
