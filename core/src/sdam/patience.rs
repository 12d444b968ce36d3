//! The time for which operations wait, in a client that checks servers on demand, for hosts that
//! replies named and that never answered (strangers, see `turns.rs`).
//!
//! A scan checks one server at a time. A server that names many hosts which accept connections and
//! never answer could otherwise make each operation wait for the check of a further host. So scans
//! record how long the checks of strangers took that ended without an answer. If this time exceeds
//! [`STRANGER_TIME`], an operation with a suitable server waits for no stranger, and scans check
//! strangers after all other servers. An operation without a suitable server still waits for them.
//!
//! A host that refuses connections takes almost no time, so a replica set with members that are
//! down is scanned as before. The time comes back slowly (see [`RETURN_DIVISOR`]), so that scans
//! find members that answer again.

use super::Sdam;
use crate::{description::ServerId, time::Instant};
use std::time::Duration;

/// The total time for which operations wait for checks of strangers that end without an answer: 3
/// seconds. A shorter time could miss members behind slow networks. Not an option.
pub const STRANGER_TIME: Duration = Duration::from_secs(3);

/// The spent time decreases by one second in this number of seconds. So, after [`STRANGER_TIME`],
/// operations wait for strangers for one sixtieth of the time at most.
const RETURN_DIVISOR: u32 = 60;

/// The time that was spent on checks of strangers that ended without an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// The spent time, as of `counted`.
    spent: Duration,
    counted: Instant,
}

impl Patience {
    /// Returns the state of a new client: no time was spent.
    pub(super) const fn new() -> Self {
        Self {
            spent: Duration::ZERO,
            counted: Instant::ZERO,
        }
    }

    /// Adds the time that a check took.
    fn spend(&mut self, now: Instant, time: Duration) {
        self.spent = self.spent_at(now).saturating_add(time);
        self.counted = now;
    }

    /// Returns the spent time that has not come back yet.
    fn spent_at(&self, now: Instant) -> Duration {
        let back = now.saturating_since(self.counted) / RETURN_DIVISOR;
        self.spent.saturating_sub(back)
    }
}

impl Sdam {
    /// Records that a check of a scan ended at `now` without an answer. Only strangers count.
    pub(super) fn note_unanswered(&mut self, now: Instant, id: ServerId) {
        let time = self.stranger_time(now);
        let Some(scan) = &mut self.scan else {
            return;
        };
        if let Some((stranger, time)) = time
            && stranger == id
        {
            scan.patience.spend(now, time);
        }
    }

    /// True if operations with a suitable server do not wait for strangers. The check of a stranger
    /// that is under way counts with the time that has passed.
    pub(super) fn ignores_strangers(&self, now: Instant) -> bool {
        let Some(scan) = &self.scan else {
            return false;
        };
        let current = self.stranger_time(now).map_or(Duration::ZERO, |(_, t)| t);
        scan.patience.spent_at(now).saturating_add(current) >= STRANGER_TIME
    }

    /// Returns the stranger whose check is under way in a scan, and how long the check lasts.
    fn stranger_time(&self, now: Instant) -> Option<(ServerId, Duration)> {
        let running = self.scan.as_ref()?.running.as_ref()?;
        let current = running
            .current
            .filter(|&id| self.out.turns.is_stranger(id))?;
        Some((current, now.saturating_since(running.turn_began)))
    }
}
