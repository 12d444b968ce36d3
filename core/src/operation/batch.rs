//! The batch of a cursor: what a reply says of the cursor, and its documents in place.

use super::Reply;
use crate::{
    bson::integer,
    error::{Error, pick},
};
use bson::{RawArray, RawDocument};
use std::ops::Range;

/// One batch of a cursor, still in the buffer in which it arrived.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The elements of the batch's array that were not read yet.
    rest: Range<usize>,
}

impl Batch {
    pub(super) const EMPTY: Self = Self {
        bytes: Vec::new(),
        rest: 0..0,
    };

    /// The batch whose array stands at `rest` of this reply.
    pub(super) fn new(reply: Reply, rest: Range<usize>) -> Self {
        let (bytes, _) = reply.into_parts();
        Self { bytes, rest }
    }

    /// The next document, read in place; `None` at the end of the batch.
    pub fn next_document(&mut self) -> Option<Result<&RawDocument, Error>> {
        let bytes = self.bytes.get(self.rest.clone())?;
        // An element of the array: a type byte, the index as text, then the document. The end of
        // the array is a zero byte where the next type would stand.
        let kind = *bytes.first()?;
        if kind == 0 {
            self.rest.start = self.rest.end;
            return None;
        }
        let end = self.rest.end;
        let place = match document_place(bytes, kind) {
            Ok(place) => self.rest.start + place.start..self.rest.start + place.end,
            Err(error) => {
                self.rest.start = end;
                return Some(Err(error));
            }
        };
        self.rest.start = place.end;
        Some(
            RawDocument::from_bytes(&self.bytes[place]).map_err(|error| {
                Error::protocol(format!("a cursor's document is not BSON: {error}"))
            }),
        )
    }

    /// True if every document was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes
            .get(self.rest.clone())
            .is_none_or(|rest| rest.first().is_none_or(|&b| b == 0))
    }
}

/// Where in `bytes`, which begin with an array's element, its document stands.
fn document_place(bytes: &[u8], kind: u8) -> Result<Range<usize>, Error> {
    let fail = || Error::protocol("a cursor's batch holds something else than documents");
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

/// Bytes of a cursor's namespace at most; it goes into each command that follows. Servers allow 255
/// for a database and its collection.
pub(super) const MAX_NAMESPACE_BYTES: usize = 1024;

/// What a reply says of a cursor.
pub(super) struct Parsed {
    pub(super) id: i64,
    pub(super) namespace: Option<String>,
    /// Where in the buffer of the reply the elements of the batch stand.
    pub(super) rest: Range<usize>,
}

/// Reads the cursor of a reply, whose array of documents has the key `batch`.
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
