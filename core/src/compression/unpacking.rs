//! The decompression of one message, in slices.
//!
//! A peer chooses the compressed bytes, so the work that they cause needs a bound. The output is
//! bounded by the size that the message states. But each block of zlib and zstd can bring tables,
//! whose construction takes microseconds, and can be without output. So the number of blocks is
//! bounded by the size of the output ([`max_blocks`]).

use super::{
    Workspace,
    codec::{Fault, Outcome, WRONG_SIZE},
};
use crate::options::Compressor;

/// The maximum number of compressed bytes that one slice of zstd takes.
#[cfg(feature = "zstd")]
pub(super) const SLICE_INPUT_BYTES: usize = 64 * 1024;

/// The maximum number of bytes that one slice makes.
#[cfg(any(feature = "zlib", feature = "zstd"))]
pub(super) const SLICE_OUTPUT_BYTES: usize = 1024 * 1024;

/// The average size in bytes of the content of a block, below which a message is refused. Encoders
/// fill blocks with 5,000 bytes or more: zlib with 16,383 symbols, zstd with up to 128 KiB.
#[cfg(any(feature = "zlib", feature = "zstd"))]
const MIN_BLOCK_BYTES: usize = 2048;

/// The number of blocks that a message may have in addition, so that short blocks at its end and
/// empty ones are accepted.
#[cfg(any(feature = "zlib", feature = "zstd"))]
const SPARE_BLOCKS: usize = 16;

/// Returns the maximum number of blocks of a message of this size. Blocks of zstd are counted
/// together with frames.
#[cfg(any(feature = "zlib", feature = "zstd"))]
pub(super) const fn max_blocks(bytes: usize) -> usize {
    SPARE_BLOCKS + bytes / MIN_BLOCK_BYTES
}

/// The fault of a message with too many blocks.
#[cfg(any(feature = "zlib", feature = "zstd"))]
pub(super) const TOO_MANY_BLOCKS: &str = "it has more blocks than its size permits";

/// The decompression of one message.
pub(super) struct Unpacking {
    decoder: Decoder,
    /// The message: a start that the caller writes, then the decompressed bytes.
    message: Vec<u8>,
    progress: Progress,
}

/// How many bytes were decompressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The number of compressed bytes that were taken.
    pub(super) taken: usize,
    /// The length of the start of the message that is complete.
    pub(super) made: usize,
}

/// The algorithm with its state.
enum Decoder {
    /// The bytes are not compressed.
    Plain,
    #[cfg(feature = "snappy")]
    Snappy,
    #[cfg(feature = "zlib")]
    Zlib(super::zlib::Decoder),
    #[cfg(feature = "zstd")]
    Zstd(super::zstd::Decoder),
}

impl Unpacking {
    /// Begins to decompress `bytes`, which must have `size` bytes once they are decompressed. The
    /// message begins with `start`. `None` stands for bytes that are not compressed.
    pub(super) fn begin(
        compressor: Option<Compressor>,
        bytes: &[u8],
        start: &[u8],
        size: usize,
        workspace: &mut Workspace,
    ) -> Result<Self, Fault> {
        let decoder = Decoder::begin(compressor, bytes, size, workspace)?;
        // The allocator gives zeroed memory, which the system provides only as it is written. So a
        // message that states a large size, and does not have it, costs little.
        let mut message = vec![0; start.len() + size];
        message[..start.len()].copy_from_slice(start);
        let progress = Progress {
            taken: 0,
            made: start.len(),
        };
        Ok(Self {
            decoder,
            message,
            progress,
        })
    }

    /// Decompresses the next slice of `bytes`, the same ones in each call. Returns true once the
    /// message is complete. Fails if the bytes do not fill the message exactly.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Result<bool, Fault> {
        let Self {
            decoder,
            message,
            progress,
        } = self;
        match decoder {
            Decoder::Plain => copy(bytes, &mut message[progress.made..]).map(|()| true),
            #[cfg(feature = "snappy")]
            Decoder::Snappy => {
                super::snappy::decompress(bytes, &mut message[progress.made..]).map(|()| true)
            }
            #[cfg(feature = "zlib")]
            Decoder::Zlib(decoder) => decoder.advance(bytes, message, progress),
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => decoder.advance(bytes, message, progress),
        }
    }

    /// Returns the complete message, and gives the memory of the decoder back.
    #[cfg_attr(
        not(any(feature = "zlib", feature = "zstd")),
        allow(unused_variables, reason = "for compressors that are not enabled")
    )]
    pub(super) fn finish(self, workspace: &mut Workspace) -> Vec<u8> {
        match self.decoder {
            Decoder::Plain => {}
            #[cfg(feature = "snappy")]
            Decoder::Snappy => {}
            #[cfg(feature = "zlib")]
            Decoder::Zlib(decoder) => workspace.zlib.keep(decoder),
            // The decoder of a message that took several slices has a window of up to the size of
            // the message.
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => workspace.zstd.keep(decoder),
        }
        self.message
    }
}

impl Decoder {
    #[cfg_attr(
        not(all(feature = "zlib", feature = "zstd")),
        allow(unused_variables, reason = "for compressors that are not enabled")
    )]
    fn begin(
        compressor: Option<Compressor>,
        bytes: &[u8],
        size: usize,
        workspace: &mut Workspace,
    ) -> Result<Self, Fault> {
        match compressor {
            None => Ok(Self::Plain),
            #[cfg(feature = "snappy")]
            Some(Compressor::Snappy) => Ok(Self::Snappy),
            #[cfg(feature = "zlib")]
            Some(Compressor::Zlib) => Ok(Self::Zlib(workspace.zlib.decoder(size))),
            #[cfg(feature = "zstd")]
            Some(Compressor::Zstd) => workspace.zstd.decoder(bytes, size).map(Self::Zstd),
            #[allow(unreachable_patterns, reason = "each compressor is a feature")]
            Some(_) => Err("its compressor is not available"),
        }
    }
}

fn copy(bytes: &[u8], out: &mut [u8]) -> Outcome {
    if bytes.len() != out.len() {
        return Err(WRONG_SIZE);
    }
    out.copy_from_slice(bytes);
    Ok(())
}
