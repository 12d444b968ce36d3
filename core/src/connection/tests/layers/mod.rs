//! Tests of connections with layers in different orders: one that changes bytes, one of a proxy,
//! and TLS.

mod faults;
mod kinds;

pub(crate) use kinds::{MAX_ANSWER_BYTES, ProxyClient, ProxyPlan, Xor, XorPlan};

use super::*;
use crate::{
    connection::{Arrival, Awaited, LateReply, Layer, LayerPlan, LayerProgress, Transport},
    error::{TlsFault, Wait},
    time::WallTime,
    tls::{
        RevocationStatus,
        tests::{Authority, NOW},
    },
    wire::MessageWriter,
};
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use kinds::{ProxyServer, ServerTls};
use rustls::version::{TLS12, TLS13};

const HOST: &str = "db.example.net";

/// A kind of layer in these tests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Xor,
    Proxy,
    Tls,
}

use Kind::{Proxy, Tls, Xor as Changed};

/// Stacks of layers, the lowest layer first.
const STACKS: [&[Kind]; 10] = [
    &[],
    &[Changed],
    &[Proxy],
    &[Tls],
    &[Proxy, Tls],
    &[Changed, Tls],
    &[Tls, Changed],
    &[Tls, Proxy],
    &[Changed, Proxy, Tls],
    &[Changed, Proxy, Tls, Changed],
];

/// The connection of a client, and its server with the same layers.
struct Pair {
    connection: Connection,
    server: Transport,
    /// All bytes that the client sent, as the socket carries them.
    sent: Vec<u8>,
    /// The largest number of bytes that either side receives at once.
    piece: usize,
}

impl Pair {
    fn new(kinds: &[Kind], purpose: ConnectionPurpose, piece: usize) -> Self {
        Self::with(kinds, purpose, piece, b"OK\n", NOW)
    }

    /// Returns a pair whose proxy gives this answer, and whose client has this time of day.
    fn with(
        kinds: &[Kind],
        purpose: ConnectionPurpose,
        piece: usize,
        answer: &'static [u8],
        time: WallTime,
    ) -> Self {
        let authority = Authority::new();
        let mut layers = Layers::default();
        let mut server: Vec<Box<dyn Layer>> = Vec::new();
        for kind in kinds {
            match kind {
                Changed => {
                    layers.push(XorPlan);
                    server.push(Box::new(Xor::default()));
                }
                Proxy => {
                    layers.push(ProxyPlan(Address::tcp("proxy", 1080)));
                    server.push(Box::new(ProxyServer::new(answer)));
                }
                Tls => {
                    layers.push(TlsContext::new(&authority.options()).expect("a context"));
                    server.push(Box::new(ServerTls(authority.server(&TLS13, false))));
                }
            }
        }
        layers.set_wall_time(time);
        let options = HandshakeOptions {
            layers,
            connect_timeout: Some(Duration::from_secs(10)),
            ..options()
        };
        let address = Address::tcp(HOST, 27017);
        let mut connection = Connection::new(Instant::ZERO, address, purpose, Arc::new(options));
        connection.handle_connected(Instant::ZERO, &mut auth());
        Self {
            connection,
            server: Transport::new(server),
            sent: Vec::new(),
            piece,
        }
    }

    /// Moves bytes in both directions until there are none left.
    fn run(&mut self) {
        let mut auth = auth();
        loop {
            let mut bytes = Vec::new();
            let moved = self.connection.poll_transmit(&mut bytes);
            self.sent.extend_from_slice(&bytes);
            for piece in bytes.chunks(self.piece) {
                self.server.receive(piece).expect("good bytes");
            }
            let bytes = take_output(&mut self.server);
            for piece in bytes.chunks(self.piece) {
                let connection = &mut self.connection;
                connection.handle_received(Instant::ZERO, piece, &mut auth);
            }
            if !moved && bytes.is_empty() {
                return;
            }
        }
    }

    /// Returns the id of the request that the server has received.
    fn request(&mut self) -> i32 {
        next_request(&mut self.server).expect("a request")
    }

