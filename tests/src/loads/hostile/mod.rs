//! A client with a hostile server, which sends expensive messages within the limits of the client.
//! There are no sockets, and time is virtual.

mod attacks;
mod blocks;

pub use attacks::ATTACKS;

use super::harness::{self, Contract, Parts, Peer};
use bson::{RawArrayBuf, RawDocumentBuf, oid::ObjectId, rawdoc};
use onionskin_core::{
    address::Address,
    client::{Client, ClientConfig, Outcome, Progress, SocketUse},
    error::Error,
    event::Subscriptions,
    operation::{Command, CommandKind, Cursor, Exchange, OperationId},
    random::Seed,
    time::Instant,
    unstable::{
        connection::SocketId,
        sdam::MAX_SERVERS,
        wire::{Header, MAX_MESSAGE_BYTES, MessageWriter},
    },
    uri,
};
use std::{collections::BTreeMap, hint::black_box, time::Duration};

/// The compressors that the client announces.
const COMPRESSORS: &str = "compressors=snappy,zlib,zstd";

/// A client under attack.
#[derive(Debug)]
pub struct Victim {
    client: Client,
    /// The checks of the client's actions. `None` where only the client is to be measured.
    contract: Option<Contract>,
    now: Instant,
    /// The sockets that wait for a reply to `hello`, and the ids of those requests.
    asked: BTreeMap<SocketId, i32>,
    /// Exchanges of started operations that [`operation`](Self::operation) has not returned yet.
    granted: Vec<Exchange>,
}

impl Victim {
    /// Creates a client with these options, whose first `hello` is sent and not answered.
    #[must_use]
    pub fn new(options: &str, subscribed: bool) -> Self {
        Self::with_contract(options, subscribed, None)
    }

    /// Creates a client like [`new`](Self::new), whose actions are checked against the contract of
    /// the harness.
    #[must_use]
    pub fn watched(options: &str, subscribed: bool) -> Self {
        Self::with_contract(options, subscribed, Some(Contract::default()))
    }

    fn with_contract(options: &str, subscribed: bool, contract: Option<Contract>) -> Self {
        let text = format!("mongodb://a.example.net/?{options}");
        let options = uri::parse(&text).expect("a connection string").options;
        let mut config = ClientConfig::new(options, Seed::new([7; 32])).expect("a configuration");
        if subscribed {
            config = config.with_subscriptions(Subscriptions {
                sdam: true,
                pool: true,
                ..Subscriptions::default()
            });
        }
        let mut victim = Self {
            client: Client::new(config),
            contract,
            now: Instant::ZERO,
            asked: BTreeMap::new(),
            granted: Vec::new(),
        };
        victim.client.open(victim.now);
        victim.settle();
        victim
    }

    /// Answers the outstanding `hello` with `frame`, in pieces of `piece` bytes. Sets the frame's
    /// `responseTo`.
    pub fn receive_hello(&mut self, frame: &mut [u8], piece: usize) -> SocketUse {
        let (socket, request) = self.asked.pop_first().expect("a hello is outstanding");
        answer(frame, request);
        self.receive(socket, frame, piece)
    }

    /// Gives the client bytes of a socket, in pieces of `piece` bytes.
    pub fn receive(&mut self, socket: SocketId, bytes: &[u8], piece: usize) -> SocketUse {
        let mut socket_use = SocketUse::Open;
        for piece in bytes.chunks(piece) {
            socket_use = self.client.handle_received(self.now, socket, piece);
            if socket_use != SocketUse::Open {
                break;
            }
        }
        self.settle();
        socket_use
    }

    /// Starts an insert and encodes its request. The client's server must be a standalone.
    #[must_use]
    pub fn operation(&mut self) -> Exchange {
        let mut command = Command::new("insert", "app", CommandKind::Write);
        command.body().str("insert", "things");
        if let Progress::Exchange(exchange) = self.client.start(self.now, command) {
            self.granted.push(exchange);
        }
        self.settle();
        let mut exchange = self.granted.pop().expect("the server is quick");
        exchange.begin(self.now).expect("a request");
        exchange
    }

    /// Answers the operation of an exchange with `frame`. Sets the frame's `responseTo`. Returns
    /// the cursor that the reply opens, if it opens one.
    pub fn reply(
        &mut self,
        mut exchange: Exchange,
        frame: &mut [u8],
    ) -> Result<Option<Cursor>, Error> {
        let id = Header::decode(exchange.output(), MAX_MESSAGE_BYTES)?.request_id;
        answer(frame, id);
        let count = exchange.output().len();
        exchange.sent(count);
        let outcome = move_bytes(&mut exchange, frame);
        let mut cursor = None;
        // An error in the reply does not fail the exchange: the client reads it itself.
        let ending = match &outcome {
            Ok(()) => Outcome::Completed,
            Err(error) => Outcome::Failed(error.clone()),
        };
        let outcome = outcome.and_then(|()| exchange.outcome());
        if outcome.is_ok() {
            cursor = Cursor::from_exchange(&mut exchange, "app".into()).ok();
        }
        let _ = black_box(self.client.check_in(self.now, exchange, ending));
        self.settle();
        outcome.map(|()| cursor)
    }

    /// Advances the time by 11 seconds, which is more than the default of `heartbeatFrequencyMS`.
    pub fn pass(&mut self) {
        self.now = self.now + Duration::from_secs(11);
        harness::time_out(self);
        self.settle();
    }

    /// Returns the text of the topology description.
    #[must_use]
    pub fn topology(&self) -> String {
        self.client.topology().to_string()
    }

