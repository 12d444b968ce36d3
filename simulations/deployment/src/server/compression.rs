//! Compressed messages. The code does not use that of the driver, so that each checks the other.

use super::{
    Member,
    apart::{LARGE, Task},
};
use crate::deployment::{CompressedReplies, CompressionCounts, ConnId};
use bson::{Bson, Document};
use onionskin_core::{
    options::Compressor,
    unstable::wire::{HEADER_BYTES, Header, OpCode},
};
#[cfg(any(feature = "zlib", feature = "zstd"))]
use std::io::Read;
use std::sync::Arc;

/// The number of the compressor that changes nothing.
const NOOP: u8 = 0;

/// The number of bytes before the compressed ones.
const START: usize = HEADER_BYTES + 9;

/// The commands that must not be compressed (COMP-18).
const FORBIDDEN: [&str; 12] = [
    "hello",
    "isMaster",
    "ismaster",
    "saslStart",
    "saslContinue",
    "getnonce",
    "authenticate",
    "createUser",
    "updateUser",
    "copydbSaslStart",
    "copydbgetnonce",
    "copydb",
];

/// True if a message with this command must not be compressed.
pub(super) fn is_forbidden(command: &str) -> bool {
    FORBIDDEN.contains(&command)
}

/// True if a compressor takes so long for a message that a job compresses it.
pub(super) const fn is_long(id: u8, length: usize) -> bool {
    id != NOOP && length >= LARGE
}

/// Returns the size that a message announces for its content after the decompression, in bytes.
pub(super) fn announced_bytes(frame: &[u8]) -> Option<usize> {
    let size = frame.get(HEADER_BYTES + 4..HEADER_BYTES + 8)?;
    usize::try_from(i32::from_le_bytes(size.try_into().ok()?)).ok()
}

/// Decompresses a message. Returns its header, the whole message, and the number of its compressor.
/// `None` if the message is not valid, or uses a compressor that the connection did not negotiate.
pub(crate) fn unpack(
    header: &Header,
    frame: &[u8],
    negotiated: &[Compressor],
    limit: usize,
) -> Option<(Header, Vec<u8>, u8)> {
    let number = |at: usize| Some(i32::from_le_bytes(frame.get(at..at + 4)?.try_into().ok()?));
    let op_code = OpCode::from_code(number(HEADER_BYTES)?).ok()?;
    let size = announced_bytes(frame)?;
    let (id, bytes) = (*frame.get(START - 1)?, frame.get(START..)?);
    if op_code == OpCode::Compressed || HEADER_BYTES + size > limit {
        return None;
    }
    let compressor = negotiated.iter().find(|compressor| compressor.id() == id);
    if compressor.is_none() && (id != NOOP || negotiated.is_empty()) {
        return None;
    }
    let inner = Header {
        length: HEADER_BYTES + size,
        op_code,
        ..*header
    };
    let mut message = inner.to_bytes().to_vec();
    match compressor {
        None => message.extend_from_slice(bytes),
        #[cfg(feature = "snappy")]
        Some(Compressor::Snappy) => {
            if snap::raw::decompress_len(bytes).ok()? != size {
                return None;
            }
            message.extend(snap::raw::Decoder::new().decompress_vec(bytes).ok()?);
        }
        #[cfg(feature = "zlib")]
        Some(Compressor::Zlib) => read(flate2::read::ZlibDecoder::new(bytes), size, &mut message)?,
        #[cfg(feature = "zstd")]
        Some(Compressor::Zstd) => {
            read(zstd::Decoder::new(bytes).ok()?, size, &mut message)?;
        }
        Some(_) => return None,
    }
    (message.len() == inner.length).then_some((inner, message, id))
}

/// Appends what the decoder returns. Reads at most one byte more than `size`.
#[cfg(any(feature = "zlib", feature = "zstd"))]
fn read(decoder: impl Read, size: usize, out: &mut Vec<u8>) -> Option<()> {
    let limit = u64::try_from(size).ok()? + 1;
    decoder.take(limit).read_to_end(out).ok().map(drop)
}

