//! The machine that drives one connection from dialling until the connection is ready. For a
//! monitor, the machine also runs the checks that follow.
//!
//! ```text
//! Dialling ──────► OpeningLayers          the socket, then layers such as TLS
//!    │                   │
//!    └─────────┬─────────┘
//!              ▼
//!        AwaitingHello ──────► Idle ◄────► Checking              monitors
//!              │
//!              ▼
//!       Authenticating ◄─────► DerivingKeys                      pools
//!              │
//!              ▼
//!            Over              ready, or failed in any state
//! ```
//!
//! `State::leads_to` has all transitions. [`steps`] has the steps of a handshake, [`checks`] the
//! checks of a monitor, and [`limits`] the time limits.

mod checks;
mod limits;
mod state;
mod steps;

use super::{
    Arrival, ConnectionPurpose, HandshakeOptions, Output, Phase, Transport, types::lost_early,
};
use crate::{
    address::Address,
    auth::{Conversation, DerivedKeys, KeyCache},
    error::{Error, Wait},
    hello::HelloReply,
    options::Mechanism,
    random::Random,
    time::Instant,
    tls::TlsFacts,
    wire::MessageWriter,
};
use bson::RawDocumentBuf;
use state::State;
use std::{collections::VecDeque, sync::Arc};

/// The request ids of handshakes and checks begin after this number. Those of operations begin at
/// 1, so that a repeated reply to the hello is not taken for the reply to one of the first
/// operations.
const FIRST_REQUEST_ID: i32 = 1 << 30;

/// The machine that drives one connection until the connection is ready for operations or, for a
/// monitor, until its end.
///
/// Inputs are changes of the socket, bytes from the socket, derived keys, checks to send, and the
/// time. Outputs are bytes to transmit and reports.
#[derive(Debug)]
pub struct Connection {
    address: Address,
    options: Arc<HandshakeOptions>,
    purpose: ConnectionPurpose,
    state: State,
    transport: Transport,
    conversation: Option<Conversation>,
    /// The hello reply; `None` before it arrives, and for monitors.
    hello: Option<HelloReply>,
    deadline: Option<Instant>,
    request_id: i32,
    /// The id of the request, or of the reply in a stream, that the next message must answer.
    awaited_id: i32,
    output: VecDeque<Output>,
}

impl Connection {
    /// Returns a connection that is about to be dialled.
    #[must_use]
    pub fn new(
        now: Instant,
        address: Address,
        purpose: ConnectionPurpose,
        options: Arc<HandshakeOptions>,
    ) -> Self {
        let mut connection = Self {
            address,
            options,
            purpose,
            state: State::Dialling,
            transport: Transport::for_handshake(Vec::new()),
            conversation: None,
            hello: None,
            deadline: None,
            request_id: FIRST_REQUEST_ID,
            awaited_id: 0,
            output: VecDeque::new(),
        };
        connection.renew_deadline(now, Wait::Connect);
        connection
    }

    /// Continues after the socket was connected: starts the opening conversations of the layers or,
    /// if no layer has one, queues the hello. Ignored unless the socket is being dialled.
    pub fn handle_connected(&mut self, now: Instant, random: &mut Random) {
        if !matches!(self.state, State::Dialling) {
            return;
        }
        match self.options.layers.begin(&self.address) {
            Ok(layers) => self.transport = Transport::for_handshake(layers),
            Err(error) => return self.fail(error),
        }
        if self.transport.opening().is_some() {
            self.enter(State::OpeningLayers);
        } else {
            self.on_open(now, random);
        }
    }

    /// Processes bytes from the socket. Ignored before the socket is connected, and after the
    /// connection was established or has failed.
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
        if matches!(self.state, State::OpeningLayers) && self.transport.opening().is_none() {
            self.on_open(now, random);
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

    /// Takes the keys that authentication waits for. Keys that come at another time are
    /// ignored. Keys of another derivation fail the connection.
    pub fn handle_keys(&mut self, now: Instant, keys: &DerivedKeys) {
        let State::DerivingKeys { rounds } = self.state else {
            return;
        };
        if let Some(conversation) = &mut self.conversation {
            let step = conversation.handle_keys(keys);
            self.on_step(now, step, rounds);
        }
    }

    /// Fails the connection with `error`, for example because the socket was closed, or because
    /// keys were not derived. If the peer closed the connection before the reply to hello, the
    /// error can get a hint about TLS or another layer. Ignored after the connection was
    /// established or has failed.
    pub fn handle_failed(&mut self, error: Error) {
        let hint = match self.state {
            State::Over => return,
            State::OpeningLayers => self.transport.opening().and_then(|layer| {
                let hint = layer.loss_hint()?;
                Some(format!("in the {} handshake; {hint}", layer.name()))
            }),
            State::AwaitingHello { .. } if !self.options.layers.encrypt() => {
                Some("before hello was answered; does the server require TLS?".to_owned())
            }
            State::Dialling
            | State::AwaitingHello { .. }
            | State::Authenticating { .. }
            | State::DerivingKeys { .. }
            | State::Idle
            | State::Checking { .. } => None,
        };
        self.fail(match hint {
            Some(hint) => lost_early(error, &hint),
            None => error,
        });
    }

    /// Appends the bytes to transmit to `out`. Returns false if there are none.
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

    /// Takes the output that is left when the client gives up the connection, such as a TLS alert
    /// that states the reason. Empty without layers.
    pub(crate) fn take_closing_output(&mut self) -> Vec<u8> {
        self.transport.take_closing_output()
    }

    /// Returns the next report; `None` if there is none.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// Returns the address of the server.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the address to connect the socket to: that of the server, or that of a layer that
    /// has one, such as a proxy.
    #[must_use]
    pub fn dial_address(&self) -> &Address {
        let own = self.options.layers.dial_address();
        own.unwrap_or(&self.address)
    }

    /// True once the socket is connected and the opening conversations of all layers are over.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Dialling | State::OpeningLayers)
            && self.transport.opening().is_none()
    }

