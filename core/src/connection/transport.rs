//! The transport of a connection: its layers, if there are any, and the buffers of its messages.

use super::{Arrival, Awaited, Layer, Place, messages, stack::Stack};
use crate::{
    compression::{Compression, CompressionPlan, Workspace},
    error::Error,
    options::Compressor,
    tls::{CertId, RevocationStatus, StatusQuery, TlsFacts},
    wire::{FrameDecoder, MessageWriter, WireError},
};
use bson::RawDocument;
use std::{fmt, sync::Arc};

/// The capacity in bytes to which the output buffer is reduced once everything was sent.
const MAX_IDLE_OUTPUT_BYTES: usize = 4096;

/// The size in bytes of the largest message that is accepted before a connection is established,
/// and on a monitor's connection. The hello reply of a replica set with many members and tags can
/// have tens of kilobytes.
pub(super) const MAX_HANDSHAKE_MESSAGE_BYTES: usize = 256 * 1024;

/// The size in bytes of the largest compressed message that is accepted in these places, once it is
/// decompressed. It is decompressed under the lock of the client, in less than a millisecond.
/// Servers do not compress the replies to requests that were not compressed.
pub(super) const MAX_HANDSHAKE_UNPACKED_BYTES: usize = 128 * 1024;

/// Turns messages into bytes for the socket, and bytes from the socket into messages.
///
/// To send, append a message with [`send`](Self::send), write [`output`](Self::output) to the
/// socket, and report the number of written bytes with [`sent`](Self::sent). To receive, read into
/// [`input`](Self::input), report the number of bytes with [`received`](Self::received), then take
/// the next message.
///
/// Without layers, the bytes of a read go straight into the buffer of messages.
pub struct Transport {
    /// The layers; `None` if bytes pass unchanged.
    stack: Option<Box<Stack>>,
    /// The compression of messages; `None` if the client has no compressors.
    compression: Option<Box<Compression>>,
    decoder: FrameDecoder,
    output: Vec<u8>,
    sent: usize,
}

