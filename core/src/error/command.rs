//! Errors that a server sent.

use super::{
    TopologyVersion,
    fields::MAX_FIELDS,
    integer, pick, shortened,
    text::{MAX_MESSAGE_TEXT_BYTES, MAX_NAME_BYTES},
};
use crate::text::printable;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, spec::ElementType};
use serde::Serialize;
use std::{fmt, sync::Arc, time::Duration};

/// The maximum size in bytes of an error reply that is kept as a whole. Of a larger reply, only the
/// other fields of [`CommandError`] are kept.
pub const MAX_ERROR_REPLY_BYTES: usize = 1024 * 1024;

/// The error of a reply with `ok: 0`.
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommandError {
    /// The field `code`; 0 if it is absent, zero, or no integer that fits into an `i32`.
    pub code: i32,
    /// The field `codeName`, at most 256 bytes of it; empty if it is absent or not a string.
    pub code_name: String,
    /// The field `errmsg`, at most [`MAX_MESSAGE_TEXT_BYTES`] of it; empty if it is absent or not a
    /// string. Its unprintable characters are [escaped](crate::text::printable), as in the other
    /// texts of a server.
    #[serde(rename = "errmsg")]
    pub message: String,
    /// The field `topologyVersion`, which state change errors have; `None` if it is absent,
    /// malformed or too large.
    #[serde(skip)]
    pub topology_version: Option<TopologyVersion>,
    /// The field `baseBackoffMS`: the base of the backoff that an overloaded server chose. `None`
    /// if it is absent or not a positive number ([BP-6]).
    ///
    /// [BP-6]: crate::requirements::retries#BP-6
    #[serde(skip)]
    pub base_backoff: Option<Duration>,
    /// The whole reply, shared by all copies of the error. `None` if the reply exceeds
    /// [`MAX_ERROR_REPLY_BYTES`], in the errors of server descriptions and of events of sensitive
    /// commands, and in errors of authentication, because a server can repeat secrets.
    #[serde(skip)]
    pub reply: Option<Arc<RawDocumentBuf>>,
}

impl CommandError {
    /// Returns the error code of the server; `None` if it sent none.
    ///
    /// ```
    /// use onionskin_core::error::CommandError;
    ///
    /// assert_eq!(CommandError::default().code(), None);
    /// ```
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        (self.code != 0).then_some(self.code)
    }

    /// Reads an error reply. The server may omit any of the fields.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::error::CommandError;
    ///
    /// let reply = rawdoc! { "ok": 0, "code": 59, "codeName": "CommandNotFound" };
    /// let error = CommandError::from_reply(&reply);
    /// assert_eq!((error.code(), &*error.code_name), (Some(59), "CommandNotFound"));
    /// ```
    #[must_use]
    pub fn from_reply(reply: &RawDocument) -> Self {
        let keys = [
            "code",
            "codeName",
            "errmsg",
            "topologyVersion",
            "baseBackoffMS",
        ];
        let [code, code_name, message, version, backoff] = pick(reply, keys);
        let is_kept = reply.as_bytes().len() <= MAX_ERROR_REPLY_BYTES;
        Self {
            code: number(code).unwrap_or_default(),
            code_name: text(code_name, MAX_NAME_BYTES),
            message: message_of(reply, message),
            topology_version: version
                .and_then(|v| v.as_document())
                .and_then(TopologyVersion::from_document),
            base_backoff: positive_millis(backoff),
            reply: is_kept.then(|| Arc::new(reply.to_owned())),
        }
    }
}

