//! The decisions about failed attempts: whether and when an attempt is retried, and which error the
//! operation raises.

#[cfg(test)]
mod tests;

use super::{
    CommandKind, Operation, Request, TransactionStep, backoff::pause_after,
    transaction_labels::label_in_transaction,
};
use crate::{
    address::Address,
    connection::ConnectionFacts,
    description::{ServerType, TopologyType},
    error::{Error, ErrorKind, Label, Wait},
    random::Random,
    time::Instant,
};

/// The number of attempts of a retryable operation without a time limit and without overload
/// errors, the first attempt included (RR-18, RW-24). With a time limit, such an operation is
/// retried until its time is over.
const MAX_ATTEMPTS: u32 = 2;

/// The number of attempts in a row that may fail without a wait for a reply, a connection, a server
/// or the end of a pause. So check-outs that fail at once, for example from a cleared pool, do not
/// use up all retries at one instant.
const MAX_ATTEMPTS_WITHOUT_WAIT: u32 = 3;

/// The code of `IllegalOperation`, with which a server refuses a transaction number if its storage
/// engine does not support retryable writes.
const ILLEGAL_OPERATION: i32 = 20;

/// The text that replaces the message of a server without retryable writes, because that message
/// gives no advice (RW-4).
const NO_RETRYABLE_WRITES: &str = "This MongoDB deployment does not support retryable writes. \
                                   Please add retryWrites=false to your connection string.";

/// The codes after which a read is retried (RR-2), and so is a retryable write if its server is
/// older than 4.4 (RW-16). A read is also retried after code 134.
const RETRYABLE_CODES: [i32; 12] = [
    6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436,
];

/// The code of `ReadConcernMajorityNotAvailableYet`, after which only reads are retried.
const READ_CONCERN_NOT_AVAILABLE: i32 = 134;

/// The wire version of server 4.4, from which on servers add the label for retryable writes
/// themselves (RW-15).
const SERVER_LABELS_WIRE_VERSION: i32 = 9;

/// The state of an operation that decides about its retries.
#[derive(Debug, Default)]
pub(crate) struct RetryState {
    /// The number of attempts so far, failed check-outs included. An attempt counts from the start
    /// of its check-out. An attempt whose connection is lost or withdrawn before the exchange
    /// begins does not count.
    pub(crate) attempts: u32,
    /// The number of attempts that failed since the operation last waited or had a connection.
    pub(crate) attempts_without_wait: u32,
    /// True once an attempt failed with an overload error. From then on `maxAdaptiveRetries` limits
    /// all retries (BP-8).
    pub(crate) was_overloaded: bool,
    /// True once the connection of the operation had to authenticate again (AUTH-37).
    pub(crate) has_authenticated_again: bool,
    /// True once a server refused the `$clusterTime` of an attempt. The next attempts send none.
    pub(crate) without_cluster_time: bool,
    /// The time before which the next attempt must not begin; `None` if the attempt may begin at
    /// once.
    pub(crate) paused_until: Option<Instant>,
    /// The number of pauses before that of the first attempt; `None` if the first attempt begins at
    /// once.
    pub(crate) pauses_before: Option<u32>,
    /// Addresses of servers that retries avoid if other servers suit (RR-13, RW-23), without
    /// duplicates.
    pub(crate) deprioritized: Vec<Address>,
    /// The error of an earlier attempt, to raise if a retry sends no request or its error proves no
    /// attempt (RR-15, RR-19, RW-26).
    pub(crate) kept_error: Option<Error>,
}

/// The decision about an operation after a failed attempt.
#[derive(Debug)]
#[must_use]
pub(crate) enum AfterFailure {
    /// The next attempt begins now.
    RetryNow(Box<Operation>),
    /// The next attempt begins at this instant, which is later than now. Until then the operation
    /// holds no connection, except a pinned one (BP-13).
    RetryAt(Box<Operation>, Instant),
    /// The operation is over and raises this error.
    Over(Box<Operation>, Error),
}

/// How far a failed attempt came, and the state of the client at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedAttempt<'a> {
    /// The connection of the attempt, on which part of the request may have been sent; `None` if
    /// the check-out failed, if the operation could not run on the connection, and if the server
    /// has refused the command because the connection was not authenticated.
    pub(crate) facts: Option<&'a ConnectionFacts>,
    /// The current type of the topology.
    pub(crate) topology_type: TopologyType,
    /// True if the client is closed, so that nothing is retried.
    pub(crate) is_closed: bool,
}

/// The error of the latest attempt of an operation.
#[derive(Debug)]
pub(crate) struct LastError {
    pub(crate) error: Error,
    /// True if the attempt had an exchange, so that part of the request may have been sent.
    pub(crate) had_exchange: bool,
}

