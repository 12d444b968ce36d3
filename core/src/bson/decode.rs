//! Decodes documents that were received, and describes failures of the conversion.

use super::MAX_DEPTH;
use crate::error::{BsonError, Error, ErrorKind};
use bson::{Document, RawDocument};
use serde::de::{Deserialize, DeserializeOwned};

/// Decodes the bytes of a document as `T`. A [`Document`] and a `RawDocumentBuf` are copies of the
/// bytes, which never take a document for Extended JSON.
///
/// Fails if the document is malformed, is nested deeper than [`MAX_DEPTH`], or does not have the
/// form that `T` needs. The error names the field.
#[inline]
pub fn deserialize<T: DeserializeOwned + 'static>(document: &[u8]) -> Result<T, Error> {
    Ok(onionskin_bson::deserialize_owned(document)?)
}

/// Decodes the bytes of a document as `T`, which may borrow from them.
///
/// Fails if the document is malformed, is nested deeper than [`MAX_DEPTH`], or does not have the
/// form that `T` needs. The error names the field.
#[inline]
pub fn deserialize_borrowed<'de, T: Deserialize<'de>>(document: &'de [u8]) -> Result<T, Error> {
    Ok(onionskin_bson::deserialize_from_slice(document)?)
}

/// Decodes a raw document into a tree. Fails if the document is nested deeper than [`MAX_DEPTH`] or
/// is malformed.
pub fn decode_document(document: &RawDocument) -> Result<Document, Error> {
    Ok(onionskin_bson::document_from_slice(document.as_bytes())?)
}

/// Decodes the bytes of a document into a tree whose memory is used again. Fails as
/// [`decode_document`].
pub fn decode_document_into(tree: &mut Document, bytes: &[u8]) -> Result<(), Error> {
    Ok(onionskin_bson::document_from_slice_into(tree, bytes)?)
}

impl From<onionskin_bson::Error> for Error {
    fn from(error: onionskin_bson::Error) -> Self {
        use onionskin_bson::ErrorKind as Kind;

        let beyond = |what, limit: usize| ErrorKind::Limit {
            what,
            limit: limit as u64,
            actual: limit as u64 + 1,
        };
        Self::new(match error.kind() {
            Kind::Depth => beyond("the depth of a document", MAX_DEPTH),
            Kind::Size { limit } => beyond("the size of a document in bytes", *limit),
            _ => ErrorKind::Bson(BsonError {
                message: error.to_string(),
                path: error.path(),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn the_error_of_a_decoded_document_has_the_path_of_the_field() {
        #[derive(Debug, serde::Deserialize)]
        struct Outer {
            #[expect(dead_code, reason = "it cannot be decoded")]
            list: Vec<Inner>,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Inner {
            #[expect(dead_code, reason = "it cannot be decoded")]
            number: i32,
        }
        let document = rawdoc! { "list": [{ "number": 1 }, { "number": "two" }] };
        let error = deserialize::<Outer>(document.as_bytes()).expect_err("it is no number");
        let ErrorKind::Bson(BsonError { path, .. }) = error.kind() else {
            panic!("{error:?}");
        };
        assert_eq!(path, "list.1.number");
    }

    /// Returns a document of this number of levels.
    fn nested(levels: usize) -> Vec<u8> {
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
    fn too_deeply_nested_documents_are_refused_without_recursion() {
        let deepest = nested(MAX_DEPTH);
        assert!(decode_document(RawDocument::from_bytes(&deepest).expect("BSON")).is_ok());
        for levels in [MAX_DEPTH + 1, 100_000] {
            let bytes = nested(levels);
            let document = RawDocument::from_bytes(&bytes).expect("BSON");
            let errors = [
                decode_document(document).expect_err("too deep"),
                deserialize_borrowed::<bson::Bson>(&bytes).expect_err("too deep"),
            ];
            for error in errors {
                assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error:?}");
            }
        }
    }

    #[test]
    fn an_error_names_the_field() {
        let document = rawdoc! { "a": { "b": [1, "text"] } };
        let map = deserialize::<std::collections::BTreeMap<String, Inner>>(document.as_bytes());
        let error = map.expect_err("a string is no number").to_string();
        assert!(error.contains("`a.b.1`"), "{error}");
    }

    type Inner = std::collections::BTreeMap<String, Vec<i32>>;
}
