//! One connection of a scripted server without its socket: takes bytes and gives steps.

use super::{Responder, Step};
use onionskin_core::unstable::wire::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, WireError};

/// Assembles messages from bytes and has the responder answer them.
#[derive(Debug)]
pub(super) struct Session {
    responder: Responder,
    number: u64,
    received: Vec<u8>,
}

impl Session {
    pub(super) const fn new(responder: Responder, number: u64) -> Self {
        Self {
            responder,
            number,
            received: Vec::new(),
        }
    }

    pub(super) fn handle_received(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Returns the steps that answer the next message; `None` if the message is not complete yet.
    pub(super) fn poll_steps(&mut self) -> Result<Option<Vec<Step>>, WireError> {
        if self.received.len() < HEADER_BYTES {
            return Ok(None);
        }
        let header = Header::decode(&self.received, MAX_MESSAGE_BYTES)?;
        if self.received.len() < header.length {
            return Ok(None);
        }
        let rest = self.received.split_off(header.length);
        let frame = std::mem::replace(&mut self.received, rest);
        self.responder.answer(self.number, header, &frame).map(Some)
    }
}
