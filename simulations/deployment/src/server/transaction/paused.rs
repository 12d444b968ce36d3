//! Statements that have paused, or that wait for their queries. The session of such a statement
//! takes no other one and no retryable write meanwhile, and a transaction whose statement does not
//! go on is aborted.

use super::{Part, Transactions};
use crate::{
    deployment::ConnId,
    replica::{ReplicaEvent, SessionKey},
    server::{Member, connection::Request, fault::Fault, retry::session_key},
};

impl Transactions {
    /// Returns the session whose statement has paused on a connection.
    pub(super) fn paused_by(&self, conn: ConnId) -> Option<SessionKey> {
        let has_paused = |session: &&SessionKey| {
            let open = self.get(session);
            open.is_some_and(|open| open.paused == Some(conn))
        };
        self.open.iter().find(has_paused).copied()
    }
}

impl Member {
    /// True if a statement or the commit of the open transaction of a session has paused, and not
    /// on this connection.
    pub(in crate::server) fn is_occupied(
        &self,
        conn: Option<ConnId>,
        session: &SessionKey,
    ) -> bool {
        let open = self.transactions.get(session);
        let paused = open.filter(|open| open.paused.is_some() || open.merge.is_some());
        paused.is_some_and(|open| open.paused != conn)
    }

    /// Returns the session of a retryable write that has not begun, if a statement or the commit of
    /// its open transaction has paused. The write would abort the transaction.
    pub(in crate::server) fn occupied_session_of(&self, request: &Request) -> Option<SessionKey> {
        let has_begun = request.progress.is_some() || self.jobs.has_done();
        let is_retryable = request.command.contains_key("txnNumber");
        let session = session_key(&request.command)?;
        let waits = is_retryable && !has_begun && self.is_occupied(self.running, &session);
        waits.then_some(session)
    }

    /// Fails if a statement would go on in another transaction than the one in which it has paused.
    /// A router can start a transaction again with the same number.
    pub(super) fn check_paused(&self, request: &Request, part: Part) -> Result<(), Fault> {
        // The first statement can have paused before the start of the transaction.
        let goes_on = !part.starts && (request.progress.is_some() || self.jobs.has_done());
        let open = self.transactions.get(&part.session);
        match goes_on && open.is_none_or(|open| open.paused != self.running) {
            true => Err(self.has_ended(part.number, 251, "aborted")),
            false => Ok(()),
        }
    }

    /// Notes whether the statement that has run goes on later. At its end, the commands that wait
    /// for it can be executed.
    pub(super) fn note_paused(&mut self, session: &SessionKey, goes_on: bool) {
        let by = self.running.filter(|_| goes_on);
        let Some(open) = self.transactions.get_mut(session) else {
            return;
        };
        let before = std::mem::replace(&mut open.paused, by);
        if before.is_some() && by.is_none() {
            self.replica.events.push_back(ReplicaEvent::Progress);
        }
    }

    /// Aborts the transaction of a request that has paused and does not go on. Does nothing for
    /// other requests.
    pub(in crate::server) fn abort_paused(&mut self, conn: ConnId, request: &Request) {
        let Ok(Some(part)) = self.part(request) else {
            return;
        };
        let open = self.transactions.get(&part.session);
        if open.is_some_and(|open| open.paused == Some(conn)) {
            self.abort_part(part);
        }
    }
}
