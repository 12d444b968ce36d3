//! What a server says with the requests that it sheds: error labels, and how long its clients are
//! to back off.

use super::{
    document::integer_field,
    fault::{Fault, bad_value},
};
use bson::{Bson, Document};

/// The parameter that chooses the base of the clients' backoff, in milliseconds; zero leaves it to
/// them.
pub(super) const PARAMETER: &str = "externalClientBaseBackoffMS";

/// `IngressRequestRateLimitExceeded`: the request was shed before anything was done for it.
const SHED: i32 = 462;

/// The label of all errors of overload.
const OVERLOADED: &str = "SystemOverloadedError";

/// Parameters of overload.
#[derive(Debug, Default)]
pub(super) struct Overload {
    base_backoff_ms: i32,
}

impl Overload {
    /// Sets the parameter to what a command has under this name, and returns its former value.
    pub(super) fn set(&mut self, command: &Document) -> Result<Bson, Fault> {
        let value = integer_field(command, PARAMETER).and_then(|n| i32::try_from(n).ok());
        let Some(value) = value.filter(|value| *value >= 0) else {
            return Err(bad_value(format!(
                "Invalid value for parameter {PARAMETER}"
            )));
        };
        Ok(std::mem::replace(&mut self.base_backoff_ms, value).into())
    }

    /// `baseBackoffMS` of an error with these labels.
    pub(super) fn base_backoff(&self, labels: &[String]) -> Option<i32> {
        let is_overload = labels.iter().any(|label| label == OVERLOADED);
        (is_overload && self.base_backoff_ms > 0).then_some(self.base_backoff_ms)
    }
}

/// The labels of an error with this code, where it is one of overload.
pub(super) fn labels(code: i32) -> Option<Vec<String>> {
    (code == SHED).then(|| [OVERLOADED, "RetryableError"].map(str::to_owned).to_vec())
}
