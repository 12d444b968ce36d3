//! The executor, which runs futures and tasks on the calling threads.
//!
//! Each thread polls the future that it waits for. One thread at a time drives the client: it also
//! polls the tasks and waits for sockets and timers. The other threads sleep until their futures
//! are woken or until they can drive. A thread that polls its future or runs blocking work does not
//! drive meanwhile, because both can run code of the application, such as server selectors, types
//! with serde and listeners.

use crate::{
    drive::{Call, Drive},
    flag::Flag,
    reactor::Reactor,
};
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

/// The maximum number of turns in `finish`, so that tasks that are always ready, and blocking work
/// that always leaves more work, do not prolong a blocking call.
const LAST_TURNS: usize = 16;

/// The tasks, and the right of one thread at a time to run them.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    drive: Drive,
    ready: Mutex<Ready>,
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
            lock(&executor.ready).tasks.push_back(self);
            executor.reactor.notify();
        }
    }
}

/// The tasks and the work that are due.
#[derive(Default)]
struct Ready {
    /// The tasks that were woken and have not been polled since.
    tasks: VecDeque<Arc<Task>>,
    /// The pieces of blocking work, which the threads in calls run one by one.
    work: VecDeque<Box<dyn FnOnce() + Send>>,
}

impl Ready {
    fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.work.is_empty()
    }
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").finish_non_exhaustive()
    }
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

