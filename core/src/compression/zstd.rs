//! Zstandard (RFC 8878).

use super::{
    codec::{Fault, Outcome, WRONG_SIZE},
    unpacking::{Progress, SLICE_INPUT_BYTES, SLICE_OUTPUT_BYTES, TOO_MANY_BLOCKS, max_blocks},
};
use zstd::{
    bulk::Compressor,
    zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, compress_bound},
};

/// The level of compression: the default of the library.
const LEVEL: i32 = 3;

const FAULT: &str = "its bytes are no frame of zstd";

/// The number at the start of a frame (RFC 8878 section 3.1.1).
const MAGIC: u32 = 0xfd2f_b528;

/// The number at the start of a frame that is skipped, without its lowest four bits (section
/// 3.1.2).
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;

/// The largest window of a frame as a power of two: 64 MiB, which is more than the longest message.
const MAX_WINDOW_LOG: u32 = 26;

/// The state of the encoder, and that of the decoder.
#[derive(Default)]
pub(super) struct Contexts {
    encoder: Option<Compressor<'static>>,
    decoder: Option<DCtx<'static>>,
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

    /// Returns the decoder of a message of this size. Fails if the message has too many blocks.
    pub(super) fn decoder(&mut self, bytes: &[u8], size: usize) -> Result<Decoder, Fault> {
        const FAULT: &str = "zstd failed";
        let has_window = check_blocks(bytes, max_blocks(size))?;
        let decoder = self.decoder.take().or_else(DCtx::try_create);
        let mut context = decoder.ok_or(FAULT)?;
        let reset = context.reset(ResetDirective::SessionOnly);
        reset.map_err(|_| FAULT)?;
        let limited = context.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG));
        limited.map_err(|_| FAULT)?;
        Ok(Decoder {
            context,
            has_window,
        })
    }

    /// Keeps the memory of a decoder for the next message, unless it has a window.
    pub(super) fn keep(&mut self, decoder: Decoder) {
        if !decoder.has_window {
            self.decoder = Some(decoder.context);
        }
    }
}

/// The state of the decompression of one message.
pub(super) struct Decoder {
    context: DCtx<'static>,
    /// True if the message takes several slices, or a frame does not state its size. The library
    /// then decompresses into a window of its own, which can be as large as the message, and copies
    /// its content.
    has_window: bool,
}

impl Decoder {
    /// Decompresses the next slice of `bytes`. Returns true once the frames are complete. They must
    /// fill `out`.
    pub(super) fn advance(
        &mut self,
        bytes: &[u8],
        out: &mut [u8],
        progress: &mut Progress,
    ) -> Result<bool, Fault> {
        let (Progress { taken, made }, size) = (*progress, out.len());
        let input_end = bytes.len().min(taken + SLICE_INPUT_BYTES);
        let output_end = size.min(made + SLICE_OUTPUT_BYTES);
        let mut input = InBuffer::around(&bytes[taken..input_end]);
        let mut output = OutBuffer::around(&mut out[made..output_end]);
        loop {
            let before = (input.pos(), output.pos());
            let wanted = self.context.decompress_stream(&mut output, &mut input);
            let wanted = wanted.map_err(|_| FAULT)?;
            progress.taken = taken + input.pos();
            progress.made = made + output.pos();
            let (all_taken, all_made) = (progress.taken == bytes.len(), progress.made == size);
            if all_taken && wanted == 0 {
                return if all_made { Ok(true) } else { Err(WRONG_SIZE) };
            }
            let is_stuck = before == (input.pos(), output.pos());
            if (progress.taken == input_end && !all_taken)
                || (progress.made == output_end && !all_made)
            {
                self.has_window = true;
                return Ok(false);
            }
            if is_stuck {
                // A frame is cut, or has more bytes than there is room for.
                return Err(if all_taken { FAULT } else { WRONG_SIZE });
            }
        }
    }
}

/// Checks that frames have at most `max` blocks, and that none of them is cut. Each frame counts as
/// a block as well. Blocks have headers, so that this reads only a few bytes of each. Returns true
/// if a frame does not state the size of its content.
fn check_blocks(mut bytes: &[u8], max: usize) -> Result<bool, Fault> {
    let mut left = max;
    let mut lacks_size = false;
    while !bytes.is_empty() {
        left = left.checked_sub(1).ok_or(TOO_MANY_BLOCKS)?;
        let magic = number(take(&mut bytes, 4)?);
        if magic & !0xf == SKIPPABLE_MAGIC {
            let size = number(take(&mut bytes, 4)?);
            take(&mut bytes, usize::try_from(size).map_err(|_| FAULT)?)?;
            continue;
        }
        if magic != MAGIC {
            return Err(FAULT);
        }
        let (has_checksum, has_size) = skip_frame_header(&mut bytes)?;
        lacks_size |= !has_size;
        loop {
            left = left.checked_sub(1).ok_or(TOO_MANY_BLOCKS)?;
            let header = number(take(&mut bytes, 3)?);
            let size = usize::try_from(header >> 3).map_err(|_| FAULT)?;
            // A block of one repeated byte has that byte only (section 3.1.1.2.2).
            let is_repeated = header >> 1 & 3 == 1;
            take(&mut bytes, if is_repeated { 1 } else { size })?;
            if header & 1 == 1 {
                break;
            }
        }
        if has_checksum {
            take(&mut bytes, 4)?;
        }
    }
    Ok(lacks_size)
}

/// Skips the header of a frame (section 3.1.1.1). Returns whether the frame ends with a checksum,
/// and whether the header states the size of the content.
fn skip_frame_header(bytes: &mut &[u8]) -> Result<(bool, bool), Fault> {
    let descriptor = number(take(bytes, 1)?);
    let is_single_segment = descriptor >> 5 & 1 == 1;
    let window = usize::from(!is_single_segment);
    let dictionary = [0, 1, 2, 4][(descriptor & 3) as usize];
    let content_size = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        exponent => 1 << exponent,
    };
    take(bytes, window + dictionary + content_size)?;
    Ok((descriptor >> 2 & 1 == 1, content_size > 0))
}

/// Takes the first `count` bytes.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Fault> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(FAULT)?;
    *bytes = rest;
    Ok(taken)
}

/// Returns the number of up to four bytes, the lowest first.
fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}
