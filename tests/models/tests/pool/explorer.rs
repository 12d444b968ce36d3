//! Walks through all states of small pools, breadth first: a few requests, connections, failures
//! and clears in every order.
//!
//! In each state pool and model must agree. From each state of an open pool, two copies continue.
//! In one copy all connections are established and checked in, and each request must get its
//! result. The other copy is closed, and must then have no connection, request or deadline.
//!
//! Two states are the same if pool, watcher, model, time and the events that can still happen are
//! equal.

use crate::bench::{Bench, Found};
use onionskin_core::unstable::pool::{PinnedFor, PoolOptions};
use onionskin_models::{
    fingerprint::Fingerprint,
    pool::{Input, Mistake},
};
use std::{
    collections::{BTreeSet, VecDeque},
    fmt::Write,
    time::{Duration, Instant},
};

/// The options of the pool, and the largest numbers of events in a world. Some events are not
/// limited: for example, a checked-out connection can always be checked in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) max_size: u32,
    pub(crate) min_size: u32,
    pub(crate) max_connecting: u32,
    /// The number of check outs.
    pub(crate) requests: u64,
    pub(crate) clears: u8,
    pub(crate) interrupting_clears: u8,
    /// The number of establishments that fail.
    pub(crate) failures: u8,
    /// The number of connections that are checked in broken.
    pub(crate) broken: u8,
    /// The number of connections that are checked in while a reply is outstanding.
    pub(crate) due: u8,
    /// The number of requests that are cancelled.
    pub(crate) cancels: u8,
    /// The number of deadlines that can pass. If not zero, all requests except the first have a
    /// deadline, and connections have an idle limit.
    pub(crate) deadlines: u8,
    /// True if the pool can be closed.
    pub(crate) close: bool,
    /// The number of services behind a load balancer; zero without a load balancer.
    pub(crate) services: u8,
    pub(crate) service_clears: u8,
    /// The number of pins for a cursor or a transaction, of all connections together.
    pub(crate) pins: u8,
}

/// The statistics of a walk, and the first disagreement.
#[derive(Debug, Default)]
struct Walk {
    states: usize,
    moves: usize,
    depth: usize,
    disagreement: Option<String>,
}

/// The longest wait of a request, and the idle limit of connections.
const PATIENCE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
struct World {
    bench: Bench,
    /// The numbers of events that can still happen.
    left: Bounds,
    closed: bool,
    /// True after the first ready, which is the first input of each world.
    ready: bool,
    /// The highest number of a service in an input so far. New services come in the order of their
    /// numbers, because all services are equal.
    known_services: u8,
}

impl World {
    fn new(bounds: Bounds, mistake: Option<Mistake>) -> Result<Self, String> {
        let timed = bounds.deadlines > 0;
        let options = PoolOptions {
            max_size: bounds.max_size,
            min_size: bounds.min_size,
            max_connecting: bounds.max_connecting,
            max_idle: timed.then_some(PATIENCE),
            load_balanced: bounds.services > 0,
            ..PoolOptions::default()
        };
        Ok(Self {
            bench: Bench::paired(&options, true, mistake)?,
            left: bounds,
            closed: false,
            ready: false,
            known_services: 0,
        })
    }

    /// Returns all inputs that are possible now.
    fn moves(&self, bounds: Bounds) -> Vec<Input> {
        if !self.ready {
            return vec![Input::Ready];
        }
        let (watch, left) = (&self.bench.watch, self.left);
        let mut moves = vec![Input::Ready];
        if left.requests > 0 {
            // Requests are numbered in their order, from one. The first request has no deadline.
            let request = bounds.requests - left.requests + 1;
            let timed = bounds.deadlines > 0 && request > 1;
            let deadline = timed.then(|| self.bench.now + PATIENCE);
            moves.push(Input::CheckOut {
                request,
                deadline,
                timed,
            });
        }
        let clears = [(left.clears, false), (left.interrupting_clears, true)];
        let clears = clears.into_iter().filter(|(left, _)| *left > 0);
        moves.extend(clears.map(|(_, interrupt)| Input::Clear { interrupt }));
        for id in watch.pending() {
            if watch.may_be_established(id) {
                moves.push(Input::Established(id));
            } else {
                moves.extend(self.services().map(|service| Input::HelloAnswered {
                    connection: id,
                    service,
                }));
            }
            if left.failures > 0 {
                moves.push(Input::EstablishFailed(id));
            }
        }
        for connection in watch.in_use() {
            for broken in [false, true]
                .into_iter()
                .take(1 + usize::from(left.broken > 0))
            {
                moves.push(Input::CheckIn { connection, broken });
            }
        }
        if left.service_clears > 0 {
            moves.extend(self.services().map(Input::ClearService));
        }
        if left.pins > 0 {
            for connection in watch.in_use() {
                let kept = [PinnedFor::Cursor, PinnedFor::Transaction];
                moves.extend(kept.map(|pinned_for| Input::PinFor {
                    connection,
                    pinned_for,
                }));
            }
        }
        if left.due > 0 {
            moves.extend(watch.in_use().into_iter().map(Input::CheckInDue));
        }
        for id in watch.draining() {
            moves.extend([Input::Drained(id), Input::IdleClosed(id)]);
        }
        if left.cancels > 0 {
            moves.extend(watch.waiting().into_iter().map(Input::Cancel));
        }
        if let Some(due) = self.bench.pool.deadline()
            && (due <= self.bench.now || left.deadlines > 0)
        {
            moves.push(Input::Timeout);
        }
        if left.close && !self.closed {
            moves.push(Input::Close);
        }
        moves
    }

