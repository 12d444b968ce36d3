//! Cursors: batches of documents, and the commands that fetch the next batch or close the cursor.

mod streams;

use super::{
    Abandoned, Batch, Command, CommandKind, CursorResources, CursorSettings, Exchange, Pin,
    Program, RawBatch, Reply, SessionUse, Step,
    batch::{Parsed, parse},
    kill_cursors::kill,
    request::WIRE_VERSION_4_4,
};
use crate::{
    address::Address,
    bson::{DocumentWriter, deserialize, deserialize_borrowed},
    error::{Error, ErrorKind},
    pool::PinnedFor,
    session::SessionId,
    time::Instant,
};
use bson::{RawDocument, RawDocumentBuf, Timestamp};
use serde::{Deserialize, de::DeserializeOwned};
use std::{sync::Arc, time::Duration};

/// The time limit of `killCursors` for a cursor that has no time limit itself and is closed by its
/// owner: 2 seconds.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The time limit of `killCursors` for a cursor that was dropped: 5 seconds. The command runs in
/// the background.
///
/// The limit is longer than [`DRAIN_LIMIT`](crate::client::DRAIN_LIMIT), because a late reply may
/// have to be drained from a pinned connection first. Without a limit, a server that hangs would
/// hold the connection forever behind a load balancer, where no monitor detects the hang. Not an
/// option.
pub const ABANDON_LIMIT: Duration = Duration::from_secs(5);

/// A cursor of a server, with its current batch and the session and pin that it keeps.
///
/// [`advance`](Self::advance) reads the current batch. When the batch is empty and the
/// cursor [is open](Self::is_open), run the cursor as a [`Program`]: it fetches batches until one
/// has a document (`true`) or the cursor is exhausted (`false`). To close a cursor that is not
/// exhausted, run the command of [`end`](Self::end), or in the background that of
/// [`abandon`](Program::abandon).
///
/// A cursor of [whole batches](Self::give_whole_batches) fetches one batch at a time, which
/// [`take_raw_batch`](Self::take_raw_batch) returns.
#[derive(Debug)]
pub struct Cursor {
    id: i64,
    database: Arc<str>,
    collection: String,
    server: Address,
    session: Option<SessionId>,
    /// True if the application has started the session, so that the cursor does not end it.
    is_explicit: bool,
    /// The pin of the connection that reaches the server's cursor; `None` without a load balancer,
    /// and once the cursor is exhausted or ended.
    pin: Option<Pin>,
    /// True if the cursor fetches one batch at most when it runs.
    fetches_one: bool,
    /// True after an error of a `getMore` or of a batch: no further batch is fetched.
    is_failed: bool,
    batch: Batch,
    /// For a cursor of whole batches, true while `batch` was not taken; `None` for other cursors.
    has_whole: Option<bool>,
    /// The `postBatchResumeToken` of the last batch; `None` if it had none.
    resume_token: Option<RawDocumentBuf>,
    /// The `operationTime` of the last reply that had one.
    operation_time: Option<Timestamp>,
    settings: CursorSettings,
    /// The number of documents that were read. Whole batches are counted only if `settings` has a
    /// limit.
    read: u64,
    /// True if the server takes the field `comment` in a `getMore`.
    takes_comment: bool,
    /// The time limit of the command that opened the cursor; zero or `None` means no limit.
    timeout: Option<Duration>,
    /// The time by which all batches must have been fetched; `None` without a time limit, and if
    /// the limit applies per iteration.
    deadline: Option<Instant>,
}

impl Cursor {
    /// Opens a cursor from the reply to the command that created it on `server`.
    ///
    /// Fails if the reply has no `cursor` field (RUN-26), if that field has no `id` or no batch, or
    /// if its namespace is longer than [`MAX_NAMESPACE_BYTES`](super::batch::MAX_NAMESPACE_BYTES).
    pub(crate) fn open(
        reply: Reply,
        database: Arc<str>,
        server: Address,
        session: Option<SessionId>,
    ) -> Result<Self, (Error, Option<SessionId>)> {
        match parse(&reply, "firstBatch") {
            Err(error) => Err((error, session)),
            Ok(Parsed {
                id,
                namespace,
                resume_token,
                operation_time,
                rest,
            }) => {
                let collection = match &namespace {
                    Some(ns) => ns.split_once('.').map_or("", |(_, name)| name).to_owned(),
                    None => String::new(),
                };
                Ok(Self {
                    id,
                    database,
                    collection,
                    server,
                    session,
                    batch: Batch::new(reply, rest),
                    resume_token,
                    operation_time,
                    ..Self::exhausted()
                })
            }
        }
    }

