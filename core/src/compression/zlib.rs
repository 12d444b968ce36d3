//! Zlib (RFC 1950).

use super::codec::{Outcome, WRONG_SIZE};
use flate2::{Compress, Compression as Level, Decompress, FlushCompress, FlushDecompress, Status};

const FAULT: &str = "its bytes are no stream of zlib";

/// The state of the encoder with its level, and that of the decoder.
#[derive(Default)]
pub(super) struct Contexts {
    encoder: Option<(i32, Box<Compress>)>,
    decoder: Option<Box<Decompress>>,
}

impl Contexts {
    pub(super) fn compress(&mut self, level: i32, bytes: &[u8], out: &mut Vec<u8>) -> Outcome {
        const FAULT: &str = "zlib failed";
        let encoder = match &mut self.encoder {
            Some((kept, encoder)) if *kept == level => {
                encoder.reset();
                encoder
            }
            // -1 is the default of zlib (COMP-10).
            other => {
                let chosen = u32::try_from(level).map_or_else(|_| Level::default(), Level::new);
                let encoder = Box::new(Compress::new(chosen, true));
                &mut other.insert((level, encoder)).1
            }
        };
        // Enough for bytes that cannot be compressed, so that one call is enough.
        out.reserve(bytes.len() + bytes.len() / 1000 + 64);
        loop {
            let taken = usize::try_from(encoder.total_in()).map_err(|_| FAULT)?;
            let before = out.len();
            let status = encoder
                .compress_vec(&bytes[taken..], out, FlushCompress::Finish)
                .map_err(|_| FAULT)?;
            match status {
                Status::StreamEnd => return Ok(()),
                Status::Ok | Status::BufError
                    if out.len() < out.capacity() && out.len() == before =>
                {
                    return Err(FAULT);
                }
                Status::Ok | Status::BufError => out.reserve(4096),
            }
        }
    }

    /// Decompresses a stream, which must fill `out`.
    pub(super) fn decompress(&mut self, bytes: &[u8], out: &mut [u8]) -> Outcome {
        let decoder = self
            .decoder
            .get_or_insert_with(|| Box::new(Decompress::new(true)));
        decoder.reset(true);
        let status = decoder.decompress(bytes, out, FlushDecompress::Finish);
        let is_whole = decoder.total_in() == bytes.len() as u64;
        let is_full = decoder.total_out() == out.len() as u64;
        match status {
            Ok(Status::StreamEnd) if is_whole && is_full => Ok(()),
            Ok(Status::StreamEnd) => Err(WRONG_SIZE),
            // The stream has more bytes than there is room for.
            Ok(Status::Ok | Status::BufError) if is_full => Err(WRONG_SIZE),
            Ok(Status::Ok | Status::BufError) | Err(_) => Err(FAULT),
        }
    }
}
