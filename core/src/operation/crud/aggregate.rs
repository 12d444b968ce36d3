//! Aggregations.

use super::Namespace;
use crate::{
    operation::{Command, CommandKind},
    options::{ReadConcern, ReadPreference, WriteConcern},
};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf};
use std::{sync::Arc, time::Duration};

/// Stages that write what a pipeline gives; only the last one may be such a stage.
const WRITING_STAGES: [&str; 2] = ["$out", "$merge"];

/// Options of an aggregation. All are unset by default, which leaves the server's own defaults.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AggregateOptions {
    /// Documents per batch.
    pub batch_size: Option<u32>,
    /// Which servers may answer.
    pub read_preference: Option<Arc<ReadPreference>>,
    /// How durable the documents must be.
    pub read_concern: Option<ReadConcern>,
    /// How the documents that `$out` or `$merge` writes are confirmed. Not sent with a pipeline
    /// that ends otherwise.
    pub write_concern: Option<WriteConcern>,
    /// Bounds the whole operation.
    pub timeout: Option<Duration>,
}

/// The command that runs `pipeline` on a collection. Its reply is a cursor.
///
/// A pipeline that ends in `$out` or `$merge` goes to a server that the read preference chooses
/// only where all available servers accept that, which those from 5.0 on do; else to the primary
/// (SEL-34). Its cursor is empty.
#[must_use]
pub fn aggregate(
    namespace: &Namespace,
    pipeline: &[RawDocumentBuf],
    options: &AggregateOptions,
) -> Command {
    let writes = pipeline.last().is_some_and(|stage| is_writing(stage));
    let kind = if writes {
        CommandKind::WritingAggregate
    } else {
        CommandKind::Read
    };
    let mut command = Command::new("aggregate", namespace.database.clone(), kind);
    let mut stages = RawArrayBuf::new();
    for stage in pipeline {
        stages.push(stage.clone());
    }
    let mut body = command.body();
    body.str("aggregate", &namespace.collection)
        .array("pipeline", &stages)
        .nested("cursor", |cursor| {
            // A pipeline that writes gives no documents, and some servers refuse the option then.
            if let Some(size) = options.batch_size.filter(|_| !writes) {
                cursor.i64("batchSize", size.into());
            }
        });
    if let Some(concern) = &options.read_concern {
        body.document("readConcern", &concern.to_document());
    }
    let write_concern = options.write_concern.as_ref().filter(|_| writes);
    if let Some(concern) = write_concern.filter(|concern| !concern.is_server_default()) {
        body.document("writeConcern", &concern.to_document());
    }
    if let Some(preference) = &options.read_preference {
        command.set_read_preference(preference.clone());
    }
    command.set_timeout(options.timeout);
    command
}

fn is_writing(stage: &RawDocument) -> bool {
    let first = stage.into_iter().next().and_then(Result::ok);
    first.is_some_and(|(name, _)| WRITING_STAGES.contains(&name.as_str()))
}
