//! Tests of the decisions after failed attempts.

mod boundaries;
mod overload;
mod raised;

use super::*;
use crate::{
    address::Address,
    connection::SocketId,
    description::{ServerId, TopologyId},
    error::{CommandError, NetworkFault, TlsFault, Wait},
    operation::{Assessment, Command, InTransaction, OperationId},
    pool::ConnectionId,
    random::Seed,
};
use bson::{RawDocumentBuf, rawdoc};
use std::time::Duration;

const KINDS: [CommandKind; 6] = [
    CommandKind::Read,
    CommandKind::RetryableWrite,
    CommandKind::Write,
    CommandKind::WritingAggregate,
    CommandKind::Run,
    CommandKind::CursorFollowUp,
];

const POLICY: RetryPolicy = RetryPolicy {
    reads: true,
    writes: true,
    max_adaptive: 2,
    overload_retargeting: false,
};

const NOW: Instant = Instant::ZERO;

/// Returns an operation whose first attempt runs.
fn operation(kind: CommandKind) -> Box<Operation> {
    limited(kind, None)
}

fn limited(kind: CommandKind, limit: Option<Duration>) -> Box<Operation> {
    let mut command = Command::new("x", "db", kind);
    command.set_timeout(limit);
    let mut operation = Operation::new(OperationId(0), command, NOW);
    operation.retry.attempts = 1;
    operation
}

/// Returns the facts of a connection to a primary that adds error labels itself.
fn facts() -> ConnectionFacts {
    ConnectionFacts {
        client: TopologyId([0; 12].into()),
        address: Address::tcp("a", 1),
        server: ServerId(0),
        socket: SocketId::new(1, 0),
        pooled: ConnectionId::new(1, 0),
        service: None,
        server_connection_id: None,
        server_type: ServerType::RsPrimary,
        max_wire_version: 21,
        max_bson_object_size: 1 << 24,
        max_message_size: 48_000_000,
        max_write_batch_size: 100_000,
        has_sessions: true,
        is_cryptd: false,
        is_unauthenticated: false,
    }
}

/// Returns the error of an operation to which a server sends this reply.
fn error_of_reply(reply: &RawDocumentBuf) -> Error {
    let fault = CommandError::from_reply(reply);
    let labels = crate::error::Labels::from_reply(reply);
    Error::new(ErrorKind::Command(fault))
        .with_labels(&labels)
        .with_server(&Address::tcp("a", 1))
}

fn overload() -> Error {
    error_of_reply(&rawdoc! {
        "ok": 0, "code": 462, "errorLabels": ["SystemOverloadedError", "RetryableError"],
    })
}

/// Returns an error reply with this code and the label `RetryableWriteError`, without the labels of
/// an overload error.
fn failure(code: i32) -> Error {
    error_of_reply(&rawdoc! { "ok": 0, "code": code, "errorLabels": ["RetryableWriteError"] })
}

fn wrote_nothing(code: i32) -> Error {
    failure(code).with_label(Label::NoWritesPerformed)
}

/// An attempt that failed at the check-out.
const AT_CHECK_OUT: FailedAttempt<'_> = FailedAttempt {
    facts: None,
    topology_type: TopologyType::ReplicaSetWithPrimary,
    is_closed: false,
};

fn decide(
    policy: RetryPolicy,
    operation: Box<Operation>,
    error: Error,
    topology_type: TopologyType,
) -> AfterFailure {
    let facts = facts();
    let attempt = FailedAttempt {
        facts: Some(&facts),
        topology_type,
        ..AT_CHECK_OUT
    };
    let mut random = Seed::new([1; 32]).random();
    after_failure(policy, operation, error, attempt, &mut random)
}

/// Adds the labels of the driver to the error of an attempt, and decides what follows, as the
/// client does.
fn after_failure(
    policy: RetryPolicy,
    operation: Box<Operation>,
    error: Error,
    attempt: FailedAttempt<'_>,
    random: &mut Random,
) -> AfterFailure {
    let error = policy.label(&operation, error, attempt.facts);
    policy.after_failure(NOW, operation, error, attempt, random)
}

