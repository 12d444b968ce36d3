//! OCSP responses: what they state, and whether they are valid (RFC 6960, section 3.2).

use super::{
    certificate::{SHA1, Subject},
    signature::{is_signed_by, key},
    single::{Single, inside},
};
use crate::tls::{OcspStatement, Verdict, limits::MAX_CERTIFICATES};
use rustls::{
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateDer, Der, TrustAnchor, UnixTime},
};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage};
use x509_cert::{
    der::{
        self, AnyRef, Decode, Encode, Reader, Tag, TagMode, TagNumber, Tagged,
        asn1::{BitStringRef, ObjectIdentifier, OctetStringRef},
    },
    ext::Extension,
};
use x509_ocsp::{CertStatus, OcspGeneralizedTime, OcspResponse, OcspResponseStatus};

const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");

/// The type of the one kind of response that OCSP defines (RFC 6960, section 4.2.1).
const BASIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");

/// The purpose of a certificate that signs OCSP responses for its issuer, `id-kp-OCSPSigning` (RFC
/// 6960, section 4.2.2.2), as the content of its DER form.
const OCSP_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09];

/// How far in the future the time of a response or a CRL may be, in seconds, because clocks differ.
pub(super) const MAX_CLOCK_DIFFERENCE: u64 = 300;

/// How long a response is valid that does not state it, in seconds: one day.
const MAX_AGE: u64 = 24 * 60 * 60;

/// The authority that issued a certificate.
#[derive(Debug)]
pub(in crate::tls) struct Issuer {
    /// The name in DER form.
    pub(super) name: Vec<u8>,
    /// The name in DER form, without the tag and the length.
    pub(super) name_content: Vec<u8>,
    /// The bits of the key.
    pub(super) key: Vec<u8>,
    /// The SubjectPublicKeyInfo in DER form.
    pub(super) key_info: Vec<u8>,
}

impl Issuer {
    /// Returns the issuer with this name and key, the name without its tag and length. `None` if
    /// the key cannot be read.
    pub(super) fn new(name_content: &[u8], key_info: &[u8]) -> Option<Self> {
        let name = AnyRef::new(Tag::Sequence, name_content).ok()?;
        let (_, key) = key(key_info)?;
        Some(Self {
            name: name.to_der().ok()?,
            name_content: name_content.to_vec(),
            key: key.to_vec(),
            key_info: key_info.to_vec(),
        })
    }

    fn anchor(&self) -> Option<TrustAnchor<'_>> {
        let key_info = AnyRef::from_der(&self.key_info).ok()?;
        Some(TrustAnchor {
            subject: Der::from_slice(&self.name_content),
            subject_public_key_info: Der::from_slice(key_info.value()),
            name_constraints: None,
        })
    }
}

impl OcspStatement {
    /// Returns what a response states about a certificate at `now`, in seconds since 1970. The
    /// error is the reason why the response is not valid.
    pub(in crate::tls) fn read(
        bytes: &[u8],
        subject: &Subject,
        algorithms: &WebPkiSupportedAlgorithms,
        now: u64,
    ) -> Result<Self, String> {
        let response = OcspResponse::from_der(bytes).map_err(|_| malformed())?;
        if response.response_status != OcspResponseStatus::Successful {
            return Err(format!("the status is {:?}", response.response_status));
        }
        let content = response.response_bytes.ok_or_else(malformed)?;
        if content.response_type != BASIC {
            return Err("the kind of response is not known".to_owned());
        }
        let signed = Signed::read(content.response.as_bytes()).map_err(|_| malformed())?;
        let data = Data::read(signed.data).map_err(|_| malformed())?;
        refuse_critical(&data.extensions)?;
        let mut names = Names::new(subject);
        let singles = data.singles.iter();
        let singles: Vec<_> = singles.filter(|single| names.is_of(single)).collect();
        if singles.is_empty() {
            return Err("it does not cover the certificate".to_owned());
        }
        if !signed.is_authorized(&data.responder, &subject.issuer, algorithms, now) {
            let problem = "it is not signed by the issuer of the certificate, or by a certificate \
                           that the issuer allows to sign OCSP responses";
            return Err(problem.to_owned());
        }
        let mut result = Err(malformed());
        for single in singles {
            let answer = Self::of(single, now);
            if answer
                .as_ref()
                .is_ok_and(|answer| answer.verdict == Verdict::Revoked)
            {
                return answer;
            }
            if result.is_err() {
                result = answer;
            }
        }
        result
    }

