//! Deserialization of BSON bytes with serde.

mod access;
mod tree;
mod value;
mod wrapper;

pub use tree::{document_from_slice, document_from_slice_into};

pub(crate) use tree::{bson_from_raw, value_of};

use crate::{
    error::Result,
    read::{Element, Elements, kind},
};
use bson::{Document, RawDocumentBuf};
use serde::de::{Deserialize, DeserializeOwned};
use std::any::Any;

/// Names of newtypes with which types of the crate `bson` ask for a special form of a value.
mod newtype {
    pub(super) const RAW_BSON: &str = "$__private__bson_RawBson";
    pub(super) const RAW_DOCUMENT: &str = "$__private__bson_RawDocument";
    pub(super) const RAW_ARRAY: &str = "$__private__bson_RawArray";
    pub(super) const UUID: &str = "$__bson_private_uuid";
    pub(super) const HUMAN_READABLE: &str = "$__bson_private_human_readable";
    pub(super) const UTF8_LOSSY: &str = "$__bson_private_utf8_lossy";
}

/// Deserializes a value from the bytes of a document.
///
/// The result is that of [`bson::deserialize_from_slice`], except that fields which the type
/// ignores are not checked. Strings and binary data are borrowed if the type borrows them.
///
/// Validation is lazy: the type and the size of every element are checked, and the content of a
/// value if the type reads it. [`validate`](crate::validate) checks a whole document.
///
/// Fails if the bytes are not one document, if a value that is read is malformed, if the document
/// does not have the form that `T` needs, or if `T` reads values that are nested deeper than
/// [`MAX_DEPTH`](crate::MAX_DEPTH).
///
/// ```
/// #[derive(Debug, PartialEq, serde::Deserialize)]
/// struct Person<'a> { name: &'a str, born: i32 }
///
/// let bytes = bson::doc! { "name": "Ada", "born": 1815 }.to_vec()?;
/// let person: Person<'_> = onionskin_bson::deserialize_from_slice(&bytes)?;
/// assert_eq!(person, Person { name: "Ada", born: 1815 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn deserialize_from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T> {
    let mut deserializer = Deserializer::new(bytes)?;
    T::deserialize(&mut deserializer).map_err(|error| error.at(bytes).in_bytes(bytes))
}

/// Deserializes a value that borrows nothing from the bytes of a document.
///
/// The result is that of [`deserialize_from_slice`], with one exception: a [`Document`] is built by
/// [`document_from_slice`], which is faster and never takes a document for Extended JSON. A
/// [`RawDocumentBuf`] is a copy of the bytes.
///
/// ```
/// use bson::{Document, doc};
///
/// // A document that resembles Extended JSON stays a document.
/// let stored = doc! { "setting": { "$numberInt": "5" } };
/// let read: Document = onionskin_bson::deserialize_owned(&stored.to_vec()?)?;
/// assert_eq!(read, stored);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn deserialize_owned<T: DeserializeOwned + 'static>(bytes: &[u8]) -> Result<T> {
    let mut result: Option<T> = None;
    let slot: &mut dyn Any = &mut result;
    if let Some(slot) = slot.downcast_mut::<Option<Document>>() {
        *slot = Some(document_from_slice(bytes)?);
    } else if let Some(slot) = slot.downcast_mut::<Option<RawDocumentBuf>>() {
        *slot = Some(raw_document(bytes)?);
    }
    match result {
        Some(value) => Ok(value),
        None => deserialize_from_slice(bytes),
    }
}

fn raw_document(bytes: &[u8]) -> Result<RawDocumentBuf> {
    Elements::of_document(bytes).map_err(|error| error.in_bytes(bytes))?;
    RawDocumentBuf::from_bytes(bytes.to_vec()).map_err(crate::Error::deserialization)
}

/// A deserializer of BSON values, which reads from bytes. A mutable reference to it implements
/// [`serde::Deserializer`].
///
/// [`deserialize_from_slice`] is the shorter way to a value. The deserializer itself is for types
/// that need a seed, and for adapters around it. It reads one value.
///
/// ```
/// use serde::{Deserialize, de::IgnoredAny};
///
/// let bytes = bson::rawdoc! { "a": 1 }.into_bytes();
/// IgnoredAny::deserialize(&mut onionskin_bson::Deserializer::new(&bytes)?)?;
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Deserializer<'de> {
    /// The bytes that were not read yet. They begin with a value, or with an element of the
    /// document or array that is read.
    elements: Elements<'de>,
    /// The type of the value that these bytes begin with; [`NO_VALUE`] if they begin with an
    /// element.
    kind: u8,
    /// True if invalid UTF-8 is replaced (`bson::Utf8Lossy`).
    is_lossy: bool,
    /// True if types choose their human-readable form (`bson::serde_helpers::HumanReadable`).
    is_human_readable: bool,
    /// The depth of the document or array that contains the value.
    depth: u16,
}

/// No value waits to be read. It is not the type of a value.
const NO_VALUE: u8 = 0;

impl<'de> Deserializer<'de> {
    /// Returns a deserializer of the document in `bytes`. Fails unless `bytes` are one document:
    /// its length must be theirs, and it must end with a zero byte.
    #[inline]
    pub fn new(bytes: &'de [u8]) -> Result<Self> {
        Elements::of_document(bytes).map_err(|error| error.in_bytes(bytes))?;
        Ok(Self {
            elements: Elements { rest: bytes },
            kind: kind::DOCUMENT,
            is_lossy: false,
            is_human_readable: false,
            depth: 0,
        })
    }

    /// Returns a deserializer of the value of an element.
    pub(crate) fn of(element: Element<'de>) -> Self {
        Self {
            elements: Elements {
                rest: element.value,
            },
            kind: element.kind,
            is_lossy: false,
            is_human_readable: false,
            depth: 0,
        }
    }
}
