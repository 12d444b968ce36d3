//! The labels that the driver adds to the errors of commands in transactions.

use super::{Request, TransactionStep};
use crate::error::{Error, ErrorKind, Label};

/// The codes of errors of a write concern that no server can fulfil: `UnsatisfiableWriteConcern`
/// and `UnknownReplWriteConcern`. They say nothing about the result of a commit.
const INVALID_WRITE_CONCERN: [i32; 2] = [100, 79];

/// Adds `TransientTransactionError` to an error without a reply, after which the whole transaction
/// can be retried, and `UnknownTransactionCommitResult` to an error of a commit that may have taken
/// effect (Transactions Specification, *Error Labels*).
pub(crate) fn label_in_transaction(request: &Request, error: Error) -> Error {
    match request.transaction_step() {
        Some(TransactionStep::Statement) if has_no_reply(&error) => {
            error.with_label(Label::TransientTransactionError)
        }
        Some(TransactionStep::Commit) if leaves_commit_unknown(&error) => {
            error.with_label(Label::UnknownTransactionCommitResult)
        }
        _ => error,
    }
}

/// True for the errors of a network, of server selection, and of a pool that was cleared, and if
/// the time passed while the reply was awaited.
fn has_no_reply(error: &Error) -> bool {
    error.is_network() || error.is_server_selection()
}

fn leaves_commit_unknown(error: &Error) -> bool {
    let is_of_concern = match error.kind() {
        ErrorKind::InsertMany(fault) => {
            let concern = fault.write_concern_error.as_ref();
            concern.is_some_and(|concern| !INVALID_WRITE_CONCERN.contains(&concern.code))
        }
        _ => false,
    };
    is_of_concern
        || has_no_reply(error)
        || error.has_label(&Label::RetryableWriteError)
        || error.is_deadline()
}

/// Returns the label by which the error of an attempt decides about the transaction, if it has one.
/// The error that the operation raises gets it as well.
pub(crate) fn transaction_label(request: &Request, error: &Error) -> Option<Label> {
    request.transaction_step()?;
    let labels = [
        Label::TransientTransactionError,
        Label::UnknownTransactionCommitResult,
    ];
    labels.into_iter().find(|label| error.has_label(label))
}
