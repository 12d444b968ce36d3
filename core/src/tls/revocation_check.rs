//! The check of revocation in one session.

use super::{
    CertId, RevocationStatus, StatusQuery, StatusSource, TlsContext, Verdict, fault, from_library,
    revoked, verifier::ChainFindings,
};
use crate::error::{Error, Result, TlsFault};
use rustls::{ClientConnection, HandshakeKind, pki_types::ServerName};

/// The check of revocation in one session, which ends after the handshake.
pub(super) struct RevocationCheck {
    /// The context and the host of the session; `None` once the check is over.
    origin: Option<Box<(TlsContext, ServerName<'static>)>>,
    /// True if the session was resumed, so that it has no stapled response.
    is_resumed: bool,
    /// True if the session must not be used with an unknown status: it was resumed, and its
    /// certificate requires a stapled response.
    needs_status: bool,
    step: Step,
}

enum Step {
    /// The handshake is not over. The verifier has found this so far.
    Handshake(Option<ChainFindings>),
    /// This query was not taken yet.
    Query(StatusQuery),
    /// The query about this certificate was taken, and has no answer yet.
    Waiting(CertId),
    Done(RevocationStatus),
}

impl RevocationCheck {
    pub(super) fn new(context: TlsContext, host: ServerName<'static>) -> Self {
        Self {
            origin: Some(Box::new((context, host))),
            is_resumed: false,
            needs_status: false,
            step: Step::Handshake(None),
        }
    }

    /// Notes what the verifier has found out in the handshake.
    pub(super) fn note(&mut self, found: Option<ChainFindings>) {
        if let (Step::Handshake(known), Some(found)) = (&mut self.step, found) {
            *known = Some(found);
        }
    }

    /// Continues once the handshake is over. Fails if the certificate of a resumed session is no
    /// longer accepted.
    pub(super) fn advance(&mut self, connection: &ClientConnection) -> Result<()> {
        let Step::Handshake(found) = &mut self.step else {
            return Ok(());
        };
        if connection.is_handshaking() {
            return Ok(());
        }
        let found = found.take();
        let Some((context, host)) = self.origin.as_deref() else {
            return Ok(());
        };
        let found = match connection.handshake_kind() {
            Some(HandshakeKind::Resumed) => {
                let chain = connection.peer_certificates().unwrap_or_default();
                let subject = context.check_resumed(host, chain);
                let subject = subject.map_err(|error| from_library(&error))?;
                self.is_resumed = true;
                self.needs_status = subject.as_ref().is_some_and(|subject| subject.must_staple);
                subject.map(|subject| ChainFindings {
                    subject,
                    staple: None,
                })
            }
            _ => {
                if found
                    .as_ref()
                    .is_some_and(|found| found.subject.must_staple)
                {
                    context.refuse_resumption(host);
                }
                found
            }
        };
        self.step = match found {
            None => Step::Done(RevocationStatus::NotChecked),
            Some(found) => after_handshake(context, found),
        };
        if let Step::Done(_) = self.step {
            self.origin = None;
        }
        Ok(())
    }

    /// Handles the failure of the handshake. Returns an error if the server has stapled a response
    /// that its certificate was revoked. Then there is a query, so that the response is cached.
    pub(super) fn handle_failed(&mut self) -> Option<Error> {
        let Step::Handshake(found) = &mut self.step else {
            return None;
        };
        let (context, host) = self.origin.as_deref()?;
        let is_revoked = |found: &mut ChainFindings| {
            let staple = found.staple.as_ref();
            staple.is_some_and(|staple| staple.verdict == Verdict::Revoked)
        };
        let found = found.take_if(is_revoked)?;
        context.drop_sessions(host);
        if context.has_queries()
            && let Some(query) = query(context, found)
        {
            self.step = Step::Query(query);
        }
        let message = revoked(StatusSource::Staple);
        Some(fault(TlsFault::Revoked, message))
    }

    /// Takes the query, if there is one that was not taken.
    pub(super) fn take_query(&mut self) -> Option<StatusQuery> {
        let Step::Query(query) = &self.step else {
            return None;
        };
        let query = query.clone();
        self.step = Step::Waiting(query.id().clone());
        Some(query)
    }

    /// Ends the check, if it waits for the status of this certificate. Fails if the certificate was
    /// revoked.
    pub(super) fn handle_status(&mut self, id: &CertId, status: RevocationStatus) -> Result<()> {
        if !matches!(&self.step, Step::Waiting(waiting) if waiting == id) {
            return Ok(());
        }
        self.step = Step::Done(status);
        let is_unknown = status == RevocationStatus::Unknown;
        let is_revoked = matches!(status, RevocationStatus::Revoked(_));
        if let Some((context, host)) = self.origin.take().as_deref()
            && (is_revoked || is_unknown && self.is_resumed)
        {
            // In a full handshake, the server can staple a response.
            context.drop_sessions(host);
        }
        match status {
            RevocationStatus::Revoked(source) => Err(fault(TlsFault::Revoked, revoked(source))),
            RevocationStatus::Unknown if self.needs_status => {
                let message = "the certificate requires a stapled OCSP response, which a resumed \
                               session does not have, and no other source knows its status";
                Err(fault(TlsFault::Certificate, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the status; `None` before it is known.
    pub(super) const fn status(&self) -> Option<RevocationStatus> {
        match self.step {
            Step::Done(status) => Some(status),
            _ => None,
        }
    }
}

/// Returns the step after a handshake in which the verifier has found this.
fn after_handshake(context: &TlsContext, found: ChainFindings) -> Step {
    let has_staple = found.staple.is_some();
    let Some(query) = query(context, found) else {
        return Step::Done(RevocationStatus::NotChecked);
    };
    if context.has_queries() {
        return Step::Query(query);
    }
    Step::Done(match (query.is_covered, has_staple) {
        (true, _) => RevocationStatus::Good(StatusSource::Crl),
        (_, true) => RevocationStatus::Good(StatusSource::Staple),
        _ => RevocationStatus::Unknown,
    })
}

/// Returns the query about what the verifier has found; `None` if the application has a
/// configuration of its own.
fn query(context: &TlsContext, found: ChainFindings) -> Option<StatusQuery> {
    let verifier = context.verifier()?;
    let now = context.clock().unix_seconds().unwrap_or_default();
    Some(StatusQuery {
        is_covered: verifier.has_list_for(&found.subject, now),
        subject: found.subject,
        staple: found.staple,
        asks_responders: context.asks_responders(),
        algorithms: verifier.algorithms(),
        clock: context.clock().clone(),
    })
}
