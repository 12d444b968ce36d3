//! A writer of BSON that appends to a buffer and builds no tree.

use super::MAX_DEPTH;
use crate::error::{BsonError, Error, ErrorKind};
use bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, spec::BinarySubtype};
use std::fmt::Write as _;

/// A writer that appends one document to a borrowed buffer, element by element.
///
/// The keys must not contain NUL bytes.
///
/// ```
/// use onionskin_core::bson::DocumentWriter;
///
/// let mut buffer = Vec::new();
/// let mut document = DocumentWriter::begin(&mut buffer);
/// document.i32("ping", 1).str("$db", "admin");
/// document.end();
/// let read = bson::RawDocument::from_bytes(&buffer)?;
/// assert_eq!(read, &*bson::rawdoc! { "ping": 1, "$db": "admin" });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a document is complete only after `end`"]
pub struct DocumentWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> DocumentWriter<'a> {
    /// Starts a document at the end of `buffer`.
    #[inline]
    pub fn begin(buffer: &'a mut Vec<u8>) -> Self {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; 4]);
        Self { buffer, start }
    }

    /// Starts a sequence of elements without a document around them. The sequence has neither
    /// length nor terminator, so [`end`](Self::end) must not be called.
    #[inline]
    pub fn bare(buffer: &'a mut Vec<u8>) -> Self {
        let start = buffer.len();
        Self { buffer, start }
    }

    /// Ends the document: appends its terminator and sets its length.
    #[inline]
    pub fn end(self) {
        self.buffer.push(0);
        let length = length(self.buffer.len() - self.start);
        self.buffer[self.start..self.start + 4].copy_from_slice(&length);
    }

    #[inline]
    fn key(&mut self, element: u8, key: &str) -> &mut Vec<u8> {
        debug_assert!(!key.bytes().any(|b| b == 0), "a field name holds no NUL");
        self.buffer.push(element);
        self.buffer.extend_from_slice(key.as_bytes());
        self.buffer.push(0);
        self.buffer
    }

    /// Appends an int32.
    #[inline]
    pub fn i32(&mut self, key: &str, value: i32) -> &mut Self {
        self.key(0x10, key).extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends an int64.
    #[inline]
    pub fn i64(&mut self, key: &str, value: i64) -> &mut Self {
        self.key(0x12, key).extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a boolean.
    #[inline]
    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(0x08, key).push(value.into());
        self
    }

    /// Appends a string.
    #[inline]
    pub fn str(&mut self, key: &str, value: &str) -> &mut Self {
        text(self.key(0x02, key), value);
        self
    }

    /// Appends binary data.
    pub fn binary(&mut self, key: &str, subtype: BinarySubtype, bytes: &[u8]) -> &mut Self {
        let buffer = self.key(0x05, key);
        let is_old = subtype == BinarySubtype::BinaryOld;
        let inner = if is_old { 4 } else { 0 };
        buffer.extend_from_slice(&length(bytes.len() + inner));
        buffer.push(subtype.into());
        if is_old {
            // The old subtype repeats the length in the data.
            buffer.extend_from_slice(&length(bytes.len()));
        }
        buffer.extend_from_slice(bytes);
        self
    }

    /// Appends a document.
    #[inline]
    pub fn document(&mut self, key: &str, value: &RawDocument) -> &mut Self {
        self.key(0x03, key).extend_from_slice(value.as_bytes());
        self
    }

    /// Appends an array.
    pub fn array(&mut self, key: &str, value: &bson::RawArray) -> &mut Self {
        self.key(0x04, key).extend_from_slice(value.as_bytes());
        self
    }

    /// Appends a document, which counts as the second level. Fails as [`tree`](Self::tree).
    pub fn subtree(&mut self, key: &str, tree: &Document) -> Result<&mut Self, Error> {
        self.subtree_at(key, tree, 2)?;
        Ok(self)
    }

    fn subtree_at(&mut self, key: &str, tree: &Document, depth: usize) -> Result<(), Error> {
        let mut inner = DocumentWriter::begin(self.key(0x03, key));
        inner.tree_at(tree, depth)?;
        inner.end();
        Ok(())
    }

    /// Appends a document that `append` adds to the buffer as bytes. Returns what `append` returns.
    /// If `append` fails halfway, the outer document is malformed, and the caller discards it.
    pub fn appended<T>(&mut self, key: &str, append: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        append(self.key(0x03, key))
    }

    /// Appends a document that `fill` writes.
    pub fn nested(&mut self, key: &str, fill: impl FnOnce(&mut DocumentWriter<'_>)) -> &mut Self {
        let buffer = self.key(0x03, key);
        let mut inner = DocumentWriter::begin(buffer);
        fill(&mut inner);
        inner.end();
        self
    }

    /// Appends an array of documents. `fill` is called once per item and writes the document of the
    /// item.
    pub fn documents<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(&mut DocumentWriter<'_>, T),
    ) -> &mut Self {
        let buffer = self.key(0x04, key);
        let mut array = DocumentWriter::begin(buffer);
        let mut name = String::new();
        for (index, item) in items.into_iter().enumerate() {
            array.nested(number(index, &mut name), |document| fill(document, item));
        }
        array.end();
        self
    }

    /// Appends an element without a value.
    fn empty(&mut self, element: u8, key: &str) -> &mut Self {
        self.key(element, key);
        self
    }

    /// Appends a value of any type.
    pub fn value(&mut self, key: &str, value: RawBsonRef<'_>) -> &mut Self {
        match value {
            RawBsonRef::Double(n) => {
                self.key(0x01, key).extend_from_slice(&n.to_le_bytes());
                self
            }
            RawBsonRef::ObjectId(id) => {
                self.key(0x07, key).extend_from_slice(&id.bytes());
                self
            }
            RawBsonRef::DateTime(time) => {
                self.key(0x09, key)
                    .extend_from_slice(&time.timestamp_millis().to_le_bytes());
                self
            }
            RawBsonRef::Null => self.empty(0x0a, key),
            RawBsonRef::Int32(n) => self.i32(key, n),
            RawBsonRef::Int64(n) => self.i64(key, n),
            RawBsonRef::Boolean(b) => self.bool(key, b),
            RawBsonRef::String(s) => self.str(key, s),
            RawBsonRef::Document(d) => self.document(key, d),
            RawBsonRef::Array(a) => self.array(key, a),
            RawBsonRef::Binary(data) => self.binary(key, data.subtype, data.bytes),
            RawBsonRef::Decimal128(n) => {
                self.key(0x13, key).extend_from_slice(&n.bytes());
                self
            }
            RawBsonRef::Timestamp(time) => {
                let buffer = self.key(0x11, key);
                buffer.extend_from_slice(&time.increment.to_le_bytes());
                buffer.extend_from_slice(&time.time.to_le_bytes());
                self
            }
            RawBsonRef::Undefined => self.empty(0x06, key),
            RawBsonRef::MinKey => self.empty(0xff, key),
            RawBsonRef::MaxKey => self.empty(0x7f, key),
            other => {
                // Other types are encoded by the `bson` crate in a document of one field, from
                // which the bytes of the value are copied.
                let mut one = bson::RawDocumentBuf::new();
                one.append(bson::cstr!("v"), RawBson::from(other));
                let bytes = one.as_bytes();
                self.key(bytes[4], key)
                    .extend_from_slice(&bytes[7..bytes.len() - 1]);
                self
            }
        }
    }

    /// Appends all fields of `tree`.
    ///
    /// Fails if a key contains a NUL byte, if `tree` is nested deeper than
    /// [`MAX_DEPTH`](super::MAX_DEPTH), or if a value cannot be encoded.
    pub fn tree(&mut self, tree: &Document) -> Result<&mut Self, Error> {
        self.tree_at(tree, 1)?;
        Ok(self)
    }

    /// Appends an array of document trees. Fails like [`tree`](Self::tree).
    pub fn trees(&mut self, key: &str, trees: &[Document]) -> Result<&mut Self, Error> {
        let mut array = DocumentWriter::begin(self.key(0x04, key));
        let mut name = String::new();
        for (index, tree) in trees.iter().enumerate() {
            array.subtree_at(number(index, &mut name), tree, 3)?;
        }
        array.end();
        Ok(self)
    }

    /// Appends a value of any type. Fails like [`tree`](Self::tree).
    pub fn tree_value(&mut self, key: &str, value: &Bson) -> Result<&mut Self, Error> {
        self.node(key, value, 1)?;
        Ok(self)
    }

    fn tree_at(&mut self, tree: &Document, depth: usize) -> Result<(), Error> {
        check_depth(depth)?;
        tree.iter()
            .try_for_each(|(key, value)| self.node(key, value, depth))
    }

    fn node(&mut self, key: &str, value: &Bson, depth: usize) -> Result<(), Error> {
        if key.contains('\0') {
            let message = format!("the key {key:?} contains a NUL byte");
            let path = String::new();
            return Err(ErrorKind::Bson(BsonError { message, path }).into());
        }
        match value {
            Bson::Int32(n) => self.i32(key, *n),
            Bson::Int64(n) => self.i64(key, *n),
            Bson::Double(n) => self.value(key, RawBsonRef::Double(*n)),
            Bson::Boolean(b) => self.bool(key, *b),
            Bson::String(s) => self.str(key, s),
            Bson::Null => self.value(key, RawBsonRef::Null),
            Bson::ObjectId(id) => self.value(key, RawBsonRef::ObjectId(*id)),
            Bson::DateTime(time) => self.value(key, RawBsonRef::DateTime(*time)),
            Bson::Document(tree) => {
                self.subtree_at(key, tree, depth + 1)?;
                self
            }
            Bson::Array(items) => {
                check_depth(depth + 1)?;
                let mut inner = DocumentWriter::begin(self.key(0x04, key));
                let mut name = String::new();
                for (index, item) in items.iter().enumerate() {
                    inner.node(number(index, &mut name), item, depth + 1)?;
                }
                inner.end();
                self
            }
            other => return self.rare(key, other, depth),
        };
        Ok(())
    }

    /// Appends a value of a type that few documents have.
    fn rare(&mut self, key: &str, value: &Bson, depth: usize) -> Result<(), Error> {
        match value {
            Bson::Binary(data) => self.binary(key, data.subtype, &data.bytes),
            Bson::Decimal128(n) => self.value(key, RawBsonRef::Decimal128(*n)),
            Bson::Timestamp(time) => self.value(key, RawBsonRef::Timestamp(*time)),
            Bson::RegularExpression(regex) => {
                // BSON-9.
                let options = onionskin_bson::sorted_options(regex.options.as_str());
                let buffer = self.key(0x0b, key);
                for part in [regex.pattern.as_str(), &*options] {
                    buffer.extend_from_slice(part.as_bytes());
                    buffer.push(0);
                }
                self
            }
            Bson::JavaScriptCode(code) => {
                text(self.key(0x0d, key), code);
                self
            }
            Bson::JavaScriptCodeWithScope(code) => {
                let buffer = self.key(0x0f, key);
                let start = buffer.len();
                buffer.extend_from_slice(&[0; 4]);
                text(buffer, &code.code);
                let mut scope = DocumentWriter::begin(buffer);
                scope.tree_at(&code.scope, depth + 1)?;
                scope.end();
                let length = length(self.buffer.len() - start);
                self.buffer[start..start + 4].copy_from_slice(&length);
                self
            }
            Bson::Symbol(symbol) => {
                text(self.key(0x0e, key), symbol);
                self
            }
            Bson::Undefined => self.value(key, RawBsonRef::Undefined),
            Bson::MinKey => self.value(key, RawBsonRef::MinKey),
            Bson::MaxKey => self.value(key, RawBsonRef::MaxKey),
            other => {
                let raw = RawBson::try_from(other.clone()).map_err(|error| {
                    ErrorKind::Bson(BsonError {
                        message: error.to_string(),
                        path: String::new(),
                    })
                })?;
                self.value(key, raw.as_raw_bson_ref())
            }
        };
        Ok(())
    }

    /// Appends encoded elements: the bytes of a document without its length and its terminator.
    #[inline]
    pub fn elements(&mut self, elements: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(elements);
        self
    }
}

/// Returns a length as BSON stores it. A length that does not fit is stored as the largest one:
/// such a document exceeds the limit of every server, and so is not sent.
fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_le_bytes()
}

