//! What follows a failed attempt: the one place where retries are decided.

#[cfg(test)]
mod tests;

use super::{CommandKind, Operation, backoff::pause_after};
use crate::{
    address::Address,
    connection::ConnectionFacts,
    description::{ServerType, TopologyType},
    error::{Error, ErrorKind, Label, Wait},
    random::Random,
    time::Instant,
};

/// Attempts of a retryable operation that met no overload and has no time limit of its own, the
/// first included (RR-18, RW-24). With a time limit such an operation is tried again until its time
/// is over.
const MAX_ATTEMPTS: u32 = 2;

/// Attempts in a row that may fail without the operation having waited for anything: a reply, a
/// connection, or a change of the topology. A pool that is cleared fails a check-out at once, so
/// that an operation with a time limit could otherwise be tried again without end at one instant.
const MAX_UNWAITED_ATTEMPTS: u32 = 3;

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

/// What follows a failed attempt.
#[derive(Debug)]
#[must_use]
pub(crate) enum AfterFailure {
    /// The next attempt begins now.
    RetryNow(Box<Operation>),
    /// The next attempt begins at this instant, which is later than now. Until then the operation
    /// has no connection, unless one is pinned for its owner (BP-13).
    RetryAt(Box<Operation>, Instant),
    /// The operation is over and raises this error.
    Over(Box<Operation>, Error),
}

/// How far a failed attempt came, and what is known at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedAttempt<'a> {
    /// The connection that the attempt had, so that anything of its request may have been sent;
    /// `None` if its check-out failed.
    pub(crate) facts: Option<&'a ConnectionFacts>,
    /// The present type of the topology.
    pub(crate) topology_type: TopologyType,
    /// The client is closed: nothing is tried again.
    pub(crate) is_closed: bool,
}

/// The client's options about retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// `retryReads`.
    pub(crate) reads: bool,
    /// `retryWrites`.
    pub(crate) writes: bool,
    /// `maxAdaptiveRetries`: retries of an operation that met overload, counted over all of its
    /// attempts (BP-4, BP-8).
    pub(crate) max_adaptive: u32,
    /// `enableOverloadRetargeting` (BP-9).
    pub(crate) retargets: bool,
}

impl RetryPolicy {
    /// Decides what follows an attempt that failed with `error`, and notes in the operation what
    /// its next attempt goes by: the error to raise in the end, and the servers to avoid.
    ///
    /// A retry whose backoff would last until the operation's deadline or longer is not waited for:
    /// the operation is over at once (BP-12). `random` draws the jitter of the pause.
    pub(crate) fn after_failure(
        self,
        now: Instant,
        mut operation: Box<Operation>,
        error: Error,
        attempt: FailedAttempt<'_>,
        random: &mut Random,
    ) -> AfterFailure {
        let error = reworded(&operation, self.label(&operation, error, attempt.facts));
        operation.unwaited += 1;
        let is_overload = error.has_label(&Label::SystemOverloadedError);
        operation.was_overloaded |= is_overload;
        let had_connection = attempt.facts.is_some();
        let again = !attempt.is_closed && self.may_retry(&operation, &error, had_connection);
        let is_late = operation.deadline.is_some_and(|deadline| deadline <= now);
        if !again || is_late {
            let error = error_at_end(&mut operation, now, error, again);
            return AfterFailure::Over(operation, error);
        }
        let pause = pause_after(&operation, &error, random);
        let until = now.checked_add(pause).filter(|&until| until > now);
        if is_overload && operation.deadline.is_some() && until >= operation.deadline {
            let error = error_at_end(&mut operation, now, error, false);
            return AfterFailure::Over(operation, error);
        }
        if let Some(address) = self.avoided(&error, attempt.topology_type)
            && !operation.deprioritized.contains(address)
        {
            operation.deprioritized.push(address.clone());
        }
        let kept = operation.kept_error.take();
        operation.kept_error = Some(error_to_raise(&operation, kept, error));
        operation.selection_began = None;
        match until {
            Some(until) => AfterFailure::RetryAt(operation, until),
            None => AfterFailure::RetryNow(operation),
        }
    }

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
    fn label(self, operation: &Operation, error: Error, facts: Option<&ConnectionFacts>) -> Error {
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
    /// `had_connection` says that the attempt had a connection, so that anything of its request may
    /// have been sent.
    fn may_retry(self, operation: &Operation, error: &Error, had_connection: bool) -> bool {
        if self.has_no_attempt_left(operation) {
            return false;
        }
        if is_retryable_overload(error) {
            return self.may_retry_overload(operation.command.kind);
        }
        // Another attempt would need another connection, and so another service: what was pinned
        // has to be given up first, and that is for its owner to decide (LB-39).
        if operation.command.pin.is_some() {
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
                    && (operation.txn_number.is_some() || !had_connection)
            }
            CommandKind::Write
            | CommandKind::WritingAggregate
            | CommandKind::Run
            | CommandKind::CursorFollowUp => false,
        }
    }

