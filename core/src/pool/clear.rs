//! Clear and close of a pool.

use super::{ConnectionId, ConnectionState, Order, Pool, PoolState};
use crate::{
    error::{Error, ErrorKind},
    event::{CheckOutFailure, CloseReason, PoolEvent},
    time::Instant,
};

impl<C> Pool<C> {
    /// Clears the pool of a server that is no load balancer, because of the error `cause`. All
    /// connections become stale, the requests in the queue fail, and the pool is paused ([CMAP-90]
    /// to [CMAP-93]).
    ///
    /// Does nothing if the pool is closed.
    ///
    /// With `interrupt`, pending connections are closed and their requests fail, and operations on
    /// connections in use are interrupted ([CMAP-94]).
    ///
    /// [CMAP-90]: crate::requirements::pool#CMAP-90
    /// [CMAP-93]: crate::requirements::pool#CMAP-93
    /// [CMAP-94]: crate::requirements::pool#CMAP-94
    pub fn handle_clear(&mut self, now: Instant, cause: &Error, interrupt: bool) {
        if self.state == PoolState::Closed {
            return;
        }
        self.generation += 1;
        self.cause = Some(cause.clone());
        // A paused pool emits no cleared event. Its generation increases all the same, so that late
        // errors of older connections clear nothing (CMAP trap 4).
        if self.state == PoolState::Ready {
            self.state = PoolState::Paused;
            self.emit(|address| PoolEvent::Cleared {
                address,
                service: None,
                interrupt_in_use: interrupt,
            });
        }
        if interrupt {
            self.interrupt_all(now);
        }
        let error = self.cleared_error();
        self.fail_queue(now, CheckOutFailure::ConnectionError, &error);
        // Available and draining connections are stale now. If there are any, a background run that
        // closes them is due at once (CMAP-108).
        let is_due = self.note_stale_draining() || !self.available.is_empty();
        self.background = is_due.then_some(now);
        self.settle(now);
    }

    /// Closes the pool for good, for example because the client is closed or the server has left
    /// the topology. All requests fail. Connections in use are closed at check in, all others now
    /// ([CMAP-55], [CMAP-56]).
    ///
    /// [CMAP-55]: crate::requirements::pool#CMAP-55
    /// [CMAP-56]: crate::requirements::pool#CMAP-56
    pub fn handle_close(&mut self, now: Instant) {
        if self.state == PoolState::Closed {
            return;
        }
        self.state = PoolState::Closed;
        self.background = None;
        while let Some(slot) = self.available.first() {
            self.close(slot, CloseReason::PoolClosed, None);
        }
        for connection in self.connections_in(|state| matches!(state, ConnectionState::Draining)) {
            if let Some(slot) = self.find(connection) {
                self.close(slot, CloseReason::PoolClosed, None);
            }
        }
        let error = self.closed_error();
        let mut orphans = Vec::new();
        for connection in
            self.connections_in(|state| matches!(state, ConnectionState::Pending { .. }))
        {
            orphans.extend(self.owner(connection));
            if let Some(slot) = self.find(connection) {
                self.close(slot, CloseReason::PoolClosed, None);
            }
        }
        self.emit(|address| PoolEvent::Closed { address });
        for request in orphans {
            self.detach_request(request);
            self.fail(now, request, CheckOutFailure::PoolClosed, error.clone());
        }
        self.fail_queue(now, CheckOutFailure::PoolClosed, &error);
        self.settle(now);
    }

    /// Closes pending connections and fails their requests (CMAP-98), and interrupts connections in
    /// use. All these connections were created before this clear (CMAP-96).
    fn interrupt_all(&mut self, now: Instant) {
        for connection in
            self.connections_in(|state| matches!(state, ConnectionState::Pending { .. }))
        {
            let owner = self.owner(connection);
            if let Some(slot) = self.find(connection) {
                self.close(slot, CloseReason::Stale, None);
            }
            if let Some(request) = owner {
                self.detach_request(request);
                let error = self.cleared_error();
                self.fail(now, request, CheckOutFailure::ConnectionError, error);
            }
        }
        // The error is retryable (CMAP-97). A connection that an earlier clear interrupted is
        // skipped.
        let is_not_interrupted = |state: &ConnectionState<C>| match state {
            ConnectionState::InUse { interrupted, .. } => !interrupted,
            _ => false,
        };
        for connection in self.connections_in(is_not_interrupted) {
            if let Some(slot) = self.find(connection)
                && let ConnectionState::InUse { interrupted, .. } =
                    &mut self.connections.get_mut(slot).state
            {
                *interrupted = true;
            }
            let error = self.interrupted_error();
            self.orders
                .push_back(Order::Interrupt { connection, error });
        }
    }

    /// Returns the error of a checked-out connection that a clear interrupted, `None` for other
    /// connections.
    ///
    /// `Order::Interrupt` reports the interruption once, and the owner of the connection can miss
    /// this order while an exchange ends. With this function, the owner finds out about the
    /// interruption before the next use of the connection.
    #[must_use]
    pub fn interruption_of(&self, connection: ConnectionId) -> Option<Error> {
        let slot = self.find(connection)?;
        let state = &self.connections.get(slot).state;
        let is_interrupted =
            matches!(state, ConnectionState::InUse { interrupted, .. } if *interrupted);
        is_interrupted.then(|| self.interrupted_error())
    }

    fn interrupted_error(&self) -> Error {
        let message = format!(
            "Connection to {} interrupted due to server monitor timeout",
            self.address
        );
        Error::new(ErrorKind::Interrupted { message }).with_server(&self.address)
    }

    /// Returns the connections for whose state `wanted` returns true, in the order of their
    /// numbers.
    pub(super) fn connections_in(
        &self,
        wanted: impl Fn(&ConnectionState<C>) -> bool,
    ) -> Vec<ConnectionId> {
        let all = self.connections.iter();
        let mut found: Vec<ConnectionId> = all
            .filter(|(_, _, connection)| wanted(&connection.state))
            .map(|(id, slot, _)| ConnectionId::new(id, slot.0))
            .collect();
        found.sort_unstable();
        found
    }
}
