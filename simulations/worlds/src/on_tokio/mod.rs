//! Simulated deployments in virtual time under programs that use tokio.
//!
//! A program that was written against `onionskin_tokio::Client`, with its own tasks, timers and
//! `select!`, runs unchanged: its clients connect to a simulated deployment through a simulated
//! network, and both follow the paused clock of tokio, which advances when no task can run.
//!
//! ```
//! use onionskin_worlds::on_tokio::{TokioWorld, seeds};
//! use onionskin_tokio::{Client, bson::{Document, doc}};
//!
//! async fn place_order(client: &Client, number: i32) -> onionskin_tokio::Result<()> {
//!     let orders = client.database("shop").collection::<Document>("orders");
//!     orders.insert_one(doc! { "_id": number }).await?;
//!     Ok(())
//! }
//!
//! seeds("cargo test orders_survive", 0..3, |seed| async move {
//!     let world = TokioWorld::replica_set(seed, 3);
//!     let client = Client::with_uri_str(world.uri()).await.unwrap();
//!     let order = tokio::spawn(async move { place_order(&client, 1).await });
//!     world.step_down();
//!     order.await.unwrap().unwrap();
//! });
//! ```
//!
//! # What repeats
//!
//! The same seed gives the same run, if the program decides by nothing else. Tokio's `select!`
//! draws the order of its branches unless it is `biased`, hash maps of the standard library have an
//! order of their own in each process, and other threads and real sockets do not follow virtual
//! time. [`TokioWorld::digest`] tells whether two runs were the same. Tokio's timers have a
//! resolution of one millisecond, so that a program does nothing between two milliseconds.

#[cfg(test)]
mod clocks;
mod machine;
mod seeds;
#[cfg(test)]
mod tests;
mod upkeep;

pub use seeds::{Outcome, SEED, seeds};

