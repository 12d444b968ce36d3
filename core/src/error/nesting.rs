//! The nesting depth of documents, determined without recursion. A peer can send a document that is
//! nested so deeply that recursive code exhausts the stack.

use bson::{RawBsonRef, RawDocument};

/// The smallest number of bytes that one level of nesting takes: 1 for the type, 1 for an empty
/// key, and 5 for an empty document.
const MIN_LEVEL_BYTES: usize = 7;

/// True if `document` has more than `max` levels of nesting, including the outermost one. A
/// document that is too small for so many levels is not read. Fails if the part that is read is
/// malformed.
pub(crate) fn is_deeper(document: &RawDocument, max: usize) -> Result<bool, bson::error::Error> {
    if document.as_bytes().len() <= max * MIN_LEVEL_BYTES {
        return Ok(false);
    }
    // One iterator per open level. This stack is on the heap and has at most `max` entries.
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
