//! Events of server selection.

use crate::{address::Address, description::TopologyDescription, error::Error};
use std::{sync::Arc, time::Duration};

/// Facts that all events of one selection share (SEL-62).
#[derive(Clone, Debug)]
pub struct SelectionFacts {
    /// The name of the operation's command, for example `find`.
    pub operation: Arc<str>,
    /// The number of the operation, the same as in its command events; a retry keeps it.
    pub operation_id: u64,
    /// What is demanded of a server, in words, all parts of a read preference included.
    pub selector: Arc<str>,
    /// What was known of the deployment at that moment.
    pub topology: Arc<TopologyDescription>,
}

/// Events of server selection (SEL-61). Each attempt of an operation selects anew; what runs where
/// its cursor lives does not select (SEL-2).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SelectionEvent {
    /// A server is looked for.
    Started {
        /// For what.
        facts: SelectionFacts,
    },
    /// No server suits at the moment. Told once per operation, whatever comes and goes meanwhile.
    Waiting {
        /// For what.
        facts: SelectionFacts,
        /// How long it will wait at most; `None` for without limit.
        remaining: Option<Duration>,
    },
    /// A server was chosen.
    Succeeded {
        /// For what.
        facts: SelectionFacts,
        /// Which.
        address: Address,
    },
    /// No server was chosen: for want of time, because waiting would not help, or because the
    /// caller left or the client closed.
    Failed {
        /// For what.
        facts: SelectionFacts,
        /// Why, without what the topology in `facts` tells already.
        failure: Error,
    },
}
