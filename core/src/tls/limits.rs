//! Limits of certificate chains, which are checked before any path to an authority is tried.
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

use rustls::{CertificateError, Error, OtherError, pki_types::CertificateDer};
use std::{fmt, sync::Arc};
use webpki::EndEntityCert;

/// The maximum number of certificates in a chain, that of the server included. Chains in use have
/// two to four.
pub const MAX_CERTIFICATES: usize = 10;

/// The maximum size of all certificates in a chain together, in bytes. Chains in use have 2,000 to
/// 8,000.
pub const MAX_CHAIN_BYTES: usize = 32 * 1024;

/// The maximum number of authority certificates with the same subject. Cross-signed certificates
/// share a subject.
pub const MAX_OF_ONE_SUBJECT: usize = 2;

/// The maximum number of subjects that several authority certificates share.
pub const MAX_SHARED_SUBJECTS: usize = 2;

/// The limit that a server's chain exceeds. The number in a variant is the value that is above the
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    Certificates(usize),
    Bytes(usize),
    OneSubject,
    SharedSubjects(usize),
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
        }
    }
}

impl std::error::Error for Excess {}

impl From<Excess> for Error {
    fn from(excess: Excess) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(excess))))
    }
}

/// Checks that a chain exceeds no limit of this module.
pub(super) fn check_chain(
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
