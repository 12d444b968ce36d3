//! Conversion of received commands into documents of limited depth, and access to their fields.

use bson::{Bson, Document, RawDocument};
use onionskin_core::bson::decode_document;

/// Copies a document. Returns `None` if the document is malformed or nested too deep.
pub(super) fn owned(raw: &RawDocument) -> Option<Document> {
    decode_document(raw).ok()
}

/// Returns an int32, an int64 or a double as an integer, without its fraction. Returns `None` for
/// other types, and for doubles with an absolute value of 9e15 or more.
pub(super) fn integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some((*n).into()),
        Bson::Int64(n) => Some(*n),
        Bson::Double(n) if n.abs() < 9e15 => Some(*n as i64),
        _ => None,
    }
}

/// Returns the field as [`integer`] does. Returns `None` also for a missing field.
pub(super) fn integer_field(from: &Document, key: &str) -> Option<i64> {
    integer(from.get(key)?)
}

/// Returns the field as a count. A value that is missing, negative or no number counts as 0.
pub(super) fn count_field(from: &Document, key: &str) -> u64 {
    integer_field(from, key)
        .and_then(|n| u64::try_from(n).ok())
        .unwrap_or(0)
}

/// True for `true` and for numbers other than 0.
pub(super) fn truth(value: Option<&Bson>) -> bool {
    match value {
        Some(Bson::Boolean(b)) => *b,
        Some(Bson::Double(number)) => *number != 0.0,
        Some(number) => integer(number).is_some_and(|n| n != 0),
        None => false,
    }
}