/// Shows only the size of the reply, because a reply can have a megabyte.
impl fmt::Debug for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            code_name,
            message,
            topology_version,
            base_backoff,
            reply,
        } = self;
        f.debug_struct("CommandError")
            .field("code", code)
            .field("code_name", code_name)
            .field("message", message)
            .field("topology_version", topology_version)
            .field("base_backoff", base_backoff)
            .field("reply_bytes", &reply.as_ref().map(|r| r.as_bytes().len()))
            .finish()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.message.is_empty() {
            "no message"
        } else {
            &self.message
        })?;
        match (self.code(), self.code_name.as_str()) {
            (Some(code), "") => write!(f, " (code {code})"),
            (Some(code), name) => write!(f, " (code {code}, {name})"),
            (None, "") => Ok(()),
            (None, name) => write!(f, " ({name})"),
        }
    }
}

/// Returns a text of a reply for messages, cut to `max` bytes; an empty one if `value` is `None` or
/// no text. Unprintable characters are escaped, so that a server cannot forge a line of a log, or
/// control a terminal.
pub(super) fn text(value: Option<RawBsonRef<'_>>, max: usize) -> String {
    let text = value.and_then(|v| v.as_str()).unwrap_or_default();
    shortened(&printable(shortened(text, max)), max).to_owned()
}

/// Returns the message of an error of a server, where `value` is its field `errmsg` if it could be
/// read. In a message that is not UTF-8 the wrong bytes are replaced: a server that cuts a long key
/// can cut it within a character.
pub(super) fn message_of(error: &RawDocument, value: Option<RawBsonRef<'_>>) -> String {
    if value.is_some() {
        return text(value, MAX_MESSAGE_TEXT_BYTES);
    }
    let fields = onionskin_bson::fields(error).map_while(Result::ok);
    let mut messages = fields.take(MAX_FIELDS).filter(|field| {
        field.name_bytes() == b"errmsg" && field.element_type() == ElementType::String
    });
    let stored = messages.next().map_or(&[][..], |field| field.value_bytes());
    // The length is before the text, and a zero byte after it.
    let bytes = stored.get(4..stored.len().saturating_sub(1));
    let bytes = bytes.unwrap_or_default();
    let bytes = &bytes[..bytes.len().min(MAX_MESSAGE_TEXT_BYTES)];
    let message = String::from_utf8_lossy(bytes);
    text(Some(RawBsonRef::String(&message)), MAX_MESSAGE_TEXT_BYTES)
}

/// Returns an integer that the server sent as int32, int64 or double. Returns `None` if the value
/// has another type, is not whole, or does not fit into an `i32`.
pub(super) fn number(value: Option<RawBsonRef<'_>>) -> Option<i32> {
    i32::try_from(integer(value?)?).ok()
}

