//! The choice of the algorithm, and of the commands that are compressed.

use super::Workspace;
use crate::options::Compressor;

/// The number of the compressor that changes nothing (COMP-15).
pub(super) const NOOP: u8 = 0;

/// The commands that are never compressed, in lower case (COMP-18).
const NEVER: [&str; 11] = [
    "hello",
    "ismaster",
    "saslstart",
    "saslcontinue",
    "getnonce",
    "authenticate",
    "createuser",
    "updateuser",
    "copydbsaslstart",
    "copydbgetnonce",
    "copydb",
];

/// True if requests with this command may be compressed. Commands that can carry secrets, and
/// hellos, are never compressed ([COMP-18]).
///
/// [COMP-18]: crate::requirements::compression#COMP-18
#[must_use]
pub fn is_compressible(command: &str) -> bool {
    !NEVER.iter().any(|name| name.eq_ignore_ascii_case(command))
}

/// The fault of the input of a compressor.
pub(super) type Fault = &'static str;

/// The result of a compressor.
pub(super) type Outcome = Result<(), Fault>;

/// Appends the compressed form of `bytes` to `out`. `zlib_level` is for zlib only.
#[cfg_attr(
    not(all(feature = "snappy", feature = "zlib", feature = "zstd")),
    allow(
        unused_variables,
        clippy::ptr_arg,
        reason = "for compressors that are not enabled"
    )
)]
pub(super) fn compress(
    compressor: Compressor,
    zlib_level: i32,
    bytes: &[u8],
    out: &mut Vec<u8>,
    workspace: &mut Workspace,
) -> Outcome {
    match compressor {
        #[cfg(feature = "snappy")]
        Compressor::Snappy => workspace.snappy.compress(bytes, out),
        #[cfg(feature = "zlib")]
        Compressor::Zlib => workspace.zlib.compress(zlib_level, bytes, out),
        #[cfg(feature = "zstd")]
        Compressor::Zstd => workspace.zstd.compress(bytes, out),
        #[allow(unreachable_patterns, reason = "each compressor is a feature")]
        _ => Err("its compressor is not available"),
    }
}

/// The fault of a message that has another size than it states.
pub(super) const WRONG_SIZE: Fault = "its size is not the stated one";
