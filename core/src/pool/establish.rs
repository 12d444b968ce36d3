//! New connections: when there is room for one, and what becomes of it.

use super::{Action, CheckOutId, Connection, ConnectionId, Place, Pool};
use crate::{
    arena::Slot,
    error::Error,
    event::{CheckOutFailure, CloseReason, PoolEvent},
    time::Instant,
};

impl<C> Pool<C> {
    /// This connection is established and authenticated (CMAP-61).
    ///
    /// It goes, with `content`, to the request that it was made for. If that gave up meanwhile, it
    /// serves the head of the queue or becomes available.
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
            // The pool was cleared while it was being established; what it is connected to may no
            // longer be what the topology describes.
            self.close(slot, CloseReason::Stale, None);
            match request {
                // Another connection may lead to another service, and a clear of one service is
                // nothing that requests hear of (CMAP-102).
                Some(request) if self.options.load_balanced => self.ask_again(request),
                Some(request) => {
                    self.release(request);
                    let error = self.cleared_error();
                    self.fail(now, request, CheckOutFailure::ConnectionError, error);
                }
                None => {}
            }
        } else {
            self.leave_pending(slot);
            match request {
                Some(request) => {
                    self.release(request);
                    self.lend(slot);
                    self.grant(now, request, slot, content);
                }
                None => self.make_available(now, slot, content),
            }
        }
        self.settle(now);
    }

    /// This connection could not be established, or its owner could not authenticate (CMAP-62).
    ///
    /// The topology has to be told first: if it clears the pool, that comes before the connection's
    /// closed event (CMAP-151).
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
            self.release(request);
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

    /// Whether one more connection may be made (CMAP-42, CMAP-43).
    pub(super) fn has_room(&self) -> bool {
        let max_size = self.options.max_size;
        (max_size == 0 || self.connections.len() < max_size) && self.pending < self.max_connecting()
    }

    pub(super) fn max_connecting(&self) -> u32 {
        self.options.max_connecting.max(1)
    }

    /// Makes a pending connection and asks for its establishment (CMAP-60).
    pub(super) fn create(&mut self, now: Instant, request: Option<CheckOutId>) -> Slot {
        self.last_id += 1;
        let number = self.last_id;
        let slot = self.connections.insert(
            number,
            Connection {
                generation: self.generation,
                service: None,
                place: Place::Pending {
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
        self.actions.push_back(Action::Open(self.id(slot)));
        slot
    }

    pub(super) fn leave_pending(&mut self, slot: Slot) {
        self.pending -= 1;
        if self.populating == Some(self.id(slot)) {
            self.populating = None;
        }
    }

    /// Cuts the tie from a request to its connection, which has an end of its own. The request
    /// counts as queued for the short time until it is answered.
    pub(super) fn release(&mut self, request: CheckOutId) {
        if let Some(slot) = self.find_request(request) {
            self.requests.get_mut(slot).connection = None;
            self.requests.push_last(&mut self.queue, slot);
        }
    }

    /// The request goes back to the head of the queue, which it had left for a connection that came
    /// to nothing.
    fn ask_again(&mut self, request: CheckOutId) {
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
        match self.connections.get(slot).place {
            Place::Pending { created, request } => Some((slot, created, request)),
            _ => None,
        }
    }
}
