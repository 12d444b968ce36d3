//! The table of the armed timers of a machine.

use super::{Instant, earliest};
use std::collections::{BTreeMap, BTreeSet};

/// The armed timers of a machine. A value of `T` names the purpose of a timer and has at most one
/// deadline. Timers expire in the order of their deadlines, and at the same deadline in the order
/// of `T`.
#[derive(Clone, Debug)]
pub(crate) struct Timers<T> {
    deadlines: BTreeMap<T, Instant>,
    order: BTreeSet<(Instant, T)>,
    /// The earliest deadline that was set since the last call of [`take_armed`](Self::take_armed).
    armed: Option<Instant>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            deadlines: BTreeMap::new(),
            order: BTreeSet::new(),
            armed: None,
        }
    }
}

impl<T: Copy + Ord> Timers<T> {
    /// Arms `timer` for `deadline`, or moves it there. A deadline of [`Instant::MAX`] means never,
    /// so the timer is disarmed then.
    pub(crate) fn set(&mut self, timer: T, deadline: Instant) {
        self.cancel(timer);
        if deadline == Instant::MAX {
            return;
        }
        self.deadlines.insert(timer, deadline);
        self.order.insert((deadline, timer));
        self.armed = earliest(self.armed, Some(deadline));
    }

    /// Returns the earliest deadline that was set since the last call, also if its timer was
    /// disarmed meanwhile; `None` if no timer was armed.
    #[inline]
    pub(crate) fn take_armed(&mut self) -> Option<Instant> {
        self.armed.take()
    }

    /// Disarms `timer`.
    pub(crate) fn cancel(&mut self, timer: T) {
        if let Some(deadline) = self.deadlines.remove(&timer) {
            self.order.remove(&(deadline, timer));
        }
    }

    /// Disarms all timers.
    pub(crate) fn clear(&mut self) {
        self.deadlines.clear();
        self.order.clear();
    }

    /// Removes and returns the first timer whose deadline is at or before `now`, with that
    /// deadline.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<(Instant, T)> {
        let &(deadline, timer) = self.order.first()?;
        if deadline > now {
            return None;
        }
        self.cancel(timer);
        Some((deadline, timer))
    }

    /// Returns an iterator over the armed timers, in the order in which they expire.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Instant, T)> {
        self.order.iter().copied()
    }

    /// Returns the timer that expires next, with its deadline.
    pub(crate) fn next(&self) -> Option<(Instant, T)> {
        self.order.first().copied()
    }

    /// Returns the deadline of `timer`, if it is armed.
    pub(crate) fn deadline(&self, timer: T) -> Option<Instant> {
        self.deadlines.get(&timer).copied()
    }

    /// Arms `timer` for `deadline`, or disarms it if `deadline` is `None`.
    pub(crate) fn renew(&mut self, timer: T, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => self.set(timer, deadline),
            None => self.cancel(timer),
        }
    }
}
