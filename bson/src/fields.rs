//! The fields of raw documents, read one after the other.

use crate::{
    Deserializer,
    error::{Error, Result},
    read::{Element, Elements, boolean, fixed, kind, string_bytes, text, timestamp},
};
use bson::{DateTime, RawBsonRef, RawDocument, oid::ObjectId, spec::ElementType};
use serde::Deserialize;
use std::iter::FusedIterator;

/// Returns the fields of a document, in order and with repeated names.
///
/// Only names and sizes are read, without allocations, so that a search is cheaper than with the
/// iterator of [`RawDocument`]. A value is read by [`Field::value`].
///
/// ```
/// use bson::{RawBsonRef, rawdoc};
///
/// let document = rawdoc! { "name": "Ada", "born": 1815 };
/// let mut born = None;
/// for field in onionskin_bson::fields(&document) {
///     let field = field?;
///     if field.name_bytes() == b"born" {
///         born = Some(field.value()?);
///     }
/// }
/// assert_eq!(born, Some(RawBsonRef::Int32(1815)));
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
#[inline]
#[must_use]
pub fn fields(document: &RawDocument) -> Fields<'_> {
    Fields {
        document: document.as_bytes(),
        elements: Elements::of_checked(document.as_bytes()),
    }
}

/// The fields of a document, which [`fields`] returns.
///
/// An item is an error if the name has no end, the type does not exist, or the value is longer than
/// the rest of the document. There are no items after an error.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    document: &'a [u8],
    elements: Elements<'a>,
}

/// A field of a document.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    document: &'a [u8],
    element: Element<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.elements.next() {
            Ok(Some(element)) => Some(Ok(Field {
                document: self.document,
                element,
            })),
            Ok(None) => None,
            Err(error) => {
                self.elements.rest = &[];
                Some(Err(error.in_bytes(self.document)))
            }
        }
    }
}

impl FusedIterator for Fields<'_> {}

impl<'a> Field<'a> {
    /// Returns the bytes of the name, which need not be UTF-8.
    #[inline]
    #[must_use]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.element.key
    }

    /// Returns the name.
    ///
    /// # Errors
    ///
    /// Fails if the name is not UTF-8.
    pub fn name(&self) -> Result<&'a str> {
        text(self.element.key).map_err(|error| error.in_bytes(self.document))
    }

    /// Returns the type of the value.
    #[must_use]
    pub fn element_type(&self) -> ElementType {
        // A field of another type is an error of the iterator.
        ElementType::from(self.element.kind).unwrap_or(ElementType::Undefined)
    }

    /// Returns the bytes of the value, as BSON stores it. Those of a string, document or array
    /// begin with the length and end with a zero byte.
    #[inline]
    #[must_use]
    pub fn value_bytes(&self) -> &'a [u8] {
        self.element.value
    }

    /// Reads the value. The fields of a nested document and the elements of an array are not read.
    ///
    /// # Errors
    ///
    /// Fails if the value is malformed.
    pub fn value(&self) -> Result<RawBsonRef<'a>> {
        let value = value(self.element);
        value.map_err(|error| error.within(self.element.key).in_bytes(self.document))
    }
}

#[inline]
fn value(element: Element<'_>) -> Result<RawBsonRef<'_>> {
    let bytes = element.value;
    Ok(match element.kind {
        kind::STRING => RawBsonRef::String(text(string_bytes(bytes))?),
        kind::INT32 => RawBsonRef::Int32(i32::from_le_bytes(fixed(bytes)?)),
        kind::INT64 => RawBsonRef::Int64(i64::from_le_bytes(fixed(bytes)?)),
        kind::DOUBLE => RawBsonRef::Double(f64::from_le_bytes(fixed(bytes)?)),
        kind::BOOLEAN => RawBsonRef::Boolean(boolean(bytes)?),
        kind::DOCUMENT => {
            let document = RawDocument::from_bytes(bytes).map_err(Error::deserialization)?;
            RawBsonRef::Document(document)
        }
        _ => rare_value(element)?,
    })
}

fn rare_value(element: Element<'_>) -> Result<RawBsonRef<'_>> {
    Ok(match element.kind {
        kind::NULL => RawBsonRef::Null,
        kind::OBJECT_ID => RawBsonRef::ObjectId(ObjectId::from_bytes(fixed(element.value)?)),
        kind::DATE_TIME => {
            let millis = i64::from_le_bytes(fixed(element.value)?);
            RawBsonRef::DateTime(DateTime::from_millis(millis))
        }
        kind::TIMESTAMP => RawBsonRef::Timestamp(timestamp(element.value)?),
        // The crate `bson` has no function that returns an array for bytes.
        kind::ARRAY => RawBsonRef::Array(Deserialize::deserialize(&mut Deserializer::of(element))?),
        _ => RawBsonRef::deserialize(&mut Deserializer::of(element))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, cstr, rawdoc};

    #[test]
    fn repeated_names_and_names_that_are_not_text_are_returned() {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("a"), 1);
        document.append(cstr!("a"), "b");
        let mut bytes = document.into_bytes();
        bytes[5] = 0xff;
        let document = RawDocument::from_bytes(&bytes).expect("BSON");
        let all: Result<Vec<_>> = fields(document).collect();
        let [first, second] = all.expect("BSON")[..] else {
            panic!("there are two fields");
        };
        assert_eq!(
            (first.name_bytes(), second.name_bytes()),
            (&[0xff][..], &b"a"[..])
        );
        assert!(first.name().is_err() && second.name() == Ok("a"));
        assert_eq!(first.value(), Ok(RawBsonRef::Int32(1)));
        assert_eq!(second.value(), Ok(RawBsonRef::String("b")));
    }

    #[test]
    fn nothing_follows_an_error() {
        let mut bytes = rawdoc! { "a": true, "b": 1, "c": 2 }.into_bytes();
        // The type of the second field.
        bytes[8] = 0x42;
        let document = RawDocument::from_bytes(&bytes).expect("BSON");
        let mut fields = fields(document);
        assert!(fields.next().is_some_and(|field| field.is_ok()));
        let error = fields.next().and_then(Result::err).expect("no such type");
        assert_eq!(error.path(), "b");
        assert!(fields.next().is_none());
    }

    #[test]
    fn an_error_of_a_value_names_the_field() {
        let mut bytes = rawdoc! { "a": 1, "b": true }.into_bytes();
        let last = bytes.len() - 2;
        bytes[last] = 2;
        let document = RawDocument::from_bytes(&bytes).expect("BSON");
        let field = fields(document)
            .nth(1)
            .expect("it exists")
            .expect("its size is known");
        let error = field.value().expect_err("2 is no boolean");
        assert_eq!((error.path().as_str(), error.offset()), ("b", Some(last)));
    }
}
