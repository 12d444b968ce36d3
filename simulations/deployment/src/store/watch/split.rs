//! The stage `$changeStreamSplitLargeEvent`, which splits events that are too large for a document.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::super::error::StoreError;
use super::super::size::{self, MAX_DOCUMENT_BYTES};
use super::super::types::Shared;
use super::{Answer, Token};

/// The size of a fragment apart from the parts of the event, in bytes: its `_id` and `splitEvent`.
const FRAGMENT_BYTES: usize = 256;

/// Splits an event into fragments, each of which fits into a document. The fields of the event stay
/// whole. Each fragment has a token of its own.
pub(super) fn split(event: &Document, token: Token) -> Answer<Vec<(Token, Shared)>> {
    let fields = event.iter().filter(|(name, _)| *name != "_id");
    let mut fields: Vec<_> = fields
        .map(|(name, value)| (size::of(&doc! { name: value.clone() }), name, value))
        .collect();
    // Small fields share a fragment.
    fields.sort_by_key(|(bytes, _, _)| *bytes);
    let limit = MAX_DOCUMENT_BYTES - FRAGMENT_BYTES;
    let mut parts: Vec<Document> = Vec::new();
    let mut room = 0;
    for (bytes, name, value) in fields {
        if bytes > limit {
            return Err(too_large(bytes));
        }
        if bytes > room || parts.is_empty() {
            parts.push(Document::new());
            room = limit;
        }
        room -= bytes;
        if let Some(part) = parts.last_mut() {
            part.insert(name, value.clone());
        }
    }
    let count = i32::try_from(parts.len()).unwrap_or(i32::MAX);
    let fragments = (1..).zip(parts).enumerate().map(|(at, (number, part))| {
        let token = token.fragment(at);
        let split = doc! { "fragment": number, "of": count };
        let mut fragment = doc! { "_id": token.to_document(), "splitEvent": split };
        fragment.extend(part);
        let number: i32 = number;
        debug_assert!(number <= count, "the fragments are counted");
        (token, Arc::new(fragment))
    });
    Ok(fragments.collect())
}

/// Returns the error for an event that does not fit into a document.
pub(super) fn too_large(bytes: usize) -> StoreError {
    let text = format!(
        "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and \
         {MAX_DOCUMENT_BYTES}(16MB)"
    );
    StoreError::new(10334, text)
}

/// Returns the error for an event whose `_id` the pipeline has changed or removed.
pub(super) fn lost_token(event: &Document, token: &Document) -> Option<StoreError> {
    let expected = Bson::Document(token.clone());
    (event.get("_id") != Some(&expected)).then(|| {
        let text = format!(
            "Encountered an event whose _id field, which contains the resume token, was modified \
             by the pipeline. Modifying the _id field of an event makes it impossible to resume \
             the stream from that point. Only transformations that retain the unmodified _id \
             field are allowed. Expected: {{ _id: {} }}",
            super::super::display(token)
        );
        StoreError::new(280, text)
    })
}
