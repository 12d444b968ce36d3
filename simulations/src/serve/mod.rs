//! A deployment on real sockets, for any client to talk to.
//!
//! One thread runs one event loop that owns the machine: no locks, and one read and one write
//! system call for a request and its reply.

mod certificate;
mod engine;
mod options;
mod proxy;
mod setup;

pub use options::ServeOptions;

use crate::deployment::{MemberState, Story};
use engine::Engine;
use std::{io, net::SocketAddr, path::PathBuf, sync::mpsc, thread, time::Duration};
use tokio::sync::mpsc as queue;

/// How long a caller waits for the event loop to answer.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// What a caller wants from the event loop.
#[derive(Debug)]
enum Order {
    Kill(usize, mpsc::Sender<()>),
    Restart(usize, mpsc::Sender<()>),
    Disconnect(usize, mpsc::Sender<()>),
    StepDown(mpsc::Sender<bool>),
    Partition(Vec<usize>, mpsc::Sender<()>),
    Heal(mpsc::Sender<()>),
    Status(mpsc::Sender<Status>),
    Stop,
}

/// How a deployment stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The primary, or the standalone; `None` between elections.
    pub primary: Option<usize>,
    /// What each member is.
    pub members: Vec<MemberState>,
    /// Client connections that are open.
    pub connections: usize,
    /// What happened so far, oldest first; the oldest are forgotten.
    pub stories: Vec<Story>,
    /// Bytes of replies that wait for clients which have not read so far.
    pub unsent_bytes: usize,
    /// The most that has ever waited at once.
    pub most_unsent_bytes: usize,
}

/// A deployment that runs in a thread of its own until this is dropped.
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
    /// Binds the sockets and starts the thread. All members listen when this returns.
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
        };
        let thread = thread::Builder::new()
            .name("onionskin-serve".to_owned())
            .spawn(work)?;
        let facts = started
            .recv()
            .map_err(|_| io::Error::other("the event loop ended before it began"))?;
        let (uri, addresses, tls_directory) = facts?;
        Ok(Self {
            uri,
            addresses,
            tls_directory,
            orders,
            thread: Some(thread),
        })
    }

    /// The connection string for it, with user and password where one must log in.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Where each member listens. Behind a load balancer these are the services, where another
    /// load balancer may connect.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where `ca.pem` lies, if connections are encrypted.
    #[must_use]
    pub const fn tls_directory(&self) -> Option<&PathBuf> {
        self.tls_directory.as_ref()
    }

    /// Makes the primary step down; false if there is none that could.
    pub fn step_down(&self) -> bool {
        self.ask(Order::StepDown).unwrap_or(false)
    }

    /// Ends a member: its connections break, and new ones are refused.
    pub fn kill(&self, member: usize) {
        let _ = self.ask(|answer| Order::Kill(member, answer));
    }

    /// Starts a member again that was killed.
    pub fn restart(&self, member: usize) {
        let _ = self.ask(|answer| Order::Restart(member, answer));
    }

    /// Closes all connections to a member, which goes on.
    pub fn disconnect(&self, member: usize) {
        let _ = self.ask(|answer| Order::Disconnect(member, answer));
    }

    /// Cuts these members off from the others. Clients still reach all of them.
    pub fn partition(&self, side: &[usize]) {
        let _ = self.ask(|answer| Order::Partition(side.to_vec(), answer));
    }

    /// Repairs all cuts between members.
    pub fn heal(&self) {
        let _ = self.ask(Order::Heal);
    }

    /// How it stands; `None` if its thread has ended.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.ask(Order::Status)
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
