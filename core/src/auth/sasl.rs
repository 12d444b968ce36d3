//! The commands `saslStart` and `saslContinue`, which carry SASL messages, and the replies to them
//! (AUTH-40, AUTH-41).

use super::progress::Failure;
use crate::{bson::integer, error::pick};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bson::{
    Binary, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr, rawdoc, spec::BinarySubtype,
};

/// The maximum length in bytes of a SASL message from a server; a longer one is refused. The
/// messages of SCRAM have about 100 bytes.
const MAX_PAYLOAD_BYTES: usize = 8 * 1024;

/// Returns `saslStart`, the first command of a conversation.
pub(super) fn start(mechanism: &str, payload: &[u8]) -> RawDocumentBuf {
    rawdoc! {
        "saslStart": 1,
        "mechanism": mechanism,
        "payload": binary(payload),
        "autoAuthorize": 1,
    }
}

/// Returns `saslContinue`, the command of each later step of a conversation.
pub(super) fn next(conversation: &RawBson, payload: &[u8]) -> RawDocumentBuf {
    let mut command = rawdoc! { "saslContinue": 1 };
    command.append(cstr!("conversationId"), conversation.clone());
    command.append(cstr!("payload"), binary(payload));
    command
}

/// The reply to `saslStart` or `saslContinue`.
pub(super) struct SaslReply {
    /// The `conversationId`, which later commands repeat without a change of its type.
    pub(super) conversation: RawBson,
    /// True if the server expects no further command.
    pub(super) done: bool,
    /// The SASL message of the server.
    pub(super) payload: Vec<u8>,
}

impl SaslReply {
    /// Parses a successful reply. The error says what is wrong with the reply.
    pub(super) fn read(reply: &RawDocument) -> Result<Self, &'static str> {
        let keys = ["code", "conversationId", "done", "payload"];
        let [code, id, done, payload] = pick(reply, keys);
        if code.is_some_and(|code| integer(code) != Some(0)) {
            return Err("the server's reply carries an error code");
        }
        let conversation = match id {
            Some(id) if integer(id).is_some() => RawBson::from(id),
            _ => return Err("the server's reply has no conversationId"),
        };
        let Some(done) = done.and_then(|done| done.as_bool()) else {
            return Err("the server's reply does not say whether it is done");
        };
        let payload = match payload {
            Some(RawBsonRef::Binary(binary)) if binary.bytes.len() <= MAX_PAYLOAD_BYTES => {
                binary.bytes.to_vec()
            }
            Some(RawBsonRef::String(text)) if text.len() <= 2 * MAX_PAYLOAD_BYTES => BASE64
                .decode(text)
                .map_err(|_| "the server's payload is not base64")?,
            _ => return Err("the server's reply has no usable payload"),
        };
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err("the server's payload is too long");
        }
        Ok(Self {
            conversation,
            done,
            payload,
        })
    }
}

/// Fails if a reply belongs to another conversation.
pub(super) fn same_conversation(expected: &RawBson, reply: &SaslReply) -> Result<(), Failure> {
    if integer(expected.as_raw_bson_ref()) == integer(reply.conversation.as_raw_bson_ref()) {
        Ok(())
    } else {
        Err("the server answered in another conversation".to_owned())
    }
}

/// Returns a binary value of the generic subtype.
pub(super) fn binary(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}
