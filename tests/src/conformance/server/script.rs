//! Requests, and what can be done about them.

use bson::{Bson, Document, doc};
use onionskin_core::wire::{MessageWriter, OpCode};
use onionskin_simulations::legacy::LegacyReply;
use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How long a server holds anything back at most.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// A request that came.
#[derive(Clone, Debug)]
pub struct Request {
    /// The connection that it came on; zero for the first.
    pub connection: u64,
    /// The number of earlier requests of this name, on whatever connection.
    pub earlier: usize,
    /// The command's name.
    pub name: String,
    /// The command, without document sequences.
    pub body: Document,
    /// The number of documents in sequences.
    pub documents: usize,
    /// The wire's number of the request.
    pub id: i32,
    /// Size of the frame.
    pub bytes: usize,
    /// How it was asked.
    pub op_code: OpCode,
}

impl Request {
    /// The frame of a reply.
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

    /// A reply in one piece.
    #[must_use]
    pub fn reply(&self, reply: &Document) -> Vec<Step> {
        vec![Step::Send(self.frame(reply))]
    }

    /// The number `n` of a find's filter, which says what the test means by it.
    #[must_use]
    pub fn n(&self) -> Option<i32> {
        self.body.get_document("filter").ok()?.get_i32("n").ok()
    }

    /// True for the questions with which connections and monitors begin.
    #[must_use]
    pub fn is_hello(&self) -> bool {
        matches!(self.name.as_str(), "hello" | "isMaster" | "ismaster")
    }
}

/// One thing that a server does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes bytes.
    Send(Vec<u8>),
    /// Writes bytes in pieces of this size, each on its own.
    Trickle(Vec<u8>, usize),
    /// Writes bytes over and over, as long as somebody takes them.
    Flood(Vec<u8>),
    /// Waits until the gate is opened.
    Hold(Arc<Gate>),
    /// Closes the connection.
    Close,
    /// Writes no more, but goes on reading.
    HalfClose,
    /// Breaks the connection.
    Reset,
    /// Says something in TLS; an error on a connection without it.
    Tls(TlsWord),
}

/// What TLS says on its own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsWord {
    /// The farewell, `close_notify`. The socket stays open.
    CloseNotify,
    /// These bytes and the farewell, in one piece.
    Last(Vec<u8>),
    /// A fatal alert: TLS is over on this side.
    FatalAlert,
    /// A wish for new keys, so many times.
    NewKeys(usize),
    /// A record that is none.
    Garbage,
}

/// The error of a word of TLS on a connection without it.
pub(super) fn without_tls(word: &TlsWord) -> io::Error {
    io::Error::other(format!("{word:?} on a connection without TLS"))
}

/// A record of application data that nobody can decrypt.
pub(super) const GARBAGE: [u8; 25] = [
    23, 3, 3, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// Holds a server back until the test has seen what it wants to see. Threads and tasks may wait.
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
    /// A closed gate.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Lets everybody through from now on.
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

    /// Waits with the whole thread.
    pub(super) fn pass(&self) {
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .opened
            .wait_timeout_while(guard, LONGEST_HOLD, |inner| !inner.is_open);
        drop(waited);
    }

    /// Waits as a task does.
    pub(super) fn poll_pass(&self, context: &Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.is_open {
            return Poll::Ready(());
        }
        inner.tasks.push(context.waker().clone());
        Poll::Pending
    }
}

/// What a healthy standalone says of itself.
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

/// Answers as a healthy standalone would.
///
/// A find gives one document with the `n` of its filter; with `open: true` in the filter its cursor
/// stays open for ever, and each batch has one document of the same `n`.
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

/// A reply with a batch of a cursor.
fn batch(name: &str, id: i64, numbers: &[i32]) -> Document {
    let documents: Vec<Bson> = numbers
        .iter()
        .map(|n| Bson::from(doc! { "n": n }))
        .collect();
    doc! { "ok": 1, "cursor": { "id": id, "ns": "app.things", name: documents } }
}
