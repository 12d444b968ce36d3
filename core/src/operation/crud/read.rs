//! The commands of `find`, `find_one`, `distinct` and the two ways to count.

use super::{
    CountOptions, CursorType, Defaults, DistinctOptions, EstimatedDocumentCountOptions,
    FindOneOptions, FindOptions, SharedNamespace,
};
use crate::{
    bson::{decode_document, deserialize, integer_field},
    error::Error,
    operation::{Command, CommandKind, CursorSettings, batch},
    options::Place,
};
use bson::{Bson, Document, RawDocument, doc};
use serde::de::DeserializeOwned;

/// Sets the server selection, the read concern and the time limits of a read.
macro_rules! finish_read {
    ($command:ident, $options:ident, $defaults:ident) => {
        let (criteria, concern) = (&$options.selection_criteria, &$options.read_concern);
        $defaults.apply_to_read(&mut $command, criteria.as_ref(), concern.as_ref());
        $defaults.apply_timeout(&mut $command, $options.timeout);
        $command.set_raw_data($options.raw_data);
        $command.set_max_time($options.max_time);
    };
}

/// Returns the command that finds the documents that match `filter`. Fails if the filter or an
/// option cannot be encoded, and for options that exclude each other.
pub fn find(
    namespace: &SharedNamespace,
    filter: &Document,
    options: &FindOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = Command::new("find", namespace.database.clone(), CommandKind::Read);
    let mut body = command.body();
    body.str("find", &namespace.collection)
        .subtree("filter", filter)?;
    options.write(Place::Body, &mut body)?;
    let limit = options.limit.filter(|&limit| limit != 0);
    if let Some(limit) = limit {
        body.i64("limit", limit.saturating_abs());
    }
    match options.cursor_type {
        None | Some(CursorType::NonTailable) => {}
        Some(CursorType::Tailable) => drop(body.bool("tailable", true)),
        Some(CursorType::TailableAwait) => {
            body.bool("tailable", true).bool("awaitData", true);
        }
    }
    let batch_size = options.batch_size.filter(|&size| size != 0);
    let batch_size = match (limit, batch_size.map(i64::from)) {
        // With `singleBatch`, the server returns one batch and closes the cursor, as a negative
        // limit demands. The batch has all documents.
        (Some(limit), _) if limit < 0 => {
            body.bool("singleBatch", true);
            Some(limit.saturating_abs())
        }
        // A batch that the limit fills would leave an open cursor without documents.
        (Some(limit), Some(size)) if limit == size => Some(size + 1),
        (_, size) => size,
    };
    if let Some(size) = batch_size {
        match i32::try_from(size) {
            Ok(size) => body.i32("batchSize", size),
            Err(_) => body.i64("batchSize", size),
        };
    }
    command.set_cursor(CursorSettings {
        batch_size: options.batch_size,
        limit: options
            .limit
            .map(i64::unsigned_abs)
            .filter(|&limit| limit > 0),
        max_await_time: options.await_time(),
        comment: options.comment.clone(),
        cursor_type: options.cursor_type,
        timeout_mode: options.timeout_mode,
    });
    finish_read!(command, options, defaults);
    Ok(command)
}

/// Returns the command that finds the first document that matches `filter`. Fails like [`find`].
pub fn find_one(
    namespace: &SharedNamespace,
    filter: &Document,
    options: &FindOneOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = Command::new("find", namespace.database.clone(), CommandKind::Read);
    let mut body = command.body();
    body.str("find", &namespace.collection)
        .subtree("filter", filter)?;
    options.write(Place::Body, &mut body)?;
    body.i64("limit", 1).bool("singleBatch", true);
    finish_read!(command, options, defaults);
    Ok(command)
}

/// Returns the first document of a cursor's first batch, read in place; `None` for an empty batch.
/// Fails if the reply has no first batch, or if the first element of the batch is not a document.
pub fn first_document(reply: &RawDocument) -> Result<Option<&RawDocument>, Error> {
    let bytes = batch::first_document(reply)?;
    let document = bytes.map(RawDocument::from_bytes).transpose();
    document.map_err(|_| batch::not_a_document())
}

/// Decodes the first document of a cursor's first batch; `None` for an empty batch. Fails like
/// [`first_document`], and if the document does not have the form that `T` needs.
pub fn decode_first<T: DeserializeOwned + 'static>(
    reply: &RawDocument,
) -> Result<Option<T>, Error> {
    let Some(document) = batch::first_document(reply)? else {
        return Ok(None);
    };
    match deserialize(document) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(error.with_namespace(batch::namespace(reply))),
    }
}

/// Returns the command that counts the documents that match `filter`. Its reply has a cursor with
/// one document, whose field `n` is the number, or with no document if the number is zero.
///
/// Fails if the filter or an option cannot be encoded.
pub fn count_documents(
    namespace: &SharedNamespace,
    filter: &Document,
    options: &CountOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut pipeline = vec![doc! { "$match": filter.clone() }];
    if let Some(skip) = options.skip {
        pipeline.push(doc! { "$skip": number(skip) });
    }
    // The server takes no limit of zero.
    if let Some(limit) = options.limit.filter(|&limit| limit > 0) {
        pipeline.push(doc! { "$limit": number(limit) });
    }
    pipeline.push(doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } });
    let mut command = Command::new("aggregate", namespace.database.clone(), CommandKind::Read);
    let mut body = command.body();
    body.str("aggregate", &namespace.collection)
        .trees("pipeline", &pipeline)?
        .nested("cursor", |_| {});
    options.write(Place::Body, &mut body)?;
    finish_read!(command, options, defaults);
    Ok(command)
}

