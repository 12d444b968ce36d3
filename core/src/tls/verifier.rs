//! The checks of a server's certificate.

use super::{
    OcspStatement, Verdict,
    limits::{Counter, Excess, check_size, check_subjects},
    revocation::{Lists, Subject},
};
use crate::{error, options::TlsOptions};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime},
    server::ParsedCertificate,
};
use std::{cell::RefCell, sync::Arc};
use webpki::{EndEntityCert, KeyUsage};

thread_local! {
    /// The findings of the verifier, besides its verdict. `rustls` calls the verifier in a function
    /// of the connection, on the same thread, and passes on nothing but the verdict. The value is
    /// set and taken within one call of [`observe`].
    static FOUND: RefCell<Option<ChainFindings>> = const { RefCell::new(None) };
}

/// The findings of the verifier about the certificate of a server.
#[derive(Clone, Debug)]
pub(super) struct ChainFindings {
    pub(super) subject: Arc<Subject>,
    /// The valid response that the server stapled, which states that the certificate is good or
    /// was revoked. After one that states that it was revoked, the handshake fails.
    pub(super) staple: Option<OcspStatement>,
}

/// Runs a function of a `rustls` connection. Returns its result, and what the verifier has found if
/// it accepted the chain of a certificate meanwhile.
pub(super) fn observe<T>(run: impl FnOnce() -> T) -> (T, Option<ChainFindings>) {
    FOUND.set(None);
    let result = run();
    (result, FOUND.take())
}

/// Checks chain, validity and host name, as far as the options require. The peer's proof that it
/// holds the key of the certificate is always checked.
#[derive(Debug)]
pub(super) struct Verifier {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
    chain: bool,
    host_name: bool,
    revocation: bool,
    lists: Lists,
}

impl Verifier {
    pub(super) fn new(
        roots: RootCertStore,
        algorithms: WebPkiSupportedAlgorithms,
        options: &TlsOptions,
    ) -> error::Result<Self> {
        let is_set = |check| check == Some(true);
        let any_certificate =
            is_set(options.insecure) || is_set(options.allow_invalid_certificates);
        let revocation = !any_certificate && !is_set(options.disable_certificate_revocation_check);
        let lists = match &options.crl_pem {
            Some(pem) => Lists::new(pem)?,
            None if options.crl_file_path.is_some() => {
                return Err(super::configuration(
                    "the content of tlsCRLFile was not loaded; set TlsOptions::crl_pem",
                ));
            }
            None => Lists::default(),
        };
        Ok(Self {
            roots,
            algorithms,
            chain: !any_certificate,
            // The host name in a certificate without a trusted issuer proves nothing.
            host_name: !any_certificate && !is_set(options.allow_invalid_hostnames),
            revocation,
            lists,
        })
    }

    /// Returns the algorithms of signatures in certificates.
    pub(super) fn algorithms(&self) -> WebPkiSupportedAlgorithms {
        self.algorithms
    }

    /// True if a CRL of the user shows that this certificate, whose chain was accepted, was not
    /// revoked.
    pub(super) fn has_list_for(&self, subject: &Subject, now: u64) -> bool {
        self.lists.cover(subject, &self.algorithms, now)
    }

    /// Checks chain, validity, CRLs and host name, as far as the options require. Returns what the
    /// other checks of revocation need; `None` if revocation is not checked.
    pub(super) fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<Option<Arc<Subject>>, Error> {
        check_size(end_entity, intermediates)?;
        if !self.chain {
            return Ok(None);
        }
        check_subjects(intermediates)?;
        let certificate = EndEntityCert::try_from(end_entity).map_err(refused)?;
        let counter = Counter::default();
        let counted = counter.algorithms(self.algorithms.all);
        let algorithms: Vec<&dyn SignatureVerificationAlgorithm> =
            counted.iter().map(|algorithm| algorithm as _).collect();
        let path = certificate
            .verify_for_usage(
                &algorithms,
                &self.roots.roots,
                intermediates,
                now,
                KeyUsage::server_auth(),
                None,
                None,
            )
            .map_err(|error| match counter.is_exceeded() {
                true => Excess::Signatures.into(),
                false => refused(error),
            })?;
        if self.host_name {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        if !self.revocation {
            return Ok(None);
        }
        let chain = path.intermediate_certificates();
        if self.lists.contain(&certificate) || chain.into_iter().any(|c| self.lists.contain(c)) {
            return Err(CertificateError::Revoked.into());
        }
        let subject = Subject::new(&certificate, &path.issuer_spki());
        subject
            .map(Some)
            .ok_or_else(|| CertificateError::BadEncoding.into())
    }

    /// Checks the OCSP response that the server stapled; an empty one means that it has sent none.
    fn check_staple(
        &self,
        subject: &Subject,
        response: &[u8],
        now: UnixTime,
    ) -> Result<Option<OcspStatement>, Error> {
        if response.is_empty() {
            return match subject.must_staple {
                true => Err(other(
                    "the certificate requires that the server staples an OCSP response, and the \
                     server has sent none",
                )),
                false => Ok(None),
            };
        }
        let answer = OcspStatement::read(response, subject, &self.algorithms, now.as_secs())
            .map_err(|reason| {
                other(format!(
                    "the OCSP response that the server stapled: {reason}"
                ))
            })?;
        match answer.verdict {
            Verdict::Good | Verdict::Revoked => Ok(Some(answer)),
            Verdict::Unknown if subject.must_staple => Err(other(
                "the certificate requires that the server staples an OCSP response, and the one \
                 that it has sent does not know the certificate",
            )),
            Verdict::Unknown => Ok(None),
        }
    }
}

fn other(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    CertificateError::Other(OtherError(Arc::from(reason.into()))).into()
}

/// Converts the error of a chain that was refused.
fn refused(error: webpki::Error) -> Error {
    use webpki::Error as Refusal;
    match error {
        Refusal::UnknownIssuer => CertificateError::UnknownIssuer,
        Refusal::CertExpired { time, not_after } => {
            CertificateError::ExpiredContext { time, not_after }
        }
        Refusal::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }
        }
        Refusal::CertRevoked => CertificateError::Revoked,
        Refusal::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        Refusal::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        Refusal::BadDer | Refusal::BadDerTime | Refusal::TrailingData(_) => {
            CertificateError::BadEncoding
        }
        error => CertificateError::Other(OtherError(Arc::new(error))),
    }
    .into()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(subject) = self.check(end_entity, intermediates, server_name, now)? {
            let staple = self.check_staple(&subject, ocsp_response, now)?;
            let is_revoked = staple.is_some_and(|staple| staple.verdict == Verdict::Revoked);
            FOUND.set(Some(ChainFindings { subject, staple }));
            if is_revoked {
                return Err(CertificateError::Revoked.into());
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
