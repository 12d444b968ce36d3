//! The results of jobs.

use super::{Done, JobDone};
use crate::{
    deployment::ConnId,
    server::{
        Member,
        apart::LARGE,
        connection::{Pending, Request, Waiting},
        fault::fault,
    },
    store::{Found, StoreError},
};
use onionskin_core::time::Instant;

impl Member {
    /// Handles the result of a job. Does nothing if its request no longer waits. If the job ended
    /// in a panic, closes the connection.
    pub(crate) fn handle_job_done(&mut self, now: Instant, done: JobDone) {
        let Some(conn) = done.key.connection else {
            return;
        };
        if !self.awaits_job(conn, done.key.number) {
            return self.discard_result(done);
        }
        let JobDone { key, result } = done;
        match result {
            Some(Done::Query { found, own_bytes }) => {
                self.handle_query_done(now, conn, key.number, Some((found, own_bytes)));
            }
            Some(Done::Task(done)) => self.handle_task_done(now, conn, key.number, Some(done)),
            Some(Done::Freed) => {}
            None => {
                // The number is that of one of them.
                self.handle_query_done(now, conn, key.number, None);
                self.handle_task_done(now, conn, key.number, None);
            }
        }
    }

    /// Drops the result of a job that no connection waits for.
    pub(crate) fn discard_result(&mut self, done: JobDone) {
        let bytes = match &done.result {
            Some(
                Done::Task(_)
                | Done::Query {
                    found: Ok(Found::Indexes(_)),
                    ..
                },
            ) => LARGE,
            Some(Done::Query { own_bytes, .. }) => own_bytes.unwrap_or(0),
            Some(Done::Freed) | None => 0,
        };
        self.garbage.add(bytes, done);
    }

    /// True if a connection waits for the job with this number.
    fn awaits_job(&self, conn: ConnId, number: u64) -> bool {
        self.connections.get(&conn).is_some_and(|connection| {
            let pending = connection.pending.as_ref();
            let is_query = pending.is_some_and(|pending| match &pending.waiting {
                Waiting::Job { query, .. } => query.number == number,
                _ => false,
            });
            let apart = connection.apart.as_ref();
            is_query || apart.is_some_and(|apart| apart.number() == number)
        })
    }

    /// Executes the command of a query again, if the request waits for the query with this number.
    fn handle_query_done(
        &mut self,
        now: Instant,
        conn: ConnId,
        number: u64,
        result: Option<(Result<Found, StoreError>, Option<usize>)>,
    ) {
        let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
        let waits = pending.is_some_and(|pending| match &pending.waiting {
            Waiting::Job { query, .. } => query.number == number,
            _ => false,
        });
        if !waits {
            return;
        }
        let Some(Pending {
            request,
            waiting: Waiting::Job { query, effect },
            deadline,
        }) = self.unpark(conn)
        else {
            return;
        };
        let has_failed = is_linearizable(&request) && self.replica.term() != query.term;
        match (result, has_failed) {
            (None, _) => {
                self.abort_paused(conn, &request);
                return self.close(conn);
            }
            (Some(_), true) => {
                let text = "the primary changed while a linearizable read was running";
                self.respond(conn, &request, Err(fault(11602, text)));
                self.discard(request);
            }
            (Some((found, own_bytes)), false) => {
                self.jobs.done = Some(found);
                self.jobs.own_bytes = own_bytes;
                self.jobs.earlier = query.earlier;
                self.waited_deadline = deadline;
                self.jobs.clock = query.clock;
                self.run(now, conn, request, effect);
                self.jobs.clock = None;
                self.waited_deadline = None;
                self.jobs.done = None;
                self.jobs.own_bytes = None;
                self.jobs.earlier = None;
            }
        }
        self.advance(now, conn);
    }
}

fn is_linearizable(request: &Request) -> bool {
    let concern = request.command.get_document("readConcern");
    concern.is_ok_and(|concern| concern.get_str("level").ok() == Some("linearizable"))
}
