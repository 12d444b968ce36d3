//! The commands `insert`, `update` and `delete`, and the results of writes.

use super::Namespace;
use crate::{
    bson::{DocumentWriter, decode_document, integer_field},
    error::Error,
    operation::{Command, CommandKind},
    options::WriteConcern,
    wire::MAX_MESSAGE_BYTES,
};
use bson::{Bson, RawDocument, RawDocumentBuf, oid::ObjectId};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// The options that all writes have.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The write concern; `None` for the default of the server.
    pub write_concern: Option<WriteConcern>,
    /// The time limit of the whole operation, retries included; `None` for `timeoutMS` of the
    /// client.
    pub timeout: Option<Duration>,
    /// True if the server continues with the next document after one has failed; false by default.
    /// Only inserts use this option, because updates and deletes have one statement.
    pub unordered: bool,
}

/// The options of an update.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UpdateOptions {
    /// True if the server inserts a document when none matches; false by default.
    pub upsert: bool,
    /// The options that all writes have.
    pub write: WriteOptions,
}

/// The result of an insert of one document.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InsertOneResult {
    /// The `_id` of the document. The client generates one if the document has none.
    pub inserted_id: Bson,
}

/// The result of an insert of several documents.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InsertManyResult {
    /// The `_id` of each inserted document, by its index in the caller's list.
    pub inserted_ids: BTreeMap<usize, Bson>,
}

/// The result of an update.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct UpdateResult {
    /// The number of documents that matched the filter, without an upserted one.
    pub matched_count: u64,
    /// The number of documents that were changed.
    pub modified_count: u64,
    /// The `_id` of the document that an upsert inserted; `None` if no document was inserted, or if
    /// the reply has no `_id` that can be decoded.
    pub upserted_id: Option<Bson>,
}

/// The result of a delete.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DeleteResult {
    /// The number of documents that were deleted.
    pub deleted_count: u64,
}

impl InsertOneResult {
    /// Returns the result of an insert of the document with this `_id`.
    #[must_use]
    pub const fn new(inserted_id: Bson) -> Self {
        Self { inserted_id }
    }
}

impl InsertManyResult {
    /// Returns the result of an insert of documents with these `_id`s, by their index in the
    /// caller's list.
    #[must_use]
    pub const fn new(inserted_ids: BTreeMap<usize, Bson>) -> Self {
        Self { inserted_ids }
    }
}

impl UpdateResult {
    /// Reads the reply to an `update` of one statement.
    #[must_use]
    pub fn from_reply(reply: &RawDocument) -> Self {
        let upserted = reply.get_array("upserted").ok();
        let upserted = upserted.and_then(|upserted| upserted.get_document(0).ok());
        let upserted_id = upserted.and_then(|first| decode_document(first).ok()?.remove("_id"));
        let matched = count(reply, "n");
        Self {
            matched_count: matched - u64::from(upserted.is_some()).min(matched),
            modified_count: count(reply, "nModified"),
            upserted_id,
        }
    }
}

impl DeleteResult {
    /// Reads the reply to a `delete`.
    #[must_use]
    pub fn from_reply(reply: &RawDocument) -> Self {
        Self {
            deleted_count: count(reply, "n"),
        }
    }
}

fn count(reply: &RawDocument, key: &str) -> u64 {
    integer_field(reply, key)
        .and_then(|n| u64::try_from(n).ok())
        .unwrap_or(0)
}

/// Encodes a document to insert at the end of `documents`, and returns its `_id`, which becomes the
/// first field. If the value has no `_id`, the document gets the id that `new_id` returns.
///
/// Fails if the value cannot be represented in BSON, is nested deeper than
/// [`MAX_DEPTH`](crate::bson::MAX_DEPTH), or is larger than any message. `documents` is then as
/// before.
pub fn encode_insert<T: Serialize + ?Sized>(
    value: &T,
    documents: &mut Vec<u8>,
    new_id: impl FnOnce() -> ObjectId,
) -> Result<Bson, Error> {
    let limit = MAX_MESSAGE_BYTES;
    Ok(onionskin_bson::serialize_to_insert(
        value, documents, limit, new_id,
    )?)
}

