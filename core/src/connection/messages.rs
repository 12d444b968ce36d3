//! The function that turns bytes into messages.
//!
//! Monitors, handshakes, exchanges and drains of late replies all use [`next`]. Each of them gives
//! an [`Awaited`] with the message that it expects. The checks are the same for all:
//!
//! - The message is not larger than the limit, also once it is decompressed.
//! - The message is an OP_MSG, or a compressed OP_MSG if compression was negotiated.
//! - The message sets no unknown required flag.
//! - The message answers the expected request.
//! - The message announces another reply only where one may follow.
//!
//! The checks need only the first 25 bytes of a message, so that a wrong message is refused before
//! the rest of it arrives. Only the flags of a compressed message are checked later, when it was
//! decompressed.

use super::transport::MAX_HANDSHAKE_UNPACKED_BYTES;
use crate::{
    compression::Compression,
    error::Error,
    wire::{Flags, FrameDecoder, HEADER_BYTES, Header, Message, OpCode, WireError},
};
use bson::RawDocument;
use std::ops::Range;

/// The size of the part of a message that the checks need: the header and the flags.
const HEAD_BYTES: usize = HEADER_BYTES + 4;

/// The message that is expected next on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited {
    /// No message, because no request is outstanding.
    Nothing,
    /// The only reply to the request with this id.
    Reply(i32),
    /// A reply that may announce another one, and that answers the request or the previous reply
    /// with this id (MSG-20, MSG-21).
    Stream(i32),
    /// The only reply to the request with this id. The bytes of the reply are dropped as they
    /// arrive, and are not read.
    Discarded(i32),
    /// The only reply to the request with this id, which is read unless it is large. The bytes of a
    /// large reply are dropped as they arrive.
    Small(i32),
    /// The rest of a reply that is dropped. Its first bytes passed the checks.
    Rest,
}

/// The part of the expected message that has arrived.
#[derive(Debug)]
pub(crate) enum Arrival<'a> {
    /// The message is not complete yet.
    Pending,
    /// The message has arrived, and a slice of it was decompressed. The next call goes on.
    Unpacking,
    /// The complete message, which stays in the connection's buffer until it is consumed.
    Whole(Incoming<'a>),
    /// The end of a message that is dropped. None of its bytes are left.
    Dropped,
}

/// A complete message in the buffer in which it arrived.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    /// The `requestID` of the message, to which the next reply of a stream refers (MSG-21).
    pub(crate) request_id: i32,
    /// True if another reply follows without a request.
    pub(crate) more_to_come: bool,
    /// The body of the message.
    pub(crate) body: &'a RawDocument,
    /// The position of the message in the buffer.
    pub(crate) place: Place,
}

/// The position of a complete message. A message is at the front of its connection's buffer.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The size of the message in bytes, header included.
    pub(crate) length: usize,
    /// The range of the body within the message.
    pub(crate) body: Range<usize>,
}

/// The size in bytes of the largest reply that [`Awaited::Small`] reads. If the reply is
/// compressed, it can have at most [`MAX_HANDSHAKE_UNPACKED_BYTES`] once it is decompressed.
pub(super) const MAX_SMALL_BYTES: usize = 1024 * 1024;

impl Awaited {
    /// True if the bytes of a message with these sizes are dropped as they arrive.
    #[inline]
    const fn is_dropped(self, bytes: usize, unpacked_bytes: usize) -> bool {
        match self {
            Self::Discarded(_) => true,
            Self::Small(_) => {
                bytes > MAX_SMALL_BYTES || unpacked_bytes > MAX_HANDSHAKE_UNPACKED_BYTES
            }
            Self::Nothing | Self::Reply(_) | Self::Stream(_) | Self::Rest => false,
        }
    }

    /// Checks that the message with this header and these flags is the expected one.
    #[inline]
    fn check(self, header: &Header, flags: Flags) -> Result<(), Error> {
        self.check_header(header, OpCode::Msg)?;
        if flags.contains(Flags::MORE_TO_COME) && !matches!(self, Self::Stream(_)) {
            return Err(Error::protocol(
                "the server announced another reply, which the request does not permit",
            ));
        }
        Ok(())
    }

    /// Checks that the message with this header is the expected one.
    #[inline]
    fn check_header(self, header: &Header, op_code: OpCode) -> Result<(), Error> {
        let (Self::Reply(request_id)
        | Self::Stream(request_id)
        | Self::Discarded(request_id)
        | Self::Small(request_id)) = self
        else {
            return Err(Error::protocol(
                "the server sent a message although no request is outstanding",
            ));
        };
        if header.op_code != op_code {
            return Err(Error::protocol(format!(
                "the server sent a message of kind {:?} instead of the reply to request \
                 {request_id}",
                header.op_code
            )));
        }
        if header.response_to != request_id {
            return Err(Error::protocol(format!(
                "the server sent a reply to request {} instead of the reply to request \
                 {request_id}",
                header.response_to
            )));
        }
        Ok(())
    }
}

