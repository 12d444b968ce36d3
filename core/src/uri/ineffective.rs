//! Warnings about options that have no effect.

use crate::options::{ClientOptions, Compressor, Monitoring, MonitoringMode, TlsOptions, Warning};

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
