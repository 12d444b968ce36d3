//! Events of server selection, with their log messages (SEL-61 to SEL-64).

use super::table::{Fields, Millis, Visit, events};
use crate::{address::Address, description::TopologyDescription, error::Error};
use std::{sync::Arc, time::Duration};

/// The fields that all events of one server selection have in common.
///
/// See [SEL-62].
///
/// [SEL-62]: crate::requirements::server_selection#SEL-62
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "unstable-machines"), non_exhaustive)]
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

impl Fields for SelectionFacts {
    fn visit(&self, _: &'static str, visit: &mut Visit<'_>) {
        self.selector.visit("selector", visit);
        self.operation_id.visit("operationId", visit);
        self.operation.visit("operation", visit);
        self.topology.visit("topologyDescription", visit);
    }
}

/// The text of a log message: `$words`, the operation, `$fields`, the criteria, and the topology
/// description.
macro_rules! selection {
    ($words:literal, $fields:literal) => {
        concat!(
            $words,
            " for operation {operation} with ID {operationId}.",
            $fields,
            " Selector: {selector}, topology description: {topologyDescription}"
        )
    };
}

events! {
    /// Events of server selection. A command that runs on the server of a cursor or on a pinned
    /// connection selects no server, and has none of these events ([SEL-61], [SEL-2]).
    ///
    /// [SEL-61]: crate::requirements::server_selection#SEL-61
    /// [SEL-2]: crate::requirements::server_selection#SEL-2
    #[derive(Clone, Debug)]
    pub enum SelectionEvent {
        /// An attempt of a command begins to select a server.
        Started {
            /// The operation, its criteria and the topology description.
            facts: SelectionFacts => "facts",
        }
        trace ("operation {} selects", facts.operation_id)
        log "Server selection started",
            selection!("Server selection started", "");

        /// No server is suitable at the moment. Emitted at most once per command, retries included.
        Waiting {
            /// The operation, its criteria and the topology description.
            facts: SelectionFacts => "facts",
            /// The time that is left for server selection; `None` without a time limit, for example
            /// with `serverSelectionTryOnce`.
            remaining: Option<Duration> => ("remainingTimeMS", remaining.map(Millis)),
        }
        trace ("operation {} waits {remaining:?}", facts.operation_id)
        log "Waiting for suitable server to become available",
            selection!(
                "Waiting for server to become available",
                "[ Remaining time: {remainingTimeMS} ms.]"
            );

        /// A server was selected.
        Succeeded {
            /// The operation, its criteria and the topology description.
            facts: SelectionFacts => "facts",
            /// The address of the selected server.
            address: Address => "server",
        }
        trace ("operation {} selected {address}", facts.operation_id)
        log "Server selection succeeded",
            selection!("Server selection succeeded", " Selected server: {server}.");

        /// Server selection failed. The reason is, for example, a time limit, an error that waiting
        /// does not resolve, a dropped future of the operation, or a closed client.
        Failed {
            /// The operation, its criteria and the topology description.
            facts: SelectionFacts => "facts",
            /// The error, without the topology description, which is in `facts`.
            failure: Error => "failure",
        }
        trace ("operation {} selected none: {failure}", facts.operation_id)
        log "Server selection failed",
            selection!("Server selection failed", " Failure: {failure}.");
    }
}