/// Returns how much of the expected message has arrived. Fails if another message arrives, if the
/// message is not valid, or if the message is not complete and `end` has the reason why no more
/// bytes will come.
///
/// A complete message is returned even if `end` is given, and by each call until the message is
/// consumed. For a reply that is to be dropped, the call fails if `end` is given, even if the reply
/// is complete, because the connection cannot be used any more.
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
    if awaited.is_dropped(header.length, 0) {
        *awaited = Awaited::Rest;
        decoder.skip(header.length);
        return rest(decoder, end);
    }
    let Some(frame) = decoder.buffered().get(..header.length) else {
        return pending(end);
    };
    whole(&header, frame)
}

/// Returns how much of the expected message has arrived, like [`next`], on a connection with
/// compression. A compressed message is decompressed when it is complete, one slice for each call.
pub(super) fn next_unpacked<'a>(
    decoder: &'a mut FrameDecoder,
    compression: &'a mut Compression,
    awaited: &mut Awaited,
    end: Option<&Error>,
) -> Result<Arrival<'a>, Error> {
    if compression.unpacked().is_none() && !matches!(awaited, Awaited::Rest) {
        match decoder.header()? {
            Some(header) if header.op_code == OpCode::Compressed => {
                awaited.check_header(&header, OpCode::Compressed)?;
                let (frame, max_bytes) = (decoder.buffered(), decoder.max_bytes());
                let Some(head) = compression.head(&header, frame, max_bytes)? else {
                    return pending(end);
                };
                if awaited.is_dropped(header.length, head.uncompressed) {
                    // The flags are not known. If they announce another reply, the next exchange
                    // refuses that reply, because it answers no request.
                    *awaited = Awaited::Rest;
                    compression.stop_unpacking();
                    decoder.skip(header.length);
                    return rest(decoder, end);
                }
                if frame.len() < header.length {
                    return pending(end);
                }
                if !compression.unpack(&header, &head, frame)? {
                    return Ok(Arrival::Unpacking);
                }
                decoder.consume(header.length);
            }
            _ => return next(decoder, awaited, end),
        }
    }
    let Some(frame) = compression.unpacked() else {
        return next(decoder, awaited, end);
    };
    let header = Header::decode(frame, frame.len())?;
    let flags = flags(&header, frame)?.unwrap_or_default();
    awaited.check(&header, flags)?;
    whole(&header, frame)
}

/// Decodes a complete message.
#[inline]
fn whole<'a>(header: &Header, frame: &'a [u8]) -> Result<Arrival<'a>, Error> {
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

/// Returns the header and the flags of the next message; `None` until they have arrived.
#[inline]
fn head(decoder: &FrameDecoder) -> Result<Option<(Header, Flags)>, WireError> {
    let Some(header) = decoder.header()? else {
        return Ok(None);
    };
    Ok(flags(&header, decoder.buffered())?.map(|flags| (header, flags)))
}

/// Returns the flags of a message; `None` until they have arrived.
#[inline]
fn flags(header: &Header, frame: &[u8]) -> Result<Option<Flags>, WireError> {
    if header.length < HEAD_BYTES {
        return Err(WireError::Truncated("the flags"));
    }
    let bytes = frame.get(HEADER_BYTES..);
    let Some(bits) = bytes.and_then(|bytes| bytes.first_chunk::<4>()) else {
        return Ok(None);
    };
    // In other kinds of messages, these four bytes are not the flags of OP_MSG. `Awaited::check`
    // refuses such messages.
    match header.op_code {
        OpCode::Msg => Flags::decode(u32::from_le_bytes(*bits)).map(Some),
        OpCode::Reply | OpCode::Query | OpCode::Compressed => Ok(Some(Flags::default())),
    }
}

/// Returns whether a reply that is dropped has arrived completely. Fails if more bytes follow the
/// reply, and with the error `end` if it is given.
fn rest(decoder: &FrameDecoder, end: Option<&Error>) -> Result<Arrival<'static>, Error> {
    if end.is_some() || decoder.is_skipping() {
        return pending(end);
    }
    if !decoder.is_empty() {
        return Err(Error::protocol(
            "the server sent more bytes after the only expected reply",
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
