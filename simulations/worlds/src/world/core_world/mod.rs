//! The core alone with a simulated deployment, in one thread and in virtual time.
//!
//! The world takes the place of an adapter: it carries out the actions of several clients, runs
//! their operations, and checks the contract of the core at every step.

mod actions;
mod exchange;
mod tasks;

use super::{
    check::{EventCheckers, ExpectChecker, MemoryChecker, check_calm, check_data, check_history},
    freezes::Freezes,
    network::{Incoming, LinkId, Network},
    options::{Way, WorldOptions, index, world_seed},
    plan::{Disaster, plan},
    report::{Failure, FailureKind, Report, Tally},
    runtime::{Achieved, ListHistory},
    scenario::Span,
    setup,
    trace::Trace,
    watch::{self, Step, Watcher},
    workload::{Entry, History, SLACK},
};
use onionskin_core::{
    client::{Action, Client, ClientConfig, Counts},
    event::Subscriptions,
    options::ReadPreference,
    random::Random,
    time::{Instant, earliest},
    unstable::connection::SocketId,
};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::ControlFlow,
    time::Duration,
};
use tasks::{Task, Wakeup};

/// The time limit for ending the sessions of all clients. The close of all connections has the same
/// limit.
const CLOSING_LIMIT: Duration = Duration::from_secs(30);

/// The number of steps between two checks of what the clients keep.
const MEMORY_STEPS: u64 = 256;

/// The most operations of a client in the background at once, such as those that end sessions.
const BACKGROUND: usize = 20;

/// A world around the core. See the [module](self).
#[derive(Debug)]
pub struct CoreWorld {
    seed: u64,
    options: WorldOptions,
    now: Instant,
    network: Network,
    sides: Vec<Side>,
    plan: VecDeque<(Instant, Disaster)>,
    schedule: BTreeMap<(Instant, u64), (usize, Wakeup)>,
    scheduled: u64,
    history: History,
    trace: Trace,
    random: Random,
    steps: u64,
    /// The time from which new operations must succeed.
    late_from: Instant,
    failure: Option<Failure>,
    /// True if the run has no faults and no disasters.
    is_calm: bool,
    expected: ExpectChecker,
}

/// One client with its sockets and callers.
#[derive(Debug)]
struct Side {
    core: Client,
    /// The read preference of the client's options.
    preference: ReadPreference,
    sockets: BTreeMap<SocketId, Socket>,
    links: BTreeMap<LinkId, SocketId>,
    tasks: Vec<Task>,
    actions: VecDeque<Action>,
    checkers: EventCheckers,
    memory: MemoryChecker,
    freezes: Freezes,
    /// The events that arrived while the client was frozen.
    inbox: VecDeque<(LinkId, Incoming)>,
    is_closed: bool,
}

#[derive(Debug)]
struct Socket {
    link: Option<LinkId>,
    holder: Holder,
    /// True if the exchange that has the socket was interrupted.
    is_interrupted: bool,
    /// The events that arrived and are not handled yet.
    inbox: VecDeque<Incoming>,
    /// The bytes of the core for which the connection has no room yet.
    outbox: VecDeque<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Core,
    Nobody,
    Task(usize),
}