    /// Opens a cursor from the reply that an exchange has received. Fails if there is no reply, or
    /// if the reply has no valid cursor. While the cursor is open, it keeps the session and, behind
    /// a load balancer, the connection of the exchange. The time limit of the operation continues
    /// as that of the cursor ([LB-32], [RUN-25], [RUN-39]).
    ///
    /// [LB-32]: crate::requirements::load_balancers#LB-32
    /// [RUN-25]: crate::requirements::messages#RUN-25
    /// [RUN-39]: crate::requirements::messages#RUN-39
    pub fn from_exchange(exchange: &mut Exchange, database: Arc<str>) -> Result<Self, Error> {
        let server = exchange.facts().address.clone();
        let timeout = exchange.operation.request.timeout;
        let deadline = exchange.operation.deadline;
        let settings = exchange.operation.request.cursor.take();
        let settings = settings.map_or_else(CursorSettings::default, |settings| *settings);
        let Some(reply) = exchange.take_reply() else {
            let message = "the command has no reply, so it opens no cursor";
            return Err(Error::protocol(message));
        };
        let session = exchange.operation.request.session;
        match Self::open(reply, database, server, session) {
            Ok(mut cursor) => {
                cursor.settings = settings;
                cursor.timeout = timeout;
                cursor.deadline = deadline.filter(|_| !cursor.settings.is_per_iteration());
                cursor.takes_comment = exchange.facts().max_wire_version >= WIRE_VERSION_4_4;
                cursor.is_explicit = exchange.operation.request.is_explicit;
                if cursor.is_open() {
                    exchange.keep_session();
                    cursor.pin = exchange.pin(PinnedFor::Cursor);
                } else {
                    cursor.session = None;
                }
                Ok(cursor)
            }
            Err((error, _)) => Err(error),
        }
    }

    /// Returns an exhausted cursor without documents, session and connection.
    #[must_use]
    pub fn exhausted() -> Self {
        Self {
            id: 0,
            database: "".into(),
            collection: String::new(),
            server: Address::unix(""),
            session: None,
            is_explicit: false,
            pin: None,
            fetches_one: false,
            is_failed: false,
            batch: Batch::EMPTY,
            has_whole: None,
            resume_token: None,
            operation_time: None,
            settings: CursorSettings::default(),
            read: 0,
            takes_comment: false,
            timeout: None,
            deadline: None,
        }
    }

    /// Sets whether the cursor fetches one batch at most when it runs, also if that one is empty,
    /// as the batches of a tailable cursor can be. By default it fetches batches until one has a
    /// document.
    pub fn set_fetches_one(&mut self, fetches_one: bool) {
        self.fetches_one = fetches_one;
    }

    /// Makes the cursor give whole batches instead of documents: each reply of the server is a
    /// batch, also one without documents.
    pub fn give_whole_batches(&mut self) {
        self.has_whole = Some(true);
    }

    /// Takes the current batch of a cursor of whole batches; `None` if it was taken, and for other
    /// cursors.
    pub fn take_raw_batch(&mut self) -> Option<RawBatch> {
        let has_batch = self.has_whole.as_mut().is_some_and(std::mem::take);
        let batch = has_batch.then(|| std::mem::replace(&mut self.batch, Batch::EMPTY));
        let batch = batch.and_then(Batch::into_raw);
        if self.settings.limit.is_some()
            && let Some(Ok(documents)) = batch.as_ref().map(RawBatch::doc_slices)
        {
            self.read += documents.into_iter().count() as u64;
        }
        batch
    }

