//! Requests that wait: the queue, its deadlines, and who gives up.

use super::{Action, CheckOutId, ConnectionId, Place, Pool, Request};
use crate::{
    arena::Slot,
    error::{Error, ErrorKind},
    event::CheckOutFailure,
    time::{Instant, earliest},
};
use std::time::Duration;

impl<C> Pool<C> {
    /// The request is no longer wanted. If a connection is being established for it, that goes on
    /// and the next one gets it: a server that is slow to answer would otherwise never get a
    /// connection at all.
    ///
    /// A request that does not wait (any more) changes nothing; a connection that was granted to
    /// it has to be checked in.
    pub fn cancel(&mut self, now: Instant, request: CheckOutId) {
        if self.find_request(request).is_none() {
            return;
        }
        // No reason of the specification says "given up"; this one comes nearest.
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
        self.places.insert(id, slot);
        self.requests.push_last(&mut self.queue, slot);
        if let Some(at) = armed {
            self.deadlines.insert((at, id));
        }
    }

    /// Serves the head of the queue as long as it can be served (CMAP-76, CMAP-77).
    pub(super) fn serve_queue(&mut self, now: Instant) {
        while let Some(head) = self.queue.first() {
            if let Some((connection, content)) = self.take_available(now) {
                let request = CheckOutId(self.requests.id(head));
                self.grant(now, request, connection, content);
            } else if self.has_room() {
                self.establish_for(now, head);
            } else {
                return;
            }
        }
    }

    /// Gives a connection that is marked as in use to a request that waits.
    pub(super) fn grant(
        &mut self,
        now: Instant,
        request: CheckOutId,
        connection: Slot,
        content: C,
    ) {
        let Some(slot) = self.find_request(request) else {
            return;
        };
        let waited = now.saturating_since(self.requests.get(slot).started);
        self.forget(slot);
        let connection = self.emit_checked_out(connection, waited);
        self.actions.push_back(Action::Grant {
            request,
            connection,
            content,
        });
    }

    /// Answers a request with an error.
    pub(super) fn fail(
        &mut self,
        now: Instant,
        request: CheckOutId,
        reason: CheckOutFailure,
        error: Error,
    ) {
        if self.finish_failed(now, request, reason, &error) {
            self.actions.push_back(Action::Fail { request, error });
        }
    }

    /// Answers everybody who stands in the queue with an error, first come first.
    pub(super) fn fail_queue(&mut self, now: Instant, reason: CheckOutFailure, error: &Error) {
        while let Some(head) = self.queue.first() {
            let request = CheckOutId(self.requests.id(head));
            self.fail(now, request, reason, error.clone());
        }
    }

    /// CMAP-32: who waited too long leaves at once.
    pub(super) fn expire_requests(&mut self, now: Instant) {
        while let Some(&(at, request)) = self.deadlines.first()
            && at <= now
        {
            let error = self.timeout_error(request);
            self.fail(now, request, CheckOutFailure::Timeout, error);
        }
    }

    /// The head of the queue leaves it (CMAP-82) and a connection of its own is established.
    fn establish_for(&mut self, now: Instant, head: Slot) {
        let request = CheckOutId(self.requests.id(head));
        self.requests.unlink(&mut self.queue, head);
        let connection = self.create(now, Some(request));
        let waiting = self.requests.get_mut(head);
        waiting.connection = Some(connection);
        // The limit of the queue is over; the deadline of the whole check out is not.
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
        self.forget(slot);
        self.emit_failed(reason, error, waited);
        true
    }

    /// Takes a request out of the books; a connection that was being established for it is
    /// nobody's from now on.
    fn forget(&mut self, slot: Slot) {
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
        self.places.remove(&id);
    }

    /// CMAP-143; the tests want the lower case form. Behind a load balancer a full pool tells those
    /// who stand in its queue what it is full of (LB-45).
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

    fn disown(&mut self, connection: Slot, id: CheckOutId) {
        if let Place::Pending { request, .. } = &mut self.connections.get_mut(connection).place
            && *request == Some(id)
        {
            *request = None;
        }
    }

    /// The request that this pending connection is made for.
    pub(super) fn owner(&self, connection: ConnectionId) -> Option<CheckOutId> {
        let slot = self.find(connection)?;
        match self.connections.get(slot).place {
            Place::Pending { request, .. } => request,
            _ => None,
        }
    }
}
