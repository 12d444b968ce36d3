//! The way between a socket and the messages of a connection: layers, if there are any, and above
//! them the buffer that messages are read in.

use super::{Arrival, Awaited, Layer, Place, messages, stack::Stack};
use crate::{
    error::Error,
    wire::{FrameDecoder, WireError},
};
use bson::RawDocument;
use std::fmt;

/// Size in bytes above which an output buffer is given back to the allocator once it was sent.
const MAX_IDLE_OUTPUT_BYTES: usize = 4096;

/// Bytes of the largest message that is accepted before the hello reply, and on a monitor's
/// connection. A hello reply of many members and tags has some tens of kilobytes.
const MAX_HANDSHAKE_MESSAGE_BYTES: usize = 256 * 1024;

/// Turns messages into bytes for the socket and bytes from the socket into messages.
///
/// To send: append a message with [`send`](Self::send), then write [`output`](Self::output) and say
/// how much went out with [`sent`](Self::sent). To receive: read into [`input`](Self::input), say
/// how much came with [`received`](Self::received), then ask for the next message.
///
/// Without layers the bytes of a read go straight into the buffer that messages are read in.
pub struct Transport {
    /// `None` if bytes pass unchanged.
    stack: Option<Box<Stack>>,
    decoder: FrameDecoder,
    output: Vec<u8>,
    sent: usize,
}

/// Buffers may hold secrets, so only their sizes are shown.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.stack.as_ref().map(|stack| stack.names());
        f.debug_struct("Transport")
            .field("layers", &names.unwrap_or_default())
            .field("output_bytes", &self.output().len())
            .finish_non_exhaustive()
    }
}

impl Transport {
    /// Returns the transport of a new socket with these layers, the lowest first.
    #[must_use]
    pub fn new(layers: Vec<Box<dyn Layer>>) -> Self {
        let mut output = Vec::new();
        Self {
            stack: Stack::new(layers, &mut output),
            decoder: FrameDecoder::new(),
            output,
            sent: 0,
        }
    }

    /// Returns a transport for a handshake, which accepts no large messages.
    pub(super) fn for_handshake(layers: Vec<Box<dyn Layer>>) -> Self {
        let mut transport = Self::new(layers);
        transport.set_max_bytes(MAX_HANDSHAKE_MESSAGE_BYTES);
        transport
    }

    /// Sets the largest message that is accepted from the peer.
    pub fn set_max_bytes(&mut self, bytes: usize) {
        self.decoder.set_max_bytes(bytes);
    }

