//! The outputs of a deployment: actions, and reports about its members.

/// The id of a client's connection, which the caller chooses. Each id is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// An action that the caller must carry out, or a report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Close this connection after the transmitted bytes are written. The deployment has already
    /// forgotten the connection.
    Close(ConnId),
    /// Accept connections to this member from now on. All members accept connections at the start.
    Listen(usize),
    /// Refuse connections to this member from now on.
    StopListening(usize),
    /// Report an event among the members. The caller need not do anything.
    Report(MemberEvent),
}

/// An event among the members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberEvent {
    /// A member won an election.
    Elected {
        /// The number of the member.
        member: usize,
        /// The term in which the member is primary.
        term: u64,
    },
    /// A primary stepped down.
    SteppedDown {
        /// The number of the member.
        member: usize,
        /// The term in which the member was primary.
        term: u64,
        /// The reason, for reports.
        reason: &'static str,
    },
    /// The process of a member ended.
    Killed {
        /// The number of the member.
        member: usize,
    },
    /// The process of a member started again.
    Restarted {
        /// The number of the member.
        member: usize,
    },
    /// A member rolled back writes that no majority had.
    RolledBack {
        /// The number of the member.
        member: usize,
        /// The number of oplog entries that were rolled back.
        entries: u64,
    },
    /// A member copied all data of the primary, because its own oplog was too far behind.
    Resynced {
        /// The number of the member.
        member: usize,
    },
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
    /// A member that votes and holds no data.
    Arbiter,
    /// A member whose process is not running.
    Down,
}