/// Lets the attempts of an operation fail with these errors in turn, and with the last one from
/// then on. Returns the number of attempts, how many of them came after a pause, and the error that
/// the operation raises.
fn run_all_attempts(
    policy: RetryPolicy,
    kind: CommandKind,
    errors: &[Error],
) -> (u32, usize, Error) {
    let mut operation = operation(kind);
    operation.request.txn_number = Some(1);
    let mut pauses = 0;
    loop {
        let nth = operation.retry.attempts as usize - 1;
        let error = errors[nth.min(errors.len() - 1)].clone();
        let set = TopologyType::ReplicaSetWithPrimary;
        operation = match decide(policy, operation, error, set) {
            AfterFailure::Over(operation, error) => {
                return (operation.retry.attempts, pauses, error);
            }
            AfterFailure::RetryNow(operation) => operation,
            AfterFailure::RetryAt(operation, until) => {
                assert!(until > NOW);
                pauses += 1;
                operation
            }
        };
        operation.retry.attempts += 1;
        // The attempt waited for a reply.
        operation.retry.attempts_without_wait = 0;
    }
}

#[test]
fn deprioritization_depends_on_topology_error_and_option() {
    // The topology, the error and the option decide whether the failed server is deprioritized
    // (RR-14, BP-9, prose tests RR-P3.1 to RR-P3.3). The server of a cleared pool never is (RR-21).
    let cleared = Error::new(ErrorKind::ConnectionPoolCleared {
        message: String::new(),
    });
    let cleared = cleared.with_server(&Address::tcp("a", 1));
    let overloaded = overload();
    for topology_type in [
        TopologyType::Sharded,
        TopologyType::ReplicaSetWithPrimary,
        TopologyType::ReplicaSetNoPrimary,
        TopologyType::Single,
        TopologyType::LoadBalanced,
    ] {
        let is_sharded = topology_type == TopologyType::Sharded;
        for (overload_retargeting, error, expected) in [
            (false, &overloaded, is_sharded),
            (true, &overloaded, true),
            (false, &failure(6), is_sharded),
            (true, &failure(6), is_sharded),
            (true, &cleared, false),
        ] {
            let policy = RetryPolicy {
                overload_retargeting,
                ..POLICY
            };
            let operation = operation(CommandKind::Read);
            let after = decide(policy, operation, error.clone(), topology_type);
            let (AfterFailure::RetryNow(operation) | AfterFailure::RetryAt(operation, _)) = after
            else {
                panic!("{error:?} is retryable");
            };
            let is_avoided = !operation.retry.deprioritized.is_empty();
            assert_eq!(
                is_avoided, expected,
                "{topology_type} {overload_retargeting} {error}"
            );
        }
    }
}

#[test]
fn a_server_that_fails_twice_is_deprioritized_once() {
    let policy = RetryPolicy {
        overload_retargeting: true,
        ..POLICY
    };
    let first = decide(
        policy,
        operation(CommandKind::Read),
        overload(),
        TopologyType::Single,
    );
    let AfterFailure::RetryAt(mut operation, _) = first else {
        panic!("{first:?}");
    };
    operation.retry.attempts = 2;
    let second = decide(policy, operation, overload(), TopologyType::Single);
    let AfterFailure::RetryAt(operation, _) = second else {
        panic!("{second:?}");
    };
    assert_eq!(operation.retry.deprioritized, [Address::tcp("a", 1)]);
}

#[test]
fn the_latest_error_without_no_writes_performed_is_raised_or_the_first() {
    // The operation raises the latest error that proves an attempt, or the first error if none does
    // (RW-26, prose tests RW-P6.1 to RW-P6.3).
    let first = |code| {
        let both = [Label::SystemOverloadedError, Label::RetryableError];
        both.into_iter().fold(failure(code), Error::with_label)
    };
    let nothing = |code| first(code).with_label(Label::NoWritesPerformed);
    for (errors, expected) in [
        (vec![first(91), failure(10107)], 10107),
        (vec![nothing(91), wrote_nothing(10107)], 91),
        (vec![first(91), wrote_nothing(10107)], 91),
        (vec![nothing(91), failure(6), wrote_nothing(10107)], 6),
    ] {
        let (_, _, error) = run_all_attempts(POLICY, CommandKind::RetryableWrite, &errors);
        assert_eq!(error.code(), Some(expected), "{errors:?}");
        let all = errors
            .iter()
            .all(|e| e.has_label(&Label::NoWritesPerformed));
        assert_eq!(error.has_label(&Label::NoWritesPerformed), all);
    }
    // A `run_command` counts as a write (BP-11). A read raises the last error of the server
    // (RR-19), whether or not that error has the label `NoWritesPerformed`.
    let errors = [nothing(91), nothing(462)];
    for kind in KINDS {
        let (_, _, error) = run_all_attempts(POLICY, kind, &errors);
        let is_read = matches!(kind, CommandKind::Read | CommandKind::CursorFollowUp);
        assert_eq!(
            error.code(),
            Some(if is_read { 462 } else { 91 }),
            "{kind:?}"
        );
    }
}

