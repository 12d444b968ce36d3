//! Batches of the documents of cursors.

use super::{
    super::reply::{Reply, append, timestamp},
    Cursor,
};
use bson::{Timestamp, doc};
use onionskin_core::bson::DocumentWriter;

/// The largest size of the documents of one batch, in bytes. Only the first document of a batch can
/// exceed it.
pub(in crate::server) const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// Writes a batch, with the time of a snapshot read if there is one. Returns the reply, and false
/// if the cursor is exhausted.
pub(in crate::server) fn write_batch(
    field: &str,
    id: i64,
    cursor: &mut Cursor,
    size: usize,
    at: Option<Timestamp>,
) -> (Reply, bool) {
    let mut batch = Vec::new();
    let mut array = DocumentWriter::begin(&mut batch);
    let (mut count, mut bytes, mut last) = (0, 0, None);
    while count < size
        && let Some(document) = cursor.documents.front()
    {
        let Ok(encoded) = document.to_vec() else {
            cursor.documents.pop_front();
            continue;
        };
        if count > 0 && bytes + encoded.len() > MAX_BATCH_BYTES {
            break;
        }
        bytes += encoded.len();
        array
            .elements(&[3])
            .elements(count.to_string().as_bytes())
            .elements(&[0])
            .elements(&encoded);
        count += 1;
        last = cursor.documents.pop_front();
    }
    array.end();
    let token = cursor.stream.as_ref().map(|stream| match &last {
        // The client has not got all events that were found.
        Some(last) if !cursor.documents.is_empty() => {
            last.get_document("_id").cloned().unwrap_or_default()
        }
        _ => stream.place(),
    });
    let is_at_end = cursor.ends_early || count < size;
    let is_at_end = is_at_end || cursor.stream.is_some();
    let open = !cursor.documents.is_empty() || cursor.is_endless() || !is_at_end;
    let reply = Reply::write(|reply| {
        reply.nested("cursor", |inner| {
            inner
                .elements(&[4])
                .elements(field.as_bytes())
                .elements(&[0])
                .elements(&batch);
            if let Some(token) = &token {
                let token = doc! { "postBatchResumeToken": token.clone() };
                append(inner, &token);
            }
            inner
                .i64("id", if open { id } else { 0 })
                .str("ns", &cursor.namespace);
            if let Some(at) = at {
                timestamp(inner, "atClusterTime", at);
            }
        });
    });
    (reply, open)
}
