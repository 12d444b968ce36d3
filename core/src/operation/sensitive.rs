//! Sensitive commands. Command events show neither these commands nor their replies, because both
//! can hold passwords or proofs of passwords (AUTH-22, HELLO-1).

use crate::error::{CommandError, Error, ErrorKind};
use bson::RawDocument;

/// Names of sensitive commands, in lower case. The comparison ignores case.
const SENSITIVE: [&str; 9] = [
    "authenticate",
    "saslstart",
    "saslcontinue",
    "getnonce",
    "createuser",
    "updateuser",
    "copydbgetnonce",
    "copydbsaslstart",
    "copydb",
];

/// True if command events must not show this command and its reply.
pub(super) fn is_sensitive(name: &str, command: &RawDocument) -> bool {
    let is = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
    is(&SENSITIVE)
        || is(&["hello", "ismaster"])
            && matches!(command.get("speculativeAuthenticate"), Ok(Some(_)))
}

/// Returns the error of a command without the message, the reply document and the unknown labels of
/// the server. Errors
/// of other kinds are returned unchanged.
pub(super) fn without_server_text(error: &Error) -> Error {
    let ErrorKind::Command(fault) = error.kind() else {
        return error.clone();
    };
    let fault = CommandError {
        message: String::new(),
        reply: None,
        ..fault.clone()
    };
    let bare = Error::new(ErrorKind::Command(fault)).with_labels(&error.labels().clone().known());
    match error.server() {
        Some(server) => bare.with_server(server),
        None => bare,
    }
}
