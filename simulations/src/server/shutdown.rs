//! Shutting down in order: a quiesce mode in which clients learn that this member goes away, while
//! what they have begun still runs.

use super::{
    Member,
    fault::{Fault, fault},
};
use onionskin_core::time::Instant;
use std::time::Duration;

/// How long a member that shuts down says so before it ends:
/// `shutdownTimeoutMillisForSignaledShutdown`.
const QUIESCE_PERIOD: Duration = Duration::from_secs(15);

impl Member {
    /// Begins to say goodbye. A primary steps down first, if somebody can take over.
    pub(crate) fn shut_down(&mut self, now: Instant) {
        if !self.up || self.quiesces() {
            return;
        }
        if self.replica.is_leader() && self.is_set() {
            self.step_down(now, QUIESCE_PERIOD);
        }
        self.quiesces_until = Some(now + QUIESCE_PERIOD);
        self.counter += 1;
        self.answer_hellos(now);
    }

    /// True once the time to say goodbye is over.
    pub(crate) fn is_through(&self, now: Instant) -> bool {
        self.quiesces_until.is_some_and(|at| at <= now)
    }

    pub(super) const fn quiesces(&self) -> bool {
        self.quiesces_until.is_some()
    }

    /// Hellos are refused while a member says goodbye.
    pub(super) fn check_quiescing(&self) -> Result<(), Fault> {
        if self.quiesces() {
            let text = "The server is in quiesce mode and will shut down";
            return Err(fault(91, text));
        }
        Ok(())
    }
}
