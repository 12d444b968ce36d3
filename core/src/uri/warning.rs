//! Warnings about options that were ignored or have no effect.

use crate::options::{ClientOptions, Compressor, Monitoring, MonitoringMode, TlsOptions};
use std::fmt;

/// A warning about an option in a connection string or in the options of a client, which was
/// ignored or should be changed. The text of a warning never shows the value of an option, except
/// that of a boolean.
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
    /// The option is unknown and was ignored ([CS-23]).
    ///
    /// [CS-23]: crate::requirements::connection_strings#CS-23
    Unknown {
        /// The key, as the string gives it.
        key: String,
    },
    /// The value is unusable, and all or a part of it was ignored ([CS-32]).
    ///
    /// [CS-32]: crate::requirements::connection_strings#CS-32
    Ignored {
        /// The name of the option.
        option: &'static str,
        /// The reason, which states what the option accepts.
        reason: String,
    },
    /// The option occurs several times. The last value with a valid percent-encoding counts, unless
    /// another warning says that the option was ignored ([CS-33]).
    ///
    /// [CS-33]: crate::requirements::connection_strings#CS-33
    Repeated {
        /// The name of the option.
        option: &'static str,
    },
    /// The option has a newer name ([CS-34]). If the newer name occurs too, the older one was
    /// ignored ([CS-35]).
    ///
    /// [CS-34]: crate::requirements::connection_strings#CS-34
    /// [CS-35]: crate::requirements::connection_strings#CS-35
    Renamed {
        /// The old name.
        option: &'static str,
        /// The new name.
        instead: &'static str,
    },
    /// The boolean was written in an older spelling, such as `yes` ([CS-28]).
    ///
    /// [CS-28]: crate::requirements::connection_strings#CS-28
    LegacyBoolean {
        /// The name of the option.
        option: &'static str,
        /// The value, to be written as `true` or `false`.
        value: bool,
    },
    /// The option is known, but has no effect in this version or with the other options.
    WithoutEffect {
        /// The name of the option in connection strings.
        option: &'static str,
        /// The reason, or what the client does instead.
        consequence: &'static str,
    },
}

/// Returns warnings about options that were set, in a connection string or in code, and have no
/// effect: compression, the password of an encrypted private key, revocation checks, TLS options
/// without `tls=true`, and streaming in a client that scans. With an option that cannot be ignored
/// without harm, such as a proxy, the creation of a
/// [`ClientConfig`](crate::client::ClientConfig) fails instead.
///
/// ```
/// use onionskin_core::{options::{ClientOptions, Compressor}, uri};
///
/// let mut options = ClientOptions::default();
/// assert!(uri::ineffective_options(&options).is_empty());
/// options.set_compressors(vec![Compressor::Zstd]);
/// assert_eq!(
///     uri::ineffective_options(&options)[0].to_string(),
///     "option compressors has no effect: messages are sent uncompressed"
/// );
/// ```
#[must_use]
pub fn ineffective_options(options: &ClientOptions) -> Vec<Warning> {
    const UNCOMPRESSED: &str = "messages are sent uncompressed";
    const UNREVOKED: &str = "revocation of certificates is not checked in any case";
    const UNENCRYPTED: &str = "connections are not encrypted; add tls=true";
    let is_scanning = options.monitoring() == Monitoring::Scanning;
    let is_stream = options.monitoring_mode() == MonitoringMode::Stream;
    let mut found = vec![
        // This version has no compressors. A compressor that is not available causes a warning and
        // is not announced (COMP-8).
        (
            "compressors",
            UNCOMPRESSED,
            !options.compressors().is_empty(),
        ),
        // Without zlib among the compressors, the level has no effect in any version, and needs no
        // warning (COMP-9).
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

/// Returns the TLS options that need `tls=true`, each with whether it is set.
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
