//! The layers of one connection, and how bytes pass through them.

use super::{Layer, LayerProgress, closed_by_peer};
use crate::{
    error::Error,
    tls::{CertId, RevocationStatus, StatusQuery, TlsFacts},
    wire::FrameDecoder,
};

/// The size of the buffer for one read from the socket, in bytes. A full TLS record with its header
/// fits.
const INPUT_BYTES: usize = 16 * 1024 + 512;

/// The smallest and the largest buffer for one read from a layer below the highest one, in bytes.
/// Between these limits, the buffer is as large as the bytes that the layer was given, because most
/// layers give about as many bytes as they take.
const PASSED_BYTES: (usize, usize) = (64, 16 * 1024);

/// The capacity in bytes to which the message buffer is reduced after use.
const MAX_IDLE_BYTES: usize = 4096;

/// The layers between a socket and the messages of a connection, the lowest first.
#[derive(Debug)]
pub(super) struct Stack {
    layers: Vec<Box<dyn Layer>>,
    /// The buffer for reads from the socket; empty while the connection is idle.
    input: Vec<u8>,
    /// The buffer for the message that the highest layer takes next; empty while the connection is
    /// idle.
    message: Vec<u8>,
    /// The error after which no more bytes come from the peer; `None` while more can come. The
    /// error is returned once all messages that came before it were taken.
    end: Option<Error>,
}

impl Stack {
    /// Returns the stack of these layers, the lowest first; `None` if there are none. Appends to
    /// `output` the first bytes that the layers send.
    pub(super) fn new(layers: Vec<Box<dyn Layer>>, output: &mut Vec<u8>) -> Option<Box<Self>> {
        if layers.is_empty() {
            return None;
        }
        let mut stack = Self {
            layers,
            input: Vec::new(),
            message: Vec::new(),
            end: None,
        };
        stack.flush(output);
        Some(Box::new(stack))
    }

    /// Returns the buffer for the next read from the socket, which is never empty.
    pub(super) fn input(&mut self) -> &mut [u8] {
        self.input.resize(INPUT_BYTES, 0);
        &mut self.input
    }

    /// Processes the first `count` bytes of [`input`](Self::input), like
    /// [`receive`](Self::receive).
    pub(super) fn received(
        &mut self,
        count: usize,
        decoder: &mut FrameDecoder,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let input = std::mem::take(&mut self.input);
        let result = self.receive(&input[..count], decoder, output);
        self.input = input;
        result
    }

