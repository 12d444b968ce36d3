//! The steps of Kerberos that connections wait for: what the client does with their ends.

use super::{Client, questions::QuestionId};
use crate::{auth::Negotiated, time::Instant};

impl Client {
    /// Handles the end of a step of Kerberos. Without a result, the connection that waits fails.
    /// Does nothing for a question of another kind.
    pub(super) fn on_negotiated(
        &mut self,
        now: Instant,
        id: QuestionId,
        negotiated: Option<Negotiated>,
    ) {
        if let Some(socket) = self.questions.end_negotiation(now, id) {
            self.connections.handle_negotiated(now, socket, negotiated);
        }
    }

    /// Fails the connection that waits for a step of Kerberos whose limit has passed.
    pub(super) fn on_negotiation_limit(&mut self, now: Instant, id: QuestionId) {
        if let Some(socket) = self.questions.give_up_negotiation(id) {
            self.connections.handle_negotiated(now, socket, None);
        }
    }
}
