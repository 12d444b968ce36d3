//! A deployment of MongoDB servers as a machine: bytes in, bytes out, time as an argument.

mod options;

pub use options::{
    DeploymentOptions, InvalidOptions, Limits, MAX_MEMBERS, MAX_VOTING_MEMBERS, MemberOptions,
    NetworkOptions, ReplicaSetOptions, ServerVersion, Shape, User,
};

use onionskin_core::{random::Seed, time::Instant};

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
    /// Accepts writes.
    Primary,
    /// Follows a primary, or waits for one.
    Secondary,
    /// Votes, holds no data.
    Arbiter,
    /// Its process is not running.
    Down,
}

/// A deployment. See the [module](self).
#[derive(Debug)]
pub struct Deployment {
    options: DeploymentOptions,
}

impl Deployment {
    /// A deployment that starts at [`Instant::ZERO`] with all members up.
    pub fn new(options: DeploymentOptions, seed: &Seed) -> Result<Self, InvalidOptions> {
        options.check()?;
        let _ = seed;
        Ok(Self { options })
    }

    /// A client connected to `member`. If that one refuses, the answer is [`Action::Close`].
    pub fn handle_connected(&mut self, now: Instant, connection: ConnId, member: usize) {
        let _ = (now, connection, member);
    }

    /// Bytes arrived from a client.
    pub fn handle_received(&mut self, now: Instant, connection: ConnId, bytes: &[u8]) {
        let _ = (now, connection, bytes);
    }

    /// A client's connection is gone.
    pub fn handle_disconnected(&mut self, now: Instant, connection: ConnId) {
        let _ = (now, connection);
    }

    /// Time passed. Harmless before the [deadline](Self::deadline).
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Bytes to write to a connection. Drain this before the actions, so that a connection that is
    /// to be closed gets its last bytes first.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<(ConnId, Vec<u8>)> {
        None
    }

    /// The next thing to do.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        None
    }

    /// Ends a member's process: connections break, nothing more is accepted. Its data stays.
    pub fn kill(&mut self, now: Instant, member: usize) {
        let _ = (now, member);
    }

    /// Starts a killed member again, with the data that it had.
    pub fn restart(&mut self, now: Instant, member: usize) {
        let _ = (now, member);
    }

    /// Makes the primary step down in an orderly way, as `replSetStepDown` does. False if there is
    /// no primary that could.
    pub fn step_down(&mut self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Cuts the network from one member to another, in this direction only.
    pub fn cut(&mut self, now: Instant, from: usize, to: usize) {
        let _ = (now, from, to);
    }

    /// Cuts the members in `side` off from all others, in both directions.
    pub fn partition(&mut self, now: Instant, side: &[usize]) {
        let _ = (now, side);
    }

    /// Repairs all cuts between members.
    pub fn heal(&mut self, now: Instant) {
        let _ = now;
    }

    /// The options that it was made with.
    #[must_use]
    pub const fn options(&self) -> &DeploymentOptions {
        &self.options
    }

    /// How many members there are, running or not.
    #[must_use]
    pub fn members(&self) -> usize {
        self.options.addresses.len()
    }

    /// What a member is; `None` if there is no such member.
    #[must_use]
    pub fn state(&self, member: usize) -> Option<MemberState> {
        (member < self.members()).then_some(MemberState::Secondary)
    }

    /// The primary of the highest term, or the standalone.
    #[must_use]
    pub fn primary(&self) -> Option<usize> {
        None
    }
}
