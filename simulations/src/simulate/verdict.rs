//! The result of a sweep, as text and as JSON.

use super::printable_lines;
use onionskin_core::text::printable;
use onionskin_worlds::world::{FailureKind, Report};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, time::Duration};

/// The highest number of failures whose texts a verdict keeps.
const MAX_FAILURES: usize = 100;

/// The kind of a failed run, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Something that must happen did not happen.
    Liveness,
    /// Something happened that must not happen.
    Safety,
    /// The client panicked, violated its contract or was in a busy loop.
    Crash,
}

impl Fault {
    /// Returns the exit code of the command: 5, 4 and 3.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Crash => 3,
            Self::Safety => 4,
            Self::Liveness => 5,
        }
    }
}

/// A failed run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FailedRun {
    /// The seed of the run.
    pub seed: u64,
    /// The kind of the failure.
    pub fault: Fault,
    /// The virtual time of the failure.
    pub at: String,
    /// The description of the failure.
    pub message: String,
}

impl FailedRun {
    /// Returns the failure of a run, if it has one. `Err` has the text of a panic.
    #[must_use]
    pub fn of(seed: u64, run: &Result<Report, String>) -> Option<Self> {
        let (fault, at, message) = match run {
            Ok(report) => {
                let failure = report.failure.as_ref()?;
                let fault = match failure.kind {
                    FailureKind::Crash => Fault::Crash,
                    FailureKind::Correctness => Fault::Safety,
                    FailureKind::Liveness => Fault::Liveness,
                };
                (fault, failure.at.to_string(), failure.message.clone())
            }
            Err(text) => (Fault::Crash, "?".to_owned(), format!("panic: {text}")),
        };
        Some(Self {
            seed,
            fault,
            at,
            message,
        })
    }

    /// True if the other run failed in the same way: by the same kind of failure, with the same
    /// words up to the first colon. Which client or pool failed makes no difference, and words with
    /// digits do not count.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.fault, self.words()) == (other.fault, other.words())
    }

    /// Returns the words of the message that say what failed.
    fn words(&self) -> Vec<&str> {
        let mut text = self.message.as_str();
        for subject in ["client ", "pool of "] {
            let parts = text.strip_prefix(subject);
            let parts = parts.and_then(|text| text.split_once(": "));
            if let Some((_, rest)) = parts.filter(|(name, _)| !name.contains(' ')) {
                text = rest;
            }
        }
        let text = text.split(": ").next().unwrap_or_default();
        let words = text.split_whitespace();
        words
            .filter(|word| !word.contains(|c: char| c.is_ascii_digit()))
            .collect()
    }
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {:?} at {}: {}",
            self.seed,
            self.fault,
            printable(&self.at),
            printable_lines(&self.message)
        )
    }
}

/// The sweep that was asked for. Its shards have the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The version of the command.
    pub version: String,
    /// The name of the scenario, or the path of its file.
    pub scenario: String,
    /// The file of the scenario.
    pub definition: String,
    /// The way in which the clients were driven: `core` or `runtime`.
    pub way: String,
    /// The first seed of all shards.
    pub first: u64,
    /// The seed after the last one of all shards.
    pub end: u64,
    /// The number of shards.
    pub shards: u64,
}

/// The number of failed runs of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Failures {
    /// The number of runs with a panic, a violated contract or a busy loop.
    pub crash: u64,
    /// The number of runs in which something happened that must not happen.
    pub safety: u64,
    /// The number of runs in which something did not happen that must happen.
    pub liveness: u64,
}

impl Failures {
    /// Returns their sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.crash
            .saturating_add(self.safety)
            .saturating_add(self.liveness)
    }

    /// Returns the worst kind.
    #[must_use]
    pub fn worst(&self) -> Option<Fault> {
        match *self {
            Self { crash: 1.., .. } => Some(Fault::Crash),
            Self { safety: 1.., .. } => Some(Fault::Safety),
            Self { liveness: 1.., .. } => Some(Fault::Liveness),
            _ => None,
        }
    }

    fn count(&mut self, fault: Fault) -> &mut u64 {
        match fault {
            Fault::Crash => &mut self.crash,
            Fault::Safety => &mut self.safety,
            Fault::Liveness => &mut self.liveness,
        }
    }
}

/// The number of operations of all runs by their ending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Operations {
    /// The writes that were acknowledged and the reads that returned.
    pub succeeded: u64,
    /// The operations that failed.
    pub failed: u64,
    /// The operations that their callers abandoned.
    pub abandoned: u64,
}

