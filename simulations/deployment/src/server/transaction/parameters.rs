//! The server parameters of transactions.

use super::Transactions;
use crate::server::{
    document::integer_field,
    fault::{Fault, bad_value},
};
use bson::{Bson, Document, doc};
use std::time::Duration;

const LIFETIME: &str = "transactionLifetimeLimitSeconds";

const LOCK_TIMEOUT: &str = "maxTransactionLockRequestTimeoutMillis";

impl Transactions {
    /// Returns the values of the parameters.
    pub(in crate::server) fn parameters(&self) -> Document {
        doc! { LIFETIME: self.lifetime_seconds(), LOCK_TIMEOUT: self.lock_millis() }
    }

    /// Sets one of the [`parameters`](Self::parameters), and returns its former value. A new
    /// lifetime concerns only transactions that start later.
    pub(in crate::server) fn set_parameter(
        &mut self,
        name: &str,
        command: &Document,
    ) -> Result<Bson, Fault> {
        let value = integer_field(command, name).and_then(|n| i32::try_from(n).ok());
        match (name, value) {
            (LIFETIME, Some(seconds @ 1..)) => {
                let was = self.lifetime_seconds();
                self.lifetime = Duration::from_secs(seconds.unsigned_abs().into());
                Ok(was.into())
            }
            (LOCK_TIMEOUT, Some(millis)) => {
                let was = self.lock_millis();
                let limit = u64::try_from(millis).ok();
                self.lock_timeout = limit.map(Duration::from_millis);
                Ok(was.into())
            }
            _ => Err(bad_value(format!("Invalid value for parameter {name}"))),
        }
    }

    fn lifetime_seconds(&self) -> i32 {
        i32::try_from(self.lifetime.as_secs()).unwrap_or(i32::MAX)
    }

    /// Returns the time for which a statement waits for a lock; -1 for no limit.
    fn lock_millis(&self) -> i32 {
        let millis = self.lock_timeout.map(|limit| limit.as_millis());
        millis.map_or(-1, |n| i32::try_from(n).unwrap_or(i32::MAX))
    }
}
