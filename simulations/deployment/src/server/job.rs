//! Jobs, which run beside the commands of other clients: long queries, and the work on large
//! messages and large data.
//!
//! A command runs its query with a small number of steps first. If these are not enough, and the
//! caller of the deployment runs jobs, the request waits. When the caller has a thread for the
//! query, the query becomes a [`Job`] on a copy of the data. Then the command is executed again,
//! with the result of the job in the place of its query.

mod done;

use super::{
    Member, Output,
    apart::{Task, TaskDone},
    connection::{Pending, Request, Waiting},
    fail_point::FailEffect,
    fault::Fault,
};
use crate::{
    deployment::ConnId,
    garbage::Dropped,
    store::{BuiltIndexes, Environment, Found, Parts, Query, Records, Slices, Store, StoreError},
};
use bson::{DateTime, Document, Timestamp, oid::ObjectId};
use onionskin_core::time::Instant;
use std::sync::{Arc, Weak};

/// The steps of a query that is not a job: some milliseconds.
pub(super) const STEPS: u64 = 20_000;

/// The steps of a query that is a job between two looks at whether its request still waits.
const STEPS_OF_SLICE: u64 = 100_000;

/// A long query, the decoding or the encoding of a large message, or the freeing of large data. Run
/// it by [`Job::run`], in any thread, and give the result to
/// [`Deployment::handle_job_done`](crate::deployment::Deployment::handle_job_done).
#[derive(Debug)]
pub struct Job {
    key: JobKey,
    work: Work,
}

/// The work of a job.
#[derive(Debug)]
enum Work {
    Query(Box<QueryJob>),
    Task(Box<Task>),
    /// Drops these values.
    Free(Dropped),
}

/// A query on a copy of the data.
#[derive(Debug)]
struct QueryJob {
    store: Store,
    query: Query,
    /// The `let` of the command.
    variables: Option<Document>,
    moment: Moment,
    /// Without a target once the request no longer waits.
    wanted: Weak<()>,
}

/// The request that a job belongs to, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobKey {
    /// `None` for the freeing of data.
    connection: Option<ConnId>,
    number: u64,
}

/// The result of a [`Job`].
#[derive(Debug)]
pub struct JobDone {
    key: JobKey,
    /// `None` if the job ended in a panic.
    result: Option<Done>,
}

#[derive(Debug)]
enum Done {
    Query {
        found: Result<Found, StoreError>,
        /// The size of the documents that no collection has, in bytes; `None` if the result is not
        /// documents.
        own_bytes: Option<usize>,
    },
    Task(TaskDone),
    Freed,
}

/// The time and the randomness of one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: DateTime,
    pub(super) timestamp: Timestamp,
    pub(super) seed: u64,
}

impl Job {
    /// Returns the request that this job belongs to.
    #[must_use]
    pub const fn key(&self) -> JobKey {
        self.key
    }

    /// Makes the job of a connection's message.
    pub(super) const fn of_task(connection: ConnId, number: u64, task: Box<Task>) -> Self {
        Self {
            key: JobKey {
                connection: Some(connection),
                number,
            },
            work: Work::Task(task),
        }
    }

    /// Runs the job as a whole.
    #[must_use]
    pub fn run(self) -> JobDone {
        self.run_in_slices(STEPS_OF_SLICE, || ())
    }

    /// Runs the job. If it is a query, calls `between` each time when the query has taken this
    /// number of steps. A caller lets another job have its turn there. 20,000 steps take some
    /// milliseconds. The build and the check of indexes count no steps.
    ///
    /// A query whose request no longer waits, because it was killed or its time has passed, ends
    /// after the call. Its result has no effect.
    #[must_use]
    pub fn run_in_slices(self, steps: u64, between: impl FnMut() + 'static) -> JobDone {
        let result = match self.work {
            Work::Query(query) => query.run(steps, between),
            Work::Task(task) => Done::Task(task.run()),
            Work::Free(values) => {
                drop(values);
                Done::Freed
            }
        };
        JobDone {
            key: self.key,
            result: Some(result),
        }
    }
}

