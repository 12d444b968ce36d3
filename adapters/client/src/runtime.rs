//! What a client needs of a runtime.

use futures_io::{AsyncRead, AsyncWrite};
use onionskin_core::error::Error;
use std::{future::Future, io, net::SocketAddr, path::Path, time::Duration};

/// Everything that a client cannot do itself: sockets, time, tasks, names, chance.
///
/// An implementation decides nothing about MongoDB. The conformance suite of the `onionskin-tests`
/// crate shows whether it is right.
pub trait Runtime: Send + Sync + 'static {
    /// A connected byte stream. Dropping it closes it. What was written must go out by itself: the
    /// client does not flush.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// A wait that was begun with [`sleep`](Self::sleep).
    type Sleep: Future<Output = ()> + Send;

    /// Whether spawned tasks go on by themselves. Where they stand still while nobody waits for
    /// anything, each client scans its servers when its operations need that, instead of keeping
    /// watch over them. Default: they do.
    const RUNS_IN_BACKGROUND: bool = true;

    /// Called once by [`ClientBuilder::build`](crate::ClientBuilder::build), in the thread that
    /// builds, before anything else. Fails where the runtime cannot carry a client, with
    /// [`Error::runtime`](crate::Error::runtime). Default: it can.
    fn prepare(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Connects to an address, with the system's own time limit; the client bounds it further, by
    /// dropping the future. Sockets of the system are to send without delay (`TCP_NODELAY`), and to
    /// be given to [`keep_alive`](crate::system::keep_alive).
    fn connect(&self, address: SocketAddr)
    -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Connects to a Unix domain socket.
    fn connect_unix(&self, path: &Path) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Looks up the addresses of a host, best first.
    fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    /// Completes after `duration`, or somewhat later. Called in any thread; polled by tasks of the
    /// runtime only.
    fn sleep(&self, duration: Duration) -> Self::Sleep;

    /// Runs a task to its end, independent of the caller. Called in any thread, also in those of
    /// other executors: whatever is dropped there may have something left to do. A runtime that has
    /// ended, or that ends, drops the task: by that the client knows that its runtime is gone.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Runs work that may block or take long: event listeners and the derivation of keys. It runs
    /// on a thread where it delays no task, and the call returns at once. Default: the work is done
    /// before the call returns, for runtimes that have no other thread.
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        work();
    }

    /// Gives tasks that can go on their turn, if nobody else does, and returns as soon as all of
    /// them have to wait. Called when something was ordered whose end nobody awaits. Default:
    /// nothing, for tasks that go on by themselves.
    fn run_ready(&self) {}

    /// A monotonic clock: time since some fixed moment.
    fn now(&self) -> Duration;

    /// The calendar: time since 1970-01-01T00:00:00Z.
    fn wall_time(&self) -> Duration;

    /// The process that runs, for a runtime that goes on in a child when its process is forked. A
    /// client there notices at the next call, and leaves all connections to its parent. Default:
    /// `None`, for runtimes whose threads and wakers a child does not have.
    fn process_id(&self) -> Option<u32> {
        None
    }

    /// Fills `bytes` with what nobody can guess.
    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()>;
}
