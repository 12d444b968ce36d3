//! The outputs of a deployment: actions, and reports about its members.

use std::fmt;

/// The id of a client's connection, which the caller chooses. The caller uses each id once and
/// leaves its eight highest bits unset, because the deployment uses these for connections to
/// shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// An action that the caller must carry out, or a report. The enum is exhaustive, so that a caller
/// that lacks an action does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Close this connection after the transmitted bytes are written. The deployment has already
    /// forgotten the connection.
    Close(ConnId),
    /// Accept connections to this member from now on. All members accept connections at the start.
    Listen(usize),
    /// Refuse connections to this member from now on.
    StopListening(usize),
    /// A report of an event. The caller need not do anything.
    Report(MemberEvent),
}

/// An event that concerns one member, such as an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberEvent {
    /// A member became primary: it won an election, or it is the primary from the start.
    Elected {
        /// The index of the member, from 0.
        member: usize,
        /// The term in which the member is primary.
        term: u64,
    },
    /// A primary stepped down.
    SteppedDown {
        /// The index of the member, from 0.
        member: usize,
        /// The term in which the member was primary.
        term: u64,
        /// The reason, as text for reports.
        reason: &'static str,
    },
    /// The process of a member ended.
    Killed {
        /// The index of the member, from 0.
        member: usize,
    },
    /// The process of a member started again.
    Restarted {
        /// The index of the member, from 0.
        member: usize,
    },
    /// A member rolled back writes that no majority had.
    RolledBack {
        /// The index of the member, from 0.
        member: usize,
        /// The number of oplog entries that were rolled back.
        entries: u64,
    },
    /// An entry of the primary's oplog did not fit the data of a member, so the member stops and
    /// cannot be started again. This is a defect of the simulated server: please report it.
    Failed {
        /// The index of the member, from 0.
        member: usize,
        /// The change that did not fit, and why, as text for reports.
        reason: String,
    },
    /// A member has a copy of the data of the primary, because its own oplog was too far behind, or
    /// at the end of its initial sync.
    Resynced {
        /// The index of the member, from 0.
        member: usize,
    },
    /// A member has learned that the configuration of the set no longer has it. It closes all
    /// connections of clients.
    Removed {
        /// The index of the member, from 0.
        member: usize,
    },
    /// A member has learned that the configuration of the set has it again, or for the first time.
    Added {
        /// The index of the member, from 0.
        member: usize,
    },
}

impl fmt::Display for MemberEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elected { member, term } => {
                write!(f, "member {member} is primary in term {term}")
            }
            Self::SteppedDown {
                member,
                term,
                reason,
            } => write!(f, "member {member} was primary in term {term}: {reason}"),
            Self::Killed { member } => write!(f, "the process of member {member} has ended"),
            Self::Restarted { member } => write!(f, "the process of member {member} has started"),
            Self::RolledBack { member, entries } => {
                write!(
                    f,
                    "member {member} has rolled back {entries} entries of the oplog"
                )
            }
            Self::Failed { member, reason } => write!(f, "member {member} has stopped: {reason}"),
            Self::Resynced { member } => {
                write!(f, "member {member} has copied the data of the primary")
            }
            Self::Removed { member } => write!(f, "member {member} is removed from the set"),
            Self::Added { member } => write!(f, "member {member} is added to the set"),
        }
    }
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// A server without a replica set.
    Standalone,
    /// A router of a sharded cluster.
    Router,
    /// A member that accepts writes.
    Primary,
    /// A member that follows a primary, or that waits for one.
    Secondary,
    /// A member in its initial sync: it copies the data of the primary, in the state `STARTUP2`.
    Syncing,
    /// A member that votes and holds no data.
    Arbiter,
    /// A server that the configuration of the set does not have, in the state `REMOVED`.
    Removed,
    /// A member whose process is not running.
    Down,
}

impl MemberState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Standalone,
        Self::Router,
        Self::Primary,
        Self::Secondary,
        Self::Syncing,
        Self::Arbiter,
        Self::Removed,
        Self::Down,
    ];

    /// Returns the name of the state, such as `primary`.
    ///
    /// ```
    /// use onionskin_deployment::deployment::MemberState;
    ///
    /// assert!(MemberState::ALL.iter().any(|state| state.name() == "syncing"));
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Router => "router",
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Syncing => "syncing",
            Self::Arbiter => "arbiter",
            Self::Removed => "removed",
            Self::Down => "down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the state that follows in the list of all states. A new state needs an arm here.
    const fn next(state: Option<MemberState>) -> Option<MemberState> {
        Some(match state {
            None => MemberState::Standalone,
            Some(MemberState::Standalone) => MemberState::Router,
            Some(MemberState::Router) => MemberState::Primary,
            Some(MemberState::Primary) => MemberState::Secondary,
            Some(MemberState::Secondary) => MemberState::Syncing,
            Some(MemberState::Syncing) => MemberState::Arbiter,
            Some(MemberState::Arbiter) => MemberState::Removed,
            Some(MemberState::Removed) => MemberState::Down,
            Some(MemberState::Down) => return None,
        })
    }

    #[test]
    fn the_list_has_all_states_of_members() {
        let all = std::iter::successors(next(None), |state| next(Some(*state)));
        assert_eq!(all.collect::<Vec<_>>(), MemberState::ALL);
    }
}
