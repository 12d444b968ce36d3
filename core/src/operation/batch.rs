//! Batches of cursors: the `cursor` field of a reply, and its documents, which are read in place.

use super::Reply;
use crate::{
    bson::integer,
    error::{Error, pick},
};
use bson::{RawArray, RawDocument};
use std::ops::Range;

/// One batch of a cursor, in the buffer in which its reply arrived.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The range in `bytes` of the array elements that were not read yet.
    rest: Range<usize>,
    /// The range in `bytes` of the document that was read last; empty if there is none.
    current: Range<usize>,
}

impl Batch {
    pub(super) const EMPTY: Self = Self {
        bytes: Vec::new(),
        rest: 0..0,
        current: 0..0,
    };

    /// Returns the batch whose array elements are in the range `rest` of the reply's buffer.
    pub(super) fn new(reply: Reply, rest: Range<usize>) -> Self {
        let (bytes, _) = reply.into_parts();
        Self {
            bytes,
            rest,
            current: 0..0,
        }
    }

    /// Returns the next document, which is read in place; `None` at the end of the batch. An error
    /// ends the batch, because the server violates the protocol.
    pub fn next_document(&mut self) -> Option<Result<&RawDocument, Error>> {
        self.current = 0..0;
        let bytes = self.bytes.get(self.rest.clone())?;
        // An element of the array is a type byte, the index as text, then the document. A zero byte
        // in the place of the type byte ends the array.
        let kind = *bytes.first()?;
        if kind == 0 {
            self.rest.start = self.rest.end;
            return None;
        }
        let place = match document_place(bytes, kind) {
            Ok(place) => self.rest.start + place.start..self.rest.start + place.end,
            Err(error) => {
                self.rest.start = self.rest.end;
                return Some(Err(error));
            }
        };
        let document = RawDocument::from_bytes(&self.bytes[place.clone()]);
        self.rest.start = match document {
            Ok(_) => place.end,
            Err(_) => self.rest.end,
        };
        self.current = match document {
            Ok(_) => place,
            Err(_) => 0..0,
        };
        Some(
            document.map_err(|error| {
                Error::protocol(format!("a cursor's document is not BSON: {error}"))
            }),
        )
    }

    /// Returns the document that [`next_document`](Self::next_document) returned last; `None`
    /// before the first one, and after the end of the batch or an error.
    #[must_use]
    pub fn current(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(self.bytes.get(self.current.clone())?).ok()
    }

    /// True if every document was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes
            .get(self.rest.clone())
            .is_none_or(|rest| rest.first().is_none_or(|&b| b == 0))
    }
}

/// Returns the range of the document in the array element that `bytes` begins with.
fn document_place(bytes: &[u8], kind: u8) -> Result<Range<usize>, Error> {
    let fail = || Error::protocol("an element of the cursor's batch is not a document");
    if kind != 3 {
        return Err(fail());
    }
    let name = bytes[1..].iter().position(|&b| b == 0).ok_or_else(fail)?;
    let start = 1 + name + 1;
    let length = bytes[start..].first_chunk::<4>().ok_or_else(fail)?;
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| fail())?;
    let end = start
        .checked_add(length)
        .filter(|&end| end <= bytes.len())
        .ok_or_else(fail)?;
    Ok(start..end)
}

/// The maximum size of a cursor's namespace, in bytes. The limit bounds the further commands of the
/// cursor, which send the name of the collection.
pub(super) const MAX_NAMESPACE_BYTES: usize = 1024;

/// The fields of a reply that describe its cursor.
pub(super) struct Parsed {
    pub(super) id: i64,
    pub(super) namespace: Option<String>,
    /// The range of the batch's array elements in the buffer of the reply.
    pub(super) rest: Range<usize>,
}

/// Reads the cursor of a reply. `batch` is the key of the array of documents.
pub(super) fn parse(reply: &Reply, batch: &str) -> Result<Parsed, Error> {
    let document = reply.document();
    let [cursor] = pick(document, ["cursor"]);
    let cursor = cursor
        .and_then(|cursor| cursor.as_document())
        .ok_or_else(|| Error::protocol("the reply has no cursor"))?;
    let [id, batch, namespace] = pick(cursor, ["id", batch, "ns"]);
    let id = id.and_then(integer);
    let id = id.ok_or_else(|| Error::protocol("the cursor has no id"))?;
    let batch: &RawArray = batch
        .and_then(|batch| batch.as_array())
        .ok_or_else(|| Error::protocol("the cursor has no batch"))?;
    let namespace = namespace.and_then(|ns| ns.as_str());
    if namespace.is_some_and(|ns| ns.len() > MAX_NAMESPACE_BYTES) {
        return Err(Error::protocol("the cursor's namespace is too long"));
    }
    let base = document.as_bytes().as_ptr() as usize;
    let start = batch.as_bytes().as_ptr() as usize - base + 4;
    let length = batch.as_bytes().len() - 4;
    let offset = reply.body_start();
    Ok(Parsed {
        id,
        namespace: namespace.map(str::to_owned),
        rest: offset + start..offset + start + length,
    })
}
