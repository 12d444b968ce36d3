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

/// True if requests with this command may be compressed ([COMP-18]). Commands that can carry
/// secrets, and hellos, are never compressed.
///
/// [COMP-18]: crate::requirements::compression#COMP-18
#[must_use]
pub fn is_compressible(command: &str) -> bool {
    !NEVER.iter().any(|name| name.eq_ignore_ascii_case(command))
}

/// The result of a compressor. The text names the fault of the input.
pub(super) type Outcome = Result<(), &'static str>;

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

/// Decompresses `bytes` into `out`, which they must fill. `None` stands for bytes that are not
/// compressed.
#[cfg_attr(
    not(all(feature = "snappy", feature = "zlib", feature = "zstd")),
    allow(
        unused_variables,
        clippy::ptr_arg,
        reason = "for compressors that are not enabled"
    )
)]
pub(super) fn decompress(
    compressor: Option<Compressor>,
    bytes: &[u8],
    out: &mut [u8],
    workspace: &mut Workspace,
) -> Outcome {
    match compressor {
        None if bytes.len() == out.len() => {
            out.copy_from_slice(bytes);
            Ok(())
        }
        None => Err(WRONG_SIZE),
        #[cfg(feature = "snappy")]
        Some(Compressor::Snappy) => super::snappy::decompress(bytes, out),
        #[cfg(feature = "zlib")]
        Some(Compressor::Zlib) => workspace.zlib.decompress(bytes, out),
        #[cfg(feature = "zstd")]
        Some(Compressor::Zstd) => workspace.zstd.decompress(bytes, out),
        #[allow(unreachable_patterns, reason = "each compressor is a feature")]
        Some(_) => Err("its compressor is not available"),
    }
}

/// The fault of a message that has another size than it states.
pub(super) const WRONG_SIZE: &str = "its size is not the stated one";
