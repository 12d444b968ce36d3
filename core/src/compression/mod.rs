//! Compression of messages (specification "Wire Compression").
//!
//! [`Compression`] is the state of one connection: which compressor its handshake chose, and the
//! message that was decompressed last. [`Workspace`] holds the memory that compressors need while
//! they run. An idle connection has no workspace. `Unpacking` decompresses a message in slices, so
//! that a message of a peer delays nothing else for long.
//!
//! Each compressor is a Cargo feature of its name. Snappy messages are raw blocks, zlib messages
//! are streams of RFC 1950, and zstd messages are frames of RFC 8878 (COMP-31).

mod codec;
mod plan;
#[cfg(feature = "snappy")]
mod snappy;
mod state;
#[cfg(test)]
mod tests;
mod unpacking;
mod workspace;
#[cfg(feature = "zlib")]
mod zlib;
#[cfg(feature = "zstd")]
mod zstd;

pub use codec::is_compressible;
pub use plan::CompressionPlan;
pub use state::Compression;
pub use workspace::Workspace;
