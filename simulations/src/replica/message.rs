//! What members say to each other.

use super::log::{Entry, Position, Records};
use crate::store::Store;
use bson::Timestamp;
use std::sync::Arc;

/// A message, with the sender's term at the time of sending.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) term: u64,
    pub(crate) kind: Kind,
}

/// What a message is about.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A member asks for a vote.
    VoteRequest {
        /// The term that it wants to lead.
        candidacy: u64,
        /// Only asks whether it would get the vote, which binds nobody.
        dry: bool,
        /// The primary has asked it to stand.
        handoff: bool,
        /// The end of its oplog.
        last: Position,
    },
    /// The answer.
    Vote {
        candidacy: u64,
        dry: bool,
        granted: bool,
    },
    /// A primary is alive, and perhaps has entries.
    Append {
        previous: Position,
        entries: Vec<Arc<Entry>>,
        commit: u64,
    },
    /// How far the member has come, or from where it wants to hear again.
    Appended { result: Result<u64, u64> },
    /// All data that a majority has, for a member that has fallen behind the oplog.
    Snapshot {
        last: Position,
        time: Timestamp,
        data: Box<(Store, Records)>,
    },
    /// The primary has stepped down and asks this member to stand at once.
    Stand,
}
