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
    let [reset, refusal] = [reset, refusal].map(|error| LastError {
        error,
        had_exchange: true,
    });
    let second = error_to_raise(&operation, Some(executed), reset);
    let third = error_to_raise(&operation, Some(second), refusal);
    assert_eq!(cause(&third).and_then(Error::code), Some(91));
}

#[test]
fn a_retry_without_time_for_a_round_trip_fails_with_a_timeout() {
    for left in [1, 10] {
        let limit = Duration::from_millis(left);
        let mut operation = limited(CommandKind::Read, Some(limit));
        operation.retry.attempts = 2;
        operation.retry.kept_error = Some(failure(6));
        operation.selection.min_round_trip = Duration::from_millis(10);
        let late = operation
            .limit_time(NOW, false)
            .expect_err("the reply would be late");
        let after = decide(POLICY, operation, late, TopologyType::Single);
        let AfterFailure::Over(_, error) = after else {
            panic!("{after:?}");
        };
        assert!(error.is_timeout(), "{error:?}");
        assert_eq!(cause(&error).and_then(Error::code), Some(6));
    }
}

#[test]
fn a_failed_handshake_of_a_retry_hides_the_earlier_error_of_reads_only() {
    // RW-26 asks for the proof of an attempt, RR-19 for any error of the server or the network.
    let refused_hello = failure(6);
    let reset = Error::network(NetworkFault::Reset, "reset");
    for (kind, last, expected) in [
        (CommandKind::RetryableWrite, &refused_hello, Some(91)),
        (CommandKind::RetryableWrite, &reset, Some(91)),
        (CommandKind::Read, &refused_hello, Some(6)),
        (CommandKind::Read, &reset, None),
    ] {
        let mut operation = operation(kind);
        operation.retry.attempts = 2;
        operation.retry.kept_error = Some(failure(91));
        let mut random = Seed::new([1; 32]).random();
        let after = after_failure(POLICY, operation, last.clone(), AT_CHECK_OUT, &mut random);
        let AfterFailure::Over(_, error) = after else {
            panic!("{kind:?}: there is no third attempt");
        };
        assert_eq!(error.code(), expected, "{kind:?} {last}");
    }
}
