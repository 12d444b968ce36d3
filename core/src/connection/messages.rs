//! The function that turns bytes into messages.
//!
//! [`next`] is used by monitors, handshakes, exchanges and drains of late replies. An [`Awaited`]
//! says which message each of them waits for. The checks are the same: the message has no more
//! bytes than are accepted, is an OP_MSG, sets no unknown required flag, answers the request that
//! is waited for, and announces another reply only where one may follow. They are made on the first
//! 20 bytes of a message, before room for the rest is made.

use crate::{
    error::Error,
    wire::{Flags, FrameDecoder, HEADER_BYTES, Header, Message, OpCode, WireError},
};
use bson::RawDocument;
use std::ops::Range;

/// Bytes of a message that the checks need: the header and the flags.
const HEAD_BYTES: usize = HEADER_BYTES + 4;

/// The message that may come next on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited {
    /// No message, because no request is outstanding.
    Nothing,
    /// The one reply to this request.
    Reply(i32),
    /// A reply to this request, or to the message before it, that may announce another one
    /// (MSG-20, MSG-21).
    Stream(i32),
    /// The one reply to this request, which is not read. Its bytes are dropped as they arrive and
    /// are never held together.
    Discarded(i32),
    /// The rest of a reply that is dropped; its first bytes passed the checks.
    Rest,
}

/// What has arrived of the message that is awaited.
#[derive(Debug)]
pub(crate) enum Arrival<'a> {
    /// Not the whole message yet.
    Pending,
    /// The whole message. It stays in the connection's buffer until it is consumed.
    Whole(Incoming<'a>),
    /// The whole message. All of it was dropped.
    Dropped,
}

/// A whole message in the buffer that it was received into.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    /// The sender's number of the message, which the next reply of a stream refers to (MSG-21).
    pub(crate) request_id: i32,
    /// Another reply follows by itself.
    pub(crate) more_to_come: bool,
    /// The body.
    pub(crate) body: &'a RawDocument,
    /// Where the message stands.
    pub(crate) place: Place,
}

/// Where a whole message stands: at the front of its connection's buffer.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Bytes of the message, header included.
    pub(crate) length: usize,
    /// The bytes of the message that are its body.
    pub(crate) body: Range<usize>,
}

impl Awaited {
    /// Checks the first bytes of a message.
    #[inline]
    fn check(self, header: &Header, flags: Flags) -> Result<(), Error> {
        let (Self::Reply(request_id) | Self::Stream(request_id) | Self::Discarded(request_id)) =
            self
        else {
            return Err(Error::protocol(
                "the server sent a message although no request is outstanding",
            ));
        };
        if header.op_code != OpCode::Msg {
            return Err(Error::protocol(format!(
                "the server sent a message of kind {:?} where the reply to request {request_id} \
                 was due",
                header.op_code
            )));
        }
        if header.response_to != request_id {
            return Err(Error::protocol(format!(
                "the server sent a reply to request {} where the reply to request {request_id} \
                 was due",
                header.response_to
            )));
        }
        if flags.contains(Flags::MORE_TO_COME) && !matches!(self, Self::Stream(_)) {
            return Err(Error::protocol(
                "the server announced more replies than were asked for",
            ));
        }
        Ok(())
    }
}

/// Returns what has arrived of the message that is awaited. An error if it is another message, if
/// it is not valid, or if it will never be whole because of `end`: why no more bytes will come.
///
/// A whole message that came before the end counts, and is given again until it is consumed. A
/// message that was dropped does not: its connection cannot be used any more.
#[inline]
pub(super) fn next<'a>(
    decoder: &'a mut FrameDecoder,
    awaited: &mut Awaited,
    end: Option<&Error>,
) -> Result<Arrival<'a>, Error> {
    if matches!(awaited, Awaited::Rest) {
        return rest(decoder, end);
    }
    let Some((header, flags)) = head(decoder)? else {
        return pending(end);
    };
    awaited.check(&header, flags)?;
    if matches!(awaited, Awaited::Discarded(_)) {
        *awaited = Awaited::Rest;
        decoder.skip(header.length);
        return rest(decoder, end);
    }
    let Some(frame) = decoder.buffered().get(..header.length) else {
        return pending(end);
    };
    let message = Message::decode(frame)?;
    let body = message.body.as_bytes();
    let start = body.as_ptr() as usize - frame.as_ptr() as usize;
    Ok(Arrival::Whole(Incoming {
        request_id: header.request_id,
        more_to_come: message.flags.contains(Flags::MORE_TO_COME),
        body: message.body,
        place: Place {
            length: header.length,
            body: start..start + body.len(),
        },
    }))
}

/// The header and the flags of the next message, or `None` until they are there.
#[inline]
fn head(decoder: &FrameDecoder) -> Result<Option<(Header, Flags)>, WireError> {
    let Some(header) = decoder.header()? else {
        return Ok(None);
    };
    if header.length < HEAD_BYTES {
        return Err(WireError::Truncated("the flags"));
    }
    let bytes = decoder.buffered().get(HEADER_BYTES..);
    let Some(bits) = bytes.and_then(|bytes| bytes.first_chunk::<4>()) else {
        return Ok(None);
    };
    // The flags of another kind of message stand elsewhere, and it is refused by its kind.
    let flags = match header.op_code {
        OpCode::Msg => Flags::decode(u32::from_le_bytes(*bits))?,
        OpCode::Reply | OpCode::Query | OpCode::Compressed => Flags::default(),
    };
    Ok(Some((header, flags)))
}

/// Returns whether a reply that nobody wants has arrived to its end.
fn rest(decoder: &FrameDecoder, end: Option<&Error>) -> Result<Arrival<'static>, Error> {
    if end.is_some() || decoder.is_skipping() {
        return pending(end);
    }
    if !decoder.is_empty() {
        return Err(Error::protocol(
            "the server sent more than the one reply that was due",
        ));
    }
    Ok(Arrival::Dropped)
}

fn pending(end: Option<&Error>) -> Result<Arrival<'static>, Error> {
    match end {
        Some(error) => Err(error.clone()),
        None => Ok(Arrival::Pending),
    }
}
