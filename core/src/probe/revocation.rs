//! The probe's check of revocation. The OCSP responders are asked at the same time, as those of a
//! client are.

use super::{Probe, ProbeOutput};
use crate::{
    auth::{Finding, Inquiry},
    connection::Output,
    http::HttpResponse,
    revocation::{Begun, StatusChecks, usual_limit},
    time::Instant,
    tls::{CertId, RevocationStatus, StatusQuery},
};

/// The check of one certificate.
#[derive(Debug, Default)]
pub(super) struct StatusCheck {
    checks: StatusChecks<()>,
    /// The certificate about which responders were asked, until its status is known.
    asked: Option<CertId>,
    /// The report of the check, until it is returned.
    report: Option<ProbeOutput>,
}

impl StatusCheck {
    pub(super) fn take_report(&mut self) -> Option<ProbeOutput> {
        self.report.take()
    }
}

impl Probe {
    /// Answers the query of the connection if there is one, before the bytes to transmit are taken.
    pub(super) fn answer_status_query(&mut self) {
        while let Some(report) = self.connection.poll_output() {
            match report {
                Output::StatusNeeded(query) => self.on_status_needed(&query),
                report => self.reports.push_back(report),
            }
        }
    }

    /// Answers the query of the connection, or asks the responders.
    fn on_status_needed(&mut self, query: &StatusQuery) {
        match self.status.checks.begin((), query, false) {
            Begun::Known(status) => self.handle_status(query.id(), status),
            Begun::Joined => {}
            Begun::Ask(requests) => {
                self.status.asked = Some(query.id().clone());
                let usual = usual_limit(self.options.connect_timeout, self.options.timeout);
                self.status.report = Some(ProbeOutput::StatusNeeded {
                    inquiries: requests.into_iter().map(Inquiry::Http).collect(),
                    limit: self.connection.wait_for_status(self.now, usual),
                });
            }
        }
    }

    /// True while the TLS connection waits for the answers of OCSP responders.
    #[must_use]
    pub const fn is_waiting_for_status(&self) -> bool {
        self.status.asked.is_some()
    }

    /// Takes the answer to one of the inquiries of [`ProbeOutput::StatusNeeded`], or the reason why
    /// there is none. Does nothing if the status is known already.
    pub fn handle_status_finding(&mut self, now: Instant, finding: Result<Finding, String>) {
        self.now = now;
        let Some(id) = self.status.asked.clone() else {
            return;
        };
        let response: Result<&HttpResponse, String> = match &finding {
            Ok(Finding::Http(response)) => Ok(response),
            Ok(_) => Err("the answer is not a response".to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        if let Some(ended) = self.status.checks.handle_response(&id, response) {
            self.status.asked = None;
            self.handle_status(&id, ended.status);
        }
    }

    fn handle_status(&mut self, id: &CertId, status: RevocationStatus) {
        let (now, auth) = (self.now, &mut self.auth);
        self.connection.handle_status(now, id, status, auth);
        self.note_layers();
    }
}
