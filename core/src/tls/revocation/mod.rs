//! Revocation: whether the authority that issued a server's certificate has withdrawn it.
//!
//! The checks follow the steps of "Suggested OCSP Behavior" in the specification "OCSP Support".
//! The verifier, which `rustls` calls during the handshake, does the steps that need no network:
//! must-staple (OCSP-6), the stapled response (OCSP-7, OCSP-8), and the CRLs of the user (OCSP-10).
//! After the handshake, the [`TlsSession`](super::TlsSession) holds back all data and gives a
//! [`StatusQuery`]. [`StatusChecks`](crate::revocation::StatusChecks) answers the query from its
//! cache (OCSP-9) or from the OCSP responders that the certificate names (OCSP-12). A connection
//! whose certificate has an unknown status is used (OCSP-14).
//!
//! Only the certificate of the server itself is looked up. Responders are not asked about
//! intermediate certificates, and CRLs are not downloaded (OCSP-13). The CRLs of the user are
//! checked for all certificates of the chain.

mod certificate;
mod crl;
mod response;
mod signature;
mod single;

pub(super) use certificate::Subject;
pub(super) use crl::Lists;

use super::{
    CertId, OcspStatement,
    context::{Clock, TlsContext},
};
use rustls::{crypto::WebPkiSupportedAlgorithms, pki_types::CertificateDer};
use std::sync::Arc;
use webpki::EndEntityCert;

/// The question of a TLS session about the status of its server's certificate.
///
/// The session continues once its [`handle_status`](super::TlsSession::handle_status) has the
/// answer.
#[derive(Clone, Debug)]
pub struct StatusQuery {
    pub(super) subject: Arc<Subject>,
    /// The valid response that the server stapled.
    pub(super) staple: Option<OcspStatement>,
    /// True if a CRL of the user shows that the certificate was not revoked.
    pub(super) is_covered: bool,
    /// True if OCSP responders may be asked.
    pub(super) asks_responders: bool,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    pub(super) clock: Arc<Clock>,
}

impl StatusQuery {
    /// Returns the query about a certificate that this issuer has signed, both in DER form. The
    /// chain is not checked. `None` if one of them cannot be read.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn about(context: &TlsContext, certificate: &[u8], issuer: &[u8]) -> Option<Self> {
        let [certificate, issuer] = [certificate, issuer].map(CertificateDer::from);
        let certificate = EndEntityCert::try_from(&certificate).ok()?;
        let issuer = EndEntityCert::try_from(&issuer).ok()?;
        let subject = Subject::new(&certificate, &issuer.subject_public_key_info())?;
        Some(Self {
            subject,
            staple: None,
            is_covered: false,
            asks_responders: context.asks_responders(),
            algorithms: context.verifier()?.algorithms(),
            clock: context.clock().clone(),
        })
    }

    /// Returns the name of the certificate in OCSP.
    #[must_use]
    pub fn id(&self) -> &CertId {
        &self.subject.id
    }

    /// Returns the URLs of the OCSP responders of the certificate; none if they must not be asked.
    pub(crate) fn responders(&self) -> &[String] {
        match self.asks_responders {
            true => &self.subject.responders,
            false => &[],
        }
    }

    /// Returns the OCSP request for the status of the certificate, in DER form.
    pub(crate) fn request(&self) -> Vec<u8> {
        self.subject.id.request()
    }

    /// Returns the valid response that the server stapled, if there was one that states whether the
    /// certificate was revoked.
    pub(crate) fn staple(&self) -> Option<&OcspStatement> {
        self.staple.as_ref()
    }

    /// True if a CRL of the user shows that the certificate was not revoked.
    pub(crate) fn is_covered(&self) -> bool {
        self.is_covered
    }

    /// Returns the time of day in seconds since 1970, if it is known.
    pub(crate) fn unix_seconds(&self) -> Option<u64> {
        self.clock.unix_seconds()
    }

    /// Returns what an OCSP response states about the certificate. The error is the reason why the
    /// response is not valid.
    pub fn read(&self, response: &[u8]) -> Result<OcspStatement, String> {
        let now = self.unix_seconds().ok_or("the time of day is not known")?;
        OcspStatement::read(response, &self.subject, &self.algorithms, now)
    }
}
