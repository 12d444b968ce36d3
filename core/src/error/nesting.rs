//! How deep a document is nested, found out without recursion: a peer may send what would exhaust
//! the stack of anything that follows it downwards.

use bson::{RawBsonRef, RawDocument};

/// Bytes that a level of nesting takes at least: a type, an empty key, a length, a terminator.
const MIN_LEVEL_BYTES: usize = 7;

/// True if `document` has more than `max` levels, the outermost included. Documents too small for
/// that are not walked.
pub(crate) fn is_deeper(document: &RawDocument, max: usize) -> Result<bool, bson::error::Error> {
    if document.as_bytes().len() <= max * MIN_LEVEL_BYTES {
        return Ok(false);
    }
    // One iterator per open level; the stack lives on the heap and is bounded.
    let mut levels = vec![document.iter()];
    while let Some(level) = levels.last_mut() {
        let inner = match level.next().transpose()? {
            None => {
                levels.pop();
                continue;
            }
            Some((_, RawBsonRef::Document(inner))) => inner,
            Some((_, RawBsonRef::Array(array))) => RawDocument::from_bytes(array.as_bytes())?,
            Some((_, RawBsonRef::JavaScriptCodeWithScope(code))) => code.scope,
            Some(_) => continue,
        };
        if levels.len() >= max {
            return Ok(true);
        }
        levels.push(inner.iter());
    }
    Ok(false)
}
