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
    tls::CertId,
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
        self.handle_limit(now, false);
    }

    /// Handles a timeout as [`handle_timeout`](Self::handle_timeout) does. `is_queued` is true if
    /// the keys or the step of Kerberos that authentication waits for are still in the queue of the
    /// client. The error then says nothing about the server.
    pub(crate) fn handle_limit(&mut self, now: Instant, is_queued: bool) {
        let Some(deadline) = self.deadline.filter(|&deadline| deadline <= now) else {
            return;
        };
        if let Some(later) = deadline_after_freeze(deadline, now) {
            self.deadline = Some(later);
            return;
        }
        let (wait, doing) = match self.state {
            State::Dialling | State::OpeningLayers => {
                (Wait::Connect, self.unopened().unwrap_or_default())
            }
            State::AwaitingHello { .. } => (Wait::Handshake, "the reply to hello".to_owned()),
            State::Authenticating { .. } | State::DerivingKeys { .. } => {
                (Wait::Handshake, "authentication".to_owned())
            }
            State::AwaitingKerberos { .. } => (
                Wait::Handshake,
                "a step of Kerberos, which may ask the key distribution center,".to_owned(),
            ),
            // A fetch has limits of its own.
            State::AwaitingLogin | State::Fetching { .. } => return,
            State::Idle | State::Checking { .. } | State::Over => return,
        };
        let limit = self.options.limit(self.purpose, wait).unwrap_or_default();
        let limit = limit.as_millis();
        self.fail(match is_queued {
            true => {
                let message = format!(
                    "authentication did not continue within {limit} ms, because earlier \
                     authentications of this client were not over"
                );
                Error::timeout(Wait::Queue, message)
            }
            false => Error::timeout(wait, format!("{doing} took longer than {limit} ms")),
        });
    }

    /// Starts the time limit of keys or of a step of Kerberos anew: the work has left the queue of
    /// the client.
    pub(crate) fn handle_work_begun(&mut self, now: Instant) {
        if let State::DerivingKeys { .. } | State::AwaitingKerberos { .. } = self.state {
            self.renew_deadline(now, Wait::Handshake);
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due; `None` without a
    /// time limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns how long OCSP responders may take for the certificate of the server: `usual`, and
    /// for a monitor, whose check has a fixed limit, at most half of what is left of that.
    pub(crate) fn status_limit(&self, now: Instant, usual: Duration) -> Duration {
        if self.purpose != ConnectionPurpose::Monitor {
            return usual;
        }
        let limit = self.options.connect_timeout;
        let left = limit.map(|limit| limit.saturating_sub(now.saturating_since(self.began)));
        left.map_or(usual, |left| usual.min(left / 2))
    }

    /// Begins to wait for OCSP responders, and returns how long they may take
    /// ([`status_limit`](Self::status_limit)). The end of that becomes the deadline of a monitor's
    /// connection. The deadline of another connection becomes later if necessary: a server could
    /// otherwise avoid the check by a slow handshake.
    pub(crate) fn wait_for_status(&mut self, now: Instant, usual: Duration) -> Duration {
        let limit = self.status_limit(now, usual);
        if self.purpose == ConnectionPurpose::Monitor {
            self.deadline = now.checked_add(limit);
            return limit;
        }
        let end = now.checked_add(usual.saturating_mul(2));
        if let (Some(deadline), Some(end)) = (&mut self.deadline, end) {
            *deadline = end.max(*deadline);
        }
        limit
    }

    /// Returns the certificate whose status a monitor's connection has waited for until its
    /// deadline. The connection is then used, as without an answer (OCSP-14), although a check that
    /// another connection began may still run. `None` for other connections.
    pub(crate) fn overdue_status(&mut self, now: Instant) -> Option<CertId> {
        let deadline = self.deadline.filter(|&deadline| deadline <= now)?;
        if self.purpose != ConnectionPurpose::Monitor
            || deadline_after_freeze(deadline, now).is_some()
        {
            return None;
        }
        self.asked_status.clone()
    }

    /// Returns what a connection whose layers are not open waits for; `None` for other connections.
    pub(crate) fn unopened(&self) -> Option<String> {
        match (self.state, self.proxy()) {
            (State::Dialling, Some(proxy)) => Some(format!("connecting to the proxy {proxy}")),
            (State::Dialling, None) => Some("connecting".to_owned()),
            (State::OpeningLayers, _) => {
                let layer = self.transport.opening().map_or("layers'", |l| l.name());
                Some(format!("the {layer} handshake"))
            }
            _ => None,
        }
    }

    /// Starts the time limit of the next step.
    pub(super) fn renew_deadline(&mut self, now: Instant, wait: Wait) {
        let limit = self.options.limit(self.purpose, wait);
        self.deadline = limit.and_then(|limit| now.checked_add(limit));
    }
}
