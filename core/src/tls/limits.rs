//! Bounds on certificate chains, which are checked before any path to an authority is tried.
//!
//! Handshakes run under the client's lock. The library builds paths from the server's certificate
//! to a trusted authority by trying every certificate whose subject is the issuer that it looks
//! for. With n certificates of one subject there are n! paths, and the library gives up after
//! 200,000 steps or 100 signatures: ten certificates of 3 KB cost 170 ms (`docs/performance.md`).
//!
//! Keys have the library's bounds, 8,192 bits for RSA.

use rustls::{CertificateError, Error, OtherError, pki_types::CertificateDer};
use std::{fmt, sync::Arc};
use webpki::EndEntityCert;

/// Most certificates that a server may send, its own included. Chains in use have two to four.
pub const MAX_CERTIFICATES: usize = 10;

/// Most bytes of all certificates together. Chains in use have two to eight thousand.
pub const MAX_CHAIN_BYTES: usize = 32 * 1024;

/// Most certificates of authorities with the same subject, as cross-signed ones have.
pub const MAX_OF_ONE_SUBJECT: usize = 2;

/// Most subjects that more than one certificate has.
pub const MAX_SHARED_SUBJECTS: usize = 2;

/// Why a chain is refused before any path is tried.
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

/// Refuses a chain by its size and by the number of paths that it may have, before any path is
/// tried.
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
