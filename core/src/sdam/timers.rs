//! Deadlines, each with its reason.

use crate::{description::ServerId, time};

/// The timers of discovery.
pub(super) type Timers = time::Timers<Timer>;

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
