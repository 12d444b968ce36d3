//! Routers: they answer for themselves, and leave the data to the shard behind them.

use super::{
    Member, Output,
    connection::{Pending, Request, Waiting},
    dispatch::{Answer, Outcome},
    document::{integer_field, owned},
    fail_point::FailEffect,
    fault::fault,
};
use crate::deployment::{ConnId, Shape};
use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use onionskin_core::wire::{Flags, Header, Message, MessageWriter};
use std::collections::BTreeSet;

/// What a router remembers.
#[derive(Debug, Default)]
pub(super) struct Routing {
    /// Cursors that it has told clients of. Those of other routers it does not know.
    cursors: BTreeSet<i64>,
}

impl Member {
    /// True if this is a router.
    pub(super) fn is_router(&self) -> bool {
        matches!(self.options.shape, Shape::Sharded)
    }

    /// What the router says to a command before the shard sees it.
    pub(super) fn check_routed(&self, request: &Request) -> Answer {
        if request.name == "getMore"
            && let Some(id) = integer_field(&request.command, "getMore")
            && !self.routing.cursors.contains(&id)
        {
            return Err(fault(43, format!("cursor id {id} not found")));
        }
        Ok(Outcome::Route)
    }

    /// Hands a request on to the shard, and waits for its answer.
    pub(super) fn route(&mut self, conn: ConnId, request: Request, effect: Option<FailEffect>) {
        let Ok(body) = RawDocumentBuf::try_from(&request.command) else {
            return self.respond(conn, &request, Err(fault(22, "malformed BSON")));
        };
        let flags = match request.reply_wanted {
            true => Flags::default(),
            false => Flags::MORE_TO_COME,
        };
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, request.id, 0)
            .flags(flags)
            .body(&body)
            .end();
        self.outputs.push_back(Output::Route(conn, bytes));
        if request.reply_wanted {
            self.wait(conn, request, Waiting::Routed { effect }, None);
        }
    }

    /// The shard has answered what a client asked for.
    pub(crate) fn handle_routed(
        &mut self,
        now: onionskin_core::time::Instant,
        conn: ConnId,
        bytes: &[u8],
    ) {
        let Some(Pending {
            request,
            waiting: Waiting::Routed { effect },
            ..
        }) = self.unpark(conn)
        else {
            return;
        };
        let limit = self.options.limits.max_message_bytes;
        let Some(reply) = Header::decode(bytes, limit)
            .ok()
            .and_then(|header| bytes.get(..header.length))
            .and_then(|frame| Message::decode(frame).ok())
        else {
            return self.close(conn);
        };
        self.note_cursors(&request, reply.body);
        let Some(body) = changed(reply.body, effect) else {
            return self.close(conn);
        };
        self.next_request_id = self.next_request_id.wrapping_add(1).max(1);
        let id = self.next_request_id;
        if let Some(connection) = self.connection(conn) {
            MessageWriter::begin(&mut connection.out, id, request.id)
                .body(&body)
                .end();
            if !std::mem::replace(&mut connection.announced, true) {
                self.outputs.push_back(Output::Transmit(conn));
            }
        }
        self.advance(now, conn);
    }

    fn note_cursors(&mut self, request: &Request, reply: &RawDocument) {
        let cursor = reply.get_document("cursor");
        let Ok(id) = cursor.and_then(|cursor| cursor.get_i64("id")) else {
            return;
        };
        let cursors = &mut self.routing.cursors;
        if id != 0 {
            cursors.insert(id);
        } else if let Some(ended) = integer_field(&request.command, "getMore") {
            cursors.remove(&ended);
        }
        while cursors.len() > self.options.limits.max_cursors {
            cursors.pop_first();
        }
    }
}

/// The shard's reply with what a fail point adds to it.
fn changed(reply: &RawDocument, effect: Option<FailEffect>) -> Option<RawDocumentBuf> {
    let Some(effect) = effect.filter(|e| e.concern.is_some() || e.labels.is_some()) else {
        return Some(reply.to_owned());
    };
    let mut reply: Document = owned(reply)?;
    if let Some(concern) = effect.concern {
        reply.insert("writeConcernError", concern);
    }
    if let Some(labels) = effect.labels {
        let labels: Vec<Bson> = labels.into_iter().map(Bson::from).collect();
        reply.insert("errorLabels", labels);
    }
    RawDocumentBuf::try_from(&reply).ok()
}
