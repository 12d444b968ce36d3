//! The time limits of a connection's steps.
//!
//! Connecting the socket and opening the layers share `connectTimeoutMS`. After that, each command
//! has a time limit of its own, the hello included, and so has each derivation of keys and each
//! step of Kerberos. A fetch of a part of the credential has limits of its own. The connections of
//! monitors have none of these limits.
//!
//! The time limit of an operation does not end a handshake. When the time of an operation is over,
//! the operation stops waiting, and the handshake continues for the next operation. Otherwise work
//! that is nearly done would be lost, and operations with short time limits could clear the pool
//! (scenario 28).

use super::{Connection, State};
use crate::{
    connection::{ConnectionPurpose, HandshakeOptions},
    error::{Error, Wait},
    time::{Instant, deadline_after_freeze},
};
use std::time::Duration;

impl HandshakeOptions {
    /// Returns the time limit of one step: of connecting for [`Wait::Connect`], of one command, key
    /// derivation or step of Kerberos for any other `wait`. The limits of connections for
    /// `minPoolSize` follow CMAP-154. For other connections, `timeoutMS` does not limit the
    /// commands, which differs from CMAP-153 (see the documentation of this module). `None` means
    /// no limit, for example after `connectTimeoutMS=0` (CMAP-155).
    pub(super) fn limit(&self, purpose: ConnectionPurpose, wait: Wait) -> Option<Duration> {
        if purpose == ConnectionPurpose::Monitor {
            // The monitor limits its checks itself, connecting included (timer T-3).
            return None;
        }
        if wait == Wait::Connect {
            return self.connect_timeout;
        }
        match self.timeout {
            Some(timeout) if purpose == ConnectionPurpose::Population && !timeout.is_zero() => {
                Some(timeout)
            }
            // With `timeoutMS`, `socketTimeoutMS` does not apply.
            Some(_) => self.connect_timeout,
            // Without a limit, a connection to a server that does not answer would stay pending for
            // ever and count towards `maxConnecting`. So `connectTimeoutMS` applies if
            // `socketTimeoutMS` is not set.
            None => self.socket_timeout.or(self.connect_timeout),
        }
    }
}

impl Connection {
    /// Fails the connection if its deadline has passed. If the deadline passed so long ago that the
    /// process must have been frozen, sets a later deadline instead.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some(deadline) = self.deadline.filter(|&deadline| deadline <= now) else {
            return;
        };
        if let Some(later) = deadline_after_freeze(deadline, now) {
            self.deadline = Some(later);
            return;
        }
        let (wait, doing) = match self.state {
            State::Dialling => {
                let doing = match self.proxy() {
                    Some(proxy) => format!("connecting to the proxy {proxy}"),
                    None => "connecting".to_owned(),
                };
                (Wait::Connect, doing)
            }
            State::OpeningLayers => {
                let layer = self.transport.opening().map_or("layers'", |l| l.name());
                (Wait::Connect, format!("the {layer} handshake"))
            }
            State::AwaitingHello { .. } => (Wait::Handshake, "the reply to hello".to_owned()),
            State::Authenticating { .. } | State::DerivingKeys { .. } => {
                (Wait::Handshake, "authentication".to_owned())
            }
            State::Negotiating { .. } => (
                Wait::Handshake,
                "a step of Kerberos, which may ask the key distribution center,".to_owned(),
            ),
            // A fetch has limits of its own.
            State::AwaitingLogin | State::Fetching { .. } => return,
            State::Idle | State::Checking { .. } | State::Over => return,
        };
        let limit = self.options.limit(self.purpose, wait).unwrap_or_default();
        let message = format!("{doing} took longer than {} ms", limit.as_millis());
        self.fail(Error::timeout(wait, message));
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due; `None` without a
    /// time limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Starts the time limit of the next step.
    /// Returns what is left of `connectTimeoutMS` while the layers are opened; `None` for no limit.
    pub(crate) fn connect_time_left(&self, now: Instant) -> Option<Duration> {
        let limit = self.options.connect_timeout?;
        Some(limit.saturating_sub(now.saturating_since(self.began)))
    }

    pub(super) fn renew_deadline(&mut self, now: Instant, wait: Wait) {
        let limit = self.options.limit(self.purpose, wait);
        self.deadline = limit.and_then(|limit| now.checked_add(limit));
    }
}
