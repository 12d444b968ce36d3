//! Batches of the documents of cursors.

use super::{
    super::reply::{Batch, Reply, append, encode, timestamp},
    Cursor,
};
use crate::store::encoded_bytes;
use bson::{Timestamp, doc};

/// The largest size of the documents of one batch, in bytes. Only the first document of a batch can
/// exceed it.
pub(in crate::server) const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// Makes a batch, with the time of a snapshot read if there is one. Returns the reply, and false if
/// the cursor is exhausted.
pub(in crate::server) fn make_batch(
    field: &'static str,
    id: i64,
    cursor: &mut Cursor,
    size: usize,
    at: Option<Timestamp>,
) -> (Reply, bool) {
    let (mut documents, mut bytes) = (Vec::new(), 0);
    while documents.len() < size
        && let Some(document) = cursor.documents.front()
    {
        let more = encoded_bytes(document);
        if !documents.is_empty() && bytes + more > MAX_BATCH_BYTES {
            break;
        }
        bytes += more;
        documents.extend(cursor.documents.pop_front());
    }
    let token = cursor.stream.as_ref().map(|stream| match documents.last() {
        // The client has not got all events that were found.
        Some(last) if !cursor.documents.is_empty() => {
            last.get_document("_id").cloned().unwrap_or_default()
        }
        _ => stream.place(),
    });
    let is_at_end = cursor.ends_early || documents.len() < size;
    let is_at_end = is_at_end || cursor.stream.is_some();
    let open = !cursor.documents.is_empty() || cursor.is_endless() || !is_at_end;
    let rest = encode(|rest| {
        if let Some(token) = &token {
            let token = doc! { "postBatchResumeToken": token.clone() };
            append(rest, &token);
        }
        rest.i64("id", if open { id } else { 0 })
            .str("ns", &cursor.namespace);
        if let Some(at) = at {
            timestamp(rest, "atClusterTime", at);
        }
    });
    let batch = Batch {
        field,
        documents,
        bytes,
        rest,
    };
    (Reply::batch(batch), open)
}
