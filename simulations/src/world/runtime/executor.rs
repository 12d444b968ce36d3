//! The executor: tasks in a drawn order, and time that passes when none can go on.

use super::{SimRuntime, listener::Listeners, operator::Routes};
use crate::deployment::{Deployment, DeploymentOptions};
use crate::world::{
    check::EventCheckers,
    describe::describe,
    network::{Incoming, LinkId, Network},
    options::{Rates, WorldOptions, index, world_seed},
    plan::Disaster,
    report::{Failure, FailureKind},
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
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// How long a message takes in a quiet world: about as long as in one house.
const QUIET_LATENCY: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(200));

/// A task of anybody.
pub(super) type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The client's end of a connection.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub(super) inbox: VecDeque<Incoming>,
    pub(super) reader: Option<Waker>,
    /// Writes wait until then, as those to a full socket do.
    pub(super) writable_at: Instant,
    pub(super) blocked: Option<u64>,
    /// Waits until a listener's side has read something.
    pub(super) writer: Option<Waker>,
    /// Bytes that a listener's side has not read yet.
    pub(super) unread: usize,
}

/// Everything that tasks and the executor share.
pub(super) struct Shared {
    state: Mutex<State>,
    tasks: Mutex<BTreeMap<u64, BoxedTask>>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The world as the runtime sees it.
#[derive(Debug)]
pub(super) struct State {
    pub(super) now: Instant,
    pub(super) network: Network,
    pub(super) pipes: BTreeMap<LinkId, Pipe>,
    pub(super) listeners: Listeners,
    pub(super) timers: BTreeMap<(Instant, u64), Waker>,
    /// Names that lead to members, beside the members' own.
    pub(super) names: BTreeMap<String, usize>,
    pub(super) routes: Routes,
    pub(super) rates: Rates,
    pub(super) random: Random,
    pub(super) trace: Trace,
    pub(super) history: History,
    pub(super) checkers: Vec<EventCheckers>,
    pub(super) failure: Option<Failure>,
    /// How long the process was frozen in all.
    pub(super) frozen: Duration,
    pub(super) steps: u64,
    plan: VecDeque<(Instant, Disaster)>,
    frozen_until: Instant,
    /// It stands still, or has just begun to go on.
    was_frozen: bool,
    max_steps: u64,
    numbers: u64,
}

impl State {
    /// A number that nothing else has.
    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Notes that something is wrong; what was wrong first counts.
    pub(super) fn fail(&mut self, kind: FailureKind, message: String) {
        let failure = Failure::new(kind, self.now, message);
        self.trace
            .note(self.now, format_args!("failure: {failure}"));
        self.failure.get_or_insert(failure);
    }

    /// An event of a client.
    pub(super) fn observe(&mut self, client: usize, event: &Event) {
        self.trace.note(
            self.now,
            format_args!("client {client} event {}", describe(event)),
        );
        if let Err(what) = self.checkers[client].observe(event) {
            self.fail(FailureKind::Correctness, format!("client {client}: {what}"));
        }
    }

    /// When something happens next, if no task can go on.
    fn next(&self, has_ready: bool) -> Option<Instant> {
        let mut next = earliest(
            self.network.deadline(),
            self.plan.front().map(|(at, _)| *at),
        );
        let timer = self.timers.first_key_value().map(|(&(at, _), _)| at);
        let own = if has_ready { Some(self.now) } else { timer };
        next = earliest(next, own.map(|at| at.max(self.frozen_until)));
        next
    }

