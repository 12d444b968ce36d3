//! The 16 bytes in front of every message (MSG-1, MSG-3).

use super::{WireError, take};

/// Size of the header.
pub const HEADER_BYTES: usize = 16;

/// Largest message that is accepted before a server has said its own limit: `maxMessageSizeBytes`
/// of every server so far (MSG-4).
pub const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpCode {
    /// Answer to a legacy query (1).
    Reply,
    /// Legacy query, only for a hello (2004).
    Query,
    /// A compressed message (2012).
    Compressed,
    /// Everything else (2013).
    Msg,
}

impl OpCode {
    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Reply => 1,
            Self::Query => 2004,
            Self::Compressed => 2012,
            Self::Msg => 2013,
        }
    }

    /// The operation of this number.
    pub const fn from_code(code: i32) -> Result<Self, WireError> {
        match code {
            1 => Ok(Self::Reply),
            2004 => Ok(Self::Query),
            2012 => Ok(Self::Compressed),
            2013 => Ok(Self::Msg),
            _ => Err(WireError::UnknownOpCode(code)),
        }
    }
}

/// The head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole message, header included.
    pub length: usize,
    /// The sender's number of the message.
    pub request_id: i32,
    /// The number of the message that this one answers; zero for none.
    pub response_to: i32,
    /// What follows.
    pub op_code: OpCode,
}

impl Header {
    /// Reads a header and checks its length against `max_bytes` before anything is allocated.
    #[inline]
    pub fn decode(mut bytes: &[u8], max_bytes: usize) -> Result<Self, WireError> {
        let bytes = &mut bytes;
        let length = i32::from_le_bytes(take(bytes, "the header")?);
        let request_id = i32::from_le_bytes(take(bytes, "the header")?);
        let response_to = i32::from_le_bytes(take(bytes, "the header")?);
        let op_code = OpCode::from_code(i32::from_le_bytes(take(bytes, "the header")?))?;
        let size = usize::try_from(length).map_err(|_| WireError::LengthTooSmall(length))?;
        if size < HEADER_BYTES {
            return Err(WireError::LengthTooSmall(length));
        }
        if size > max_bytes {
            return Err(WireError::LengthTooLarge {
                length: size as u64,
                limit: max_bytes as u64,
            });
        }
        Ok(Self {
            length: size,
            request_id,
            response_to,
            op_code,
        })
    }

    /// Appends the header.
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        let length = i32::try_from(self.length).expect("messages are bounded by 48 MB");
        buffer.extend_from_slice(&length.to_le_bytes());
        buffer.extend_from_slice(&self.request_id.to_le_bytes());
        buffer.extend_from_slice(&self.response_to.to_le_bytes());
        buffer.extend_from_slice(&self.op_code.code().to_le_bytes());
    }
}
