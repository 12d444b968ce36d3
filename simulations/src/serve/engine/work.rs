//! The threads for long queries.

use super::Shared;
use onionskin_deployment::deployment::Job;
use std::rc::Rc;
use tokio::task;

/// The largest number of long queries that run at the same time, each in its own thread.
const MAX_WORKERS: usize = 2;

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
}
