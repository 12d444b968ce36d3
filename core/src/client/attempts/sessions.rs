//! The sessions that applications start: their times, and what they add to commands.

use crate::{
    client::{
        Client,
        recording::{Kind, SessionInput},
    },
    connection::ConnectionFacts,
    description::ServerType,
    error::{Error, ErrorKind},
    operation::{
        Assessment, ClusterTime, CommandKind, ExplicitSession, Operation, SessionOptions,
        SessionReadConcern, SessionTimes,
    },
    session::SessionId,
    time::Instant,
};
use bson::Timestamp;
use std::sync::Arc;

/// The wire version of MongoDB 5.0.
const WIRE_VERSION_5_0: i32 = 13;

/// A session that an application has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedSession {
    /// The id within the client.
    pub id: SessionId,
    /// The id on the wire, a UUID.
    pub wire_id: [u8; 16],
}

pub(super) fn ended_session_error() -> Error {
    Error::argument(
        "the session has ended, or belongs to the parent process of a fork; start a new session",
    )
}

impl Client {
    /// Starts a session for the application, which has to
    /// [give back](Self::release_cursor) it. Fails for options that exclude each other, and if the
    /// client is closed.
    ///
    /// Nothing is sent. Whether a server supports sessions shows at the first command.
    pub fn start_session(
        &mut self,
        now: Instant,
        options: &SessionOptions,
    ) -> Result<StartedSession, Error> {
        self.begin_entry(now, Kind::Session, |out| {
            SessionInput::Start(Box::new(options.clone())).put(out)
        });
        let started = self.begin_session(now, options);
        self.end_entry(|digest| digest.started_session(&started));
        started
    }

    fn begin_session(
        &mut self,
        now: Instant,
        options: &SessionOptions,
    ) -> Result<StartedSession, Error> {
        options.check()?;
        if self.life.is_closed() {
            return Err(self.life.error());
        }
        let timeout = self.topology.description().logical_session_timeout_minutes;
        let attempts = &mut self.attempts;
        let id = attempts.sessions.begin(now, timeout);
        attempts.explicit.insert(id, ExplicitSession::new(options));
        let wire_id = attempts.sessions.lsid(id).unwrap_or_default();
        Ok(StartedSession { id, wire_id })
    }

    /// Returns the times that a session of the application has seen; `None` once it was returned,
    /// and after a fork.
    #[must_use]
    pub fn session_times(&self, session: SessionId) -> Option<SessionTimes> {
        let state = self.attempts.explicit.get(&session)?;
        Some(state.times())
    }

    /// True if a command of the session got no reply, so that the server may still work on it.
    #[must_use]
    pub fn is_session_dirty(&self, session: SessionId) -> bool {
        self.attempts.sessions.is_dirty(session)
    }

    /// Raises the operation time of a session of the application to this one. Does nothing if it is
    /// not later.
    pub fn advance_operation_time(&mut self, session: SessionId, time: Timestamp) {
        let input = SessionInput::AdvanceOperation(session, time);
        self.begin_timeless_entry(Kind::Session, |out| input.put(out));
        if let Some(state) = self.attempts.explicit.get_mut(&session) {
            state.advance_operation_time(time);
        }
        self.end_entry(|_| {});
    }

    /// Raises the cluster time of a session of the application to this one. Does nothing if it is
    /// not later. Commands of this session send it; others follow once a reply has confirmed it
    /// (Driver Sessions Specification, *advanceClusterTime*).
    pub fn advance_cluster_time(&mut self, session: SessionId, time: &ClusterTime) {
        self.begin_timeless_entry(Kind::Session, |out| {
            SessionInput::AdvanceCluster(session, time.clone()).put(out)
        });
        if let Some(state) = self.attempts.explicit.get_mut(&session) {
            state.advance_cluster_time(time);
        }
        self.end_entry(|_| {});
    }

    /// Fails if the operation uses a session of the application that has ended or belongs to the
    /// parent of a fork, or if the server of the connection does not support sessions. The
    /// `killCursors` of a cursor whose session has ended runs without a session.
    #[inline]
    pub(super) fn check_session(
        &self,
        operation: &Operation,
        facts: &ConnectionFacts,
    ) -> Result<(), Error> {
        if !operation.request.is_explicit {
            return Ok(());
        }
        let session = operation.request.session;
        if session.is_none_or(|session| !self.attempts.sessions.is_used(session)) {
            if operation.request.kind == CommandKind::CursorFollowUp {
                return Ok(());
            }
            return Err(ended_session_error());
        }
        let state = session.and_then(|session| self.attempts.explicit.get(&session));
        let is_snapshot = state.is_some_and(ExplicitSession::is_snapshot);
        if is_snapshot && facts.max_wire_version < WIRE_VERSION_5_0 {
            let message = "Snapshot reads require MongoDB 5.0 or later";
            return Err(Error::argument(message).with_server(&facts.address));
        }
        if !facts.has_sessions {
            let error = Error::from(ErrorKind::SessionsNotSupported);
            return Err(error.with_server(&facts.address));
        }
        Ok(())
    }

    /// Returns what the session of an operation adds to its command: a part of the read concern,
    /// and the cluster time of the session if it is later than that of the client.
    #[inline]
    pub(super) fn of_session(
        &self,
        operation: &Operation,
        facts: &ConnectionFacts,
        newest: Option<&Arc<ClusterTime>>,
    ) -> (SessionReadConcern, Option<Arc<ClusterTime>>) {
        if !operation.request.is_explicit {
            return (SessionReadConcern::Nothing, None);
        }
        let session = operation.request.session;
        match session.and_then(|session| self.attempts.explicit.get(&session)) {
            None => (SessionReadConcern::Nothing, None),
            Some(state) => {
                let own = state.cluster_time.clone();
                let newest = newest.map(|time| &**time);
                let is_later = |time: &Arc<ClusterTime>| time.is_after(newest);
                let concern = match (state.read_concern(), facts.server_type) {
                    // A standalone server has no cluster times.
                    (SessionReadConcern::After(_), ServerType::Standalone) => {
                        SessionReadConcern::Nothing
                    }
                    (concern, _) => concern,
                };
                (concern, own.filter(is_later))
            }
        }
    }

    /// Keeps the times of a reply for the session of the operation.
    #[inline]
    pub(super) fn note_session_times(&mut self, operation: &Operation, assessment: &Assessment) {
        if let (Some(times), Some(session)) = (&assessment.times, operation.request.session)
            && let Some(state) = self.attempts.explicit.get_mut(&session)
        {
            state.note(times, assessment.cluster_time.as_ref());
            if let (Some(token), Some(number)) =
                (&times.recovery_token, operation.request.txn_number)
                && operation.request.transaction.is_some()
            {
                state.transaction.note_token(number, token.clone());
            }
            // A time of the reply that is not later than that of the client is not assessed.
            if let Some(sent) = &operation.exchange.context.cluster_time {
                state.advance_cluster_time(sent);
            }
        }
    }
}
