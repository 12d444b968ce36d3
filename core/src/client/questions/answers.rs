//! The questions that the client asks for its connections, and the answers: each goes to the asker
//! of its question, by type.

use super::table::Asker;
use crate::{
    auth::{CallLimits, Finding, Inquiry, Need, SupplyStep, not_provided},
    client::{
        Answer, Client, QuestionId, Timer,
        connections::Role,
        recording::{Kind, put_answer, put_step},
    },
    connection::SocketId,
    error::{DnsFailure, Error, ErrorKind, Wait},
    revocation::{Begun, usual_limit},
    time::Instant,
    tls::{CertId, StatusQuery},
};

impl Client {
    /// Handles the answer to an [`Action::Ask`](crate::client::Action::Ask). The shell calls this
    /// once for each question, from any thread that has the client.
    ///
    /// A call after [`Action::Withdraw`](crate::client::Action::Withdraw), or a second call, does
    /// no harm: no connection waits for the answer, but later connections can use its keys. An
    /// answer of the wrong type counts as [`Answer::None`].
    pub fn handle_answer(&mut self, now: Instant, id: QuestionId, answer: Answer) {
        let is_for_client = self.questions.is_asked(id);
        self.begin_entry(now, Kind::Answer, |out| {
            put_answer(out, id, &answer, is_for_client)
        });
        match (self.questions.end(now, id, true), answer) {
            (Some(asker), answer) => self.answer(now, id, asker, Some(answer)),
            (None, Answer::Keys(keys)) => self.connections.handle_keys(now, &[], &keys),
            (None, _) => {}
        }
        self.settle(now);
        self.end_entry(|_| {});
    }

    /// Fails what waits for an answer whose limit has passed.
    pub(in crate::client) fn on_question_limit(&mut self, now: Instant, id: QuestionId) {
        if let Some(asker) = self.questions.end(now, id, false) {
            self.answer(now, id, asker, None);
        }
    }

    /// Gives an answer to its asker; `None` if the limit of the question has passed.
    fn answer(&mut self, now: Instant, id: QuestionId, asker: Asker, answer: Option<Answer>) {
        let is_late = answer.is_none();
        match (asker, answer) {
            (Asker::Keys { waiting, .. }, Some(Answer::Keys(keys))) => {
                self.connections.handle_keys(now, &waiting, &keys);
            }
            // Some connections have no time limit of their own.
            (Asker::Keys { waiting, .. }, _) => self.connections.handle_no_answer(&waiting),
            (Asker::KerberosStep(socket), answer) => {
                let result = match answer {
                    Some(Answer::KerberosStep(result)) => Some(result),
                    _ => None,
                };
                self.connections.handle_kerberos_step(now, socket, result);
            }
            (Asker::Seeds, Some(Answer::Records(result))) => self.on_records(now, id, result),
            (Asker::Seeds, _) => {
                let error = self.no_records(is_late);
                self.on_records(now, id, Err(error));
            }
            (Asker::Operation(id), Some(Answer::Found(finding))) => {
                self.on_answered(now, id, Some(finding));
            }
            (Asker::Operation(id), None) => self.on_answered(now, id, None),
            (Asker::Operation(id), Some(_)) => {
                self.on_answered(now, id, Some(Err(nothing_found(false))));
            }
            (Asker::Fetch, Some(Answer::Found(finding))) => self.on_fetched(now, finding),
            (Asker::Fetch, _) => self.on_fetched(now, Err(nothing_found(is_late))),
            (Asker::Revocation(certificate), Some(Answer::Found(finding))) => {
                self.on_status_response(now, &certificate, finding);
            }
            (Asker::Revocation(certificate), _) => {
                self.on_status_response(now, &certificate, Err(nothing_found(is_late)));
            }
        }
    }

    fn no_records(&self, is_late: bool) -> Error {
        if is_late {
            let host = self.seeds.list.host();
            let message = format!("the DNS lookup for {host} was not answered in time");
            return Error::timeout(Wait::Selection, message);
        }
        let (failure, message) = (DnsFailure::Refused, "the lookup was given up".to_owned());
        ErrorKind::DnsResolve { failure, message }.into()
    }
}

/// The parts of a credential that connections wait for.
impl Client {
    /// Fetches a part of the credential for a connection, or adds the connection to those that wait
    /// for the fetch under way.
    pub(in crate::client) fn on_credential_needed(
        &mut self,
        now: Instant,
        socket: SocketId,
        need: &Need,
    ) {
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
        let fetches = &mut self.questions.fetches;
        let step = fetches.want(now, socket, need, credential, caches, limits);
        self.follow_supply(now, step);
    }

