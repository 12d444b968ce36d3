//! Encoding of raw documents into a buffer, and checks of documents that were received.

mod decode;
mod writer;

pub use decode::{decode_document, decode_document_into, deserialize, deserialize_borrowed};
pub use onionskin_bson::MAX_DEPTH;
pub use writer::DocumentWriter;

/// Reads an integer that a server sent as int32, int64 or double. Returns `None` for other types,
/// for a fraction, and for a double of 9e15 or more in absolute value.
#[must_use]
pub fn integer(value: bson::RawBsonRef<'_>) -> Option<i64> {
    crate::error::integer(value)
}

/// Reads a field with an integer that a server sent as int32, int64 or double. Returns `None` if
/// the field is absent, or if [`integer`] returns `None` for its value.
#[must_use]
pub fn integer_field(document: &bson::RawDocument, key: &str) -> Option<i64> {
    integer(document.get(key).ok()??)
}

/// True if the field `ok` is 1 in any numeric type, or `true`.
#[must_use]
pub fn is_ok(reply: &bson::RawDocument) -> bool {
    let [ok] = crate::error::pick(reply, ["ok"]);
    ok.is_some_and(|v| integer(v) == Some(1) || v.as_bool() == Some(true))
}
