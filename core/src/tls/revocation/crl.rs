//! Certificate revocation lists that the user gives.

use super::{
    certificate::Subject,
    response::{MAX_CLOCK_DIFFERENCE, Signed},
    single::inside,
};
use crate::{error::Result, tls::configuration};
use rustls::{
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateRevocationListDer, pem::PemObject},
};
use webpki::{Cert, CertRevocationList, OwnedCertRevocationList};
use x509_cert::{
    der::{self, AnyRef, Decode, Tag, Tagged},
    time::Time,
};

/// The size in bytes of the largest list that can show that a certificate was not revoked.
const MAX_COVERING_BYTES: usize = 256 * 1024;

/// The CRLs of a client.
#[derive(Debug, Default)]
pub(in crate::tls) struct Lists(Vec<List>);

#[derive(Debug)]
struct List {
    parsed: CertRevocationList<'static>,
    der: CertificateRevocationListDer<'static>,
    /// The time of the list, in seconds since 1970.
    this_update: u64,
    /// The time at which the list is no longer valid, in seconds since 1970. Zero if the list does
    /// not state it.
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
                && list.is_valid_at(now)
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
        let times = times(&der).map_err(|error| unusable(error.to_string()))?;
        Ok(Self {
            parsed: parsed.into(),
            der: CertificateRevocationListDer::from(der.to_vec()),
            this_update: times.0,
            next_update: times.1,
        })
    }

    /// True if the list is valid at `now`, in seconds since 1970.
    const fn is_valid_at(&self, now: u64) -> bool {
        self.this_update <= now.saturating_add(MAX_CLOCK_DIFFERENCE) && now < self.next_update
    }

    /// True if the key has signed the list. False for a large list, because the signature is
    /// checked for each connection, under the client's lock.
    fn is_signed_by(&self, key_info: &[u8], algorithms: &WebPkiSupportedAlgorithms) -> bool {
        self.der.len() <= MAX_COVERING_BYTES
            && Signed::read(&self.der).is_ok_and(|signed| signed.is_signed_by(key_info, algorithms))
    }
}

/// Returns the times `thisUpdate` and `nextUpdate` of a list, in seconds since 1970 (RFC 5280,
/// section 5.1.2). The second one is zero if the list does not have it.
fn times(list: &[u8]) -> der::Result<(u64, u64)> {
    let signed = Signed::read(list)?;
    let mut reader = inside(&AnyRef::from_der(signed.data)?)?;
    let first = AnyRef::decode(&mut reader)?;
    if first.tag() == Tag::Integer {
        // This was the version, which can be omitted.
        let _signature_algorithm = AnyRef::decode(&mut reader)?;
    }
    let _issuer = AnyRef::decode(&mut reader)?;
    let this_update = Time::decode(&mut reader)?;
    let next_update = Option::<Time>::decode(&mut reader)?;
    let seconds = |time: Time| time.to_unix_duration().as_secs();
    Ok((seconds(this_update), next_update.map_or(0, seconds)))
}
