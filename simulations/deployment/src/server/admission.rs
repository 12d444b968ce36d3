//! The rate limit of new connections: the parameters that begin with
//! `ingressConnectionEstablishment`, which servers have since 8.2.
//!
//! Each connection takes a token. Tokens come at a constant rate, and unused tokens are saved for a
//! burst. A connection without a token waits in a queue, and its requests are not handled. If the
//! queue is full, the connection is closed.

use super::{
    Member, Output, commands,
    connection::Request,
    document::{integer_field, truth},
    fault::{Fault, bad_value, fault},
    overload,
};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};
use onionskin_core::time::Instant;
use std::{collections::VecDeque, time::Duration};

/// The parameter that demands a declared version of the API in each command, from release 5.0 on.
pub(super) const REQUIRE_API: &str = "requireApiVersion";

/// Parameters of a server that can be neither read nor set here.
const REFUSED: [&str; 8] = [
    "cursorTimeoutMillis",
    "logComponentVerbosity",
    "logLevel",
    "notablescan",
    "quiet",
    "traceExceptions",
    "ttlMonitorEnabled",
    "ttlMonitorSleepSecs",
];

/// True for a parameter that servers have and the simulated server does not.
pub(super) fn is_refused_parameter(name: &str) -> bool {
    REFUSED.contains(&name)
}

fn unknown_parameter(name: &str) -> Fault {
    let text =
        format!("attempted to set unrecognized parameter [{name}], use help:true to see options ");
    fault(72, text)
}

const PREFIX: &str = "ingressConnectionEstablishment";

/// The names of the parameters after [`PREFIX`].
const PARAMETERS: [&str; 4] = [
    "RateLimiterEnabled",
    "RatePerSec",
    "BurstCapacitySecs",
    "MaxQueueDepth",
];

/// The default of `...RatePerSec`, which limits nothing in practice.
const DEFAULT_RATE_PER_SECOND: u64 = 2_147_483_647;

/// The rate limiter of a member's new connections.
#[derive(Debug)]
pub(super) struct Admission {
    enabled: bool,
    /// The rate of tokens per second, `...RatePerSec`.
    rate: u64,
    /// The largest number of saved tokens, given as the seconds in which `rate` produces them:
    /// `...BurstCapacitySecs`.
    burst_seconds: u64,
    /// The largest number of queued connections, `...MaxQueueDepth`.
    max_queue: usize,
    /// The time at which all tokens that were taken will have been replaced.
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
    /// Admits or queues a new connection. Returns `Some(true)` if it is queued, `Some(false)` if it
    /// is admitted, and `None` if the queue is full.
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

    /// Sets the parameters to their defaults, which admit all connections that are queued.
    pub(super) fn reset(&mut self) {
        *self = Self {
            queue: std::mem::take(&mut self.queue),
            ..Self::default()
        };
    }

    /// Returns the next queued connection if it is admitted now: if there is a token, or if the
    /// limiter was disabled.
    fn poll_admitted(&mut self, now: Instant) -> Option<ConnId> {
        if self.enabled {
            if self.queue.is_empty() || self.token_at() > now {
                return None;
            }
            self.take(now);
        }
        self.queue.pop_front()
    }

    /// Returns the time at which the next queued connection is admitted; `None` if the queue is
    /// empty.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then(|| self.token_at())
    }

    /// Removes a closed connection from the queue.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.queue.retain(|other| *other != conn);
    }

    /// Returns the time at which the next token is available.
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

    /// Sets one of [`PARAMETERS`] to the value of the field `key`. Returns the former value.
    fn set(&mut self, parameter: &str, command: &Document, key: &str) -> Result<Bson, Fault> {
        let number = || match integer_field(command, key).and_then(|n| u64::try_from(n).ok()) {
            Some(number) => Ok(number),
            None => Err(bad_value(format!("Invalid value for parameter {key}"))),
        };
        let count = |n: u64| Bson::from(i64::try_from(n).unwrap_or(i64::MAX));
        Ok(match parameter {
            "RateLimiterEnabled" => {
                let enabled = truth(command.get(key));
                std::mem::replace(&mut self.enabled, enabled).into()
            }
            "RatePerSec" => count(std::mem::replace(&mut self.rate, number()?)),
            "BurstCapacitySecs" => count(std::mem::replace(&mut self.burst_seconds, number()?)),
            "MaxQueueDepth" => {
                let depth = usize::try_from(number()?).unwrap_or(usize::MAX);
                count(std::mem::replace(&mut self.max_queue, depth) as u64)
            }
            _ => return Err(unknown_parameter(key)),
        })
    }
}

impl Member {
    /// Admits queued connections for which there are tokens, and handles their requests.
    pub(super) fn admit_queued(&mut self, now: Instant) {
        while let Some(conn) = self.admission.poll_admitted(now) {
            if let Some(connection) = self.connection(conn) {
                connection.is_queued = false;
            }
            self.advance(now, conn);
            // A full buffer has room again.
            self.outputs.push_back(Output::Turn(conn));
        }
    }

    /// Executes `setParameter`. An unknown parameter is an error before any is set. A value that is
    /// not valid is one after those before it are set.
    pub(super) fn set_parameters(&mut self, request: &Request) -> Result<Document, Fault> {
        let command = &request.command;
        let is_parameter = |key: &&String| **key != request.name && !commands::is_generic(key);
        let names: Vec<&String> = command.keys().filter(is_parameter).collect();
        if names.is_empty() {
            let text = "no option found to set, use help:true to see options ";
            return Err(fault(72, text));
        }
        for name in &names {
            self.check_parameter(name)?;
        }
        let mut was = Bson::Null;
        for name in names {
            was = match (name.as_str(), name.strip_prefix(PREFIX)) {
                (_, Some(parameter)) => self.admission.set(parameter, command, name)?,
                (overload::PARAMETER, _) => self.overload.set(command)?,
                (REQUIRE_API, _) => {
                    let requires = truth(command.get(name));
                    std::mem::replace(&mut self.requires_api, requires).into()
                }
                (name, _) => self.transactions.set_parameter(name, command)?,
            };
        }
        Ok(doc! { "was": was })
    }

    /// Returns an error for a parameter that a server of this kind and release does not have, or
    /// that is not simulated.
    fn check_parameter(&self, name: &str) -> Result<(), Fault> {
        if is_refused_parameter(name) {
            return Err(unknown_parameter(name).not_simulated(name));
        }
        let is_known = match (name, name.strip_prefix(PREFIX)) {
            (_, Some(parameter)) => PARAMETERS.contains(&parameter),
            (overload::PARAMETER, _) => true,
            (REQUIRE_API, _) => self.program.version.release >= [5, 0, 0],
            _ => !self.is_router() && self.transactions.parameters().contains_key(name),
        };
        match is_known {
            true => Ok(()),
            false => Err(unknown_parameter(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_of_the_same_prefix_does_not_set_the_queue() {
        let mut admission = Admission::default();
        let result = admission.set("Other", &doc! { "key": 5 }, "key");
        assert_eq!(result.expect_err("an unknown parameter").error.code, 72);
        assert_eq!(admission.max_queue, 0);
    }
}