/// Reads the number of documents from the reply to [`count_documents`]. Fails if the reply has no
/// first batch, or if the document of the batch has no valid number.
pub fn count_from_reply(reply: &RawDocument) -> Result<u64, Error> {
    match first_document(reply)? {
        None => Ok(0),
        Some(document) => number_in(document),
    }
}

/// Reads the field `n`, for example of the reply to [`estimated_document_count`]. Fails if it is
/// absent or no number of documents.
pub fn number_in(document: &RawDocument) -> Result<u64, Error> {
    integer_field(document, "n")
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| Error::protocol("the reply to the count has no valid number in field n"))
}

/// Returns the command that returns the number of documents from the metadata of the collection.
/// Fails if an option cannot be encoded.
pub fn estimated_document_count(
    namespace: &SharedNamespace,
    options: &EstimatedDocumentCountOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = Command::new("count", namespace.database.clone(), CommandKind::Read);
    let mut body = command.body();
    body.str("count", &namespace.collection);
    options.write(Place::Body, &mut body)?;
    finish_read!(command, options, defaults);
    Ok(command)
}

/// Returns the command that returns the different values of a field in the documents that match
/// `filter`. Fails if the filter or an option cannot be encoded.
pub fn distinct(
    namespace: &SharedNamespace,
    field: &str,
    filter: &Document,
    options: &DistinctOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = Command::new("distinct", namespace.database.clone(), CommandKind::Read);
    let mut body = command.body();
    body.str("distinct", &namespace.collection)
        .str("key", field)
        .subtree("query", filter)?;
    options.write(Place::Body, &mut body)?;
    finish_read!(command, options, defaults);
    Ok(command)
}

/// Reads the values from the reply to [`distinct`]. Fails if the reply has no array of values.
pub fn values_from_reply(reply: &RawDocument) -> Result<Vec<Bson>, Error> {
    // The depth of the values is limited.
    match decode_document(reply)?.remove("values") {
        Some(Bson::Array(values)) => Ok(values),
        _ => Err(Error::protocol(
            "the reply to distinct has no array in field values",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    /// Returns `limit`, `batchSize` and `singleBatch` of a `find`.
    fn sizes(
        limit: Option<i64>,
        batch_size: Option<u32>,
    ) -> (Option<i64>, Option<i64>, Option<bool>) {
        let options = FindOptions {
            limit,
            batch_size,
            ..FindOptions::default()
        };
        let namespace = SharedNamespace::unchecked("d".into(), "c".into());
        let command = find(&namespace, &Document::new(), &options, &Defaults::default());
        let elements = &command.expect("valid").0.request.elements;
        let mut bytes = i32::try_from(elements.len() + 5)
            .expect("short")
            .to_le_bytes()
            .to_vec();
        bytes.extend_from_slice(elements);
        bytes.push(0);
        let body = RawDocument::from_bytes(&bytes).expect("BSON");
        (
            body.get_i64("limit").ok(),
            integer_field(body, "batchSize"),
            body.get_bool("singleBatch").ok(),
        )
    }

    #[test]
    fn limits_and_batch_sizes_are_transformed_as_specified() {
        // Find, getMore and killCursors Commands, *Mapping OP_QUERY behavior*.
        let single = Some(true);
        let (most, large) = (Some(i64::MAX), Some(i64::from(u32::MAX)));
        for (limit, batch_size, expected) in [
            (None, None, (None, None, None)),
            (Some(0), Some(0), (None, None, None)),
            (Some(5), None, (Some(5), None, None)),
            (Some(5), Some(2), (Some(5), Some(2), None)),
            (Some(5), Some(5), (Some(5), Some(6), None)),
            (Some(-5), None, (Some(5), Some(5), single)),
            (Some(-5), Some(2), (Some(5), Some(5), single)),
            (Some(-5), Some(9), (Some(5), Some(5), single)),
            (most, None, (most, None, None)),
            // The absolute value of the smallest number is beyond the range.
            (Some(i64::MIN), None, (most, most, single)),
            (Some(i64::MIN), Some(2), (most, most, single)),
            (None, Some(u32::MAX), (None, large, None)),
            (large, Some(u32::MAX), (large, Some(1 << 32), None)),
        ] {
            assert_eq!(
                sizes(limit, batch_size),
                expected,
                "{limit:?} {batch_size:?}"
            );
        }
    }

    #[test]
    fn values_that_are_nested_too_deep_are_refused() {
        let reply = rawdoc! { "values": [1, "x"], "ok": 1 };
        let values = values_from_reply(&reply).expect("values");
        assert_eq!(values, [Bson::from(1), Bson::from("x")]);
        let mut deep = bson::RawArrayBuf::new();
        for _ in 0..20_000 {
            let mut outer = bson::RawArrayBuf::new();
            outer.push(deep);
            deep = outer;
        }
        assert!(values_from_reply(&rawdoc! { "values": deep, "ok": 1 }).is_err());
        assert!(values_from_reply(&rawdoc! { "ok": 1 }).is_err());
    }
}
