//! Tests of how each connection of a client begins: its first message, and what follows from the
//! reply.

use super::*;
use bson::doc;
use std::{collections::BTreeMap, time::Duration};

/// A function that returns the servers' reply to a message; `None` means no reply.
type Answers<'a> = &'a dyn Fn(&Document) -> Option<RawDocumentBuf>;

/// Servers whose replies a test defines, and the messages that they received.
struct Servers<'a> {
    world: &'a mut World,
    answers: Answers<'a>,
    /// The messages on each socket, in their order.
    sent: BTreeMap<SocketId, Vec<Document>>,
}

impl Peer for Servers<'_> {
    fn parts(&mut self) -> Parts<'_> {
        self.world.parts()
    }

    fn dialled(&mut self, socket: SocketId, address: Address) {
        self.world.dialled(socket, address);
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        // `decoded` panics unless the message has the form of an OP_MSG, which every hello uses
        // (HELLO-2).
        let message = World::decoded(&bytes);
        if let Some(answer) = (self.answers)(&message) {
            self.respond(socket, &bytes, &answer);
        }
        self.sent.entry(socket).or_default().push(message);
    }

    fn closed(&mut self, socket: SocketId) {
        self.world.closed(socket);
    }
}

/// Carries out actions, and returns the messages of each socket in their order. Each message has to
/// have the form of an OP_MSG.
fn play(world: &mut World, answers: Answers<'_>) -> BTreeMap<SocketId, Vec<Document>> {
    let sent = BTreeMap::new();
    let mut peer = Servers {
        world,
        answers,
        sent,
    };
    // Background work of pools is due at once.
    for _ in 0..3 {
        harness::drain(&mut peer);
        harness::time_out(&mut peer);
    }
    harness::drain(&mut peer);
    peer.sent
}

/// Returns a world whose client is open and has sent nothing yet.
fn opened(text: &str) -> World {
    let config = || {
        let options = uri::parse(text).expect("a connection string").options;
        ClientConfig::new(options, Seed::new([5; 32])).expect("options")
    };
    let mut world = World::with_config(config(), rawdoc! { "ok": 0 });
    // The first client is replaced, because its messages do not count.
    world.begin_anew(config());
    world
}

/// Returns the hello reply of a primary that supports streaming, with these hosts.
fn streaming_primary(hosts: &[&str]) -> RawDocumentBuf {
    let version = doc! { "processId": ObjectId::from_bytes([1; 12]), "counter": 1_i64 };
    let reply = doc! {
        "ok": 1, "helloOk": true, "isWritablePrimary": true, "setName": "rs", "hosts": hosts,
        "maxWireVersion": 21, "topologyVersion": version, "logicalSessionTimeoutMinutes": 30,
    };
    RawDocumentBuf::try_from(&reply).expect("BSON")
}

fn is_awaited(message: &Document) -> bool {
    message.contains_key("maxAwaitTimeMS")
}

fn is_hello(message: &Document) -> bool {
    message.contains_key("hello") || message.contains_key("isMaster")
}

/// Asserts that the first message of a socket is a handshake with this command name, and that only
/// this message has metadata.
fn assert_handshake(messages: &[Document], name: &str) {
    let first = &messages[0];
    assert_eq!(
        first.keys().next().map(String::as_str),
        Some(name),
        "{first}"
    );
    assert_eq!(first.get_str("$db").ok(), Some("admin"), "{first}");
    let client = first.get_document("client").expect("metadata");
    let application = client.get_document("application").expect("a name");
    assert_eq!(application.get_str("name").ok(), Some("shop"));
    for later in &messages[1..] {
        assert!(!later.contains_key("client"), "{later}");
    }
}

