//! A run with the async client: its callers, and the checks at its end.

use super::{
    Executor, SimRuntime, applications::Application, closing, group::Group, memory::MemoryWatch,
    polling::polled, resolver::SimResolver,
};
use crate::world::{
    check::{EventCheckers, ExpectChecker, check_calm, check_data, check_history},
    network::Network,
    options::{Way, Workload, WorldOptions, world_seed},
    plan::{Disaster, plan},
    report::{Failure, FailureKind, Report, Tally},
    setup,
    watch::{self, Watcher},
    workload::{
        BROWSED, BROWSED_AT_ONCE, BROWSED_PARTS, COLLECTION, DATABASE, Ending, Entry, LATE_STEPS,
        OperationKind, SLACK, Script, Step, document, mark,
    },
};
use bson::{Document, doc};
use onionskin::{Client, Collection, Runtime, options::WriteConcern};
use onionskin_core::{
    client::Counts, error::ErrorKind, random::Seed, time::Instant, unstable::hello::Environment,
};
use std::{
    future::{Future, IntoFuture},
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};

/// Runs the world of a seed with the async client, and returns the report. Fails if the world
/// cannot be created.
pub fn run_world(seed: u64, options: WorldOptions) -> Result<Report, Failure> {
    Ok(World::new(seed, &options)?.run(seed, options))
}

/// Runs the world as [`run_world`] does, and shows each step to a watcher. `None` if the watcher
/// has ended the run.
pub(in crate::world) fn run_watched(
    seed: u64,
    options: WorldOptions,
    watcher: &mut dyn Watcher,
) -> Result<Option<Report>, Failure> {
    let world = World::create(seed, &options, true)?;
    let shared = &world.executor.shared;
    let mut show = |is_last: bool| {
        let (at, lines, operations) = {
            let mut state = shared.lock();
            (state.now, state.trace.take_new(), state.trace.operations())
        };
        if lines.is_empty() && !is_last {
            return ControlFlow::Continue(());
        }
        watcher.look(&watch::Step {
            at,
            lines: &lines,
            is_last,
            operations,
            state: &|| world.describe(),
            member_state: &|member| shared.lock().network.deployment().state(member),
        })
    };
    let mut is_left = false;
    let result = world.run_main(&options, &mut || {
        let flow = show(false);
        is_left = flow.is_break();
        flow
    });
    if is_left || show(true).is_break() {
        // The clients spawn tasks when they are dropped, so the executor has to be there.
        let World {
            clients, executor, ..
        } = world;
        drop(clients);
        drop(executor);
        return Ok(None);
    }
    Ok(Some(world.into_report(seed, options, result)))
}

/// The clients of a run, and the executor on which they run.
struct World {
    executor: Executor,
    clients: Vec<Client<SimRuntime>>,
    /// The clients that are closed during the run, with the times at which they are closed.
    closings: Vec<(Instant, usize)>,
    expected: ExpectChecker,
    seed: Seed,
    options: WorldOptions,
}

impl World {
    fn new(seed: u64, options: &WorldOptions) -> Result<Self, Failure> {
        Self::create(seed, options, false)
    }

    /// Creates the world. `is_watched` collects the lines of its trace for a watcher.
    fn create(seed: u64, options: &WorldOptions, is_watched: bool) -> Result<Self, Failure> {
        setup::check_workload(Way::Runtime, options)?;
        let split = world_seed(seed);
        let deployment = setup::deployment(options, &split)?;
        let plan = plan(options, &mut split.split("plan").random());
        let network = Network::new(deployment, options, &plan, &split);
        let closings = plan.iter().filter_map(|(at, disaster)| match disaster {
            Disaster::CloseClient(client) => Some((*at, *client)),
            _ => None,
        });
        let closings = closings.collect();
        let expected = ExpectChecker::new(options, &plan);
        let executor = Executor::new(network, plan, options, split.split("world").random());
        if options.keep_picture {
            executor.keep_picture();
        }
        if is_watched {
            executor.shared.lock().trace.collect_new();
        }
        let mut clients = Vec::new();
        for client in 0..options.clients {
            let mut parsed = setup::client_options(&setup::uri(options, client))?;
            executor.shared.lock().network.panics.install(&mut parsed);
            let checkers = EventCheckers::new(&parsed);
            executor.shared.lock().checkers.push(checkers);
            let shared = executor.shared.clone();
            let built = Client::builder(executor.runtime(client), parsed)
                .seed(split.split(&format!("client {client}")))
                .environment(Environment::default())
                .resolver(SimResolver(executor.runtime(client)))
                .event_listener(Arc::new(move |event| shared.lock().observe(client, event)))
                .build();
            clients.push(built.map_err(|error| setup::impossible(&error))?);
        }
        Ok(Self {
            executor,
            clients,
            closings,
            expected,
            seed: split,
            options: options.clone(),
        })
    }

