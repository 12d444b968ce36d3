//! Options of TLS.

use super::{Secret, fields};
#[cfg(feature = "tls")]
use rustls::ClientConfig;
use serde::Deserialize;
use std::{fmt, path::PathBuf, sync::Arc};

/// The maximum size of a file of certificates or of a private key, in bytes: 8 MiB. The list of
/// Mozilla has a quarter of a megabyte.
pub const MAX_CERTIFICATE_FILE_BYTES: usize = 8 * 1024 * 1024;

/// The maximum size of a file of certificate revocation lists, in bytes: 64 MiB.
pub const MAX_CRL_FILE_BYTES: usize = 64 * 1024 * 1024;

/// Whether connections use TLS (`tls`, or `ssl`).
#[expect(
    clippy::large_enum_variant,
    reason = "the form of the field; a client has one"
)]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub enum Tls {
    /// Connections use TLS, with these options.
    Enabled(TlsOptions),
    /// Connections do not use TLS.
    Disabled,
}

impl Tls {
    /// Returns the options of connections that use TLS.
    ///
    /// ```
    /// use onionskin_core::options::{Tls, TlsOptions};
    ///
    /// assert!(Tls::Enabled(TlsOptions::default()).options().is_some());
    /// assert!(Tls::Disabled.options().is_none());
    /// ```
    #[must_use]
    pub const fn options(&self) -> Option<&TlsOptions> {
        match self {
            Self::Enabled(options) => Some(options),
            Self::Disabled => None,
        }
    }
}

impl From<TlsOptions> for Tls {
    fn from(options: TlsOptions) -> Self {
        Self::Enabled(options)
    }
}

impl From<TlsOptions> for Option<Tls> {
    fn from(options: TlsOptions) -> Self {
        Some(Tls::Enabled(options))
    }
}

