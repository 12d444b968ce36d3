//! The client: all machines of one deployment behind one contract.
//!
//! It routes and holds no policy: the topology decides about servers, pools about connections,
//! `operation/retry.rs` about retries. The control plane lives here; what an operation does on its
//! connection happens in the [`Lease`](crate::operation::Lease) that it gets, outside.

mod abandoning;
mod action;
mod config;
mod derivations;
mod draining;
mod forking;
mod grants;
mod operations;
mod pinning;
mod pools;
mod resting;
mod routing;
mod scanning;
mod selecting;
mod sockets;
mod telling;
#[cfg(test)]
mod tests;
mod waiting;

pub use crate::operation::Outcome;
pub use action::{Action, Fate, Start, Verdict};
pub use config::{ClientConfig, Counts};
pub use derivations::MAX_DERIVATIONS;
pub use draining::DRAIN_LIMIT;
pub use grants::GRANT_LIMIT;
pub use resting::{MAX_PROBED_BYTES, PROBE_AFTER};
pub use scanning::SOCKET_CHECK_INTERVAL;

use crate::{
    auth::KeyCache,
    connection::{HandshakeOptions, SocketId},
    description::{ServerId, TopologyDescription, TopologyId},
    error::Error,
    event::{Event, EventKind, Subscriptions},
    hello::{ClientMetadata, DriverInfo},
    operation::{ClusterTime, Command, CommandKind, Operation, OperationId},
    options::{ReadMode, ReadPreference},
    random::Random,
    sdam::{CheckId, Sdam},
    selection::Selector,
    session::{ServerSession, SessionPool},
    time::{Instant, WallTime, earliest},
};
use bson::oid::ObjectId;
use config::Limits;
use derivations::Derivations;
use draining::Drains;
use pinning::Pinned;
use pools::PoolSlot;
use sockets::Socket;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use waiting::Waiting;

/// Sessions that one `endSessions` command names at most.
const MAX_SESSIONS_PER_COMMAND: usize = 10_000;

/// Rounds that one call of `handle_timeout` makes at most, until no part of the client is due.
const MAX_TIMEOUT_ROUNDS: usize = 16;

/// The control plane of one client.
///
/// Feed one input, drain [`poll_action`](Self::poll_action) and [`poll_event`](Self::poll_event),
/// then wait until [`deadline`](Self::deadline) at the longest and call
/// [`handle_timeout`](Self::handle_timeout). Inputs about sockets and operations that no longer
/// exist change nothing.
///
/// ```
/// use onionskin_core::{
///     client::{Action, Client, ClientConfig},
///     random::Seed,
///     time::Instant,
///     uri,
/// };
///
/// let options = uri::parse("mongodb://localhost")?.options;
/// let config = ClientConfig::new(options, Seed::new([0; 32]))?;
/// let mut client = Client::new(config);
/// client.open(Instant::ZERO);
/// // The first thing it wants is a connection to look at the server.
/// assert!(matches!(client.poll_action(), Some(Action::Dial { .. })));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    limits: Limits,
    handshake: Arc<HandshakeOptions>,
    metadata: ClientMetadata,
    subscriptions: Subscriptions,
    sdam: Sdam,
    pools: BTreeMap<ServerId, PoolSlot>,
    selector: Selector,
    sessions: SessionPool,
    keys: KeyCache,
    derivations: Derivations,
    nonces: Random,
    session_ids: Random,
    /// Draws how long operations pause between attempts.
    pauses: Random,
    cluster_time: Option<Arc<ClusterTime>>,
    sockets: BTreeMap<SocketId, Socket>,
    /// Connections of pools that are established: parked, leased, or granted.
    established: BTreeSet<SocketId>,
    /// Those of `established` that were given back before their reply was there.
    drains: Drains,
    /// Connections of load balancers that cursors and transactions keep.
    pins: BTreeMap<SocketId, Pinned>,
    checks: BTreeMap<CheckId, SocketId>,
    waiting: BTreeMap<OperationId, Waiting>,
    /// Those of `waiting` that wait for a server, oldest first.
    without_server: BTreeSet<OperationId>,
    /// When waits for a server end.
    wait_limits: BTreeSet<(Instant, OperationId)>,
    /// When leased exchanges must be over.
    exchange_limits: BTreeSet<(Instant, SocketId)>,
    /// When establishing connections must have taken their next step.
    socket_limits: BTreeSet<(Instant, SocketId)>,
    /// Operations whose attempt failed and that are tried again.
    again: VecDeque<Box<Operation>>,
    /// The topology changed: operations without server look again.
    reselect: bool,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
    /// Never later than the true deadline; made exact by each `handle_timeout`.
    armed: Option<Instant>,
    next_socket: u64,
    next_operation: u64,
    next_request: i32,
    /// No operation begins any more.
    closed: bool,
    /// Monitors and pools are closed as well.
    ended: bool,
    /// Why nobody carries out orders any more.
    lost: Option<Error>,
}

