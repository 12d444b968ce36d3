//! MongoDB's sort order of values of all types.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use bson::{Bson, Document};

use super::number;

/// A value with MongoDB's sort order, for example a key of an index or of a group. Values that
/// compare equal are the same key.
#[derive(Clone, Debug)]
pub(crate) struct Key(pub(crate) Bson);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Returns the position of a value's type in the sort order. Values of different positions are
/// never equal.
pub(crate) fn rank(value: &Bson) -> u8 {
    match value {
        Bson::MinKey => 0,
        Bson::Undefined => 1,
        Bson::Null => 2,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => 3,
        Bson::String(_) | Bson::Symbol(_) => 4,
        Bson::Document(_) => 5,
        Bson::Array(_) => 6,
        Bson::Binary(_) => 7,
        Bson::ObjectId(_) => 8,
        Bson::Boolean(_) => 9,
        Bson::DateTime(_) => 10,
        Bson::Timestamp(_) => 11,
        Bson::RegularExpression(_) => 12,
        Bson::DbPointer(_) => 13,
        Bson::JavaScriptCode(_) => 14,
        Bson::JavaScriptCodeWithScope(_) => 15,
        Bson::MaxKey => 16,
    }
}

/// Compares two values in MongoDB's sort order, and strings by their bytes.
pub(crate) fn compare(a: &Bson, b: &Bson) -> Ordering {
    compare_with(a, b, &str::cmp)
}

/// Compares two values in MongoDB's sort order, and strings with `texts`.
pub(crate) fn compare_with(
    a: &Bson,
    b: &Bson,
    texts: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| within(a, b, texts))
}

fn within(a: &Bson, b: &Bson, texts: &impl Fn(&str, &str) -> Ordering) -> Ordering {
    match (a, b) {
        (Bson::ObjectId(a), Bson::ObjectId(b)) => a.bytes().cmp(&b.bytes()),
        (Bson::String(a) | Bson::Symbol(a), Bson::String(b) | Bson::Symbol(b)) => texts(a, b),
        (Bson::Document(a), Bson::Document(b)) => compare_documents(a, b, texts),
        (Bson::Array(a), Bson::Array(b)) => {
            let first = a
                .iter()
                .zip(b)
                .map(|(a, b)| compare_with(a, b, texts))
                .find(|o| o.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Bson::Binary(a), Bson::Binary(b)) => (a.bytes.len(), u8::from(a.subtype), &a.bytes)
            .cmp(&(b.bytes.len(), u8::from(b.subtype), &b.bytes)),
        (Bson::Boolean(a), Bson::Boolean(b)) => a.cmp(b),
        (Bson::DateTime(a), Bson::DateTime(b)) => a.cmp(b),
        (Bson::Timestamp(a), Bson::Timestamp(b)) => {
            (a.time, a.increment).cmp(&(b.time, b.increment))
        }
        (Bson::RegularExpression(a), Bson::RegularExpression(b)) => {
            let parts =
                |r: &bson::Regex| (r.pattern.as_str().to_owned(), r.options.as_str().to_owned());
            parts(a).cmp(&parts(b))
        }
        (Bson::DbPointer(a), Bson::DbPointer(b)) => {
            // The fields of a pointer are private, and its text has the namespace first.
            let text = |pointer| format!("{pointer:?}");
            let (a, b) = (text(a), text(b));
            (a.len(), a).cmp(&(b.len(), b))
        }
        (Bson::JavaScriptCode(a), Bson::JavaScriptCode(b)) => a.cmp(b),
        (Bson::JavaScriptCodeWithScope(a), Bson::JavaScriptCodeWithScope(b)) => a
            .code
            .cmp(&b.code)
            .then_with(|| compare_documents(&a.scope, &b.scope, texts)),
        _ => number::compare(a, b),
    }
}

/// Compares documents field by field: first the types, then the names, then the values.
fn compare_documents(
    a: &Document,
    b: &Document,
    texts: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    for ((name_a, a), (name_b, b)) in a.iter().zip(b) {
        let order = rank(a)
            .cmp(&rank(b))
            .then_with(|| name_a.cmp(name_b))
            .then_with(|| within(a, b, texts));
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// True if two values compare equal.
pub(crate) fn equal(a: &Bson, b: &Bson) -> bool {
    compare(a, b).is_eq()
}

/// True if two values have the same type, the same value and the same order of fields. An update
/// from one to the other changes nothing.
pub(crate) fn identical(a: &Bson, b: &Bson) -> bool {
    match (a, b) {
        (Bson::Document(a), Bson::Document(b)) => identical_documents(a, b),
        (Bson::Array(a), Bson::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| identical(a, b))
        }
        (Bson::Double(a), Bson::Double(b)) => a.to_bits() == b.to_bits(),
        (Bson::JavaScriptCodeWithScope(a), Bson::JavaScriptCodeWithScope(b)) => {
            a.code == b.code && identical_documents(&a.scope, &b.scope)
        }
        _ => a == b,
    }
}

/// True if two documents have identical fields in the same order.
pub(crate) fn identical_documents(a: &Document, b: &Document) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|((n, a), (m, b))| n == m && identical(a, b))
}

