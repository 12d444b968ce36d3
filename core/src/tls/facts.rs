//! Facts of an established TLS connection.

use super::RevocationStatus;

/// The version, the cipher suite and the certificates of a TLS connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFacts {
    /// The version of the protocol, for example `TLS 1.3`.
    pub version: String,
    /// The name of the cipher suite in the registry of IANA, for example
    /// `TLS13_AES_256_GCM_SHA384`, in which `TLS13` marks the suites of version 1.3.
    pub cipher_suite: String,
    /// The certificates of the server in DER form: its own first, then those of issuers that it
    /// sent.
    pub certificates: Vec<Vec<u8>>,
    /// The result of the check whether the server's certificate was revoked.
    pub revocation: RevocationStatus,
}