/// Returns a number of milliseconds that the server sent as int32, int64 or double. Returns `None`
/// for another type and for a number below 1. A number above [`u32::MAX`] is lowered to that value,
/// so that sums of such times do not overflow.
pub(super) fn positive_millis(value: Option<RawBsonRef<'_>>) -> Option<Duration> {
    let millis = match value? {
        RawBsonRef::Int32(n) => n.into(),
        RawBsonRef::Int64(n) => n,
        RawBsonRef::Double(n) => n as i64,
        _ => 0,
    };
    let millis = u64::try_from(millis).ok().filter(|&n| n > 0)?;
    Some(Duration::from_millis(millis.min(u32::MAX.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_base_backoff_is_ignored_unless_positive_and_is_bounded() {
        // Only a positive `baseBackoffMS` is used (BP-6).
        let read = |value: bson::RawBson| {
            let fault =
                CommandError::from_reply(&rawdoc! { "ok": 0, "baseBackoffMS": value.clone() });
            let concern = rawdoc! { "code": 462 };
            let reply = rawdoc! {
                "ok": 1, "writeConcernError": concern, "baseBackoffMS": value,
            };
            let write = crate::error::InsertManyError::from_reply(&reply)
                .expect("valid")
                .expect("it has an error");
            assert_eq!(fault.base_backoff, write.base_backoff);
            fault.base_backoff.map(|base| base.as_millis())
        };
        for value in [bson::RawBson::Int32(50), 50_i64.into(), 50.0.into()] {
            assert_eq!(read(value), Some(50));
        }
        let text = bson::RawBson::String("50".to_owned());
        for value in [
            0.into(),
            (-50).into(),
            i64::MIN.into(),
            f64::NAN.into(),
            text,
        ] {
            assert_eq!(read(value.clone()), None, "{value:?}");
        }
        for value in [bson::RawBson::Int64(i64::MAX), f64::INFINITY.into()] {
            assert_eq!(read(value), Some(u32::MAX.into()));
        }
        assert_eq!(
            CommandError::from_reply(&rawdoc! { "ok": 0 }).base_backoff,
            None
        );
    }

    #[test]
    fn an_error_reply_with_unexpected_field_types_is_still_parsed() {
        let fault = CommandError::from_reply(&rawdoc! { "ok": 0, "code": 11600.0, "errmsg": 7 });
        assert_eq!((fault.code, fault.message.as_str()), (11600, ""));
    }

    #[test]
    fn wrong_bytes_of_an_error_message_are_replaced() {
        let text = "E11000 duplicate key { n: \"ab\" }";
        let [command, concern, statement] = [
            rawdoc! { "ok": 0, "code": 11000, "errmsg": text },
            rawdoc! { "ok": 1, "writeConcernError": { "code": 64, "errmsg": text } },
            rawdoc! { "ok": 1, "writeErrors": [{ "index": 0, "code": 11000, "errmsg": text }] },
        ]
        .map(|reply| {
            let mut bytes = reply.into_bytes();
            let at = bytes.windows(2).position(|two| two == b"ab");
            bytes[at.expect("the key") + 1] = 0xc3;
            RawDocumentBuf::from_bytes(bytes).expect("its lengths are right")
        });
        let expected = "E11000 duplicate key { n: \"a\u{fffd}\" }";
        assert_eq!(CommandError::from_reply(&command).message, expected);
        for reply in [&concern, &statement] {
            let error = crate::error::InsertManyError::from_reply(reply);
            let error = error.expect("valid").expect("it has an error");
            let of_concern = error.write_concern_error.map(|error| error.message);
            let of_statement = error.write_errors.map(|errors| errors[0].message.clone());
            assert_eq!(of_concern.or(of_statement).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_long_error_message_is_cut_between_characters() {
        let endless = "\u{e4}".repeat(MAX_MESSAGE_TEXT_BYTES);
        let fault = CommandError::from_reply(&rawdoc! { "ok": 0, "errmsg": endless });
        assert_eq!(fault.message.len(), MAX_MESSAGE_TEXT_BYTES);
    }

    #[test]
    fn debug_output_shows_no_bytes_of_the_reply() {
        let fault = CommandError::from_reply(&rawdoc! { "ok": 0, "x": "x".repeat(10_000) });
        let shown = format!("{fault:?}");
        assert!(
            shown.len() < 200 && shown.contains("reply_bytes: Some(10"),
            "{shown}"
        );
    }

    #[test]
    fn an_error_reply_that_is_too_long_is_not_stored() {
        let long = "x".repeat(MAX_ERROR_REPLY_BYTES);
        let fault = CommandError::from_reply(&rawdoc! { "ok": 0, "code": 91, "errmsg": long });
        assert_eq!((fault.code, fault.reply), (91, None));
        assert_eq!(fault.message.len(), MAX_MESSAGE_TEXT_BYTES);
        let short = rawdoc! { "ok": 0, "code": 91 };
        let fault = CommandError::from_reply(&short);
        assert_eq!(fault.reply.as_deref(), Some(&short));
    }

    #[test]
    fn an_error_reply_with_code_zero_has_no_code() {
        // Code 0 is treated as no code (section A.12, point 7).
        assert_eq!(
            CommandError::from_reply(&rawdoc! { "ok": 0, "code": 0 }).code(),
            None
        );
    }
}
