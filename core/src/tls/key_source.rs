//! The source of a private key.

use crate::options::Secret;

/// The label of an encrypted PKCS#8 key.
pub(super) const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";

/// Where a private key comes from.
#[derive(Clone, Copy)]
pub(super) struct KeySource<'a> {
    /// The name of the option, for errors.
    pub(super) option: &'static str,
    /// The value of `tlsCertificateKeyFilePassword`.
    pub(super) password: Option<&'a Secret>,
}
