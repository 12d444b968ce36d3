//! Limits of certificate chains. Those on the chain itself are checked before any path to an
//! authority is tried.
//!
//! Handshakes run under the client's lock, where a slow one delays all operations.
//!
//! The library `rustls-webpki` searches for a path from the server's certificate to a trusted
//! authority. Each step tries every certificate whose subject is the issuer of the previous
//! certificate. If n certificates all have one name as subject and issuer, there are n! paths. The
//! library gives up after 200,000 steps or 100 signatures. Ten such certificates, 3 KB together,
//! cost 170 ms (`docs/performance.md`).
//!
//! The library also limits the size of keys, for RSA to 8,192 bits.

use rustls::{
    CertificateError, Error, OtherError,
    pki_types::{
        AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm,
        alg_id,
    },
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use webpki::EndEntityCert;

/// The maximum number of certificates in a chain, that of the server included. Chains in use have
/// two to four. Among as many certificates of an OCSP response its signer is sought.
pub const MAX_CERTIFICATES: usize = 10;

/// The maximum size of all certificates in a chain together, in bytes. Chains in use have 2,000 to
/// 8,000.
pub const MAX_CHAIN_BYTES: usize = 32 * 1024;

/// The maximum number of authority certificates with the same subject. Cross-signed certificates
/// share a subject.
pub const MAX_OF_ONE_SUBJECT: usize = 2;

/// The maximum number of subjects that several authority certificates share.
pub const MAX_SHARED_SUBJECTS: usize = 2;

/// The maximum number of signatures that are checked to find a path to an authority. A path needs
/// one for each certificate except the authority's own, and paths in use need two or three.
///
/// A signature of ECDSA P-384 or P-521 counts as two. One of P-384 takes 500 µs with `ring`, and
/// many authorities of Mozilla's list use this algorithm.
pub const MAX_SIGNATURES: usize = 8;

/// The number of signatures for which one of ECDSA P-384 or P-521 counts.
const SLOW_SIGNATURE: usize = 2;

/// The limit that a server's chain exceeds. The number in a variant is the value that is above the
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    Certificates(usize),
    Bytes(usize),
    OneSubject,
    SharedSubjects(usize),
    Signatures,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificates(count) => write!(
                f,
                "the server sent {count} certificates; {MAX_CERTIFICATES} are accepted"
            ),
            Self::Bytes(bytes) => write!(
                f,
                "the server's certificates have {bytes} bytes; {MAX_CHAIN_BYTES} are accepted"
            ),
            Self::OneSubject => write!(
                f,
                "more than {MAX_OF_ONE_SUBJECT} of the server's certificates have the same subject"
            ),
            Self::SharedSubjects(count) => write!(
                f,
                "{count} subjects of the server's certificates occur more than once; \
                 {MAX_SHARED_SUBJECTS} are accepted"
            ),
            Self::Signatures => write!(
                f,
                "no path to a trusted authority was found within {MAX_SIGNATURES} checks of \
                 signatures"
            ),
        }
    }
}

impl std::error::Error for Excess {}

impl From<Excess> for Error {
    fn from(excess: Excess) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(excess))))
    }
}

/// Signature algorithms that count the signatures that they check, and refuse those above
/// [`MAX_SIGNATURES`].
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicUsize);

impl Counter {
    pub(super) fn algorithms(
        &self,
        all: &'static [&'static dyn SignatureVerificationAlgorithm],
    ) -> Vec<Counted<'_>> {
        let counted = |&algorithm: &&'static _| Counted {
            algorithm,
            counter: self,
        };
        all.iter().map(counted).collect()
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MAX_SIGNATURES
    }
}

/// A signature algorithm of a [`Counter`].
#[derive(Debug)]
pub(super) struct Counted<'a> {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    counter: &'a Counter,
}

impl SignatureVerificationAlgorithm for Counted<'_> {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = self.public_key_alg_id();
        let is_slow = key == alg_id::ECDSA_P384 || key == alg_id::ECDSA_P521;
        let cost = if is_slow { SLOW_SIGNATURE } else { 1 };
        if self.counter.0.fetch_add(cost, Ordering::Relaxed) + cost > MAX_SIGNATURES {
            return Err(InvalidSignature);
        }
        self.algorithm
            .verify_signature(public_key, message, signature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }
}

/// Checks the number and the size of the certificates of a chain.
pub(super) fn check_size(
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Result<(), Error> {
    let count = intermediates.len() + 1;
    if count > MAX_CERTIFICATES {
        return Err(Excess::Certificates(count).into());
    }
    let bytes = intermediates.iter().map(|certificate| certificate.len());
    let bytes = bytes.sum::<usize>() + end_entity.len();
    if bytes > MAX_CHAIN_BYTES {
        return Err(Excess::Bytes(bytes).into());
    }
    Ok(())
}

/// Checks the subjects of the certificates of a chain.
pub(super) fn check_subjects(intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    // A certificate that cannot be parsed is part of no path.
    let parsed = intermediates
        .iter()
        .filter_map(|certificate| EndEntityCert::try_from(certificate).ok());
    let mut subjects: Vec<Vec<u8>> = parsed.map(|parsed| parsed.subject().to_vec()).collect();
    subjects.sort_unstable();
    let mut shared = 0;
    for same in subjects.chunk_by(|one, next| one == next) {
        if same.len() > MAX_OF_ONE_SUBJECT {
            return Err(Excess::OneSubject.into());
        }
        shared += usize::from(same.len() > 1);
    }
    if shared > MAX_SHARED_SUBJECTS {
        return Err(Excess::SharedSubjects(shared).into());
    }
    Ok(())
}
