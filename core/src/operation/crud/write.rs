//! The commands `insert`, `update` and `delete`, and the results of writes.

use super::{
    Defaults, DeleteOptions, InsertOneOptions, ReplaceOptions, SharedNamespace,
    UpdateModifications, UpdateOptions, upserted::Upserted,
};
use crate::{
    bson::DocumentWriter,
    error::{BsonError, Error, ErrorKind, counts},
    operation::{Command, CommandKind, Exchange},
    options::{OptionValue, Place},
    results::{DeleteResult, InsertOneResult, UpdateResult},
    wire::MAX_MESSAGE_BYTES,
};
use bson::{Bson, Document, RawDocument, RawDocumentBuf, oid::ObjectId};
use serde::Serialize;

impl InsertOneResult {
    /// Returns the result of an insert of the document with this `_id`, whose exchange has
    /// succeeded.
    #[must_use]
    pub fn from_exchange(inserted_id: Bson, exchange: &Exchange) -> Self {
        Self {
            inserted_id,
            unacknowledged: !exchange.expects_reply(),
        }
    }
}

impl UpdateResult {
    /// Reads the reply to an `update` of one statement. Without a reply, because the write is
    /// unacknowledged, all counts are zero.
    ///
    /// Fails if a count or the upserted `_id` is malformed. The `_id` may exceed the command by
    /// 1 MiB, because a server sends an `_id` that the command has, or a small one.
    pub fn from_exchange(exchange: &Exchange) -> Result<Self, Error> {
        let variables = exchange.operation.request.elements.len();
        let sent = exchange.portion().map_or(0, |portion| portion.bytes) + variables;
        match exchange.reply() {
            Some(reply) => Self::read(reply, sent),
            None => Ok(Self {
                unacknowledged: true,
                ..Self::default()
            }),
        }
    }

    /// Reads the reply to a statement of this size.
    pub(crate) fn read(reply: &RawDocument, sent: usize) -> Result<Self, Error> {
        let [matched, modified_count] = counts(reply, ["n", "nModified"])?;
        let upserted_id = Upserted::of_statements(sent).in_reply(reply, 1)?.remove(&0);
        Ok(Self {
            matched_count: matched.saturating_sub(upserted_id.is_some().into()),
            modified_count,
            upserted_id,
            unacknowledged: false,
        })
    }
}

