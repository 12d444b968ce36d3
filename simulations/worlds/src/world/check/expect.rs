//! Checks the expectations of a scenario.

use crate::world::{
    expect::Expect,
    options::WorldOptions,
    plan::Disaster,
    report::{Failure, FailureKind, Tally},
    workload::{Ending, Entry, History, OperationKind},
};
use onionskin_core::{error::ErrorKind, time::Instant};
use std::{collections::VecDeque, time::Duration};

/// The time limit below which an operation may time out although no fault is left.
const SHORT_LIMIT: Duration = Duration::from_secs(1);

/// Checks the expectations at the end of a run.
#[derive(Debug)]
pub(in crate::world) struct ExpectChecker {
    expect: Expect,
    /// The events of the safety phase with their times, the earliest first.
    events: Vec<(Instant, Disaster)>,
    /// The end of the safety phase.
    heals: Instant,
}

impl ExpectChecker {
    /// Creates the checker of a run with these options and this plan.
    pub(in crate::world) fn new(
        options: &WorldOptions,
        plan: &VecDeque<(Instant, Disaster)>,
    ) -> Self {
        let heals = Instant::ZERO + options.safety;
        let events = plan.iter().filter(|(at, _)| *at < heals).cloned();
        Self {
            expect: options.expect,
            events: events.collect(),
            heals,
        }
    }

    /// Checks a run that has ended. `tally` counts the operations of all workloads, and `history`
    /// has those of [`Workload::Marks`](crate::world::Workload::Marks).
    pub(in crate::world) fn check(
        &self,
        now: Instant,
        tally: Tally,
        history: &History,
    ) -> Result<(), Failure> {
        self.check_numbers(tally)
            .map_err(|what| Failure::new(FailureKind::Liveness, now, what))?;
        if let Some(span) = self.expect.no_failures_after {
            self.check_rest(history, span.0)?;
        }
        match self.expect.writes_within {
            None => Ok(()),
            Some(span) => self.check_writes(history, span.0),
        }
    }

    fn check_numbers(&self, tally: Tally) -> Result<(), String> {
        let Tally {
            succeeded, failed, ..
        } = tally;
        if let Some(least) = self.expect.succeeded {
            super::ensure(succeeded >= u64::from(least), || {
                format!(
                    "fewer operations succeeded than the scenario expects: {succeeded}, and not \
                     {least} or more"
                )
            })?;
        }
        if let Some(most) = self.expect.failed {
            super::ensure(failed <= u64::from(most), || {
                format!(
                    "more operations failed than the scenario expects: {failed}, and not {most} or \
                     fewer"
                )
            })?;
        }
        Ok(())
    }

    /// Checks that no operation fails that begins this long after the last event.
    fn check_rest(&self, history: &History, span: Duration) -> Result<(), Failure> {
        let ends = self.events.iter().map(|(at, event)| *at + pause(event));
        let from = ends.max().unwrap_or(Instant::ZERO) + span;
        for entry in history.entries() {
            if entry.began >= from
                && let Some(at) = unexpected_failure(entry)
            {
                let message = format!(
                    "an operation failed although the scenario expects no failure: from {from} on, \
                     {entry}"
                );
                return Err(Failure::new(FailureKind::Liveness, at, message));
            }
        }
        Ok(())
    }

    /// Checks that after each event a write is acknowledged in this time.
    fn check_writes(&self, history: &History, span: Duration) -> Result<(), Failure> {
        for (at, event) in &self.events {
            let limit = self.without_freezes(*at, span);
            let is_timely = |entry: &Entry| {
                entry.began >= *at && acknowledged(entry).is_some_and(|ended| ended <= limit)
            };
            if limit <= self.heals && !history.entries().iter().any(is_timely) {
                let message = format!(
                    "no write succeeded in the time that the scenario expects: none that began \
                     after {event} at {at}, until {limit}"
                );
                return Err(Failure::new(FailureKind::Liveness, limit, message));
            }
        }
        Ok(())
    }

    /// Returns the time at which a span from `at` on ends. The time during which a client is frozen
    /// is added.
    fn without_freezes(&self, at: Instant, span: Duration) -> Instant {
        let mut limit = at + span;
        for (start, event) in &self.events {
            if let Disaster::Freeze { pause, .. } = event
                && *start <= limit
                && *start + pause.0 > at
            {
                limit = limit + pause.0;
            }
        }
        limit
    }
}

/// Returns how long a client or a member is frozen by an event.
fn pause(event: &Disaster) -> Duration {
    match event {
        Disaster::InShard(of_shard) => pause(&of_shard.event),
        Disaster::Freeze { pause, .. } | Disaster::FreezeMember { pause, .. } => pause.0,
        _ => Duration::ZERO,
    }
}

/// Returns the time at which a write was acknowledged, or `None` for every other operation.
fn acknowledged(entry: &Entry) -> Option<Instant> {
    let is_write = matches!(
        entry.step.kind,
        OperationKind::Insert | OperationKind::Increment
    );
    match &entry.ended {
        Some((at, Ending::Acknowledged)) if is_write => Some(*at),
        _ => None,
    }
}

