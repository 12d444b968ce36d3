//! How fast new connections are let in: `ingressConnectionEstablishmentRateLimiterEnabled` and its
//! companions, as servers know them since 8.2.
//!
//! Each connection takes a token. Tokens come at a steady rate and are saved up to a burst. Without
//! a token a connection waits in a queue, unread; without a place in the queue it is closed.

use super::{
    Member,
    connection::Request,
    document::{integer_field, truth},
    fault::{Fault, bad_value},
    overload,
};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};
use onionskin_core::time::Instant;
use std::{collections::VecDeque, time::Duration};

const PREFIX: &str = "ingressConnectionEstablishmentRateLimiter";

/// `...RatePerSec` unless it is set: as good as no limit, as in the server.
const DEFAULT_RATE_PER_SECOND: u64 = 2_147_483_647;

/// Connections are let in at this rate.
#[derive(Debug)]
pub(super) struct Admission {
    enabled: bool,
    /// `...RatePerSec`.
    rate: u64,
    /// `...BurstCapacitySecs`: tokens of so many seconds are saved up.
    burst_seconds: u64,
    /// `...MaxQueueDepth`.
    max_queue: usize,
    /// When all tokens that were taken so far have come again.
    full_at: Instant,
    queue: VecDeque<ConnId>,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            enabled: false,
            rate: DEFAULT_RATE_PER_SECOND,
            burst_seconds: 1,
            max_queue: 0,
            full_at: Instant::ZERO,
            queue: VecDeque::new(),
        }
    }
}

impl Admission {
    /// Whether a new connection has to wait; `None` if it is not let in at all.
    pub(super) fn admit(&mut self, now: Instant, conn: ConnId) -> Option<bool> {
        if !self.enabled {
            return Some(false);
        }
        if self.queue.is_empty() && self.token_at() <= now {
            self.take(now);
            return Some(false);
        }
        if self.queue.len() >= self.max_queue {
            return None;
        }
        self.queue.push_back(conn);
        Some(true)
    }

    /// The next connection whose turn has come.
    fn poll_admitted(&mut self, now: Instant) -> Option<ConnId> {
        if self.enabled {
            if self.queue.is_empty() || self.token_at() > now {
                return None;
            }
            self.take(now);
        }
        self.queue.pop_front()
    }

    /// When the next connection is let in.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then(|| self.token_at())
    }

    /// A connection has gone.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.queue.retain(|other| *other != conn);
    }

    /// When there is a token.
    fn token_at(&self) -> Instant {
        let saved = Duration::from_secs(self.burst_seconds).saturating_sub(self.interval());
        let since_start = self.full_at.since_start().saturating_sub(saved);
        Instant::ZERO + since_start
    }

    fn take(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + self.interval();
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / self.rate.max(1))
    }

    fn set(&mut self, parameter: &str, command: &Document, key: &str) -> Result<Bson, Fault> {
        let number = || match integer_field(command, key).and_then(|n| u64::try_from(n).ok()) {
            Some(number) => Ok(number),
            None => Err(bad_value(format!("Invalid value for parameter {key}"))),
        };
        let count = |n: u64| Bson::from(i64::try_from(n).unwrap_or(i64::MAX));
        Ok(match parameter {
            "Enabled" => {
                let enabled = truth(command.get(key));
                std::mem::replace(&mut self.enabled, enabled).into()
            }
            "RatePerSec" => count(std::mem::replace(&mut self.rate, number()?)),
            "BurstCapacitySecs" => count(std::mem::replace(&mut self.burst_seconds, number()?)),
            "MaxQueueDepth" => {
                let depth = usize::try_from(number()?).unwrap_or(usize::MAX);
                count(std::mem::replace(&mut self.max_queue, depth) as u64)
            }
            _ => return Err(bad_value(format!("unknown parameter {key}"))),
        })
    }
}

impl Member {
    /// Begins to read from connections whose turn has come.
    pub(super) fn admit_queued(&mut self, now: Instant) {
        while let Some(conn) = self.admission.poll_admitted(now) {
            if let Some(connection) = self.connection(conn) {
                connection.is_queued = false;
            }
            self.advance(now, conn);
        }
    }

    /// Sets parameters that mean something here, and passes over the rest.
    pub(super) fn set_parameters(&mut self, request: &Request) -> Result<Document, Fault> {
        let mut was = Bson::Null;
        for key in request.command.keys() {
            if let Some(parameter) = key.strip_prefix(PREFIX) {
                was = self.admission.set(parameter, &request.command, key)?;
            } else if key == overload::PARAMETER {
                was = self.overload.set(&request.command)?;
            }
        }
        Ok(doc! { "was": was })
    }
}
