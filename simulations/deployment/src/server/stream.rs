//! Streams of replies to one `getMore`.

use super::{
    Member, Output,
    connection::{Request, Waiting},
    document::integer_field,
    fault::Fault,
    reply::Reply,
};
use crate::deployment::ConnId;
use onionskin_core::time::Instant;

impl Member {
    /// Answers a `getMore`. If the client accepts several replies (MSG-23), the stream continues as
    /// if the client had sent the next `getMore`, until the cursor is closed. A cursor that is
    /// tailable and does not await data is never closed, so it has no stream.
    pub(super) fn answer_get_more(
        &mut self,
        now: Instant,
        conn: ConnId,
        mut request: Request,
        answer: Result<Reply, Fault>,
    ) {
        let answer = answer.map_err(|fault| self.labelled(&request, fault));
        let id = integer_field(&request.command, &request.name).unwrap_or(0);
        let is_open = self.cursors.get(id).is_some_and(|cursor| {
            let tail = cursor.tail.as_ref();
            tail.is_none_or(|tail| tail.awaits)
        });
        if !(request.exhaust && request.reply_wanted && is_open && answer.is_ok()) {
            return self.respond(conn, &request, answer);
        }
        // Each reply of a stream answers the reply before it (MSG-21).
        let previous = Some(request.id);
        request.id = self.respond_with(conn, &request, answer, previous);
        let deadline = (!self.takes_turns).then_some(now);
        self.wait(conn, request, Waiting::Stream, deadline);
        if self.takes_turns
            && let Some(connection) = self.connection(conn)
        {
            connection.is_resting = true;
            self.outputs.push_back(Output::Turn(conn));
        }
    }

    /// Closes the cursor of a stream whose client has disconnected.
    pub(super) fn end_stream(&mut self, request: &Request) {
        if request.exhaust
            && request.name == "getMore"
            && let Some(id) = integer_field(&request.command, &request.name)
        {
            self.cursors.remove(id);
        }
    }

    /// Sends the next reply of a stream. Returns false if the connection has no stream.
    pub(super) fn continue_stream(&mut self, now: Instant, conn: ConnId) -> bool {
        let pending = self.connection(conn).and_then(|c| c.pending.as_ref());
        if !pending.is_some_and(|pending| matches!(pending.waiting, Waiting::Stream)) {
            return false;
        }
        if let Some(pending) = self.unpark(conn) {
            self.start(now, conn, pending.request);
        }
        true
    }
}
