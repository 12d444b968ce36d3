//! Long commands: the threads for their queries, and the parts of writes.

use super::Shared;
use onionskin_deployment::deployment::Job;
use std::rc::Rc;
use tokio::task;

/// The largest number of long queries that run at the same time, each in its own thread.
const MAX_WORKERS: usize = 8;

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
        let done = task::spawn_blocking(move || job.run()).await;
        self.workers.set(self.workers.get() - 1);
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
