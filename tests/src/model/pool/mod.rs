//! The independent judge of connection pools: a slow, obvious model of one pool.
//!
//! It is written as section 1 of the requirements of pools reads, with its counters as they stand
//! there, and shares no code with the core's machine: only its plain types. Where that text leaves
//! a choice, the model takes the one that the machine documents: the newest available connection
//! is used first, population makes one connection at a time and rests after a failure, an
//! establishment goes on when its request gives up, a connection that a clear made stale before it
//! was established is not handed out, and one whose reply is outstanding counts until that came.
//! Behind a load balancer the request that such a connection was for asks again, with its place
//! and its time, and who has the connections is told to those who stand in the queue. Where only
//! an order is left open, any will do.

mod life;
mod mistake;
mod requests;
mod services;
mod speech;

pub use mistake::Mistake;
pub use services::service;
pub use speech::{Said, Speech, Why};

use onionskin_core::{
    event::CloseReason,
    pool::{Counts, PinnedFor, PoolOptions, PoolState},
    time::Instant,
};
use services::Service;
use std::{collections::BTreeMap, time::Duration};

/// How the tests call the pool's server.
pub const SERVER: &str = "db:27017";

/// What clears and failed establishments are caused by.
pub const CAUSE: &str = "reset";

/// What happens to a pool. One with a load balancer is never cleared as a whole, and no other
/// hears of services and of what connections are held for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The server was checked.
    Ready,
    /// The server is in doubt.
    Clear {
        /// Operations are to be broken too.
        interrupt: bool,
    },
    /// The client is closed, or the server was removed.
    Close,
    /// Somebody asks for a connection.
    CheckOut {
        /// Who asks.
        request: u64,
        /// How long it can wait.
        deadline: Option<Instant>,
        /// The operation has a time limit of its own, which overrules the older options.
        timed: bool,
    },
    /// The request is no longer wanted.
    Cancel(u64),
    /// A connection comes back.
    CheckIn {
        /// Which.
        connection: u64,
        /// It cannot be used any more.
        broken: bool,
    },
    /// A connection comes back while a reply that nobody waits for is outstanding.
    CheckInDue(u64),
    /// That reply has come.
    Drained(u64),
    /// A connection is established.
    Established(u64),
    /// A connection could not be established.
    EstablishFailed(u64),
    /// The peer closed a connection.
    IdleClosed(u64),
    /// Time has passed.
    Timeout,
    /// A service answered the hello on a connection that is being established.
    Greeted {
        /// The connection.
        connection: u64,
        /// The service.
        service: u8,
    },
    /// This service is in doubt.
    ClearService(u8),
    /// What a checked out connection is kept for.
    Hold {
        /// The connection.
        connection: u64,
        /// What for.
        pinned_for: PinnedFor,
    },
}

/// What the call itself answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Done,
    /// This connection.
    Granted(u64),
    /// Later.
    Waiting,
    /// No.
    Failed(Why),
    /// It was not checked out of this pool (CMAP-87).
    NotCheckedOut,
    /// The connection is of this generation of its service, if it could be greeted at all.
    Greeted(Option<u64>),
}

/// The states of CMAP-24; what is closed is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Pending,
    Available,
    InUse,
    /// Not a state of the specification: like in use, but by nobody.
    Draining,
}

#[derive(Clone, Debug)]
struct Connection {
    generation: u64,
    /// Whom the load balancer connected it to.
    service: Option<u8>,
    place: Place,
    pinned_for: PinnedFor,
    /// It was held for a cursor since it was checked out.
    was_cursors: bool,
    /// When it was created, and first and last became available.
    created: Instant,
    first_available: Option<Instant>,
    available: Instant,
    taken: Instant,
    /// Pending for `minPoolSize`.
    populates: bool,
    interrupted: bool,
}

/// A request that has not been answered yet.
#[derive(Clone, Debug)]
struct Waiter {
    request: u64,
    started: Instant,
    deadline: Option<Instant>,
    /// When `waitQueueTimeoutMS` sends it away.
    patience: Option<Instant>,
    /// The connection that is being established for it. It has left the queue (CMAP-82).
    connection: Option<u64>,
    establishing: Instant,
}

/// A pool, as the specification's fields have it (CMAP-48).
#[derive(Clone, Debug)]
pub struct Model {
    options: PoolOptions,
    subscribed: bool,
    mistake: Option<Mistake>,
    state: PoolState,
    generation: u64,
    was_cleared: bool,
    total: u32,
    available: u32,
    pending: u32,
    last_id: u64,
    connections: BTreeMap<u64, Connection>,
    /// CMAP-99.
    services: BTreeMap<u8, Service>,
    /// The available connections, in the order in which they became so.
    shelf: Vec<u64>,
    /// All who wait, in the order in which they came.
    waiters: Vec<Waiter>,
    /// Population rests until then.
    rest: Instant,
    speech: Speech,
}

