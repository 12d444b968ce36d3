//! Compression on one connection.

use super::{
    CompressionPlan, Workspace,
    codec::{NOOP, compress},
    unpacking::Unpacking,
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
    /// The size in bytes of the largest message that is decompressed.
    max_bytes: usize,
    /// The message that is being decompressed; `None` between messages. Its decoder is not in the
    /// workspace, because the workspace can be another one when the next slice is decompressed.
    unpacking: Option<Box<Unpacking>>,
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
            max_bytes: usize::MAX,
            unpacking: None,
            unpacked: Vec::new(),
        }
    }

    /// Sets the size in bytes of the largest message that is decompressed. Without a call, only the
    /// limit for all messages applies.
    pub(crate) fn set_max_bytes(&mut self, bytes: usize) {
        self.max_bytes = bytes;
    }

    /// Chooses the compressor of the requests from the field `compression` of the hello reply.
    /// Without a common one, no message is compressed from now on ([COMP-5], [COMP-21]).
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
        let max_bytes = max_bytes.min(self.max_bytes);
        let Some(head) = CompressedHead::decode(header, frame, max_bytes)? else {
            return Ok(None);
        };
        let is_known = head.compressor == NOOP || self.plan.announced(head.compressor).is_some();
        if !is_known || self.agreement == Agreement::Off {
            return Err(WireError::UnknownCompressor(head.compressor));
        }
        Ok(Some(head))
    }

    /// Decompresses a slice of a whole message, of which one at a time is decompressed. Returns
    /// true once the message is complete, which [`unpacked`](Self::unpacked) then returns. A slice
    /// takes about a millisecond at most.
    pub fn unpack(
        &mut self,
        header: &Header,
        head: &CompressedHead,
        frame: &[u8],
    ) -> Result<bool, WireError> {
        let bytes = frame
            .get(COMPRESSED_START..header.length)
            .ok_or(WireError::Truncated("a compressed message"))?;
        let mut unpacking = match self.unpacking.take() {
            Some(unpacking) => *unpacking,
            None => self.begin(header, head, bytes)?,
        };
        let is_complete = unpacking.advance(bytes).map_err(WireError::Decompression)?;
        if is_complete {
            self.unpacked = unpacking.finish(&mut self.workspace);
        } else {
            self.unpacking = Some(Box::new(unpacking));
        }
        Ok(is_complete)
    }

    fn begin(
        &mut self,
        header: &Header,
        head: &CompressedHead,
        bytes: &[u8],
    ) -> Result<Unpacking, WireError> {
        let inner = Header {
            length: HEADER_BYTES + head.uncompressed,
            op_code: head.original,
            ..*header
        };
        let compressor = self.plan.announced(head.compressor);
        let (start, size) = (inner.to_bytes(), head.uncompressed);
        Unpacking::begin(compressor, bytes, &start, size, &mut self.workspace)
            .map_err(WireError::Decompression)
    }

    /// True while a message was decompressed in part.
    #[must_use]
    pub const fn is_unpacking(&self) -> bool {
        self.unpacking.is_some()
    }

    /// Drops a message that was decompressed in part.
    pub(crate) fn stop_unpacking(&mut self) {
        self.unpacking = None;
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
