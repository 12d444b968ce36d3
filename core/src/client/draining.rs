//! Exchanges that were left in their midst: what becomes of their connections.
//!
//! A request that went out whole is answered sooner or later, whoever still waits. Its connection
//! goes back to the pool at once, and to the control plane, which throws the reply away; then the
//! next operation may have it. Closing it instead would make a slow server, from which operations
//! turn away at their time limits, establish a connection for each of them.
//!
//! A client that scans closes such connections. Between its operations nobody moves bytes and
//! nothing is owed, so that no reply would be drained when it comes.

use super::{Action, Client, Outcome};
use crate::{
    address::Address,
    connection::{Established, LateReply, SocketId, closed_by_peer},
    error::{Error, ErrorKind, Wait},
    operation::Lease,
    pool::Condition,
    time::{Instant, deadline_after_freeze},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long a reply may be outstanding after its operation has left. Then its connection closes. In
/// bytes the bound is that of all messages, `maxMessageSizeBytes`. Not an option.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// The connections of a client that wait for replies that nobody else waits for.
#[derive(Debug, Default)]
pub(super) struct Drains {
    by_socket: BTreeMap<SocketId, Drain>,
    limits: BTreeSet<(Instant, SocketId)>,
}

#[derive(Debug)]
struct Drain {
    connection: Box<Established>,
    reply: LateReply,
    limit: Option<Instant>,
}

impl Drains {
    pub(super) fn contains(&self, id: SocketId) -> bool {
        self.by_socket.contains_key(&id)
    }

    pub(super) fn address_of(&self, id: SocketId) -> Option<&Address> {
        let drain = self.by_socket.get(&id)?;
        Some(&drain.connection.facts.address)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.limits.first().map(|&(at, _)| at)
    }

    pub(super) fn remove(&mut self, id: SocketId) -> Option<Box<Established>> {
        let drain = self.by_socket.remove(&id)?;
        if let Some(limit) = drain.limit {
            self.limits.remove(&(limit, id));
        }
        Some(drain.connection)
    }

    fn insert(&mut self, connection: Box<Established>, reply: LateReply, limit: Option<Instant>) {
        let id = connection.facts.socket;
        if let Some(limit) = limit {
            self.limits.insert((limit, id));
        }
        let drain = Drain {
            connection,
            reply,
            limit,
        };
        self.by_socket.insert(id, drain);
    }

    fn renew(&mut self, id: SocketId, limit: Option<Instant>) {
        let Some(drain) = self.by_socket.get_mut(&id) else {
            return;
        };
        if let Some(old) = std::mem::replace(&mut drain.limit, limit) {
            self.limits.remove(&(old, id));
        }
        if let Some(new) = limit {
            self.limits.insert((new, id));
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_socket.is_empty() && self.limits.is_empty()
    }
}

impl Client {
    /// The state in which a lease's connection comes back. Takes a request back of which nothing
    /// was sent.
    pub(super) fn condition_after(
        &self,
        now: Instant,
        lease: &mut Lease,
        outcome: &Outcome,
    ) -> Condition {
        // The caller's own end says nothing about the connection. Another limit than that of the
        // operation, `socketTimeoutMS`, is there to find dead connections.
        let is_late = lease.operation.deadline.is_some_and(|limit| limit <= now);
        let is_left = match outcome {
            Outcome::Abandoned => true,
            Outcome::Failed(error) => is_late && is_exchange_timeout(error),
            Outcome::Completed => false,
        };
        if is_left {
            lease.unsend();
        }
        let is_written = lease.output().is_empty();
        if !lease.in_exchange && is_written {
            Condition::Healthy
        } else if is_left && is_written && self.limits.scan.is_none() {
            Condition::ReplyDue
        } else {
            Condition::Broken(None)
        }
    }

    /// Gives a connection back whose reply is outstanding, and drains it.
    pub(super) fn park_draining(
        &mut self,
        now: Instant,
        mut connection: Box<Established>,
        request_id: i32,
    ) {
        let mut reply = LateReply::new(request_id);
        // A part of it may be there already.
        match reply.look(&mut connection.transport) {
            Ok(true) => return self.take_back(now, connection, Condition::Healthy, request_id),
            Ok(false) => {}
            Err(error) => {
                let condition = Condition::Broken(Some(error));
                return self.take_back(now, connection, condition, request_id);
            }
        }
        let (server, pooled) = (connection.facts.server, connection.facts.pooled);
        let socket = connection.facts.socket;
        let limit = now.checked_add(DRAIN_LIMIT);
        self.drains.insert(connection, reply, limit);
        self.note_deadline(limit);
        if self.is_kept(socket) {
            self.keep_draining(socket);
        } else {
            self.return_pooled(now, server, pooled, Condition::ReplyDue);
        }
        // A pool that is closed, or was cleared, has closed the connection at once.
        if self.drains.contains(socket) {
            self.actions.push_back(Action::Drain { socket });
        }
    }

    /// Bytes of a reply that nobody waits for; none mean that the peer closed.
    pub(super) fn on_late_bytes(&mut self, now: Instant, id: SocketId, bytes: &[u8]) {
        let Some(drain) = self.drains.by_socket.get_mut(&id) else {
            return;
        };
        if bytes.is_empty() {
            return self.on_not_drained(now, id, closed_by_peer());
        }
        let transport = &mut drain.connection.transport;
        let looked = transport
            .receive(bytes)
            .and_then(|()| drain.reply.look(transport));
        match looked {
            Ok(false) => {}
            Ok(true) => self.on_drained(now, id),
            Err(error) => {
                // The server hears by an alert why its connection is given up.
                let bytes = transport.take_farewell();
                if !bytes.is_empty() {
                    self.actions
                        .push_back(Action::Transmit { socket: id, bytes });
                }
                self.on_not_drained(now, id, error);
            }
        }
    }

    fn on_drained(&mut self, now: Instant, id: SocketId) {
        let Some(mut connection) = self.drains.remove(id) else {
            return;
        };
        let (server, pooled) = (connection.facts.server, connection.facts.pooled);
        connection.used = now;
        connection.transport.rest();
        if self.is_kept(id) {
            self.keep(now, connection, None);
            return self.settle(now);
        }
        if let Some(slot) = self.pools.get_mut(&server) {
            slot.parked.insert(pooled, connection);
            slot.pool.handle_drained(now, pooled);
        }
        self.drain_pool(now, server);
        self.settle(now);
    }

    /// The connection closes, and that is all: no operation met the error, and a reply that is late
    /// says nothing about its server.
    pub(super) fn on_not_drained(&mut self, now: Instant, id: SocketId, error: Error) {
        if self.give_up_drain(now, id, error) {
            self.settle(now);
        }
    }

    /// Ends a drain without its reply; false if the connection does not drain.
    pub(super) fn give_up_drain(&mut self, now: Instant, id: SocketId, error: Error) -> bool {
        let Some(connection) = self.drains.remove(id) else {
            return false;
        };
        let (server, pooled) = (connection.facts.server, connection.facts.pooled);
        let error = error.with_server(&connection.facts.address);
        if self.is_kept(id) {
            self.keep(now, connection, Some(error));
            return true;
        }
        if let Some(slot) = self.pools.get_mut(&server) {
            slot.pool.handle_idle_closed(now, pooled, Some(error));
        }
        self.drain_pool(now, server);
        self.forget_empty_pool(server);
        true
    }

    /// Replies that are overdue are no longer waited for.
    pub(super) fn expire_drains(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.drains.limits.first() {
            if at > now {
                break;
            }
            if let Some(later) = deadline_after_freeze(at, now) {
                self.drains.renew(id, Some(later));
                self.note_deadline(self.drains.deadline());
                continue;
            }
            let message = "the reply to an operation that had ended did not come";
            self.on_not_drained(now, id, Error::timeout(Wait::Exchange, message));
        }
    }
}

fn is_exchange_timeout(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Timeout {
            wait: Wait::Exchange,
            ..
        }
    )
}
