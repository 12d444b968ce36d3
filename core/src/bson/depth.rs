//! The check of the nesting depth of documents.

use super::MAX_DEPTH;
use crate::error::{Error, ErrorKind, is_deeper};
use bson::{Document, RawDocument};

/// Returns an error if a document is nested deeper than [`MAX_DEPTH`] or is malformed. Decoding a
/// document of more levels into a tree could exhaust the stack. A document that is too small for
/// this depth is not read, so its malformed elements cause no error.
pub fn check_depth(document: &RawDocument) -> Result<(), Error> {
    let is_deeper = is_deeper(document, MAX_DEPTH).map_err(|error| {
        Error::new(ErrorKind::Bson {
            message: error.to_string(),
        })
    })?;
    if is_deeper {
        return Err(Error::new(ErrorKind::Limit {
            what: "the depth of a document",
            limit: MAX_DEPTH as u64,
            actual: MAX_DEPTH as u64 + 1,
        }));
    }
    Ok(())
}

/// Decodes a raw document into a tree. Fails if the document is nested deeper than [`MAX_DEPTH`] or
/// is malformed.
pub fn decode_document(document: &RawDocument) -> Result<Document, Error> {
    check_depth(document)?;
    Document::try_from(document).map_err(|error| {
        Error::new(ErrorKind::Bson {
            message: error.to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn nested(levels: usize) -> Vec<u8> {
        let mut bytes = rawdoc! {}.as_bytes().to_vec();
        for _ in 1..levels {
            let length = i32::try_from(bytes.len() + 7).expect("small");
            let mut outer = length.to_le_bytes().to_vec();
            outer.extend_from_slice(&[3, 0]);
            outer.extend_from_slice(&bytes);
            outer.push(0);
            bytes = outer;
        }
        bytes
    }

    #[test]
    fn too_deeply_nested_documents_are_refused_without_recursion() {
        let deepest = nested(MAX_DEPTH);
        assert!(check_depth(RawDocument::from_bytes(&deepest).expect("BSON")).is_ok());
        for levels in [MAX_DEPTH + 1, 100_000] {
            let bytes = nested_fast(levels);
            let error = decode_document(RawDocument::from_bytes(&bytes).expect("BSON"));
            assert!(matches!(
                error.map_err(|e| e.kind().clone()),
                Err(ErrorKind::Limit { .. })
            ));
        }
    }

    /// Returns the same bytes as `nested`, in linear time.
    fn nested_fast(levels: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for level in 0..levels {
            let length = i32::try_from(5 + 7 * (levels - 1 - level)).expect("small");
            bytes.extend_from_slice(&length.to_le_bytes());
            if level + 1 < levels {
                bytes.extend_from_slice(&[3, 0]);
            }
        }
        bytes.resize(bytes.len() + levels, 0);
        bytes
    }

    #[test]
    fn an_ordinary_nested_document_is_decoded() {
        let document = rawdoc! { "a": { "b": [1, { "c": "x".repeat(2000) }] } };
        assert!(decode_document(&document).is_ok());
    }
}
