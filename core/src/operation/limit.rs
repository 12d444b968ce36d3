//! The time limit that a command gives the server.

use super::{CommandKind, Operation};
use crate::{
    error::{Error, Wait},
    time::Instant,
};

impl Operation {
    /// Returns the error of an operation whose time limit was over before it began: the limit of a
    /// cursor begins with the command that opened it, that of a program with its first command.
    pub(crate) fn expired(&self, now: Instant) -> Option<Error> {
        self.deadline.filter(|&deadline| deadline <= now)?;
        let name = self.command.name();
        let message = if self.command.kind == CommandKind::CursorFollowUp {
            format!(
                "no time was left to send {name}: the time limit of a cursor bounds the command \
                 that opened it and all further batches together; choose a longer one or fetch less"
            )
        } else {
            format!(
                "no time was left to send {name}: the time limit of an operation bounds all its \
                 commands together; choose a longer one"
            )
        };
        Some(Error::timeout(Wait::CheckOut, message))
    }

    /// Computes `maxTimeMS` of the attempt that begins now: the time that is left, less the
    /// shortest round trip time of the server (SEL-59). An operation without a deadline has none.
    ///
    /// Fails where no more time is left than one round trip takes: the reply would come too late,
    /// and the connection would have to be drained of it.
    pub(super) fn limit_time(&mut self, now: Instant) -> Result<(), Error> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let left = deadline.saturating_since(now);
        let trip = self.min_round_trip;
        if left <= trip {
            let message = if left.is_zero() {
                "no time was left to send the command".to_owned()
            } else {
                format!("{left:?} were left, but a round trip to the server takes {trip:?}")
            };
            return Err(Error::timeout(Wait::CheckOut, message));
        }
        // Zero would be no limit, and servers refuse a limit that is no `i32`.
        let millis = (left - trip).as_millis().max(1);
        let takes_limit = !self.is_get_more();
        self.max_time_ms = i32::try_from(millis).ok().filter(|_| takes_limit);
        Ok(())
    }

    /// True for the `getMore` of a cursor: `maxTimeMS` bounds there how long the server waits for
    /// documents, which the owner of the cursor decides.
    fn is_get_more(&self) -> bool {
        self.command.kind == CommandKind::CursorFollowUp && self.command.name() == "getMore"
    }
}
