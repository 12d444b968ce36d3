//! The `aggregate` with `$changeStream`, which opens a change stream.

use super::{
    ChangeStreamOptions, CursorType, Defaults, ResumeToken, SharedNamespace, check_database_name,
};
use crate::{
    bson::{DocumentWriter, decode_document},
    error::Error,
    operation::{Command, CommandKind, CursorSettings},
    options::Place,
};
use bson::{Bson, Document, RawDocument, Timestamp};
use std::sync::Arc;

/// The stage that splits large events.
const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// The part of the data that a change stream watches.
#[derive(Clone, Debug, PartialEq)]
enum Target {
    Collection(SharedNamespace),
    Database(Arc<str>),
    Deployment,
}

/// A call of `watch`: from it come the command that opens the change stream, and those that resume
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    target: Target,
    pipeline: Vec<Document>,
    options: ChangeStreamOptions,
    defaults: Arc<Defaults>,
}

/// The place at which a change stream starts or resumes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position<'a> {
    /// The place that the options name.
    OfOptions,
    StartAfter(&'a ResumeToken),
    ResumeAfter(&'a ResumeToken),
    At(Timestamp),
}

impl Watch {
    /// Watches a collection. The `pipeline` changes and filters the events.
    #[must_use]
    pub const fn collection(
        namespace: SharedNamespace,
        pipeline: Vec<Document>,
        options: ChangeStreamOptions,
        defaults: Arc<Defaults>,
    ) -> Self {
        Self {
            target: Target::Collection(namespace),
            pipeline,
            options,
            defaults,
        }
    }

    /// Watches all collections of a database.
    #[must_use]
    pub const fn database(
        database: Arc<str>,
        pipeline: Vec<Document>,
        options: ChangeStreamOptions,
        defaults: Arc<Defaults>,
    ) -> Self {
        Self {
            target: Target::Database(database),
            pipeline,
            options,
            defaults,
        }
    }

    /// Watches all databases of the deployment, except those that MongoDB itself uses.
    #[must_use]
    pub const fn deployment(
        pipeline: Vec<Document>,
        options: ChangeStreamOptions,
        defaults: Arc<Defaults>,
    ) -> Self {
        Self {
            target: Target::Deployment,
            pipeline,
            options,
            defaults,
        }
    }

    /// Returns the options of the call.
    #[must_use]
    pub const fn options(&self) -> &ChangeStreamOptions {
        &self.options
    }

    /// Returns the name of the database on which the stream is opened.
    #[must_use]
    pub fn database_name(&self) -> Arc<str> {
        match &self.target {
            Target::Collection(namespace) => namespace.database.clone(),
            Target::Database(database) => database.clone(),
            Target::Deployment => "admin".into(),
        }
    }

    /// Returns the command that opens the stream. Fails if a name is not valid, or if the pipeline
    /// or an option cannot be encoded.
    pub fn command(&self) -> Result<Command, Error> {
        self.command_at(Position::OfOptions)
    }

    /// Returns the command that opens the stream at a place.
    pub(crate) fn command_at(&self, position: Position<'_>) -> Result<Command, Error> {
        let mut command = Command::new("aggregate", self.database_name(), CommandKind::Read);
        let mut body = command.body();
        match &self.target {
            Target::Collection(namespace) => {
                namespace.check()?;
                body.str("aggregate", &namespace.collection);
            }
            Target::Database(database) => {
                check_database_name(database)?;
                body.i32("aggregate", 1);
            }
            Target::Deployment => {
                body.i32("aggregate", 1);
            }
        }
        let mut pipeline = vec![self.stage(position)?];
        pipeline.extend(self.pipeline.iter().cloned());
        let has_split = self.pipeline.iter().any(|stage| stage.contains_key(SPLIT));
        if self.joins() && !has_split {
            pipeline.push(bson::doc! { SPLIT: {} });
        }
        let options = &self.options;
        body.trees("pipeline", &pipeline)?
            .nested("cursor", |cursor| {
                if let Some(size) = options.batch_size {
                    cursor.i64("batchSize", size.into());
                }
            });
        options.write(Place::Body, &mut body)?;
        let (criteria, concern) = (&options.selection_criteria, &options.read_concern);
        self.defaults
            .apply_to_read(&mut command, criteria.as_ref(), concern.as_ref());
        self.defaults.apply_timeout(&mut command, options.timeout);
        command.set_cursor(CursorSettings {
            batch_size: options.batch_size,
            max_await_time: options.max_await_time,
            comment: options.comment.clone(),
            cursor_type: Some(CursorType::TailableAwait),
            ..CursorSettings::default()
        });
        Ok(command)
    }

    /// True if the parts of split events are joined.
    pub(crate) fn joins(&self) -> bool {
        self.options.join_split_events == Some(true)
    }

    /// Returns the stage `$changeStream`.
    fn stage(&self, position: Position<'_>) -> Result<Document, Error> {
        let mut bytes = Vec::new();
        let mut writer = DocumentWriter::begin(&mut bytes);
        self.options.write(Place::Stage, &mut writer)?;
        let options = &self.options;
        if self.target == Target::Deployment {
            writer.bool("allChangesForCluster", true);
        }
        let (mut resume, mut start) = (options.resume_after.as_ref(), options.start_after.as_ref());
        let mut time = options.start_at_operation_time;
        if !matches!(position, Position::OfOptions) {
            (resume, start, time) = (None, None, None);
        }
        match position {
            Position::OfOptions => {}
            Position::StartAfter(token) => start = Some(token),
            Position::ResumeAfter(token) => resume = Some(token),
            Position::At(at) => time = Some(at),
        }
        if let Some(token) = resume {
            writer.document("resumeAfter", token.as_document());
        }
        if let Some(token) = start {
            writer.document("startAfter", token.as_document());
        }
        if let Some(time) = time {
            writer.tree_value("startAtOperationTime", &Bson::Timestamp(time))?;
        }
        writer.end();
        let stage = RawDocument::from_bytes(&bytes).map_err(|error| error.to_string());
        let stage = stage.and_then(|raw| decode_document(raw).map_err(|error| error.to_string()));
        let stage = stage.map_err(|error| match position {
            Position::OfOptions | Position::At(_) => Error::argument(format!(
                "the options of a change stream are not BSON: {error}"
            )),
            Position::StartAfter(_) | Position::ResumeAfter(_) => {
                Error::protocol(format!("the server's resume token is not BSON: {error}"))
            }
        })?;
        Ok(bson::doc! { "$changeStream": stage })
    }
}
