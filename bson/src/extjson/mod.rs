//! Extended JSON, version 2: JSON texts that keep the types of BSON values.
//!
//! The source is the Extended JSON specification. [`to_string`] writes a document in the
//! [canonical](Mode::Canonical) or the [relaxed](Mode::Relaxed) format. [`parse`] reads both, and
//! [`ParseOptions`] can add older forms. Both work on the bytes of documents without an
//! intermediate tree, in time that is linear in the size of their input, and without recursion.
//! Only the scopes of codes in each other are copied once per level.
//!
//! A document with names that begin with `$` can be mistaken for the representation of another
//! type when its text is read: the text of the document `{ "a": { "$oid": "…" } }` is also the text
//! of an ObjectId. The specification has no escape for such names, and advises against Extended
//! JSON where they occur.
//!
//! ```
//! use bson::{doc, oid::ObjectId};
//! use onionskin_bson::extjson::{self, Mode};
//!
//! let document = doc! { "_id": ObjectId::from_bytes([1; 12]), "n": 5_i64 };
//! let text = extjson::document_to_string(&document, Mode::Canonical)?;
//! let id = r#"{"$oid":"010101010101010101010101"}"#;
//! assert_eq!(text, format!(r#"{{"_id":{id},"n":{{"$numberLong":"5"}}}}"#));
//! assert_eq!(extjson::parse(&text)?, document);
//! # Ok::<(), onionskin_bson::Error>(())
//! ```

mod cut;
mod date;
mod number;
mod parse;
#[cfg(test)]
mod tests;
mod text;
mod write;

use crate::{
    de::{document_from_slice, value_of},
    error::{Error, Result},
    read::Elements,
    ser::serialize_to_vec,
    walk::Levels,
};
use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use cut::Cut;
use std::{collections::BTreeMap, fmt};
use write::{ELLIPSIS, Stop, Writer};

/// A format of Extended JSON.
// EJSON-15 and EJSON-18.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The format `canonicalExtendedJSON`, which keeps the type of every value. Numbers are
    /// objects: `{"$numberInt":"5"}`.
    Canonical,
    /// The format `relaxedExtendedJSON`, which is easier to read and loses the difference between
    /// the types of numbers. Numbers are JSON numbers, and dates of the years 1970 to 9999 are
    /// texts: `{"$date":"2012-12-24T12:15:30.501Z"}`. This is the default.
    #[default]
    Relaxed,
}

/// Returns a document as Extended JSON, without white space. Names and values have the order of the
/// document, and names that occur twice are written twice. The source is the Extended JSON
/// specification, "Conversion table".
///
/// # Errors
///
/// Returns an error with path and offset if the bytes are malformed, or if the document is nested
/// deeper than [`MAX_DEPTH`](crate::MAX_DEPTH) levels.
///
/// ```
/// use onionskin_bson::extjson::{self, Mode};
///
/// let document = bson::rawdoc! { "n": 1.5, "when": bson::DateTime::from_millis(20) };
/// assert_eq!(
///     extjson::to_string(&document, Mode::Relaxed)?,
///     r#"{"n":1.5,"when":{"$date":"1970-01-01T00:00:00.020Z"}}"#,
/// );
/// assert_eq!(
///     extjson::to_string(&document, Mode::Canonical)?,
///     r#"{"n":{"$numberDouble":"1.5"},"when":{"$date":{"$numberLong":"20"}}}"#,
/// );
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
// The mode has to be named, so there is no default that could be mistaken (EJSON-19).
pub fn to_string(document: &RawDocument, mode: Mode) -> Result<String> {
    let mut text = String::with_capacity(document.as_bytes().len());
    write(document, mode, &mut text)?;
    Ok(text)
}

/// Writes a document as Extended JSON to a writer, like [`to_string`].
///
/// # Errors
///
/// Fails like [`to_string`], and with an error of the kind
/// [`Serialization`](crate::ErrorKind::Serialization) if the writer fails. A part of the text can
/// have been written before the error.
///
/// ```
/// use onionskin_bson::extjson::{self, Mode};
///
/// let mut text = String::from("found: ");
/// extjson::write(&bson::rawdoc! { "n": 1 }, Mode::Relaxed, &mut text)?;
/// assert_eq!(text, r#"found: {"n":1}"#);
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn write<W>(document: &RawDocument, mode: Mode, out: &mut W) -> Result<()>
where
    W: fmt::Write + ?Sized,
{
    let mut levels = Levels::of_document(document.as_bytes())?;
    strictly(Writer::new(out, mode, None).all(&mut levels))
}

