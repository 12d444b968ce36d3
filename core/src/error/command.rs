//! Errors that a server sent.

use super::{
    TopologyVersion, is_deeper, pick, shortened,
    text::{MAX_MESSAGE_TEXT_BYTES, MAX_NAME_BYTES},
};
use crate::text::printable;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use std::{fmt, sync::Arc, time::Duration};

/// The maximum nesting depth of an `errInfo` that is kept. Converting a much deeper document to a
/// tree of values could exhaust the stack.
pub const MAX_DETAILS_DEPTH: usize = 200;

/// The maximum size in bytes of an `errInfo` that is kept.
pub const MAX_DETAILS_BYTES: usize = 1024 * 1024;

/// The maximum number of write errors that are kept, of one reply and in the error of one
/// `insert_many`.
pub const MAX_WRITE_ERRORS: usize = 100_000;

/// The maximum size in bytes of an error reply that is kept as a whole. Of a larger reply, only the
/// other fields of [`CommandError`] are kept.
pub const MAX_ERROR_REPLY_BYTES: usize = 1024 * 1024;

/// The error of a reply with `ok: 0`.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct CommandError {
    /// The field `code`; `None` if it is absent, zero, or no integer that fits into an `i32`.
    pub code: Option<i32>,
    /// The field `codeName`, at most 256 bytes of it; empty if it is absent or not a string.
    pub code_name: String,
    /// The field `errmsg`, at most [`MAX_MESSAGE_TEXT_BYTES`] of it; empty if it is absent or not a
    /// string. Its unprintable characters are [escaped](crate::text::printable), as in the other
    /// texts of a server.
    pub message: String,
    /// The field `topologyVersion`, which state change errors have; `None` if it is absent,
    /// malformed or too large.
    pub topology_version: Option<TopologyVersion>,
    /// The field `baseBackoffMS`: the base of the backoff that an overloaded server chose. `None`
    /// if it is absent or not a positive number ([BP-6]).
    ///
    /// [BP-6]: crate::requirements::retries#BP-6
    pub base_backoff: Option<Duration>,
    /// The whole reply, shared by all copies of the error. `None` if the reply exceeds
    /// [`MAX_ERROR_REPLY_BYTES`], in the errors of server descriptions and of events of sensitive
    /// commands, and in errors of authentication, because a server can repeat secrets.
    pub reply: Option<Arc<RawDocumentBuf>>,
}

impl CommandError {
    /// Reads an error reply. The server may omit any of the fields.
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
            code: number(code).filter(|&code| code != 0),
            code_name: text(code_name, MAX_NAME_BYTES),
            message: text(message, MAX_MESSAGE_TEXT_BYTES),
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
        match (self.code, self.code_name.as_str()) {
            (Some(code), "") => write!(f, " (code {code})"),
            (Some(code), name) => write!(f, " (code {code}, {name})"),
            (None, "") => Ok(()),
            (None, name) => write!(f, " ({name})"),
        }
    }
}

/// An element of the array `writeErrors` of a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteError {
    /// The index of the failed statement in the operation, from 0. For an `insert_many`, this is
    /// the index of the document in the caller's list.
    pub index: usize,
    /// The error code of the server, for example 11000 for a duplicate key. 0 if the server sent
    /// none.
    pub code: i32,
    /// The error message of the server, at most [`MAX_MESSAGE_TEXT_BYTES`] of it. Empty if the
    /// server left it out ([MSG-33]), or if the errors of one `insert_many` are too large.
    ///
    /// [MSG-33]: crate::requirements::messages#MSG-33
    pub message: String,
    /// The field `errInfo`; `None` if it is absent or malformed, if it exceeds
    /// [`MAX_DETAILS_BYTES`] or [`MAX_DETAILS_DEPTH`], or if the errors of one `insert_many` are
    /// too large.
    pub details: Option<RawDocumentBuf>,
}

/// The field `writeConcernError` of a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteConcernError {
    /// The error code of the server, for example 64 if the replication was not confirmed in time. 0
    /// if the server sent none.
    pub code: i32,
    /// The field `codeName`, at most 256 bytes of it. Empty if the server sent no such string, or
    /// if the errors of one `insert_many` are too large.
    pub code_name: String,
    /// The error message of the server, at most [`MAX_MESSAGE_TEXT_BYTES`] of it. Empty if the
    /// server sent none, or if the errors of one `insert_many` are too large.
    pub message: String,
    /// The field `errInfo`; `None` if it is absent or malformed, if it exceeds
    /// [`MAX_DETAILS_BYTES`] or [`MAX_DETAILS_DEPTH`], or if the errors of one `insert_many` are
    /// too large.
    pub details: Option<RawDocumentBuf>,
}

