//! Requests that are answered later: when their condition is true, or at their deadline.

use super::{
    Member,
    connection::{Need, Pending, Request, Waiting},
    fail_point::time_limit,
    fault::{Fault, fault},
    reply::Reply,
};
use crate::{deployment::ConnId, store::code_name};
use bson::{Document, doc};
use onionskin_core::time::Instant;

impl Member {
    /// True if enough members have an entry.
    pub(super) fn is_confirmed(&self, index: u64, need: Need) -> bool {
        match need {
            Need::Majority => self.replica.commit() >= index,
            Need::Members(n) => n <= 1 || self.replica.holders(index) >= n,
        }
    }

    /// Resumes the requests whose condition is now true: those that wait for replication, for a
    /// cluster time, for a transaction or its statement, or for more documents.
    pub(super) fn check_waiting(&mut self, now: Instant) {
        let waiting: Vec<ConnId> = self.waiting.iter().copied().collect();
        for conn in waiting {
            let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
            let ready = match pending.map(|p| &p.waiting) {
                Some(Waiting::Replication { index, need, .. }) => self.is_confirmed(*index, *need),
                Some(Waiting::Majority { index, .. }) => self.is_confirmed(*index, Need::Majority),
                Some(Waiting::Time {
                    after,
                    is_committed,
                    ..
                }) => {
                    let is_settled = |pending: &Pending| {
                        self.is_settled_at(&pending.request, *after, *is_committed)
                    };
                    pending.is_some_and(is_settled)
                }
                Some(Waiting::Lock(lock)) => self.is_unlocked(lock),
                Some(Waiting::Decision(id)) => !self.commits.is_under_way(*id),
                Some(Waiting::Statement { session, .. }) => !self.is_occupied(Some(conn), session),
                Some(Waiting::Tail) => self.tail_has_more(conn),
                _ => false,
            };
            if ready && let Some(pending) = self.unpark(conn) {
                self.resume(now, conn, pending);
            }
        }
    }

    /// Handles the deadline of a waiting request.
    pub(super) fn on_wait_timeout(&mut self, now: Instant, conn: ConnId) {
        let Some(pending) = self.unpark(conn) else {
            return;
        };
        let request = pending.request;
        match pending.waiting {
            Waiting::Replication { mut answer, .. } => {
                let text = "waiting for replication timed out";
                complain(&mut answer, concern_error(&request, 64, text));
                self.respond(conn, &request, answer);
            }
            Waiting::Hello { exhaust } => self.answer_hello(now, conn, request, exhaust),
            Waiting::Blocked { effect } => {
                let block = effect.block.unwrap_or_default();
                if time_limit(&request).is_some_and(|limit| limit < block) {
                    let error = fault(50, "operation exceeded time limit");
                    self.respond(conn, &request, Err(error));
                } else {
                    self.run_failing(now, conn, request, effect);
                }
            }
            Waiting::Time { .. }
            | Waiting::Majority { .. }
            | Waiting::Decision(_)
            | Waiting::Statement { .. }
            | Waiting::Job { .. } => {
                self.abort_paused(conn, &request);
                let error = fault(50, "operation exceeded time limit");
                self.respond(conn, &request, Err(error));
            }
            Waiting::Lock(lock) => self.fail_locked(now, conn, &request, &lock),
            Waiting::Tail => self.answer_tail(now, conn, request),
            Waiting::Stream => self.start(now, conn, request),
            Waiting::StepDown | Waiting::Routed { .. } | Waiting::Part { .. } => {}
        }
        self.advance(now, conn);
    }

    /// Answers all hellos that wait for a change (MON-74).
    pub(super) fn answer_hellos(&mut self, now: Instant) {
        for conn in std::mem::take(&mut self.hellos) {
            if let Some(Pending {
                request,
                waiting: Waiting::Hello { exhaust },
                ..
            }) = self.unpark(conn)
            {
                self.answer_hello(now, conn, request, exhaust);
                self.advance(now, conn);
            }
        }
    }

    /// Answers the writes that wait for replication with a write concern error, and linearizable
    /// reads and writes that are not complete with an error, because the primary stepped down.
    pub(super) fn interrupt_writes(&mut self, now: Instant) {
        self.interrupt_unfinished(now);
        let waiting: Vec<ConnId> = self.waiting.iter().copied().collect();
        for conn in waiting {
            let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
            let is_interrupted = matches!(
                pending.map(|p| &p.waiting),
                Some(Waiting::Replication { .. } | Waiting::Majority { .. })
            );
            if !is_interrupted {
                continue;
            }
            let Some(Pending {
                request, waiting, ..
            }) = self.unpark(conn)
            else {
                continue;
            };
            let text = "Primary stepped down while waiting for replication";
            let answer = match waiting {
                Waiting::Replication { mut answer, .. } => {
                    complain(&mut answer, concern_error(&request, 189, text));
                    answer
                }
                _ => Err(fault(11602, text)),
            };
            self.respond(conn, &request, answer);
            self.advance(now, conn);
        }
    }

