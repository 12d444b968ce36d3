//! Decodes documents into trees.

use crate::{
    MAX_DEPTH,
    error::{Error, ErrorKind, Result},
    read::{
        Element, Elements, binary, boolean, code_with_scope, db_pointer, fixed, kind, not_a_type,
        regex, string_bytes, text, timestamp,
    },
    regex::sorted_options,
};
use bson::{
    Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, RawBsonRef, RawDocument,
    Regex, oid::ObjectId, raw::CString,
};

/// Decodes the bytes of a document into a tree.
///
/// All of the document is checked. A document or array that resembles Extended JSON, such as
/// `{"$numberInt": "5"}`, stays a document; `bson::deserialize_from_slice` would return the number.
/// If a document has two fields of the same name, the tree has the place of the first one and the
/// value of the last one.
///
/// Fails if the bytes are not one document, if a part of it is malformed, or if it is nested deeper
/// than [`MAX_DEPTH`].
///
/// ```
/// use bson::doc;
///
/// let document = doc! { "name": "Ada", "languages": ["en", "fr"] };
/// assert_eq!(onionskin_bson::document_from_slice(&document.to_vec()?)?, document);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn document_from_slice(bytes: &[u8]) -> Result<Document> {
    let elements = Elements::of_document(bytes).and_then(|elements| document(elements, 1));
    elements.map_err(|error| error.in_bytes(bytes))
}

/// Decodes a document into another one, whose content is removed and whose memory is used again.
/// After an error, the other one has the fields before the error. Fails as
/// [`document_from_slice`].
///
/// ```
/// use bson::doc;
///
/// let bytes = doc! { "ok": 1 }.to_vec()?;
/// let mut reused = doc! { "ping": 1 };
/// onionskin_bson::document_from_slice_into(&mut reused, &bytes)?;
/// assert_eq!(reused, doc! { "ok": 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn document_from_slice_into(document: &mut Document, bytes: &[u8]) -> Result<()> {
    document.clear();
    let elements = Elements::of_document(bytes).and_then(|elements| fill(document, elements, 1));
    elements.map_err(|error| error.in_bytes(bytes))
}

fn document(elements: Elements<'_>, depth: usize) -> Result<Document> {
    let mut document = Document::new();
    fill(&mut document, elements, depth)?;
    Ok(document)
}

fn fill(document: &mut Document, mut elements: Elements<'_>, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::Depth));
    }
    while let Some((kind, key)) = elements.header()? {
        let place = elements.rest;
        match value(&mut elements, kind, depth) {
            Ok(value) => document.insert(name(key)?, value),
            Err(error) => return Err(error.at(place).within(key)),
        };
    }
    Ok(())
}

/// Returns the name of a field. Each reply of a server has the field `ok`, and most documents have
/// an `_id`, so these two are not checked.
#[inline]
fn name(key: &[u8]) -> Result<&str> {
    match key {
        b"ok" => Ok("ok"),
        b"_id" => Ok("_id"),
        _ => text(key),
    }
}

fn array(mut elements: Elements<'_>, depth: usize) -> Result<Vec<Bson>> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::Depth));
    }
    let mut array = Vec::new();
    while let Some((kind, name)) = elements.header()? {
        // The name has no meaning (BSON-10), but it must be text.
        text(name)?;
        let place = elements.rest;
        match value(&mut elements, kind, depth) {
            Ok(value) => array.push(value),
            Err(error) => {
                let index = array.len().to_string();
                return Err(error.at(place).within(index.as_bytes()));
            }
        }
    }
    Ok(array)
}

/// Decodes the value of an element, as the outermost one.
pub(crate) fn value_of(element: Element<'_>) -> Result<Bson> {
    let mut elements = Elements {
        rest: element.value,
    };
    value(&mut elements, element.kind, 0)
}

/// Decodes a raw value. In contrast to a conversion with serde, a document is never taken for
/// Extended JSON.
pub(crate) fn bson_from_raw(raw: RawBsonRef<'_>) -> Result<Bson> {
    match raw {
        RawBsonRef::Document(inner) => Ok(Bson::Document(document(
            Elements::of_document(inner.as_bytes())?,
            1,
        )?)),
        RawBsonRef::Array(inner) => Ok(Bson::Array(array(
            Elements::of_document(inner.as_bytes())?,
            1,
        )?)),
        // The conversion of the crate has no limit of depth.
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            let scope = document(Elements::of_document(code.scope.as_bytes())?, 1)?;
            let code = code.code.to_owned();
            Ok(Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                code,
                scope,
            }))
        }
        other => Bson::try_from(other).map_err(Error::deserialization),
    }
}

