//! One member of the deployment, as clients see it: requests come in, replies go out.

mod admin;
mod admission;
mod apart;
mod auth;
mod bulk;
mod catalog;
mod commands;
mod compression;
mod concern;
mod connection;
mod create_indexes;
mod cursor;
mod decode;
mod diagnostics;
mod dispatch;
mod document;
mod expiry;
mod fail_point;
mod fault;
mod field_names;
mod find_and_modify;
mod forward;
mod gossip;
mod hello;
mod ids;
mod insert;
mod job;
mod life;
mod membership;
mod operations;
mod outputs;
mod overload;
mod own_collections;
mod parts;
mod plan;
mod program;
mod read;
mod read_concern;
mod read_preference;
mod reconfigure;
mod reply;
mod retry;
mod router;
mod shutdown;
mod stream;
mod tail;
mod transaction;
mod upkeep;
mod uuid;
mod wait;
mod watch;
mod wire;
mod write;

pub(crate) use auth::Accounts;
#[cfg(test)]
pub(crate) use commands::OTHERS;
pub use commands::is_command;
pub(crate) use compression::unpack;
pub(crate) use connection::Arrival;
pub use job::{Job, JobDone, JobKey};
pub use overload::Shedding;
pub(crate) use reply::Times;
pub(crate) use transaction::CommitMessage;

use crate::{
    deployment::{
        AuthCounts, AuthFault, AuthMechanism, CompressionCounts, ConnId, DeploymentOptions,
        MemberEvent,
    },
    garbage::Garbage,
    replica::{Message, Replica, ReplicaEvent},
    store::Store,
};
use admission::Admission;
use bson::{DateTime, oid::ObjectId};
use connection::Connection;
use cursor::Cursors;
use fail_point::FailPoint;
use ids::ObjectIds;
use job::Jobs;
use onionskin_core::{
    random::{Random, Seed},
    time::{Instant, WallTime, earliest},
};
use overload::Overload;
use program::Program;
use router::Routing;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use transaction::{Commits, Transactions};

/// The default time for which a step-down waits for a secondary to catch up.
const CATCH_UP_PERIOD: Duration = Duration::from_secs(10);

/// An output of a member, which the deployment carries out.
#[derive(Debug)]
pub(crate) enum Output {
    Send(usize, Message),
    /// A message to the shard with this number.
    SendToShard(usize, CommitMessage),
    Transmit(ConnId),
    /// This connection has bytes of a further request and waits for its turn.
    Turn(ConnId),
    /// This message must be forwarded to the member with this index, for the request of a client.
    Route(ConnId, usize, Vec<u8>),
    Close(ConnId),
    Report(MemberEvent),
    /// The request of this connection waits for its long query.
    LongQuery(ConnId),
    /// The command of this connection has paused.
    Pause(ConnId),
    /// This connection waits for the job that decodes or encodes its message.
    Task(ConnId),
}

/// One server: a standalone, a member of a replica set, a router, or the shard behind routers.
#[derive(Debug)]
pub(crate) struct Member {
    index: usize,
    /// The number of the shard, if this is one.
    shard: Option<usize>,
    options: Arc<DeploymentOptions>,
    program: Program,
    accounts: Arc<Accounts>,
    replica: Replica,
    random: Random,
    up: bool,
    /// True if an entry of the primary did not fit the data.
    has_failed: bool,
    process_id: ObjectId,
    /// The `serviceId` behind a load balancer, which stays the same until the process ends.
    service_id: ObjectId,
    /// The counter of the member's `topologyVersion`.
    counter: i64,
    started: Instant,
    connections: BTreeMap<ConnId, Connection>,
    /// Connections whose clients have disconnected, and whose writes go on.
    abandoned: BTreeSet<ConnId>,
    /// The number of connections that this process has accepted.
    connected: i32,
    /// The deadlines of waiting requests.
    timers: BTreeSet<(Instant, ConnId)>,
    /// Connections whose requests wait for a condition that [`Member::check_waiting`] checks.
    waiting: BTreeSet<ConnId>,
    /// Connections whose hello waits for a change.
    hellos: BTreeSet<ConnId>,
    stepping_down: Option<ConnId>,
    /// The time at which quiesce mode ends, and the process with it; `None` outside of quiesce
    /// mode.
    quiesces_until: Option<Instant>,
    cursors: Cursors,
    jobs: Jobs,
    /// Large values that a job frees.
    garbage: Garbage,
    transactions: Transactions,
    /// The commits of several shards that this one coordinates.
    commits: Commits,
    /// The time limit of the running request, if the request has waited before.
    waited_deadline: Option<Instant>,
    /// The fail points that were set, by name.
    fail_points: BTreeMap<&'static str, FailPoint>,
    /// The fault of all conversations, if one was set.
    auth_fault: Option<AuthFault>,
    auth_counts: AuthCounts,
    compression_counts: CompressionCounts,
    admission: Admission,
    overload: Overload,
    /// The parameter `requireApiVersion`.
    requires_api: bool,
    /// The time of the next pass that deletes documents whose time to live has ended; `None` if
    /// there is nothing to delete.
    expires_at: Option<Instant>,
    /// The wall clock at the start of the pass that is under way.
    expiring: Option<DateTime>,
    routing: Routing,
    outputs: VecDeque<Output>,
    /// True if each connection waits for [`Member::next_turn`] before its next request.
    takes_turns: bool,
    /// The largest number of client connections.
    max_connections: usize,
    /// True while the process is frozen. Bytes of clients are buffered only.
    is_frozen: bool,
    /// The number of bytes in the decoders of all connections.
    buffered: usize,
    next_request_id: i32,
    /// The connection whose request is being executed; `None` between requests.
    running: Option<ConnId>,
    /// The data that the running read sees, if it is not the newest.
    view: Option<read_concern::View>,
    /// The data of the last read of earlier data, with the term and the index of its last entry.
    kept_view: Option<((Option<u64>, u64), Store)>,
    ids: ObjectIds,
}

