//! The header of every message, 16 bytes (MSG-1, MSG-3).

use super::{WireError, take};

/// The size of the header in bytes.
pub const HEADER_BYTES: usize = 16;

/// The default limit of the size of a message, in bytes. MongoDB servers report this value as
/// `maxMessageSizeBytes` ([MSG-4]).
///
/// [MSG-4]: crate::requirements::messages#MSG-4
pub const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// The operation code, which defines the format of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpCode {
    /// OP_REPLY, code 1: the reply to OP_QUERY. This driver does not accept such messages.
    Reply,
    /// OP_QUERY, code 2004: the legacy query. This driver neither sends nor accepts such messages.
    Query,
    /// OP_COMPRESSED, code 2012: a compressed message of another kind.
    Compressed,
    /// OP_MSG, code 2013: the format of all commands that this driver sends, and of their replies.
    Msg,
}

impl OpCode {
    /// Returns the number of the operation code in messages.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Reply => 1,
            Self::Query => 2004,
            Self::Compressed => 2012,
            Self::Msg => 2013,
        }
    }

    /// Returns the operation code with this number.
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

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The size of the whole message in bytes, including the header.
    pub length: usize,
    /// The id that the sender gave to the message.
    pub request_id: i32,
    /// The request id of the message to which this one is the reply; zero if it is not a reply.
    pub response_to: i32,
    /// The operation code, which defines the format of the bytes after the header.
    pub op_code: OpCode,
}

impl Header {
    /// Decodes a header. The length is compared with `max_bytes` here, before memory for the
    /// message is allocated.
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

    /// Appends the header to `buffer`.
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.to_bytes());
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let length = i32::try_from(self.length).expect("messages are bounded by 48 MB");
        let mut bytes = [0; HEADER_BYTES];
        let fields = [
            length,
            self.request_id,
            self.response_to,
            self.op_code.code(),
        ];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}
