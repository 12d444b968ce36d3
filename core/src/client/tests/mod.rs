//! Tests of one client against a scripted server. The tests check what the client sends and which
//! state its operations leave.

#![allow(
    unused_must_use,
    reason = "a script asserts on the results that it is about"
)]

mod abandoned;
mod adaptive;
mod aggregates;
mod announced_features;
mod balanced;
mod batches;
mod bulk_replies;
mod change_streams;
mod cluster_times;
mod costly_authentication;
mod credentials;
mod cursors;
mod derivations;
mod direct;
mod draining;
mod faults;
mod first_messages;
mod forking;
mod harness;
mod idle_check;
mod invariants;
mod kerberos;
mod messages;
mod metadata;
mod operations;
mod overdue;
mod overload;
mod partial_scans;
mod predicates;
mod program_questions;
mod proxy;
mod random_inputs;
mod recorded_secrets;
mod recorded_sessions;
mod recordings;
mod replies;
mod retries;
mod retry_pauses;
mod scanning;
mod seed_list;
mod selection;
mod sessions;
mod silent_peer;
mod socks5;
mod tls;
mod transaction_results;
mod transactions;
mod unresumed_grants;
mod uploads;
mod waits;

use super::*;
use crate::{
    client::{AfterExchange, Outcome, Progress},
    connection::SocketId,
    description::ServerId,
    dns::DnsQuery,
    error::{Error, NetworkFault},
    event::EventKind,
    operation::{Command, CommandKind, Exchange, OperationId},
    options::{ClientOptions, ReadPreference},
    random::Seed,
    uri,
    wire::{FrameDecoder, Header, Message, MessageWriter},
};
use bson::{Document, RawDocumentBuf, rawdoc};
use harness::{Contract, Parts, Peer, framed};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the connections of the client that are draining.
pub(super) fn draining(client: &Client) -> BTreeSet<SocketId> {
    let connections = client.snapshot().connections.into_iter();
    connections
        .filter(|(_, state)| matches!(state, ConnectionState::Draining(..)))
        .map(|(socket, _)| socket)
        .collect()
}

/// Returns the sockets whose exchanges have a deadline.
pub(super) fn exchange_limits(client: &Client) -> Vec<SocketId> {
    let timers = client.snapshot().timers.into_iter();
    timers
        .filter_map(|(_, timer)| match timer {
            Timer::Exchange(socket) => Some(socket),
            _ => None,
        })
        .collect()
}

/// Returns the operations with a timer for their wait, pause or grant, each with the time at which
/// the timer expires.
pub(super) fn wait_limits(client: &Client) -> BTreeMap<OperationId, Instant> {
    let timers = client.snapshot().timers.into_iter();
    timers
        .filter_map(|(at, timer)| match timer {
            Timer::Wait(operation) => Some((operation, at)),
            _ => None,
        })
        .collect()
}

/// Returns the connections that the client drives itself: those that are being established and
/// those of monitors.
pub(super) fn driven(client: &Client) -> Vec<SocketId> {
    let connections = client.snapshot().connections.into_iter();
    let mut driven: Vec<SocketId> = connections
        .filter(|(_, state)| {
            matches!(
                state,
                ConnectionState::Monitoring(_)
                    | ConnectionState::Establishing(..)
                    | ConnectionState::Authenticating(..)
            )
        })
        .map(|(socket, _)| socket)
        .collect();
    driven.sort();
    driven
}

/// Asserts that the client keeps no connections, operations, timers or other state.
pub(super) fn assert_empty(client: &Client) {
    let snapshot = client.snapshot();
    assert!(
        snapshot.connections.is_empty() && snapshot.pools.is_empty(),
        "{snapshot:?}"
    );
    assert!(
        snapshot.operations.is_empty() && snapshot.pins.is_empty(),
        "{snapshot:?}"
    );
    assert!(
        snapshot.timers.is_empty() && snapshot.questions.is_empty(),
        "{snapshot:?}"
    );
    // Sessions prose 10.
    assert_eq!(snapshot.sessions_in_use, 0);
    for server in 0..8 {
        assert_eq!(client.attempts.choice.operation_count(ServerId(server)), 0);
    }
}

/// Returns the earliest deadline of all parts of the client; `None` if no work is due later.
fn due(client: &Client) -> Option<Instant> {
    client.exact_deadline()
}

