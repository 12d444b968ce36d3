//! TLS without sockets: turns ciphertext into plaintext, and plaintext into ciphertext.
//!
//! Key exchange and record protection are those of `rustls` and its cryptography provider, which
//! has its own source of randomness. The same seed therefore gives the same decisions and the same
//! plaintext, but not the same ciphertext.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "tls")]
mod context;
#[cfg(feature = "cert-key-password")]
mod decryption;
#[cfg(feature = "tls")]
mod errors;
mod facts;
#[cfg(feature = "tls")]
mod key_source;
#[cfg(feature = "tls")]
mod keys;
#[cfg(feature = "tls")]
mod limits;
#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "tls")]
mod provider;
#[cfg(feature = "tls")]
mod records;
#[cfg(feature = "tls")]
mod resumption;
#[cfg(feature = "tls")]
mod revocation;
#[cfg(feature = "tls")]
mod revocation_check;
#[cfg(feature = "tls")]
mod session;
mod status;
#[cfg(feature = "tls")]
mod verifier;

#[cfg(not(feature = "tls"))]
pub use absent::{StatusQuery, TlsContext, TlsSession};
#[cfg(feature = "tls")]
pub use context::TlsContext;
#[cfg(feature = "tls")]
use errors::{broken, configuration, fault, from_library, revoked};
pub use facts::TlsFacts;
#[cfg(feature = "tls")]
pub use limits::{
    MAX_CERTIFICATES, MAX_CHAIN_BYTES, MAX_OF_ONE_SUBJECT, MAX_SHARED_SUBJECTS, MAX_SIGNATURES,
};
#[cfg(feature = "tls")]
pub use resumption::MAX_RESUMABLE_SERVERS;
#[cfg(feature = "tls")]
pub use revocation::StatusQuery;
#[cfg(feature = "tls")]
pub use session::TlsSession;
pub(crate) use status::Verdict;
pub use status::{CertId, OcspStatement, RevocationStatus, StatusSource};

#[cfg(test)]
pub(crate) mod tests;