/// Returns the time at which an operation failed for another reason than a short time limit and the
/// close of its client.
fn unexpected_failure(entry: &Entry) -> Option<Instant> {
    let Some((at, Ending::Failed(error))) = &entry.ended else {
        return None;
    };
    let is_short = error.is_timeout() && entry.step.timeout < SHORT_LIMIT;
    let is_permitted = matches!(
        error.kind(),
        ErrorKind::WaitQueueTimeout { .. } | ErrorKind::Shutdown
    );
    (!is_short && !is_permitted).then_some(*at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{
        Span,
        workload::{Polling, Step},
    };
    use onionskin_core::error::{Error, Wait};

    fn second(number: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(number)
    }

    fn checker(expect: Expect, events: &[(u64, Disaster)]) -> ExpectChecker {
        let mut options = WorldOptions::drawn(1);
        options.safety = Duration::from_secs(60);
        options.expect = expect;
        let mut plan: VecDeque<_> = events
            .iter()
            .map(|(at, event)| (second(*at), event.clone()))
            .collect();
        plan.push_back((second(60), Disaster::Heal));
        ExpectChecker::new(&options, &plan)
    }

    /// Returns a history of operations with their seconds of beginning, time limits and endings.
    /// Each takes a second.
    fn history(operations: &[(OperationKind, u64, Duration, Ending)]) -> History {
        let mut history = History::default();
        for (kind, began, timeout, ending) in operations {
            let step = Step {
                kind: *kind,
                id: 5,
                timeout: *timeout,
                polling: Polling::default(),
            };
            let place = history.begin(0, step, second(*began), false);
            history.end(place, second(began + 1), ending.clone());
        }
        history
    }

    fn failed(kind: ErrorKind) -> Ending {
        Ending::Failed(Error::new(kind))
    }

    fn timed_out() -> Ending {
        failed(ErrorKind::Timeout {
            wait: Wait::Exchange,
            message: String::new(),
        })
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn numbers_of_operations_are_compared() {
        let expect = Expect {
            succeeded: Some(10),
            failed: Some(2),
            ..Expect::default()
        };
        let check = |succeeded, failed| {
            let tally = Tally {
                succeeded,
                failed,
                abandoned: 7,
            };
            let checked = checker(expect, &[]).check(second(90), tally, &History::default());
            checked.map_err(|failure| (failure.kind, failure.message))
        };
        assert_eq!(check(10, 2), Ok(()));
        for ((succeeded, failed), text) in [
            ((9, 0), "expects: 9, and not 10 or more"),
            ((10, 3), "expects: 3, and not 2 or fewer"),
        ] {
            let (kind, message) = check(succeeded, failed).expect_err(text);
            assert_eq!(kind, FailureKind::Liveness);
            assert!(message.contains(text), "{message}");
        }
        let none = checker(Expect::default(), &[]);
        let checked = none.check(second(90), Tally::default(), &History::default());
        assert_eq!(checked, Ok(()));
    }

    #[test]
    fn operations_that_begin_long_after_the_last_event_must_not_fail() {
        let expect = Expect {
            no_failures_after: Some(Span(Duration::from_secs(10))),
            ..Expect::default()
        };
        let freeze = Disaster::FreezeMember {
            member: 0,
            pause: Span(Duration::from_secs(9)),
        };
        let checker = checker(expect, &[(5, Disaster::Kill(0)), (6, freeze)]);
        let check = |began, limit, ending| {
            let history = history(&[(OperationKind::Find, began, limit, ending)]);
            checker.check(second(90), Tally::default(), &history)
        };
        assert_eq!(check(24, LONG, timed_out()), Ok(()), "it began before");
        let late = check(25, LONG, timed_out()).expect_err("it began later");
        assert_eq!((late.kind, late.at), (FailureKind::Liveness, second(26)));
        assert!(late.message.contains("from 25.000000s on"), "{late}");
        assert_eq!(check(25, Duration::from_millis(20), timed_out()), Ok(()));
        assert_eq!(check(25, LONG, failed(ErrorKind::Shutdown)), Ok(()));
        assert_eq!(check(25, LONG, Ending::Abandoned), Ok(()));
        assert_eq!(check(25, LONG, Ending::Found(None)), Ok(()));
    }

    #[test]
    fn a_write_must_succeed_soon_after_each_event() {
        let expect = Expect {
            writes_within: Some(Span(Duration::from_secs(10))),
            ..Expect::default()
        };
        let check = |events: &[_], operations: &[(OperationKind, u64)]| {
            let ended = operations
                .iter()
                .map(|(kind, began)| (*kind, *began, LONG, Ending::Acknowledged));
            let history = history(&ended.collect::<Vec<_>>());
            checker(expect, events).check(second(90), Tally::default(), &history)
        };
        let step_down = &[(5, Disaster::StepDown)];
        assert_eq!(check(step_down, &[(OperationKind::Insert, 14)]), Ok(()));
        for operations in [
            &[(OperationKind::Insert, 4)][..],
            &[(OperationKind::Insert, 15)],
            &[(OperationKind::Find, 9)],
        ] {
            let failure = check(step_down, operations).expect_err("no write");
            let found = (failure.kind, failure.at);
            assert_eq!(found, (FailureKind::Liveness, second(15)), "{operations:?}");
            let text = "after the primary steps down at 5.000000s";
            assert!(failure.message.contains(text), "{failure}");
        }
        // The client is frozen during a part of the time, and the last event comes too late.
        let freeze = Disaster::Freeze {
            client: 0,
            pause: Span(Duration::from_secs(20)),
        };
        let events = [
            (5, Disaster::StepDown),
            (14, freeze),
            (51, Disaster::Kill(0)),
        ];
        assert_eq!(check(&events, &[(OperationKind::Increment, 34)]), Ok(()));
        check(&events, &[(OperationKind::Increment, 35)]).expect_err("too late");
    }
}
