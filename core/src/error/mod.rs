//! Errors: their kinds, their labels, and the parts of a server's error reply.

mod bulk;
mod command;
mod custom;
mod facts;
mod fields;
mod gridfs;
mod io;
mod kind;
mod label;
mod make;
mod nesting;
mod partial;
mod size;
#[cfg(test)]
mod tests;
mod text;
mod topology_version;
mod write;

pub use bulk::{BulkWriteError, PartialBulkWriteResult};
pub use command::{CommandError, MAX_ERROR_REPLY_BYTES};
pub use custom::CustomError;
pub(crate) use facts::MAX_TIME_EXPIRED;
pub use gridfs::{GridFsErrorKind, GridFsFileIdentifier};
pub use io::{BsonError, IoError};
pub use kind::{
    Argument, DnsFailure, ErrorKind, NetworkFault, Responsible, TlsFault, UriPart, Wait,
};
pub use label::{
    Label, Labels, NO_WRITES_PERFORMED, RESUMABLE_CHANGE_STREAM_ERROR, RETRYABLE_ERROR,
    RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR, TRANSIENT_TRANSACTION_ERROR,
    UNKNOWN_TRANSACTION_COMMIT_RESULT,
};
pub use partial::PartialInsert;
pub use text::{MAX_CAUSE_TEXT_BYTES, MAX_MESSAGE_TEXT_BYTES};
pub use topology_version::TopologyVersion;
pub use write::{
    IndexedWriteError, InsertManyError, MAX_DETAILS_BYTES, MAX_DETAILS_DEPTH, MAX_WRITE_ERRORS,
    WriteConcernError, WriteError, WriteFailure,
};

pub(crate) use {
    fields::{MAX_FIELDS, counts, integer, pick},
    nesting::is_deeper,
    text::{cause_text, shortened},
};

use crate::{
    address::{Address, InvalidAddress},
    text::Escaping,
};
use bson::RawDocumentBuf;
use std::{
    fmt::{self, Write as _},
    sync::Arc,
    time::Duration,
};

/// The result type of the functions of this crate that fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error as plain data: its kind, its labels, the server where it occurred, the error that
/// caused it, and the documents that a failed `insert_many` had inserted.
///
/// A clone copies the kind, which can contain a reply of the server. Errors are compared by their
/// content.
///
/// ```
/// use onionskin_core::error::{Error, ErrorKind, Responsible, IoError, NetworkFault};
///
/// let error = Error::network(NetworkFault::Reset, "connection reset by peer");
/// assert_eq!(error.kind().responsible(), Responsible::Network);
/// assert!(error.is_network());
/// assert!(matches!(*error.kind, ErrorKind::Io(IoError { fault: NetworkFault::Reset, .. })));
/// ```
#[derive(Clone, PartialEq)]
pub struct Error {
    /// The kind of the error, as [`Error::kind`] returns it.
    pub kind: Box<ErrorKind>,
    /// The other parts. Shared between copies of the error.
    fields: Arc<ErrorFields>,
}

/// The parts of an error beside its kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct ErrorFields {
    labels: Labels,
    server: Option<Address>,
    cause: Option<Error>,
    partial_insert: Option<Arc<PartialInsert>>,
    /// The errors of a write of which the kind has only one; see [`Error::write_errors`].
    writes: Option<Arc<InsertManyError>>,
    /// How long the operation waited for a suitable server; see [`Error::waited`].
    waited: Option<Duration>,
    /// The namespace of the document; see [`Error::namespace`].
    namespace: Option<Arc<str>>,
}

