//! What can go wrong, and whose fault it is.

mod command;
mod fields;
mod kind;
mod label;
mod nesting;
mod partial;
mod text;

pub use command::{
    CommandError, MAX_DETAILS_BYTES, MAX_DETAILS_DEPTH, MAX_ERROR_REPLY_BYTES, MAX_WRITE_ERRORS,
    TopologyVersion, WriteConcernError, WriteError, WriteFailure,
};
pub use kind::{ErrorKind, NetworkFault, Responsible, TlsFault, UriPart, Wait};
pub use label::{Label, Labels};
pub use partial::PartialInsert;
pub use text::{MAX_CAUSE_TEXT_BYTES, MAX_MESSAGE_TEXT_BYTES};

pub(crate) use {
    fields::{MAX_FIELDS, pick},
    nesting::is_deeper,
    text::{cause_text, shortened},
};

use crate::address::Address;
use std::{fmt, sync::Arc, time::Duration};

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, as plain data: what happened, at which server, with which labels.
///
/// Cloning is cheap and two equal failures compare equal.
///
/// ```
/// use onionskin_core::error::{Error, ErrorKind, Responsible, NetworkFault};
///
/// let error = Error::network(NetworkFault::Reset, "connection reset by peer");
/// assert_eq!(error.kind().responsible(), Responsible::Network);
/// assert!(error.is_network());
/// ```
#[derive(Clone, PartialEq)]
pub struct Error(Arc<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    /// Shared, because labels and the server are added to copies: what a server sent is not copied.
    kind: Arc<ErrorKind>,
    labels: Labels,
    server: Option<Address>,
    cause: Option<Error>,
    partial_insert: Option<Arc<PartialInsert>>,
}

impl Error {
    /// An error of this kind, without labels and not yet tied to a server.
    #[must_use]
    pub fn new(kind: ErrorKind) -> Self {
        Self(Arc::new(Inner {
            kind: Arc::new(kind),
            labels: Labels::default(),
            server: None,
            cause: None,
            partial_insert: None,
        }))
    }

    /// A network error other than a timeout.
    #[must_use]
    pub fn network(fault: NetworkFault, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Network {
            fault,
            message: message.into(),
        })
    }

    /// A peer that does not keep to the protocol.
    #[must_use]
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol {
            message: message.into(),
        })
    }

    /// An argument that cannot be used.
    #[must_use]
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument {
            message: message.into(),
        })
    }

    /// An async runtime that cannot carry the client.
    #[must_use]
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Runtime {
            message: message.into(),
        })
    }

    /// A deadline that passed during `wait`.
    #[must_use]
    pub fn timeout(wait: Wait, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Timeout {
            wait,
            message: message.into(),
        })
    }

    /// The same error with one more label.
    #[must_use]
    pub fn with_label(mut self, label: Label) -> Self {
        Arc::make_mut(&mut self.0).labels.insert(label);
        self
    }

    /// The same error with `labels` added.
    #[must_use]
    pub fn with_labels(mut self, labels: &Labels) -> Self {
        if !labels.is_empty() {
            Arc::make_mut(&mut self.0).labels.extend(labels);
        }
        self
    }

    /// The same error, tied to the server where it arose (RR-20); an earlier tie is kept.
    #[must_use]
    pub fn with_server(mut self, server: &Address) -> Self {
        if self.0.server.is_none() {
            Arc::make_mut(&mut self.0).server = Some(server.clone());
        }
        self
    }

    /// The same error with `cause` as its [source](std::error::Error::source): what had failed
    /// before, when a time limit ended the retries.
    #[must_use]
    pub fn with_cause(mut self, cause: Self) -> Self {
        Arc::make_mut(&mut self.0).cause = Some(cause);
        self
    }

    /// The same error, with what an `insert_many` had inserted when it failed.
    #[must_use]
    pub fn with_partial_insert(mut self, partial: PartialInsert) -> Self {
        Arc::make_mut(&mut self.0).partial_insert = Some(Arc::new(partial));
        self
    }

    /// What happened.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The labels that the server or the driver put on it.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.0.labels
    }

    /// True if it carries `label`.
    #[must_use]
    pub fn has_label(&self, label: &Label) -> bool {
        self.0.labels.contains(label)
    }

    /// The server where it arose, where there is one.
    #[must_use]
    pub fn server(&self) -> Option<&Address> {
        self.0.server.as_ref()
    }

    /// What an `insert_many` had inserted when it failed with this error (RW-29); `None` for every
    /// other operation, and where a document could not be encoded, so that nothing was tried.
    #[must_use]
    pub fn partial_insert(&self) -> Option<&PartialInsert> {
        self.0.partial_insert.as_deref()
    }

    /// The server's numeric error code, where a server sent one. Of a write it is that of the first
    /// failed statement, for example 11000 for a duplicate key, and only where no statement failed
    /// that of the write concern. What an error says about the server's state is told by the write
    /// concern alone (SDAM-93, SDAM-94), and by the code of a failed command.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self.kind() {
            ErrorKind::Command(fault) => fault.code,
            ErrorKind::Write(fault) => fault
                .first_code()
                .or_else(|| fault.write_concern.as_ref().map(|w| w.code)),
            _ => None,
        }
    }

    /// The base of the backoff that an overloaded server chose: `baseBackoffMS` of its reply
    /// (BP-6). `None` where it chose none.
    #[must_use]
    pub fn base_backoff(&self) -> Option<Duration> {
        match self.kind() {
            ErrorKind::Command(fault) => fault.base_backoff,
            ErrorKind::Write(fault) => fault.base_backoff,
            ErrorKind::Authentication { cause, .. } => cause.as_ref()?.base_backoff,
            _ => None,
        }
    }

    /// True for a broken connection, which includes TLS that fails on an established connection
    /// ([`TlsFault::Broken`]), and for a wait on the network that took too long.
    #[must_use]
    pub fn is_network(&self) -> bool {
        match self.kind() {
            ErrorKind::Network { .. } => true,
            ErrorKind::Timeout { wait, .. } => wait.is_network(),
            ErrorKind::Tls { fault, .. } => *fault == TlsFault::Broken,
            _ => false,
        }
    }

    /// True if the pool was cleared, because the server is in doubt, while the operation waited for
    /// a connection or used one: the `PoolClearedError` of the specifications, and the more precise
    /// one of operations that were interrupted (CMAP-97, CMAP-142). To try again is safe as far as
    /// the operation itself is.
    #[must_use]
    pub fn is_pool_cleared(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::PoolCleared { .. } | ErrorKind::Interrupted { .. }
        )
    }

    /// True if a deadline passed: the client's, or the one that the server was given as
    /// `maxTimeMS`.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Timeout { .. } | ErrorKind::WaitQueueTimeout { .. }
        ) || self.code() == Some(MAX_TIME_EXPIRED)
    }
}

