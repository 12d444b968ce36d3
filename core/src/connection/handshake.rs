//! The machine that drives one connection from dialling until the connection is ready. For a
//! monitor, the machine also runs the checks that follow.
//!
//! ```text
//! Dialling ──────► OpeningLayers          the socket, then layers such as TLS
//!    │                   │
//!    └─────────┬─────────┘
//!              ▼
//!         (AwaitingLogin)                                        pools with a password provider
//!              │
//!              ▼
//!        AwaitingHello ──────► Idle ◄────► Checking              monitors
//!              │
//!              ▼
//!       Authenticating ◄─────► DerivingKeys, Fetching,           pools
//!              │                 AwaitingKerberos
//!              │
//!              ▼
//!            Over              ready, or failed in any state
//! ```
//!
//! A connection that authenticates again begins with `Authenticating`.
//!
//! `State::leads_to` has all transitions. [`steps`] has the steps of a handshake, [`checks`] the
//! checks of a monitor, [`incoming`] the messages that arrive, and [`limits`] the time limits.
//! [`recorded`] has the messages of a client that records itself.

mod checks;
mod incoming;
mod limits;
mod recorded;
mod state;
mod steps;

use super::{
    ConnectionPurpose, HandshakeOptions, Output, Phase, Transport,
    transport::MAX_HANDSHAKE_MESSAGE_BYTES,
    types::{lost_early, not_dialled},
};
use crate::{
    address::Address,
    auth::{AuthState, Authenticated, Conversation, DerivedKeys, KerberosStepResult, Provided},
    error::{Error, ErrorKind, Wait},
    hello::HelloReply,
    options::{AuthMechanism, Compressor},
    time::Instant,
    tls::{CertId, RevocationStatus, TlsFacts},
    wire::MessageWriter,
};
use bson::RawDocument;
use state::State;
use std::{collections::VecDeque, sync::Arc};

/// The request ids of handshakes and checks begin after this number. Those of operations begin at
/// 1, so that a repeated reply to the hello is not taken for the reply to one of the first
/// operations.
const FIRST_REQUEST_ID: i32 = 1 << 30;

