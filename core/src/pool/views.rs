//! What can be asked of a pool, and the errors by which it refuses.

use super::{ConnectionId, Counts, Pool, PoolState};
use crate::{
    address::Address,
    error::{Error, ErrorKind, cause_text},
};
use bson::oid::ObjectId;

impl<C> Pool<C> {
    /// The server.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// How often the pool was cleared.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The generation of this connection, which is that of its service behind a load balancer;
    /// `None` if there is no such connection.
    #[must_use]
    pub fn generation_of(&self, connection: ConnectionId) -> Option<u64> {
        let slot = self.find(connection)?;
        Some(self.connections.get(slot).generation)
    }

    /// True if the connection is of an earlier generation than its pool, or than its service behind
    /// a load balancer; and for a connection that the pool does not know any more (CMAP-25).
    #[must_use]
    pub fn is_outdated(&self, connection: ConnectionId) -> bool {
        self.find(connection).is_none_or(|slot| self.is_stale(slot))
    }

    /// Behind a load balancer, the service that this connection leads to; `None` while it is not
    /// known.
    #[must_use]
    pub fn service_of(&self, connection: ConnectionId) -> Option<ObjectId> {
        let slot = self.find(connection)?;
        self.connections.get(slot).service
    }

    /// The connection with this number, found by a search; for tests and reports.
    #[must_use]
    pub fn connection(&self, number: u64) -> Option<ConnectionId> {
        let mut all = self.connections.iter();
        let (id, slot, _) = all.find(|&(id, ..)| id == number)?;
        Some(ConnectionId::new(id, slot.0))
    }

    /// Whether the pool serves.
    #[must_use]
    pub const fn state(&self) -> PoolState {
        self.state
    }

    /// How many of what there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (total, available) = (self.connections.len(), self.available.len());
        Counts {
            total,
            available,
            pending: self.pending,
            in_use: total - available - self.pending - self.draining,
            draining: self.draining,
            waiting: self.queue.len(),
        }
    }

    /// CMAP-141; the tests want the lower case form.
    pub(super) fn closed_error(&self) -> Error {
        let message = "Attempted to check out a connection from closed connection pool".to_owned();
        Error::new(ErrorKind::PoolClosed { message }).with_server(&self.address)
    }

    /// CMAP-142.
    pub(super) fn cleared_error(&self) -> Error {
        let address = &self.address;
        let message = match &self.cause {
            Some(cause) => format!(
                "Connection pool for {address} was cleared because another operation failed \
                 with: {}",
                cause_text(cause)
            ),
            None => format!("Connection pool for {address} is paused until the server is checked"),
        };
        Error::new(ErrorKind::PoolCleared { message }).with_server(address)
    }
}
