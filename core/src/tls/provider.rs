//! The cryptography provider of a client.

use super::configuration;
use crate::{error::Result, options::Cryptography};
use rustls::crypto::CryptoProvider;

/// Returns the provider that the options choose.
pub(super) fn provider(choice: Cryptography) -> Result<CryptoProvider> {
    let (found, feature) = match choice {
        Cryptography::Any => {
            let found = ring().or_else(aws_lc_rs);
            return found.ok_or_else(|| {
                configuration(
                    "no cryptography provider is enabled; enable the Cargo feature ring or \
                     aws-lc-rs, or set TlsOptions::config",
                )
            });
        }
        Cryptography::Ring => (ring(), "ring"),
        Cryptography::AwsLcRs => (aws_lc_rs(), "aws-lc-rs"),
    };
    found.ok_or_else(|| {
        configuration(format!(
            "TlsOptions::cryptography needs the Cargo feature {feature}"
        ))
    })
}

fn ring() -> Option<CryptoProvider> {
    #[cfg(feature = "ring")]
    let provider = Some(rustls::crypto::ring::default_provider());
    #[cfg(not(feature = "ring"))]
    let provider = None;
    provider
}

fn aws_lc_rs() -> Option<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    let provider = Some(rustls::crypto::aws_lc_rs::default_provider());
    #[cfg(not(feature = "aws-lc-rs"))]
    let provider = None;
    provider
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_enabled_is_refused_by_name() {
        assert!(provider(Cryptography::Any).is_ok());
        assert!(provider(Cryptography::Ring).is_ok());
        let other = provider(Cryptography::AwsLcRs);
        if cfg!(feature = "aws-lc-rs") {
            return assert!(other.is_ok());
        }
        let error = other.expect_err("it is not enabled").to_string();
        assert!(error.contains("Cargo feature aws-lc-rs"), "{error}");
    }
}