/// The machine that drives one connection until the connection is ready for operations or, for a
/// monitor, until its end.
///
/// Inputs are changes of the socket, bytes from the socket, derived keys, results of Kerberos,
/// checks to send, and the time. Outputs are bytes to transmit and reports.
#[derive(Debug)]
pub struct Connection {
    address: Address,
    options: Arc<HandshakeOptions>,
    purpose: ConnectionPurpose,
    state: State,
    transport: Transport,
    conversation: Option<Conversation>,
    /// The hello reply; `None` before it arrives, for monitors, and for a connection that
    /// authenticates again.
    hello: Option<HelloReply>,
    /// The authentication of the connection, once it has succeeded.
    authenticated: Option<Authenticated>,
    /// The earlier authentication of a connection that authenticates again, while it waits for the
    /// login of the application's password provider.
    earlier: Option<Authenticated>,
    deadline: Option<Instant>,
    /// The time at which dialling began.
    began: Instant,
    /// True once the opening conversations of all layers have succeeded.
    is_open: bool,
    /// The certificate whose status was asked for.
    asked_status: Option<CertId>,
    /// The size of the largest message that is accepted once the connection is established.
    max_bytes: usize,
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
            transport: Transport::for_handshake(Vec::new(), None),
            conversation: None,
            hello: None,
            authenticated: None,
            earlier: None,
            deadline: None,
            began: now,
            is_open: false,
            asked_status: None,
            max_bytes: MAX_HANDSHAKE_MESSAGE_BYTES,
            request_id: FIRST_REQUEST_ID,
            awaited_id: 0,
            output: VecDeque::new(),
        };
        connection.renew_deadline(now, Wait::Connect);
        connection
    }

    /// Returns an established connection that authenticates again, because the server required it
    /// with the error 391 ([AUTH-37]). There is no new hello ([AUTH-38]).
    ///
    /// [AUTH-37]: crate::requirements::authentication#AUTH-37
    /// [AUTH-38]: crate::requirements::authentication#AUTH-38
    pub(crate) fn again(
        now: Instant,
        address: Address,
        options: Arc<HandshakeOptions>,
        transport: Transport,
        earlier: &Authenticated,
        auth: &mut AuthState,
    ) -> Self {
        let mut connection = Self::new(now, address, ConnectionPurpose::Operations, options);
        connection.transport = transport;
        connection.max_bytes = connection.transport.max_bytes();
        connection.transport.limit_to_handshake();
        let login = auth.caches.login().cloned();
        connection.authenticate_again(now, earlier.clone(), login, auth);
        connection
    }

    /// Continues after the socket was connected: starts the opening conversations of the layers or,
    /// if no layer has one, queues the hello. Ignored unless the socket is being dialled.
    pub fn handle_connected(&mut self, now: Instant, auth: &mut AuthState) {
        if !matches!(self.state, State::Dialling) {
            return;
        }
        match self.options.layers.begin(&self.address) {
            Ok(layers) => {
                let compression = self.options.compression.clone();
                self.transport = Transport::for_handshake(layers, compression);
            }
            Err(error) => {
                if matches!(error.kind(), ErrorKind::Tls { .. }) {
                    // Not an error of the proxy.
                    self.enter(State::OpeningLayers);
                }
                return self.fail(error);
            }
        }
        if self.transport.opening().is_some() {
            self.enter(State::OpeningLayers);
        } else {
            self.on_open(now, auth);
        }
    }

    /// Processes bytes from the socket. Ignored before the socket is connected, and after the
    /// connection was established or has failed.
    pub fn handle_received(&mut self, now: Instant, bytes: &[u8], auth: &mut AuthState) {
        if matches!(self.state, State::Over | State::Dialling) {
            return;
        }
        if let Err(error) = self.transport.receive(bytes) {
            return self.fail(error);
        }
        while let Some(query) = self.transport.poll_status_query() {
            self.asked_status = Some(query.id().clone());
            self.output.push_back(Output::StatusNeeded(Box::new(query)));
        }
        if matches!(self.state, State::OpeningLayers) && self.transport.opening().is_none() {
            self.on_open(now, auth);
        }
        self.take_messages(now, bytes.len(), auth);
    }

    /// Takes the answer to a query about the certificate of the server. An answer that comes at
    /// another time is ignored.
    pub fn handle_status(
        &mut self,
        now: Instant,
        id: &CertId,
        status: RevocationStatus,
        auth: &mut AuthState,
    ) {
        if !matches!(self.state, State::OpeningLayers) {
            return;
        }
        if let Err(error) = self.transport.handle_status(id, status) {
            return self.fail(error);
        }
        if self.transport.opening().is_none() {
            self.on_open(now, auth);
        }
        self.take_messages(now, 0, auth);
    }

    /// Takes the keys that authentication waits for. Keys that come at another time are
    /// ignored. Keys of another derivation fail the connection.
    pub fn handle_keys(&mut self, now: Instant, keys: &DerivedKeys, auth: &mut AuthState) {
        let State::DerivingKeys { rounds } = self.state else {
            return;
        };
        let step = match (auth.mode.step_after_keys(), &mut self.conversation) {
            (Some(step), _) => step,
            (None, Some(conversation)) => conversation.handle_keys(keys, &mut auth.caches),
            (None, None) => return,
        };
        self.on_step(now, step, rounds);
    }

    /// Takes the result of the step of Kerberos that authentication waits for. A result that comes
    /// at another time is ignored.
    pub fn handle_kerberos_step(
        &mut self,
        now: Instant,
        result: KerberosStepResult,
        auth: &mut AuthState,
    ) {
        let State::AwaitingKerberos { rounds } = self.state else {
            return;
        };
        if let Some(conversation) = &mut self.conversation {
            let step = conversation.handle_kerberos_step(result, &mut auth.caches);
            self.on_step(now, step, rounds);
        }
    }

    /// Takes a part of the credential that the connection waits for. A part that comes at another
    /// time is ignored.
    pub fn handle_provided(&mut self, now: Instant, provided: &Provided, auth: &mut AuthState) {
        match (self.state, provided) {
            (State::AwaitingLogin, Provided::Login(login)) => match self.earlier.take() {
                Some(earlier) => {
                    self.authenticate_again(now, earlier, Some(login.clone()), auth);
                }
                None => self.send_hello(now, Some(login.clone()), auth),
            },
            (State::Fetching { rounds }, _) => {
                if let Some(conversation) = &mut self.conversation {
                    let AuthState { nonces, caches, .. } = auth;
                    let step = conversation.handle_provided(now, provided, caches, nonces);
                    self.on_step(now, step, rounds);
                }
            }
            _ => {}
        }
    }

    /// Fails the connection with `error`, for example because the socket was closed, or because
    /// keys were not derived. If the peer closed the connection before the reply to hello, the
    /// error can get a hint about TLS or another layer. Ignored after the connection was
    /// established or has failed.
    pub fn handle_failed(&mut self, error: Error) {
        let error = match self.state {
            State::Over => return,
            State::Dialling => match self.proxy() {
                Some(proxy) => not_dialled(&error, proxy),
                None => error,
            },
            State::OpeningLayers => match self.transport.opening() {
                Some(layer) => layer.describe_loss(error),
                None => error,
            },
            State::AwaitingHello { .. } if !self.options.layers.encrypt() => {
                let hint = "before hello was answered; does the server require TLS?";
                lost_early(error, hint)
            }
            State::AwaitingLogin
            | State::AwaitingHello { .. }
            | State::Authenticating { .. }
            | State::DerivingKeys { .. }
            | State::Fetching { .. }
            | State::AwaitingKerberos { .. }
            | State::Idle
            | State::Checking { .. } => error,
        };
        self.fail(error);
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
        self.proxy().unwrap_or(&self.address)
    }

    /// Returns the address to connect the socket to if it is not that of the server.
    fn proxy(&self) -> Option<&Address> {
        self.options.layers.dial_address(&self.address)
    }

    /// True once the socket is connected and the opening conversations of all layers are over.
    pub(crate) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// True if the conversation with a proxy is not over, or has failed.
    pub(crate) fn is_at_proxy(&self) -> bool {
        let opening = self.transport.opening();
        opening.is_some_and(|layer| layer.phase() == Phase::Proxy)
    }

    /// Returns the mechanism of the authentication that is under way.
    pub(crate) fn mechanism(&self) -> Option<AuthMechanism> {
        self.conversation.as_ref().map(Conversation::mechanism)
    }

    /// Returns the facts of TLS once its handshake is over; `None` without TLS.
    pub(crate) fn tls_facts(&self) -> Option<TlsFacts> {
        self.transport.tls_facts()
    }

    /// Returns the number of bytes that were received and not consumed.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.transport.buffered_bytes()
    }

    /// Compresses this document as a message. Returns the compressor of the connection, and the
    /// sizes in bytes of the message before and after; `None` if requests are not compressed.
    pub(crate) fn compress_sample(
        &mut self,
        document: &RawDocument,
    ) -> Option<(Compressor, usize, usize)> {
        let (plain, compressed) = self.transport.compress_sample(document);
        let compressor = self.transport.compressor()?;
        Some((compressor, plain, compressed))
    }

    /// Splits an established connection into its transport and the hello reply; `None` for a
    /// connection without a hello reply.
    #[must_use]
    pub fn into_parts(self) -> Option<(Transport, HelloReply)> {
        self.hello.map(|hello| (self.transport, hello))
    }

    /// Takes the authentication of the connection; `None` if it needed none, or has not succeeded.
    pub(crate) fn take_authenticated(&mut self) -> Option<Authenticated> {
        self.authenticated.take()
    }

    /// Takes the transport of a connection that has authenticated again.
    pub(crate) fn into_transport(self) -> Transport {
        self.transport
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
            State::Dialling if self.proxy().is_some() => Phase::Proxy,
            State::OpeningLayers => self.transport.opening().map_or(Phase::Hello, |l| l.phase()),
            State::Dialling | State::AwaitingHello { .. } => Phase::Hello,
            State::AwaitingLogin
            | State::Authenticating { .. }
            | State::DerivingKeys { .. }
            | State::Fetching { .. }
            | State::AwaitingKerberos { .. }
            | State::Idle
            | State::Checking { .. }
            | State::Over => Phase::Authentication,
        }
    }
}
