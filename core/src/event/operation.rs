//! Events of operations.

use crate::error::Error;
use std::{sync::Arc, time::Duration};

/// Facts that the events of one operation share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationFacts {
    /// The number of the operation, the same as in its command and selection events.
    pub operation_id: u64,
    /// The name of its first command, for example `find`.
    pub name: Arc<str>,
    /// The database of its first command.
    pub database: Arc<str>,
}

/// The beginning and the end of an operation. Everything that the operation does is told between
/// the two: its server selections, its check-outs, and its commands with their retries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OperationEvent {
    /// The first command of the operation was handed to the client.
    Started {
        /// Which operation.
        facts: Arc<OperationFacts>,
    },
    /// The operation is over. Each operation that started ends once.
    Ended {
        /// Which operation.
        facts: Arc<OperationFacts>,
        /// From its start to its end, waits and retries included.
        duration: Duration,
        /// Why it failed. An operation whose caller left failed with `ErrorKind::Abandoned`.
        failure: Option<Error>,
    },
}
