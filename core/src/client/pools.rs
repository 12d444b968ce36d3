//! One server's pool and the connections that belong to it.

use super::{Action, Client};
use crate::{
    address::Address,
    connection::{Connection, Established, Purpose, SocketId},
    description::ServerId,
    error::Error,
    event::EventKind,
    pool::{self, Condition, Pool, PooledId},
    time::Instant,
};
use std::collections::BTreeMap;

/// A pool with its established connections.
#[derive(Debug)]
pub(super) struct PoolSlot {
    pub(super) address: Address,
    pub(super) pool: Pool,
    /// Connections that are established and not leased.
    pub(super) parked: BTreeMap<PooledId, Box<Established>>,
    /// The socket of each connection, in whatever state.
    pub(super) sockets: BTreeMap<PooledId, SocketId>,
    pub(super) is_closed: bool,
}

impl PoolSlot {
    /// Leases that were not given back.
    pub(super) fn leased(&self) -> usize {
        self.pool.counts().in_use as usize
    }
}

impl Client {
    pub(super) fn create_pool(&mut self, now: Instant, server: ServerId, address: Address) {
        if self.closed || self.pools.contains_key(&server) {
            return;
        }
        let options = self.limits.pool.clone();
        let pool = Pool::new(address.clone(), options, self.subscriptions.pool);
        let slot = PoolSlot {
            address,
            pool,
            parked: BTreeMap::new(),
            sockets: BTreeMap::new(),
            is_closed: false,
        };
        self.pools.insert(server, slot);
        self.drain_pool(now, server);
    }

    pub(super) fn close_pool(&mut self, now: Instant, server: ServerId) {
        let Some(slot) = self.pools.get_mut(&server) else {
            return;
        };
        slot.pool.handle_close(now);
        slot.is_closed = true;
        self.drain_pool(now, server);
        self.forget_empty_pool(server);
    }

    /// A closed pool stays until its last lease came back.
    pub(super) fn forget_empty_pool(&mut self, server: ServerId) {
        if self
            .pools
            .get(&server)
            .is_some_and(|s| s.is_closed && s.sockets.is_empty())
        {
            self.pools.remove(&server);
        }
    }

    /// Carries out what a pool orders.
    pub(super) fn drain_pool(&mut self, now: Instant, server: ServerId) {
        while let Some(slot) = self.pools.get_mut(&server) {
            let Some(action) = slot.pool.poll_action() else {
                let deadline = slot.pool.deadline();
                self.note_deadline(deadline);
                return;
            };
            match action {
                pool::Action::Emit(event) => self.emit(now, EventKind::Pool(event)),
                pool::Action::Open(pooled) => self.open_pooled(now, server, pooled),
                pool::Action::Close(pooled) => self.close_pooled(server, pooled),
                pool::Action::Grant {
                    request,
                    connection,
                } => {
                    self.on_granted(now, server, request, connection);
                }
                pool::Action::ServiceGone(service) => {
                    self.sdam.handle_service_gone(server, &service);
                }
                pool::Action::Fail { request, error } => self.on_refused(now, request, error),
                pool::Action::Interrupt { connection, error } => {
                    self.interrupt(now, server, connection, error);
                }
            }
        }
    }

    /// Breaks what a checked out connection is used for, whoever has it: an exchange is told, and
    /// where none runs the connection itself ends.
    fn interrupt(&mut self, now: Instant, server: ServerId, pooled: PooledId, error: Error) {
        let Some(slot) = self.pools.get(&server) else {
            return;
        };
        let Some(&socket) = slot.sockets.get(&pooled) else {
            return;
        };
        if self.drains.contains(socket) {
            self.give_up_drain(now, socket, error);
        } else if !slot.parked.contains_key(&pooled) {
            self.actions.push_back(Action::Interrupt { socket, error });
        } else if self.is_pin_free(socket) {
            self.break_pin(now, socket, error);
        } else {
            self.leave_interrupted_grants(now, server);
        }
    }

    fn open_pooled(&mut self, now: Instant, server: ServerId, pooled: PooledId) {
        let Some(slot) = self.pools.get_mut(&server) else {
            return;
        };
        let address = slot.address.clone();
        let generation = slot.pool.generation();
        let options = self.handshake.clone();
        let purpose = if slot.pool.is_population(pooled) {
            Purpose::Population
        } else {
            Purpose::Operations
        };
        let connection = Connection::new(now, address, purpose, options);
        let owner = super::sockets::Owner::Pool {
            server,
            pooled,
            generation,
            service: None,
        };
        let socket = self.dial(connection, owner);
        if let Some(slot) = self.pools.get_mut(&server) {
            slot.sockets.insert(pooled, socket);
        }
    }

    fn close_pooled(&mut self, server: ServerId, pooled: PooledId) {
        let Some(slot) = self.pools.get_mut(&server) else {
            return;
        };
        slot.parked.remove(&pooled);
        if let Some(socket) = slot.sockets.remove(&pooled) {
            self.established.remove(&socket);
            self.drains.remove(socket);
            self.forget_socket(socket);
            self.actions.push_back(Action::Close { socket });
        }
    }

    /// Puts an established connection back where leases find it, and tells its pool.
    pub(super) fn park_connection(
        &mut self,
        now: Instant,
        mut connection: Box<Established>,
        condition: Condition,
    ) {
        connection.used = now;
        let (server, pooled) = (connection.facts.server, connection.facts.pooled);
        if let Some(slot) = self.pools.get_mut(&server) {
            slot.parked.insert(pooled, connection);
        }
        self.return_pooled(now, server, pooled, condition);
    }

    /// Tells a pool that a connection it handed out is back.
    pub(super) fn return_pooled(
        &mut self,
        now: Instant,
        server: ServerId,
        pooled: PooledId,
        condition: Condition,
    ) {
        let Some(slot) = self.pools.get_mut(&server) else {
            return;
        };
        // A connection that the pool has closed meanwhile is refused, which harms nobody.
        let _ = slot.pool.check_in(now, pooled, condition);
        self.drain_pool(now, server);
        self.forget_empty_pool(server);
    }
}