    /// True if the current batch has a document that was not read or, for a cursor of whole
    /// batches, was not taken.
    #[inline]
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.has_whole.unwrap_or(!self.batch.is_empty())
    }

    /// Moves to the next document of the current batch; `None` at its end. After an error the
    /// cursor returns no more documents, because those in the rest of the batch would be missing.
    #[inline]
    pub fn advance(&mut self) -> Option<Result<(), Error>> {
        let next = self.batch.advance();
        self.read += u64::from(next.is_some());
        self.is_failed |= matches!(next, Some(Err(_)));
        next
    }

    /// Returns the bytes of the document to which [`advance`](Self::advance) has moved, which are
    /// one document; no bytes before the first one, and after the end of the batch or an error.
    #[inline]
    #[must_use]
    pub fn current_bytes(&self) -> &[u8] {
        self.batch.current_bytes()
    }

    /// Decodes the document to which [`advance`](Self::advance) has moved. Strings and binary data
    /// can borrow from the batch. Fails if there is no such document, or if it does not have the
    /// form that `T` needs.
    #[inline]
    pub fn decode_borrowed<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        match self.batch.current_bytes() {
            [] => Err(Error::argument(
                "there is no current document; `advance` must return true first",
            )),
            document => deserialize_borrowed(document).map_err(|error| self.not_decoded(error)),
        }
    }

    /// Decodes the document to which [`advance`](Self::advance) has moved as a type that borrows
    /// nothing. Fails like [`decode_borrowed`](Self::decode_borrowed).
    #[inline]
    pub fn decode<T: DeserializeOwned + 'static>(&self) -> Result<T, Error> {
        deserialize(self.batch.current_bytes()).map_err(|error| self.not_decoded(error))
    }

    #[cold]
    fn not_decoded(&self, error: Error) -> Error {
        match &*self.collection {
            "" => error,
            collection => error.with_namespace(&format!("{}.{collection}", self.database)),
        }
    }

    /// Returns the document to which [`advance`](Self::advance) has moved; `None` before the first
    /// one, and after the end of the batch or an error.
    #[inline]
    #[must_use]
    pub fn current(&self) -> Option<&RawDocument> {
        self.batch.current()
    }

    /// True while further batches can be fetched: the cursor is not exhausted, no `getMore` has
    /// failed, no batch was malformed, and [`end`](Self::end) was not called.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.id != 0 && !self.is_failed
    }

    /// Returns the id if [`end`](Self::end) has a `killCursors` to run.
    pub(crate) fn id_on_server(&self) -> Option<i64> {
        (self.id != 0).then_some(self.id)
    }

    /// Takes back an [`end`](Self::end) whose `killCursors` was not sent. Its session and its pin
    /// have ended with the command, so the next one runs without them.
    pub(crate) const fn reopen(&mut self, id: i64) {
        self.id = id;
    }

    /// True if every document of the current batch was read.
    #[inline]
    #[must_use]
    pub fn is_batch_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Returns the `postBatchResumeToken` of the last batch, as the batches of change streams have
    /// it: after that batch was read, a stream resumes after this token. `None` if the batch had
    /// none, because a token of an earlier batch is older than the documents of this one. It stays
    /// when the cursor fails or ends.
    #[must_use]
    pub fn post_batch_resume_token(&self) -> Option<&RawDocument> {
        self.resume_token.as_deref()
    }

    /// Returns the `operationTime` of the last batch whose reply had one. It stays when the cursor
    /// fails or ends.
    #[must_use]
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.operation_time
    }

    /// Returns the address of the server that has the cursor.
    #[must_use]
    pub fn server(&self) -> &Address {
        &self.server
    }

    /// Returns the `getMore` for the next batch; `None` if the cursor is not open. The command has
    /// the deadline of the cursor. If the deadline has passed, the command fails before anything is
    /// sent.
    pub(crate) fn more(&mut self) -> Option<Command> {
        if !self.is_open() {
            return None;
        }
        let mut command = Command::new(
            "getMore",
            self.database.clone(),
            CommandKind::CursorFollowUp,
        );
        let mut body = command.body();
        body.i64("getMore", self.id)
            .str("collection", &self.collection);
        if let Some(size) = self.next_batch_size() {
            body.i32("batchSize", size);
        }
        if let Some(comment) = self
            .settings
            .comment
            .as_ref()
            .filter(|_| self.takes_comment)
        {
            // A value that cannot be encoded is left out whole. A command that has it fails.
            let mut element = Vec::new();
            let mut one = DocumentWriter::bare(&mut element);
            if one.tree_value("comment", comment).is_ok() {
                body.elements(&element);
            }
        }
        match &self.pin {
            Some(pin) => command.set_pin(pin),
            None => command.set_target(self.server.clone()),
        }
        command.set_session(match (self.session, self.is_explicit) {
            (None, _) => SessionUse::None,
            (Some(session), false) => SessionUse::Kept(session),
            (Some(session), true) => SessionUse::Explicit(session),
        });
        command.set_max_time(self.settings.max_await_time);
        command.set_limits(self.timeout, self.deadline);
        Some(command)
    }

    /// Returns the `batchSize` of the next `getMore`: that of the call, or what is left of its
    /// limit if that is less (find, getMore and killCursors, *getMore*).
    fn next_batch_size(&self) -> Option<i32> {
        let size = self.settings.batch_size.filter(|&size| size > 0)?;
        let left = self
            .settings
            .limit
            .map(|limit| limit.saturating_sub(self.read));
        let left = left.filter(|&left| left > 0).unwrap_or(u64::MAX);
        i32::try_from(u64::from(size).min(left)).ok()
    }

    /// Reads the next batch from the reply that an exchange has received. An exhausted cursor gives
    /// its session and its pin back with the exchange.
    pub(super) fn take_batch(&mut self, exchange: &mut Exchange) -> Result<(), Error> {
        let reply = exchange.take_reply();
        let reply = reply.ok_or_else(|| Error::protocol("getMore has no reply"))?;
        let parsed = parse(&reply, "nextBatch")?;
        let id = parsed.id;
        self.id = id;
        self.batch = Batch::new(reply, parsed.rest);
        self.has_whole = self.has_whole.map(|_| true);
        self.resume_token = parsed.resume_token;
        self.operation_time = parsed.operation_time.or(self.operation_time);
        if id == 0 {
            let session = self.session.take();
            exchange.end_session(session.filter(|_| !self.is_explicit));
            if let Some(pin) = self.pin.take() {
                exchange.release(pin);
            }
        }
        Ok(())
    }

    /// Handles the error of a `getMore`: the cursor returns no more documents. [`end`](Self::end)
    /// returns no `killCursors` if the kind of the error is [`ErrorKind::Io`] or
    /// [`ErrorKind::Tls`], or if its code shows that the server no longer has the cursor.
    ///
    /// Behind a load balancer the cursor keeps its pin until its end, even if the connection is
    /// broken (LB-36, LB-37).
    pub(crate) fn handle_failure(&mut self, error: &Error) {
        self.is_failed = true;
        self.batch = Batch::EMPTY;
        self.has_whole = self.has_whole.map(|_| false);
        let is_out_of_reach = matches!(error.kind(), ErrorKind::Io(_) | ErrorKind::Tls { .. });
        let is_gone = error
            .code()
            .is_some_and(|code| CURSOR_IS_GONE.contains(&code));
        if is_out_of_reach || is_gone {
            self.id = 0;
        }
    }

    /// Ends the cursor. Returns the `killCursors` command to run. The time limit of the cursor
    /// begins anew for the command; without one, the limit is [`CLOSE_LIMIT`]. If no command is
    /// needed, for example because the cursor is exhausted, returns the session and the pin to give
    /// back as `Err`. The result of the command is ignored, except by a bulk write ([RUN-38]).
    ///
    /// [RUN-38]: crate::requirements::messages#RUN-38
    pub fn end(&mut self) -> Result<Command, CursorResources> {
        if self.id == 0 {
            let session = self.session.take();
            return Err(CursorResources {
                session: session.filter(|_| !self.is_explicit),
                pin: self.pin.take(),
                more: None,
            });
        }
        let id = std::mem::take(&mut self.id);
        let mut command = kill(self.database.clone(), &self.collection, id);
        match self.pin.take() {
            Some(pin) => command.set_last_use(pin),
            // The server may have closed the cursor already, so the command does not wait for a
            // server that is unavailable.
            None => command.set_target_without_wait(self.server.clone()),
        }
        command.set_session(match (self.session.take(), self.is_explicit) {
            (None, _) => SessionUse::None,
            (Some(session), false) => SessionUse::Last(session),
            (Some(session), true) => SessionUse::Explicit(session),
        });
        command.set_timeout(self.time_limit().or(Some(CLOSE_LIMIT)));
        Ok(command)
    }
}

