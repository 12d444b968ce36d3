//! Errors of commands and of single statements, as a MongoDB server reports them.

use super::error_codes::code_name;
use bson::{Bson, Document, doc};
use std::borrow::Cow;

/// The length at which a longer message is cut off, in bytes. An appended `...` is not counted.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The failure of a command or of a statement, with the server's code, code name and message.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreError {
    /// The error code, for the field `code` of a reply.
    pub code: i32,
    /// The symbolic name of the code, for the field `codeName` of a reply.
    pub code_name: Cow<'static, str>,
    /// The message, for the field `errmsg` of a reply.
    pub message: String,
    /// Further fields of a reply or of an entry of `writeErrors`, such as `keyPattern` and
    /// `keyValue` of a duplicate key.
    pub details: Box<Document>,
}

impl StoreError {
    /// Creates an error. The code name follows from the code.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            code_name: code_name(code),
            message: shortened(message.into()),
            details: Box::default(),
        }
    }

    /// Returns the body of the reply to a failed command: `ok`, `errmsg`, `code`, `codeName` and
    /// the details.
    #[must_use]
    pub fn to_reply(&self) -> Document {
        let mut reply = doc! {
            "ok": 0.0,
            "errmsg": self.message.as_str(),
            "code": self.code,
            "codeName": &*self.code_name,
        };
        reply.extend(Document::clone(&self.details));
        reply
    }

    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    pub(crate) fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(9, message)
    }

    pub(crate) fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(14, message)
    }

    /// Returns the error of JavaScript on a server that was started without it.
    pub(crate) fn without_javascript() -> Self {
        let text = "Cannot run server-side javascript without the javascript engine enabled";
        Self::new(31264, text)
    }

    /// Adds what has failed to the start of the message.
    pub(crate) fn within(mut self, context: &str) -> Self {
        self.message = shortened(format!("{context} :: caused by :: {}", self.message));
        self
    }

    /// Adds the field `errInfo`, which tells that this is the error of a server that does not have
    /// the named thing, because the simulated server does not implement it.
    pub(crate) fn not_simulated(self, what: &str) -> Self {
        self.with(
            "errInfo",
            doc! { "notSimulated": shortened(what.to_owned()) },
        )
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Bson>) -> Self {
        self.details.insert(key, value);
        self
    }
}

/// Limits the length of a text that quotes documents, because each of up to 100,000 statements of a
/// command can fail.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let mut end = MAX_MESSAGE_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.code_name, self.code, self.message)
    }
}

impl std::error::Error for StoreError {}

/// The failure of one statement of a write command, which is an entry of `writeErrors`.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteError {
    /// The statement's position in the command, from 0.
    pub index: usize,
    /// The error of the statement.
    pub error: StoreError,
}

impl WriteError {
    /// Returns this error as an entry of `writeErrors`.
    #[must_use]
    pub fn to_document(&self) -> Document {
        let index = i32::try_from(self.index).unwrap_or(i32::MAX);
        let mut entry = doc! { "index": index, "code": self.error.code };
        entry.extend(Document::clone(&self.error.details));
        entry.insert("errmsg", self.error.message.as_str());
        entry
    }
}
