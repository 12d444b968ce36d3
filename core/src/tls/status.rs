//! The status of a certificate: the results of its check, and the content of OCSP responses.

/// The result of the check whether a certificate was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RevocationStatus {
    /// Revocation was not checked, because the options of the client disable the check.
    NotChecked,
    /// No source knows the status. The connection is used anyway.
    Unknown,
    /// The certificate was not revoked, as this source states.
    Good(StatusSource),
    /// The certificate was revoked, as this source states. The connection is closed.
    Revoked(StatusSource),
}

/// The source of a [`RevocationStatus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusSource {
    /// The OCSP response that the server sent in the handshake.
    Staple,
    /// A CRL of the user.
    Crl,
    /// An OCSP responder that the certificate names.
    Responder,
    /// An earlier OCSP response that is still valid.
    Cache,
}

/// The name of a certificate in OCSP: its serial number, and SHA-1 hashes of the name and the key
/// of its issuer (RFC 6960, section 4.1.1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertId {
    pub(super) issuer_name: [u8; 20],
    pub(super) issuer_key: [u8; 20],
    /// The content of the DER form.
    pub(super) serial: Vec<u8>,
}

/// The statement of an OCSP response about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "tls"),
    allow(dead_code, reason = "without TLS nothing judges a response")
)]
pub(crate) enum Verdict {
    Good,
    Revoked,
    Unknown,
}

/// A valid OCSP response about one certificate. Times are in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcspStatement {
    pub(crate) verdict: Verdict,
    pub(crate) this_update: u64,
    /// The time at which the response is no longer valid, if it states one.
    pub(crate) next_update: Option<u64>,
}

impl OcspStatement {
    /// True if the response states that the certificate was not revoked.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict == Verdict::Good
    }
}
