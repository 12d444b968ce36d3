//! Tests of connections with all layers: compressed messages in TLS, through a SOCKS5 proxy, to a
//! load balancer.

use super::*;
use crate::{
    compression::{Compression, CompressionPlan},
    wire::OpCode,
};
use std::collections::VecDeque;

const URI: &str = "mongodb://ada:pencil@db.example.net/?loadBalanced=true&tls=true\
                   &authMechanism=PLAIN&proxyHost=proxy&compressors=zlib&maxAdaptiveRetries=0";

/// The replies of the proxy: to the greeting, and to the request.
const PROXY: [&[u8]; 2] = [&[5, 0], &[5, 0, 0, 1, 10, 0, 0, 1, 0, 80]];

/// The number of bytes that the proxy sends.
const PROXY_BYTES: usize = 12;

/// A fault of the bytes that a connection brings to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The connection is closed after this many bytes.
    End(usize),
    /// The connection is reset after this many bytes.
    Reset(usize),
    /// The byte at this offset is wrong.
    Change(usize),
}

/// The other side of a connection: the proxy, and the server behind it.
struct Far {
    proxy: VecDeque<&'static [u8]>,
    server: Peer,
    compression: Compression,
    /// The bytes that the client sent to the proxy.
    heard: Vec<u8>,
    /// The kinds of the messages that the server received.
    kinds: Vec<OpCode>,
    /// The number of bytes that were sent to the client.
    sent: usize,
}

impl Far {
    /// Receives bytes, and returns the reply.
    fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        if let Some(reply) = self.proxy.pop_front() {
            self.heard.extend_from_slice(bytes);
            return reply.to_vec();
        }
        self.server.receive(bytes);
        while let Some((header, _)) = self.server.requests.frame().expect("a message") {
            self.server.requests.consume(header.length);
            let body = match self.kinds.len() {
                0 => hello_reply(),
                1 => rawdoc! { "ok": 1, "conversationId": 1, "done": true, "payload": "" },
                _ => rawdoc! { "ok": 1, "text": "onion ".repeat(100) },
            };
            let plain = framed(header.request_id, &body);
            let mut reply = Vec::new();
            match header.op_code {
                OpCode::Compressed => self.compression.pack(&plain, 1 << 20, &mut reply),
                _ => reply = plain,
            }
            self.kinds.push(header.op_code);
            self.server.tls.writer().write_all(&reply).expect("room");
        }
        self.server.output()
    }
}

fn hello_reply() -> RawDocumentBuf {
    let mut reply = hello(true);
    let mut compressors = bson::RawArrayBuf::new();
    compressors.push("zlib");
    reply.append(bson::cstr!("compression"), compressors);
    reply
}

/// A client, and the other sides of its connections.
struct Stack {
    client: Client,
    contract: Contract,
    authority: Authority,
    plan: Arc<CompressionPlan>,
    fault: Fault,
    links: BTreeMap<SocketId, Far>,
    closed: Vec<SocketId>,
    /// The byte that was changed.
    changed: Option<u8>,
}

impl harness::Peer for Stack {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: Instant::ZERO,
        }
    }

    fn dialled(&mut self, socket: SocketId, address: Address) {
        assert_eq!(address, Address::tcp("proxy", 1080));
        let mut compression = Compression::new(self.plan.clone());
        compression.negotiate(&["zlib".to_owned()]);
        let far = Far {
            proxy: PROXY.into(),
            server: Peer {
                tls: self.authority.server(&TLS13, false),
                requests: FrameDecoder::new(),
                failure: None,
                is_closed: false,
            },
            compression,
            heard: Vec::new(),
            kinds: Vec::new(),
            sent: 0,
        };
        self.links.insert(socket, far);
        self.connect(socket);
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let (arriving, ends) = self.exchange(socket, &bytes);
        if !arriving.is_empty() {
            self.receive(socket, &arriving);
        }
        if ends {
            self.end(socket);
        }
    }

    fn closed(&mut self, socket: SocketId) {
        self.closed.push(socket);
    }
}

impl Stack {
    fn new(authority: Authority, fault: Fault) -> Self {
        let mut options = uri::parse(URI).expect("a connection string").options;
        options.tls = Some(authority.options().into());
        let plan = CompressionPlan::new(&options).expect("available");
        let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
        let mut client = Client::new(config);
        client.set_wall_time(Instant::ZERO, NOW);
        client.open(Instant::ZERO);
        Self {
            client,
            contract: Contract::default(),
            authority,
            plan,
            fault,
            links: BTreeMap::new(),
            closed: Vec::new(),
            changed: None,
        }
    }

