//! Zlib (RFC 1950).

use super::{
    codec::{Fault, Outcome, WRONG_SIZE},
    unpacking::{Progress, SLICE_OUTPUT_BYTES, TOO_MANY_BLOCKS, max_blocks},
};
use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status, compress_bound};

/// The size of the window as a power of two: the largest one of zlib.
const WINDOW_BITS: u8 = 15;

/// The maximum number of blocks of one slice.
const SLICE_BLOCKS: usize = 128;

/// The maximum number of calls of the library in a row that neither take nor make a byte. The
/// library reads ahead by up to 64 bits, in which each block has at least 3 bits.
const MAX_IDLE_CALLS: usize = 32;

const FAULT: &str = "its bytes are no stream of zlib";

/// The state of the encoder with its level, and that of the decoder.
#[derive(Default)]
pub(super) struct Contexts {
    encoder: Option<(i32, Box<Deflate>)>,
    decoder: Option<Box<Inflate>>,
}

impl Contexts {
    pub(super) fn compress(&mut self, level: i32, bytes: &[u8], out: &mut Vec<u8>) -> Outcome {
        let encoder = match &mut self.encoder {
            Some((kept, encoder)) if *kept == level => {
                encoder.reset();
                encoder
            }
            // -1 is the default of zlib (COMP-10).
            other => {
                let encoder = Box::new(Deflate::new(level, true, WINDOW_BITS));
                &mut other.insert((level, encoder)).1
            }
        };
        let start = out.len();
        // Enough for bytes that cannot be compressed, so that one call is enough.
        out.resize(start + compress_bound(bytes.len()), 0);
        match encoder.compress(bytes, &mut out[start..], DeflateFlush::Finish) {
            Ok(Status::StreamEnd) => {}
            Ok(Status::Ok | Status::BufError) | Err(_) => return Err("zlib failed"),
        }
        let count = usize::try_from(encoder.total_out()).map_err(|_| WRONG_SIZE)?;
        out.truncate(start + count);
        Ok(())
    }

    /// Returns the decoder of a message of this size.
    pub(super) fn decoder(&mut self, size: usize) -> Decoder {
        let mut inflate = self
            .decoder
            .take()
            .unwrap_or_else(|| Box::new(Inflate::new(true, WINDOW_BITS)));
        inflate.reset(true);
        Decoder {
            inflate,
            blocks_left: max_blocks(size),
            idle_calls: 0,
        }
    }

    /// Keeps the memory of a decoder for the next message.
    pub(super) fn keep(&mut self, decoder: Decoder) {
        self.decoder = Some(decoder.inflate);
    }
}

/// The state of the decompression of one message.
pub(super) struct Decoder {
    inflate: Box<Inflate>,
    /// The number of blocks that may follow.
    blocks_left: usize,
    /// The number of calls of the library in a row that neither took nor made a byte.
    idle_calls: usize,
}

impl Decoder {
    /// Decompresses the next slice of `bytes`. Returns true once the stream is complete. It must
    /// fill `out`.
    pub(super) fn advance(
        &mut self,
        bytes: &[u8],
        out: &mut [u8],
        progress: &mut Progress,
    ) -> Result<bool, Fault> {
        let end = out.len().min(progress.made + SLICE_OUTPUT_BYTES);
        for _ in 0..SLICE_BLOCKS {
            let start = *progress;
            let status = self.next_block(bytes, &mut out[..end], progress)?;
            let is_all_taken = progress.taken == bytes.len();
            match status {
                Status::StreamEnd if is_all_taken && progress.made == out.len() => return Ok(true),
                Status::StreamEnd => return Err(WRONG_SIZE),
                Status::Ok | Status::BufError if progress.made == end && end < out.len() => {
                    return Ok(false);
                }
                Status::Ok | Status::BufError => {}
            }
            self.idle_calls = if *progress == start {
                self.idle_calls + 1
            } else {
                0
            };
            if self.idle_calls > MAX_IDLE_CALLS {
                // The stream is cut, or has more bytes than there is room for.
                return Err(if is_all_taken { FAULT } else { WRONG_SIZE });
            }
            self.blocks_left = self.blocks_left.checked_sub(1).ok_or(TOO_MANY_BLOCKS)?;
        }
        Ok(false)
    }

    /// Decompresses up to the end of the current block, so that blocks can be counted.
    fn next_block(
        &mut self,
        bytes: &[u8],
        out: &mut [u8],
        progress: &mut Progress,
    ) -> Result<Status, Fault> {
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let (input, room) = (&bytes[progress.taken..], &mut out[progress.made..]);
        let status = self.inflate.decompress(input, room, InflateFlush::Block);
        let count = |after, before| usize::try_from(after - before).map_err(|_| FAULT);
        progress.taken += count(self.inflate.total_in(), before.0)?;
        progress.made += count(self.inflate.total_out(), before.1)?;
        status.map_err(|_| FAULT)
    }
}