use crate::world::{
    options::Rates,
    picture::Heading,
    plan::Disaster,
    report::{Failure, FailureKind},
    runtime::{Executor, SimRuntime, balancer_address, member_addresses},
};
use machine::{Shared, SimMachine};
use onionskin_deployment::deployment::{Deployment, DeploymentOptions, Shape};
use onionskin_tokio::machine::{Entered, Machine, enter};
use std::{
    env, fs,
    path::{self, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// The environment variable that names a file, from the directory of the test's package. Each
/// [`TokioWorld`] writes a page of HTML to it when it is dropped, which shows the run: members,
/// clients, connections, operations and events. The page of the last run of the process remains, or
/// that of the last run that has panicked.
pub const REPORT: &str = "ONIONSKIN_REPORT";

/// The name of a replica set.
const SET_NAME: &str = "rs0";

/// How long bytes are under way between clients and servers, and between servers, at least and at
/// most. Tokio's timers have a resolution of one millisecond, so with shorter times a command would
/// never be under way when something happens.
const LATENCY: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(4));

/// A simulated deployment, and the network between it and the clients of a program on tokio.
///
/// Clients that the same thread creates while this value lives connect to it, or to the world that
/// the thread has made last. Dropping the world ends all servers that clients reach, so that the
/// connections of clients break.
///
/// Time is virtual if the clock of tokio is paused: in [`seeds`], and with
/// `#[tokio::test(start_paused = true)]`. Otherwise everything takes as long as in reality.
///
/// Methods that take the place of a member, from 0, panic if there is no such member.
#[derive(Debug)]
pub struct TokioWorld {
    shared: Arc<Shared>,
    machine: Arc<SimMachine>,
    uri: String,
    /// The file to which the page of the run is written at the end.
    report: Option<PathBuf>,
    seed: u64,
    /// Dropped with the world, so that later clients run on the real machine.
    _entered: Entered,
}

impl TokioWorld {
    /// Creates a standalone server.
    ///
    /// # Panics
    ///
    /// Like [`new`](Self::new).
    #[must_use]
    pub fn standalone(seed: u64) -> Self {
        let address = member_addresses(1).remove(0);
        Self::new(seed, DeploymentOptions::standalone(address))
    }

    /// Creates a replica set named `rs0` of equal members, the first of which is primary.
    ///
    /// # Panics
    ///
    /// Like [`new`](Self::new), and if there are no members or more than seven.
    #[must_use]
    pub fn replica_set(seed: u64, members: usize) -> Self {
        let options = DeploymentOptions::replica_set(SET_NAME, member_addresses(members));
        Self::new(seed, options)
    }

    /// Creates a sharded cluster with this number of routers, in front of one shard.
    ///
    /// # Panics
    ///
    /// Like [`new`](Self::new), and if there are no routers or more than fifty.
    #[must_use]
    pub fn sharded(seed: u64, routers: usize) -> Self {
        Self::new(seed, DeploymentOptions::sharded(member_addresses(routers)))
    }

    /// Creates services behind a load balancer, in front of one shard.
    ///
    /// # Panics
    ///
    /// Like [`new`](Self::new), and if there are no services or more than fifty.
    #[must_use]
    pub fn load_balanced(seed: u64, services: usize) -> Self {
        let services = member_addresses(services);
        let options = DeploymentOptions::load_balanced(balancer_address(), services);
        Self::new(seed, options)
    }

    /// Creates a deployment with these options, whose addresses are
    /// [`member_addresses`] and
    /// [`balancer_address`]. If the options give no latency between the servers, messages between
    /// them take 0.2 ms to 4 ms, as those of clients do.
    ///
    /// # Panics
    ///
    /// If there is no current tokio runtime with timers, or if the options are not valid or have
    /// other addresses.
    #[must_use]
    pub fn new(seed: u64, mut options: DeploymentOptions) -> Self {
        // Panics in a runtime without timers, in which the driver would never run.
        drop(tokio::time::sleep(Duration::ZERO));
        assert_eq!(
            options.addresses,
            member_addresses(options.addresses.len()),
            "the addresses are not those of `member_addresses`"
        );
        if let Shape::LoadBalanced { balancer } = &options.shape {
            let own = balancer_address();
            assert_eq!(
                *balancer, own,
                "the address is not that of `balancer_address`"
            );
        }
        let network = &mut options.network;
        if network.min_latency.is_zero() && network.max_latency.is_zero() {
            (network.min_latency, network.max_latency) = LATENCY;
        }
        let uri = uri(&options);
        let executor = Executor::at_distance(seed, options, LATENCY).expect("valid options");
        let report = env::var_os(REPORT).map(PathBuf::from);
        if report.is_some() {
            executor.keep_picture();
        }
        let shared = Arc::new(Shared::new(executor));
        tokio::spawn(machine::driver(&shared));
        let machine = Arc::new(SimMachine::new(shared.clone()));
        let entered = enter(machine.clone());
        Self {
            shared,
            machine,
            uri,
            report,
            seed,
            _entered: entered,
        }
    }

    /// Returns the connection string of the deployment. A deployment with users has no user in it.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the machine of the clients, for those that another thread creates within the tokio
    /// runtime of this world: `Client::builder(TokioRuntime::on(machine), options)`.
    #[must_use]
    pub fn machine(&self) -> Arc<dyn Machine> {
        self.machine.clone()
    }

    /// Makes the primary of a replica set step down. The members elect another one, or the same one
    /// again. Returns false if there is no primary, or no replica set.
    pub fn step_down(&self) -> bool {
        let is_set =
            |deployment: &Deployment| matches!(deployment.options().shape, Shape::ReplicaSet(_));
        let is_led = self.runtime().inspect(is_set) && self.primary().is_some();
        self.strike(&Disaster::StepDown);
        is_led
    }

    /// Ends the process of a member. Writes that it has not replicated are rolled back later.
    pub fn kill(&self, member: usize) {
        self.strike(&Disaster::Kill(member));
    }

    /// Shuts a member down in an orderly way, which takes 15 s.
    pub fn shut_down(&self, member: usize) {
        self.strike(&Disaster::ShutDown(member));
    }

    /// Starts a member that was killed or shut down. The process of a member that still runs, or
    /// has not finished to shut down, ends first.
    pub fn restart(&self, member: usize) {
        self.kill(member);
        self.strike(&Disaster::Restart(member));
    }

    /// Closes all connections of clients to a member, which continues to run.
    pub fn disconnect(&self, member: usize) {
        self.strike(&Disaster::Disconnect(member));
    }

    /// Loses all messages between a member and the other members, but not those of clients.
    pub fn isolate(&self, member: usize) {
        self.strike(&Disaster::Isolate(member));
    }

    /// Loses all bytes between clients and a member from now on. Connections stay open.
    pub fn cut(&self, member: usize) {
        let cut = Disaster::CutClient {
            client: machine::CLIENT,
            member,
            up: true,
            down: true,
        };
        self.strike(&cut);
    }

    /// Starts all members and shards that have ended or are shutting down, lets frozen members run
    /// on, ends all isolations and cuts, limits of connections, overload, slowness and failing
    /// lookups, turns the fail points `failCommand` off, and sets all rates to zero. Wall clocks
    /// and the configuration of the set stay as they are.
    pub fn heal(&self) {
        self.strike(&Disaster::Heal);
    }

    /// Makes a disaster happen, for example one in one direction only. [`Disaster::CutClient`] and
    /// [`Disaster::DisconnectClient`] concern all clients of the program, which are the client 0.
    ///
    /// # Panics
    ///
    /// - For a member, a shard or a client that does not exist.
    /// - For a [`Disaster::Upgrade`] to an unknown release or without a replica set.
    /// - For a [`Disaster::InShard`] with an event that servers of shards do not have.
    /// - For [`Disaster::Freeze`] and [`Disaster::CloseClient`], because only the program can stop
    ///   or close its clients.
    /// - For [`Disaster::ListMembers`] and [`Disaster::SilenceNames`], because there is no name
    ///   server.
    /// - For a cut between a member or a shard and itself, and a [`Disaster::CutClient`] that loses
    ///   bytes in neither direction.
    /// - For a [`Disaster::SlowMember`] that neither reads nor writes slowly, that writes slowly
    ///   without a pause, whose pause is shorter than 1 ms or longer than 10 s, whose pieces or
    ///   window have no bytes or more than 1 GiB, or that has a window although it does not read
    ///   slowly.
    /// - For a [`Disaster::LimitConnections`] of more than 1,000,000.
    /// - For a [`Disaster::Overload`] or [`Disaster::FailNames`] without a rate above zero, or with
    ///   one above 1000.
    /// - For a [`Disaster::JumpClock`] of both or neither of a member and a client, with both or
    ///   neither of `forward` and `back`, or by less than 1 ms or more than a day.
    /// - For a [`Disaster::FailCommands`] without commands or with one that servers do not have,
    ///   without all of a code, a close and a block of a millisecond or more, with a code of 0 or
    ///   less, with both a code and a close, with labels and no code, with 0 times, or with a block
    ///   of more than a day.
    pub fn strike(&self, disaster: &Disaster) {
        let check = |deployment: &Deployment| disaster.check(deployment.options());
        if let Err(reason) = self.runtime().inspect(check) {
            panic!("{reason}");
        }
        assert!(
            disaster.needs().clients <= 1,
            "the clients of a program are the client 0"
        );
        assert!(
            !matches!(
                disaster,
                Disaster::Freeze { .. }
                    | Disaster::CloseClient(_)
                    | Disaster::ListMembers(_)
                    | Disaster::SilenceNames
            ),
            "only the program can stop or close its clients, and there is no name server"
        );
        self.runtime().strike(disaster);
        self.shared.wake_driver();
    }

    /// Sets the rates of faults from now on, until [`heal`](Self::heal). Default: no faults.
    ///
    /// # Panics
    ///
    /// For `cancel`, `unpolled`, `starved` and `panic`, because the program polls and abandons its
    /// tasks and has its own server selectors, and for rates above 1000.
    pub fn set_rates(&self, rates: Rates) {
        assert!(
            (rates.cancel, rates.unpolled, rates.starved, rates.panic) == (0, 0, 0, 0),
            "only the program can abandon its operations, poll them late or select servers"
        );
        assert!(rates.highest() <= 1000, "a rate is from 0 to 1000");
        self.runtime().set_rates(rates);
    }

    /// Sets how long bytes are under way between clients and servers from now on, at least and at
    /// most. Default: 0.2 ms to 4 ms.
    ///
    /// # Panics
    ///
    /// If the first time is longer than the second.
    pub fn set_latency(&self, least: Duration, most: Duration) {
        assert!(least <= most, "{least:?} is longer than {most:?}");
        self.runtime().set_latency((least, most));
    }

    /// Returns the virtual time since the world was created.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.present().since_start()
    }

    /// Returns the place of the primary of a replica set, or of the standalone, if there is one. A
    /// sharded cluster and services behind a load balancer have none.
    #[must_use]
    pub fn primary(&self) -> Option<usize> {
        let primary = self.runtime().inspect(Deployment::primary);
        primary.filter(|place| *place < self.members())
    }

    fn members(&self) -> usize {
        self.runtime().inspect(Deployment::members)
    }

    /// Calls a function with the deployment, for example to set a fault of authentication or to
    /// look at its members. The function must not use the world or its clients, because the world
    /// is locked meanwhile.
    pub fn operate<T>(&self, action: impl FnOnce(&mut Deployment) -> T) -> T {
        let result = self.runtime().operate(action);
        self.shared.wake_driver();
        result
    }

    /// Returns the digest of everything that happened in the network and the deployment so far.
    /// Two runs with the same digest were the same.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.shared.executor().digest()
    }

    /// Keeps a picture of the run from now on, for [`page`](Self::page). It shows the clients that
    /// are created from now on. With the environment variable [`REPORT`], each world keeps a
    /// picture from its start.
    pub fn keep_picture(&self) {
        self.shared.executor().keep_picture();
    }

    /// Returns a page of HTML that shows the run until now: the members, and for each client the
    /// servers as it knows them, its connections, operations and events. The page needs no other
    /// file. `None` if the world keeps no picture.
    #[must_use]
    pub fn page(&self) -> Option<String> {
        self.shared.at_present();
        let end = self.shared.present();
        let failure = thread::panicking().then(|| {
            let text = "the test has panicked; its output has the message";
            Failure::new(FailureKind::Correctness, end, text)
        });
        let heading = Heading {
            title: &format!("seed {}", self.seed),
            summary: &format!("{:.1} s of virtual time", end.since_start().as_secs_f64()),
            replay: None,
            failure: failure.as_ref(),
        };
        Some(self.shared.executor().picture()?.page(heading, end))
    }

    fn write_page(&self, path: &Path) {
        /// True once the file has the page of a run that has panicked.
        static HAS_FAILED: Mutex<bool> = Mutex::new(false);
        let mut has_failed = HAS_FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_failed && !thread::panicking() {
            return;
        }
        *has_failed = thread::panicking();
        let path = path::absolute(path).unwrap_or_else(|_| path.to_owned());
        match fs::write(&path, self.page().unwrap_or_default()) {
            Ok(()) => eprintln!("report: {}", path.display()),
            Err(error) => eprintln!("there is no report: {}: {error}", path.display()),
        }
    }

    /// Returns the simulated runtime, at the present time.
    fn runtime(&self) -> &SimRuntime {
        self.shared.at_present()
    }
}

impl Drop for TokioWorld {
    fn drop(&mut self) {
        if let Some(path) = &self.report {
            self.write_page(path);
        }
        for member in 0..self.members() {
            self.strike(&Disaster::Kill(member));
        }
    }
}

fn uri(options: &DeploymentOptions) -> String {
    let hosts: Vec<_> = match &options.shape {
        Shape::LoadBalanced { balancer } => vec![balancer.to_string()],
        _ => options.addresses.iter().map(ToString::to_string).collect(),
    };
    let query = match &options.shape {
        Shape::ReplicaSet(set) => format!("?replicaSet={}", set.name),
        Shape::LoadBalanced { .. } => "?loadBalanced=true".to_owned(),
        Shape::Standalone | Shape::Sharded => String::new(),
    };
    format!("mongodb://{}/{query}", hosts.join(","))
}
