//! Read access to a pool, and the errors of closed, cleared and paused pools.

use super::{ConnectionId, Counts, Pool, PoolState};
use crate::{
    address::Address,
    error::{Error, ErrorKind, cause_text},
};
use bson::oid::ObjectId;

impl<C> Pool<C> {
    /// Returns the address of the server.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the generation of the pool: the number of its clears, without clears of one service.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the generation of a connection, or `None` if the connection was closed. Behind a
    /// load balancer, this is the generation that its service had at the hello reply, once this
    /// reply has arrived.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn generation_of(&self, connection: ConnectionId) -> Option<u64> {
        let slot = self.find(connection)?;
        Some(self.connections.get(slot).generation)
    }

    /// True if the connection is stale or closed. The generation of a stale connection differs from
    /// that of its service or, if it has no service, from that of the pool ([CMAP-25]).
    ///
    /// [CMAP-25]: crate::requirements::pool#CMAP-25
    #[must_use]
    pub fn is_outdated(&self, connection: ConnectionId) -> bool {
        self.find(connection).is_none_or(|slot| self.is_stale(slot))
    }

    /// Returns the service behind the load balancer that the connection leads to. `None` without a
    /// load balancer, before the hello reply, and if the connection was closed.
    #[must_use]
    pub fn service_of(&self, connection: ConnectionId) -> Option<ObjectId> {
        let slot = self.find(connection)?;
        self.connections.get(slot).service
    }

    /// Returns the id of the connection with this number; `None` if there is none. Searches all
    /// connections, so this is meant for tests.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn connection(&self, number: u64) -> Option<ConnectionId> {
        let mut all = self.connections.iter();
        let (id, slot, _) = all.find(|&(id, ..)| id == number)?;
        Some(ConnectionId::new(id, slot.0))
    }

    /// Returns the state of the pool.
    #[must_use]
    pub const fn state(&self) -> PoolState {
        self.state
    }

    /// Returns the numbers of connections and requests.
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

    /// True if the pool has as many established connections as `minPoolSize` asks for, or has to
    /// have none now because it is not ready.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        let counts = self.counts();
        self.state != PoolState::Ready || counts.total - counts.pending >= self.options.min_size
    }

    /// Returns the error of a check out from a closed pool (CMAP-141). The specification writes "a
    /// Connection", the official tests expect "a connection".
    pub(super) fn closed_error(&self) -> Error {
        let message = "Attempted to check out a connection from closed connection pool".to_owned();
        Error::new(ErrorKind::PoolClosed { message }).with_server(&self.address)
    }

    /// Returns the error of a check out that fails because the pool was cleared, or because the
    /// pool was never marked as ready (CMAP-142).
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
        Error::new(ErrorKind::ConnectionPoolCleared { message }).with_server(address)
    }
}
