//! `find` and counting.

use super::Namespace;
use crate::{
    error::Error,
    operation::{Command, CommandKind},
    options::{ReadConcern, ReadPreference},
};
use bson::{RawDocument, RawDocumentBuf};
use std::{sync::Arc, time::Duration};

/// Options of `find`. All are unset by default, which leaves the server's own defaults.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FindOptions {
    /// Order of the results.
    pub sort: Option<RawDocumentBuf>,
    /// Fields to return.
    pub projection: Option<RawDocumentBuf>,
    /// Documents to leave out at the beginning.
    pub skip: Option<u64>,
    /// Documents to return at most; zero for all.
    pub limit: Option<i64>,
    /// Documents per batch.
    pub batch_size: Option<u32>,
    /// Which servers may answer.
    pub read_preference: Option<Arc<ReadPreference>>,
    /// How durable the documents must be.
    pub read_concern: Option<ReadConcern>,
    /// Bounds the whole operation.
    pub timeout: Option<Duration>,
}

/// The command that finds documents which match `filter`.
#[must_use]
pub fn find(namespace: &Namespace, filter: &RawDocument, options: &FindOptions) -> Command {
    let mut command = Command::new("find", namespace.database.clone(), CommandKind::Read);
    let mut body = command.body();
    body.str("find", &namespace.collection)
        .document("filter", filter);
    if let Some(sort) = &options.sort {
        body.document("sort", sort);
    }
    if let Some(projection) = &options.projection {
        body.document("projection", projection);
    }
    if let Some(skip) = options.skip {
        body.i64("skip", i64::try_from(skip).unwrap_or(i64::MAX));
    }
    // A negative limit asks for one batch of that size.
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
    command
}

/// Options of counting.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CountOptions {
    /// Which servers may answer.
    pub read_preference: Option<Arc<ReadPreference>>,
    /// How durable the documents must be.
    pub read_concern: Option<ReadConcern>,
    /// Bounds the whole operation.
    pub timeout: Option<Duration>,
}

/// The command that counts documents which match `filter`. Its reply is a cursor with one document
/// whose `n` is the number, or with none for zero.
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