    /// Queues the messages that `write` appends to the buffer it is given. Only once all layers are
    /// open.
    pub fn send<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        match &mut self.stack {
            None => write(&mut self.output),
            Some(stack) => stack.send(write, &mut self.output),
        }
    }

    /// Says that the first `count` bytes of [`output`](Self::output) were written.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        assert!(
            self.sent <= self.output.len(),
            "more was sent than there was"
        );
        if self.sent == self.output.len() {
            self.sent = 0;
            self.output.clear();
            self.output.shrink_to(MAX_IDLE_OUTPUT_BYTES);
        }
    }

    /// Takes back what was queued and of which nothing was written; false if that cannot be. What a
    /// layer has changed has to be sent: the peer of TLS counts its records.
    pub fn retract_request(&mut self) -> bool {
        if self.stack.is_some() || self.sent > 0 || self.output.is_empty() {
            return false;
        }
        self.output.clear();
        self.output.shrink_to(MAX_IDLE_OUTPUT_BYTES);
        true
    }

    /// Returns room for the next read. Never empty.
    pub fn input(&mut self) -> Result<&mut [u8], WireError> {
        match &mut self.stack {
            None => self.decoder.spare(),
            Some(stack) => Ok(stack.input()),
        }
    }

    /// Says that the first `count` bytes of [`input`](Self::input) were filled. The error of a
    /// layer is told once the messages before it were taken.
    pub fn received(&mut self, count: usize) -> Result<(), Error> {
        let Some(stack) = &mut self.stack else {
            self.decoder.filled(count);
            return Ok(());
        };
        let result = stack.received(count, &mut self.decoder, &mut self.output);
        self.drop_empty_stack();
        result
    }

    /// Takes in bytes that were read into a buffer of the caller's. Otherwise as
    /// [`received`](Self::received).
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(stack) = &mut self.stack else {
            self.decoder.extend(bytes);
            return Ok(());
        };
        let result = stack.receive(bytes, &mut self.decoder, &mut self.output);
        self.drop_empty_stack();
        result
    }

    /// Returns what has arrived of the message that is awaited. An error if it is another message,
    /// if it is not valid, or if it will never be whole because the peer ended a layer.
    #[inline]
    pub(crate) fn next(&mut self, awaited: &mut Awaited) -> Result<Arrival<'_>, Error> {
        let end = self.stack.as_ref().and_then(|stack| stack.end());
        messages::next(&mut self.decoder, awaited, end)
    }

    /// Drops the first `length` bytes, a message that was dealt with.
    pub fn consume(&mut self, length: usize) {
        self.decoder.consume(length);
    }

    /// Moves a whole message out; the range says where in the buffer it stands.
    pub fn take_frame(&mut self, length: usize) -> (Vec<u8>, std::ops::Range<usize>) {
        self.decoder.take_frame(length)
    }

    /// Takes the bytes by which layers say why a connection is given up.
    pub(crate) fn take_farewell(&mut self) -> Vec<u8> {
        if self.stack.is_none() {
            return Vec::new();
        }
        let bytes = self.output().to_vec();
        self.sent(bytes.len());
        bytes
    }

    /// Frees what an idle connection does not need.
    pub fn rest(&mut self) {
        if let Some(stack) = &mut self.stack {
            stack.rest();
        }
    }

    /// Frees every buffer that holds nothing, for a connection that is used every few seconds.
    pub fn free(&mut self) {
        self.rest();
        self.decoder.free();
        if self.output().is_empty() {
            self.sent = 0;
            self.output = Vec::new();
        }
    }

    /// Returns the lowest layer whose opening conversation goes on; `None` once messages may pass.
    #[must_use]
    pub fn opening(&self) -> Option<&dyn Layer> {
        self.stack.as_ref()?.opening()
    }

    /// Returns the bytes to write to the socket.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Returns the body of a whole message that was not consumed.
    pub(crate) fn body(&self, place: &Place) -> Option<&RawDocument> {
        let bytes = self.decoder.buffered().get(place.body.clone())?;
        RawDocument::from_bytes(bytes).ok()
    }

    /// An error if the peer ended a layer, or a layer failed: TLS by `close_notify`, by a fatal
    /// alert, or by a record that is not valid. What the peer sent before may still be there.
    pub fn ended(&self) -> Result<(), Error> {
        match self.stack.as_ref().and_then(|stack| stack.end()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// True if the peer sent bytes that no message asked for, or part of a message, or ended a
    /// layer.
    #[must_use]
    pub fn has_input(&self) -> bool {
        let is_ended = self.stack.as_ref().is_some_and(|s| s.end().is_some());
        !self.decoder.is_empty() || self.decoder.is_skipping() || is_ended
    }

    /// True if part of a layer's unit of transfer, such as a TLS record, is there, and the rest is
    /// on its way.
    #[must_use]
    pub fn is_mid_record(&self) -> bool {
        self.stack
            .as_ref()
            .is_some_and(|stack| stack.is_mid_record())
    }

    #[cfg(test)]
    pub(super) fn buffered_bytes(&self) -> usize {
        self.decoder.buffered().len()
    }

    fn drop_empty_stack(&mut self) {
        if self.stack.as_ref().is_some_and(|stack| stack.is_empty()) {
            self.stack = None;
        }
    }
}
