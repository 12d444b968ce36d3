//! What a server remembers of its clients.

use bson::Document;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::{Mutex, PoisonError},
};

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The connection that it came on; zero for the first.
    pub connection: u64,
    /// The command's name.
    pub name: String,
    /// The command, without document sequences.
    pub body: Document,
}

/// What is remembered.
#[derive(Default)]
pub(super) struct Log {
    pub(super) accepted: u64,
    pub(super) open: BTreeMap<u64, Box<dyn Socket>>,
    pub(super) operating: BTreeSet<u64>,
    pub(super) most_operating: usize,
    pub(super) seen: Vec<Seen>,
    pub(super) tls_failures: Vec<rustls::Error>,
    is_stopped: bool,
}

/// A second hold on a connected socket.
pub(super) trait Socket: Send {
    fn cut(&self, how: Shutdown);
}

/// What a hold is taken on.
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

/// The log behind its lock.
#[derive(Default)]
pub(super) struct State(Mutex<Log>);

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl State {
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Log) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Numbers a new connection.
    pub(super) fn opened(&self, stream: &impl Hold) -> u64 {
        self.look(|log| {
            let number = log.accepted;
            log.accepted += 1;
            if let Some(socket) = stream.hold() {
                log.open.insert(number, socket);
            }
            number
        })
    }

    pub(super) fn closed(&self, number: u64) {
        self.look(|log| {
            log.open.remove(&number);
            log.operating.remove(&number);
        });
    }

    /// Shuts a connection without forgetting that it is open.
    pub(super) fn cut(&self, number: u64, how: Shutdown) {
        self.look(|log| {
            if let Some(socket) = log.open.get(&number) {
                socket.cut(how);
            }
        });
    }

    pub(super) fn note(&self, seen: Seen) {
        self.look(|log| {
            let greets = ["hello", "isMaster", "ismaster", "saslStart", "saslContinue"];
            if !greets.contains(&seen.name.as_str()) {
                log.operating.insert(seen.connection);
                log.most_operating = log.most_operating.max(log.operating.len());
            }
            log.seen.push(seen);
        });
    }

    pub(super) fn stop(&self) {
        self.look(|log| {
            log.is_stopped = true;
            for socket in log.open.values() {
                socket.cut(Shutdown::Both);
            }
        });
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.look(|log| log.is_stopped)
    }
}
