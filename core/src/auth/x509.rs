//! MONGODB-X509: the certificate of the TLS connection names the user.

use super::progress::{Failure, Progress};
use bson::{RawDocumentBuf, cstr, rawdoc};

/// The client side of MONGODB-X509: one command ([AUTH-62]).
///
/// [AUTH-62]: crate::requirements::authentication#AUTH-62
pub(super) struct X509 {
    username: Option<String>,
}

impl X509 {
    pub(super) fn new(username: Option<&str>) -> Self {
        // A server takes the user from the certificate if the command has no `user` (AUTH-46). An
        // empty name, as in `mongodb://@host`, is no name.
        let username = username.filter(|name| !name.is_empty());
        Self {
            username: username.map(str::to_owned),
        }
    }

    /// Returns the only command.
    pub(super) fn start(&self) -> RawDocumentBuf {
        let mut command = rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509" };
        if let Some(username) = &self.username {
            command.append(cstr!("user"), username.as_str());
        }
        command
    }

    /// Handles the reply with `ok: 1`, or the one to the speculative command. The client does not
    /// check the fields `dbname` and `user` (AUTH-64).
    pub(super) fn on_reply(&self) -> Result<Progress, Failure> {
        Ok(Progress::Done)
    }
}