#[test]
fn a_retry_restarts_the_server_selection_timeout() {
    // Each retry selects a server anew (RR-13, RW-22), so the time limit of server selection starts
    // again.
    let mut read = operation(CommandKind::Read);
    read.selection.began = Some(NOW);
    let after = decide(POLICY, read, failure(91), TopologyType::Single);
    let AfterFailure::RetryNow(again) = after else {
        panic!("{after:?}");
    };
    assert_eq!(again.selection.began, None);
}

#[test]
fn at_most_three_attempts_in_a_row_fail_without_waiting() {
    // A check-out that fails because the pool was cleared is safe to retry (RR-21). Without the
    // limit of three attempts in a row, all 100 retries would be used up at one instant.
    let policy = RetryPolicy {
        max_adaptive: 100,
        ..POLICY
    };
    let mut operation = operation(CommandKind::Read);
    operation.retry.was_overloaded = true;
    let mut random = Seed::new([1; 32]).random();
    for attempt in 1..=3 {
        let message = String::new();
        let cleared = Error::new(ErrorKind::ConnectionPoolCleared { message });
        match after_failure(policy, operation, cleared, AT_CHECK_OUT, &mut random) {
            AfterFailure::RetryNow(again) => operation = again,
            AfterFailure::Over(..) => return assert_eq!(attempt, 3),
            AfterFailure::RetryAt(..) => panic!("a cleared pool is no overload"),
        }
        operation.retry.attempts += 1;
    }
    panic!("the third is the last");
}

#[test]
fn a_retried_write_reuses_its_transaction_number() {
    // A retried write keeps its transaction number (BP-10).
    let mut write = operation(CommandKind::RetryableWrite);
    write.request.txn_number = Some(7);
    let after = decide(POLICY, write, overload(), TopologyType::Sharded);
    let AfterFailure::RetryAt(again, _) = after else {
        panic!("{after:?}");
    };
    assert_eq!(again.request.txn_number, Some(7));
}

