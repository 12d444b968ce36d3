//! A simulated deployment of MongoDB servers that performs no I/O: bytes and time come in, bytes
//! and actions come out.
//!
//! The caller makes one input, takes everything from [`Deployment::poll_transmit`] and
//! [`Deployment::poll_action`], and waits for the [`Deployment::deadline`]. The same options, seed
//! and inputs give the same outputs, byte for byte.
//!
//! A caller of [`Deployment::take_turns`] also takes from [`Deployment::poll_turn`], and one of
//! [`Deployment::run_jobs`] from [`Deployment::poll_job`].

mod action;
mod auth;
mod auth_fault;
mod check;
mod compression;
mod freeze;
mod inspect;
mod jobs;
mod member_options;
mod network;
mod options;
mod routing;
mod settings;
mod settle;
mod shards;
mod turns;
mod upkeep;
mod users;
mod version;

pub use crate::server::{Job, JobDone, JobKey, Shedding, is_command};
pub use action::{Action, ConnId, MemberEvent, MemberState};
pub use auth::AuthCounts;
pub use auth_fault::AuthFault;
pub use compression::{CompressedReplies, CompressionCounts, CompressionOptions, plain_message};
pub use member_options::MemberOptions;
pub use options::{
    DeploymentOptions, InvalidOptions, Limits, MAX_MEMBERS, MAX_SHARDS, MAX_VOTING_MEMBERS,
    NetworkOptions, ReplicaSetOptions, Shape,
};
pub use users::{AuthMechanism, AuthOptions, EXTERNAL, Role, User};
pub use version::ServerVersion;

use crate::{
    replica::{Bound, Replica, SetConfig},
    server::{Accounts, Arrival, Member},
    store::Store,
};
use freeze::{Frozen, Held};
use jobs::Requests;
use network::Network;
use onionskin_core::{
    random::Seed,
    time::{Instant, earliest},
};
use routing::Traffic;
pub(crate) use shards::{shard_addresses, shard_name};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// A simulated deployment. See the [module](self).
///
/// ```
/// use onionskin_core::{address::Address, random::Seed, time::Instant};
/// use onionskin_deployment::deployment::{ConnId, Deployment, DeploymentOptions};
///
/// let options = DeploymentOptions::standalone(Address::tcp("localhost", 27017));
/// let mut deployment = Deployment::new(options, &Seed::new([1; 32]))?;
/// deployment.handle_connected(Instant::ZERO, ConnId(1), 0);
/// # let mut request = Vec::new();
/// # onionskin_core::unstable::wire::MessageWriter::begin(&mut request, 1, 0)
/// #     .body(&bson::rawdoc! { "ping": 1, "$db": "admin" }).end();
/// deployment.handle_received(Instant::ZERO, ConnId(1), &request);
/// assert!(deployment.poll_transmit().is_some());
/// # Ok::<(), onionskin_deployment::deployment::InvalidOptions>(())
/// ```
#[derive(Debug)]
pub struct Deployment {
    options: Arc<DeploymentOptions>,
    members: Vec<Member>,
    network: Network,
    homes: BTreeMap<ConnId, usize>,
    transmits: VecDeque<ConnId>,
    traffic: VecDeque<Traffic>,
    turns: VecDeque<ConnId>,
    actions: VecDeque<Action>,
    long_queries: Requests,
    /// The connections whose messages wait for a job.
    tasks: Requests,
    paused: Requests,
    /// True if the caller runs jobs and parts.
    runs_jobs: bool,
    /// True if members have messages that wait for the next part.
    is_behind: bool,
    frozen: Frozen,
    /// The member that [`Deployment::balance`] tries first, modulo the number of members.
    turn: usize,
    /// The number of members of shards that were chosen for reads.
    reads: usize,
}

