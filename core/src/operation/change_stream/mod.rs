//! Change streams: a cursor of events that is opened again after an error.

mod fragments;
mod resume;

use super::{
    Abandoned, Cursor, CursorResources, Exchange, Program, SessionUse, Step,
    batch::MAX_RESUME_TOKEN_BYTES,
    crud::{Position, ResumeToken, Watch},
};
use crate::{
    bson::{deserialize, deserialize_borrowed},
    error::{Error, ErrorKind},
    session::SessionId,
};
use bson::{RawDocument, Timestamp};
use fragments::Fragments;
use serde::{Deserialize, de::DeserializeOwned};

/// A change stream: the cursor that has its events, and the call from which another cursor is
/// opened after an error.
///
/// [`advance`](Self::advance) moves to the next event. If there is none, run the stream as a
/// [`Program`] as long as it [is alive](Self::is_alive): it fetches batches, and resumes the stream
/// after an error (Change Streams, *Resume Process*). Drop it after
/// [`abandon`](Program::abandon), which closes the cursor.
#[derive(Debug)]
pub struct ChangeStream {
    watch: Watch,
    cursor: Cursor,
    /// The session of the stream while no cursor has it, and true if the application has started
    /// it.
    session: Option<(SessionId, bool)>,
    /// The token with which the stream resumes.
    token: Option<ResumeToken>,
    /// The time at which a stream without a token resumes.
    operation_time: Option<Timestamp>,
    /// True once an event was returned.
    has_returned: bool,
    phase: Phase,
    /// True once an attempt of the command that runs has had a connection.
    is_begun: bool,
    /// The number of times that the stream has resumed since it last returned an event or had the
    /// reply to a `getMore`.
    resumed: u32,
    life: Life,
    /// True if the stream runs until it has fetched one batch, also if that one is empty.
    fetches_one: bool,
    fragments: Fragments,
    /// The next event is the current document of the cursor, or was joined of fragments, and was
    /// not returned yet.
    is_ready: bool,
}

/// The command that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The `getMore` of the cursor.
    Fetching,
    /// The `killCursors` of the old cursor.
    Killing,
    /// The `aggregate` that opens the next cursor.
    Resuming,
}

/// The state of a stream between its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// The cursor is used as long as it is open.
    Running,
    /// The time limit passed before a reply came. The next run resumes the stream.
    Interrupted,
    /// No further events are fetched.
    Ended,
}

impl ChangeStream {
    /// Opens a stream from the reply to the [command](Watch::command) of a call. Fails if the reply
    /// has no valid cursor.
    pub fn from_exchange(exchange: &mut Exchange, watch: Watch) -> Result<Self, Error> {
        let cursor = Cursor::from_exchange(exchange, watch.database_name())?;
        let options = watch.options();
        let token = options.start_after.clone();
        let token = token.or_else(|| options.resume_after.clone());
        let is_placed = token.is_some() || options.start_at_operation_time.is_some();
        let mut stream = Self {
            token,
            operation_time: options.start_at_operation_time,
            fragments: Fragments::new(watch.joins()),
            watch,
            cursor,
            session: None,
            has_returned: false,
            phase: Phase::Fetching,
            is_begun: false,
            resumed: 0,
            life: Life::Running,
            fetches_one: false,
            is_ready: false,
        };
        stream.note_batch();
        let has_token = stream.cursor.post_batch_resume_token().is_some();
        if !is_placed && !has_token && !stream.cursor.has_next() {
            stream.operation_time = stream.cursor.operation_time();
        }
        Ok(stream)
    }

    /// Sets whether a run fetches one batch at most, also if that one is empty. By default it
    /// fetches batches until there is an event.
    pub fn set_fetches_one(&mut self, fetches_one: bool) {
        self.fetches_one = fetches_one;
    }

