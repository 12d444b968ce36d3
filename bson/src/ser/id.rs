//! The `_id` of a document to insert, which is its first field.

use super::Serializer;
use crate::{
    de::value_of,
    error::{Error, Result},
    read::Elements,
};
use bson::{Bson, oid::ObjectId};

/// The size of an element `_id` with an ObjectId: type, name and 12 bytes.
pub(super) const ELEMENT_BYTES: usize = 1 + 4 + 12;

/// The `_id` of the outermost document, as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum Id {
    /// The document needs no `_id`.
    Ignored,
    /// No field was written yet.
    Wanted,
    /// The first field is another one, and room for an ObjectId is before it.
    Reserved,
    /// The `_id` is being written, from this place on.
    Begun { start: usize, is_reserved: bool },
    /// The `_id` is in this place.
    Found {
        start: usize,
        end: usize,
        is_reserved: bool,
    },
}

impl Serializer<'_> {
    /// Leaves room for an ObjectId if a field of this name is the first one of the outermost
    /// document, and is not its `_id`. A document without `_id` then needs no move of its bytes.
    #[inline]
    pub(super) fn begin_id(&mut self, document: usize, name: &str) {
        if matches!(self.id, Id::Wanted) && document == self.root && name != "_id" {
            self.buffer.extend_from_slice(&[0; ELEMENT_BYTES]);
            self.id = Id::Reserved;
        }
    }

    /// True if the element whose name was just written is the `_id` of the outermost document.
    #[inline]
    pub(super) fn begins_id(&mut self, document: usize, name: &str) -> bool {
        let is_reserved = match self.id {
            Id::Wanted => false,
            Id::Reserved => true,
            _ => return false,
        };
        if document != self.root || name != "_id" {
            return false;
        }
        let Some(start) = self.type_at else {
            return false;
        };
        self.id = Id::Begun { start, is_reserved };
        true
    }

    /// Notes the end of the `_id`.
    pub(super) fn end_id(&mut self) {
        if let Id::Begun { start, is_reserved } = self.id {
            let end = self.buffer.len();
            self.id = Id::Found {
                start,
                end,
                is_reserved,
            };
        }
    }
}

impl Id {
    /// Puts the `_id` at the front of the document that was written at `root`, and returns it.
    pub(super) fn finish(
        self,
        buffer: &mut Vec<u8>,
        root: usize,
        new_id: impl FnOnce() -> ObjectId,
    ) -> Result<Bson> {
        let first = root + 4;
        match self {
            Self::Found {
                start,
                end,
                is_reserved,
            } => {
                let from = if is_reserved {
                    first + ELEMENT_BYTES
                } else {
                    first
                };
                buffer[from..end].rotate_right(end - start);
                if is_reserved {
                    buffer.drain(first..from);
                    set_length(buffer, root);
                }
                id_of(buffer, root)
            }
            Self::Reserved => {
                let id = new_id();
                buffer[first..first + ELEMENT_BYTES].copy_from_slice(&element(id));
                Ok(Bson::ObjectId(id))
            }
            // The document is empty, or its bytes came from the application.
            _ => add_to_raw(buffer, root, new_id),
        }
    }
}

/// Returns the element `_id` with an ObjectId.
fn element(id: ObjectId) -> [u8; ELEMENT_BYTES] {
    let mut element = *b"\x07_id\0............";
    element[5..].copy_from_slice(&id.bytes());
    element
}

/// Returns the first field of the document at `root`.
fn id_of(buffer: &[u8], root: usize) -> Result<Bson> {
    let document = &buffer[root..];
    match Elements::of_document(document)?.next()? {
        Some(element) => value_of(element).map_err(|error| error.within(element.key)),
        None => Err(Error::serialization("the document has no `_id`")),
    }
}

/// Puts the `_id` of a document whose bytes were copied to its front, or adds a new one.
fn add_to_raw(
    buffer: &mut Vec<u8>,
    root: usize,
    new_id: impl FnOnce() -> ObjectId,
) -> Result<Bson> {
    let document = &buffer[root..];
    let mut elements = Elements::of_document(document)?;
    let mut start = root + 4;
    while let Some(element) = elements.next()? {
        let end = start + 1 + element.key.len() + 1 + element.value.len();
        if element.key == b"_id" {
            buffer[root + 4..end].rotate_right(end - start);
            return id_of(buffer, root);
        }
        start = end;
    }
    let id = new_id();
    buffer.splice(root + 4..root + 4, element(id));
    set_length(buffer, root);
    Ok(Bson::ObjectId(id))
}

/// Sets the length of the document at `root`, which fits because its size is limited.
fn set_length(buffer: &mut [u8], root: usize) {
    let length = (buffer.len() - root) as u32;
    buffer[root..root + 4].copy_from_slice(&length.to_le_bytes());
}
