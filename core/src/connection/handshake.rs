//! Dial, TLS, hello, authentication, ready; then, for monitors, one check at a time.

mod limits;

use super::{HandshakeOptions, Output, Phase, Purpose, Transport, types::lost_early};
use crate::{
    address::Address,
    auth::{Conversation, DerivedKeys, KeyCache, Step},
    error::{CommandFault, Error, ErrorKind, TopologyVersion, Wait},
    hello::{HelloCommand, HelloReply, ServerApiFields},
    random::Random,
    time::Instant,
    tls::TlsSession,
    wire::{Flags, Message, MessageWriter, OpCode},
};
use bson::{RawDocument, RawDocumentBuf};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// Requests of handshakes and checks are numbered from here, far from those of operations: a second
/// answer to one of them, which comes late, is not taken for that of the first operation.
const FIRST_REQUEST_ID: i32 = 1 << 30;

/// Rounds of one authentication at most; the longest conversation of SCRAM has three.
const MAX_AUTHENTICATION_ROUNDS: u32 = 10;

#[derive(Debug)]
enum State {
    /// The socket is being connected.
    Dialling,
    /// TLS is being agreed on.
    Securing,
    /// The hello is on its way.
    Greeting { sent: Instant },
    /// Authentication is under way.
    Authenticating { rounds: u32 },
    /// Authentication goes on once keys are derived.
    Deriving { rounds: u32 },
    /// A monitor's connection, between checks.
    Resting,
    /// A monitor's check is on its way. `awaited`: the server may take its time.
    Checking { sent: Instant, streaming: bool },
    /// Handed over to the pool, failed or closed.
    Over,
}

/// The machine of one connection, until it is ready for operations.
///
/// Inputs are the fate of the socket and its bytes; outputs are bytes to transmit and what the
/// client must know.
#[derive(Debug)]
pub struct Connection {
    address: Address,
    options: Arc<HandshakeOptions>,
    purpose: Purpose,
    state: State,
    transport: Transport,
    conversation: Option<Conversation>,
    /// What the server said of itself; kept for operations only.
    hello: Option<HelloReply>,
    deadline: Option<Instant>,
    /// When it was dialled.
    dialled: Instant,
    request_id: i32,
    /// What the next message must answer.
    awaited_id: i32,
    output: VecDeque<Output>,
}

impl Connection {
    /// A connection that is about to be dialled.
    #[must_use]
    pub fn new(
        now: Instant,
        address: Address,
        purpose: Purpose,
        options: Arc<HandshakeOptions>,
    ) -> Self {
        let mut connection = Self {
            address,
            options,
            purpose,
            state: State::Dialling,
            transport: Transport::for_handshake(None),
            conversation: None,
            hello: None,
            deadline: None,
            dialled: now,
            request_id: FIRST_REQUEST_ID,
            awaited_id: 0,
            output: VecDeque::new(),
        };
        connection.renew_deadline(now, Wait::Connect);
        connection
    }

    /// The socket is connected.
    pub fn handle_connected(&mut self, now: Instant, random: &mut Random) {
        if !matches!(self.state, State::Dialling) {
            return;
        }
        match &self.options.tls {
            None => self.on_secure(now, random),
            Some(context) => match TlsSession::new(context, self.address.host()) {
                Ok(session) => {
                    self.transport = Transport::for_handshake(Some(session));
                    self.state = State::Securing;
                }
                Err(error) => self.fail(error),
            },
        }
    }

    /// Bytes arrived.
    pub fn handle_received(
        &mut self,
        now: Instant,
        bytes: &[u8],
        random: &mut Random,
        keys: &mut KeyCache,
    ) {
        if matches!(self.state, State::Over | State::Dialling) {
            return;
        }
        if let Err(error) = self.transport.receive(bytes) {
            return self.fail(error);
        }
        if matches!(self.state, State::Securing) && !self.transport.is_handshaking() {
            self.on_secure(now, random);
        }
        while !matches!(self.state, State::Over) {
            match self.next_message() {
                Ok(Some((reply, more_to_come))) => self.on_message(now, reply, more_to_come, keys),
                Ok(None) => break,
                Err(error) => return self.fail(error),
            }
        }
        self.free_if_monitor();
    }

    /// The keys are derived that authentication waits for. Ignored unless it waits for keys; others
    /// than those fail the connection.
    pub fn handle_keys(&mut self, now: Instant, keys: &DerivedKeys) {
        let State::Deriving { rounds } = self.state else {
            return;
        };
        if let Some(conversation) = &mut self.conversation {
            let step = conversation.handle_keys(keys);
            self.on_step(now, step, rounds);
        }
    }

    /// The socket could not be connected, broke, or was closed by the peer.
    pub fn handle_failed(&mut self, error: Error) {
        let hint = match self.state {
            State::Over => return,
            State::Securing => "in the TLS handshake; does the server speak TLS?",
            State::Greeting { .. } if self.options.tls.is_none() => {
                "before hello was answered; does the server ask for TLS?"
            }
            _ => return self.fail(error),
        };
        self.fail(lost_early(error, hint));
    }

