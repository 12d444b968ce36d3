//! The times in which the process of a client is frozen.

use onionskin_core::time::Instant;
use std::time::Duration;

/// The times in which a client is frozen.
#[derive(Debug, Default)]
pub(super) struct Freezes {
    /// The start and the end of each freeze, the earliest first. No two overlap.
    spans: Vec<(Instant, Instant)>,
}

impl Freezes {
    /// Freezes the client from `now` on. A freeze during another one can only lengthen that.
    pub(super) fn add(&mut self, now: Instant, pause: Duration) {
        let start = now.max(self.until());
        let end = now + pause;
        if end > start {
            self.spans.push((start, end));
        }
    }

    /// Returns the end of the last freeze.
    pub(super) fn until(&self) -> Instant {
        self.spans.last().map_or(Instant::ZERO, |(_, end)| *end)
    }

    /// Returns for how long the client was frozen between two times.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Duration {
        let shared =
            |&(start, end): &(Instant, Instant)| end.min(to).saturating_since(start.max(from));
        self.spans.iter().map(shared).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn only_the_time_within_an_operation_counts_and_counts_once() {
        let mut freezes = Freezes::default();
        for (start, pause) in [(10, 5), (12, 1), (13, 6), (30, 10)] {
            freezes.add(at(start), Duration::from_secs(pause));
        }
        assert_eq!(freezes.until(), at(40));
        let seconds = |from, to| freezes.between(at(from), at(to)).as_secs();
        let counted = [(0, 5), (0, 12), (0, 25), (14, 16), (18, 35), (50, 60)];
        let counted = counted.map(|(from, to)| seconds(from, to));
        assert_eq!(counted, [0, 2, 9, 2, 6, 0]);
    }
}