/// Returns the name of a value's type, as in `$type` and in the server's messages.
pub(crate) fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::MinKey => "minKey",
        Bson::Undefined => "undefined",
        Bson::Null => "null",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Double(_) => "double",
        Bson::Decimal128(_) => "decimal",
        Bson::String(_) => "string",
        Bson::Symbol(_) => "symbol",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Timestamp(_) => "timestamp",
        Bson::RegularExpression(_) => "regex",
        Bson::DbPointer(_) => "dbPointer",
        Bson::JavaScriptCode(_) => "javascript",
        Bson::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        Bson::MaxKey => "maxKey",
    }
}

/// Returns the name of the type with the given BSON type number.
pub(crate) fn type_of_number(code: i64) -> Option<&'static str> {
    Some(match code {
        -1 => "minKey",
        1 => "double",
        2 => "string",
        3 => "object",
        4 => "array",
        5 => "binData",
        6 => "undefined",
        7 => "objectId",
        8 => "bool",
        9 => "date",
        10 => "null",
        11 => "regex",
        12 => "dbPointer",
        13 => "javascript",
        14 => "symbol",
        15 => "javascriptWithScope",
        16 => "int",
        17 => "timestamp",
        18 => "long",
        19 => "decimal",
        127 => "maxKey",
        _ => return None,
    })
}

/// The size in bytes of the longest text of a value. Messages are shorter.
const MAX_SHOWN_BYTES: usize = 8 * 1024;

/// Returns a value as the server's messages print it. A longer text is cut off, so that the work
/// for the message of an error has a bound.
pub(crate) fn display(value: &Bson) -> String {
    let mut shown = Shown::default();
    // An error tells that the text is cut off.
    let _ = shown.value(value);
    shown.0
}

/// Returns a document as the server's messages print it, cut off as by [`display`].
pub(crate) fn display_document(document: &Document) -> String {
    let mut shown = Shown::default();
    let _ = shown.document(document);
    shown.0
}

/// A text of at most [`MAX_SHOWN_BYTES`]. What does not fit is an error.
#[derive(Default)]
struct Shown(String);

