//! The kinds of error.

use super::{CommandError, Error, WriteFailure};
use std::fmt;

/// Who has to change something for an error to go away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Responsible {
    /// The application: an argument, an option, a connection string.
    Caller,
    /// The server answered, and the answer is an error or not understandable.
    Peer,
    /// The way to the server: refused, reset, unreachable, too slow.
    Network,
    /// A bound of the client was reached.
    Limit,
}

/// The part of a connection string that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriPart {
    /// What stands before `://`.
    Scheme,
    /// User name and password.
    UserInfo,
    /// One of the hosts.
    Host,
    /// The default database.
    Database,
    /// An option's key or value, or a combination of options.
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

/// How the network failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NetworkFault {
    /// Nobody listens there.
    Refused,
    /// The peer closed the connection with bytes still due.
    Closed,
    /// The connection broke.
    Reset,
    /// No way leads there.
    Unreachable,
    /// The host name has no address.
    NotResolved,
    /// The process or the system has no more sockets, or no memory or port for one.
    OutOfSockets,
    /// Anything else that the system reports.
    Other,
}

/// How TLS failed, other than by the loss of the connection below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFault {
    /// The certificate is not trusted, expired or malformed, or the server sent more certificates
    /// than are looked at.
    Certificate,
    /// The certificate is for another host.
    HostName,
    /// The peer does not speak TLS, or not a version or cipher that we do.
    Handshake,
    /// Keys or certificates of our own cannot be used.
    Configuration,
    /// An established connection broke: the peer sent a fatal alert, or a record that is not valid.
    /// Counts as a network error ([`Error::is_network`]).
    Broken,
}

/// What was being waited for when a deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// For a server that suits the operation.
    Selection,
    /// For a connection of a pool.
    CheckOut,
    /// For a TCP connection or its TLS handshake.
    Connect,
    /// For the answer to `hello` or to a step of authentication.
    Handshake,
    /// For the reply of an operation.
    Exchange,
}

impl Wait {
    /// True if the network was waited for, and not the client itself.
    #[must_use]
    pub const fn is_network(self) -> bool {
        match self {
            Self::Selection | Self::CheckOut => false,
            Self::Connect | Self::Handshake | Self::Exchange => true,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The connection string cannot be used.
    InvalidUri {
        /// The part that is wrong.
        part: UriPart,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// An option's value cannot be used.
    InvalidOption {
        /// The option, by its name in connection strings.
        option: &'static str,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// An argument of a call cannot be used.
    InvalidArgument {
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// A value could not be turned into BSON, or BSON into the value asked for.
    Bson {
        /// What does not fit.
        message: String,
    },
    /// The connection could not be made, or broke.
    Network {
        /// How it failed.
        fault: NetworkFault,
        /// The system's words.
        message: String,
    },
    /// A deadline passed.
    Timeout {
        /// What was being waited for.
        wait: Wait,
        /// The limit and what was missing.
        message: String,
    },
    /// TLS failed, other than by the loss of the connection below it.
    Tls {
        /// How it failed.
        fault: TlsFault,
        /// The TLS library's words.
        message: String,
    },
    /// The peer sent something that is not the MongoDB protocol.
    Protocol {
        /// What was expected and what came.
        message: String,
    },
    /// The server or the client refused the other's proof of identity.
    Authentication {
        /// The mechanism, for example `SCRAM-SHA-256`.
        mechanism: &'static str,
        /// Why.
        message: String,
        /// The server's own error, where it sent one.
        cause: Option<Box<CommandError>>,
    },
    /// The server answered with `ok: 0`.
    Command(Box<CommandError>),
    /// The server answered with `ok: 1`, but some writes failed or were not confirmed.
    Write(Box<WriteFailure>),
    /// No server suited the operation before the deadline.
    ServerSelection {
        /// The criteria, and why the known servers did not suit.
        message: String,
        /// The error of a server that could not be reached or understood, where there is one: the
        /// first in the order of addresses. It names its server.
        cause: Option<Error>,
    },
    /// A server speaks only versions of the protocol that this driver does not.
    Incompatible {
        /// The text of SDAM-60.
        message: String,
    },
    /// Discovery does not accept what a server says about itself, or no longer asks it.
    Discovery {
        /// What does not fit.
        message: String,
    },
    /// The pool was cleared while the operation waited for a connection; safe to retry (CMAP-142).
    PoolCleared {
        /// The text of the specification, with the cause.
        message: String,
    },
    /// The pool was closed (CMAP-141).
    PoolClosed {
        /// The text of the specification.
        message: String,
    },
    /// No connection became free in time (CMAP-143).
    WaitQueueTimeout {
        /// The text of the specification.
        message: String,
    },
    /// The pool was cleared while the operation used a connection, because the monitor lost the
    /// server, and the connection was broken; safe to retry (CMAP-97). Together with `PoolCleared`
    /// it is what [`is_pool_cleared`](Error::is_pool_cleared) means.
    Interrupted {
        /// The text of the specification.
        message: String,
    },
    /// A bound of the client was reached.
    Limit {
        /// The bound's name.
        what: &'static str,
        /// Its value.
        limit: u64,
        /// What was asked for.
        actual: u64,
    },
    /// The client is closed.
    ClientClosed,
    /// The async runtime cannot carry the client: there is none where the client is made, or the
    /// one on which it was made has ended. A client is to be made in the runtime that uses it.
    Runtime {
        /// What is missing, and what to do.
        message: String,
    },
    /// Whoever waited for the operation left before its end; only events tell of this.
    Abandoned,
}

impl ErrorKind {
    /// Who has to change something for this error to go away.
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
            Self::Bson { message } => write!(f, "BSON: {message}"),
            Self::Network { message, .. } => write!(f, "network error: {message}"),
            Self::Timeout { message, .. } => write!(f, "timed out: {message}"),
            Self::Tls { message, .. } => write!(f, "TLS: {message}"),
            Self::Protocol { message } => write!(f, "the server broke the protocol: {message}"),
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
                write!(
                    f,
                    "{what} is limited to {limit}, but {actual} were asked for"
                )
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
