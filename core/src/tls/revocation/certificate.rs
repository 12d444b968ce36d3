//! The parts of a certificate that the check of revocation needs.

use super::response::Issuer;
use crate::tls::CertId;
use sha1::{Digest, Sha1};
use std::sync::Arc;
use webpki::Cert;
use x509_cert::{
    der::{
        self, AnyRef, Decode, Encode, Reader, SliceReader, Tag, TagNumber, Tagged,
        asn1::{Null, ObjectIdentifier},
    },
    ext::Extension,
    spki::AlgorithmIdentifierOwned,
};

/// The field with the extensions of a certificate (RFC 5280, section 4.1).
const EXTENSIONS: Tag = Tag::ContextSpecific {
    number: TagNumber::N3,
    constructed: true,
};

/// The form of a URL in the names of RFC 5280, section 4.2.1.6.
const URL: Tag = Tag::ContextSpecific {
    number: TagNumber::N6,
    constructed: false,
};

/// The algorithm SHA-1, which all responders accept in requests (RFC 5019, section 2.1.1).
pub(super) const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");

/// The extension that lists the OCSP responders of a certificate (RFC 5280, section 4.2.2.1).
const AUTHORITY_INFORMATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.1");

/// The access method of OCSP responders (RFC 5280, section 4.2.2.1).
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");

/// The extension of the features that a TLS server must have (RFC 7633, section 4).
const TLS_FEATURES: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.24");

/// The TLS features of stapled responses, one for one certificate and one for several (RFC 6066,
/// section 8; RFC 6961, section 2).
const STAPLING: [u16; 2] = [5, 17];

/// The maximum length of the URL of a responder, in bytes.
const MAX_URL_BYTES: usize = 2048;

impl CertId {
    /// Returns the OCSP request for the status of the certificate, in DER form. Empty if it cannot
    /// be encoded, for which a certificate would have to be larger than 256 MiB.
    pub(super) fn request(&self) -> Vec<u8> {
        self.encode().unwrap_or_default()
    }

    /// Returns the name of another certificate of the same issuer.
    #[cfg(test)]
    pub(crate) fn with_serial(&self, number: usize) -> Self {
        let serial = number.to_be_bytes().to_vec();
        Self {
            serial,
            ..self.clone()
        }
    }

    /// Returns the request (RFC 6960, section 4.1.1). The types of `x509-ocsp` refuse long serial
    /// numbers.
    fn encode(&self) -> der::Result<Vec<u8>> {
        let sequence = |parts: &[u8]| AnyRef::new(Tag::Sequence, parts)?.to_der();
        let octets = |bytes| AnyRef::new(Tag::OctetString, bytes)?.to_der();
        let algorithm = AlgorithmIdentifierOwned {
            oid: SHA1,
            parameters: Some(Null.into()),
        };
        let id = [
            algorithm.to_der()?,
            octets(&self.issuer_name)?,
            octets(&self.issuer_key)?,
            AnyRef::new(Tag::Integer, &self.serial)?.to_der()?,
        ];
        let id = sequence(&id.concat())?;
        let requests = sequence(&sequence(&id)?)?;
        sequence(&sequence(&requests)?)
    }
}

/// A certificate whose status is looked up.
#[derive(Debug)]
pub(in crate::tls) struct Subject {
    pub(in crate::tls) id: CertId,
    pub(super) issuer: Issuer,
    /// The URLs of the OCSP responders.
    pub(super) responders: Vec<String>,
    /// True if the certificate requires that the server staples an OCSP response.
    pub(in crate::tls) must_staple: bool,
}

impl Subject {
    /// Returns what is needed of `certificate`. `issuer_key` is the key of its issuer, as a
    /// SubjectPublicKeyInfo in DER form.
    pub(in crate::tls) fn new(certificate: &Cert<'_>, issuer_key: &[u8]) -> Option<Arc<Self>> {
        let issuer = Issuer::new(certificate.issuer(), issuer_key)?;
        let id = CertId {
            issuer_name: Sha1::digest(&issuer.name).into(),
            issuer_key: Sha1::digest(&issuer.key).into(),
            serial: certificate.serial().to_vec(),
        };
        let mut subject = Self {
            id,
            issuer,
            responders: Vec::new(),
            must_staple: false,
        };
        // Without the extensions, the status of the certificate is unknown, unless the server
        // staples it.
        for extension in extensions(&certificate.der()).unwrap_or_default() {
            let value = extension.extn_value.as_bytes();
            match extension.extn_id {
                AUTHORITY_INFORMATION => subject.responders = responders(value).unwrap_or_default(),
                TLS_FEATURES => subject.must_staple |= requires_stapling(value),
                _ => {}
            }
        }
        Some(Arc::new(subject))
    }
}

/// Returns the extensions of a certificate. The names in the certificate are not decoded, which
/// takes quadratic time with `x509-cert`.
fn extensions(certificate: &[u8]) -> der::Result<Vec<Extension>> {
    let whole = AnyRef::from_der(certificate)?;
    let signed = AnyRef::decode(&mut SliceReader::new(whole.value())?)?;
    let mut fields = SliceReader::new(signed.value())?;
    while !fields.is_finished() {
        let field = AnyRef::decode(&mut fields)?;
        if field.tag() == EXTENSIONS {
            return Vec::from_der(field.value());
        }
    }
    Ok(Vec::new())
}

/// Returns the URLs of the OCSP responders in an extension.
fn responders(extension: &[u8]) -> der::Result<Vec<String>> {
    let mut urls = Vec::new();
    for description in Vec::<AnyRef<'_>>::from_der(extension)? {
        let mut fields = SliceReader::new(description.value())?;
        let method = ObjectIdentifier::decode(&mut fields)?;
        let location = AnyRef::decode(&mut fields)?;
        let is_url = method == OCSP && location.tag() == URL;
        if is_url && location.value().len() <= MAX_URL_BYTES {
            urls.extend(str::from_utf8(location.value()).map(str::to_owned));
        }
    }
    Ok(urls)
}

fn requires_stapling(extension: &[u8]) -> bool {
    // An extension that cannot be read may require it.
    let features = Vec::<u16>::from_der(extension);
    features.map_or(true, |features| {
        features.iter().any(|feature| STAPLING.contains(feature))
    })
}