/// Returns the command that inserts `documents`, which are stored one after the other. The
/// documents are sent as a document sequence, even if there is only one ([MSG-11]). The command
/// fails if the documents exceed the limits of one command. [`InsertMany`](super::InsertMany)
/// splits such a list.
///
/// [MSG-11]: crate::requirements::messages#MSG-11
#[must_use]
pub fn insert(namespace: &Namespace, documents: Vec<u8>, options: &WriteOptions) -> Command {
    let kind = CommandKind::RetryableWrite;
    let mut command = Command::new("insert", namespace.database.clone(), kind);
    let mut body = command.body();
    body.str("insert", &namespace.collection)
        .bool("ordered", !options.unordered);
    finish(&mut command, options);
    command.set_sequence("documents", documents);
    command
}

/// Returns the command that applies the update operators in `modifications` to the first document
/// that matches `filter`, or with `multi` to all documents that match.
///
/// Fails if `modifications` is empty, or if its first field is malformed or not an operator.
pub fn update(
    namespace: &Namespace,
    filter: &RawDocument,
    modifications: &RawDocument,
    multi: bool,
    options: &UpdateOptions,
) -> Result<Command, Error> {
    check_operators(modifications)?;
    let kind = if multi {
        CommandKind::Write
    } else {
        CommandKind::RetryableWrite
    };
    let mut command = Command::new("update", namespace.database.clone(), kind);
    let mut body = command.body();
    body.str("update", &namespace.collection)
        .bool("ordered", true);
    finish(&mut command, &options.write);
    let mut statement = Vec::new();
    let mut writer = DocumentWriter::begin(&mut statement);
    writer.document("q", filter).document("u", modifications);
    if multi {
        writer.bool("multi", true);
    }
    if options.upsert {
        writer.bool("upsert", true);
    }
    writer.end();
    command.set_sequence("updates", statement);
    Ok(command)
}

/// Returns the command that deletes the first document that matches `filter`, or with `multi` all
/// documents that match.
#[must_use]
pub fn delete(
    namespace: &Namespace,
    filter: &RawDocument,
    multi: bool,
    options: &WriteOptions,
) -> Command {
    let kind = if multi {
        CommandKind::Write
    } else {
        CommandKind::RetryableWrite
    };
    let mut command = Command::new("delete", namespace.database.clone(), kind);
    let mut body = command.body();
    body.str("delete", &namespace.collection)
        .bool("ordered", true);
    finish(&mut command, options);
    let mut statement = Vec::new();
    let mut writer = DocumentWriter::begin(&mut statement);
    writer
        .document("q", filter)
        .i32("limit", if multi { 0 } else { 1 });
    writer.end();
    command.set_sequence("deletes", statement);
    command
}

pub(super) fn finish(command: &mut Command, options: &WriteOptions) {
    if let Some(concern) = &options.write_concern {
        if !concern.is_server_default() {
            command
                .body()
                .document("writeConcern", &concern.to_document());
        }
        if !concern.is_acknowledged() {
            command.set_unacknowledged();
        }
    }
    command.set_timeout(options.timeout);
}

/// Fails unless an update begins with an operator. Without operators, the server would replace the
/// whole document.
fn check_operators(modifications: &RawDocument) -> Result<(), Error> {
    let first = modifications.iter().next();
    match first {
        Some(Ok((key, _))) if key.as_str().starts_with('$') => Ok(()),
        Some(Ok(_)) => Err(Error::argument(
            "an update consists of operators such as $set; a document without them would replace \
             the stored one",
        )),
        Some(Err(error)) => Err(Error::new(crate::error::ErrorKind::Bson {
            message: error.to_string(),
            path: String::new(),
        })),
        None => Err(Error::argument(
            "an update without operators changes nothing",
        )),
    }
}

