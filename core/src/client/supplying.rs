//! The parts of a credential that connections wait for: what the client does with the steps of the
//! credentials part.

use super::{Client, Timer, questions::QuestionId};
use crate::{
    auth::{CallLimits, Finding, Need, SupplyStep, not_provided},
    connection::SocketId,
    time::Instant,
};

impl Client {
    /// Fetches a part of the credential for a connection, or adds the connection to those that wait
    /// for the fetch under way.
    pub(super) fn on_credential_needed(&mut self, now: Instant, socket: SocketId, need: &Need) {
        let options = &self.settings.handshake;
        let Some(credential) = &options.credential else {
            return;
        };
        let limits = CallLimits::new(options.connect_timeout, options.timeout);
        let caches = self.connections.caches();
        if let Some(provided) = caches.find(now, need) {
            // Another connection has obtained it since this connection began to need it.
            return self.connections.handle_provided(now, &[socket], &provided);
        }
        if self.questions.has_overdue_inquiry() {
            let problem = "the last call of its provider, or the reading of its file, has not \
                           ended";
            let error = not_provided(credential, problem);
            return self.connections.handle_not_provided(&[socket], &error);
        }
        let step = self
            .credentials
            .want(now, socket, need, credential, caches, limits);
        self.follow_supply(now, step);
    }

    /// Handles the answer to an inquiry, or the reason why there is none.
    pub(super) fn on_finding(
        &mut self,
        now: Instant,
        id: QuestionId,
        finding: Result<Finding, String>,
        is_answered: bool,
    ) {
        if self.questions.end_inquiry(id, is_answered) {
            self.on_status_response(now, id, &finding);
            let step = self.credentials.handle_finding(id, finding);
            self.follow_supply(now, step);
        }
    }

    /// Calls a callback whose call was delayed.
    pub(super) fn on_callback_due(&mut self, now: Instant) {
        let step = self.credentials.handle_due(now);
        self.follow_supply(now, step);
    }

    fn follow_supply(&mut self, now: Instant, step: Option<SupplyStep>) {
        match step {
            None => {}
            Some(SupplyStep::Ask(inquiry, limit)) => {
                let id = self.questions.inquire(now, inquiry, limit);
                self.credentials.asked(id);
            }
            Some(SupplyStep::Wait(due)) => self.arm(Timer::Callback, Some(due)),
            Some(SupplyStep::Done(provided)) => {
                let waiting = self.credentials.take_waiting();
                self.connections.handle_provided(now, &waiting, &provided);
            }
            Some(SupplyStep::Failed(reason)) => {
                if let Some(credential) = &self.settings.handshake.credential {
                    let waiting = self.credentials.take_waiting();
                    let error = not_provided(credential, &reason);
                    self.connections.handle_not_provided(&waiting, &error);
                }
            }
        }
    }
}
