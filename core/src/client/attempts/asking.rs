//! The questions of programs: what an operation asks the outside world between two commands, or
//! while it reads a reply.

use super::operations::Waiting;
use crate::{
    auth::Finding,
    client::{
        Client, Progress, QUESTION_LIMIT, Timer,
        connections::State,
        recording::{Kind, put_ask},
    },
    error::{Error, Wait},
    operation::{Ask, Exchange, OperationId, Span, gridfs::StreamLimit},
    time::Instant,
};
use std::time::Duration;

impl Client {
    /// Asks the question of a program. `span` is the span of the program, which gets its operation
    /// id and its time limit if this is its first step.
    ///
    /// The operation then waits: [`resume`](Self::resume) returns [`Progress::Answered`] once there
    /// is an answer. A question has the time limit of its operation, but at most
    /// [`QUESTION_LIMIT`]. Fails if the time limit of the operation passes, or if the client is
    /// closed.
    ///
    /// `held` is the exchange whose reply the program was reading when it asked. Its connection
    /// stays checked out: `socketTimeoutMS` no longer limits the exchange, and the limit of the
    /// question does.
    pub fn ask_in(
        &mut self,
        now: Instant,
        span: &mut Span,
        ask: Ask,
        held: Option<&mut Exchange>,
    ) -> Progress {
        let during = held.as_deref().map(Exchange::operation);
        self.begin_entry(now, Kind::Ask, |out| put_ask(out, span, &ask, during));
        let progress = self.ask_for_program(now, span, ask, held);
        self.settle(now);
        self.end_entry(|digest| digest.progress(&progress));
        progress
    }

    fn ask_for_program(
        &mut self,
        now: Instant,
        span: &mut Span,
        ask: Ask,
        held: Option<&mut Exchange>,
    ) -> Progress {
        let timeout = ask.timeout.or(self.settings.timeout);
        let (id, deadline) = self.attempts.operations.open(now, span, timeout);
        if self.life.is_closed() {
            return Progress::Failed(self.life.error());
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Progress::Failed(too_late());
        }
        let limit = deadline.map_or(QUESTION_LIMIT, |deadline| deadline.saturating_since(now));
        let limit = limit.min(QUESTION_LIMIT);
        let asked = self.questions.ask_for_program(now, id, ask.inquiry, limit);
        match asked {
            Ok(question) => {
                if let Some(exchange) = held {
                    self.hold(now, exchange, limit);
                }
                let waiting = Waiting::ForAnswer(question, deadline);
                self.attempts.operations.wait(id, waiting);
                Progress::Waiting(id)
            }
            Err(reason) => Progress::Answered(Err(reason)),
        }
    }

    /// Returns the time limit of a stream that is opened now. `timeout` is the limit that the
    /// application has set; `None` means `timeoutMS` of the client, and zero no limit.
    #[must_use]
    pub fn stream_limit(&self, now: Instant, timeout: Option<Duration>) -> StreamLimit {
        StreamLimit::new(now, timeout.or(self.settings.timeout))
    }

    /// Keeps the connection of an exchange checked out for at most this time. If the exchange is
    /// not given back by then, the client takes the connection back, as from any other exchange.
    fn hold(&mut self, now: Instant, exchange: &mut Exchange, limit: Duration) {
        let socket = exchange.socket();
        let is_in_use = matches!(self.connections.state(socket), Some(State::InUse));
        if !is_in_use || self.check_owner(exchange).is_err() {
            return;
        }
        self.disarm(&mut exchange.lease);
        let until = now.checked_add(limit);
        exchange.lease.is_timed = until.is_some();
        self.arm(Timer::Exchange(socket), until);
        exchange.hold(now);
    }

    /// Keeps the answer to the question of an operation, and wakes its task. `None` if the limit of
    /// the question has passed.
    pub(in crate::client) fn on_answered(
        &mut self,
        now: Instant,
        id: OperationId,
        answer: Option<Result<Finding, String>>,
    ) {
        let is_asking = |waiting: &Waiting| matches!(waiting, Waiting::ForAnswer(..));
        let Some(Waiting::ForAnswer(_, deadline)) = self.attempts.operations.take_if(id, is_asking)
        else {
            return;
        };
        let waiting = match answer {
            Some(answer) => Waiting::Answered(answer),
            None if deadline.is_some_and(|deadline| deadline <= now) => Waiting::Failed(too_late()),
            None => Waiting::Answered(Err("no answer came within the time limit".to_owned())),
        };
        self.attempts.operations.wait(id, waiting);
        self.wake(id);
    }

    /// Fails the operations that wait for answers.
    pub(in crate::client) fn fail_askers(&mut self, now: Instant, error: &Error) {
        let is_asking = |waiting: &Waiting| matches!(waiting, Waiting::ForAnswer(..));
        for id in self.attempts.operations.ids_where(is_asking) {
            self.withdraw(now, id);
            self.attempts
                .operations
                .wait(id, Waiting::Failed(error.clone()));
            self.wake(id);
        }
    }
}

fn too_late() -> Error {
    let message = "the time limit of the operation passed before it got an answer to a question; \
                   choose a longer one";
    Error::timeout(Wait::Exchange, message)
}
