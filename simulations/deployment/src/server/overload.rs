//! The overload of a server: the requests and handshakes that it refuses, and the labels and the
//! backoff time in its errors.

use super::{
    Member,
    connection::Request,
    dispatch::{is_read, writes_documents},
    document::integer_field,
    fail_point::FailEffect,
    fault::{Fault, bad_value, fault},
};
use bson::{Bson, Document};

/// The parameter for the base of the clients' backoff, in milliseconds. With 0, clients use their
/// own value.
pub(super) const PARAMETER: &str = "externalClientBaseBackoffMS";

/// The code `IngressRequestRateLimitExceeded`: the server rejected the request without executing
/// it.
const SHED: i32 = 462;

/// The label of all overload errors.
const OVERLOADED: &str = "SystemOverloadedError";

/// The share of its work that an overloaded server refuses. Default: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shedding {
    /// In how many of 1000 cases a request to read or write data fails with the error 462
    /// (`IngressRequestRateLimitExceeded`), without being executed (BP-1). Other requests, such as
    /// those of monitoring, authentication and the ends of transactions, are never refused.
    pub requests_per_mille: u16,
    /// In how many of 1000 cases a new connection is closed instead of an answer to its first
    /// `hello` (BP-15).
    pub handshakes_per_mille: u16,
}

/// The overload of a server, and the value of [`PARAMETER`].
#[derive(Debug, Default)]
pub(super) struct Overload {
    base_backoff_ms: i32,
    shedding: Shedding,
}

impl Overload {
    /// Sets the parameter to its value in a command, and returns the former value.
    pub(super) fn set(&mut self, command: &Document) -> Result<Bson, Fault> {
        let value = integer_field(command, PARAMETER).and_then(|n| i32::try_from(n).ok());
        let Some(value) = value.filter(|value| *value >= 0) else {
            return Err(bad_value(format!(
                "Invalid value for parameter {PARAMETER}"
            )));
        };
        Ok(std::mem::replace(&mut self.base_backoff_ms, value).into())
    }

    /// Returns `baseBackoffMS` for an error with these labels. Only an overload error has the
    /// field, and only if the parameter is not 0.
    pub(super) fn base_backoff(&self, labels: &[String]) -> Option<i32> {
        let is_overload = labels.iter().any(|label| label == OVERLOADED);
        (is_overload && self.base_backoff_ms > 0).then_some(self.base_backoff_ms)
    }
}

impl Member {
    /// Sets the share of the requests and handshakes that the server refuses from now on.
    pub(crate) const fn set_shedding(&mut self, shedding: Shedding) {
        self.overload.shedding = shedding;
    }

    /// Returns the refusal of a request, if the server refuses it because of overload.
    pub(super) fn shed(&mut self, request: &Request) -> Option<FailEffect> {
        let is_handshake = is_handshake(request);
        let Shedding {
            requests_per_mille,
            handshakes_per_mille,
        } = self.overload.shedding;
        let rate = match &*request.name {
            _ if is_handshake => handshakes_per_mille,
            name if is_read(name) || writes_documents(name) => requests_per_mille,
            _ => 0,
        };
        // Without overload, nothing is drawn.
        if rate == 0 || !self.random.chance(rate.into(), 1000) {
            return None;
        }
        let refusal = Fault {
            labels: labels(SHED),
            ..fault(SHED, "the request exceeds the rate limit of the server")
        };
        Some(FailEffect {
            close: is_handshake,
            fault: Some(refusal),
            ..FailEffect::default()
        })
    }
}

/// True for the first hello of a connection, in which the client describes itself.
fn is_handshake(request: &Request) -> bool {
    matches!(&*request.name, "hello" | "isMaster" | "ismaster")
        && request.command.contains_key("client")
}

/// Returns the labels of an error with this code, if it is an overload error.
pub(super) fn labels(code: i32) -> Option<Vec<String>> {
    (code == SHED).then(|| [OVERLOADED, "RetryableError"].map(str::to_owned).to_vec())
}
