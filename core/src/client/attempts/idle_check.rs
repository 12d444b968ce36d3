//! Idle checks: reads that find out whether an idle connection was closed before an operation uses
//! it.
//!
//! Servers, firewalls and load balancers close idle connections. The client does not read from the
//! socket of an idle connection. So the next operation on this connection would meet the error, and
//! an operation that cannot be retried would raise the error. An idle check usually costs one
//! system call. Pinned connections are not checked, and neither are connections that were used in
//! the last second ([`IDLE_CHECK_AFTER`]). If the connection is closed after the idle check, the
//! operation still meets the error.
//!
//! A client that scans sends a ping instead
//! ([`SOCKET_CHECK_INTERVAL`](crate::client::SOCKET_CHECK_INTERVAL)).

use super::{begin::Attempt, end::End, lease::AtEnd};
use crate::{
    client::{
        Client, Progress,
        recording::{Kind, put_operation},
    },
    connection::{Established, closed_by_peer},
    error::Error,
    operation::{Exchange, Operation},
    time::Instant,
};
use std::time::Duration;

/// How long a connection is idle before it is checked: 1 second. Not an option. A connection that
/// is used at shorter intervals is not checked.
pub const IDLE_CHECK_AFTER: Duration = Duration::from_secs(1);

/// The highest number of bytes that an idle check may read with TLS: 16 KiB. Such bytes are
/// messages of TLS itself, such as session tickets of some hundred bytes each. A connection that
/// received more, or other bytes, while it was idle is closed.
pub const MAX_IDLE_CHECK_BYTES: usize = 16 * 1024;

impl Exchange {
    /// True while the connection has to be checked, before [`begin`](Self::begin). Read from its
    /// socket without waiting, and report the result by
    /// [`handle_idle_check`](Self::handle_idle_check), until this method returns false.
    #[must_use]
    #[inline]
    pub fn wants_idle_check(&self) -> bool {
        self.operation.exchange.needs_idle_check
    }

    /// Handles the result of a read from an idle connection: `None` if nothing was there, an empty
    /// slice if the peer closed the connection.
    ///
    /// If this method or the read fails, the exchange cannot be begun. Give it back by
    /// [`Client::refuse`].
    pub fn handle_idle_check(&mut self, bytes: Option<&[u8]>) -> Result<(), Error> {
        let transport = &mut self.lease.transport;
        let Some(bytes) = bytes else {
            self.operation.exchange.needs_idle_check = false;
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
        self.operation.exchange.idle_bytes += bytes.len();
        transport.receive(bytes)?;
        transport.ended()?;
        if transport.has_input() || self.operation.exchange.idle_bytes > MAX_IDLE_CHECK_BYTES {
            let message = "the server sent unexpected bytes on an idle connection";
            return Err(Error::protocol(message));
        }
        // These bytes were messages of TLS itself, and more may follow, so the idle check
        // continues.
        Ok(())
    }
}

impl Client {
    /// True if the connection has to be checked: it was idle for [`IDLE_CHECK_AFTER`] and is not
    /// pinned, and the client does not scan.
    #[inline]
    pub(in crate::client) fn wants_idle_check(
        &self,
        now: Instant,
        operation: &Operation,
        connection: &Established,
    ) -> bool {
        connection.used + IDLE_CHECK_AFTER <= now
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

    /// Takes back an exchange that was not begun, because the idle check of its connection failed
    /// ([`Exchange::handle_idle_check`]). The socket must be parked before this call.
    ///
    /// The connection is closed. The topology is not notified, because servers may close idle
    /// connections at any time. The operation selects a server again, and the attempt does not
    /// count. If the exchange has pinned the connection, the connection is closed when its pins are
    /// released, and the operation fails. A transaction that begins takes another connection.
    pub fn refuse(&mut self, now: Instant, exchange: Exchange, error: Error) -> Progress {
        if let Err(error) = self.check_owner(&exchange) {
            return Progress::Failed(error);
        }
        let id = exchange.operation();
        self.begin_entry(now, Kind::Refuse, |out| {
            put_operation(out, id, Some(&error))
        });
        let Exchange {
            lease,
            mut operation,
        } = exchange;
        let error = error.with_server(&lease.facts.address);
        self.forget_place(&mut operation);
        self.keep_pinned(&lease, &mut operation);
        self.end_lease(now, lease, AtEnd::Broken(Some(error)));
        let start = self.advance(now, id, Attempt::Ended(operation, End::NotBegun));
        self.settle(now);
        self.end_entry(|digest| digest.progress(&start));
        start
    }
}