    fn run(self, seed: u64, options: WorldOptions) -> Report {
        let result = self.run_main(&options, &mut || ControlFlow::Continue(()));
        self.into_report(seed, options, result)
    }

    /// Runs all callers to their end. `look` is called after each step; its `Break` ends the run
    /// with a failure.
    fn run_main(
        &self,
        options: &WorldOptions,
        look: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let late_from = Instant::ZERO + options.safety + options.grace;
        let limit = late_from + Duration::from_secs(600);
        let main = self.main(late_from);
        let mut memory = MemoryWatch::new(options, &self.clients);
        let mut look = || {
            memory.check(&self.executor, &self.clients);
            look()
        };
        self.executor.run_watched(limit, main, &mut look)?
    }

    /// Describes the servers, and what each client knows and holds.
    fn describe(&self) -> String {
        let mut text = watch::servers(&self.executor.shared.lock().network);
        for (number, client) in self.clients.iter().enumerate() {
            text += &watch::client(number, &client.topology(), &client.counts());
        }
        text
    }

    fn into_report(self, seed: u64, options: WorldOptions, result: Result<(), Failure>) -> Report {
        let failure = result.and_then(|()| self.check_end()).err();
        drop(self.clients);
        let mut state = self.executor.shared.lock();
        let mut trace = std::mem::replace(&mut state.trace, crate::world::trace::Trace::new(false));
        let report = Report {
            seed,
            way: Way::Runtime,
            simulated: state.now.since_start(),
            steps: state.steps,
            tally: Tally::of(&state.history) + state.applications.tally,
            void_events: state.network.take_void_events(),
            digest: trace.digest(),
            picture: trace.take_picture(state.now),
            trace: trace.into_text(),
            failure,
            options,
            achieved: state.applications.achieved(),
            lists: std::mem::take(&mut state.applications.lists),
        };
        drop(state);
        report
    }

