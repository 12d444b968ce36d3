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
    #[inline]
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
    /// round trip time of the server (SEL-59). For a cursor that is limited per iteration, for
    /// mongocryptd, and with a time limit of zero, there is none. In a `getMore` it is the time
    /// that the cursor awaits new documents, if that is shorter. A command without any time limit
    /// keeps the `maxTimeMS` of its options.
    ///
    /// Fails if no more time remains than one round trip takes. The reply would come too late, and
    /// would have to be drained from the connection.
    #[inline]
    pub(super) fn limit_time(&mut self, now: Instant, is_cryptd: bool) -> Result<(), Error> {
        let Some(deadline) = self.deadline else {
            // Any time limit, also that of zero, replaces the older one.
            if self.request.timeout.is_some() && !self.is_get_more() {
                self.request.max_time_ms = None;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Command, CursorSettings, OperationId, TimeoutMode, crud::CursorType};
    use std::time::Duration;

    /// Returns the `maxTimeMS` of a `find` whose limit is this long, at a server whose round trip
    /// takes at least 10 ms.
    fn max_time(limit: Duration, settings: CursorSettings) -> Option<i32> {
        let mut command = Command::new("find", "db", CommandKind::Read);
        command.set_timeout(Some(limit));
        command.set_cursor(settings);
        let mut operation = Operation::new(OperationId(0), command, Instant::ZERO);
        operation.selection.min_round_trip = Duration::from_millis(10);
        let limited = operation.limit_time(Instant::ZERO, false);
        limited.expect("there is time for a round trip");
        operation.request.max_time_ms
    }

    #[test]
    fn the_server_has_what_is_left_after_a_round_trip_and_at_least_a_millisecond() {
        // SEL-59.
        for (micros, expected) in [(1_010_000, 1000), (12_999, 2), (11_000, 1), (10_001, 1)] {
            let limit = Duration::from_micros(micros);
            let max_time = max_time(limit, CursorSettings::default());
            assert_eq!(max_time, Some(expected), "{limit:?}");
        }
    }

    #[test]
    fn a_command_whose_cursor_is_limited_per_iteration_has_a_limit_only_if_it_awaits() {
        let second = Duration::from_secs(1);
        for (mode, cursor_type, expected) in [
            (None, None, Some(990)),
            (Some(TimeoutMode::CursorLifetime), None, Some(990)),
            (Some(TimeoutMode::Iteration), None, None),
            (None, Some(CursorType::Tailable), None),
            (None, Some(CursorType::TailableAwait), Some(990)),
        ] {
            let settings = CursorSettings {
                timeout_mode: mode,
                cursor_type,
                ..CursorSettings::default()
            };
            assert_eq!(
                max_time(second, settings),
                expected,
                "{mode:?} {cursor_type:?}"
            );
        }
    }

    #[test]
    fn a_get_more_awaits_documents_no_longer_than_its_time_limit() {
        for (wait, expected) in [(5000, 990), (500, 500)] {
            let mut command = Command::new("getMore", "db", CommandKind::CursorFollowUp);
            command.set_timeout(Some(Duration::from_secs(1)));
            let mut operation = Operation::new(OperationId(0), command, Instant::ZERO);
            operation.selection.min_round_trip = Duration::from_millis(10);
            operation.request.max_time_ms = Some(wait);
            let limited = operation.limit_time(Instant::ZERO, false);
            limited.expect("there is time for a round trip");
            assert_eq!(operation.request.max_time_ms, Some(expected), "{wait}");
        }
    }

    #[test]
    fn a_time_limit_of_zero_replaces_the_max_time_but_not_how_long_a_cursor_awaits() {
        for (limit, name, expected) in [
            (None, "find", Some(7)),
            (Some(Duration::ZERO), "find", None),
            (Some(Duration::ZERO), "getMore", Some(7)),
        ] {
            let kind = match name {
                "find" => CommandKind::Read,
                _ => CommandKind::CursorFollowUp,
            };
            let mut command = Command::new(name, "db", kind);
            command.set_timeout(limit);
            command.set_max_time(Some(Duration::from_millis(7)));
            let mut operation = Operation::new(OperationId(0), command, Instant::ZERO);
            let limited = operation.limit_time(Instant::ZERO, false);
            limited.expect("there is no deadline");
            assert_eq!(operation.request.max_time_ms, expected, "{limit:?} {name}");
        }
    }
}
