//! Tests of connections with TLS: how alerts and other messages of TLS affect a client.

mod idle_check;
mod peer;
mod pinned;
mod recorded;
mod revocation;
mod stack;

use super::*;
use crate::{
    error::{ErrorKind, Label},
    event::PoolEvent,
    tls::tests::{Authority, NOW, revocation::Issued},
};
use peer::Peer;
use rustls::{SupportedProtocolVersion, version::TLS12, version::TLS13};
use std::{collections::BTreeMap, io::Write, time::Duration};

const URI: &str = "mongodb://db.example.net/?replicaSet=rs&tls=true";

/// A client, and a TLS server for each of its sockets.
struct Scene {
    client: Client,
    contract: Contract,
    now: Instant,
    authority: Authority,
    version: &'static SupportedProtocolVersion,
    peers: BTreeMap<SocketId, Peer>,
    closed: Vec<SocketId>,
    /// The number of pool cleared events.
    clears: usize,
    /// The number of changes of server descriptions.
    changes: usize,
    hello: RawDocumentBuf,
    /// The certificate of the servers; `None` for a new one for each socket.
    issued: Option<Issued>,
    /// The response that the server staples for the first connection.
    staple: Option<Vec<u8>>,
    /// True if the output of the servers is kept until it is delivered.
    is_slow: bool,
    /// The questions without an answer.
    asked: Vec<(QuestionId, Question)>,
    withdrawn: Vec<QuestionId>,
}

impl harness::Peer for Scene {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: self.now,
        }
    }

    fn dialled(&mut self, socket: SocketId, _: Address) {
        let tls = match &self.issued {
            Some(issued) => issued.server(self.staple.take()),
            None => self.authority.server(self.version, false),
        };
        let peer = Peer {
            tls,
            requests: FrameDecoder::new(),
            failure: None,
            is_closed: false,
        };
        self.peers.insert(socket, peer);
        self.connect(socket);
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let peer = self.peers.get_mut(&socket).expect("a socket");
        peer.receive(&bytes);
        while let Some(request) = peer.request() {
            peer.reply(request, &self.hello);
        }
        if !self.is_slow {
            self.deliver(socket);
        }
    }

    fn closed(&mut self, socket: SocketId) {
        self.closed.push(socket);
    }

    fn asked(&mut self, id: QuestionId, question: Question) {
        self.asked.push((id, question));
    }

    fn withdrawn(&mut self, id: QuestionId) {
        self.withdrawn.push(id);
    }
}

impl Scene {
    fn new(uri: &str, version: &'static SupportedProtocolVersion) -> Self {
        let authority = Authority::new();
        Self::with_trust(uri, version, authority.options(), authority, None, None)
    }

    fn with_trust(
        uri: &str,
        version: &'static SupportedProtocolVersion,
        trust: crate::options::TlsOptions,
        authority: Authority,
        issued: Option<Issued>,
        staple: Option<Vec<u8>>,
    ) -> Self {
        let is_balanced = uri.contains("loadBalanced");
        let mut options = uri::parse(uri).expect("a connection string").options;
        options.tls = Some(trust.into());
        let config = ClientConfig::new(options, Seed::new([5; 32]))
            .expect("options")
            .with_subscriptions(Subscriptions::all());
        let whole = RecordingOptions::whole(1 << 22);
        let config = config.with_recording(whole).expect("it can be recorded");
        let mut client = Client::new(config);
        client.set_wall_time(Instant::ZERO, NOW);
        client.open(Instant::ZERO);
        let mut scene = Self {
            client,
            contract: Contract::default(),
            now: Instant::ZERO,
            authority,
            version,
            peers: BTreeMap::new(),
            closed: Vec::new(),
            clears: 0,
            changes: 0,
            hello: hello(is_balanced),
            issued,
            staple,
            is_slow: false,
            asked: Vec::new(),
            withdrawn: Vec::new(),
        };
        scene.run();
        scene
    }