    /// Returns the number of servers in the topology description.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.client.topology().servers.len()
    }

    /// Carries out the actions of the client. Only the seed accepts connections.
    fn settle(&mut self) {
        harness::drain(self);
        while self.client.poll_event().is_some() {}
    }
}

impl Peer for Victim {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: self.contract.as_mut(),
            now: self.now,
        }
    }

    fn dialled(&mut self, socket: SocketId, address: Address) {
        if address.host() == "a.example.net" {
            self.connect(socket);
        }
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let header = Header::decode(&bytes, MAX_MESSAGE_BYTES).expect("a frame");
        self.asked.insert(socket, header.request_id);
        if self.client.counts().waiting > 0 {
            let _ = self.receive_hello(&mut standalone(), usize::MAX);
        }
    }

    fn woken(&mut self, operation: OperationId) {
        if let Progress::Exchange(exchange) = self.client.resume(self.now, operation) {
            self.granted.push(exchange);
        }
    }
}

fn move_bytes(exchange: &mut Exchange, frame: &[u8]) -> Result<(), Error> {
    let mut rest = frame;
    loop {
        let room = exchange.input()?;
        let count = room.len().min(rest.len());
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        let mut is_complete = exchange.received(count)?;
        while exchange.is_unpacking() {
            is_complete = exchange.unpack()?;
        }
        if is_complete {
            return Ok(());
        }
        if count == 0 {
            return Err(Error::protocol("the frame is not whole"));
        }
    }
}

/// Sets the frame's `responseTo` to this request.
fn answer(frame: &mut [u8], request: i32) {
    if let Some(place) = frame.get_mut(8..12) {
        place.copy_from_slice(&request.to_le_bytes());
    }
}

/// Encodes a message with this body.
#[must_use]
pub fn message(body: &RawDocumentBuf) -> Vec<u8> {
    let mut frame = Vec::new();
    MessageWriter::begin(&mut frame, 1, 0).body(body).end();
    frame
}

/// Returns the reply of a standalone to `hello`.
#[must_use]
pub fn standalone() -> Vec<u8> {
    message(&rawdoc! {
        "ok": 1, "isWritablePrimary": true, "helloOk": true, "maxWireVersion": 21,
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
        "logicalSessionTimeoutMinutes": 30, "compression": ["snappy", "zlib", "zstd"],
    })
}

/// An attack of a server: one part of a message, repeated as often as possible.
pub struct Attack {
    /// The part of the message that is repeated.
    pub name: &'static str,
    /// The place where the client handles the message.
    pub target: Target,
    /// Returns a message of about this number of bytes.
    pub frame: fn(usize) -> Vec<u8>,
}

impl std::fmt::Debug for Attack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A place where the client handles the bytes of a peer. The place decides which operations have to
/// wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A reply to `hello`, which is handled under the client's lock. The reply arrives in pieces of
    /// this number of bytes.
    Hello(usize),
    /// Replies that a server streams to a monitor, in a topology with the largest number of
    /// servers. The replies arrive in pieces of this number of bytes. The flag is true if the
    /// client has a listener.
    Pushes(usize, bool),
    /// The reply to an operation, which is handled in the operation's own task.
    Operation,
}

impl Target {
    /// Returns the length of the longest message that is accepted in this place, in bytes.
    #[must_use]
    pub const fn bound(self) -> usize {
        match self {
            Self::Hello(_) | Self::Pushes(..) => 256 * 1024,
            Self::Operation => MAX_MESSAGE_BYTES,
        }
    }
}

impl Attack {
    /// Prepares the attack with a message of about `bytes` bytes. The returned function runs the
    /// attack.
    pub fn prepare(&self, bytes: usize) -> Box<dyn FnOnce()> {
        let mut frame = (self.frame)(bytes - bytes / 16);
        assert!(frame.len() <= bytes, "{self:?} has {} bytes", frame.len());
        match self.target {
            Target::Hello(piece) => {
                let options = format!("serverMonitoringMode=poll&{COMPRESSORS}");
                let mut victim = Victim::new(&options, true);
                Box::new(move || {
                    black_box(victim.receive_hello(&mut frame, piece));
                    black_box(victim.servers());
                })
            }
            Target::Pushes(piece, has_listener) => {
                let mut victim = Victim::new("serverMonitoringMode=stream", has_listener);
                victim.receive_hello(&mut crowd(), usize::MAX);
                let asked = victim.asked.pop_first();
                let (socket, request) = asked.expect("a hello is outstanding");
                answer(&mut frame, request);
                Box::new(move || {
                    black_box(victim.receive(socket, &frame, piece));
                    black_box(victim.servers());
                })
            }
            Target::Operation => {
                let options = format!("directConnection=true&{COMPRESSORS}");
                let mut victim = Victim::new(&options, false);
                victim.receive_hello(&mut standalone(), usize::MAX);
                let exchange = victim.operation();
                Box::new(move || {
                    if let Ok(Some(mut cursor)) = victim.reply(exchange, &mut frame) {
                        while let Some(result) = cursor.advance() {
                            let _ = black_box((result, cursor.current_bytes().len()));
                        }
                    }
                })
            }
        }
    }
}

/// Returns the reply of a member of a replica set with [`MAX_SERVERS`] members.
fn crowd() -> Vec<u8> {
    let mut hosts = RawArrayBuf::new();
    hosts.push("a.example.net");
    for number in 1..MAX_SERVERS {
        hosts.push(format!("m{number:04}.example.net"));
    }
    message(&rawdoc! {
        "ok": 1, "setName": "rs", "secondary": true, "helloOk": true, "maxWireVersion": 21,
        "hosts": hosts,
        "topologyVersion": { "processId": ObjectId::from_bytes([7; 12]), "counter": 0_i64 },
    })
}
