//! The wire protocol: headers, OP_MSG, and frames out of a byte stream.

mod decoder;
#[cfg(test)]
mod golden;
mod header;
mod message;

pub use decoder::{FrameDecoder, MAX_IDLE_BUFFER_BYTES};
pub use header::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, OpCode};
pub use message::{Flags, MAX_SEQUENCES, Message, MessageWriter, Section, Sections};

use std::fmt;

/// Bytes that are not the protocol. The connection they came from is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The header's length is negative or less than the header itself.
    LengthTooSmall(i32),
    /// The header's length is over the limit.
    LengthTooLarge {
        /// What the header says, in bytes.
        length: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// An operation code that is not spoken here.
    UnknownOpCode(i32),
    /// Required flag bits that are not known (MSG-15).
    UnknownFlags(u32),
    /// A section kind that does not exist (MSG-10).
    UnknownSectionKind(u8),
    /// A message ends in the middle of something.
    Truncated(&'static str),
    /// There must be exactly one section of kind 0 (MSG-5).
    BodySections(usize),
    /// More document sequences than [`MAX_SEQUENCES`].
    TooManySequences,
    /// Two sequences of one message share an identifier (MSG-7).
    DuplicateIdentifier,
    /// The checksum does not match the bytes.
    Checksum {
        /// As the message says.
        expected: u32,
        /// As computed.
        actual: u32,
    },
    /// A document whose own length does not fit, or that is not BSON.
    Document(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthTooSmall(n) => write!(f, "a message of {n} bytes cannot exist"),
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
            Self::BodySections(n) => write!(f, "{n} body sections where one belongs"),
            Self::TooManySequences => {
                write!(
                    f,
                    "a message of more than {MAX_SEQUENCES} document sequences"
                )
            }
            Self::DuplicateIdentifier => f.write_str("two document sequences of one name"),
            Self::Checksum { expected, actual } => {
                write!(
                    f,
                    "checksum {expected:#010x} does not match the bytes ({actual:#010x})"
                )
            }
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

/// Takes `N` bytes from the front.
fn take<const N: usize>(bytes: &mut &[u8], what: &'static str) -> Result<[u8; N], WireError> {
    let Some((head, rest)) = bytes.split_first_chunk::<N>() else {
        return Err(WireError::Truncated(what));
    };
    *bytes = rest;
    Ok(*head)
}

/// Takes the document that starts at the front, with the length that it states itself.
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
