//! The steps of Kerberos that connections wait for: what the client does with their ends.

use super::{Client, questions::QuestionId};
use crate::{auth::KerberosStepResult, time::Instant};

impl Client {
    /// Handles the end of a step of Kerberos. Without a result, the connection that waits fails.
    /// Does nothing for a question of another kind.
    pub(super) fn on_kerberos_step(
        &mut self,
        now: Instant,
        id: QuestionId,
        result: Option<KerberosStepResult>,
    ) {
        if let Some(socket) = self.questions.end_kerberos_step(now, id) {
            self.connections.handle_kerberos_step(now, socket, result);
        }
    }

    /// Fails the connection that waits for a step of Kerberos whose limit has passed.
    pub(super) fn on_kerberos_limit(&mut self, now: Instant, id: QuestionId) {
        if let Some(socket) = self.questions.give_up_kerberos_step(id) {
            self.connections.handle_kerberos_step(now, socket, None);
        }
    }
}