/// A client and its scripted servers.
pub(super) struct World {
    pub(super) client: Client,
    contract: Contract,
    pub(super) now: Instant,
    /// Sockets that were dialled, in order.
    pub(super) dialled: Vec<(SocketId, Address)>,
    /// Sockets that the client closed.
    pub(super) closed: BTreeSet<SocketId>,
    /// Sockets whose exchange the client interrupted.
    pub(super) interrupted: Vec<(SocketId, Error)>,
    /// Sockets for which the client gave `Action::Read`.
    pub(super) draining: Vec<SocketId>,
    /// The hello reply of all servers that are not in `hellos`.
    hello: RawDocumentBuf,
    /// The socket of each `Action::Transmit`, in order.
    pub(super) sent: Vec<SocketId>,
    /// The transmitted messages that the server answered.
    pub(super) messages: Vec<Vec<u8>>,
    /// True if no socket connects, and connected sockets fail when the client transmits.
    pub(super) is_dead: bool,
    /// True if sockets connect, and the server answers nothing.
    pub(super) is_silent: bool,
    /// The servers that answer nothing although `is_silent` is false.
    pub(super) silent: BTreeSet<Address>,
    /// The hello replies of single servers.
    pub(super) hellos: BTreeMap<Address, RawDocumentBuf>,
    /// The DNS queries that the client asked and the test has not answered.
    pub(super) lookups: Vec<(QuestionId, DnsQuery)>,
    /// The inquiries of the client, in order.
    pub(super) inquiries: Vec<QuestionId>,
    /// The questions that the client withdrew, in order.
    pub(super) withdrawn: Vec<QuestionId>,
    /// Operations that were woken, in order.
    pub(super) woken: Vec<OperationId>,
    /// The commands that the client ordered to run in the background.
    pub(super) background: Vec<Command>,
}

use crate::address::Address;

pub(super) fn primary() -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "isWritablePrimary": true, "setName": "rs", "setVersion": 1,
        "hosts": ["a:27017"], "me": "a:27017", "minWireVersion": 0, "maxWireVersion": 21,
        "logicalSessionTimeoutMinutes": 30,
    }
}

pub(super) fn mongos() -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "isWritablePrimary": true, "msg": "isdbgrid", "maxWireVersion": 21,
        "logicalSessionTimeoutMinutes": 30,
    }
}

impl World {
    pub(super) fn new(text: &str, hello: RawDocumentBuf) -> Self {
        Self::with_subscriptions(text, hello, Subscriptions::default())
    }

    pub(super) fn with_subscriptions(
        text: &str,
        hello: RawDocumentBuf,
        subscriptions: Subscriptions,
    ) -> Self {
        let options = uri::parse(text).expect("a connection string").options;
        Self::with_options(options, hello, subscriptions)
    }

    pub(super) fn with_options(
        options: ClientOptions,
        hello: RawDocumentBuf,
        subscriptions: Subscriptions,
    ) -> Self {
        Self::with_seed(options, hello, subscriptions, Seed::new([5; 32]))
    }

    pub(super) fn with_seed(
        options: ClientOptions,
        hello: RawDocumentBuf,
        subscriptions: Subscriptions,
        seed: Seed,
    ) -> Self {
        let config = ClientConfig::new(options, seed)
            .expect("options")
            .with_subscriptions(subscriptions);
        Self::with_config(config, hello)
    }

    pub(super) fn with_config(config: ClientConfig, hello: RawDocumentBuf) -> Self {
        let mut world = Self {
            client: Client::new(config),
            contract: Contract::default(),
            now: Instant::ZERO,
            dialled: Vec::new(),
            closed: BTreeSet::new(),
            interrupted: Vec::new(),
            draining: Vec::new(),
            background: Vec::new(),
            hello,
            sent: Vec::new(),
            messages: Vec::new(),
            is_dead: false,
            is_silent: false,
            silent: BTreeSet::new(),
            hellos: BTreeMap::new(),
            lookups: Vec::new(),
            inquiries: Vec::new(),
            withdrawn: Vec::new(),
            woken: Vec::new(),
        };
        world.client.open(world.now);
        world.run();
        world
    }

    /// Replaces the client by a new one, and opens it.
    fn begin_anew(&mut self, config: ClientConfig) {
        self.client = Client::new(config);
        self.contract = Contract::default();
        self.dialled.clear();
        self.closed.clear();
        self.client.open(self.now);
    }

    /// Carries out actions until there are none. By default, sockets connect and the servers answer
    /// each hello.
    pub(super) fn run(&mut self) {
        harness::drain(self);
    }

    /// Reports the present time without carrying out the actions that follow.
    pub(super) fn time_out(&mut self) {
        harness::time_out(self);
    }

    fn address_of(&self, socket: SocketId) -> Option<&Address> {
        let dialled = self.dialled.iter().find(|(id, _)| *id == socket);
        dialled.map(|(_, address)| address)
    }

    fn is_silent(&self, socket: SocketId) -> bool {
        let address = self.address_of(socket);
        self.is_silent || address.is_some_and(|address| self.silent.contains(address))
    }

    fn hello_of(&self, socket: SocketId) -> &RawDocumentBuf {
        let own = self.address_of(socket).and_then(|a| self.hellos.get(a));
        own.unwrap_or(&self.hello)
    }

    fn fail(&mut self, socket: SocketId) {
        let error = Error::network(NetworkFault::Refused, "refused");
        self.client.handle_failed(self.now, socket, error);
    }

    pub(super) fn wait(&mut self, time: std::time::Duration) {
        self.now = self.now + time;
        self.time_out();
        self.run();
    }

    /// Starts an operation and runs it until its exchange begins. The request is ready to be sent.
    pub(super) fn begin_exchange(&mut self, command: Command) -> Exchange {
        let start = self.client.start(self.now, command);
        self.exchange_of(start)
    }