/// Decodes the value, of this type, with which `elements` begin. They belong to a document or array
/// at this depth.
fn value(elements: &mut Elements<'_>, kind: u8, depth: usize) -> Result<Bson> {
    Ok(match kind {
        kind::STRING => Bson::String(text(elements.take_text()?)?.to_owned()),
        kind::INT32 => Bson::Int32(i32::from_le_bytes(elements.take()?)),
        kind::INT64 => Bson::Int64(i64::from_le_bytes(elements.take()?)),
        kind::DOUBLE => Bson::Double(f64::from_le_bytes(elements.take()?)),
        kind::BOOLEAN => Bson::Boolean(boolean(elements.take_value(kind::BOOLEAN)?)?),
        kind::OBJECT_ID => Bson::ObjectId(ObjectId::from_bytes(elements.take()?)),
        kind::DATE_TIME => {
            let millis = i64::from_le_bytes(elements.take()?);
            Bson::DateTime(DateTime::from_millis(millis))
        }
        kind::DOCUMENT => Bson::Document(document(elements.take_elements()?, depth + 1)?),
        kind::ARRAY => Bson::Array(array(elements.take_elements()?, depth + 1)?),
        kind::NULL => Bson::Null,
        kind::UNDEFINED => Bson::Undefined,
        kind::MIN_KEY => Bson::MinKey,
        kind::MAX_KEY => Bson::MaxKey,
        kind => rare_value(kind, elements.take_value(kind)?, depth)?,
    })
}

fn rare_value(kind: u8, bytes: &[u8], depth: usize) -> Result<Bson> {
    let string = || text(string_bytes(bytes)).map(str::to_owned);
    Ok(match kind {
        kind::CODE => Bson::JavaScriptCode(string()?),
        kind::SYMBOL => Bson::Symbol(string()?),
        kind::DECIMAL128 => Bson::Decimal128(Decimal128::from_bytes(fixed(bytes)?)),
        kind::TIMESTAMP => Bson::Timestamp(timestamp(bytes)?),
        kind::BINARY => {
            let (subtype, data) = binary(bytes)?;
            let (subtype, bytes) = (subtype.into(), data.to_vec());
            Bson::Binary(Binary { subtype, bytes })
        }
        kind::REGEX => {
            let (pattern, options) = regex(bytes)?;
            Bson::RegularExpression(Regex {
                pattern: cstring(text(pattern)?.to_owned())?,
                options: cstring(sorted_options(text(options)?).into_owned())?,
            })
        }
        kind::CODE_WITH_SCOPE => {
            let (code, scope) = code_with_scope(bytes)?;
            Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                code: text(string_bytes(code))?.to_owned(),
                scope: document(Elements::of_checked(scope), depth + 1)?,
            })
        }
        kind::DB_POINTER => pointer(bytes)?,
        other => return Err(not_a_type(other)),
    })
}

fn cstring(text: String) -> Result<CString> {
    CString::try_from(text).map_err(|error| Error::malformed(error.to_string()))
}

/// Decodes a `DBPointer`. The crate `bson` has no function that returns one, so it reads a document
/// that has nothing else.
fn pointer(bytes: &[u8]) -> Result<Bson> {
    let (namespace, _) = db_pointer(bytes)?;
    text(namespace)?;
    let invalid = |error: bson::error::Error| Error::malformed(error.to_string());
    let length = i32::try_from(4 + 2 + bytes.len() + 1)
        .map_err(|_| Error::malformed("a DBPointer is larger than 2 GiB"))?;
    let mut alone = length.to_le_bytes().to_vec();
    alone.extend_from_slice(&[kind::DB_POINTER, 0]);
    alone.extend_from_slice(bytes);
    alone.push(0);
    let document = RawDocument::from_bytes(&alone).map_err(invalid)?;
    match document.get("").map_err(invalid)? {
        Some(value) => Bson::try_from(value).map_err(invalid),
        None => Err(Error::malformed("a DBPointer cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn a_document_that_is_used_again_keeps_nothing_of_its_content() {
        let replies = [
            doc! {},
            doc! { "ok": 1 },
            doc! { "b": [1, { "c": "d" }], "_id": 3, "a": 1, "ok": 1.0 },
        ];
        for before in &replies {
            for reply in &replies {
                let mut document = before.clone();
                let bytes = reply.to_vec().expect("BSON");
                document_from_slice_into(&mut document, &bytes).expect("BSON");
                assert_eq!(&document, reply);
                let order = document.keys().eq(reply.keys());
                assert!(order, "{document:?}");
            }
        }
        let mut document = doc! { "old": 1 };
        assert!(document_from_slice_into(&mut document, &[5, 0, 0, 0]).is_err());
        assert!(document.is_empty());
    }
}