    /// Carries out actions until there are none, and counts events. Sockets connect, and the
    /// servers answer each hello.
    fn run(&mut self) {
        harness::drain(self);
        while let Some(event) = self.client.poll_event() {
            match event.kind {
                EventKind::Pool(PoolEvent::Cleared { .. }) => self.clears += 1,
                EventKind::Sdam(crate::event::SdamEvent::ServerDescriptionChanged { .. }) => {
                    self.changes += 1
                }
                _ => {}
            }
        }
    }

    /// Gives the server's output on this socket to the client.
    fn deliver(&mut self, socket: SocketId) {
        let bytes = self.peers.get_mut(&socket).expect("a socket").output();
        if !bytes.is_empty() {
            self.client.handle_received(self.now, socket, &bytes);
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        harness::time_out(self);
        self.run();
    }

    /// Returns the exchange of an operation. The exchange has not begun.
    fn start(&mut self, command: Command) -> Exchange {
        let start = self.client.start(self.now, command);
        self.exchange_of(start)
    }

    fn exchange_of(&mut self, start: Progress) -> Exchange {
        self.run();
        match start {
            Progress::Exchange(exchange) => exchange,
            Progress::Failed(error) => panic!("it failed: {error}"),
            Progress::Asking { .. } | Progress::Answered(_) => panic!("nothing is asked here"),
            Progress::Waiting(id) => match self.client.resume(self.now, id) {
                Progress::Exchange(exchange) => exchange,
                other => panic!("no connection came: {other:?}"),
            },
        }
    }

    fn peer(&mut self, exchange: &Exchange) -> &mut Peer {
        self.peers.get_mut(&exchange.socket()).expect("a socket")
    }

    /// Sends the request and returns its id.
    fn send(&mut self, exchange: &mut Exchange) -> i32 {
        exchange.begin(self.now).expect("it fits");
        let bytes = exchange.output().to_vec();
        exchange.sent(bytes.len());
        let peer = self.peer(exchange);
        peer.receive(&bytes);
        peer.request().expect("a request")
    }

    /// Runs a command that the server answers.
    fn perform(&mut self, command: Command) {
        let mut exchange = self.start(command);
        let request = self.send(&mut exchange);
        let peer = self.peer(&exchange);
        peer.reply(request, &rawdoc! { "ok": 1 });
        let bytes = peer.output();
        assert!(feed(&mut exchange, &bytes).expect("a reply"));
        let after = self.check_in(exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))));
    }

    fn check_in(&mut self, exchange: Exchange, outcome: Outcome) -> AfterExchange {
        let after = self.client.check_in(self.now, exchange, outcome);
        self.run();
        after
    }

    /// Returns a client, and an exchange on a connection that was idle.
    fn idle(uri: &str, version: &'static SupportedProtocolVersion) -> (Self, Exchange) {
        let mut scene = Self::new(uri, version);
        scene.perform(ping());
        scene.wait(IDLE_CHECK_AFTER);
        let exchange = scene.start(insert());
        assert!(exchange.wants_idle_check());
        (scene.clear_counts(), exchange)
    }

    /// Asserts that the recording of the client is replayed, without TLS, to the same actions.
    fn assert_replayed(&self) {
        let file = self.client.recording().expect("the client records itself");
        recordings::assert_same(&file);
    }

    fn clear_counts(mut self) -> Self {
        self.clears = 0;
        self.changes = 0;
        self
    }
}

fn hello(is_balanced: bool) -> RawDocumentBuf {
    if is_balanced {
        let mut hello = mongos();
        hello.append(bson::cstr!("serviceId"), ObjectId::from_bytes([1; 12]));
        return hello;
    }
    rawdoc! {
        "ok": 1, "isWritablePrimary": true, "setName": "rs", "setVersion": 1,
        "hosts": ["db.example.net:27017"], "me": "db.example.net:27017", "minWireVersion": 0,
        "maxWireVersion": 21, "logicalSessionTimeoutMinutes": 30,
    }
}

