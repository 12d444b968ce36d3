//! Tailable cursors, which find the documents that are inserted later.

use super::{
    Member,
    connection::{Pending, Request},
    dispatch::Outcome,
    document::{count_field, integer_field},
    fault::{Fault, fault},
    reply::Reply,
};
use crate::deployment::ConnId;
use bson::Document;
use onionskin_core::time::Instant;
use std::{collections::BTreeSet, time::Duration};

/// The default time for which a `getMore` on a tailable cursor waits for documents.
const AWAIT_DATA: Duration = Duration::from_secs(1);

impl Member {
    /// Returns the deadline of a `getMore` that must wait: its cursor awaits data and has no
    /// documents. Returns `None` if the `getMore` need not wait.
    pub(super) fn tail_deadline(
        &self,
        now: Instant,
        id: i64,
        command: &Document,
    ) -> Option<Instant> {
        let cursor = self.cursors.get(id)?;
        let period = match command.get("maxTimeMS") {
            None => AWAIT_DATA,
            Some(_) => Duration::from_millis(count_field(command, "maxTimeMS")),
        };
        (cursor.awaits() && cursor.documents.is_empty()).then(|| now + period)
    }

    /// Looks for documents that a tailable cursor has not returned yet. Returns true if there are
    /// new ones. After an error, the cursor is closed.
    pub(super) fn refill(
        &mut self,
        now: Instant,
        id: i64,
        command: &Document,
    ) -> Result<bool, Fault> {
        let cursor = self.cursors.get(id);
        if cursor.is_some_and(|cursor| cursor.stream.is_some()) {
            return self.refill_stream(now, id, command);
        }
        let Some(tail) = cursor.and_then(|c| c.tail.clone()) else {
            return Ok(false);
        };
        let end = self.replica.store().end(&tail.collection);
        let variables = tail.variables.as_ref();
        let found = self.with_store(now, variables, |store, environment| {
            store.find_after(
                &tail.collection,
                &tail.find,
                &tail.place,
                tail.limit,
                environment,
            )
        });
        let Some(mut cursor) = self.cursors.remove(id) else {
            return Ok(false);
        };
        let found = found?;
        if let (Some(tail), Some(end)) = (&mut cursor.tail, end) {
            tail.place = end;
            tail.limit -= found.len();
        }
        let has_more = !found.is_empty();
        cursor.documents.extend(found);
        cursor.bytes = cursor.own_bytes();
        self.cursors.check_room(&cursor)?;
        self.cursors.insert(now, id, cursor);
        Ok(has_more)
    }

    /// True if a waiting `getMore` can be answered: it has documents, or its cursor was closed.
    pub(super) fn tail_has_more(&self, conn: ConnId) -> bool {
        let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
        let id = pending.and_then(|p| integer_field(&p.request.command, &p.request.name));
        let Some(cursor) = id.map(|id| self.cursors.get(id)) else {
            return false;
        };
        if let Some(stream) = cursor.and_then(|cursor| cursor.stream.as_ref()) {
            return self.stream_has_more(stream);
        }
        let tail = cursor.and_then(|cursor| cursor.tail.as_ref());
        tail.is_none_or(|tail| {
            let end = self.replica.store().end(&tail.collection);
            end.is_none_or(|end| (end.serial, end.record) != (tail.place.serial, tail.place.record))
        })
    }

    /// Continues a `getMore` that waited for documents, after the collection has changed. It waits
    /// until the same deadline if the query found none.
    pub(super) fn resume_tail(&mut self, now: Instant, conn: ConnId, pending: Pending) {
        let Pending {
            request,
            waiting,
            deadline,
        } = pending;
        let id = integer_field(&request.command, &request.name).unwrap_or(0);
        self.running = Some(conn);
        let found = self.refill(now, id, &request.command);
        self.running = None;
        match found {
            Ok(false) if self.cursors.get(id).is_some() => {
                self.wait(conn, request, waiting, deadline);
            }
            Ok(_) => self.answer_tail(now, conn, request),
            Err(fault) => self.answer_get_more(now, conn, request, Err(fault)),
        }
    }

    /// Ends the waits of `getMore`s whose cursors were closed.
    pub(super) fn interrupt_tails(&mut self, now: Instant, closed: &BTreeSet<i64>) {
        let waits = |conn: &&ConnId| {
            let pending = self.connections.get(conn).and_then(|c| c.pending.as_ref());
            pending.is_some_and(|Pending { request, .. }| {
                let id = integer_field(&request.command, "getMore");
                id.is_some_and(|id| closed.contains(&id))
            })
        };
        let waiting: Vec<ConnId> = self.waiting.iter().filter(waits).copied().collect();
        for conn in waiting {
            if let Some(Pending { request, .. }) = self.unpark(conn) {
                let error = fault(237, "operation was interrupted: its cursor was killed");
                self.respond(conn, &request, Err(error));
                self.advance(now, conn);
            }
        }
    }

    /// Answers a `getMore` that waited, with or without documents.
    pub(super) fn answer_tail(&mut self, now: Instant, conn: ConnId, request: Request) {
        let answer = self.next_batch(now, &request);
        let answer = answer.map(|outcome| match outcome {
            Outcome::Reply(reply) | Outcome::Written(reply) => reply,
            Outcome::Wait(..) | Outcome::Route(_) | Outcome::Forward(..) => Reply::default(),
        });
        self.answer_get_more(now, conn, request, answer);
    }
}
