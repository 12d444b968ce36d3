//! The long commands of a deployment, whose jobs and parts its caller runs.

use super::{ConnId, Deployment, freeze::Held};
use crate::server::{Job, JobDone, Member};
use onionskin_core::time::Instant;
use std::collections::{BTreeSet, VecDeque};

/// The connections whose requests wait for the caller, each at most once.
#[derive(Debug, Default)]
pub(super) struct Requests {
    queue: VecDeque<ConnId>,
    queued: BTreeSet<ConnId>,
}

impl Requests {
    /// Adds a connection. One whose earlier request no longer waits keeps its place.
    pub(super) fn push(&mut self, connection: ConnId) {
        if self.queued.insert(connection) {
            self.queue.push_back(connection);
        }
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn pop(&mut self) -> Option<ConnId> {
        let connection = self.queue.pop_front()?;
        self.queued.remove(&connection);
        Some(connection)
    }
}

impl Deployment {
    /// Lets long queries, the decoding and the encoding of large messages, and the freeing of large
    /// data become jobs, which the caller takes from [`poll_job`](Self::poll_job) and can run in
    /// other threads, and lets long writes, commits of transactions, passes over documents with a
    /// time to live, reads of earlier data, and the searches of tailable cursors and change streams
    /// pause until [`run_part`](Self::run_part). By default, each of these runs as a whole, so that
    /// nothing else happens meanwhile.
    ///
    /// The caller must then call `run_part` while [`has_parts`](Self::has_parts) is true. A paused
    /// command waits until then, and [`deadline`](Self::deadline) does not tell of it.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{ConnId, Deployment, DeploymentOptions};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("localhost", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([1; 32]))?;
    /// deployment.run_jobs();
    /// let now = Instant::ZERO;
    /// deployment.handle_connected(now, ConnId(1), 0);
    /// # let documents: Vec<_> = (0..3000).map(|n| bson::doc! { "_id": n }).collect();
    /// # let insert = bson::doc! { "insert": "c", "documents": documents, "$db": "d" };
    /// # let insert = bson::RawDocumentBuf::try_from(&insert).expect("a command");
    /// # let mut request = Vec::new();
    /// # onionskin_core::unstable::wire::MessageWriter::begin(&mut request, 1, 0)
    /// #     .body(&insert).end();
    /// deployment.handle_received(now, ConnId(1), &request);
    /// let reply = loop {
    ///     if let Some((_, reply)) = deployment.poll_transmit() {
    ///         break reply;
    ///     }
    ///     // The requests of other clients have their turn here.
    ///     if let Some(job) = deployment.poll_job(now) {
    ///         // A caller can run the job in another thread, and handle other requests meanwhile.
    ///         deployment.handle_job_done(now, job.run());
    ///     } else if deployment.has_parts() {
    ///         deployment.run_part(now);
    ///     }
    /// };
    /// assert!(!reply.is_empty());
    /// # Ok::<(), onionskin_deployment::deployment::InvalidOptions>(())
    /// ```
    pub fn run_jobs(&mut self) {
        self.runs_jobs = true;
        for member in &mut self.members {
            member.run_jobs();
        }
    }

    /// Returns the next job that the caller must run, one of
    /// [`poll_short_job`](Self::poll_short_job) or of [`poll_long_query`](Self::poll_long_query).
    /// See [`run_jobs`](Self::run_jobs) for an example.
    #[must_use]
    pub fn poll_job(&mut self, now: Instant) -> Option<Job> {
        let short = self.poll_short_job();
        short.or_else(|| self.poll_long_query(now))
    }

    /// Returns the next job whose length is bounded: it decodes or encodes one large message, or
    /// frees large data. A caller that runs few jobs at a time runs these besides the long queries,
    /// so that they need not wait for a query.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("localhost", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([1; 32]))?;
    /// deployment.run_jobs();
    /// assert!(deployment.poll_short_job().is_none(), "no large message has arrived");
    /// assert!(deployment.poll_long_query(Instant::ZERO).is_none());
    /// # Ok::<(), onionskin_deployment::deployment::InvalidOptions>(())
    /// ```
    #[must_use]
    pub fn poll_short_job(&mut self) -> Option<Job> {
        if let Some(job) = self.members.iter_mut().find_map(Member::free_garbage) {
            return Some(job);
        }
        while let Some(connection) = self.tasks.pop() {
            let Some(&member) = self.homes.get(&connection) else {
                continue;
            };
            if let Some(job) = self.members[member].task_of(connection) {
                return Some(job);
            }
        }
        None
    }