    /// Ends the writes that are not complete, because the primary steps down. A step-down that is
    /// pending can fail later.
    pub(super) fn interrupt_unfinished(&mut self, now: Instant) {
        let text = "operation was interrupted because the primary stepped down";
        self.end_unfinished(now, &fault(11602, text));
    }

    /// Ends the writes that have paused, that wait for their search, or whose next part waits for a
    /// transaction, with an error. What they have done stays.
    pub(super) fn end_unfinished(&mut self, now: Instant, error: &Fault) {
        let open = self.connections.keys().copied();
        let unfinished: Vec<ConnId> = open.filter(|conn| self.goes_on(*conn)).collect();
        for conn in unfinished {
            self.end_waiting(now, conn, error.clone());
        }
    }

    /// Answers the request of a connection that waits with an error.
    pub(super) fn end_waiting(&mut self, now: Instant, conn: ConnId, error: Fault) {
        let Some(Pending {
            request, waiting, ..
        }) = self.unpark(conn)
        else {
            return;
        };
        self.abort_paused(conn, &request);
        let error = self.labelled(&request, error);
        match waiting {
            Waiting::Lock(lock) => self.end_locked(conn, &request, &lock, error),
            _ => self.respond(conn, &request, Err(error)),
        }
        self.discard(request);
        self.advance(now, conn);
    }

    pub(super) fn on_step_down_ended(&mut self, now: Instant, success: bool) {
        let Some(conn) = self.stepping_down.take() else {
            return;
        };
        if let Some(pending) = self.unpark(conn) {
            let answer = if success {
                Ok(Reply::default())
            } else {
                let text = "No electable secondaries caught up";
                Err(fault(262, text))
            };
            self.respond(conn, &pending.request, answer);
            self.advance(now, conn);
        }
    }

    fn resume(&mut self, now: Instant, conn: ConnId, pending: Pending) {
        match pending.waiting {
            Waiting::Replication { answer, .. } => self.respond(conn, &pending.request, answer),
            Waiting::Majority { reply, .. } => self.respond(conn, &pending.request, Ok(reply)),
            Waiting::Tail => self.resume_tail(now, conn, pending),
            Waiting::Lock(lock) => self.resume_locked(now, conn, pending.request, *lock),
            Waiting::Statement { effect, .. } => {
                self.waited_deadline = pending.deadline;
                self.run(now, conn, pending.request, effect);
                self.waited_deadline = None;
            }
            Waiting::Time { effect, .. } => self.run(now, conn, pending.request, effect),
            _ => self.run(now, conn, pending.request, None),
        }
        self.advance(now, conn);
    }

    pub(super) fn unpark(&mut self, conn: ConnId) -> Option<Pending> {
        let pending = self.connections.get_mut(&conn)?.pending.take()?;
        if let Some(at) = pending.deadline {
            self.timers.remove(&(at, conn));
        }
        self.waiting.remove(&conn);
        self.hellos.remove(&conn);
        Some(pending)
    }
}

/// True if an answer has a `writeConcernError`.
pub(super) const fn complains(answer: &Result<Reply, Fault>) -> bool {
    match answer {
        Ok(reply) => reply.concern.is_some(),
        Err(fault) => fault.concern.is_some(),
    }
}

/// Adds a `writeConcernError` to an answer.
pub(super) fn complain(answer: &mut Result<Reply, Fault>, concern: Document) {
    match answer {
        Ok(reply) => reply.concern = Some(concern),
        Err(fault) => fault.concern = Some(Box::new(concern)),
    }
}

/// Returns a `writeConcernError`, with the write concern of the command.
pub(super) fn concern_error(request: &Request, code: i32, text: &str) -> Document {
    let given = request.command.get_document("writeConcern").ok();
    let mut concern = doc! { "w": "majority", "wtimeout": 0 };
    concern.extend(given.cloned().unwrap_or_default());
    let provenance = match given {
        Some(_) => "clientSupplied",
        None => "implicitDefault",
    };
    concern.insert("provenance", provenance);
    let mut info = doc! { "writeConcern": concern };
    if code == 64 {
        info.insert("wtimeout", true);
    }
    doc! { "code": code, "codeName": &*code_name(code), "errmsg": text, "errInfo": info }
}