/// Shows the names of the layers and the size of the output, not the content of buffers, which may
/// hold secrets.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.stack.as_ref().map(|stack| stack.names());
        f.debug_struct("Transport")
            .field("layers", &names.unwrap_or_default())
            .field("compression", &self.compression)
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
            compression: None,
            decoder: FrameDecoder::new(),
            output,
            sent: 0,
        }
    }

    /// Returns a transport for a handshake, with its [limits](Self::limit_to_handshake).
    pub(super) fn for_handshake(
        layers: Vec<Box<dyn Layer>>,
        compression: Option<Arc<CompressionPlan>>,
    ) -> Self {
        let mut transport = Self::new(layers);
        transport.compression = compression.map(|plan| Box::new(Compression::new(plan)));
        transport.limit_to_handshake();
        transport
    }

    /// Accepts from now on messages of at most [`MAX_HANDSHAKE_MESSAGE_BYTES`], and compressed ones
    /// of at most [`MAX_HANDSHAKE_UNPACKED_BYTES`].
    pub(super) fn limit_to_handshake(&mut self) {
        let bytes = self.max_bytes().min(MAX_HANDSHAKE_MESSAGE_BYTES);
        self.decoder.set_max_bytes(bytes);
        if let Some(compression) = &mut self.compression {
            compression.set_max_bytes(bytes.min(MAX_HANDSHAKE_UNPACKED_BYTES));
        }
    }

    /// Chooses the compressor of requests from those in the server's reply to the hello.
    pub(super) fn negotiate_compression(&mut self, server: &[String]) {
        if let Some(compression) = &mut self.compression {
            compression.negotiate(server);
        }
    }

    /// Returns the compressor of requests; `None` if requests are not compressed.
    #[must_use]
    pub fn compressor(&self) -> Option<Compressor> {
        self.compression.as_ref()?.chosen()
    }

    /// Sets the size in bytes of the largest message that is accepted from the peer.
    pub fn set_max_bytes(&mut self, bytes: usize) {
        self.decoder.set_max_bytes(bytes);
        if let Some(compression) = &mut self.compression {
            compression.set_max_bytes(bytes);
        }
    }

    /// Returns the size in bytes of the largest message that is accepted from the peer.
    pub(super) const fn max_bytes(&self) -> usize {
        self.decoder.max_bytes()
    }

    /// Queues the messages that `write` appends to its buffer. All layers must be open.
    pub fn send<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        match &mut self.stack {
            None => write(&mut self.output),
            Some(stack) => stack.send(write, &mut self.output),
        }
    }

    /// True if the bytes of messages are sent as they are, neither encrypted nor compressed.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.stack.is_none() && self.compressor().is_none()
    }

    /// Queues the message that `write` appends to its buffer, compressed if a compressor was
    /// chosen. A message is sent uncompressed if it would otherwise exceed `max_bytes`.
    pub(crate) fn send_compressed<T>(
        &mut self,
        max_bytes: usize,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        let Some(compression) = self.compression.as_deref_mut() else {
            return self.send(write);
        };
        let mut message = compression.take_message();
        let result = write(&mut message);
        let mut pack = |buffer: &mut Vec<u8>| compression.pack(&message, max_bytes, buffer);
        match &mut self.stack {
            None => pack(&mut self.output),
            Some(stack) => stack.send(pack, &mut self.output),
        }
        compression.keep_message(message);
        result
    }

    /// Returns the sizes in bytes of a message with this document, uncompressed and as it would be
    /// sent.
    pub(super) fn compress_sample(&mut self, document: &RawDocument) -> (usize, usize) {
        let mut plain = Vec::new();
        MessageWriter::begin(&mut plain, 0, 0).body(document).end();
        let mut sent = Vec::new();
        match &mut self.compression {
            Some(compression) => compression.pack(&plain, usize::MAX, &mut sent),
            None => sent.clone_from(&plain),
        }
        (plain.len(), sent.len())
    }

    /// Exchanges the memory that compressors use with another one. Does nothing if the connection
    /// has no compressors.
    pub(crate) fn swap_workspace(&mut self, other: &mut Workspace) {
        if let Some(compression) = &mut self.compression {
            compression.swap_workspace(other);
        }
    }

    /// True while a message was decompressed in part.
    #[inline]
    pub(crate) fn is_unpacking(&self) -> bool {
        self.compression.as_ref().is_some_and(|c| c.is_unpacking())
    }

    /// True if messages of the connection can be compressed.
    pub(crate) const fn has_compression(&self) -> bool {
        self.compression.is_some()
    }

    /// Records that the first `count` bytes of [`output`](Self::output) were written. Panics if the
    /// output has fewer bytes.
    #[inline]
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

    /// Withdraws the queued output if none of it was written. Returns false if part of it was
    /// written, if there is no output, or if there are layers. The output of layers must be sent,
    /// because a TLS peer counts records.
    pub fn retract_request(&mut self) -> bool {
        if !self.is_retractable() {
            return false;
        }
        self.output.clear();
        self.output.shrink_to(MAX_IDLE_OUTPUT_BYTES);
        true
    }

    /// True if [`retract_request`](Self::retract_request) can withdraw the queued output.
    pub(crate) fn is_retractable(&self) -> bool {
        self.stack.is_none() && self.sent == 0 && !self.output.is_empty()
    }

    /// Returns the buffer for the next read, which is never empty.
    #[inline]
    pub fn input(&mut self) -> Result<&mut [u8], WireError> {
        match &mut self.stack {
            None => self.decoder.spare(),
            Some(stack) => Ok(stack.input()),
        }
    }

    /// Processes the first `count` bytes of [`input`](Self::input). An error of a layer is returned
    /// later, once the messages before it were taken.
    #[inline]
    pub fn received(&mut self, count: usize) -> Result<(), Error> {
        let Some(stack) = &mut self.stack else {
            self.decoder.filled(count);
            return Ok(());
        };
        let result = stack.received(count, &mut self.decoder, &mut self.output);
        self.drop_empty_stack();
        result
    }

    /// Processes bytes from a buffer of the caller, like [`received`](Self::received).
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(stack) = &mut self.stack else {
            self.decoder.extend(bytes);
            return Ok(());
        };
        let result = stack.receive(bytes, &mut self.decoder, &mut self.output);
        self.drop_empty_stack();
        result
    }

    /// Returns how much of the expected message has arrived. Fails if another message arrives, if
    /// the message is not valid, or if a layer ended before the message was complete.
    #[inline]
    pub(crate) fn next(&mut self, awaited: &mut Awaited) -> Result<Arrival<'_>, Error> {
        let end = self.stack.as_ref().and_then(|stack| stack.end());
        match &mut self.compression {
            None => messages::next(&mut self.decoder, awaited, end),
            Some(compression) => {
                messages::next_unpacked(&mut self.decoder, compression, awaited, end)
            }
        }
    }

    /// Returns the next query of a layer about the revocation of the server's certificate.
    pub(super) fn poll_status_query(&mut self) -> Option<StatusQuery> {
        self.stack.as_mut()?.poll_status_query()
    }

    /// Gives the answer to a query to the layers. Fails if the certificate was revoked.
    pub(super) fn handle_status(
        &mut self,
        id: &CertId,
        status: RevocationStatus,
    ) -> Result<(), Error> {
        if let Some(stack) = &mut self.stack {
            stack.handle_status(id, status, &mut self.decoder, &mut self.output)?;
        }
        self.ended()
    }

    /// Drops the first `length` bytes of the buffer, which are a processed message.
    #[inline]
    pub fn consume(&mut self, length: usize) {
        if self.take_unpacked().is_none() {
            self.decoder.consume(length);
        }
    }

    /// Moves the complete message of `length` bytes out of the transport. Returns a buffer and the
    /// range of the message in that buffer.
    pub fn take_frame(&mut self, length: usize) -> (Vec<u8>, std::ops::Range<usize>) {
        match self.take_unpacked() {
            Some(message) => (message, 0..length),
            None => self.decoder.take_frame(length),
        }
    }

    /// Takes the output that is left when the client gives up the connection, such as a TLS alert
    /// that states the reason. Empty without layers.
    pub(crate) fn take_closing_output(&mut self) -> Vec<u8> {
        if self.stack.is_none() {
            return Vec::new();
        }
        let bytes = self.output().to_vec();
        self.sent(bytes.len());
        bytes
    }

    /// Frees the buffers of the layers, which an idle connection does not need.
    #[inline]
    pub fn free_idle_buffers(&mut self) {
        if let Some(stack) = &mut self.stack {
            stack.free_idle_buffers();
        }
        if let Some(compression) = &mut self.compression {
            compression.free_workspace();
        }
    }

    /// Frees every empty buffer, for a connection that is idle most of the time.
    pub fn free(&mut self) {
        self.free_idle_buffers();
        self.decoder.free();
        if self.output().is_empty() {
            self.sent = 0;
            self.output = Vec::new();
        }
    }

    /// Returns the lowest layer whose opening conversation is not over; `None` once messages may
    /// pass.
    #[must_use]
    pub fn opening(&self) -> Option<&dyn Layer> {
        self.stack.as_ref()?.opening()
    }

    /// Returns the facts of TLS once its handshake is over; `None` without TLS.
    pub(super) fn tls_facts(&self) -> Option<TlsFacts> {
        self.stack.as_ref()?.tls_facts()
    }

    /// Returns the bytes to write to the socket.
    #[must_use]
    #[inline]
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Returns the bytes of the body of a complete message that was not consumed. They are one
    /// document.
    pub(crate) fn body(&self, place: &Place) -> Option<&[u8]> {
        let unpacked = self.compression.as_ref().and_then(|c| c.unpacked());
        let message = unpacked.unwrap_or_else(|| self.decoder.buffered());
        message.get(place.body.clone())
    }

    /// Fails if the peer ended a layer or a layer failed. TLS ends with `close_notify`, a fatal
    /// alert or an invalid record. Messages that came before may still be in the buffer.
    pub fn ended(&self) -> Result<(), Error> {
        match self.stack.as_ref().and_then(|stack| stack.end()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// True if the buffer holds bytes of a message, if a message is being dropped, or if a layer
    /// has ended.
    #[must_use]
    pub fn has_input(&self) -> bool {
        let is_ended = self.stack.as_ref().is_some_and(|s| s.end().is_some());
        let unpacked = self.compression.as_ref().and_then(|c| c.unpacked());
        unpacked.is_some() || !self.decoder.is_empty() || self.decoder.is_skipping() || is_ended
    }

    /// True if the transport [has input](Self::has_input) after the complete message of `length`
    /// bytes that was not consumed.
    pub(crate) fn has_input_after(&self, length: usize) -> bool {
        let is_unpacked = self.compression.as_ref().and_then(|c| c.unpacked());
        let rest = match is_unpacked {
            Some(_) => self.decoder.buffered().len(),
            None => self.decoder.buffered().len().saturating_sub(length),
        };
        let is_ended = self.stack.as_ref().is_some_and(|s| s.end().is_some());
        rest > 0 || self.decoder.is_skipping() || is_ended
    }

    /// True if a layer has received part of a unit, such as a TLS record, and not the rest.
    #[must_use]
    pub fn is_mid_record(&self) -> bool {
        self.stack
            .as_ref()
            .is_some_and(|stack| stack.is_mid_record())
    }

    #[inline]
    fn take_unpacked(&mut self) -> Option<Vec<u8>> {
        self.compression.as_mut()?.take_unpacked()
    }

    /// Returns the number of bytes that were received and not consumed.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.decoder.buffered().len()
    }

    fn drop_empty_stack(&mut self) {
        if self.stack.as_ref().is_some_and(|stack| stack.is_empty()) {
            self.stack = None;
        }
    }
}
