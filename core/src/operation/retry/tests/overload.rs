//! Overload errors: which commands are retried, how often, and after which pause.

use super::*;

#[test]
fn overload_errors_are_retried_if_retry_reads_and_retry_writes_allow_it() {
    // Every command is retried after a retryable overload error (BP-2), if `retryReads` and
    // `retryWrites` allow the retry (BP-3).
    for kind in KINDS {
        for (reads, writes) in [(true, true), (true, false), (false, true), (false, false)] {
            let policy = RetryPolicy {
                reads,
                writes,
                ..POLICY
            };
            let expected = match kind {
                CommandKind::Read | CommandKind::CursorFollowUp => reads,
                CommandKind::RetryableWrite | CommandKind::Write => writes,
                CommandKind::WritingAggregate => writes,
                CommandKind::Run => reads && writes,
            };
            let (attempts, pauses, error) = run_all_attempts(policy, kind, &[overload()]);
            let expected = if expected { (3, 2) } else { (1, 0) };
            assert_eq!((attempts, pauses), expected, "{kind:?} {reads} {writes}");
            assert_eq!(error.code(), Some(462));
        }
    }
}

#[test]
fn both_overload_labels_together_make_any_error_retryable() {
    // Only an error with both labels is a retryable overload error. Each label can come without the
    // other (BP-1).
    let labelled = |labels: &[Label]| {
        let error = error_of_reply(&rawdoc! { "ok": 0, "code": 2 });
        labels.iter().cloned().fold(error, Error::with_label)
    };
    let (overload, retryable) = (Label::SystemOverloadedError, Label::RetryableError);
    for kind in KINDS {
        for (labels, expected) in [
            (vec![], 1),
            (vec![overload.clone()], 1),
            (vec![retryable.clone()], 1),
            (vec![overload.clone(), retryable.clone()], 3),
        ] {
            let (attempts, ..) = run_all_attempts(POLICY, kind, &[labelled(&labels)]);
            assert_eq!(attempts, expected, "{kind:?} {labels:?}");
        }
    }
    // Code 91 is retryable by the rules of reads and writes. With the label
    // `SystemOverloadedError`, its retries have a backoff, and `maxAdaptiveRetries` is their limit.
    let both = failure(91).with_label(overload);
    for kind in [CommandKind::Read, CommandKind::RetryableWrite] {
        let (attempts, pauses, _) = run_all_attempts(POLICY, kind, std::slice::from_ref(&both));
        assert_eq!((attempts, pauses), (3, 2), "{kind:?}");
    }
}

#[test]
fn after_an_overload_error_max_adaptive_retries_limits_all_retries() {
    // After an overload error, `maxAdaptiveRetries` limits all retries of the operation (BP-4,
    // BP-8), those before the overload error included (BP trap 2). The prose tests are RR-P4,
    // RW-P6.4, BP-P3 and BP-P4.
    for kind in [CommandKind::Read, CommandKind::RetryableWrite] {
        for (max_adaptive, errors, expected) in [
            (2, vec![overload()], 3),
            (1, vec![overload()], 2),
            (0, vec![overload()], 1),
            (7, vec![overload()], 8),
            (2, vec![overload(), failure(91)], 3),
            (5, vec![overload(), failure(91)], 6),
            (0, vec![failure(91)], 2),
            (2, vec![failure(91), overload()], 3),
            (1, vec![failure(91), overload()], 2),
            (0, vec![failure(91), overload()], 2),
        ] {
            let policy = RetryPolicy {
                max_adaptive,
                ..POLICY
            };
            let (attempts, ..) = run_all_attempts(policy, kind, &errors);
            assert_eq!(attempts, expected, "{kind:?} {max_adaptive} {errors:?}");
        }
    }
}

#[test]
fn a_time_limit_does_not_change_the_number_of_overload_retries() {
    // `maxAdaptiveRetries` limits the retries with and without a time limit of the operation
    // (BP-8).
    let mut operation = limited(CommandKind::Read, Some(Duration::from_secs(60)));
    for attempts in 1..=3 {
        operation.retry.attempts = attempts;
        operation.retry.attempts_without_wait = 0;
        let error = if attempts == 1 {
            overload()
        } else {
            failure(91)
        };
        let after = decide(POLICY, operation, error, TopologyType::Single);
        match after {
            AfterFailure::RetryNow(again) => {
                assert_eq!(attempts, 2, "no pause after what is no overload (BP-7)");
                operation = again;
            }
            AfterFailure::RetryAt(again, _) => {
                assert_eq!(attempts, 1);
                operation = again;
            }
            AfterFailure::Over(_, error) => {
                assert_eq!((attempts, error.code()), (3, Some(91)));
                return;
            }
        }
    }
    panic!("the third attempt is the last");
}

