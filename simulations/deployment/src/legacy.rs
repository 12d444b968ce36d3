//! The messages OP_QUERY and OP_REPLY, with which some other drivers send their first hello.
//!
//! The core sends its first hello as OP_MSG (HELLO-4). Simulated servers need these messages for
//! other drivers.

use bson::RawDocument;
use onionskin_core::unstable::wire::{HEADER_BYTES, Header, OpCode, WireError};

/// The flag of OP_QUERY that permits a secondary to answer.
const SECONDARY_OK: i32 = 1 << 2;

/// The flags of OP_REPLY that mean failure: cursor not found, and query failure.
const FAILURE_FLAGS: i32 = 0b11;

/// A command as OP_QUERY: a query for one document of `<database>.$cmd`.
#[derive(Clone, Copy, Debug)]
pub struct LegacyQuery<'a> {
    /// The full name of the collection, such as `admin.$cmd`.
    pub collection: &'a str,
    /// The command, which is the document that the query contains.
    pub command: &'a RawDocument,
}

impl<'a> LegacyQuery<'a> {
    /// Appends the encoded message to `buffer`.
    pub fn encode(&self, buffer: &mut Vec<u8>, request_id: i32) {
        let command = self.command.as_bytes();
        let length = HEADER_BYTES + 4 + self.collection.len() + 1 + 8 + command.len();
        Header {
            length,
            request_id,
            response_to: 0,
            op_code: OpCode::Query,
        }
        .encode(buffer);
        buffer.extend_from_slice(&SECONDARY_OK.to_le_bytes());
        buffer.extend_from_slice(self.collection.as_bytes());
        buffer.push(0);
        buffer.extend_from_slice(&0_i32.to_le_bytes());
        buffer.extend_from_slice(&(-1_i32).to_le_bytes());
        buffer.extend_from_slice(command);
    }

    /// Decodes a whole frame, header included.
    pub fn decode(frame: &'a [u8]) -> Result<Self, WireError> {
        let mut bytes = frame
            .get(HEADER_BYTES..)
            .ok_or(WireError::Truncated("the header"))?;
        take::<4>(&mut bytes, "the flags")?;
        let Some(end) = bytes.iter().position(|&b| b == 0) else {
            return Err(WireError::Truncated("the collection's name"));
        };
        let collection = std::str::from_utf8(&bytes[..end])
            .map_err(|_| WireError::Document("a collection's name is not UTF-8"))?;
        bytes = &bytes[end + 1..];
        take::<8>(&mut bytes, "the number of documents")?;
        Ok(Self {
            collection,
            command: document(bytes, "the query")?,
        })
    }
}

/// The reply to a command as OP_REPLY, with one document.
#[derive(Clone, Copy, Debug)]
pub struct LegacyReply<'a> {
    /// The single document of the reply.
    pub body: &'a RawDocument,
}

impl<'a> LegacyReply<'a> {
    /// Decodes a whole frame, header included. A reply without a document or with several ones is
    /// an error.
    pub fn decode(frame: &'a [u8]) -> Result<Self, WireError> {
        let mut bytes = frame
            .get(HEADER_BYTES..)
            .ok_or(WireError::Truncated("the header"))?;
        let flags = i32::from_le_bytes(take(&mut bytes, "the flags")?);
        take::<12>(&mut bytes, "the cursor")?;
        let count = i32::from_le_bytes(take(&mut bytes, "the number of documents")?);
        if count != 1 {
            return Err(WireError::Document("a command's reply is one document"));
        }
        let body = document(bytes, "the reply")?;
        if flags & FAILURE_FLAGS != 0 && body.get("ok").is_ok_and(|ok| ok.is_some()) {
            return Err(WireError::Document(
                "a failed query that claims a command's result",
            ));
        }
        Ok(Self { body })
    }

    /// Appends the encoded message to `buffer`.
    pub fn encode(&self, buffer: &mut Vec<u8>, request_id: i32, response_to: i32) {
        let body = self.body.as_bytes();
        let length = HEADER_BYTES + 20 + body.len();
        Header {
            length,
            request_id,
            response_to,
            op_code: OpCode::Reply,
        }
        .encode(buffer);
        // Bit 3 is `AwaitCapable`, which every server since 1.6 sets.
        buffer.extend_from_slice(&(1_i32 << 3).to_le_bytes());
        buffer.extend_from_slice(&0_i64.to_le_bytes());
        buffer.extend_from_slice(&0_i32.to_le_bytes());
        buffer.extend_from_slice(&1_i32.to_le_bytes());
        buffer.extend_from_slice(body);
    }
}

/// Removes the first `N` bytes and returns them.
fn take<const N: usize>(bytes: &mut &[u8], what: &'static str) -> Result<[u8; N], WireError> {
    let (head, rest) = bytes
        .split_first_chunk::<N>()
        .ok_or(WireError::Truncated(what))?;
    *bytes = rest;
    Ok(*head)
}

/// Returns the document at the start of `bytes`. The document's own length decides where it ends.
fn document<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a RawDocument, WireError> {
    let length = bytes.first_chunk().ok_or(WireError::Truncated(what))?;
    let length = usize::try_from(i32::from_le_bytes(*length))
        .map_err(|_| WireError::Document("negative length"))?;
    let bytes = bytes.get(..length).ok_or(WireError::Truncated(what))?;
    RawDocument::from_bytes(bytes).map_err(|_| WireError::Document("no document"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn legacy_messages_decode_as_encoded_and_truncated_ones_are_refused() {
        let command = rawdoc! { "isMaster": 1, "helloOk": true };
        let mut query = Vec::new();
        LegacyQuery {
            collection: "admin.$cmd",
            command: &command,
        }
        .encode(&mut query, 5);
        assert_eq!(
            Header::decode(&query, 1000).map(|h| h.length),
            Ok(query.len())
        );
        let read = LegacyQuery::decode(&query).expect("as written");
        assert_eq!((read.collection, read.command), ("admin.$cmd", &*command));

        let mut reply = Vec::new();
        LegacyReply {
            body: &rawdoc! { "ok": 1 },
        }
        .encode(&mut reply, 6, 5);
        assert!(LegacyReply::decode(&reply).is_ok());
        for end in 0..query.len() {
            assert!(LegacyQuery::decode(&query[..end]).is_err());
        }
        for end in 0..reply.len() {
            assert!(LegacyReply::decode(&reply[..end]).is_err());
        }
    }
}
