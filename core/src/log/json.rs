//! Documents as relaxed Extended JSON of limited length.

use bson::RawDocument;
use onionskin_bson::extjson::{Mode, to_string_lossy};

/// Returns a document as relaxed Extended JSON, cut to `limit` bytes.
///
/// A text longer than `limit` is cut between two characters, and `...` follows. The document is not
/// read beyond the value in which the limit is reached. A value that cannot be read is shown as
/// `...`, and so is a document or array that is nested too deeply.
///
/// ```
/// use onionskin_core::log::extended_json;
///
/// let document = bson::rawdoc! { "n": 1_i64, "when": bson::DateTime::from_millis(0) };
/// let text = extended_json(&document, 1000);
/// assert_eq!(text, r#"{"n":1,"when":{"$date":"1970-01-01T00:00:00Z"}}"#);
/// assert_eq!(extended_json(&document, 6), r#"{"n":1..."#);
/// ```
#[must_use]
pub fn extended_json(document: &RawDocument, limit: usize) -> String {
    to_string_lossy(document, Mode::Relaxed, limit)
}