impl CoreWorld {
    /// Creates the world of a seed.
    pub fn new(seed: u64, options: WorldOptions) -> Result<Self, Failure> {
        setup::check_workload(Way::Core, &options)?;
        let split = world_seed(seed);
        let deployment = setup::deployment(&options, &split)?;
        let plan = plan(&options, &mut split.split("plan").random());
        let network = Network::new(deployment, &options, &plan, &split);
        let late_from = Instant::ZERO + options.safety + options.grace;
        let mut sides = Vec::new();
        for client in 0..options.clients {
            let mut parsed = setup::client_options(&setup::uri(&options, client))?;
            network.panics.install(&mut parsed);
            let checkers = EventCheckers::new(&parsed);
            let operations = options.tasks_of(client) + BACKGROUND;
            let memory = MemoryChecker::new(&parsed, options.members, operations);
            let preference = parsed.read_preference().clone();
            let config = ClientConfig::new(parsed, split.split(&format!("client {client}")))
                .map_err(|error| setup::impossible(&error))?;
            sides.push(Side {
                core: Client::new(config.with_subscriptions(Subscriptions::all())),
                preference,
                sockets: BTreeMap::new(),
                links: BTreeMap::new(),
                tasks: (0..options.tasks_of(client))
                    .map(|task| Task::new(&options, &split, client, task))
                    .collect(),
                actions: VecDeque::new(),
                checkers,
                memory,
                freezes: Freezes::default(),
                inbox: VecDeque::new(),
                is_closed: false,
            });
        }
        Ok(Self {
            seed,
            now: Instant::ZERO,
            network,
            sides,
            expected: ExpectChecker::new(&options, &plan),
            plan,
            schedule: BTreeMap::new(),
            scheduled: 0,
            history: History::default(),
            trace: Trace::new(options.keep_trace),
            random: split.split("world").random(),
            steps: 0,
            late_from,
            failure: None,
            is_calm: options.is_calm(),
            options,
        })
    }

    /// Runs the world to its end, and returns the report.
    #[must_use]
    pub fn run(mut self) -> Report {
        // Nothing ends the run early.
        let _ = self.run_phases(&mut |_, _| ControlFlow::Continue(()));
        self.into_report()
    }

    /// Runs the world and shows each step to a watcher. `None` if the watcher has ended the run.
    pub(super) fn run_watched(mut self, watcher: &mut dyn Watcher) -> Option<Report> {
        self.trace.collect_new();
        let ended = self.run_phases(&mut |world, is_last| {
            let lines = world.trace.take_new();
            if lines.is_empty() && !is_last {
                return ControlFlow::Continue(());
            }
            watcher.look(&Step {
                at: world.now,
                lines: &lines,
                is_last,
                operations: world.trace.operations(),
                state: &|| world.describe(),
                member_state: &|member| world.network.deployment().state(member),
            })
        });
        ended.is_continue().then(|| self.into_report())
    }

    /// Runs the phases of the world. `look` is called after each step, with `false`, and at the
    /// end, with `true`; its `Break` ends the run.
    fn run_phases(
        &mut self,
        look: &mut impl FnMut(&mut Self, bool) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.options.keep_picture {
            self.trace.keep_picture();
            self.network.show(self.now, &mut self.trace);
        }
        for client in 0..self.sides.len() {
            let now = self.now;
            self.sides[client].core.open(now);
            self.drain(client);
            for task in 0..self.sides[client].tasks.len() {
                self.plan_next(client, task);
            }
        }
        let limit = self.late_from + Duration::from_secs(600);
        self.step_until(limit, "its callers to come to an end", look, |world| {
            world
                .sides
                .iter()
                .all(|side| side.tasks.iter().all(Task::is_done))
        })?;
        for client in 0..self.sides.len() {
            self.end_sessions(client);
        }
        let limit = self.now + CLOSING_LIMIT;
        self.step_until(limit, "sessions to end", look, |world| {
            world
                .sides
                .iter()
                .all(|side| side.tasks.iter().all(Task::is_done))
        })?;
        for client in 0..self.sides.len() {
            self.close(client);
        }
        let limit = self.now + CLOSING_LIMIT;
        self.step_until(limit, "connections to be closed", look, |world| {
            world.network.open_links() == 0 && world.sides.iter().all(|s| s.sockets.is_empty())
        })?;
        if self.failure.is_none() {
            self.failure = self.check_end().err();
        }
        look(self, true)
    }

    fn into_report(mut self) -> Report {
        Report {
            seed: self.seed,
            way: Way::Core,
            simulated: self.now.since_start(),
            steps: self.steps,
            tally: Tally::of(&self.history),
            void_events: self.network.take_void_events(),
            digest: self.trace.digest(),
            picture: self.trace.take_picture(self.now),
            trace: self.trace.into_text(),
            failure: self.failure,
            options: self.options,
            lists: ListHistory::default(),
            achieved: Achieved::default(),
        }
    }

