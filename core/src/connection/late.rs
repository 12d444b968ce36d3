//! Replies that come after whoever asked has left.

use super::Transport;
use crate::{
    error::Error,
    wire::{Flags, HEADER_BYTES, OpCode},
};

/// A reply that nobody waits for any more: it is known by its number, and thrown away as it
/// arrives. It may be as long as messages may be, and its bytes are never held together.
#[derive(Debug)]
pub(crate) struct LateReply {
    /// The wire's number of the request.
    request_id: i32,
    /// The header was seen and answers the request.
    is_known: bool,
}

impl LateReply {
    pub(crate) fn new(request_id: i32) -> Self {
        Self {
            request_id,
            is_known: false,
        }
    }

    /// Looks at what arrived. True once the whole reply is gone and nothing else is there; an error
    /// if the bytes are no such reply.
    pub(crate) fn look(&mut self, transport: &mut Transport) -> Result<bool, Error> {
        let end = transport.ended();
        let decoder = transport.decoder();
        if !self.is_known {
            let Some(header) = decoder.header()? else {
                return end.map(|()| false);
            };
            let flags = decoder.buffered().get(HEADER_BYTES..HEADER_BYTES + 4);
            let Some(Ok(flags)) = flags.map(<[u8; 4]>::try_from) else {
                return end.map(|()| false);
            };
            if header.op_code != OpCode::Msg || header.response_to != self.request_id {
                return Err(Error::protocol(format!(
                    "a message of kind {:?} to request {} where the late reply to {} was due",
                    header.op_code, header.response_to, self.request_id
                )));
            }
            if Flags::from_bits(u32::from_le_bytes(flags)).contains(Flags::MORE_TO_COME) {
                return Err(Error::protocol("a late reply announces more replies"));
            }
            self.is_known = true;
            decoder.skip(header.length);
        }
        end?;
        if decoder.is_skipping() {
            return Ok(false);
        }
        if !decoder.is_empty() {
            return Err(Error::protocol("more came after a late reply"));
        }
        Ok(true)
    }
}