    /// True while further events can be fetched.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match self.life {
            Life::Running => self.cursor.is_open(),
            Life::Interrupted => true,
            Life::Ended => false,
        }
    }

    /// True if an event was fetched that [`advance`](Self::advance) has not returned.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.is_ready || self.life == Life::Running && self.cursor.has_next()
    }

    /// Returns the token with which the stream would resume: that of the last event that was
    /// returned, or one that the server has sent after it. `None` if there is no token yet.
    #[must_use]
    pub const fn resume_token(&self) -> Option<&ResumeToken> {
        self.token.as_ref()
    }

    /// Returns the server of the cursor.
    #[must_use]
    pub fn server(&self) -> &crate::address::Address {
        self.cursor.server()
    }

    /// Moves to the next event; `None` if no event was fetched. Fails if the event has no resume
    /// token, because a stage of the pipeline has removed it, and if the server violates the
    /// protocol; then the stream ends.
    pub fn advance(&mut self) -> Option<Result<(), Error>> {
        match self.find() {
            Ok(false) => return None,
            Err(error) => return Some(Err(self.failed(error))),
            Ok(true) => {}
        }
        self.is_ready = false;
        let id = self
            .current()
            .and_then(|event| event.get_document("_id").ok());
        let Some(id) = id.map(RawDocument::to_owned) else {
            return Some(Err(self.failed(ErrorKind::MissingResumeToken.into())));
        };
        if id.as_bytes().len() > MAX_RESUME_TOKEN_BYTES {
            let error = Error::protocol("the resume token of an event is too long");
            return Some(Err(self.failed(error)));
        }
        let after_batch = self.cursor.post_batch_resume_token();
        let after_batch = after_batch.filter(|_| self.cursor.is_batch_empty());
        let token = after_batch.map_or(id, RawDocument::to_owned);
        self.token = Some(ResumeToken::from_document(token));
        (self.has_returned, self.resumed) = (true, 0);
        Some(Ok(()))
    }

    /// Returns the bytes of the event to which [`advance`](Self::advance) has moved; no bytes if
    /// there is none.
    #[must_use]
    pub fn current_bytes(&self) -> &[u8] {
        match self.fragments.joined() {
            Some(event) => event,
            None => self.cursor.current_bytes(),
        }
    }

    /// Returns the event to which [`advance`](Self::advance) has moved.
    #[must_use]
    pub fn current(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(self.current_bytes()).ok()
    }

    /// Decodes the event to which [`advance`](Self::advance) has moved. Fails if there is none, or
    /// if it does not have the form that `T` needs.
    pub fn decode<T: DeserializeOwned + 'static>(&self) -> Result<T, Error> {
        deserialize(self.current_bytes())
    }

    /// Decodes the event to which [`advance`](Self::advance) has moved. Strings and binary data can
    /// borrow from the stream. Fails like [`decode`](Self::decode).
    pub fn decode_borrowed<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        deserialize_borrowed(self.current_bytes())
    }

    /// Forgets the cursor and the session, which belong to the parent of a forked process. The
    /// stream ends.
    pub fn disown(&mut self) {
        self.cursor = Cursor::exhausted();
        self.session = None;
        self.life = Life::Ended;
        self.is_ready = false;
    }

    /// Ends the stream. Returns the `killCursors` to run. If no command is needed, returns what the
    /// stream held, to give it back to the client.
    pub fn end(&mut self) -> Result<super::Command, CursorResources> {
        self.life = Life::Ended;
        self.is_ready = false;
        if let Some((session, is_explicit)) = self.session.take() {
            let session = (!is_explicit).then_some(session);
            let held = session.map_or_else(CursorResources::default, CursorResources::of_session);
            return match self.cursor.end() {
                Ok(mut kill) => {
                    kill.set_session(session.map_or(SessionUse::None, SessionUse::Last));
                    Ok(kill)
                }
                Err(resources) if resources.is_empty() => Err(held),
                Err(mut resources) => {
                    resources.more = Some(Box::new(held));
                    Err(resources)
                }
            };
        }
        self.cursor.end()
    }

    /// Looks for the next whole event among those that were fetched. Returns true if there is one.
    fn find(&mut self) -> Result<bool, Error> {
        if self.is_ready {
            return Ok(true);
        }
        if self.life != Life::Running {
            return Ok(false);
        }
        self.fragments.forget_joined();
        while let Some(next) = self.cursor.advance() {
            next?;
            if self.fragments.take(self.cursor.current_bytes())? {
                self.is_ready = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Keeps the token of an empty batch. A stream that waits for the rest of a split event keeps
    /// the token of the event before it.
    fn note_batch(&mut self) {
        let token = self.cursor.post_batch_resume_token();
        if let Some(token) = token.filter(|_| !self.cursor.has_next() && !self.fragments.waits()) {
            self.token = Some(ResumeToken::from_document(token.to_owned()));
        }
    }

    /// Continues after a batch came. `is_enough` is true if no other one is to be fetched.
    fn on_batch(&mut self, is_enough: bool) -> Step<bool> {
        self.note_batch();
        match self.find() {
            Ok(true) => Step::Done(Ok(true)),
            Ok(false) if is_enough && !self.fragments.waits() => Step::Done(Ok(false)),
            Ok(false) => self.fetch(),
            Err(error) => self.fail(error),
        }
    }

    fn fetch(&mut self) -> Step<bool> {
        (self.phase, self.is_begun) = (Phase::Fetching, false);
        match self.cursor.more() {
            Some(mut command) => {
                if !self.cursor.is_pinned() {
                    // A server that is unavailable is replaced, and not waited for.
                    command.set_target_without_wait(self.cursor.server().clone());
                }
                Step::Run(command)
            }
            None => Step::Done(Ok(false)),
        }
    }

    fn fail(&mut self, error: Error) -> Step<bool> {
        Step::Done(Err(self.failed(error)))
    }

    /// Ends the stream with this error. The rest of the batch is not read, because the stream would
    /// continue after a gap.
    fn failed(&mut self, error: Error) -> Error {
        self.life = Life::Ended;
        self.fragments.clear();
        error
    }
}

/// Fetches batches until there is an event, and resumes the stream after an error.
impl Program for ChangeStream {
    /// True if [`advance`](ChangeStream::advance) has an event; false at the end of the stream, and
    /// after an empty batch if one batch is to be fetched at most.
    type Output = bool;

    fn start(&mut self) -> Step<bool> {
        match self.life {
            Life::Ended => return Step::Done(Ok(self.is_ready)),
            Life::Interrupted => {
                // The call that failed has waited already, and this one may have a short limit.
                self.resumed = 0;
                return self.resume();
            }
            Life::Running => {}
        }
        match self.find() {
            Ok(true) => Step::Done(Ok(true)),
            Ok(false) => self.fetch(),
            Err(error) => self.fail(error),
        }
    }

    fn handle_begun(&mut self, _: &mut Exchange) {
        self.is_begun = true;
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<bool> {
        match self.phase {
            Phase::Fetching => match self.cursor.take_batch(exchange) {
                Ok(()) => {
                    self.resumed = 0;
                    self.on_batch(self.fetches_one)
                }
                Err(error) => self.fail(error),
            },
            Phase::Killing => self.reopen(CursorResources::default()),
            Phase::Resuming => match self.take_cursor(exchange) {
                // The first batch of a resumed stream is not the one that a run fetches.
                Ok(()) => self.on_batch(false),
                Err(error) => self.fail(error),
            },
        }
    }

    fn handle_error(&mut self, error: Error) -> Step<bool> {
        self.on_error(error)
    }

    fn abandon(&mut self) -> Abandoned {
        match self.end() {
            Ok(mut command) => {
                command.set_timeout(Some(super::ABANDON_LIMIT));
                Abandoned::Run(command)
            }
            Err(resources) if resources.is_empty() => Abandoned::Nothing,
            Err(resources) => Abandoned::Release(resources),
        }
    }
}

impl ChangeStream {
    /// Returns the place at which the stream resumes.
    fn position(&self) -> Position<'_> {
        match (&self.token, self.operation_time) {
            (Some(token), _) => {
                let is_start = self.watch.options().start_after.is_some() && !self.has_returned;
                match is_start {
                    true => Position::StartAfter(token),
                    false => Position::ResumeAfter(token),
                }
            }
            (None, Some(time)) => Position::At(time),
            (None, None) => Position::OfOptions,
        }
    }
}
