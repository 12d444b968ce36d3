//! The kinds of errors and their parts.

use super::{CommandError, Error, WriteFailure};
use std::fmt;

/// The party that has to change something before the operation can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Responsible {
    /// The application: for example, an argument, an option or the credentials are wrong, or the
    /// client is closed.
    Caller,
    /// The server: for example, it replied with an error, its reply cannot be understood, or TLS
    /// with it failed.
    Peer,
    /// The network: for example, the server refused or reset the connection, is unreachable or too
    /// slow, or no suitable server was found.
    Network,
    /// A limit of the client was reached, or its connection pool was closed.
    Limit,
}

/// The part of a connection string that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriPart {
    /// The text before `://`.
    Scheme,
    /// The user name and the password.
    UserInfo,
    /// One of the hosts.
    Host,
    /// The default database.
    Database,
    /// The key or the value of an option, or a combination of options.
    Options,
}

impl fmt::Display for UriPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "scheme",
            Self::UserInfo => "user information",
            Self::Host => "host",
            Self::Database => "database",
            Self::Options => "options",
        })
    }
}

/// The way in which the network failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NetworkFault {
    /// The host refused the connection: no process listens on the port, or the socket path does not
    /// exist.
    Refused,
    /// The peer closed the connection while the client still expected bytes.
    Closed,
    /// The peer or the network reset the connection.
    Reset,
    /// The host or the network cannot be reached.
    Unreachable,
    /// The host name could not be resolved to an address.
    NotResolved,
    /// The process or the system has no free socket, or no memory or port for one.
    OutOfSockets,
    /// Any other error that the system reports.
    Other,
}

/// The way in which TLS failed. The loss of the connection below TLS is a [`NetworkFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFault {
    /// The certificate was refused: for example, it is missing, not trusted, expired, revoked or
    /// malformed.
    Certificate,
    /// The certificate is for another host name, or the host cannot be a name in a certificate.
    HostName,
    /// The handshake failed for another reason: for example, the peer does not speak TLS, or offers
    /// no TLS version or cipher that this client supports.
    Handshake,
    /// The client's own keys or certificates cannot be used.
    Configuration,
    /// An established connection failed: the peer sent a fatal alert or an invalid record. Counts
    /// as a network error ([`Error::is_network`]).
    Broken,
}

/// The step that was not finished when a deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Server selection: waiting for a suitable server.
    Selection,
    /// Check out: waiting for a connection of the pool.
    CheckOut,
    /// Connecting: waiting for name resolution, the TCP connection, the proxy or the TLS handshake.
    /// For the first check on a monitor's connection, also for the reply to `hello`.
    Connect,
    /// Handshake: waiting for the reply to `hello` or to a step of authentication, or for the reply
    /// to a later check by a monitor.
    Handshake,
    /// Exchange: waiting for the reply to a command.
    Exchange,
}

impl Wait {
    /// True if the client waited for the network, and not for a server or a connection of its own
    /// pool.
    #[must_use]
    pub const fn is_network(self) -> bool {
        match self {
            Self::Selection | Self::CheckOut => false,
            Self::Connect | Self::Handshake | Self::Exchange => true,
        }
    }
}

