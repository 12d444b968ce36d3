//! The signatures of OCSP responses.

use rustls::crypto::WebPkiSupportedAlgorithms;
use x509_cert::der::{AnyRef, Decode, Reader, SliceReader, asn1::BitStringRef};

/// True if `signature` is that of `message` by the key in `key_info`, a SubjectPublicKeyInfo in DER
/// form. `algorithm` is the content of the AlgorithmIdentifier of the signature.
pub(super) fn is_signed_by(
    key_info: &[u8],
    algorithms: &WebPkiSupportedAlgorithms,
    algorithm: &[u8],
    message: &[u8],
    signature: &[u8],
) -> bool {
    let Some((key_algorithm, key)) = key(key_info) else {
        return false;
    };
    let mut algorithms = algorithms.all.iter();
    algorithms.any(|candidate| {
        candidate.signature_alg_id().as_ref() == algorithm
            && candidate.public_key_alg_id().as_ref() == key_algorithm
            && candidate.verify_signature(key, message, signature).is_ok()
    })
}

/// Returns the content of the AlgorithmIdentifier, and the bits of the key.
pub(super) fn key(key_info: &[u8]) -> Option<(&[u8], &[u8])> {
    let content = AnyRef::from_der(key_info).ok()?.value();
    let mut reader = SliceReader::new(content).ok()?;
    let algorithm = AnyRef::decode(&mut reader).ok()?;
    let key = BitStringRef::decode(&mut reader).ok()?;
    reader
        .is_finished()
        .then(|| (algorithm.value(), key.raw_bytes()))
}