impl Deployment {
    /// Creates a deployment that starts at [`Instant::ZERO`] with all members running.
    pub fn new(options: DeploymentOptions, seed: &Seed) -> Result<Self, InvalidOptions> {
        options.check()?;
        let options = Arc::new(options);
        let config = Arc::new(set_config(&options));
        let accounts = Arc::new(Accounts::new(&options, seed));
        let mut members: Vec<Member> = (0..options.addresses.len())
            .map(|index| {
                let seed = seed.split(&format!("member {index}"));
                let random = seed.split("replica").random();
                // Each router has the replication state of a standalone, because routers do not
                // replicate.
                let place = index % config.members.len();
                let replica = Replica::new(place, Arc::clone(&config), random);
                let (options, accounts) = (Arc::clone(&options), Arc::clone(&accounts));
                Member::new(index, options, accounts, replica, &seed)
            })
            .collect();
        members.extend(shards::shards(&options, seed));
        let network = Network::new(options.network, seed.split("network").random());
        let mut deployment = Self {
            options,
            members,
            network,
            homes: BTreeMap::new(),
            transmits: VecDeque::new(),
            traffic: VecDeque::new(),
            turns: VecDeque::new(),
            actions: VecDeque::new(),
            long_queries: Requests::default(),
            tasks: Requests::default(),
            paused: Requests::default(),
            runs_jobs: false,
            is_behind: false,
            frozen: Frozen::default(),
            turn: 0,
            reads: 0,
        };
        deployment.settle(Instant::ZERO);
        Ok(deployment)
    }

    /// Handles a client's connection to `member`. If the member refuses the connection, is not
    /// running or does not exist, the deployment gives [`Action::Close`].
    pub fn handle_connected(&mut self, now: Instant, connection: ConnId, member: usize) {
        self.connect(now, connection, member, Arrival::Direct);
    }

    /// Handles a client's connection to `member` through a load balancer. The first hello on the
    /// connection must have `loadBalanced: true`, and its reply has the `serviceId` (LB-57).
    pub fn handle_forwarded(&mut self, now: Instant, connection: ConnId, member: usize) {
        self.connect(now, connection, member, Arrival::Forwarded);
    }

    /// Returns the member that gets the load balancer's next connection: the running members in
    /// turn. Returns `None` if no member runs.
    #[must_use]
    pub fn balance(&mut self) -> Option<usize> {
        let (count, turn) = (self.members(), self.turn);
        let mut places = (0..count).map(|step| (turn + step) % count);
        let chosen = places.find(|&member| self.members[member].is_up())?;
        self.turn = chosen + 1;
        Some(chosen)
    }

    /// Handles bytes from a client: at most as many as there is [`room`](Self::room) for.
    pub fn handle_received(&mut self, now: Instant, connection: ConnId, bytes: &[u8]) {
        let Some(&member) = self.homes.get(&connection) else {
            return;
        };
        self.members[member].handle_received(now, connection, bytes);
        self.settle(now);
    }

    /// Handles the end of a client's connection.
    pub fn handle_disconnected(&mut self, now: Instant, connection: ConnId) {
        let home = self.homes.get(&connection).copied();
        let input = Held::Disconnected(connection);
        if home.is_some_and(|home| self.frozen.hold(home, input).is_some()) {
            self.forget(connection);
            self.settle(now);
        }
    }

    /// Handles a panic in one of this deployment's functions. Closes the connection whose request
    /// was being executed, or `connection` if there was none. All other connections continue.
    pub fn handle_panic(&mut self, now: Instant, connection: Option<ConnId>) {
        let interrupted = self.members.iter_mut().filter_map(Member::take_interrupted);
        let interrupted = interrupted.last().or(connection);
        if let Some(connection) = interrupted.map(routing::outer) {
            self.actions.push_back(Action::Close(connection));
        }
        self.settle(now);
    }

