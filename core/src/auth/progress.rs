//! The results that the machines of the mechanisms give to the conversation.

use super::{gssapi::KerberosStep, keys::KeyDerivation, need::Need};
use bson::RawDocumentBuf;

/// The next step of a mechanism.
#[derive(Debug)]
pub(super) enum Progress {
    /// Send this command.
    Send(RawDocumentBuf),
    /// Derive keys, because the cache does not hold them.
    Derive(KeyDerivation),
    /// Obtain a part of the credential, because the cache does not hold it.
    Fetch(Need),
    /// Run this step of a Kerberos library.
    Kerberos(KerberosStep),
    /// Authentication succeeded.
    Done,
}

/// The reason why authentication fails. Contains no secret.
pub(super) type Failure = String;