/// `MaxTimeMSExpired`.
const MAX_TIME_EXPIRED: i32 = 50;

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.kind)?;
        if let Some(server) = &self.0.server {
            write!(f, " (server {server})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            labels,
            server,
            cause,
            partial_insert,
        } = &*self.0;
        let mut shown = f.debug_struct("Error");
        shown
            .field("kind", kind)
            .field("labels", labels)
            .field("server", server)
            .field("cause", cause);
        if let Some(partial) = partial_insert {
            shown.field("inserted", &partial.inserted_ids.len());
        }
        shown.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            ErrorKind::ServerSelection {
                cause: Some(cause), ..
            } => Some(cause),
            _ => self.0.cause.as_ref().map(|cause| cause as _),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn the_code_is_that_of_a_failed_statement_before_that_of_the_write_concern() {
        let code = |reply: &bson::RawDocument| {
            let fault = WriteFailure::from_reply(reply).expect("it has errors");
            Error::new(ErrorKind::Write(Box::new(fault))).code()
        };
        let statement = rawdoc! { "index": 0, "code": 11000, "errmsg": "E11000" };
        let concern = rawdoc! { "code": 64, "errmsg": "waiting for replication timed out" };
        let both = rawdoc! {
            "ok": 1, "writeErrors": [statement], "writeConcernError": concern.clone(),
        };
        assert_eq!(code(&both), Some(11000));
        assert_eq!(
            code(&rawdoc! { "ok": 1, "writeConcernError": concern }),
            Some(64)
        );
    }

    #[test]
    fn a_server_chooses_the_backoff_wherever_its_reply_is_kept() {
        // BP-6
        let reply = rawdoc! {
            "ok": 0, "baseBackoffMS": 50, "writeConcernError": { "code": 462 },
        };
        let fault = Box::new(CommandError::from_reply(&reply));
        let write = WriteFailure::from_reply(&reply).expect("it has an error");
        let refused = |cause| ErrorKind::Authentication {
            mechanism: "SCRAM-SHA-256",
            message: String::new(),
            cause,
        };
        for (kind, expected) in [
            (ErrorKind::Command(fault.clone()), Some(50)),
            (ErrorKind::Write(Box::new(write)), Some(50)),
            (refused(Some(fault)), Some(50)),
            (refused(None), None),
            (ErrorKind::ClientClosed, None),
        ] {
            let base = Error::new(kind).base_backoff();
            assert_eq!(base, expected.map(Duration::from_millis));
        }
    }

    #[test]
    fn a_reply_is_kept_once_however_often_its_error_is_copied() {
        let fault = CommandError::from_reply(&rawdoc! { "ok": 0, "errmsg": "no" });
        let error = Error::new(ErrorKind::Command(Box::new(fault)));
        let tied = error.clone().with_server(&Address::tcp("a", 1));
        let place = |error: &Error| match error.kind() {
            ErrorKind::Command(fault) => fault.reply.as_ref().map(|r| r.as_bytes().as_ptr()),
            _ => None,
        };
        assert!(place(&error).is_some());
        assert_eq!(place(&error), place(&tied));
    }

    #[test]
    fn the_first_server_sticks() {
        let (a, b) = (Address::tcp("a", 1), Address::tcp("b", 1));
        let error = Error::protocol("nonsense").with_server(&a).with_server(&b);
        assert_eq!(error.server(), Some(&a));
        assert_eq!(
            error.to_string(),
            "the server broke the protocol: nonsense (server a:1)"
        );
    }

    #[test]
    fn an_interrupted_operation_met_a_cleared_pool() {
        // CMAP-97, CMAP-142; CMAP-144: kinds are matched, and nobody reads texts.
        let message = String::new();
        let cleared = ErrorKind::PoolCleared {
            message: message.clone(),
        };
        let interrupted = ErrorKind::Interrupted {
            message: message.clone(),
        };
        for (kind, expected) in [
            (cleared, true),
            (interrupted, true),
            (ErrorKind::PoolClosed { message }, false),
        ] {
            assert_eq!(Error::new(kind).is_pool_cleared(), expected);
        }
    }

    #[test]
    fn a_wait_for_a_connection_is_no_network_error() {
        assert!(Error::timeout(Wait::Exchange, "x").is_network());
        assert!(!Error::timeout(Wait::Selection, "x").is_network());
        let queue = Error::new(ErrorKind::WaitQueueTimeout {
            message: "x".into(),
        });
        assert!(queue.is_timeout() && !queue.is_network());
    }
}