    fn reply(&mut self, request: i32, body: &RawDocument) {
        self.server
            .send(|buffer| write_reply(buffer, request, body));
        self.run();
    }
}

fn write_reply(buffer: &mut Vec<u8>, request: i32, body: &RawDocument) {
    let message = MessageWriter::begin(buffer, 9, request);
    message.body(body).end();
}

fn next_request(server: &mut Transport) -> Option<i32> {
    match server.next(&mut Awaited::Reply(0)).expect("a message") {
        Arrival::Whole(message) => {
            let (id, length) = (message.request_id, message.place.length);
            server.consume(length);
            Some(id)
        }
        Arrival::Pending | Arrival::Dropped | Arrival::Unpacking => None,
    }
}

fn take_output(transport: &mut Transport) -> Vec<u8> {
    let bytes = transport.output().to_vec();
    transport.sent(bytes.len());
    bytes
}

fn hello() -> RawDocumentBuf {
    rawdoc! { "ok": 1, "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 21 }
}

/// Returns the transports of both sides after the handshake.
fn established(kinds: &[Kind], piece: usize) -> (Transport, Transport) {
    let mut pair = Pair::new(kinds, ConnectionPurpose::Operations, piece);
    pair.run();
    let request = pair.request();
    pair.reply(request, &hello());
    let answered = pair.connection.poll_output();
    assert!(
        matches!(answered, Some(Output::HelloAnswered { .. })),
        "{answered:?}"
    );
    let ready = pair.connection.poll_output();
    assert!(matches!(ready, Some(Output::Established)), "{ready:?}");
    let (transport, _) = pair.connection.into_parts().expect("established");
    (transport, pair.server)
}

/// Sends a request, and returns the bytes of the server's reply as the socket carries them.
fn exchange(client: &mut Transport, server: &mut Transport, body: &RawDocument) -> Vec<u8> {
    client.send(|buffer| {
        let message = MessageWriter::begin(buffer, 5, 0);
        message.body(&rawdoc! { "ping": 1 }).end();
    });
    let bytes = take_output(client);
    server.receive(&bytes).expect("good bytes");
    assert_eq!(next_request(server), Some(5));
    server.send(|buffer| write_reply(buffer, 5, body));
    take_output(server)
}

fn failure(connection: &mut Connection) -> (Error, Phase) {
    match connection.poll_output() {
        Some(Output::Failed { error, phase }) => (error, phase),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_is_established_and_used_through_any_stack() {
    for kinds in STACKS {
        for piece in [1, 7, usize::MAX] {
            let (mut client, mut server) = established(kinds, piece);
            let text = "x".repeat(piece.clamp(500, 40_000));
            let body = rawdoc! { "ok": 1, "text": text };
            let bytes = exchange(&mut client, &mut server, &body);
            for piece in bytes.chunks(piece) {
                client.receive(piece).expect("good bytes");
            }
            match client.next(&mut Awaited::Reply(5)).expect("the reply") {
                Arrival::Whole(reply) => assert_eq!(reply.body, &*body, "{kinds:?}"),
                other => panic!("{kinds:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_monitor_check_succeeds_through_any_stack() {
    for kinds in STACKS {
        let mut pair = Pair::new(kinds, ConnectionPurpose::Monitor, usize::MAX);
        pair.run();
        let request = pair.request();
        pair.reply(request, &hello());
        let answered = pair.connection.poll_output();
        assert!(
            matches!(answered, Some(Output::HelloAnswered { .. })),
            "{answered:?}"
        );
        pair.connection.check(Instant::ZERO, false, None);
        pair.run();
        let request = pair.request();
        pair.reply(request, &hello());
        let checked = pair.connection.poll_output();
        assert!(
            matches!(checked, Some(Output::Checked { .. })),
            "{checked:?}"
        );
    }
}

#[test]
fn a_late_reply_is_dropped_as_it_arrives_through_any_stack() {
    for kinds in STACKS {
        let (mut client, mut server) = established(kinds, usize::MAX);
        let body = rawdoc! { "ok": 1, "text": "x".repeat(1 << 20) };
        let bytes = exchange(&mut client, &mut server, &body);
        let mut late = LateReply::new(5, true);
        let mut is_gone = false;
        for piece in bytes.chunks(16_000) {
            assert!(!is_gone, "{kinds:?}");
            client.receive(piece).expect("good bytes");
            let read = |_: &RawDocument| panic!("a large reply is not read");
            is_gone = late.take(&mut client, read).expect("the reply");
            assert!(client.buffered_bytes() < 20, "{kinds:?} holds the reply");
        }
        assert!(is_gone && !client.has_input(), "{kinds:?}");
    }
}

#[test]
fn bytes_that_a_layer_held_back_pass_up_through_any_layer_below() {
    // TLS holds back the first reply until the status of the certificate is known.
    for is_changed in [false, true] {
        let authority = Authority::new();
        let context = TlsContext::new(&authority.options()).expect("a context");
        let context = context.with_status_queries();
        context.set_wall_time(NOW);
        let address = Address::tcp(HOST, 27017);
        let tls = context.layer(&address).expect("a name").expect("a layer");
        let mut client: Vec<Box<dyn Layer>> = vec![tls];
        let mut server: Vec<Box<dyn Layer>> =
            vec![Box::new(ServerTls(authority.server(&TLS13, false)))];
        if is_changed {
            client.insert(0, Box::new(Xor::default()));
            server.insert(0, Box::new(Xor::default()));
        }
        let (mut client, mut server) = (Transport::new(client), Transport::new(server));
        loop {
            client
                .receive(&take_output(&mut server))
                .expect("good bytes");
            let bytes = take_output(&mut client);
            if bytes.is_empty() {
                break;
            }
            server.receive(&bytes).expect("good bytes");
        }
        let query = client.poll_status_query().expect("a query");
        server.send(|buffer| write_reply(buffer, 5, &rawdoc! { "ok": 1 }));
        client
            .receive(&take_output(&mut server))
            .expect("good bytes");
        let mut awaited = Awaited::Reply(5);
        let held = client.next(&mut awaited).expect("nothing wrong");
        assert!(matches!(held, Arrival::Pending), "{held:?}");
        let status = RevocationStatus::Unknown;
        client
            .handle_status(query.id(), status)
            .expect("it goes on");
        let reply = client.next(&mut awaited).expect("nothing wrong");
        assert!(matches!(reply, Arrival::Whole(_)), "{reply:?}");
    }
}

#[test]
fn layers_above_a_proxy_send_no_bytes_before_it_has_answered() {
    for (kinds, above) in [(&[Proxy][..], "hello"), (&[Proxy, Tls], "TLS")] {
        let mut pair = Pair::new(kinds, ConnectionPurpose::Operations, usize::MAX);
        assert_eq!(pair.connection.dial_address().host(), "proxy");
        assert_eq!(pair.connection.address().host(), HOST);
        let mut bytes = Vec::new();
        assert!(pair.connection.poll_transmit(&mut bytes));
        assert_eq!(bytes, b"TO db.example.net:27017\n", "without {above}");
        assert!(!pair.connection.poll_transmit(&mut bytes));
        pair.server.receive(&bytes).expect("a greeting");
        pair.run();
        assert!(!pair.sent.is_empty(), "{above} follows the answer");
    }
}

#[test]
fn a_proxy_layer_is_removed_from_the_stack_after_its_handshake() {
    let (mut client, mut server) = established(&[Proxy], usize::MAX);
    assert!(format!("{client:?}").contains("layers: []"), "{client:?}");
    let bytes = exchange(&mut client, &mut server, &rawdoc! { "ok": 1 });
    let room = client.input().expect("room");
    room[..bytes.len()].copy_from_slice(&bytes);
    let read_into = room.as_ptr_range();
    client.received(bytes.len()).expect("good bytes");
    let Ok(Arrival::Whole(reply)) = client.next(&mut Awaited::Reply(5)) else {
        panic!("the reply is whole");
    };
    assert!(read_into.contains(&reply.body.as_bytes().as_ptr()));
    let (client, _) = established(&[Changed, Proxy, Tls], usize::MAX);
    let kept = r#"layers: ["XOR", "TLS"]"#;
    assert!(format!("{client:?}").contains(kept), "{client:?}");
}

#[test]
fn a_layer_can_be_driven_without_a_transport() {
    let mut proxy = ProxyClient::new(&Address::tcp(HOST, 27017));
    let mut sent = Vec::new();
    assert!(proxy.poll_transmit(&mut sent));
    assert_eq!(sent, b"TO db.example.net:27017\n");
    assert!(!proxy.poll_transmit(&mut sent));
    let mut above = [0; 8];
    for byte in b"OK" {
        proxy.handle_received(&[*byte]).expect("an answer");
        assert_eq!(proxy.progress(), LayerProgress::Opening);
        assert_eq!(proxy.read(&mut above), Ok(0));
    }
    proxy.handle_received(b"\nmore").expect("an answer");
    assert_eq!(proxy.progress(), LayerProgress::PassThrough);
    assert_eq!(proxy.read(&mut above), Ok(4));
    assert_eq!(&above[..4], b"more");

    let mut xor = Xor::default();
    xor.write(b"abc");
    let mut changed = Vec::new();
    assert!(xor.poll_transmit(&mut changed));
    xor.handle_received(&changed).expect("bytes");
    assert_eq!(xor.read(&mut above), Ok(3));
    assert_eq!(&above[..3], b"abc");
}

#[test]
fn a_reply_before_close_notify_is_received_through_any_tls_stack() {
    for (version, below, above) in [
        (&TLS12, false, false),
        (&TLS13, true, false),
        (&TLS13, false, true),
    ] {
        let authority = Authority::new();
        let context = TlsContext::new(&authority.options()).expect("a context");
        context.set_wall_time(NOW);
        let session = crate::tls::TlsSession::new(&context, HOST).expect("a name");
        let mut server = ServerTls(authority.server(version, false));
        let changed = |is_there: bool| is_there.then(|| Box::new(Xor::default()) as Box<dyn Layer>);
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        layers.extend(changed(below));
        layers.push(Box::new(session));
        layers.extend(changed(above));
        let mut client = Transport::new(layers);
        let mut outer = Xor::default();
        let mut inner = Xor::default();
        while client.opening().is_some() {
            let bytes = passed(&mut outer, below, take_output(&mut client));
            server.handle_received(&bytes).expect("good bytes");
            let mut back = Vec::new();
            let _is_any = server.poll_transmit(&mut back);
            let back = passed(&mut outer, below, back);
            client.receive(&back).expect("good bytes");
        }
        let bytes = passed(&mut outer, below, take_output(&mut client));
        server
            .handle_received(&bytes)
            .expect("the end of the handshake");
        let mut reply = Vec::new();
        write_reply(&mut reply, 5, &hello());
        server.write(&passed(&mut inner, above, reply));
        server.0.send_close_notify();
        let mut back = Vec::new();
        assert!(server.poll_transmit(&mut back));
        let back = passed(&mut outer, below, back);
        client.receive(&back).expect("good bytes");
        let arrival = client
            .next(&mut Awaited::Reply(5))
            .expect("the reply counts");
        let Arrival::Whole(reply) = arrival else {
            panic!("{arrival:?}");
        };
        let length = reply.place.length;
        client.consume(length);
        assert!(client.has_input() && client.ended().is_err());
        let error = client.next(&mut Awaited::Reply(6)).expect_err("the end");
        assert!(error.is_network(), "{error}");
    }
}

/// Returns `bytes` as `layer` changes them, or unchanged if the layer is absent.
fn passed(layer: &mut Xor, is_there: bool, bytes: Vec<u8>) -> Vec<u8> {
    if !is_there {
        return bytes;
    }
    layer.write(&bytes);
    let mut changed = Vec::new();
    let _is_any = layer.poll_transmit(&mut changed);
    changed
}
