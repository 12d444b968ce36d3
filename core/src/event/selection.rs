//! Events of server selection.

use crate::{address::Address, description::TopologyDescription, error::Error};
use std::{sync::Arc, time::Duration};

/// The fields that all events of one server selection have in common (SEL-62).
#[derive(Clone, Debug)]
pub struct SelectionFacts {
    /// The name of the command, for example `find`.
    pub operation: Arc<str>,
    /// The operation id, which the command events of the operation also have. A retry keeps the id.
    pub operation_id: u64,
    /// The selection criteria as a text, with all parts of the read preference.
    pub selector: Arc<str>,
    /// The topology description at the time of the event.
    pub topology: Arc<TopologyDescription>,
}

/// Events of server selection (SEL-61). Each attempt of an operation selects a server. A command
/// that runs on the server of its cursor does not (SEL-2).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SelectionEvent {
    /// A server selection starts.
    Started {
        /// The operation and its criteria.
        facts: SelectionFacts,
    },
    /// No server is suitable at the moment. Emitted at most once per operation.
    Waiting {
        /// The operation and its criteria.
        facts: SelectionFacts,
        /// The time until server selection fails; `None` for no limit.
        remaining: Option<Duration>,
    },
    /// A server was selected.
    Succeeded {
        /// The operation and its criteria.
        facts: SelectionFacts,
        /// The address of the selected server.
        address: Address,
    },
    /// Server selection failed. The reason is a time limit, an error that waiting does not resolve,
    /// a dropped future of the operation, or a closed client.
    Failed {
        /// The operation and its criteria.
        facts: SelectionFacts,
        /// The error, without the topology description, which is in `facts`.
        failure: Error,
    },
}