    fn step_until(
        &mut self,
        limit: Instant,
        wanted: &str,
        look: &mut impl FnMut(&mut Self, bool) -> ControlFlow<()>,
        is_there: impl Fn(&Self) -> bool,
    ) -> ControlFlow<()> {
        while self.failure.is_none() && !is_there(self) {
            self.steps += 1;
            let next = self.next();
            if self.steps > self.options.max_steps {
                let message = format!("the run has not ended after {} steps", self.steps);
                self.fail(FailureKind::Crash, message);
            } else if next.is_none_or(|next| next > limit) {
                let message = format!("timed out waiting for {wanted}: {}", self.state());
                self.fail(FailureKind::Liveness, message);
            } else {
                self.now = self.now.max(next.unwrap_or(self.now));
                self.step();
            }
            if self.steps.is_multiple_of(MEMORY_STEPS) {
                self.check_memory();
            }
            look(self, false)?;
        }
        ControlFlow::Continue(())
    }

    /// Returns the time of the next event.
    fn next(&self) -> Option<Instant> {
        let mut next = earliest(
            self.network.deadline(),
            self.plan.front().map(|(at, _)| *at),
        );
        next = earliest(
            next,
            self.schedule.first_key_value().map(|(&(at, _), _)| at),
        );
        for side in &self.sides {
            let mut own = side.core.deadline();
            if !side.inbox.is_empty() {
                own = earliest(own, Some(Instant::ZERO));
            }
            next = earliest(next, own.map(|at| at.max(side.freezes.until())));
        }
        next
    }

