//! A simulated deployment with clients and an operator. The operator sends commands to single
//! members and causes disasters.

use crate::event_log::EventLog;
use bson::{Document, doc};
use onionskin::{Client, Collection, Error, Runtime};
use onionskin_core::{
    client::Counts, event::Event, options::ClientOptions, random::Seed, time::Instant,
    unstable::hello::Environment, uri,
};
use onionskin_deployment::deployment::{DeploymentOptions, Shape, User};
use onionskin_tests::compressors::with_compressors;
use onionskin_worlds::world::{
    SimRuntime,
    plan::Disaster,
    runtime::{Executor, balancer_address, member_addresses},
};
use std::{
    env,
    future::{Future, poll_fn},
    ops::RangeInclusive,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

/// The environment variable that selects a single seed.
const SEED: &str = "ONIONSKIN_SEED";

/// The seeds of each test, unless the environment variable selects one.
const SEEDS: RangeInclusive<u64> = 1..=4;

/// The longest virtual time of a test.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The longest virtual time to wait for a condition, unless a test sets another one.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name and the password of the user, for deployments that require authentication.
const USER: (&str, &str) = ("user", "sesame");

/// The index of the simulated runtime of the watched clients.
const WATCHED: usize = 0;
/// The index of the simulated runtime of the operator's clients.
const OPERATOR: usize = 1;

/// Returns the options of a deployment with one standalone.
pub(crate) fn standalone() -> DeploymentOptions {
    let address = member_addresses(1).remove(0);
    DeploymentOptions::standalone(address)
}

/// Returns the options of a replica set of three members. The first member starts as primary.
pub(crate) fn replica_set() -> DeploymentOptions {
    replica_set_of(3)
}

/// Returns the options of a replica set with this number of members. The first member starts as
/// primary.
pub(crate) fn replica_set_of(members: usize) -> DeploymentOptions {
    let mut options = DeploymentOptions::replica_set("rs", member_addresses(members));
    options.network.min_latency = Duration::from_micros(50);
    options.network.max_latency = Duration::from_micros(500);
    options
}

/// Returns the options of a sharded cluster with two routers.
pub(crate) fn sharded() -> DeploymentOptions {
    sharded_of(2)
}

/// Returns the options of a sharded cluster with this number of routers.
pub(crate) fn sharded_of(routers: usize) -> DeploymentOptions {
    DeploymentOptions::sharded(member_addresses(routers))
}

/// Returns the options of two services behind a load balancer.
pub(crate) fn balanced() -> DeploymentOptions {
    DeploymentOptions::load_balanced(balancer_address(), member_addresses(2))
}

/// Returns the options of one service behind a load balancer, for `useMultipleMongoses: false` of
/// official tests.
pub(crate) fn balanced_alone() -> DeploymentOptions {
    DeploymentOptions::load_balanced(balancer_address(), member_addresses(1))
}

/// Returns the options with a user added, so that the servers require authentication.
pub(crate) fn authenticated(mut options: DeploymentOptions) -> DeploymentOptions {
    options.users = vec![User::new(USER.0, USER.1)];
    options
}

/// Returns the deployments for official tests that run with `single`, `replicaset` and `sharded`,
/// each with one server.
pub(crate) fn any_topology() -> [DeploymentOptions; 3] {
    [standalone(), replica_set_of(1), sharded_alone()]
}

/// Returns the options of a sharded cluster with one router, for `useMultipleMongoses: false` of
/// official tests.
pub(crate) fn sharded_alone() -> DeploymentOptions {
    DeploymentOptions::sharded(member_addresses(1))
}

/// Runs a test with each of these deployments and each seed.
pub(crate) fn play<F: Future<Output = ()>>(
    deployments: impl IntoIterator<Item = DeploymentOptions>,
    act: impl Fn(Scene) -> F,
) {
    play_seeds(deployments, SEEDS, act);
}

/// Runs a test with each of these deployments and one seed. For tests that need so many operations
/// or bytes that more seeds would take seconds.
pub(crate) fn play_with_one_seed<F: Future<Output = ()>>(
    deployments: impl IntoIterator<Item = DeploymentOptions>,
    act: impl Fn(Scene) -> F,
) {
    play_seeds(deployments, 1..=1, act);
}

fn play_seeds<F: Future<Output = ()>>(
    deployments: impl IntoIterator<Item = DeploymentOptions>,
    seeds: RangeInclusive<u64>,
    act: impl Fn(Scene) -> F,
) {
    let chosen = env::var(SEED).ok();
    let seeds = chosen.map_or(seeds, |seed| {
        let seed = seed.parse().expect("a number");
        seed..=seed
    });
    for options in deployments {
        for seed in seeds.clone() {
            play_once(seed, options.clone(), &act);
        }
    }
}

/// Prints, if it is dropped in a panic, the command that runs the tests again with the same
/// seed.
pub(crate) struct Replay(pub(crate) u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed) = self;
            eprintln!("replay: {SEED}={seed} cargo test -p onionskin-tests --test monitoring");
        }
    }
}

