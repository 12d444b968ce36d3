//! The wire protocol: message headers, OP_MSG, the head of OP_COMPRESSED, and the decoding of
//! messages from a stream of bytes.

mod compressed;
mod decoder;
#[cfg(test)]
mod golden;
mod header;
mod message;

pub use compressed::{COMPRESSED_START, CompressedHead};
pub use decoder::{FrameDecoder, MAX_IDLE_BUFFER_BYTES};
pub use header::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, OpCode};
pub use message::{Flags, MAX_SEQUENCES, Message, MessageWriter, Section, Sections};

use std::fmt;

/// The error of bytes that violate the wire protocol.
#[allow(unnameable_types, reason = "shells see it as an `Error` only")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The length in the header is negative, or less than the size of the header.
    LengthTooSmall(i32),
    /// The length in the header exceeds the limit.
    LengthTooLarge {
        /// The length in the header, in bytes.
        length: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// An operation code that [`OpCode`] does not have.
    UnknownOpCode(i32),
    /// Unknown flag bits among the required ones ([MSG-15]).
    ///
    /// [MSG-15]: crate::requirements::messages#MSG-15
    UnknownFlags(u32),
    /// A section kind other than 0 and 1 ([MSG-10]).
    ///
    /// [MSG-10]: crate::requirements::messages#MSG-10
    UnknownSectionKind(u8),
    /// The message ends in the middle of the named part, or the size of that part is wrong.
    Truncated(&'static str),
    /// A number of sections of kind 0 other than one ([MSG-5]).
    ///
    /// [MSG-5]: crate::requirements::messages#MSG-5
    BodySections(usize),
    /// More than [`MAX_SEQUENCES`] document sequences.
    TooManySequences,
    /// Two document sequences of one message have the same identifier ([MSG-7]).
    ///
    /// [MSG-7]: crate::requirements::messages#MSG-7
    DuplicateIdentifier,
    /// The checksum does not match the bytes.
    Checksum {
        /// The checksum in the message.
        expected: u32,
        /// The checksum of the received bytes.
        actual: u32,
    },
    /// A compressed message within a compressed message.
    NestedCompression,
    /// A number of a compressor that the driver did not announce ([COMP-26]).
    ///
    /// [COMP-26]: crate::requirements::compression#COMP-26
    UnknownCompressor(u8),
    /// A compressed message that cannot be decompressed, or not to its stated size. The text names
    /// the fault ([COMP-26]).
    ///
    /// [COMP-26]: crate::requirements::compression#COMP-26
    Decompression(&'static str),
    /// A document with an impossible length or without a terminator, or an identifier that is not
    /// UTF-8. The text names the fault.
    Document(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthTooSmall(n) => {
                write!(f, "the message length {n} is smaller than the header",)
            }
            Self::LengthTooLarge { length, limit } => {
                write!(
                    f,
                    "a message of {length} bytes is over the limit of {limit}"
                )
            }
            Self::UnknownOpCode(code) => write!(f, "unknown operation code {code}"),
            Self::UnknownFlags(bits) => write!(f, "unknown required flag bits {bits:#x}"),
            Self::UnknownSectionKind(kind) => write!(f, "unknown section kind {kind}"),
            Self::Truncated(what) => write!(f, "the message ends within {what}"),
            Self::BodySections(n) => write!(f, "the message has {n} body sections instead of one"),
            Self::TooManySequences => {
                write!(
                    f,
                    "a message of more than {MAX_SEQUENCES} document sequences"
                )
            }
            Self::DuplicateIdentifier => {
                f.write_str("two document sequences have the same identifier")
            }
            Self::Checksum { expected, actual } => {
                write!(
                    f,
                    "checksum {expected:#010x} does not match the bytes ({actual:#010x})"
                )
            }
            Self::NestedCompression => f.write_str("a compressed message in a compressed message"),
            Self::UnknownCompressor(id) => {
                write!(
                    f,
                    "a message is compressed with {id}, which was not announced"
                )
            }
            Self::Decompression(fault) => write!(f, "malformed compressed message: {fault}"),
            Self::Document(what) => write!(f, "malformed document: {what}"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<WireError> for crate::error::Error {
    fn from(error: WireError) -> Self {
        Self::protocol(error.to_string())
    }
}

/// Removes `N` bytes from the front of `bytes` and returns them.
fn take<const N: usize>(bytes: &mut &[u8], what: &'static str) -> Result<[u8; N], WireError> {
    let Some((head, rest)) = bytes.split_first_chunk::<N>() else {
        return Err(WireError::Truncated(what));
    };
    *bytes = rest;
    Ok(*head)
}

/// Removes a document from the front of `bytes` and returns it. The length field of the document
/// gives its size. The elements are not checked.
fn take_document<'a>(
    bytes: &mut &'a [u8],
    what: &'static str,
) -> Result<&'a bson::RawDocument, WireError> {
    let Some(length) = bytes.first_chunk::<4>() else {
        return Err(WireError::Truncated(what));
    };
    let length = usize::try_from(i32::from_le_bytes(*length))
        .map_err(|_| WireError::Document("negative length"))?;
    if length < 5 {
        return Err(WireError::Document("shorter than an empty document"));
    }
    let Some((document, rest)) = bytes.split_at_checked(length) else {
        return Err(WireError::Truncated(what));
    };
    *bytes = rest;
    bson::RawDocument::from_bytes(document).map_err(|_| WireError::Document("no terminator"))
}