    /// Lets one thing happen that is due.
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
            while let Some((link, heard)) = self.network.poll_heard() {
                self.listeners.hear(link, heard);
            }
            return;
        }
        if self.frozen_until <= now {
            self.wake_timers();
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

    /// True while the process stands still. Once it goes on, timers that fired meanwhile are found
    /// at the same time as everything that arrived, and either may be looked at first.
    fn is_frozen(&mut self) -> bool {
        let is_frozen = self.frozen_until > self.now;
        if !is_frozen && std::mem::take(&mut self.was_frozen) {
            self.wake_timers();
        }
        is_frozen
    }

    pub(super) fn strike(&mut self, disaster: &Disaster) {
        self.network.strike(self.now, disaster, &mut self.trace);
        match *disaster {
            // All clients live in one process.
            Disaster::Freeze { pause, .. } => {
                self.frozen_until = self.frozen_until.max(self.now + pause);
                self.frozen += pause;
                self.was_frozen = true;
            }
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

    /// Draws one of the tasks that can go on.
    fn draw(&self) -> Option<u64> {
        let mut state = self.lock();
        if state.is_frozen() {
            return None;
        }
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
        let now = state.now;
        state.trace.note(now, format_args!("task {number} runs"));
        Some(number)
    }

    fn poll_task(&self, number: u64) {
        // Taken out, so that it may spawn others while it runs.
        let Some(mut task) = lock(&self.tasks).remove(&number) else {
            return;
        };
        let waker = self.waker(number);
        if task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
            lock(&self.tasks).insert(number, task);
        }
    }

    fn waker(&self, number: u64) -> Waker {
        Waker::from(Arc::new(TaskWaker {
            number,
            ready: self.ready.clone(),
        }))
    }
}

struct TaskWaker {
    number: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.number);
    }
}

/// Runs futures in a world.
///
/// Tasks that were spawned and have not ended go when the executor goes.
#[derive(Debug)]
pub struct Executor {
    pub(super) shared: Arc<Shared>,
}

impl Executor {
    /// An executor in front of this network. `plan` says what befalls the world.
    #[must_use]
    pub fn new(
        network: Network,
        plan: VecDeque<(Instant, Disaster)>,
        options: &WorldOptions,
        random: Random,
    ) -> Self {
        let state = State {
            now: Instant::ZERO,
            network,
            pipes: BTreeMap::new(),
            listeners: Listeners::default(),
            timers: BTreeMap::new(),
            names: BTreeMap::new(),
            routes: Routes::default(),
            rates: options.rates,
            random,
            trace: Trace::new(options.keep_trace),
            history: History::default(),
            checkers: Vec::new(),
            failure: None,
            frozen: Duration::ZERO,
            steps: 0,
            plan,
            frozen_until: Instant::ZERO,
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

    /// An executor in a world where nothing goes wrong by itself and no member is of interest:
    /// servers are brought by whoever [listens](SimRuntime::listen).
    pub fn quiet(seed: u64) -> Result<Self, Failure> {
        let alone = Address::tcp(&setup::host(0), setup::PORT);
        Self::around(seed, DeploymentOptions::standalone(alone))
    }

    /// An executor in a world around this deployment, where nothing goes wrong unless somebody
    /// [strikes](SimRuntime::strike). Members are found at the addresses that
    /// [`member_addresses`](super::member_addresses) gives.
    pub fn around(seed: u64, deployment: DeploymentOptions) -> Result<Self, Failure> {
        let mut options = WorldOptions::drawn(seed).calm();
        options.min_latency = QUIET_LATENCY.0;
        options.max_latency = QUIET_LATENCY.1;
        options.max_steps = u64::MAX;
        let seed = world_seed(seed);
        let deployment = Deployment::new(deployment, &seed.split("deployment"))
            .map_err(|error| setup::impossible(&error))?;
        let network = Network::new(deployment, &options, &seed);
        let random = seed.split("world").random();
        Ok(Self::new(network, VecDeque::new(), &options, random))
    }

    /// The runtime for a client of this number.
    #[must_use]
    pub fn runtime(&self, client: usize) -> SimRuntime {
        SimRuntime {
            shared: self.shared.clone(),
            client,
        }
    }

    /// Runs a future to its end, together with everything that is spawned meanwhile; fails if it
    /// gets stuck, runs in circles, or has not ended at `limit`.
    pub fn run<T>(&self, limit: Instant, main: impl Future<Output = T>) -> Result<T, Failure> {
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
        }
    }

    fn count_step(&self) -> Result<(), Failure> {
        let mut state = self.shared.lock();
        state.steps += 1;
        if let Some(failure) = state.failure.clone() {
            return Err(failure);
        }
        if state.steps > state.max_steps {
            let message = format!("{} steps, and no end", state.steps);
            return Err(Failure::new(FailureKind::Crash, state.now, message));
        }
        Ok(())
    }

    /// Goes on to what happens next, as nobody can go on by now.
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

    /// What befell this world so far, in one number.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.shared.lock().trace.digest()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Tasks hold the runtime, and the runtime the tasks.
        let tasks = std::mem::take(&mut *lock(&self.shared.tasks));
        drop(tasks);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