    /// Returns the next long query that the caller must run. The job has a copy of the data, which
    /// shares what does not change. So take a job only when it can run. Jobs in several threads can
    /// take turns by [`Job::run_in_slices`]. See [`poll_short_job`](Self::poll_short_job) for an
    /// example.
    #[must_use]
    pub fn poll_long_query(&mut self, now: Instant) -> Option<Job> {
        while let Some(connection) = self.long_queries.pop() {
            let Some(&member) = self.homes.get(&connection) else {
                continue;
            };
            let input = Held::LongQuery(connection);
            if self.frozen.hold(member, input).is_none() {
                continue;
            }
            if let Some(job) = self.members[member].job_of(now, connection) {
                return Some(job);
            }
            // The request of the connection has ended, or ends now because its data is gone.
            self.settle(now);
        }
        None
    }

    /// True if a command or other work of a member has paused, or if members have yet to apply
    /// changes of others. All of these wait until [`run_part`](Self::run_part). See
    /// [`run_jobs`](Self::run_jobs) for an example.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        let mut members = 0..self.members.len();
        self.is_behind || !self.paused.is_empty() || members.any(|member| self.has_work(member))
    }

    /// Lets members apply further changes of others, and executes the next part of the command that
    /// has paused for the longest time, and of each member's work that no client waits for: the
    /// deletion of documents whose time to live has ended, and the commits of prepared
    /// transactions. The caller gives other requests their turn before. See
    /// [`run_jobs`](Self::run_jobs) for an example.
    pub fn run_part(&mut self, now: Instant) {
        if self.is_behind {
            self.settle(now);
        }
        for member in 0..self.members.len() {
            if self.has_work(member) {
                self.members[member].work(now);
                self.settle(now);
            }
        }
        let Some(connection) = self.paused.pop() else {
            return;
        };
        let Some(&member) = self.homes.get(&connection) else {
            return;
        };
        // The next request of a client that has gone must wait for another member.
        if self.members[member].has_message(connection) && self.is_inner_full(connection) {
            return;
        }
        if let Some(Held::Part(_)) = self.frozen.hold(member, Held::Part(connection)) {
            self.members[member].run_part(now, connection);
            self.settle(now);
        }
    }

    fn has_work(&self, member: usize) -> bool {
        !self.frozen.contains(member) && self.members[member].has_work()
    }

    /// Handles the result of a job. If its request no longer waits for it, nothing changes. See
    /// [`run_jobs`](Self::run_jobs) for an example.
    pub fn handle_job_done(&mut self, now: Instant, done: JobDone) {
        let Some(connection) = done.connection() else {
            return;
        };
        let Some(&member) = self.homes.get(&connection) else {
            if let Some(member) = self.members.first_mut() {
                member.discard_result(done);
            }
            return;
        };
        if let Some(Held::JobDone(done)) = self.frozen.hold(member, Held::JobDone(done)) {
            self.members[member].handle_job_done(now, done);
            self.settle(now);
        }
    }

    /// Forgets the connections whose clients have disconnected and whose writes have ended since.
    /// Returns true if there were any.
    pub(super) fn end_abandoned(&mut self) -> bool {
        let mut has_ended = false;
        for member in 0..self.members.len() {
            if self.frozen.contains(member) {
                continue;
            }
            while let Some(connection) = self.members[member].take_abandoned() {
                self.forget(connection);
                has_ended = true;
            }
            // Further messages that were received are executed as well, each as a part.
            for connection in self.members[member].abandoned_messages() {
                if !self.is_inner_full(connection) {
                    self.paused.push(connection);
                }
            }
        }
        has_ended
    }
}
