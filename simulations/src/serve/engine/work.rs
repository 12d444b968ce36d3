//! Long commands: the threads for their jobs, and the parts of writes.

use super::Shared;
use onionskin_deployment::deployment::Job;
use std::{cell::Cell, rc::Rc};
use tokio::task;

/// The largest number of long queries that run at the same time, each in its own thread.
const MAX_WORKERS: usize = 8;

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
        self.start(job, |shared| &shared.short_workers)
    }

    fn start_query(self: &Rc<Self>) -> bool {
        if self.workers.get() >= MAX_WORKERS {
            return false;
        }
        let job = self.deployment.borrow_mut().poll_long_query(self.now());
        self.start(job, |shared| &shared.workers)
    }

    fn start(self: &Rc<Self>, job: Option<Job>, workers: fn(&Self) -> &Cell<usize>) -> bool {
        let Some(job) = job else {
            return false;
        };
        let count = workers(self);
        count.set(count.get() + 1);
        task::spawn_local(Rc::clone(self).work(job, workers));
        true
    }

    async fn work(self: Rc<Self>, job: Job, workers: fn(&Self) -> &Cell<usize>) {
        let key = job.key();
        let done = task::spawn_blocking(move || job.run()).await;
        let count = workers(&self);
        count.set(count.get() - 1);
        let done = done.unwrap_or_else(|_| key.panicked());
        let now = self.now();
        self.drive(None, |deployment| deployment.handle_job_done(now, done));
        self.pump();
    }

    /// Executes the parts of writes, and serves all other tasks before each.
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
