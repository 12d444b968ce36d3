//! Batches of cursors: the `cursor` field of a reply, and its documents, which are read in place.

use super::Reply;
use crate::{
    bson::integer,
    error::{Error, MAX_FIELDS, pick},
};
use bson::{RawArray, RawDocument, RawDocumentBuf, Timestamp, spec::ElementType};
use onionskin_bson::fields;
use std::{fmt, ops::Range};

/// The size of the smallest document: its length and its terminator.
const MIN_DOCUMENT_BYTES: usize = 5;

/// One batch of a cursor, in the buffer in which its reply arrived.
#[derive(Debug)]
pub struct Batch {
    reply: Reply,
    /// The range, in the buffer of the reply, of the array elements that were not read yet.
    rest: Range<usize>,
    /// The range, in the buffer of the reply, of the document that was read last; empty if there is
    /// none.
    current: Range<usize>,
}

impl Batch {
    pub(super) const EMPTY: Self = Self {
        reply: Reply::EMPTY,
        rest: 0..0,
        current: 0..0,
    };

    /// Returns the batch whose array elements are in the range `rest` of the reply's buffer.
    pub(super) fn new(reply: Reply, rest: Range<usize>) -> Self {
        Self {
            reply,
            rest,
            current: 0..0,
        }
    }

    /// Moves to the next document; `None` at the end of the batch. An error ends the batch, because
    /// the server violates the protocol.
    #[inline]
    pub fn advance(&mut self) -> Option<Result<(), Error>> {
        let start = self.rest.start;
        match document_place(self.reply.bytes().get(self.rest.clone())?) {
            Ok(Some(place)) => {
                self.current = start + place.start..start + place.end;
                self.rest.start = self.current.end;
                Some(Ok(()))
            }
            Ok(None) => {
                self.end();
                None
            }
            Err(error) => {
                self.end();
                Some(Err(error))
            }
        }
    }

    fn end(&mut self) {
        self.current = 0..0;
        self.rest.start = self.rest.end;
    }

    /// Returns the bytes of the document to which [`advance`](Self::advance) has moved, which are
    /// one document; no bytes before the first one, and after the end of the batch or an error.
    #[inline]
    #[must_use]
    pub fn current_bytes(&self) -> &[u8] {
        let bytes = self.reply.bytes().get(self.current.clone());
        bytes.unwrap_or_default()
    }

    /// Returns the document to which [`advance`](Self::advance) has moved, which is read in place;
    /// `None` before the first one, and after the end of the batch or an error.
    #[inline]
    #[must_use]
    pub fn current(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(self.current_bytes()).ok()
    }

    /// True if every document was read.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the whole batch, with the documents that were read; `None` for
    /// [`EMPTY`](Self::EMPTY), which is no batch of a server.
    pub(super) fn into_raw(self) -> Option<RawBatch> {
        let has_reply = !self.reply.bytes().is_empty();
        has_reply.then_some(RawBatch(self.reply))
    }
}

/// One batch of a cursor as the server sent it: the reply with its documents, in the buffer in
/// which it arrived. Nothing was copied or decoded.
#[derive(Clone)]
pub struct RawBatch(Reply);

impl RawBatch {
    /// Returns the documents of the batch, which are read in place. The array is empty if the
    /// server had no document to send.
    ///
    /// Fails if the reply has no such array, which is checked when the batch arrives.
    ///
    /// ```
    /// use onionskin_core::{error::Error, operation::RawBatch};
    ///
    /// fn sizes(batch: &RawBatch) -> Result<Vec<usize>, Error> {
    ///     let documents = batch.doc_slices()?.into_iter();
    ///     let documents = documents.filter_map(|document| document.ok()?.as_document());
    ///     Ok(documents.map(|document| document.as_bytes().len()).collect())
    /// }
    /// ```
    pub fn doc_slices(&self) -> Result<&RawArray, Error> {
        let cursor = self.as_raw_document().get_document("cursor");
        let batch = cursor.and_then(|cursor| {
            let first = cursor.get_array("firstBatch");
            first.or_else(|_| cursor.get_array("nextBatch"))
        });
        batch.map_err(|_| Error::protocol("the cursor has no batch"))
    }

    /// Returns the whole reply, with the facts about the cursor.
    ///
    /// ```
    /// use bson::RawDocument;
    /// use onionskin_core::operation::RawBatch;
    ///
    /// // The number is 0 after the last batch.
    /// fn id(batch: &RawBatch) -> Option<i64> {
    ///     let cursor: &RawDocument = batch.as_raw_document().get_document("cursor").ok()?;
    ///     cursor.get_i64("id").ok()
    /// }
    /// ```
    #[must_use]
    pub fn as_raw_document(&self) -> &RawDocument {
        self.0.document()
    }
}