impl WriteError {
    /// Reads an entry of `writeErrors`, or the failed operation of a bulk write.
    pub(crate) fn from_document(entry: &RawDocument) -> Self {
        let [index, code, message, info] = pick(entry, ["index", "code", "errmsg", "errInfo"]);
        // A place that is none must not be taken for the first one.
        let place = |value| number(value).and_then(|i| usize::try_from(i).ok());
        Self {
            index: index.map_or(0, |value| place(Some(value)).unwrap_or(usize::MAX)),
            code: number(code).unwrap_or_default(),
            message: text(message, MAX_MESSAGE_TEXT_BYTES),
            details: details(info),
        }
    }
}

impl WriteConcernError {
    fn from_document(concern: &RawDocument) -> Self {
        let keys = ["code", "codeName", "errmsg", "errInfo"];
        let [code, code_name, message, info] = pick(concern, keys);
        Self {
            code: number(code).unwrap_or_default(),
            code_name: text(code_name, MAX_NAME_BYTES),
            message: text(message, MAX_MESSAGE_TEXT_BYTES),
            details: details(info),
        }
    }
}

/// The write errors and write concern errors of a reply with `ok: 1`, or of all replies to one
/// `insert_many`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WriteFailure {
    /// The failed statements in the order of the replies; at most [`MAX_WRITE_ERRORS`].
    pub errors: Vec<WriteError>,
    /// The error of a write concern that was not satisfied. For an `insert_many`, that of the first
    /// batch that has one.
    pub write_concern: Option<WriteConcernError>,
    /// The write concern errors of an `insert_many` after the one in `write_concern`, in the order
    /// of the batches. Empty for a single command.
    pub more_write_concerns: Vec<WriteConcernError>,
    /// The field `n` of the reply, for example the number of deleted documents. For an
    /// `insert_many`, the number of inserted documents of all batches that were answered.
    pub written: i64,
    /// The field `topologyVersion`, which replies with a state change in `writeConcernError` have;
    /// `None` if it is absent, malformed or too large. For an `insert_many`, that of the last reply
    /// that has it.
    pub topology_version: Option<TopologyVersion>,
    /// The field `baseBackoffMS`, as in [`CommandError::base_backoff`]. For an `insert_many`, the
    /// longest of all batches.
    pub base_backoff: Option<Duration>,
}

impl WriteFailure {
    /// Reads the write errors and the write concern error in the reply to a write. Returns `None`
    /// if the reply has neither.
    #[must_use]
    pub fn from_reply(reply: &RawDocument) -> Option<Self> {
        let keys = [
            "writeErrors",
            "writeConcernError",
            "n",
            "topologyVersion",
            "baseBackoffMS",
        ];
        let [errors, concern, written, version, backoff] = pick(reply, keys);
        let concern = concern.and_then(|v| v.as_document());
        let concern = concern.map(WriteConcernError::from_document);
        let mut kept = Vec::new();
        if let Some(array) = errors.and_then(|v| v.as_array()) {
            let entries = array.into_iter().flatten().filter_map(|v| v.as_document());
            kept.extend(
                entries
                    .take(MAX_WRITE_ERRORS)
                    .map(WriteError::from_document),
            );
        }
        if kept.is_empty() && concern.is_none() {
            return None;
        }
        Some(Self {
            errors: kept,
            write_concern: concern,
            more_write_concerns: Vec::new(),
            written: number(written).map_or(0, i64::from),
            topology_version: version
                .and_then(|v| v.as_document())
                .and_then(TopologyVersion::from_document),
            base_backoff: positive_millis(backoff),
        })
    }

    /// Returns the code of the first failed statement; `None` if no statement failed.
    #[must_use]
    pub fn first_code(&self) -> Option<i32> {
        self.errors.first().map(|e| e.code)
    }
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.errors.first() {
            write!(
                f,
                "{} (code {}, statement {})",
                first.message, first.code, first.index
            )?;
            if self.errors.len() > 1 {
                write!(f, " and {} more", self.errors.len() - 1)?;
            }
            if self.write_concern.is_some() {
                f.write_str("; ")?;
            }
        }
        match &self.write_concern {
            Some(w) => write!(f, "write concern not met: {} (code {})", w.message, w.code),
            None => Ok(()),
        }
    }
}

/// Returns a text of a reply for messages, cut to `max` bytes; an empty one if `value` is `None` or
/// no text. Unprintable characters are escaped, so that a server cannot forge a line of a log, or
/// control a terminal.
fn text(value: Option<RawBsonRef<'_>>, max: usize) -> String {
    let text = value.and_then(|v| v.as_str()).unwrap_or_default();
    shortened(&printable(shortened(text, max)), max).to_owned()
}

