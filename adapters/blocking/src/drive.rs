//! The right to drive, which one of the threads in a blocking call has at a time.

#[cfg(loom)]
use loom::{
    sync::{Mutex, MutexGuard},
    thread::{self, Thread, ThreadId},
};
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::{
    sync::{Mutex, MutexGuard},
    thread::{self, Thread, ThreadId},
};

/// The right to drive: to run the tasks, and to wait for sockets and timers on behalf of all calls.
///
/// A call that gives the right up hands it to a thread that sleeps ([`Call::take_or_sleep`]). The
/// threads of other calls run code: they poll their futures or call listeners, for any time. Such a
/// thread takes the right, if it is free, before it sleeps.
#[derive(Debug, Default)]
pub(crate) struct Drive(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    /// The thread of each call.
    calls: Vec<ThreadId>,
    /// The threads that sleep, or are about to, until they can drive or their futures are woken.
    sleepers: Vec<Thread>,
}

impl State {
    fn take(&mut self) -> bool {
        !std::mem::replace(&mut self.is_taken, true)
    }

    /// Gives up the right of a call, and wakes a thread that sleeps. That thread takes the right
    /// before it runs other code ([`Call::wake_up`]).
    fn hand_over(&mut self) {
        self.is_taken = false;
        if let Some(sleeper) = self.sleepers.pop() {
            sleeper.unpark();
        }
    }
}

/// One call of `block_on` or `run_ready`. Dropping the value ends the call.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    drive: &'a Drive,
    drives: bool,
}

impl Drive {
    /// Begins a call.
    pub(crate) fn call(&self) -> Call<'_> {
        self.lock().calls.push(thread::current().id());
        Call {
            drive: self,
            drives: false,
        }
    }

    /// True if the current thread is in a call.
    pub(crate) fn is_in_call_here(&self) -> bool {
        self.lock().calls.contains(&thread::current().id())
    }

    /// True if no call has the right to drive.
    pub(crate) fn is_free(&self) -> bool {
        !self.lock().is_taken
    }

    /// Returns the number of threads that sleep.
    #[cfg(test)]
    pub(crate) fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call<'_> {
    /// Takes the right to drive if it is free and no thread sleeps that could take it. Returns true
    /// if this call has the right and no thread sleeps.
    pub(crate) fn take_for_others(&mut self) -> bool {
        let mut state = self.drive.lock();
        if !state.sleepers.is_empty() {
            return false;
        }
        self.drives |= state.take();
        self.drives
    }

    /// Takes the right to drive if it is free. Returns true if this call has the right. Otherwise,
    /// the thread must sleep now, until it is unparked, and then call [`wake_up`](Self::wake_up).
    pub(crate) fn take_or_sleep(&mut self) -> bool {
        if !self.drives {
            let mut state = self.drive.lock();
            self.drives = state.take();
            if !self.drives {
                state.sleepers.push(thread::current());
            }
        }
        self.drives
    }

    /// Takes the right to drive if it is free, after the thread has slept. A thread that is woken
    /// to drive must not run other code before.
    pub(crate) fn wake_up(&mut self) {
        let here = thread::current().id();
        let mut state = self.drive.lock();
        state.sleepers.retain(|sleeper| sleeper.id() != here);
        self.drives = state.take();
    }

    /// Gives up the right to drive, if this call has it, before the thread runs code that can take
    /// long.
    pub(crate) fn release(&mut self) {
        if std::mem::take(&mut self.drives) {
            self.drive.lock().hand_over();
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let here = thread::current().id();
        let mut state = self.drive.lock();
        if let Some(at) = state.calls.iter().rposition(|thread| *thread == here) {
            state.calls.remove(at);
        }
        if self.drives {
            state.hand_over();
        }
    }
}

/// Tests with loom, which explores the interleavings of the threads.
#[cfg(loom)]
#[cfg(test)]
mod tests {
    use super::*;
    use loom::{model, sync::Arc};

    /// The thread of a call waits until it can drive, as in `Executor::poll_to_end`.
    fn wait_to_drive(call: &mut Call<'_>) {
        while !call.take_or_sleep() {
            thread::park();
            call.wake_up();
        }
    }

    /// A call that ends and one that runs long code hand the right to a thread that can take it. A
    /// thread that waits for ever would be a deadlock.
    #[test]
    fn a_right_that_is_given_up_reaches_a_thread_that_sleeps() {
        model(|| {
            let drive = Arc::new(Drive::default());
            let mut first = drive.call();
            assert!(first.take_or_sleep());
            let others = [0, 1].map(|_| {
                let drive = drive.clone();
                thread::spawn(move || {
                    let mut call = drive.call();
                    wait_to_drive(&mut call);
                })
            });
            first.release();
            for other in others {
                // This thread runs code that ends only after the other threads have driven.
                other.join().expect("no panic");
            }
            drop(first);
            assert!(drive.is_free());
        });
    }
}
