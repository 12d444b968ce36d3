//! Requests to a scripted server, and the steps with which it answers.

use bson::{Bson, Document, doc};
use onionskin_core::unstable::wire::{MessageWriter, OpCode};
use onionskin_deployment::legacy::LegacyReply;
use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The longest time for which a closed gate delays a server.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// A request that a server received.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number of the connection of the request, counted from zero.
    pub connection: u64,
    /// The number of earlier requests with the same name, on all connections.
    pub earlier: usize,
    /// The command's name.
    pub name: String,
    /// The command, without document sequences.
    pub body: Document,
    /// The number of documents in the document sequences of the message.
    pub documents: usize,
    /// The request id of the message header.
    pub id: i32,
    /// The size of the message in bytes.
    pub bytes: usize,
    /// The op code of the message.
    pub op_code: OpCode,
}

impl Request {
    /// Encodes a reply to the request as one message.
    #[must_use]
    pub fn frame(&self, reply: &Document) -> Vec<u8> {
        let raw = bson::RawDocumentBuf::try_from(reply).expect("a document");
        let mut bytes = Vec::new();
        match self.op_code {
            OpCode::Query => LegacyReply { body: &raw }.encode(&mut bytes, 1, self.id),
            _ => {
                MessageWriter::begin(&mut bytes, 1, self.id)
                    .body(&raw)
                    .end();
            }
        }
        bytes
    }

    /// Returns the step that sends a reply in one write.
    #[must_use]
    pub fn reply(&self, reply: &Document) -> Vec<Step> {
        vec![Step::Send(self.frame(reply))]
    }

    /// Returns the number `n` of a find's filter, by which scripts distinguish finds.
    #[must_use]
    pub fn n(&self) -> Option<i32> {
        self.body.get_document("filter").ok()?.get_i32("n").ok()
    }

    /// True for `hello` and for the legacy hello.
    #[must_use]
    pub fn is_hello(&self) -> bool {
        matches!(self.name.as_str(), "hello" | "isMaster" | "ismaster")
    }
}

/// One step of a server's answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes bytes in one piece.
    Send(Vec<u8>),
    /// Writes bytes in pieces of this size.
    Trickle(Vec<u8>, usize),
    /// Writes bytes repeatedly until the client closes the connection.
    Flood(Vec<u8>),
    /// Waits until the gate is open, at most for 30 seconds.
    Hold(Arc<Gate>),
    /// Closes the connection.
    Close,
    /// Closes the sending side. The server continues to read.
    HalfClose,
    /// Resets the connection.
    Reset,
    /// Sends a TLS message. Fails on a connection without TLS.
    Tls(TlsMessage),
}

/// A message of the TLS protocol itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsMessage {
    /// A `close_notify` alert. The socket stays open.
    CloseNotify,
    /// These bytes and a `close_notify` alert, in one write.
    Last(Vec<u8>),
    /// The fatal alert that rustls sends after an invalid record.
    FatalAlert,
    /// This number of key updates.
    KeyUpdates(usize),
    /// A record that cannot be decrypted.
    InvalidRecord,
}

/// Returns the error of a TLS message on a connection without TLS.
pub(super) fn without_tls(message: &TlsMessage) -> io::Error {
    io::Error::other(format!("{message:?} on a connection without TLS"))
}

/// A record of application data that cannot be decrypted.
pub(super) const INVALID_RECORD: [u8; 25] = [
    23, 3, 3, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// Holds a server back until a test opens the gate. Both threads and tasks can wait for a gate.
#[derive(Debug, Default)]
pub struct Gate {
    inner: Mutex<GateInner>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct GateInner {
    is_open: bool,
    tasks: Vec<Waker>,
}

impl Gate {
    /// Returns a closed gate.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.is_open = true;
        let tasks = std::mem::take(&mut inner.tasks);
        drop(inner);
        self.opened.notify_all();
        for task in tasks {
            task.wake();
        }
    }

    /// Blocks the thread until the gate is open or [`LONGEST_HOLD`] has passed.
    pub(super) fn pass(&self) {
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .opened
            .wait_timeout_while(guard, LONGEST_HOLD, |inner| !inner.is_open);
        drop(waited);
    }

    /// Returns `Ready` if the gate is open. Otherwise the task of `context` is woken when the gate
    /// opens.
    pub(super) fn poll_pass(&self, context: &Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.is_open {
            return Poll::Ready(());
        }
        inner.tasks.push(context.waker().clone());
        Poll::Pending
    }
}

/// Returns the reply of a standalone to `hello`.
#[must_use]
pub fn hello(connection: u64) -> Document {
    doc! {
        "ok": 1,
        "helloOk": true,
        "isWritablePrimary": true,
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000,
        "logicalSessionTimeoutMinutes": 30,
        "connectionId": i64::try_from(connection).unwrap_or(i64::MAX),
        "minWireVersion": 0,
        "maxWireVersion": 21,
    }
}

/// Returns the steps with which a healthy standalone answers a request.
///
/// A find returns one document with the `n` of its filter. With `open: true` in the filter the
/// cursor stays open for ever, and each batch has one document with the same `n`. A command that is
/// not known gets the error 59.
#[must_use]
pub fn answer(request: &Request) -> Vec<Step> {
    let reply = match request.name.as_str() {
        _ if request.is_hello() => hello(request.connection),
        "insert" => doc! { "ok": 1, "n": i32::try_from(request.documents.max(1)).unwrap_or(0) },
        "find" => {
            let n = request.n().unwrap_or_default();
            let filter = request.body.get_document("filter");
            let is_open = filter.is_ok_and(|f| f.get_bool("open").unwrap_or_default());
            let id = if is_open { i64::from(n) + 1 } else { 0 };
            batch("firstBatch", id, &[n])
        }
        "getMore" => {
            let id = request.body.get_i64("getMore").unwrap_or_default();
            batch(
                "nextBatch",
                id,
                &[i32::try_from(id - 1).unwrap_or_default()],
            )
        }
        "ping" | "endSessions" | "killCursors" => doc! { "ok": 1 },
        other => doc! {
            "ok": 0,
            "code": 59,
            "codeName": "CommandNotFound",
            "errmsg": format!("no such command: {other}"),
        },
    };
    request.reply(&reply)
}

/// Returns a reply with a batch of a cursor.
fn batch(name: &str, id: i64, numbers: &[i32]) -> Document {
    let documents: Vec<Bson> = numbers
        .iter()
        .map(|n| Bson::from(doc! { "n": n }))
        .collect();
    doc! { "ok": 1, "cursor": { "id": id, "ns": "app.things", name: documents } }
}
