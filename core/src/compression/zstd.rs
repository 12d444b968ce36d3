//! Zstandard (RFC 8878).

use super::codec::{Outcome, WRONG_SIZE};
use zstd::{
    bulk::{Compressor, Decompressor},
    zstd_safe::compress_bound,
};

/// The level of compression: the default of the library.
const LEVEL: i32 = 3;

const FAULT: &str = "its bytes are no frame of zstd";

/// The state of the encoder, and that of the decoder.
#[derive(Default)]
pub(super) struct Contexts {
    encoder: Option<Compressor<'static>>,
    decoder: Option<Decompressor<'static>>,
}

impl Contexts {
    pub(super) fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Outcome {
        const FAULT: &str = "zstd failed";
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(Compressor::new(LEVEL).map_err(|_| FAULT)?),
        };
        let start = out.len();
        out.resize(start + compress_bound(bytes.len()), 0);
        let count = encoder
            .compress_to_buffer(bytes, &mut out[start..])
            .map_err(|_| FAULT)?;
        out.truncate(start + count);
        Ok(())
    }

    /// Decompresses frames, which must fill `out`.
    pub(super) fn decompress(&mut self, bytes: &[u8], out: &mut [u8]) -> Outcome {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decompressor::new().map_err(|_| "zstd failed")?),
        };
        match decoder.decompress_to_buffer(bytes, out) {
            Ok(count) if count == out.len() => Ok(()),
            Ok(_) => Err(WRONG_SIZE),
            Err(_) => Err(FAULT),
        }
    }
}
