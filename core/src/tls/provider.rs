//! The cryptography provider of a build.

#[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
use super::configuration;
use crate::error::Result;
use rustls::crypto::CryptoProvider;

/// Returns the provider of the Cargo features: `aws-lc-rs` if it is enabled, or else `ring`.
#[cfg(feature = "aws-lc-rs")]
pub(super) fn provider() -> Result<CryptoProvider> {
    Ok(rustls::crypto::aws_lc_rs::default_provider())
}

/// Returns the provider of the Cargo features: `aws-lc-rs` if it is enabled, or else `ring`.
#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
pub(super) fn provider() -> Result<CryptoProvider> {
    Ok(rustls::crypto::ring::default_provider())
}

/// Returns an error, because no provider is enabled.
#[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
pub(super) fn provider() -> Result<CryptoProvider> {
    Err(configuration(
        "no cryptography provider is enabled; enable the Cargo feature ring or aws-lc-rs, or set \
         TlsOptions::config",
    ))
}