impl Executor {
    /// Runs a future to completion. Runs tasks meanwhile, unless another thread drives.
    pub(crate) fn block_on<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        assert!(
            !self.is_busy_here(),
            "a blocking call was made within another blocking call, for example by an event \
             listener"
        );
        let mut call = self.drive.call();
        let output = self.poll_to_end(&mut call, future);
        // `poll_to_end` has dropped the future, which can have owned the last handle of a client.
        // The tasks of that client then have to close its sockets.
        self.finish(call);
        output
    }

    fn poll_to_end<F: Future>(self: &Arc<Self>, call: &mut Call<'_>, future: F) -> F::Output {
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
            if caller.is_woken.take() {
                call.release();
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return output;
                }
            }
            if self.run_work(call) {
                turns = TURNS_BETWEEN_SOCKET_POLLS;
            }
            if !call.take_or_sleep() {
                // A wake-up of the future unparks this thread. A thread that stops driving unparks
                // a thread that sleeps.
                if !caller.is_woken.is_raised() {
                    thread::park();
                }
                call.wake_up();
                continue;
            }
            let is_idle = || !caller.is_woken.is_raised() && lock(&self.ready).is_empty();
            self.poll_tasks();
            turns += 1;
            if turns >= TURNS_BETWEEN_SOCKET_POLLS || is_idle() {
                turns = 0;
                self.reactor.wait(is_idle);
            }
        }
    }

    /// Runs ready tasks and blocking work, unless a thread already drives and so runs them.
    pub(crate) fn run_ready(&self) {
        self.finish(self.drive.call());
    }

    /// Ends a call. Runs ready tasks and blocking work before, unless another thread can do so: the
    /// thread that drives, or a thread that sleeps and gets the right to drive.
    fn finish<'a>(&'a self, mut call: Call<'a>) {
        for _ in 0..LAST_TURNS {
            if call.take_for_others() && (self.poll_tasks() | self.run_work(&mut call)) {
                continue;
            }
            drop(call);
            // Two calls that end at the same time could leave a task to each other.
            if lock(&self.ready).is_empty() || !self.drive.is_free() {
                break;
            }
            call = self.drive.call();
        }
        if !lock(&self.ready).is_empty() {
            self.reactor.notify();
        }
    }

    /// Runs one piece of blocking work, without the right to drive. Returns true if there was one.
    fn run_work(&self, call: &mut Call<'_>) -> bool {
        let work = lock(&self.ready).work.pop_front();
        let Some(work) = work else { return false };
        call.release();
        work();
        true
    }

    /// Queues blocking work, which the thread runs within its call.
    pub(crate) fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        lock(&self.ready).work.push_back(Box::new(work));
        if !self.is_busy_here() {
            self.run_ready();
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
        self.drive.is_in_call_here()
    }

    /// Polls each ready task once. Returns true if there was a ready task. If a task panics, the
    /// others stay in the queue, and the next thread that drives polls them.
    fn poll_tasks(&self) -> bool {
        let count = lock(&self.ready).tasks.len();
        for _ in 0..count {
            let Some(task) = lock(&self.ready).tasks.pop_front() else {
                break;
            };
            task.is_ready.take();
            // The future is taken out before the poll, so that it is dropped if it panics.
            let future = lock(&task.future).take();
            if let Some(mut future) = future {
                let waker = Waker::from(task.clone());
                let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
                if poll.is_pending() {
                    *lock(&task.future) = Some(future);
                }
            }
        }
        count > 0
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
    use std::{
        future::poll_fn,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::mpsc::{Receiver, Sender, channel},
        time::Instant,
    };

    /// The longest time to wait for a condition.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
            thread::yield_now();
        }
    }

    /// A future that another thread completes.
    fn completed_by_hand() -> (impl Future<Output = ()>, impl FnOnce()) {
        let shared: Arc<(Flag, Mutex<Option<Waker>>)> =
            Arc::new((Flag::new(false), Mutex::default()));
        let other = shared.clone();
        let future = poll_fn(move |context| {
            *lock(&shared.1) = Some(context.waker().clone());
            match shared.0.is_raised() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        let complete = move || {
            other.0.raise();
            if let Some(waker) = lock(&other.1).take() {
                waker.wake();
            }
        };
        (future, complete)
    }

    /// Blocking work that lasts until the sender is used or dropped. `started` gets a message when
    /// the work starts.
    fn held_work(started: Sender<()>) -> (impl FnOnce() + Send + 'static, Sender<()>) {
        let (release, released): (_, Receiver<()>) = channel();
        let work = move || {
            started.send(()).expect("the test waits");
            let _ = released.recv();
        };
        (work, release)
    }

    /// Blocking work that always leaves more work.
    fn spawn_endless(executor: &Arc<Executor>, runs: Arc<AtomicU32>) {
        let again = executor.clone();
        executor.spawn_blocking(move || {
            runs.fetch_add(1, Ordering::Relaxed);
            spawn_endless(&again, runs);
        });
    }

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

    #[test]
    fn a_thread_in_blocking_work_does_not_get_the_right_to_drive() {
        let executor = Arc::new(Executor::default());
        let (started, starts) = channel();
        let (work, release) = held_work(started);
        let (first, complete_first) = completed_by_hand();
        let (second, complete_second) = completed_by_hand();
        let (last, complete_last) = completed_by_hand();
        let (ended, ends) = channel();
        thread::scope(|scope| {
            let executor = &executor;
            // The first thread drives. The second one is in blocking work. The third one sleeps.
            scope.spawn(move || executor.block_on(first));
            until("the first call", || !executor.drive.is_free());
            scope.spawn(move || {
                executor.block_on(async {
                    executor.spawn_blocking(work);
                    second.await;
                });
            });
            starts.recv_timeout(PATIENCE).expect("the work starts");
            scope.spawn(move || executor.block_on(last));
            until("the last call", || executor.drive.sleepers() == 1);
            complete_first();
            executor.spawn(async move { ended.send(()).expect("the test waits") });
            ends.recv_timeout(PATIENCE).expect("the last call drives");
            drop(release);
            complete_second();
            complete_last();
        });
        assert!(executor.drive.is_free());
        assert!(!executor.is_busy_here());
    }

    #[test]
    fn a_thread_does_not_drive_while_it_runs_blocking_work() {
        let executor = Arc::new(Executor::default());
        let (started, starts) = channel();
        let (work, release) = held_work(started);
        let (first, complete_first) = completed_by_hand();
        let (ended, ends) = channel();
        thread::scope(|scope| {
            let executor = &executor;
            scope.spawn(move || {
                executor.block_on(async move {
                    executor.spawn_blocking(work);
                    first.await;
                });
            });
            starts.recv_timeout(PATIENCE).expect("the work starts");
            // The only call so far does not drive, so the next one does.
            executor.block_on(async {
                executor.spawn(async move { ended.send(()).expect("the test waits") })
            });
            ends.recv_timeout(PATIENCE).expect("the task runs");
            drop(release);
            complete_first();
        });
        assert!(executor.drive.is_free());
    }

    #[test]
    fn a_thread_does_not_drive_while_it_polls_its_future() {
        let executor = Arc::new(Executor::default());
        let (first, complete_first) = completed_by_hand();
        let (last, complete_last) = completed_by_hand();
        let (ended, ends) = channel();
        thread::scope(|scope| {
            let executor = &executor;
            // The last poll of the first call needs a task to run, as if it took long. The other
            // call lasts until the task has run, because it is the only one that can run it.
            let call = scope.spawn(move || {
                executor.block_on(async move {
                    first.await;
                    executor.spawn(async move { ended.send(()).expect("the test waits") });
                    ends.recv_timeout(PATIENCE)
                })
            });
            until("the first call", || !executor.drive.is_free());
            scope.spawn(move || executor.block_on(last));
            until("the last call", || executor.drive.sleepers() == 1);
            complete_first();
            let result = call.join().expect("no panic");
            complete_last();
            result.expect("the other call drives");
        });
        assert!(executor.drive.is_free());
    }

    #[test]
    fn work_that_always_leaves_more_work_captures_no_call() {
        let executor = Arc::new(Executor::default());
        let runs = Arc::<AtomicU32>::default();
        let other = executor.clone();
        let counted = runs.clone();
        executor.spawn(async move { spawn_endless(&other, counted) });
        // The call completes after some runs of the work. Its end runs the work a few times more.
        executor.block_on(poll_fn(|context| {
            if runs.load(Ordering::Relaxed) >= 100 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        let last = u32::try_from(LAST_TURNS).expect("a small number");
        let runs = runs.load(Ordering::Relaxed);
        assert!((100..=101 + last).contains(&runs), "{runs} runs");
    }
}
