//! Threads for blocking work that may never end.

use crate::user_code::catch_panic;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// How long a thread without work waits for more before it ends.
const LINGER: Duration = Duration::from_secs(10);

static POOL: Pool = Pool::new();

/// Runs blocking work, such as the calls of event listeners, on a thread that belongs to no
/// runtime. So the end of a runtime, and of the process, does not wait for the work. The work is
/// dropped if no thread can be made. A runtime whose own threads for blocking work delay its end
/// implements [`Runtime::spawn_blocking`](crate::Runtime::spawn_blocking) with this.
///
/// Threads are used again. A thread ends after it had no work for ten seconds.
///
/// ```
/// use onionskin::system::run_on_thread;
/// use std::sync::mpsc::channel;
///
/// let (sender, receiver) = channel();
/// run_on_thread(move || sender.send(6 * 7).expect("the receiver waits"));
/// assert_eq!(receiver.recv(), Ok(42));
/// ```
pub fn run_on_thread(work: impl FnOnce() + Send + 'static) {
    POOL.run(Box::new(work));
}

type Work = Box<dyn FnOnce() + Send>;

/// Threads that wait for work.
///
/// A forked child process has none of the threads of its parent, so it begins without threads and
/// work.
struct Pool {
    state: Mutex<State>,
    /// Notifies one waiting thread of new work.
    news: Condvar,
}

struct State {
    work: VecDeque<Work>,
    /// The number of threads that wait for work. A thread that was notified counts until it wakes.
    idle: usize,
    threads: usize,
    /// The process of the threads.
    process: u32,
}

impl State {
    fn notice_fork(&mut self) {
        let process = std::process::id();
        if self.process != process {
            // Dropping the work of the parent could run code that must run there only.
            std::mem::forget(std::mem::take(&mut self.work));
            (self.idle, self.threads, self.process) = (0, 0, process);
        }
    }
}

impl Pool {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                work: VecDeque::new(),
                idle: 0,
                threads: 0,
                process: 0,
            }),
            news: Condvar::new(),
        }
    }

    fn run(&'static self, work: Work) {
        let mut state = self.lock();
        state.notice_fork();
        state.work.push_back(work);
        if state.idle >= state.work.len() {
            drop(state);
            self.news.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let builder = thread::Builder::new().name("onionskin blocking work".to_owned());
        if builder.spawn(|| self.serve()).is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            let is_lost = state.threads == 0;
            let lost = is_lost.then(|| std::mem::take(&mut state.work));
            drop(state);
            drop(lost);
        }
    }

    /// Runs work until there was none for [`LINGER`].
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                catch_panic(work);
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.news.wait_timeout(state, LINGER);
            let (again, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle = state.idle.saturating_sub(1);
            if waited.timed_out() && state.work.is_empty() {
                // A child that was forked by work on this thread has forgotten the thread.
                state.threads = state.threads.saturating_sub(1);
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc::channel, time::Instant};

    /// The longest time to wait for a condition.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn until_idle(pool: &Pool, count: usize) {
        let start = Instant::now();
        while pool.lock().idle < count {
            assert!(start.elapsed() < PATIENCE, "the threads are busy");
            thread::yield_now();
        }
    }

    #[test]
    fn work_that_does_not_end_delays_no_other_work() {
        static POOL: Pool = Pool::new();
        let (release, released) = channel::<()>();
        POOL.run(Box::new(move || {
            let _ = released.recv();
        }));
        let (done, is_done) = channel();
        for number in 0..3 {
            let done = done.clone();
            POOL.run(Box::new(move || done.send(number).expect("the test waits")));
        }
        let mut numbers: Vec<i32> = (0..3)
            .map(|_| is_done.recv_timeout(PATIENCE).expect("it runs"))
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2]);
        drop(release);
    }

    #[test]
    fn a_forked_process_waits_for_no_thread_of_its_parent() {
        static POOL: Pool = Pool::new();
        // The state that a child process has of a parent with one idle thread.
        let mut state = POOL.lock();
        (state.idle, state.threads) = (1, 1);
        state.process = !std::process::id();
        state
            .work
            .push_back(Box::new(|| panic!("the parent runs its own work")));
        drop(state);
        let (done, is_done) = channel();
        POOL.run(Box::new(move || done.send(()).expect("the test waits")));
        is_done.recv_timeout(PATIENCE).expect("it runs");
        assert_eq!(POOL.lock().threads, 1);
    }

    #[test]
    fn a_thread_is_used_again_also_after_a_panic() {
        static POOL: Pool = Pool::new();
        POOL.run(Box::new(|| {
            std::panic::resume_unwind(Box::new("it panics"))
        }));
        until_idle(&POOL, 1);
        let mut used: Vec<_> = (0..3)
            .map(|_| {
                let (ids, id) = channel();
                let id_of_thread = move || ids.send(thread::current().id());
                POOL.run(Box::new(move || id_of_thread().expect("the test waits")));
                let id = id.recv_timeout(PATIENCE).expect("it runs");
                until_idle(&POOL, 1);
                id
            })
            .collect();
        used.dedup();
        assert_eq!(used.len(), 1);
        assert_eq!(POOL.lock().threads, 1);
    }
}
