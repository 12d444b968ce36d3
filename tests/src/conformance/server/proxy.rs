//! A proxy between clients and a server that loses, delays or resets connections.

use rustix::net::{connect_unspec, listen};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// The most bytes that the proxy reads at once.
const PIECE: usize = 16 * 1024;

/// A failure that the proxy causes on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Resets the connection after so many bytes to the server.
    ResetUp(usize),
    /// Resets the connection after so many bytes to the client.
    ResetDown(usize),
    /// Forwards only so many bytes to the server. The connection stays open.
    StallUp(usize),
    /// Forwards only so many bytes to the client. The connection stays open.
    StallDown(usize),
}

/// A TCP proxy for one server, on real sockets.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a field of the state changes.
    changed: Condvar,
    /// The number of connections that reached the byte at which their trouble begins.
    met: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// The trouble of the next connection.
    trouble: Option<Trouble>,
    /// True if the proxy forwards nothing. Connections stay open.
    is_lost: bool,
    /// True if the proxy accepts no connections.
    is_shut: bool,
    is_over: bool,
    sockets: Vec<TcpStream>,
}

impl Proxy {
    /// Starts a proxy for the server at this address.
    #[must_use]
    pub fn to(server: SocketAddr) -> Self {
        Self::behind(TcpListener::bind(("127.0.0.1", 0)).expect("a port"), server)
    }

    /// Starts a proxy whose listener has the shortest possible backlog.
    #[must_use]
    pub fn narrow(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listen(&listener, 0).expect("it listens already");
        Self::behind(listener, server)
    }

    fn behind(listener: TcpListener, server: SocketAddr) -> Self {
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                accepting.wait_while(|state| state.is_shut);
                if accepting.look(|state| state.is_over) {
                    break;
                }
                let carrying = accepting.clone();
                thread::spawn(move || carrying.carry(client, server));
            }
        });
        Self { address, shared }
    }

    /// Returns the address at which the proxy accepts connections.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the trouble of the next connection.
    pub fn trouble_next(&self, trouble: Trouble) {
        self.shared.look(|state| state.trouble = Some(trouble));
    }

    /// Returns how often a trouble began. A trouble that no connection has taken yet is discarded.
    #[must_use]
    pub fn troubles_met(&self) -> usize {
        self.shared.look(|state| state.trouble = None);
        self.shared.met.load(Ordering::SeqCst)
    }

    /// Stops or continues accepting connections. While stopped, one more connection is accepted and
    /// then gets no reply.
    pub fn shut(&self, is_shut: bool) {
        self.shared.look(|state| state.is_shut = is_shut);
        self.shared.changed.notify_all();
    }

    /// Stops or continues forwarding. Bytes that a peer sends meanwhile are lost, and nothing that
    /// follows them is forwarded either.
    pub fn lose(&self, is_lost: bool) {
        self.shared.look(|state| state.is_lost = is_lost);
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.look(|state| {
            state.is_over = true;
            for socket in state.sockets.drain(..) {
                let _ = socket.shutdown(Shutdown::Both);
            }
        });
        self.shared.changed.notify_all();
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits while the condition holds and the proxy exists.
    fn wait_while(&self, is_so: impl Fn(&State) -> bool) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut State| is_so(state) && !state.is_over;
        drop(self.changed.wait_while(state, waits));
    }

    fn carry(self: Arc<Self>, client: TcpStream, server: SocketAddr) {
        let trouble = self.look(|state| {
            state.sockets.extend(client.try_clone());
            state.trouble.take()
        });
        self.wait_while(|state| state.is_lost);
        let Ok(server) = TcpStream::connect(server) else {
            return;
        };
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        self.look(|state| state.sockets.extend(server.try_clone()));
        let (up, down) = match trouble {
            Some(Trouble::ResetUp(at)) => (Some((at, true)), None),
            Some(Trouble::StallUp(at)) => (Some((at, false)), None),
            Some(Trouble::ResetDown(at)) => (None, Some((at, true))),
            Some(Trouble::StallDown(at)) => (None, Some((at, false))),
            None => (None, None),
        };
        let upwards = self.clone();
        thread::spawn(move || upwards.pump(from, to, up));
        self.pump(server, client, down);
    }

    /// Forwards bytes in one direction, up to the byte at which the trouble begins.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, trouble: Option<(usize, bool)>) {
        let mut left = trouble.map_or(usize::MAX, |(at, _)| at);
        let mut piece = vec![0; PIECE];
        loop {
            if left == 0 {
                let is_reset = trouble.is_some_and(|(_, is_reset)| is_reset);
                return self.make_trouble(&from, &to, is_reset);
            }
            let room = left.min(piece.len());
            let count = from.read(&mut piece[..room]).unwrap_or(0);
            if self.look(|state| state.is_lost) {
                return self.wait_while(|_| true);
            }
            if count == 0 || to.write_all(&piece[..count]).is_err() {
                // Closes both sockets, so that both peers notice the end.
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                return;
            }
            left -= count;
        }
    }

    fn make_trouble(&self, from: &TcpStream, to: &TcpStream, is_reset: bool) {
        self.met.fetch_add(1, Ordering::SeqCst);
        if !is_reset {
            return self.wait_while(|_| true);
        }
        for socket in [from, to] {
            // `connect_unspec` resets the connection at once, even while other threads use the
            // socket.
            let _ = connect_unspec(socket);
        }
    }
}