    /// True if commands of this kind are tried again after a retryable overload error: reads with
    /// `retryReads`, writes with `retryWrites`, commands that are not inspected with both (BP-2,
    /// BP-3).
    ///
    /// The server guarantees by its labels that nothing was done, so neither a transaction number
    /// nor an acknowledgement is needed. A pinned command is repeated on its connection, which the
    /// server's reply has left whole.
    const fn may_retry_overload(self, kind: CommandKind) -> bool {
        match kind {
            CommandKind::Read | CommandKind::CursorFollowUp => self.reads,
            CommandKind::RetryableWrite | CommandKind::Write | CommandKind::WritingAggregate => {
                self.writes
            }
            CommandKind::Run => self.reads && self.writes,
        }
    }

    /// True if the operation has had all of its attempts: `maxAdaptiveRetries` and one, once it met
    /// overload (BP-8), else two, or with a time limit as many as fit (RR-18, RW-24). A time limit
    /// of zero has no end and counts as one.
    fn has_no_attempt_left(self, operation: &Operation) -> bool {
        let is_spent = if operation.was_overloaded {
            operation.attempts > self.max_adaptive
        } else {
            operation.attempts >= MAX_ATTEMPTS && operation.command.timeout.is_none()
        };
        is_spent || operation.unwaited >= MAX_UNWAITED_ATTEMPTS
    }

    /// Returns the server that the next attempt avoids where others suit: on a sharded cluster the
    /// one that failed (RR-13, RW-23), elsewhere only after overload and only with
    /// `enableOverloadRetargeting` (RR-14, BP-9). A cleared pool says nothing new about its server
    /// (RR-21).
    fn avoided(self, error: &Error, topology_type: TopologyType) -> Option<&Address> {
        let is_avoided = match error.kind() {
            ErrorKind::PoolCleared { .. } => false,
            _ if topology_type == TopologyType::Sharded => true,
            _ => self.retargets && error.has_label(&Label::SystemOverloadedError),
        };
        error.server().filter(|_| is_avoided)
    }
}

/// True for an error that the server, or the pool for it, calls both overload and retryable (BP-1).
fn is_retryable_overload(error: &Error) -> bool {
    error.has_label(&Label::SystemOverloadedError) && error.has_label(&Label::RetryableError)
}

/// Replaces the text of a server whose storage engine knows no transaction numbers (RW-4).
fn reworded(operation: &Operation, error: Error) -> Error {
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
        return error_to_raise(operation, kept, last);
    }
    match kept {
        Some(kept) if last.is_timeout() => last.with_cause(kept),
        None if last.is_timeout() => last,
        kept if is_cut_short => out_of_time(
            operation,
            Wait::Exchange,
            error_to_raise(operation, kept, last),
        ),
        Some(kept) if matches!(last.kind(), ErrorKind::ServerSelection { .. }) => {
            out_of_time(operation, Wait::Selection, kept)
        }
        kept => error_to_raise(operation, kept, last),
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

/// The error to raise when attempts are over: the latest one that proves an attempt on a server; if
/// none does, the first one (RR-19, RW-26).
fn error_to_raise(operation: &Operation, kept: Option<Error>, last: Error) -> Error {
    match kept {
        // What failed before does not say why the retry could not be sent.
        Some(kept) if matches!(last.kind(), ErrorKind::Limit { .. }) => {
            last.with_labels(kept.labels()).with_cause(kept)
        }
        Some(kept) if !proves_attempt(operation.command.kind, &last) => kept,
        _ => last,
    }
}

/// True if the error comes from a server or from the network after the command was sent. One that
/// says that nothing was written proves no attempt of a write; a generic command counts as a write
/// (BP-11), and to a read the label means nothing (RR-19).
fn proves_attempt(kind: CommandKind, error: &Error) -> bool {
    let is_read = matches!(kind, CommandKind::Read | CommandKind::CursorFollowUp);
    let comes_from_server = matches!(
        error.kind(),
        ErrorKind::Command(_) | ErrorKind::Write(_) | ErrorKind::Interrupted { .. }
    );
    (comes_from_server || error.is_network())
        && (is_read || !error.has_label(&Label::NoWritesPerformed))
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
