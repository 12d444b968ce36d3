//! The implementation of [`Runtime`] with the calling threads.

use crate::{
    BlockingStream,
    executor::{Executor, remaining},
};
use onionskin::{Runtime, program::CLOSE_LIMIT, system::monotonic_time};
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A runtime that uses the calling threads. Tasks run only within [`block_on`](Self::block_on) and
/// [`run_ready`](Runtime::run_ready). Clones share all state.
///
/// Blocking work ([`Runtime::spawn_blocking`]) runs on the calling threads as well. Another thread
/// in a call waits for sockets and timers meanwhile. Key derivation from a password can exceed the
/// time limit of the call that runs it. In a release build it took 0.2 s for 2,000,000 iterations,
/// the maximum that the client accepts.
///
/// Work that may never end runs on a new thread ([`Runtime::spawn_thread`]): the lookup of a host
/// name, a step of Kerberos, a provider that blocks, or the reading of a file with a token.
///
/// A command that closes something after its owner was dropped, such as a cursor of a session, runs
/// before the drop ends, for two seconds at most ([`Runtime::spawn_cleanup`]). A drop within a call
/// leaves the command to that call.
#[derive(Clone, Debug, Default)]
pub struct BlockingRuntime {
    executor: Arc<Executor>,
}

impl BlockingRuntime {
    /// Runs a future to completion, and the tasks of this runtime meanwhile. Several threads may
    /// call this at the same time. Each thread polls its own future, and one of them waits for
    /// sockets and timers.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Error, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// // The calls of one future need no `run`.
    /// let (first, count) = client.runtime().block_on(async {
    ///     let first = people.find_one(doc! {}).await?;
    ///     let count = people.count_documents(doc! {}).await?;
    ///     Ok::<_, Error>((first, count))
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in this method or in [`run_ready`](Runtime::run_ready), for
    /// example if an event listener calls it.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.executor.block_on(future)
    }

    /// True if the current thread is in [`block_on`](Self::block_on) or in
    /// [`run_ready`](Runtime::run_ready).
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

    async fn connect_datagram(&self, server: SocketAddr) -> io::Result<BlockingStream> {
        BlockingStream::connect_datagram(self.executor.clone(), server)
    }

    async fn connect_unix(&self, path: &Path) -> io::Result<BlockingStream> {
        BlockingStream::connect_unix(self.executor.clone(), path)
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let now = Instant::now();
        Sleep {
            // A wait that is too long for the clock is limited to a century.
            until: now.checked_add(duration).unwrap_or(now + CENTURY),
            timer: None,
            executor: self.executor.clone(),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(task);
    }

    fn spawn_cleanup(&self, task: impl Future<Output = ()> + Send + 'static) {
        if self.is_busy_here() {
            return self.spawn(task);
        }
        let mut task = pin!(task);
        let mut limit = self.sleep(CLOSE_LIMIT);
        self.block_on(poll_fn(|context| {
            let is_late = Pin::new(&mut limit).poll(context).is_ready();
            match task.as_mut().poll(context) {
                Poll::Pending if !is_late => Poll::Pending,
                _ => Poll::Ready(()),
            }
        }));
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.executor.spawn_blocking(work);
    }

    fn run_ready(&self) {
        self.executor.run_ready();
    }

    fn now(&self) -> Duration {
        monotonic_time()
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

/// The future that [`Runtime::sleep`] returns.
#[derive(Debug)]
pub struct Sleep {
    until: Instant,
    timer: Option<u64>,
    executor: Arc<Executor>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if remaining(self.until).is_zero() {
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
