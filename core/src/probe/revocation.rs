//! The probe's check of revocation. OCSP responders are asked one after the other.

use super::Probe;
use crate::{
    auth::{Finding, Inquiry},
    connection::Output,
    http::{HttpRequest, HttpResponse},
    revocation::{Begun, StatusChecks, usual_limit},
    tls::{CertId, RevocationStatus, StatusQuery},
};
use std::collections::VecDeque;

/// The check of one certificate.
#[derive(Debug, Default)]
pub(super) struct StatusCheck {
    checks: StatusChecks<()>,
    /// The certificate about which a responder was asked.
    asked: Option<CertId>,
    /// The requests to the other responders.
    others: VecDeque<HttpRequest>,
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

    /// Answers the query of the connection, or asks the first responder.
    fn on_status_needed(&mut self, query: &StatusQuery) {
        match self.status.checks.begin((), query, false) {
            Begun::Known(status) => self.handle_status(query.id(), status),
            Begun::Joined => {}
            Begun::Ask(requests) => {
                self.status.asked = Some(query.id().clone());
                self.status.others = requests.into();
                self.ask_responder();
            }
        }
    }

    /// Handles the response of a responder, or the reason why there is none. Returns the finding if
    /// no responder was asked.
    pub(super) fn on_status_response(
        &mut self,
        finding: Result<Finding, String>,
    ) -> Option<Result<Finding, String>> {
        let Some(id) = self.status.asked.clone() else {
            return Some(finding);
        };
        let response: Result<&HttpResponse, String> = match &finding {
            Ok(Finding::Http(response)) => Ok(response),
            Ok(_) => Err("the answer is not a response".to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        match self.status.checks.handle_response(&id, response) {
            None => self.ask_responder(),
            Some(ended) => {
                self.status.asked = None;
                self.handle_status(&id, ended.status);
            }
        }
        None
    }

    fn ask_responder(&mut self) {
        if let Some(request) = self.status.others.pop_front() {
            // A client asks all of them at the same time, so each gets the whole time.
            let usual = usual_limit(self.options.connect_timeout, self.options.timeout);
            let limit = self.connection.wait_for_status(self.now, usual);
            self.inquiry = Some((Inquiry::Http(request), limit));
        }
    }

    fn handle_status(&mut self, id: &CertId, status: RevocationStatus) {
        let (now, auth) = (self.now, &mut self.auth);
        self.connection.handle_status(now, id, status, auth);
        self.note_layers();
    }
}
