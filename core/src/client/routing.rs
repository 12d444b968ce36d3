//! Carries orders from the topology to sockets and pools.

use super::{Action, Client, sockets::Owner};
use crate::{
    connection::{Connection, Purpose},
    event::EventKind,
    sdam,
    time::Instant,
};

impl Client {
    /// Brings everything to rest after an input: orders of the topology, operations that are tried
    /// again, operations that look for a server again.
    pub(super) fn settle(&mut self, now: Instant) {
        loop {
            self.route_topology(now);
            if let Some(operation) = self.again.pop_front() {
                self.acquire_in_background(now, operation);
            } else if std::mem::take(&mut self.reselect) {
                self.on_reselect(now);
            } else if !self.end_unused(now) {
                break;
            }
        }
        let deadline = self.sdam.deadline();
        self.note_deadline(deadline);
        if self.closed {
            // Nobody is to be woken for something that ended with the client.
            self.armed = self.exact_deadline();
        }
    }

    /// Carries out what the topology orders, in its order.
    pub(super) fn route_topology(&mut self, now: Instant) {
        while let Some(action) = self.sdam.poll_action() {
            match action {
                sdam::Action::Emit(event) => self.emit(now, EventKind::Sdam(event)),
                sdam::Action::Open { check, address, .. } => {
                    let options = self.handshake.clone();
                    let connection = Connection::new(now, address, Purpose::Monitor, options);
                    let socket = self.dial(connection, Owner::Check(check));
                    self.checks.insert(check, socket);
                }
                sdam::Action::SendHello {
                    check,
                    legacy,
                    awaitable,
                } => {
                    let Some(&id) = self.checks.get(&check) else {
                        continue;
                    };
                    if let Some(socket) = self.sockets.get_mut(&id) {
                        socket.connection.check(now, legacy, awaitable);
                    }
                    self.transmit(id);
                }
                sdam::Action::Close { check } => {
                    if let Some(socket) = self.checks.remove(&check)
                        && self.forget_socket(socket)
                    {
                        self.actions.push_back(Action::Close { socket });
                    }
                }
                sdam::Action::CreatePool { server, address } => {
                    self.create_pool(now, server, address);
                }
                sdam::Action::ReadyPool { server } => {
                    if let Some(slot) = self.pools.get_mut(&server) {
                        slot.pool.handle_ready(now);
                    }
                    self.drain_pool(now, server);
                }
                sdam::Action::ClearPool {
                    server,
                    cause,
                    interrupt,
                    service,
                    ..
                } => {
                    if let Some(slot) = self.pools.get_mut(&server) {
                        match service {
                            Some(service) => {
                                slot.pool.handle_clear_service(now, service);
                            }
                            None => slot.pool.handle_clear(now, &cause, interrupt),
                        }
                    }
                    self.drain_pool(now, server);
                }
                sdam::Action::ClosePool { server } => self.close_pool(now, server),
                sdam::Action::Publish | sdam::Action::CheckEnded | sdam::Action::ScanEnded => {
                    self.reselect = true
                }
            }
        }
    }
}
