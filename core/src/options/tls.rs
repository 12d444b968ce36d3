//! How connections are encrypted.

use super::Secret;

/// TLS options. All but `enabled` say how connections are encrypted once `enabled` is on; without
/// it they are without effect, and a client that has any has a
/// [warning](crate::uri::without_effect).
///
/// Certificates are named by path; who drives the core reads the files and puts their bytes beside
/// the paths before the client is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// `tls` (or `ssl`): encrypt. Default: off, on with `mongodb+srv`.
    pub enabled: bool,
    /// `tlsCAFile`: PEM file of the authorities to trust instead of the built-in Mozilla list.
    pub ca_file: Option<String>,
    /// The bytes of [`ca_file`](Self::ca_file).
    pub ca_pem: Option<Vec<u8>>,
    /// `tlsCertificateKeyFile`: PEM file of the client's certificate chain and private key.
    pub certificate_key_file: Option<String>,
    /// The bytes of [`certificate_key_file`](Self::certificate_key_file).
    pub certificate_key_pem: Option<Secret>,
    /// `tlsCertificateKeyFilePassword`. Without effect in this version, which refuses private keys
    /// that are encrypted.
    pub certificate_key_password: Option<Secret>,
    /// `tlsAllowInvalidCertificates`: accept any certificate. Default: off.
    pub allow_invalid_certificates: bool,
    /// `tlsAllowInvalidHostnames`: accept a certificate of another host. Default: off.
    pub allow_invalid_hostnames: bool,
    /// `tlsInsecure`: both of the above. Default: off.
    pub insecure: bool,
    /// `tlsDisableOCSPEndpointCheck`. Default: off. This version asks no OCSP endpoint in any case.
    pub disable_ocsp_endpoint_check: bool,
    /// `tlsDisableCertificateRevocationCheck`. Default: off. This version does not check whether
    /// certificates were revoked in any case.
    pub disable_certificate_revocation_check: bool,
}

/// Pairs of options of which only one may be given (URI-5 to URI-11): each of the first relaxes, or
/// keeps, what the second would decide too.
pub(crate) const CONFLICTS: [(&str, &str); 7] = [
    ("tlsInsecure", "tlsAllowInvalidCertificates"),
    ("tlsInsecure", "tlsAllowInvalidHostnames"),
    ("tlsInsecure", "tlsDisableOCSPEndpointCheck"),
    ("tlsInsecure", "tlsDisableCertificateRevocationCheck"),
    ("tlsAllowInvalidCertificates", "tlsDisableOCSPEndpointCheck"),
    (
        "tlsAllowInvalidCertificates",
        "tlsDisableCertificateRevocationCheck",
    ),
    (
        "tlsDisableOCSPEndpointCheck",
        "tlsDisableCertificateRevocationCheck",
    ),
];
