//! The kinds of errors and their parts.

use super::{
    BsonError, BulkWriteError, CommandError, CustomError, Error, GridFsErrorKind, InsertManyError,
    IoError, WriteFailure,
};
use crate::text::Escaping;
use std::fmt::{self, Write as _};

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
    /// No party in particular: a limit of the client or of the server was exceeded, or a connection
    /// pool was closed.
    Limit,
}

/// The part of a connection string that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriPart {
    /// The text before `://`.
    Scheme,
    /// The user name or the password.
    UserInfo,
    /// The list of hosts, or one of them.
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

/// The argument that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Argument {
    /// This part of the connection string.
    Uri(UriPart),
    /// The option with this name, for example `maxStalenessSeconds`. It is the name in connection
    /// strings if the option has one.
    Option(&'static str),
    /// An argument of the call.
    Call,
}

/// The way in which the network failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NetworkFault {
    /// The connection was refused, for example because no process listens on the port, or because
    /// the socket path does not exist.
    Refused,
    /// The peer closed the connection, or the connection belongs to the parent process of a fork.
    Closed,
    /// The peer or the network reset the connection.
    Reset,
    /// The host or the network cannot be reached.
    Unreachable,
    /// The host name could not be resolved to an address.
    NotResolved,
    /// The process or the system has no free socket, or lacks the memory, the port or the local
    /// address for a socket.
    OutOfSockets,
    /// The proxy requires authentication, or refused the user name or the password.
    ProxyAuthentication,
    /// Any other network failure, for example of a proxy.
    Other,
}

/// The way in which a DNS lookup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DnsFailure {
    /// The name does not exist.
    NoSuchName,
    /// The name exists, but has no record of the wanted type.
    NoRecords,
    /// The name servers refused the query or could not answer it, or no name server is known.
    Refused,
    /// The name servers could not be reached, or did not answer in time.
    Unreachable,
    /// The answer violates the DNS protocol or the rules for seed lists.
    Malformed,
}

/// The way in which TLS failed. The loss of the connection below TLS is a [`NetworkFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFault {
    /// The certificate of the server was refused: for example, it is missing, not trusted, expired
    /// or malformed, or lacks an OCSP response that it requires.
    Certificate,
    /// The issuer of the server's certificate, or of another certificate of its chain, has revoked
    /// it.
    Revoked,
    /// The certificate is for another host name, or the host cannot be a name in a certificate.
    HostName,
    /// The handshake failed for another reason: for example, the peer does not speak TLS, or offers
    /// no TLS version or cipher that this client supports.
    Handshake,
    /// The TLS options of the client cannot be used, for example because a key or a certificate
    /// cannot be read, or the client does not know the time of day, which the check of certificates
    /// needs.
    Configuration,
    /// TLS failed on an established connection, for example because the peer sent a fatal alert or
    /// an invalid record, or the peer sent too many TLS messages without data, even during the
    /// handshake. This fault counts as a network error ([`Error::is_network`]).
    Broken,
}

/// The step that was not finished when a deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Server selection for a retry: waiting for a suitable server. The first server selection of a
    /// command fails with [`ErrorKind::ServerSelection`] instead.
    Selection,
    /// Check out: for example, waiting for a pinned connection, or no time was left to send the
    /// command. If the time passes in the wait queue of a pool, the error is
    /// [`ErrorKind::WaitQueueTimeout`] instead.
    CheckOut,
    /// Connecting: waiting for name resolution, for the connection of the socket, for the proxy or
    /// for the TLS handshake. For the first check on a monitor's connection, also for the reply to
    /// `hello`.
    Connect,
    /// Handshake: waiting for the reply to `hello`, for a step of authentication, or for the reply
    /// to a later check by a monitor.
    Handshake,
    /// Authentication, in a queue of the client: earlier authentications of the client were not
    /// over. The server is not at fault.
    Queue,
    /// Exchange: waiting for the reply to a command, or the time limit passed before a retry.
    Exchange,
    /// Transaction: repeating a whole transaction, or its commit. The last failure is the source of
    /// the error.
    Transaction,
}

impl Wait {
    /// True for [`Connect`](Self::Connect), [`Handshake`](Self::Handshake), [`Queue`](Self::Queue)
    /// and [`Exchange`](Self::Exchange): the client waits for the network, or for its turn to use
    /// it.
    ///
    /// ```
    /// use onionskin_core::error::Wait;
    ///
    /// assert!(Wait::Exchange.is_network());
    /// assert!(!Wait::Selection.is_network());
    /// ```
    #[must_use]
    pub const fn is_network(self) -> bool {
        match self {
            Self::Selection | Self::CheckOut | Self::Transaction => false,
            Self::Connect | Self::Handshake | Self::Queue | Self::Exchange => true,
        }
    }
}

