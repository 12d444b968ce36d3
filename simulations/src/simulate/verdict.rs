//! The result of a sweep, as text and as JSON.

use onionskin_worlds::world::{Failure, FailureKind, Report};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

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
pub struct FailedRun {
    /// The seed of the run.
    pub seed: u64,
    /// The kind of the failure.
    pub fault: Fault,
    /// The virtual time of the failure and its description.
    pub message: String,
}

impl FailedRun {
    /// Returns the failed run of a report.
    #[must_use]
    pub fn of(seed: u64, failure: &Failure) -> Self {
        Self {
            seed,
            fault: match failure.kind {
                FailureKind::Crash => Fault::Crash,
                FailureKind::Correctness => Fault::Safety,
                FailureKind::Liveness => Fault::Liveness,
            },
            message: failure.to_string(),
        }
    }
}

/// The result of a sweep over seeds. The order in which the seeds ran does not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The name of the scenario, or the path of its file.
    pub scenario: String,
    /// The way in which the clients were driven: `core` or `runtime`.
    pub way: String,
    /// The seeds that ran: how many, the lowest and the highest.
    pub seeds: u64,
    /// The lowest seed that ran.
    pub first: Option<u64>,
    /// The highest seed that ran.
    pub last: Option<u64>,
    /// The writes that were acknowledged and the reads that returned.
    pub succeeded: u64,
    /// The operations that failed.
    pub failed: u64,
    /// The operations that their callers abandoned.
    pub abandoned: u64,
    /// The steps of all runs.
    pub steps: u64,
    /// The virtual time of all runs, in milliseconds.
    pub virtual_millis: u64,
    /// The number of failed runs.
    pub failures: u64,
    /// The failed runs with the lowest seeds, 100 at most.
    pub failed_runs: Vec<FailedRun>,
    /// The worst fault.
    pub worst: Option<Fault>,
    /// The digests of all traces, combined by exclusive or, in hexadecimal digits.
    pub digest: String,
}

impl Verdict {
    /// Returns the verdict on no seed.
    #[must_use]
    pub fn new(scenario: &str, way: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            way: way.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a run, or a text of its panic.
    pub fn add(&mut self, seed: u64, run: &Result<Report, String>) {
        let mut one = Self::new(&self.scenario, &self.way);
        (one.seeds, one.first, one.last) = (1, Some(seed), Some(seed));
        let failed = match run {
            Ok(report) => {
                one.succeeded = report.tally.succeeded;
                one.failed = report.tally.failed;
                one.abandoned = report.tally.abandoned;
                one.steps = report.steps;
                one.virtual_millis =
                    u64::try_from(report.simulated.as_millis()).unwrap_or(u64::MAX);
                one.digest = hex(&report.digest);
                let failure = report.failure.as_ref();
                failure.map(|failure| FailedRun::of(seed, failure))
            }
            Err(message) => Some(FailedRun {
                seed,
                fault: Fault::Crash,
                message: format!("panicked: {message}"),
            }),
        };
        one.worst = failed.as_ref().map(|failed| failed.fault);
        one.failures = u64::from(failed.is_some());
        one.failed_runs.extend(failed);
        self.join(one);
    }

    /// Adds the runs of another verdict. It must be on other seeds of the same scenario.
    ///
    /// # Errors
    ///
    /// The reason why they cannot be joined.
    pub fn merge(&mut self, other: Self) -> Result<(), String> {
        if (&self.scenario, &self.way) != (&other.scenario, &other.way) {
            return Err(format!(
                "verdicts on {} ({}) and on {} ({}) cannot be joined",
                self.scenario, self.way, other.scenario, other.way
            ));
        }
        self.join(other);
        Ok(())
    }

    fn join(&mut self, other: Self) {
        self.seeds = self.seeds.saturating_add(other.seeds);
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.failed = self.failed.saturating_add(other.failed);
        self.abandoned = self.abandoned.saturating_add(other.abandoned);
        self.steps = self.steps.saturating_add(other.steps);
        self.virtual_millis = self.virtual_millis.saturating_add(other.virtual_millis);
        self.failures = self.failures.saturating_add(other.failures);
        self.failed_runs.extend(other.failed_runs);
        self.failed_runs.sort();
        self.failed_runs.truncate(MAX_FAILURES);
        self.worst = self.worst.max(other.worst);
        self.digest = combined(&self.digest, &other.digest);
    }

    /// Returns a text with the number of runs and the speed.
    #[must_use]
    pub fn summary(&self, real: Duration) -> String {
        let millis = u64::try_from(real.as_millis()).unwrap_or(u64::MAX).max(1);
        format!(
            "{self} in {:.1} real seconds: {} to 1, {} seeds per second",
            real.as_secs_f64(),
            self.virtual_millis / millis,
            self.seeds.saturating_mul(1000) / millis,
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}): {} seeds, {} failed; {} operations succeeded in {} steps; {} virtual \
             seconds",
            self.scenario,
            self.way,
            self.seeds,
            self.failures,
            self.succeeded,
            self.steps,
            self.virtual_millis / 1000,
        )
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

    fn failed(seed: u64, fault: Fault) -> Verdict {
        let mut verdict = Verdict::new("calm", "core");
        verdict.add(seed, &Err("no".to_owned()));
        verdict.worst = Some(fault);
        verdict.digest = format!("{seed:02x}");
        verdict
    }

    #[test]
    fn verdicts_are_joined_in_any_order() {
        let parts = [
            failed(3, Fault::Liveness),
            failed(1, Fault::Crash),
            failed(2, Fault::Safety),
        ];
        let joined = |order: [usize; 3]| {
            let mut all = Verdict::new("calm", "core");
            for part in order {
                all.merge(parts[part].clone()).expect("the same scenario");
            }
            all
        };
        let all = joined([0, 1, 2]);
        assert_eq!(all, joined([2, 1, 0]));
        assert_eq!((all.seeds, all.failures), (3, 3));
        assert_eq!((all.first, all.last), (Some(1), Some(3)));
        assert_eq!(all.worst, Some(Fault::Crash));
        assert_eq!(all.digest, "00");
        let other = Verdict::new("calm", "runtime");
        assert!(joined([0, 1, 2]).merge(other).is_err());
    }
}
