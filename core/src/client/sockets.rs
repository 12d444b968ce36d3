//! Sockets of the control plane: those of monitors, and those of connections that are still being
//! established.

use super::{Action, Client, Fate};
use crate::{
    address::Address,
    connection::{Connection, ConnectionFacts, Established, Output, SocketId, closed_by_peer},
    description::{ServerId, ServerType},
    error::{Error, ErrorKind, Label, NetworkFault},
    pool::PooledId,
    sdam::{ApplicationError, CheckId, Phase},
    time::Instant,
};
use bson::oid::ObjectId;
use std::time::Duration;

/// Whom a socket serves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// A monitor.
    Check(CheckId),
    /// A pool, of the generation in which the connection was begun.
    Pool {
        server: ServerId,
        pooled: PooledId,
        generation: u64,
        /// Behind a load balancer, who answered; the generation is that of the service then.
        service: Option<ObjectId>,
    },
}

/// A socket that the control plane uses itself.
#[derive(Debug)]
pub(super) struct Socket {
    /// In a box, because nodes of maps are half empty.
    pub(super) connection: Box<Connection>,
    owner: Owner,
    /// The entry in the table of limits.
    limit: Option<Instant>,
}

impl Client {
    /// A socket is connected.
    pub fn handle_connected(&mut self, now: Instant, id: SocketId) -> Fate {
        let Self {
            sockets, nonces, ..
        } = self;
        if let Some(socket) = sockets.get_mut(&id) {
            socket.connection.handle_connected(now, nonces);
            self.after_socket_input(now, id);
        }
        self.fate(id)
    }

    /// Bytes arrived on a dialled socket that is not parked. An empty slice means that the peer
    /// closed it.
    pub fn handle_received(&mut self, now: Instant, id: SocketId, bytes: &[u8]) -> Fate {
        let Self {
            sockets,
            nonces,
            keys,
            ..
        } = self;
        if let Some(socket) = sockets.get_mut(&id) {
            if bytes.is_empty() {
                socket.connection.handle_failed(closed_by_peer());
            } else {
                socket.connection.handle_received(now, bytes, nonces, keys);
            }
            self.after_socket_input(now, id);
        } else {
            self.on_late_bytes(now, id, bytes);
        }
        self.fate(id)
    }

