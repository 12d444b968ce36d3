//! The command events of an attempt: one when its request is framed, and one when its exchange
//! ends.

use super::{
    Exchange, Outcome,
    request::command_document,
    sensitive::{is_sensitive, without_server_text},
};
use crate::{
    error::{Error, ErrorKind},
    event::{CommandEvent, CommandFacts},
    time::Instant,
};
use bson::{RawDocumentBuf, rawdoc};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// The command events of one attempt.
#[derive(Debug)]
pub(super) struct Observation {
    facts: Arc<CommandFacts>,
    began: Instant,
    /// True if events must not show the command and its reply.
    is_sensitive: bool,
    /// True once the event that ends the attempt was queued.
    is_ended: bool,
    /// Events that the shell has not taken yet, at most two.
    events: VecDeque<CommandEvent>,
}

impl Exchange {
    /// True if [`poll_event`](Self::poll_event) has an event. If there is none, the shell need not
    /// read its clock.
    #[must_use]
    #[inline]
    pub fn has_events(&self) -> bool {
        let observation = self.operation.exchange.observation.as_ref();
        observation.is_some_and(|observation| !observation.events.is_empty())
    }

    /// Takes the next command event of the attempt, the oldest first; `None` if there is none. Call
    /// this directly after each call that begins or ends the exchange, because the last event takes
    /// `now` as the end of the attempt.
    #[must_use]
    pub fn poll_event(&mut self, now: Instant) -> Option<CommandEvent> {
        let observation = self.operation.exchange.observation.as_mut()?;
        let mut event = observation.events.pop_front()?;
        match &mut event {
            CommandEvent::Succeeded { duration, .. } | CommandEvent::Failed { duration, .. } => {
                *duration = now - observation.began;
            }
            CommandEvent::Started { .. } => {}
        }
        Some(event)
    }

    /// Notes how the exchange ended: queues its last command event, if command events are
    /// published. A second call changes nothing.
    ///
    /// The event is a succeeded event if the exchange is completed, and its reply has `ok: 1` or no
    /// reply was expected. Otherwise the event is a failed event ([MSG-18]).
    ///
    /// [MSG-18]: crate::requirements::messages#MSG-18
    #[inline]
    pub fn end(&mut self, outcome: &Outcome) {
        if self.operation.exchange.observation.is_some() {
            self.observe_end(outcome);
        }
    }

    fn observe_end(&mut self, outcome: &Outcome) {
        let Some(observation) = &self.operation.exchange.observation else {
            return;
        };
        if observation.is_ended {
            return;
        }
        let failure = match outcome {
            // The command of a reply with write errors succeeded. They can be many, and are not
            // copied.
            Outcome::Completed if self.write_error().is_some() => None,
            Outcome::Completed => self.outcome().err(),
            Outcome::Failed(error) => Some(error.clone()),
            Outcome::Abandoned => Some(ErrorKind::Abandoned.into()),
        };
        let is_sensitive = observation.is_sensitive;
        let facts = observation.facts.clone();
        let event = self.ending(facts, failure.as_ref(), is_sensitive);
        if let Some(observation) = &mut self.operation.exchange.observation {
            observation.is_ended = true;
            observation.events.push_back(event);
        }
    }

    fn ending(
        &self,
        facts: Arc<CommandFacts>,
        failure: Option<&Error>,
        is_sensitive: bool,
    ) -> CommandEvent {
        let duration = Duration::ZERO;
        let failure = match failure {
            Some(error) if is_sensitive => Some(without_server_text(error)),
            other => other.cloned(),
        };
        if let Some(failure) = failure {
            return CommandEvent::Failed {
                facts,
                duration,
                failure,
            };
        }
        let reply = match self.reply() {
            _ if is_sensitive => RawDocumentBuf::new(),
            Some(reply) => reply.to_owned(),
            // No reply follows a request with `moreToCome` (MSG-18). The command succeeds once its
            // request was written.
            None => rawdoc! { "ok": 1 },
        };
        CommandEvent::Succeeded {
            facts,
            duration,
            reply,
        }
    }

    /// Queues the started event of a request that was just framed.
    pub(super) fn observe_start(&mut self, now: Instant) {
        let connection = &self.lease.facts;
        let command = &self.operation.request;
        let facts = Arc::new(CommandFacts {
            name: command.name().into(),
            database: command.database.clone(),
            request_id: self.operation.exchange.context.request_id,
            operation_id: self.operation.id.0,
            address: connection.address.clone(),
            driver_connection_id: connection.pooled.number(),
            server_connection_id: connection.server_connection_id,
            service: connection.service,
        });
        let document = command_document(
            &self.operation.request,
            &self.operation.exchange.context,
            connection,
        );
        let is_sensitive = is_sensitive(command.name(), &document);
        let command = if is_sensitive {
            RawDocumentBuf::new()
        } else {
            document
        };
        let started = CommandEvent::Started {
            facts: facts.clone(),
            command,
        };
        self.operation.exchange.observation = Some(Box::new(Observation {
            facts,
            began: now,
            is_sensitive,
            is_ended: false,
            events: VecDeque::from([started]),
        }));
    }
}
