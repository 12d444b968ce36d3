//! A cursor: batches of documents, and the commands that fetch more or end it.

use super::{Command, CommandKind, Lease, Pin, Reply, SessionUse};
use crate::{
    address::Address,
    bson::integer,
    error::{Error, ErrorKind, pick},
    pool::HeldFor,
    session::ServerSession,
    time::Instant,
};
use bson::{RawArray, RawDocument};
use std::{ops::Range, sync::Arc, time::Duration};

/// One batch of a cursor, still in the buffer in which it arrived.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The elements of the batch's array that were not read yet.
    rest: Range<usize>,
}

impl Batch {
    const EMPTY: Self = Self {
        bytes: Vec::new(),
        rest: 0..0,
    };

    /// The next document, read in place; `None` at the end of the batch.
    pub fn next_document(&mut self) -> Option<Result<&RawDocument, Error>> {
        let bytes = self.bytes.get(self.rest.clone())?;
        // An element of the array: a type byte, the index as text, then the document. The end of
        // the array is a zero byte where the next type would stand.
        let kind = *bytes.first()?;
        if kind == 0 {
            self.rest.start = self.rest.end;
            return None;
        }
        let end = self.rest.end;
        let place = match document_place(bytes, kind) {
            Ok(place) => self.rest.start + place.start..self.rest.start + place.end,
            Err(error) => {
                self.rest.start = end;
                return Some(Err(error));
            }
        };
        self.rest.start = place.end;
        Some(
            RawDocument::from_bytes(&self.bytes[place]).map_err(|error| {
                Error::protocol(format!("a cursor's document is not BSON: {error}"))
            }),
        )
    }

    /// True if every document was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes
            .get(self.rest.clone())
            .is_none_or(|rest| rest.first().is_none_or(|&b| b == 0))
    }
}

/// Where in `bytes`, which begin with an array's element, its document stands.
fn document_place(bytes: &[u8], kind: u8) -> Result<Range<usize>, Error> {
    let fail = || Error::protocol("a cursor's batch holds something else than documents");
    if kind != 3 {
        return Err(fail());
    }
    let name = bytes[1..].iter().position(|&b| b == 0).ok_or_else(fail)?;
    let start = 1 + name + 1;
    let length = bytes[start..].first_chunk::<4>().ok_or_else(fail)?;
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| fail())?;
    let end = start
        .checked_add(length)
        .filter(|&end| end <= bytes.len())
        .ok_or_else(fail)?;
    Ok(start..end)
}

