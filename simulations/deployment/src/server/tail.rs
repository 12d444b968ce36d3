//! Tailable cursors, which find the documents that are inserted later. Their search pauses if the
//! caller of the deployment runs jobs.

use super::{
    Member,
    connection::{Connection, Pending, Request, Waiting},
    dispatch::Outcome,
    document::{count_field, integer_field},
    fault::{Fault, fault},
    parts::Progress,
    reply::Reply,
};
use crate::deployment::ConnId;
use bson::Document;
use onionskin_core::time::Instant;
use std::{collections::BTreeSet, time::Duration};

/// The default time for which a `getMore` on a tailable cursor waits for documents.
const AWAIT_DATA: Duration = Duration::from_secs(1);

/// The result of the search for the next documents of a cursor.
pub(super) enum Refill {
    /// The `getMore` can be answered.
    Found,
    /// There are no further documents so far.
    Nothing,
    /// The search has paused before it found any.
    Paused,
}

impl Member {
    /// Returns the deadline of a `getMore` that must wait: its cursor awaits data and has no
    /// documents. Returns `None` if the `getMore` need not wait.
    fn tail_deadline(&self, now: Instant, id: i64, command: &Document) -> Option<Instant> {
        let cursor = self.cursors.get(id)?;
        let period = match command.get("maxTimeMS") {
            None => AWAIT_DATA,
            Some(_) => Duration::from_millis(count_field(command, "maxTimeMS")),
        };
        (cursor.awaits() && cursor.documents.is_empty()).then(|| now + period)
    }

    /// Looks for the next documents of the cursor of a `getMore`, which was executed in part if it
    /// has a progress. Returns the outcome of a `getMore` that waits or pauses.
    pub(super) fn look_for_more(
        &mut self,
        now: Instant,
        id: i64,
        request: &mut Request,
        progress: Option<Box<Progress>>,
    ) -> Result<Option<Outcome>, Fault> {
        let deadline = match progress.as_deref() {
            Some(Progress::More(deadline)) => *deadline,
            _ => self.tail_deadline(now, id, &request.command),
        };
        let refill = self.refill(now, id, &request.command)?;
        Ok(match (refill, deadline) {
            (Refill::Nothing, Some(_)) => Some(Outcome::Wait(Waiting::Tail, deadline)),
            (Refill::Paused, _) => {
                request.progress = Some(Box::new(Progress::More(deadline)));
                Some(Outcome::Wait(self.part_until(now, None), None))
            }
            (Refill::Found | Refill::Nothing, _) => None,
        })
    }

    /// Looks for documents that a tailable cursor has not returned yet. After an error, the cursor
    /// is closed.
    fn refill(&mut self, now: Instant, id: i64, command: &Document) -> Result<Refill, Fault> {
        let cursor = self.cursors.get(id);
        if cursor.is_some_and(|cursor| cursor.stream.is_some()) {
            return self.refill_stream(now, id, command);
        }
        let Some(tail) = cursor.and_then(|c| c.tail.clone()) else {
            return Ok(Refill::Nothing);
        };
        let end = self.replica.store().end(&tail.collection);
        let variables = tail.variables.as_ref();
        let limits = (None, self.pausing());
        let found = self.with_limits(now, variables, limits, |store, environment| {
            let found = store.find_after(
                &tail.collection,
                &tail.find,
                &tail.place,
                tail.limit,
                environment,
            )?;
            Ok((found, environment.parts.reached.take()))
        });
        let Some(mut cursor) = self.cursors.remove(id) else {
            return Ok(Refill::Nothing);
        };
        let (found, reached) = found?;
        let refill = match reached {
            _ if !found.is_empty() => Refill::Found,
            Some(_) => Refill::Paused,
            None => Refill::Nothing,
        };
        if let (Some(tail), Some(place)) = (&mut cursor.tail, reached.or(end)) {
            tail.place = place;
            tail.limit -= found.len();
        }
        cursor.documents.extend(found);
        cursor.bytes = cursor.own_bytes();
        self.cursors.check_room(&cursor)?;
        self.cursors.insert(now, id, cursor);
        Ok(refill)
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
            mut request,
            waiting,
            deadline,
        } = pending;
        let id = integer_field(&request.command, &request.name).unwrap_or(0);
        self.running = Some(conn);
        let found = self.refill(now, id, &request.command);
        self.running = None;
        match found {
            Ok(Refill::Nothing) if self.cursors.get(id).is_some() => {
                self.wait(conn, request, waiting, deadline);
            }
            Ok(Refill::Paused) => {
                request.progress = Some(Box::new(Progress::More(deadline)));
                let waiting = self.part_until(now, None);
                self.wait(conn, request, waiting, None);
            }
            Ok(_) => self.answer_tail(now, conn, request),
            Err(fault) => self.answer_get_more(now, conn, request, Err(fault)),
        }
    }

    /// Ends the `getMore`s that wait or have paused, and whose cursors were closed.
    pub(super) fn interrupt_tails(&mut self, now: Instant, closed: &BTreeSet<i64>) {
        let waits = |(conn, connection): &(&ConnId, &Connection)| {
            connection.pending.as_ref().is_some_and(|pending| {
                let id = integer_field(&pending.request.command, "getMore");
                let has_paused = matches!(pending.waiting, Waiting::Part { .. });
                (has_paused || self.waiting.contains(*conn))
                    && id.is_some_and(|id| closed.contains(&id))
            })
        };
        let waiting = self.connections.iter().filter(waits);
        let waiting: Vec<ConnId> = waiting.map(|(conn, _)| *conn).collect();
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