/// The result of a sweep over seeds, or of some shards of it. The order in which the seeds ran does
/// not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The sweep that was asked for.
    pub task: Task,
    /// The shards that this is the verdict on.
    pub shards: BTreeSet<u64>,
    /// The number of seeds that these shards have.
    pub wanted: u64,
    /// The number of seeds that ran.
    pub seeds: u64,
    /// True if a signal ended the sweep, or that of a shard, before all seeds had run.
    #[serde(default)]
    pub interrupted: bool,
    /// The number of failed runs.
    pub failures: Failures,
    /// The failed runs with the lowest seeds, 100 at most.
    pub failed_runs: Vec<FailedRun>,
    /// The operations of all runs.
    pub operations: Operations,
    /// The number of events of all runs that had no effect.
    #[serde(default)]
    pub void_events: u64,
    /// The steps of all runs.
    pub steps: u64,
    /// The virtual time of all runs, in milliseconds.
    pub virtual_millis: u64,
    /// The digests of all traces, combined by exclusive or, in hexadecimal digits.
    pub digest: String,
}

impl Verdict {
    /// Returns the verdict on this shard before a seed has run.
    #[must_use]
    pub fn new(task: Task, shard: u64, wanted: u64) -> Self {
        Self {
            task,
            shards: [shard].into(),
            wanted,
            ..Self::default()
        }
    }

    /// Adds a run, or a text of its panic.
    pub fn add(&mut self, seed: u64, run: &Result<Report, String>) {
        let mut one = Self {
            seeds: 1,
            ..Self::default()
        };
        if let Ok(report) = run {
            one.operations = Operations {
                succeeded: report.tally.succeeded,
                failed: report.tally.failed,
                abandoned: report.tally.abandoned,
            };
            one.void_events = u64::try_from(report.void_events.len()).unwrap_or(u64::MAX);
            one.steps = report.steps;
            one.virtual_millis = u64::try_from(report.simulated.as_millis()).unwrap_or(u64::MAX);
            one.digest = hex(&report.digest);
        }
        if let Some(failed) = FailedRun::of(seed, run) {
            *one.failures.count(failed.fault) += 1;
            one.failed_runs.push(failed);
        }
        self.join(one);
    }

    /// Adds the runs of other shards.
    ///
    /// # Errors
    ///
    /// The reason why they cannot be joined: another task, or the same shard.
    pub fn merge(&mut self, other: Self) -> Result<(), String> {
        if self.task != other.task {
            return Err("verdicts on different sweeps, scenarios or versions".to_owned());
        }
        if let Some(shard) = self.shards.intersection(&other.shards).next() {
            return Err(format!(
                "two verdicts on the shard {shard}/{}",
                self.task.shards
            ));
        }
        self.join(other);
        Ok(())
    }

    /// Returns the first shard that is missing, if there is one.
    #[must_use]
    pub fn missing(&self) -> Option<u64> {
        (0..self.task.shards).find(|shard| !self.shards.contains(shard))
    }

    fn join(&mut self, other: Self) {
        fn add(to: &mut u64, more: u64) {
            *to = to.saturating_add(more);
        }
        self.shards.extend(other.shards);
        add(&mut self.wanted, other.wanted);
        add(&mut self.seeds, other.seeds);
        self.interrupted |= other.interrupted;
        add(&mut self.failures.crash, other.failures.crash);
        add(&mut self.failures.safety, other.failures.safety);
        add(&mut self.failures.liveness, other.failures.liveness);
        self.failed_runs.extend(other.failed_runs);
        self.failed_runs.sort();
        self.failed_runs.truncate(MAX_FAILURES);
        add(&mut self.operations.succeeded, other.operations.succeeded);
        add(&mut self.operations.failed, other.operations.failed);
        add(&mut self.operations.abandoned, other.operations.abandoned);
        add(&mut self.void_events, other.void_events);
        add(&mut self.steps, other.steps);
        add(&mut self.virtual_millis, other.virtual_millis);
        self.digest = combined(&self.digest, &other.digest);
    }

