//! The purposes of connections, the options that they share, and their reports.

use super::Layers;
use crate::{
    address::Address,
    auth::{KerberosStep, KeyDerivation, Need},
    compression::CompressionPlan,
    error::{Error, ErrorKind, IoError, NetworkFault},
    hello::HelloAnswer,
    options::{Credential, ServerApi},
    tls::StatusQuery,
};
use bson::{RawDocumentBuf, oid::ObjectId};
use std::{sync::Arc, time::Duration};

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPurpose {
    /// The connection is a monitor's: for checks of a server, or for measurements of its round trip
    /// time. Such a connection does not authenticate ([AUTH-13]).
    ///
    /// [AUTH-13]: crate::requirements::authentication#AUTH-13
    Monitor,
    /// The connection is for operations. The pool makes the connection because an operation waits
    /// for one.
    Operations,
    /// The connection is for operations. The pool makes the connection in the background to reach
    /// `minPoolSize`.
    Population,
}

/// The options that all connections of a client share. The three time limits do not apply to the
/// connections of monitors, because each monitor limits its checks itself.
#[derive(Clone, Debug)]
pub struct HandshakeOptions {
    /// The layers between the socket and the messages, such as TLS.
    pub layers: Layers,
    /// The compressors that each connection announces; `None` for none.
    pub compression: Option<Arc<CompressionPlan>>,
    /// The client metadata, which the hello of each handshake carries.
    pub metadata: RawDocumentBuf,
    /// The credential to authenticate with; `None` for no authentication.
    pub credential: Option<Arc<Credential>>,
    /// True if the handshake begins with the legacy hello. False with a server API version or
    /// behind a load balancer ([HELLO-4]).
    ///
    /// [HELLO-4]: crate::requirements::handshake#HELLO-4
    pub legacy_hello: bool,
    /// True behind a load balancer. The hello then carries `loadBalanced: true` ([HELLO-11]).
    ///
    /// [HELLO-11]: crate::requirements::handshake#HELLO-11
    pub load_balanced: bool,
    /// The declared API version, which every command carries; `None` if the client declares none.
    pub server_api: Option<ServerApi>,
    /// `connectTimeoutMS`: limits connecting and the layers' handshakes together. This time also
    /// limits each command of a handshake that neither `socket_timeout` nor `timeout` limits.
    /// `None` means no limit.
    pub connect_timeout: Option<Duration>,
    /// `socketTimeoutMS`: limits each command of a handshake, unless `timeout` is set.
    pub socket_timeout: Option<Duration>,
    /// `timeoutMS` of the client: limits each command in the handshake of a connection for
    /// `minPoolSize`. Zero means that `connect_timeout` limits these commands.
    pub timeout: Option<Duration>,
}

/// The phase of a pool's connection in which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Connecting to a proxy, or the conversation with the proxy. An error in this phase is no sign
    /// of an overloaded server ([CMAP-46], [SOCKS-19]).
    ///
    /// [CMAP-46]: crate::requirements::pool#CMAP-46
    /// [SOCKS-19]: crate::requirements::proxies#SOCKS-19
    Proxy,
    /// Connecting, the TLS handshake, or the first hello of the connection.
    Hello,
    /// The commands of authentication after the first hello, and the work that they need, such
    /// as the derivation of keys.
    Authentication,
    /// A command of an operation.
    Operation,
}

/// A report of a connection, from [`Connection::poll_output`](super::Connection::poll_output).
#[derive(Debug)]
pub enum Output {
    /// The hello of the handshake was answered with `ok: 1`.
    HelloAnswered {
        /// The reply.
        answer: Box<HelloAnswer>,
        /// The time from sending the hello to receiving its reply.
        round_trip: Duration,
        /// The service that answered, behind a load balancer; `None` otherwise.
        service: Option<ObjectId>,
    },
    /// The connection waits for these keys, whose derivation may take long.
    /// [`Connection::handle_keys`](super::Connection::handle_keys) takes them.
    KeysNeeded(KeyDerivation),
    /// The connection waits for this part of the credential.
    /// [`Connection::handle_provided`](super::Connection::handle_provided) takes it.
    CredentialNeeded(Need),
    /// The connection waits for the answer to this query about the certificate of the server.
    /// [`Connection::handle_status`](super::Connection::handle_status) takes it.
    StatusNeeded(Box<StatusQuery>),
    /// The connection waits for this step of the Kerberos library, which may block for a long time.
    /// [`Connection::handle_kerberos_step`](super::Connection::handle_kerberos_step) takes the
    /// result.
    KerberosStepNeeded(KerberosStep),
    /// The connection is ready for operations. No further report follows.
    Established,
    /// A check was answered.
    Checked {
        /// The reply.
        answer: Box<HelloAnswer>,
        /// The time from sending the check to receiving its reply. For later replies of a stream,
        /// the time since the previous reply.
        round_trip: Duration,
        /// True if another reply follows without a request.
        more_to_come: bool,
    },
    /// The connection cannot be used. No further report follows.
    Failed {
        /// The error that ended the connection.
        error: Error,
        /// The phase in which the error occurred. The phase has no meaning for the connection of a
        /// monitor.
        phase: Phase,
    },
}

/// Returns the error of a connection that the peer closed while bytes were expected from it.
#[must_use]
pub fn closed_by_peer() -> Error {
    Error::network(NetworkFault::Closed, "the server closed the connection")
}

/// Returns the error of a connection whose proxy could not be dialled. `error` is that of the
/// shell, which knows only the address of the proxy. The result names the proxy in its text, and
/// the server of the connection is added later.
pub(super) fn not_dialled(error: &Error, proxy: &Address) -> Error {
    let text = |message: &str| format!("cannot connect to the proxy {proxy}: {message}");
    match error.kind() {
        ErrorKind::Io(IoError { fault, message, .. }) => Error::network(*fault, text(message)),
        ErrorKind::Timeout { wait, message } => Error::timeout(*wait, text(message)),
        kind => Error::new(kind.clone()),
    }
}

/// Adds a hint to the error of a connection that was lost during its handshake. The hint states
/// when the connection was lost and a likely cause. A server that requires TLS, or does not support
/// TLS, may close the connection without giving a reason. Errors other than that of a closed or
/// reset connection are returned unchanged.
pub(super) fn lost_early(error: Error, hint: &str) -> Error {
    match error.kind() {
        ErrorKind::Io(IoError {
            fault: fault @ (NetworkFault::Closed | NetworkFault::Reset),
            message,
            ..
        }) => Error::network(*fault, format!("{message} {hint}")),
        _ => error,
    }
}
