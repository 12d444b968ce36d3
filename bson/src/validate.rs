//! Checks whole documents.

use crate::{
    error::Result,
    read::{self, Element, kind},
    walk::{Container, Levels},
};

/// Checks that `bytes` are exactly one document, and that all its values are valid at every level.
///
/// The crate [`bson`] checks the parts of a [`RawDocument`](bson::RawDocument) when they are read.
/// This function finds every defect at once: lengths that do not agree, missing terminators, texts
/// and names that are not UTF-8, booleans other than 0 and 1, and types that do not exist. Names of
/// array elements are not compared with their index, because readers ignore them. Its source is the
/// BSON specification, version 1.1.
///
/// # Errors
///
/// Returns an error with the path and the offset of the first defect. A document that is nested
/// deeper than [`MAX_DEPTH`](crate::MAX_DEPTH) levels is an error of the kind
/// [`Depth`](crate::ErrorKind::Depth).
///
/// ```
/// let mut bytes = bson::doc! { "a": { "b": true } }.to_vec()?;
/// assert!(onionskin_bson::validate(&bytes).is_ok());
///
/// let boolean = bytes.len() - 3;
/// bytes[boolean] = 2;
/// let error = onionskin_bson::validate(&bytes).unwrap_err();
/// assert_eq!((error.path().as_str(), error.offset()), ("a.b", Some(boolean)));
/// # Ok::<(), bson::error::Error>(())
/// ```
pub fn validate(bytes: &[u8]) -> Result<()> {
    let mut levels = Levels::of_document(bytes)?;
    while let Some(level) = levels.innermost() {
        match level.next() {
            Ok(None) => levels.leave(),
            Ok(Some(element)) => {
                check(element, &mut levels).map_err(|error| levels.locate(error))?;
            }
            Err(error) => return Err(levels.locate(error)),
        }
    }
    Ok(())
}

/// Checks an element, and enters its document or array.
fn check<'de>(element: Element<'de>, levels: &mut Levels<'de>) -> Result<()> {
    let Element { key, value, .. } = element;
    read::text(key)?;
    let inner = inner(element).map_err(|error| error.at(value).within(key))?;
    match inner {
        // All containers are checked alike.
        Some(bytes) => levels.enter(key, bytes, Container::Document),
        None => Ok(()),
    }
}

