//! The `find` command, and the `aggregate` command that counts documents.

use super::Namespace;
use crate::{
    bson::{deserialize, integer_field},
    error::Error,
    operation::{Command, CommandKind, batch},
    options::{ReadConcern, ReadPreference},
};
use bson::{Document, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};

/// Options of `find`. All are unset by default.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FindOptions {
    /// The order of the results; `None` for no particular order.
    pub sort: Option<RawDocumentBuf>,
    /// The fields to return; `None` for all fields.
    pub projection: Option<RawDocumentBuf>,
    /// The number of documents to leave out at the beginning; `None` for zero.
    pub skip: Option<u64>,
    /// The largest number of documents to return; zero or `None` for all. With a negative number,
    /// the server returns one batch of at most its absolute value.
    pub limit: Option<i64>,
    /// The maximum number of documents per batch; `None` for the default of the server.
    pub batch_size: Option<u32>,
    /// The read preference, by which the server is selected; `None` for `primary`.
    pub read_preference: Option<Arc<ReadPreference>>,
    /// The read concern; `None` for the default of the server.
    pub read_concern: Option<ReadConcern>,
    /// The time limit of the whole operation, every `getMore` of its cursor included; `None` for
    /// `timeoutMS` of the client.
    pub timeout: Option<Duration>,
}

/// Returns the command that finds the documents that match `filter`. Fails if the filter cannot be
/// encoded.
pub fn find(
    namespace: &Namespace,
    filter: &Document,
    options: &FindOptions,
) -> Result<Command, Error> {
    let mut command = Command::new("find", namespace.database.clone(), CommandKind::Read);
    let mut body = command.body();
    body.str("find", &namespace.collection)
        .subtree("filter", filter)?;
    if let Some(sort) = &options.sort {
        body.document("sort", sort);
    }
    if let Some(projection) = &options.projection {
        body.document("projection", projection);
    }
    if let Some(skip) = options.skip {
        body.i64("skip", i64::try_from(skip).unwrap_or(i64::MAX));
    }
    // With `singleBatch`, the server returns one batch and closes the cursor. A negative limit
    // demands this, and after one document no other batch is needed.
    if let Some(limit) = options.limit {
        body.i64("limit", limit.saturating_abs());
        if limit < 0 || limit == 1 {
            body.bool("singleBatch", true);
        }
    }
    if let Some(size) = options.batch_size {
        body.i64("batchSize", size.into());
    }
    if let Some(concern) = &options.read_concern {
        body.document("readConcern", &concern.to_document());
    }
    if let Some(preference) = &options.read_preference {
        command.set_read_preference(preference.clone());
    }
    command.set_timeout(options.timeout);
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

/// Reads the number of documents from the reply to [`count_documents`]. Fails if the reply has no
/// first batch, or if the document of the batch has no valid number.
pub fn count_from_reply(reply: &RawDocument) -> Result<u64, Error> {
    let Some(document) = first_document(reply)? else {
        return Ok(0);
    };
    integer_field(document, "n")
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| Error::protocol("the reply to the count has no valid number in field n"))
}

/// Options of counting. All are unset by default.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CountOptions {
    /// The read preference, by which the server is selected; `None` for `primary`.
    pub read_preference: Option<Arc<ReadPreference>>,
    /// The read concern; `None` for the default of the server.
    pub read_concern: Option<ReadConcern>,
    /// The time limit of the whole operation, retries included; `None` for `timeoutMS` of the
    /// client.
    pub timeout: Option<Duration>,
}

/// Returns the command that counts the documents that match `filter`. Its reply has a cursor with
/// one document, whose field `n` is the number, or with no document if the number is zero.
pub fn count_documents(
    namespace: &Namespace,
    filter: &RawDocument,
    options: &CountOptions,
) -> Result<Command, Error> {
    let mut command = Command::new("aggregate", namespace.database.clone(), CommandKind::Read);
    let mut pipeline = bson::RawArrayBuf::new();
    pipeline.push(bson::rawdoc! { "$match": filter.to_owned() });
    pipeline.push(bson::rawdoc! { "$group": { "_id": 1, "n": { "$sum": 1 } } });
    let mut body = command.body();
    body.str("aggregate", &namespace.collection)
        .array("pipeline", &pipeline)
        .document("cursor", &RawDocumentBuf::new());
    if let Some(concern) = &options.read_concern {
        body.document("readConcern", &concern.to_document());
    }
    if let Some(preference) = &options.read_preference {
        command.set_read_preference(preference.clone());
    }
    command.set_timeout(options.timeout);
    Ok(command)
}
