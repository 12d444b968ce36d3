//! Snappy, as raw blocks.

use super::codec::{Outcome, WRONG_SIZE};
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

const FAULT: &str = "its bytes are no block of snappy";

/// The tables of the encoder.
#[derive(Default)]
pub(super) struct Contexts {
    encoder: Option<Box<Encoder>>,
}

impl Contexts {
    pub(super) fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Outcome {
        let encoder = self.encoder.get_or_insert_with(|| Box::new(Encoder::new()));
        let start = out.len();
        out.resize(start + max_compress_len(bytes.len()), 0);
        let result = encoder.compress(bytes, &mut out[start..]);
        let count = result.map_err(|_| "it is too large for snappy")?;
        out.truncate(start + count);
        Ok(())
    }
}

/// Decompresses a block, which must fill `out`. Needs no memory of its own.
pub(super) fn decompress(bytes: &[u8], out: &mut [u8]) -> Outcome {
    if decompress_len(bytes).map_err(|_| FAULT)? != out.len() {
        return Err(WRONG_SIZE);
    }
    match Decoder::new().decompress(bytes, out) {
        Ok(count) if count == out.len() => Ok(()),
        Ok(_) => Err(WRONG_SIZE),
        Err(_) => Err(FAULT),
    }
}
