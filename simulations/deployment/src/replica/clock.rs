//! The wall clock of a member's machine, and the cluster times of its entries.

use super::{Replica, log::NO_TIME};
use bson::Timestamp;
use onionskin_core::time::Instant;

/// The largest time by which a wall clock is ahead or behind, in milliseconds: ten years. All
/// cluster times then fit their 32 bits of seconds.
const MAX_AHEAD_MILLIS: i64 = 10 * 365 * 24 * 3_600_000;

/// The clocks of a member.
#[derive(Debug)]
pub(super) struct Clock {
    /// The time by which the wall clock is ahead, in milliseconds; negative if it is behind.
    ahead_millis: i64,
    /// True once the wall clock of a member of the deployment has jumped. Before that, no cluster
    /// time is ahead of a wall clock.
    may_differ: bool,
    /// The latest cluster time that this member has learned from others. New entries are later.
    pub(super) latest: Timestamp,
}

impl Clock {
    pub(super) const fn new() -> Self {
        Self {
            ahead_millis: 0,
            may_differ: false,
            latest: NO_TIME,
        }
    }
}

impl Replica {
    /// Returns the time of the wall clock, in milliseconds since 1970.
    pub(crate) fn wall_millis(&self, now: Instant) -> u64 {
        let right = self.config.wall_millis(now);
        right.saturating_add_signed(self.clock.ahead_millis)
    }

    /// Moves the wall clock forward, or back if `millis` is negative, up to [`MAX_AHEAD_MILLIS`].
    /// Cluster times never go back: those of new entries are later than all that the member can
    /// have given or learned.
    pub(crate) fn jump_clock(&mut self, now: Instant, millis: i64) {
        let seconds = self.wall_millis(now) / 1000;
        self.note_time(Timestamp {
            time: u32::try_from(seconds).unwrap_or(u32::MAX),
            increment: u32::MAX,
        });
        let ahead = self.clock.ahead_millis.saturating_add(millis);
        self.clock.ahead_millis = ahead.clamp(-MAX_AHEAD_MILLIS, MAX_AHEAD_MILLIS);
    }

    /// Sets the wall clock right after jumps.
    pub(crate) fn correct_clock(&mut self, now: Instant) {
        if self.clock.ahead_millis != 0 {
            self.jump_clock(now, self.clock.ahead_millis.saturating_neg());
        }
    }

    /// Notes that the wall clocks of the members may differ from now on.
    pub(crate) const fn let_clocks_differ(&mut self) {
        self.clock.may_differ = true;
    }

    /// True if the wall clocks of the members may differ.
    pub(crate) const fn clocks_may_differ(&self) -> bool {
        self.clock.may_differ
    }

    /// Returns the cluster time of the next entry, if that entry is written at `wall_millis`.
    pub(crate) fn next_time(&self, wall_millis: u64) -> Timestamp {
        let last = self.log.last_time().max(self.clock.latest);
        let seconds = u32::try_from(wall_millis / 1000).unwrap_or(u32::MAX);
        match last.increment.checked_add(1) {
            Some(increment) if seconds <= last.time => Timestamp {
                time: last.time,
                increment,
            },
            _ => Timestamp {
                time: seconds.max(last.time.saturating_add(1)),
                increment: 1,
            },
        }
    }

    /// Notes the time of the last entry, before entries are removed. Without jumps of clocks, the
    /// entries that follow are later anyway.
    pub(super) fn keep_time(&mut self) {
        if self.clock.may_differ {
            self.note_time(self.log.last_time());
        }
    }

    /// Notes a cluster time that this member has learned from others.
    pub(crate) fn note_time(&mut self, time: Timestamp) {
        self.clock.latest = self.clock.latest.max(time);
    }
}
