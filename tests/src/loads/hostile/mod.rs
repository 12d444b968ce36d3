//! A client in front of a peer that sends the worst that the protocol's bounds allow, without
//! sockets and in virtual time.

mod attacks;

pub use attacks::ATTACKS;

use super::harness::{self, Contract, Parts, Peer};
use bson::{RawArrayBuf, RawDocumentBuf, oid::ObjectId, rawdoc};
use onionskin_core::{
    address::Address,
    client::{Client, ClientConfig, Outcome, Progress, SocketUse},
    connection::SocketId,
    error::Error,
    event::Subscriptions,
    operation::{Command, CommandKind, Cursor, Exchange, OperationId},
    random::Seed,
    sdam::MAX_SERVERS,
    time::Instant,
    uri,
    wire::{Header, MAX_MESSAGE_BYTES, MessageWriter},
};
use std::{collections::BTreeMap, hint::black_box, time::Duration};

/// The client that is attacked.
#[derive(Debug)]
pub struct Victim {
    client: Client,
    /// `None` where the client alone is measured.
    contract: Option<Contract>,
    now: Instant,
    /// Connections that wait for the reply to a hello, and the numbers of those requests.
    asked: BTreeMap<SocketId, i32>,
    /// Granted to operations.
    granted: Vec<Exchange>,
}

impl Victim {
    /// A client with these options whose first hello is sent and not answered.
    #[must_use]
    pub fn new(options: &str, subscribed: bool) -> Self {
        Self::with_contract(options, subscribed, None)
    }

    /// The same, held to its contract: what it orders is checked.
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

    /// Answers the hello that is outstanding with `frame`, cut into pieces of so many bytes. The
    /// frame's `responseTo` is filled in.
    pub fn greet(&mut self, frame: &mut [u8], piece: usize) -> SocketUse {
        let (socket, request) = self.asked.pop_first().expect("a hello is outstanding");
        answer(frame, request);
        self.receive(socket, frame, piece)
    }

    /// More bytes on a socket.
    pub fn receive(&mut self, socket: SocketId, bytes: &[u8], piece: usize) -> SocketUse {
        let mut fate = SocketUse::Open;
        for piece in bytes.chunks(piece) {
            fate = self.client.handle_received(self.now, socket, piece);
            if fate != SocketUse::Open {
                break;
            }
        }
        self.settle();
        fate
    }

    /// A `find` on a connection in use, whose request is sent. The client must be without listeners
    /// and its server a standalone.
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

    /// Answers the operation of an exchange with `frame`, whose `responseTo` is filled in.
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
        let outcome = match outcome {
            Err(error) => Err(error),
            Ok(()) => exchange.outcome().inspect(|()| {
                cursor = Cursor::from_exchange(&mut exchange, "app".into()).ok();
            }),
        };
        let verdict = match &outcome {
            Ok(()) => Outcome::Completed,
            Err(error) => Outcome::Failed(error.clone()),
        };
        black_box(self.client.check_in(self.now, exchange, verdict));
        self.settle();
        outcome.map(|()| cursor)
    }

    /// Lets time pass until a hello is outstanding.
    pub fn pass(&mut self) {
        self.now = self.now + Duration::from_secs(11);
        harness::time_out(self);
        self.settle();
    }

    /// What is known of the deployment, in words.
    #[must_use]
    pub fn topology(&self) -> String {
        self.client.topology().to_string()
    }

    /// How many servers are known.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.client.topology().servers.len()
    }

    /// Does what the client orders: only the seed can be reached.
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
            let _ = self.greet(&mut standalone(), usize::MAX);
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
        if exchange.received(count)? {
            return Ok(());
        }
        if count == 0 {
            return Err(Error::protocol("the frame is not whole"));
        }
    }
}

/// Makes `frame` the answer to that request.
fn answer(frame: &mut [u8], request: i32) {
    if let Some(place) = frame.get_mut(8..12) {
        place.copy_from_slice(&request.to_le_bytes());
    }
}

/// A message with this body.
#[must_use]
pub fn message(body: &RawDocumentBuf) -> Vec<u8> {
    let mut frame = Vec::new();
    MessageWriter::begin(&mut frame, 1, 0).body(body).end();
    frame
}

/// The reply of a standalone to a hello.
#[must_use]
pub fn standalone() -> Vec<u8> {
    message(&rawdoc! {
        "ok": 1, "isWritablePrimary": true, "helloOk": true, "maxWireVersion": 21,
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
        "logicalSessionTimeoutMinutes": 30,
    })
}

/// What a peer can have plenty of.
pub struct Attack {
    /// What there is too much of.
    pub name: &'static str,
    /// Where it is met.
    pub place: Place,
    /// A message of about so many bytes, of the worst kind.
    pub frame: fn(usize) -> Vec<u8>,
}

impl std::fmt::Debug for Attack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Where bytes of a peer are met, which is also who has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A reply to a hello, under the client's lock. It comes in pieces of so many bytes.
    Hello(usize),
    /// What a server pushes on a monitor's connection, in a topology of as many servers as there
    /// can be. It comes in pieces of so many bytes; somebody listens to events, or nobody does.
    Pushes(usize, bool),
    /// The reply to an operation, in the operation's own task.
    Operation,
}

impl Place {
    /// The longest message that is accepted there, in bytes.
    #[must_use]
    pub const fn bound(self) -> usize {
        match self {
            Self::Hello(_) | Self::Pushes(..) => 256 * 1024,
            Self::Operation => MAX_MESSAGE_BYTES,
        }
    }
}

impl Attack {
    /// Prepares the attack with a message of about so many bytes. The answer performs it.
    pub fn prepare(&self, bytes: usize) -> Box<dyn FnOnce()> {
        let mut frame = (self.frame)(bytes - bytes / 16);
        assert!(frame.len() <= bytes, "{self:?} has {} bytes", frame.len());
        match self.place {
            Place::Hello(piece) => {
                let mut victim = Victim::new("serverMonitoringMode=poll", true);
                Box::new(move || {
                    black_box(victim.greet(&mut frame, piece));
                    black_box(victim.servers());
                })
            }
            Place::Pushes(piece, is_heard) => {
                let mut victim = Victim::new("serverMonitoringMode=stream", is_heard);
                victim.greet(&mut crowd(), usize::MAX);
                let asked = victim.asked.pop_first();
                let (socket, request) = asked.expect("a hello is outstanding");
                answer(&mut frame, request);
                Box::new(move || {
                    black_box(victim.receive(socket, &frame, piece));
                    black_box(victim.servers());
                })
            }
            Place::Operation => {
                let mut victim = Victim::new("directConnection=true", false);
                victim.greet(&mut standalone(), usize::MAX);
                let exchange = victim.operation();
                Box::new(move || {
                    if let Ok(Some(mut cursor)) = victim.reply(exchange, &mut frame) {
                        while let Some(document) = cursor.next_document() {
                            let _ = black_box(document.map(|d| d.as_bytes().len()));
                        }
                    }
                })
            }
        }
    }
}

/// The reply of a member of a set with as many members as a topology can have.
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