    /// Returns the statement of one part of a response. The error is the reason why it is not valid
    /// at `now`.
    fn of(single: &Single<'_>, now: u64) -> Result<Self, String> {
        refuse_critical(&single.extensions)?;
        let answer = Self {
            verdict: match single.status {
                CertStatus::Good(_) => Verdict::Good,
                CertStatus::Revoked(_) => Verdict::Revoked,
                CertStatus::Unknown(_) => Verdict::Unknown,
            },
            this_update: seconds(single.this_update),
            next_update: single.next_update.map(seconds),
        };
        answer.check_times(now)?;
        Ok(answer)
    }

    fn check_times(&self, now: u64) -> Result<(), String> {
        let end = self.next_update;
        let end = end.unwrap_or_else(|| self.this_update.saturating_add(MAX_AGE));
        if self.this_update > now.saturating_add(MAX_CLOCK_DIFFERENCE) {
            Err("it is not valid yet".to_owned())
        } else if now >= end {
            Err("it has expired".to_owned())
        } else {
            Ok(())
        }
    }
}

fn malformed() -> String {
    "it is malformed".to_owned()
}

/// Refuses extensions that a client must understand. None of those in responses has to be
/// understood to know the status (RFC 6960, section 4.4).
fn refuse_critical(extensions: &[Extension]) -> Result<(), String> {
    match extensions.iter().find(|extension| extension.critical) {
        Some(extension) => Err(format!("its extension {} is not known", extension.extn_id)),
        None => Ok(()),
    }
}

fn seconds(time: OcspGeneralizedTime) -> u64 {
    time.0.to_unix_duration().as_secs()
}

/// The names that a certificate has in OCSP: one for each hash algorithm.
struct Names<'a> {
    subject: &'a Subject,
    /// The hashes of the name and the key of the issuer, by the algorithm. Each algorithm that
    /// occurs is used once, because a peer chooses the number of parts of a response.
    hashes: Vec<(ObjectIdentifier, Vec<u8>, Vec<u8>)>,
}

impl<'a> Names<'a> {
    const fn new(subject: &'a Subject) -> Self {
        Self {
            subject,
            hashes: Vec::new(),
        }
    }

    /// True if a part of a response is about the certificate.
    fn is_of(&mut self, single: &Single<'_>) -> bool {
        if single.serial != self.subject.id.serial {
            return false;
        }
        let algorithm = single.algorithm;
        if !self.hashes.iter().any(|(known, ..)| *known == algorithm) {
            let hash: fn(&[u8]) -> Vec<u8> = match algorithm {
                SHA1 => |bytes| Sha1::digest(bytes).to_vec(),
                SHA256 => |bytes| Sha256::digest(bytes).to_vec(),
                SHA384 => |bytes| Sha384::digest(bytes).to_vec(),
                SHA512 => |bytes| Sha512::digest(bytes).to_vec(),
                _ => return false,
            };
            let issuer = &self.subject.issuer;
            let hashes = (algorithm, hash(&issuer.name), hash(&issuer.key));
            self.hashes.push(hashes);
        }
        self.hashes.iter().any(|(known, name, key)| {
            *known == algorithm && single.issuer_name == name && single.issuer_key == key
        })
    }
}

/// The signed form of a response or a list.
pub(super) struct Signed<'a> {
    /// The part that is signed.
    pub(super) data: &'a [u8],
    /// The content of the AlgorithmIdentifier.
    algorithm: &'a [u8],
    signature: &'a [u8],
    certificates: Vec<AnyRef<'a>>,
}

