//! Something between clients and a server that loses, holds back or breaks what it carries.

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

/// Bytes carried at once.
const PIECE: usize = 16 * 1024;

/// What befalls a connection on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is reset as soon as so many bytes went to the server.
    ResetUp(usize),
    /// It is reset as soon as so many bytes went to the client.
    ResetDown(usize),
    /// No more than so many bytes go to the server, and nobody is told.
    StallUp(usize),
    /// No more than so many bytes go to the client, and nobody is told.
    StallDown(usize),
}

/// A way to a server on real sockets.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Something of the state has changed.
    changed: Condvar,
    /// What befell the latest connection that was to be in trouble was brought about.
    met: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// For the next connection.
    trouble: Option<Trouble>,
    /// Nothing is carried, and nobody is told.
    is_lost: bool,
    /// Nobody is accepted any more.
    is_shut: bool,
    is_over: bool,
    sockets: Vec<TcpStream>,
}

impl Proxy {
    /// A way to the server at this address.
    #[must_use]
    pub fn to(server: SocketAddr) -> Self {
        Self::behind(TcpListener::bind(("127.0.0.1", 0)).expect("a port"), server)
    }

    /// The same with room for as few as possible who wait to be accepted.
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

    /// Where clients find it.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection is in trouble.
    pub fn trouble_next(&self, trouble: Trouble) {
        self.shared.look(|state| state.trouble = Some(trouble));
    }

    /// How often a trouble was met; one that nobody ran into is forgotten.
    #[must_use]
    pub fn troubles_met(&self) -> usize {
        self.shared.look(|state| state.trouble = None);
        self.shared.met.load(Ordering::SeqCst)
    }

    /// Nobody is accepted any more but one, who hears nothing; or everybody is again.
    pub fn shut(&self, is_shut: bool) {
        self.shared.look(|state| state.is_shut = is_shut);
        self.shared.changed.notify_all();
    }

    /// The way is lost, or found again. Bytes that were sent meanwhile never arrive.
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

    /// Waits as long as something is so, but not beyond the end.
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

    /// Carries bytes one way, up to where the trouble begins.
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
                // Whoever is left hears of the end.
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
            // To leave its peer for none resets a connection at once, whoever still holds it.
            let _ = connect_unspec(socket);
        }
    }
}