impl Member {
    pub(crate) fn new(
        index: usize,
        options: Arc<DeploymentOptions>,
        accounts: Arc<Accounts>,
        mut replica: Replica,
        seed: &Seed,
    ) -> Self {
        let limit = options.limits.max_data_bytes;
        replica.store_mut().set_limit(limit);
        let program = Program::new(&options, index);
        let mut random = seed.split("server").random();
        let mut unique = [0; 5];
        random.fill(&mut unique);
        let cursors = Cursors::new(options.limits);
        let max_connections = options.limits.max_connections;
        let mut member = Self {
            index,
            shard: None,
            options,
            program,
            accounts,
            replica,
            random,
            up: true,
            has_failed: false,
            process_id: ObjectId::from_bytes([0; 12]),
            service_id: ObjectId::from_bytes([0; 12]),
            counter: 0,
            started: Instant::ZERO,
            connections: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            connected: 0,
            timers: BTreeSet::new(),
            waiting: BTreeSet::new(),
            hellos: BTreeSet::new(),
            stepping_down: None,
            quiesces_until: None,
            cursors,
            jobs: Jobs::default(),
            garbage: Garbage::default(),
            transactions: Transactions::default(),
            commits: Commits::default(),
            waited_deadline: None,
            fail_points: BTreeMap::new(),
            auth_fault: None,
            auth_counts: AuthCounts::default(),
            compression_counts: CompressionCounts::default(),
            admission: Admission::default(),
            overload: Overload::default(),
            requires_api: false,
            expires_at: None,
            expiring: None,
            routing: Routing::default(),
            outputs: VecDeque::new(),
            max_connections,
            takes_turns: false,
            is_frozen: false,
            buffered: 0,
            next_request_id: 0,
            running: None,
            view: None,
            kept_view: None,
            ids: ObjectIds { unique, count: 0 },
        };
        member.begin_life(Instant::ZERO);
        member
    }

    /// Handles a new client connection. Returns false if the connection is refused.
    pub(crate) fn handle_connected(
        &mut self,
        now: Instant,
        conn: ConnId,
        arrival: Arrival,
    ) -> bool {
        let is_full = self.connections.len() >= self.max_connections;
        if !self.up || (is_full && arrival != Arrival::Internal) {
            return false;
        }
        let Some(is_queued) = self.admission.admit(now, conn) else {
            return false;
        };
        self.connected = self.connected.saturating_add(1);
        let mut connection = Connection {
            number: self.connected,
            is_queued,
            arrival,
            ..Connection::default()
        };
        let limit = wire::largest_message(&self.options, arrival);
        connection.decoder.set_max_bytes(limit);
        self.connections.insert(conn, connection);
        true
    }

    /// Handles the end of a client connection. On a router, returns the ids of the shard's cursors
    /// that end with the connection.
    pub(crate) fn handle_disconnected(&mut self, conn: ConnId) -> Vec<i64> {
        let connection = self.connections.remove(&conn);
        self.buffered -= connection.as_ref().map_or(0, Connection::unfinished);
        if let Some(pending) = connection.and_then(|c| c.pending) {
            if let Some(at) = pending.deadline {
                self.timers.remove(&(at, conn));
            }
            self.end_stream(&pending.request);
            self.abort_paused(conn, &pending.request);
        }
        self.abandoned.remove(&conn);
        self.waiting.remove(&conn);
        self.hellos.remove(&conn);
        self.admission.forget(conn);
        if self.stepping_down == Some(conn) {
            self.stepping_down = None;
        }
        self.routing.forget(conn)
    }

    /// Removes the cursors of a client that has disconnected.
    pub(crate) fn end_cursors(&mut self, ids: &[i64]) {
        for &id in ids {
            self.cursors.remove(id);
        }
    }