fn play_once<F: Future<Output = ()>>(
    seed: u64,
    options: DeploymentOptions,
    act: &impl Fn(Scene) -> F,
) {
    let replay = Replay(seed);
    let executor = Executor::around(seed, options.clone()).expect("a world");
    let scene = Scene {
        runtime: executor.runtime(WATCHED),
        operator: executor.runtime(OPERATOR),
        options: Arc::new(options),
        seed,
        clients: Arc::default(),
    };
    if let Err(failure) = executor.run(Instant::ZERO + LIMIT, act(scene)) {
        panic!("seed {seed}: {failure}");
    }
    drop(replay);
}

/// A simulated deployment, with a runtime for the clients under test and one for the operator's
/// clients.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) runtime: SimRuntime,
    pub(crate) operator: SimRuntime,
    pub(crate) options: Arc<DeploymentOptions>,
    pub(crate) seed: u64,
    /// The number of watched clients so far. The number is part of each client's seed, so that the
    /// session ids of the clients differ.
    clients: Arc<AtomicU8>,
}

impl Scene {
    /// Creates a client of the whole deployment, with these options in its connection string.
    pub(crate) fn client(&self, options: &str) -> Watched {
        let mut hosts: Vec<String> = self
            .options
            .addresses
            .iter()
            .map(|a| a.to_string())
            .collect();
        let set = match &self.options.shape {
            Shape::ReplicaSet(set) => format!("replicaSet={}&", set.name),
            Shape::LoadBalanced { balancer } => {
                hosts = vec![balancer.to_string()];
                "loadBalanced=true&".to_owned()
            }
            Shape::Standalone | Shape::Sharded => String::new(),
        };
        self.client_of(&hosts.join(","), &format!("{set}{options}"))
    }

    /// Creates a client with these hosts as seeds, and with these options in its connection string.
    pub(crate) fn client_of(&self, hosts: &str, options: &str) -> Watched {
        self.client_with(hosts, options, |_| {})
    }

    /// Creates a client with these hosts as seeds. `tune` sets options that a connection string
    /// cannot have.
    pub(crate) fn client_with(
        &self,
        hosts: &str,
        options: &str,
        tune: impl FnOnce(&mut ClientOptions),
    ) -> Watched {
        let events = EventLog::default();
        let parsed = uri::parse(&self.uri(hosts, options)).expect("a connection string");
        let mut options = parsed.options;
        tune(&mut options);
        let mut seed = [self.seed as u8; 32];
        seed[31] = seed[31].wrapping_add(self.clients.fetch_add(1, Ordering::Relaxed));
        let client = Client::builder(self.runtime.clone(), options)
            .seed(Seed::new(seed))
            .environment(Environment::default())
            .event_listener(events.listener())
            .build()
            .expect("a client");
        Watched {
            client,
            events,
            runtime: self.runtime.clone(),
        }
    }

    /// Returns a connection string with these hosts, and with the user if there is one.
    pub(crate) fn uri(&self, hosts: &str, options: &str) -> String {
        let login = match self.options.users.as_slice() {
            [] => String::new(),
            _ => format!("{}:{}@", USER.0, USER.1),
        };
        with_compressors(&format!("mongodb://{login}{hosts}/?{options}")).into_owned()
    }

    /// Sends a command of the operator to one member, and returns the reply.
    pub(crate) async fn tell(&self, member: usize, command: Document) -> Document {
        let address = self.options.addresses[member].to_string();
        let uri = self.uri(&address, "directConnection=true");
        let client = Client::builder_from_uri(self.operator.clone(), &uri)
            .expect("a connection string")
            .environment(Environment::default())
            .build()
            .expect("a client");
        let admin = client.database("admin");
        let reply = admin.run_command(command).await.expect("a reply");
        drop(admin);
        client.shutdown().await;
        reply
    }

