//! A cursor: batches of documents, and the commands that fetch more or end it.

use super::{
    Abandoned, Batch, Command, CommandKind, Exchange, Pin, Program, Reply, SessionUse, Step,
    batch::{Parsed, parse},
};
use crate::{
    address::Address,
    error::{Error, ErrorKind},
    pool::PinnedFor,
    session::SessionId,
    time::Instant,
};
use bson::RawDocument;
use std::{sync::Arc, time::Duration};

/// How long the end of a cursor is waited for. Not an option.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How long the end of a cursor that was dropped may take, for which nobody waits. A reply may be
/// outstanding on its connection before, which may take
/// [`DRAIN_LIMIT`](crate::client::DRAIN_LIMIT). Without a limit the end would take as long as the
/// server hangs, which nobody finds out where there is a load balancer, and the connection would be
/// lost. Not an option.
pub const ABANDON_LIMIT: Duration = Duration::from_secs(5);

/// A server's cursor, seen from the client.
///
/// Read documents with [`next_document`](Self::next_document). When there is none left in the batch
/// and the cursor [is open](Self::is_open), run the cursor as a [`Program`]: it fetches batches
/// until one has a document (`true`) or the cursor is exhausted (`false`). A cursor that is given
/// up is ended by [`end`](Self::end) or, with nobody who waits, [`abandon`](Program::abandon).
#[derive(Debug)]
pub struct Cursor {
    id: i64,
    database: Arc<str>,
    collection: String,
    server: Address,
    session: Option<SessionId>,
    /// Behind a load balancer the connection on which the server's cursor can be reached.
    pin: Option<Pin>,
    /// An error came: nothing more is read.
    is_failed: bool,
    batch: Batch,
    batch_size: Option<i32>,
    max_await_time: Option<Duration>,
    /// The time limit of the command that opened the cursor; zero is a limit without end.
    timeout: Option<Duration>,
    /// When all batches must have been fetched. The limit begins with the command that opened the
    /// cursor, and bounds that and every `getMore` together (`CURSOR_LIFETIME`).
    deadline: Option<Instant>,
}

impl Cursor {
    /// Opens a cursor from the reply of the command that made it, on `server`.
    ///
    /// Fails where the reply has no `cursor` (RUN-26).
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
                    pin: None,
                    is_failed: false,
                    batch: Batch::new(reply, rest),
                    batch_size: None,
                    max_await_time: None,
                    timeout: None,
                    deadline: None,
                })
            }
        }
    }

    /// Opens a cursor from the reply that an exchange has received. While the server has more, the
    /// cursor keeps the exchange's session and, behind a load balancer, its connection (LB-32). The
    /// time limit of the operation goes on as that of the cursor (RUN-25, RUN-39).
    pub fn from_exchange(exchange: &mut Exchange, database: Arc<str>) -> Result<Self, Error> {
        let server = exchange.facts().address.clone();
        let timeout = exchange.operation.command.timeout;
        let deadline = exchange.operation.deadline;
        let Some(reply) = exchange.take_reply() else {
            return Err(Error::protocol("no reply came"));
        };
        let session = exchange.operation.session;
        match Self::open(reply, database, server, session) {
            Ok(mut cursor) => {
                cursor.timeout = timeout;
                cursor.deadline = deadline;
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

    /// A cursor that has nothing and wants nothing.
    #[must_use]
    pub fn over() -> Self {
        Self {
            id: 0,
            database: "".into(),
            collection: String::new(),
            server: Address::unix(""),
            session: None,
            pin: None,
            is_failed: false,
            batch: Batch::EMPTY,
            batch_size: None,
            max_await_time: None,
            timeout: None,
            deadline: None,
        }
    }

    /// Asks for this many documents per batch from now on.
    pub fn set_batch_size(&mut self, batch_size: Option<i32>) {
        self.batch_size = batch_size;
    }

    /// The next document of the current batch.
    pub fn next_document(&mut self) -> Option<Result<&RawDocument, Error>> {
        self.batch.next_document()
    }

    /// True while the server may have more.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.id != 0 && !self.is_failed
    }

    /// True if the current batch is read to its end.
    #[must_use]
    pub fn is_batch_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// The server on which the cursor lives.
    #[must_use]
    pub fn server(&self) -> &Address {
        &self.server
    }

    /// The command that fetches the next batch; `None` if there is none to fetch. Its time limit is
    /// what is left of the cursor's: where that is nothing, the command fails and nothing is sent.
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
        if let Some(size) = self.batch_size.filter(|&size| size > 0) {
            body.i32("batchSize", size);
        }
        if let Some(time) = self.max_await_time {
            body.i64(
                "maxTimeMS",
                i64::try_from(time.as_millis()).unwrap_or(i64::MAX),
            );
        }
        match &self.pin {
            Some(pin) => command.set_pin(pin),
            None => command.set_target(self.server.clone()),
        }
        command.set_session(self.session.map_or(SessionUse::None, SessionUse::Held));
        command.timeout = self.timeout;
        command.deadline = self.deadline;
        Some(command)
    }

    /// Takes in the batch that an exchange has received. A cursor that is exhausted keeps nothing:
    /// its session and its connection go back with the exchange.
    fn take_batch(&mut self, exchange: &mut Exchange) -> Result<(), Error> {
        let reply = exchange.take_reply();
        let reply = reply.ok_or_else(|| Error::protocol("no reply came"))?;
        let Parsed { id, rest, .. } = parse(&reply, "nextBatch")?;
        self.id = id;
        self.batch = Batch::new(reply, rest);
        if id == 0 {
            exchange.end_session(self.session.take());
            if let Some(pin) = self.pin.take() {
                exchange.release(pin);
            }
        }
        Ok(())
    }

    /// The next batch did not come: nothing more is read. The server may still have the cursor,
    /// unless it said otherwise or is out of reach; then it is to be ended like any other.
    ///
    /// Behind a load balancer the connection stays the cursor's until its end, even one that broke
    /// (LB-36, LB-37).
    pub(crate) fn handle_failure(&mut self, error: &Error) {
        self.is_failed = true;
        self.batch = Batch::EMPTY;
        let is_out_of_reach = matches!(
            error.kind(),
            ErrorKind::Network { .. } | ErrorKind::Tls { .. }
        );
        let is_gone = error
            .code()
            .is_some_and(|code| CURSOR_IS_GONE.contains(&code));
        if is_out_of_reach || is_gone {
            self.id = 0;
        }
    }

    /// Ends the cursor: the command that tells the server, whose result does not matter (RUN-38),
    /// or what was left of a cursor of which the server knows nothing any more. The command has the
    /// time limit [`CLOSE_LIMIT`].
    pub fn end(&mut self) -> Result<Command, CursorResources> {
        if self.id == 0 {
            return Err(CursorResources {
                session: self.session.take(),
                pin: self.pin.take(),
            });
        }
        let id = std::mem::take(&mut self.id);
        let mut command = Command::new(
            "killCursors",
            self.database.clone(),
            CommandKind::CursorFollowUp,
        );
        let mut ids = bson::RawArrayBuf::new();
        ids.push(id);
        command
            .body()
            .str("killCursors", &self.collection)
            .array("cursors", &ids);
        match self.pin.take() {
            Some(pin) => command.set_last_use(pin),
            // Nobody waits for an end that the server may have come to by itself.
            None => command.set_target_without_wait(self.server.clone()),
        }
        command.set_session(
            self.session
                .take()
                .map_or(SessionUse::None, SessionUse::Last),
        );
        command.set_timeout(Some(CLOSE_LIMIT));
        Ok(command)
    }
}

