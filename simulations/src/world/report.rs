//! What a run came to.

use super::{
    options::{Way, WorldOptions},
    workload::{Ending, History},
};
use onionskin_core::time::Instant;
use std::{fmt, time::Duration};

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The client broke the contract of its machine, or its tasks are stuck.
    Crash,
    /// Something that must come about after healing did not.
    Liveness,
    /// Something happened that must not happen.
    Correctness,
}

/// What went wrong, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of thing.
    pub kind: FailureKind,
    /// Virtual time.
    pub at: Instant,
    /// What.
    pub message: String,
}

impl Failure {
    /// A failure.
    #[must_use]
    pub fn new(kind: FailureKind, at: Instant, message: impl Into<String>) -> Self {
        Self {
            kind,
            at,
            message: message.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}: {}", self.kind, self.at, self.message)
    }
}

/// How many operations ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Acknowledged or answered.
    pub succeeded: u64,
    /// Failed.
    pub failed: u64,
    /// Left by their callers.
    pub left: u64,
}

impl Tally {
    /// Counts.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let mut tally = Self::default();
        for entry in history.entries() {
            match &entry.ended {
                Some((_, Ending::Acknowledged | Ending::Found(_))) => tally.succeeded += 1,
                Some((_, Ending::Failed(_))) => tally.failed += 1,
                Some((_, Ending::Left)) => tally.left += 1,
                None => {}
            }
        }
        tally
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// How the client was driven.
    pub way: Way,
    /// What the run consisted of.
    pub options: WorldOptions,
    /// How much virtual time passed.
    pub simulated: Duration,
    /// How many steps it took.
    pub steps: u64,
    /// What became of the operations.
    pub tally: Tally,
    /// SHA-256 of the trace.
    pub digest: [u8; 32],
    /// The trace, if it was to be kept.
    pub trace: String,
    /// What went wrong, if anything did.
    pub failure: Option<Failure>,
}

impl Report {
    /// The report of a run that could not begin.
    pub(super) fn of_failure(seed: u64, way: Way, options: WorldOptions, failure: Failure) -> Self {
        Self {
            seed,
            way,
            options,
            simulated: Duration::ZERO,
            steps: 0,
            tally: Tally::default(),
            digest: [0; 32],
            trace: String::new(),
            failure: Some(failure),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            succeeded,
            failed,
            left,
        } = self.tally;
        write!(
            f,
            "seed {} ({}): {:.1} s simulated in {} steps; operations: {succeeded} succeeded, \
             {failed} failed, {left} left; trace ",
            self.seed,
            self.way,
            self.simulated.as_secs_f64(),
            self.steps,
        )?;
        for byte in &self.digest[..8] {
            write!(f, "{byte:02x}")?;
        }
        match &self.failure {
            None => Ok(()),
            Some(failure) => write!(f, "\n{failure}\n{:#?}", self.options),
        }
    }
}
