//! Tests of the error that an operation raises after a retry.

use super::*;
use crate::error::InsertManyError;
use std::error::Error as _;

/// Returns the error that caused another one.
fn cause(error: &Error) -> Option<&Error> {
    error.source()?.downcast_ref()
}

#[test]
fn the_error_of_a_retry_tells_that_an_earlier_attempt_was_executed() {
    let reply = rawdoc! { "ok": 1, "n": 1, "writeConcernError": { "code": 91 } };
    let fault = InsertManyError::from_reply(&reply).expect("valid");
    let fault = fault.expect("it has an error");
    let executed = Error::new(ErrorKind::InsertMany(fault)).with_label(Label::RetryableWriteError);
    let reset = Error::network(NetworkFault::Reset, "reset");
    let refusal = failure(13).with_label(Label::RetryableError);
    for last in [&reset, &refusal] {
        let errors = [executed.clone(), last.clone()];
        let (_, _, error) = run_all_attempts(POLICY, CommandKind::RetryableWrite, &errors);
        assert_eq!(error.kind(), last.kind());
        // The write must not be repeated as one that was not executed.
        assert!(!error.has_label(&Label::RetryableError));
        let error = error.of_one_write();
        let cause = cause(&error).expect("the first attempt");
        assert!(matches!(cause.kind(), ErrorKind::Write(_)), "{cause:?}");
        assert_eq!(cause.code(), Some(91));
    }
    // With a time limit there can be more attempts.
    let operation = operation(CommandKind::RetryableWrite);
    let second = error_to_raise(&operation, Some(executed), reset);
    let third = error_to_raise(&operation, Some(second), refusal);
    assert_eq!(cause(&third).and_then(Error::code), Some(91));
}