    /// Handles the answer to the inquiry of the fetch, or the reason why there is none.
    fn on_fetched(&mut self, now: Instant, finding: Result<Finding, String>) {
        let step = self.questions.fetches.handle_finding(finding);
        self.follow_supply(now, step);
    }

    /// Calls a callback whose call was delayed.
    pub(in crate::client) fn on_callback_due(&mut self, now: Instant) {
        let step = self.questions.fetches.handle_due(now);
        self.follow_supply(now, step);
    }

    fn follow_supply(&mut self, now: Instant, step: Option<SupplyStep>) {
        match step {
            None => {}
            Some(SupplyStep::Ask(inquiry, limit)) => {
                self.questions.inquire(now, Asker::Fetch, inquiry, limit);
            }
            Some(SupplyStep::Wait(due)) => self.arm(Timer::Callback, Some(due)),
            Some(SupplyStep::Done(provided)) => {
                let waiting = self.questions.fetches.take_waiting();
                self.connections.handle_provided(now, &waiting, &provided);
            }
            Some(SupplyStep::Failed(reason)) => {
                if let Some(credential) = &self.settings.handshake.credential {
                    let waiting = self.questions.fetches.take_waiting();
                    let error = not_provided(credential, &reason);
                    self.connections.handle_not_provided(&waiting, &error);
                }
            }
        }
    }
}

/// The checks of certificates that connections wait for: from the cache, or by asking OCSP
/// responders (OCSP-9, OCSP-12).
impl Client {
    /// Answers the query of a connection, or asks responders about it.
    pub(in crate::client) fn on_status_needed(
        &mut self,
        now: Instant,
        id: SocketId,
        query: &StatusQuery,
    ) {
        let options = &self.settings.handshake;
        let usual = usual_limit(options.connect_timeout, options.timeout);
        let limit = self.connections.status_limit(now, id, usual);
        let begun = self.questions.checks.begin(id, query, limit < usual / 2);
        if !matches!(begun, Begun::Known(_)) {
            self.connections.wait_for_status(now, id, usual);
            // The answers of responders are not recorded.
            self.change_entry(Kind::Lacking, |_| {
                Err("the check of a certificate by OCSP responders")
            });
        }
        match begun {
            Begun::Known(status) => {
                self.connections
                    .handle_status(now, &[id], query.id(), status);
                self.record_status(id);
            }
            Begun::Joined => {}
            Begun::Ask(requests) => {
                for request in requests {
                    let asker = Asker::Revocation(query.id().clone());
                    self.questions
                        .inquire(now, asker, Inquiry::Http(request), limit);
                }
            }
        }
    }

    /// Records what a status that was known at once did to its connection. The entry has the step
    /// of the connection before that, which was still opening or has failed.
    fn record_status(&mut self, id: SocketId) {
        if !self.hides_bytes() {
            return;
        }
        let step = self.connections.take_step(id, false);
        if step.is_open || step.failure.is_some() {
            self.change_entry(Kind::Step, |out| put_step(out, id, &step));
        }
    }

    /// Handles the response of a responder, or the reason why there is none.
    fn on_status_response(&mut self, now: Instant, id: &CertId, finding: Result<Finding, String>) {
        let response = match &finding {
            Ok(Finding::Http(response)) => Ok(response),
            Ok(_) => Err("the answer is not a response".to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        let Some(ended) = self.questions.checks.handle_response(id, response) else {
            return;
        };
        // The status is known now, so the requests to the other responders are withdrawn.
        self.questions
            .withdraw(|asker| matches!(asker, Asker::Revocation(other) if other == id));
        // The connection of a monitor gives responders little time, so its check can end without a
        // status. Other connections that wait for the same certificate then ask again.
        let connections = &self.connections;
        let asks_again = |&socket: &SocketId| {
            ended.again && !matches!(connections.role(socket), Some(Role::Monitor(_)))
        };
        let (others, answered): (Vec<_>, Vec<_>) =
            ended.waiting.iter().copied().partition(asks_again);
        self.connections
            .handle_status(now, &answered, id, ended.status);
        for socket in others {
            self.on_status_needed(now, socket, &ended.query);
        }
    }
}

fn nothing_found(is_late: bool) -> String {
    let reason = match is_late {
        true => "no answer came within the time limit",
        false => "the work on it was given up, for example because of a panic",
    };
    reason.to_owned()
}