    /// Runs all callers, and then closes all clients.
    fn main(&self, late_from: Instant) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let runtime = self.executor.runtime(0);
        let clients = self.clients.clone();
        let group = Group::default();
        let heals = Instant::ZERO + self.options.safety;
        let has_bulk_write = setup::has_bulk_write(&self.options, &self.seed);
        let has_shards = self.options.has_routers() && self.options.shards > 1;
        let mut events = self.options.schedule.iter().flatten();
        let streams_end = events.any(|scheduled| scheduled.event == Disaster::EndStreams);
        for (number, client) in clients.iter().enumerate() {
            for task in 0..self.options.tasks_of(number) {
                match self.options.workload {
                    Workload::Marks => {
                        let script = Script::new(&self.options, &self.seed, number, task);
                        let caller = Caller {
                            number,
                            runtime: self.executor.runtime(number),
                            client: client.clone(),
                            script,
                            heals,
                            late_from,
                            closes: self.closing_of(number),
                        };
                        group.spawn(&runtime, caller.run());
                    }
                    Workload::Applications => {
                        let split = self.seed.split(&format!("application {number} {task}"));
                        let caller = Application {
                            number,
                            runtime: self.executor.runtime(number),
                            client: client.clone(),
                            rates: self.options.rates,
                            random: split.random(),
                            absences: split.split("absences").random(),
                            heals,
                            late_from,
                            closes: self.closing_of(number),
                            late_steps: 0,
                            has_bulk_write,
                            has_shards,
                            streams_end,
                        };
                        group.spawn(&runtime, caller.run(task));
                    }
                }
            }
        }
        for &(at, number) in &self.closings {
            let client = clients[number].clone();
            let sleep = runtime.sleep_until(at);
            group.spawn(&runtime, async move {
                sleep.await;
                client.shutdown().await;
            });
        }
        let longest = closing::longest(&self.options);
        async move {
            group.wait().await;
            // The run lasts until the time of grace is over, even if all clients are closed.
            runtime.sleep_until(late_from).await;
            closing::shut_down(&runtime, &clients, longest).await?;
            // The end of a connection needs some time to reach its member.
            runtime.sleep(Duration::from_secs(1)).await;
            Ok(())
        }
    }

    fn closing_of(&self, number: usize) -> Option<Instant> {
        let of_it = self.closings.iter().filter(|(_, client)| *client == number);
        of_it.map(|(at, _)| *at).min()
    }

    fn check_end(&self) -> Result<(), Failure> {
        let mut state = self.executor.shared.lock();
        let state = &mut *state;
        let now = state.now;
        let fail = |message: String| Err(Failure::new(FailureKind::Correctness, now, message));
        let late_from = Instant::ZERO + self.options.safety + self.options.grace;
        let frozen = state.paused(Instant::ZERO, late_from);
        for (number, client) in self.clients.iter().enumerate() {
            let counts = client.counts();
            if counts != Counts::default() {
                return fail(format!("client {number} keeps {counts:?}"));
            }
            let mut checked = state.checkers[number].finish();
            let known = state
                .network
                .known(&self.options, number, late_from, frozen);
            if let Some(known) = known {
                let servers = state.checkers[number].check_servers(&known, late_from);
                checked = checked.and(servers);
            }
            if let Err(what) = checked {
                return fail(format!("client {number}: {what}"));
            }
        }
        let (links, connections) = (
            state.network.open_links(),
            state.network.deployment().connections(),
        );
        if links != 0 || connections != 0 {
            return fail(format!(
                "{links} links and {connections} connections are left"
            ));
        }
        let aftermath = |client| self.options.aftermath(client);
        let slack = |entry: &Entry, at| state.paused(entry.began, at) + SLACK;
        let browses_primary = |client| setup::reads_primary(&self.options, client);
        check_history(&state.history, slack, aftermath, browses_primary)?;
        if self.options.is_calm() {
            check_calm(&state.history)?;
        }
        let deployment = state.network.deployment();
        check_data(now, &state.history, deployment)?;
        state.applications.check(now, deployment)?;
        let tally = Tally::of(&state.history) + state.applications.tally;
        self.expected.check(now, tally, &state.history)
    }
}

/// Reads the documents of an [`OperationKind::Browse`] through a cursor.
async fn browse(
    collection: &Collection<SimRuntime, Document>,
    step: Step,
) -> Result<Vec<Document>, onionskin::Error> {
    let range = doc! { "_id": { "$gt": step.id - BROWSED, "$lte": step.id } };
    let cursor = collection
        .find(range)
        .sort(doc! { "_id": -1 })
        .batch_size(BROWSED_AT_ONCE)
        .timeout(step.timeout / BROWSED_PARTS);
    cursor.await?.into_vec().await
}

/// A caller, which runs one operation after the other.
struct Caller {
    number: usize,
    runtime: SimRuntime,
    client: Client<SimRuntime>,
    script: Script,
    heals: Instant,
    late_from: Instant,
    /// The time at which a disaster closes the client, or `None`.
    closes: Option<Instant>,
}

impl Caller {
    async fn run(mut self) {
        let mut late_steps = 0;
        while late_steps < LATE_STEPS {
            let now = self.now();
            let mut at = now + self.script.pause(now >= self.late_from);
            // No operation begins between healing and the end of the time of grace.
            if at >= self.heals {
                at = at.max(self.late_from);
            }
            self.runtime.sleep_until(at).await;
            let is_late = self.now() >= self.late_from;
            late_steps += u32::from(is_late);
            let step = self.script.step(is_late);
            let began = self.now();
            let place = {
                let mut state = self.runtime.shared.lock();
                state.history.begin(self.number, step, began, is_late)
            };
            let ending = self.perform(step).await;
            let is_closed = matches!(
                &ending,
                Ending::Failed(error) if matches!(error.kind(), ErrorKind::Shutdown)
            );
            let mut state = self.runtime.shared.lock();
            let now = state.now;
            state.trace.note(
                now,
                format_args!("client {} ends {:?}: {ending:?}", self.number, step.id),
            );
            if is_closed {
                if self.closes.is_none_or(|at| at > now) {
                    let message = format!(
                        "client {} failed an operation with Shutdown before it was closed",
                        self.number
                    );
                    state.fail(FailureKind::Correctness, message);
                }
                state.history.end(place, now, Ending::Abandoned);
                return;
            }
            state.history.end(place, now, ending);
        }
    }

