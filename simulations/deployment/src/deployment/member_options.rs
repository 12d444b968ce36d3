//! The options of one member of a replica set.

use super::version::ServerVersion;
use std::time::Duration;

/// The options of one member of a replica set. All but the last two belong to the configuration of
/// the set, and can change with [`Deployment::reconfigure`](super::Deployment::reconfigure).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberOptions {
    /// The priority in elections. A member with 0 never becomes primary, and a member with a higher
    /// number starts elections sooner. Default: 1.
    pub priority: u32,
    /// True if the member votes in elections and counts for the majority. Default: true.
    pub votes: bool,
    /// True if hello replies do not list the member. Default: false.
    pub hidden: bool,
    /// True if the member votes but holds no data. Default: false.
    pub arbiter: bool,
    /// True if the configuration of the set does not have the member. Its process runs, and
    /// [`add_member`](super::Deployment::add_member) makes it a member. Default: false.
    pub absent: bool,
    /// The time by which the member's data is behind that of the primary, in whole seconds and at
    /// most 366 days: `secondaryDelaySecs`, which was `slaveDelay` before release 5.0. The member
    /// gets an entry of the oplog with the first message of the primary after this time. It needs
    /// the priority 0, and an application usually hides it. Default: zero.
    pub delay: Duration,
    /// The member's tags, for read preferences. Default: none.
    pub tags: Vec<(String, String)>,
    /// The release that the member claims to be until an
    /// [upgrade](super::Deployment::upgrade). `None`: that of the deployment. The releases of two
    /// members must [work together](ServerVersion::works_with). Default: `None`.
    pub version: Option<ServerVersion>,
    /// True if the member has the streaming protocol of its release. With false, its replies have
    /// no `topologyVersion`, so that drivers poll it. Releases before 4.4 never have the protocol.
    /// Default: true.
    pub streaming: bool,
}

impl Default for MemberOptions {
    fn default() -> Self {
        Self {
            priority: 1,
            votes: true,
            hidden: false,
            arbiter: false,
            absent: false,
            delay: Duration::ZERO,
            tags: Vec::new(),
            version: None,
            streaming: true,
        }
    }
}

impl MemberOptions {
    /// Creates the options of an arbiter: a member that votes and holds no data.
    #[must_use]
    pub fn arbiter() -> Self {
        Self {
            priority: 0,
            arbiter: true,
            ..Self::default()
        }
    }

    /// The highest priority of a member.
    pub const MAX_PRIORITY: u32 = 1000;

    /// The longest delay of a member in seconds, 366 days.
    pub(crate) const MAX_DELAY_SECS: u32 = 366 * 24 * 3600;

    /// Returns the reason why a configuration cannot have such a member, if there is one. A
    /// deployment checks this when it starts and at each change of the configuration.
    #[must_use]
    pub const fn fault(&self) -> Option<&'static str> {
        if self.priority > Self::MAX_PRIORITY {
            Some("priority must be from 0 to 1000")
        } else if self.hidden && self.priority > 0 {
            Some("priority must be 0 when hidden=true")
        } else if self.arbiter && self.priority > 0 {
            Some("Arbiter priority must be 0.")
        } else if self.arbiter && !self.votes {
            Some("Arbiter must vote (cannot have 0 votes)")
        } else if !self.votes && self.priority > 0 {
            Some("priority must be 0 when non-voting (votes:0)")
        } else {
            self.delay_fault()
        }
    }

    /// Returns the reason why a configuration cannot have a member with such a delay, if there is
    /// one.
    const fn delay_fault(&self) -> Option<&'static str> {
        if self.delay.as_secs() > Self::MAX_DELAY_SECS as u64 || self.delay.subsec_nanos() > 0 {
            Some("secondaryDelaySecs must be a whole number of seconds from 0 to 31622400")
        } else if self.priority > 0 && !self.delay.is_zero() {
            Some("priority must be 0 when secondaryDelaySecs is used")
        } else {
            None
        }
    }

    /// True if the member can become primary.
    #[must_use]
    pub const fn can_lead(&self) -> bool {
        self.priority > 0 && self.votes && self.holds_data()
    }

    /// True if the member holds data of the set: it is no arbiter, and the configuration has it.
    pub(crate) const fn holds_data(&self) -> bool {
        !self.arbiter && !self.absent
    }

    /// Returns the delay in seconds, as replies have it.
    pub(crate) fn delay_secs(&self) -> i64 {
        i64::try_from(self.delay.as_secs()).unwrap_or(i64::MAX)
    }

    /// True if the configuration gives the member a vote.
    pub(crate) const fn has_vote(&self) -> bool {
        self.votes && !self.absent
    }
}
