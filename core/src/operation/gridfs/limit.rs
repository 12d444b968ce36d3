//! The time limits of streams.

use crate::{
    operation::{Command, deadline},
    time::Instant,
};
use std::time::Duration;

/// The time limit of a stream, which bounds its whole life: the opening, all reads or writes, and
/// the close (Client Side Operations Timeout Specification, *GridFS API*).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamLimit {
    timeout: Option<Duration>,
    deadline: Option<Instant>,
}

impl StreamLimit {
    /// Returns the limit of a stream that is opened now. A timeout of zero means no limit.
    pub(crate) fn new(now: Instant, timeout: Option<Duration>) -> Self {
        Self {
            timeout,
            deadline: deadline(now, timeout),
        }
    }

    pub(super) fn apply(self, command: &mut Command) {
        command.set_limits(self.timeout, self.deadline);
    }
}