/// The kind of an error, with its details.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The connection string cannot be used.
    InvalidUri {
        /// The part that is wrong.
        part: UriPart,
        /// The mistake in that part, and how to correct it.
        message: String,
    },
    /// An option's value cannot be used.
    InvalidOption {
        /// The name of the option in connection strings.
        option: &'static str,
        /// The mistake in the value, and how to correct it.
        message: String,
    },
    /// An argument of a call cannot be used.
    InvalidArgument {
        /// The mistake in the argument, and how to correct it.
        message: String,
    },
    /// A value could not be encoded as BSON, or BSON could not be decoded to the requested type.
    Bson {
        /// The value or type that does not fit.
        message: String,
    },
    /// The connection could not be established, or it broke.
    Network {
        /// The way in which the network failed.
        fault: NetworkFault,
        /// The text of the error, for example that of the operating system.
        message: String,
    },
    /// A deadline passed.
    Timeout {
        /// The step that was not finished.
        wait: Wait,
        /// The time limit, and the event that did not occur in time.
        message: String,
    },
    /// TLS failed. The loss of the connection below TLS is a [`Network`](Self::Network) error.
    Tls {
        /// The way in which TLS failed.
        fault: TlsFault,
        /// The text of the error, for example that of the TLS library.
        message: String,
    },
    /// The peer sent bytes or a reply that violates the MongoDB protocol.
    Protocol {
        /// The way in which the bytes or the reply violate the protocol.
        message: String,
    },
    /// Authentication failed: for example, the server rejected the credentials, or the client could
    /// not verify the server.
    Authentication {
        /// The authentication mechanism, for example `SCRAM-SHA-256`.
        mechanism: &'static str,
        /// The reason of the failure.
        message: String,
        /// The error reply of the server, if it sent one.
        cause: Option<Box<CommandError>>,
    },
    /// The server replied with `ok: 0`.
    Command(Box<CommandError>),
    /// The server replied with `ok: 1`, but some writes failed or were not confirmed.
    Write(Box<WriteFailure>),
    /// No suitable server was found: for example before the deadline, after the one permitted scan,
    /// or because the server of a cursor cannot be used.
    ServerSelection {
        /// The reason, for example the selection criteria with the types or errors of the known
        /// servers.
        message: String,
        /// The error of a server description: of the first one that has an error, in the order of
        /// addresses, or of the only permitted server.
        cause: Option<Error>,
    },
    /// A server supports no wire version that this driver supports.
    Incompatible {
        /// The server, its wire version and the supported versions, in the words of the
        /// specification ([SDAM-60]).
        ///
        /// [SDAM-60]: crate::requirements::discovery#SDAM-60
        message: String,
    },
    /// Server discovery rejected the reply of a server, or removed the server from the topology.
    Discovery {
        /// The reason why the server was rejected or removed.
        message: String,
    },
    /// The pool was cleared while the operation waited for a connection, or is paused until the
    /// server is checked. The operation can be retried ([CMAP-142]).
    ///
    /// [CMAP-142]: crate::requirements::pool#CMAP-142
    PoolCleared {
        /// The message that the specification defines, with the error that caused the clear;
        /// another message if there was no clear.
        message: String,
    },
    /// The pool was closed ([CMAP-141]).
    ///
    /// [CMAP-141]: crate::requirements::pool#CMAP-141
    PoolClosed {
        /// The message that the specification defines.
        message: String,
    },
    /// No connection became available within the time limit of the wait queue ([CMAP-143]).
    ///
    /// [CMAP-143]: crate::requirements::pool#CMAP-143
    WaitQueueTimeout {
        /// The message that the specification defines.
        message: String,
    },
    /// The pool was cleared while the operation used a connection, because a check of the server
    /// timed out or because the process was forked. The connection is closed; the operation can be
    /// retried ([CMAP-97]). [`is_pool_cleared`](Error::is_pool_cleared) is true for this kind and
    /// for `PoolCleared`.
    ///
    /// [CMAP-97]: crate::requirements::pool#CMAP-97
    Interrupted {
        /// The message that the specification defines.
        message: String,
    },
    /// A limit of the client was reached.
    Limit {
        /// The name of the limited quantity.
        what: &'static str,
        /// The largest permitted value.
        limit: u64,
        /// The requested value.
        actual: u64,
    },
    /// The client is closed.
    ClientClosed,
    /// The async runtime cannot run the client: for example, the client was created outside of a
    /// runtime, or its runtime has ended. Create the client in the runtime that uses it.
    Runtime {
        /// The reason, and how to correct it.
        message: String,
    },
    /// The future of the operation was dropped before the operation ended, or a check was cancelled
    /// because no operation waits for it any more. Only events contain this kind.
    Abandoned,
}

impl ErrorKind {
    /// Returns the party that has to change something before the operation can succeed.
    #[must_use]
    pub const fn responsible(&self) -> Responsible {
        match self {
            Self::InvalidUri { .. }
            | Self::InvalidOption { .. }
            | Self::InvalidArgument { .. }
            | Self::Bson { .. }
            | Self::Authentication { .. }
            | Self::ClientClosed
            | Self::Runtime { .. }
            | Self::Abandoned => Responsible::Caller,
            Self::Network { .. }
            | Self::Tls {
                fault: TlsFault::Broken,
                ..
            }
            | Self::Timeout { .. }
            | Self::ServerSelection { .. }
            | Self::PoolCleared { .. }
            | Self::Interrupted { .. } => Responsible::Network,
            Self::Tls { .. }
            | Self::Protocol { .. }
            | Self::Command(_)
            | Self::Write(_)
            | Self::Incompatible { .. }
            | Self::Discovery { .. } => Responsible::Peer,
            Self::PoolClosed { .. } | Self::WaitQueueTimeout { .. } | Self::Limit { .. } => {
                Responsible::Limit
            }
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidUri { part, message } => {
                write!(f, "invalid connection string, {part}: {message}")
            }
            Self::InvalidOption { option, message } => {
                write!(f, "invalid option {option}: {message}")
            }
            Self::InvalidArgument { message } => write!(f, "invalid argument: {message}"),
            Self::Bson { message } => write!(f, "BSON error: {message}"),
            Self::Network { message, .. } => write!(f, "network error: {message}"),
            Self::Timeout { message, .. } => write!(f, "timed out: {message}"),
            Self::Tls { message, .. } => write!(f, "TLS: {message}"),
            Self::Protocol { message } => {
                write!(f, "the server violated the wire protocol: {message}",)
            }
            Self::Authentication {
                mechanism,
                message,
                cause,
            } => {
                write!(f, "authentication failed ({mechanism}): {message}")?;
                match cause {
                    Some(cause) => write!(f, ": {cause}"),
                    None => Ok(()),
                }
            }
            Self::Command(fault) => write!(f, "command failed: {fault}"),
            Self::Write(fault) => write!(f, "write failed: {fault}"),
            Self::ServerSelection { message, .. } => {
                write!(f, "server selection failed: {message}")
            }
            Self::Incompatible { message }
            | Self::Discovery { message }
            | Self::PoolCleared { message }
            | Self::PoolClosed { message }
            | Self::Runtime { message }
            | Self::WaitQueueTimeout { message }
            | Self::Interrupted { message } => f.write_str(message),
            Self::Limit {
                what,
                limit,
                actual,
            } => {
                write!(f, "{what} is {actual}, but the limit is {limit}")
            }
            Self::ClientClosed => f.write_str("the client is closed"),
            Self::Abandoned => f.write_str("the operation was dropped before its end"),
        }
    }
}

impl PartialEq<ErrorKind> for Error {
    fn eq(&self, kind: &ErrorKind) -> bool {
        self.kind() == kind
    }
}
