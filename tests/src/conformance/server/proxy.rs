//! A proxy that stalls or resets connections between clients and a server.

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
pub enum Fault {
    /// Resets the connection after this number of bytes to the server.
    ResetUp(usize),
    /// Resets the connection after this number of bytes to the client.
    ResetDown(usize),
    /// Forwards only this number of bytes to the server. The connection stays open.
    StallUp(usize),
    /// Forwards only this number of bytes to the client. The connection stays open.
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
    /// Notified when `is_lost`, `is_shut` or `is_over` changes.
    changed: Condvar,
    /// The number of connections that reached the byte at which their fault begins.
    faults_begun: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// The fault of the next connection; `None` if the connection gets no fault.
    fault: Option<Fault>,
    /// True if the proxy forwards nothing. Connections stay open.
    is_lost: bool,
    /// True if the proxy serves no new connections.
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
                if accepting.with(|state| state.is_over) {
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

    /// Sets the fault of the next connection.
    pub fn fail_next(&self, fault: Fault) {
        self.shared.with(|state| state.fault = Some(fault));
    }

    /// Returns how often a fault began. A fault that no connection has taken yet is discarded.
    #[must_use]
    pub fn faults_begun(&self) -> usize {
        self.shared.with(|state| state.fault = None);
        self.shared.faults_begun.load(Ordering::SeqCst)
    }

    /// With `is_shut`, stops serving new connections: the proxy accepts one more, and the others
    /// stay in the backlog of its listener. Without `is_shut`, serves new connections again.
    pub fn shut(&self, is_shut: bool) {
        self.shared.with(|state| state.is_shut = is_shut);
        self.shared.changed.notify_all();
    }

    /// With `is_lost`, stops forwarding; without `is_lost`, forwards again. If bytes of a
    /// connection arrive while nothing is forwarded, their direction of the connection stays
    /// blocked.
    pub fn lose(&self, is_lost: bool) {
        self.shared.with(|state| state.is_lost = is_lost);
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.with(|state| {
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
    fn with<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the condition is false or the proxy was dropped.
    fn wait_while(&self, is_so: impl Fn(&State) -> bool) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut State| is_so(state) && !state.is_over;
        drop(self.changed.wait_while(state, waits));
    }

    fn carry(self: Arc<Self>, client: TcpStream, server: SocketAddr) {
        let fault = self.with(|state| {
            state.sockets.extend(client.try_clone());
            state.fault.take()
        });
        self.wait_while(|state| state.is_lost);
        let Ok(server) = TcpStream::connect(server) else {
            return;
        };
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        self.with(|state| state.sockets.extend(server.try_clone()));
        let (up, down) = match fault {
            Some(Fault::ResetUp(at)) => (Some((at, true)), None),
            Some(Fault::StallUp(at)) => (Some((at, false)), None),
            Some(Fault::ResetDown(at)) => (None, Some((at, true))),
            Some(Fault::StallDown(at)) => (None, Some((at, false))),
            None => (None, None),
        };
        let upwards = self.clone();
        thread::spawn(move || upwards.pump(from, to, up));
        self.pump(server, client, down);
    }

    /// Forwards bytes in one direction, up to the byte at which the fault begins.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, fault: Option<(usize, bool)>) {
        let mut left = fault.map_or(usize::MAX, |(at, _)| at);
        let mut piece = vec![0; PIECE];
        loop {
            if left == 0 {
                let is_reset = fault.is_some_and(|(_, is_reset)| is_reset);
                return self.begin_fault(&from, &to, is_reset);
            }
            let room = left.min(piece.len());
            let count = from.read(&mut piece[..room]).unwrap_or(0);
            if self.with(|state| state.is_lost) {
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

    fn begin_fault(&self, from: &TcpStream, to: &TcpStream, is_reset: bool) {
        self.faults_begun.fetch_add(1, Ordering::SeqCst);
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