/// The kind of an error, with its details.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A connection string, an option or another argument cannot be used, or this version does not
    /// support it.
    InvalidArgument {
        /// The mistake in the argument.
        message: String,
        /// The argument with the mistake.
        argument: Argument,
    },
    /// Operations of a bulk write failed, or an error ended it, which is then the cause of this
    /// error.
    BulkWrite(BulkWriteError),
    /// The application made the error ([`Error::custom`](super::Error::custom)).
    Custom(CustomError),
    /// A value could not be encoded as BSON, or BSON could not be decoded to the requested type.
    Bson(BsonError),
    /// The connection could not be established, or it broke.
    Io(IoError),
    /// A DNS lookup failed.
    DnsResolve {
        /// The way in which the lookup failed.
        failure: DnsFailure,
        /// The query, the name server, its answer, and what to do.
        message: String,
    },
    /// A deadline passed. Server selection and the wait queue of a pool have kinds of their own:
    /// [`ServerSelection`](Self::ServerSelection) and [`WaitQueueTimeout`](Self::WaitQueueTimeout).
    Timeout {
        /// The step that was not finished.
        wait: Wait,
        /// The event that did not occur in time.
        message: String,
    },
    /// TLS failed. The loss of the connection below TLS is an [`Io`](Self::Io) error.
    Tls {
        /// The way in which TLS failed.
        fault: TlsFault,
        /// The text of the error, for example that of the TLS library.
        message: String,
    },
    /// The peer sent bytes or a reply that violates the MongoDB protocol.
    InvalidResponse {
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
    Command(CommandError),
    /// The server replied to an `insert_many` with `ok: 1`, but some inserts failed or were not
    /// confirmed.
    InsertMany(InsertManyError),
    /// The server replied to another write with `ok: 1`, but the write failed or was not confirmed.
    Write(WriteFailure),
    /// Server selection found no suitable server: for example, its time limit passed, the only
    /// permitted scan ended, or the server of a cursor cannot be used. [`Error::waited`] returns
    /// the time until then.
    ServerSelection {
        /// The reason, for example the selection criteria with the types or errors of the known
        /// servers.
        message: String,
        /// The error in the description of the only permitted server, or else the first error in
        /// the server descriptions, in the order of addresses. `None` if there is no such error.
        cause: Option<Error>,
    },
    /// A server supports no wire version that this driver supports.
    IncompatibleServer {
        /// The server, its wire version and the supported versions. The text is that of the
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
    /// The pool of the server was cleared, or is paused until the server is checked, or does not
    /// exist yet. The operation can be retried ([CMAP-142]).
    ///
    /// [CMAP-142]: crate::requirements::pool#CMAP-142
    ConnectionPoolCleared {
        /// The message that the specification defines, with the error that caused the clear. If
        /// there was no clear, another message.
        message: String,
    },
    /// The pool was closed. A closed pool gives no connections ([CMAP-141]).
    ///
    /// [CMAP-141]: crate::requirements::pool#CMAP-141
    PoolClosed {
        /// The message that the specification defines.
        message: String,
    },
    /// No connection of the pool became available in time. The operation reached the time limit of
    /// the wait queue ([CMAP-143]).
    ///
    /// [CMAP-143]: crate::requirements::pool#CMAP-143
    WaitQueueTimeout {
        /// The message that the specification defines.
        message: String,
    },
    /// The client stopped using the connection of the operation, because a check of the server
    /// timed out or because the process was forked. The operation can be retried ([CMAP-97]).
    ///
    /// [CMAP-97]: crate::requirements::pool#CMAP-97
    Interrupted {
        /// The message that the specification defines. After a fork, it can be another message.
        message: String,
    },
    /// A limit of the client or of the server was exceeded: for example, a document is larger than
    /// the server accepts.
    Limit {
        /// The name of the limited quantity.
        what: &'static str,
        /// The largest permitted value.
        limit: u64,
        /// The value that exceeds the limit.
        actual: u64,
    },
    /// The state of the session's transaction does not allow the call: for example, there is no
    /// transaction to commit, or one is in progress already.
    Transaction {
        /// The reason why the call is not allowed.
        message: String,
    },
    /// The server does not support sessions, and the call needs the session that it was given.
    SessionsNotSupported,
    /// A call of GridFS failed: for example, there is no such file, or a chunk is missing.
    GridFs(GridFsErrorKind),
    /// The client is closed.
    Shutdown,
    /// The async runtime cannot run the client: for example, the client was created outside of a
    /// runtime, or its runtime has ended. Create the client in the runtime that uses it.
    Runtime {
        /// The reason why the runtime cannot run the client.
        message: String,
    },
    /// An event of a change stream has no resume token, because a stage of the pipeline has removed
    /// its `_id`. The stream has ended, because it could not resume.
    MissingResumeToken,
    /// The future of the operation was dropped before the operation ended, or the check of a scan
    /// was cancelled because no operation waits for a server any more.
    Abandoned,
}

impl ErrorKind {
    /// Returns the party that has to change something before the operation can succeed.
    ///
    /// ```
    /// use onionskin_core::error::{ErrorKind, Responsible};
    ///
    /// assert_eq!(ErrorKind::Shutdown.responsible(), Responsible::Caller);
    /// ```
    #[must_use]
    pub const fn responsible(&self) -> Responsible {
        match self {
            Self::GridFs(kind) => kind.responsible(),
            Self::InvalidArgument { .. }
            | Self::Custom(_)
            | Self::Bson(_)
            | Self::DnsResolve {
                failure: DnsFailure::NoSuchName | DnsFailure::NoRecords,
                ..
            }
            | Self::Io(IoError {
                fault: NetworkFault::ProxyAuthentication,
                ..
            })
            | Self::Authentication { .. }
            | Self::Transaction { .. }
            | Self::SessionsNotSupported
            | Self::Shutdown
            | Self::Runtime { .. }
            | Self::MissingResumeToken
            | Self::Abandoned => Responsible::Caller,
            Self::Io(_)
            | Self::DnsResolve { .. }
            | Self::Tls {
                fault: TlsFault::Broken,
                ..
            }
            | Self::Timeout { .. }
            | Self::ServerSelection { .. }
            | Self::ConnectionPoolCleared { .. }
            | Self::Interrupted { .. } => Responsible::Network,
            Self::Tls { .. }
            | Self::InvalidResponse { .. }
            | Self::Command(_)
            | Self::InsertMany(_)
            | Self::Write(_)
            | Self::BulkWrite(_)
            | Self::IncompatibleServer { .. }
            | Self::Discovery { .. } => Responsible::Peer,
            Self::PoolClosed { .. } | Self::WaitQueueTimeout { .. } | Self::Limit { .. } => {
                Responsible::Limit
            }
        }
    }
}

impl std::error::Error for ErrorKind {}

impl fmt::Display for ErrorKind {
    /// Writes one line. [Unprintable](crate::text::is_unprintable) characters are escaped, because
    /// peers choose parts of the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Escaping(f);
        match self {
            Self::InvalidArgument { argument, message } => match argument {
                Argument::Uri(part) => write!(f, "invalid connection string, {part}: {message}"),
                Argument::Option(option) => write!(f, "invalid option {option}: {message}"),
                Argument::Call => write!(f, "invalid argument: {message}"),
            },
            Self::Custom(_) => f.write_str("an error of the application"),
            Self::Bson(fault) => write!(f, "BSON error: {fault}"),
            Self::Io(fault) => write!(f, "network error: {fault}"),
            Self::DnsResolve { message, .. } => write!(f, "DNS: {message}"),
            Self::Timeout { message, .. } => write!(f, "timed out: {message}"),
            Self::Tls { message, .. } => write!(f, "TLS: {message}"),
            Self::InvalidResponse { message } => {
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
            Self::InsertMany(fault) => write!(f, "write failed: {fault}"),
            Self::Write(fault) => write!(f, "write failed: {fault}"),
            Self::BulkWrite(fault) => write!(f, "bulk write failed: {fault}"),
            Self::ServerSelection { message, .. } => {
                write!(f, "server selection failed: {message}")
            }
            Self::IncompatibleServer { message }
            | Self::Discovery { message }
            | Self::ConnectionPoolCleared { message }
            | Self::PoolClosed { message }
            | Self::Transaction { message }
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
            Self::SessionsNotSupported => {
                f.write_str("the server does not support sessions; run the operation without one")
            }
            Self::GridFs(kind) => write!(f, "GridFS: {kind}"),
            Self::Shutdown => f.write_str("the client was shut down; create another one"),
            Self::MissingResumeToken => {
                f.write_str("cannot provide resume functionality when the resume token is missing")
            }
            Self::Abandoned => f.write_str("the operation was dropped before its end"),
        }
    }
}

impl PartialEq<ErrorKind> for Error {
    fn eq(&self, kind: &ErrorKind) -> bool {
        self.kind() == kind
    }
}
