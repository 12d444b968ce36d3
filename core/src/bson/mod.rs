//! Helpers for raw documents: writing one field by field into a buffer of the caller's.

mod depth;
mod writer;

pub use depth::{check_depth, decode_document};
pub use writer::DocumentWriter;

/// How deep documents from outside may be nested, counting the outermost; the server's own limit
/// is 100 for stored documents, and replies wrap those in a few more.
pub const MAX_DEPTH: usize = 200;

/// Reads a number that a server may write as int32, int64 or double.
#[must_use]
pub fn integer(value: bson::RawBsonRef<'_>) -> Option<i64> {
    if let Some(n) = value.as_i32() {
        return Some(n.into());
    }
    if let Some(n) = value.as_i64() {
        return Some(n);
    }
    let n = value.as_f64()?;
    (n.fract() == 0.0 && n.abs() < 9e15).then_some(n as i64)
}

/// Reads a field that a server may write as int32, int64 or double.
#[must_use]
pub fn integer_field(document: &bson::RawDocument, key: &str) -> Option<i64> {
    integer(document.get(key).ok()??)
}

/// True if `ok` is one, in whichever numeric type.
#[must_use]
pub fn is_ok(reply: &bson::RawDocument) -> bool {
    let [ok] = crate::error::pick(reply, ["ok"]);
    ok.is_some_and(|v| integer(v) == Some(1) || v.as_bool() == Some(true))
}