/// Appends the value of a string.
#[inline]
fn text(buffer: &mut Vec<u8>, value: &str) {
    buffer.extend_from_slice(&length(value.len() + 1));
    buffer.extend_from_slice(value.as_bytes());
    buffer.push(0);
}

/// Fails if a document or an array at this level is too deep.
fn check_depth(depth: usize) -> Result<(), Error> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    let (limit, actual) = (MAX_DEPTH as u64, depth as u64);
    let what = "the depth of a document";
    Err(ErrorKind::Limit {
        what,
        limit,
        actual,
    }
    .into())
}

/// Returns the name of an element of an array. The memory of `name` is used again.
fn number(index: usize, name: &mut String) -> &str {
    name.clear();
    // Writing to a string cannot fail.
    let _ = write!(name, "{index}");
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{doc, oid::ObjectId, rawdoc};

    #[test]
    fn each_type_is_written_as_the_bson_library_writes_it() {
        let expected = rawdoc! {
            "a": 1, "b": 2_i64, "c": true, "d": "text", "e": { "f": 1.5 },
            "g": [1, { "h": null }], "i": ObjectId::from_bytes([3; 12]),
        };
        let mut buffer = vec![0xff];
        let mut writer = DocumentWriter::begin(&mut buffer);
        for element in &expected {
            let (key, value) = element.expect("the library wrote it");
            writer.value(key.as_str(), value);
        }
        writer.end();
        assert_eq!(&buffer[1..], expected.as_bytes());
    }

    #[test]
    fn a_document_tree_is_written_as_the_bson_library_writes_it() {
        let tree = doc! {
            "a": 1, "b": 2_i64, "c": true, "d": "text", "e": { "f": 1.5, "g": Bson::Null },
            "h": [1, { "i": [] }], "j": ObjectId::from_bytes([3; 12]),
            "k": bson::DateTime::from_millis(5), "l": Bson::MinKey,
            "m": bson::Regex { pattern: bson::cstr!("x").into(), options: bson::cstr!("i").into() },
            "n": bson::Timestamp { time: 1, increment: 2 },
            "o": bson::Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] },
            "p": bson::Binary { subtype: BinarySubtype::BinaryOld, bytes: vec![1, 2] },
            "q": bson::Decimal128::from_bytes([5; 16]),
            "r": Bson::JavaScriptCode("f()".to_owned()),
            "s": bson::JavaScriptCodeWithScope {
                code: "g()".to_owned(),
                scope: doc! { "t": [1, { "u": 2 }] },
            },
            "v": Bson::Symbol("s".to_owned()), "w": Bson::Undefined, "x": Bson::MaxKey,
        };
        let mut buffer = Vec::new();
        let mut writer = DocumentWriter::begin(&mut buffer);
        writer.tree(&tree).expect("it can be written");
        writer.end();
        assert_eq!(buffer, tree.to_vec().expect("it can be written"));
        let nul = doc! { "a": { "b\0": 1 } };
        assert!(DocumentWriter::bare(&mut Vec::new()).tree(&nul).is_err());
    }

    #[test]
    fn the_options_of_a_regular_expression_are_sorted() {
        // BSON-9: otherwise a filter would not match an inserted document with the same value.
        let regex = |options: &str| bson::Regex {
            pattern: bson::cstr!("a").into(),
            options: options.to_owned().try_into().expect("no NUL"),
        };
        let mut buffer = Vec::new();
        let mut writer = DocumentWriter::begin(&mut buffer);
        writer
            .tree(&doc! { "k": regex("xsi") })
            .expect("it can be written");
        writer.end();
        let sorted = doc! { "k": regex("isx") };
        assert_eq!(buffer, sorted.to_vec().expect("it can be written"));
    }

    #[test]
    fn the_levels_around_a_document_count() {
        for outer in 0..3 {
            let is_written = |levels: usize| {
                let tree = (1..levels).fold(doc! {}, |inner, _| doc! { "a": inner });
                let mut buffer = Vec::new();
                let mut writer = DocumentWriter::begin(&mut buffer);
                let written = match outer {
                    0 => writer.tree(&tree),
                    1 => writer.subtree("a", &tree),
                    _ => writer.trees("a", &[tree]),
                };
                written.is_ok()
            };
            assert!(is_written(MAX_DEPTH - outer) && !is_written(MAX_DEPTH - outer + 1));
        }
    }

    #[test]
    fn the_depth_of_a_scope_counts() {
        let mut scope = doc! {};
        for _ in 0..MAX_DEPTH {
            scope = doc! { "a": scope };
        }
        let code = "f()".to_owned();
        let tree = doc! { "k": bson::JavaScriptCodeWithScope { code, scope } };
        let error = DocumentWriter::bare(&mut Vec::new()).tree(&tree).err();
        let error = error.expect("it is too deep");
        assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
    }

    #[test]
    fn nested_documents_and_arrays_are_written_with_their_lengths() {
        let mut buffer = Vec::new();
        let mut writer = DocumentWriter::begin(&mut buffer);
        writer.nested("a", |a| {
            a.binary("b", BinarySubtype::Generic, &[1, 2, 3]);
        });
        writer.documents("l", ["x", "y"], |d, text| {
            d.str("n", text);
        });
        writer.end();
        let binary = bson::Binary {
            subtype: BinarySubtype::Generic,
            bytes: vec![1, 2, 3],
        };
        let expected = rawdoc! { "a": { "b": binary }, "l": [{ "n": "x" }, { "n": "y" }] };
        assert_eq!(buffer, expected.as_bytes());
    }
}
