//! The layers of one connection, and how bytes pass through them.

use super::{Layer, LayerProgress, closed_by_peer};
use crate::{error::Error, wire::FrameDecoder};

/// Room for the bytes of one read from the socket: a full TLS record and its header.
const INPUT_BYTES: usize = 16 * 1024 + 512;

/// Room for one read from a layer below the highest one, at least and at most. Most layers give
/// about as many bytes as they were told.
const PASSED_BYTES: (usize, usize) = (64, 16 * 1024);

/// A scratch buffer larger than this is given back to the allocator after use.
const MAX_IDLE_BYTES: usize = 4096;

/// The layers between a socket and the messages of a connection, the lowest first. At least one.
#[derive(Debug)]
pub(super) struct Stack {
    layers: Vec<Box<dyn Layer>>,
    /// Bytes of the current read from the socket; empty while idle.
    input: Vec<u8>,
    /// A message before the highest layer takes it; empty while idle.
    message: Vec<u8>,
    /// Why no more bytes will come from the peer. It is told once all messages that came before it
    /// were taken.
    end: Option<Error>,
}

impl Stack {
    /// Returns the stack of these layers, the lowest first; `None` if there are none. Appends what
    /// the layers send first to `output`.
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

    /// Returns room for the next read from the socket. Never empty.
    pub(super) fn input(&mut self) -> &mut [u8] {
        self.input.resize(INPUT_BYTES, 0);
        &mut self.input
    }

    /// Says that the first `count` bytes of [`input`](Self::input) were filled.
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

    /// Tells the layers bytes from the socket, the lowest first. What the highest layer gives goes
    /// to `decoder`, what the lowest layer gives goes to `output`.
    ///
    /// An error of a layer becomes the [`end`](Self::end) of the stack. An error that is returned
    /// is that of the decoder.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        decoder: &mut FrameDecoder,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let result = self.pass_up(bytes, decoder);
        // After an error these bytes tell the peer why, for TLS in an alert.
        self.flush(output);
        if self.end.is_none() {
            let before = self.layers.len();
            self.layers
                .retain(|l| l.progress() != LayerProgress::Passed);
            if self.layers.len() < before {
                self.flush(output);
            }
        }
        result
    }

    /// Queues the message that `write` appends to the buffer it is given. Only once all layers are
    /// open.
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

    /// Frees what an idle connection does not need.
    pub(super) fn rest(&mut self) {
        self.input = Vec::new();
        self.message = Vec::new();
    }

    /// Returns why no more bytes will come from the peer: a layer failed, or the peer said so.
    pub(super) fn end(&self) -> Option<&Error> {
        self.end.as_ref()
    }

    /// Returns the lowest layer whose opening conversation goes on.
    pub(super) fn opening(&self) -> Option<&dyn Layer> {
        let mut layers = self.layers.iter();
        let opening = layers.find(|layer| layer.progress() == LayerProgress::Opening)?;
        Some(&**opening)
    }

    /// True once all layers were removed: bytes pass unchanged from now on.
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// True if part of a layer's unit of transfer is there, and the rest is on its way.
    pub(super) fn is_mid_record(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_mid_record())
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
            tell(layer.as_mut(), bytes, end);
            passing = read_all(layer.as_mut(), bytes.len(), end);
            if passing.is_empty() {
                return Ok(());
            }
        }
        let bytes = if lower.is_empty() { bytes } else { &passing };
        tell(highest.as_mut(), bytes, end);
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

    /// Moves what the layers have to send downwards. A layer that is not open holds back all layers
    /// above it.
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

/// Gives a layer bytes from below, and notes why there will be no more of them.
fn tell(layer: &mut dyn Layer, bytes: &[u8], end: &mut Option<Error>) {
    if let Err(error) = layer.handle_received(bytes) {
        end.get_or_insert(error);
    } else if layer.peer_closed() {
        end.get_or_insert_with(closed_by_peer);
    }
}

/// Returns all bytes that a layer, which was told so many, has for the layer above.
fn read_all(layer: &mut dyn Layer, told: usize, end: &mut Option<Error>) -> Vec<u8> {
    let room = told.clamp(PASSED_BYTES.0, PASSED_BYTES.1);
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