    /// Handles the passage of time. A call before the [deadline](Self::deadline) has no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(at) = self.deadline()
            && at < now
        {
            self.handle_due(at);
        }
        self.handle_due(now);
    }

    /// Handles the timers that are due at `now`. Earlier timers were handled.
    fn handle_due(&mut self, now: Instant) {
        for member in 0..self.members.len() {
            if self.frozen.until(member).is_some_and(|until| until <= now) {
                self.thaw(now, member);
            }
            if self.deadline_of(member).is_some_and(|at| at <= now) {
                self.members[member].handle_timeout(now);
            }
        }
        for member in 0..self.members.len() {
            let is_frozen = self.frozen.contains(member);
            if !is_frozen && self.members[member].has_quiesced(now) {
                self.kill(now, member);
            }
        }
        self.settle(now);
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called next;
    /// `None` if no timer is set.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        // Messages that wait for the next part have no deadline.
        let network = self.network.deadline().filter(|_| !self.is_behind);
        earliest(network, self.deadline_of_members())
    }

    /// Returns bytes to write to a connection. The caller must take them before the actions, so
    /// that a connection which is closed gets its last bytes.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<(ConnId, Vec<u8>)> {
        while let Some(connection) = self.transmits.pop_front() {
            let home = self.homes.get(&connection);
            if let Some(&member) = home
                && let Some(bytes) = self.members[member].take_output(connection)
            {
                return Some((connection, bytes));
            }
        }
        None
    }

    /// Returns the next action.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        if let Some(Action::Close(connection)) = action {
            self.forget(connection);
        }
        action
    }

    /// Ends a member's process: its connections are closed, and it accepts no new ones. The member
    /// keeps its data. It can be one of a [shard](Self::place_in_shard).
    pub fn kill(&mut self, now: Instant, member: usize) {
        if self.members.get(member).is_none_or(|m| !m.is_up()) {
            return;
        }
        if member < self.members() {
            self.actions.push_back(Action::StopListening(member));
        }
        self.report(member, MemberEvent::Killed { member });
        self.members[member].kill();
        self.frozen.forget(member);
        self.network.forget(member);
        self.settle(now);
    }

    /// Reports an event of a member, unless it is the only one of a shard.
    fn report(&mut self, member: usize, event: MemberEvent) {
        if self.is_reported(member) {
            self.actions.push_back(Action::Report(event));
        }
    }

    /// Closes all client connections of a member, which continues to run.
    pub fn disconnect(&mut self, now: Instant, member: usize) {
        if let Some(home) = self.clients_member(member) {
            home.disconnect();
            self.settle(now);
        }
    }

    /// Shuts a member down in an orderly way. A primary tries to step down. The member then answers
    /// each hello with an error for 15 seconds, and is [killed](Self::kill). A
    /// [frozen](Self::freeze) member goes on before.
    pub fn shut_down(&mut self, now: Instant, member: usize) {
        self.thaw(now, member);
        if let Some(home) = self.clients_member(member) {
            home.shut_down(now);
            self.settle(now);
        }
    }

    /// Starts a killed member again with its data. The process of a member that is shutting down
    /// ends first. A member that [failed](MemberEvent::Failed) is not started. The member can be
    /// one of a [shard](Self::place_in_shard).
    pub fn restart(&mut self, now: Instant, member: usize) {
        if self.clients_member(member).is_some_and(|m| m.quiesces()) {
            self.kill(now, member);
        }
        let home = self.members.get_mut(member);
        let Some(home) = home.filter(|home| home.may_restart()) else {
            return;
        };
        home.restart(now);
        if member < self.members() {
            self.actions.push_back(Action::Listen(member));
        }
        self.report(member, MemberEvent::Restarted { member });
        self.settle(now);
    }

    /// Starts a step-down of the primary. The primary waits up to 10 seconds for a secondary to
    /// catch up. After the step-down, it starts no election for 60 seconds. Returns false if there
    /// is no replica set with a primary, or if its primary is already stepping down or frozen.
    pub fn step_down(&mut self, now: Instant) -> bool {
        let clients_member = |primary: &usize| *primary < self.members();
        let Some(primary) = self.primary().filter(clients_member) else {
            return false;
        };
        if self.frozen.contains(primary) {
            return false;
        }
        let started = self.members[primary].step_down(now, Duration::from_secs(60));
        self.settle(now);
        started
    }

    /// Cuts the network from one member to another, in this direction only.
    pub fn cut(&mut self, now: Instant, from: usize, to: usize) {
        self.network.cut(from, to);
        self.end_cut_requests(now);
    }

    /// Cuts the members in `side` off from all others, in both directions.
    pub fn partition(&mut self, now: Instant, side: &[usize]) {
        for &one in side {
            for other in (0..self.members.len()).filter(|m| !side.contains(m)) {
                self.network.cut(one, other);
                self.network.cut(other, one);
            }
        }
        self.end_cut_requests(now);
    }

    /// Removes all cuts between members.
    pub fn heal(&mut self, _now: Instant) {
        self.network.heal();
    }

    /// Returns the options of this deployment.
    #[must_use]
    pub fn options(&self) -> &DeploymentOptions {
        &self.options
    }

    /// Returns the number of members that clients can connect to, running or not. The members of
    /// shards behind routers are not counted, unlike by [`servers`](Self::servers).
    #[must_use]
    pub fn members(&self) -> usize {
        self.options.addresses.len()
    }

    /// Returns the state of a member, or `None` if the member does not exist.
    #[must_use]
    pub fn state(&self, member: usize) -> Option<MemberState> {
        self.members.get(member).map(Member::state)
    }

    /// Returns the term of a member, or 0 if the member does not exist.
    #[must_use]
    pub fn term(&self, member: usize) -> u64 {
        self.members.get(member).map_or(0, Member::term)
    }

    /// Returns the primary of the highest term, the standalone, or the primary of the first shard
    /// behind the routers. The indexes of the members of shards follow those of the routers.
    #[must_use]
    pub fn primary(&self) -> Option<usize> {
        self.primary_of_shard(0)
    }

    /// Returns the data of a member, for checkers; `None` if the member does not exist.
    #[must_use]
    pub fn store(&self, member: usize) -> Option<&Store> {
        self.members.get(member).map(Member::store)
    }

    /// Returns the index of the last oplog entry that a majority has, as the member knows it, and
    /// the index of the member's own last entry.
    #[must_use]
    pub fn progress(&self, member: usize) -> Option<(u64, u64)> {
        self.members.get(member).map(Member::progress)
    }

    /// Returns the number of entries in a member's oplog, and their size in bytes: that of the
    /// changes as [`Change::bytes`](crate::store::Change::bytes) counts it, and that of the
    /// recorded effects of retryable writes.
    #[must_use]
    pub fn oplog_size(&self, member: usize) -> Option<(usize, usize)> {
        self.members.get(member).map(Member::oplog_size)
    }

    /// Returns the number of open client connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.homes
            .keys()
            .filter(|conn| !routing::is_inner(**conn))
            .count()
    }

    fn connect(&mut self, now: Instant, connection: ConnId, member: usize, arrival: Arrival) {
        if self.homes.contains_key(&connection) {
            return;
        }
        self.inform_router(member);
        let home = self.clients_member(member);
        if home.is_some_and(|home| home.handle_connected(now, connection, arrival)) {
            self.homes.insert(connection, member);
        } else {
            self.actions.push_back(Action::Close(connection));
        }
        self.settle(now);
    }
}

fn set_config(options: &DeploymentOptions) -> SetConfig {
    let set = match &options.shape {
        Shape::Standalone | Shape::Sharded | Shape::LoadBalanced { .. } => {
            ReplicaSetOptions::new("", 1)
        }
        Shape::ReplicaSet(set) => set.clone(),
    };
    SetConfig {
        // The first primary starts with the term 1.
        term: u64::from(set.initial_primary.is_some()),
        version: 1,
        is_forced: false,
        was_forced: false,
        members: set.members,
        newcomers: BTreeSet::new(),
        election_timeout: set.election_timeout,
        heartbeat_interval: set.heartbeat_interval,
        initial_primary: set.initial_primary,
        started_at_millis: options.started_at.as_unix_millis(),
        oplog: Bound {
            count: options.limits.max_oplog_entries,
            bytes: options.limits.max_oplog_bytes,
        },
        records: Bound {
            count: options.limits.max_sessions,
            bytes: options.limits.max_session_bytes,
        },
    }
}

#[cfg(test)]
mod tests;
