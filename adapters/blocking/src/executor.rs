//! Runs futures on the calling threads, for as long as they wait for them.
//!
//! Each thread polls the future that it waits for. One thread at a time drives: it also polls the
//! tasks and waits for sockets and timers. The others park until their futures are woken or until
//! it is their turn to drive. So a time limit of one thread holds while another thread drives.

use crate::{flag::Flag, reactor::Reactor};
use std::{
    collections::VecDeque,
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

/// Turns of ready tasks before sockets are looked at, so that those who wait for them are not
/// forgotten over tasks that always go on.
const TURNS_BETWEEN_LOOKS: u32 = 8;

/// Turns of ready tasks before a call returns; a peer that never falls silent cannot prolong it.
const LAST_TURNS: usize = 16;

/// Tasks, and the one thread at a time that moves them.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    turn: Mutex<Turn>,
    /// Tasks that were woken.
    ready: Mutex<VecDeque<Arc<Task>>>,
    /// Which process this was last; zero at first.
    process: AtomicU32,
    pub(crate) reactor: Reactor,
}

/// A future that runs on its own. Its wakers keep it alive; without any it can never go on.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// True while the task is in the list of woken tasks.
    is_ready: Flag,
    executor: Weak<Executor>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.is_ready.raise()
            && let Some(executor) = self.executor.upgrade()
        {
            lock(&executor.ready).push_back(self);
            executor.reactor.ring();
        }
    }
}

/// Which thread drives.
#[derive(Debug, Default)]
struct Turn {
    is_taken: bool,
    /// Threads that wait for a future, or run tasks.
    busy: Vec<Thread>,
}

/// Wakes the future that the thread waits for.
struct Caller {
    is_woken: Flag,
    thread: Thread,
    executor: Weak<Executor>,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.is_woken.raise();
        self.thread.unpark();
        if let Some(executor) = self.executor.upgrade() {
            executor.reactor.ring();
        }
    }
}

/// A thread that waits for a future or runs tasks, until it is dropped.
struct Busy<'a> {
    executor: &'a Executor,
    drives: bool,
}

impl Busy<'_> {
    /// Lets this thread drive, unless another one does.
    fn drives(&mut self) -> bool {
        self.drives |= !std::mem::replace(&mut lock(&self.executor.turn).is_taken, true);
        self.drives
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let here = thread::current().id();
        let mut turn = lock(&self.executor.turn);
        turn.is_taken &= !self.drives;
        if let Some(at) = turn.busy.iter().rposition(|thread| thread.id() == here) {
            turn.busy.remove(at);
        }
        // This thread drove, or may be the one that was woken to drive.
        if let (false, Some(next)) = (turn.is_taken, turn.busy.first()) {
            next.unpark();
        }
    }
}

impl Executor {
    /// Runs a future to its end, and all tasks as far as they come meanwhile. While another thread
    /// drives, only the future is polled here.
    pub(crate) fn block_on<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        assert!(
            !self.is_busy_here(),
            "a blocking call was made from within another one, such as by an event listener"
        );
        let mut busy = self.busy();
        let output = self.poll_to_end(&mut busy, future);
        // The future is gone. It may have been the last that kept a client open, whose tasks then
        // have an end to make.
        if busy.drives() {
            self.last_turns();
        }
        drop(busy);
        if !lock(&self.ready).is_empty() {
            self.run_ready();
        }
        output
    }

    fn poll_to_end<F: Future>(self: &Arc<Self>, busy: &mut Busy<'_>, future: F) -> F::Output {
        busy.drives();
        let mut future = pin!(future);
        let caller = Arc::new(Caller {
            is_woken: Flag::new(true),
            thread: thread::current(),
            executor: Arc::downgrade(self),
        });
        let waker = Waker::from(caller.clone());
        let mut context = Context::from_waker(&waker);
        let mut turns = 0;
        loop {
            if caller.is_woken.take()
                && let Poll::Ready(output) = future.as_mut().poll(&mut context)
            {
                return output;
            }
            let is_idle = || !caller.is_woken.is_raised() && lock(&self.ready).is_empty();
            if !busy.drives() {
                // Whoever wakes the future or gives the turn back unparks this thread.
                if !caller.is_woken.is_raised() {
                    thread::park();
                }
                continue;
            }
            self.poll_tasks();
            turns += 1;
            if turns >= TURNS_BETWEEN_LOOKS || is_idle() {
                turns = 0;
                self.reactor.wait(is_idle);
            }
        }
    }

    /// Gives ready tasks their turn, unless a thread drives already and does so itself.
    pub(crate) fn run_ready(&self) {
        let mut busy = self.busy();
        if busy.drives() {
            self.last_turns();
        }
    }

    fn busy(&self) -> Busy<'_> {
        lock(&self.turn).busy.push(thread::current());
        Busy {
            executor: self,
            drives: false,
        }
    }

    pub(crate) fn spawn(self: &Arc<Self>, future: impl Future<Output = ()> + Send + 'static) {
        let task = Arc::new(Task {
            future: Mutex::new(Some(Box::pin(future))),
            is_ready: Flag::new(false),
            executor: Arc::downgrade(self),
        });
        task.wake();
    }

    /// The process that runs. In a child that was forked, the bell is the parent's no longer.
    pub(crate) fn process_id(&self) -> u32 {
        let process = std::process::id();
        let before = self.process.swap(process, Ordering::Relaxed);
        if before != process && before != 0 {
            self.reactor.renew_bell();
        }
        process
    }

    /// True in a thread that waits for a future or runs tasks.
    pub(crate) fn is_busy_here(&self) -> bool {
        let here = thread::current().id();
        let turn = lock(&self.turn);
        turn.busy.iter().any(|thread| thread.id() == here)
    }

    /// Polls each task that is ready once; true if there was one.
    fn poll_tasks(&self) -> bool {
        let ready = std::mem::take(&mut *lock(&self.ready));
        let was_ready = !ready.is_empty();
        for task in ready {
            task.is_ready.take();
            // Taken out while it is polled, so that it is dropped if it panics.
            let future = lock(&task.future).take();
            if let Some(mut future) = future {
                let waker = Waker::from(task.clone());
                if future
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
                {
                    *lock(&task.future) = Some(future);
                }
            }
        }
        was_ready
    }

    fn last_turns(&self) {
        for _ in 0..LAST_TURNS {
            if !self.poll_tasks() {
                return;
            }
        }
    }
}

/// The lock of data that no panic can leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is left until `until`, not at all if it has passed.
pub(crate) fn left(until: std::time::Instant) -> Duration {
    until.saturating_duration_since(std::time::Instant::now())
}
