//! The memory that compressors use.

use std::fmt;

/// The capacity in bytes to which the buffer for messages is reduced after use.
const MAX_KEPT_BYTES: usize = 64 * 1024;

/// The memory that compressors need while they run: up to a few megabytes with zstd.
///
/// A shell can lend one workspace to many exchanges, one after the other
/// ([`Exchange::swap_workspace`](crate::operation::Exchange::swap_workspace)), for example one for
/// each thread. Without a workspace that is lent, an exchange allocates the memory itself and frees
/// it when it ends. The content of a workspace has no influence on the bytes that are sent.
#[derive(Default)]
pub struct Workspace {
    message: Vec<u8>,
    #[cfg(feature = "snappy")]
    pub(super) snappy: super::snappy::Contexts,
    #[cfg(feature = "zlib")]
    pub(super) zlib: super::zlib::Contexts,
    #[cfg(feature = "zstd")]
    pub(super) zstd: super::zstd::Contexts,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").finish_non_exhaustive()
    }
}

impl Workspace {
    /// Takes the buffer for a message, which is empty.
    pub(super) fn take_message(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.message)
    }

    /// Gives a buffer back.
    pub(super) fn keep_message(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(MAX_KEPT_BYTES);
        self.message = buffer;
    }
}
