//! A table of deadlines, each with its reason.

use super::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// The armed timers of a machine, by their reasons. Expired timers come out by deadline, then by
/// reason.
#[derive(Clone, Debug)]
pub(crate) struct Timers<T> {
    deadlines: BTreeMap<T, Instant>,
    order: BTreeSet<(Instant, T)>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            deadlines: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }
}

impl<T: Copy + Ord> Timers<T> {
    /// Arms `timer`, or moves it. The end of time never comes: a timer that would be due then, or
    /// later, is none.
    pub(crate) fn set(&mut self, timer: T, deadline: Instant) {
        self.cancel(timer);
        if deadline == Instant::MAX {
            return;
        }
        self.deadlines.insert(timer, deadline);
        self.order.insert((deadline, timer));
    }

    /// Disarms `timer`.
    pub(crate) fn cancel(&mut self, timer: T) {
        if let Some(deadline) = self.deadlines.remove(&timer) {
            self.order.remove(&(deadline, timer));
        }
    }

    /// Disarms everything.
    pub(crate) fn clear(&mut self) {
        self.deadlines.clear();
        self.order.clear();
    }

    /// Takes the first timer whose deadline is not after `now`, and says what that deadline was.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<(Instant, T)> {
        let &(deadline, timer) = self.order.first()?;
        if deadline > now {
            return None;
        }
        self.cancel(timer);
        Some((deadline, timer))
    }

    /// The armed timers, by deadline and then by reason.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Instant, T)> {
        self.order.iter().copied()
    }

    /// The next deadline and its reason.
    pub(crate) fn next(&self) -> Option<(Instant, T)> {
        self.order.first().copied()
    }

    /// When `timer` is due, if it is armed.
    pub(crate) fn deadline(&self, timer: T) -> Option<Instant> {
        self.deadlines.get(&timer).copied()
    }

    /// Arms `timer` for `deadline`, or disarms it where there is none.
    pub(crate) fn renew(&mut self, timer: T, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => self.set(timer, deadline),
            None => self.cancel(timer),
        }
    }
}
