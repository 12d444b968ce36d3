//! The records of a scripted server: its connections and their requests.

use bson::Document;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::{Mutex, PoisonError},
};

/// A request that a server received.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The number of the connection of the request, counted from zero.
    pub connection: u64,
    /// The command's name.
    pub name: String,
    /// The command, without document sequences.
    pub body: Document,
}

/// The records of a server.
#[derive(Default)]
pub(super) struct Records {
    pub(super) accepted: u64,
    pub(super) open: BTreeMap<u64, Box<dyn Socket>>,
    pub(super) operating: BTreeSet<u64>,
    pub(super) most_operating: usize,
    /// The requests of each command, oldest first.
    pub(super) seen: BTreeMap<String, Vec<Seen>>,
    pub(super) tls_failures: Vec<rustls::Error>,
    is_stopped: bool,
}

/// A second handle of a connected socket, which can shut the socket down.
pub(super) trait Socket: Send {
    fn cut(&self, how: Shutdown);
}

/// A connected socket that gives second handles.
pub(super) trait Hold {
    fn hold(&self) -> Option<Box<dyn Socket>>;
}

macro_rules! socket {
    ($type:ty) => {
        impl Socket for $type {
            fn cut(&self, how: Shutdown) {
                let _ = self.shutdown(how);
            }
        }

        impl Hold for $type {
            fn hold(&self) -> Option<Box<dyn Socket>> {
                self.try_clone()
                    .ok()
                    .map(|s| Box::new(s) as Box<dyn Socket>)
            }
        }
    };
}

socket!(TcpStream);
socket!(UnixStream);

/// The records of a server, behind a lock.
#[derive(Default)]
pub(super) struct State(Mutex<Records>);

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl State {
    pub(super) fn with<T>(&self, action: impl FnOnce(&mut Records) -> T) -> T {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a new connection and returns its number.
    pub(super) fn opened(&self, stream: &impl Hold) -> u64 {
        self.with(|records| {
            let number = records.accepted;
            records.accepted += 1;
            if let Some(socket) = stream.hold() {
                records.open.insert(number, socket);
            }
            number
        })
    }

    pub(super) fn closed(&self, number: u64) {
        self.with(|records| {
            records.open.remove(&number);
            records.operating.remove(&number);
        });
    }

    /// Shuts down one direction or both directions of a connection. The connection counts as open
    /// until [`closed`](Self::closed) is called.
    pub(super) fn cut(&self, number: u64, how: Shutdown) {
        self.with(|records| {
            if let Some(socket) = records.open.get(&number) {
                socket.cut(how);
            }
        });
    }

    pub(super) fn note(&self, seen: Seen) {
        self.with(|records| {
            let is_handshake = ["hello", "isMaster", "ismaster", "saslStart", "saslContinue"];
            if !is_handshake.contains(&seen.name.as_str()) {
                records.operating.insert(seen.connection);
                records.most_operating = records.most_operating.max(records.operating.len());
            }
            let of_name = records.seen.entry(seen.name.clone());
            of_name.or_default().push(seen);
        });
    }

    pub(super) fn stop(&self) {
        self.with(|records| {
            records.is_stopped = true;
            for socket in records.open.values() {
                socket.cut(Shutdown::Both);
            }
        });
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.with(|records| records.is_stopped)
    }
}