impl<'a> Signed<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> der::Result<Self> {
        let mut reader = inside(&AnyRef::from_der(bytes)?)?;
        let data = reader.tlv_bytes()?;
        let algorithm = AnyRef::decode(&mut reader)?;
        let signature = BitStringRef::decode(&mut reader)?;
        let certificates = reader.context_specific(TagNumber::N0, TagMode::Explicit)?;
        let signed = Self {
            data,
            algorithm: algorithm.value(),
            signature: signature.raw_bytes(),
            certificates: certificates.unwrap_or_default(),
        };
        reader.finish(signed)
    }

    /// True if the response is signed by the issuer itself, or by a certificate with which the
    /// issuer delegates this (RFC 6960, section 4.2.2.2). Whether that certificate was revoked is
    /// not checked.
    fn is_authorized(
        &self,
        responder: &AnyRef<'_>,
        issuer: &Issuer,
        algorithms: &WebPkiSupportedAlgorithms,
        now: u64,
    ) -> bool {
        if is_named(responder, &issuer.name, &issuer.key) {
            return self.is_signed_by(&issuer.key_info, algorithms);
        }
        let time = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let Some(anchor) = issuer.anchor() else {
            return false;
        };
        // Only one certificate is checked, because a peer chooses how many there are.
        let mut certificates = self.certificates.iter().take(MAX_CERTIFICATES);
        let Some((der, signer)) = certificates.find_map(|certificate| {
            let der = CertificateDer::from(certificate.to_der().ok()?);
            let parsed = EndEntityCert::try_from(&der).ok()?;
            let signer = Issuer::new(parsed.subject(), &parsed.subject_public_key_info())?;
            is_named(responder, &signer.name, &signer.key).then_some((der, signer))
        }) else {
            return false;
        };
        // The certificate is checked first, because a peer chooses the keys of others.
        let is_delegate = EndEntityCert::try_from(&der).is_ok_and(|certificate| {
            let usage = KeyUsage::required(OCSP_SIGNING);
            let anchors = std::slice::from_ref(&anchor);
            certificate
                .verify_for_usage(algorithms.all, anchors, &[], time, usage, None, None)
                .is_ok()
        });
        is_delegate && self.is_signed_by(&signer.key_info, algorithms)
    }

    pub(super) fn is_signed_by(
        &self,
        key_info: &[u8],
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> bool {
        is_signed_by(
            key_info,
            algorithms,
            self.algorithm,
            self.data,
            self.signature,
        )
    }
}

/// The data of a response.
///
/// The type `ResponseData` of `x509-ocsp` also decodes the name of the responder. That takes
/// quadratic time for a name with a large set of attributes, and a peer chooses the name.
struct Data<'a> {
    /// The name or the key of the responder, not decoded.
    responder: AnyRef<'a>,
    singles: Vec<Single<'a>>,
    extensions: Vec<Extension>,
}

impl<'a> Data<'a> {
    fn read(bytes: &'a [u8]) -> der::Result<Self> {
        let mut reader = inside(&AnyRef::from_der(bytes)?)?;
        let mut responder = AnyRef::decode(&mut reader)?;
        if responder.tag() == explicit(TagNumber::N0) {
            // This was the version, which can be omitted.
            responder = AnyRef::decode(&mut reader)?;
        }
        let _produced_at = OcspGeneralizedTime::decode(&mut reader)?;
        let singles = Single::read_all(&AnyRef::decode(&mut reader)?)?;
        let extensions = reader.context_specific(TagNumber::N1, TagMode::Explicit)?;
        let data = Self {
            responder,
            singles,
            extensions: extensions.unwrap_or_default(),
        };
        reader.finish(data)
    }
}

const fn explicit(number: TagNumber) -> Tag {
    Tag::ContextSpecific {
        number,
        constructed: true,
    }
}

/// True if the responder of a response has this name, in DER form, and this key.
fn is_named(responder: &AnyRef<'_>, name: &[u8], key: &[u8]) -> bool {
    const NAME: Tag = explicit(TagNumber::N1);
    const KEY: Tag = explicit(TagNumber::N2);
    match responder.tag() {
        NAME => responder.value() == name,
        KEY => {
            let hash = OctetStringRef::from_der(responder.value());
            hash.is_ok_and(|hash| hash.as_bytes() == Sha1::digest(key).as_slice())
        }
        _ => false,
    }
}