    /// Passes bytes from the socket upwards through the layers. Bytes from the highest layer go to
    /// `decoder`. Bytes that the layers send are appended to `output`.
    ///
    /// An error of a layer becomes the [`end`](Self::end) of the stack. The function returns only
    /// errors of the decoder.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        decoder: &mut FrameDecoder,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let result = self.pass_up(bytes, decoder);
        // After an error of TLS, these bytes can contain an alert that reports the error to the
        // peer.
        self.flush(output);
        if self.end.is_none() {
            let before = self.layers.len();
            self.layers
                .retain(|l| l.progress() != LayerProgress::PassThrough);
            if self.layers.len() < before {
                self.flush(output);
            }
        }
        result
    }

    /// Sends the message that `write` appends to its buffer: passes the message through the layers
    /// and appends the result to `output`. All layers must be open.
    pub(super) fn send<T>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> T,
        output: &mut Vec<u8>,
    ) -> T {
        debug_assert!(self.opening().is_none(), "a message before layers are open");
        let result = write(&mut self.message);
        if let Some(highest) = self.layers.last_mut() {
            highest.write(&self.message);
        }
        self.message.clear();
        self.message.shrink_to(MAX_IDLE_BYTES);
        self.flush(output);
        result
    }

    /// Frees the buffers that an idle connection does not need.
    pub(super) fn free_idle_buffers(&mut self) {
        self.input = Vec::new();
        self.message = Vec::new();
    }

    /// Returns the error after which no more bytes come from the peer, because a layer failed or
    /// the peer announced that it sends no more. `None` while more bytes can come.
    pub(super) fn end(&self) -> Option<&Error> {
        self.end.as_ref()
    }

    /// Returns the lowest layer whose opening conversation is not over.
    pub(super) fn opening(&self) -> Option<&dyn Layer> {
        let mut layers = self.layers.iter();
        let opening = layers.find(|layer| layer.progress() == LayerProgress::Opening)?;
        Some(&**opening)
    }

    /// True once all layers were removed, so that bytes pass unchanged.
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// True if a layer has received part of a unit, such as a TLS record, and not the rest.
    pub(super) fn is_mid_record(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_mid_record())
    }

    /// Returns the next query of a layer about the revocation of the server's certificate.
    pub(super) fn poll_status_query(&mut self) -> Option<StatusQuery> {
        let mut layers = self.layers.iter_mut();
        layers.find_map(|layer| layer.poll_status_query())
    }

    /// Gives the answer to a query to the layers, and appends to `output` the bytes that they then
    /// send. Bytes that a layer received before go on to the layers above. An error of a layer
    /// becomes the [`end`](Self::end) of the stack.
    pub(super) fn handle_status(
        &mut self,
        id: &CertId,
        status: RevocationStatus,
        decoder: &mut FrameDecoder,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        for layer in &mut self.layers {
            if let Err(error) = layer.handle_status(id, status) {
                self.end.get_or_insert(error);
            }
        }
        self.receive(&[], decoder, output)
    }

    /// Returns the facts of the lowest layer of TLS whose handshake is over.
    pub(super) fn tls_facts(&self) -> Option<TlsFacts> {
        self.layers.iter().find_map(|layer| layer.tls_facts())
    }

    /// Returns the names of the layers, the lowest first.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.layers.iter().map(|layer| layer.name()).collect()
    }

    fn pass_up(&mut self, bytes: &[u8], decoder: &mut FrameDecoder) -> Result<(), Error> {
        let Self { layers, end, .. } = self;
        let Some((highest, lower)) = layers.split_last_mut() else {
            return Ok(());
        };
        let mut passing = Vec::new();
        for (level, layer) in lower.iter_mut().enumerate() {
            let bytes = if level == 0 { bytes } else { &passing };
            feed(layer.as_mut(), bytes, end);
            // A layer above can hold bytes that it may pass on now, so that it is asked for them
            // even if this one has none for it.
            passing = read_all(layer.as_mut(), bytes.len(), end);
        }
        let bytes = if lower.is_empty() { bytes } else { &passing };
        feed(highest.as_mut(), bytes, end);
        loop {
            match highest.read(decoder.spare()?) {
                Ok(0) => return Ok(()),
                Ok(count) => decoder.filled(count),
                Err(error) => {
                    end.get_or_insert(error);
                    return Ok(());
                }
            }
        }
    }

    /// Passes the bytes that the layers send down to the socket: appends them to `output`. A layer
    /// that is not open holds back the bytes of all layers above it.
    fn flush(&mut self, output: &mut Vec<u8>) {
        let mut layers = self.layers.iter();
        let held_back = layers.position(|layer| layer.progress() != LayerProgress::Open);
        let speaking = held_back.map_or(self.layers.len(), |level| level + 1);
        let mut passing = Vec::new();
        for level in (1..speaking).rev() {
            let (lower, upper) = self.layers.split_at_mut(level);
            while upper[0].poll_transmit(&mut passing) {
                lower[level - 1].write(&passing);
                passing.clear();
            }
        }
        while self
            .layers
            .first_mut()
            .is_some_and(|l| l.poll_transmit(output))
        {}
    }
}

/// Gives bytes from below to a layer. If no more bytes can come afterwards, sets `end` to the
/// reason.
fn feed(layer: &mut dyn Layer, bytes: &[u8], end: &mut Option<Error>) {
    if let Err(error) = layer.handle_received(bytes) {
        end.get_or_insert(error);
    } else if layer.peer_closed() {
        end.get_or_insert_with(closed_by_peer);
    }
}

/// Returns all bytes that a layer has for the layer above. If the layer fails and `end` is not set,
/// sets `end` to the error. `fed` is the number of bytes that the layer was given.
fn read_all(layer: &mut dyn Layer, fed: usize, end: &mut Option<Error>) -> Vec<u8> {
    let room = fed.clamp(PASSED_BYTES.0, PASSED_BYTES.1);
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        bytes.resize(start + room, 0);
        let read = layer.read(&mut bytes[start..]);
        bytes.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return bytes,
            Ok(_) => {}
            Err(error) => {
                end.get_or_insert(error);
                return bytes;
            }
        }
    }
}
