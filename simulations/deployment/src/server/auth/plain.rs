//! The server's side of PLAIN (RFC 4616): one message with user name and password.

use super::{Step, accounts::Accounts, roles::Login};
use crate::deployment::AuthMechanism;

/// Handles the client's only message. The message has an authorization identity, a user name and a
/// password with zero bytes between them; the identity is empty or equals the user name (AUTH-66).
/// Returns `None` if the message is not valid, the user is unknown or the password is wrong.
pub(super) fn start(accounts: &Accounts, database: &str, payload: &[u8]) -> Option<Step> {
    let (identity, name, password) = fields(payload)?;
    if !(identity.is_empty() || identity == name) || name.is_empty() || password.is_empty() {
        return None;
    }
    let account = accounts.find(database, name)?;
    let is_right = account.can_use(AuthMechanism::Plain) && account.user.password == password;
    is_right.then(|| Step::Done(Login::of(&account.user), Vec::new()))
}

fn fields(payload: &[u8]) -> Option<(&str, &str, &str)> {
    let text = std::str::from_utf8(payload).ok()?;
    let mut fields = text.split('\0');
    let all = (fields.next()?, fields.next()?, fields.next()?);
    fields.next().is_none().then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    #[test]
    fn both_payload_forms_of_the_specification_are_read() {
        let decoded = |text: &str| STANDARD.decode(text).expect("base64");
        let short = decoded("AHVzZXIAcGVuY2ls");
        assert_eq!(fields(&short), Some(("", "user", "pencil")));
        let long = decoded("dXNlcgB1c2VyAHBlbmNpbA==");
        assert_eq!(fields(&long), Some(("user", "user", "pencil")));
        for wrong in [&b"user\0pencil"[..], b"\0user\0pen\0cil", b"\0\xff\0x", b""] {
            assert_eq!(fields(wrong), None);
        }
    }
}
