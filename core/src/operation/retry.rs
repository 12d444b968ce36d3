//! What may be done after an attempt has failed: the one place where retries are decided.

use super::{CommandKind, Operation};
use crate::{
    connection::ConnectionFacts,
    description::ServerType,
    error::{Error, ErrorKind, Label},
};

/// Attempts of a retryable operation, the first included (RR-18, RW-24).
const MAX_ATTEMPTS: u32 = 2;

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
            ErrorKind::Network { .. } => true,
            ErrorKind::Timeout { .. } => error.is_network(),
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
    pub(crate) fn may_retry(self, operation: &Operation, error: &Error) -> bool {
        // Another attempt would need another connection, and so another service: what was pinned
        // has to be given up first, and that is for its owner to decide (LB-39).
        if operation.attempts >= MAX_ATTEMPTS || operation.command.pin.is_some() {
            return false;
        }
        match operation.command.kind {
            CommandKind::Read => self.reads && is_retryable_read(error),
            // RW-9: nobody would hear how the retry of an unacknowledged write went.
            CommandKind::RetryableWrite => {
                operation.command.acknowledged
                    && self.writes
                    && error.has_label(&Label::RetryableWriteError)
            }
            CommandKind::Write
            | CommandKind::WritingAggregate
            | CommandKind::Run
            | CommandKind::CursorFollowUp => false,
        }
    }
}

/// The error to raise when attempts are over: the latest one that proves an attempt on a server,
/// unless it says that it wrote nothing (RR-19, RW-26).
pub(crate) fn error_to_raise(kept: Option<Error>, last: Error) -> Error {
    match kept {
        Some(kept) if !proves_attempt(&last) || last.has_label(&Label::NoWritesPerformed) => kept,
        _ => last,
    }
}

/// True if the error comes from a server or from the network after the command was sent.
fn proves_attempt(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Command(_)
            | ErrorKind::Write(_)
            | ErrorKind::Network { .. }
            | ErrorKind::Interrupted { .. }
    ) || (error.is_timeout() && error.is_network())
}

fn is_retryable_read(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::PoolCleared { .. } | ErrorKind::Interrupted { .. } => true,
        ErrorKind::Network { .. } => true,
        ErrorKind::Timeout { .. } => error.is_network(),
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