#[test]
fn a_transaction_number_alone_does_not_make_a_write_retryable() {
    // The commands of a transaction have a transaction number and are not retryable.
    let lost = || Error::network(NetworkFault::Reset, "reset");
    for kind in [CommandKind::Write, CommandKind::Run] {
        let mut write = operation(kind);
        write.request.txn_number = Some(7);
        match decide(POLICY, write, lost(), TopologyType::Sharded) {
            AfterFailure::Over(_, error) => {
                assert!(!error.has_label(&Label::RetryableWriteError), "{kind:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_write_without_txn_number_is_retried_only_after_overload() {
    // After an overload error every command is retried (BP-2), because the server did nothing.
    // After other errors, no write is retried without a transaction number (RW-3) or without an
    // acknowledgement (RW-9).
    for (acknowledged, error, expected) in [
        (true, overload(), true),
        (false, overload(), true),
        (true, failure(91), false),
        (false, failure(91), false),
    ] {
        let mut write = operation(CommandKind::RetryableWrite);
        write.request.acknowledged = acknowledged;
        let after = decide(POLICY, write, error, TopologyType::Single);
        let again = !matches!(after, AfterFailure::Over(..));
        assert_eq!(again, expected, "{acknowledged}: {after:?}");
    }
}

#[test]
fn a_labelled_connection_error_is_overload_for_every_command() {
    // With the labels `SystemOverloadedError` and `RetryableError`, a connection error is an
    // overload error for the operation too (BP-15, BP trap 3).
    let refused = Error::network(NetworkFault::Refused, "refused");
    let both = [Label::SystemOverloadedError, Label::RetryableError];
    let labelled = both.into_iter().fold(refused.clone(), Error::with_label);
    let mut random = Seed::new([1; 32]).random();
    for kind in KINDS {
        let after = after_failure(
            POLICY,
            operation(kind),
            labelled.clone(),
            AT_CHECK_OUT,
            &mut random,
        );
        assert!(matches!(after, AfterFailure::RetryAt(..)), "{after:?}");
    }
    // Without the labels, as after a network error during authentication, the rules of reads and
    // writes apply.
    for kind in KINDS {
        let after = after_failure(
            POLICY,
            operation(kind),
            refused.clone(),
            AT_CHECK_OUT,
            &mut random,
        );
        let again = matches!(after, AfterFailure::RetryNow(_));
        let expected = matches!(kind, CommandKind::Read | CommandKind::RetryableWrite);
        assert_eq!(again, expected, "{kind:?}");
    }
}

#[test]
fn no_command_is_retried_after_the_client_is_closed() {
    let attempt = FailedAttempt {
        is_closed: true,
        ..AT_CHECK_OUT
    };
    let mut random = Seed::new([1; 32]).random();
    for kind in KINDS {
        let after = after_failure(POLICY, operation(kind), overload(), attempt, &mut random);
        assert!(matches!(after, AfterFailure::Over(..)), "{after:?}");
    }
}

#[test]
fn errors_that_break_an_established_connection_are_retryable() {
    // A network error is retryable for reads (RR-2) and for writes (RW-14), and proves an attempt
    // (RR-19).
    let tls = |fault| {
        let message = "an alert".to_owned();
        Error::new(ErrorKind::Tls { fault, message })
    };
    for (error, expected) in [
        (Error::network(NetworkFault::Reset, "reset"), true),
        (Error::timeout(Wait::Exchange, "late"), true),
        (tls(TlsFault::Broken), true),
        (tls(TlsFault::Handshake), false),
        (tls(TlsFault::Certificate), false),
        (Error::timeout(Wait::Selection, "late"), false),
    ] {
        assert_eq!(error.is_network(), expected, "{error:?}");
        let read = operation(CommandKind::Read);
        assert_eq!(POLICY.may_retry(&read, &error, true), expected, "{error:?}");
        let mut write = operation(CommandKind::RetryableWrite);
        write.request.txn_number = Some(1);
        let labelled = POLICY.label(&write, error.clone(), None);
        assert_eq!(
            POLICY.may_retry(&write, &labelled, true),
            expected,
            "{error:?}"
        );
        for kind in KINDS {
            assert_eq!(proves_attempt(kind, &error, true), expected, "{error:?}");
        }
    }
}

#[test]
fn a_statement_of_a_transaction_is_no_retryable_write_if_its_check_out_fails() {
    let message = String::new();
    let cleared = Error::new(ErrorKind::ConnectionPoolCleared { message });
    for (step, expected) in [
        (None, true),
        (Some(TransactionStep::Statement), false),
        (Some(TransactionStep::Commit), true),
        (Some(TransactionStep::Abort), true),
    ] {
        let mut write = operation(CommandKind::RetryableWrite);
        write.request.transaction = step.map(InTransaction::new);
        let labelled = POLICY.label(&write, cleared.clone(), None);
        let has_label = labelled.has_label(&Label::RetryableWriteError);
        assert_eq!(has_label, expected, "{step:?}");
    }
}

/// A mongos retries the write itself after such an error (RW-16).
#[test]
fn the_write_concern_error_of_an_old_server_is_retryable_except_from_mongos() {
    let reply = rawdoc! { "ok": 1, "n": 1, "writeConcernError": { "code": 91, "errmsg": "" } };
    let assessment = Assessment::new(&reply, CommandKind::RetryableWrite, None);
    let error = assessment.result.expect_err("the write concern failed");
    for (server_type, max_wire_version, expected) in [
        (ServerType::RsPrimary, 8, true),
        (ServerType::RsPrimary, 9, false),
        (ServerType::Mongos, 8, false),
        (ServerType::Mongos, 9, false),
    ] {
        let mut write = operation(CommandKind::RetryableWrite);
        write.request.txn_number = Some(1);
        let facts = ConnectionFacts {
            server_type,
            max_wire_version,
            ..facts()
        };
        let labelled = POLICY.label(&write, error.clone(), Some(&facts));
        let has_label = labelled.has_label(&Label::RetryableWriteError);
        assert_eq!(has_label, expected, "{server_type} {max_wire_version}");
    }
}

#[test]
fn retryable_writes_have_txn_numbers_except_on_standalone_or_unknown() {
    for (server, expected) in [
        (ServerType::Standalone, false),
        (ServerType::Unknown, false),
        (ServerType::Mongos, true),
        (ServerType::LoadBalancer, true),
        (ServerType::RsPrimary, true),
        (ServerType::RsSecondary, true),
        (ServerType::RsOther, true),
    ] {
        let wants = POLICY.wants_txn_number(CommandKind::RetryableWrite, server);
        assert_eq!(wants, expected, "{server}");
        assert!(!POLICY.wants_txn_number(CommandKind::Write, server));
    }
}
