//! The wait queue: requests, their deadlines and their results.

use super::{CheckOutId, ConnectionId, ConnectionState, Order, Pool, Request};
use crate::{
    arena::Slot,
    error::{Error, ErrorKind},
    event::{CheckOutFailure, PoolEvent},
    time::{Instant, earliest},
};
use std::time::Duration;

impl<C> Pool<C> {
    #[inline]
    pub(super) fn emit_checked_out(&mut self, slot: Slot, duration: Duration) -> ConnectionId {
        let id = self.id(slot);
        self.emit(|address| PoolEvent::CheckedOut {
            address,
            connection: id.number(),
            duration,
        });
        id
    }

    pub(super) fn emit_failed(
        &mut self,
        reason: CheckOutFailure,
        error: &Error,
        duration: Duration,
    ) {
        self.emit(|address| PoolEvent::CheckOutFailed {
            address,
            reason,
            error: Some(error.clone()),
            duration,
        });
    }

    /// Returns the slot of a request, or `None` if the request does not wait.
    pub(super) fn find_request(&self, id: CheckOutId) -> Option<Slot> {
        self.requests.find(id.0)
    }

    /// Cancels a waiting request. The pool keeps a connection that is being established for this
    /// request, and other requests can use the connection. If the connection were closed, requests
    /// with short time limits might never get a connection to a server that accepts connections
    /// slowly.
    ///
    /// Does nothing if the request does not wait any more. A connection that was granted to the
    /// request has to be checked in.
    pub fn cancel(&mut self, now: Instant, request: CheckOutId) {
        if self.find_request(request).is_none() {
            return;
        }
        // The specification has no failure reason for a cancelled request; a timeout is the
        // closest.
        let error = self.timeout_error(request);
        self.finish_failed(now, request, CheckOutFailure::Timeout, &error);
        self.settle(now);
    }

    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        id: CheckOutId,
        deadline: Option<Instant>,
        queue_limit: Option<Duration>,
    ) {
        let queue_limit = queue_limit.filter(|limit| !limit.is_zero());
        let armed = earliest(deadline, queue_limit.map(|limit| now + limit));
        let slot = self.requests.insert(
            id.0,
            Request {
                started: now,
                deadline,
                armed,
                connection: None,
            },
        );
        self.requests.push_last(&mut self.queue, slot);
        if let Some(at) = armed {
            self.deadlines.insert((at, id));
        }
    }

    /// Serves requests from the head of the queue, each with an available or a new connection,
    /// until neither is possible (CMAP-76, CMAP-77).
    pub(super) fn serve_queue(&mut self, now: Instant) {
        while let Some(head) = self.queue.first() {
            if let Some((connection, content)) = self.take_available(now) {
                self.grant(now, head, connection, content);
            } else if self.has_room() {
                self.establish_for(now, head);
            } else {
                return;
            }
        }
    }

    /// Grants a usable connection to the head of the queue, or makes it available if no request
    /// waits. While requests wait, no other connection is available, so none is before this one.
    #[inline]
    pub(super) fn hand_over(&mut self, now: Instant, connection: Slot, content: C) {
        if let Some(head) = self.queue.first() {
            self.mark_in_use(connection);
            return self.grant(now, head, connection, content);
        }
        let state = ConnectionState::Available {
            since: now,
            content,
        };
        self.connections.get_mut(connection).state = state;
        self.connections.push_last(&mut self.available, connection);
    }

    /// Grants a connection to a waiting request. The connection must be marked as in use already.
    pub(super) fn grant(&mut self, now: Instant, request: Slot, connection: Slot, content: C) {
        let waited = now.saturating_since(self.requests.get(request).started);
        let id = CheckOutId(self.requests.id(request));
        self.remove_request(request);
        let connection = self.emit_checked_out(connection, waited);
        self.orders.push_back(Order::Grant {
            request: id,
            connection,
            content,
        });
    }

    /// Fails a request with an error. Does nothing if the request does not wait.
    pub(super) fn fail(
        &mut self,
        now: Instant,
        request: CheckOutId,
        reason: CheckOutFailure,
        error: Error,
    ) {
        if self.finish_failed(now, request, reason, &error) {
            self.orders.push_back(Order::Fail { request, error });
        }
    }

    /// Fails all requests in the queue with an error, in the order of the queue.
    pub(super) fn fail_queue(&mut self, now: Instant, reason: CheckOutFailure, error: &Error) {
        while let Some(head) = self.queue.first() {
            let request = CheckOutId(self.requests.id(head));
            self.fail(now, request, reason, error.clone());
        }
    }

    /// Fails the requests whose deadline or queue limit has passed (CMAP-32).
    pub(super) fn expire_requests(&mut self, now: Instant) {
        while let Some(&(at, request)) = self.deadlines.first()
            && at <= now
        {
            let error = self.timeout_error(request);
            self.fail(now, request, CheckOutFailure::Timeout, error);
        }
    }

    /// Takes the head of the queue out of the queue (CMAP-82) and creates a connection for it.
    fn establish_for(&mut self, now: Instant, head: Slot) {
        let request = CheckOutId(self.requests.id(head));
        self.requests.unlink(&mut self.queue, head);
        let connection = self.create(now, Some(request));
        let waiting = self.requests.get_mut(head);
        waiting.connection = Some(connection);
        // `waitQueueTimeoutMS` limits only the time in the queue. The deadline of the whole check
        // out remains.
        if waiting.armed != waiting.deadline {
            let (old, new) = (waiting.armed, waiting.deadline);
            waiting.armed = new;
            if let Some(at) = old {
                self.deadlines.remove(&(at, request));
            }
            if let Some(at) = new {
                self.deadlines.insert((at, request));
            }
        }
    }

    /// Removes a request and emits its check out failed event. Returns false if the request does
    /// not wait.
    fn finish_failed(
        &mut self,
        now: Instant,
        request: CheckOutId,
        reason: CheckOutFailure,
        error: &Error,
    ) -> bool {
        let Some(slot) = self.find_request(request) else {
            return false;
        };
        let waited = now.saturating_since(self.requests.get(slot).started);
        self.remove_request(slot);
        self.emit_failed(reason, error, waited);
        true
    }

    /// Removes a request. A connection that is being established for the request remains, without a
    /// request.
    fn remove_request(&mut self, slot: Slot) {
        let id = CheckOutId(self.requests.id(slot));
        let Request {
            armed, connection, ..
        } = *self.requests.get(slot);
        match connection {
            None => self.requests.unlink(&mut self.queue, slot),
            Some(connection) => self.disown(connection, id),
        }
        if let Some(at) = armed {
            self.deadlines.remove(&(at, id));
        }
        self.requests.remove(slot);
    }

    /// Returns the error of a request that timed out or was cancelled (CMAP-143). The specification
    /// writes "a Connection", the official tests expect "a connection". For a queued request of a
    /// full pool behind a load balancer, the error has a detailed message (LB-45).
    fn timeout_error(&self, request: CheckOutId) -> Error {
        let max_size = self.options.max_size;
        let is_full = max_size != 0 && self.connections.len() >= max_size;
        let slot = self.find_request(request);
        let is_queued = slot.is_some_and(|slot| self.requests.get(slot).connection.is_none());
        let message = if self.options.load_balanced && is_full && is_queued {
            self.full_pool_message()
        } else {
            "Timed out while checking out a connection from connection pool".to_owned()
        };
        Error::new(ErrorKind::WaitQueueTimeout { message }).with_server(&self.address)
    }

    /// Removes the link from a pending connection to a request.
    fn disown(&mut self, connection: Slot, id: CheckOutId) {
        if let ConnectionState::Pending { request, .. } =
            &mut self.connections.get_mut(connection).state
            && *request == Some(id)
        {
            *request = None;
        }
    }

    /// Returns the request that a pending connection is established for; `None` if there is none,
    /// and for other connections.
    pub(super) fn owner(&self, connection: ConnectionId) -> Option<CheckOutId> {
        let slot = self.find(connection)?;
        match self.connections.get(slot).state {
            ConnectionState::Pending { request, .. } => request,
            _ => None,
        }
    }
}