fields! {
    /// The options of connections that use TLS.
    ///
    /// Certificates are named by path. The shell reads the files before it creates the client, and
    /// stores their content in the `*_pem` fields beside the paths. If such a field is set already,
    /// the file is not read. Certificates and keys can therefore come from memory as well:
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, TlsOptions};
    /// use std::path::PathBuf;
    ///
    /// # let (authorities, certificate, key) = (String::new(), String::new(), String::new());
    /// # let revoked = Vec::new();
    /// let memory = TlsOptions::builder()
    ///     .ca_pem(authorities.into_bytes())
    ///     .crl_pem(revoked)
    ///     .certificate_key_pem(certificate)
    ///     .private_key_pem(key)
    ///     .build();
    /// let options = ClientOptions::builder().tls(memory).build();
    /// assert!(options.tls().is_some());
    ///
    /// let files = TlsOptions::builder()
    ///     .ca_file_path(PathBuf::from("/etc/mongodb/ca.pem"))
    ///     .crl_file_path(PathBuf::from("/etc/mongodb/crl.pem"))
    ///     .cert_key_file_path(PathBuf::from("/etc/mongodb/client.pem"))
    ///     .private_key_file_path(PathBuf::from("/etc/mongodb/client.key"))
    ///     .tls_certificate_key_file_password("pencil")
    ///     .disable_ocsp_endpoint_check(true)
    ///     .disable_certificate_revocation_check(false)
    ///     .build();
    /// assert!(files.checks_identity());
    /// // For tests: the client accepts any server.
    /// let unsafe_options = TlsOptions::builder()
    ///     .allow_invalid_certificates(true)
    ///     .allow_invalid_hostnames(true)
    ///     .insecure(true)
    ///     .build();
    /// assert!(!unsafe_options.checks_identity());
    /// ```
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    TlsOptions, built by TlsOptionsBuilder {
        /// The path of a PEM file of certificate authorities to trust (`tlsCAFile`). The file can
        /// have several certificates, and other text between them. Default: none. The client then
        /// trusts Mozilla's list, which is built in, and
        /// [`system_roots`](TlsOptions::system_roots).
        ca_file_path: PathBuf,
        /// The content of [`ca_file_path`](TlsOptions::ca_file_path).
        ca_pem: Vec<u8>,
        /// The path of a PEM file of certificate revocation lists (`tlsCRLFile`). A connection is
        /// closed if a certificate of the server's chain is in one of them. Default: none.
        crl_file_path: PathBuf,
        /// The content of [`crl_file_path`](TlsOptions::crl_file_path).
        crl_pem: Vec<u8>,
        /// The path of a PEM file with the client's certificate chain and private key
        /// (`tlsCertificateKeyFile`), or only the chain if
        /// [`private_key_file_path`](TlsOptions::private_key_file_path) is set. Default: none.
        cert_key_file_path: PathBuf,
        /// The content of [`cert_key_file_path`](TlsOptions::cert_key_file_path).
        certificate_key_pem: Secret => (text),
        /// The path of a PEM file with the private key, if it is not in
        /// [`cert_key_file_path`](TlsOptions::cert_key_file_path). Connection strings have no such
        /// option. Default: none.
        private_key_file_path: PathBuf,
        /// The content of [`private_key_file_path`](TlsOptions::private_key_file_path).
        private_key_pem: Secret => (text),
        /// The password of the private key (`tlsCertificateKeyFilePassword`), for keys that are
        /// encrypted. These can be in PKCS#8 form, with PBES2 (AES or Triple DES), or in the older
        /// form of OpenSSL, with AES or Triple DES. Without the feature `cert-key-password`, an
        /// encrypted key is refused. Default: none.
        tls_certificate_key_file_password: Secret => (text),
        /// True if any certificate is accepted, also for another host
        /// (`tlsAllowInvalidCertificates`). Default: false.
        allow_invalid_certificates: bool,
        /// True if a certificate for another host is accepted (`tlsAllowInvalidHostnames`).
        /// Default: false.
        allow_invalid_hostnames: bool,
        /// True if any certificate is accepted for any host (`tlsInsecure`). Default: false.
        insecure: bool,
        /// True if OCSP responders must not be asked (`tlsDisableOCSPEndpointCheck`). Stapled
        /// responses and the CRLs of [`crl_file_path`](TlsOptions::crl_file_path) are still
        /// checked. Default: false.
        disable_ocsp_endpoint_check: bool,
        /// True if revocation must not be checked (`tlsDisableCertificateRevocationCheck`).
        /// Default: false.
        disable_certificate_revocation_check: bool,
    }
    also {
        /// The certificate authorities that the operating system trusts. They are trusted as well
        /// if [`ca_file_path`](Self::ca_file_path) is not set. The shell reads them before it
        /// creates the client. Default: none.
        #[serde(skip)]
        pub system_roots: SystemRoots,
        /// The library that does the cryptography. Connection strings have no such option. Default:
        /// [`Cryptography::Any`].
        #[serde(skip)]
        pub cryptography: Cryptography,
        /// A configuration of `rustls` that replaces all other options. A client with another
        /// option beside it is refused. Default: none.
        #[cfg(feature = "tls")]
        #[serde(skip)]
        pub config: Option<TlsConfig>,
    }
}

impl TlsOptions {
    /// True unless an option disables the check of the certificate or of its name, so that any
    /// server could be at the other end of a connection with TLS. A [`config`](Self::config) is not
    /// examined.
    ///
    /// ```
    /// use onionskin_core::options::TlsOptions;
    ///
    /// assert!(TlsOptions::default().checks_identity());
    /// assert!(!TlsOptions::builder().insecure(true).build().checks_identity());
    /// ```
    #[must_use]
    pub fn checks_identity(&self) -> bool {
        let checks = [
            self.insecure,
            self.allow_invalid_certificates,
            self.allow_invalid_hostnames,
        ];
        !checks.contains(&Some(true))
    }

    /// True if the field `config` is set, which needs the Cargo feature `tls`.
    ///
    /// ```
    /// use onionskin_core::options::TlsOptions;
    ///
    /// assert!(!TlsOptions::default().has_config());
    /// ```
    #[must_use]
    pub fn has_config(&self) -> bool {
        #[cfg(feature = "tls")]
        let is_set = self.config.is_some();
        #[cfg(not(feature = "tls"))]
        let is_set = false;
        is_set
    }
}

