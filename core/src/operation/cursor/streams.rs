//! The facts about a cursor that a change stream needs.

use super::Cursor;
use crate::session::SessionId;
use std::time::Duration;

impl Cursor {
    /// Takes the session of the cursor, and true if the application has started it.
    pub(in crate::operation) fn take_session(&mut self) -> Option<(SessionId, bool)> {
        let is_explicit = self.is_explicit;
        self.session.take().map(|session| (session, is_explicit))
    }

    /// True if the server takes the field `comment` in a `getMore`: from wire version 9 on.
    pub(in crate::operation) const fn takes_comment(&self) -> bool {
        self.takes_comment
    }

    /// Returns the time limit of the operations of the cursor; `None` without a limit.
    pub(in crate::operation) fn time_limit(&self) -> Option<Duration> {
        self.timeout.filter(|timeout| !timeout.is_zero())
    }

    /// True if the cursor has a connection of its own, behind a load balancer.
    pub(in crate::operation) const fn is_pinned(&self) -> bool {
        self.pin.is_some()
    }
}