/// Returns a [`Document`] as Extended JSON, like [`to_string`]. The document is encoded as BSON
/// first.
///
/// # Errors
///
/// Returns an error if the document cannot be encoded, for example because a name contains a null
/// byte, or if it is nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH) levels.
///
/// ```
/// use onionskin_bson::extjson::{self, Mode};
///
/// let text = extjson::document_to_string(&bson::doc! { "n": [1, 2] }, Mode::Relaxed)?;
/// assert_eq!(text, r#"{"n":[1,2]}"#);
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn document_to_string(document: &Document, mode: Mode) -> Result<String> {
    let bytes = serialize_to_vec(document)?;
    let mut text = String::with_capacity(bytes.len());
    let mut levels = Levels::of_document(&bytes)?;
    strictly(Writer::new(&mut text, mode, None).all(&mut levels))?;
    Ok(text)
}

/// Returns a single value as Extended JSON. The value is encoded as BSON first.
///
/// # Errors
///
/// Fails like [`document_to_string`].
///
/// ```
/// use bson::Bson;
/// use onionskin_bson::extjson::{self, Mode};
///
/// let value = Bson::Int64(5);
/// assert_eq!(extjson::bson_to_string(&value, Mode::Canonical)?, r#"{"$numberLong":"5"}"#);
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn bson_to_string(value: &Bson, mode: Mode) -> Result<String> {
    let bytes = serialize_to_vec(&BTreeMap::from([("", value)]))?;
    framed_to_string(&bytes, mode)
}

/// Returns a single value of a raw document as Extended JSON.
///
/// # Errors
///
/// Fails like [`to_string`]. Path and offset are those in the value.
///
/// ```
/// use onionskin_bson::extjson::{self, Mode};
///
/// let document = bson::rawdoc! { "a": [true, 5] };
/// let value = document.get("a")?.expect("the document has the field");
/// assert_eq!(extjson::value_to_string(value, Mode::Relaxed)?, "[true,5]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn value_to_string(value: RawBsonRef<'_>, mode: Mode) -> Result<String> {
    let mut frame = RawDocumentBuf::new();
    frame.append(cstr!(""), value);
    framed_to_string(frame.as_bytes(), mode)
}

/// Returns the value of a document whose only element has an empty name.
fn framed_to_string(bytes: &[u8], mode: Mode) -> Result<String> {
    let mut text = String::new();
    let mut levels = Levels::of_frame(bytes)?;
    strictly(Writer::new(&mut text, mode, None).all(&mut levels))?;
    Ok(text)
}

fn strictly(written: Result<(), Stop>) -> Result<()> {
    written.map_err(|stop| match stop {
        Stop::Output => Error::serialization("the writer of Extended JSON failed"),
        Stop::Value(error) => error,
    })
}

/// Returns a document as Extended JSON for people, cut to `limit` bytes. This function never fails.
///
/// A text longer than `limit` is cut between two characters, and `...` follows. The document is not
/// read beyond the value in which the limit is reached. A value that cannot be read is shown as
/// `"..."`, and so is a document or array that is nested too deeply. A text that is not UTF-8 is
/// shown up to its first invalid byte, and `...` follows.
///
/// ```
/// use onionskin_bson::extjson::{self, Mode};
///
/// let document = bson::rawdoc! { "n": 1_i64, "text": "onion" };
/// assert_eq!(
///     extjson::to_string_lossy(&document, Mode::Relaxed, 100),
///     r#"{"n":1,"text":"onion"}"#,
/// );
/// assert_eq!(extjson::to_string_lossy(&document, Mode::Relaxed, 6), r#"{"n":1..."#);
/// ```
#[must_use]
pub fn to_string_lossy(document: &RawDocument, mode: Mode, limit: usize) -> String {
    let Ok(mut levels) = Levels::of_document(document.as_bytes()) else {
        return format!("\"{ELLIPSIS}\"");
    };
    let mut text = Cut::new(limit);
    // The writer stops when the text is full.
    let _ = Writer::new(&mut text, mode, Some(limit)).all(&mut levels);
    text.finish(ELLIPSIS)
}

/// Options of the parser of Extended JSON.
///
/// ```
/// use onionskin_bson::extjson::ParseOptions;
///
/// let text = r#"{"when": {"$date": 5}}"#;
/// assert!(ParseOptions::default().parse(text).is_err());
/// let document = ParseOptions::default().legacy(true).parse(text)?;
/// assert_eq!(document, bson::doc! { "when": bson::DateTime::from_millis(5) });
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
    legacy: bool,
}

