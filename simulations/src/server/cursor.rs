//! Open cursors: what is left to send, and until when it is kept.

use crate::store::{Find, Namespace, Shared};
use onionskin_core::time::Instant;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// Documents that a client has yet to fetch.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) namespace: String,
    pub(super) documents: VecDeque<Shared>,
    /// A tailable cursor looks for more than its documents when they are all sent.
    pub(super) tail: Option<Tail>,
    pub(super) no_timeout: bool,
}

/// How a tailable cursor goes on.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    pub(super) collection: Namespace,
    pub(super) find: Find,
    /// Documents that were found so far.
    pub(super) seen: u64,
    pub(super) awaits: bool,
}

/// All open cursors of a member.
#[derive(Debug)]
pub(super) struct Cursors {
    open: BTreeMap<i64, (Cursor, Option<Instant>)>,
    expiries: BTreeSet<(Instant, i64)>,
    /// Documents of all of them.
    documents: usize,
    limit: usize,
    max_documents: usize,
    timeout: Duration,
}

impl Cursors {
    pub(super) const fn new(limit: usize, max_documents: usize, timeout: Duration) -> Self {
        Self {
            open: BTreeMap::new(),
            expiries: BTreeSet::new(),
            documents: 0,
            limit,
            max_documents,
            timeout,
        }
    }

    /// Keeps a cursor; at a limit, those that expire first go. The new one stays, however many
    /// documents it has.
    pub(super) fn insert(&mut self, now: Instant, id: i64, cursor: Cursor) {
        let more = cursor.documents.len();
        while self.open.len() >= self.limit || self.documents + more > self.max_documents {
            let victim = self.expiries.first().map(|&(_, id)| id);
            let victim = victim.or_else(|| self.open.keys().next().copied());
            let Some(victim) = victim else {
                break;
            };
            self.remove(victim);
        }
        self.documents += more;
        let expiry = (!cursor.no_timeout).then(|| now + self.timeout);
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
        Some(cursor)
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
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
