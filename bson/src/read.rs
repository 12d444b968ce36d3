//! Reads the elements of documents from bytes, without copies.

use crate::error::{Error, Result};
use bson::Timestamp;

/// The type bytes of BSON values.
pub(crate) mod kind {
    pub(crate) const DOUBLE: u8 = 0x01;
    pub(crate) const STRING: u8 = 0x02;
    pub(crate) const DOCUMENT: u8 = 0x03;
    pub(crate) const ARRAY: u8 = 0x04;
    pub(crate) const BINARY: u8 = 0x05;
    pub(crate) const UNDEFINED: u8 = 0x06;
    pub(crate) const OBJECT_ID: u8 = 0x07;
    pub(crate) const BOOLEAN: u8 = 0x08;
    pub(crate) const DATE_TIME: u8 = 0x09;
    pub(crate) const NULL: u8 = 0x0a;
    pub(crate) const REGEX: u8 = 0x0b;
    pub(crate) const DB_POINTER: u8 = 0x0c;
    pub(crate) const CODE: u8 = 0x0d;
    pub(crate) const SYMBOL: u8 = 0x0e;
    pub(crate) const CODE_WITH_SCOPE: u8 = 0x0f;
    pub(crate) const INT32: u8 = 0x10;
    pub(crate) const TIMESTAMP: u8 = 0x11;
    pub(crate) const INT64: u8 = 0x12;
    pub(crate) const DECIMAL128: u8 = 0x13;
    pub(crate) const MIN_KEY: u8 = 0xff;
    pub(crate) const MAX_KEY: u8 = 0x7f;
}

/// The size of the smallest document: its length and its terminator.
pub(crate) const MIN_DOCUMENT_BYTES: usize = 5;

/// The size of the smallest code with scope: its length, an empty string and an empty document.
const MIN_CODE_WITH_SCOPE_BYTES: usize = 4 + 5 + MIN_DOCUMENT_BYTES;

/// The subtype of the old form of generic binary data, which has a second length (BSON-12).
pub(crate) const OLD_BINARY: u8 = 2;

/// An element of a document or array. The bytes of `value` have the size that the type requires; a
/// string, document or array is terminated, and nothing else of the value is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'de> {
    pub(crate) kind: u8,
    pub(crate) key: &'de [u8],
    pub(crate) value: &'de [u8],
}

/// The elements of a document or array that were not read yet.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'de> {
    /// The bytes that were not read yet.
    pub(crate) rest: &'de [u8],
}

