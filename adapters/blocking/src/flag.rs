//! Flags between the thread that drives and those that wake it.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that several threads raise and one takes.
///
/// Each access is a read-modify-write, reading included. So all accesses to one flag have an order,
/// and each sees what happened before those that precede it. Two flags suffice for a thread that
/// goes to sleep: it raises "I wait" and then looks at "there is a reason"; another thread raises
/// the reason and then looks at "I wait". If the sleeper's look comes first, the other thread's
/// raise follows it, and sees that the sleeper waits. A plain load or store in one of the four
/// places permits that neither sees the other: the store may be delayed beyond the load behind it.
#[derive(Debug)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn new(is_raised: bool) -> Self {
        Self(AtomicBool::new(is_raised))
    }

    /// Raises it; true if it was not raised before.
    pub(crate) fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Lowers it; true if it was raised before.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.fetch_or(false, Ordering::AcqRel)
    }
}

/// All orders in which two threads may come, and all values that weak memory may show them.
#[cfg(loom)]
#[cfg(test)]
mod tests {
    use super::*;
    use loom::{
        model,
        sync::{Arc, Condvar, Mutex, atomic::AtomicUsize},
        thread,
    };

    /// What a socket pair is for the reactor: it stays readable once it was written to.
    #[derive(Default)]
    struct Bell {
        rings: Mutex<bool>,
        rung: Condvar,
    }

    impl Bell {
        fn ring(&self) {
            *self.rings.lock().expect("no panic") = true;
            self.rung.notify_one();
        }

        fn silence(&self) {
            *self.rings.lock().expect("no panic") = false;
        }

        fn wait(&self) {
            let mut rings = self.rings.lock().expect("no panic");
            while !*rings {
                rings = self.rung.wait(rings).expect("no panic");
            }
        }
    }

    /// The caller's waker against `Reactor::wait`; a wake-up that is lost is a deadlock.
    #[test]
    fn a_thread_that_goes_to_sleep_misses_no_wake_up() {
        model(|| {
            let shared = Arc::new((Flag::new(false), Flag::new(false), Bell::default()));
            let other = shared.clone();
            let waker = thread::spawn(move || {
                let (is_woken, is_waiting, bell) = &*other;
                is_woken.raise();
                if is_waiting.take() {
                    bell.ring();
                }
            });
            let (is_woken, is_waiting, bell) = &*shared;
            while !is_woken.take() {
                is_waiting.raise();
                if !is_woken.is_raised() {
                    bell.wait();
                }
                if !is_waiting.take() {
                    bell.silence();
                }
            }
            waker.join().expect("no panic");
        });
    }

    /// A task's waker against `Executor::turn`: either the task is queued again, or its poll sees
    /// what it was woken for.
    #[test]
    fn a_task_that_is_polled_sees_why_it_was_woken() {
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