    pub(super) fn exchange_of(&mut self, start: Progress) -> Exchange {
        self.run();
        let mut exchange = match start {
            Progress::Exchange(exchange) => exchange,
            Progress::Failed(error) => panic!("it failed: {error}"),
            Progress::Answered(answer) => panic!("no program asks here: {answer:?}"),
            Progress::Asking {
                operation,
                question,
            } => {
                let (now, answer) = (self.now, question.ask());
                let next = self.client.handle_selector_answer(now, operation, answer);
                return self.exchange_of(next);
            }
            Progress::Waiting(id) => {
                let mut next = self.client.resume(self.now, id);
                // The operation can pause between two attempts, or wait for a check of its server.
                if let Progress::Waiting(_) = next {
                    self.wait(std::time::Duration::from_millis(500));
                    next = self.client.resume(self.now, id);
                }
                match next {
                    Progress::Exchange(exchange) => exchange,
                    other => panic!("no connection came: {other:?}"),
                }
            }
        };
        exchange.begin(self.now).expect("it fits");
        exchange
    }

    /// Returns the command document that the exchange sends.
    pub(super) fn request(exchange: &Exchange) -> Document {
        Self::decoded(exchange.output())
    }

    /// Returns the document of a complete message.
    pub(super) fn decoded(bytes: &[u8]) -> Document {
        let mut decoder = FrameDecoder::new();
        decoder.extend(bytes);
        let (_, frame) = decoder.frame().expect("a message").expect("whole");
        let message = Message::decode(frame).expect("a message");
        Document::try_from(message.body).expect("BSON")
    }

    /// Sends the request and receives this reply. Returns the request.
    pub(super) fn answer(exchange: &mut Exchange, reply: &RawDocument) -> Vec<u8> {
        let mut request = Vec::new();
        while !exchange.output().is_empty() {
            request.extend_from_slice(exchange.output());
            exchange.sent(exchange.output().len());
        }
        let header = Header::decode(&request, 1 << 20).expect("a request");
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, 9, header.request_id)
            .body(reply)
            .end();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let room = exchange.input().expect("room");
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            exchange.received(count).expect("a reply");
        }
        request
    }

    pub(super) fn check_in(&mut self, exchange: Exchange, outcome: Outcome) -> AfterExchange {
        let after = self.client.check_in(self.now, exchange, outcome);
        self.run();
        after
    }

    /// Runs a command that the server answers with this reply.
    pub(super) fn perform(&mut self, command: Command, reply: &RawDocument) -> AfterExchange {
        let mut exchange = self.begin_exchange(command);
        Self::answer(&mut exchange, reply);
        self.check_in(exchange, Outcome::Completed)
    }
}

impl Peer for World {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: self.now,
        }
    }

    fn dialled(&mut self, socket: SocketId, address: Address) {
        self.dialled.push((socket, address));
        if self.is_dead {
            self.fail(socket);
        } else {
            self.connect(socket);
        }
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        self.sent.push(socket);
        if self.is_dead {
            self.fail(socket);
        } else if !self.is_silent(socket) {
            let hello = self.hello_of(socket).clone();
            self.respond(socket, &bytes, &hello);
            self.messages.push(bytes);
        }
    }

    fn closed(&mut self, socket: SocketId) {
        self.closed.insert(socket);
    }

    fn interrupted(&mut self, socket: SocketId, error: Error) {
        self.interrupted.push((socket, error));
    }

    fn drained(&mut self, socket: SocketId) {
        self.draining.push(socket);
    }

    fn ran(&mut self, command: Command) {
        self.background.push(command);
    }

    fn asked(&mut self, id: QuestionId, question: Question) {
        match question {
            Question::DeriveKeys(derivation) => {
                let answer = Answer::Keys(derivation.derive());
                self.client.handle_answer(self.now, id, answer);
            }
            Question::LookUp { query, .. } => self.lookups.push((id, query)),
            Question::Inquire(_) => self.inquiries.push(id),
            Question::KerberosStep(_) => panic!("no client of these tests has a Kerberos library"),
        }
    }

    fn withdrawn(&mut self, question: QuestionId) {
        self.lookups.retain(|(id, _)| *id != question);
        self.withdrawn.push(question);
    }

    fn woken(&mut self, operation: OperationId) {
        self.woken.push(operation);
    }
}

use bson::RawDocument;

pub(super) fn reset() -> Outcome {
    Outcome::Failed(Error::network(NetworkFault::Reset, "reset"))
}

pub(super) fn ping() -> Command {
    let mut command = Command::new("ping", "admin", CommandKind::Run);
    command.body().i32("ping", 1);
    command
}

pub(super) fn insert() -> Command {
    let mut command = Command::new("insert", "db", CommandKind::RetryableWrite);
    command.body().str("insert", "c");
    command.set_sequence("documents", rawdoc! { "_id": 1 }.as_bytes().to_vec());
    command
}

pub(super) fn find() -> Command {
    let mut command = Command::new("find", "db", CommandKind::Read);
    command.body().str("find", "c");
    command
}
