//! Long commands: the threads for their queries, and the parts of the others.

use super::Shared;
use onionskin_deployment::deployment::Job;
use std::{rc::Rc, sync::Arc};
use tokio::task;

/// The largest number of long queries that run at the same time.
pub(super) const MAX_RUNNING: usize = 8;

/// The largest number of long queries that have a thread. Those that do not run wait for their next
/// turn. Each can hold the memory of a stage, so the number is small.
const MAX_WORKERS: usize = 32;

/// The steps of a turn of a long query: some ten milliseconds.
const STEPS_OF_TURN: u64 = 100_000;

impl Shared {
    /// Starts the next long query if a thread is free for it. Returns false if it started none.
    pub(super) fn start_work(self: &Rc<Self>) -> bool {
        if self.workers.get() >= MAX_WORKERS {
            return false;
        }
        let job = self.deployment.borrow_mut().poll_job(self.now());
        let Some(job) = job else {
            return false;
        };
        self.workers.set(self.workers.get() + 1);
        task::spawn_local(Rc::clone(self).work(job));
        true
    }

    async fn work(self: Rc<Self>, job: Job) {
        let key = job.key();
        let turns = Arc::clone(&self.turns);
        let run = move || {
            let turn = turns.begin();
            job.run_in_slices(STEPS_OF_TURN, move || turn.pass_on())
        };
        let done = task::spawn_blocking(run).await;
        self.workers.set(self.workers.get() - 1);
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
