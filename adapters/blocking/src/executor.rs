//! The executor, which runs futures and tasks on the calling threads.
//!
//! Each thread polls the future that it waits for. One thread at a time drives the client: it also
//! polls the tasks and waits for sockets and timers. The other threads sleep until their futures
//! are woken or until they can drive.

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

/// The maximum number of calls of `poll_tasks` between two polls of the sockets, so that tasks that
/// are always ready do not block the tasks that wait for sockets.
const TURNS_BETWEEN_SOCKET_POLLS: u32 = 8;

/// The maximum number of calls of `poll_tasks` in `last_turns`, so that tasks that are always ready
/// do not prolong a blocking call.
const LAST_TURNS: usize = 16;

/// The tasks, and the right of one thread at a time to run them.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    turn: Mutex<Turn>,
    /// The tasks that were woken and have not been polled since.
    ready: Mutex<VecDeque<Arc<Task>>>,
    /// The id of the process at the last call of `process_id`; zero before the first call.
    process: AtomicU32,
    pub(crate) reactor: Reactor,
}

/// A spawned future. Its wakers and the queue of ready tasks keep a task alive.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// True from the wake-up of the task until the task is polled.
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
            executor.reactor.notify();
        }
    }
}

/// The right of one call to drive, and the threads whose calls can take it.
#[derive(Debug, Default)]
struct Turn {
    is_taken: bool,
    /// The threads in `block_on` or `run_ready`.
    busy: Vec<Thread>,
}

/// The waker of the future that a thread waits for.
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
            executor.reactor.notify();
        }
    }
}

/// The entry of a thread in `Turn::busy`, for one call of `block_on` or `run_ready`. Dropping the
/// value removes the entry.
struct Busy<'a> {
    executor: &'a Executor,
    drives: bool,
}

impl Busy<'_> {
    /// Takes the right to drive, if no other call has it. Returns true if this call has it.
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
        // If no thread drives now, one of the others has to take the right. That thread can be
        // asleep, so it is unparked.
        if let (false, Some(next)) = (turn.is_taken, turn.busy.first()) {
            next.unpark();
        }
    }
}

impl Executor {
    /// Runs a future to completion. Runs tasks meanwhile, unless another thread drives.
    pub(crate) fn block_on<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        assert!(
            !self.is_busy_here(),
            "a blocking call was made within another blocking call, for example by an event \
             listener"
        );
        let mut busy = self.busy();
        let output = self.poll_to_end(&mut busy, future);
        // `poll_to_end` has dropped the future, which can have owned the last handle of a client.
        // The tasks of that client then have to close its sockets.
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
                // A wake-up of the future unparks this thread. A thread that stops driving unparks
                // one of the other threads.
                if !caller.is_woken.is_raised() {
                    thread::park();
                }
                continue;
            }
            self.poll_tasks();
            turns += 1;
            if turns >= TURNS_BETWEEN_SOCKET_POLLS || is_idle() {
                turns = 0;
                self.reactor.wait(is_idle);
            }
        }
    }

    /// Runs ready tasks, unless a thread already drives and so runs them.
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

    /// Returns the id of the process. Replaces the wake pipe if the process was forked since the
    /// last call.
    pub(crate) fn process_id(&self) -> u32 {
        let process = std::process::id();
        let before = self.process.swap(process, Ordering::Relaxed);
        if before != process && before != 0 {
            self.reactor.renew_wake_pipe();
        }
        process
    }

    /// True if the current thread is in `block_on` or `run_ready`.
    pub(crate) fn is_busy_here(&self) -> bool {
        let here = thread::current().id();
        let turn = lock(&self.turn);
        turn.busy.iter().any(|thread| thread.id() == here)
    }

    /// Polls each ready task once. Returns true if there was a ready task. If a task panics, the
    /// others stay in the queue, and the next thread that drives polls them.
    fn poll_tasks(&self) -> bool {
        let count = lock(&self.ready).len();
        for _ in 0..count {
            let Some(task) = lock(&self.ready).pop_front() else {
                break;
            };
            task.is_ready.take();
            // The future is taken out before the poll, so that it is dropped if it panics.
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
        count > 0
    }

    fn last_turns(&self) {
        for _ in 0..LAST_TURNS {
            if !self.poll_tasks() {
                return;
            }
        }
    }
}

/// Locks a mutex. Poisoning is ignored, because no panic leaves the data in an invalid state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time until `until`; zero if it has passed.
pub(crate) fn remaining(until: std::time::Instant) -> Duration {
    until.saturating_duration_since(std::time::Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_task_that_panics_does_not_stop_the_other_tasks() {
        let executor = Arc::new(Executor::default());
        let done: Arc<Mutex<Vec<u32>>> = Arc::default();
        for number in 0..6 {
            let done = done.clone();
            executor.spawn(async move {
                assert!(number % 3 != 1, "the task panics");
                lock(&done).push(number);
            });
        }
        for _ in 0..2 {
            let run = catch_unwind(AssertUnwindSafe(|| executor.run_ready()));
            assert!(run.is_err(), "tasks 1 and 4 panic");
        }
        executor.block_on(std::future::ready(()));
        assert_eq!(*lock(&done), [0, 2, 3, 5]);
        assert!(!executor.is_busy_here());
    }
}