impl Shown {
    fn value(&mut self, value: &Bson) -> fmt::Result {
        match value {
            Bson::String(s) => write!(self, "\"{s}\""),
            Bson::Document(d) => self.document(d),
            Bson::Array(a) => self.array(a),
            Bson::Double(d) if d.fract() == 0.0 && d.abs() < 1e15 => write!(self, "{d:.1}"),
            Bson::Double(d) => write!(self, "{d}"),
            Bson::Null => self.write_str("null"),
            Bson::Int32(n) => write!(self, "{n}"),
            Bson::Int64(n) => write!(self, "{n}"),
            Bson::Boolean(b) => write!(self, "{b}"),
            Bson::ObjectId(id) => write!(self, "ObjectId('{}')", id.to_hex()),
            Bson::DateTime(d) => write!(self, "new Date({})", d.timestamp_millis()),
            Bson::Timestamp(t) => write!(self, "Timestamp({}, {})", t.time, t.increment),
            Bson::RegularExpression(r) => {
                write!(self, "/{}/{}", r.pattern.as_str(), r.options.as_str())
            }
            Bson::Decimal128(d) => write!(self, "{d}"),
            Bson::Binary(b) => {
                write!(self, "BinData({}, ", u8::from(b.subtype))?;
                for byte in &b.bytes {
                    write!(self, "{byte:02X}")?;
                }
                self.write_str(")")
            }
            Bson::MinKey => self.write_str("MinKey"),
            Bson::MaxKey => self.write_str("MaxKey"),
            other => write!(self, "{other}"),
        }
    }

    fn array(&mut self, items: &[Bson]) -> fmt::Result {
        if items.is_empty() {
            return self.write_str("[]");
        }
        for (at, item) in items.iter().enumerate() {
            self.write_str(if at == 0 { "[ " } else { ", " })?;
            self.value(item)?;
        }
        self.write_str(" ]")
    }

    fn document(&mut self, document: &Document) -> fmt::Result {
        if document.is_empty() {
            return self.write_str("{}");
        }
        for (at, (name, value)) in document.iter().enumerate() {
            self.write_str(if at == 0 { "{ " } else { ", " })?;
            write!(self, "{name}: ")?;
            self.value(value)?;
        }
        self.write_str(" }")
    }
}

impl fmt::Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_SHOWN_BYTES - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let mut end = room;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0.push_str(&text[..end]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{JavaScriptCodeWithScope, RawDocumentBuf, doc};

    /// Returns a pointer into this collection. The fields of a pointer can only be decoded.
    fn pointer(namespace: &str) -> Bson {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&[0x0c, b'p', 0]);
        let length = i32::try_from(namespace.len() + 1).expect("short");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(namespace.as_bytes());
        bytes.extend_from_slice(&[0; 14]);
        let length = i32::try_from(bytes.len()).expect("short");
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let raw = RawDocumentBuf::from_bytes(bytes).expect("BSON");
        let document = Document::try_from(raw).expect("BSON");
        document.get("p").expect("a pointer").clone()
    }

    #[test]
    fn a_longer_namespace_of_a_pointer_comes_later() {
        assert_eq!(compare(&pointer("b"), &pointer("aa")), Ordering::Less);
        assert_eq!(compare(&pointer("a"), &pointer("b")), Ordering::Less);
    }

    #[test]
    fn the_order_of_the_fields_of_a_scope_counts() {
        let code = |scope| {
            let code = "f()".to_owned();
            Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })
        };
        let (a, b) = (doc! { "a": 1, "b": 2 }, doc! { "b": 2, "a": 1 });
        assert!(identical(&code(a.clone()), &code(a.clone())));
        assert!(!identical(&code(a), &code(b)));
    }

    #[test]
    fn a_shown_value_is_cut_off_between_characters() {
        let text = |value: &str| Bson::from(value);
        let values = [
            text(&"ä".repeat(MAX_SHOWN_BYTES)),
            Bson::Array(vec![text("ab"); MAX_SHOWN_BYTES]),
            Bson::Array(vec![doc! { "a": [1, 2] }.into(); MAX_SHOWN_BYTES]),
            Bson::Binary(bson::Binary {
                subtype: bson::spec::BinarySubtype::Generic,
                bytes: vec![255; MAX_SHOWN_BYTES],
            }),
        ];
        for value in values {
            let shown = display(&value);
            let longest = MAX_SHOWN_BYTES - 1..=MAX_SHOWN_BYTES;
            assert!(longest.contains(&shown.len()), "{}", shown.len());
        }
        let short = doc! { "a": [1, { "b": "c" }], "d": {}, "e": [] };
        let shown = "{ a: [ 1, { b: \"c\" } ], d: {}, e: [] }";
        assert_eq!(display_document(&short), shown);
    }
}