/// A server's cursor, seen from the client.
///
/// Read documents with [`next_document`](Self::next_document). When it gives none and the cursor
/// [is open](Self::is_open), perform [`more`](Self::more) and hand its reply to
/// [`handle_reply`](Self::handle_reply), or its error to [`handle_failure`](Self::handle_failure).
/// A cursor that is given up is to be ended with [`end`](Self::end), and what it leaves goes back
/// to the client.
#[derive(Debug)]
pub struct Cursor {
    id: i64,
    database: Arc<str>,
    collection: String,
    server: Address,
    session: Option<ServerSession>,
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
    pub fn open(
        reply: Reply,
        database: Arc<str>,
        server: Address,
        session: Option<ServerSession>,
    ) -> Result<Self, (Error, Option<ServerSession>)> {
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
                let (bytes, _) = reply.into_parts();
                Ok(Self {
                    id,
                    database,
                    collection,
                    server,
                    session,
                    pin: None,
                    is_failed: false,
                    batch: Batch { bytes, rest },
                    batch_size: None,
                    max_await_time: None,
                    timeout: None,
                    deadline: None,
                })
            }
        }
    }

    /// Opens a cursor from the reply that a lease has received. It keeps the lease's session and,
    /// behind a load balancer, its connection for as long as the server has more (LB-32). The time
    /// limit of the operation goes on as that of the cursor (RUN-25, RUN-39).
    pub fn from_lease(lease: &mut Lease, database: Arc<str>) -> Result<Self, Error> {
        let server = lease.facts().address.clone();
        let timeout = lease.operation.command.timeout;
        let deadline = lease.operation.deadline;
        let session = lease.take_session();
        let Some(reply) = lease.take_reply() else {
            lease.put_session(session);
            return Err(Error::protocol("no reply came"));
        };
        match Self::open(reply, database, server, session) {
            Ok(mut cursor) => {
                cursor.timeout = timeout;
                cursor.deadline = deadline;
                if cursor.is_open() {
                    cursor.pin = lease.pin(HeldFor::Cursor);
                }
                Ok(cursor)
            }
            Err((error, session)) => {
                lease.put_session(session);
                Err(error)
            }
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
    pub fn more(&mut self) -> Option<Command> {
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
        command.set_session(
            self.session
                .take()
                .map_or(SessionUse::None, SessionUse::Held),
        );
        command.timeout = self.timeout;
        command.deadline = self.deadline;
        Some(command)
    }

    /// Takes in the reply of [`more`](Self::more), and the session that it ran in.
    pub fn handle_reply(
        &mut self,
        reply: Reply,
        session: Option<ServerSession>,
    ) -> Result<(), Error> {
        self.session = session;
        let Parsed { id, rest, .. } = parse(&reply, "nextBatch")?;
        self.id = id;
        let (bytes, _) = reply.into_parts();
        self.batch = Batch { bytes, rest };
        Ok(())
    }

    /// The next batch did not come: nothing more is read. The server may still have the cursor,
    /// unless it said otherwise or is out of reach; then it is to be ended like any other.
    ///
    /// Behind a load balancer the connection stays the cursor's until its end, even one that broke
    /// (LB-36, LB-37).
    pub fn handle_failure(&mut self, error: &Error) {
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

    /// What the cursor has no use for once it is exhausted: nothing while it is open.
    pub fn take_idle(&mut self) -> Leftovers {
        let keeps_pin = self.id != 0 || self.is_failed;
        Leftovers {
            session: if self.id == 0 {
                self.session.take()
            } else {
                None
            },
            pin: if keeps_pin { None } else { self.pin.take() },
        }
    }

    /// Ends the cursor: the command that tells the server, whose result does not matter (RUN-38),
    /// or what was left of a cursor of which the server knows nothing any more.
    pub fn end(&mut self) -> Result<Command, Leftovers> {
        if self.id == 0 {
            return Err(Leftovers {
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
                .map_or(SessionUse::None, SessionUse::Held),
        );
        Ok(command)
    }
}

/// Bytes of a cursor's namespace at most; it goes into each command that follows. Servers allow 255
/// for a database and its collection.
const MAX_NAMESPACE_BYTES: usize = 1024;

/// `CursorNotFound` and `CursorKilled`: there is nothing left to be ended.
const CURSOR_IS_GONE: [i32; 2] = [43, 237];

/// What a cursor held and no longer needs; it goes back by
/// [`Client::take_leftovers`](crate::client::Client::take_leftovers).
#[derive(Debug, Default)]
#[must_use = "what was held goes back to the client"]
pub struct Leftovers {
    pub(crate) session: Option<ServerSession>,
    pub(crate) pin: Option<Pin>,
}

impl Leftovers {
    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.session.is_none() && self.pin.is_none()
    }
}

struct Parsed {
    id: i64,
    namespace: Option<String>,
    rest: Range<usize>,
}

fn parse(reply: &Reply, batch: &str) -> Result<Parsed, Error> {
    let document = reply.document();
    let [cursor] = pick(document, ["cursor"]);
    let cursor = cursor
        .and_then(|cursor| cursor.as_document())
        .ok_or_else(|| Error::protocol("the reply has no cursor"))?;
    let [id, batch, namespace] = pick(cursor, ["id", batch, "ns"]);
    let id = id.and_then(integer);
    let id = id.ok_or_else(|| Error::protocol("the cursor has no id"))?;
    let batch: &RawArray = batch
        .and_then(|batch| batch.as_array())
        .ok_or_else(|| Error::protocol("the cursor has no batch"))?;
    let namespace = namespace.and_then(|ns| ns.as_str());
    if namespace.is_some_and(|ns| ns.len() > MAX_NAMESPACE_BYTES) {
        return Err(Error::protocol("the cursor's namespace is too long"));
    }
    let base = document.as_bytes().as_ptr() as usize;
    let start = batch.as_bytes().as_ptr() as usize - base + 4;
    let length = batch.as_bytes().len() - 4;
    let offset = reply.body_start();
    Ok(Parsed {
        id,
        namespace: namespace.map(str::to_owned),
        rest: offset + start..offset + start + length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let command = cursor.more().expect("it is open");
        assert_eq!(command.name(), "getMore");
        let next = rawdoc! { "cursor": { "nextBatch": [], "id": 0_i64, "ns": "db.c.d" }, "ok": 1 };
        cursor.handle_reply(reply(&next), None).expect("a batch");
        assert!(cursor.next_document().is_none());
        assert!(!cursor.is_open());
        assert!(cursor.more().is_none() && cursor.end().is_err_and(|left| left.is_empty()));
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
