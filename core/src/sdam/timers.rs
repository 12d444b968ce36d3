//! Deadlines, each with its reason.

use crate::{description::ServerId, time::Instant};
use std::collections::{BTreeMap, BTreeSet};

/// Why the machine wants to be woken (table E.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A check was not answered in time.
    CheckLimit(ServerId),
    /// A measurement of the round trip was not answered in time.
    RttLimit(ServerId),
    /// A check is due.
    Heartbeat(ServerId),
    /// A measurement of the round trip is due.
    RttPace(ServerId),
    /// Operations wait, and the pause since the last scan is over.
    Scan,
    /// Operations wait: every server is due to be asked again.
    Waiters,
}

/// What is armed. Expired timers come out by deadline, then kind, then server.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    deadlines: BTreeMap<Timer, Instant>,
    order: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Arms `timer`, or moves it. The end of time never comes: a timer that would be due then, or
    /// later, is none.
    pub(super) fn set(&mut self, timer: Timer, deadline: Instant) {
        self.cancel(timer);
        if deadline == Instant::MAX {
            return;
        }
        self.deadlines.insert(timer, deadline);
        self.order.insert((deadline, timer));
    }

    /// Disarms `timer`.
    pub(super) fn cancel(&mut self, timer: Timer) {
        if let Some(deadline) = self.deadlines.remove(&timer) {
            self.order.remove(&(deadline, timer));
        }
    }

    /// Disarms everything.
    pub(super) fn clear(&mut self) {
        self.deadlines.clear();
        self.order.clear();
    }

    /// Takes the first timer whose deadline is not after `now`, and says what that deadline was.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        let &(deadline, timer) = self.order.first()?;
        if deadline > now {
            return None;
        }
        self.cancel(timer);
        Some((deadline, timer))
    }

    /// The next deadline and its reason.
    pub(super) fn next(&self) -> Option<(Instant, Timer)> {
        self.order.first().copied()
    }

    /// When `timer` is due, if it is armed.
    pub(super) fn deadline(&self, timer: Timer) -> Option<Instant> {
        self.deadlines.get(&timer).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_timers_come_in_order_of_deadline_kind_and_server() {
        let at = Instant::from_nanos;
        let mut timers = Timers::default();
        timers.set(Timer::Waiters, at(5));
        timers.set(Timer::Heartbeat(ServerId(2)), at(5));
        timers.set(Timer::Heartbeat(ServerId(1)), at(5));
        timers.set(Timer::RttPace(ServerId(0)), at(4));
        timers.set(Timer::CheckLimit(ServerId(0)), at(1));
        timers.set(Timer::CheckLimit(ServerId(0)), at(6));
        let mut fired = Vec::new();
        while let Some((_, timer)) = timers.pop_expired(at(5)) {
            fired.push(timer);
        }
        assert_eq!(
            fired,
            [
                Timer::RttPace(ServerId(0)),
                Timer::Heartbeat(ServerId(1)),
                Timer::Heartbeat(ServerId(2)),
                Timer::Waiters,
            ]
        );
        assert_eq!(timers.next(), Some((at(6), Timer::CheckLimit(ServerId(0)))));
        timers.clear();
        assert_eq!(timers.next(), None);
    }
}