    /// Sends bytes to the other side. Returns the bytes that arrive in reply, and true if the
    /// connection ends after them.
    fn exchange(&mut self, socket: SocketId, bytes: &[u8]) -> (Vec<u8>, bool) {
        let far = self.links.get_mut(&socket).expect("a socket");
        let mut reply = far.receive(bytes);
        let start = far.sent;
        far.sent += reply.len();
        match self.fault {
            Fault::End(at) | Fault::Reset(at) if at < far.sent => {
                reply.truncate(at.saturating_sub(start));
                return (reply, true);
            }
            Fault::Change(at) if (start..far.sent).contains(&at) => {
                self.changed = Some(reply[at - start]);
                reply[at - start] ^= 0x55;
            }
            _ => {}
        }
        (reply, false)
    }

    fn error(&self) -> Error {
        match self.fault {
            Fault::Reset(_) => Error::network(NetworkFault::Reset, "reset"),
            _ => closed_by_peer(),
        }
    }

    /// Ends a connection with its error, if the client holds it.
    fn end(&mut self, socket: SocketId) {
        match self.fault {
            Fault::Reset(_) => self
                .client
                .handle_failed(Instant::ZERO, socket, self.error()),
            _ => self.client.handle_received(Instant::ZERO, socket, &[]),
        };
    }

    /// Runs a ping. A connection on which the client waits for more bytes is closed.
    fn ping(&mut self) -> Result<(), Error> {
        let mut progress = self.client.start(Instant::ZERO, ping());
        harness::drain(self);
        for _ in 0..2 {
            let Progress::Waiting(id) = progress else {
                break;
            };
            progress = self.client.resume(Instant::ZERO, id);
            if matches!(progress, Progress::Waiting(_)) {
                let sockets: Vec<_> = self.links.keys().copied().collect();
                sockets.into_iter().for_each(|socket| self.end(socket));
                harness::drain(self);
            }
        }
        let mut exchange = match progress {
            Progress::Exchange(exchange) => exchange,
            Progress::Failed(error) => return Err(error),
            other => panic!("{other:?} after {:?}", self.fault),
        };
        exchange.begin(Instant::ZERO).expect("it fits");
        let bytes = exchange.output().to_vec();
        exchange.sent(bytes.len());
        let (arriving, _) = self.exchange(exchange.socket(), &bytes);
        let result = match feed(&mut exchange, &arriving) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.error()),
            Err(error) => Err(error),
        };
        let outcome = match &result {
            Ok(()) => Outcome::Completed,
            Err(error) => Outcome::Failed(error.clone()),
        };
        let after = self.client.check_in(Instant::ZERO, exchange, outcome);
        harness::drain(self);
        match after {
            AfterExchange::Done(done) => {
                assert_eq!(done.is_ok(), result.is_ok());
                done
            }
            AfterExchange::Again(again) => panic!("a ping is not retried: {again:?}"),
        }
    }
}

/// The proxy gets only the name of the server, and the messages up to and including the login are
/// not compressed (COMP-18).
#[test]
fn each_layer_has_its_place() {
    let mut stack = Stack::new(Authority::new(), Fault::None);
    for pings in 1..=2 {
        stack.ping().expect("it succeeds");
        let far = stack.links.values().next().expect("a connection");
        assert_eq!(
            far.heard,
            b"\x05\x01\0\x05\x01\0\x03\x0edb.example.net\x69\x89"
        );
        assert_eq!(far.server.tls.server_name(), Some("db.example.net"));
        let (before, after) = far.kinds.split_at(2);
        assert_eq!(before, [OpCode::Msg, OpCode::Msg], "hello and login");
        assert_eq!(after, vec![OpCode::Compressed; pings]);
    }
    assert_eq!(stack.links.len(), 1);
}

#[test]
fn a_fault_at_each_byte_offset_closes_one_connection_with_a_typed_error() {
    let mut intact = Stack::new(Authority::new(), Fault::None);
    intact.ping().expect("it succeeds");
    let total = intact.links.values().map(|far| far.sent).sum::<usize>();
    assert!(total > PROXY_BYTES + 500, "{total}");
    for at in 0..total {
        for fault in [Fault::End(at), Fault::Reset(at), Fault::Change(at)] {
            let mut stack = Stack::new(Authority::new(), fault);
            let result = stack.ping();
            let sockets: Vec<_> = stack.links.keys().copied().collect();
            // The length of a handshake varies by a few bytes with its signatures.
            let is_past_end = stack.links.values().all(|far| far.sent <= at);
            // The client does not use the address that the proxy has bound, nor reserved bytes.
            let is_unused = matches!(fault, Fault::Change(4 | 6..PROXY_BYTES));
            // The version in the header of a TLS record is ignored (RFC 8446, section 5.1).
            let is_unused = is_unused || stack.changed == Some(3);
            match result {
                Ok(()) => {
                    assert!(is_unused || is_past_end, "{fault:?}");
                    assert!(stack.closed.is_empty(), "{fault:?}");
                }
                Err(error) => {
                    let is_tls = matches!(error.kind(), ErrorKind::Tls { .. });
                    assert!(is_tls || error.is_network(), "{fault:?}: {error:?}");
                    assert_eq!(stack.closed, sockets, "{fault:?}: {error}");
                }
            }
            assert_eq!(sockets.len(), 1, "{fault:?}");
        }
    }
}
