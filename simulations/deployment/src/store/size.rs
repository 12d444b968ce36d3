//! The size and the depth of documents.

use bson::{Bson, Document};

use super::budget::{MAX_INTERMEDIATE_BYTES, too_large};
use super::error::StoreError;

/// The size of the largest stored document, in bytes: 16 MiB.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// The depth of the deepest stored document. The outermost document counts as 1.
pub const MAX_DEPTH: usize = 180;

/// The depth of the deepest document that a pipeline makes. The outermost document counts as 1.
pub(crate) const MAX_INTERMEDIATE_DEPTH: usize = 200;

/// The memory of a field apart from its name and its value, in bytes: the header of the name, a
/// hash and an index.
const FIELD_BYTES: usize = 48;

/// Returns the size of a document's encoding, in bytes.
pub(crate) fn of(document: &Document) -> usize {
    5 + document
        .iter()
        .map(|(name, value)| 2 + name.len() + of_value(value))
        .sum::<usize>()
}

fn of_value(value: &Bson) -> usize {
    match value {
        Bson::Double(_) | Bson::Int64(_) | Bson::DateTime(_) | Bson::Timestamp(_) => 8,
        Bson::String(s) | Bson::Symbol(s) | Bson::JavaScriptCode(s) => s.len() + 5,
        Bson::Document(d) => of(d),
        Bson::Array(items) => {
            let name = |i: usize| i.checked_ilog10().unwrap_or(0) as usize + 1;
            5 + items
                .iter()
                .enumerate()
                .map(|(i, v)| 2 + name(i) + of_value(v))
                .sum::<usize>()
        }
        Bson::Binary(b) => b.bytes.len() + 5 + if u8::from(b.subtype) == 2 { 4 } else { 0 },
        Bson::ObjectId(_) => 12,
        Bson::Boolean(_) => 1,
        Bson::Int32(_) => 4,
        Bson::Decimal128(_) => 16,
        Bson::RegularExpression(r) => r.pattern.as_str().len() + r.options.as_str().len() + 2,
        Bson::JavaScriptCodeWithScope(c) => c.code.len() + 9 + of(&c.scope),
        Bson::DbPointer(_) => 30,
        Bson::Null | Bson::Undefined | Bson::MinKey | Bson::MaxKey => 0,
    }
}

/// Returns the memory that a value takes, in bytes. The result is not less than the size of the
/// value's encoding.
pub(crate) fn memory(value: &Bson) -> usize {
    size_of::<Bson>()
        + match value {
            Bson::Document(inner) => fields(inner),
            Bson::Array(items) => items.iter().map(memory).sum(),
            Bson::JavaScriptCodeWithScope(code) => code.code.len() + fields(&code.scope),
            Bson::DbPointer(_) => 64,
            Bson::String(_)
            | Bson::Symbol(_)
            | Bson::JavaScriptCode(_)
            | Bson::Binary(_)
            | Bson::RegularExpression(_) => of_value(value),
            _ => 0,
        }
}

fn fields(document: &Document) -> usize {
    let fields = document.iter();
    fields
        .map(|(name, value)| FIELD_BYTES + name.len() + memory(value))
        .sum()
}

/// Returns the memory of a value within a pipeline, in bytes. A value that is too large or too
/// deeply nested is an error.
pub(crate) fn memory_of_intermediate(value: &Bson) -> Result<usize, StoreError> {
    if value_too_deep(value, MAX_INTERMEDIATE_DEPTH) {
        return Err(intermediate_too_deep());
    }
    let bytes = memory(value);
    if bytes > MAX_INTERMEDIATE_BYTES {
        check_intermediate(of_value(value))?;
    }
    Ok(bytes)
}

/// Returns the memory of a document within a pipeline, in bytes. A document that is too large or
/// too deeply nested is an error.
pub(crate) fn memory_of_document(document: &Document) -> Result<usize, StoreError> {
    if too_deep(document, MAX_INTERMEDIATE_DEPTH) {
        return Err(intermediate_too_deep());
    }
    let bytes = size_of::<Document>() + fields(document);
    if bytes > MAX_INTERMEDIATE_BYTES {
        check_intermediate(of(document))?;
    }
    Ok(bytes)
}

/// Returns an error if an encoding is larger than a document within a pipeline may be.
pub(crate) fn check_intermediate(encoded_bytes: usize) -> Result<(), StoreError> {
    if encoded_bytes > MAX_INTERMEDIATE_BYTES {
        return Err(too_large(encoded_bytes));
    }
    Ok(())
}

fn intermediate_too_deep() -> StoreError {
    let text = format!("BSONObj exceeds maximum nested object depth: {MAX_INTERMEDIATE_DEPTH}");
    StoreError::new(15, text)
}

fn too_deep(document: &Document, left: usize) -> bool {
    left == 0
        || document
            .values()
            .any(|value| value_too_deep(value, left - 1))
}

fn value_too_deep(value: &Bson, left: usize) -> bool {
    match value {
        Bson::Document(inner) => too_deep(inner, left),
        Bson::Array(items) => left == 0 || items.iter().any(|item| value_too_deep(item, left - 1)),
        _ => false,
    }
}

/// Returns an error if a document is too large or too deeply nested to be stored.
pub(crate) fn check(document: &Document) -> Result<(), StoreError> {
    let size = of(document);
    if size > MAX_DOCUMENT_BYTES {
        return Err(StoreError::new(
            10334,
            format!(
                "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and \
                 {MAX_DOCUMENT_BYTES}(16MB) First element: {}",
                document
                    .keys()
                    .next()
                    .map(String::as_str)
                    .unwrap_or_default()
            ),
        ));
    }
    if too_deep(document, MAX_DEPTH) {
        return Err(StoreError::new(
            15,
            format!("cannot insert document because it exceeds {MAX_DEPTH} levels of nesting"),
        ));
    }
    Ok(())
}
