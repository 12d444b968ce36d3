//! Failures of the network and of BSON, as parts of errors.

use super::NetworkFault;
use std::{fmt, io::ErrorKind};

/// The failure of a connection that could not be established, or that broke.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IoError {
    /// The way in which the network failed.
    pub fault: NetworkFault,
    /// The text of the error, for example that of the operating system.
    pub message: String,
    /// The kind of the `std::io::Error` that an application converted.
    converted: Option<ErrorKind>,
}

impl IoError {
    /// Creates the failure with this text.
    ///
    /// ```
    /// use onionskin_core::error::{IoError, NetworkFault};
    ///
    /// let error = IoError::new(NetworkFault::Refused, "connection refused");
    /// assert_eq!(error.to_string(), "connection refused");
    /// ```
    #[must_use]
    pub fn new(fault: NetworkFault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
            converted: None,
        }
    }

    /// Returns the kind of the standard library that is closest to the fault. For an error that was
    /// made of an `std::io::Error`, returns its kind.
    ///
    /// ```
    /// use onionskin_core::error::{IoError, NetworkFault};
    /// use std::io::ErrorKind;
    ///
    /// let error = IoError::new(NetworkFault::Refused, "connection refused");
    /// assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.converted.unwrap_or(match self.fault {
            NetworkFault::Refused => ErrorKind::ConnectionRefused,
            NetworkFault::Closed => ErrorKind::UnexpectedEof,
            NetworkFault::Reset => ErrorKind::ConnectionReset,
            NetworkFault::Unreachable => ErrorKind::HostUnreachable,
            NetworkFault::NotResolved => ErrorKind::NotFound,
            NetworkFault::ProxyAuthentication => ErrorKind::PermissionDenied,
            NetworkFault::OutOfSockets | NetworkFault::Other => ErrorKind::Other,
        })
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for IoError {}

/// Keeps the kind and the text, so that an application can return its own errors of files and
/// sockets as errors of this crate. The driver makes no errors in this way.
impl From<std::io::Error> for super::Error {
    fn from(error: std::io::Error) -> Self {
        let fault = match error.kind() {
            ErrorKind::ConnectionRefused => NetworkFault::Refused,
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => NetworkFault::Closed,
            ErrorKind::ConnectionReset => NetworkFault::Reset,
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => NetworkFault::Unreachable,
            _ => NetworkFault::Other,
        };
        Self::new(super::ErrorKind::Io(IoError {
            converted: Some(error.kind()),
            ..IoError::new(fault, error.to_string())
        }))
    }
}

/// The failure to encode a value as BSON, or to decode BSON to the requested type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BsonError {
    /// The reason of the failure.
    pub message: String,
    /// The path of the field: the names of the fields from the outermost to the innermost, with
    /// points between them. Empty if the error concerns the whole document or no known field.
    pub path: String,
}

impl BsonError {
    /// Creates the failure with this reason and this path.
    ///
    /// ```
    /// use onionskin_core::error::BsonError;
    ///
    /// let error = BsonError::new("expected a number", "address.zip");
    /// assert_eq!(error.path, "address.zip");
    /// ```
    #[must_use]
    pub fn new(message: impl Into<String>, path: impl Into<String>) -> Self {
        let (message, path) = (message.into(), path.into());
        Self { message, path }
    }
}

impl fmt::Display for BsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BsonError {}
