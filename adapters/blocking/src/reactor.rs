//! The reactor, which waits for sockets and timers with one system call.

use crate::{
    executor::{lock, remaining},
    flag::Flag,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, BorrowedFd},
};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    mem,
    net::{TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::{Duration, Instant},
};

/// The maximum duration of one wait if the wake pipe could not be created.
const WAIT_WITHOUT_PIPE: Duration = Duration::from_millis(10);

/// A socket in non-blocking mode.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Udp(UdpSocket),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

/// A socket with its [`Interest`].
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) socket: Socket,
    pub(crate) interest: Mutex<Interest>,
}

/// The readiness of a socket, and the wakers of the tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    /// True if `poll` reported the socket as readable or failed, and no read has emptied it since.
    pub(crate) is_readable: bool,
    /// True if `poll` ever reported the socket as writable or failed.
    pub(crate) takes_more: bool,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
}

/// The sockets and timers of one executor, and a wake pipe by which other threads end a wait.
#[derive(Debug)]
pub(crate) struct Reactor {
    sources: Mutex<Vec<Arc<Source>>>,
    timers: Mutex<Timers>,
    /// True from the start of a wait until `poll` returns or another thread ends the wait.
    is_waiting: Flag,
    wake_pipe: Mutex<Option<WakePipe>>,
}

/// A socket pair: a byte written to the first socket makes the second one readable and so ends a
/// wait.
type WakePipe = Arc<(UnixStream, UnixStream)>;

#[derive(Debug, Default)]
struct Timers {
    next_id: u64,
    wakers: BTreeMap<(Instant, u64), Waker>,
}

impl Default for Reactor {
    fn default() -> Self {
        Self {
            sources: Mutex::default(),
            timers: Mutex::default(),
            is_waiting: Flag::new(false),
            wake_pipe: Mutex::new(new_wake_pipe()),
        }
    }
}

fn new_wake_pipe() -> Option<WakePipe> {
    let (writer, reader) = UnixStream::pair().ok()?;
    writer.set_nonblocking(true).ok()?;
    reader.set_nonblocking(true).ok()?;
    Some(Arc::new((writer, reader)))
}

impl Reactor {
    /// Replaces the wake pipe. After a fork, the child process shares the old one with its parent.
    pub(crate) fn renew_wake_pipe(&self) {
        *lock(&self.wake_pipe) = new_wake_pipe();
    }

    pub(crate) fn add_source(&self, socket: Socket) -> Arc<Source> {
        let source = Arc::new(Source {
            socket,
            interest: Mutex::default(),
        });
        lock(&self.sources).push(source.clone());
        source
    }

    pub(crate) fn remove_source(&self, source: &Arc<Source>) {
        lock(&self.sources).retain(|other| !Arc::ptr_eq(other, source));
        // A thread that waits for the socket keeps it open, so its wait must end.
        self.notify();
    }

    /// Sets a timer that wakes `waker` at `until`, or replaces the waker of the timer `id`, which
    /// must have the same time. Returns the id of the timer.
    pub(crate) fn set_timer(&self, until: Instant, id: Option<u64>, waker: Waker) -> u64 {
        let mut timers = lock(&self.timers);
        let id = id.unwrap_or_else(|| {
            timers.next_id += 1;
            timers.next_id
        });
        // Dropping a waker can drop a task with timers of its own, so it happens outside of the
        // lock.
        let _replaced = timers.wakers.insert((until, id), waker);
        drop(timers);
        self.notify();
        id
    }

    pub(crate) fn cancel_timer(&self, until: Instant, id: u64) {
        // The lock ends with this statement, before the waker is dropped.
        let _canceled = lock(&self.timers).wakers.remove(&(until, id));
    }

    /// Ends the wait of another thread, for example because a task was woken or a timer was set.
    /// Does nothing if no thread waits.
    pub(crate) fn notify(&self) {
        if self.is_waiting.take()
            && let Some(wake_pipe) = &*lock(&self.wake_pipe)
        {
            // If the write fails, the socket pair is full, so the wait ends anyway.
            let _ = (&wake_pipe.0).write(&[0]);
        }
    }

