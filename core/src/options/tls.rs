//! Options of TLS.

use super::Secret;
use std::{fmt, sync::Arc};

/// The TLS options of a client. Without `enabled` the other options have no effect, and a client
/// that sets one gets a [warning](crate::uri::ineffective_options).
///
/// Certificates are named by path. The shell reads the files before it creates the client, and
/// stores their content in the `*_pem` fields beside the paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// True if connections use TLS (`tls`, or `ssl`). Default: false; true with `mongodb+srv`.
    pub enabled: bool,
    /// The path of a PEM file of certificate authorities to trust (`tlsCAFile`). Default: none,
    /// which trusts the built-in Mozilla list and [`system_roots`](Self::system_roots).
    pub ca_file: Option<String>,
    /// The content of [`ca_file`](Self::ca_file).
    pub ca_pem: Option<Vec<u8>>,
    /// The certificate authorities that the operating system trusts. They are trusted as well if
    /// [`ca_file`](Self::ca_file) is not set. The shell reads them before it creates the client.
    /// Default: none.
    pub system_roots: SystemRoots,
    /// The path of a PEM file with the client's certificate chain and private key
    /// (`tlsCertificateKeyFile`). Default: none.
    pub certificate_key_file: Option<String>,
    /// The content of [`certificate_key_file`](Self::certificate_key_file).
    pub certificate_key_pem: Option<Secret>,
    /// The password of the private key (`tlsCertificateKeyFilePassword`). This version refuses
    /// encrypted private keys, so that the password has no effect.
    pub certificate_key_password: Option<Secret>,
    /// True if any certificate is accepted, also for another host (`tlsAllowInvalidCertificates`).
    /// Default: false.
    pub allow_invalid_certificates: bool,
    /// True if a certificate for another host is accepted (`tlsAllowInvalidHostnames`). Default:
    /// false.
    pub allow_invalid_hostnames: bool,
    /// True if any certificate is accepted for any host (`tlsInsecure`). Default: false.
    pub insecure: bool,
    /// True if OCSP endpoints must not be contacted (`tlsDisableOCSPEndpointCheck`). Default:
    /// false. This version never contacts them.
    pub disable_ocsp_endpoint_check: bool,
    /// True if revocation must not be checked (`tlsDisableCertificateRevocationCheck`). Default:
    /// false. This version never checks revocation.
    pub disable_certificate_revocation_check: bool,
}

/// The certificate authorities that the operating system trusts, in DER form.
///
/// ```
/// use onionskin_core::options::SystemRoots;
///
/// let roots = SystemRoots::new([vec![0x30, 0x00]]);
/// assert_eq!(roots.certificates().len(), 1);
/// assert_eq!(format!("{roots:?}"), "SystemRoots(1)");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SystemRoots(Arc<[Vec<u8>]>);

impl SystemRoots {
    /// Creates the list from certificates in DER form. A certificate that cannot be used is ignored
    /// when the client is created.
    #[must_use]
    pub fn new(certificates: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(certificates.into_iter().collect())
    }

    /// Returns the certificates.
    #[must_use]
    pub fn certificates(&self) -> &[Vec<u8>] {
        &self.0
    }
}

/// Shows the number of certificates, because all of them together have hundreds of kilobytes.
impl fmt::Debug for SystemRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SystemRoots").field(&self.0.len()).finish()
    }
}

/// Pairs of TLS options that must not be combined (URI-5 to URI-11). Each pair is an error: in a
/// connection string if both are present, in code if both are true.
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
