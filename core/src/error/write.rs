//! Errors of writes that a server sent with `ok: 1`.

use super::{
    Error, TopologyVersion,
    command::{message_of, number, positive_millis, text},
    counts, is_deeper, pick,
    text::MAX_NAME_BYTES,
};
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use serde::Serialize;
use std::{fmt, time::Duration};

/// The maximum nesting depth of an `errInfo` that is kept. Converting a much deeper document to a
/// tree of values could exhaust the stack.
pub const MAX_DETAILS_DEPTH: usize = 200;

/// The maximum size in bytes of an `errInfo` that is kept.
pub const MAX_DETAILS_BYTES: usize = 1024 * 1024;

/// The maximum number of write errors in one reply, and of those that are kept in the error of one
/// `insert_many`.
pub const MAX_WRITE_ERRORS: usize = 100_000;

/// An element of the array `writeErrors` of a reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct IndexedWriteError {
    /// The index of the failed statement in the operation, from 0. For an `insert_many`, this is
    /// the index of the document in the caller's list. [`usize::MAX`] if the server sent no index.
    pub index: usize,
    /// The error code of the server, for example 11000 for a duplicate key. 0 if the server sent
    /// none.
    pub code: i32,
    /// The field `codeName`, at most 256 bytes of it; `None` if it is absent or not a string.
    /// Servers seldom send it.
    pub code_name: Option<String>,
    /// The error message of the server, at most
    /// [`MAX_MESSAGE_TEXT_BYTES`](super::MAX_MESSAGE_TEXT_BYTES) of it. Empty if the server left it
    /// out, or if the errors of one `insert_many` are too large ([MSG-33]).
    ///
    /// [MSG-33]: crate::requirements::messages#MSG-33
    #[serde(rename = "errmsg")]
    pub message: String,
    /// The field `errInfo`; `None` if it is absent or malformed, if it exceeds
    /// [`MAX_DETAILS_BYTES`] or [`MAX_DETAILS_DEPTH`], or if the errors of one `insert_many` are
    /// too large.
    #[serde(rename = "errInfo")]
    pub details: Option<RawDocumentBuf>,
}

/// The field `writeConcernError` of a reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WriteConcernError {
    /// The error code of the server, for example 64 if the replication was not confirmed in time. 0
    /// if the server sent none.
    pub code: i32,
    /// The field `codeName`, at most 256 bytes of it. Empty if the server sent no such string, or
    /// if the errors of one `insert_many` are too large.
    pub code_name: String,
    /// The error message of the server, at most
    /// [`MAX_MESSAGE_TEXT_BYTES`](super::MAX_MESSAGE_TEXT_BYTES) of it. Empty if the
    /// server sent none, or if the errors of one `insert_many` are too large.
    pub message: String,
    /// The field `errInfo`; `None` if it is absent or malformed, if it exceeds
    /// [`MAX_DETAILS_BYTES`] or [`MAX_DETAILS_DEPTH`], or if the errors of one `insert_many` are
    /// too large.
    #[serde(rename = "errInfo")]
    pub details: Option<RawDocumentBuf>,
}

impl IndexedWriteError {
    /// Reads an entry of `writeErrors`, or the failed operation of a bulk write.
    pub(crate) fn from_document(entry: &RawDocument) -> Self {
        let keys = ["index", "code", "codeName", "errmsg", "errInfo"];
        let [index, code, code_name, message, info] = pick(entry, keys);
        let index = number(index).and_then(|index| usize::try_from(index).ok());
        Self {
            // A place that is none must not be taken for the first one.
            index: index.unwrap_or(usize::MAX),
            code: number(code).unwrap_or_default(),
            code_name: code_name
                .and_then(|name| name.as_str())
                .map(|_| text(code_name, MAX_NAME_BYTES)),
            message: message_of(entry, message),
            details: details(info),
        }
    }
}

impl From<IndexedWriteError> for WriteError {
    fn from(error: IndexedWriteError) -> Self {
        Self {
            code: error.code,
            code_name: error.code_name,
            message: error.message,
            details: error.details,
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
            message: message_of(concern, message),
            details: details(info),
        }
    }
}