    /// Returns the services that occurred in inputs so far, and one new service if there is one.
    fn services(&self) -> impl Iterator<Item = u8> + use<> {
        1..=self.left.services.min(self.known_services + 1)
    }

    fn apply(&mut self, input: &Input) -> Found {
        let left = &mut self.left;
        match input {
            Input::Ready => self.ready = true,
            Input::CheckOut { .. } => left.requests -= 1,
            Input::Clear { interrupt: false } => left.clears -= 1,
            Input::Clear { interrupt: true } => left.interrupting_clears -= 1,
            Input::EstablishFailed(_) => left.failures -= 1,
            Input::CheckIn { broken: true, .. } => left.broken -= 1,
            Input::CheckInDue(_) => left.due -= 1,
            Input::Cancel(_) => left.cancels -= 1,
            Input::Close => self.closed = true,
            Input::HelloAnswered { service, .. } => {
                self.known_services = self.known_services.max(*service)
            }
            Input::ClearService(_) => left.service_clears -= 1,
            Input::PinFor { .. } => left.pins -= 1,
            Input::Timeout => {
                let due = self.bench.pool.deadline();
                if let Some(due) = due.filter(|due| *due > self.bench.now) {
                    left.deadlines -= 1;
                    self.bench.now = due;
                }
            }
            _ => {}
        }
        self.bench.feed(input)
    }

    /// Checks with copies of the pool that each request gets its result, and that a closed pool has
    /// no connection, request or deadline. Does nothing if the pool is closed already.
    fn ends_well(&self) -> Found {
        if !self.closed {
            self.bench.clone().settle()?;
            self.bench.clone().close()?;
        }
        Ok(())
    }

    fn key(&self) -> u128 {
        let mut fingerprint = Fingerprint::default();
        write!(fingerprint, "{self:?}").expect("it can be hashed");
        fingerprint.value()
    }
}

/// Walks through all states that can be reached, or until the first disagreement.
fn walk(bounds: Bounds, mistake: Option<Mistake>) -> Walk {
    let mut walk = Walk::default();
    walk.disagreement = wander(bounds, mistake, &mut walk).err();
    walk
}

fn wander(bounds: Bounds, mistake: Option<Mistake>, walk: &mut Walk) -> Found {
    let first = World::new(bounds, mistake)?;
    let mut seen = BTreeSet::from([first.key()]);
    // For each state its predecessor, the input from there, and its depth. The function `way` makes
    // the list of inputs that lead to a disagreement.
    let mut origins: Vec<(usize, Option<Input>, usize)> = vec![(0, None, 0)];
    let mut next = VecDeque::from([(0, first)]);
    while let Some((number, world)) = next.pop_front() {
        walk.states += 1;
        let depth = origins[number].2;
        walk.depth = walk.depth.max(depth);
        world
            .ends_well()
            .map_err(|what| format!("{:?}, at the end: {what}", way(&origins, number)))?;
        for input in world.moves(bounds) {
            let mut world = world.clone();
            walk.moves += 1;
            world
                .apply(&input)
                .map_err(|what| format!("{:?}, {what}", way(&origins, number)))?;
            if seen.insert(world.key()) {
                next.push_back((origins.len(), world));
                origins.push((number, Some(input), depth + 1));
            }
        }
    }
    Ok(())
}

/// Returns the inputs that lead to a state.
fn way(origins: &[(usize, Option<Input>, usize)], mut number: usize) -> Vec<Input> {
    let mut moves = Vec::new();
    while let (origin, Some(input), _) = &origins[number] {
        moves.push(input.clone());
        number = *origin;
    }
    moves.reverse();
    moves
}

/// Walks through all states and prints statistics. Asserts that pool and model agree, and that
/// there are at least `states` states and the depth is at least `depth`.
pub(crate) fn explore(bounds: Bounds, states: usize, depth: usize) {
    let began = Instant::now();
    let walk = walk(bounds, None);
    println!(
        "{bounds:?}: {} states, {} moves, depth {}; {:?}",
        walk.states,
        walk.moves,
        walk.depth,
        began.elapsed()
    );
    assert_eq!(walk.disagreement, None);
    assert!(walk.states >= states, "only {} states", walk.states);
    assert!(walk.depth >= depth, "only {} deep", walk.depth);
}

