//! The error labels of replies, which tell clients whether and how to try again.

use super::fields::ends;
use crate::server::{connection::Request, fault::is_retryable};

/// The codes of the errors that are transient in any command of a transaction, in addition to those
/// that retryable writes have. MaxTimeMSExpired (50) is none of them.
const TRANSIENT: [i32; 10] = [
    24,    // LockTimeout
    112,   // WriteConflict
    150,   // StaleEpoch
    239,   // SnapshotTooOld
    246,   // SnapshotUnavailable
    249,   // StaleDbVersion
    250,   // StaleChunkHistory
    267,   // PreparedTransactionInProgress
    272,   // MigrationConflict
    13388, // StaleConfig
];

/// Returns the labels of a reply with this error and this write concern error. `is_labelled` is
/// true if the server labels retryable writes.
pub(in crate::server) fn labels(
    request: &Request,
    code: Option<i32>,
    concern: Option<i32>,
    is_labelled: bool,
) -> Vec<String> {
    if code.is_none() && concern.is_none() {
        return Vec::new();
    }
    let command = &request.command;
    let is_part = command.contains_key("autocommit");
    let is_end = ends(&request.name);
    let is_transient = |code: i32| match (is_end, code) {
        (true, 251) => concern.is_none(),
        (false, code) if is_retryable(code) || code == 251 => true,
        (_, code) => TRANSIENT.contains(&code),
    };
    let mut labels = Vec::new();
    if is_part && code.is_some_and(is_transient) {
        labels.push("TransientTransactionError".to_owned());
    }
    let is_write = command.contains_key("txnNumber") && (!is_part || is_end);
    let mut codes = code.into_iter().chain(concern);
    if is_labelled && is_write && codes.any(is_retryable) {
        labels.push("RetryableWriteError".to_owned());
    }
    labels
}