/// Fetches batches until there is a document to read.
impl Program for Cursor {
    /// True if the current batch has a document that was not read, false at the end of the cursor.
    type Output = bool;

    fn start(&mut self) -> Step<bool> {
        if !self.is_batch_empty() {
            return Step::Done(Ok(true));
        }
        match self.more() {
            Some(command) => Step::Run(command),
            None => Step::Done(Ok(false)),
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<bool> {
        match self.take_batch(exchange) {
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
            Err(resources) => Abandoned::GiveBack(resources),
        }
    }
}

/// `CursorNotFound` and `CursorKilled`: there is nothing left to be ended.
const CURSOR_IS_GONE: [i32; 2] = [43, 237];

/// What a cursor held and no longer needs; it goes back by
/// [`Client::release_cursor`](crate::client::Client::release_cursor).
#[derive(Debug, Default)]
#[must_use = "what was held goes back to the client"]
pub struct CursorResources {
    pub(crate) session: Option<SessionId>,
    pub(crate) pin: Option<Pin>,
}

impl CursorResources {
    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.session.is_none() && self.pin.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::batch::MAX_NAMESPACE_BYTES;
    use bson::{RawDocumentBuf, rawdoc};

    fn reply(document: &RawDocumentBuf) -> Reply {
        Reply::for_test(document.as_bytes())
    }

    fn open(document: &RawDocumentBuf) -> Result<Cursor, Error> {
        Cursor::open(reply(document), "db".into(), Address::tcp("a", 1), None)
            .map_err(|(error, _)| error)
    }

    #[test]
    fn documents_are_read_in_place_batch_by_batch() {
        // MSG-22: the cursor's id says whether there is more, and a getMore fetches it.
        let first = rawdoc! {
            "cursor": { "firstBatch": [{ "a": 1 }, { "a": 2 }], "id": 7_i64, "ns": "db.c.d" },
            "ok": 1,
        };
        let mut cursor = open(&first).expect("a cursor");
        let mut seen = Vec::new();
        while let Some(document) = cursor.next_document() {
            seen.push(
                document
                    .map(|d| d.get_i32("a").unwrap_or(-1))
                    .expect("a document"),
            );
        }
        assert_eq!(seen, [1, 2]);
        assert!(cursor.is_open() && cursor.is_batch_empty());
        let Step::Run(command) = cursor.start() else {
            panic!("it is open");
        };
        assert_eq!(command.name(), "getMore");
    }

    #[test]
    fn a_reply_without_cursor_is_an_error() {
        // RUN-26
        assert!(open(&rawdoc! { "ok": 1 }).is_err());
        assert!(open(&rawdoc! { "cursor": { "id": 0 }, "ok": 1 }).is_err());
    }

    #[test]
    fn a_namespace_that_no_server_has_is_refused() {
        let ns = "x".repeat(MAX_NAMESPACE_BYTES + 1);
        assert!(open(&rawdoc! { "cursor": { "id": 0, "ns": ns, "firstBatch": [] } }).is_err());
        let ns = "x".repeat(MAX_NAMESPACE_BYTES);
        assert!(open(&rawdoc! { "cursor": { "id": 0, "ns": ns, "firstBatch": [] } }).is_ok());
    }

    #[test]
    fn a_batch_of_something_else_is_an_error_and_then_the_end() {
        let odd = rawdoc! { "cursor": { "id": 0_i64, "firstBatch": [1, { "a": 1 }] }, "ok": 1 };
        let mut cursor = open(&odd).expect("a cursor");
        assert!(cursor.next_document().is_some_and(|d| d.is_err()));
        assert!(cursor.next_document().is_none());
    }
}
