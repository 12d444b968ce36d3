//! The threads for jobs, and the parts of long commands.

use super::Shared;
use onionskin_deployment::deployment::{Job, JobDone};
use std::{cell::Cell, rc::Rc, sync::Arc};
use tokio::task;

/// The largest number of long queries that run at the same time.
pub(super) const MAX_RUNNING: usize = 8;

/// The largest number of long queries that have a thread. Those that do not run wait for their next
/// turn. Each can hold the memory of a stage, so the number is small.
const MAX_WORKERS: usize = 32;

/// The steps of a turn of a long query: some ten milliseconds.
const STEPS_OF_TURN: u64 = 100_000;

/// The largest number of short jobs that run at the same time besides, so that they need not wait
/// for a query. Each has one large message in memory twice: as bytes and as documents.
const MAX_SHORT_WORKERS: usize = 2;

impl Shared {
    /// Starts the next job if a thread is free for it. Returns false if it started none.
    pub(super) fn start_work(self: &Rc<Self>) -> bool {
        self.start_short() || self.start_query()
    }

    fn start_short(self: &Rc<Self>) -> bool {
        if self.short_workers.get() >= MAX_SHORT_WORKERS {
            return false;
        }
        let job = self.deployment.borrow_mut().poll_short_job();
        self.start(job, |shared| &shared.short_workers, Job::run)
    }

    fn start_query(self: &Rc<Self>) -> bool {
        if self.workers.get() >= MAX_WORKERS {
            return false;
        }
        let job = self.deployment.borrow_mut().poll_long_query(self.now());
        let turns = Arc::clone(&self.turns);
        let run = move |job: Job| {
            let turn = turns.begin();
            job.run_in_slices(STEPS_OF_TURN, move || turn.pass_on())
        };
        self.start(job, |shared| &shared.workers, run)
    }

    /// Runs a job in a thread, if there is one. `workers` returns the count of its kind of jobs.
    fn start(
        self: &Rc<Self>,
        job: Option<Job>,
        workers: fn(&Self) -> &Cell<usize>,
        run: impl FnOnce(Job) -> JobDone + Send + 'static,
    ) -> bool {
        let Some(job) = job else {
            return false;
        };
        let count = workers(self);
        count.set(count.get() + 1);
        task::spawn_local(Rc::clone(self).work(job, workers, run));
        true
    }

    async fn work(
        self: Rc<Self>,
        job: Job,
        workers: fn(&Self) -> &Cell<usize>,
        run: impl FnOnce(Job) -> JobDone + Send + 'static,
    ) {
        let key = job.key();
        let done = task::spawn_blocking(move || run(job)).await;
        let count = workers(&self);
        count.set(count.get() - 1);
        let done = done.unwrap_or_else(|_| key.panicked());
        let now = self.now();
        self.drive(None, |deployment| deployment.handle_job_done(now, done));
        self.pump();
    }

    /// Executes the parts of commands, and serves all other tasks before each.
    pub(super) async fn run_parts(self: Rc<Self>) {
        loop {
            task::yield_now().await;
            let now = self.now();
            self.drive(None, |deployment| deployment.run_part(now));
            // No other task of this kind begins meanwhile.
            self.pump();
            if !self.deployment.borrow().has_parts() {
                break;
            }
        }
        self.runs_parts.set(false);
    }
}