/// The options of a client about retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// `retryReads`: true if reads are retried.
    pub(crate) reads: bool,
    /// `retryWrites`: true if writes are retried.
    pub(crate) writes: bool,
    /// `maxAdaptiveRetries`: the largest number of retries of an operation that had an overload
    /// error, counted over all of its attempts (BP-4, BP-8).
    pub(crate) max_adaptive: u32,
    /// `enableOverloadRetargeting`: true if a retry after an overload error avoids the server of
    /// the failed attempt with every type of topology. If false, the retry avoids that server only
    /// on a sharded cluster (BP-9).
    pub(crate) overload_retargeting: bool,
}

impl RetryPolicy {
    /// Decides what follows an attempt that failed with `error`. Notes in the operation what its
    /// next attempt needs: the error to raise in the end, and the servers to avoid. `random`
    /// supplies the jitter of the pause.
    ///
    /// If the backoff would last until the operation's deadline or longer, the operation ends at
    /// once (BP-12).
    ///
    /// `error` has the labels that the driver [adds](Self::label).
    pub(crate) fn after_failure(
        self,
        now: Instant,
        mut operation: Box<Operation>,
        error: Error,
        attempt: FailedAttempt<'_>,
        random: &mut Random,
    ) -> AfterFailure {
        operation.retry.attempts_without_wait += 1;
        let is_overload = error.has_label(&Label::SystemOverloadedError);
        operation.retry.was_overloaded |= is_overload;
        let had_exchange = attempt.facts.is_some();
        let again = !attempt.is_closed && self.may_retry(&operation, &error, had_exchange);
        let is_late = operation.deadline.is_some_and(|deadline| deadline <= now);
        let last = LastError {
            error,
            had_exchange,
        };
        if !again || is_late {
            let error = error_at_end(&mut operation, now, last, again);
            return AfterFailure::Over(operation, error);
        }
        let pause = pause_after(&operation, &last.error, random);
        let until = now.checked_add(pause).filter(|&until| until > now);
        if is_overload && operation.deadline.is_some() && until >= operation.deadline {
            let error = error_at_end(&mut operation, now, last, false);
            return AfterFailure::Over(operation, error);
        }
        if let Some(address) = self.avoided(&last.error, attempt.topology_type)
            && !operation.retry.deprioritized.contains(address)
        {
            operation.retry.deprioritized.push(address.clone());
        }
        let kept = operation.retry.kept_error.take();
        operation.retry.kept_error = Some(error_to_raise(&operation, kept, last));
        operation.selection.begin_again();
        match until {
            Some(until) => AfterFailure::RetryAt(operation, until),
            None => AfterFailure::RetryNow(operation),
        }
    }

    /// True if a write of this kind carries a transaction number on a server of this type (RW-2).
    ///
    /// The type is from the hello of the connection, and can differ from the type that server
    /// selection used: a primary can step down while the connection is made, and its hello then
    /// reports a secondary. Such a server refuses the write, and only a write with a transaction
    /// number can be retried.
    pub(crate) fn wants_txn_number(self, kind: CommandKind, server: ServerType) -> bool {
        self.writes
            && kind == CommandKind::RetryableWrite
            && !matches!(
                server,
                ServerType::Standalone | ServerType::PossiblePrimary | ServerType::Unknown
            )
    }

    /// Adds the labels that the driver must add to the error of an attempt, and rewords it where
    /// the message of the server gives no advice. `facts` are those of the connection; `None` if
    /// the attempt had none.
    pub(crate) fn label(
        self,
        operation: &Operation,
        error: Error,
        facts: Option<&ConnectionFacts>,
    ) -> Error {
        let error = self.label_retryable(operation, error, facts);
        let error = label_in_transaction(&operation.request, error, facts.is_some());
        reworded(operation, error)
    }