    /// Returns the mechanism of the authentication that is under way.
    pub(crate) fn mechanism(&self) -> Option<Mechanism> {
        self.conversation.as_ref().map(Conversation::mechanism)
    }

    /// Returns the facts of TLS once its handshake is over; `None` without TLS.
    pub(crate) fn tls_facts(&self) -> Option<TlsFacts> {
        self.transport.tls_facts()
    }

    /// Returns the purpose of the connection.
    #[must_use]
    pub fn purpose(&self) -> ConnectionPurpose {
        self.purpose
    }

    /// Splits an established connection into its transport and the hello reply; `None` for a
    /// connection without a hello reply.
    #[must_use]
    pub fn into_parts(self) -> Option<(Transport, HelloReply)> {
        self.hello.map(|hello| (self.transport, hello))
    }

    /// Frees the empty buffers of a monitor's connection, which is idle most of the time.
    fn free_if_monitor(&mut self) {
        if self.purpose == ConnectionPurpose::Monitor {
            self.transport.free();
        }
    }

    /// Queues a request that `fill` completes, and expects its reply.
    fn send(&mut self, fill: impl FnOnce(MessageWriter<'_>) -> MessageWriter<'_>) {
        self.request_id = self.request_id.wrapping_add(1) & i32::MAX;
        self.awaited_id = self.request_id;
        let id = self.request_id;
        self.transport.send(|buffer| {
            fill(MessageWriter::begin(buffer, id, 0)).end();
        });
    }

    /// Removes the next complete message from the buffer. Returns its body, and true if another
    /// message follows without a request; `None` if no complete message has arrived.
    fn next_message(&mut self) -> Result<Option<(RawDocumentBuf, bool)>, Error> {
        let mut awaited = self.state.awaited(self.awaited_id);
        let Arrival::Whole(message) = self.transport.next(&mut awaited)? else {
            return Ok(None);
        };
        let (body, more_to_come) = (message.body.to_owned(), message.more_to_come);
        if more_to_come {
            // The next reply of a stream answers this reply (MSG-21).
            self.awaited_id = message.request_id;
        }
        let length = message.place.length;
        self.transport.consume(length);
        Ok(Some((body, more_to_come)))
    }

    /// Passes a message to the function that handles messages in the current state.
    fn on_message(
        &mut self,
        now: Instant,
        reply: RawDocumentBuf,
        more_to_come: bool,
        keys: &mut KeyCache,
    ) {
        match self.state {
            State::AwaitingHello { sent } => self.on_hello_reply(now, reply, now - sent, keys),
            State::Authenticating { rounds } => {
                self.on_authentication_reply(now, &reply, rounds, keys);
            }
            State::Checking { sent, .. } => {
                self.on_check_reply(now, reply, now - sent, more_to_come);
            }
            // Not reached: a connection in these states expects `Awaited::Nothing`, so that
            // `next_message` has refused the message.
            State::Dialling
            | State::OpeningLayers
            | State::DerivingKeys { .. }
            | State::Idle
            | State::Over => {}
        }
    }

    fn enter(&mut self, next: State) {
        debug_assert!(
            self.state.leads_to(&next),
            "{next:?} does not follow {:?}",
            self.state
        );
        self.state = next;
    }

    fn fail(&mut self, error: Error) {
        let phase = self.phase();
        self.deadline = None;
        self.enter(State::Over);
        self.output.push_back(Output::Failed {
            error: error.with_server(&self.address),
            phase,
        });
    }

    /// Returns the phase of an error in the current state.
    fn phase(&self) -> Phase {
        match self.state {
            State::Dialling if self.options.layers.dial_address().is_some() => Phase::Proxy,
            State::OpeningLayers => self.transport.opening().map_or(Phase::Hello, |l| l.phase()),
            State::Dialling | State::AwaitingHello { .. } => Phase::Hello,
            State::Authenticating { .. }
            | State::DerivingKeys { .. }
            | State::Idle
            | State::Checking { .. }
            | State::Over => Phase::Authentication,
        }
    }
}