impl QueryJob {
    fn run(self, steps: u64, mut between: impl FnMut() + 'static) -> Done {
        let wanted = self.wanted;
        let slices = Slices::new(steps, move || {
            between();
            wanted.strong_count() > 0
        });
        let mut environment = Environment {
            now: self.moment.now,
            timestamp: self.moment.timestamp,
            // A query makes no ids.
            ids: &mut || ObjectId::from_bytes([0; 12]),
            seed: self.moment.seed,
            variables: Document::new(),
            bypasses_validation: false,
            keeps_empty_timestamps: false,
            max_steps: None,
            parts: Parts {
                slices: Some(slices),
                ..Parts::default()
            },
        };
        let variables = self.variables.as_ref();
        let ready = variables.map_or(Ok(()), |given| {
            environment.set_variables(given, self.store.release())
        });
        let found = ready.and_then(|()| self.query.run(&self.store, &mut environment));
        Done::Query {
            own_bytes: found.as_ref().ok().and_then(Found::own_bytes),
            found,
        }
    }
}

impl JobKey {
    /// Returns the result of a job that ended in a panic.
    #[must_use]
    pub const fn panicked(self) -> JobDone {
        JobDone {
            key: self,
            result: None,
        }
    }
}

impl JobDone {
    pub(crate) const fn connection(&self) -> Option<ConnId> {
        self.key.connection
    }
}

/// A query that waits until it becomes a job.
#[derive(Debug)]
pub(super) struct LongQuery {
    number: u64,
    /// The query and the `let` of the command; `None` once the job has them.
    query: Option<(Query, Option<Document>)>,
    /// The data of an earlier time that the command reads.
    earlier: Option<Store>,
    /// The wall clock at the start of the command.
    clock: Option<DateTime>,
    /// The term of the member at the start. A linearizable read fails if the term has changed at
    /// the end.
    term: u64,
    /// Tells the job that the request waits.
    wanted: Arc<()>,
}

/// The jobs of a member.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// True if the caller of the deployment runs jobs. Otherwise commands run their whole queries.
    are_run: bool,
    /// The long query of the running command.
    new: Option<LongQuery>,
    /// The result for a command that is executed again.
    done: Option<Result<Found, StoreError>>,
    /// The size of the documents of `done` that no collection has, in bytes.
    own_bytes: Option<usize>,
    /// The data of an earlier time that the job has read, for a command that is executed again.
    pub(super) earlier: Option<Store>,
    /// The number of the last job.
    last: u64,
    /// The steps that the running command has taken.
    pub(super) spent: u64,
    /// The wall clock at the first start of the running command, if it has waited since.
    pub(super) clock: Option<DateTime>,
}

impl Jobs {
    /// True if the caller of the deployment runs jobs.
    pub(super) const fn are_run(&self) -> bool {
        self.are_run
    }

    /// Returns the number of the next job.
    pub(super) const fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// True if the running command has waited for its job.
    pub(super) const fn has_done(&self) -> bool {
        self.done.is_some()
    }

    /// Returns the records that the job of a write statement has found.
    pub(super) fn take_records(&mut self) -> Option<Result<Records, StoreError>> {
        Some(self.done.take()?.map(Found::records))
    }

    /// Forgets the result of a job that is no longer needed.
    pub(super) fn forget_done(&mut self) {
        self.done = None;
    }

    /// Returns the indexes that the job of a `createIndexes` has built.
    pub(super) fn take_indexes(&mut self) -> Option<Result<BuiltIndexes, StoreError>> {
        Some(self.done.take()?.map(Found::indexes))
    }

    /// Returns the size of the documents of a job that no collection has, in bytes, if the running
    /// command has waited for it.
    pub(super) const fn take_own_bytes(&mut self) -> Option<usize> {
        self.own_bytes.take()
    }
}

impl Member {
    /// Undoes the changes of the request that was being executed when a panic occurred. Returns the
    /// connection of this request; `None` if there was no such request.
    pub(crate) fn take_interrupted(&mut self) -> Option<ConnId> {
        self.replica.store_mut().undo_changes();
        self.abort_interrupted();
        self.view = None;
        self.jobs.new = None;
        self.jobs.done = None;
        self.jobs.own_bytes = None;
        self.jobs.earlier = None;
        self.jobs.clock = None;
        self.waited_deadline = None;
        self.running.take()
    }

    /// Returns the time and the randomness of a command.
    pub(super) fn moment(&mut self, now: Instant) -> Moment {
        let wall = self.wall_millis(now);
        Moment {
            now: self.clock(now),
            timestamp: self.replica.next_time(wall),
            seed: self.random.next_u64(),
        }
    }

    /// Returns the wall clock at the first start of the running command.
    pub(super) fn clock(&self, now: Instant) -> DateTime {
        let millis = i64::try_from(self.wall_millis(now)).unwrap_or(i64::MAX);
        let clock = self.jobs.clock;
        clock.unwrap_or_else(|| DateTime::from_millis(millis))
    }

