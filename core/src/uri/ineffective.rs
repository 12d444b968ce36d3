//! Warnings about options that have no effect or are unsafe.

use crate::options::{
    AuthMechanism, ClientOptions, Compressor, Monitoring, ServerMonitoringMode, TlsOptions, Warning,
};

/// Returns warnings about options that were set, in a connection string or in code, and have no
/// effect: compressors that are not [available](Compressor::is_available), a password without an
/// encrypted private key, CRLs if revocation is not checked, TLS options of a connection string
/// without `tls=true`, and streaming in a client that scans. With an option that cannot be ignored
/// without harm, such as the mechanism GSSAPI without a Kerberos library, the creation of a
/// [`ClientConfig`](crate::client::ClientConfig) fails instead.
///
/// ```
/// use onionskin_core::{options::{ClientOptions, Compressor}, uri};
///
/// let mut options = ClientOptions::default();
/// assert!(uri::ineffective_options(&options).is_empty());
/// options.compressors = Some(vec![Compressor::Zstd]);
/// let is_available = Compressor::Zstd.is_available();
/// assert_eq!(uri::ineffective_options(&options).is_empty(), is_available);
/// ```
#[must_use]
pub fn ineffective_options(options: &ClientOptions) -> Vec<Warning> {
    let is_scanning = options.monitoring == Monitoring::Scanning;
    let is_stream = options.server_monitoring_mode() == ServerMonitoringMode::Stream;
    // A compressor that is not available causes a warning and is not announced (COMP-8). Without
    // zlib, its level has no effect and needs no warning (COMP-9).
    let compressors = options.compressors().into_iter();
    let missing = compressors.filter(|compressor| !compressor.is_available());
    let mut found: Vec<_> = missing.map(|c| ("compressors", without(c), true)).collect();
    found.push((
        "serverMonitoringMode",
        "a client that scans its servers does not stream",
        is_scanning && is_stream,
    ));
    if let Some(tls) = options.tls() {
        found.extend([
            (
                "tlsCertificateKeyFilePassword",
                "no encrypted private key was given",
                tls.tls_certificate_key_file_password.is_some() && !may_be_encrypted(tls),
            ),
            (
                "tlsCRLFile",
                "other options disable the check of revocation",
                has_lists(tls) && disables_revocation(tls),
            ),
        ]);
    }
    let consequence = match options.tls() {
        None => "connections are not encrypted; add tls=true",
        Some(_) => "TLS options that were set in code replace it; set it there as well",
    };
    let unused = options.unused_tls.as_deref().into_iter().flat_map(given);
    found.extend(unused.map(|option| (option, consequence, true)));
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
    let mechanism = options
        .credential
        .as_ref()
        .and_then(|known| known.mechanism);
    let sends_secrets = matches!(
        mechanism,
        Some(AuthMechanism::Plain | AuthMechanism::MongoDbOidc)
    );
    let Some(mechanism) = mechanism.filter(|_| sends_secrets) else {
        return Vec::new();
    };
    let mechanism = mechanism.name();
    match options.tls() {
        None => vec![Warning::ClearText { mechanism }],
        Some(tls) if tls.checks_identity() => Vec::new(),
        Some(_) => vec![Warning::Unverified { mechanism }],
    }
}

/// True if the private key is encrypted, or was not loaded yet.
fn may_be_encrypted(tls: &TlsOptions) -> bool {
    let (file, pem) = if tls.private_key_file_path.is_some() || tls.private_key_pem.is_some() {
        (&tls.private_key_file_path, &tls.private_key_pem)
    } else {
        (&tls.cert_key_file_path, &tls.certificate_key_pem)
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
    tls.crl_file_path.is_some() || tls.crl_pem.is_some()
}

fn disables_revocation(tls: &TlsOptions) -> bool {
    let checks = [
        tls.insecure,
        tls.allow_invalid_certificates,
        tls.disable_certificate_revocation_check,
    ];
    checks.contains(&Some(true))
}

/// Returns the names of the TLS options that a connection string without `tls=true` has.
fn given(tls: &TlsOptions) -> impl Iterator<Item = &'static str> {
    let set = |check| check == Some(true);
    let options = [
        ("tlsCAFile", tls.ca_file_path.is_some()),
        ("tlsCRLFile", tls.crl_file_path.is_some()),
        ("tlsCertificateKeyFile", tls.cert_key_file_path.is_some()),
        (
            "tlsCertificateKeyFilePassword",
            tls.tls_certificate_key_file_password.is_some(),
        ),
        (
            "tlsAllowInvalidCertificates",
            set(tls.allow_invalid_certificates),
        ),
        ("tlsAllowInvalidHostnames", set(tls.allow_invalid_hostnames)),
        ("tlsInsecure", set(tls.insecure)),
        (
            "tlsDisableOCSPEndpointCheck",
            set(tls.disable_ocsp_endpoint_check),
        ),
        (
            "tlsDisableCertificateRevocationCheck",
            set(tls.disable_certificate_revocation_check),
        ),
    ];
    let given = options.into_iter().filter(|(_, is_given)| *is_given);
    given.map(|(option, _)| option)
}
