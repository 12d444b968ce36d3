//! The revocation part: answers the queries of connections about the certificates of servers, from
//! its cache or by asking OCSP responders (OCSP-9, OCSP-12).

use super::{Client, connections::Role, questions::QuestionId};
use crate::{
    auth::{Finding, Inquiry},
    connection::SocketId,
    revocation::{Begun, StatusChecks, usual_limit},
    time::Instant,
    tls::{CertId, StatusQuery},
};
use std::collections::BTreeMap;

/// The checks of a client, and their requests to responders.
#[derive(Debug, Default)]
pub(super) struct Revocation {
    checks: StatusChecks<SocketId>,
    /// The requests that have no response yet.
    asked: BTreeMap<QuestionId, CertId>,
}

impl Revocation {
    /// Removes a connection that is no longer driven. Its check continues for later connections.
    pub(super) fn forget(&mut self, socket: SocketId) {
        self.checks.forget(&socket);
    }

    /// Gives up all checks, because their requests are withdrawn.
    pub(super) fn give_up(&mut self) {
        self.checks.give_up();
        self.asked.clear();
    }

    /// Returns the number of connections that wait.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn waiting(&self) -> usize {
        self.checks.waiting()
    }
}

impl Client {
    /// Answers the query of a connection, or asks responders about it.
    pub(super) fn on_status_needed(&mut self, now: Instant, id: SocketId, query: &StatusQuery) {
        let options = &self.settings.handshake;
        let usual = usual_limit(options.connect_timeout, options.timeout);
        let limit = self.connections.wait_for_status(now, id, usual);
        match self.revocation.checks.begin(id, query, limit < usual / 2) {
            Begun::Known(status) => {
                self.connections
                    .handle_status(now, &[id], query.id(), status);
            }
            Begun::Joined => {}
            Begun::Ask(requests) => {
                for request in requests {
                    let question = self.questions.inquire(now, Inquiry::Http(request), limit);
                    self.revocation.asked.insert(question, query.id().clone());
                }
            }
        }
    }

    /// Handles the response of a responder, or the reason why there is none. Ignores the answer to
    /// a question of another part.
    pub(super) fn on_status_response(
        &mut self,
        now: Instant,
        question: QuestionId,
        finding: &Result<Finding, String>,
    ) {
        let Some(id) = self.revocation.asked.remove(&question) else {
            return;
        };
        let response = match finding {
            Ok(Finding::Http(response)) => Ok(response),
            Ok(_) => Err("the answer is not a response".to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        let Some(ended) = self.revocation.checks.handle_response(&id, response) else {
            return;
        };
        // The other responders need not answer.
        let questions = &mut self.questions;
        self.revocation.asked.retain(|&question, other| {
            let is_other = *other == id;
            if is_other {
                questions.end_inquiry(question, false);
            }
            !is_other
        });
        // Only the connection of a monitor gives responders little time. Others ask again.
        let connections = &self.connections;
        let asks_again = |&socket: &SocketId| {
            ended.again && !matches!(connections.role(socket), Some(Role::Monitor(_)))
        };
        let (others, answered): (Vec<_>, Vec<_>) =
            ended.waiting.iter().copied().partition(asks_again);
        self.connections
            .handle_status(now, &answered, &id, ended.status);
        for socket in others {
            self.on_status_needed(now, socket, &ended.query);
        }
    }
}
