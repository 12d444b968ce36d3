//! The executor, which polls tasks in a random order, and advances time when no task is ready.

use super::{
    SimRuntime,
    applications::Records,
    cutter::Cutter,
    datagram::Datagrams,
    listener::Listeners,
    machine::Machine,
    operator::Routes,
    starvation::Starvation,
    stream::Pipe,
    waker::{Ready, task_waker},
};
use crate::world::{
    check::EventCheckers,
    freezes::Freezes,
    network::{Incoming, LinkId, Network},
    options::{Rates, WorldOptions, index, world_seed},
    plan::Disaster,
    report::{Failure, FailureKind},
    scenario::Span,
    setup,
    trace::Trace,
    workload::History,
};
use onionskin_core::{
    address::Address,
    event::Event,
    random::Random,
    time::{Instant, earliest},
};
use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    future::Future,
    ops::ControlFlow,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The latency of messages in a quiet world, which is about that of a local network.
const QUIET_LATENCY: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(200));

/// A spawned task.
pub(super) type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The state that tasks and the executor share.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) tasks: Mutex<BTreeMap<u64, BoxedTask>>,
    ready: Ready,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The state of the world.
#[derive(Debug)]
pub(super) struct State {
    pub(super) now: Instant,
    pub(super) network: Network,
    pub(super) pipes: BTreeMap<LinkId, Pipe>,
    pub(super) listeners: Listeners,
    pub(super) datagrams: Datagrams,
    pub(super) timers: BTreeMap<(Instant, u64), Waker>,
    /// Additional host names, each with the index of its member.
    pub(super) names: BTreeMap<String, usize>,
    pub(super) machine: Machine,
    pub(super) routes: Routes,
    pub(super) cutter: Cutter,
    pub(super) rates: Rates,
    pub(super) random: Random,
    /// The pause of a writer after a partial write is shorter than this.
    pub(super) max_blocked: Duration,
    pub(super) trace: Trace,
    pub(super) history: History,
    pub(super) applications: Records,
    pub(super) checkers: Vec<EventCheckers>,
    pub(super) failure: Option<Failure>,
    /// The times in which the clients are frozen.
    pub(super) freezes: Freezes,
    pub(super) starvation: Starvation,
    pub(super) steps: u64,
    plan: VecDeque<(Instant, Disaster)>,
    /// True from the start of a freeze until the timers that are due were woken after its end.
    was_frozen: bool,
    max_steps: u64,
    numbers: u64,
}

impl State {
    /// Returns a unique number.
    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Records a failure. The first failure of a run is reported.
    pub(super) fn fail(&mut self, kind: FailureKind, message: String) {
        let failure = Failure::new(kind, self.now, message);
        self.trace
            .note(self.now, format_args!("failure: {failure}"));
        self.failure.get_or_insert(failure);
    }

    /// Records an event of a client, and passes it to the client's checkers.
    pub(super) fn observe(&mut self, client: usize, event: &Event) {
        self.trace.observe(self.now, client, event);
        if let Err(what) = self.checkers[client].observe(event) {
            self.fail(FailureKind::Correctness, format!("client {client}: {what}"));
        }
    }

    /// Returns the time of the next event. A task that is ready runs now, or at the end of a
    /// freeze.
    fn next(&self, has_ready: bool) -> Option<Instant> {
        let mut next = earliest(
            self.network.deadline(),
            self.plan.front().map(|(at, _)| *at),
        );
        let timer = self.timers.first_key_value().map(|(&(at, _), _)| at);
        let own = if has_ready { Some(self.now) } else { timer };
        next = earliest(next, own.map(|at| at.max(self.freezes.until())));
        earliest(next, self.datagrams.deadline())
    }