/// Shows only the size, because the documents may hold secrets.
impl fmt::Debug for RawBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.as_raw_document().as_bytes().len();
        f.debug_struct("RawBatch").field("bytes", &bytes).finish()
    }
}

/// Returns the range of the document in the array element that `bytes` begins with; `None` at the
/// end of the array.
#[inline]
fn document_place(bytes: &[u8]) -> Result<Option<Range<usize>>, Error> {
    // An element of the array is a type byte, the index as text, then the document.
    match bytes.first() {
        None => return Ok(None),
        Some(3) => {}
        Some(_) => return Err(not_a_document()),
    }
    let name = bytes[1..].iter().position(|&b| b == 0);
    let start = 1 + name.ok_or_else(not_a_document)? + 1;
    let length = bytes[start..].first_chunk::<4>();
    let length = length.map(|length| i32::from_le_bytes(*length));
    let length = length.and_then(|length| usize::try_from(length).ok());
    let end = length.and_then(|length| start.checked_add(length));
    // A document ends with a zero byte.
    match end.and_then(|end| Some((end, bytes.get(..end)?.last()?))) {
        Some((end, 0)) if end - start >= MIN_DOCUMENT_BYTES => Ok(Some(start..end)),
        _ => Err(not_a_document()),
    }
}

#[cold]
pub(super) fn not_a_document() -> Error {
    Error::protocol("an element of the cursor's batch is not a document")
}

/// Returns the elements of the batch in the `cursor` of a reply, between the length and the
/// terminator of the array. `key` is the key of the batch.
fn elements<'a>(cursor: &'a RawDocument, key: &str) -> Result<&'a [u8], Error> {
    let fields = fields(cursor).map_while(Result::ok).take(MAX_FIELDS);
    let mut batches = fields.filter(|field| field.name_bytes() == key.as_bytes());
    match batches.next() {
        Some(batch) if batch.element_type() == ElementType::Array => {
            let bytes = batch.value_bytes();
            Ok(bytes.get(4..bytes.len() - 1).unwrap_or_default())
        }
        _ => Err(Error::protocol("the cursor has no batch")),
    }
}

fn cursor(reply: &RawDocument) -> Result<&RawDocument, Error> {
    let [cursor] = pick(reply, ["cursor"]);
    let cursor = cursor.and_then(|cursor| cursor.as_document());
    cursor.ok_or_else(no_cursor)
}

#[cold]
fn no_cursor() -> Error {
    Error::protocol("the reply has no cursor")
}

/// Returns the elements of the first batch if `cursor` is the first field of the reply, and
/// `firstBatch` the first one of the cursor. Servers reply in this form, in which nothing has to be
/// searched. `None` for another form.
#[inline]
fn leading_batch(reply: &RawDocument) -> Option<&[u8]> {
    let bytes = reply.as_bytes();
    let cursor = leading(bytes.get(4..bytes.len() - 1)?, b"\x03cursor\0")?;
    leading(cursor, b"\x04firstBatch\0")
}

/// Returns the elements of the document or array that is the value of the first element, if the
/// type and the name of that element are these.
#[inline]
fn leading<'a>(elements: &'a [u8], type_and_name: &[u8]) -> Option<&'a [u8]> {
    let value = elements.strip_prefix(type_and_name)?;
    let size = i32::from_le_bytes(*value.first_chunk::<4>()?);
    let value = value.get(..usize::try_from(size).ok()?)?;
    match value {
        [_, _, _, _, elements @ .., 0] => Some(elements),
        _ => None,
    }
}

/// Returns the bytes of the first document of the first batch in a reply; `None` for an empty
/// batch.
pub(super) fn first_document(reply: &RawDocument) -> Result<Option<&[u8]>, Error> {
    let elements = match leading_batch(reply) {
        Some(elements) => elements,
        None => elements(cursor(reply)?, "firstBatch")?,
    };
    let place = document_place(elements)?;
    Ok(place.map(|place| &elements[place]))
}

/// Returns the id of the cursor in a reply; `None` if the reply has no cursor with an id.
pub(super) fn cursor_id(reply: &RawDocument) -> Option<i64> {
    let [id] = pick(cursor(reply).ok()?, ["id"]);
    integer(id?)
}

/// Returns the namespace of the cursor in a reply. Empty if there is none, or if it is longer than
/// [`MAX_NAMESPACE_BYTES`].
#[cold]
pub(super) fn namespace(reply: &RawDocument) -> &str {
    let [namespace] = cursor(reply).map_or([None], |cursor| pick(cursor, ["ns"]));
    let namespace = namespace.and_then(|ns| ns.as_str()).unwrap_or_default();
    match namespace.len() <= MAX_NAMESPACE_BYTES {
        true => namespace,
        false => "",
    }
}

/// The maximum size of a cursor's namespace, in bytes. The limit bounds the further commands of the
/// cursor, which send the name of the collection.
pub(super) const MAX_NAMESPACE_BYTES: usize = 1024;