/// Three requests and at most two connections.
pub(crate) const SMALL: Bounds = Bounds {
    max_size: 2,
    min_size: 0,
    max_connecting: 1,
    requests: 3,
    clears: 0,
    interrupting_clears: 0,
    failures: 0,
    broken: 0,
    due: 0,
    cancels: 0,
    deadlines: 0,
    close: false,
    services: 0,
    service_clears: 0,
    pins: 0,
};

/// The bounds of [`SMALL`] with clears, failures, broken connections and cancelled requests.
const ROUGH: Bounds = Bounds {
    clears: 1,
    interrupting_clears: 1,
    failures: 1,
    broken: 1,
    cancels: 1,
    ..SMALL
};

#[test]
fn every_interleaving_of_clears_and_failures() {
    explore(ROUGH, 34_007, 15);
}

#[test]
fn every_interleaving_of_clears_and_failures_with_max_connecting_2() {
    let mut bounds = ROUGH;
    bounds.max_connecting = 2;
    explore(bounds, 60_401, 15);
}

#[test]
fn every_interleaving_of_a_close_and_cancelled_check_outs() {
    let mut bounds = SMALL;
    bounds.max_connecting = 2;
    (bounds.cancels, bounds.interrupting_clears) = (2, 1);
    bounds.close = true;
    explore(bounds, 9_963, 14);
}

#[test]
fn every_interleaving_of_population_and_check_outs() {
    let mut bounds = SMALL;
    (bounds.min_size, bounds.max_connecting) = (2, 2);
    (bounds.clears, bounds.failures) = (1, 1);
    explore(bounds, 37_177, 18);
}

#[test]
fn every_interleaving_of_population_with_max_connecting_1() {
    let mut bounds = SMALL;
    bounds.min_size = 1;
    (bounds.interrupting_clears, bounds.failures, bounds.cancels) = (1, 1, 1);
    bounds.close = true;
    explore(bounds, 27_545, 16);
}

#[test]
fn every_interleaving_of_check_ins_with_an_outstanding_reply() {
    let mut bounds = SMALL;
    (bounds.max_connecting, bounds.min_size) = (2, 1);
    (bounds.due, bounds.clears) = (2, 1);
    explore(bounds, 41_935, 18);
}

#[test]
fn every_interleaving_of_deadlines() {
    let mut bounds = SMALL;
    bounds.deadlines = 3;
    (bounds.clears, bounds.cancels) = (1, 1);
    explore(bounds, 14_106, 15);
}

#[test]
fn every_interleaving_of_check_outs_with_unlimited_pool_size() {
    let mut bounds = SMALL;
    (bounds.max_size, bounds.requests) = (0, 4);
    (bounds.failures, bounds.cancels) = (1, 1);
    explore(bounds, 10_893, 13);
}

#[test]
fn exploring_a_small_pool_finds_model_mistakes() {
    use Mistake as M;
    let mut populated = SMALL;
    (populated.min_size, populated.clears) = (1, 1);
    let mut timed = SMALL;
    timed.deadlines = 2;
    let mut closed = SMALL;
    (closed.close, closed.broken) = (true, 1);
    let mut unlimited = SMALL;
    unlimited.max_size = 0;
    let rough = [
        M::FailureBeforeClosed,
        M::DoubleDecrement,
        M::PausedClearDoesNotCount,
        M::EstablishingTakesReturned,
        M::EstablishingHoldsQueue,
        M::NewcomersOvertake,
        M::LastFirst,
        M::SlotFirst,
        M::StaleBeforeError,
        M::StaleBeforePoolClosed,
        M::InterruptSparesPending,
        M::InterruptCloses,
        M::NeverInterrupts,
        M::AlwaysInterrupts,
        M::NoPruningWhilePaused,
        M::RefusedIsNotStarted,
        M::StaleIsHandedOut,
        M::StaleAfterEstablishment,
    ];
    let rough = rough.map(|mistake| (ROUGH, mistake));
    let others = [
        (populated, M::PopulatesWhilePaused),
        (populated, M::PopulatesBeforeReady),
        (timed, M::IdleWhileInUse),
        (timed, M::IdleAtLimit),
        (timed, M::TimeoutsWait),
        (closed, M::ErrorBeforePoolClosed),
        (closed, M::ReadyReopens),
        (unlimited, M::ZeroIsNoRoom),
    ];
    are_all_found(rough.into_iter().chain(others));
}

/// Asserts that a walk within these bounds finds each mistake.
pub(crate) fn are_all_found(mistakes: impl Iterator<Item = (Bounds, Mistake)>) {
    for (bounds, mistake) in mistakes {
        let Some(way) = walk(bounds, Some(mistake)).disagreement else {
            panic!("{mistake:?} is not found in {bounds:?}");
        };
        println!("{mistake:?}: {way}");
    }
}