impl Error {
    /// Returns the kind of this error.
    ///
    /// ```
    /// use onionskin_core::error::{Error, ErrorKind};
    ///
    /// fn is_refused_login(error: &Error) -> bool {
    ///     matches!(error.kind(), ErrorKind::Authentication { .. })
    /// }
    /// ```
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns the labels that the server or the driver gave to this error.
    ///
    /// ```
    /// use onionskin_core::error::{Error, Wait};
    ///
    /// let error = Error::timeout(Wait::Exchange, "no reply within 2 s");
    /// assert!(error.labels().is_empty());
    /// ```
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.fields.labels
    }

    /// True if this error has `label`.
    ///
    /// ```
    /// use onionskin_core::error::{Error, Label};
    ///
    /// fn is_overload(error: &Error) -> bool {
    ///     error.has_label(&Label::SystemOverloadedError)
    /// }
    /// ```
    #[must_use]
    pub fn has_label(&self, label: &Label) -> bool {
        self.fields.labels.contains(label)
    }

    /// True if this error, or the error that caused it, has the label with this name.
    ///
    /// ```
    /// use onionskin_core::error::{Error, TRANSIENT_TRANSACTION_ERROR};
    ///
    /// fn can_repeat_transaction(error: &Error) -> bool {
    ///     error.contains_label(TRANSIENT_TRANSACTION_ERROR)
    /// }
    /// ```
    #[must_use]
    pub fn contains_label(&self, label: impl AsRef<str>) -> bool {
        let label = label.as_ref();
        let mut next = Some(self);
        while let Some(error) = next {
            if error.labels().contains(label) {
                return true;
            }
            next = error.fields.cause.as_ref();
        }
        false
    }

    /// Returns the address of the server where this error occurred; `None` if no single server was
    /// involved or if the server is not known.
    ///
    /// ```
    /// use onionskin_core::error::Error;
    ///
    /// fn report(error: &Error) {
    ///     match error.server() {
    ///         Some(server) => eprintln!("look into the log of {server}: {error}"),
    ///         None => eprintln!("{error}"),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn server(&self) -> Option<&Address> {
        self.fields.server.as_ref()
    }

    /// Returns the documents that an `insert_many` had inserted when it failed with this error.
    /// `None` for every other operation. `None` also if the call was refused before a command was
    /// made, for example because a document could not be encoded ([RW-29]).
    ///
    /// ```
    /// use onionskin_core::error::Error;
    ///
    /// fn inserted(error: &Error) -> usize {
    ///     error.partial_insert().map_or(0, |partial| partial.inserted_ids.len())
    /// }
    /// # assert_eq!(inserted(&Error::argument("no documents")), 0);
    /// ```
    ///
    /// [RW-29]: crate::requirements::retries#RW-29
    #[must_use]
    pub fn partial_insert(&self) -> Option<&PartialInsert> {
        self.fields.partial_insert.as_deref()
    }

    /// Returns the server's numeric error code, for example 18 for a refused login. `None` for a
    /// reply without a code, and for every kind other than [`ErrorKind::Command`],
    /// [`ErrorKind::Write`], [`ErrorKind::InsertMany`], [`ErrorKind::Authentication`],
    /// [`GridFsErrorKind::AbortError`], which has the code of its command, and
    /// [`ErrorKind::BulkWrite`], which has the code of the error that ended it early.
    ///
    /// For a write, this is the code of the first failed statement, for example 11000 for a
    /// duplicate key, or else the code of the write concern error. Server discovery does not use
    /// this method: it examines write concern errors and ignores write errors ([SDAM-93],
    /// [SDAM-94]).
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::error::{CommandError, Error, ErrorKind};
    ///
    /// let reply = rawdoc! { "ok": 0, "code": 18, "codeName": "AuthenticationFailed" };
    /// let error = Error::new(ErrorKind::Command(CommandError::from_reply(&reply)));
    /// assert_eq!(error.code(), Some(18));
    /// ```
    ///
    /// [SDAM-93]: crate::requirements::discovery#SDAM-93
    /// [SDAM-94]: crate::requirements::discovery#SDAM-94
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self.innermost().kind() {
            ErrorKind::Command(fault) => fault.code(),
            ErrorKind::InsertMany(fault) => fault.first_code(),
            ErrorKind::Write(fault) => Some(fault.code()),
            ErrorKind::Authentication { cause, .. } => cause.as_ref()?.code(),
            _ => None,
        }
    }

    /// Returns all write errors and write concern errors of the replies to a write. The kind
    /// [`ErrorKind::Write`] has only the first of them. `None` for every kind other than
    /// [`ErrorKind::InsertMany`] and [`ErrorKind::Write`].
    ///
    /// ```
    /// use onionskin_core::error::Error;
    ///
    /// /// Returns the indexes of the documents that an `insert_many` could not insert.
    /// fn failed(error: &Error) -> Vec<usize> {
    ///     let errors = error.write_errors().map(|all| all.errors());
    ///     errors.unwrap_or_default().iter().map(|error| error.index).collect()
    /// }
    /// # assert!(failed(&Error::argument("no documents")).is_empty());
    /// ```
    #[must_use]
    pub fn write_errors(&self) -> Option<&InsertManyError> {
        match self.kind() {
            ErrorKind::InsertMany(fault) => Some(fault),
            _ => self.fields.writes.as_deref(),
        }
    }

    /// Returns the whole error reply of the server to a command, as [`CommandError::reply`] has it.
    /// `None` for every kind other than [`ErrorKind::Command`].
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::error::{CommandError, Error, ErrorKind};
    ///
    /// let reply = rawdoc! { "ok": 0, "code": 59, "errmsg": "no such command: 'pong'" };
    /// let error = Error::new(ErrorKind::Command(CommandError::from_reply(&reply)));
    /// assert_eq!(error.server_response(), Some(&reply));
    /// ```
    #[must_use]
    pub fn server_response(&self) -> Option<&RawDocumentBuf> {
        match self.kind() {
            ErrorKind::Command(fault) => fault.reply.as_deref(),
            _ => None,
        }
    }

    /// Returns the base of the backoff that an overloaded server chose: the field `baseBackoffMS`
    /// of its reply. `None` if the field is absent or not positive, and for every kind other than
    /// [`ErrorKind::Command`], [`ErrorKind::Write`], [`ErrorKind::InsertMany`] and
    /// [`ErrorKind::Authentication`] ([BP-6]).
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::error::{CommandError, Error, ErrorKind};
    /// use std::time::Duration;
    ///
    /// let reply = rawdoc! { "ok": 0, "code": 462, "baseBackoffMS": 50 };
    /// let error = Error::new(ErrorKind::Command(CommandError::from_reply(&reply)));
    /// assert_eq!(error.base_backoff(), Some(Duration::from_millis(50)));
    /// ```
    ///
    /// [BP-6]: crate::requirements::retries#BP-6
    #[must_use]
    pub fn base_backoff(&self) -> Option<Duration> {
        match self.kind() {
            ErrorKind::Command(fault) => fault.base_backoff,
            ErrorKind::InsertMany(_) | ErrorKind::Write(_) => self.write_errors()?.base_backoff,
            ErrorKind::Authentication { cause, .. } => cause.as_ref()?.base_backoff,
            _ => None,
        }
    }
}

