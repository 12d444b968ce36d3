//! Open cursors: their remaining documents, and the time at which they expire.

mod batch;

pub(super) use batch::{MAX_BATCH_BYTES, make_batch};

use super::{
    fault::{Fault, fault},
    watch::OpenStream,
};
use crate::{
    deployment::Limits,
    replica::SessionKey,
    store::{Find, Namespace, Position, Shared, encoded_bytes},
};
use bson::Document;
use onionskin_core::time::Instant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An open cursor: the documents that its client has not fetched yet.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) namespace: String,
    /// The number of the collection; 0 if the cursor has none, or survives its end.
    pub(super) serial: u64,
    /// The session of the command that opened the cursor.
    pub(super) session: Option<SessionKey>,
    /// The number of the transaction that opened the cursor.
    pub(super) transaction: Option<i64>,
    pub(super) documents: VecDeque<Shared>,
    /// The query of a tailable cursor, which can find more documents later; `None` for other
    /// cursors.
    pub(super) tail: Option<Tail>,
    /// The change stream that finds the documents of the cursor; `None` for other cursors.
    pub(super) stream: Option<Box<OpenStream>>,
    pub(super) no_timeout: bool,
    /// True if the cursor has ended when its last document was returned. Otherwise a batch that is
    /// as large as requested leaves the cursor open, because the server has not looked for a
    /// further document.
    pub(super) ends_early: bool,
    /// True if the command that opened the cursor had a time limit, which its `getMore`s share.
    pub(super) is_limited: bool,
    /// The result of [`Cursor::own_bytes`] when the cursor was opened.
    pub(super) bytes: usize,
}

impl Cursor {
    /// True if a `getMore` of the cursor waits for documents.
    pub(super) fn awaits(&self) -> bool {
        self.stream.is_some() || self.tail.as_ref().is_some_and(|tail| tail.awaits)
    }

    /// True if documents may follow those that were found.
    pub(super) fn is_endless(&self) -> bool {
        let continues = self
            .stream
            .as_ref()
            .is_some_and(|stream| !stream.has_ended());
        continues || self.tail.is_some()
    }

    /// Returns the size of the documents that only this cursor holds, in bytes. Documents of a
    /// collection are not counted.
    pub(super) fn own_bytes(&self) -> usize {
        let own = self.documents.iter();
        let own = own.filter(|document| Shared::strong_count(document) == 1);
        own.map(|document| encoded_bytes(document)).sum()
    }

    /// Returns an error if a `getMore` has another session or transaction than the
    /// command that opened the cursor.
    pub(super) fn check_owner(
        &self,
        id: i64,
        session: Option<SessionKey>,
        transaction: Option<i64>,
    ) -> Result<(), Fault> {
        let text = |what: &str| format!("Cannot run getMore on cursor {id}, which was {what}");
        match (self.session, session) {
            (own, session) if own == session => {}
            (None, _) => return Err(fault(50736, text("not created in a session, in a session"))),
            (Some(_), None) => {
                return Err(fault(50737, text("created in a session, without an lsid")));
            }
            (Some(_), Some(_)) => {
                return Err(fault(
                    50738,
                    text("created in a session, in another session"),
                ));
            }
        }
        let (code, end) = match (self.transaction, transaction) {
            (own, other) if own == other => return Ok(()),
            (None, _) => (50739, "not created in a transaction, in a transaction"),
            (Some(_), None) => (50740, "created in a transaction, without a txnNumber"),
            (Some(_), Some(_)) => (50741, "created in a transaction, in another transaction"),
        };
        Err(fault(code, text(end)))
    }
}

/// The query of a tailable cursor.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    pub(super) collection: Namespace,
    pub(super) find: Find,
    /// The `let` of the command.
    pub(super) variables: Option<Document>,
    /// The newest document of the collection when the query ran the last time.
    pub(super) place: Position,
    /// The number of documents that the query may still return.
    pub(super) limit: usize,
    pub(super) awaits: bool,
}

/// All open cursors of a member.
#[derive(Debug)]
pub(super) struct Cursors {
    open: BTreeMap<i64, (Cursor, Option<Instant>)>,
    expiries: BTreeSet<(Instant, i64)>,
    /// The number of documents that all open cursors have yet to return.
    documents: usize,
    /// The size of the documents that only cursors hold, in bytes.
    bytes: usize,
    limits: Limits,
}

impl Cursors {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            open: BTreeMap::new(),
            expiries: BTreeSet::new(),
            documents: 0,
            bytes: 0,
            limits,
        }
    }

    /// Refuses a new cursor that would exceed a limit, so that the cursors of others stay open. The
    /// only cursor may exceed the limits.
    pub(super) fn check_room(&self, cursor: &Cursor) -> Result<(), Fault> {
        let is_too_much = self.open.len() >= self.limits.max_cursors
            || self.documents + cursor.documents.len() > self.limits.max_cursor_documents
            || self.bytes + cursor.bytes > self.limits.max_cursor_bytes;
        if is_too_much && !self.open.is_empty() {
            let text = "the open cursors of this simulated server have reached a limit (`Limits`)";
            return Err(fault(146, text));
        }
        Ok(())
    }

    /// Adds a cursor.
    pub(super) fn insert(&mut self, now: Instant, id: i64, cursor: Cursor) {
        self.documents += cursor.documents.len();
        self.bytes += cursor.bytes;
        let expiry = (!cursor.no_timeout).then(|| now + self.limits.cursor_timeout);
        if let Some(at) = expiry {
            self.expiries.insert((at, id));
        }
        self.open.insert(id, (cursor, expiry));
    }

    pub(super) fn remove(&mut self, id: i64) -> Option<Cursor> {
        let (cursor, expiry) = self.open.remove(&id)?;
        if let Some(at) = expiry {
            self.expiries.remove(&(at, id));
        }
        self.documents -= cursor.documents.len();
        self.bytes -= cursor.bytes;
        Some(cursor)
    }

    /// Removes the cursors for which a condition is true.
    pub(super) fn remove_where(&mut self, is_meant: impl Fn(&Cursor) -> bool) {
        let meant = self.open.iter().filter(|(_, (cursor, _))| is_meant(cursor));
        let meant: Vec<i64> = meant.map(|(id, _)| *id).collect();
        for id in meant {
            self.remove(id);
        }
    }

    /// Ends the change streams of all cursors. Returns false if there is none.
    pub(super) fn end_streams(&mut self) -> bool {
        let mut has_ended = false;
        for (cursor, _) in self.open.values_mut() {
            if let Some(stream) = &mut cursor.stream {
                stream.end();
                has_ended = true;
            }
        }
        has_ended
    }

    pub(super) fn get(&self, id: i64) -> Option<&Cursor> {
        self.open.get(&id).map(|(cursor, _)| cursor)
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.expiries.first() {
            if at > now {
                return;
            }
            self.remove(id);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.expiries.first().map(|&(at, _)| at)
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.expiries.clear();
        self.documents = 0;
        self.bytes = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
