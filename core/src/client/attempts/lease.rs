//! The end of a lease: the connection goes to its next owner, and its server no longer counts the
//! operation.

use super::drain::Drain;
use crate::{
    client::{Client, Timer, connections::State, pins},
    connection::{ConnectionFacts, Established},
    description::ServerId,
    error::Error,
    operation::{Lease, Request},
    pool::{Condition, ConnectionId},
    time::Instant,
};
use std::time::Duration;

/// How long the client waits for a late reply before it gives up the connection: 3 seconds. Not an
/// option. The size of the reply is bounded by `maxMessageSizeBytes`, as for all messages.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// The state of a connection at the end of its lease.
#[derive(Debug)]
pub(in crate::client) enum AtEnd<'a> {
    /// The connection can be used again.
    Usable,
    /// The reply to this request, which has this `requestID`, is outstanding.
    ReplyDue(i32, &'a Request),
    /// The connection cannot be used again, because of this error if there is one.
    Broken(Option<Error>),
}

impl Client {
    /// Ends a lease.
    ///
    /// A connection that can be used again goes to its pins if it has any, otherwise to its pool.
    /// One whose reply is outstanding drains first. A broken one is closed, or kept as broken until
    /// its pins are released. Nothing of this happens if the client [took the connection
    /// back](Self::take_back) before.
    #[inline]
    pub(in crate::client) fn end_lease(
        &mut self,
        now: Instant,
        mut lease: Lease,
        at_end: AtEnd<'_>,
    ) {
        if self.was_taken_back(&lease) {
            self.attempts.taken_back -= 1;
            return;
        }
        self.disarm(&mut lease);
        self.attempts.choice.finished(lease.facts.server);
        let connection = lease.into_connection();
        match at_end {
            AtEnd::Usable => self.return_connection(now, connection, Ok(())),
            AtEnd::Broken(error) => self.return_connection(now, connection, Err(error)),
            AtEnd::ReplyDue(request_id, request) => {
                self.begin_drain(now, Drain::new(connection, request_id, request));
            }
        }
    }

    /// Ends the lease of an exchange that its holder does not give back: closes the connection, so
    /// that its pool has room for another one. Does not wait for the holder.
    pub(in crate::client) fn take_back(
        &mut self,
        now: Instant,
        server: ServerId,
        pooled: ConnectionId,
        error: Error,
    ) {
        self.attempts.taken_back += 1;
        self.attempts.choice.finished(server);
        self.pools
            .check_in(now, server, pooled, Condition::Broken(Some(error)));
    }

    /// True if the client has taken back the connection of this lease.
    #[inline]
    pub(in crate::client) fn was_taken_back(&self, lease: &Lease) -> bool {
        self.attempts.taken_back > 0 && self.connections.state(lease.facts.socket).is_none()
    }

    /// Cancels the timer of the last exchange of a lease.
    #[inline]
    pub(in crate::client) fn disarm(&mut self, lease: &mut Lease) {
        if std::mem::take(&mut lease.is_timed) {
            self.clock
                .timers
                .cancel(Timer::Exchange(lease.facts.socket));
        }
    }

    /// Gives a connection to its next owner: to its pins if it has any, otherwise to its pool. An
    /// `Err` says that the connection is broken, by this error if there is one.
    #[inline]
    pub(super) fn return_connection(
        &mut self,
        now: Instant,
        connection: Box<Established>,
        condition: Result<(), Option<Error>>,
    ) {
        let facts = &connection.facts;
        let (server, pooled, socket) = (facts.server, facts.pooled, facts.socket);
        if self.pins.has_entry(socket) && self.pins.keep_or_remove(socket) {
            // An interruption can come too late to end this exchange. The next command on the
            // connection then fails.
            let broken = match (self.interruption(facts), condition) {
                (Some(error), _) => Some(error),
                (None, Err(error)) => Some(pins::broken(error)),
                (None, Ok(())) => None,
            };
            self.connections.set_state(socket, State::Pinned);
            return self.pins.take_back(connection, broken);
        }
        self.connections.set_state(socket, State::Idle);
        let condition = match condition {
            Ok(()) => Condition::Healthy(connection),
            Err(error) => Condition::Broken(error),
        };
        self.pools.check_in(now, server, pooled, condition);
    }

    /// Drops the late reply of a connection as it arrives. A connection that is not pinned is
    /// checked in at once, with [`Condition::ReplyDue`].
    fn begin_drain(&mut self, now: Instant, mut drain: Drain) {
        let facts = &drain.connection.facts;
        let (server, pooled, socket) = (facts.server, facts.pooled, facts.socket);
        let interruption = match self.pins.has_entry(socket) {
            true => self.interruption(facts),
            false => None,
        };
        // The reply, or a part of it, may be in the buffer already.
        let condition = match interruption.map_or_else(|| drain.advance(), Err) {
            Ok(true) => Ok(()),
            Err(error) => Err(Some(error)),
            Ok(false) => {
                self.arm(Timer::Drain(socket), now.checked_add(DRAIN_LIMIT));
                self.connections.begin_drain(Box::new(drain));
                if self.pins.keep_or_remove(socket) {
                    self.pins.begin_drain(socket);
                } else {
                    self.pools
                        .check_in(now, server, pooled, Condition::ReplyDue);
                }
                return;
            }
        };
        self.run_in_background(drain.end_of_cursor);
        self.return_connection(now, drain.connection, condition);
    }

    /// Returns the error with which the pool interrupted this connection, if it did.
    pub(in crate::client) fn interruption(&self, facts: &ConnectionFacts) -> Option<Error> {
        self.pools.interruption_of(facts.server, facts.pooled)
    }
}
