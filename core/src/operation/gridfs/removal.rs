//! The programs that delete files.

use super::{Bucket, equal, has_affected, not_found};
use crate::{
    error::{Error, GridFsFileIdentifier},
    operation::{
        Abandoned, Command, Cursor, Exchange, Program, Step,
        crud::{self, DeleteOptions, FindOptions},
    },
};
use bson::{Bson, Document, doc};
use std::time::Duration;

/// The number of files of a name whose chunks are deleted with one command.
const FILES_PER_BATCH: u32 = 1_000;

/// The program that deletes a file, or all files of a name. The files collection documents are
/// deleted first, so that no reader finds a file that lacks chunks (GridFS Specification, *File
/// Deletion*).
#[derive(Debug)]
pub struct Removal {
    bucket: Bucket,
    timeout: Option<Duration>,
    target: GridFsFileIdentifier,
    /// The cursor of the files of a name; `None` for a file with an id, and before it is opened.
    cursor: Option<Cursor>,
    /// The filter of the chunks to delete next.
    chunks: Document,
    has_found: bool,
    stage: Stage,
}

/// The command that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Finding,
    Files,
    Chunks,
}

impl Removal {
    /// Returns the program for the files that `target` names.
    #[must_use]
    pub fn new(bucket: Bucket, target: GridFsFileIdentifier, timeout: Option<Duration>) -> Self {
        Self {
            bucket,
            timeout,
            target,
            cursor: None,
            chunks: Document::new(),
            has_found: false,
            stage: Stage::Finding,
        }
    }

    fn run(&mut self, stage: Stage, command: Result<Command, Error>) -> Step<()> {
        self.stage = stage;
        match command {
            Ok(mut command) => {
                self.bucket
                    .defaults
                    .apply_timeout(&mut command, self.timeout);
                Step::Run(command)
            }
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn delete_files(&mut self, filter: &Document, multi: bool) -> Step<()> {
        let options = DeleteOptions::default();
        let (files, defaults) = (&self.bucket.files, &self.bucket.defaults);
        let command = crud::delete(files, filter, multi, &options, defaults);
        self.run(Stage::Files, command)
    }

    fn delete_chunks(&mut self) -> Step<()> {
        let command = self.bucket.delete_chunks(&self.chunks);
        self.run(Stage::Chunks, command)
    }

    /// Deletes the files in the current batch of the cursor, or fetches the next batch.
    fn next_batch(&mut self) -> Step<()> {
        let Some(cursor) = &mut self.cursor else {
            return self.end();
        };
        let mut ids = Vec::new();
        while let Some(next) = cursor.advance() {
            match next.and_then(|()| cursor.decode::<Document>()) {
                Ok(mut file) => ids.extend(file.remove("_id")),
                Err(error) => return Step::Done(Err(error)),
            }
        }
        if !ids.is_empty() {
            self.has_found = true;
            let ids = Bson::Array(ids);
            let files = doc! { "_id": { "$in": &ids } };
            self.chunks = doc! { "files_id": { "$in": ids } };
            return self.delete_files(&files, true);
        }
        match cursor.start() {
            Step::Run(command) => {
                self.stage = Stage::Finding;
                Step::Run(command)
            }
            Step::Done(Err(error)) => Step::Done(Err(error)),
            _ => self.end(),
        }
    }

    fn end(&mut self) -> Step<()> {
        Step::Done(match self.has_found {
            true => Ok(()),
            false => Err(not_found(self.target.clone())),
        })
    }

    fn on_found(&mut self, exchange: &mut Exchange) -> Step<()> {
        let result = match &mut self.cursor {
            Some(cursor) => match cursor.handle_reply(exchange) {
                Step::Done(Err(error)) => Err(error),
                Step::Run(command) => return Step::Run(command),
                _ => Ok(()),
            },
            None => {
                let database = self.bucket.files.shared_database().clone();
                Cursor::from_exchange(exchange, database).map(|cursor| self.cursor = Some(cursor))
            }
        };
        match result {
            Ok(()) => self.next_batch(),
            Err(error) => Step::Done(Err(error)),
        }
    }
}

impl Program for Removal {
    type Output = ();

    fn start(&mut self) -> Step<()> {
        if let Err(error) = self.bucket.check() {
            return Step::Done(Err(error));
        }
        match &self.target {
            GridFsFileIdentifier::Id(id) => {
                let filter = equal("_id", id);
                self.chunks = equal("files_id", id);
                self.delete_files(&filter, false)
            }
            GridFsFileIdentifier::Filename(name) => {
                let options = FindOptions::builder()
                    .projection(doc! { "_id": 1 })
                    .batch_size(FILES_PER_BATCH)
                    .build();
                let (files, defaults) = (&self.bucket.files, &self.bucket.defaults);
                let filter = doc! { "filename": name };
                let command = crud::find(files, &filter, &options, defaults);
                self.run(Stage::Finding, command)
            }
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<()> {
        match self.stage {
            Stage::Finding => self.on_found(exchange),
            Stage::Files => {
                if self.cursor.is_none() {
                    match has_affected(exchange.reply()) {
                        Ok(has_found) => self.has_found = has_found,
                        Err(error) => return Step::Done(Err(error)),
                    }
                }
                // Without a file there can be chunks of an upload that has failed.
                self.delete_chunks()
            }
            Stage::Chunks => self.next_batch(),
        }
    }

    fn handle_error(&mut self, error: Error) -> Step<()> {
        if let Some(cursor) = &mut self.cursor
            && self.stage == Stage::Finding
        {
            cursor.handle_failure(&error);
        }
        Step::Done(Err(error.of_one_write()))
    }

    fn abandon(&mut self) -> Abandoned {
        let cursor = self.cursor.as_mut();
        cursor.map_or(Abandoned::Nothing, Cursor::abandon)
    }
}
