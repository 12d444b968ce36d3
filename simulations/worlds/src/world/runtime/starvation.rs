//! Tasks that are not polled for a while although they are ready, as on a machine with too much
//! work: those of callers and those of the clients themselves.

use super::executor::State;
use crate::world::{
    freezes::Freezes,
    options::{Rates, index},
};
use onionskin_core::{
    random::{Random, Seed},
    time::Instant,
};
use std::{collections::BTreeMap, task::Waker, time::Duration};

/// The limits of which one is drawn. The time for which a task is not polled is drawn below it.
const LIMITS_MILLIS: [u64; 3] = [2, 100, 3_000];

/// The starved tasks of a run.
#[derive(Debug)]
pub(super) struct Starvation {
    random: Random,
    /// The tasks that are not polled, each with the end of that time.
    until: BTreeMap<u64, Instant>,
    /// The times in which some task is not polled.
    spans: Freezes,
}

impl Starvation {
    /// Draws a seed from `random` only if tasks starve, so that other runs stay as they are.
    pub(super) fn new(rates: Rates, random: &mut Random) -> Self {
        let mut seed = [0; 32];
        if rates.starved > 0 {
            random.fill(&mut seed);
        }
        Self {
            random: Seed::new(seed).split("starved").random(),
            until: BTreeMap::new(),
            spans: Freezes::default(),
        }
    }
}

impl State {
    /// True if a task that is ready is not polled now. The waker is then called when the task can
    /// be polled again.
    pub(super) fn starves(&mut self, task: u64, waker: impl FnOnce() -> Waker) -> bool {
        let now = self.now;
        let Starvation {
            random,
            until,
            spans,
        } = &mut self.starvation;
        if let Some(end) = until.get(&task).copied() {
            if end <= now {
                until.remove(&task);
            }
            return end > now;
        }
        let rate = u64::from(self.rates.starved);
        if rate == 0 || !random.chance(rate, 1000) {
            return false;
        }
        let most = LIMITS_MILLIS[index(random, LIMITS_MILLIS.len())];
        let pause = Duration::from_millis(1 + random.below(most));
        let end = now + pause;
        until.insert(task, end);
        spans.add(now, pause);
        let number = self.next_number();
        self.timers.insert((end, number), waker());
        self.trace
            .note(now, format_args!("task {task} is not polled until {end}"));
        true
    }

    /// Returns for how long the clients were frozen, or some task was not polled, between two
    /// times.
    pub(super) fn paused(&self, from: Instant, to: Instant) -> Duration {
        self.freezes.between(from, to) + self.starvation.spans.between(from, to)
    }
}

#[cfg(test)]
mod tests {
    use crate::world::{Disaster, Rates, Scenario, Scheduled, Span, Way, WorldShape, run_seed};
    use std::time::Duration;

    /// Returns how often a task was not polled in a run with this rate.
    fn starved(starved: u16) -> usize {
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            clients: Some(2),
            tasks: Some(4),
            safety: Some(Span(Duration::from_secs(15))),
            rates: Some(Rates {
                starved,
                cancel: 50,
                ..Rates::default()
            }),
            schedule: Some(vec![Scheduled {
                at: Span(Duration::from_secs(5)),
                event: Disaster::StepDown,
            }]),
            ..Scenario::default()
        };
        assert_eq!(scenario.fault(), None);
        let mut options = scenario.options(1);
        options.keep_trace = true;
        let report = run_seed(1, Way::Runtime, options);
        assert!(report.failure.is_none(), "{report}");
        assert!(report.tally.succeeded > 20, "{report}");
        report.trace.matches("is not polled until").count()
    }

    #[test]
    fn operations_end_although_tasks_starve() {
        assert_eq!(starved(0), 0);
        let count = starved(10);
        assert!(count > 5, "{count}");
    }
}
