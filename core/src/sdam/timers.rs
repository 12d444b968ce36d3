//! The timers of the discovery machine.

use crate::{description::ServerId, time};

/// The armed timers with their deadlines.
pub(super) type Timers = time::Timers<Timer>;

/// A timer of the discovery machine (table E.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The time limit of a check (timer T-3).
    CheckLimit(ServerId),
    /// The time limit of a measurement of the round trip time (timer T-5).
    RttLimit(ServerId),
    /// The next check of a server is due (timers T-1 and T-2).
    Heartbeat(ServerId),
    /// The next measurement of the round trip time is due (timer T-4).
    RttPace(ServerId),
    /// The scan that operations wait for can begin or continue.
    Scan,
    /// The next request for checks of all servers is due, because operations wait for a suitable
    /// server (timer T-6).
    Waiters,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

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
