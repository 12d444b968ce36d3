//! The boundaries of the decisions: the last instant, code or kind of error that each is for.

use super::*;

#[test]
fn a_backoff_must_end_before_the_deadline() {
    // BP-12.
    let decide_within = |limit: Duration| {
        let read = limited(CommandKind::Read, Some(limit));
        decide(POLICY, read, overload(), TopologyType::Single)
    };
    let far = decide_within(Duration::from_secs(60));
    let AfterFailure::RetryAt(_, until) = far else {
        panic!("{far:?}");
    };
    let pause = until.saturating_since(NOW);
    let at_its_end = decide_within(pause);
    assert!(
        matches!(at_its_end, AfterFailure::Over(..)),
        "{at_its_end:?}"
    );
    let later = decide_within(pause + Duration::from_nanos(1));
    assert!(matches!(later, AfterFailure::RetryAt(..)), "{later:?}");
}

#[test]
fn the_end_of_a_transaction_is_retried_after_overload_whatever_the_options_say() {
    let policy = RetryPolicy {
        reads: false,
        writes: false,
        ..POLICY
    };
    for (step, expected) in [
        (TransactionStep::Statement, false),
        (TransactionStep::Commit, true),
        (TransactionStep::Abort, true),
    ] {
        let mut write = operation(CommandKind::RetryableWrite);
        write.request.transaction = Some(InTransaction::new(step));
        let after = decide(policy, write, overload(), TopologyType::Single);
        let is_retried = matches!(after, AfterFailure::RetryAt(..));
        assert_eq!(is_retried, expected, "{step:?}: {after:?}");
    }
}

#[test]
fn only_reads_are_retried_after_a_read_concern_that_is_not_available_yet() {
    // RR-2, RW-16.
    let fault = error_of_reply(&rawdoc! { "ok": 0, "code": 134 });
    for (kind, expected) in [(CommandKind::Read, 2), (CommandKind::RetryableWrite, 1)] {
        let (attempts, ..) = run_all_attempts(POLICY, kind, std::slice::from_ref(&fault));
        assert_eq!(attempts, expected, "{kind:?}");
    }
}

#[test]
fn the_interruption_of_a_connection_in_use_proves_an_attempt() {
    // RR-19.
    let message = "the connection was closed".to_owned();
    let interrupted = Error::new(ErrorKind::Interrupted { message });
    let message = "the pool was cleared".to_owned();
    let cleared = Error::new(ErrorKind::ConnectionPoolCleared { message });
    for kind in KINDS {
        assert!(proves_attempt(kind, &interrupted, true), "{kind:?}");
        assert!(!proves_attempt(kind, &cleared, true), "{kind:?}");
    }
}

#[test]
fn the_reworded_error_of_a_standalone_keeps_its_labels() {
    // RW-4.
    let text = "Transaction numbers are only allowed on a replica set member or mongos";
    let error = error_of_reply(&rawdoc! {
        "ok": 0, "code": 20, "errmsg": text, "errorLabels": ["SystemOverloadedError"],
    });
    let mut write = operation(CommandKind::RetryableWrite);
    write.request.txn_number = Some(1);
    let reworded = POLICY.label(&write, error, Some(&facts()));
    assert!(
        reworded.to_string().contains("retryWrites=false"),
        "{reworded}"
    );
    assert!(
        reworded.has_label(&Label::SystemOverloadedError),
        "{reworded}"
    );
}
