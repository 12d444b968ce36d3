//! The checks of a server's certificate.

use super::limits::check_chain;
use crate::options::TlsOptions;
use rustls::{
    DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

/// Checks chain, validity and host name, as far as the options require. The peer's proof that it
/// holds the key of the certificate is always checked.
#[derive(Debug)]
pub(super) struct Verifier {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
    chain: bool,
    host_name: bool,
}

impl Verifier {
    pub(super) fn new(
        roots: RootCertStore,
        algorithms: WebPkiSupportedAlgorithms,
        options: &TlsOptions,
    ) -> Self {
        let any_certificate = options.insecure || options.allow_invalid_certificates;
        Self {
            roots,
            algorithms,
            chain: !any_certificate,
            // The host name in a certificate without a trusted issuer proves nothing.
            host_name: !any_certificate && !options.allow_invalid_hostnames,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.chain {
            check_chain(end_entity, intermediates)?;
            let certificate = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &self.roots,
                intermediates,
                now,
                self.algorithms.all,
            )?;
            if self.host_name {
                verify_server_name(&certificate, server_name)?;
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