impl DeleteResult {
    /// Reads the reply to a `delete`. Without a reply, because the write is unacknowledged, the
    /// count is zero. Fails if the count is malformed.
    pub fn from_exchange(exchange: &Exchange) -> Result<Self, Error> {
        let reply = exchange.reply();
        let counts = reply.map(|reply| counts(reply, ["n"]));
        let [deleted_count] = counts.transpose()?.unwrap_or_default();
        Ok(Self {
            deleted_count,
            unacknowledged: reply.is_none(),
        })
    }
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
/// documents are sent as a document sequence, even if there is only one ([MSG-11]).
///
/// The command fails if the documents exceed the limits of one command.
/// [`InsertMany`](super::InsertMany) splits such a list.
///
/// Fails if an option cannot be encoded.
///
/// [MSG-11]: crate::requirements::messages#MSG-11
pub fn insert(
    namespace: &SharedNamespace,
    documents: Vec<u8>,
    options: &InsertOneOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let kind = CommandKind::RetryableWrite;
    let mut command = Command::new("insert", namespace.database.clone(), kind);
    let mut body = command.body();
    body.str("insert", &namespace.collection)
        .bool("ordered", true);
    options.write(Place::Body, &mut body)?;
    defaults.apply_to_statements(&mut command, options.write_concern.as_ref())?;
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    command.set_sequence("documents", documents);
    Ok(command)
}

/// Returns the command that changes the first document that matches `filter`, or with `multi` all
/// documents that match.
///
/// Fails if `modifications` is empty or has a field that is not an operator, and if a document or
/// an option cannot be encoded.
pub fn update(
    namespace: &SharedNamespace,
    filter: &Document,
    modifications: &UpdateModifications,
    multi: bool,
    options: &UpdateOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    modifications.check()?;
    if multi && options.sort.is_some() {
        return Err(Error::argument("an update of many documents has no order"));
    }
    let mut command = begin_statements("update", namespace, multi);
    options.write(Place::Body, &mut command.body())?;
    defaults.apply_to_statements(&mut command, options.write_concern.as_ref())?;
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    let mut statement = Vec::new();
    let mut writer = DocumentWriter::begin(&mut statement);
    writer.subtree("q", filter)?;
    modifications.write("u", &mut writer)?;
    if multi {
        writer.bool("multi", true);
    }
    options.write(Place::Statement, &mut writer)?;
    writer.end();
    command.set_sequence("updates", statement);
    Ok(command)
}

/// Returns the command that replaces the first document that matches `filter` by the document in
/// `replacement`. Fails if the replacement begins with an update operator, and if the filter or an
/// option cannot be encoded.
pub fn replace(
    namespace: &SharedNamespace,
    filter: &Document,
    replacement: &RawDocument,
    options: &ReplaceOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    check_replacement(replacement)?;
    let mut command = begin_statements("update", namespace, false);
    options.write(Place::Body, &mut command.body())?;
    defaults.apply_to_statements(&mut command, options.write_concern.as_ref())?;
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    let mut statement = Vec::new();
    let mut writer = DocumentWriter::begin(&mut statement);
    writer.subtree("q", filter)?.document("u", replacement);
    options.write(Place::Statement, &mut writer)?;
    writer.end();
    command.set_sequence("updates", statement);
    Ok(command)
}

/// Returns the command that deletes the first document that matches `filter`, or with `multi` all
/// documents that match. Fails if the filter or an option cannot be encoded.
pub fn delete(
    namespace: &SharedNamespace,
    filter: &Document,
    multi: bool,
    options: &DeleteOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = begin_statements("delete", namespace, multi);
    options.write(Place::Body, &mut command.body())?;
    defaults.apply_to_statements(&mut command, options.write_concern.as_ref())?;
    command.need_hint(options.hint.is_some());
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    let mut statement = Vec::new();
    let mut writer = DocumentWriter::begin(&mut statement);
    writer
        .subtree("q", filter)?
        .i32("limit", if multi { 0 } else { 1 });
    options.write(Place::Statement, &mut writer)?;
    writer.end();
    command.set_sequence("deletes", statement);
    Ok(command)
}

/// Returns a command of one statement. A statement that can affect several documents makes the
/// command a write that is not retried (RW-8).
fn begin_statements(name: &'static str, namespace: &SharedNamespace, multi: bool) -> Command {
    let kind = match multi {
        true => CommandKind::Write,
        false => CommandKind::RetryableWrite,
    };
    let mut command = Command::new(name, namespace.database.clone(), kind);
    command
        .body()
        .str(name, &namespace.collection)
        .bool("ordered", true);
    command
}

/// The message for a replacement that begins with an operator.
pub(super) const REPLACEMENT_WITH_OPERATORS: &str =
    "a replacement must not have operators such as $set; use a method for updates";

/// Fails if a replacement begins with an update operator.
pub(crate) fn check_replacement(replacement: &RawDocument) -> Result<(), Error> {
    match replacement.iter().next() {
        Some(Ok((key, _))) if key.as_str().starts_with('$') => {
            Err(Error::argument(REPLACEMENT_WITH_OPERATORS))
        }
        Some(Err(error)) => Err(ErrorKind::Bson(BsonError {
            message: error.to_string(),
            path: String::new(),
        })
        .into()),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Encodes a replacement, which keeps the order of its fields. Fails if the value cannot be
/// represented in BSON, is nested deeper than [`MAX_DEPTH`](crate::bson::MAX_DEPTH), or begins with
/// an update operator.
pub fn encode_replacement<T: Serialize + ?Sized>(value: &T) -> Result<RawDocumentBuf, Error> {
    let bytes = onionskin_bson::serialize_to_vec(value)?;
    let document = RawDocumentBuf::from_bytes(bytes).map_err(|error| {
        ErrorKind::Bson(BsonError {
            message: error.to_string(),
            path: String::new(),
        })
    })?;
    check_replacement(&document)?;
    Ok(document)
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
        let result = UpdateResult::read(&reply, 0).expect("valid");
        assert_eq!((result.matched_count, result.modified_count), (0, 0));
        assert_eq!(result.upserted_id, Some(Bson::Int32(5)));

        let mut bytes = rawdoc! { "n": 1, "upserted": [{ "index": 0, "_id": true }] }.into_bytes();
        let boolean = bytes.len() - 4;
        bytes[boolean] = 2;
        let reply = RawDocumentBuf::from_bytes(bytes).expect("its size is right");
        assert!(UpdateResult::read(&reply, 0).is_err(), "it has no such id");
    }

    #[test]
    fn a_malformed_reply_to_an_update_is_no_success() {
        for reply in [
            rawdoc! { "ok": 1, "n": 1, "upserted": [{ "index": 0 }] },
            rawdoc! { "ok": 1, "n": 1, "upserted": "x" },
            rawdoc! { "ok": 1, "n": -1 },
            rawdoc! { "ok": 1, "n": 1, "nModified": "1" },
        ] {
            let error = UpdateResult::read(&reply, 0).expect_err("it is malformed");
            let is_protocol = matches!(error.kind(), ErrorKind::InvalidResponse { .. });
            assert!(is_protocol, "{error:?}");
        }
    }

    #[test]
    fn an_update_of_many_documents_refuses_a_sort() {
        for multi in [false, true] {
            let command = update(
                &SharedNamespace::new("d", "c").expect("names"),
                &doc! {},
                &doc! { "$set": { "a": 1 } }.into(),
                multi,
                &UpdateOptions::builder().sort(doc! { "a": 1 }).build(),
                &Defaults::default(),
            );
            assert_eq!(command.is_err(), multi);
        }
    }

    #[test]
    fn updates_require_operators_and_replacements_refuse_them() {
        let update_by = |modifications: UpdateModifications| {
            let namespace = SharedNamespace::new("d", "c").expect("names");
            let options = UpdateOptions::default();
            let defaults = Defaults::default();
            update(
                &namespace,
                &doc! {},
                &modifications,
                false,
                &options,
                &defaults,
            )
        };
        assert!(update_by(doc! { "$set": { "a": 1 } }.into()).is_ok());
        assert!(update_by(vec![doc! { "$set": { "a": 1 } }].into()).is_ok());
        assert!(update_by(doc! { "a": 1 }.into()).is_err());
        assert!(update_by(doc! { "b": 1, "$set": { "a": 1 } }.into()).is_err());
        // The server, not the driver, refuses a field `b` after an operator.
        assert!(update_by(doc! { "$set": { "a": 1 }, "b": 1 }.into()).is_ok());
        assert!(update_by(doc! {}.into()).is_err());
        assert!(update_by(Vec::new().into()).is_err());
        // The server, not the driver, checks the stages of a pipeline.
        let mixed = vec![
            doc! { "$set": { "a": 1 } },
            doc! { "$inc": { "a": 1 } },
            doc! { "b": 1 },
        ];
        assert!(update_by(mixed.into()).is_ok());
        assert!(encode_replacement(&doc! { "$set": { "a": 1 } }).is_err());
        assert!(encode_replacement(&doc! { "$set": { "a": 1 }, "b": 1 }).is_err());
        assert!(encode_replacement(&doc! { "b": 1, "$set": { "a": 1 } }).is_ok());
        assert!(encode_replacement(&doc! { "a": 1 }).is_ok());
    }

    #[test]
    fn a_delete_of_many_documents_is_not_retryable() {
        // A command with a statement that can affect several documents has no transaction number
        // and is not retried (RW-8).
        let kind_with = |multi| {
            let namespace = SharedNamespace::new("d", "c").expect("names");
            let options = DeleteOptions::default();
            let defaults = Defaults::default();
            let command = delete(&namespace, &doc! {}, multi, &options, &defaults);
            command.expect("it can be encoded").0.request.kind
        };
        assert_eq!(kind_with(true), CommandKind::Write);
        assert_eq!(kind_with(false), CommandKind::RetryableWrite);
    }
}
