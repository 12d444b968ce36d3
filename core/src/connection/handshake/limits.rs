//! How long the steps of a connection may take.
//!
//! Connecting the socket and opening the layers have `connectTimeoutMS` together. After that each
//! command, the hello included, has a limit of its own, which begins anew with it. No limit is that
//! of an operation: an operation whose time ends stops waiting, and the connection goes on for the
//! next one. Ending the connection as well would throw away what is nearly done, and a caller with
//! little time would be a reason to clear the pool (scenario 28).

use super::{Connection, State};
use crate::{
    connection::{ConnectionPurpose, HandshakeOptions},
    error::{Error, Wait},
    time::{Instant, deadline_after_freeze},
};
use std::time::Duration;

/// Least time for one of several addresses, however many there are. It is about the time of a TCP
/// handshake between continents.
const MIN_ATTEMPT: Duration = Duration::from_millis(250);

impl HandshakeOptions {
    /// Returns the time limit of a wait (CMAP-153, CMAP-154, CMAP-155).
    pub(super) fn limit(&self, purpose: ConnectionPurpose, wait: Wait) -> Option<Duration> {
        if purpose == ConnectionPurpose::Monitor {
            // The monitor bounds its checks itself, connecting included (timer T-3).
            return None;
        }
        if wait == Wait::Connect {
            return self.connect_timeout;
        }
        match self.timeout {
            Some(timeout) if purpose == ConnectionPurpose::Population && !timeout.is_zero() => {
                Some(timeout)
            }
            // `timeoutMS` bounds the operation and switches `socketTimeoutMS` off.
            Some(_) => self.connect_timeout,
            // Without a limit a silent server would hold its place among the few connections that
            // are established at once, so `connectTimeoutMS` is used without `socketTimeoutMS`.
            None => self.socket_timeout.or(self.connect_timeout),
        }
    }
}

impl Connection {
    /// Fails the connection if its time limit has passed. Harmless before the deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some(deadline) = self.deadline.filter(|&deadline| deadline <= now) else {
            return;
        };
        if let Some(later) = deadline_after_freeze(deadline, now) {
            self.deadline = Some(later);
            return;
        }
        let (wait, doing) = match self.state {
            State::Dialling => (Wait::Connect, "connecting".to_owned()),
            State::OpeningLayers => {
                let layer = self.transport.opening().map_or("layers'", |l| l.name());
                (Wait::Connect, format!("the {layer} handshake"))
            }
            State::AwaitingHello { .. } => (Wait::Handshake, "the answer to hello".to_owned()),
            State::Authenticating { .. } | State::DerivingKeys { .. } => {
                (Wait::Handshake, "authentication".to_owned())
            }
            State::Idle | State::Checking { .. } | State::Over => return,
        };
        let limit = self.options.limit(self.purpose, wait).unwrap_or_default();
        let message = format!("{doing} took longer than {} ms", limit.as_millis());
        self.fail(Error::timeout(wait, message));
    }

    /// Returns how long an attempt to connect may take that begins now, where `addresses` are left,
    /// its own included. It is a fair share of what is left of `connectTimeoutMS`, so that an
    /// address that does not answer leaves time for the addresses after it. `None` means no limit
    /// but the connection's own.
    #[must_use]
    pub fn attempt_limit(&self, now: Instant, addresses: usize) -> Option<Duration> {
        let whole = self.options.connect_timeout.filter(|l| !l.is_zero())?;
        let addresses = u32::try_from(addresses).unwrap_or(u32::MAX);
        if addresses < 2 || !matches!(self.state, State::Dialling) {
            return None;
        }
        let left = whole.saturating_sub(now - self.dialled);
        let least = MIN_ATTEMPT.min(whole / 4);
        Some((left / addresses).max(least))
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Begins the time limit of what is waited for from now on.
    pub(super) fn renew_deadline(&mut self, now: Instant, wait: Wait) {
        let limit = self.options.limit(self.purpose, wait);
        self.deadline = limit.and_then(|limit| now.checked_add(limit));
    }
}