/// Fetches batches until there is a document to read or a whole batch to take, or until the cursor
/// is exhausted.
impl Program for Cursor {
    /// True if the cursor [has something to read](Cursor::has_next); false at its end.
    type Output = bool;

    fn start(&mut self) -> Step<bool> {
        if self.has_next() {
            return Step::Done(Ok(true));
        }
        match self.more() {
            Some(command) => Step::Run(command),
            None => Step::Done(Ok(false)),
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<bool> {
        match self.take_batch(exchange) {
            Ok(()) if self.fetches_one => Step::Done(Ok(self.has_next())),
            Ok(()) => self.start(),
            Err(error) => self.handle_error(error),
        }
    }

    fn handle_error(&mut self, error: Error) -> Step<bool> {
        self.handle_failure(&error);
        Step::Done(Err(error))
    }

    fn abandon(&mut self) -> Abandoned {
        match self.end() {
            Ok(mut command) => {
                command.set_timeout(Some(ABANDON_LIMIT));
                Abandoned::Run(command)
            }
            Err(resources) if resources.is_empty() => Abandoned::Nothing,
            Err(resources) => Abandoned::Release(resources),
        }
    }
}

/// The codes of `CursorNotFound` and `CursorKilled`, after which the server no longer has the
/// cursor.
const CURSOR_IS_GONE: [i32; 2] = [43, 237];

#[cfg(test)]
mod tests;