/// The write errors and write concern errors of a reply with `ok: 1`, or of all replies to one
/// `insert_many`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsertManyError {
    /// The failed statements in the order of the replies; at most [`MAX_WRITE_ERRORS`]. `None` if
    /// no statement failed.
    pub write_errors: Option<Vec<IndexedWriteError>>,
    /// The error of a write concern that was not satisfied. For an `insert_many`, that of the first
    /// batch that has one.
    pub write_concern_error: Option<WriteConcernError>,
    /// The write concern errors of an `insert_many` after the one in `write_concern_error`, in
    /// the order of the batches. Empty for a single command.
    #[serde(skip)]
    pub more_write_concern_errors: Vec<WriteConcernError>,
    /// The field `n` of the reply, for example the number of deleted documents. For an
    /// `insert_many`, the number of inserted documents of all batches that were answered.
    #[serde(skip)]
    pub written: i64,
    /// The field `topologyVersion`, which replies with a state change in `writeConcernError` have;
    /// `None` if it is absent, malformed or too large. For an `insert_many`, that of the last reply
    /// that has it.
    #[serde(skip)]
    pub topology_version: Option<TopologyVersion>,
    /// The field `baseBackoffMS`, as in
    /// [`CommandError::base_backoff`](super::CommandError::base_backoff). For an `insert_many`, the
    /// longest of all batches.
    #[serde(skip)]
    pub base_backoff: Option<Duration>,
}

impl InsertManyError {
    /// Reads the write errors and the write concern error in the reply to a write. Returns `None`
    /// if the reply has neither.
    ///
    /// Fails with a protocol error if a field of these errors is of another type or occurs twice,
    /// if a write error is no document, if there are more than [`MAX_WRITE_ERRORS`], and if `n` is
    /// no count. An error that cannot be read must not become a success.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::error::InsertManyError;
    ///
    /// let reply = rawdoc! { "ok": 1, "n": 1, "writeErrors": [{ "index": 1, "code": 11000 }] };
    /// let error = InsertManyError::from_reply(&reply)?;
    /// assert_eq!(error.and_then(|error| error.first_code()), Some(11_000));
    /// assert_eq!(InsertManyError::from_reply(&rawdoc! { "ok": 1, "n": 2 })?, None);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn from_reply(reply: &RawDocument) -> Result<Option<Self>, Error> {
        let (mut errors, mut concern) = (None, None);
        for field in onionskin_bson::fields(reply) {
            let field = field.map_err(|_| unreadable())?;
            match field.name_bytes() {
                b"writeErrors" => {
                    let array = field.value().ok().and_then(|value| value.as_array());
                    set_once(&mut errors, array)?;
                }
                b"writeConcernError" => {
                    let document = field.value().ok().and_then(|value| value.as_document());
                    set_once(&mut concern, document)?;
                }
                _ => {}
            }
        }
        let errors = errors.map_or(Ok(Vec::new()), write_errors)?;
        if errors.is_empty() && concern.is_none() {
            return Ok(None);
        }
        let [written] = counts(reply, ["n"])?;
        let [version, backoff] = pick(reply, ["topologyVersion", "baseBackoffMS"]);
        Ok(Some(Self {
            write_errors: (!errors.is_empty()).then_some(errors),
            write_concern_error: concern.map(WriteConcernError::from_document),
            more_write_concern_errors: Vec::new(),
            written: i64::try_from(written).unwrap_or(i64::MAX),
            topology_version: version
                .and_then(|v| v.as_document())
                .and_then(TopologyVersion::from_document),
            base_backoff: positive_millis(backoff),
        }))
    }

    /// Returns the failed statements.
    ///
    /// ```
    /// use onionskin_core::error::InsertManyError;
    ///
    /// fn report(all: &InsertManyError) {
    ///     for error in all.errors() {
    ///         eprintln!("document {} was not inserted: {}", error.index, error.message);
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn errors(&self) -> &[IndexedWriteError] {
        self.write_errors.as_deref().unwrap_or_default()
    }

    /// Returns the code of the first failed statement, or else of the write concern error.
    ///
    /// ```
    /// use onionskin_core::error::InsertManyError;
    ///
    /// assert_eq!(InsertManyError::default().first_code(), None);
    /// ```
    #[must_use]
    pub fn first_code(&self) -> Option<i32> {
        match self.errors().first() {
            Some(error) => Some(error.code),
            None => self.write_concern_error.as_ref().map(|error| error.code),
        }
    }
}

impl fmt::Display for InsertManyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.errors().first() {
            write!(
                f,
                "{} (code {}, statement {})",
                first.message, first.code, first.index
            )?;
            if self.errors().len() > 1 {
                write!(f, " and {} more", self.errors().len() - 1)?;
            }
            if self.write_concern_error.is_some() {
                f.write_str("; ")?;
            }
        }
        match &self.write_concern_error {
            Some(error) => concern_text(error, f),
            None => Ok(()),
        }
    }
}