    /// Handles one event that is due. The order of events at the same time is: disasters, the
    /// network, the clients in turn, the scheduled events.
    fn step(&mut self) {
        let now = self.now;
        if self.plan.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, disaster)) = self.plan.pop_front() {
                self.strike(&disaster);
            }
            return;
        }
        if self.network.advance(now, &mut self.trace) {
            while let Some((link, client, incoming)) = self.network.poll_arrival() {
                if self.sides[client].freezes.until() > now {
                    self.sides[client].inbox.push_back((link, incoming));
                } else {
                    self.on_incoming(client, link, incoming);
                }
            }
            return self.write_again();
        }
        for client in 0..self.sides.len() {
            if self.step_client(client) {
                return;
            }
        }
        let first = self.schedule.first_key_value().map(|(&key, _)| key);
        if let Some((at, _)) = first
            && at <= now
            && let Some((_, (client, wakeup))) = self.schedule.pop_first()
        {
            if self.sides[client].freezes.until() > now {
                self.schedule(now, client, wakeup);
            } else {
                self.on_wakeup(client, wakeup);
            }
        }
    }

    /// Handles a client's timeout or one event that arrived while the client was frozen. Returns
    /// false if there was nothing to do or the client is frozen.
    fn step_client(&mut self, client: usize) -> bool {
        let now = self.now;
        let side = &mut self.sides[client];
        if side.freezes.until() > now {
            return false;
        }
        let is_due = side.core.deadline().is_some_and(|at| at <= now);
        let has_mail = !side.inbox.is_empty();
        if has_mail && (!is_due || self.random.chance(1, 2)) {
            if let Some((link, incoming)) = side.inbox.pop_front() {
                self.on_incoming(client, link, incoming);
            }
            return true;
        }
        if !is_due {
            return false;
        }
        self.trace
            .note(now, format_args!("client {client} timeout"));
        side.core.handle_timeout(now);
        let deadline = side.core.deadline();
        self.drain(client);
        if deadline.is_some_and(|at| at <= now) {
            let message = format!("client {client} wants to be called at {deadline:?} again");
            self.fail(FailureKind::Crash, message);
        }
        true
    }

    fn strike(&mut self, disaster: &Disaster) {
        let now = self.now;
        self.network.strike(now, disaster, &mut self.trace);
        self.write_again();
        match *disaster {
            Disaster::Freeze {
                client,
                pause: Span(pause),
            } => self.sides[client].freezes.add(now, pause),
            Disaster::CloseClient(client) => self.close(client),
            Disaster::Heal => self.options.rates = super::options::Rates::default(),
            _ => {}
        }
    }

    fn close(&mut self, client: usize) {
        let now = self.now;
        if !std::mem::replace(&mut self.sides[client].is_closed, true) {
            self.trace.note(now, format_args!("client {client} closes"));
        }
        // A client can be closed a second time, which must change nothing.
        self.sides[client].core.close(now);
        self.drain(client);
    }

    fn check_end(&self) -> Result<(), Failure> {
        let fail = |message: String| Err(Failure::new(FailureKind::Correctness, self.now, message));
        let late_from = self.late_from;
        for (client, side) in self.sides.iter().enumerate() {
            if side.core.counts() != Counts::default() || !side.core.is_terminated() {
                return fail(format!("client {client} keeps {:?}", side.core.counts()));
            }
            if let Some(deadline) = side.core.deadline() {
                return fail(format!(
                    "client {client} is closed and armed for {deadline}"
                ));
            }
            let mut checked = side.checkers.finish();
            let frozen = side.freezes.between(Instant::ZERO, late_from);
            let known = self.network.known(&self.options, client, late_from, frozen);
            if let Some(known) = known {
                checked = checked.and_then(|()| side.checkers.check_servers(&known, late_from));
            }
            if let Err(what) = checked {
                return fail(format!("client {client}: {what}"));
            }
        }
        if self.network.deployment().connections() != 0 {
            return fail("members keep connections".to_owned());
        }
        let slack = |entry: &Entry, at| {
            let freezes = &self.sides[entry.client].freezes;
            freezes.between(entry.began, at) + SLACK
        };
        let aftermath = |client| self.options.aftermath(client);
        let browses_primary = |client| setup::reads_primary(&self.options, client);
        check_history(&self.history, slack, aftermath, browses_primary)?;
        if self.is_calm {
            check_calm(&self.history)?;
        }
        check_data(self.now, &self.history, self.network.deployment())?;
        let tally = Tally::of(&self.history);
        self.expected.check(self.now, tally, &self.history)
    }

    fn check_memory(&mut self) {
        for client in 0..self.sides.len() {
            let Side { core, memory, .. } = &self.sides[client];
            let checked = memory.check(core.topology(), core.counts());
            if let Err(what) = checked.and_then(|()| memory.check_machines(&core.snapshot())) {
                self.fail(FailureKind::Correctness, format!("client {client}: {what}"));
            }
        }
    }

    fn fail(&mut self, kind: FailureKind, message: String) {
        let failure = Failure::new(kind, self.now, message);
        self.trace
            .note(self.now, format_args!("failure: {failure}"));
        self.failure.get_or_insert(failure);
    }

    fn schedule(&mut self, at: Instant, client: usize, wakeup: Wakeup) {
        self.scheduled += 1;
        let at = at.max(self.sides[client].freezes.until());
        self.schedule.insert((at, self.scheduled), (client, wakeup));
    }

    /// Draws the delay with which a caller or an adapter reacts. Most delays are zero.
    pub(super) fn draw_delay(&mut self) -> Duration {
        match self.random.below(4) {
            0 => Duration::from_micros(index(&mut self.random, 200) as u64),
            _ => Duration::ZERO,
        }
    }

    /// Describes the servers, and the machines of all clients.
    fn describe(&self) -> String {
        let mut text = watch::servers(&self.network);
        for (number, side) in self.sides.iter().enumerate() {
            text += &watch::client(number, side.core.topology(), &side.core.counts());
            for task in &side.tasks {
                text += &format!("  a caller {}\n", task.state());
            }
            text += &watch::machines(&side.core.snapshot());
        }
        text
    }

    /// Describes the state of all clients, for failure messages.
    fn state(&self) -> String {
        let mut text = format!("{} links open", self.network.open_links());
        for (client, side) in self.sides.iter().enumerate() {
            let tasks: Vec<String> = side.tasks.iter().map(Task::state).collect();
            text.push_str(&format!(
                "; client {client}: {:?}, sockets {:?}, tasks {tasks:?}, topology {}",
                side.core.counts(),
                side.sockets,
                side.core.topology(),
            ));
        }
        text
    }
}
