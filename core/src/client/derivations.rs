//! Keys that connections wait for: one derivation per key at a time, and one per server.
//!
//! A server chooses how many iterations a derivation takes, so it is given away
//! ([`Action::Derive`]) and nothing waits for it but the connections that need its keys. However
//! many connections wait for one key, it is derived once. At most [`MAX_DERIVATIONS`] run at a
//! time, whatever the number of servers. A server that asks for another key on each connection
//! occupies one processor at most, because its derivations run one after the other.

use super::{Action, Client};
use crate::{
    auth::{DerivedKeys, KeyDerivation, KeyName},
    connection::SocketId,
    description::ServerId,
    time::Instant,
};
use std::{collections::BTreeMap, time::Duration};

/// After this long a derivation counts as lost, and the next connection that needs its key asks
/// again. The largest permitted iteration count takes a few seconds on a slow processor.
const LOST_AFTER: Duration = Duration::from_secs(300);

/// Derivations of one client that run at the same time at most. Each occupies a processor.
pub const MAX_DERIVATIONS: usize = 2;

/// The derivations that connections of a client wait for.
#[derive(Debug, Default)]
pub(super) struct Derivations {
    running: BTreeMap<KeyName, Running>,
    /// Derivations for servers that have one running, oldest first.
    queued: Vec<Queued>,
}

#[derive(Debug)]
struct Running {
    server: ServerId,
    since: Instant,
    waiting: Vec<SocketId>,
}

#[derive(Debug)]
pub(super) struct Queued {
    server: ServerId,
    socket: SocketId,
    derivation: KeyDerivation,
}

impl Queued {
    #[cfg(test)]
    pub(super) const fn socket(&self) -> SocketId {
        self.socket
    }
}

impl Derivations {
    /// A connection to `server` needs keys; gives the derivation if it is to be started now.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        server: ServerId,
        socket: SocketId,
        derivation: KeyDerivation,
    ) -> Option<KeyDerivation> {
        self.running
            .retain(|_, running| running.since + LOST_AFTER > now);
        if let Some(running) = self.running.get_mut(&derivation.name()) {
            running.waiting.push(socket);
            return None;
        }
        if !self.may_run(server) {
            self.queued.push(Queued {
                server,
                socket,
                derivation,
            });
            return None;
        }
        let running = Running {
            server,
            since: now,
            waiting: vec![socket],
        };
        self.running.insert(derivation.name(), running);
        Some(derivation)
    }

    /// True if a derivation for this server may run beside those that do.
    fn may_run(&self, server: ServerId) -> bool {
        let mut running = self.running.values();
        self.running.len() < MAX_DERIVATIONS && running.all(|running| running.server != server)
    }

    /// A derivation ended; gives the connections that wait for its keys, and what is to be asked
    /// next: the oldest that may run.
    pub(super) fn end(&mut self, name: KeyName) -> (Vec<SocketId>, Option<Queued>) {
        let running = self.running.remove(&name);
        let mut waiting = running.map_or_else(Vec::new, |running| running.waiting);
        let is_same = |queued: &mut Queued| queued.derivation.name() == name;
        let same = self.queued.extract_if(.., is_same);
        waiting.extend(same.map(|queued| queued.socket));
        let next = self
            .queued
            .iter()
            .position(|queued| self.may_run(queued.server));
        let next = next.map(|place| self.queued.remove(place));
        (waiting, next)
    }

    /// A connection is gone. A derivation that runs goes on, for the next connection.
    pub(super) fn forget(&mut self, socket: SocketId) {
        self.queued.retain(|queued| queued.socket != socket);
        for running in self.running.values_mut() {
            running.waiting.retain(|&waiting| waiting != socket);
        }
    }

    /// True if nothing was ever asked or all was answered, as nearly always.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.queued.is_empty()
    }
}

impl Client {
    /// A connection waits for keys.
    pub(super) fn on_keys_needed(
        &mut self,
        now: Instant,
        server: ServerId,
        socket: SocketId,
        derivation: KeyDerivation,
    ) {
        if let Some(derivation) = self.derivations.ask(now, server, socket, derivation) {
            self.actions.push_back(Action::Derive { derivation });
        }
    }

    /// The keys of an [`Action::Derive`] are there. May come late, and for connections that are
    /// gone.
    pub fn handle_derived(&mut self, now: Instant, derived: &DerivedKeys) {
        self.keys.keep_unproven(derived);
        let (waiting, next) = self.derivations.end(derived.name());
        if let Some(next) = next {
            self.on_keys_needed(now, next.server, next.socket, next.derivation);
        }
        for id in waiting {
            if let Some(socket) = self.sockets.get_mut(&id) {
                socket.connection.handle_keys(now, derived);
                self.after_socket_input(now, id);
            }
        }
        self.settle(now);
    }
}
