//! Certificate revocation lists that the user gives.

use super::{certificate::Subject, response::Signed};
use crate::{error::Result, tls::configuration};
use rustls::{
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateRevocationListDer, pem::PemObject},
};
use webpki::{Cert, CertRevocationList, OwnedCertRevocationList};
use x509_cert::{crl::CertificateList, der::Decode};

/// The size in bytes of the largest list that can show that a certificate was not revoked.
const MAX_COVERING_BYTES: usize = 256 * 1024;

/// The CRLs of a client.
#[derive(Debug, Default)]
pub(in crate::tls) struct Lists(Vec<List>);

#[derive(Debug)]
struct List {
    parsed: CertRevocationList<'static>,
    der: CertificateRevocationListDer<'static>,
    /// The time at which the list is no longer valid, in seconds since 1970.
    next_update: u64,
}

impl Lists {
    /// Returns the lists of a PEM text.
    pub(in crate::tls) fn new(pem: &[u8]) -> Result<Self> {
        let lists: Vec<CertificateRevocationListDer<'_>> =
            CertificateRevocationListDer::pem_slice_iter(pem)
                .collect::<std::result::Result<_, _>>()
                .map_err(|_| configuration("tlsCRLFile is not PEM text"))?;
        if lists.is_empty() {
            return Err(configuration("tlsCRLFile has no list (`X509 CRL`)"));
        }
        lists
            .into_iter()
            .map(List::new)
            .collect::<Result<_>>()
            .map(Self)
    }

    /// True if a list of the issuer of this certificate contains it. The lists are the user's, so
    /// this counts also if the list has expired, and without a check of its signature.
    pub(in crate::tls) fn contain(&self, certificate: &Cert<'_>) -> bool {
        let issuer = certificate.issuer();
        let mut lists = self.0.iter().filter(|list| list.parsed.issuer() == issuer);
        lists.any(|list| {
            let found = list.parsed.find_serial(certificate.serial());
            found.is_ok_and(|entry| entry.is_some())
        })
    }

    /// True if a list that is valid at `now`, in seconds since 1970, covers all certificates of the
    /// issuer of `subject`. The check of the chain has then shown that the list does not contain
    /// `subject`.
    pub(in crate::tls) fn cover(
        &self,
        subject: &Subject,
        algorithms: &WebPkiSupportedAlgorithms,
        now: u64,
    ) -> bool {
        self.0.iter().any(|list| {
            list.parsed.issuer() == subject.issuer.name_content
                && list.parsed.issuing_distribution_point().is_none()
                && now < list.next_update
                && list.is_signed_by(&subject.issuer.key_info, algorithms)
        })
    }
}

impl List {
    fn new(der: CertificateRevocationListDer<'_>) -> Result<Self> {
        let unusable = |reason: String| {
            configuration(format!(
                "tlsCRLFile has a list that cannot be used: {reason}"
            ))
        };
        let parsed =
            OwnedCertRevocationList::from_der(&der).map_err(|error| unusable(error.to_string()))?;
        let list = CertificateList::from_der(&der).map_err(|error| unusable(error.to_string()))?;
        let end = list.tbs_cert_list.next_update;
        Ok(Self {
            parsed: parsed.into(),
            der: CertificateRevocationListDer::from(der.to_vec()),
            next_update: end.map_or(0, |end| end.to_unix_duration().as_secs()),
        })
    }

    /// True if the key has signed the list. False for a large list, because the signature is
    /// checked for each connection, under the client's lock.
    fn is_signed_by(&self, key_info: &[u8], algorithms: &WebPkiSupportedAlgorithms) -> bool {
        self.der.len() <= MAX_COVERING_BYTES
            && Signed::read(&self.der).is_ok_and(|signed| signed.is_signed_by(key_info, algorithms))
    }
}
