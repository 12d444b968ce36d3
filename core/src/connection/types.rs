//! The purposes of connections, the options that they have in common, and their reports.

use super::Layers;
use crate::{
    auth::KeyDerivation,
    error::{Error, ErrorKind, NetworkFault},
    hello::HelloReply,
    options::{Credential, ServerApi},
};
use bson::{RawDocumentBuf, oid::ObjectId};
use std::{sync::Arc, time::Duration};

/// What a connection is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPurpose {
    /// To check a server or to measure its round trip time: never authenticates (AUTH-13).
    Monitor,
    /// To run operations; an operation waited for it when it was begun.
    Operations,
    /// To run operations later; it is made for `minPoolSize`.
    Population,
}

/// The options that all connections of a client have in common.
#[derive(Clone, Debug)]
pub struct HandshakeOptions {
    /// The layers between the socket and the messages, such as TLS.
    pub layers: Layers,
    /// Client metadata, which each hello of a new connection carries.
    pub metadata: RawDocumentBuf,
    /// The credential to authenticate with; `None` for no authentication.
    pub credential: Option<Arc<Credential>>,
    /// Sends the legacy hello first (HELLO-4). False with a server API version or a load balancer.
    pub legacy_hello: bool,
    /// True behind a load balancer (HELLO-11).
    pub load_balanced: bool,
    /// The declared API version, which every command carries.
    pub server_api: Option<ServerApi>,
    /// `connectTimeoutMS`: bounds connecting and the layers' handshakes together, and each command
    /// after that where neither of the others does.
    pub connect_timeout: Option<Duration>,
    /// `socketTimeoutMS`: bounds each command, unless `timeout` is there.
    pub socket_timeout: Option<Duration>,
    /// `timeoutMS` of the client: bounds each command on a connection that is made in the
    /// background.
    pub timeout: Option<Duration>,
}

/// How far an application's connection had come when an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Connecting to a proxy, or the proxy's own conversation. The error says nothing about the
    /// load of the server (CMAP-46, SOCKS-19).
    Proxy,
    /// Connecting, TLS, or the connection's first hello.
    Hello,
    /// Authentication.
    Authentication,
    /// A command of an operation.
    Operation,
}

/// What a connection reports, in order.
#[derive(Debug)]
pub enum Output {
    /// The hello of the handshake was answered with `ok: 1`.
    Greeted {
        /// The whole reply.
        reply: RawDocumentBuf,
        /// The fields that the driver reads in it.
        hello: Box<HelloReply>,
        /// The time from sending the hello to receiving its reply.
        round_trip: Duration,
        /// Behind a load balancer, the service that answered.
        service: Option<ObjectId>,
    },
    /// The connection waits for these keys, which may take long to derive.
    /// [`Connection::handle_keys`](super::Connection::handle_keys) takes them.
    KeysNeeded(KeyDerivation),
    /// The connection may run operations.
    Established,
    /// A check was answered.
    Checked {
        /// The whole reply.
        reply: RawDocumentBuf,
        /// The time from sending the check to receiving its reply. For the later replies of a
        /// stream the time since the reply before.
        round_trip: Duration,
        /// True if another reply follows without a request.
        more_to_come: bool,
    },
    /// The connection cannot be used; nothing more will come.
    Failed {
        /// Why it cannot be used.
        error: Error,
        /// How far the connection had come.
        phase: Phase,
    },
}

/// Returns the error of a peer that closed the connection while bytes of it were due.
#[must_use]
pub fn closed_by_peer() -> Error {
    Error::network(NetworkFault::Closed, "the server closed the connection")
}

/// Adds to the error of a connection that was lost during its handshake when that was, and what may
/// be wrong. A server that requires TLS, or does not know it, closes the connection without a word.
/// Other errors pass unchanged.
pub(super) fn lost_early(error: Error, hint: &str) -> Error {
    match error.kind() {
        ErrorKind::Network {
            fault: fault @ (NetworkFault::Closed | NetworkFault::Reset),
            message,
        } => Error::network(*fault, format!("{message} {hint}")),
        _ => error,
    }
}
