//! Certificates and keys out of PEM text.

use super::configuration;
use crate::{error::Result, options::TlsOptions};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// The authorities to trust: those of `tlsCAFile`, else the Mozilla list.
pub(super) fn roots(options: &TlsOptions) -> Result<RootCertStore> {
    let Some(pem) = &options.ca_pem else {
        if options.ca_file.is_some() {
            return Err(configuration("the content of tlsCAFile was not given"));
        }
        return Ok(RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        });
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "tlsCAFile")? {
        // One authority that cannot be used is no reason to do without the others of a bundle.
        let _unusable = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(configuration(
            "tlsCAFile has no certificate that can be used",
        ));
    }
    Ok(roots)
}

/// The client's certificate chain and key, where `tlsCertificateKeyFile` was given.
pub(super) fn identity(options: &TlsOptions) -> Result<Option<Identity>> {
    let Some(pem) = &options.certificate_key_pem else {
        if options.certificate_key_file.is_some() {
            return Err(configuration(
                "the content of tlsCertificateKeyFile was not given",
            ));
        }
        return Ok(None);
    };
    let text = pem.expose();
    // The two ways in which PEM says that a key is encrypted: PKCS#8 and the older header.
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
    // In PKCS#8, PKCS#1 or SEC1 form. The library's own words are left out of errors: they may
    // quote lines of the file.
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|_| configuration("tlsCertificateKeyFile has no private key that can be read"))?;
    Ok(Some(Identity { chain, key }))
}

/// Who the client is, for servers that ask for a certificate.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

fn certificates(pem: &[u8], option: &str) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| configuration(format!("{option} is not PEM text")))
}
