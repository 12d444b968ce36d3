//! The machine that answers the queries of TLS sessions: from its cache, or by asking responders.

use super::{cache::Cache, read, requests};
use crate::{
    http::{HttpRequest, HttpResponse},
    tls::{CertId, OcspStatement, RevocationStatus, StatusQuery, StatusSource, Verdict},
};
use std::collections::BTreeMap;

/// How long responders are not asked again about a certificate after none of them knew its status,
/// in seconds. Otherwise each new connection would wait for responders that a firewall
/// makes unreachable.
const PAUSE: u64 = 60;

/// The maximum number of certificates whose responders are not asked for a time.
const MAX_PAUSES: usize = 1000;

/// The checks of a client. Sessions that wait for the status of the same certificate share one
/// check. `W` is the name of a session that waits.
#[derive(Debug)]
pub(crate) struct StatusChecks<W> {
    cache: Cache,
    running: BTreeMap<CertId, Running<W>>,
    /// The certificates whose status no responder knew, each with the time in seconds
    /// since 1970 until which they are not asked again.
    paused: BTreeMap<CertId, u64>,
}

#[derive(Debug)]
struct Running<W> {
    query: StatusQuery,
    /// True if the responders got less time than usual, so that their silence shows little.
    is_short: bool,
    /// The number of requests without a response.
    open: usize,
    waiting: Vec<W>,
}

/// The start of a check.
#[derive(Debug)]
pub(crate) enum Begun {
    /// The status is known, or it cannot be found out.
    Known(RevocationStatus),
    /// Send these requests at the same time, and pass their responses to
    /// [`StatusChecks::handle_response`].
    Ask(Vec<HttpRequest>),
    /// The session waits for a check that began before.
    Joined,
}

/// The end of a check.
#[derive(Debug)]
pub(crate) struct Ended<W> {
    pub(crate) status: RevocationStatus,
    /// The sessions that wait.
    pub(crate) waiting: Vec<W>,
    /// The query of the check.
    pub(crate) query: StatusQuery,
    /// True if the status is unknown after a check that was short. Sessions with more time can
    /// begin another one.
    pub(crate) again: bool,
}

impl<W> Default for StatusChecks<W> {
    fn default() -> Self {
        Self {
            cache: Cache::default(),
            running: BTreeMap::new(),
            paused: BTreeMap::new(),
        }
    }
}

impl<W: PartialEq> StatusChecks<W> {
    /// Begins the check for a session, or adds the session to those that wait for the same check.
    /// With `is_short`, the responders get less time than usual.
    pub(crate) fn begin(&mut self, session: W, query: &StatusQuery, is_short: bool) -> Begun {
        let Some(now) = query.unix_seconds() else {
            return Begun::Known(RevocationStatus::Unknown);
        };
        let id = query.id();
        if let Some(staple) = query.staple() {
            self.cache.keep(id, staple, now);
        }
        let status = match (self.cache.find(id, now), query.staple()) {
            // The staple is older than a response that states that the certificate was revoked.
            (Some(RevocationStatus::Revoked(source)), _) => RevocationStatus::Revoked(source),
            (_, Some(staple)) if staple.verdict == Verdict::Revoked => {
                RevocationStatus::Revoked(StatusSource::Staple)
            }
            (_, Some(_)) => RevocationStatus::Good(StatusSource::Staple),
            (_, None) if query.is_covered() => RevocationStatus::Good(StatusSource::Crl),
            (Some(status), None) => status,
            (None, None) => return self.ask(session, query, is_short, now),
        };
        Begun::Known(status)
    }

    fn ask(&mut self, session: W, query: &StatusQuery, is_short: bool, now: u64) -> Begun {
        let id = query.id();
        if self.is_paused(id, now) {
            return Begun::Known(RevocationStatus::Unknown);
        }
        if let Some(running) = self.running.get_mut(id) {
            running.waiting.push(session);
            return Begun::Joined;
        }
        let requests = requests(query);
        if requests.is_empty() {
            return Begun::Known(RevocationStatus::Unknown);
        }
        let running = Running {
            query: query.clone(),
            is_short,
            open: requests.len(),
            waiting: vec![session],
        };
        self.running.insert(id.clone(), running);
        Begun::Ask(requests)
    }

    /// Handles the response to one request of a check, or the reason why there is none. Returns the
    /// result once the check is over. The first valid response that states whether the certificate
    /// was revoked ends it (OCSP-12).
    pub(crate) fn handle_response(
        &mut self,
        id: &CertId,
        response: Result<&HttpResponse, String>,
    ) -> Option<Ended<W>> {
        let running = self.running.get_mut(id)?;
        running.open = running.open.saturating_sub(1);
        let answer = response.and_then(|response| read(&running.query, response));
        let status = answer.as_ref().ok().and_then(status);
        let now = running.query.unix_seconds().unwrap_or_default();
        if let Ok(answer) = &answer {
            self.cache.keep(id, answer, now);
        }
        if status.is_none() && running.open > 0 {
            return None;
        }
        let running = self.running.remove(id)?;
        if status.is_none() && !running.is_short {
            self.pause(id, now);
        }
        Some(Ended {
            again: status.is_none() && running.is_short,
            status: status.unwrap_or(RevocationStatus::Unknown),
            waiting: running.waiting,
            query: running.query,
        })
    }

    fn is_paused(&self, id: &CertId, now: u64) -> bool {
        self.paused.get(id).is_some_and(|&end| is_paused(end, now))
    }

    fn pause(&mut self, id: &CertId, now: u64) {
        if self.paused.len() >= MAX_PAUSES {
            self.paused.retain(|_, end| is_paused(*end, now));
        }
        if self.paused.len() < MAX_PAUSES {
            self.paused.insert(id.clone(), now.saturating_add(PAUSE));
        }
    }

    /// Removes a session that no longer waits. Its check continues for later sessions.
    pub(crate) fn forget(&mut self, session: &W) {
        for running in self.running.values_mut() {
            running.waiting.retain(|waiting| waiting != session);
        }
    }

    /// Gives up all checks, because their requests are withdrawn.
    pub(crate) fn give_up(&mut self) {
        self.running.clear();
    }

    /// Returns the number of sessions that wait.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(crate) fn waiting(&self) -> usize {
        let waiting = self.running.values().map(|running| running.waiting.len());
        waiting.sum()
    }
}

/// True if a pause that ends at `end` is not over. A pause that ends later than [`PAUSE`] from now
/// began when the clock was wrong.
const fn is_paused(end: u64, now: u64) -> bool {
    now < end && end <= now.saturating_add(PAUSE)
}

fn status(answer: &OcspStatement) -> Option<RevocationStatus> {
    match answer.verdict {
        Verdict::Good => Some(RevocationStatus::Good(StatusSource::Responder)),
        Verdict::Revoked => Some(RevocationStatus::Revoked(StatusSource::Responder)),
        Verdict::Unknown => None,
    }
}
