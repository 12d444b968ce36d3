//! The labels and the backoff time in the errors of an overloaded server.

use super::{
    document::integer_field,
    fault::{Fault, bad_value},
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

/// The value of [`PARAMETER`].
#[derive(Debug, Default)]
pub(super) struct Overload {
    base_backoff_ms: i32,
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

/// Returns the labels of an error with this code, if it is an overload error.
pub(super) fn labels(code: i32) -> Option<Vec<String>> {
    (code == SHED).then(|| [OVERLOADED, "RetryableError"].map(str::to_owned).to_vec())
}
