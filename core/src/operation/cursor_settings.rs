//! The settings of cursors: their batches and their time limits.

use super::{Command, Request, crud::CursorType};
use crate::error::Error;
use bson::Bson;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The scope of the time limit of a call that opens a cursor (`timeoutMode`; Client Side Operations
/// Timeout Specification, *Cursors*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TimeoutMode {
    /// The call and all batches of its cursor together. The default, except for tailable cursors,
    /// whose life has no end.
    CursorLifetime,
    /// First the call, and then each `next` of its cursor. The server gets no `maxTimeMS`, which
    /// would bound the cursor, except for a cursor that awaits new documents.
    Iteration,
}

/// The settings of the cursor that a command opens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CursorSettings {
    /// The maximum number of documents per batch; `None` leaves the choice to the server.
    pub batch_size: Option<u32>,
    /// The number of documents after which the server closes the cursor; `None` for no such number.
    /// A `getMore` asks for no more than are left of it.
    pub limit: Option<u64>,
    /// How long the server waits for new documents before it answers a `getMore`.
    pub max_await_time: Option<Duration>,
    /// The `comment` of each `getMore`, for servers from 4.4 on.
    pub comment: Option<Bson>,
    /// When the cursor ends; `None` for the end of its documents.
    pub cursor_type: Option<CursorType>,
    /// The scope of the time limit; `None` for the default.
    pub timeout_mode: Option<TimeoutMode>,
}

impl CursorSettings {
    /// True if the cursor stays open after its last document.
    fn is_tailable(&self) -> bool {
        matches!(
            self.cursor_type,
            Some(CursorType::Tailable | CursorType::TailableAwait)
        )
    }

    /// True if each `next` of the cursor has the whole time limit.
    pub(super) fn is_per_iteration(&self) -> bool {
        match self.timeout_mode {
            Some(mode) => mode == TimeoutMode::Iteration,
            None => self.is_tailable(),
        }
    }

    /// Fails for settings that exclude each other. `timeout` is the time limit of the operation.
    fn check(&self, timeout: Option<Duration>, writes: bool) -> Result<(), Error> {
        let fail = |message: &str| Err(Error::argument(message));
        if self.timeout_mode.is_some() && timeout.is_none() {
            return fail(
                "timeoutMode needs timeoutMS; set the time limit of the call or its handle",
            );
        }
        let mode = self.timeout_mode;
        if mode == Some(TimeoutMode::CursorLifetime) && self.is_tailable() {
            return fail(
                "a tailable cursor has no end, so its time limit cannot bound its lifetime; set \
                 timeoutMode to iteration",
            );
        }
        if mode == Some(TimeoutMode::Iteration) && writes {
            return fail(
                "a pipeline with $out or $merge has no cursor to iterate; set no timeoutMode",
            );
        }
        let limit = timeout.filter(|limit| !limit.is_zero());
        if let (Some(wait), Some(limit)) = (self.max_await_time, limit)
            && wait >= limit
        {
            return fail(
                "the server would await new documents (maxAwaitTimeMS, or maxTimeMS of a getMore) \
                 as long as the time limit of the operation (timeoutMS) or longer; choose a \
                 shorter time or a longer limit",
            );
        }
        Ok(())
    }
}

impl Command {
    /// Sets the settings of the cursor that the command opens. The command fails when it begins if
    /// they do not suit the time limit of the operation.
    pub fn set_cursor(&mut self, settings: CursorSettings) {
        let is_plain = settings == CursorSettings::default();
        self.0.request.cursor = (!is_plain).then(|| Box::new(settings));
    }
}

impl Request {
    /// Fails if the settings of the command's cursor do not suit the time limit of the operation.
    pub(crate) fn check_cursor(&self) -> Result<(), Error> {
        let writes = self.kind.is_write() || self.kind.has_write_errors();
        let settings = self.cursor.as_ref();
        settings.map_or(Ok(()), |settings| settings.check(self.timeout, writes))
    }

    /// True if the server is not to bound the command by the time limit of the operation, because
    /// it would bound all batches of the cursor by it.
    pub(super) fn omits_max_time(&self) -> bool {
        let settings = self.cursor.as_ref();
        settings.is_some_and(|settings| {
            settings.is_per_iteration() && settings.cursor_type != Some(CursorType::TailableAwait)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::crud::RunCursorCommandOptions;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings(mode: Option<TimeoutMode>, cursor_type: Option<CursorType>) -> CursorSettings {
        CursorSettings {
            timeout_mode: mode,
            cursor_type,
            ..CursorSettings::default()
        }
    }

    #[test]
    fn a_tailable_cursor_is_limited_per_iteration_by_default() {
        for (mode, cursor_type, expected) in [
            (None, None, false),
            (None, Some(CursorType::Tailable), true),
            (None, Some(CursorType::TailableAwait), true),
            (Some(TimeoutMode::Iteration), None, true),
            (Some(TimeoutMode::CursorLifetime), None, false),
        ] {
            assert_eq!(settings(mode, cursor_type).is_per_iteration(), expected);
        }
    }

    #[test]
    fn settings_that_exclude_each_other_are_refused() {
        let iteration = settings(Some(TimeoutMode::Iteration), None);
        assert!(iteration.check(None, false).is_err(), "no time limit");
        assert!(iteration.check(Some(SECOND), true).is_err(), "$out");
        assert!(iteration.check(Some(SECOND), false).is_ok());
        assert!(iteration.check(Some(Duration::ZERO), false).is_ok());
        let lifetime = settings(
            Some(TimeoutMode::CursorLifetime),
            Some(CursorType::Tailable),
        );
        assert!(lifetime.check(Some(SECOND), false).is_err(), "no end");
        let mut waiting = settings(None, Some(CursorType::TailableAwait));
        waiting.max_await_time = Some(SECOND);
        assert!(waiting.check(Some(SECOND), false).is_err(), "as long");
        assert!(waiting.check(Some(2 * SECOND), false).is_ok());
        assert!(
            waiting.check(Some(Duration::ZERO), false).is_ok(),
            "no limit"
        );
    }

    #[test]
    fn a_cursor_command_has_either_a_time_limit_or_a_max_time_unless_it_awaits() {
        // RUN-41.
        for (cursor_type, limited, is_valid) in [
            (None, false, true),
            (None, true, false),
            (Some(CursorType::Tailable), true, false),
            (Some(CursorType::TailableAwait), true, true),
        ] {
            let options = RunCursorCommandOptions {
                cursor_type,
                max_time: Some(SECOND / 2),
                timeout: limited.then_some(SECOND),
                ..RunCursorCommandOptions::default()
            };
            let settings = options.cursor_settings();
            assert_eq!(settings.is_ok(), is_valid, "{cursor_type:?} {limited}");
        }
    }
}
