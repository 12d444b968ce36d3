//! The `aggregate` command.

use super::{AggregateOptions, Defaults, SharedNamespace, check_database_name};
use crate::{
    error::Error,
    operation::{Command, CommandKind, CursorSettings},
    options::Place,
};
use bson::Document;
use std::sync::Arc;

/// The stages that write documents. Only the last stage of a pipeline can be one of them.
const WRITING_STAGES: [&str; 2] = ["$out", "$merge"];

/// Returns the command that runs `pipeline` on a collection. Its reply has a cursor. Fails if the
/// pipeline or an option cannot be encoded.
///
/// The cursor is empty if the pipeline ends with `$out` or `$merge`. The read preference selects
/// the server, but if an available server is older than 5.0, such a pipeline runs on the primary
/// ([SEL-34]).
///
/// [SEL-34]: crate::requirements::server_selection#SEL-34
pub fn aggregate(
    namespace: &SharedNamespace,
    pipeline: &[Document],
    options: &AggregateOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let (mut command, writes) = begin(namespace.database.clone(), pipeline);
    command.body().str("aggregate", &namespace.collection);
    finish(&mut command, writes, pipeline, options, defaults)?;
    Ok(command)
}

/// Returns the command that runs `pipeline` on a database, for example with the first stage
/// `$currentOp`. Fails like [`aggregate`], and if the name of the database is not valid.
pub fn aggregate_database(
    database: &Arc<str>,
    pipeline: &[Document],
    options: &AggregateOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    check_database_name(database)?;
    let (mut command, writes) = begin(database.clone(), pipeline);
    command.body().i32("aggregate", 1);
    finish(&mut command, writes, pipeline, options, defaults)?;
    Ok(command)
}

/// Returns the empty command, and true if the pipeline writes.
fn begin(database: Arc<str>, pipeline: &[Document]) -> (Command, bool) {
    let last = pipeline.last().and_then(|stage| stage.keys().next());
    let writes = last.is_some_and(|name| WRITING_STAGES.contains(&name.as_str()));
    let kind = match writes {
        true => CommandKind::WritingAggregate,
        false => CommandKind::Read,
    };
    (Command::new("aggregate", database, kind), writes)
}

fn finish(
    command: &mut Command,
    writes: bool,
    pipeline: &[Document],
    options: &AggregateOptions,
    defaults: &Defaults,
) -> Result<(), Error> {
    let mut body = command.body();
    body.trees("pipeline", pipeline)?
        .nested("cursor", |cursor| {
            // A pipeline that writes returns no documents, so a batch size has no use.
            if let Some(size) = options.batch_size.filter(|_| !writes) {
                cursor.i64("batchSize", size.into());
            }
        });
    options.write(Place::Body, &mut body)?;
    let (criteria, concern) = (&options.selection_criteria, &options.read_concern);
    defaults.apply_to_read(command, criteria.as_ref(), concern.as_ref());
    match writes {
        true => defaults.apply_write_concern(command, options.write_concern.as_ref())?,
        false => command.0.request.own.write_concern = options.write_concern.is_some(),
    }
    defaults.apply_timeout(command, options.timeout);
    command.set_cursor(CursorSettings {
        batch_size: options.batch_size,
        max_await_time: options.max_await_time,
        comment: options.comment.clone(),
        timeout_mode: options.timeout_mode,
        ..CursorSettings::default()
    });
    command.set_raw_data(options.raw_data);
    command.set_max_time(options.max_time);
    Ok(())
}