/// Returns the command that replaces the first document that matches `filter`. Fails if
/// `replacement` begins with an update operator.
pub fn replace(
    namespace: &Namespace,
    filter: &RawDocument,
    replacement: &RawDocumentBuf,
    options: &UpdateOptions,
) -> Result<Command, Error> {
    let starts_with_operator = matches!(
        replacement.iter().next(),
        Some(Ok((key, _))) if key.as_str().starts_with('$')
    );
    if starts_with_operator {
        return Err(Error::argument(
            "a replacement is a document, not update operators",
        ));
    }
    let kind = CommandKind::RetryableWrite;
    let mut command = Command::new("update", namespace.database.clone(), kind);
    command
        .body()
        .str("update", &namespace.collection)
        .bool("ordered", true);
    finish(&mut command, &options.write);
    let mut statement = Vec::new();
    let mut writer = DocumentWriter::begin(&mut statement);
    writer
        .document("q", filter)
        .document("u", replacement)
        .bool("upsert", options.upsert);
    writer.end();
    command.set_sequence("updates", statement);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{doc, rawdoc};

    #[test]
    fn an_id_is_prepended_only_to_a_document_without_one() {
        let mut documents = rawdoc! { "z": 0 }.into_bytes();
        let start = documents.len();
        let id = ObjectId::from_bytes([7; 12]);
        let made = encode_insert(&doc! { "a": 1 }, &mut documents, || id).expect("BSON");
        assert_eq!(made, Bson::ObjectId(id));
        assert_eq!(
            &documents[start..],
            rawdoc! { "_id": id, "a": 1 }.as_bytes()
        );
        let mut has_one = Vec::new();
        let value = doc! { "a": 1, "_id": "x" };
        let kept = encode_insert(&value, &mut has_one, || id).expect("BSON");
        assert_eq!(kept, Bson::String("x".into()));
        assert_eq!(has_one, rawdoc! { "_id": "x", "a": 1 }.as_bytes());
    }

    #[test]
    fn an_upsert_is_not_counted_as_a_match() {
        let reply =
            rawdoc! { "ok": 1, "n": 1, "nModified": 0, "upserted": [{ "index": 0, "_id": 5 }] };
        let result = UpdateResult::from_reply(&reply);
        assert_eq!((result.matched_count, result.modified_count), (0, 0));
        assert_eq!(result.upserted_id, Some(Bson::Int32(5)));

        // Also if the id cannot be decoded.
        let mut bytes = rawdoc! { "n": 1, "upserted": [{ "_id": true }] }.into_bytes();
        let boolean = bytes.len() - 4;
        bytes[boolean] = 2;
        let reply = RawDocumentBuf::from_bytes(bytes).expect("its size is right");
        let result = UpdateResult::from_reply(&reply);
        assert_eq!((result.matched_count, result.upserted_id), (0, None));
    }

    #[test]
    fn updates_require_operators_and_replacements_refuse_them() {
        let namespace = Namespace::new("d", "c").expect("names");
        let (filter, options) = (rawdoc! {}, UpdateOptions::default());
        let set = RawDocumentBuf::try_from(&doc! { "$set": { "a": 1 } }).expect("BSON");
        assert!(update(&namespace, &filter, &set, false, &options).is_ok());
        assert!(update(&namespace, &filter, &rawdoc! { "a": 1 }, false, &options).is_err());
        assert!(update(&namespace, &filter, &rawdoc! {}, false, &options).is_err());
        assert!(replace(&namespace, &filter, &set, &options).is_err());
        assert!(replace(&namespace, &filter, &rawdoc! { "a": 1 }, &options).is_ok());
    }

    #[test]
    fn a_delete_of_many_documents_is_not_retryable() {
        // A command with a statement that can affect several documents has no transaction number
        // and is not retried (RW-8).
        let namespace = Namespace::new("d", "c").expect("names");
        let options = WriteOptions::default();
        assert_eq!(
            delete(&namespace, &rawdoc! {}, true, &options)
                .0
                .request
                .kind,
            CommandKind::Write
        );
        let one = delete(&namespace, &rawdoc! {}, false, &options);
        assert_eq!(one.0.request.kind, CommandKind::RetryableWrite);
    }
}
