//! What may be done after an attempt has failed: the one place where retries are decided.

use super::{CommandKind, Operation};
use crate::{
    connection::ConnectionFacts,
    description::ServerType,
    error::{Error, ErrorKind, Label, Wait},
    options::MIN_HEARTBEAT_FREQUENCY,
    random::Random,
    time::Instant,
};
use std::time::Duration;

/// Attempts of a retryable operation without a time limit of its own, the first included (RR-18,
/// RW-24). With a time limit an operation is tried again until its time is over.
const MAX_ATTEMPTS: u32 = 2;

/// Attempts in a row that may fail without the operation having waited for anything: a reply, a
/// connection, or a change of the topology. A pool that is cleared fails a check-out at once, so
/// that an operation with a time limit could otherwise be tried again without end at one instant.
const MAX_UNWAITED_ATTEMPTS: u32 = 3;

/// The pause before the third attempt of an operation, at most; it doubles with each attempt, up to
/// [`OVERLOAD_PAUSE`]. The second attempt follows at once.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The pause between two attempts of an operation with a time limit, where the first met a server
/// that may be overloaded, and the longest of all pauses. It is that between two checks of a server
/// that somebody waits for, so that the next attempt knows what the check has found.
const OVERLOAD_PAUSE: Duration = MIN_HEARTBEAT_FREQUENCY;

/// The code of `IllegalOperation`, which a storage engine without retryable writes answers.
const ILLEGAL_OPERATION: i32 = 20;

/// The text that replaces the server's own, which does not say what to do (RW-4).
const NO_RETRYABLE_WRITES: &str = "This MongoDB deployment does not support retryable writes. \
                                   Please add retryWrites=false to your connection string.";

/// Codes after which a read may be repeated (RR-2); those of writes are the same without 134.
const RETRYABLE_CODES: [i32; 12] = [
    6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436,
];

/// `ReadConcernMajorityNotAvailableYet`: only reads meet it.
const READ_CONCERN_NOT_AVAILABLE: i32 = 134;

/// Servers from this wire version on put the label for retryable writes themselves (RW-15).
const SERVER_LABELS_WIRE_VERSION: i32 = 9;

/// The client's wishes about retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// `retryReads`.
    pub(crate) reads: bool,
    /// `retryWrites`.
    pub(crate) writes: bool,
}

impl RetryPolicy {
    /// True if a write of this kind carries a transaction number on a server of this type (RW-2).
    ///
    /// The type is the one that the connection's own hello told. It may be another than the one by
    /// which the server was chosen: a primary that steps down while the connection is made says
    /// secondary, and the write that it will refuse must be one that can be repeated elsewhere.
    pub(crate) fn wants_txn_number(self, kind: CommandKind, server: ServerType) -> bool {
        self.writes
            && kind == CommandKind::RetryableWrite
            && !matches!(
                server,
                ServerType::Standalone | ServerType::PossiblePrimary | ServerType::Unknown
            )
    }

    /// Adds the labels that the driver itself must put (RW-14, RW-16). `facts` are those of the
    /// connection, where the attempt got as far.
    pub(crate) fn label(
        self,
        operation: &Operation,
        error: Error,
        facts: Option<&ConnectionFacts>,
    ) -> Error {
        let eligible = match facts {
            Some(_) => operation.txn_number.is_some(),
            None => operation.command.kind == CommandKind::RetryableWrite,
        };
        if !self.writes || !eligible {
            return error;
        }
        let is_retryable = match error.kind() {
            ErrorKind::PoolCleared { .. } | ErrorKind::Interrupted { .. } => true,
            ErrorKind::Network { .. } | ErrorKind::Tls { .. } | ErrorKind::Timeout { .. } => {
                error.is_network()
            }
            ErrorKind::Command(fault) => {
                is_old(facts)
                    && fault
                        .code
                        .is_some_and(|code| RETRYABLE_CODES.contains(&code))
            }
            ErrorKind::Write(fault) => {
                is_old(facts)
                    && facts.is_some_and(|f| f.server_type != ServerType::Mongos)
                    && fault
                        .write_concern
                        .as_ref()
                        .is_some_and(|w| RETRYABLE_CODES.contains(&w.code))
            }
            _ => false,
        };
        if is_retryable {
            error.with_label(Label::RetryableWriteError)
        } else {
            error
        }
    }

