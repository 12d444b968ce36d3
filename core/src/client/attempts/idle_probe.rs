//! Probes: reads that find out whether an idle connection was closed before an operation uses it.
//!
//! Servers, firewalls and load balancers close idle connections. The client does not read from the
//! socket of an idle connection. So the next operation on this connection would meet the error, and
//! an operation that cannot be retried would raise the error. A probe usually costs one system
//! call. Pinned connections are not probed, and neither are connections that were used in the last
//! second ([`PROBE_AFTER`]). If the connection is closed after the probe, the operation still meets
//! the error.
//!
//! A client that scans sends a ping instead
//! ([`SOCKET_CHECK_INTERVAL`](crate::client::SOCKET_CHECK_INTERVAL)).

use super::{begin::Attempt, end::End, lease::AtEnd};
use crate::{
    client::{Client, Progress},
    connection::{Established, closed_by_peer},
    error::Error,
    operation::{Exchange, Operation},
    time::Instant,
};
use std::time::Duration;

/// How long a connection is idle before it is probed: 1 second. Not an option. A connection that is
/// used at shorter intervals is not probed.
pub const PROBE_AFTER: Duration = Duration::from_secs(1);

/// The highest number of bytes that a probe may read with TLS: 16 KiB. Such bytes are messages of
/// TLS itself, such as session tickets of some hundred bytes each. A connection that received more,
/// or other bytes, while it was idle is closed.
pub const MAX_PROBED_BYTES: usize = 16 * 1024;

impl Exchange {
    /// True while the connection has to be probed, before [`begin`](Self::begin). Read from its
    /// socket without waiting, and report the result by [`handle_probe`](Self::handle_probe), until
    /// this method returns false.
    #[must_use]
    pub fn wants_probe(&self) -> bool {
        self.operation.exchange.needs_probe
    }

    /// Handles the result of a read from an idle connection: `None` if nothing was there, an empty
    /// slice if the peer closed the connection.
    ///
    /// If this method or the read fails, the exchange cannot be begun. Give it back by
    /// [`Client::refuse`].
    pub fn handle_probe(&mut self, bytes: Option<&[u8]>) -> Result<(), Error> {
        let transport = &mut self.lease.transport;
        let Some(bytes) = bytes else {
            self.operation.exchange.needs_probe = false;
            if transport.is_mid_record() {
                let message = "the server sent part of an unexpected TLS record on an idle \
                               connection";
                return Err(Error::protocol(message));
            }
            return Ok(());
        };
        if bytes.is_empty() {
            return Err(closed_by_peer());
        }
        self.operation.exchange.probed_bytes += bytes.len();
        transport.receive(bytes)?;
        transport.ended()?;
        if transport.has_input() || self.operation.exchange.probed_bytes > MAX_PROBED_BYTES {
            let message = "the server sent unexpected bytes on an idle connection";
            return Err(Error::protocol(message));
        }
        // These bytes were messages of TLS itself, and more may follow, so the probe continues.
        Ok(())
    }
}

impl Client {
    /// True if the connection has to be probed: it was idle for [`PROBE_AFTER`] and is not pinned,
    /// and the client does not scan.
    #[inline]
    pub(in crate::client) fn wants_probe(
        &self,
        now: Instant,
        operation: &Operation,
        connection: &Established,
    ) -> bool {
        connection.used + PROBE_AFTER <= now
            && operation.request.pin.is_none()
            && self.settings.scanning.is_none()
    }

    /// Fails for an exchange of another client, whose ids are not valid here. A connection belongs
    /// to one pool (CMAP-19), and other pools refuse its check in (CMAP-87).
    pub(in crate::client) fn check_owner(&self, exchange: &Exchange) -> Result<(), Error> {
        if exchange.facts().client == self.topology().id {
            return Ok(());
        }
        Err(Error::argument("the exchange belongs to another client"))
    }

    /// Takes back an exchange that was not begun, because the probe of its connection failed
    /// ([`Exchange::handle_probe`]). The socket must be parked before this call.
    ///
    /// The connection is closed. The topology is not notified, because servers may close idle
    /// connections at any time. The operation selects a server again, and the attempt does not
    /// count. If the exchange has pinned the connection, the connection is closed when its pins are
    /// released, and the operation fails.
    pub fn refuse(&mut self, now: Instant, exchange: Exchange, error: Error) -> Progress {
        if let Err(error) = self.check_owner(&exchange) {
            return Progress::Failed(error);
        }
        let Exchange {
            lease,
            mut operation,
        } = exchange;
        let error = error.with_server(&lease.facts.address);
        self.keep_pinned(&lease, &mut operation);
        self.end_lease(now, lease, AtEnd::Broken(Some(error)));
        let id = operation.id;
        let start = self.advance(now, id, Attempt::Ended(operation, End::NotBegun));
        self.settle(now);
        start
    }
}
