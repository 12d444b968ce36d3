//! Serialization into BSON bytes with serde.

mod compound;
mod id;
mod key;
mod value;
mod wrapper;

use crate::{
    MAX_DEPTH,
    error::{Error, ErrorKind, Result},
    read::{kind, zero},
};
use bson::{Bson, oid::ObjectId};
use id::Id;
use serde::Serialize;
use std::fmt;

/// The largest size of a document, which its length can express.
const MAX_BYTES: usize = i32::MAX as usize;

/// The initial capacity of a buffer in bytes, so that a small document needs one allocation.
const SMALL_BYTES: usize = 256;

/// Serializes a value into the bytes of a document.
///
/// The bytes are those of [`bson::serialize_to_vec`]. Fails if the value is not a document, if it
/// has a name or a number that BSON cannot represent, or if it is nested deeper than
/// [`MAX_DEPTH`](crate::MAX_DEPTH).
///
/// ```
/// #[derive(serde::Serialize)]
/// struct Person<'a> { name: &'a str, born: i32 }
///
/// let bytes = onionskin_bson::serialize_to_vec(&Person { name: "Ada", born: 1815 })?;
/// assert_eq!(bytes, bson::rawdoc! { "name": "Ada", "born": 1815 }.into_bytes());
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn serialize_to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(SMALL_BYTES);
    serialize_to_buffer(value, &mut bytes)?;
    Ok(bytes)
}

/// Serializes a value as a document at the end of `buffer`, without a copy of it elsewhere. After
/// an error, `buffer` is as before.
///
/// Fails as [`serialize_to_vec`] does.
///
/// ```
/// let mut documents = Vec::new();
/// onionskin_bson::serialize_to_buffer(&bson::doc! { "a": 1 }, &mut documents)?;
/// onionskin_bson::serialize_to_buffer(&bson::doc! { "a": 2 }, &mut documents)?;
/// assert_eq!(documents.len(), 24);
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn serialize_to_buffer<T: Serialize + ?Sized>(value: &T, buffer: &mut Vec<u8>) -> Result<()> {
    let start = buffer.len();
    let mut serializer = Serializer::new(buffer, MAX_BYTES);
    let result = value.serialize(&mut serializer);
    result.inspect_err(|_| buffer.truncate(start))
}

/// Serializes a value as a document to insert at the end of `buffer`, and returns its `_id`.
///
/// The `_id` is the first field of the document, wherever the value has it. If the value has none,
/// the document gets the id that `new_id` returns (specification CRUD API, heading "Insert"). If
/// the value has several, the first of them is moved, and servers refuse the document. After an
/// error, `buffer` is as before.
///
/// Fails as [`serialize_to_vec`] does, and if the document is larger than `limit` bytes. The
/// document is not written further than to this limit.
///
/// ```
/// use bson::{Bson, doc, oid::ObjectId, rawdoc};
///
/// let mut buffer = Vec::new();
/// let new_id = || ObjectId::from_bytes([7; 12]);
/// let id = onionskin_bson::serialize_to_insert(&doc! { "a": 1 }, &mut buffer, 1000, new_id)?;
/// assert_eq!(id, Bson::ObjectId(ObjectId::from_bytes([7; 12])));
/// assert_eq!(buffer, rawdoc! { "_id": ObjectId::from_bytes([7; 12]), "a": 1 }.into_bytes());
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn serialize_to_insert<T: Serialize + ?Sized>(
    value: &T,
    buffer: &mut Vec<u8>,
    limit: usize,
    new_id: impl FnOnce() -> ObjectId,
) -> Result<Bson> {
    let start = buffer.len();
    let mut serializer = Serializer::new(buffer, limit);
    serializer.id = Id::Wanted;
    serializer.spare = id::ELEMENT_BYTES;
    let result = value.serialize(&mut serializer);
    let (id, limit) = (serializer.id, serializer.limit);
    let result = result.and_then(|()| id.finish(buffer, start, new_id));
    let result = match result {
        Ok(_) if buffer.len() - start > limit => Err(Error::new(ErrorKind::Size { limit })),
        result => result,
    };
    result.inspect_err(|_| buffer.truncate(start))
}