    /// True if the operation may be tried once more after `error`, which is labelled already.
    /// `was_leased` says that the attempt had a connection, so that anything of its request may
    /// have been sent.
    pub(crate) fn may_retry(self, operation: &Operation, error: &Error, was_leased: bool) -> bool {
        // Another attempt would need another connection, and so another service: what was pinned
        // has to be given up first, and that is for its owner to decide (LB-39).
        if operation.command.pin.is_some() || has_no_attempt_left(operation) {
            return false;
        }
        match operation.command.kind {
            CommandKind::Read => self.reads && is_retryable_read(error),
            // The label alone does not make a repetition safe: a server that knows no transaction
            // numbers, such as a standalone, would apply the write twice (RW-3). RW-9: nobody would
            // hear how the retry of an unacknowledged write went.
            CommandKind::RetryableWrite => {
                operation.command.acknowledged
                    && self.writes
                    && error.has_label(&Label::RetryableWriteError)
                    && (operation.txn_number.is_some() || !was_leased)
            }
            CommandKind::Write
            | CommandKind::WritingAggregate
            | CommandKind::Run
            | CommandKind::CursorFollowUp => false,
        }
    }
}

/// RR-18, RW-24: two attempts, or with a time limit as many as fit. A time limit of zero has no end
/// and counts as one.
fn has_no_attempt_left(operation: &Operation) -> bool {
    let is_timed = operation.command.timeout.is_some();
    let is_spent = operation.attempts >= MAX_ATTEMPTS && !is_timed;
    is_spent || operation.unwaited >= MAX_UNWAITED_ATTEMPTS
}

/// When an operation may be tried again after `error`: `None` for at once.
///
/// A server that takes no connections stays selectable (CMAP-148), and so does one that answers
/// each command at once with a retryable error: an operation with a time limit would ask it without
/// end. So its attempts after the second come at growing intervals, of which half is drawn. An
/// operation without a time limit has a single retry, which need not wait.
pub(crate) fn pause_after(
    operation: &Operation,
    error: &Error,
    now: Instant,
    random: &mut Random,
) -> Option<Instant> {
    operation.command.timeout?;
    if error.has_label(&Label::SystemOverloadedError) {
        return now.checked_add(OVERLOAD_PAUSE);
    }
    let pauses_before = operation.attempts.checked_sub(MAX_ATTEMPTS)?;
    let longest = FIRST_PAUSE.saturating_mul(1 << pauses_before.min(10));
    let half = longest.min(OVERLOAD_PAUSE) / 2;
    let drawn = random.below(u64::try_from(half.as_nanos()).unwrap_or(u64::MAX) + 1);
    now.checked_add(half + Duration::from_nanos(drawn))
}

/// Replaces the text of a server whose storage engine knows no transaction numbers (RW-4).
pub(crate) fn reworded(operation: &Operation, error: Error) -> Error {
    let fault = match error.kind() {
        ErrorKind::Command(fault) if operation.txn_number.is_some() => fault,
        _ => return error,
    };
    let is_engine = fault.message.starts_with("Transaction numbers");
    if fault.code != Some(ILLEGAL_OPERATION) || !is_engine {
        return error;
    }
    let mut fault = fault.clone();
    fault.message = NO_RETRYABLE_WRITES.to_owned();
    let reworded = Error::new(ErrorKind::Command(fault)).with_labels(error.labels());
    match error.server() {
        Some(server) => reworded.with_server(server),
        None => reworded,
    }
}

/// The error to raise when the operation ends with `last` at `now`. `is_cut_short` says that it
/// would be tried again if there were time.
///
/// A time limit that has passed is told as a timeout, which has what failed before as its source,
/// as the specification of client-side timeouts asks for. Other ends go by [`error_to_raise`].
pub(crate) fn error_at_end(
    operation: &mut Operation,
    now: Instant,
    last: Error,
    is_cut_short: bool,
) -> Error {
    let kept = operation.kept_error.take();
    if operation.deadline.is_none_or(|deadline| deadline > now) {
        return error_to_raise(kept, last);
    }
    match kept {
        Some(kept) if last.is_timeout() => last.with_cause(kept),
        None if last.is_timeout() => last,
        kept if is_cut_short => out_of_time(operation, Wait::Exchange, error_to_raise(kept, last)),
        Some(kept) if matches!(last.kind(), ErrorKind::ServerSelection { .. }) => {
            out_of_time(operation, Wait::Selection, kept)
        }
        kept => error_to_raise(kept, last),
    }
}

