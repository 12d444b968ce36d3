//! Tests of the writer and the parser together.

mod parsing;
mod round_trips;
mod upstream;
mod writing;

use super::*;

fn canonical(document: &RawDocument) -> String {
    to_string(document, Mode::Canonical).expect("the document is valid")
}

fn relaxed(document: &RawDocument) -> String {
    to_string(document, Mode::Relaxed).expect("the document is valid")
}

/// Returns a document with an element of any bytes.
fn raw(element: &[u8]) -> RawDocumentBuf {
    let length = i32::try_from(element.len() + 5).expect("it is small");
    let bytes = [&length.to_le_bytes()[..], element, &[0]].concat();
    RawDocumentBuf::from_bytes(bytes).expect("its length and terminator are right")
}

/// Returns nested arrays in a document of `levels` levels. The headers of all levels come first and
/// then their terminators, so that no recursion is needed.
fn nested(levels: usize) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    for level in 0..levels {
        let length = i32::try_from(5 + 8 * (levels - 1 - level)).expect("it is small");
        bytes.extend_from_slice(&length.to_le_bytes());
        if level + 1 < levels {
            bytes.extend_from_slice(b"\x040\0");
        }
    }
    bytes.resize(bytes.len() + levels, 0);
    RawDocumentBuf::from_bytes(bytes).expect("its length and terminator are right")
}

/// Returns a regular expression whose options have the given order.
fn regex(pattern: &str, options: &str) -> Bson {
    let text = |text: &str| bson::raw::CString::try_from(text).expect("no null bytes");
    Bson::RegularExpression(bson::Regex {
        pattern: text(pattern),
        options: text(options),
    })
}
