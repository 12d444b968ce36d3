//! The messages between members.

use super::{
    SetConfig,
    log::{Entry, Position},
    records::Records,
};
use crate::store::Store;
use bson::Timestamp;
use std::sync::Arc;

/// A message, with the term, the configuration and the cluster time that its sender had at the
/// time.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) term: u64,
    pub(crate) config: Arc<SetConfig>,
    /// The latest cluster time that the sender has learned from others.
    pub(crate) clock: Timestamp,
    pub(crate) kind: Kind,
}

impl Message {
    /// Returns the number of changes that the receiver applies.
    pub(crate) fn changes(&self) -> usize {
        match &self.kind {
            Kind::Append { entries, .. } | Kind::Copy { entries, .. } => {
                entries.iter().map(|entry| entry.changes.len()).sum()
            }
            _ => 0,
        }
    }
}

/// The content of a message.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A candidate requests a vote.
    VoteRequest {
        /// The term that the candidate wants to lead.
        candidacy: u64,
        /// True if the candidate only asks whether it would get the vote. The reply binds no
        /// member.
        dry: bool,
        /// True if the former primary asked the candidate to start this election.
        handoff: bool,
        /// The last position in the candidate's oplog.
        last: Position,
        /// The candidate's majority commit point.
        commit: u64,
    },
    /// The reply to a vote request.
    Vote {
        candidacy: u64,
        dry: bool,
        granted: bool,
    },
    /// Entries that follow the position `previous`. A heartbeat of the primary has the same form,
    /// and can be without entries.
    Append {
        previous: Position,
        entries: Vec<Arc<Entry>>,
        commit: u64,
    },
    /// The reply to `Append` and `Snapshot`. `Ok` has the index up to which the oplogs agree, or 0
    /// from an arbiter. `Err` refuses the message, and has the index after which the primary can
    /// try again.
    Appended { result: Result<u64, u64> },
    /// A copy of the data at the majority commit point, for a member whose next entries the primary
    /// has removed from its oplog.
    Snapshot {
        last: Position,
        time: Timestamp,
        data: Box<(Store, Records)>,
    },
    /// Entries that follow the position `previous`, from a member that has not voted for the
    /// receiver because it has a longer oplog.
    Copy {
        previous: Position,
        entries: Vec<Arc<Entry>>,
    },
    /// The reply to `Append` and `Snapshot` of a member in its initial sync.
    Syncing {
        /// True if the member waits for a `Snapshot`.
        needs_copy: bool,
    },
    /// The configuration alone, between servers of which one does not have the other in its set.
    Config,
    /// The primary steps down and asks the receiver to start an election at once.
    StartElection,
}
