//! `maxTimeMS`: the time limit that a command gives to the server.

use super::{CommandKind, Operation};
use crate::{
    error::{Error, Wait},
    time::Instant,
};

impl Operation {
    /// Returns a timeout error if the deadline passed before this command began. The time limit of
    /// a cursor begins with the command that opened the cursor, and that of a program with its
    /// first command.
    pub(crate) fn expired(&self, now: Instant) -> Option<Error> {
        self.deadline.filter(|&deadline| deadline <= now)?;
        let name = self.request.name();
        let message = if self.request.kind == CommandKind::CursorFollowUp {
            format!(
                "no time was left to send {name}: the time limit of a cursor bounds all batches \
                 that are fetched before it passes; choose a longer one or fetch less"
            )
        } else {
            format!(
                "no time was left to send {name}: the time limit of an operation bounds all its \
                 commands together; choose a longer one"
            )
        };
        Some(Error::timeout(Wait::CheckOut, message))
    }

    /// Computes `maxTimeMS` of the attempt that begins now: the remaining time minus the minimum
    /// round trip time of the server (SEL-59). Without a deadline, for a cursor that is limited
    /// per iteration, and for mongocryptd, there is none. In a `getMore` it is the time that the
    /// cursor awaits new documents, if that is shorter.
    ///
    /// Fails if no more time remains than one round trip takes. The reply would come too late, and
    /// would have to be drained from the connection.
    pub(super) fn limit_time(&mut self, now: Instant, is_cryptd: bool) -> Result<(), Error> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let left = deadline.saturating_since(now);
        let trip = self.selection.min_round_trip;
        if left <= trip {
            let message = if left.is_zero() {
                "the time limit of the operation passed before the command was sent; choose a \
                 longer one"
                    .to_owned()
            } else {
                format!(
                    "the remaining time of {left:?} is shorter than a round trip to the server, \
                     {trip:?}; choose a longer time limit",
                )
            };
            return Err(Error::timeout(Wait::CheckOut, message));
        }
        // `maxTimeMS: 0` would mean no limit. Servers refuse a value that is not an `i32`, so a
        // larger value is not sent.
        let millis = (left - trip).as_millis().max(1);
        let millis = i32::try_from(millis).ok();
        self.request.max_time_ms = match self.is_get_more() {
            // The server is to wait for new documents no longer than the operation.
            true => self
                .request
                .max_time_ms
                .map(|wait| wait.min(millis.unwrap_or(wait))),
            false => millis.filter(|_| !is_cryptd && !self.request.omits_max_time()),
        };
        Ok(())
    }

    /// True for the `getMore` of a cursor. In a `getMore`, `maxTimeMS` limits how long the server
    /// waits for new documents.
    fn is_get_more(&self) -> bool {
        self.request.kind == CommandKind::CursorFollowUp && self.request.name() == "getMore"
    }
}
