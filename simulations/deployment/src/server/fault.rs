//! Errors that the server raises in addition to those of the store, and the classes of errors.

use crate::store::{StoreError, encoded_bytes};
use bson::Document;

/// The size of the messages and `errInfo` of a command's write errors after which further errors
/// have neither, in bytes.
const MAX_REASONS_BYTES: usize = 1024 * 1024;

/// The size of the details of a command's write errors, such as `keyValue`, after which further
/// errors have none, in bytes. Each of many statements can fail because of the same large key.
const MAX_DETAILS_BYTES: usize = 16 * 1024 * 1024;

/// The error of a command that failed.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) error: StoreError,
    /// Error labels that replace the usual ones.
    pub(super) labels: Option<Vec<String>>,
    /// The reply's `writeConcernError`.
    pub(super) concern: Option<Box<Document>>,
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self {
            error,
            labels: None,
            concern: None,
        }
    }
}

impl Fault {
    /// Adds the field `errInfo` to an error: see [`StoreError::not_simulated`].
    pub(super) fn not_simulated(mut self, what: &str) -> Self {
        self.error = self.error.not_simulated(what);
        self
    }
}

/// The sizes of the parts of a command's write errors, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reasons {
    /// The size of all messages and of the fields `errInfo`.
    reasons: usize,
    /// The size of all fields besides the code and the message, such as `keyValue`.
    details: usize,
}

impl Reasons {
    /// Counts a write error. In a list that is too long, it loses its message, as on a server, and
    /// its `errInfo`. If the list has too many details, it loses all of its own.
    pub(super) fn count(&mut self, error: &mut StoreError) {
        if self.reasons > MAX_REASONS_BYTES {
            error.message.clear();
            error.details.remove("errInfo");
        }
        if self.details > MAX_DETAILS_BYTES {
            error.details.clear();
        }
        let info = error.details.get_document("errInfo");
        self.reasons += error.message.len() + info.map_or(0, encoded_bytes);
        self.details += encoded_bytes(&error.details);
    }
}

/// Returns an error with the given code.
pub(super) fn fault(code: i32, message: impl Into<String>) -> Fault {
    StoreError::new(code, message).into()
}

/// Returns the error of an operation that was ended.
pub(super) fn interrupted() -> Fault {
    fault(11601, "operation was interrupted")
}

/// True for the codes that servers since 4.4 label `RetryableWriteError` if the command has a
/// transaction number. For clients, only the label decides (RW-13).
pub(super) const fn is_retryable(code: i32) -> bool {
    matches!(
        code,
        6 | 7 | 89 | 91 | 189 | 262 | 9001 | 10107 | 11600 | 11602 | 13435 | 13436
    )
}

/// True for the errors that a write raises because of the data: `NamespaceNotFound`,
/// `IndexNotFound`, `NamespaceExists`, `IndexOptionsConflict`, `IndexKeySpecsConflict`,
/// `DocumentValidationFailure` and `DuplicateKey`. The server then waits for the write concern as
/// after a success.
pub(super) const fn awaits_concern(code: i32) -> bool {
    matches!(code, 26 | 27 | 48 | 85 | 86 | 121 | 11000)
}

/// True for the errors after which the server closes the connection.
pub(super) const fn is_final(code: i32) -> bool {
    code == 354
}

/// True for the errors of a member that is not primary or cannot be read from. A member of a
/// replica set adds its `topologyVersion` to them.
pub(super) const fn is_not_primary(code: i32) -> bool {
    matches!(code, 189 | 10107 | 11602 | 13435 | 13436 | 10058)
}

/// True for the errors of a server that shuts down. A server in quiesce mode adds its
/// `topologyVersion` to them.
pub(super) const fn is_shutdown(code: i32) -> bool {
    matches!(code, 91 | 11600)
}

pub(super) fn not_writable_primary() -> Fault {
    fault(10107, "not primary")
}

pub(super) fn bad_value(message: impl Into<String>) -> Fault {
    fault(2, message)
}

pub(super) fn type_mismatch(field: &str) -> Fault {
    fault(14, format!("BSON field '{field}' is the wrong type"))
}