    /// Lets long queries, large messages and the freeing of large data become jobs.
    pub(crate) const fn run_jobs(&mut self) {
        self.jobs.are_run = true;
        self.garbage.keep();
        self.replica.run_jobs();
    }

    /// Returns the job that frees the large values which were dropped, if there are any.
    pub(crate) fn free_garbage(&mut self) -> Option<Job> {
        let mut values = self.garbage.take().unwrap_or_default();
        values.extend(self.replica.take_garbage());
        let key = JobKey {
            connection: None,
            number: 0,
        };
        (!values.is_empty()).then(|| Job {
            key,
            work: Work::Free(values),
        })
    }

    /// Runs the query of a command, or makes it a long query. After an error, the command must end.
    pub(super) fn query(
        &mut self,
        now: Instant,
        variables: Option<&Document>,
        query: Query,
    ) -> Result<Found, Fault> {
        if let Some(done) = self.jobs.done.take() {
            return Ok(done?);
        }
        let can_wait = self.can_wait_for_jobs();
        let limits = (can_wait.then_some(STEPS), Parts::default());
        let found = self.with_limits(now, variables, limits, |store, environment| {
            query.run(store, environment)
        });
        if let (true, Err(StoreError { code: 50, .. })) = (can_wait, &found) {
            self.begin_long_query(query, variables);
        }
        Ok(found?)
    }

    /// True if the running command can wait for a job, and can pause.
    pub(super) const fn can_wait_for_jobs(&self) -> bool {
        self.jobs.are_run && self.running.is_some()
    }

    /// Makes a query the long query of the running command, which must end then.
    pub(super) fn begin_long_query(&mut self, query: Query, variables: Option<&Document>) {
        self.jobs.new = Some(LongQuery {
            number: self.jobs.next_number(),
            query: Some((query, variables.cloned())),
            earlier: self.view.as_ref().map(|view| view.store.clone()),
            clock: None,
            term: self.replica.term(),
            wanted: Arc::new(()),
        });
    }

    /// True if the running command has made its query a long one.
    pub(super) const fn has_long_query(&self) -> bool {
        self.jobs.new.is_some()
    }

    /// Forgets the long query of a request whose connection is closing.
    pub(super) fn forget_long_query(&mut self) {
        self.jobs.new = None;
    }

    /// Lets a request wait for its long query, if it has one. Otherwise returns the arguments.
    pub(super) fn wait_for_job(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: Request,
        effect: Option<FailEffect>,
    ) -> Option<(Request, Option<FailEffect>)> {
        let Some(mut query) = self.jobs.new.take() else {
            return Some((request, effect));
        };
        query.clock = Some(self.clock(now));
        let deadline = self.time_limit_of(now, &request);
        let query = Box::new(query);
        self.wait(conn, request, Waiting::Job { query, effect }, deadline);
        self.outputs.push_back(Output::LongQuery(conn));
        None
    }

    /// Returns the job for the long query of a connection, on a copy of the data that the read
    /// concern asks for. Returns `None` if the request no longer waits, or if that data is gone.
    pub(crate) fn job_of(&mut self, now: Instant, connection: ConnId) -> Option<Job> {
        let pending = self.connections.get(&connection)?.pending.as_ref()?;
        let Waiting::Job { query, .. } = &pending.waiting else {
            return None;
        };
        let earlier = query.earlier.clone();
        let store = match earlier.map_or_else(|| self.store_for(&pending.request), Ok) {
            Ok(store) => store,
            Err(fault) => {
                let Pending { request, .. } = self.unpark(connection)?;
                self.respond(connection, &request, Err(fault));
                self.advance(now, connection);
                return None;
            }
        };
        let moment = self.moment(now);
        let pending = self.connections.get_mut(&connection)?.pending.as_mut()?;
        let Waiting::Job { query: long, .. } = &mut pending.waiting else {
            return None;
        };
        let (query, variables) = long.query.take()?;
        // The clock is that of the command, which is executed again with the result.
        let moment = Moment {
            now: long.clock.unwrap_or(moment.now),
            ..moment
        };
        let key = JobKey {
            connection: Some(connection),
            number: long.number,
        };
        let query = QueryJob {
            store,
            query,
            variables,
            moment,
            wanted: Arc::downgrade(&long.wanted),
        };
        let work = Work::Query(Box::new(query));
        Some(Job { key, work })
    }
}