    /// Returns a text with the number of runs and the speed.
    #[must_use]
    pub fn summary(&self, real: Duration) -> String {
        let millis = u64::try_from(real.as_millis()).unwrap_or(u64::MAX).max(1);
        let tenths = self.seeds.saturating_mul(10_000) / millis;
        format!(
            "{self} in {:.1} real seconds: {} to 1, {}.{} seeds per second",
            real.as_secs_f64(),
            self.virtual_millis / millis,
            tenths / 10,
            tenths % 10,
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}): {} of {} seeds, {} failed; {} operations succeeded in {} steps; {} virtual \
             seconds",
            printable(&self.task.scenario),
            printable(&self.task.way),
            self.seeds,
            self.wanted,
            self.failures.total(),
            self.operations.succeeded,
            self.steps,
            self.virtual_millis / 1000,
        )?;
        match self.void_events {
            0 => Ok(()),
            count => write!(f, "; {count} events had no effect"),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Combines two digests by exclusive or of their digits.
fn combined(one: &str, other: &str) -> String {
    let digit = |text: &str, place: usize| {
        let digit = text.as_bytes().get(place).copied();
        digit
            .and_then(|digit| char::from(digit).to_digit(16))
            .unwrap_or(0)
    };
    let length = one.len().max(other.len());
    let digits = (0..length).map(|place| digit(one, place) ^ digit(other, place));
    digits
        .filter_map(|digit| char::from_digit(digit, 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::text::is_unprintable;

    /// Returns the verdict on a shard of three, in which a run has panicked.
    fn shard(place: u64) -> Verdict {
        let task = Task {
            shards: 3,
            ..Task::default()
        };
        let mut verdict = Verdict::new(task, place, 1);
        verdict.add(place, &Err("no".to_owned()));
        verdict.digest = format!("{:02x}", place + 1);
        verdict
    }

    #[test]
    fn verdicts_on_shards_are_joined_in_any_order() {
        let joined = |order: [u64; 3]| {
            let [first, others @ ..] = order.map(shard);
            others.into_iter().fold(first, |mut all, other| {
                assert!(all.missing().is_some());
                all.merge(other).expect("another shard");
                all
            })
        };
        let all = joined([0, 1, 2]);
        assert_eq!(all, joined([2, 0, 1]));
        assert_eq!((all.seeds, all.wanted, all.failures.total()), (3, 3, 3));
        assert_eq!(all.failures.worst(), Some(Fault::Crash));
        assert_eq!((all.digest.as_str(), all.missing()), ("00", None));
    }

    #[test]
    fn texts_of_an_altered_verdict_are_shown_without_control_characters() {
        let mut verdict = shard(1);
        verdict.task.scenario = "\u{1b}[2J".to_owned();
        verdict.task.way = "\u{9b}2J".to_owned();
        let failed = &mut verdict.failed_runs[0];
        (failed.at, failed.message) = ("\r".to_owned(), "one\ntwo\u{202e}".to_owned());
        let text = format!("{verdict}\n{}", verdict.failed_runs[0]);
        let is_wrong = |c: char| c != '\n' && is_unprintable(c);
        assert!(!text.contains(is_wrong), "{text:?}");
        assert!(text.contains("one\ntwo"), "{text:?}");
    }

    #[test]
    fn failures_are_alike_if_the_same_check_failed() {
        let failed = |message: &str| FailedRun {
            seed: 1,
            fault: Fault::Safety,
            at: "1s".to_owned(),
            message: message.to_owned(),
        };
        let is_like = |one: &str, other: &str| failed(one).is_like(&failed(other));
        let sessions = "client 1: the client keeps 12 sessions, and its bound is 11";
        for (like, one, other) in [
            (
                true,
                sessions,
                "client 0: the client keeps 9 sessions, and its bound is 8",
            ),
            (
                false,
                sessions,
                "client 1: the client keeps 12 timers, and its bound is 11",
            ),
            (
                false,
                sessions,
                "client 1: pool of a:27017: more than 1 connections",
            ),
            (
                false,
                "client 1: pool of a:27017: connection 5 made twice",
                "client 1: pool of a:27017: more than 1 connections",
            ),
            (
                true,
                "client 0: a1:27017 opened twice",
                "client 1: a2:27017 opened twice",
            ),
            (
                true,
                "an operation never ended: insert 5",
                "an operation never ended: find 7",
            ),
        ] {
            assert_eq!(is_like(one, other), like, "{one}; {other}");
        }
        let mut other = failed(sessions);
        other.fault = Fault::Liveness;
        assert!(!failed(sessions).is_like(&other));
    }

    #[test]
    fn a_shard_counts_once_and_sweeps_are_not_mixed() {
        let error = shard(1).merge(shard(1)).expect_err("the same shard");
        assert!(error.contains("1/3"), "{error}");
        let mut other = shard(2);
        other.task.definition = "tasks = 1".to_owned();
        assert!(shard(1).merge(other).is_err());
    }
}