/// A serializer that appends a document to a buffer.
struct Serializer<'a> {
    buffer: &'a mut Vec<u8>,
    /// The place of the outermost document in `buffer`.
    root: usize,
    /// The largest size of the outermost document.
    limit: usize,
    /// The number of bytes in the outermost document that may be removed from it at its end.
    spare: usize,
    /// The place for the type of the value that is written next; `None` for a document that is not
    /// the value of an element.
    type_at: Option<usize>,
    /// The number of documents and arrays that are open.
    depth: usize,
    /// The meaning of the next bytes.
    bytes_are: Bytes,
    is_human_readable: bool,
    id: Id,
}

/// The meaning of bytes, which the newtype around them tells.
#[derive(Clone, Copy, PartialEq)]
enum Bytes {
    Binary,
    Uuid,
    Document,
    Array,
}

impl<'a> Serializer<'a> {
    fn new(buffer: &'a mut Vec<u8>, limit: usize) -> Self {
        let root = buffer.len();
        Self {
            buffer,
            root,
            limit: limit.min(MAX_BYTES),
            spare: 0,
            type_at: None,
            depth: 0,
            bytes_are: Bytes::Binary,
            is_human_readable: false,
            id: Id::Ignored,
        }
    }

    /// Writes the type of the value that follows.
    #[inline]
    fn put_type(&mut self, kind: u8) -> Result<()> {
        match self.type_at {
            Some(at) => self.buffer[at] = kind,
            None if kind == kind::DOCUMENT => {}
            None => return Err(not_a_document()),
        }
        Ok(())
    }

    /// Fails if the outermost document, with `more` bytes and the terminators of the open
    /// documents, would be too large.
    #[inline]
    fn check_room(&self, more: usize) -> Result<()> {
        let size = self.buffer.len() - self.root;
        if more.saturating_add(size + self.depth) > self.limit + self.spare {
            return Err(Error::new(ErrorKind::Size { limit: self.limit }));
        }
        Ok(())
    }

    /// Starts an element: leaves a byte for its type, and writes its name.
    #[inline]
    fn put_name(&mut self, name: &str) -> Result<()> {
        self.check_room(name.len() + 2)?;
        if zero(name.as_bytes()).is_some() {
            return Err(null_byte("the name of a field").within(name.as_bytes()));
        }
        self.type_at = Some(self.buffer.len());
        self.buffer.push(0);
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.push(0);
        Ok(())
    }

    #[inline]
    fn put_string(&mut self, text: &str) -> Result<()> {
        // Without the terminator.
        self.check_room(text.len().saturating_add(5))?;
        let length = text.len() as u32 + 1;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(0);
        Ok(())
    }

    fn put_cstring(&mut self, text: &str) -> Result<()> {
        self.check_room(text.len().saturating_add(1))?;
        if zero(text.as_bytes()).is_some() {
            return Err(null_byte("a regular expression"));
        }
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(0);
        Ok(())
    }

    fn put_binary(&mut self, subtype: u8, bytes: &[u8]) -> Result<()> {
        self.check_room(bytes.len().saturating_add(5))?;
        let length = bytes.len() as u32;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.push(subtype);
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Starts a document or array, and returns its place.
    #[inline]
    fn open(&mut self) -> Result<usize> {
        if self.depth == MAX_DEPTH {
            return Err(Error::new(ErrorKind::Depth));
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        self.depth += 1;
        Ok(start)
    }

    /// Ends the document or array that starts at `start`.
    #[inline]
    fn close(&mut self, start: usize) -> Result<()> {
        self.check_room(0)?;
        self.buffer.push(0);
        self.depth -= 1;
        self.put_length(start);
        Ok(())
    }

    /// Sets the length, at `start`, of all that was written from there on. The length fits, because
    /// the size of the outermost document is limited.
    #[inline]
    fn put_length(&mut self, start: usize) {
        let length = (self.buffer.len() - start) as u32;
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

#[cold]
fn not_a_document() -> Error {
    Error::serialization("expected a document, which is a struct or a map, found another value")
}

#[cold]
fn null_byte(what: &str) -> Error {
    Error::serialization(format!("{what} contains a null byte"))
}

/// Writes formatted text into a serializer's buffer.
struct Text<'s, 'a> {
    serializer: &'s mut Serializer<'a>,
    /// The error of a text that is too long.
    error: Option<Error>,
}

impl<'s, 'a> Text<'s, 'a> {
    fn new(serializer: &'s mut Serializer<'a>) -> Self {
        let error = None;
        Self { serializer, error }
    }
}

impl fmt::Write for Text<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Err(error) = self.serializer.check_room(text.len() + 1) {
            self.error = Some(error);
            return Err(fmt::Error);
        }
        self.serializer.buffer.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