/// Replaces the message at the end of `out`, which begins at `start`, by its compressed form.
pub(super) fn pack(out: &mut Vec<u8>, start: usize, id: u8) {
    let message = out.split_off(start);
    let Ok(header) = Header::decode(&message, usize::MAX) else {
        return;
    };
    let body = &message[HEADER_BYTES..];
    let compressed = match id {
        #[cfg(feature = "snappy")]
        1 => snap::raw::Encoder::new().compress_vec(body).ok(),
        #[cfg(feature = "zlib")]
        2 => deflate(body),
        #[cfg(feature = "zstd")]
        3 => zstd::encode_all(body, 1).ok(),
        NOOP => Some(body.to_vec()),
        _ => None,
    };
    let Some(compressed) = compressed else {
        return out.extend(message);
    };
    let outer = Header {
        length: START + compressed.len(),
        op_code: OpCode::Compressed,
        ..header
    };
    out.extend(outer.to_bytes());
    out.extend(header.op_code.code().to_le_bytes());
    out.extend(u32::try_from(body.len()).unwrap_or_default().to_le_bytes());
    out.push(id);
    out.extend(compressed);
}

#[cfg(feature = "zlib")]
fn deflate(body: &[u8]) -> Option<Vec<u8>> {
    let mut compressed = Vec::new();
    let mut encoder = flate2::read::ZlibEncoder::new(body, flate2::Compression::fast());
    encoder.read_to_end(&mut compressed).ok()?;
    Some(compressed)
}

impl Member {
    /// Negotiates the compressors of a hello (COMP-4). Returns the names for the reply, in the
    /// order of the client; `None` if there are none.
    pub(super) fn negotiate(&mut self, conn: ConnId, hello: &Document) -> Option<Vec<Bson>> {
        let announced = hello.get_array("compression").ok()?;
        let names = announced.iter().filter_map(Bson::as_str);
        let known: Vec<_> = names
            .filter_map(Compressor::from_name)
            .filter(|name| self.options.compression.compressors.contains(name))
            .collect();
        let names: Vec<_> = known.iter().map(|name| Bson::from(name.name())).collect();
        self.connection(conn)?.compressors = known;
        (!names.is_empty()).then_some(names)
    }

    /// Compresses the reply at the end of the connection's output, which begins at `start`. The
    /// request had the compressor with the number `requested`, if any.
    pub(super) fn pack_reply(&mut self, conn: ConnId, start: usize, requested: Option<u8>) {
        let Some(connection) = self.connections.get(&conn) else {
            return;
        };
        let length = connection.out.len() - start;
        let Some(id) = self.next_compressor(conn, requested, length) else {
            return;
        };
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        if is_long(id, length) && self.takes_turns && self.jobs.are_run() {
            let message = connection.out.split_off(start);
            self.set_apart(conn, Task::Pack(message, id));
        } else {
            pack(&mut connection.out, start, id);
        }
    }

    /// Returns the number of the compressor of the next reply, which has this size in bytes, and
    /// counts the reply. So each reply has its turn of the compressors, although a job compresses
    /// it later.
    pub(super) fn next_compressor(
        &mut self,
        conn: ConnId,
        requested: Option<u8>,
        length: usize,
    ) -> Option<u8> {
        let id = self.reply_compressor(conn, requested);
        let id = id.filter(|_| length >= self.options.compression.threshold);
        match id {
            Some(id) => self.compression_counts.replies[usize::from(id)] += 1,
            None => self.compression_counts.plain_replies += 1,
        }
        id
    }

    /// Returns the number of the compressor of a reply, if it is not too small.
    fn reply_compressor(&self, conn: ConnId, requested: Option<u8>) -> Option<u8> {
        let negotiated = &self.connections.get(&conn)?.compressors;
        match self.options.compression.replies {
            CompressedReplies::AsRequested => requested,
            CompressedReplies::InTurn if !negotiated.is_empty() => {
                let ids: Vec<u8> = negotiated.iter().map(|c| c.id()).chain([NOOP]).collect();
                let replies = self.compression_counts.replies.iter().sum::<u64>();
                let turn = usize::try_from(replies % ids.len() as u64).unwrap_or_default();
                Some(ids[turn])
            }
            CompressedReplies::InTurn | CompressedReplies::Never => None,
        }
    }

    /// Counts a request.
    pub(super) fn count_request(&mut self, compressor: Option<u8>, command: &str) {
        match compressor {
            Some(id) => self.compression_counts.requests[usize::from(id)] += 1,
            None => self.compression_counts.plain_requests += 1,
        }
        if compressor.is_some() && is_forbidden(command) {
            self.compression_counts.forbidden += 1;
        }
    }

    pub(crate) fn set_compressed_replies(&mut self, replies: CompressedReplies) {
        Arc::make_mut(&mut self.options).compression.replies = replies;
    }

    pub(crate) const fn compression_counts(&self) -> CompressionCounts {
        self.compression_counts
    }
}