/// The maximum size of a cursor's `postBatchResumeToken`, in bytes: 1 MiB. A token has the key of a
/// document and some numbers. The limit bounds what a cursor keeps.
pub(super) const MAX_RESUME_TOKEN_BYTES: usize = 1 << 20;

/// The fields of a reply that describe its cursor.
pub(super) struct Parsed {
    pub(super) id: i64,
    pub(super) namespace: Option<String>,
    /// The token after which a change stream resumes if it has read this batch.
    pub(super) resume_token: Option<RawDocumentBuf>,
    pub(super) operation_time: Option<Timestamp>,
    /// The range of the batch's array elements in the buffer of the reply.
    pub(super) rest: Range<usize>,
}

/// Reads the cursor of a reply. `batch` is the key of the array of documents.
pub(super) fn parse(reply: &Reply, batch: &str) -> Result<Parsed, Error> {
    let document = reply.document();
    let [cursor, operation_time] = pick(document, ["cursor", "operationTime"]);
    let cursor = cursor.and_then(|cursor| cursor.as_document());
    let cursor = cursor.ok_or_else(no_cursor)?;
    let [id, namespace, token] = pick(cursor, ["id", "ns", "postBatchResumeToken"]);
    let id = id.and_then(integer);
    let id = id.ok_or_else(|| Error::protocol("the cursor has no id"))?;
    let elements = elements(cursor, batch)?;
    let no_text = || Error::protocol("the cursor's namespace is not a string");
    let namespace = namespace.map(|ns| ns.as_str().ok_or_else(no_text));
    let namespace = namespace.transpose()?;
    if namespace.is_some_and(|ns| ns.len() > MAX_NAMESPACE_BYTES) {
        return Err(Error::protocol("the cursor's namespace is too long"));
    }
    let no_token = || Error::protocol("the cursor's resume token is not a document");
    let token = token.map(|token| token.as_document().ok_or_else(no_token));
    let token = token.transpose()?;
    if token.is_some_and(|token| token.as_bytes().len() > MAX_RESUME_TOKEN_BYTES) {
        return Err(Error::protocol("the cursor's resume token is too long"));
    }
    let no_time = || Error::protocol("the reply's operationTime is not a timestamp");
    let operation_time = operation_time.map(|time| time.as_timestamp().ok_or_else(no_time));
    let operation_time = operation_time.transpose()?;
    let offset = elements.as_ptr() as usize - document.as_bytes().as_ptr() as usize;
    let start = reply.body_start() + offset;
    Ok(Parsed {
        id,
        namespace: namespace.map(str::to_owned),
        resume_token: token.map(ToOwned::to_owned),
        operation_time,
        rest: start..start + elements.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};
    use proptest::prelude::*;

    /// The fields of a cursor, in the order of servers or in another one.
    fn replies() -> impl Strategy<Value = RawDocumentBuf> {
        let cursor = prop_oneof![
            Just(rawdoc! { "firstBatch": [{ "_id": 1 }, { "_id": 2 }], "id": 0_i64, "ns": "a.b" }),
            Just(rawdoc! { "firstBatch": [], "id": 0_i64 }),
            Just(rawdoc! { "id": 0_i64, "firstBatch": [{ "_id": 3 }] }),
            Just(rawdoc! { "firstBatch": { "0": { "_id": 4 } } }),
            Just(rawdoc! { "firstBatch": [5] }),
            Just(rawdoc! {}),
        ];
        let reply = (cursor, any::<bool>()).prop_map(|(cursor, is_first)| match is_first {
            true => rawdoc! { "cursor": cursor, "ok": 1 },
            false => rawdoc! { "ok": 1, "cursor": cursor },
        });
        // A changed byte can make the reply invalid at any place.
        (
            reply,
            any::<prop::sample::Index>(),
            any::<u8>(),
            any::<bool>(),
        )
            .prop_map(|(reply, place, byte, is_changed)| {
                let mut bytes = reply.as_bytes().to_vec();
                let place = 4 + place.index(bytes.len() - 5);
                if is_changed {
                    bytes[place] = byte;
                }
                RawDocumentBuf::from_bytes(bytes).expect("its size is right")
            })
    }

    proptest! {
        #[test]
        fn the_leading_batch_is_the_one_that_a_search_finds(reply in replies()) {
            let found = cursor(&reply).and_then(|cursor| elements(cursor, "firstBatch"));
            if let (Some(leading), Ok(found)) = (leading_batch(&reply), found) {
                prop_assert_eq!(leading, found);
            }
            // A reply in the form of servers has a leading batch.
            let plain = rawdoc! { "cursor": { "firstBatch": [{ "_id": 1 }] }, "ok": 1 };
            prop_assert!(leading_batch(&plain).is_some());
        }
    }
}