/// The error of one write.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WriteError {
    /// The error code of the server, for example 11000 for a duplicate key. 0 if the server sent
    /// none.
    pub code: i32,
    /// The field `codeName`, as in [`IndexedWriteError::code_name`].
    pub code_name: Option<String>,
    /// The error message of the server, as in [`IndexedWriteError::message`].
    #[serde(rename = "errmsg")]
    pub message: String,
    /// The field `errInfo`, as in [`IndexedWriteError::details`].
    #[serde(rename = "errInfo")]
    pub details: Option<RawDocumentBuf>,
}

/// The failure of a write other than `insert_many`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum WriteFailure {
    /// The write concern was not satisfied. The write itself succeeded.
    WriteConcernError(WriteConcernError),
    /// The write failed. If the write concern was not satisfied either,
    /// [`Error::write_errors`](super::Error::write_errors) has both errors.
    WriteError(WriteError),
}

impl WriteFailure {
    /// Returns the first write error, or else the write concern error.
    pub(super) fn first(all: &InsertManyError) -> Option<Self> {
        match (all.errors().first(), &all.write_concern_error) {
            (Some(error), _) => Some(Self::WriteError(error.clone().into())),
            (None, Some(concern)) => Some(Self::WriteConcernError(concern.clone())),
            (None, None) => None,
        }
    }

    /// Returns the error code of the server; 0 if it sent none.
    ///
    /// ```
    /// use onionskin_core::error::WriteFailure;
    ///
    /// fn is_refused_by_validation(failure: &WriteFailure) -> bool {
    ///     failure.code() == 121
    /// }
    /// ```
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::WriteConcernError(error) => error.code,
            Self::WriteError(error) => error.code,
        }
    }
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteError(error) => write!(f, "{} (code {})", error.message, error.code),
            Self::WriteConcernError(error) => concern_text(error, f),
        }
    }
}

/// Stores the value of a field. Fails if the value is missing, or if the field was found before.
fn set_once<T>(found: &mut Option<T>, value: Option<T>) -> Result<(), Error> {
    match (&found, value) {
        (None, Some(value)) => {
            *found = Some(value);
            Ok(())
        }
        _ => Err(unreadable()),
    }
}

fn write_errors(array: &RawArray) -> Result<Vec<IndexedWriteError>, Error> {
    // The exact size, because a list that grows takes twice its memory.
    let count = array.into_iter().take(MAX_WRITE_ERRORS + 1).count();
    if count > MAX_WRITE_ERRORS {
        return Err(unreadable());
    }
    let mut errors = Vec::with_capacity(count);
    for entry in array {
        let entry = entry.ok().and_then(|entry| entry.as_document());
        errors.push(IndexedWriteError::from_document(
            entry.ok_or_else(unreadable)?,
        ));
    }
    Ok(errors)
}

#[cold]
fn unreadable() -> Error {
    Error::protocol("the errors in the reply to a write cannot be read")
}

fn concern_text(error: &WriteConcernError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let WriteConcernError { message, code, .. } = error;
    write!(f, "write concern not met: {message} (code {code})")
}

