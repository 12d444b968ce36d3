//! Events of operations. No specification defines log messages for them.

use super::table::{Visit, events};
use crate::error::Error;
use std::{sync::Arc, time::Duration};

/// The fields that the events of one operation have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable-machines"), non_exhaustive)]
pub struct OperationFacts {
    /// The operation id, which command and selection events of the operation also have.
    pub operation_id: u64,
    /// The name of the first command, for example `find`.
    pub name: Arc<str>,
    /// The database of the first command.
    pub database: Arc<str>,
}

events! {
    /// The start and the end of an operation. The events of its server selections and of its
    /// commands come between them.
    #[derive(Clone, Debug)]
    pub enum OperationEvent {
        /// The first command of the operation was given to the client.
        Started {
            /// The id, the name and the database of the operation.
            facts: Arc<OperationFacts>,
        }
        trace ("operation {} begins: {}", facts.operation_id, facts.name);

        /// The operation succeeded or failed, or its future was dropped.
        Ended {
            /// The id, the name and the database of the operation.
            facts: Arc<OperationFacts>,
            /// The time since the started event, including waits and retries.
            duration: Duration,
            /// The error of the operation; `None` if it succeeded. The error is
            /// `ErrorKind::Abandoned` if the future of the operation was dropped.
            failure: Option<Error>,
        }
        trace ("operation {} {}", facts.operation_id, result(failure.as_ref()));
    }
}

/// Returns the part of a `Display` line about how an operation ended.
fn result(failure: Option<&Error>) -> String {
    failure.map_or_else(|| "ends".to_owned(), |error| format!("fails: {error}"))
}
