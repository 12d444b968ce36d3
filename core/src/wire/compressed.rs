//! The head of OP_COMPRESSED messages (COMP-11 to COMP-14).

use super::{HEADER_BYTES, Header, OpCode, WireError, take};

/// The number of bytes before the compressed ones: the header and the head.
pub const COMPRESSED_START: usize = HEADER_BYTES + 9;

/// The fields between the header of an OP_COMPRESSED message and the compressed bytes
/// ([COMP-11]).
///
/// The compressed bytes are a whole message without its header. The ids of that message are in the
/// header of the OP_COMPRESSED message ([COMP-12], [COMP-24]).
///
/// [COMP-11]: crate::requirements::compression#COMP-11
/// [COMP-12]: crate::requirements::compression#COMP-12
/// [COMP-24]: crate::requirements::compression#COMP-24
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressedHead {
    /// The operation code of the compressed message.
    pub original: OpCode,
    /// The size of the compressed message in bytes once it is decompressed, without its header
    /// ([COMP-13]).
    ///
    /// [COMP-13]: crate::requirements::compression#COMP-13
    pub uncompressed: usize,
    /// The number of the compressor ([COMP-15]).
    ///
    /// [COMP-15]: crate::requirements::compression#COMP-15
    pub compressor: u8,
}

impl CompressedHead {
    /// Decodes the head of a message, which may be incomplete. Returns `None` until the head has
    /// arrived. The size is compared with `max_bytes` here, before memory for the message is
    /// allocated ([COMP-27]).
    ///
    /// [COMP-27]: crate::requirements::compression#COMP-27
    pub fn decode(
        header: &Header,
        frame: &[u8],
        max_bytes: usize,
    ) -> Result<Option<Self>, WireError> {
        const WHAT: &str = "the head of a compressed message";
        if header.length < COMPRESSED_START {
            return Err(WireError::Truncated(WHAT));
        }
        if frame.len() < COMPRESSED_START {
            return Ok(None);
        }
        let bytes = &mut &frame[HEADER_BYTES..];
        let original = OpCode::from_code(i32::from_le_bytes(take(bytes, WHAT)?))?;
        let size = i32::from_le_bytes(take(bytes, WHAT)?);
        let [compressor] = take(bytes, WHAT)?;
        if original == OpCode::Compressed {
            return Err(WireError::NestedCompression);
        }
        let uncompressed =
            usize::try_from(size).map_err(|_| WireError::Decompression("its size is negative"))?;
        if uncompressed + HEADER_BYTES > max_bytes {
            return Err(WireError::LengthTooLarge {
                length: (uncompressed + HEADER_BYTES) as u64,
                limit: max_bytes as u64,
            });
        }
        Ok(Some(Self {
            original,
            uncompressed,
            compressor,
        }))
    }

    /// Appends the head to `buffer`.
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        let size = i32::try_from(self.uncompressed).expect("messages are bounded by 48 MB");
        buffer.extend_from_slice(&self.original.code().to_le_bytes());
        buffer.extend_from_slice(&size.to_le_bytes());
        buffer.push(self.compressor);
    }
}
