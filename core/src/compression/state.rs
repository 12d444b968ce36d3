//! Compression on one connection.

use super::{
    CompressionPlan, Workspace,
    codec::{NOOP, compress, decompress},
};
use crate::{
    options::Compressor,
    wire::{COMPRESSED_START, CompressedHead, HEADER_BYTES, Header, OpCode, WireError},
};
use std::{fmt, mem, sync::Arc};

/// The compressors that the peer may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// The hello was not answered yet. The reply may be compressed with each announced compressor
    /// ([COMP-6]).
    ///
    /// [COMP-6]: crate::requirements::compression#COMP-6
    Open,
    /// Requests use this compressor. Replies may use each announced one.
    On(Compressor),
    /// The peer has no common compressor, so that no message is compressed (COMP-21).
    Off,
}

/// Compression on one connection: compresses requests, and decompresses replies of any announced
/// compressor ([COMP-7]).
///
/// [COMP-7]: crate::requirements::compression#COMP-7
pub struct Compression {
    plan: Arc<CompressionPlan>,
    agreement: Agreement,
    workspace: Workspace,
    /// The message that was decompressed last, with a header; empty once it was consumed.
    unpacked: Vec<u8>,
}

/// Shows no content of messages, which may hold secrets.
impl fmt::Debug for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compression")
            .field("agreement", &self.agreement)
            .field("unpacked_bytes", &self.unpacked.len())
            .finish_non_exhaustive()
    }
}

impl Compression {
    /// Returns the state of a new connection.
    #[must_use]
    pub fn new(plan: Arc<CompressionPlan>) -> Self {
        Self {
            plan,
            agreement: Agreement::Open,
            workspace: Workspace::default(),
            unpacked: Vec::new(),
        }
    }

    /// Chooses the compressor of the requests from the field `compression` of the hello reply
    /// ([COMP-5]). Without a common one, no message is compressed from now on ([COMP-21]).
    ///
    /// [COMP-5]: crate::requirements::compression#COMP-5
    /// [COMP-21]: crate::requirements::compression#COMP-21
    pub fn negotiate(&mut self, server: &[String]) {
        let chosen = self.plan.choose(server);
        self.agreement = chosen.map_or(Agreement::Off, Agreement::On);
    }

    /// Returns the compressor of the requests; `None` if they are not compressed.
    #[must_use]
    pub const fn chosen(&self) -> Option<Compressor> {
        match self.agreement {
            Agreement::On(compressor) => Some(compressor),
            Agreement::Open | Agreement::Off => None,
        }
    }

    /// Appends the compressed form of a whole message to `out`. Appends the message itself if no
    /// compressor was chosen, if the message is empty, or if its compressed form would exceed
    /// `max_bytes`, the limit of the peer.
    pub fn pack(&mut self, message: &[u8], max_bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let Some(compressor) = self.chosen() else {
            return out.extend_from_slice(message);
        };
        let Ok(header) = Header::decode(message, usize::MAX) else {
            return out.extend_from_slice(message);
        };
        let body = &message[HEADER_BYTES..];
        let outer = Header {
            op_code: OpCode::Compressed,
            ..header
        };
        outer.encode(out);
        let head = CompressedHead {
            original: header.op_code,
            uncompressed: body.len(),
            compressor: compressor.id(),
        };
        head.encode(out);
        let level = self.plan.zlib_level;
        let result = compress(compressor, level, body, out, &mut self.workspace);
        let length = out.len() - start;
        match i32::try_from(length) {
            Ok(stated) if result.is_ok() && length <= max_bytes => {
                out[start..start + 4].copy_from_slice(&stated.to_le_bytes());
            }
            // A compressor can enlarge a message a little.
            _ => {
                out.truncate(start);
                out.extend_from_slice(message);
            }
        }
    }

    /// Returns the head of a compressed message, which may be incomplete; `None` until the head has
    /// arrived. Fails if the peer must not use this compressor, or if the message would be larger
    /// than `max_bytes` once it is decompressed.
    pub fn head(
        &self,
        header: &Header,
        frame: &[u8],
        max_bytes: usize,
    ) -> Result<Option<CompressedHead>, WireError> {
        let Some(head) = CompressedHead::decode(header, frame, max_bytes)? else {
            return Ok(None);
        };
        let is_known = head.compressor == NOOP || self.plan.announced(head.compressor).is_some();
        if !is_known || self.agreement == Agreement::Off {
            return Err(WireError::UnknownCompressor(head.compressor));
        }
        Ok(Some(head))
    }

    /// Decompresses a whole message, which [`unpacked`](Self::unpacked) then returns.
    pub fn unpack(
        &mut self,
        header: &Header,
        head: &CompressedHead,
        frame: &[u8],
    ) -> Result<(), WireError> {
        let bytes = frame
            .get(COMPRESSED_START..header.length)
            .ok_or(WireError::Truncated("a compressed message"))?;
        let inner = Header {
            length: HEADER_BYTES + head.uncompressed,
            op_code: head.original,
            ..*header
        };
        // The allocator gives zeroed memory, which the system provides only as it is written. So a
        // message that states a large size, and does not have it, costs little.
        let mut message = vec![0; inner.length];
        let (start, body) = message.split_at_mut(HEADER_BYTES);
        start.copy_from_slice(&inner.to_bytes());
        let compressor = self.plan.announced(head.compressor);
        decompress(compressor, bytes, body, &mut self.workspace)
            .map_err(WireError::Decompression)?;
        self.unpacked = message;
        Ok(())
    }

    /// Returns the message that was decompressed last and not consumed.
    #[must_use]
    pub fn unpacked(&self) -> Option<&[u8]> {
        (!self.unpacked.is_empty()).then_some(&*self.unpacked)
    }

    /// Takes the message that was decompressed last and not consumed; `None` if there is none.
    pub fn take_unpacked(&mut self) -> Option<Vec<u8>> {
        self.unpacked()
            .is_some()
            .then(|| mem::take(&mut self.unpacked))
    }

    /// Exchanges the workspace of the connection with another one.
    pub const fn swap_workspace(&mut self, other: &mut Workspace) {
        mem::swap(&mut self.workspace, other);
    }

    /// Frees the workspace.
    pub fn free_workspace(&mut self) {
        self.workspace = Workspace::default();
    }

    /// Takes the buffer for a message that is packed next. The buffer is empty.
    pub(crate) fn take_message(&mut self) -> Vec<u8> {
        self.workspace.take_message()
    }

    /// Gives back the buffer of a message.
    pub(crate) fn keep_message(&mut self, buffer: Vec<u8>) {
        self.workspace.keep_message(buffer);
    }
}
