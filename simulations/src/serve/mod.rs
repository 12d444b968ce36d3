//! A deployment on real sockets, for any client.
//!
//! One thread runs an event loop that owns the deployment.

mod certificate;
mod engine;
mod options;
mod proxy;
mod scenario;
mod setup;
mod subject;
mod tokens;

pub use certificate::CLIENT_SUBJECT;
pub use options::{FaultOptions, ServeOptions};

use engine::Engine;
use onionskin_deployment::deployment::{
    AuthCounts, AuthFault, CompressionCounts, MemberEvent, MemberState,
};
use onionskin_worlds::world::Disaster;
use std::{io, net::SocketAddr, path::PathBuf, sync::mpsc, thread, time::Duration};
use tokio::sync::mpsc as queue;

/// The maximum time for which a caller waits for the event loop's reply.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// An order of a caller to the event loop.
#[derive(Debug)]
enum Order {
    Kill(usize, mpsc::Sender<()>),
    Restart(usize, mpsc::Sender<()>),
    Disconnect(usize, mpsc::Sender<()>),
    StepDown(mpsc::Sender<bool>),
    Partition(Vec<usize>, mpsc::Sender<()>),
    Heal(mpsc::Sender<()>),
    RequireReauthentication(mpsc::Sender<()>),
    SetAuthFault(Option<AuthFault>, mpsc::Sender<()>),
    Status(mpsc::Sender<Status>),
    CheckMembers(mpsc::Sender<Result<(), String>>),
    Stop,
}

/// The state of a running deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The index of the primary or of the standalone, from 0. For routers, the number of routers,
    /// which is the index of the shard behind them. `None` if there is no primary, as during an
    /// election.
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
    /// The latest disasters of the scenario, at most 1000, the oldest one first, each with its time
    /// since the start.
    pub disasters: Vec<(Duration, Disaster)>,
}

/// A deployment that runs in its own thread. Dropping it stops the deployment.
///
/// ```no_run
/// use onionskin_simulations::serve::{Embedded, ServeOptions};
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
        self.ask(Order::StepDown).unwrap_or(false)
    }

    /// Ends the process of a member: its connections are closed, and new ones are refused.
    pub fn kill(&self, member: usize) {
        let _ = self.ask(|answer| Order::Kill(member, answer));
    }

    /// Starts a killed member again.
    pub fn restart(&self, member: usize) {
        let _ = self.ask(|answer| Order::Restart(member, answer));
    }

    /// Closes all connections to a member, which continues to run.
    pub fn disconnect(&self, member: usize) {
        let _ = self.ask(|answer| Order::Disconnect(member, answer));
    }

    /// Cuts the network between these members and all others. Clients can still reach all members.
    pub fn partition(&self, side: &[usize]) {
        let _ = self.ask(|answer| Order::Partition(side.to_vec(), answer));
    }

    /// Removes all cuts between members.
    pub fn heal(&self) {
        let _ = self.ask(Order::Heal);
    }

    /// Makes all clients that have authenticated do so again. Until then, each of their commands
    /// fails with the error 391, `ReauthenticationRequired`.
    pub fn require_reauthentication(&self) {
        let _ = self.ask(Order::RequireReauthentication);
    }

    /// Sets the fault of all further SASL conversations. Default: `None`.
    pub fn set_auth_fault(&self, fault: Option<AuthFault>) {
        let _ = self.ask(|answer| Order::SetAuthFault(fault, answer));
    }

    /// Returns the state of the deployment, or `None` if its thread has ended or does not answer
    /// for 10 seconds.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.ask(Order::Status)
    }

    /// Compares the data of the members, as [`Deployment::check_members`] does.
    ///
    /// # Errors
    ///
    /// Returns the difference. Fails as well if the thread of the deployment has ended or does not
    /// answer for 10 seconds.
    ///
    /// [`Deployment::check_members`]: onionskin_deployment::deployment::Deployment::check_members
    pub fn check_members(&self) -> Result<(), String> {
        let silent = || Err("the deployment does not answer".to_owned());
        self.ask(Order::CheckMembers).unwrap_or_else(silent)
    }

    fn ask<T>(&self, order: impl FnOnce(mpsc::Sender<T>) -> Order) -> Option<T> {
        let (answer, wait) = mpsc::channel();
        self.orders.send(order(answer)).ok()?;
        wait.recv_timeout(CONTROL_TIMEOUT).ok()
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

#[cfg(test)]
mod tests;
