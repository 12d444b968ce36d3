//! Waits for sockets and for time, in one system call.

use crate::{
    executor::{left, lock},
    flag::Flag,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, BorrowedFd},
};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
    task::Waker,
    time::{Duration, Instant},
};

/// How long is waited at once where the system had no sockets left for a bell.
const WITHOUT_BELL: Duration = Duration::from_millis(10);

/// A socket of either kind, not blocking.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

/// A socket and who waits for it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) socket: Socket,
    pub(crate) interest: Mutex<Interest>,
}

/// What is known of a socket, and who wants to hear more.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    /// The system said that there is something to read, and not all of it was read.
    pub(crate) is_readable: bool,
    /// The system said that it can be written to, once.
    pub(crate) takes_more: bool,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
}

/// All sockets, all timers, and a bell for other threads.
#[derive(Debug)]
pub(crate) struct Reactor {
    sources: Mutex<Vec<Arc<Source>>>,
    timers: Mutex<Timers>,
    /// True while a thread waits, and until it has looked around again.
    is_waiting: Flag,
    bell: Mutex<Option<Bell>>,
}

/// What rings, and what hears it.
type Bell = Arc<(UnixStream, UnixStream)>;

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
            bell: Mutex::new(new_bell()),
        }
    }
}

fn new_bell() -> Option<Bell> {
    let (rope, bell) = UnixStream::pair().ok()?;
    rope.set_nonblocking(true).ok()?;
    bell.set_nonblocking(true).ok()?;
    Some(Arc::new((rope, bell)))
}

impl Reactor {
    /// Another bell: the one that there was would ring in another process.
    pub(crate) fn renew_bell(&self) {
        *lock(&self.bell) = new_bell();
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
        // A thread that waits for the socket keeps it open.
        self.ring();
    }

    /// Wakes at `until`, under the number that is returned.
    pub(crate) fn set_timer(&self, until: Instant, id: Option<u64>, waker: Waker) -> u64 {
        let mut timers = lock(&self.timers);
        let id = id.unwrap_or_else(|| {
            timers.next_id += 1;
            timers.next_id
        });
        timers.wakers.insert((until, id), waker);
        drop(timers);
        self.ring();
        id
    }

    pub(crate) fn cancel_timer(&self, until: Instant, id: u64) {
        lock(&self.timers).wakers.remove(&(until, id));
    }

    /// Something became ready; a thread that waits looks around. In the thread that drives, nobody
    /// waits, and this costs nothing.
    pub(crate) fn ring(&self) {
        if self.is_waiting.take()
            && let Some(bell) = &*lock(&self.bell)
        {
            // A full bell rings as well.
            let _ = (&bell.0).write(&[0]);
        }
    }

    /// Waits for a socket, a timer or the bell, and wakes who waits for them. Where something is to
    /// be done anyway it only looks around.
    pub(crate) fn wait(&self, is_idle: impl Fn() -> bool) {
        // First this, then the look at sockets, timers and tasks: whoever adds to them rings.
        self.is_waiting.raise();
        let waiting: Vec<(Arc<Source>, PollFlags)> = lock(&self.sources)
            .iter()
            .filter_map(|source| {
                let flags = lock(&source.interest).flags();
                (!flags.is_empty()).then(|| (source.clone(), flags))
            })
            .collect();
        let bell = lock(&self.bell).clone();
        let mut polled: Vec<PollFd<'_>> = waiting
            .iter()
            .map(|(source, flags)| PollFd::new(&source.socket, *flags))
            .collect();
        if let Some(bell) = &bell {
            polled.push(PollFd::new(&bell.1, PollFlags::IN));
        }
        let limit = if is_idle() {
            self.limit(bell.is_some())
        } else {
            Some(Duration::ZERO)
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        // An interruption by a signal is a reason to look around as any other.
        let found = poll(&mut polled, limit.as_ref()).unwrap_or(0);
        let was_rung = !self.is_waiting.take();
        if found > 0 {
            for (polled, (source, _)) in polled.iter().zip(&waiting) {
                source.tell(polled.revents());
            }
        }
        if let (true, Some(bell)) = (was_rung, &bell) {
            silence(&bell.1);
        }
        self.wake_timers();
    }

    fn limit(&self, has_bell: bool) -> Option<Duration> {
        let next = lock(&self.timers).wakers.keys().next().copied();
        let limit = next.map(|(until, _)| left(until));
        match has_bell {
            true => limit,
            false => Some(limit.unwrap_or(WITHOUT_BELL).min(WITHOUT_BELL)),
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

fn silence(mut bell: &UnixStream) {
    let mut sound = [0; 16];
    while matches!(bell.read(&mut sound), Ok(count) if count == sound.len()) {}
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
    /// What the system said. An end or an error shows when the socket is read or written.
    fn tell(&self, found: PollFlags) {
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
