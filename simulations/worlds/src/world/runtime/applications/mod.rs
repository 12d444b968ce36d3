//! Callers that use a client as applications do: transactions on lists and on accounts, a change
//! stream that follows the lists, files in GridFS, and notes, which use most other operations.
//!
//! Each kind keeps what it has seen in the [`Records`] of the run, and compares that with the data
//! at the end.

mod bank;
mod files;
mod follower;
mod lists;
mod notes;

pub use lists::ListHistory;
pub use notes::CALLS;

use super::{SimRuntime, polling::polled};
use crate::world::{
    check::documents,
    options::Rates,
    report::{Failure, FailureKind, Tally},
    workload::{DATABASE, OTHER_DATABASE, Polling, SLACK, pause},
};
use onionskin::Client;
use onionskin_core::{
    error::{Error, ErrorKind},
    random::Random,
    time::Instant,
};
use onionskin_deployment::deployment::Deployment;
use std::{future::Future, time::Duration};

/// The number of steps of a caller after the time of grace.
const LATE_STEPS: u32 = 4;

/// The time limit of a step after the time of grace.
const LATE_LIMIT: Duration = Duration::from_secs(60);

/// The kinds of callers. Each client has them in this order.
const KINDS: [Kind; 6] = [
    Kind::Lists,
    Kind::Notes,
    Kind::Follower,
    Kind::Bank,
    Kind::Lists,
    Kind::Files,
];

/// The first callers of two clients are this number of places apart in [`KINDS`]. Most clients have
/// fewer callers than there are kinds, and with the same first kind the last ones would be rare.
const SHIFT: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Lists,
    Follower,
    Bank,
    Files,
    Notes,
}

/// The effects and observations of the applications of a run.
#[derive(Debug, Default)]
pub(in crate::world) struct Records {
    pub(in crate::world) lists: ListHistory,
    followers: Vec<follower::Seen>,
    bank: bank::Bank,
    files: files::Files,
    notes: notes::Notes,
    pub(in crate::world) tally: Tally,
    /// The number of callers that can still change lists.
    writers: usize,
}

impl Records {
    /// Compares what was seen with the data of the primary, and adds the lists to their history.
    pub(super) fn check(&mut self, now: Instant, deployment: &Deployment) -> Result<(), Failure> {
        if deployment.primary().is_none() {
            return Ok(());
        }
        let documents = |collection: &str| documents(deployment, collection);
        let lists = lists::stored(&documents(lists::COLLECTION));
        let checked = self
            .lists
            .check(&lists)
            .and_then(|()| self.followers.iter().try_for_each(|s| s.check(&lists)))
            .and_then(|()| self.bank.check_end(&documents(bank::COLLECTION)))
            .and_then(|()| self.files.check(documents))
            .and_then(|()| self.notes.check(documents));
        self.lists.finish(now, lists);
        checked.map_err(|what| Failure::new(FailureKind::Correctness, now, what))
    }

    /// Returns how much was done.
    pub(super) fn achieved(&self) -> Achieved {
        Achieved {
            transactions: self.lists.committed(),
            transfers: self.bank.transfers,
            events: self.followers.iter().map(follower::Seen::events).sum(),
            files: self.files.stored(),
            calls: self.notes.calls,
            notes: self.notes.seen,
        }
    }
}

/// The achievements of the callers of
/// [`Workload::Applications`](crate::world::Workload::Applications).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Achieved {
    /// The number of transactions on lists that were committed.
    pub transactions: usize,
    /// The number of acknowledged transfers between accounts.
    pub transfers: usize,
    /// The number of values that change streams have seen.
    pub events: usize,
    /// The number of stored files.
    pub files: usize,
    /// How often each of the calls succeeded with which notes are written and read.
    pub calls: [usize; CALLS],
    /// The number of notes that were read and compared with the present ones.
    pub notes: usize,
}

/// A caller.
pub(super) struct Application {
    /// The index of the client.
    pub(super) number: usize,
    pub(super) runtime: SimRuntime,
    pub(super) client: Client<SimRuntime>,
    pub(super) rates: Rates,
    pub(super) random: Random,
    /// The generator for absences.
    pub(super) absences: Random,
    pub(super) heals: Instant,
    pub(super) late_from: Instant,
    /// The time at which a disaster closes the client, or `None`.
    pub(super) closes: Option<Instant>,
    /// The number of steps that began after the time of grace.
    pub(super) late_steps: u32,
    /// True if the servers have the command `bulkWrite`.
    pub(super) has_bulk_write: bool,
    /// True if there are several shards.
    pub(super) has_shards: bool,
    /// True if events of the run end change streams.
    pub(super) streams_end: bool,
}