/// The kind is [`ErrorKind::InvalidArgument`].
impl From<InvalidAddress> for Error {
    fn from(error: InvalidAddress) -> Self {
        Self::argument(error.to_string())
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind(), self.fields.waited) {
            (ErrorKind::ServerSelection { message, .. }, Some(waited)) => {
                let waited = waited.as_millis();
                write!(f, "server selection failed after {waited} ms: {message}")?;
            }
            (kind, _) => write!(f, "{kind}")?,
        }
        if let (ErrorKind::BulkWrite(_), Some(cause)) = (self.kind(), &self.fields.cause) {
            write!(f, ": {cause}")?;
        }
        if let Some(namespace) = &self.fields.namespace {
            write!(Escaping(f), " (collection {namespace})")?;
        }
        if let Some(server) = &self.fields.server {
            write!(Escaping(f), " (server {server})")?;
        }
        match (self.kind(), &self.fields.cause) {
            // Its text names the labels.
            (ErrorKind::BulkWrite(_), Some(cause)) if cause.labels() == self.labels() => Ok(()),
            _ => write!(f, "{}", self.labels()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorFields {
            labels,
            server,
            cause,
            partial_insert,
            writes: _,
            waited,
            namespace,
        } = &*self.fields;
        let mut shown = f.debug_struct("Error");
        shown
            .field("kind", &self.kind)
            .field("labels", labels)
            .field("server", server)
            .field("cause", cause);
        if let Some(waited) = waited {
            shown.field("waited", waited);
        }
        if let Some(namespace) = namespace {
            shown.field("namespace", namespace);
        }
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
            }
            | ErrorKind::GridFs(GridFsErrorKind::AbortError {
                delete_error: cause,
                ..
            }) => Some(cause),
            _ => self.fields.cause.as_ref().map(|cause| cause as _),
        }
    }
}
