//! Commands whose documents nobody may see in events: they carry passwords or proofs of them
//! (AUTH-22, HELLO-1).

use crate::error::{CommandError, Error, ErrorKind};
use bson::RawDocument;

/// In lower case: servers take `saslstart` for `saslStart`, and so must whoever hides it.
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

/// True if neither this command nor its reply may be shown.
pub(super) fn is_sensitive(name: &str, command: &RawDocument) -> bool {
    let is = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
    is(&SENSITIVE)
        || is(&["hello", "ismaster"])
            && matches!(command.get("speculativeAuthenticate"), Ok(Some(_)))
}

/// The same failure without anything that the server wrote in words or documents.
pub(super) fn without_words(error: &Error) -> Error {
    let ErrorKind::Command(fault) = error.kind() else {
        return error.clone();
    };
    let fault = CommandError {
        message: String::new(),
        reply: None,
        ..(**fault).clone()
    };
    let bare = Error::new(ErrorKind::Command(Box::new(fault))).with_labels(error.labels());
    match error.server() {
        Some(server) => bare.with_server(server),
        None => bare,
    }
}