    /// A socket could not be connected, or broke.
    pub fn handle_failed(&mut self, now: Instant, id: SocketId, error: Error) -> Fate {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.connection.handle_failed(error);
            self.after_socket_input(now, id);
        } else {
            self.on_not_drained(now, id, error);
        }
        self.fate(id)
    }

    /// The address that a socket which is not parked leads to; `None` once nobody wants it any
    /// more.
    #[must_use]
    pub fn address_of(&self, id: SocketId) -> Option<&Address> {
        match self.sockets.get(&id) {
            Some(socket) => Some(socket.connection.address()),
            None => self.drains.address_of(id),
        }
    }

    /// How long an attempt to connect a socket may take, if it begins now and `addresses` of its
    /// host are left, its own included. `None`: until the socket is [closed](Action::Close).
    #[must_use]
    pub fn attempt_limit(&self, now: Instant, id: SocketId, addresses: usize) -> Option<Duration> {
        let socket = self.sockets.get(&id)?;
        socket.connection.attempt_limit(now, addresses)
    }

    pub(super) fn dial(&mut self, connection: Connection, owner: Owner) -> SocketId {
        let id = SocketId(self.next_socket);
        self.next_socket += 1;
        let address = connection.address().clone();
        self.sockets.insert(
            id,
            Socket {
                connection: Box::new(connection),
                owner,
                limit: None,
            },
        );
        self.renew_limit(id);
        self.actions.push_back(Action::Dial {
            socket: id,
            address,
        });
        id
    }

    /// Forgets a socket of the control plane; false if it was none.
    pub(super) fn forget_socket(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.sockets.remove(&id) else {
            return false;
        };
        if let Some(limit) = socket.limit {
            self.socket_limits.remove(&(limit, id));
        }
        if !self.derivations.is_empty() {
            self.derivations.forget(id);
        }
        true
    }

    pub(super) fn transmit(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        let mut bytes = Vec::new();
        if socket.connection.poll_transmit(&mut bytes) {
            self.actions
                .push_back(Action::Transmit { socket: id, bytes });
        }
    }

    /// The server hears by an alert why its connection is given up.
    fn transmit_farewell(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        let bytes = socket.connection.take_farewell();
        if !bytes.is_empty() {
            self.actions
                .push_back(Action::Transmit { socket: id, bytes });
        }
    }

    pub(super) fn on_socket_timeout(&mut self, now: Instant, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.limit = None;
            socket.connection.handle_timeout(now);
            self.after_socket_input(now, id);
        }
    }

    fn fate(&self, id: SocketId) -> Fate {
        if self.sockets.contains_key(&id) || self.drains.contains(id) {
            Fate::Open
        } else if self.established.contains(&id) {
            Fate::Parked
        } else {
            Fate::Closed
        }
    }

    fn renew_limit(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        let limit = socket.connection.deadline();
        if limit == socket.limit {
            return;
        }
        if let Some(old) = std::mem::replace(&mut socket.limit, limit) {
            self.socket_limits.remove(&(old, id));
        }
        if let Some(new) = limit {
            self.socket_limits.insert((new, id));
        }
        self.note_deadline(limit);
    }

    /// Carries on what a connection reports.
    pub(super) fn after_socket_input(&mut self, now: Instant, id: SocketId) {
        while let Some(socket) = self.sockets.get_mut(&id) {
            let owner = socket.owner;
            let Some(output) = socket.connection.poll_output() else {
                break;
            };
            match output {
                Output::Greeted {
                    reply,
                    hello,
                    round_trip,
                    service,
                } => match owner {
                    Owner::Check(check) => {
                        self.sdam.handle_connected(now, check, &reply, round_trip);
                    }
                    Owner::Pool { server, .. } => {
                        if let Some(service) = service {
                            self.on_service_known(id, service);
                        }
                        self.sdam.handle_application_handshake(now, server, *hello);
                    }
                },
                Output::Checked {
                    reply,
                    round_trip,
                    more_to_come,
                } => {
                    if let Owner::Check(check) = owner {
                        self.sdam
                            .handle_reply(now, check, &reply, round_trip, more_to_come);
                    }
                }
                Output::KeysNeeded(derivation) => {
                    if let Owner::Pool { server, .. } = owner {
                        self.on_keys_needed(now, server, id, derivation);
                    }
                }
                Output::Established => self.on_established(now, id, owner),
                Output::Failed { error, phase } => {
                    self.transmit_farewell(id);
                    self.on_connection_failed(now, id, owner, error, phase);
                }
            }
            self.route_topology(now);
        }
        self.transmit(id);
        self.renew_limit(id);
        self.settle(now);
    }

    /// The hello of a connection was answered by this service behind the load balancer (LB-49).
    fn on_service_known(&mut self, id: SocketId, answered: ObjectId) {
        let Self { sockets, pools, .. } = self;
        let Some(socket) = sockets.get_mut(&id) else {
            return;
        };
        let Owner::Pool {
            server,
            pooled,
            generation,
            service,
        } = &mut socket.owner
        else {
            return;
        };
        let slot = pools.get_mut(server);
        if let Some(current) = slot.and_then(|slot| slot.pool.handle_greeted(*pooled, answered)) {
            *generation = current;
            *service = Some(answered);
        }
    }

    fn on_established(&mut self, now: Instant, id: SocketId, owner: Owner) {
        let Owner::Pool {
            server,
            pooled,
            generation,
            service,
        } = owner
        else {
            return;
        };
        let Some(socket) = self.sockets.remove(&id) else {
            return;
        };
        if let Some(limit) = socket.limit {
            self.socket_limits.remove(&(limit, id));
        }
        let address = socket.connection.address().clone();
        let Some((transport, hello)) = socket.connection.into_parts() else {
            return;
        };
        let client = self.topology().id;
        let Some(slot) = self.pools.get_mut(&server) else {
            self.actions.push_back(Action::Close { socket: id });
            return;
        };
        let facts = ConnectionFacts {
            client,
            address,
            server,
            socket: id,
            pooled,
            generation,
            service,
            server_connection_id: hello.connection_id,
            // LB-24: a service is talked to like the load balancer that it stands behind.
            server_type: service.map_or(hello.server_type, |_| ServerType::LoadBalancer),
            max_wire_version: hello.max_wire_version,
            max_bson_object_size: hello.max_bson_object_size,
            max_message_size: hello.max_message_size_bytes,
            max_write_batch_size: hello.max_write_batch_size,
            // LB-21
            has_sessions: service.is_some() || hello.logical_session_timeout_minutes.is_some(),
            is_unauthenticated: self.handshake.credential.is_some()
                && hello.server_type == ServerType::RsArbiter,
        };
        slot.parked.insert(
            pooled,
            Box::new(Established {
                transport,
                facts,
                used: now,
            }),
        );
        self.established.insert(id);
        slot.pool.handle_established(now, pooled);
        self.drain_pool(now, server);
    }

    fn on_connection_failed(
        &mut self,
        now: Instant,
        id: SocketId,
        owner: Owner,
        error: Error,
        phase: Phase,
    ) {
        self.forget_socket(id);
        match owner {
            Owner::Check(check) => {
                self.actions.push_back(Action::Close { socket: id });
                self.checks.remove(&check);
                self.sdam.handle_failed(now, check, error);
            }
            Owner::Pool {
                server,
                pooled,
                generation,
                service,
            } => {
                let error = label_overload(error, phase);
                let report = ApplicationError {
                    error: error.clone(),
                    phase,
                    generation,
                    service,
                };
                // The topology comes first, so that a clear precedes the close (CMAP-151).
                self.sdam.handle_application_error(now, server, &report);
                self.route_topology(now);
                if let Some(slot) = self.pools.get_mut(&server) {
                    slot.pool.handle_establish_failed(now, pooled, &error);
                }
                self.drain_pool(now, server);
                self.forget_empty_pool(server);
            }
        }
    }
}

/// A server that drops connections before they can say anything may be overloaded rather than gone
/// (CMAP-44 to CMAP-47).
fn label_overload(error: Error, phase: Phase) -> Error {
    let may_be_overload = phase == Phase::Hello
        && error.is_network()
        && !matches!(
            error.kind(),
            ErrorKind::Network {
                fault: NetworkFault::NotResolved | NetworkFault::OutOfSockets,
                ..
            }
        );
    if may_be_overload {
        error
            .with_label(Label::SystemOverloadedError)
            .with_label(Label::RetryableError)
    } else {
        error
    }
}
