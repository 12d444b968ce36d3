//! The flags by which threads wake each other.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that several threads raise and lower.
///
/// Each access is a read-modify-write operation, also [`is_raised`](Self::is_raised). So the
/// accesses to one flag have a total order, and each access sees everything that happened before
/// the preceding ones.
///
/// Two flags are enough for a thread that goes to sleep. The thread raises "waiting" and then reads
/// "woken". Another thread raises "woken" and then reads "waiting". If the first thread does not
/// see "woken", its read came before the other thread raised that flag. The other thread reads
/// "waiting" after that, and sees it. With a plain load or store in one of the four places, both
/// threads can miss each other, because a store can be delayed beyond a later load.
#[derive(Debug)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn new(is_raised: bool) -> Self {
        Self(AtomicBool::new(is_raised))
    }

    /// Raises the flag. Returns true if the flag was not raised before.
    pub(crate) fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Lowers the flag. Returns true if the flag was raised before.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.fetch_or(false, Ordering::AcqRel)
    }
}

/// Tests with loom, which explores the interleavings of two threads and the values that a weak
/// memory model permits.
#[cfg(loom)]
#[cfg(test)]
mod tests {
    use super::*;
    use loom::{
        model,
        sync::{Arc, Condvar, Mutex, atomic::AtomicUsize},
        thread,
    };

    /// A model of the reactor's socket pair, which stays readable from `notify` until `clear`.
    #[derive(Default)]
    struct WakePipe {
        is_readable: Mutex<bool>,
        readable: Condvar,
    }

    impl WakePipe {
        fn notify(&self) {
            *self.is_readable.lock().expect("no panic") = true;
            self.readable.notify_one();
        }

        fn clear(&self) {
            *self.is_readable.lock().expect("no panic") = false;
        }

        fn wait(&self) {
            let mut is_readable = self.is_readable.lock().expect("no panic");
            while !*is_readable {
                is_readable = self.readable.wait(is_readable).expect("no panic");
            }
        }
    }

    /// One thread waits as in `Reactor::wait`, and the other thread wakes it as in `Caller::wake`.
    /// A lost wake-up would be a deadlock.
    #[test]
    fn a_thread_that_goes_to_sleep_misses_no_wake_up() {
        model(|| {
            let shared = Arc::new((Flag::new(false), Flag::new(false), WakePipe::default()));
            let other = shared.clone();
            let waker = thread::spawn(move || {
                let (is_woken, is_waiting, wake_pipe) = &*other;
                is_woken.raise();
                if is_waiting.take() {
                    wake_pipe.notify();
                }
            });
            let (is_woken, is_waiting, wake_pipe) = &*shared;
            while !is_woken.take() {
                is_waiting.raise();
                if !is_woken.is_raised() {
                    wake_pipe.wait();
                }
                if !is_waiting.take() {
                    wake_pipe.clear();
                }
            }
            waker.join().expect("no panic");
        });
    }

    /// One thread polls a task as in `Executor::poll_tasks`, and the other thread wakes the task as
    /// in `Task::wake`. Either the task is queued again, or its poll sees the reason of the
    /// wake-up.
    #[test]
    fn a_wake_up_during_a_poll_is_seen_by_it_or_queues_the_task_again() {
        model(|| {
            let shared = Arc::new((Flag::new(true), AtomicUsize::new(0)));
            let other = shared.clone();
            let waker = thread::spawn(move || {
                let (is_ready, news) = &*other;
                news.store(1, Ordering::Relaxed);
                is_ready.raise()
            });
            let (is_ready, news) = &*shared;
            is_ready.take();
            let is_seen = news.load(Ordering::Relaxed) == 1;
            let is_queued = waker.join().expect("no panic");
            assert!(is_seen || is_queued, "a lost wake-up");
        });
    }
}