/// Gives ciphertext to an exchange. Returns true if the reply is complete.
fn feed(exchange: &mut Exchange, mut bytes: &[u8]) -> Result<bool, Error> {
    while !bytes.is_empty() {
        let room = exchange.input()?;
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        if exchange.received(count)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn a_close_notify_after_the_reply_closes_only_its_connection() {
    let mut scene = Scene::new(URI, &TLS13);
    let mut exchange = scene.start(ping());
    scene = scene.clear_counts();
    let socket = exchange.socket();
    let request = scene.send(&mut exchange);
    let peer = scene.peer(&exchange);
    peer.reply(request, &rawdoc! { "ok": 1 });
    peer.tls.send_close_notify();
    let bytes = peer.output();
    assert!(feed(&mut exchange, &bytes).expect("the reply is whole"));
    let after = scene.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
    assert_eq!(scene.closed, [socket]);
    assert_eq!((scene.clears, scene.changes), (0, 0));
    let mut exchange = scene.start(ping());
    assert_ne!(exchange.socket(), socket);
    scene.send(&mut exchange);
    scene.assert_replayed();
}

#[test]
fn a_close_notify_before_the_end_of_a_reply_is_a_network_error() {
    for is_reply_begun in [false, true] {
        let mut scene = Scene::new(URI, &TLS13);
        let mut exchange = scene.start(find());
        scene.send(&mut exchange);
        let peer = scene.peer(&exchange);
        if is_reply_begun {
            peer.tls.writer().write_all(&[40, 0, 0, 0]).expect("room");
        }
        peer.tls.send_close_notify();
        let bytes = peer.output();
        let error = feed(&mut exchange, &bytes).expect_err("cut off");
        assert!(error.is_network(), "{error}");
        let after = scene.check_in(exchange, Outcome::Failed(error));
        assert!(matches!(after, AfterExchange::Again(_)), "{after:?}");
        assert_eq!(scene.clears, 1);
        scene.assert_replayed();
    }
}

#[test]
fn a_fatal_alert_during_an_operation_is_a_network_error() {
    // The alert is a network error: the operation is retried (RR-2, RW-14), and the server becomes
    // `Unknown` (SDAM-100).
    for version in [&TLS12, &TLS13] {
        for (command, is_write) in [(find(), false), (insert(), true)] {
            let mut scene = Scene::new(URI, version);
            let mut exchange = scene.start(command);
            scene = scene.clear_counts();
            scene.send(&mut exchange);
            let peer = scene.peer(&exchange);
            peer.fail_with_alert();
            let bytes = peer.output();
            let error = feed(&mut exchange, &bytes).expect_err("an alert");
            assert!(
                matches!(error.kind(), ErrorKind::Tls { .. }) && error.is_network(),
                "{error:?}"
            );
            let after = scene.check_in(exchange, Outcome::Failed(error));
            let AfterExchange::Again(start) = after else {
                panic!("it may be retried: {after:?}");
            };
            assert_eq!((scene.clears, scene.changes > 0), (1, true));
            scene.wait(Duration::from_secs(10));
            let exchange = scene.exchange_of(start);
            assert_eq!(exchange.operation.retry.attempts, 2);
            let kept = exchange
                .operation
                .retry
                .kept_error
                .as_ref()
                .expect("the first error");
            assert_eq!(kept.has_label(&Label::RetryableWriteError), is_write);
            scene.assert_replayed();
        }
    }
}

#[test]
fn an_invalid_record_is_answered_with_an_alert() {
    let mut scene = Scene::new(URI, &TLS13);
    let mut exchange = scene.start(find());
    scene.send(&mut exchange);
    let peer = scene.peer(&exchange);
    peer.tls.writer().write_all(&[0; 40]).expect("room");
    let mut bytes = peer.output();
    *bytes.last_mut().expect("a record") ^= 1;
    let error = feed(&mut exchange, &bytes).expect_err("a changed record");
    assert!(error.is_network(), "{error:?}");
    let alert = exchange.output().to_vec();
    let peer = scene.peer(&exchange);
    peer.receive(&alert);
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac);
    assert_eq!(peer.failure, Some(alert));
}

#[test]
fn a_refused_certificate_is_answered_with_an_alert() {
    let stranger = crate::options::TlsOptions {
        ..Default::default()
    };
    let scene = Scene::with_trust(URI, &TLS13, stranger, Authority::new(), None, None);
    assert!(!scene.closed.is_empty());
    for (socket, peer) in &scene.peers {
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA);
        assert_eq!(peer.failure, Some(alert), "{socket:?}");
    }
    scene.assert_replayed();
}

