//! The deletion of documents whose time to live has ended.

use super::Member;
use bson::DateTime;
use onionskin_core::time::Instant;
use std::time::Duration;

/// The time between two passes over the documents (`ttlMonitorSleepSecs`).
const PERIOD: Duration = Duration::from_secs(60);

impl Member {
    /// Plans the next pass if this member writes and documents have a time to live. Passes of all
    /// members are at the same times.
    pub(super) fn schedule_expiry(&mut self, now: Instant) {
        self.expires_at = None;
        if !self.is_router() && self.replica.is_writable() && self.replica.store().has_expiry() {
            let passed = now.as_nanos() / PERIOD.as_nanos() as u64;
            let next = (passed + 1).saturating_mul(PERIOD.as_nanos() as u64);
            self.expires_at = Some(now + Duration::from_nanos(next - now.as_nanos()));
        }
    }

    /// Deletes the documents whose time to live has ended, if it is time for a pass.
    pub(super) fn expire_documents(&mut self, now: Instant) {
        if self.expires_at.is_none_or(|at| at > now) {
            return;
        }
        let wall = i64::try_from(self.wall_millis(now)).unwrap_or(i64::MAX);
        if self.replica.is_writable() {
            let store = self.replica.store_mut();
            // A pass that fails changes nothing; the next pass tries again.
            let is_done = store.expire(DateTime::from_millis(wall)).is_ok();
            // A pass that would change documents of an open transaction also changes nothing.
            if !is_done || self.blocked().is_some() {
                self.replica.store_mut().undo_changes();
            }
            self.log(now, None);
        }
        self.schedule_expiry(now);
    }
}