#[test]
fn every_connection_begins_with_a_handshake_with_the_same_client_metadata() {
    // The first message on each socket is a handshake (HELLO-7) by OP_MSG (HELLO-2). The handshake
    // has the configured application name (HELLO-14), which is the same on all connections
    // (HELLO-15, HELLO-51). This holds for monitors, round trip time measurements, pools, new
    // members and reconnects.
    let mut world = opened("mongodb://a/?replicaSet=rs&appname=shop&minPoolSize=2");
    let one = |message: &Document| {
        (is_hello(message) && !is_awaited(message)).then(|| streaming_primary(&["a:27017"]))
    };
    let mut sent = play(&mut world, &one);
    assert_eq!(
        sent.len(),
        4,
        "a monitor, a measurement, and two of the pool"
    );
    // The connection of the monitor fails, and the next hello reply names a new member.
    let (&monitor, _) = sent
        .iter()
        .find(|(_, messages)| messages.iter().any(is_awaited))
        .expect("the monitor streams");
    world.client.handle_failed(
        world.now,
        monitor,
        Error::network(NetworkFault::Reset, "reset"),
    );
    let two = |message: &Document| {
        let hosts = ["a:27017", "b:27017"];
        (is_hello(message) && !is_awaited(message)).then(|| streaming_primary(&hosts))
    };
    for (socket, messages) in play(&mut world, &two) {
        sent.entry(socket).or_default().extend(messages);
    }
    assert!(sent.len() >= 8, "{} sockets", sent.len());
    let to_b = world.dialled.iter().any(|(_, to)| to.host() == "b");
    assert!(to_b, "the new member is dialled");
    assert_eq!(sent.len(), world.dialled.len(), "each said something");
    let metadata = |messages: &[Document]| messages[0].get("client").cloned();
    let first = sent.values().next().map(|messages| metadata(messages));
    for messages in sent.values() {
        assert_handshake(messages, "isMaster");
        assert_eq!(Some(metadata(messages)), first);
    }

    // Behind a load balancer, only the pool has sockets.
    let mut world = opened("mongodb://a/?loadBalanced=true&appname=shop&minPoolSize=1");
    let sent = play(&mut world, &|_| None);
    assert_eq!(sent.len(), 1);
    sent.values()
        .for_each(|messages| assert_handshake(messages, "hello"));
}

#[test]
fn a_failed_handshake_closes_the_connection() {
    // A connection is closed if its handshake fails (HELLO-8).
    let refused = rawdoc! { "ok": 0, "code": 91, "errmsg": "shutting down" };
    let mut world = opened("mongodb://a/?directConnection=true&serverMonitoringMode=poll");
    let refusal = refused.clone();
    let sent = play(&mut world, &|_| Some(refusal.clone()));
    assert_eq!(sent.len(), 1, "one monitor");
    assert!(sent.keys().all(|socket| world.closed.contains(socket)));
    assert_eq!(world.client.counts().sockets, 0);

    // The hello of the monitor succeeds, and that of the pool's connection fails.
    world.wait_silently(Duration::from_secs(10));
    play(&mut world, &|_| {
        Some(rawdoc! { "ok": 1, "maxWireVersion": 21 })
    });
    let (before, start) = (world.dialled.len(), world.client.start(world.now, ping()));
    let sent = play(&mut world, &|_| Some(refused.clone()));
    let (socket, _) = world.dialled[before];
    assert!(sent.contains_key(&socket) && world.closed.contains(&socket));
    let Progress::Waiting(id) = start else {
        panic!("{start:?}");
    };
    let resumed = world.client.resume(world.now, id);
    assert!(matches!(resumed, Progress::Failed(_)), "{resumed:?}");
}

#[test]
fn a_credential_without_mechanism_speculates_with_sha_256_and_requests_mechanisms() {
    // A credential without a mechanism is tried with SCRAM-SHA-256, and `saslSupportedMechs` is
    // sent (HELLO-42). Monitors do not authenticate (AUTH-13).
    let mut world = opened("mongodb://user:pencil@a/?directConnection=true&minPoolSize=1");
    let sent = play(&mut world, &|message| {
        let is_monitors = !message.contains_key("speculativeAuthenticate");
        is_monitors.then(|| rawdoc! { "ok": 1, "maxWireVersion": 21 })
    });
    let hellos: Vec<&Document> = sent.values().map(|messages| &messages[0]).collect();
    let [monitors, pools] = hellos[..] else {
        panic!("{hellos:?}");
    };
    for key in ["speculativeAuthenticate", "saslSupportedMechs"] {
        assert!(!monitors.contains_key(key), "{monitors}");
    }
    assert_eq!(pools.get_str("saslSupportedMechs").ok(), Some("admin.user"));
    let speculative = pools.get_document("speculativeAuthenticate");
    let speculative = speculative.expect("a first command");
    assert_eq!(speculative.get_str("mechanism").ok(), Some("SCRAM-SHA-256"));
    assert_eq!(speculative.get_i32("saslStart").ok(), Some(1));
}

impl World {
    /// Advances the time without carrying out the actions that follow.
    fn wait_silently(&mut self, time: Duration) {
        self.now = self.now + time;
        self.time_out();
    }
}