impl<'de> Elements<'de> {
    /// Returns the elements of a whole document. Fails unless `bytes` are exactly one document
    /// (BSON-2).
    pub(crate) fn of_document(bytes: &'de [u8]) -> Result<Self> {
        match document_size(bytes) {
            Ok(size) if size == bytes.len() => Ok(Self::of_checked(bytes)),
            Ok(size) => {
                let message = format!(
                    "the document has {size} bytes, but there are {} bytes",
                    bytes.len()
                );
                Err(Error::malformed(message).at(bytes))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the elements of a document whose length and terminator are right.
    #[inline]
    pub(crate) fn of_checked(bytes: &'de [u8]) -> Self {
        let end = bytes.len().saturating_sub(1);
        Self {
            rest: bytes.get(4..end).unwrap_or_default(),
        }
    }

    /// Returns the next element; `None` at the end of the document.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Element<'de>>> {
        let Some((kind, key)) = self.header()? else {
            return Ok(None);
        };
        match self.take_value(kind) {
            Ok(value) => Ok(Some(Element { kind, key, value })),
            Err(error) => Err(error.within(key)),
        }
    }

    /// Reads the type and the name of the next element; `None` at the end of the document. The
    /// value must be read next.
    #[inline]
    pub(crate) fn header(&mut self) -> Result<Option<(u8, &'de [u8])>> {
        let Some((&kind, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        let Some(length) = zero(rest) else {
            return Err(unterminated(rest));
        };
        self.rest = &rest[length + 1..];
        Ok(Some((kind, &rest[..length])))
    }

    /// Reads the bytes of a value of a fixed size.
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(too_short().at(self.rest));
        };
        self.rest = rest;
        Ok(*bytes)
    }

    /// Reads the bytes of a value. Those of a string, document or array include the length and the
    /// terminator.
    #[inline]
    pub(crate) fn take_value(&mut self, kind: u8) -> Result<&'de [u8]> {
        let start = self.rest;
        let size = value_size(kind, start).map_err(|error| error.at(start))?;
        let Some((bytes, rest)) = start.split_at_checked(size) else {
            return Err(too_short().at(start));
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads the bytes of the text of a string (BSON-4).
    #[inline]
    pub(crate) fn take_text(&mut self) -> Result<&'de [u8]> {
        let start = self.rest;
        if let Some((length, rest)) = start.split_first_chunk::<4>() {
            // A length that is zero or negative becomes larger than `rest`.
            let length = (u32::from_le_bytes(*length) as usize).wrapping_sub(1);
            if let Some((text, [0, rest @ ..])) = rest.split_at_checked(length) {
                self.rest = rest;
                return Ok(text);
            }
        }
        match string_size(start) {
            Err(error) => Err(error.at(start)),
            Ok(_) => Err(too_short().at(start)),
        }
    }

    /// Reads the elements of a document or array (BSON-2).
    #[inline]
    pub(crate) fn take_elements(&mut self) -> Result<Self> {
        let size = document_size(self.rest)?;
        let (document, rest) = self.rest.split_at(size);
        self.rest = rest;
        Ok(Self::of_checked(document))
    }
}

#[cold]
pub(crate) fn unterminated(rest: &[u8]) -> Error {
    Error::malformed("the name of a field has no end").at(rest)
}

#[cold]
pub(crate) fn too_short() -> Error {
    Error::malformed("the value is longer than the rest of its document")
}

/// Returns the index of the first zero byte.
#[inline]
pub(crate) fn zero(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // The lowest set bit is in the first byte that is zero. Bytes above it can be wrong.
        let zeros = word.wrapping_sub(LOW) & !word & HIGH;
        if zeros != 0 {
            return Some(at + (zeros.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter().position(|&b| b == 0).map(|place| at + place)
}

/// Returns the size of a value whose bytes `rest` begins with. The result can be larger than
/// `rest`, except for strings, documents and arrays.
#[inline]
fn value_size(kind: u8, rest: &[u8]) -> Result<usize> {
    Ok(match kind {
        kind::STRING => string_size(rest)?,
        kind::INT32 => 4,
        kind::DOUBLE | kind::INT64 | kind::DATE_TIME | kind::TIMESTAMP => 8,
        kind::BOOLEAN => 1,
        kind::OBJECT_ID => 12,
        kind::DOCUMENT | kind::ARRAY => document_size(rest)?,
        kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY => 0,
        _ => rare_size(kind, rest)?,
    })
}

fn rare_size(kind: u8, rest: &[u8]) -> Result<usize> {
    Ok(match kind {
        kind::DECIMAL128 => 16,
        kind::BINARY => length(rest)? + 5,
        kind::CODE | kind::SYMBOL => string_size(rest)?,
        kind::DB_POINTER => string_size(rest)? + 12,
        kind::CODE_WITH_SCOPE => length(rest)?,
        kind::REGEX => {
            let cstring = |bytes: &[u8]| zero(bytes).ok_or_else(|| unterminated(bytes));
            let pattern = cstring(rest)? + 1;
            pattern + cstring(&rest[pattern..])? + 1
        }
        other => return Err(not_a_type(other)),
    })
}

#[cold]
pub(crate) fn not_a_type(kind: u8) -> Error {
    Error::malformed(format!("0x{kind:02x} is not the type of a BSON value"))
}

/// Reads a length at the start of `bytes`.
#[inline]
fn length(bytes: &[u8]) -> Result<usize> {
    let length = bytes.first_chunk::<4>().map(|b| i32::from_le_bytes(*b));
    match length.map(usize::try_from) {
        Some(Ok(length)) => Ok(length),
        Some(Err(_)) => Err(Error::malformed("a length is negative")),
        None => Err(too_short()),
    }
}

/// Returns the size of a string with its length and its terminator (BSON-4).
#[inline]
pub(crate) fn string_size(bytes: &[u8]) -> Result<usize> {
    let size = length(bytes)? + 4;
    match bytes.get(size - 1) {
        Some(0) if size > 4 => Ok(size),
        Some(_) if size > 4 => Err(Error::malformed("a string is not terminated")),
        Some(_) => Err(Error::malformed("a string has no terminator in its length")),
        None => Err(too_short()),
    }
}

/// Returns the size of the document that `bytes` begins with (BSON-2).
#[inline]
pub(crate) fn document_size(bytes: &[u8]) -> Result<usize> {
    if let Some(length) = bytes.first_chunk::<4>() {
        // A length that is negative becomes larger than `bytes`.
        let size = u32::from_le_bytes(*length) as usize;
        if size >= MIN_DOCUMENT_BYTES && bytes.get(size - 1) == Some(&0) {
            return Ok(size);
        }
    }
    Err(wrong_document_size(bytes))
}

#[cold]
fn wrong_document_size(bytes: &[u8]) -> Error {
    let error = match length(bytes) {
        Err(error) => error,
        Ok(size) if size < MIN_DOCUMENT_BYTES => {
            Error::malformed(format!("a document of {size} bytes is too small"))
        }
        Ok(size) if size > bytes.len() => too_short(),
        Ok(_) => Error::malformed("a document is not terminated"),
    };
    error.at(bytes)
}

/// Checks text, and returns it. Texts are checked when they are used, and only then.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    // The fast path of the standard library is better for short texts, which names of fields and
    // most values are.
    let text = if bytes.len() < 64 {
        std::str::from_utf8(bytes).ok()
    } else {
        simdutf8::basic::from_utf8(bytes).ok()
    };
    text.ok_or_else(|| not_utf8(bytes))
}

#[cold]
fn not_utf8(bytes: &[u8]) -> Error {
    Error::malformed("a text is not UTF-8").at(bytes)
}

/// Returns the bytes of the text in the value of a string.
#[inline]
pub(crate) fn string_bytes(value: &[u8]) -> &[u8] {
    value
        .get(4..value.len().saturating_sub(1))
        .unwrap_or_default()
}

/// Returns the bytes of a value that has a fixed size.
#[inline]
pub(crate) fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N]> {
    value.first_chunk().copied().ok_or_else(too_short)
}

/// Reads a boolean (BSON-6).
#[inline]
pub(crate) fn boolean(value: &[u8]) -> Result<bool> {
    match value.first() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(Error::malformed("a boolean is neither 0 nor 1").at(value)),
    }
}

/// Reads a timestamp (BSON-8).
pub(crate) fn timestamp(value: &[u8]) -> Result<Timestamp> {
    let [a, b, c, d, rest @ ..] = fixed::<8>(value)?;
    let increment = u32::from_le_bytes([a, b, c, d]);
    let time = u32::from_le_bytes(rest);
    Ok(Timestamp { time, increment })
}

/// Returns the subtype and the data of binary data, without the second length of the old subtype.
pub(crate) fn binary(value: &[u8]) -> Result<(u8, &[u8])> {
    let Some((&[_, _, _, _, subtype], data)) = value.split_first_chunk::<5>() else {
        return Err(too_short().at(value));
    };
    if subtype != OLD_BINARY {
        return Ok((subtype, data));
    }
    match data.split_first_chunk::<4>() {
        Some((inner, data)) if i32::from_le_bytes(*inner).try_into() == Ok(data.len()) => {
            Ok((subtype, data))
        }
        _ => Err(Error::malformed("the second length of old binary data is wrong").at(value)),
    }
}

/// Returns the pattern and the options of a regular expression.
pub(crate) fn regex(value: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = zero(value).ok_or_else(|| unterminated(value))?;
    let (pattern, rest) = value.split_at(end);
    Ok((pattern, &rest[1..rest.len() - 1]))
}

/// Returns the namespace and the id of a DBPointer.
pub(crate) fn db_pointer(value: &[u8]) -> Result<(&[u8], [u8; 12])> {
    let (namespace, id) = value.split_last_chunk::<12>().ok_or_else(too_short)?;
    Ok((string_bytes(namespace), *id))
}

/// Returns the code, as the value of a string, and the scope of a code with scope. The lengths must
/// agree (BSON-14).
pub(crate) fn code_with_scope(value: &[u8]) -> Result<(&[u8], &[u8])> {
    let wrong = |message: &str| Error::malformed(message).at(value);
    if value.len() < MIN_CODE_WITH_SCOPE_BYTES {
        return Err(wrong("a code with scope is too small"));
    }
    let rest = &value[4..];
    let (code, scope) = rest.split_at(string_size(rest)?);
    if document_size(scope)? != scope.len() {
        return Err(wrong("the lengths in a code with scope do not agree"));
    }
    Ok((code, scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_zero_byte_is_found() {
        for length in 0..40 {
            let mut bytes = vec![0x80_u8; length];
            assert_eq!(zero(&bytes), None);
            for at in 0..length {
                bytes[at] = 0;
                for later in [1, 0xff] {
                    let mut bytes = bytes.clone();
                    if let Some(next) = bytes.get_mut(at + 1) {
                        *next = later;
                    }
                    assert_eq!(zero(&bytes), Some(at));
                }
                bytes[at] = 1;
            }
        }
    }

    #[test]
    fn the_elements_of_a_document_end_with_its_bytes() {
        let document = bson::rawdoc! { "a": 1, "b": "text", "c": [true], "d": null };
        let mut elements = Elements::of_document(document.as_bytes()).expect("BSON");
        let mut keys = Vec::new();
        while let Some(element) = elements.next().expect("BSON") {
            keys.push((element.key, element.kind, element.value.len()));
        }
        let expected: [(&[u8], u8, usize); 4] = [
            (b"a", kind::INT32, 4),
            (b"b", kind::STRING, 9),
            (b"c", kind::ARRAY, 9),
            (b"d", kind::NULL, 0),
        ];
        assert_eq!(keys, expected);
    }
}
