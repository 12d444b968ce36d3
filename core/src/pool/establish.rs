//! Creation and establishment of connections.

use super::{CheckOutId, Connection, ConnectionId, ConnectionState, Order, Pool};
use crate::{
    arena::Slot,
    error::Error,
    event::{CheckOutFailure, CloseReason, PoolEvent},
    time::Instant,
};

impl<C> Pool<C> {
    /// Marks a pending connection as established and authenticated ([CMAP-61]).
    ///
    /// The connection is granted, with `content`, to the request that it was created for. A
    /// connection that was created for `minPoolSize`, or whose request has ended, becomes available
    /// and can serve the head of the queue.
    ///
    /// A connection that has become stale is closed. Its request fails or, behind a load balancer,
    /// returns to the head of the queue.
    ///
    /// [CMAP-61]: crate::requirements::pool#CMAP-61
    pub fn handle_established(&mut self, now: Instant, connection: ConnectionId, content: C) {
        let Some((slot, created, request)) = self.pending_connection(connection) else {
            return;
        };
        self.emit(|address| PoolEvent::ConnectionReady {
            address,
            connection: connection.number(),
            duration: now.saturating_since(created),
        });
        if self.is_stale(slot) {
            // The pool or the service was cleared during establishment.
            self.close(slot, CloseReason::Stale, None);
            match request {
                // A clear of one service fails no request, because the next connection may lead to
                // another service (CMAP-102).
                Some(request) if self.options.load_balanced => self.requeue(request),
                Some(request) => {
                    self.detach_request(request);
                    let error = self.cleared_error();
                    self.fail(now, request, CheckOutFailure::ConnectionError, error);
                }
                None => {}
            }
        } else {
            self.leave_pending(slot);
            match request {
                Some(request) => {
                    self.detach_request(request);
                    self.mark_in_use(slot);
                    if let Some(request) = self.find_request(request) {
                        self.grant(now, request, slot, content);
                    }
                }
                None => self.hand_over(now, slot, content),
            }
        }
        self.settle(now);
    }

    /// Closes a pending connection whose establishment or authentication failed, and fails its
    /// request ([CMAP-62]).
    ///
    /// The caller has to report the error to the topology before this call. If the topology clears
    /// the pool, the clear then precedes the closed event of the connection ([CMAP-151]).
    ///
    /// [CMAP-62]: crate::requirements::pool#CMAP-62
    /// [CMAP-151]: crate::requirements::pool#CMAP-151
    pub fn handle_establish_failed(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        error: &Error,
    ) {
        let Some((slot, _, request)) = self.pending_connection(connection) else {
            return;
        };
        self.close(slot, CloseReason::Error, Some(error.clone()));
        if let Some(request) = request {
            self.detach_request(request);
            self.fail(
                now,
                request,
                CheckOutFailure::ConnectionError,
                error.clone(),
            );
        }
        self.postpone_population(now);
        self.settle(now);
    }

    /// True if one more connection may be created: `maxPoolSize` (CMAP-42) and `maxConnecting`
    /// (CMAP-43) are not reached.
    pub(super) fn has_room(&self) -> bool {
        let max_size = self.options.max_size;
        (max_size == 0 || self.connections.len() < max_size) && self.pending < self.max_connecting()
    }

    pub(super) fn max_connecting(&self) -> u32 {
        self.options.max_connecting.max(1)
    }

    /// Creates a pending connection and orders its establishment (CMAP-60).
    pub(super) fn create(&mut self, now: Instant, request: Option<CheckOutId>) -> Slot {
        self.last_id += 1;
        let number = self.last_id;
        let slot = self.connections.insert(
            number,
            Connection {
                generation: self.generation,
                service: None,
                state: ConnectionState::Pending {
                    created: now,
                    request,
                },
            },
        );
        self.pending += 1;
        self.emit(|address| PoolEvent::ConnectionCreated {
            address,
            connection: number,
        });
        self.orders.push_back(Order::Open(self.id(slot)));
        slot
    }

    pub(super) fn leave_pending(&mut self, slot: Slot) {
        self.pending -= 1;
        if self.populating == Some(self.id(slot)) {
            self.populating = None;
        }
    }

    /// Detaches a request from the connection that was established for it. The request goes to the
    /// end of the queue, from which the caller removes it at once by a grant or a failure.
    pub(super) fn detach_request(&mut self, request: CheckOutId) {
        if let Some(slot) = self.find_request(request) {
            self.requests.get_mut(slot).connection = None;
            self.requests.push_last(&mut self.queue, slot);
        }
    }

    /// Puts a request back at the head of the queue, after the connection that was established for
    /// it was closed.
    fn requeue(&mut self, request: CheckOutId) {
        if let Some(slot) = self.find_request(request) {
            self.requests.get_mut(slot).connection = None;
            self.requests.push_first(&mut self.queue, slot);
        }
    }

    fn pending_connection(
        &self,
        connection: ConnectionId,
    ) -> Option<(Slot, Instant, Option<CheckOutId>)> {
        let slot = self.find(connection)?;
        match self.connections.get(slot).state {
            ConnectionState::Pending { created, request } => Some((slot, created, request)),
            _ => None,
        }
    }
}