    pub(crate) fn handle_message(&mut self, now: Instant, from: usize, message: Message) {
        self.replica.handle_message(now, from, message);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if !self.up {
            return;
        }
        self.replica.handle_timeout(now);
        self.drain_replica(now);
        while let Some(&(at, conn)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.remove(&(at, conn));
            self.on_wait_timeout(now, conn);
        }
        self.admit_queued(now);
        self.cursors.expire(now);
        self.expire_transactions(now);
        self.ask_again(now);
        self.expire_documents(now);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        if !self.up {
            return None;
        }
        let timer = self.timers.first().map(|&(at, _)| at);
        let timer = earliest(earliest(timer, self.quiesces_until), self.expires_at);
        let timer = earliest(timer, self.transactions.deadline());
        let timer = earliest(timer, self.commits.deadline());
        earliest(
            earliest(self.replica.deadline(), timer),
            earliest(self.cursors.deadline(), self.admission.deadline()),
        )
    }

    pub(crate) fn poll_output(&mut self, now: Instant) -> Option<Output> {
        self.drain_replica(now);
        if let Some((to, message)) = self.replica.sent.pop_front() {
            return Some(Output::Send(to, message));
        }
        self.outputs.pop_front()
    }

    /// Returns the bytes to write to a connection, if there are any.
    pub(crate) fn take_output(&mut self, conn: ConnId) -> Option<Vec<u8>> {
        let connection = self.connections.get_mut(&conn)?;
        connection.announced = false;
        (!connection.out.is_empty()).then(|| std::mem::take(&mut connection.out))
    }

    /// Returns the number of the shard, if this is one.
    pub(crate) const fn shard(&self) -> Option<usize> {
        self.shard
    }

    /// True if this member belongs to the set of a shard. A deployment without routers has one set.
    pub(crate) fn is_of_set(&self, shard: usize) -> bool {
        self.shard.unwrap_or(0) == shard
    }

    pub(crate) const fn auth_counts(&self) -> AuthCounts {
        self.auth_counts
    }

    /// Returns the mechanisms by which the open connections have authenticated.
    pub(crate) fn login_mechanisms(&self) -> impl Iterator<Item = AuthMechanism> {
        let connections = self.connections.values();
        let authenticated = connections.filter(|connection| connection.login.is_some());
        authenticated.filter_map(|connection| connection.mechanism)
    }

    pub(crate) const fn term(&self) -> u64 {
        self.replica.term()
    }

    pub(crate) const fn store(&self) -> &Store {
        self.replica.store()
    }

    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.replica.commit(), self.replica.last().index)
    }

    pub(crate) fn oplog_size(&self) -> (usize, usize) {
        self.replica.oplog_size()
    }

    fn wall_time(&self, now: Instant) -> WallTime {
        WallTime::from_unix_millis(self.wall_millis(now))
    }

    fn wall_millis(&self, now: Instant) -> u64 {
        self.replica.wall_millis(now)
    }

    fn drain_replica(&mut self, now: Instant) {
        while let Some(event) = self.replica.events.pop_front() {
            self.on_replica_event(now, event);
        }
    }

    fn on_replica_event(&mut self, now: Instant, event: ReplicaEvent) {
        let member = self.index;
        let event = match event {
            ReplicaEvent::Progress => return self.check_waiting(now),
            ReplicaEvent::Changed => {
                self.counter += 1;
                self.schedule_expiry(now);
                // While a step-down is pending, the primary does not write.
                if self.replica.is_leader() && !self.replica.is_writable() {
                    self.interrupt_unfinished(now);
                }
                return self.answer_hellos(now);
            }
            ReplicaEvent::StepDownEnded(success) => return self.on_step_down_ended(now, success),
            ReplicaEvent::Elected { term } => {
                if self.shard.is_some() {
                    self.open_prepared(now);
                    self.resume_commits(now);
                }
                MemberEvent::Elected { member, term }
            }
            ReplicaEvent::SteppedDown { term, reason } => {
                self.interrupt_writes(now);
                self.abort_all();
                self.transactions.forget_prepared();
                self.commits.clear();
                MemberEvent::SteppedDown {
                    member,
                    term,
                    reason,
                }
            }
            ReplicaEvent::RolledBack { entries } => {
                self.transactions.forget_ended();
                MemberEvent::RolledBack { member, entries }
            }
            ReplicaEvent::Diverged(reason) => {
                self.has_failed = true;
                MemberEvent::Failed { member, reason }
            }
            ReplicaEvent::Removed => {
                self.disconnect();
                MemberEvent::Removed { member }
            }
            ReplicaEvent::Added => MemberEvent::Added { member },
            ReplicaEvent::Resynced => {
                self.transactions.forget_ended();
                MemberEvent::Resynced { member }
            }
        };
        if self.is_set() && self.shard.is_none() {
            self.outputs.push_back(Output::Report(event));
        }
    }
}
