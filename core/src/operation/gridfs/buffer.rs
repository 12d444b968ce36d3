//! The chunks of an upload that are not sent yet.

use crate::{
    bson::DocumentWriter,
    error::{Error, GridFsErrorKind},
};
use bson::{Bson, RawBsonRef, oid::ObjectId, spec::BinarySubtype};

/// The largest chunk size: 16 MiB. A chunk document, which is a little larger than the chunk, must
/// fit into the document size of the server, so that the server can permit less. Not an option.
pub const MAX_CHUNK_BYTES: u32 = 16 * 1024 * 1024;

/// The size of the chunk documents that an upload collects before it sends them: 16 MiB, or one
/// chunk document if that is larger. A message can have three times this size, but each upload
/// needs the memory, and larger messages save little. Not an option.
pub const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// The size from which on the buffer gets the room of a whole batch.
const FULL_ROOM_BYTES: usize = 1024 * 1024;

/// The largest number of chunks: their indexes are 32-bit integers that are not negative.
const MAX_CHUNKS: u64 = 1 << 31;

/// Chunk documents, stored one after the other, of which the last can be incomplete. Bytes are
/// copied once, to their place in the document.
pub(super) struct ChunkBuffer {
    bytes: Vec<u8>,
    /// The size of the complete documents at the beginning of `bytes`.
    complete: usize,
    /// The incomplete document; `None` between two chunks.
    open: Option<OpenChunk>,
    /// The number of chunks so far, the incomplete one included.
    chunks: u64,
    chunk_bytes: usize,
    /// The element `files_id`.
    files_id: Vec<u8>,
}

/// The places in an incomplete document.
#[derive(Clone, Copy)]
struct OpenChunk {
    /// The place of the first byte of the data. The size of the data and the subtype stand before.
    data: usize,
}

impl ChunkBuffer {
    /// Returns the buffer of a file. Fails if the id cannot be encoded.
    pub(super) fn new(id: &Bson, chunk_bytes: u32) -> Result<Self, Error> {
        let mut files_id = Vec::new();
        DocumentWriter::bare(&mut files_id).tree_value("files_id", id)?;
        Ok(Self {
            bytes: Vec::new(),
            complete: 0,
            open: None,
            chunks: 0,
            chunk_bytes: chunk_bytes as usize,
            files_id,
        })
    }

    /// True if no further chunk can begin before the complete ones are taken.
    pub(super) fn is_full(&self) -> bool {
        let next = OVERHEAD_BYTES + self.files_id.len() + self.chunk_bytes;
        self.open.is_none() && self.complete > 0 && self.complete + next > MAX_BATCH_BYTES
    }

    /// True if there are complete chunks.
    pub(super) fn has_complete(&self) -> bool {
        self.complete > 0
    }

    /// Appends bytes until the buffer is full, and returns their number. `new_id` makes the id of
    /// each chunk document. Fails if the file would have too many chunks.
    pub(super) fn write(
        &mut self,
        mut data: &[u8],
        new_id: &mut dyn FnMut() -> ObjectId,
    ) -> Result<usize, Error> {
        let all = data.len();
        while !data.is_empty() && !self.is_full() {
            let open = match self.open {
                Some(open) => open,
                None => self.begin_chunk(new_id())?,
            };
            let left = self.chunk_bytes - (self.bytes.len() - open.data);
            let (now, rest) = data.split_at(left.min(data.len()));
            self.bytes.extend_from_slice(now);
            data = rest;
            if now.len() == left {
                self.end_chunk();
            }
        }
        Ok(all - data.len())
    }

    fn begin_chunk(&mut self, id: ObjectId) -> Result<OpenChunk, Error> {
        let Some(n) = i32::try_from(self.chunks).ok() else {
            return Err(Error::gridfs(GridFsErrorKind::WrongNumberOfChunks {
                actual_number: self.chunks + 1,
                expected_number: MAX_CHUNKS,
            }));
        };
        self.chunks += 1;
        if self.complete > FULL_ROOM_BYTES {
            // A buffer that grows step by step is copied at each step.
            let rest = MAX_BATCH_BYTES.saturating_sub(self.bytes.len());
            self.bytes.reserve_exact(rest);
        }
        // The sizes of the document and of its data are set at its end.
        self.bytes.extend_from_slice(&[0; 4]);
        DocumentWriter::bare(&mut self.bytes)
            .value("_id", RawBsonRef::ObjectId(id))
            .elements(&self.files_id)
            .i32("n", n)
            .binary("data", BinarySubtype::Generic, &[]);
        let open = OpenChunk {
            data: self.bytes.len(),
        };
        self.open = Some(open);
        Ok(open)
    }

    /// Completes the document of the last chunk, which can be smaller than the others.
    pub(super) fn end_chunk(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        let data = self.bytes.len() - open.data;
        self.bytes.push(0);
        let document = self.bytes.len() - self.complete;
        set_size(&mut self.bytes, open.data - 5, data);
        set_size(&mut self.bytes, self.complete, document);
        self.complete = self.bytes.len();
    }

    /// Takes the complete documents.
    pub(super) fn take_complete(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.complete);
        if let Some(open) = &mut self.open {
            open.data -= self.complete;
        }
        self.complete = 0;
        std::mem::replace(&mut self.bytes, rest)
    }

    /// Forgets all chunks.
    pub(super) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.complete = 0;
        self.open = None;
    }
}

/// An upper bound of the size of a chunk document without its data and the element `files_id`.
const OVERHEAD_BYTES: usize = 64;

/// Writes the size of a document or of binary data, which [`MAX_CHUNK_BYTES`] and the size of the
/// id bound.
fn set_size(bytes: &mut [u8], at: usize, size: usize) {
    let size = i32::try_from(size).unwrap_or(i32::MAX);
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&size.to_le_bytes());
    }
}
