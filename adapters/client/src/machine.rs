//! The machine that clients run on, if it is not the real one.
//!
//! A runtime takes sockets, host names, clocks, random bytes, variables and files from the system.
//! A simulation implements [`Machine`] and takes the place of the system, so that a program runs
//! unchanged in a simulated network and in virtual time. The tasks and timers stay those of the
//! runtime. Of the adapters, `onionskin-tokio` can run on a machine: only tokio's timers can follow
//! virtual time.

use futures_io::{AsyncRead, AsyncWrite};
use std::{
    cell::RefCell, fmt, future::Future, io, marker::PhantomData, net::SocketAddr, path::Path,
    pin::Pin, sync::Arc, time::Duration,
};

/// The result of a call of a machine, later.
pub type Answer<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// A connected byte stream of a machine. Dropping it closes it.
pub trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Stream for S {}

/// A machine that clients run on. The methods are those of [`Runtime`](crate::Runtime) of the same
/// name, and promise the same. Work that may block runs in the tasks of the runtime, because in a
/// simulation no other thread may delay or hasten anything.
pub trait Machine: fmt::Debug + Send + Sync + 'static {
    /// Connects to an address.
    fn connect(&self, address: SocketAddr) -> Answer<Box<dyn Stream>>;

    /// Opens a datagram socket that is connected to a name server. A write sends one datagram, and
    /// a read receives one.
    fn connect_datagram(&self, server: SocketAddr) -> Answer<Box<dyn Stream>>;

    /// Connects to a Unix domain socket. Default: fails.
    fn connect_unix(&self, path: &Path) -> Answer<Box<dyn Stream>> {
        let _ = path;
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }

    /// Resolves a host name.
    fn resolve(&self, host: &str, port: u16) -> Answer<Vec<SocketAddr>>;

    /// Returns the value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// Reads a text file of at most `most` bytes.
    fn read_file(&self, path: &Path, most: usize) -> Answer<String>;

    /// Returns the time of a monotonic clock, measured from any fixed start. It agrees with the
    /// timers of the runtime.
    fn now(&self) -> Duration;

    /// Returns the calendar time as the time since 1970-01-01T00:00:00Z.
    fn wall_time(&self) -> Duration;

    /// Fills `bytes` with random bytes.
    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()>;
}

thread_local! {
    static ENTERED: RefCell<Vec<Arc<dyn Machine>>> = const { RefCell::new(Vec::new()) };
}

/// Makes the machine that of all clients that are created in this thread while the guard lives.
/// Clients keep the machine with which they were created.
pub fn enter(machine: Arc<dyn Machine>) -> Entered {
    ENTERED.with_borrow_mut(|entered| entered.push(machine));
    Entered {
        thread: PhantomData,
    }
}

/// Returns the machine that was entered last in this thread; `None` outside of a simulation.
#[must_use]
pub fn current() -> Option<Arc<dyn Machine>> {
    ENTERED.with_borrow(|entered| entered.last().cloned())
}

/// A guard that leaves a machine when it is dropped. Guards of one thread are dropped in the reverse
/// order of their creation.
#[derive(Debug)]
#[must_use = "the machine is left when the guard is dropped"]
pub struct Entered {
    /// The guard cannot leave its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Self { thread: _ } = self;
        ENTERED.with_borrow_mut(Vec::pop);
    }
}
