//! Runs futures on the calling threads, for as long as they wait for them.
//!
//! Each thread polls the future that it waits for. One thread at a time drives: it also polls the
//! tasks and waits for sockets and timers. The others park until their futures are woken or until it
//! is their turn to drive. So a time limit of one thread holds while another thread drives.

use crate::{flag::Flag, reactor::Reactor};
use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread, ThreadId},
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
    /// Threads that wait for a future, or run tasks.
    busy: Mutex<Vec<ThreadId>>,
    /// Tasks that were woken.
    ready: Mutex<VecDeque<Arc<Task>>>,
    /// Which process this was last; zero at first.
    process: AtomicU32,
    pub(crate) reactor: Reactor,
}

/// A future that runs on its own. Its wakers keep it alive; without any it can never go on.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// It stands among the tasks that were woken.
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
    /// Threads that are to drive next, in the order of their numbers.
    waiting: BTreeMap<u64, Thread>,
    next: u64,
}

impl Turn {
    /// Wakes the thread that is to drive, if none does. It stays in the queue until it drives or
    /// leaves.
    fn hand_over(&self) {
        if !self.is_taken
            && let Some((_, thread)) = self.waiting.first_key_value()
        {
            thread.unpark();
        }
    }
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

/// The turn of the thread that drives, until it is dropped.
struct Driving<'a>(&'a Executor);

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let mut turn = lock(&self.0.turn);
        turn.is_taken = false;
        turn.hand_over();
    }
}

/// A place in the queue of the threads that wait for the turn, until it is dropped.
struct Queued<'a> {
    executor: &'a Executor,
    number: u64,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut turn = lock(&self.executor.turn);
        turn.waiting.remove(&self.number);
        // This thread may have been the one that was woken to drive.
        turn.hand_over();
    }
}

/// A thread that waits for a future or runs tasks, until it is dropped.
struct Busy<'a>(&'a Executor);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut busy = lock(&self.0.busy);
        let here = thread::current().id();
        if let Some(at) = busy.iter().rposition(|&id| id == here) {
            busy.swap_remove(at);
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
        let _busy = self.busy();
        let mut future = pin!(future);
        let caller = Arc::new(Caller {
            is_woken: Flag::new(true),
            thread: thread::current(),
            executor: Arc::downgrade(self),
        });
        let waker = Waker::from(caller.clone());
        let mut context = Context::from_waker(&waker);
        let mut queued = None;
        loop {
            if let Some(_driving) = self.take_turn() {
                drop(queued);
                return self.drive(&caller, &mut context, future);
            }
            if caller.is_woken.take() {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    self.run_ready();
                    return output;
                }
            } else if queued.is_none() {
                // The turn may have been given back before this thread stood in the queue.
                queued = Some(self.queue());
            } else {
                thread::park();
            }
        }
    }

    /// Polls the future and the tasks, and waits for sockets and timers.
    fn drive<F: Future>(
        &self,
        caller: &Caller,
        context: &mut Context<'_>,
        mut future: Pin<&mut F>,
    ) -> F::Output {
        let mut turns = 0;
        loop {
            if caller.is_woken.take()
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                self.last_turns();
                return output;
            }
            self.poll_tasks();
            let is_idle = || !caller.is_woken.is_raised() && lock(&self.ready).is_empty();
            turns += 1;
            if turns >= TURNS_BETWEEN_LOOKS || is_idle() {
                turns = 0;
                self.reactor.wait(is_idle);
            }
        }
    }

    /// Gives ready tasks their turn, unless a thread drives already and does so itself.
    pub(crate) fn run_ready(&self) {
        if let Some(_driving) = self.take_turn() {
            let _busy = self.busy();
            self.last_turns();
        }
    }

    /// Lets this thread drive, unless another one does.
    fn take_turn(&self) -> Option<Driving<'_>> {
        let is_taken = std::mem::replace(&mut lock(&self.turn).is_taken, true);
        (!is_taken).then(|| Driving(self))
    }

    fn queue(&self) -> Queued<'_> {
        let mut turn = lock(&self.turn);
        let number = turn.next;
        turn.next += 1;
        turn.waiting.insert(number, thread::current());
        Queued {
            executor: self,
            number,
        }
    }

    fn busy(&self) -> Busy<'_> {
        lock(&self.busy).push(thread::current().id());
        Busy(self)
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
        lock(&self.busy).contains(&thread::current().id())
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