    /// Sets the fail point `failCommand` of one member.
    pub(crate) async fn fail(&self, member: usize, mode: impl Into<bson::Bson>, data: Document) {
        self.tell(
            member,
            doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data },
        )
        .await;
    }

    /// Switches off the fail point of one member.
    pub(crate) async fn clear_fail_point(&self, member: usize) {
        self.tell(
            member,
            doc! { "configureFailPoint": "failCommand", "mode": "off" },
        )
        .await;
    }

    /// Returns the index of the primary; 0 if clients cannot connect to a primary.
    pub(crate) fn primary(&self) -> usize {
        let primary = self.operator.inspect(|deployment| deployment.primary());
        let members = self.options.addresses.len();
        primary.filter(|primary| *primary < members).unwrap_or(0)
    }

    pub(crate) fn strike(&self, disaster: Disaster) {
        self.operator.strike(&disaster);
    }

    pub(crate) async fn pause(&self, millis: u64) {
        self.pause_for(Duration::from_millis(millis)).await;
    }

    pub(crate) async fn pause_for(&self, duration: Duration) {
        self.runtime.sleep(duration).await;
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.runtime.now()
    }

    /// Waits until the condition is true. Panics after [`PATIENCE`].
    pub(crate) async fn until(&self, what: &str, is_true: impl FnMut() -> bool) {
        self.until_within(PATIENCE, what, is_true).await;
    }

    pub(crate) async fn until_within(
        &self,
        patience: Duration,
        what: &str,
        mut is_true: impl FnMut() -> bool,
    ) {
        let limit = self.now() + patience;
        while !is_true() {
            assert!(
                self.now() < limit,
                "{what} does not come within {patience:?}"
            );
            self.pause(1).await;
        }
    }

    /// Runs a future as a task of the clients' runtime.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        let ended = Task(Arc::new(Mutex::new((None, None))));
        let ending = ended.clone();
        self.runtime.spawn(async move {
            let output = task.await;
            let mut ending = ending.0.lock().unwrap_or_else(PoisonError::into_inner);
            ending.0 = Some(output);
            if let Some(waker) = ending.1.take() {
                waker.wake();
            }
        });
        ended
    }

    /// Returns the output of a task, which must complete within [`PATIENCE`].
    pub(crate) async fn ended<T>(&self, what: &str, task: Task<T>) -> T {
        self.until(what, || task.is_over()).await;
        task.join().await
    }

    /// Runs a future for at most this time, and drops it then. Returns the output if it completed.
    pub(crate) async fn drop_after<F: Future>(
        &self,
        patience: Duration,
        future: impl IntoFuture<IntoFuture = F, Output = F::Output>,
    ) -> Option<F::Output> {
        let mut future = pin!(future.into_future());
        let mut sleep = pin!(self.runtime.sleep(patience));
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            sleep.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

/// The output of a task, and the waker of the future that joins the task.
pub(crate) struct Task<T>(Arc<Mutex<(Option<T>, Option<Waker>)>>);

impl<T> Clone for Task<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Task<T> {
    pub(crate) fn is_over(&self) -> bool {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ended.0.is_some()
    }

    pub(crate) async fn join(self) -> T {
        poll_fn(|context| {
            let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match ended.0.take() {
                Some(output) => Poll::Ready(output),
                None => {
                    ended.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// A client whose events are stored in an event log.
pub(crate) struct Watched {
    pub(crate) client: Client<SimRuntime>,
    pub(crate) events: EventLog,
    runtime: SimRuntime,
}

impl Watched {
    pub(crate) fn things(&self) -> Collection<SimRuntime, Document> {
        self.client.database("app").collection("things")
    }

    pub(crate) async fn insert(&self, id: i32) -> Result<(), Error> {
        self.things()
            .insert_one(doc! { "_id": id })
            .await
            .map(|_| ())
    }

    pub(crate) async fn insert_many(&self, ids: [i32; 2]) -> Result<(), Error> {
        let documents = ids.map(|id| doc! { "_id": id });
        self.things().insert_many(documents).await.map(|_| ())
    }

    pub(crate) async fn find(&self) -> Result<Option<Document>, Error> {
        self.things().find_one(doc! { "_id": 1 }).await
    }

    /// Waits until at least `count` events fulfil the condition. Panics after [`PATIENCE`].
    pub(crate) async fn wait_for(&self, count: usize, what: &str, is: impl Fn(&Event) -> bool) {
        let limit = self.runtime.now() + PATIENCE;
        while self.events.count(&is) < count {
            assert!(
                self.runtime.now() < limit,
                "{count} times {what} do not come: {:#?}",
                self.events.names()
            );
            self.runtime.sleep(Duration::from_millis(1)).await;
        }
    }

    /// Asserts that exactly `count` events fulfil the condition.
    pub(crate) fn assert_count(&self, count: usize, what: &str, is: impl Fn(&Event) -> bool) {
        let found = self.events.count(is);
        assert_eq!(found, count, "{what}: {:#?}", self.events.names());
    }

    /// Closes the client. Asserts that the client has no operations, connections and sockets left,
    /// that the servers have no connections, and that each heartbeat has ended.
    pub(crate) async fn end(self) {
        let Self {
            client,
            events,
            runtime,
        } = self;
        client.clone().shutdown().await;
        assert_eq!(client.counts(), Counts::default(), "{:#?}", events.names());
        runtime.sleep(Duration::from_secs(1)).await;
        assert_eq!(runtime.open_links(), 0, "{:#?}", events.names());
        let at_end = runtime.inspect(onionskin_deployment::deployment::Deployment::connections);
        assert_eq!(at_end, 0, "{:#?}", events.names());
        let (started, ended) = (
            events.count(crate::event_log::heartbeat_started),
            events.count(crate::event_log::heartbeat_succeeded)
                + events.count(crate::event_log::heartbeat_failed),
        );
        assert_eq!(started, ended, "heartbeats end: {:#?}", events.names());
    }
}
