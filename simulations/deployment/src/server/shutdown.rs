//! Orderly shutdown. In quiesce mode, a member refuses hellos, so that clients learn about the
//! shutdown, and still executes other commands.

use super::{
    Member,
    fault::{Fault, fault},
};
use onionskin_core::time::Instant;
use std::time::Duration;

/// The length of quiesce mode, `shutdownTimeoutMillisForSignaledShutdown`.
const QUIESCE_PERIOD: Duration = Duration::from_secs(15);

impl Member {
    /// Begins quiesce mode. A primary first tries to step down.
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

    /// True if quiesce mode is over.
    pub(crate) fn has_quiesced(&self, now: Instant) -> bool {
        self.quiesces_until.is_some_and(|at| at <= now)
    }

    pub(crate) const fn quiesces(&self) -> bool {
        self.quiesces_until.is_some()
    }

    /// Returns an error in quiesce mode, in which hellos fail.
    pub(super) fn check_quiescing(&self) -> Result<(), Fault> {
        if self.quiesces() {
            let text = "The server is in quiesce mode and will shut down";
            return Err(fault(91, text));
        }
        Ok(())
    }
}
