//! The result of a run.

use super::{
    options::{Way, WorldOptions},
    picture::{Heading, Picture},
    runtime::{Achieved, ListHistory},
    void::VoidEvent,
    workload::{Ending, History},
};
use onionskin_core::time::Instant;
use std::{fmt, ops::Add, time::Duration};

/// The number of events without effect that the text of a report has.
const SHOWN_VOID_EVENTS: usize = 20;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The client violated its contract or runs in a busy loop, or the world cannot be created.
    Crash,
    /// Something that must happen did not happen, for example the end of an operation.
    Liveness,
    /// Something happened that must not happen, for example the loss of an acknowledged write.
    Correctness,
}

/// A failure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The virtual time of the failure.
    pub at: Instant,
    /// A description of the failure.
    pub message: String,
}

impl Failure {
    /// Creates a failure.
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

/// The number of operations by their ending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of writes that were acknowledged and of reads that returned.
    pub succeeded: u64,
    /// The number of operations that failed.
    pub failed: u64,
    /// The number of operations that their callers abandoned.
    pub abandoned: u64,
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            abandoned: self.abandoned + other.abandoned,
        }
    }
}

impl Tally {
    /// Counts the operations of a history.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let mut tally = Self::default();
        for entry in history.entries() {
            match &entry.ended {
                Some((_, Ending::Acknowledged | Ending::Found(_))) => tally.succeeded += 1,
                Some((_, Ending::Failed(_))) => tally.failed += 1,
                Some((_, Ending::Abandoned)) => tally.abandoned += 1,
                None => {}
            }
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            succeeded,
            failed,
            abandoned,
        } = self;
        write!(
            f,
            "{succeeded} succeeded, {failed} failed, {abandoned} abandoned"
        )
    }
}

/// The report on a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// The way in which the clients were driven.
    pub way: Way,
    /// The options of the run.
    pub options: WorldOptions,
    /// The virtual time that passed.
    pub simulated: Duration,
    /// The number of steps: handled events, and in a run with the async client also polled tasks.
    pub steps: u64,
    /// The number of operations by their ending.
    pub tally: Tally,
    /// The events that had no effect, in the order of their times.
    pub void_events: Vec<VoidEvent>,
    /// The SHA-256 digest of the trace.
    pub digest: [u8; 32],
    /// The trace, or an empty string if it was not kept.
    pub trace: String,
    /// The picture of the run, or `None` if it was not kept.
    pub picture: Option<Box<Picture>>,
    /// The failure, or `None` if the run succeeded.
    pub failure: Option<Failure>,
    /// The transactions on lists ([`Workload::Applications`](super::Workload::Applications)).
    pub lists: ListHistory,
    /// The achievements of the callers of that workload.
    pub achieved: Achieved,
}

impl Report {
    /// Returns the report of a run that could not begin.
    pub(super) fn of_failure(seed: u64, way: Way, options: WorldOptions, failure: Failure) -> Self {
        Self {
            seed,
            way,
            options,
            simulated: Duration::ZERO,
            steps: 0,
            tally: Tally::default(),
            void_events: Vec::new(),
            digest: [0; 32],
            trace: String::new(),
            picture: None,
            failure: Some(failure),
            lists: ListHistory::default(),
            achieved: Achieved::default(),
        }
    }

    /// Returns one HTML page that shows the run: the states of the members, what each client knew
    /// of them, its connections and its operations, the faults, and the events. The page needs no
    /// other file. `title` is its heading, and `replay` a command that repeats the run.
    ///
    /// `None` if [`WorldOptions::keep_picture`] was not set, or if the run could not begin.
    #[must_use]
    pub fn page(&self, title: &str, replay: Option<&str>) -> Option<String> {
        let void = match self.void_events.len() {
            0 => String::new(),
            count => format!("; events without effect: {count}"),
        };
        let heading = Heading {
            title,
            summary: &format!(
                "operations of callers: {}; {:.1} s of virtual time{void}",
                self.tally,
                self.simulated.as_secs_f64(),
            ),
            replay,
            failure: self.failure.as_ref(),
        };
        let picture = self.picture.as_ref()?;
        Some(picture.page(heading, Instant::ZERO + self.simulated))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {} ({}): {:.1} s simulated in {} steps; operations: {}; trace ",
            self.seed,
            self.way,
            self.simulated.as_secs_f64(),
            self.steps,
            self.tally,
        )?;
        for byte in &self.digest[..8] {
            write!(f, "{byte:02x}")?;
        }
        for void in self.void_events.iter().take(SHOWN_VOID_EVENTS) {
            write!(f, "\n{void}")?;
        }
        match self.void_events.len().saturating_sub(SHOWN_VOID_EVENTS) {
            0 => {}
            others => write!(f, "\nand {others} other events had no effect")?,
        }
        match &self.failure {
            None => Ok(()),
            Some(failure) => write!(f, "\n{failure}\n{:#?}", self.options),
        }
    }
}