#[test]
fn only_overload_errors_are_followed_by_a_backoff() {
    // Only an attempt that ended with an overload error is followed by a backoff (BP-7, prose tests
    // RR-P5 and RW-P6.5).
    for kind in [CommandKind::Read, CommandKind::RetryableWrite] {
        let (attempts, pauses, _) = run_all_attempts(POLICY, kind, &[overload(), failure(91)]);
        assert_eq!((attempts, pauses), (3, 1), "{kind:?}");
        let (attempts, pauses, _) = run_all_attempts(POLICY, kind, &[failure(91)]);
        assert_eq!((attempts, pauses), (2, 0), "{kind:?}");
    }
}

/// Returns the pauses of 500 operations after attempt number `attempts` failed with `error`.
fn pauses(attempts: u32, error: &Error) -> Vec<Duration> {
    let mut random = Seed::new([3; 32]).random();
    let facts = facts();
    let attempt = FailedAttempt {
        facts: Some(&facts),
        ..AT_CHECK_OUT
    };
    let drawn = (0..500).map(|_| {
        let mut operation = operation(CommandKind::Run);
        operation.retry.attempts = attempts;
        match POLICY.after_failure(NOW, operation, error.clone(), attempt, &mut random) {
            AfterFailure::RetryAt(_, until) => until - NOW,
            other => panic!("{other:?}"),
        }
    });
    drawn.collect()
}

#[test]
fn the_backoff_is_uniformly_random_between_zero_and_its_maximum() {
    // The jitter is uniform in [0, 1) (BP-5). A positive `baseBackoffMS` in the reply replaces the
    // base (BP-6, prose test BP-P5).
    let overload_with_base = |base: i64| {
        error_of_reply(&rawdoc! {
            "ok": 0, "code": 462, "baseBackoffMS": base,
            "errorLabels": ["SystemOverloadedError", "RetryableError"],
        })
    };
    for (error, attempts, longest) in [
        (overload(), 1, 200),
        (overload(), 2, 400),
        (overload_with_base(50), 1, 100),
        (overload_with_base(50), 2, 200),
        (overload_with_base(0), 1, 200),
        (overload_with_base(-7), 2, 400),
        (overload_with_base(i64::MAX), 1, 10_000),
    ] {
        let drawn = pauses(attempts, &error);
        let longest = Duration::from_millis(longest);
        let mean = drawn.iter().sum::<Duration>() / drawn.len() as u32;
        assert!(drawn.iter().all(|pause| *pause < longest), "{longest:?}");
        assert!(drawn.iter().any(|pause| *pause < longest / 20));
        assert!(drawn.iter().any(|pause| *pause > longest * 19 / 20));
        assert!(mean > longest * 2 / 5 && mean < longest * 3 / 5, "{mean:?}");
    }
}

#[test]
fn a_backoff_that_lasts_beyond_the_deadline_is_not_begun() {
    // A backoff that would pass the deadline is not begun (BP-12). The first backoff is below 200
    // ms, and with this seed above 1 ms.
    for (limit, is_over) in [(1, true), (200, false)] {
        let limit = Duration::from_millis(limit);
        for kind in KINDS {
            let operation = limited(kind, Some(limit));
            match decide(POLICY, operation, overload(), TopologyType::Single) {
                AfterFailure::Over(_, error) => {
                    assert!(is_over);
                    // The time limit has not passed, so the operation raises the error of the
                    // server.
                    assert_eq!(error.code(), Some(462));
                }
                AfterFailure::RetryAt(_, until) => assert!(!is_over && until < NOW + limit),
                AfterFailure::RetryNow(_) => panic!("there is a backoff"),
            }
        }
    }
    // `timeoutMS=0` sets no deadline.
    let endless = limited(CommandKind::Read, Some(Duration::ZERO));
    let after = decide(POLICY, endless, overload(), TopologyType::Single);
    assert!(matches!(after, AfterFailure::RetryAt(..)), "{after:?}");
}