impl Client {
    /// A client that does nothing yet.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let ClientConfig {
            options,
            seed,
            metadata,
            subscriptions,
            tls,
            streaming,
        } = config;
        let mut id = [0; 12];
        seed.split("topology").random().fill(&mut id);
        let topology_id = TopologyId(ObjectId::from_bytes(id));
        let limits = Limits::new(&options);
        Self {
            sdam: Sdam::new(config::sdam_options(
                &options,
                topology_id,
                streaming,
                subscriptions,
                &seed,
            )),
            selector: Selector::new(
                options.local_threshold(),
                options.heartbeat_frequency(),
                seed.split("selection").random(),
            )
            .with_server_selector(options.server_selector().cloned())
            .with_plain_choice(limits.scan.is_some()),
            handshake: Arc::new(config::handshake_options(
                &options,
                metadata.document().to_owned(),
                tls,
            )),
            metadata,
            limits,
            subscriptions,
            pools: BTreeMap::new(),
            sessions: SessionPool::new(),
            keys: KeyCache::new(),
            derivations: Derivations::default(),
            nonces: seed.split("nonces").random(),
            session_ids: seed.split("sessions").random(),
            pauses: seed.split("pauses").random(),
            cluster_time: None,
            sockets: BTreeMap::new(),
            established: BTreeSet::new(),
            drains: Drains::default(),
            pins: BTreeMap::new(),
            checks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            without_server: BTreeSet::new(),
            wait_limits: BTreeSet::new(),
            exchange_limits: BTreeSet::new(),
            socket_limits: BTreeSet::new(),
            again: VecDeque::new(),
            reselect: false,
            actions: VecDeque::new(),
            events: VecDeque::new(),
            armed: None,
            next_socket: 0,
            next_operation: 0,
            next_request: 0,
            closed: false,
            ended: false,
            lost: None,
        }
    }

    /// Begins to look for the deployment.
    pub fn open(&mut self, now: Instant) {
        self.sdam.start(now);
        self.settle(now);
    }

    /// Appends a library that wraps the driver to what handshakes tell of the client (HELLO-47).
    ///
    /// Connections that are dialled from now on tell it. For those that exist nothing is sent, and
    /// none is opened or closed (HELLO-48). A library that was named before with the same version
    /// and platform is not appended again (HELLO-49). Fails for an info that is not valid
    /// ([`DriverInfo::validate`]).
    pub fn append_metadata(&mut self, info: &DriverInfo) -> Result<(), Error> {
        if self.metadata.append(info)? {
            let handshake = Arc::make_mut(&mut self.handshake);
            handshake.metadata = self.metadata.document().to_owned();
        }
        Ok(())
    }

    /// Time has passed. Harmless before the deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        // When time is up for one part, that may be news for another: a handshake that took too
        // long makes its server unknown, and wants it checked at once.
        for _ in 0..MAX_TIMEOUT_ROUNDS {
            self.on_timeout(now);
            self.armed = self.exact_deadline();
            if self.armed.is_none_or(|at| at > now) {
                break;
            }
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        self.sdam.handle_timeout(now);
        self.settle(now);
        let due: Vec<ServerId> = self.pools.keys().copied().collect();
        for server in due {
            // A pool's work may make more work due at once.
            while let Some(slot) = self.pools.get_mut(&server)
                && slot.pool.deadline().is_some_and(|at| at <= now)
            {
                slot.pool.handle_timeout(now);
                self.drain_pool(now, server);
            }
        }
        while let Some(&(at, socket)) = self.socket_limits.first() {
            if at > now {
                break;
            }
            self.socket_limits.pop_first();
            self.on_socket_timeout(now, socket);
        }
        while let Some(&(at, operation)) = self.wait_limits.first() {
            if at > now {
                break;
            }
            self.wait_limits.pop_first();
            self.on_wait_over(now, operation);
        }
        while let Some(&(at, socket)) = self.exchange_limits.first() {
            if at > now {
                break;
            }
            self.exchange_limits.pop_first();
            let error = self.limits.exchange_timeout();
            self.actions.push_back(Action::Interrupt { socket, error });
        }
        self.expire_drains(now);
        self.settle(now);
    }

    /// The server's calendar time, for certificates: to be set before connections are made and now
    /// and then afterwards.
    pub fn set_wall_time(&mut self, wall: WallTime) {
        if let Some(tls) = &self.handshake.tls {
            tls.set_wall_time(wall);
        }
    }

    /// Ends everything: operations that wait fail at once, monitors and pools end as soon as no
    /// connection is leased. Until then servers are still checked: one that is lost would otherwise
    /// keep its last operation, and with it the client, for ever.
    pub fn close(&mut self, now: Instant) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.fail_all_waiting(now);
        self.release_all_pins(now);
        self.settle(now);
    }

    /// Ends a closed client although connections are leased: whoever holds the leases does not give
    /// them back. Their connections close when they do.
    pub fn end_without_leases(&mut self, now: Instant) {
        if self.closed && !self.ended {
            self.end(now);
            self.settle(now);
        }
    }

    /// Closes monitors and pools, if this is the moment.
    pub(super) fn end_unused(&mut self, now: Instant) -> bool {
        let is_used = || self.pools.values().any(|slot| slot.leased() > 0);
        if !self.closed || self.ended || is_used() {
            return false;
        }
        self.end(now);
        true
    }

    /// Closes monitors and pools. Leased connections close when they are given back.
    pub(super) fn end(&mut self, now: Instant) {
        self.ended = true;
        let pools: Vec<ServerId> = self.pools.keys().copied().collect();
        for server in pools {
            self.close_pool(now, server);
        }
        self.sdam.close(now);
    }

    /// The next order.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next event.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; `None` for never. May be
    /// earlier than needed, never later.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.armed
    }

    /// What is known of the deployment.
    #[must_use]
    pub fn topology(&self) -> &Arc<TopologyDescription> {
        self.sdam.description()
    }

    /// True once the client is closed and nothing is left to be done.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.closed && self.sockets.is_empty() && self.established.is_empty()
    }

    /// Which events are built.
    #[must_use]
    pub fn subscriptions(&self) -> Subscriptions {
        self.subscriptions
    }

    /// How much of everything there is.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            sockets: self.sockets.len() + self.established.len(),
            leased: self.pools.values().map(PoolSlot::leased).sum(),
            waiting: self.waiting.len(),
        }
    }

    /// A session that its holder no longer needs.
    pub fn return_session(&mut self, now: Instant, session: ServerSession) {
        let timeout = self.sdam.description().logical_session_timeout_minutes;
        self.sessions.put_back(now, timeout, session);
    }

    /// The command that tells the server which sessions are over; `None` when there are none left,
    /// or when no server is known that could be told: it forgets them by itself, and closing does
    /// not wait for it. To be performed before closing; its result does not matter.
    #[must_use]
    pub fn end_sessions(&mut self) -> Option<Command> {
        let ids = self.sessions.drain(MAX_SESSIONS_PER_COMMAND);
        let mut servers = self.sdam.description().servers.values();
        if ids.is_empty() || self.closed || !servers.any(|s| s.server_type.is_available()) {
            return None;
        }
        let mut command = Command::new("endSessions", "admin", CommandKind::Run);
        let mut array = bson::RawArrayBuf::new();
        for id in ids {
            let bytes = id.to_vec();
            let id = bson::Binary {
                subtype: bson::spec::BinarySubtype::Uuid,
                bytes,
            };
            array.push(bson::rawdoc! { "id": id });
        }
        command.body().array("endSessions", &array);
        command.set_session(crate::operation::SessionUse::None);
        let anywhere = ReadPreference::new(ReadMode::PrimaryPreferred);
        command.set_read_preference(Arc::new(anywhere));
        Some(command)
    }

    fn emit(&mut self, at: Instant, kind: EventKind) {
        self.events.push_back(Event { at, kind });
    }

    /// Remembers a deadline if it is earlier than all known.
    fn note_deadline(&mut self, at: Option<Instant>) {
        self.armed = earliest(self.armed, at.filter(|&at| at < Instant::MAX));
    }

    fn exact_deadline(&self) -> Option<Instant> {
        let mut deadline = self.sdam.deadline();
        for slot in self.pools.values() {
            deadline = earliest(deadline, slot.pool.deadline());
        }
        for first in [
            self.wait_limits.first().map(|&(at, _)| at),
            self.exchange_limits.first().map(|&(at, _)| at),
            self.socket_limits.first().map(|&(at, _)| at),
            self.drains.deadline(),
        ] {
            deadline = earliest(deadline, first);
        }
        // The end of time never comes: what would be due then is never due.
        deadline.filter(|&at| at < Instant::MAX)
    }
}