    /// Adds the label `RetryableWriteError` where the driver must add it (RW-14, RW-16).
    fn label_retryable(
        self,
        operation: &Operation,
        error: Error,
        facts: Option<&ConnectionFacts>,
    ) -> Error {
        let request = &operation.request;
        let is_eligible = match facts {
            Some(_) => request.is_numbered_write(),
            None => {
                let is_write = request.kind == CommandKind::RetryableWrite;
                is_write && (request.transaction.is_none() || request.ends_transaction())
            }
        };
        if !self.retries_write(request) || !is_eligible {
            return error;
        }
        let is_retryable = match error.kind() {
            ErrorKind::ConnectionPoolCleared { .. } | ErrorKind::Interrupted { .. } => true,
            ErrorKind::Io(_) | ErrorKind::Tls { .. } | ErrorKind::Timeout { .. } => {
                error.is_connection_failure()
            }
            ErrorKind::Command(fault) => is_old(facts) && RETRYABLE_CODES.contains(&fault.code),
            ErrorKind::InsertMany(fault) => {
                is_old(facts)
                    && facts.is_some_and(|f| f.server_type != ServerType::Mongos)
                    && fault
                        .write_concern_error
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

    /// True if the operation may be retried after `error`, which has its labels already.
    /// `had_exchange` is true if part of the request may have been sent.
    fn may_retry(self, operation: &Operation, error: &Error, had_exchange: bool) -> bool {
        if self.has_no_attempt_left(operation) {
            return false;
        }
        let request = &operation.request;
        if is_retryable_overload(error) {
            return request.ends_transaction() || self.may_retry_overload(request.kind);
        }
        if request.transaction_step() == Some(TransactionStep::Statement) {
            return false;
        }
        // A retry would need another connection, which can lead to another service. The pin must be
        // released first, which only its holder decides (LB-39).
        if operation.request.pin.is_some() {
            return false;
        }
        match operation.request.kind {
            CommandKind::Read => self.reads && is_retryable_read(error),
            // The label alone does not make a retry safe: a server without support for transaction
            // numbers, such as a standalone, would apply the write twice (RW-3). An unacknowledged
            // write is not retried (RW-9).
            CommandKind::RetryableWrite => {
                operation.request.acknowledged
                    && self.retries_write(request)
                    && error.has_label(&Label::RetryableWriteError)
                    && (operation.request.is_numbered_write() || !had_exchange)
            }
            CommandKind::Write
            | CommandKind::WritingAggregate
            | CommandKind::Run
            | CommandKind::CursorFollowUp => false,
        }
    }

    /// True if the options permit retries of a retryable write. They cannot forbid those of the
    /// commands that end a transaction.
    fn retries_write(self, request: &Request) -> bool {
        self.writes || request.ends_transaction()
    }

    /// True if commands of this kind are retried after a retryable overload error: reads, `getMore`
    /// and `killCursors` with `retryReads`, writes with `retryWrites`, and `run_command` with both
    /// (BP-2, BP-3).
    ///
    /// The two labels of such an error guarantee that the server did nothing, so a retry needs
    /// neither a transaction number nor an acknowledgement. A pinned command is retried on its
    /// connection, which is intact after the reply of the server.
    const fn may_retry_overload(self, kind: CommandKind) -> bool {
        match kind {
            CommandKind::Read | CommandKind::CursorFollowUp => self.reads,
            CommandKind::RetryableWrite | CommandKind::Write | CommandKind::WritingAggregate => {
                self.writes
            }
            CommandKind::Run => self.reads && self.writes,
        }
    }

    /// True if the operation has used all of its attempts. After an overload error, it has
    /// `maxAdaptiveRetries` + 1 attempts (BP-8). Otherwise it has two, or with a time limit as many
    /// as fit (RR-18, RW-24). `timeoutMS=0` counts as a time limit here. Also true after
    /// [`MAX_ATTEMPTS_WITHOUT_WAIT`] attempts in a row without a wait.
    fn has_no_attempt_left(self, operation: &Operation) -> bool {
        let is_spent = if operation.retry.was_overloaded {
            operation.retry.attempts > self.max_adaptive
        } else {
            operation.retry.attempts >= MAX_ATTEMPTS && operation.request.timeout.is_none()
        };
        is_spent || operation.retry.attempts_without_wait >= MAX_ATTEMPTS_WITHOUT_WAIT
    }

    /// Returns the server that the next attempt avoids if others suit. On a sharded cluster, a
    /// retry avoids the server that failed (RR-13, RW-23). With other topologies, a retry avoids
    /// that server only after an overload error and with `enableOverloadRetargeting` (RR-14, BP-9).
    /// The server of a cleared pool is not avoided (RR-21).
    fn avoided(self, error: &Error, topology_type: TopologyType) -> Option<&Address> {
        let is_avoided = match error.kind() {
            ErrorKind::ConnectionPoolCleared { .. } => false,
            _ if topology_type == TopologyType::Sharded => true,
            _ => self.overload_retargeting && error.has_label(&Label::SystemOverloadedError),
        };
        error.server().filter(|_| is_avoided)
    }
}

/// True for an error with both labels of a retryable overload error (BP-1).
pub(crate) fn is_retryable_overload(error: &Error) -> bool {
    error.has_label(&Label::SystemOverloadedError) && error.has_label(&Label::RetryableError)
}

/// Replaces the message of a server whose storage engine does not support transaction numbers
/// (RW-4).
fn reworded(operation: &Operation, error: Error) -> Error {
    let fault = match error.kind() {
        ErrorKind::Command(fault) if operation.request.is_numbered_write() => fault,
        _ => return error,
    };
    let is_engine = fault.message.starts_with("Transaction numbers");
    if fault.code != ILLEGAL_OPERATION || !is_engine {
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

/// Returns the error to raise when the operation ends with `last` at `now`. `is_cut_short` is true
/// if the operation would be retried with more time.
///
/// If the deadline has passed, the error is a timeout in three cases: `last` is a timeout,
/// `is_cut_short` is true, or `last` is the failed server selection for a retry. The source of the
/// timeout is the error of an attempt that failed before, if there is one. In all other cases
/// [`error_to_raise`] decides. An attempt that was not sent because its reply would come after the
/// deadline counts as one after the deadline.
pub(crate) fn error_at_end(
    operation: &mut Operation,
    now: Instant,
    last: LastError,
    is_cut_short: bool,
) -> Error {
    let kept = operation.retry.kept_error.take();
    let is_late = |deadline| deadline <= now || is_refused_by_deadline(&last.error);
    if !operation.deadline.is_some_and(is_late) {
        return error_to_raise(operation, kept, last);
    }
    match kept {
        Some(kept) if last.error.is_deadline() => last.error.with_cause(kept),
        None if last.error.is_deadline() => last.error,
        kept if is_cut_short => out_of_time(
            operation,
            Wait::Exchange,
            error_to_raise(operation, kept, last),
        ),
        Some(kept) if matches!(last.error.kind(), ErrorKind::ServerSelection { .. }) => {
            out_of_time(operation, Wait::Selection, kept)
        }
        kept => error_to_raise(operation, kept, last),
    }
}

/// True if too little of the operation's time limit was left to send the command.
fn is_refused_by_deadline(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Timeout {
            wait: Wait::CheckOut,
            ..
        }
    )
}

fn out_of_time(operation: &Operation, wait: Wait, cause: Error) -> Error {
    let attempts = operation.retry.attempts;
    let limit = operation.request.timeout.unwrap_or_default().as_millis();
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

/// Returns the error to raise after all attempts: the latest error that proves an attempt on a
/// server, or the first error if none does (RR-19, RW-26). If a retry fails because it exceeds a
/// limit, returns that error. If an earlier attempt of a write was executed, its write concern
/// error is the source of the error.
fn error_to_raise(operation: &Operation, kept: Option<Error>, last: LastError) -> Error {
    let LastError {
        error: last,
        had_exchange,
    } = last;
    let is_proof = proves_attempt(operation.request.kind, &last, had_exchange);
    match kept {
        // The error of the earlier attempt does not mention the limit, so that error becomes the
        // source.
        Some(kept) if matches!(last.kind(), ErrorKind::Limit { .. }) => {
            last.with_labels(kept.labels()).with_cause(kept)
        }
        Some(kept) if !is_proof => kept,
        Some(kept) => last.after_execution(kept),
        None => last,
    }
}

/// True if the error of a read, a `getMore` or a `killCursors` comes from a server or the network,
/// or is the interruption of a connection in use (RR-19). The error of any other command must also
/// end an exchange and lack the label `NoWritesPerformed` (RW-26): for a write, a server that
/// refuses the handshake of a new connection does not hide how the attempt before ended. A
/// `run_command` counts as a write (BP-11).
fn proves_attempt(kind: CommandKind, error: &Error, had_exchange: bool) -> bool {
    let is_read = matches!(kind, CommandKind::Read | CommandKind::CursorFollowUp);
    let comes_from_server = matches!(
        error.kind(),
        ErrorKind::Command(_) | ErrorKind::InsertMany(_) | ErrorKind::Interrupted { .. }
    );
    (comes_from_server || error.is_connection_failure())
        && (is_read || had_exchange && !error.has_label(&Label::NoWritesPerformed))
}

fn is_retryable_read(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::ConnectionPoolCleared { .. } | ErrorKind::Interrupted { .. } => true,
        ErrorKind::Io(_) | ErrorKind::Tls { .. } | ErrorKind::Timeout { .. } => {
            error.is_connection_failure()
        }
        ErrorKind::Command(fault) => is_retryable_read_code(fault.code()),
        ErrorKind::Authentication {
            cause: Some(fault), ..
        } => is_retryable_read_code(fault.code()),
        _ => false,
    }
}

/// True if a read is retried after an error with this code (RR-2).
pub(super) fn is_retryable_read_code(code: Option<i32>) -> bool {
    code.is_some_and(|code| RETRYABLE_CODES.contains(&code) || code == READ_CONCERN_NOT_AVAILABLE)
}

fn is_old(facts: Option<&ConnectionFacts>) -> bool {
    facts.is_some_and(|f| f.max_wire_version < SERVER_LABELS_WIRE_VERSION)
}
