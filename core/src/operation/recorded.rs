//! The parts of a command and of the end of its exchange that a recording keeps, because decisions
//! of the client depend on them. The documents of the application are not among them.

use super::{
    Assessment, Exchange, Outcome, Pin, PinHolder, PinUse, Portion, Request, documents::Sequence,
    reply::Received,
};
use crate::session::SessionId;
use bson::{RawDocumentBuf, rawdoc};

/// Returns a reply that has opened a cursor, in place of the reply of the server.
pub(crate) fn reply_with_cursor() -> RawDocumentBuf {
    rawdoc! { "cursor": { "id": 1_i64, "ns": "d.c" }, "ok": 1 }
}

/// The state of an exchange that is given back.
#[derive(Debug, Default)]
pub(crate) struct ExchangeEnd {
    /// True from the start of the exchange until its reply is complete.
    pub(crate) is_under_way: bool,
    /// True if part of the output was not written.
    pub(crate) is_unwritten: bool,
    /// True if nothing of the output was written, so that the request can be retracted.
    pub(crate) is_retractable: bool,
    /// True if the connection has received bytes after the reply, or bytes that answer no request.
    pub(crate) has_input: bool,
    /// True if the reply, which the program has not taken, has opened a cursor.
    pub(crate) opens_cursor: bool,
    /// The session of the command, which the program can have kept.
    pub(crate) session: Option<SessionId>,
    /// True if the session ends with the operation.
    pub(crate) ends_session: bool,
    /// The use of a pin by the command, which the program can have changed.
    pub(crate) pin: Option<PinUse>,
    /// The pins that the client and the program have made.
    pub(crate) pinned: Vec<PinHolder>,
}

impl Exchange {
    /// Returns the state of the exchange. Fails with the name of the part that a recording cannot
    /// keep.
    pub(crate) fn recorded_end(&self, outcome: &Outcome) -> Result<ExchangeEnd, &'static str> {
        let state = &self.operation.exchange;
        let transport = &self.lease.transport;
        if state.is_under_way && transport.is_unpacking() {
            return Err("a reply that was decompressed in part");
        }
        Ok(ExchangeEnd {
            is_under_way: state.is_under_way,
            is_unwritten: !self.output().is_empty(),
            is_retractable: transport.is_retractable(),
            has_input: match &state.reply {
                Some(Received::InPlace(place)) => transport.has_input_after(place.length),
                Some(Received::Replaced(_)) | None => transport.has_input(),
            },
            opens_cursor: *outcome == Outcome::Abandoned && self.end_of_cursor().is_some(),
            session: self.operation.request.session,
            ends_session: self.operation.request.ends_session,
            pin: self.operation.request.pin.as_ref().map(|pin| match pin {
                PinUse::Borrowed(id) => PinUse::Borrowed(*id),
                PinUse::Last(Pin(holder)) => PinUse::Last(Pin(*holder)),
            }),
            pinned: state.pinned.clone(),
        })
    }

    /// Brings an exchange that was not begun into this state, with the assessment of its reply.
    pub(crate) fn replay_end(&mut self, end: ExchangeEnd, assessment: Option<Assessment>) {
        let state = &mut self.operation.exchange;
        state.is_under_way = end.is_under_way;
        state.assessment = assessment;
        state.pinned = end.pinned;
        if end.opens_cursor {
            state.reply = Some(Received::Replaced(reply_with_cursor().into_bytes()));
        }
        let transport = &mut self.lease.transport;
        if end.is_unwritten {
            transport.send(|output| output.extend([0, 0]));
            if !end.is_retractable {
                transport.sent(1);
            }
        }
        // While the reply is due, the bytes that have arrived do not count.
        if end.has_input && !end.is_under_way {
            // Bytes are only stored. The first byte is that of the layer in place of TLS.
            let _ = transport.receive(&[0, 0]);
        }
        self.operation.request.session = end.session;
        self.operation.request.ends_session = end.ends_session;
        self.operation.request.pin = end.pin;
    }

    /// Returns the `requestID` of the message.
    pub(crate) fn request_id(&self) -> i32 {
        self.operation.exchange.context.request_id
    }
}

impl Request {
    /// Returns the documents before the first statement that can affect several documents. The
    /// limits of the server decide whether a message has that statement. `None` if there is none.
    pub(crate) fn before_multi(&self) -> Option<Portion> {
        let sequence = self.sequence.as_ref()?;
        sequence.before_multi(usize::MAX, usize::MAX)
    }

    /// Gives the command a statement that can affect several documents, after these.
    pub(crate) fn replay_multi(&mut self, before: Portion) {
        self.sequence = Some(Sequence::recorded(before));
    }
}
