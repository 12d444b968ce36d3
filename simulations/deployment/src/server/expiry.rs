//! The deletion of documents whose time to live has ended. If the caller of the deployment runs
//! jobs, a pass over the documents is executed in parts, each of which is logged for itself.

use super::{Member, parts::parts_of};
use bson::DateTime;
use onionskin_core::time::Instant;
use std::time::Duration;

/// The time between two passes over the documents (`ttlMonitorSleepSecs`).
const PERIOD: Duration = Duration::from_secs(60);

impl Member {
    /// Plans the next pass if this member writes and documents have a time to live. Passes of all
    /// members are at the same times. If this member does not write, ends the pass that is under
    /// way.
    pub(super) fn schedule_expiry(&mut self, now: Instant) {
        self.expires_at = None;
        if !self.replica.is_writable() {
            self.expiring = None;
        }
        if !self.is_router() && self.replica.is_writable() && self.replica.store().has_expiry() {
            let passed = now.as_nanos() / PERIOD.as_nanos() as u64;
            let next = (passed + 1).saturating_mul(PERIOD.as_nanos() as u64);
            self.expires_at = Some(now + Duration::from_nanos(next - now.as_nanos()));
        }
    }

    /// Starts to delete the documents whose time to live has ended, if it is time for a pass.
    pub(super) fn expire_documents(&mut self, now: Instant) {
        if self.expires_at.is_none_or(|at| at > now) {
            return;
        }
        let wall = i64::try_from(self.wall_millis(now)).unwrap_or(i64::MAX);
        self.expiring = Some(DateTime::from_millis(wall));
        self.expire_part(now);
        self.schedule_expiry(now);
    }

    /// Executes the next part of a pass, if one is under way.
    fn expire_part(&mut self, now: Instant) {
        let Some(last) = self.expiring.take() else {
            return;
        };
        if !self.replica.is_writable() {
            return;
        }
        let pauses = self.jobs.are_run();
        let expired = self.replica.store_mut().expire(last, &parts_of(pauses));
        // A part that fails, or that would change documents of an open transaction, changes
        // nothing. The next pass tries again.
        if expired.is_err() || self.blocked().is_some() {
            self.replica.store_mut().undo_changes();
        } else if pauses && expired.is_ok_and(|is_last| !is_last) {
            self.expiring = Some(last);
        }
        self.log(now, None);
    }

    /// True if work of this member that no client waits for has paused: a pass over documents with
    /// a time to live, or the commit of a prepared transaction.
    pub(crate) fn has_work(&self) -> bool {
        let has_work = self.expiring.is_some() || self.transactions.are_committing();
        has_work && self.up && self.replica.is_writable()
    }

    /// Executes the next part of the work that no client waits for.
    pub(crate) fn work(&mut self, now: Instant) {
        if self.has_work() {
            self.expire_part(now);
            self.go_on_with_commits(now);
        }
    }
}
