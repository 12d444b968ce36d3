//! The form in which server descriptions and pools keep the error that made the server Unknown.

use crate::error::{
    CommandError, Error, ErrorKind, InsertManyError, MAX_CAUSE_TEXT_BYTES, WriteConcernError,
    shortened,
};

/// Returns the error without the server's reply and with the server's message shortened. A reply
/// can contain times, which would make two equal errors unequal (B.5, trap 4). Of the errors of a
/// write, only the first write concern error is kept, since errors of statements say nothing about
/// the server (SDAM-94).
pub(crate) fn without_reply(error: &Error) -> Error {
    let kind = match error.kind() {
        ErrorKind::Command(fault) => ErrorKind::Command(bare(fault)),
        ErrorKind::Authentication {
            mechanism,
            message,
            cause: Some(cause),
        } => ErrorKind::Authentication {
            mechanism,
            message: message.clone(),
            cause: Some(Box::new(bare(cause))),
        },
        ErrorKind::InsertMany(fault) => {
            let concern = fault
                .write_concern_error
                .as_ref()
                .map(|w| WriteConcernError {
                    message: shortened(&w.message, MAX_CAUSE_TEXT_BYTES).to_owned(),
                    code_name: w.code_name.clone(),
                    details: None,
                    ..*w
                });
            ErrorKind::InsertMany(InsertManyError {
                write_errors: None,
                write_concern_error: concern,
                more_write_concern_errors: Vec::new(),
                ..*fault
            })
        }
        _ => return error.clone(),
    };
    let bare = Error::new(kind).with_labels(error.labels());
    match error.server() {
        Some(server) => bare.with_server(server),
        None => bare,
    }
}

/// Returns a command error without its reply and with a shortened message.
fn bare(fault: &CommandError) -> CommandError {
    CommandError {
        message: shortened(&fault.message, MAX_CAUSE_TEXT_BYTES).to_owned(),
        code_name: fault.code_name.clone(),
        reply: None,
        ..*fault
    }
}

#[cfg(test)]
mod tests {
    use super::{super::application::state_change, *};
    use bson::{RawDocumentBuf, rawdoc};

    fn command(reply: RawDocumentBuf) -> Error {
        let fault = CommandError::from_reply(&reply);
        Error::new(ErrorKind::Command(fault))
    }

    fn write(reply: RawDocumentBuf) -> Error {
        let fault = InsertManyError::from_reply(&reply)
            .expect("valid")
            .expect("it has errors");
        Error::new(ErrorKind::InsertMany(fault))
    }

    #[test]
    fn an_error_stored_in_a_server_description_is_bounded() {
        let long = "x".repeat(1 << 20);
        let statement = rawdoc! { "code": 1, "errmsg": long.as_str() };
        let concern = rawdoc! { "code": 91, "errmsg": long.as_str(), "errInfo": { "a": 1 } };
        let refused = Error::new(ErrorKind::Authentication {
            mechanism: "SCRAM-SHA-256",
            message: "refused".into(),
            cause: Some(Box::new(CommandError::from_reply(
                &rawdoc! { "ok": 0, "code": 18, "errmsg": long.as_str() },
            ))),
        });
        for error in [
            command(rawdoc! { "ok": 0, "code": 91, "errmsg": long.as_str() }),
            write(rawdoc! {
                "ok": 1, "writeErrors": [statement], "writeConcernError": concern,
            }),
            refused,
        ] {
            let kept = without_reply(&error);
            assert!(
                format!("{kept:?}").len() < 2 * MAX_CAUSE_TEXT_BYTES,
                "{kept:?}"
            );
            assert_eq!(state_change(&kept), state_change(&error));
        }
    }

    #[test]
    fn stored_errors_that_differ_only_in_their_replies_are_equal() {
        // Two checks that fail with the same error must give equal descriptions (B.5, trap 4).
        let at = |time| {
            without_reply(&command(
                rawdoc! { "ok": 0, "code": 1, "errmsg": "x", "time": time },
            ))
        };
        assert_eq!(at(1), at(2));
    }
}