    /// Sends a check on a monitor's connection that rests. `awaitable`: the server may hold its
    /// answer back until its state differs from that version, and answer again and again (MON-34,
    /// MON-36).
    pub fn check(
        &mut self,
        now: Instant,
        legacy: bool,
        awaitable: Option<(TopologyVersion, Duration)>,
    ) {
        if !matches!(self.state, State::Resting) {
            return;
        }
        let flags = if awaitable.is_some() {
            Flags::EXHAUST_ALLOWED
        } else {
            Flags::default()
        };
        let server_api = self.options.server_api;
        let hello = HelloCommand {
            legacy,
            load_balanced: false,
            metadata: None,
            compressors: &[],
            sasl_supported_mechs: None,
            speculative: None,
            awaitable,
            server_api: server_api.as_ref().map(ServerApiFields::from),
        };
        let id = self.next_request_id();
        self.transport.send(|buffer| {
            let message = MessageWriter::begin(buffer, id, 0).flags(flags);
            message.body_with(|body| hello.write(body)).end();
        });
        self.state = State::Checking {
            sent: now,
            streaming: awaitable.is_some(),
        };
    }

    /// Appends what is to be transmitted; false if there is nothing.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let bytes = self.transport.output();
        if bytes.is_empty() {
            return false;
        }
        let count = bytes.len();
        out.extend_from_slice(bytes);
        self.transport.sent(count);
        self.free_if_monitor();
        true
    }

    /// Takes what TLS still has to say on a connection that is given up.
    pub(crate) fn take_farewell(&mut self) -> Vec<u8> {
        self.transport.take_farewell()
    }

    /// The next report.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// The server that is dialled.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What the connection is made for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Takes an established connection apart: the layers, and what the server said of itself.
    #[must_use]
    pub fn into_parts(self) -> Option<(Transport, HelloReply)> {
        self.hello.map(|hello| (self.transport, hello))
    }

    /// There are two monitor's connections for each server, and they are silent nearly always.
    fn free_if_monitor(&mut self) {
        if self.purpose == Purpose::Monitor {
            self.transport.free();
        }
    }

    fn next_request_id(&mut self) -> i32 {
        self.request_id = self.request_id.wrapping_add(1) & i32::MAX;
        self.awaited_id = self.request_id;
        self.request_id
    }

    /// The way is open and, where wanted, secure: greet.
    fn on_secure(&mut self, now: Instant, random: &mut Random) {
        let credential = match self.purpose {
            Purpose::Operations | Purpose::Population => self.options.credential.clone(),
            Purpose::Monitor => None,
        };
        if let Some(credential) = credential {
            match Conversation::new(&credential, random) {
                Ok(conversation) => self.conversation = Some(conversation),
                Err(error) => return self.fail(error),
            }
        }
        let conversation = self.conversation.as_ref();
        let mechanisms = conversation.and_then(Conversation::sasl_supported_mechs);
        let speculative = conversation.and_then(Conversation::speculative);
        let options = self.options.clone();
        let hello = HelloCommand {
            legacy: options.legacy_hello,
            load_balanced: options.load_balanced,
            metadata: Some(&options.metadata),
            compressors: &[],
            sasl_supported_mechs: mechanisms.as_deref(),
            speculative: speculative.as_deref(),
            awaitable: None,
            server_api: options.server_api.as_ref().map(ServerApiFields::from),
        };
        let id = self.next_request_id();
        self.transport.send(|buffer| {
            MessageWriter::begin(buffer, id, 0)
                .body_with(|body| hello.write(body))
                .end();
        });
        self.renew_deadline(now, Wait::Handshake);
        self.state = State::Greeting { sent: now };
    }

    /// The next whole message that answers what was asked last.
    fn next_message(&mut self) -> Result<Option<(RawDocumentBuf, bool)>, Error> {
        let Some((header, frame)) = self.transport.frame()? else {
            return Ok(None);
        };
        if header.op_code != OpCode::Msg {
            return Err(Error::protocol(format!(
                "a reply of kind {:?}",
                header.op_code
            )));
        }
        if header.response_to != self.awaited_id {
            return Err(Error::protocol("a reply to something that was not asked"));
        }
        let message = Message::decode(frame)?;
        let more_to_come = message.flags.contains(Flags::MORE_TO_COME);
        let body = message.body.to_owned();
        if more_to_come {
            // MSG-21: the next reply refers to this one.
            self.awaited_id = header.request_id;
        }
        self.transport.consume(header.length);
        Ok(Some((body, more_to_come)))
    }

    fn on_message(
        &mut self,
        now: Instant,
        reply: RawDocumentBuf,
        more_to_come: bool,
        keys: &mut KeyCache,
    ) {
        let may_stream = matches!(
            self.state,
            State::Checking {
                streaming: true,
                ..
            }
        );
        if more_to_come && !may_stream {
            return self.fail(Error::protocol(
                "more replies are announced than were asked for",
            ));
        }
        match self.state {
            State::Greeting { sent } => self.on_greeted(now, reply, now - sent, keys),
            State::Authenticating { rounds } => {
                self.on_authentication_reply(now, &reply, rounds, keys);
            }
            State::Checking { sent, .. } => {
                let round_trip = now - sent;
                self.state = if more_to_come {
                    State::Checking {
                        sent: now,
                        streaming: true,
                    }
                } else {
                    State::Resting
                };
                self.output.push_back(Output::Checked {
                    reply,
                    round_trip,
                    more_to_come,
                });
            }
            State::Resting | State::Deriving { .. } => {
                self.fail(Error::protocol("a reply that nobody asked for"));
            }
            State::Dialling | State::Securing | State::Over => {}
        }
    }

    fn on_greeted(
        &mut self,
        now: Instant,
        reply: RawDocumentBuf,
        round_trip: Duration,
        keys: &mut KeyCache,
    ) {
        let hello = HelloReply::parse(&reply);
        if !hello.ok {
            let fault = CommandFault::from_reply(&reply);
            let labels = crate::error::Labels::from_reply(&reply);
            let error = Error::new(ErrorKind::Command(Box::new(fault))).with_labels(&labels);
            return self.fail(error);
        }
        if self.options.load_balanced && hello.service_id.is_none() {
            return self.fail(Error::protocol(
                "Driver attempted to initialize in load balancing mode, \
                 but the server does not support this mode.",
            ));
        }
        // A monitor's connection never carries more than hellos.
        if self.purpose != Purpose::Monitor {
            self.transport.set_max_bytes(hello.max_message_size_bytes);
        }
        self.output.push_back(Output::Greeted {
            reply,
            hello: Box::new(hello.clone()),
            round_trip,
            service: hello.service_id.filter(|_| self.options.load_balanced),
        });
        let step = match &mut self.conversation {
            // AUTH-16: an arbiter knows no users.
            Some(_) if hello.server_type == crate::description::ServerType::RsArbiter => Step::Done,
            Some(conversation) => conversation.handle_hello(
                hello.sasl_supported_mechs.as_deref(),
                hello.speculative_authenticate.as_deref(),
                keys,
            ),
            None => Step::Done,
        };
        match self.purpose {
            Purpose::Monitor => {
                self.state = State::Resting;
                self.deadline = None;
            }
            Purpose::Operations | Purpose::Population => {
                self.hello = Some(hello);
                self.state = State::Authenticating { rounds: 0 };
                self.on_step(now, step, 0);
            }
        }
    }

    fn on_authentication_reply(
        &mut self,
        now: Instant,
        reply: &RawDocument,
        rounds: u32,
        keys: &mut KeyCache,
    ) {
        if rounds >= MAX_AUTHENTICATION_ROUNDS {
            return self.fail(Error::protocol("authentication goes on and on"));
        }
        let Some(conversation) = &mut self.conversation else {
            return;
        };
        let step = conversation.handle_reply(reply, keys);
        self.on_step(now, step, rounds);
    }

    fn on_step(&mut self, now: Instant, step: Step, rounds: u32) {
        match step {
            Step::Done => {
                self.state = State::Over;
                self.deadline = None;
                self.conversation = None;
                self.transport.rest();
                if let Err(error) = self.transport.ended() {
                    return self.fail(error);
                }
                if self.transport.has_input() {
                    return self.fail(Error::protocol("bytes that nobody asked for"));
                }
                self.output.push_back(Output::Established);
            }
            Step::Failed(error) => self.fail(error),
            Step::Derive(derivation) => {
                self.renew_deadline(now, Wait::Handshake);
                self.state = State::Deriving { rounds };
                self.output.push_back(Output::KeysNeeded(derivation));
            }
            Step::Send { database, command } => {
                let id = self.next_request_id();
                let bytes = command.as_bytes();
                let server_api = self.options.server_api;
                self.transport.send(|buffer| {
                    let message = MessageWriter::begin(buffer, id, 0);
                    let fill = |body: &mut crate::bson::DocumentWriter<'_>| {
                        body.elements(&bytes[4..bytes.len() - 1])
                            .str("$db", &database);
                        if let Some(api) = &server_api {
                            ServerApiFields::from(api).write(body);
                        }
                    };
                    message.body_with(fill).end();
                });
                self.renew_deadline(now, Wait::Handshake);
                self.state = State::Authenticating { rounds: rounds + 1 };
            }
        }
    }

    fn fail(&mut self, error: Error) {
        let phase = match self.state {
            State::Dialling | State::Securing | State::Greeting { .. } => Phase::Hello,
            _ => Phase::Authentication,
        };
        self.state = State::Over;
        self.deadline = None;
        self.output.push_back(Output::Failed {
            error: error.with_server(&self.address),
            phase,
        });
    }
}