#[test]
fn a_close_notify_closes_the_connection_of_a_monitor() {
    let mut scene = Scene::new(URI, &TLS13);
    let socket = *scene.peers.keys().next().expect("the monitor's");
    let peer = scene.peers.get_mut(&socket).expect("a socket");
    peer.tls.send_close_notify();
    scene.deliver(socket);
    scene.run();
    assert!(scene.closed.contains(&socket));
    scene.assert_replayed();
}

#[test]
fn a_complete_reply_before_an_alert_is_accepted() {
    let mut scene = Scene::new(URI, &TLS13);
    let mut exchange = scene.start(insert());
    scene = scene.clear_counts();
    let socket = exchange.socket();
    let request = scene.send(&mut exchange);
    let peer = scene.peer(&exchange);
    peer.reply(request, &rawdoc! { "ok": 1, "n": 1 });
    peer.fail_with_alert();
    let bytes = peer.output();
    assert!(feed(&mut exchange, &bytes).expect("the reply is whole"));
    let after = scene.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
    assert_eq!(scene.closed, [socket]);
    assert_eq!((scene.clears, scene.changes), (0, 0));
}

#[test]
fn a_close_notify_closes_a_draining_connection() {
    for replied in [false, true] {
        let mut scene = Scene::new(URI, &TLS13);
        let mut exchange = scene.start(find());
        scene = scene.clear_counts();
        let socket = exchange.socket();
        let request = scene.send(&mut exchange);
        scene.check_in(exchange, Outcome::Abandoned);
        assert!(scene.closed.is_empty(), "it drains");
        let peer = scene.peers.get_mut(&socket).expect("a socket");
        if replied {
            peer.reply(request, &rawdoc! { "ok": 1 });
        }
        peer.tls.send_close_notify();
        scene.deliver(socket);
        scene.run();
        assert_eq!(scene.closed, [socket], "{replied}");
        assert_eq!((scene.clears, scene.changes), (0, 0));
        scene.assert_replayed();
    }
}

#[test]
fn too_many_key_updates_are_refused_with_bounded_memory() {
    let mut scene = Scene::new(URI, &TLS13);
    let mut exchange = scene.start(find());
    scene.send(&mut exchange);
    let peer = scene.peer(&exchange);
    let mut asked = 0;
    let mut all = Vec::new();
    while asked < 100 {
        peer.tls.refresh_traffic_keys().expect("TLS 1.3");
        all.push(peer.output());
        asked += 1;
    }
    let refused = all
        .iter()
        .position(|bytes| feed(&mut exchange, bytes).is_err());
    // rustls permits 32 key updates without data in between.
    assert_eq!(refused, Some(32));
    // The client does not answer each key update, so the output stays small.
    assert!(exchange.output().len() < 100, "{}", exchange.output().len());
}

#[test]
fn an_invalid_record_on_a_draining_connection_is_answered_with_an_alert() {
    let mut scene = Scene::new(URI, &TLS13);
    let mut exchange = scene.start(find());
    let socket = exchange.socket();
    let request = scene.send(&mut exchange);
    scene.check_in(exchange, Outcome::Abandoned);
    let peer = scene.peers.get_mut(&socket).expect("a socket");
    peer.reply(request, &rawdoc! { "ok": 1 });
    let mut bytes = peer.output();
    *bytes.last_mut().expect("a record") ^= 1;
    scene.client.handle_received(scene.now, socket, &bytes);
    scene.run();
    assert_eq!(scene.closed, [socket]);
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac);
    assert_eq!(scene.peers[&socket].failure, Some(alert));
}
