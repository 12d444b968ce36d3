//! Listeners at virtual addresses, and the server's ends of their connections.

use super::{SimRuntime, executor::Shared};
use crate::world::network::{Incoming, LinkId, ListenerEvent, ListenerId};
use onionskin_core::address::Address;
use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// The number of unread bytes in each direction of a listener's connection at which writes wait.
pub const WINDOW_BYTES: usize = 16 * 1024;

/// The port of the first listener on port 0. Each further one gets the next port.
const FIRST_PORT: u16 = 30_000;

/// The state of all listeners and of their connections.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    pub(super) sockets: BTreeMap<LinkId, Socket>,
    states: BTreeMap<ListenerId, ListenerState>,
    ports: u16,
}

/// The connections that a listener has not accepted yet.
#[derive(Debug, Default)]
struct ListenerState {
    queue: VecDeque<LinkId>,
    acceptor: Option<Waker>,
}

/// The state of the server's end of a connection.
#[derive(Debug, Default)]
pub(super) struct Socket {
    inbox: VecDeque<u8>,
    /// True if no more bytes will arrive.
    is_at_end: bool,
    /// True if no more bytes may be written.
    is_finished: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// The number of bytes that the client has not read yet.
    unread: usize,
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Listeners {
    /// Handles an event on a listener's connection.
    pub(super) fn handle(&mut self, link: LinkId, event: ListenerEvent) {
        if let ListenerEvent::Opened(id) = event {
            self.sockets.insert(link, Socket::default());
            if let Some(listener) = self.states.get_mut(&id) {
                listener.queue.push_back(link);
                wake(&mut listener.acceptor);
            }
            return;
        }
        let Some(socket) = self.sockets.get_mut(&link) else {
            return;
        };
        match event {
            ListenerEvent::Bytes(bytes) => socket.inbox.extend(bytes),
            _ => {
                socket.is_at_end = true;
                socket.is_finished = true;
                wake(&mut socket.writer);
            }
        }
        wake(&mut socket.reader);
    }

    /// Handles the client's read of some bytes.
    pub(super) fn was_read(&mut self, link: LinkId, count: usize) {
        if let Some(socket) = self.sockets.get_mut(&link) {
            socket.unread = socket.unread.saturating_sub(count);
            wake(&mut socket.writer);
        }
    }
}

impl SimRuntime {
    /// Accepts connections to an address. For port 0, the runtime chooses a port. Fails with
    /// `AddrInUse` if the address is in use.
    ///
    /// A client's connection is established before [`SimListener::accept`] returns it, as operating
    /// systems do it.
    pub fn listen(&self, mut address: SocketAddr) -> io::Result<SimListener> {
        let mut state = self.shared.lock();
        if address.port() == 0 {
            address.set_port(FIRST_PORT + state.listeners.ports);
            state.listeners.ports += 1;
        }
        let place = Address::tcp(&address.ip().to_string(), address.port());
        let Some(id) = state.network.listen(&place) else {
            return Err(io::ErrorKind::AddrInUse.into());
        };
        state.listeners.states.insert(id, ListenerState::default());
        drop(state);
        Ok(SimListener {
            shared: self.shared.clone(),
            id,
            address,
        })
    }
}

/// A listener. Dropping the value closes the listener.
#[derive(Debug)]
pub struct SimListener {
    shared: Arc<Shared>,
    id: ListenerId,
    address: SocketAddr,
}

impl SimListener {
    /// Returns the address of the listener.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the next connection, or `None` if the listener was closed.
    pub async fn accept(&self) -> Option<SimSocket> {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            let Some(listener) = state.listeners.states.get_mut(&self.id) else {
                return Poll::Ready(None);
            };
            let Some(link) = listener.queue.pop_front() else {
                listener.acceptor = Some(context.waker().clone());
                return Poll::Pending;
            };
            Poll::Ready(Some(SimSocket {
                shared: self.shared.clone(),
                link,
            }))
        })
        .await
    }

    /// Closes the listener. Further connections are refused, and connections that were not accepted
    /// are reset.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        state.network.stop_listening(self.id);
        let mut listener = state.listeners.states.remove(&self.id).unwrap_or_default();
        wake(&mut listener.acceptor);
        for link in listener.queue {
            state.listeners.sockets.remove(&link);
            state.network.hang_up(state.now, link, Incoming::Reset);
        }
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.close();
    }
}

/// The server's end of a connection. Dropping the value closes the connection, or resets it if
/// bytes are unread.
#[derive(Debug)]
pub struct SimSocket {
    shared: Arc<Shared>,
    link: LinkId,
}

impl SimSocket {
    /// Waits for bytes and returns all that have arrived. The result is empty at the end of the
    /// connection.
    pub async fn read(&mut self) -> Vec<u8> {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            let state = &mut *state;
            let Some(socket) = state.listeners.sockets.get_mut(&self.link) else {
                return Poll::Ready(Vec::new());
            };
            if socket.inbox.is_empty() && !socket.is_at_end {
                socket.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            let bytes = Vec::from(std::mem::take(&mut socket.inbox));
            if let Some(pipe) = state.pipes.get_mut(&self.link) {
                pipe.unread = pipe.unread.saturating_sub(bytes.len());
                wake(&mut pipe.writer);
            }
            Poll::Ready(bytes)
        })
        .await
    }

    /// Writes bytes. The write waits while the client has [`WINDOW_BYTES`] bytes to read.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = poll_fn(|context| self.poll_write(context, rest)).await?;
            rest = &rest[count..];
        }
        Ok(())
    }

    fn poll_write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let socket = state.listeners.sockets.get_mut(&self.link);
        let Some(socket) = socket.filter(|socket| !socket.is_finished) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let count = bytes.len().min(WINDOW_BYTES - socket.unread);
        if count == 0 {
            socket.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        socket.unread += count;
        let bytes = &bytes[..count];
        state
            .network
            .answer(state.now, self.link, bytes, &mut state.trace);
        Poll::Ready(Ok(count))
    }

    /// Returns a second handle to the connection.
    #[must_use]
    pub fn hold(&self) -> SimHold {
        SimHold {
            shared: self.shared.clone(),
            link: self.link,
        }
    }

    /// Resets the connection.
    pub fn reset(self) {
        self.hold().end(Incoming::Reset);
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        self.hold().end(Incoming::Closed);
        self.shared.lock().listeners.sockets.remove(&self.link);
    }
}

/// A handle to a connection whose [`SimSocket`] is used elsewhere.
#[derive(Clone, Debug)]
pub struct SimHold {
    shared: Arc<Shared>,
    link: LinkId,
}

impl SimHold {
    /// Closes the direction to the client. The socket can still read.
    pub fn finish(&self) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let socket = state.listeners.sockets.get_mut(&self.link);
        if let Some(socket) = socket.filter(|socket| !socket.is_finished) {
            socket.is_finished = true;
            wake(&mut socket.writer);
            state.network.finish(state.now, self.link);
        }
    }

    /// Closes the connection in both directions.
    pub fn shut(&self) {
        self.end(Incoming::Closed);
    }

    fn end(&self, mut how: Incoming) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        if let Some(socket) = state.listeners.sockets.get_mut(&self.link) {
            // Operating systems reset a connection that is closed with unread bytes.
            if !socket.inbox.is_empty() {
                how = Incoming::Reset;
            }
            socket.is_at_end = true;
            socket.is_finished = true;
            wake(&mut socket.reader);
            wake(&mut socket.writer);
        }
        state.network.hang_up(state.now, self.link, how);
    }
}
