//! Options and reports of a deployment that concern the compression of messages.

use super::Deployment;
use crate::server;
use onionskin_core::{
    options::Compressor,
    unstable::wire::{Header, MAX_MESSAGE_BYTES, OpCode},
};
use std::borrow::Cow;

/// The compressors of the servers, and how they compress replies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressionOptions {
    /// The compressors that the servers accept. Default: all whose Cargo feature is enabled.
    pub compressors: Vec<Compressor>,
    /// The replies that are compressed. Default: those to compressed requests, as in the server.
    pub replies: CompressedReplies,
    /// The size of the smallest reply that is compressed, in bytes and with its header. Default: 0.
    pub threshold: usize,
}

impl Default for CompressionOptions {
    fn default() -> Self {
        Self {
            compressors: COMPILED.to_vec(),
            replies: CompressedReplies::AsRequested,
            threshold: 0,
        }
    }
}

/// The compressors whose Cargo feature, which has the name of the compressor, is enabled.
const COMPILED: &[Compressor] = &[
    #[cfg(feature = "snappy")]
    Compressor::Snappy,
    #[cfg(feature = "zlib")]
    Compressor::Zlib,
    #[cfg(feature = "zstd")]
    Compressor::Zstd,
];

/// True if the Cargo feature of the compressor is enabled.
pub(super) fn is_compiled(compressor: &Compressor) -> bool {
    COMPILED.contains(compressor)
}

/// The replies that a server compresses, on connections that have negotiated a compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressedReplies {
    /// The replies to compressed requests, by the compressor of the request. The server does this.
    AsRequested,
    /// All replies, also those to hellos. The negotiated compressors and the number 0, which
    /// changes nothing, take turns. Clients have to accept this (COMP-6, COMP-15).
    InTurn,
    /// None. Clients have to accept this (COMP-7).
    Never,
}

/// The numbers of messages that clients and servers have exchanged, since the start of the
/// deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressionCounts {
    /// The number of requests that were not compressed.
    pub plain_requests: u64,
    /// The number of compressed requests, by the number of their compressor.
    pub requests: [u64; 4],
    /// The number of replies that were not compressed.
    pub plain_replies: u64,
    /// The number of compressed replies, by the number of their compressor.
    pub replies: [u64; 4],
    /// The number of compressed requests with a command that is never compressed (COMP-18).
    pub forbidden: u64,
}

impl CompressionCounts {
    /// Returns the number of requests with this compressor.
    #[must_use]
    pub const fn requests_by(&self, compressor: Compressor) -> u64 {
        self.requests[compressor.id() as usize]
    }

    /// Returns the number of replies with this compressor.
    #[must_use]
    pub const fn replies_by(&self, compressor: Compressor) -> u64 {
        self.replies[compressor.id() as usize]
    }

    fn add(&mut self, other: Self) {
        self.plain_requests += other.plain_requests;
        self.plain_replies += other.plain_replies;
        self.forbidden += other.forbidden;
        for id in 0..4 {
            self.requests[id] += other.requests[id];
            self.replies[id] += other.replies[id];
        }
    }
}

/// Returns a message as it was before its sender compressed it. `None` if the bytes are no message,
/// or cannot be decompressed with the compressors whose Cargo feature is enabled.
#[must_use]
pub fn plain_message(message: &[u8]) -> Option<Cow<'_, [u8]>> {
    let header = Header::decode(message, MAX_MESSAGE_BYTES).ok()?;
    if header.length != message.len() {
        return None;
    }
    if header.op_code != OpCode::Compressed {
        return Some(message.into());
    }
    server::unpack(&header, message, COMPILED, MAX_MESSAGE_BYTES).map(|(_, plain, _)| plain.into())
}

impl Deployment {
    /// Sets which replies are compressed from now on.
    pub fn set_compressed_replies(&mut self, replies: CompressedReplies) {
        for member in &mut self.members {
            member.set_compressed_replies(replies);
        }
    }

    /// Returns the numbers of messages of all members.
    #[must_use]
    pub fn compression_counts(&self) -> CompressionCounts {
        let mut sum = CompressionCounts::default();
        for member in &self.members {
            sum.add(member.compression_counts());
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::DeploymentOptions;
    use onionskin_core::address::Address;

    #[test]
    fn a_message_is_shown_as_it_was_before_its_compression() {
        let message = |op_code: i32, content: &[u8]| {
            let length = i32::try_from(16 + content.len()).expect("short");
            let header = [length, 7, 0, op_code].map(i32::to_le_bytes).concat();
            [&header[..], content].concat()
        };
        let plain = message(2013, b"content");
        assert_eq!(plain_message(&plain).as_deref(), Some(&plain[..]));
        // The compressor 0 changes nothing.
        let head = [2013, 7].map(i32::to_le_bytes).concat();
        let packed = message(2012, &[&head[..], &[0], b"content"].concat());
        if !COMPILED.is_empty() {
            assert_eq!(plain_message(&packed).as_deref(), Some(&plain[..]));
        }
        assert_eq!(plain_message(&packed[..packed.len() - 1]), None);
        assert_eq!(plain_message(&message(2012, b"content")), None);
        let unknown = [&head[..], &[9], b"content"].concat();
        assert_eq!(plain_message(&message(2012, &unknown)), None);
        assert_eq!(plain_message(b"short"), None);
    }

    #[test]
    fn options_accept_only_compressors_whose_feature_is_enabled() {
        let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
        options.check().expect("the default is valid");
        for compressor in Compressor::ALL {
            options.compression.compressors = vec![compressor];
            let is_valid = options.check().is_ok();
            assert_eq!(is_valid, is_compiled(&compressor), "{compressor:?}");
        }
    }
}