impl Model {
    /// A new pool, and what it says first (CMAP-52).
    #[must_use]
    pub fn new(options: PoolOptions, subscribed: bool, mistake: Option<Mistake>) -> (Self, Speech) {
        let mut model = Self {
            options,
            subscribed,
            mistake,
            state: PoolState::Paused,
            generation: 0,
            was_cleared: false,
            total: 0,
            available: 0,
            pending: 0,
            last_id: 0,
            connections: BTreeMap::new(),
            services: BTreeMap::new(),
            shelf: Vec::new(),
            waiters: Vec::new(),
            rest: Instant::ZERO,
            speech: Speech::default(),
        };
        if mistake == Some(Mistake::NumbersFromZero) {
            model.last_id = u64::MAX;
        }
        model.speech.then([Said::PoolCreated]);
        let speech = model.take_speech();
        (model, speech)
    }

    /// What has to be answered and said.
    pub fn hear(&mut self, now: Instant, input: &Input) -> (Answer, Speech) {
        let mut answer = Answer::Done;
        match *input {
            Input::Ready => self.ready(now),
            Input::Clear { interrupt } => self.clear(now, interrupt),
            Input::Close => self.close(now),
            Input::CheckOut {
                request,
                deadline,
                timed,
            } => answer = self.check_out(now, request, deadline, timed),
            Input::Cancel(request) => self.cancel(now, request),
            Input::CheckIn { connection, broken } => {
                if !self.check_in(now, connection, broken, false) {
                    answer = Answer::NotCheckedOut;
                }
            }
            Input::CheckInDue(connection) => {
                if !self.check_in(now, connection, false, true) {
                    answer = Answer::NotCheckedOut;
                }
            }
            Input::Drained(connection) => self.drained(now, connection),
            Input::Established(connection) => self.established(now, connection),
            Input::EstablishFailed(connection) => self.establish_failed(now, connection),
            Input::IdleClosed(connection) => self.idle_closed(now, connection),
            Input::Timeout => self.timeout(now),
            Input::Greeted {
                connection,
                service,
            } => answer = Answer::Greeted(self.greeted(connection, service)),
            Input::ClearService(service) => self.clear_service(now, service),
            Input::Hold {
                connection,
                pinned_for,
            } => self.hold(connection, pinned_for),
        }
        (answer, self.take_speech())
    }

    fn take_speech(&mut self) -> Speech {
        let mut speech = std::mem::take(&mut self.speech);
        if !self.subscribed {
            speech.without_events();
        }
        speech
    }

    /// Whether the pool serves.
    #[must_use]
    pub const fn state(&self) -> PoolState {
        self.state
    }

    /// How often it was cleared.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The generation of a connection.
    #[must_use]
    pub fn generation_of(&self, connection: u64) -> Option<u64> {
        Some(self.connections.get(&connection)?.generation)
    }

    /// Whether it is being established for `minPoolSize` (CMAP-154).
    #[must_use]
    pub fn is_population(&self, connection: u64) -> bool {
        let connection = self.connections.get(&connection);
        connection.is_some_and(|c| c.place == Place::Pending && c.populates)
    }