    fn now(&self) -> Instant {
        self.runtime.shared.lock().now
    }

    async fn perform(&self, step: Step) -> Ending {
        let collection = self
            .client
            .database(DATABASE)
            .collection::<Document>(COLLECTION);
        let filter = doc! { "_id": step.id };
        let acknowledged = |result: Result<(), onionskin::Error>| match result {
            Ok(()) => Ending::Acknowledged,
            Err(error) => Ending::Failed(error),
        };
        match step.kind {
            OperationKind::Insert => {
                let Ok(document) = Document::try_from(document(step.id)) else {
                    return Ending::Abandoned;
                };
                let insert = collection
                    .insert_one(document)
                    .write_concern(WriteConcern::majority())
                    .timeout(step.timeout);
                let result = self.polled(step, insert.into_future()).await;
                result.map_or(Ending::Abandoned, |r| acknowledged(r.map(|_| ())))
            }
            OperationKind::Increment => {
                let update = collection
                    .update_one(filter, doc! { "$inc": { "n": 1 } })
                    .write_concern(WriteConcern::majority())
                    .timeout(step.timeout);
                let result = self.polled(step, update.into_future()).await;
                result.map_or(Ending::Abandoned, |r| acknowledged(r.map(|_| ())))
            }
            OperationKind::Find | OperationKind::FindNearby => {
                let of_client = self.client.selection_criteria();
                let of_client = of_client.map(|criteria| criteria.read_preference().clone());
                let mut find = collection.find_one(filter).timeout(step.timeout);
                if let Some(own) = step.preference(&of_client.unwrap_or_default()) {
                    find = find.read_preference(own);
                }
                match self.polled(step, find.into_future()).await {
                    None => Ending::Abandoned,
                    Some(Ok(found)) => Ending::Found(found),
                    Some(Err(error)) => Ending::Failed(error),
                }
            }
            OperationKind::Browse => {
                let browse = browse(&collection, step);
                match self.polled(step, browse).await {
                    None => Ending::Abandoned,
                    Some(Err(error)) => Ending::Failed(error),
                    Some(Ok(found)) => Ending::Found(self.own_of(step, found)),
                }
            }
        }
    }

    /// Awaits an operation. Returns `None` if the caller abandons the operation.
    async fn polled<F: Future>(&self, step: Step, operation: F) -> Option<F::Output> {
        polled(&self.runtime, step.polling, self.heals, operation).await
    }

    /// Returns the document of the step from the documents that a cursor returned. The run fails if
    /// a document is not the caller's own, occurs twice or is out of order.
    fn own_of(&self, step: Step, found: Vec<Document>) -> Option<Document> {
        let ids: Vec<i64> = found.iter().filter_map(|d| d.get_i64("_id").ok()).collect();
        let is_own = |id: &i64| (step.id - BROWSED + 1..=step.id).contains(id);
        let is_marked = |d: &Document, id: i64| d.get_str("mark").is_ok_and(|m| m == mark(id));
        let are_right = ids.len() == found.len()
            && ids.iter().all(is_own)
            && ids.is_sorted_by(|a, b| a > b)
            && found.iter().zip(&ids).all(|(d, id)| is_marked(d, *id));
        if !are_right {
            let message = format!("client {} browsed {found:?} up to {}", self.number, step.id);
            let mut state = self.runtime.shared.lock();
            state.fail(FailureKind::Correctness, message);
        }
        let is_last = |d: &Document| d.get_i64("_id").ok() == Some(step.id);
        found.into_iter().find(is_last)
    }
}
