//! Parsers for certificates and keys in PEM text.

use super::configuration;
use crate::{
    error::Result,
    options::{SystemRoots, TlsOptions},
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::collections::BTreeSet;

/// Returns the authorities to trust: those of `tlsCAFile`, or else the Mozilla list and those of
/// the operating system.
pub(super) fn roots(options: &TlsOptions) -> Result<RootCertStore> {
    let Some(pem) = &options.ca_pem else {
        if options.ca_file.is_some() {
            return Err(configuration(
                "the content of tlsCAFile was not loaded; set TlsOptions::ca_pem",
            ));
        }
        return Ok(public_roots(&options.system_roots));
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "tlsCAFile")? {
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

/// Returns the client's certificate chain and key, if `tlsCertificateKeyFile` was given.
pub(super) fn identity(options: &TlsOptions) -> Result<Option<Identity>> {
    let Some(pem) = &options.certificate_key_pem else {
        if options.certificate_key_file.is_some() {
            return Err(configuration(
                "the content of tlsCertificateKeyFile was not loaded; set \
                 TlsOptions::certificate_key_pem",
            ));
        }
        return Ok(None);
    };
    let text = pem.expose();
    // PEM marks an encrypted key by the label `ENCRYPTED PRIVATE KEY` or by the header `Proc-Type`.
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || (text.contains("Proc-Type:") && text.contains("ENCRYPTED"))
    {
        return Err(configuration(
            "the key in tlsCertificateKeyFile is encrypted, which is not supported yet; \
             decrypt the file, for example with `openssl pkey`",
        ));
    }
    let chain = certificates(text.as_bytes(), "tlsCertificateKeyFile")?;
    if chain.is_empty() {
        return Err(configuration("tlsCertificateKeyFile has no certificate"));
    }
    // The key is in PKCS#8, PKCS#1 or SEC1 form. The error does not contain the message of the PEM
    // parser, which can quote lines of the file.
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|_| configuration("tlsCertificateKeyFile has no private key that can be read"))?;
    Ok(Some(Identity { chain, key }))
}

/// The client's certificate and key, for servers that request a certificate.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

fn certificates(pem: &[u8], option: &str) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| configuration(format!("{option} is not PEM text")))
}