/// Checks the value of an element. Returns the bytes of the document or array in it.
fn inner(element: Element<'_>) -> Result<Option<&[u8]>> {
    let value = element.value;
    match element.kind {
        kind::DOCUMENT | kind::ARRAY => return Ok(Some(value)),
        kind::STRING | kind::CODE | kind::SYMBOL => {
            read::text(read::string_bytes(value))?;
        }
        kind::BOOLEAN => {
            read::boolean(value)?;
        }
        kind::BINARY => {
            read::binary(value)?;
        }
        kind::REGEX => {
            let (pattern, options) = read::regex(value)?;
            read::text(pattern)?;
            read::text(options)?;
        }
        kind::DB_POINTER => {
            read::text(read::db_pointer(value)?.0)?;
        }
        kind::CODE_WITH_SCOPE => {
            let (code, scope) = read::code_with_scope(value)?;
            read::text(read::string_bytes(code))?;
            return Ok(Some(scope));
        }
        // All bytes are valid values of these types, whose size the reader checks.
        kind::DOUBLE
        | kind::UNDEFINED
        | kind::OBJECT_ID
        | kind::DATE_TIME
        | kind::NULL
        | kind::INT32
        | kind::TIMESTAMP
        | kind::INT64
        | kind::DECIMAL128
        | kind::MIN_KEY
        | kind::MAX_KEY => {}
        other => return Err(read::not_a_type(other)),
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, MAX_DEPTH};

    /// Returns a document of `levels` levels. The headers of all levels come first and then their
    /// terminators.
    fn nested(levels: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for level in 0..levels {
            let length = i32::try_from(5 + 7 * (levels - 1 - level)).expect("it is small");
            bytes.extend_from_slice(&length.to_le_bytes());
            if level + 1 < levels {
                bytes.extend_from_slice(&[kind::ARRAY, 0]);
            }
        }
        bytes.resize(bytes.len() + levels, 0);
        bytes
    }

    #[test]
    fn documents_up_to_the_maximum_depth_are_valid() {
        assert_eq!(validate(&nested(1)), Ok(()));
        assert_eq!(validate(&nested(MAX_DEPTH)), Ok(()));
        for levels in [MAX_DEPTH + 1, 100_000] {
            let error = validate(&nested(levels)).expect_err("it is too deep");
            assert_eq!(error.kind(), &ErrorKind::Depth);
            assert_eq!(error.offset(), Some(6 * MAX_DEPTH));
        }
    }

    // BSON-3, BSON-4, BSON-6, BSON-12 and BSON-14.
    #[test]
    fn each_defect_is_found_with_its_path_and_offset() {
        for (element, offset) in [
            (&b"\x08k\0\x02"[..], 7),
            (b"\x02k\0\x02\0\0\0\xe9\0", 11),
            (b"\x0dk\0\x02\0\0\0\xe9\0", 11),
            (b"\x0ek\0\x02\0\0\0\xe9\0", 11),
            (b"\x0ck\0\x02\0\0\0\xe9\0............", 11),
            (b"\x0bk\0\xe9\0\0", 7),
            (b"\x0bk\0\0\xe9\0", 8),
            (b"\x05k\0\x04\0\0\0\x02\x01\0\0\0", 7),
            (b"\x05k\0\x03\0\0\0\x02\x01\0\0", 7),
            (b"\x0fk\0\x0f\0\0\0\x01\0\0\0\0\x05\0\0\0\0.", 7),
            (b"\x0fk\0\x0f\0\0\0\x02\0\0\0\xe9\0\x05\0\0\0\0", 15),
            (b"\x02k\0\x00\0\0\0\0", 7),
            (b"\x14k\0", 7),
        ] {
            let length = u8::try_from(element.len() + 5).expect("it is small");
            let bytes = [&[length, 0, 0, 0], element, &[0]].concat();
            let error = validate(&bytes).expect_err("it is malformed");
            assert_eq!(error.path(), "k", "{element:?}: {error}");
            assert_eq!(error.offset(), Some(offset), "{element:?}: {error}");
        }
        let name = b"\x09\0\0\0\x0a\xe9\0\0\0";
        assert!(validate(name).is_err());
        let name = b"\x08\0\0\0\x0a\xe9\0\0";
        assert_eq!(validate(name).expect_err("no UTF-8").offset(), Some(5));
    }

    #[test]
    fn a_document_must_end_with_its_bytes() {
        let bytes = bson::doc! { "a": 1 }.to_vec().expect("a document");
        for length in 0..bytes.len() {
            assert!(validate(&bytes[..length]).is_err());
        }
        assert!(validate(&[&bytes[..], &[0]].concat()).is_err());
    }

    // BSON-2, BSON-3 and BSON-4: lengths, terminators and types.
    #[test]
    fn wrong_lengths_terminators_and_types_are_refused() {
        for bytes in [
            // The length of a document: too small, too large, negative, and other bytes after it.
            &b""[..],
            b"\x05\0\0",
            b"\x04\0\0\0",
            b"\x01\0\0\0\0",
            b"\x06\0\0\0\0",
            b"\xff\xff\xff\xff\0",
            b"\0\0\0\x80\0",
            b"\x05\0\0\0\0\0",
            // Its terminator.
            b"\x05\0\0\0\x01",
            b"\x07\0\0\0\x0aa\0",
            b"\x09\0\0\0\x10a\0\x05\0",
            // Types that do not exist, and a name that does not end.
            b"\x08\0\0\0\0a\0\0",
            b"\x08\0\0\0\x80a\0\0",
            b"\x08\0\0\0\x14a\0\0",
            b"\x07\0\0\0\x0aa\0",
            // A document in a document that ends after or before its bytes.
            b"\x0d\0\0\0\x03a\0\x06\0\0\0\0\0",
            b"\x0e\0\0\0\x03a\0\x05\0\0\0\0\0",
            b"\x0c\0\0\0\x03a\0\x05\0\0\0\0",
            // A regular expression whose options do not end, and one with a null byte in it.
            b"\x0b\0\0\0\x0ba\0b\0c\0",
            b"\x0f\0\0\0\x0ba\0b\0c\0i\0\0",
        ] {
            assert!(validate(bytes).is_err(), "{bytes:?}");
        }
    }

    // BSON-4: the length of a string is 0, negative, too small or too large.
    #[test]
    fn wrong_lengths_of_strings_are_refused() {
        for kind in [kind::STRING, kind::CODE, kind::SYMBOL] {
            for (value, is_valid) in [
                (&b"\x02\0\0\0b\0"[..], true),
                (b"\x01\0\0\0\0", true),
                (b"\x03\0\0\0b\0\0", true),
                (b"\0\0\0\0b\0", false),
                (b"\0\0\0\0", false),
                (b"\xff\xff\xff\xffb\0", false),
                (b"\x01\0\0\0b\0", false),
                (b"\x03\0\0\0b\0", false),
                (b"\x10\0\0\0b\0", false),
                (b"\x02\0\0\0bc", false),
                (b"\x01\0\0\0\0\0", false),
            ] {
                let length = u8::try_from(value.len() + 8).expect("it is small");
                let bytes = [&[length, 0, 0, 0, kind, b'a', 0], value, &[0]].concat();
                assert_eq!(validate(&bytes).is_ok(), is_valid, "{bytes:?}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn random_bytes_cause_no_panic(
            elements in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
            kind in 1..=0x13_u8,
        ) {
            let body = [&[kind, b'k', 0][..], &elements].concat();
            let length = i32::try_from(body.len() + 5).expect("it is small").to_le_bytes();
            let _ = validate(&[&length[..], &body, &[0]].concat());
            let _ = validate(&elements);
        }
    }
}
