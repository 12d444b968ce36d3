//! The interface between a client and an async runtime.

use crate::{event::EventListener, files::read_text};
use futures_channel::oneshot;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::FutureExt;
use onionskin_core::error::Error;
use std::{
    future::Future,
    io,
    net::{SocketAddr, ToSocketAddrs},
    path::Path,
    time::Duration,
};

/// The services that a client needs from an async runtime: sockets, time, tasks, name resolution,
/// randomness, and the variables and files that hold credentials.
///
/// An implementation makes no decision about MongoDB. The conformance suite of the
/// `onionskin-tests` crate tests implementations.
///
/// Tasks, futures and streams are `Send`. A runtime with one thread per core, whose streams are not
/// `Send`, needs a shell of its own over `onionskin-core` (`docs/core.md`).
pub trait Runtime: Send + Sync + 'static {
    /// A connected byte stream, which closes when it is dropped. Written bytes must be sent without
    /// a flush: the client does not flush.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The future that [`sleep`](Self::sleep) returns.
    type Sleep: Future<Output = ()> + Send;

    /// True if spawned tasks run on their own. With false, tasks run only while a thread waits in a
    /// call of the runtime, and in [`run_ready`](Self::run_ready). Clients then check their servers
    /// on demand instead of monitoring them in the background. Default: true.
    const RUNS_IN_BACKGROUND: bool = true;

    /// Prepares the runtime for a client. [`ClientBuilder::build`](crate::ClientBuilder::build)
    /// calls this once, before anything else, in the thread that builds the client. Returns
    /// [`Error::runtime`](crate::Error::runtime) if the runtime cannot run a client. Default: does
    /// nothing.
    fn prepare(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Connects to an address. The time limit is that of the system; the client drops the future
    /// when a shorter limit of its own passes. Sockets must send without delay (`TCP_NODELAY`), and
    /// the implementation must pass them to [`keep_alive`](crate::system::keep_alive).
    fn connect(&self, address: SocketAddr)
    -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Opens a UDP socket on a random free port and connects it to a name server, so that datagrams
    /// from other addresses do not arrive ([`datagram_socket`](crate::system::datagram_socket)). A
    /// write to the stream sends one datagram, and a read receives one. Default: fails, so that the
    /// built-in resolver cannot ask a name server.
    fn connect_datagram(
        &self,
        server: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send {
        let _ = server;
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Connects to a Unix domain socket.
    fn connect_unix(&self, path: &Path) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Resolves a host name. The first address of the result is tried first. A client has only a
    /// few calls under way at once, and drops a call only when it is closed. Default: asks the
    /// resolver of the system by [`spawn_thread`](Self::spawn_thread), because it can take many
    /// seconds.
    fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        let (sender, receiver) = oneshot::channel();
        let host = host.to_owned();
        self.spawn_thread(move || {
            let addresses = (&*host, port).to_socket_addrs();
            drop(sender.send(addresses.map(Iterator::collect)));
        });
        receiver.map(|result| result.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())))
    }

    /// Returns a future that completes after `duration` or a little later. The client calls this in
    /// any thread, and polls the future only in tasks of the runtime.
    fn sleep(&self, duration: Duration) -> Self::Sleep;

    /// Runs a task to completion, independent of the caller. The client calls this in any thread,
    /// also in threads of other executors, because dropping a future there can start a task. A
    /// runtime that ends, or has ended, must drop the task: the client notices the end of its
    /// runtime by that.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Runs the task that closes something after its owner was dropped, such as a cursor. The task
    /// ends by itself within seconds. If tasks of the runtime do not run in the background, this
    /// should wait for its end, because the program may make no further call. Default: spawns the
    /// task, and runs ready tasks.
    fn spawn_cleanup(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn(task);
        self.run_ready();
    }

    /// Runs work that can block or take long: event listeners and key derivation. An implementation
    /// with other threads runs the work on a thread where it delays no task, and returns at once.
    /// The end of the runtime must not wait for the work, because a listener may never return
    /// ([`run_on_thread`](crate::system::run_on_thread)). Default: runs the work before returning.
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        work();
    }

    /// Runs work that may never end, such as callbacks of the application that block, and lookups.
    /// The work must delay no task, and the end of the runtime must not wait for it. Default: runs
    /// the work on a new thread, or drops it if there is none.
    fn spawn_thread(&self, work: impl FnOnce() + Send + 'static) {
        let _ = std::thread::Builder::new()
            .name("onionskin".to_owned())
            .spawn(work);
    }

    /// Returns the value of an environment variable, for authentication mechanisms that take their
    /// credentials from the environment. `None` if the variable is not set or not UTF-8. Default:
    /// reads the environment of the process.
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// Reads a text file of at most `most` bytes, for authentication mechanisms that take a token
    /// from a file. Fails for a longer file. Default: reads the file by
    /// [`spawn_thread`](Self::spawn_thread), because a pipe or a network may never answer.
    fn read_file(
        &self,
        path: &Path,
        most: usize,
    ) -> impl Future<Output = io::Result<String>> + Send {
        let (sender, receiver) = oneshot::channel();
        let path = path.to_owned();
        self.spawn_thread(move || drop(sender.send(read_text(&path, most))));
        receiver.map(|result| result.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())))
    }

    /// Returns a listener for the events of a client on this runtime, besides the listeners of the
    /// client's builder. With it a simulation observes the clients that run in it. A client calls
    /// this method once, when it is built. Default: none.
    fn listener(&self) -> Option<EventListener> {
        None
    }

    /// Runs tasks that are ready, if nothing else runs them, until all tasks wait. The client calls
    /// this, for example, when its last handle or a cursor is dropped. Default: does nothing, for
    /// runtimes whose tasks run on their own.
    fn run_ready(&self) {}

    /// Returns the time of a monotonic clock, measured from any fixed start.
    fn now(&self) -> Duration;

    /// Returns the calendar time as the time since 1970-01-01T00:00:00Z.
    fn wall_time(&self) -> Duration;

    /// Returns the id of the current process, if the runtime still works in a child process after a
    /// fork. A client in the child then notices the fork at its next operation or shutdown.
    /// Default: `None`, for runtimes whose threads and wakers do not exist in a child.
    fn process_id(&self) -> Option<u32> {
        None
    }

    /// Fills `bytes` with random bytes that are suitable for cryptography.
    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()>;
}
