//! The `aggregate` command.

use super::Namespace;
use crate::{
    operation::{Command, CommandKind},
    options::{ReadConcern, ReadPreference, WriteConcern},
};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf};
use std::{sync::Arc, time::Duration};

/// The stages that write documents. Only the last stage of a pipeline can be one of them.
const WRITING_STAGES: [&str; 2] = ["$out", "$merge"];

/// Options of an aggregation. All are unset by default.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AggregateOptions {
    /// The maximum number of documents per batch; `None` for the default of the server. Not sent
    /// for a pipeline that ends with `$out` or `$merge`.
    pub batch_size: Option<u32>,
    /// The read preference, by which the server is selected; `None` for `primary`.
    pub read_preference: Option<Arc<ReadPreference>>,
    /// The read concern of the pipeline; `None` for the default of the server.
    pub read_concern: Option<ReadConcern>,
    /// The write concern of `$out` and `$merge`; `None` for the default of the server. Not sent for
    /// a pipeline that does not end with one of them.
    pub write_concern: Option<WriteConcern>,
    /// The time limit of the whole operation, every `getMore` of its cursor included; `None` for
    /// `timeoutMS` of the client.
    pub timeout: Option<Duration>,
}

/// Returns the command that runs `pipeline` on a collection. Its reply has a cursor.
///
/// The read preference selects the server. A pipeline that ends with `$out` or `$merge` runs on the
/// primary instead if an available server is older than 5.0 ([SEL-34]). The cursor is empty if the
/// pipeline ends with `$out` or `$merge`.
///
/// [SEL-34]: crate::requirements::server_selection#SEL-34
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
            // A pipeline that writes returns no documents, so a batch size has no use.
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
