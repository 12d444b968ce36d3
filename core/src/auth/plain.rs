//! PLAIN (RFC 4616): user name and password in clear text, which the server checks with LDAP.

use super::{
    progress::{Failure, Progress},
    sasl::{self, SaslReply},
};
use crate::options::{Secret, check_texts};
use bson::RawDocumentBuf;
use zeroize::Zeroizing;

/// The client side of one PLAIN conversation: one command, to which the server replies with `done`
/// (AUTH-65).
pub(super) struct Plain {
    username: String,
    password: Secret,
}

impl Plain {
    /// Fails if the user name or the password has a zero byte, and for an empty password (RFC 4616,
    /// section 2). Some LDAP servers accept an empty password without a check.
    pub(super) fn new(username: &str, password: Secret) -> Result<Self, Failure> {
        check_texts([
            ("the user name", Some(username)),
            ("the password", Some(password.expose())),
        ])?;
        Ok(Self {
            username: username.to_owned(),
            password,
        })
    }

    /// Returns the only command. Its payload is an empty authorization identity, the user name and
    /// the password, separated by zero bytes (AUTH-66).
    pub(super) fn start(&self) -> RawDocumentBuf {
        let (name, password) = (self.username.as_bytes(), self.password.expose().as_bytes());
        let payload = Zeroizing::new([b"\0", name, b"\0", password].concat());
        sasl::start("PLAIN", &payload)
    }

    pub(super) fn on_reply(&self, reply: &SaslReply) -> Result<Progress, Failure> {
        match reply.done {
            true => Ok(Progress::Done),
            false => Err("the server does not end the conversation".to_owned()),
        }
    }
}
