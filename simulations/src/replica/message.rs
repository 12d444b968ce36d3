//! The messages between members.

use super::log::{Entry, Position, Records};
use crate::store::Store;
use bson::Timestamp;
use std::sync::Arc;

/// A message, with the sender's term when it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) term: u64,
    pub(crate) kind: Kind,
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
    },
    /// The reply to a vote request.
    Vote {
        candidacy: u64,
        dry: bool,
        granted: bool,
    },
    /// The entries that a member lacks. Without entries, the message is only a heartbeat of the
    /// primary.
    Append {
        previous: Position,
        entries: Vec<Arc<Entry>>,
        commit: u64,
    },
    /// The reply to `Append` and `Snapshot`. `Ok` has the index up to which the oplogs agree, and
    /// `Err` the index after which the primary must send again.
    Appended { result: Result<u64, u64> },
    /// All data that a majority has, for a member that lacks entries which the primary has removed.
    Snapshot {
        last: Position,
        time: Timestamp,
        data: Box<(Store, Records)>,
    },
    /// The primary has stepped down and asks this member to start an election at once.
    StartElection,
}