    /// Handles one event that is due.
    fn step(&mut self) {
        let now = self.now;
        if self.plan.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, disaster)) = self.plan.pop_front() {
                self.strike(&disaster);
            }
            return;
        }
        if self.network.advance(now, &mut self.trace) {
            while let Some((link, _, incoming)) = self.network.poll_arrival() {
                if let Some(pipe) = self.pipes.get_mut(&link) {
                    if incoming == Incoming::Reset
                        && let Some(writer) = pipe.writer.take()
                    {
                        writer.wake();
                    }
                    pipe.inbox.push_back(incoming);
                    if let Some(reader) = pipe.reader.take() {
                        reader.wake();
                    }
                }
            }
            while let Some((link, event)) = self.network.poll_listener_event() {
                self.listeners.handle(link, event);
            }
            return self.wake_writers();
        }
        if self.datagrams.deadline().is_some_and(|at| at <= now) {
            let latency = self.network.draw_latency();
            self.datagrams.advance(now, latency, &mut self.trace);
            return;
        }
        if self.freezes.until() <= now {
            self.wake_timers();
        }
    }

    /// Wakes the writes of connections that have room again.
    pub(super) fn wake_writers(&mut self) {
        while let Some((link, _)) = self.network.poll_writable() {
            if let Some(writer) = self
                .pipes
                .get_mut(&link)
                .and_then(|pipe| pipe.writer.take())
            {
                writer.wake();
            }
        }
    }

    fn wake_timers(&mut self) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            entry.remove().wake();
        }
    }

    /// True while the clients are frozen. The first call after a freeze wakes all timers that are
    /// due, so that tasks see the timers and the arrived bytes in any order.
    fn is_frozen(&mut self) -> bool {
        let is_frozen = self.freezes.until() > self.now;
        if !is_frozen && std::mem::take(&mut self.was_frozen) {
            self.wake_timers();
        }
        is_frozen
    }

    pub(super) fn strike(&mut self, disaster: &Disaster) {
        self.network.strike(self.now, disaster, &mut self.trace);
        self.wake_writers();
        match *disaster {
            // All clients run in one process, so that all of them are frozen.
            Disaster::Freeze {
                pause: Span(pause), ..
            } => {
                self.freezes.add(self.now, pause);
                self.was_frozen = true;
            }
            Disaster::JumpClock(jump) => self.machine.clocks.jump(jump),
            Disaster::Heal => self.rates = Rates::default(),
            _ => {}
        }
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn spawn(&self, task: BoxedTask) {
        let number = self.lock().next_number();
        lock(&self.tasks).insert(number, task);
        lock(&self.ready).insert(number);
    }

    /// Takes a random task out of those that are ready. Returns `None` if no task can be polled or
    /// the clients are frozen.
    fn draw(&self) -> Option<u64> {
        let mut state = self.lock();
        if state.is_frozen() {
            return None;
        }
        loop {
            let number = {
                let mut ready = lock(&self.ready);
                if ready.is_empty() {
                    return None;
                }
                let place = index(&mut state.random, ready.len());
                let number = ready.iter().nth(place).copied()?;
                ready.remove(&number);
                number
            };
            if !state.starves(number, || self.waker(number)) {
                let now = state.now;
                state.trace.note(now, format_args!("task {number} runs"));
                return Some(number);
            }
        }
    }

    fn poll_task(&self, number: u64) {
        // The task is removed from the map while it runs, so that it can spawn other tasks.
        let Some(mut task) = lock(&self.tasks).remove(&number) else {
            return;
        };
        let waker = self.waker(number);
        if task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
            lock(&self.tasks).insert(number, task);
        }
    }

    fn waker(&self, number: u64) -> Waker {
        task_waker(number, &self.ready)
    }
}

/// An executor that runs futures in a simulated world.
///
/// Dropping the executor drops all tasks that have not ended.
#[derive(Debug)]
pub struct Executor {
    pub(super) shared: Arc<Shared>,
}

