//! The labels that the driver adds to the errors of commands in transactions.

use super::{Operation, Request, TransactionStep, is_retryable_overload};
use crate::error::{Error, ErrorKind, Label};

/// The codes of errors of a write concern that no server can fulfil: `UnsatisfiableWriteConcern`
/// and `UnknownReplWriteConcern`. They say nothing about the result of a commit.
const INVALID_WRITE_CONCERN: [i32; 2] = [100, 79];

/// Adds `TransientTransactionError` to an error without a reply, after which the whole transaction
/// can be retried, and `UnknownTransactionCommitResult` to an error of a commit that may have taken
/// effect (Transactions Specification, *Error Labels*). `had_exchange` is true if the attempt that
/// failed had an exchange.
pub(crate) fn label_in_transaction(request: &Request, error: Error, had_exchange: bool) -> Error {
    match request.transaction_step() {
        Some(TransactionStep::Statement) if has_no_reply(&error) => {
            error.with_label(Label::TransientTransactionError)
        }
        Some(TransactionStep::Commit)
            if leaves_commit_unknown(&error) || had_exchange && is_unanswered(request, &error) =>
        {
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

/// True if a part of the command was sent, and the error is no answer of a server, for example
/// because the reply was malformed.
fn is_unanswered(request: &Request, error: &Error) -> bool {
    let is_sent = request
        .transaction
        .as_ref()
        .is_some_and(|part| part.is_sent);
    let is_answer = matches!(
        error.kind(),
        ErrorKind::Command(_) | ErrorKind::InsertMany(_)
    );
    is_sent && !is_answer
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

/// Adds `UnknownTransactionCommitResult` to the refusal of an overloaded server, if an earlier
/// attempt of the commit may have taken effect. Such a refusal says only that its own attempt had
/// none (BP-10).
pub(crate) fn label_refused_commit(operation: &Operation, error: Error) -> Error {
    let unknown = Label::UnknownTransactionCommitResult;
    let kept = operation.retry.kept_error.as_ref();
    match kept.is_some_and(|kept| kept.has_label(&unknown)) && is_retryable_overload(&error) {
        true => error.with_label(unknown),
        false => error,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::{InsertManyError, NetworkFault, Wait},
        operation::{Command, CommandKind, InTransaction, Operation, OperationId},
        time::Instant,
    };
    use bson::rawdoc;

    /// Returns the error of a commit whose write concern failed with this code.
    fn concern(code: i32) -> Error {
        let reply = rawdoc! { "ok": 1, "writeConcernError": { "code": code } };
        let fault = InsertManyError::from_reply(&reply).expect("valid");
        Error::new(ErrorKind::InsertMany(fault.expect("it has an error")))
    }

    fn is_labelled(step: TransactionStep, error: &Error, label: &Label) -> bool {
        let command = Command::new("x", "admin", CommandKind::RetryableWrite);
        let mut operation = Operation::new(OperationId(0), command, Instant::ZERO);
        operation.request.transaction = Some(InTransaction::new(step));
        label_in_transaction(&operation.request, error.clone(), true).has_label(label)
    }

    #[test]
    fn an_error_that_tells_nothing_about_a_commit_leaves_its_outcome_unknown() {
        let message = String::new();
        let cause = None;
        let refused = Error::argument("refused");
        for (error, expected) in [
            (Error::network(NetworkFault::Reset, "reset"), true),
            (
                Error::new(ErrorKind::ServerSelection { message, cause }),
                true,
            ),
            (Error::timeout(Wait::Selection, "late"), true),
            (Error::timeout(Wait::CheckOut, "late"), true),
            (concern(64), true),
            (concern(91), true),
            // `UnsatisfiableWriteConcern` and `UnknownReplWriteConcern`: no retry helps.
            (concern(100), false),
            (concern(79), false),
            (refused.clone(), false),
            (refused.with_label(Label::RetryableWriteError), true),
        ] {
            let unknown = Label::UnknownTransactionCommitResult;
            let labelled = is_labelled(TransactionStep::Commit, &error, &unknown);
            assert_eq!(labelled, expected, "{error:?}");
            for step in [TransactionStep::Statement, TransactionStep::Abort] {
                assert!(!is_labelled(step, &error, &unknown), "{step:?} {error:?}");
            }
        }
    }

    #[test]
    fn a_sent_commit_without_an_answer_has_an_unknown_outcome() {
        let command = Command::new("x", "admin", CommandKind::RetryableWrite);
        let mut operation = Operation::new(OperationId(0), command, Instant::ZERO);
        let refusal = crate::error::CommandError::from_reply(&rawdoc! { "ok": 0, "code": 13 });
        let malformed = || Error::protocol("the reply is not valid BSON");
        for (error, is_sent, had_exchange, expected) in [
            (malformed(), true, true, true),
            (malformed(), false, true, false),
            // An earlier attempt was sent, and this one was not.
            (malformed(), true, false, false),
            (Error::new(ErrorKind::Command(refusal)), true, true, false),
            (concern(100), true, true, false),
        ] {
            let mut part = InTransaction::new(TransactionStep::Commit);
            part.is_sent = is_sent;
            operation.request.transaction = Some(part);
            let error = label_in_transaction(&operation.request, error, had_exchange);
            let is_unknown = error.has_label(&Label::UnknownTransactionCommitResult);
            assert_eq!(is_unknown, expected, "{error:?}");
        }
    }

    #[test]
    fn an_overloaded_server_says_nothing_about_an_earlier_attempt_of_a_commit() {
        let command = Command::new("commitTransaction", "admin", CommandKind::RetryableWrite);
        let mut operation = Operation::new(OperationId(0), command, Instant::ZERO);
        operation.request.transaction = Some(InTransaction::new(TransactionStep::Commit));
        let overloaded = Error::argument("refused")
            .with_label(Label::SystemOverloadedError)
            .with_label(Label::RetryableError);
        let unknown = Label::UnknownTransactionCommitResult;
        let labelled = |operation: &Operation, error: &Error| {
            label_refused_commit(operation, error.clone()).has_label(&unknown)
        };
        assert!(!labelled(&operation, &overloaded), "no attempt before");
        operation.retry.kept_error = Some(overloaded.clone());
        assert!(!labelled(&operation, &overloaded), "none had an effect");
        let reset = Error::network(NetworkFault::Reset, "reset");
        operation.retry.kept_error = Some(label_in_transaction(&operation.request, reset, true));
        assert!(labelled(&operation, &overloaded));
        assert!(
            !labelled(&operation, &Error::argument("refused")),
            "the end of the transaction"
        );
    }

    #[test]
    fn a_statement_without_a_reply_ends_the_transaction_and_can_be_repeated_with_it() {
        let message = String::new();
        let cause = None;
        for (error, expected) in [
            (Error::network(NetworkFault::Reset, "reset"), true),
            (
                Error::new(ErrorKind::ServerSelection { message, cause }),
                true,
            ),
            (Error::argument("refused"), false),
            (concern(64), false),
        ] {
            let transient = Label::TransientTransactionError;
            let labelled = is_labelled(TransactionStep::Statement, &error, &transient);
            assert_eq!(labelled, expected, "{error:?}");
            assert!(!is_labelled(TransactionStep::Commit, &error, &transient));
        }
    }
}
