//! Sockets, time, tasks, names and chance.

use crate::{
    BlockingStream,
    executor::{Executor, left},
};
use onionskin::Runtime;
use std::{
    future::{Future, poll_fn},
    io,
    net::{SocketAddr, ToSocketAddrs},
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The calling thread, as the client uses it: everything happens within
/// [`block_on`](Self::block_on). Clones are the same one.
///
/// Blocking work ([`Runtime::spawn_blocking`]) runs on the calling thread as well, because there is
/// no other. Deriving a key from a password delays the call beyond its time limit: by 0.2 s for
/// 2,000,000 iterations, the most that a server may ask for, in a release build.
#[derive(Clone, Debug)]
pub struct BlockingRuntime {
    start: Instant,
    executor: Arc<Executor>,
}

impl Default for BlockingRuntime {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            executor: Arc::default(),
        }
    }
}

impl BlockingRuntime {
    /// Runs a future to its end, and whatever its client has to do meanwhile. Several threads may
    /// call it at the same time: each polls its own future, and one of them waits for sockets and
    /// timers.
    ///
    /// # Panics
    ///
    /// If it is called from within itself, as by an event listener that makes a blocking call.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.executor.block_on(future)
    }

    /// True within [`block_on`](Self::block_on), in the thread that called it.
    pub(crate) fn is_busy_here(&self) -> bool {
        self.executor.is_busy_here()
    }
}

impl Runtime for BlockingRuntime {
    type Stream = BlockingStream;
    type Sleep = Sleep;

    const RUNS_IN_BACKGROUND: bool = false;

    async fn connect(&self, address: SocketAddr) -> io::Result<BlockingStream> {
        let stream = BlockingStream::begin(self.executor.clone(), address)?;
        poll_fn(|context| stream.poll_connected(context)).await?;
        Ok(stream)
    }

    async fn connect_unix(&self, path: &Path) -> io::Result<BlockingStream> {
        BlockingStream::connect_unix(self.executor.clone(), path)
    }

    /// Asks the system, which cannot be interrupted: a time limit that passes meanwhile is noticed
    /// afterwards.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs()?.collect())
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let now = Instant::now();
        Sleep {
            // A wait without end is one of a century.
            until: now.checked_add(duration).unwrap_or(now + CENTURY),
            timer: None,
            executor: self.executor.clone(),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(task);
    }

    fn run_ready(&self) {
        self.executor.run_ready();
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall_time(&self) -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn process_id(&self) -> Option<u32> {
        Some(self.executor.process_id())
    }

    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::from)
    }
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A wait.
#[derive(Debug)]
pub struct Sleep {
    until: Instant,
    timer: Option<u64>,
    executor: Arc<Executor>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if left(self.until).is_zero() {
            return Poll::Ready(());
        }
        let reactor = &self.executor.reactor;
        let id = reactor.set_timer(self.until, self.timer, context.waker().clone());
        self.timer = Some(id);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.timer {
            self.executor.reactor.cancel_timer(self.until, id);
        }
    }
}