impl Executor {
    /// Creates an executor on a network. `plan` has the disasters of the world.
    #[must_use]
    pub fn new(
        network: Network,
        plan: VecDeque<(Instant, Disaster)>,
        options: &WorldOptions,
        mut random: Random,
    ) -> Self {
        let state = State {
            now: Instant::ZERO,
            network,
            pipes: BTreeMap::new(),
            listeners: Listeners::default(),
            datagrams: Datagrams::default(),
            timers: BTreeMap::new(),
            names: BTreeMap::new(),
            machine: Machine::default(),
            routes: Routes::default(),
            cutter: Cutter::default(),
            rates: options.rates,
            starvation: Starvation::new(options.rates, &mut random),
            random,
            max_blocked: Duration::from_millis(20),
            trace: Trace::new(options.keep_trace),
            history: History::default(),
            applications: Records::default(),
            checkers: Vec::new(),
            failure: None,
            freezes: Freezes::default(),
            steps: 0,
            plan,
            was_frozen: false,
            max_steps: options.max_steps,
            numbers: 0,
        };
        let shared = Shared {
            state: Mutex::new(state),
            tasks: Mutex::default(),
            ready: Arc::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Creates an executor in a world with one standalone member and without faults, for tests that
    /// start their own servers with [`listen`](SimRuntime::listen).
    pub fn quiet(seed: u64) -> Result<Self, Failure> {
        let alone = Address::tcp(&setup::host(0), setup::PORT);
        Self::around(seed, DeploymentOptions::standalone(alone))
    }

    /// Creates an executor in a world around a deployment. Nothing fails unless a test calls
    /// [`strike`](SimRuntime::strike). [`member_addresses`](super::member_addresses) returns the
    /// addresses of the members.
    pub fn around(seed: u64, deployment: DeploymentOptions) -> Result<Self, Failure> {
        Self::at_distance(seed, deployment, QUIET_LATENCY)
    }

    /// Like [`around`](Self::around), with the shortest and the longest time that bytes are under
    /// way between a client and a server.
    pub fn at_distance(
        seed: u64,
        deployment: DeploymentOptions,
        latency: (Duration, Duration),
    ) -> Result<Self, Failure> {
        let mut options = WorldOptions::drawn(seed).calm();
        (options.min_latency, options.max_latency) = latency;
        options.max_steps = u64::MAX;
        let seed = world_seed(seed);
        let deployment = Deployment::new(deployment, &seed.split("deployment"))
            .map_err(|error| setup::impossible(&error))?;
        let plan = VecDeque::new();
        let network = Network::new(deployment, &options, &plan, &seed);
        let random = seed.split("world").random();
        Ok(Self::new(network, plan, &options, random))
    }

    /// Makes the pause of a writer after a partial write, which is drawn, shorter than this. The
    /// default is 20 ms.
    pub fn limit_pauses(&self, most: Duration) {
        self.shared.lock().max_blocked = most;
    }

    /// Returns the runtime of the client with this number.
    #[must_use]
    pub fn runtime(&self, client: usize) -> SimRuntime {
        SimRuntime {
            shared: self.shared.clone(),
            client,
        }
    }

    /// Runs a future to its end. Spawned tasks run meanwhile. Returns an error if a failure was
    /// recorded, if no task can continue, if there are too many steps, or if the future has not
    /// ended at `limit`.
    pub fn run<T>(&self, limit: Instant, main: impl Future<Output = T>) -> Result<T, Failure> {
        self.run_watched(limit, main, &mut || ControlFlow::Continue(()))
    }

    /// Runs a future as [`run`](Self::run) does, and calls `look` after each step. Its `Break` ends
    /// the run with a failure.
    pub(super) fn run_watched<T>(
        &self,
        limit: Instant,
        main: impl Future<Output = T>,
        look: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<T, Failure> {
        let mut main = pin!(main);
        let number = self.shared.lock().next_number();
        lock(&self.shared.ready).insert(number);
        let waker = self.shared.waker(number);
        let mut result = None;
        loop {
            if let Some(value) = result.take() {
                return Ok(value);
            }
            let drawn = self.shared.draw();
            match drawn {
                Some(drawn) if drawn == number => {
                    if let Poll::Ready(value) = main.as_mut().poll(&mut Context::from_waker(&waker))
                    {
                        result = Some(value);
                    }
                }
                Some(drawn) => self.shared.poll_task(drawn),
                None => {}
            }
            self.count_step()?;
            if drawn.is_none() {
                self.pass_time(limit)?;
            }
            if look().is_break() {
                let now = self.shared.lock().now;
                let message = "its watcher has ended the run";
                return Err(Failure::new(FailureKind::Crash, now, message));
            }
        }
    }

    /// Handles all events until `now`, and runs the tasks that are ready. Returns the time of the
    /// next event; `None` if nothing will happen by itself. This is for a world whose time is that
    /// of another executor.
    pub fn advance(&self, now: Instant) -> Option<Instant> {
        loop {
            if let Some(drawn) = self.shared.draw() {
                self.shared.poll_task(drawn);
                continue;
            }
            let has_ready = !lock(&self.shared.ready).is_empty();
            let mut state = self.shared.lock();
            match state.next(has_ready) {
                Some(next) if next <= now => {
                    state.now = state.now.max(next);
                    state.step();
                }
                next => {
                    state.now = state.now.max(now);
                    return next;
                }
            }
        }
    }

    fn count_step(&self) -> Result<(), Failure> {
        let mut state = self.shared.lock();
        state.steps += 1;
        if let Some(failure) = state.failure.clone() {
            return Err(failure);
        }
        if state.steps > state.max_steps {
            let message = format!("the run has not ended after {} steps", state.steps);
            return Err(Failure::new(FailureKind::Crash, state.now, message));
        }
        Ok(())
    }

    /// Advances time to the next event and handles it.
    fn pass_time(&self, limit: Instant) -> Result<(), Failure> {
        let has_ready = !lock(&self.shared.ready).is_empty();
        let mut state = self.shared.lock();
        match state.next(has_ready) {
            Some(next) if next <= limit => {
                state.now = state.now.max(next);
                state.step();
                Ok(())
            }
            _ => {
                let message = format!(
                    "stuck: {} tasks wait, none can go on; {} timers, {} links",
                    lock(&self.shared.tasks).len(),
                    state.timers.len(),
                    state.network.open_links(),
                );
                Err(Failure::new(FailureKind::Liveness, state.now, message))
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Tasks hold the runtime and the runtime holds the tasks, so that this cycle must be
        // broken.
        let tasks = std::mem::take(&mut *lock(&self.shared.tasks));
        drop(tasks);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
