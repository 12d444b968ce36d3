//! What connections are made for, what they have in common, what they report.

use crate::{
    auth::KeyDerivation,
    error::{Error, ErrorKind, NetworkFault},
    hello::HelloReply,
    options::{Credential, ServerApi},
    tls::TlsContext,
};
use bson::{RawDocumentBuf, oid::ObjectId};
use std::{sync::Arc, time::Duration};

/// What a connection is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To check a server or to measure its round trip time: never authenticates (AUTH-13).
    Monitor,
    /// To run operations; one waits for it, or did when it was begun.
    Operations,
    /// To run operations later: it is made for `minPoolSize`.
    Population,
}

/// What all connections of a client have in common.
#[derive(Clone, Debug)]
pub struct HandshakeOptions {
    /// TLS, if wanted.
    pub tls: Option<TlsContext>,
    /// Client metadata.
    pub metadata: RawDocumentBuf,
    /// Who to authenticate as.
    pub credential: Option<Arc<Credential>>,
    /// Say the legacy hello first (HELLO-4); false with a server API version or a load balancer.
    pub legacy_hello: bool,
    /// Behind a load balancer (HELLO-11).
    pub load_balanced: bool,
    /// The declared API version, which every command carries.
    pub server_api: Option<ServerApi>,
    /// `connectTimeoutMS`: bounds connecting and TLS together, and each command after that where
    /// neither of the others does.
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
        /// From sending to receiving.
        round_trip: Duration,
        /// Behind a load balancer, who answered.
        service: Option<ObjectId>,
    },
    /// The connection waits for these keys, which may take long to derive. Hand them to
    /// [`Connection::handle_keys`](super::Connection::handle_keys).
    KeysNeeded(KeyDerivation),
    /// The connection may run operations.
    Established,
    /// A check was answered.
    Checked {
        /// The whole reply.
        reply: RawDocumentBuf,
        /// From sending to receiving; zero for a reply that was not asked for anew.
        round_trip: Duration,
        /// Another reply will follow by itself.
        more_to_come: bool,
    },
    /// The connection cannot be used; nothing more will come.
    Failed {
        /// Why.
        error: Error,
        /// How far it had come.
        phase: Phase,
    },
}

/// The error of a peer that closed the connection while something was expected of it.
#[must_use]
pub fn closed_by_peer() -> Error {
    Error::network(NetworkFault::Closed, "the server closed the connection")
}

/// Adds to the loss of a young connection when it was, and so what may be wrong. A server that
/// wants the other of TLS and no TLS just hangs up; other errors pass unchanged.
pub(super) fn lost_early(error: Error, hint: &str) -> Error {
    match error.kind() {
        ErrorKind::Network {
            fault: fault @ (NetworkFault::Closed | NetworkFault::Reset),
            message,
        } => Error::network(*fault, format!("{message} {hint}")),
        _ => error,
    }
}
