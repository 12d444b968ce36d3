//! Long queries, which run beside the commands of other clients.
//!
//! A command runs its query with a small number of steps first. If these are not enough, and the
//! caller of the deployment runs jobs, the query becomes a [`Job`] on a copy of the data, and the
//! request waits for its result. Then the command is executed again, with this result in the place
//! of its query.

use super::{
    Member, Output,
    connection::{Pending, Waiting},
    fault::Fault,
};
use crate::{
    deployment::ConnId,
    store::{Environment, Found, Query, Store, StoreError},
};
use bson::{Document, oid::ObjectId};
use onionskin_core::time::Instant;

/// The steps of a query that is not a job: some milliseconds.
const STEPS: u64 = 20_000;

/// A long query. Run it by [`Job::run`], in any thread, and give the result to
/// [`Deployment::handle_job_done`](crate::deployment::Deployment::handle_job_done).
#[derive(Debug)]
pub struct Job {
    connection: ConnId,
    number: u64,
    store: Store,
    query: Query,
    now: bson::DateTime,
    timestamp: bson::Timestamp,
    seed: u64,
    variables: Document,
}

/// The result of a [`Job`].
#[derive(Debug)]
pub struct JobDone {
    pub(crate) connection: ConnId,
    number: u64,
    result: Result<Found, StoreError>,
}

impl Job {
    /// Returns the connection whose request needs this query.
    #[must_use]
    pub const fn connection(&self) -> ConnId {
        self.connection
    }

    /// Runs the query.
    #[must_use]
    pub fn run(self) -> JobDone {
        let mut environment = Environment {
            now: self.now,
            timestamp: self.timestamp,
            // A query makes no ids.
            ids: &mut || ObjectId::from_bytes([0; 12]),
            seed: self.seed,
            variables: self.variables,
            bypasses_validation: false,
            max_steps: None,
        };
        JobDone {
            connection: self.connection,
            number: self.number,
            result: self.query.run(&self.store, &mut environment),
        }
    }
}

/// The jobs of a member.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// True if the caller of the deployment runs jobs. Otherwise commands run their whole queries.
    pub(super) are_run: bool,
    /// The job that the command that is being executed needs.
    new: Option<Job>,
    /// The result for the command that is executed again.
    done: Option<Result<Found, StoreError>>,
    last: u64,
}

impl Jobs {
    /// Forgets the job of a command that ended in a panic.
    pub(super) fn forget(&mut self) {
        self.new = None;
        self.done = None;
    }
}

impl Member {
    /// Runs the query of a command, or makes it a job. After an error, the command must end.
    pub(super) fn query(
        &mut self,
        now: Instant,
        variables: Option<&Document>,
        query: Query,
    ) -> Result<Found, Fault> {
        if let Some(done) = self.jobs.done.take() {
            return Ok(done?);
        }
        let connection = self.running.filter(|_| self.jobs.are_run);
        let mut job = None;
        let number = self.jobs.last + 1;
        let found = self.with_store(now, variables, |store, environment| {
            environment.max_steps = connection.map(|_| STEPS);
            let found = query.run(store, environment);
            if let (Some(connection), Err(StoreError { code: 50, .. })) = (connection, &found) {
                job = Some(Job {
                    connection,
                    number,
                    store: store.clone(),
                    query,
                    now: environment.now,
                    timestamp: environment.timestamp,
                    seed: environment.seed,
                    variables: environment.variables.clone(),
                });
            }
            found
        });
        if job.is_some() {
            self.jobs.last = number;
            self.jobs.new = job;
        }
        Ok(found?)
    }

    /// Takes the job that the executed command needs.
    pub(super) fn take_job(&mut self) -> Option<Job> {
        self.jobs.new.take()
    }

    /// Executes the command of a job again. Does nothing if the request no longer waits.
    pub(crate) fn handle_job_done(&mut self, now: Instant, done: JobDone) {
        let conn = done.connection;
        let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
        let waits = pending.is_some_and(|pending| match &pending.waiting {
            Waiting::Job { number, .. } => *number == done.number,
            _ => false,
        });
        if !waits {
            return;
        }
        if let Some(Pending {
            request,
            waiting: Waiting::Job { effect, .. },
            ..
        }) = self.unpark(conn)
        {
            self.jobs.done = Some(done.result);
            self.run(now, conn, request, effect);
            self.jobs.done = None;
            self.advance(now, conn);
        }
    }

    /// Lets the deployment give out jobs.
    pub(crate) const fn run_jobs(&mut self) {
        self.jobs.are_run = true;
    }

    pub(super) fn give_out(&mut self, job: Job) -> u64 {
        let number = job.number;
        self.outputs.push_back(Output::Job(Box::new(job)));
        number
    }
}
