//! The resources of a cursor.

use super::Pin;
use crate::session::SessionId;

/// The session and the pin that a cursor no longer needs.
/// [`Client::release_cursor`](crate::client::Client::release_cursor) takes them back.
#[derive(Debug, Default)]
#[must_use = "what was held goes back to the client"]
pub struct CursorResources {
    pub(crate) session: Option<SessionId>,
    pub(crate) pin: Option<Pin>,
    /// The resources of another cursor.
    pub(crate) more: Option<Box<Self>>,
}

impl CursorResources {
    /// Returns a session to give back.
    pub const fn of_session(session: SessionId) -> Self {
        Self {
            session: Some(session),
            pin: None,
            more: None,
        }
    }

    /// True if there is neither a session nor a pin.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.session.is_none() && self.pin.is_none() && self.more.is_none()
    }
}