    /// Its counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let waiting = self.waiters.iter().filter(|w| w.connection.is_none());
        let draining = u32::try_from(self.draining().count()).unwrap_or(u32::MAX);
        let idle = self.available + self.pending + draining;
        Counts {
            total: self.total,
            available: self.available,
            pending: self.pending,
            in_use: self.total.wrapping_sub(idle),
            draining,
            waiting: u32::try_from(waiting.count()).unwrap_or(u32::MAX),
        }
    }

    /// When time does something next; a moment in the past if it could at once.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let mut due: Vec<Instant> = self.waiters.iter().filter_map(|w| self.end(w)).collect();
        for id in self.shelf.iter().filter(|_| self.prunes()) {
            if self.is_stale(*id) {
                due.push(Instant::ZERO);
            }
            if let Some(limit) = self.idle_limit() {
                // Longer than the limit, not just as long.
                let last = self.connections[id].available + limit;
                due.push(last + Duration::from_nanos(1));
            }
        }
        if self.draining().any(|id| self.is_stale(id)) {
            due.push(Instant::ZERO);
        }
        if self.may_populate() {
            due.push(self.rest);
        }
        due.into_iter().min().map(|due| due.max(now))
    }

    /// Those that wait for a reply.
    fn draining(&self) -> impl Iterator<Item = u64> {
        let drains = |(_, c): &(&u64, &Connection)| c.place == Place::Draining;
        self.connections.iter().filter(drains).map(|(id, _)| *id)
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn idle_limit(&self) -> Option<Duration> {
        let zero = self.makes(Mistake::ZeroIdleIsLimit);
        self.options
            .max_idle
            .filter(|limit| zero || !limit.is_zero())
    }

    fn max_connecting(&self) -> u32 {
        self.options.max_connecting.max(1)
    }

    /// CMAP-42.
    fn is_full(&self) -> bool {
        let mut total = self.total;
        if self.makes(Mistake::PendingIsNotCounted) {
            total -= self.pending;
        }
        if self.makes(Mistake::DrainingIsNotCounted) {
            total -= u32::try_from(self.draining().count()).unwrap_or(0);
        }
        let unlimited = self.options.max_size == 0 && !self.makes(Mistake::ZeroIsNoRoom);
        !unlimited && total >= self.options.max_size
    }

    /// CMAP-25.
    fn is_stale(&self, connection: u64) -> bool {
        let connection = &self.connections[&connection];
        match connection.service {
            None => connection.generation != self.generation,
            Some(service) => connection.generation != self.services[&service].generation,
        }
    }

    /// Why an available connection is perished (CMAP-25, CMAP-26).
    fn perished(&self, now: Instant, id: u64) -> Option<CloseReason> {
        if self.is_stale(id) && !self.makes(Mistake::StaleIsHandedOut) {
            return Some(CloseReason::Stale);
        }
        let connection = &self.connections[&id];
        let mut since = connection.available;
        if self.makes(Mistake::IdleSinceFirst) {
            since = connection.first_available.unwrap_or(since);
        }
        let unused = now.saturating_since(since);
        let limit = self.idle_limit()?;
        let at_limit = self.makes(Mistake::IdleAtLimit) && unused == limit;
        (unused > limit || at_limit).then_some(CloseReason::Idle)
    }

    /// CMAP-60.
    fn create(&mut self, now: Instant, populates: bool) -> u64 {
        self.last_id = self.last_id.wrapping_add(1);
        let id = self.last_id;
        self.total += 1;
        self.pending += 1;
        let connection = Connection {
            generation: self.generation,
            service: None,
            place: Place::Pending,
            pinned_for: PinnedFor::Operation,
            was_cursors: false,
            created: now,
            first_available: None,
            available: now,
            taken: now,
            populates,
            interrupted: false,
        };
        self.connections.insert(id, connection);
        let mut words = vec![Said::Created(id), Said::Open(id)];
        if self.makes(Mistake::CreatedWhenReady) {
            words.remove(0);
        }
        self.speech.then(words);
        id
    }

    /// CMAP-63: what is said about it is for the caller to place.
    fn discard(&mut self, id: u64, reason: CloseReason) -> Vec<Said> {
        self.leave_service(id);
        let place = self.connections[&id].place;
        self.connections.remove(&id);
        self.shelf.retain(|shelved| *shelved != id);
        self.available -= u32::from(place == Place::Available);
        self.pending -= u32::from(place == Place::Pending);
        self.total -= 1;
        vec![Said::Closed(id, reason), Said::Close(id)]
    }

    fn make_available(&mut self, now: Instant, id: u64) {
        self.available += 1;
        self.shelf.push(id);
        let connection = self.connections.get_mut(&id).expect("it exists");
        connection.place = Place::Available;
        connection.available = now;
        connection.first_available.get_or_insert(now);
    }

    /// The newest available connection that is good; the bad ones that are met are closed
    /// (CMAP-75).
    fn find_available(&mut self, now: Instant) -> Option<u64> {
        while let Some(&id) = self.shelf.last() {
            let Some(reason) = self.perished(now, id) else {
                return Some(id);
            };
            let words = self.discard(id, reason);
            self.speech.then(words);
        }
        None
    }

    /// CMAP-84.
    fn lend(&mut self, now: Instant, id: u64) {
        self.shelf.retain(|shelved| *shelved != id);
        let connection = self.connections.get_mut(&id).expect("it exists");
        match connection.place {
            Place::Available => self.available -= 1,
            Place::Pending => self.pending -= 1,
            Place::InUse | Place::Draining => {}
        }
        connection.place = Place::InUse;
        connection.interrupted = false;
        connection.taken = now;
    }
}
