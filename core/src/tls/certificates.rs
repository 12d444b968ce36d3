//! Parsers for certificates and keys in PEM text.

use super::{
    configuration,
    key_source::KeySource,
    keys::private_key,
    pem::{self, Block, blocks},
};
use crate::{
    error::Result,
    options::{SystemRoots, TlsOptions},
};
use rustls::{
    Error, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::CertifiedKey,
};
use std::collections::BTreeSet;

/// The names of the options that have the client's certificate and key.
const CERTIFICATE_KEY_FILE: &str = "tlsCertificateKeyFile";
const PRIVATE_KEY_FILE: &str = "TlsOptions::private_key_file_path";

/// The label of a certificate in PEM text.
const CERTIFICATE: &str = "CERTIFICATE";

/// Returns the authorities to trust: those of `tlsCAFile`, or else the Mozilla list and those of
/// the operating system.
pub(super) fn roots(options: &TlsOptions) -> Result<RootCertStore> {
    let Some(pem) = &options.ca_pem else {
        if options.ca_file_path.is_some() {
            return Err(configuration(
                "the content of tlsCAFile was not loaded; set TlsOptions::ca_pem",
            ));
        }
        return Ok(public_roots(&options.system_roots));
    };
    let mut roots = RootCertStore::empty();
    // Comments in a bundle can have any encoding.
    for certificate in certificates(&blocks(&String::from_utf8_lossy(pem)), "tlsCAFile")? {
        // One certificate that cannot be used does not make the others of a bundle unusable.
        let _unusable = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(configuration(
            "tlsCAFile has no certificate that can be used",
        ));
    }
    Ok(roots)
}

/// Returns the Mozilla list, and the authorities of the operating system that are not in it.
fn public_roots(system: &SystemRoots) -> RootCertStore {
    let mut roots = webpki_roots::TLS_SERVER_ROOTS.to_vec();
    let built_in: BTreeSet<_> = webpki_roots::TLS_SERVER_ROOTS
        .iter()
        .map(|anchor| (&*anchor.subject, &*anchor.subject_public_key_info))
        .collect();
    for der in system.certificates() {
        let der = CertificateDer::from(der.as_slice());
        // One certificate that cannot be used does not make the others unusable.
        let Ok(anchor) = webpki::anchor_from_trusted_cert(&der) else {
            continue;
        };
        let name = (&*anchor.subject, &*anchor.subject_public_key_info);
        if !built_in.contains(&name) {
            roots.push(anchor.to_owned());
        }
    }
    RootCertStore { roots }
}

/// Returns the client's certificate chain and key, if `tlsCertificateKeyFile` was given. The key is
/// in that file, or in one of its own.
pub(super) fn identity(options: &TlsOptions) -> Result<Option<Identity>> {
    let Some(pem) = &options.certificate_key_pem else {
        if options.cert_key_file_path.is_some() {
            return Err(configuration(
                "the content of tlsCertificateKeyFile was not loaded; set \
                 TlsOptions::certificate_key_pem",
            ));
        }
        return Ok(None);
    };
    let mut blocks = blocks(pem.expose());
    let chain = certificates(&blocks, CERTIFICATE_KEY_FILE)?;
    if chain.is_empty() {
        return Err(configuration("tlsCertificateKeyFile has no certificate"));
    }
    let mut source = KeySource {
        option: CERTIFICATE_KEY_FILE,
        password: options.tls_certificate_key_file_password.as_ref(),
    };
    if let Some(pem) = &options.private_key_pem {
        if blocks.iter().any(Block::is_private_key) {
            return Err(configuration(
                "both tlsCertificateKeyFile and TlsOptions::private_key_pem have a private key; \
                 remove one",
            ));
        }
        source.option = PRIVATE_KEY_FILE;
        blocks = pem::blocks(pem.expose());
    } else if options.private_key_file_path.is_some() {
        return Err(configuration(
            "the content of TlsOptions::private_key_file_path was not loaded; set \
             TlsOptions::private_key_pem",
        ));
    }
    let option = source.option;
    let key = private_key(blocks, source)?
        .ok_or_else(|| configuration(format!("{option} has no private key")))?;
    Ok(Some(Identity { chain, key, option }))
}

/// The client's certificate and key, for servers that request a certificate.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    /// The name of the option that has the key.
    option: &'static str,
}

impl Identity {
    /// Returns the certificate and the key in the form of `rustls`. Fails if the key is not that of
    /// the certificate, or if the provider does not support it.
    pub(super) fn certified(self, provider: &CryptoProvider) -> Result<CertifiedKey> {
        let option = self.option;
        CertifiedKey::from_der(self.chain, self.key, provider).map_err(|error| match error {
            Error::InconsistentKeys(_) => configuration(format!(
                "the private key in {option} is not the key of the certificate in \
                 tlsCertificateKeyFile"
            )),
            error => configuration(format!("{option}: {error}")),
        })
    }
}

/// Returns the certificates of PEM text. Fails if one of them is damaged.
fn certificates(blocks: &[Block<'_>], option: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = blocks.iter().filter(|block| block.label == CERTIFICATE);
    certificates
        .map(|block| match &block.der {
            Some(der) => Ok(CertificateDer::from(der.to_vec())),
            None => Err(configuration(format!("{option} has a damaged certificate"))),
        })
        .collect()
}
