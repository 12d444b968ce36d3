//! A simulated MongoDB deployment on real sockets, for tests of applications with any driver.
//!
//! [`Embedded`] runs a deployment of the crate `onionskin-deployment` on ports of the loopback
//! interface. One thread runs an event loop that owns the deployment.
//!
//! Cargo features, all off by default:
//!
//! - `tls`: connections with TLS ([`ServeOptions::tls`]).
//! - `identity`: the module `identity`, with the HTTP servers of AWS, Azure and Google Cloud from
//!   which clients get credentials.
//! - `scenarios`: faults of connections and of members, from scenarios of the crate
//!   `onionskin-worlds`: `ServeOptions::of_scenario` and `Embedded::strike`.
//! - `snappy`, `zlib`, `zstd`, `collation` and `gssapi`: see the crate `onionskin-deployment`.

#![forbid(unsafe_code)]

mod engine;
#[cfg(feature = "identity")]
pub mod identity;
mod options;
mod proxy;
#[cfg(feature = "scenarios")]
mod scenario;
mod setup;
mod tls;
mod tokens;

#[cfg(feature = "scenarios")]
pub use options::FaultOptions;
pub use options::ServeOptions;
pub use tls::CLIENT_SUBJECT;

use bson::Document;
use engine::Engine;
use onionskin_core::time::Instant;
use onionskin_deployment::{
    deployment::{AuthCounts, AuthFault, CompressionCounts, Deployment, MemberEvent, MemberState},
    store::Namespace,
};
#[cfg(feature = "scenarios")]
use onionskin_worlds::world::{Disaster, VoidEvent};
use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::mpsc,
    thread,
    time::{self, Duration},
};
use tokio::sync::mpsc as queue;

/// The maximum time for which a caller waits for the event loop's reply.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time until a member can write and all members have its change.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// The error if the event loop does not reply.
const SILENT: &str = "the deployment does not answer";

/// An order of a caller to the event loop.
enum Order {
    /// Calls a function of the deployment until it returns an answer.
    Call(Call),
    Status(mpsc::Sender<Status>),
    Stop,
}

type Call = Box<dyn FnMut(&mut Deployment, Instant) -> Option<Answer> + Send>;

/// Sends the answer of a call. Called after the effects of the call, for example after connections
/// were closed.
type Answer = Box<dyn FnOnce()>;

/// The state of a running deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The index of the primary or of the standalone, from 0. For routers, the index of the primary
    /// of the first shard, whose members follow the routers. `None` if there is no primary, as
    /// during an election.
    pub primary: Option<usize>,
    /// The state of each member, by its index.
    pub members: Vec<MemberState>,
    /// The number of open client connections.
    pub connections: usize,
    /// The latest reports about the members, at most 1000, the oldest one first.
    pub events: Vec<MemberEvent>,
    /// The numbers of authentications with all members.
    pub auth: AuthCounts,
    /// The numbers of compressed and other messages with all members.
    pub compression: CompressionCounts,
    /// The number of bytes in replies that the sockets have not accepted yet.
    pub unsent_bytes: usize,
    /// The largest value that `unsent_bytes` ever had.
    pub most_unsent_bytes: usize,
    /// The number of disasters of the scenario that have happened.
    #[cfg(feature = "scenarios")]
    pub happened: u64,
    /// The latest disasters of the scenario, at most 1000, the oldest one first, each with its time
    /// since the start. The last one has the number `happened`.
    #[cfg(feature = "scenarios")]
    pub disasters: Vec<(Duration, Disaster)>,
    /// The latest disasters of the scenario that had no effect, at most 1000, the oldest one first.
    #[cfg(feature = "scenarios")]
    pub void_events: Vec<VoidEvent>,
}