fn details(info: Option<RawBsonRef<'_>>) -> Option<RawDocumentBuf> {
    let info = info?.as_document()?;
    let is_kept = info.as_bytes().len() <= MAX_DETAILS_BYTES
        && is_deeper(info, MAX_DETAILS_DEPTH).is_ok_and(|is_deeper| !is_deeper);
    is_kept.then(|| info.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::MAX_MESSAGE_TEXT_BYTES;
    use crate::error::{Error, ErrorKind};
    use bson::{RawArrayBuf, cstr, rawdoc};

    #[test]
    fn the_texts_and_details_of_a_write_failure_are_bounded() {
        let endless = "x".repeat(3 << 20);
        let deep = (0..2 * MAX_DETAILS_DEPTH).fold(rawdoc! {}, |inner, _| rawdoc! { "a": inner });
        let concern = rawdoc! {
            "code": 64, "codeName": endless.as_str(), "errmsg": endless.as_str(),
            "errInfo": { "x": endless.as_str() },
        };
        let statement = rawdoc! { "code": 1, "errmsg": endless.as_str(), "errInfo": deep };
        let fault = InsertManyError::from_reply(&rawdoc! {
            "ok": 1, "writeErrors": [statement], "writeConcernError": concern,
        });
        let fault = fault.expect("valid").expect("it has errors");
        let concern = fault.write_concern_error.as_ref().expect("it has one");
        assert_eq!(concern.message.len(), MAX_MESSAGE_TEXT_BYTES);
        assert_eq!(concern.code_name.len(), MAX_NAME_BYTES);
        assert_eq!(fault.errors()[0].message.len(), MAX_MESSAGE_TEXT_BYTES);
        assert_eq!(
            (&concern.details, &fault.errors()[0].details),
            (&None, &None)
        );
        assert!(fault.to_string().len() < 3 * MAX_MESSAGE_TEXT_BYTES);
    }

    #[test]
    fn more_write_errors_than_a_command_has_statements_are_refused() {
        let read = |number: usize| {
            let array = RawArrayBuf::from_iter((0..number).map(|_| rawdoc! {}));
            InsertManyError::from_reply(&rawdoc! { "ok": 1, "writeErrors": array })
        };
        let fault = read(MAX_WRITE_ERRORS).expect("as many as permitted");
        let fault = fault.expect("it has errors");
        assert_eq!(fault.errors().len(), MAX_WRITE_ERRORS);
        assert_eq!(fault.errors()[0].index, usize::MAX, "not the first one");
        assert!(read(MAX_WRITE_ERRORS + 1).is_err());
    }

    #[test]
    fn write_errors_that_cannot_be_read_are_a_protocol_error() {
        let entry = rawdoc! { "index": 0, "code": 1 };
        let mut twice = rawdoc! { "ok": 1, "writeErrors": [] };
        twice.append(
            cstr!("writeErrors"),
            RawArrayBuf::from_iter([entry.clone()]),
        );
        for reply in [
            rawdoc! { "ok": 1, "writeErrors": { "0": entry.clone() } },
            rawdoc! { "ok": 1, "writeErrors": [5] },
            rawdoc! { "ok": 1, "writeErrors": [entry.clone(), 5] },
            rawdoc! { "ok": 1, "writeConcernError": "x" },
            rawdoc! { "ok": 1, "writeConcernError": RawBsonRef::Null },
            rawdoc! { "ok": 1, "n": "1", "writeErrors": [entry.clone()] },
            twice,
        ] {
            let read = InsertManyError::from_reply(&reply);
            let error = read.expect_err("it is malformed");
            let is_protocol = matches!(error.kind(), ErrorKind::InvalidResponse { .. });
            assert!(is_protocol, "{reply:?}: {error:?}");
        }
        let none = InsertManyError::from_reply(&rawdoc! { "ok": 1, "writeErrors": [] });
        assert_eq!(none, Ok(None));
    }

    #[test]
    fn write_errors_are_listed_with_their_index() {
        let reply = rawdoc! {
            "ok": 1, "n": 1,
            "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "E11000 duplicate key" }],
            "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
        };
        let fault = InsertManyError::from_reply(&reply)
            .expect("valid")
            .expect("it has errors");
        assert_eq!(fault.errors()[0].index, 1);
        assert_eq!(fault.write_concern_error.as_ref().map(|w| w.code), Some(64));
        assert_eq!(
            InsertManyError::from_reply(&rawdoc! { "ok": 1, "n": 1 }),
            Ok(None)
        );
    }

    #[test]
    fn the_error_of_one_write_has_the_first_error_and_keeps_all() {
        let reply = rawdoc! {
            "ok": 1, "n": 0, "baseBackoffMS": 7,
            "writeErrors": [{ "index": 0, "code": 11000, "codeName": "DuplicateKey" }],
            "writeConcernError": { "code": 64 },
        };
        let fault = InsertManyError::from_reply(&reply)
            .expect("valid")
            .expect("it has errors");
        let error = Error::new(ErrorKind::InsertMany(fault.clone())).of_one_write();
        let ErrorKind::Write(WriteFailure::WriteError(write)) = error.kind() else {
            panic!("{error:?}");
        };
        assert_eq!((write.code, error.code()), (11000, Some(11000)));
        assert_eq!(write.code_name.as_deref(), Some("DuplicateKey"));
        assert!(error.is_duplicate_key());
        assert_eq!(error.base_backoff(), Some(Duration::from_millis(7)));
        assert_eq!(error.write_errors(), Some(&fault));

        let reply = rawdoc! { "ok": 1, "writeConcernError": { "code": 64 } };
        let fault = InsertManyError::from_reply(&reply)
            .expect("valid")
            .expect("it has an error");
        let error = Error::new(ErrorKind::InsertMany(fault)).of_one_write();
        assert!(
            matches!(error.kind(), ErrorKind::Write(WriteFailure::WriteConcernError(concern))
                if concern.code == 64)
        );
    }
}
