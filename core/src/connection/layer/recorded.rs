//! The layer of a replayed connection in place of TLS.
//!
//! A recording has the bytes that TLS gave to the messages, and when its handshake was over, but
//! none of the bytes below TLS. So this layer changes no bytes.

use super::{Layer, LayerPlan, LayerProgress};
use crate::{address::Address, error::Error};
use std::collections::VecDeque;

/// The layer in place of TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedTls;

impl LayerPlan for RecordedTls {
    fn layer(&self, _address: &Address) -> Result<Option<Box<dyn Layer>>, Error> {
        Ok(Some(Box::new(RecordedSession::default())))
    }

    fn encrypts(&self) -> bool {
        true
    }
}

/// The layer of one connection.
#[derive(Debug, Default)]
struct RecordedSession {
    is_open: bool,
    /// The bytes for the messages.
    received: VecDeque<u8>,
    /// The bytes for the layer below.
    output: Vec<u8>,
}

impl Layer for RecordedSession {
    fn name(&self) -> &'static str {
        "TLS"
    }

    /// Takes a byte that is 1 once the handshake is over, and then bytes for the messages.
    fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some((&is_open, rest)) = bytes.split_first() {
            self.is_open |= is_open == 1;
            self.received.extend(rest);
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let count = self.received.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(self.received.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let has_output = !self.output.is_empty();
        out.append(&mut self.output);
        has_output
    }

    fn progress(&self) -> LayerProgress {
        match self.is_open {
            true => LayerProgress::Open,
            false => LayerProgress::Opening,
        }
    }
}