    /// Waits for a socket, a timer or the wake pipe, and wakes the tasks that wait for them. If
    /// `is_idle` returns false, checks the sockets and timers without blocking.
    pub(crate) fn wait(&self, is_idle: impl Fn() -> bool) {
        // The flag is raised before sockets, timers and tasks are read. Threads that add to them
        // later see the flag and write to the wake pipe.
        self.is_waiting.raise();
        let waiting: Vec<(Arc<Source>, PollFlags)> = lock(&self.sources)
            .iter()
            .filter_map(|source| {
                let flags = lock(&source.interest).flags();
                (!flags.is_empty()).then(|| (source.clone(), flags))
            })
            .collect();
        let wake_pipe = lock(&self.wake_pipe).clone();
        let mut polled: Vec<PollFd<'_>> = waiting
            .iter()
            .map(|(source, flags)| PollFd::new(&source.socket, *flags))
            .collect();
        if let Some(wake_pipe) = &wake_pipe {
            polled.push(PollFd::new(&wake_pipe.1, PollFlags::IN));
        }
        let limit = if is_idle() {
            self.limit(wake_pipe.is_some())
        } else {
            Some(Duration::ZERO)
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        // An interruption by a signal ends the wait as well.
        let found = poll(&mut polled, limit.as_ref()).unwrap_or(0);
        self.is_waiting.take();
        if found > 0 {
            for (polled, (source, _)) in polled.iter().zip(&waiting) {
                source.record_readiness(polled.revents());
            }
        }
        // A thread that notified writes its byte later, perhaps only during the next wait.
        let of_pipe = polled.get(waiting.len());
        let is_readable = of_pipe.is_some_and(|polled| !polled.revents().is_empty());
        if let (true, Some(wake_pipe)) = (is_readable, &wake_pipe) {
            clear_wake_pipe(&wake_pipe.1);
        }
        self.wake_timers();
    }

    fn limit(&self, has_wake_pipe: bool) -> Option<Duration> {
        let next = lock(&self.timers).wakers.keys().next().copied();
        let limit = next.map(|(until, _)| remaining(until));
        match has_wake_pipe {
            true => limit,
            false => Some(limit.unwrap_or(WAIT_WITHOUT_PIPE).min(WAIT_WITHOUT_PIPE)),
        }
    }

    fn wake_timers(&self) {
        if lock(&self.timers).wakers.is_empty() {
            return;
        }
        let now = Instant::now();
        loop {
            let mut timers = lock(&self.timers);
            let due = timers.wakers.first_entry().filter(|e| e.key().0 <= now);
            let Some(waker) = due.map(|entry| entry.remove()) else {
                return;
            };
            drop(timers);
            waker.wake();
        }
    }
}

fn clear_wake_pipe(mut reader: &UnixStream) {
    let mut buffer = [0; 16];
    while matches!(reader.read(&mut buffer), Ok(count) if count == buffer.len()) {}
}

impl Interest {
    fn flags(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.reader.is_some());
        flags.set(PollFlags::OUT, self.writer.is_some());
        flags
    }
}

impl Source {
    /// Stores the waker of `context` in the place that `place` returns. Returns false if `place`
    /// returns `None`, because the socket is ready.
    ///
    /// Wakers are cloned and dropped outside of the lock, because both can run code of the
    /// application's executor.
    pub(crate) fn wait(
        &self,
        context: &Context<'_>,
        place: impl FnOnce(&mut Interest) -> Option<&mut Option<Waker>>,
    ) -> bool {
        let mut waker = Some(context.waker().clone());
        // Declared after the waker, so the lock is released before the old waker is dropped.
        let mut interest = lock(&self.interest);
        let place = place(&mut interest);
        place.map(|place| mem::swap(place, &mut waker)).is_some()
    }

    /// Records the readiness that the system reported, and wakes the waiting tasks. A closed
    /// connection or an error counts as readable and writable: the next read or write finds it.
    fn record_readiness(&self, found: PollFlags) {
        let ended = found.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        let mut interest = lock(&self.interest);
        let mut wakers = [None, None];
        if ended || found.contains(PollFlags::IN) {
            interest.is_readable = true;
            wakers[0] = interest.reader.take();
        }
        if ended || found.contains(PollFlags::OUT) {
            interest.takes_more = true;
            wakers[1] = interest.writer.take();
        }
        drop(interest);
        for waker in wakers.into_iter().flatten() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, task::Wake, thread};

    /// A waker of a task that has a timer and a socket. They go with the task.
    struct LastOfItsTask {
        reactor: Arc<Reactor>,
        source: Arc<Source>,
        timer: (Instant, u64),
    }

    impl Wake for LastOfItsTask {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for LastOfItsTask {
        fn drop(&mut self) {
            self.reactor.cancel_timer(self.timer.0, self.timer.1);
            lock(&self.source.interest).is_readable = false;
        }
    }

    #[test]
    fn a_byte_that_is_written_late_ends_one_wait_only() {
        let reactor = Reactor::default();
        // A thread that notifies can write its byte after the wait has ended.
        let wake_pipe = lock(&reactor.wake_pipe).clone().expect("a pipe");
        (&wake_pipe.0).write_all(&[0]).expect("written");
        reactor.wait(|| true);
        let until = Instant::now() + Duration::from_millis(20);
        reactor.set_timer(until, None, Waker::noop().clone());
        reactor.wait(|| true);
        assert!(Instant::now() >= until, "the byte was read");
    }

    #[test]
    fn a_waker_that_is_replaced_may_drop_its_task() {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let reactor = Arc::new(Reactor::default());
            let (socket, _peer) = UnixStream::pair().expect("sockets");
            let source = reactor.add_source(Socket::Unix(socket));
            let until = Instant::now() + Duration::from_secs(3600);
            let waker = || {
                let timer = reactor.set_timer(until, None, Waker::noop().clone());
                Waker::from(Arc::new(LastOfItsTask {
                    reactor: reactor.clone(),
                    source: source.clone(),
                    timer: (until, timer),
                }))
            };
            let id = reactor.set_timer(until, None, waker());
            assert_eq!(reactor.set_timer(until, Some(id), waker()), id);
            reactor.cancel_timer(until, id);
            for waker in [waker(), waker()] {
                let context = Context::from_waker(&waker);
                assert!(source.wait(&context, |interest| Some(&mut interest.reader)));
            }
            let noop = Context::from_waker(Waker::noop());
            assert!(source.wait(&noop, |interest| Some(&mut interest.reader)));
            let left = lock(&reactor.timers).wakers.len();
            done.send(left).expect("the test waits");
        });
        let left = is_done.recv_timeout(Duration::from_secs(30));
        assert_eq!(left, Ok(0), "a lock was held while a waker was dropped");
    }
}
