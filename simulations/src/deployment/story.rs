//! What the machine wants done, and what it has to tell.

/// A client's connection, numbered by whoever drives the machine; a number is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// Something for the driver of the machine to do or to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Close this connection once what was transmitted on it is written. The machine has
    /// forgotten it already.
    Close(ConnId),
    /// Accept connections to this member from now on. Members listen from the start.
    Listen(usize),
    /// Refuse connections to this member from now on.
    StopListening(usize),
    /// Nothing to do: something happened that is worth telling.
    Tell(Story),
}

/// What happened among the members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Story {
    /// A member won an election.
    Elected {
        /// Which.
        member: usize,
        /// The term that it leads.
        term: u64,
    },
    /// A primary is no primary any more.
    SteppedDown {
        /// Which.
        member: usize,
        /// The term that it had led.
        term: u64,
        /// Why.
        reason: &'static str,
    },
    /// A member's process ended.
    Killed {
        /// Which.
        member: usize,
    },
    /// A member's process started again.
    Restarted {
        /// Which.
        member: usize,
    },
    /// A member undid writes that no majority had.
    RolledBack {
        /// Which.
        member: usize,
        /// How many oplog entries were undone.
        entries: u64,
    },
    /// A member took over all data of the primary, for its own oplog had fallen too far behind.
    Resynced {
        /// Which.
        member: usize,
    },
}

/// What a member is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// A server without a replica set.
    Standalone,
    /// A router of a sharded cluster.
    Router,
    /// Accepts writes.
    Primary,
    /// Follows a primary, or waits for one.
    Secondary,
    /// Votes, holds no data.
    Arbiter,
    /// Its process is not running.
    Down,
}