impl ParseOptions {
    /// Sets whether forms of Extended JSON, version 1, are also read. The default is false. These
    /// forms are:
    ///
    /// - `{"$date": 5}`, with the milliseconds since 1970 as a number, and
    ///   `{"$date": "2014-01-01T00:00:00.000-0500"}`, with an offset without colon;
    /// - `{"$binary": "…", "$type": "00"}`, with base64 and a subtype in hexadecimal;
    /// - `{"$regex": "…", "$options": "…"}` with two strings.
    ///
    /// The query operators `$regex` and `$type` in other forms are left as they are, for example
    /// `{"$regex": {"$regularExpression": …}, "$options": "i"}` and `{"$type": 2}`. The source is
    /// the Extended JSON specification, "Parsers".
    #[must_use]
    pub fn legacy(mut self, legacy: bool) -> Self {
        self.legacy = legacy;
        self
    }

    /// Parses a document like [`parse`], with these options.
    ///
    /// # Errors
    ///
    /// Fails like [`parse`].
    pub fn parse(&self, text: impl AsRef<[u8]>) -> Result<Document> {
        document_from_slice(&parse::document(text.as_ref(), self.legacy)?)
    }

    /// Parses a document like [`parse_raw`], with these options.
    ///
    /// # Errors
    ///
    /// Fails like [`parse`].
    pub fn parse_raw(&self, text: impl AsRef<[u8]>) -> Result<RawDocumentBuf> {
        let bytes = parse::document(text.as_ref(), self.legacy)?;
        RawDocumentBuf::from_bytes(bytes).map_err(Error::extended_json)
    }

    /// Parses a single value like [`parse_value`], with these options.
    ///
    /// # Errors
    ///
    /// Fails like [`parse_value`].
    pub fn parse_value(&self, text: impl AsRef<[u8]>) -> Result<Bson> {
        let bytes = parse::framed_value(text.as_ref(), self.legacy)?;
        match Elements::of_document(&bytes)?.next()? {
            Some(element) => value_of(element),
            None => Err(Error::extended_json("there is no value")),
        }
    }
}

/// Parses a document in canonical or relaxed Extended JSON.
///
/// The text is UTF-8, and its outermost value is an object, which is always a document. Objects and
/// values in it that represent other types are converted, in any order of their names. Integers
/// become the smallest of int32, int64 and double that holds them; the nearest double, if none
/// does. Objects that are similar to a DBRef, and objects with other names that begin with `$`, are
/// documents. The source is the Extended JSON specification, "Parsers".
///
/// If a name occurs twice in an object, the document has the value of the last at the place of the
/// first. [`parse_raw`] keeps both.
///
/// # Errors
///
/// Returns an error of the kind [`ExtendedJson`](crate::ErrorKind::ExtendedJson), with path and
/// offset, if the text is not JSON, if an object has a name of a type representation and does not
/// have its form, if a number is beyond the range of a double (such as `1e400`), or if a name
/// contains a null character. A document that is nested deeper than
/// [`MAX_DEPTH`](crate::MAX_DEPTH) levels is an error of the kind
/// [`Depth`](crate::ErrorKind::Depth).
///
/// ```
/// use onionskin_bson::extjson;
///
/// let document = extjson::parse(r#"{"a": 1, "b": {"$numberDouble": "-Infinity"}}"#)?;
/// assert_eq!(document, bson::doc! { "a": 1, "b": f64::NEG_INFINITY });
///
/// let error = extjson::parse(r#"{"a": {"b": {"$oid": "123"}}}"#).unwrap_err();
/// assert_eq!((error.path().as_str(), error.offset()), ("a.b", Some(12)));
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn parse(text: impl AsRef<[u8]>) -> Result<Document> {
    ParseOptions::default().parse(text)
}

/// Parses a document in canonical or relaxed Extended JSON to bytes. The bytes are valid at every
/// level. Names that occur twice in an object occur twice in the document.
///
/// # Errors
///
/// Fails like [`parse`].
///
/// ```
/// use onionskin_bson::extjson;
///
/// let document = extjson::parse_raw(r#"{"a": 1}"#)?;
/// assert_eq!(document, bson::rawdoc! { "a": 1 });
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn parse_raw(text: impl AsRef<[u8]>) -> Result<RawDocumentBuf> {
    ParseOptions::default().parse_raw(text)
}

/// Parses a single value in canonical or relaxed Extended JSON. The outermost value can be of any
/// type, and an object can represent another type.
///
/// # Errors
///
/// Fails like [`parse`], except that the outermost value need not be an object.
///
/// ```
/// use bson::Bson;
/// use onionskin_bson::extjson;
///
/// assert_eq!(extjson::parse_value(r#"{"$numberLong": "5"}"#)?, Bson::Int64(5));
/// assert_eq!(extjson::parse_value("true")?, Bson::Boolean(true));
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn parse_value(text: impl AsRef<[u8]>) -> Result<Bson> {
    ParseOptions::default().parse_value(text)
}
