//! The labels that the driver adds to the errors of commands in transactions.

use super::{Request, TransactionStep};
use crate::error::{Error, ErrorKind, Label, MAX_TIME_EXPIRED};

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

/// True for the errors of a network, of server selection, and of a pool that was cleared, and for a
/// time limit that passed before the reply.
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
        || error.code() == Some(MAX_TIME_EXPIRED)
}