/// The library that does the cryptography of TLS. A client whose library is not enabled as a Cargo
/// feature is refused.
///
/// ```
/// use onionskin_core::options::{Cryptography, TlsOptions};
///
/// let mut tls = TlsOptions::default();
/// tls.cryptography = Cryptography::AwsLcRs;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cryptography {
    /// `ring` if it is enabled, otherwise `aws-lc-rs`. So a library that another part of a program
    /// enables does not replace the one that was used before.
    #[default]
    Any,
    /// `ring`, the Cargo feature `ring`.
    Ring,
    /// `aws-lc-rs`, the Cargo feature `aws-lc-rs`.
    AwsLcRs,
}

/// A configuration of the library `rustls`, for needs that no option covers: a certificate verifier
/// of the application, a key in hardware, or another cryptography provider.
///
/// With such a configuration the application decides on everything: which certificates are
/// accepted, whether revocation is checked, whether sessions are resumed, the time of day, the
/// versions and the cipher suites. The limits of certificate chains are not applied either.
/// Handshakes run under the client's lock, so a verifier must neither block nor take long.
///
/// The version of `rustls` must be that of [`crate::rustls`].
///
/// ```
/// use onionskin_core::{options::{TlsConfig, TlsOptions}, rustls};
/// use std::sync::Arc;
///
/// let provider = Arc::new(rustls::crypto::ring::default_provider());
/// let config = rustls::ClientConfig::builder_with_provider(provider)
///     .with_protocol_versions(&[&rustls::version::TLS13])?
///     .with_root_certificates(rustls::RootCertStore::empty())
///     .with_no_client_auth();
/// let mut tls = TlsOptions::default();
/// tls.config = Some(TlsConfig::new(Arc::new(config)));
/// # Ok::<(), rustls::Error>(())
/// ```
#[cfg(feature = "tls")]
#[derive(Clone)]
pub struct TlsConfig(Arc<ClientConfig>);

#[cfg(feature = "tls")]
impl TlsConfig {
    /// Returns an option that holds `config`.
    ///
    /// ```
    /// use onionskin_core::{options::{TlsConfig, TlsOptions}, rustls::ClientConfig};
    /// use std::sync::Arc;
    ///
    /// fn options(config: ClientConfig) -> TlsOptions {
    ///     let mut options = TlsOptions::default();
    ///     options.config = Some(TlsConfig::new(Arc::new(config)));
    ///     options
    /// }
    /// ```
    #[must_use]
    pub fn new(config: Arc<ClientConfig>) -> Self {
        Self(config)
    }

    /// Returns the configuration.
    ///
    /// ```
    /// use onionskin_core::options::TlsConfig;
    ///
    /// fn resumes_sessions_early(config: &TlsConfig) -> bool {
    ///     config.get().enable_early_data
    /// }
    /// ```
    #[must_use]
    pub fn get(&self) -> &Arc<ClientConfig> {
        &self.0
    }
}

/// Compares by identity: two values are equal if they hold the same `Arc`.
#[cfg(feature = "tls")]
impl PartialEq for TlsConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(feature = "tls")]
impl Eq for TlsConfig {}

/// Shows no content, because a configuration can hold a private key.
#[cfg(feature = "tls")]
impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConfig(..)")
    }
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
    ///
    /// ```
    /// use onionskin_core::options::{SystemRoots, TlsOptions};
    ///
    /// # let certificate = vec![0x30, 0x00];
    /// let mut options = TlsOptions::default();
    /// options.system_roots = SystemRoots::new([certificate]);
    /// ```
    #[must_use]
    pub fn new(certificates: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(certificates.into_iter().collect())
    }

    /// Returns the certificates.
    ///
    /// ```
    /// use onionskin_core::options::SystemRoots;
    ///
    /// assert!(SystemRoots::default().certificates().is_empty());
    /// ```
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

/// Pairs of TLS options that must not be combined (URI-5 to URI-11, OCSP-25, OCSP-28). Each pair is
/// an error: in a connection string if both are present, in code if both are true.
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
