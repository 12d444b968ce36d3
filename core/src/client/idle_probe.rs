//! Idle connections: whether one still stands is checked before an operation uses it.
//!
//! Servers close connections that are idle, and so do firewalls and load balancers. Nobody watches
//! the socket of an idle connection, so that the next operation on it would meet the error, and an
//! operation that may not be retried would raise it. The check costs one system call, and is left
//! out where the connection has just been used. What comes between the check and the write is met
//! as before.
//!
//! A client that scans sends a ping instead
//! ([`SOCKET_CHECK_INTERVAL`](super::SOCKET_CHECK_INTERVAL)).

use super::{Client, Progress, Timer, begin::Attempt, end::End};
use crate::{
    connection::{Established, closed_by_peer},
    error::Error,
    operation::{Exchange, Operation},
    pool::Condition,
    time::Instant,
};
use std::time::Duration;

/// A connection that was idle for so long is checked before it is used. A server that is used all
/// the time is never checked so. Not an option.
pub const PROBE_AFTER: Duration = Duration::from_secs(1);

/// Bytes of TLS's own messages, which say nothing about MongoDB, that a connection may have
/// received while it was idle. With more it is closed. Session tickets have some hundred bytes
/// each, and servers send few.
pub const MAX_PROBED_BYTES: usize = 16 * 1024;

impl Exchange {
    /// True if the connection was idle: before [`begin`](Self::begin), read from its socket,
    /// without waiting, and say by [`handle_probe`](Self::handle_probe) what there was, as long as
    /// this is true.
    #[must_use]
    pub fn wants_probe(&self) -> bool {
        self.needs_probe
    }

    /// Something was read from a connection that was idle: `None` if nothing was there, no bytes if
    /// the peer closed it. An error, this one or one of reading, ends the exchange: it goes back by
    /// [`Client::refuse`].
    pub fn handle_probe(&mut self, bytes: Option<&[u8]>) -> Result<(), Error> {
        let transport = &mut self.connection.transport;
        let Some(bytes) = bytes else {
            self.needs_probe = false;
            if transport.is_mid_record() {
                let message = "the server sent part of a TLS record that nobody had asked for";
                return Err(Error::protocol(message));
            }
            return Ok(());
        };
        if bytes.is_empty() {
            return Err(closed_by_peer());
        }
        self.probed_bytes += bytes.len();
        transport.receive(bytes)?;
        transport.ended()?;
        if transport.has_input() || self.probed_bytes > MAX_PROBED_BYTES {
            let message = "the server sent something that nobody had asked for";
            return Err(Error::protocol(message));
        }
        // TLS has messages of its own, and more may follow.
        Ok(())
    }
}

impl Client {
    /// True for a connection that may have been closed without anybody noticing.
    #[inline]
    pub(super) fn wants_probe(
        &self,
        now: Instant,
        operation: &Operation,
        connection: &Established,
    ) -> bool {
        connection.used + PROBE_AFTER <= now
            && operation.command.pin.is_none()
            && self.settings.scanning.is_none()
    }

    /// An exchange of another client is refused: its ids mean other things here (CMAP-19, CMAP-87).
    pub(super) fn check_owner(&self, exchange: &Exchange) -> Result<(), Error> {
        if exchange.facts().client == self.topology().id {
            return Ok(());
        }
        Err(Error::argument("the exchange belongs to another client"))
    }

    /// Takes an exchange back that was not begun, because its connection turned out to be unusable
    /// ([`Exchange::probed`]). The socket must be parked again before.
    ///
    /// The connection closes, and that is all: a server may close what is idle, and when it did so
    /// nobody knows. The operation goes for another one, and this was no attempt of it.
    pub fn refuse(&mut self, now: Instant, exchange: Exchange, error: Error) -> Progress {
        if let Err(error) = self.check_owner(&exchange) {
            return Progress::Failed(error);
        }
        let Exchange {
            connection,
            operation,
            pinned,
            ..
        } = exchange;
        let facts = &connection.facts;
        self.timers.cancel(Timer::Exchange(facts.socket));
        self.choice.finished(facts.server);
        let error = error.with_server(&facts.address);
        self.keep_pinned(facts, pinned);
        let broken = Condition::Broken(Some(error));
        self.return_connection(now, connection, broken);
        let id = operation.id;
        let start = self.advance(now, id, Attempt::Ended(operation, End::NotBegun));
        self.settle(now);
        start
    }
}