/// Returns the database of the list or the account with this `_id`.
const fn database_of(has_shards: bool, id: i64) -> &'static str {
    match has_shards && id % 2 == 1 {
        true => OTHER_DATABASE,
        false => DATABASE,
    }
}

/// The reason why a step has no result.
#[derive(Debug)]
enum Left {
    /// The caller abandoned it.
    Abandoned,
    /// The client was closed.
    Closed,
    /// The step failed.
    Failed(Error),
}

impl Application {
    /// Runs the caller with this number among those of its client.
    pub(super) async fn run(self, task: usize) {
        let runtime = self.runtime.clone();
        let kind = KINDS[(task + self.number * SHIFT) % KINDS.len()];
        let writes = matches!(kind, Kind::Lists);
        runtime.shared.lock().applications.writers += usize::from(writes);
        match kind {
            Kind::Lists => self.change_lists().await,
            Kind::Follower => self.follow().await,
            Kind::Bank => self.transfer().await,
            Kind::Files => self.keep_files().await,
            Kind::Notes => self.keep_notes(task).await,
        }
        runtime.shared.lock().applications.writers -= usize::from(writes);
    }

    /// Waits before the next step. Returns true after the time of grace, and `None` after the last
    /// step.
    async fn next_step(&mut self) -> Option<bool> {
        if self.late_steps == LATE_STEPS {
            return None;
        }
        let is_late = self.pause().await;
        self.late_steps += u32::from(is_late);
        Some(is_late)
    }

    /// Waits before a step. Returns true after the time of grace.
    async fn pause(&mut self) -> bool {
        let mut at = self.now() + pause(&mut self.random);
        // No step begins between healing and the end of the time of grace.
        if at >= self.heals {
            at = at.max(self.late_from);
        }
        self.runtime.sleep_until(at).await;
        self.now() >= self.late_from
    }

    fn now(&self) -> Instant {
        self.runtime.shared.lock().now
    }

    /// Draws the time limit of a step.
    fn limit(&mut self, is_late: bool) -> Duration {
        match self.random.below(4) {
            _ if is_late => LATE_LIMIT,
            0 => Duration::from_millis(20 + self.random.below(500)),
            _ => Duration::from_millis(1_000 + self.random.below(20_000)),
        }
    }

    /// Awaits a part of a step, which must end within `limit`, and counts it.
    async fn attempt<T>(
        &mut self,
        name: &str,
        limit: Duration,
        is_late: bool,
        part: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Left> {
        let polling = match is_late {
            true => Polling::default(),
            false => Polling::drawn(self.rates, &mut self.random, &mut self.absences),
        };
        let began = self.runtime.shared.lock().now;
        let result = polled(&self.runtime, polling, self.heals, part).await;
        let mut state = self.runtime.shared.lock();
        let now = state.now;
        let frozen = state.paused(began, now);
        let absence = polling
            .absence
            .map_or(Duration::ZERO, |absence| absence.time);
        if now > began + limit + absence + frozen + SLACK {
            let message = format!(
                "{name} ended after its limit: {limit:?} from {began}, client {}: {:?}",
                self.number,
                result.as_ref().map(|result| result.as_ref().err()),
            );
            state.fail(FailureKind::Liveness, message);
        }
        let tally = &mut state.applications.tally;
        match &result {
            None => tally.abandoned += 1,
            Some(Ok(_)) => tally.succeeded += 1,
            Some(Err(_)) => tally.failed += 1,
        }
        match result {
            None => Err(Left::Abandoned),
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) if matches!(error.kind(), ErrorKind::Shutdown) => {
                if self.closes.is_none_or(|at| at > now) {
                    let message = format!("{error} before its time: client {}", self.number);
                    state.fail(FailureKind::Correctness, message);
                }
                Err(Left::Closed)
            }
            Some(Err(error)) => Err(Left::Failed(error)),
        }
    }

    /// Records a failure: what is wrong, and the details.
    fn fail(&self, kind: FailureKind, what: &str, details: &str) {
        let message = format!("{what}: client {}: {details}", self.number);
        self.runtime.shared.lock().fail(kind, message);
    }

    fn note(&self, text: std::fmt::Arguments<'_>) {
        let mut state = self.runtime.shared.lock();
        let now = state.now;
        let number = self.number;
        state
            .trace
            .note(now, format_args!("client {number} {text}"));
    }

    /// Judges a step without a result: after the time of grace none may fail. Returns false if the
    /// client was closed.
    fn goes_on(&self, left: &Left, is_late: bool) -> bool {
        if let (Left::Failed(error), true) = (left, is_late) {
            let details = format!("{error} {error:?}");
            self.fail(
                FailureKind::Liveness,
                "a call failed after healing",
                &details,
            );
        }
        !matches!(left, Left::Closed)
    }
}