fn out_of_time(operation: &Operation, wait: Wait, cause: Error) -> Error {
    let attempts = operation.attempts;
    let limit = operation.command.timeout.unwrap_or_default().as_millis();
    let message = format!(
        "the operation's time limit of {limit} ms passed after {attempts} attempts; the last \
         failure was: {cause}"
    );
    let labels = cause.labels().clone();
    let error = match cause.server() {
        Some(server) => Error::timeout(wait, message).with_server(server),
        None => Error::timeout(wait, message),
    };
    error.with_labels(&labels).with_cause(cause)
}

/// The error to raise when attempts are over: the latest one that proves an attempt on a server,
/// unless it says that it wrote nothing (RR-19, RW-26).
pub(crate) fn error_to_raise(kept: Option<Error>, last: Error) -> Error {
    match kept {
        // What failed before does not say why the retry could not be sent.
        Some(kept) if matches!(last.kind(), ErrorKind::Limit { .. }) => {
            last.with_labels(kept.labels()).with_cause(kept)
        }
        Some(kept) if !proves_attempt(&last) || last.has_label(&Label::NoWritesPerformed) => kept,
        _ => last,
    }
}

/// True if the error comes from a server or from the network after the command was sent.
fn proves_attempt(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Command(_) | ErrorKind::Write(_) | ErrorKind::Interrupted { .. }
    ) || error.is_network()
}

fn is_retryable_read(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::PoolCleared { .. } | ErrorKind::Interrupted { .. } => true,
        ErrorKind::Network { .. } | ErrorKind::Tls { .. } | ErrorKind::Timeout { .. } => {
            error.is_network()
        }
        ErrorKind::Command(fault) => is_retryable_read_code(fault.code),
        ErrorKind::Authentication {
            cause: Some(fault), ..
        } => is_retryable_read_code(fault.code),
        _ => false,
    }
}

fn is_retryable_read_code(code: Option<i32>) -> bool {
    code.is_some_and(|code| RETRYABLE_CODES.contains(&code) || code == READ_CONCERN_NOT_AVAILABLE)
}

fn is_old(facts: Option<&ConnectionFacts>) -> bool {
    facts.is_some_and(|f| f.max_wire_version < SERVER_LABELS_WIRE_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::{NetworkFault, TlsFault, Wait},
        operation::{Command, OperationId},
        time::Instant,
    };

    #[test]
    fn what_breaks_an_established_connection_is_retried_whatever_broke_it() {
        // RR-2, RW-14, RR-19
        let tls = |fault| {
            let message = "an alert".to_owned();
            Error::new(ErrorKind::Tls { fault, message })
        };
        let policy = RetryPolicy {
            reads: true,
            writes: true,
        };
        let operation = |kind| {
            let command = Command::new("find", "db", kind);
            let mut operation = Operation::new(OperationId(0), command, Instant::ZERO);
            operation.attempts = 1;
            operation
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
            assert_eq!(policy.may_retry(&read, &error, true), expected, "{error:?}");
            let mut write = operation(CommandKind::RetryableWrite);
            write.txn_number = Some(1);
            let labelled = policy.label(&write, error.clone(), None);
            assert_eq!(
                policy.may_retry(&write, &labelled, true),
                expected,
                "{error:?}"
            );
            assert_eq!(proves_attempt(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn a_member_that_has_just_stepped_down_gets_a_number_too() {
        let policy = RetryPolicy {
            reads: true,
            writes: true,
        };
        for (server, expected) in [
            (ServerType::Standalone, false),
            (ServerType::Unknown, false),
            (ServerType::Mongos, true),
            (ServerType::LoadBalancer, true),
            (ServerType::RsPrimary, true),
            (ServerType::RsSecondary, true),
            (ServerType::RsOther, true),
        ] {
            let wants = policy.wants_txn_number(CommandKind::RetryableWrite, server);
            assert_eq!(wants, expected, "{server}");
            assert!(!policy.wants_txn_number(CommandKind::Write, server));
        }
    }
}
