//! Warnings about options that have no effect or are unsafe.

use crate::options::{
    ClientOptions, Compressor, Cryptography, Mechanism, Monitoring, MonitoringMode, TlsOptions,
    Warning,
};

/// Returns warnings about options that were set, in a connection string or in code, and have no
/// effect: compressors that are not [available](Compressor::is_available), a password without an
/// encrypted private key, CRLs if revocation is not checked, TLS options without `tls=true`, and
/// streaming in a client that scans. With an option that cannot be ignored
/// without harm, such as the mechanism GSSAPI without a Kerberos library, the creation of a
/// [`ClientConfig`](crate::client::ClientConfig) fails instead.
///
/// ```
/// use onionskin_core::{options::{ClientOptions, Compressor}, uri};
///
/// let mut options = ClientOptions::default();
/// assert!(uri::ineffective_options(&options).is_empty());
/// options.set_compressors(vec![Compressor::Zstd]);
/// let is_available = Compressor::Zstd.is_available();
/// assert_eq!(uri::ineffective_options(&options).is_empty(), is_available);
/// ```
#[must_use]
pub fn ineffective_options(options: &ClientOptions) -> Vec<Warning> {
    const UNREVOKED: &str = "other options disable the check of revocation";
    const UNENCRYPTED: &str = "connections are not encrypted; add tls=true";
    let is_scanning = options.monitoring() == Monitoring::Scanning;
    let is_stream = options.monitoring_mode() == MonitoringMode::Stream;
    // A compressor that is not available causes a warning and is not announced (COMP-8). Without
    // zlib, its level has no effect and needs no warning (COMP-9).
    let compressors = options.compressors().iter();
    let missing = compressors.filter(|compressor| !compressor.is_available());
    let mut found: Vec<_> = missing
        .map(|c| ("compressors", without(*c), true))
        .collect();
    found.push((
        "serverMonitoringMode",
        "a client that scans its servers does not stream",
        is_scanning && is_stream,
    ));
    let tls = options.tls();
    found.extend([
        (
            "tlsCertificateKeyFilePassword",
            "no encrypted private key was given",
            tls.certificate_key_password.is_some() && !may_be_encrypted(tls),
        ),
        (
            "tlsCRLFile",
            UNREVOKED,
            tls.enabled && has_lists(tls) && disables_revocation(tls),
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

/// Returns warnings about options that put a secret at risk: a mechanism that sends a password or a
/// token as it is (`PLAIN`, `MONGODB-OIDC`), without `tls=true`, or with an option that disables
/// the check of the server's identity, such as `tlsInsecure`.
///
/// ```
/// use onionskin_core::uri;
///
/// let parsed = uri::parse("mongodb://me:pencil@localhost/?authMechanism=PLAIN")?;
/// let warnings = uri::unsafe_options(&parsed.options);
/// assert!(warnings[0].to_string().starts_with("PLAIN sends its secret in clear text"));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[must_use]
pub fn unsafe_options(options: &ClientOptions) -> Vec<Warning> {
    let mechanism = options.credential().and_then(|known| known.mechanism);
    let sends_secrets = matches!(mechanism, Some(Mechanism::Plain | Mechanism::MongoDbOidc));
    let tls = options.tls();
    let Some(mechanism) = mechanism.filter(|_| sends_secrets) else {
        return Vec::new();
    };
    let mechanism = mechanism.name();
    match (tls.enabled, tls.checks_identity()) {
        (false, _) => vec![Warning::ClearText { mechanism }],
        (true, false) => vec![Warning::Unverified { mechanism }],
        (true, true) => Vec::new(),
    }
}

/// True if the private key is encrypted, or was not loaded yet.
fn may_be_encrypted(tls: &TlsOptions) -> bool {
    let (file, pem) = if tls.private_key_file.is_some() || tls.private_key_pem.is_some() {
        (&tls.private_key_file, &tls.private_key_pem)
    } else {
        (&tls.certificate_key_file, &tls.certificate_key_pem)
    };
    match pem {
        Some(pem) => pem.expose().contains("ENCRYPTED"),
        None => file.is_some(),
    }
}

/// Returns the warning about a compressor that is not available.
const fn without(compressor: Compressor) -> &'static str {
    match compressor {
        Compressor::Snappy => "snappy is not announced; enable the Cargo feature snappy",
        Compressor::Zlib => "zlib is not announced; enable the Cargo feature zlib",
        Compressor::Zstd => "zstd is not announced; enable the Cargo feature zstd",
    }
}

fn has_lists(tls: &TlsOptions) -> bool {
    tls.crl_file.is_some() || tls.crl_pem.is_some()
}

fn disables_revocation(tls: &TlsOptions) -> bool {
    tls.insecure || tls.allow_invalid_certificates || tls.disable_certificate_revocation_check
}

/// Returns the TLS options that need `tls=true`, each with whether it is set.
fn chosen_tls(tls: &TlsOptions) -> [(&'static str, bool); 10] {
    let has_key = tls.certificate_key_file.is_some() || tls.certificate_key_pem.is_some();
    [
        ("tlsCAFile", tls.ca_file.is_some() || tls.ca_pem.is_some()),
        ("tlsCRLFile", has_lists(tls)),
        ("tlsCertificateKeyFile", has_key),
        (
            "tlsAllowInvalidCertificates",
            tls.allow_invalid_certificates,
        ),
        ("tlsAllowInvalidHostnames", tls.allow_invalid_hostnames),
        ("tlsInsecure", tls.insecure),
        (
            "tlsDisableOCSPEndpointCheck",
            tls.disable_ocsp_endpoint_check,
        ),
        (
            "tlsDisableCertificateRevocationCheck",
            tls.disable_certificate_revocation_check,
        ),
        (
            "TlsOptions::cryptography",
            tls.cryptography != Cryptography::default(),
        ),
        ("TlsOptions::config", tls.has_config()),
    ]
}
