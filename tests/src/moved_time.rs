//! A runtime whose clock a test moves forward, so that long intervals pass at once on real sockets.

use onionskin::{Error, Runtime};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// A runtime with a clock that can be moved. Clones share the clock.
#[derive(Debug)]
pub struct MovedTime<R> {
    inner: Arc<R>,
    clock: Arc<Mutex<Clock>>,
}

/// The time by which the clock was moved, and the sleeps that have not ended.
#[derive(Debug, Default)]
struct Clock {
    moved: Duration,
    sleeps: BTreeMap<u64, Option<Waker>>,
    last_sleep: u64,
}

fn lock(clock: &Mutex<Clock>) -> MutexGuard<'_, Clock> {
    clock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R> Clone for MovedTime<R> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            clock: self.clock.clone(),
        }
    }
}

impl<R> MovedTime<R> {
    /// Returns the runtime with a clock that was not moved.
    pub fn new(inner: R) -> Self {
        Self {
            inner: Arc::new(inner),
            clock: Arc::default(),
        }
    }

    /// Moves the clock forward. Sleeps that end before the new time complete.
    pub fn advance(&self, by: Duration) {
        let mut clock = lock(&self.clock);
        clock.moved += by;
        let wakers: Vec<_> = clock.sleeps.values_mut().filter_map(Option::take).collect();
        drop(clock);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<R: Runtime> Runtime for MovedTime<R> {
    type Stream = R::Stream;
    type Sleep = MovedSleep<R>;

    const RUNS_IN_BACKGROUND: bool = R::RUNS_IN_BACKGROUND;

    fn prepare(&mut self) -> Result<(), Error> {
        Arc::get_mut(&mut self.inner).map_or(Ok(()), Runtime::prepare)
    }

    crate::forward_runtime!(
        inner: connect, connect_datagram, connect_unix, resolve, spawn, spawn_blocking,
        spawn_thread, spawn_cleanup, variable, read_file, run_ready, process_id, entropy
    );

    fn sleep(&self, duration: Duration) -> MovedSleep<R> {
        let end = self.now().saturating_add(duration);
        let mut clock = lock(&self.clock);
        clock.last_sleep += 1;
        let number = clock.last_sleep;
        clock.sleeps.insert(number, None);
        drop(clock);
        MovedSleep {
            runtime: self.clone(),
            inner: Box::pin(self.inner.sleep(duration)),
            end,
            number,
        }
    }

    fn now(&self) -> Duration {
        self.inner.now() + lock(&self.clock).moved
    }

    fn wall_time(&self) -> Duration {
        self.inner.wall_time() + lock(&self.clock).moved
    }
}

/// The future that [`MovedTime::sleep`] returns.
pub struct MovedSleep<R: Runtime> {
    runtime: MovedTime<R>,
    inner: Pin<Box<R::Sleep>>,
    end: Duration,
    number: u64,
}

impl<R: Runtime> std::fmt::Debug for MovedSleep<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MovedSleep")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl<R: Runtime> Future for MovedSleep<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The waker is stored before the clock is read, so that no move is missed.
        if let Some(waker) = lock(&self.runtime.clock).sleeps.get_mut(&self.number) {
            *waker = Some(context.waker().clone());
        }
        if self.runtime.now() >= self.end {
            return Poll::Ready(());
        }
        self.inner.as_mut().poll(context)
    }
}

impl<R: Runtime> Drop for MovedSleep<R> {
    fn drop(&mut self) {
        lock(&self.runtime.clock).sleeps.remove(&self.number);
    }
}
