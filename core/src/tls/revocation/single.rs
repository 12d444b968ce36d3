//! The parts of an OCSP response, each of which is about one certificate (RFC 6960, section 4.2.1).

use x509_cert::{
    der::{
        self, AnyRef, Decode, Reader, SliceReader, Tag, TagMode, TagNumber, Tagged,
        asn1::{ObjectIdentifier, OctetStringRef},
    },
    ext::Extension,
};
use x509_ocsp::{CertStatus, OcspGeneralizedTime};

/// One part of a response.
///
/// The type `SingleResponse` of `x509-ocsp` refuses serial numbers of more than 21 bytes. Some
/// authorities use longer ones, which clients should accept (RFC 5280, section 4.1.2.2).
pub(super) struct Single<'a> {
    /// The hash algorithm of the two hashes.
    pub(super) algorithm: ObjectIdentifier,
    /// The hash of the issuer's name.
    pub(super) issuer_name: &'a [u8],
    /// The hash of the issuer's key.
    pub(super) issuer_key: &'a [u8],
    /// The content of the serial number in DER form.
    pub(super) serial: &'a [u8],
    pub(super) status: CertStatus,
    pub(super) this_update: OcspGeneralizedTime,
    pub(super) next_update: Option<OcspGeneralizedTime>,
    pub(super) extensions: Vec<Extension>,
}

impl<'a> Single<'a> {
    /// Reads a sequence of parts.
    pub(super) fn read_all(sequence: &AnyRef<'a>) -> der::Result<Vec<Self>> {
        let mut reader = inside(sequence)?;
        let mut singles = Vec::new();
        while !reader.is_finished() {
            singles.push(Self::read(&AnyRef::decode(&mut reader)?)?);
        }
        Ok(singles)
    }

    fn read(part: &AnyRef<'a>) -> der::Result<Self> {
        let mut reader = inside(part)?;
        let mut id = inside(&AnyRef::decode(&mut reader)?)?;
        let mut algorithm = inside(&AnyRef::decode(&mut id)?)?;
        // Parameters of the algorithm can follow. No hash has any that matter.
        let oid = ObjectIdentifier::decode(&mut algorithm)?;
        let issuer_name = OctetStringRef::decode(&mut id)?;
        let issuer_key = OctetStringRef::decode(&mut id)?;
        let serial = AnyRef::decode(&mut id)?;
        serial.tag().assert_eq(Tag::Integer)?;
        id.finish(())?;
        let status = CertStatus::decode(&mut reader)?;
        let this_update = OcspGeneralizedTime::decode(&mut reader)?;
        let next_update = reader.context_specific(TagNumber::N0, TagMode::Explicit)?;
        let extensions = reader.context_specific(TagNumber::N1, TagMode::Explicit)?;
        let single = Self {
            algorithm: oid,
            issuer_name: issuer_name.as_bytes(),
            issuer_key: issuer_key.as_bytes(),
            serial: serial.value(),
            status,
            this_update,
            next_update,
            extensions: Option::<Vec<_>>::unwrap_or_default(extensions),
        };
        reader.finish(single)
    }
}

/// Returns a reader of the content of a sequence.
pub(super) fn inside<'a>(sequence: &AnyRef<'a>) -> der::Result<SliceReader<'a>> {
    sequence.tag().assert_eq(Tag::Sequence)?;
    SliceReader::new(sequence.value())
}
