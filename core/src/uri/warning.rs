//! What was not as it should be, but did no harm.

use crate::options::{ClientOptions, Compressor, Monitoring, MonitoringMode, TlsOptions};
use std::fmt;

/// Something in a connection string, or among a client's options, that was ignored or should be
/// changed. The text of a warning names options, never their values.
///
/// ```
/// let parsed = onionskin_core::uri::parse("mongodb://localhost/?maxPoolSize=lots")?;
/// assert_eq!(
///     parsed.warnings[0].to_string(),
///     "option maxPoolSize is ignored: it takes a whole number"
/// );
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// No option has this name; it was ignored (CS-23).
    Unknown {
        /// The key as it was written.
        key: String,
    },
    /// The option's value cannot be used; it was ignored, in whole or in part (CS-32).
    Ignored {
        /// The option.
        option: &'static str,
        /// What values it takes.
        reason: String,
    },
    /// The option was given several times; the last one counts (CS-33).
    Repeated {
        /// The option.
        option: &'static str,
    },
    /// The option has a newer name (CS-34). If that is there too, the old one was ignored (CS-35).
    Renamed {
        /// The old name.
        option: &'static str,
        /// The new name.
        instead: &'static str,
    },
    /// A boolean was not written `true` or `false` but in an older way (CS-28).
    LegacyBoolean {
        /// The option.
        option: &'static str,
        /// How to write it.
        value: bool,
    },
    /// The option is understood, but this version does not act on it.
    WithoutEffect {
        /// The option, by its name in connection strings.
        option: &'static str,
        /// What happens instead.
        consequence: &'static str,
    },
}

/// The options that were chosen for a client and that change nothing in this version, however they
/// were set. What could not be left out without harm, such as a proxy or a mechanism of
/// authentication, is an error of [`ClientConfig`](crate::client::ClientConfig) instead.
///
/// ```
/// use onionskin_core::{options::{ClientOptions, Compressor}, uri};
///
/// let mut options = ClientOptions::default();
/// assert!(uri::without_effect(&options).is_empty());
/// options.set_compressors(vec![Compressor::Zstd]);
/// assert_eq!(
///     uri::without_effect(&options)[0].to_string(),
///     "option compressors has no effect: messages are sent uncompressed"
/// );
/// ```
#[must_use]
pub fn without_effect(options: &ClientOptions) -> Vec<Warning> {
    const UNCOMPRESSED: &str = "messages are sent uncompressed";
    const UNREVOKED: &str = "revocation of certificates is not checked in any case";
    const UNENCRYPTED: &str = "connections are not encrypted; add tls=true";
    let is_scanning = options.monitoring() == Monitoring::Scanning;
    let is_stream = options.monitoring_mode() == MonitoringMode::Stream;
    let mut found = vec![
        // COMP-8: what is not there is warned of, and is not announced.
        (
            "compressors",
            UNCOMPRESSED,
            !options.compressors().is_empty(),
        ),
        // COMP-9: without zlib it would change nothing either, and that is no reason to warn.
        (
            "zlibCompressionLevel",
            UNCOMPRESSED,
            options.zlib_compression_level() != -1
                && options.compressors().contains(&Compressor::Zlib),
        ),
        (
            "serverMonitoringMode",
            "a client that scans its servers does not stream",
            is_scanning && is_stream,
        ),
    ];
    let tls = options.tls();
    found.extend([
        (
            "tlsCertificateKeyFilePassword",
            "private keys that are encrypted cannot be read; give one that is not",
            tls.certificate_key_password.is_some(),
        ),
        (
            "tlsDisableOCSPEndpointCheck",
            UNREVOKED,
            tls.disable_ocsp_endpoint_check,
        ),
        (
            "tlsDisableCertificateRevocationCheck",
            UNREVOKED,
            tls.disable_certificate_revocation_check,
        ),
    ]);
    if !tls.enabled {
        let chosen = chosen_tls(tls);
        found.extend(chosen.map(|(option, is_chosen)| (option, UNENCRYPTED, is_chosen)));
    }
    found.retain(|(_, _, is_chosen)| *is_chosen);
    let warning = |(option, consequence, _)| Warning::WithoutEffect {
        option,
        consequence,
    };
    found.into_iter().map(warning).collect()
}

/// The options that say how to encrypt, and whether they were given.
fn chosen_tls(tls: &TlsOptions) -> [(&'static str, bool); 5] {
    let has_key = tls.certificate_key_file.is_some() || tls.certificate_key_pem.is_some();
    [
        ("tlsCAFile", tls.ca_file.is_some() || tls.ca_pem.is_some()),
        ("tlsCertificateKeyFile", has_key),
        (
            "tlsAllowInvalidCertificates",
            tls.allow_invalid_certificates,
        ),
        ("tlsAllowInvalidHostnames", tls.allow_invalid_hostnames),
        ("tlsInsecure", tls.insecure),
    ]
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key } => write!(f, "option {key:?} is not known and was ignored"),
            Self::Ignored { option, reason } => write!(f, "option {option} is ignored: {reason}"),
            Self::Repeated { option } => {
                write!(
                    f,
                    "option {option} is given several times; the last one counts"
                )
            }
            Self::Renamed { option, instead } => {
                write!(f, "option {option} is now called {instead}; use that alone")
            }
            Self::LegacyBoolean { option, value } => {
                write!(
                    f,
                    "option {option} is deprecated in this spelling; write {option}={value}"
                )
            }
            Self::WithoutEffect {
                option,
                consequence,
            } => write!(f, "option {option} has no effect: {consequence}"),
        }
    }
}