/// A deployment that runs in its own thread. Dropping it stops the deployment.
///
/// ```no_run
/// use onionskin_serve::{Embedded, ServeOptions};
///
/// let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3))?;
/// println!("{}", deployment.uri());
/// deployment.step_down();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Embedded {
    uri: String,
    addresses: Vec<SocketAddr>,
    tls_directory: Option<PathBuf>,
    orders: queue::UnboundedSender<Order>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Embedded {
    /// Binds the sockets and starts the thread. All members accept connections when this returns.
    ///
    /// # Errors
    ///
    /// If the options are not valid, for example with more than 50 members, if a port is not free,
    /// if the certificates or the files with tokens cannot be written, if a thread cannot be
    /// created, or with [`ServeOptions::tls`] and without the feature `tls`.
    pub fn start(options: ServeOptions) -> io::Result<Self> {
        let (orders, inbox) = queue::unbounded_channel();
        let (ready, started) = mpsc::channel();
        let work = move || {
            let built = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = match built {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                match Engine::bind(options).await {
                    Ok(engine) => {
                        let facts = (engine.uri(), engine.addresses(), engine.tls_directory());
                        let _ = ready.send(Ok(facts));
                        engine.run(inbox).await;
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            });
            drop(local);
            // Long queries end on their own.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new()
            .name("onionskin-serve".to_owned())
            .spawn(work)?;
        let facts = started.recv().map_err(|_| {
            io::Error::other("the thread of the event loop ended before its sockets were bound")
        })?;
        let (uri, addresses, tls_directory) = facts?;
        Ok(Self {
            uri,
            addresses,
            tls_directory,
            orders,
            thread: Some(thread),
        })
    }

    /// Returns the connection string of the deployment. If there are users for SCRAM, it has the
    /// name and password of the first one.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the addresses on which the members listen. In load-balanced mode, these are the
    /// addresses of the services, to which another load balancer can connect.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the directory with `ca.pem` and `client.pem`, if the deployment uses TLS.
    #[must_use]
    pub const fn tls_directory(&self) -> Option<&PathBuf> {
        self.tls_directory.as_ref()
    }

    /// Starts a step-down of the primary. Returns false if there is no replica set with a primary,
    /// if its primary is already stepping down, or if the deployment's thread has ended or does not
    /// answer for 10 seconds.
    pub fn step_down(&self) -> bool {
        self.call(Deployment::step_down).unwrap_or(false)
    }

    /// Ends the process of a member: its connections are closed, and new ones are refused.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn kill(&self, member: usize) {
        self.call_on(member, Deployment::kill);
    }

    /// Shuts a member down in an orderly way, which takes 15 s.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn shut_down(&self, member: usize) {
        self.call_on(member, Deployment::shut_down);
    }

    /// Starts a member that was killed or shut down. The process of a member that still runs, or
    /// has not finished to shut down, ends first.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn restart(&self, member: usize) {
        self.call_on(member, Deployment::kill);
        self.call_on(member, Deployment::restart);
    }

    /// Closes all connections to a member, which continues to run.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn disconnect(&self, member: usize) {
        self.call_on(member, Deployment::disconnect);
    }

    /// Cuts the network between a member and the other members. Clients can still reach all
    /// members.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn isolate(&self, member: usize) {
        self.partition(&[member]);
    }

    /// Cuts the network between these members and all others. Clients can still reach all members.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn partition(&self, side: &[usize]) {
        side.iter().for_each(|member| self.require(*member));
        let side = side.to_vec();
        self.call(move |deployment, now| deployment.partition(now, &side));
    }

    /// Starts all members and shards that have ended or are shutting down, lets frozen members run
    /// on, removes all cuts between them, ends limits of connections and overload, and turns the
    /// fail points `failCommand` off. The faults between programs and members stay.
    pub fn heal(&self) {
        self.call(Deployment::recover);
    }

    /// Makes a disaster happen to the members. Needs the feature `scenarios`.
    ///
    /// # Panics
    ///
    /// For a disaster that the deployment cannot have, such as one of a member or a shard that does
    /// not exist. Also for disasters of clients, and for those between clients and members, which
    /// [`ServeOptions::faults`] can plan.
    #[cfg(feature = "scenarios")]
    pub fn strike(&self, disaster: Disaster) {
        assert!(
            !disaster.concerns_clients(),
            "the deployment alone cannot have it: {disaster}"
        );
        let checked = self.call(move |deployment, now| {
            disaster.check(deployment.options())?;
            // It may have no effect now, as the kill of a member that does not run.
            let _ = disaster.strike(now, deployment);
            Ok(())
        });
        if let Some(Err(reason)) = checked {
            let reason: String = reason;
            panic!("{reason}");
        }
    }

    /// Makes all clients that have authenticated do so again. Until then, each of their commands
    /// fails with the error 391, `ReauthenticationRequired`.
    pub fn require_reauthentication(&self) {
        self.call(|deployment, _| deployment.require_reauthentication());
    }

    /// Sets the fault of all further SASL conversations. Default: `None`.
    pub fn set_auth_fault(&self, fault: Option<AuthFault>) {
        self.call(move |deployment, _| deployment.set_auth_fault(fault));
    }

    /// Prepares the deployment for the next test: drops all databases, makes the users and the
    /// server parameters as they were at the start, ends transactions, cursors and fail points,
    /// starts killed members, and removes cuts. [`Deployment::restore`] has the whole list.
    ///
    /// Clients stay connected. Sessions, the plan of a scenario and the counts of [`Status`] stay.
    /// The call blocks until all members have dropped their data, which can take as long as an
    /// election, and 60 seconds at most.
    ///
    /// # Errors
    ///
    /// Returns the reason if it takes longer, for example because no member can write, or if the
    /// thread of the deployment has ended.
    ///
    /// ```no_run
    /// use onionskin_serve::{Embedded, ServeOptions};
    ///
    /// # fn place_orders(uri: &str) {}
    /// # fn survive_a_step_down(uri: &str, deployment: &Embedded) {}
    /// let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3))?;
    /// place_orders(deployment.uri());
    /// deployment.reset().expect("a member can write");
    /// survive_a_step_down(deployment.uri(), &deployment);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reset(&self) -> Result<(), String> {
        self.call(Deployment::restore).ok_or(SILENT)?;
        self.change(|deployment, now| Ok(deployment.drop_data(now)))
    }

    /// Inserts documents into a collection, which need not exist. The call blocks until all members
    /// that run have the documents, which can take as long as an election, and 60 seconds at most.
    ///
    /// # Errors
    ///
    /// Returns the reason if a document or the name is not valid or an open transaction uses the
    /// collection; no document is inserted then. Fails as well if no member can write in time, if a
    /// member that runs does not get the documents in time, as during a partition, or if the thread
    /// of the deployment has ended.
    ///
    /// ```no_run
    /// use bson::doc;
    /// use onionskin_serve::{Embedded, ServeOptions};
    ///
    /// let deployment = Embedded::start(ServeOptions::standalone())?;
    /// let people = vec![doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }];
    /// deployment.insert("app", "people", people).expect("inserted");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn insert(
        &self,
        database: &str,
        collection: &str,
        documents: Vec<Document>,
    ) -> Result<(), String> {
        let namespace = Namespace::new(database, collection);
        self.change(move |deployment, now| deployment.insert(now, &namespace, &documents))
    }

    /// Returns the state of the deployment, or `None` if its thread has ended or does not answer
    /// for 10 seconds.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        let (answer, wait) = mpsc::channel();
        self.orders.send(Order::Status(answer)).ok()?;
        wait.recv_timeout(CONTROL_TIMEOUT).ok()
    }

    /// Compares the data of the members, as [`Deployment::check_members`] does.
    ///
    /// # Errors
    ///
    /// Returns the difference. Fails as well if the thread of the deployment has ended or does not
    /// answer for 10 seconds.
    pub fn check_members(&self) -> Result<(), String> {
        let checked = self.call(|deployment, _| deployment.check_members());
        checked.unwrap_or_else(|| Err(SILENT.to_owned()))
    }

    /// Makes a change as soon as its result is true, and waits until all members have it.
    fn change(
        &self,
        change: impl Fn(&mut Deployment, Instant) -> Result<bool, String> + Send + 'static,
    ) -> Result<(), String> {
        let start = time::Instant::now();
        let mut is_made = false;
        let changed = self.ask(SETTLE_LIMIT + CONTROL_TIMEOUT, move |deployment, now| {
            if !is_made {
                match change(deployment, now) {
                    Ok(made) => is_made = made,
                    Err(error) => return Some(Err(error)),
                }
            }
            let is_late = start.elapsed() > SETTLE_LIMIT;
            match (is_made, is_made && deployment.is_level()) {
                (_, true) => Some(Ok(())),
                (false, _) if is_late => Some(Err("no member can write".to_owned())),
                (true, _) if is_late => Some(Err("a member lacks the last changes".to_owned())),
                _ => None,
            }
        });
        changed.unwrap_or_else(|| Err(SILENT.to_owned()))
    }

    /// Calls a function about a member, which must exist.
    fn call_on(&self, member: usize, function: fn(&mut Deployment, Instant, usize)) {
        self.require(member);
        self.call(move |deployment, now| function(deployment, now, member));
    }

    /// Panics if a member does not exist.
    fn require(&self, member: usize) {
        let members = self.addresses.len();
        let there = match members {
            1 => "is one member".to_owned(),
            _ => format!("are {members} members"),
        };
        assert!(member < members, "there {there}, and no member {member}");
    }

    /// Calls a function of the deployment on its thread. Returns `None` if the thread has ended or
    /// does not answer for 10 seconds.
    fn call<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut Deployment, Instant) -> T + Send + 'static,
    ) -> Option<T> {
        let mut function = Some(function);
        self.ask(CONTROL_TIMEOUT, move |deployment, now| {
            function.take().map(|function| function(deployment, now))
        })
    }

    /// Calls a function of the deployment on its thread, again and again until it returns
    /// something. Returns `None` if the thread has ended or does not answer in time.
    fn ask<T: Send + 'static>(
        &self,
        limit: Duration,
        mut function: impl FnMut(&mut Deployment, Instant) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let (answer, wait) = mpsc::channel();
        let call: Call = Box::new(move |deployment, now| {
            let result = function(deployment, now)?;
            let answer = answer.clone();
            Some(Box::new(move || {
                let _ = answer.send(result);
            }))
        });
        self.orders.send(Order::Call(call)).ok()?;
        wait.recv_timeout(limit).ok()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// These tests need TLS and faults. Tests of the whole workspace have both features, because the
// command and the crate `onionskin-tests` enable them.
#[cfg(all(test, feature = "scenarios", feature = "tls"))]
mod tests;