fn details(info: Option<RawBsonRef<'_>>) -> Option<RawDocumentBuf> {
    let info = info?.as_document()?;
    let is_kept = info.as_bytes().len() <= MAX_DETAILS_BYTES
        && is_deeper(info, MAX_DETAILS_DEPTH).is_ok_and(|is_deeper| !is_deeper);
    is_kept.then(|| info.to_owned())
}

/// Returns an integer that the server sent as int32, int64 or double. Returns `None` if the value
/// has another type, is not whole, or does not fit into an `i32`.
fn number(value: Option<RawBsonRef<'_>>) -> Option<i32> {
    let value = value?;
    if let Some(n) = value.as_i32() {
        return Some(n);
    }
    if let Some(n) = value.as_i64() {
        return i32::try_from(n).ok();
    }
    let n = value.as_f64()?;
    (n.fract() == 0.0 && n.abs() <= f64::from(i32::MAX)).then_some(n as i32)
}

/// Returns a number of milliseconds that the server sent as int32, int64 or double. Returns `None`
/// for another type and for a number below 1. A number above [`u32::MAX`] is lowered to that value,
/// so that sums of such times do not overflow.
fn positive_millis(value: Option<RawBsonRef<'_>>) -> Option<Duration> {
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
            let write = WriteFailure::from_reply(&reply).expect("it has an error");
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
        assert_eq!((fault.code, fault.message.as_str()), (Some(11600), ""));
    }

    #[test]
    fn a_long_error_message_is_cut_between_characters() {
        let endless = "\u{e4}".repeat(MAX_MESSAGE_TEXT_BYTES);
        let fault = CommandError::from_reply(&rawdoc! { "ok": 0, "errmsg": endless });
        assert_eq!(fault.message.len(), MAX_MESSAGE_TEXT_BYTES);
    }

    #[test]
    fn the_texts_and_details_of_a_write_failure_are_bounded() {
        let endless = "x".repeat(3 << 20);
        let deep = (0..2 * MAX_DETAILS_DEPTH).fold(rawdoc! {}, |inner, _| rawdoc! { "a": inner });
        let concern = rawdoc! {
            "code": 64, "codeName": endless.as_str(), "errmsg": endless.as_str(),
            "errInfo": { "x": endless.as_str() },
        };
        let statement = rawdoc! { "code": 1, "errmsg": endless.as_str(), "errInfo": deep };
        let fault = WriteFailure::from_reply(&rawdoc! {
            "ok": 1, "writeErrors": [statement], "writeConcernError": concern,
        });
        let fault = fault.expect("it has errors");
        let concern = fault.write_concern.as_ref().expect("it has one");
        assert_eq!(concern.message.len(), MAX_MESSAGE_TEXT_BYTES);
        assert_eq!(concern.code_name.len(), MAX_NAME_BYTES);
        assert_eq!(fault.errors[0].message.len(), MAX_MESSAGE_TEXT_BYTES);
        assert_eq!((&concern.details, &fault.errors[0].details), (&None, &None));
        assert!(fault.to_string().len() < 3 * MAX_MESSAGE_TEXT_BYTES);
    }

    #[test]
    fn write_errors_beyond_the_maximum_number_are_dropped() {
        let entries = (0..=MAX_WRITE_ERRORS).map(|_| rawdoc! {});
        let array = bson::RawArrayBuf::from_iter(entries);
        let fault = WriteFailure::from_reply(&rawdoc! { "ok": 1, "writeErrors": array });
        let fault = fault.expect("it has errors");
        assert_eq!(fault.errors.len(), MAX_WRITE_ERRORS);
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
        assert_eq!((fault.code, fault.reply), (Some(91), None));
        assert_eq!(fault.message.len(), MAX_MESSAGE_TEXT_BYTES);
        let short = rawdoc! { "ok": 0, "code": 91 };
        let fault = CommandError::from_reply(&short);
        assert_eq!(fault.reply.as_deref(), Some(&short));
    }

    #[test]
    fn an_error_reply_with_code_zero_has_no_code() {
        // Code 0 is treated as no code (section A.12, point 7).
        assert_eq!(
            CommandError::from_reply(&rawdoc! { "ok": 0, "code": 0 }).code,
            None
        );
    }

    #[test]
    fn write_errors_are_listed_with_their_index() {
        let reply = rawdoc! {
            "ok": 1, "n": 1,
            "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "E11000 duplicate key" }],
            "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
        };
        let fault = WriteFailure::from_reply(&reply).expect("it has errors");
        assert_eq!(fault.errors[0].index, 1);
        assert_eq!(fault.write_concern.as_ref().map(|w| w.code), Some(64));
        assert_eq!(WriteFailure::from_reply(&rawdoc! { "ok": 1, "n": 1 }), None);
    }
}
