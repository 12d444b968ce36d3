//! The program that renames files.

use super::{Bucket, equal, has_affected, not_found};
use crate::{
    error::{Error, GridFsFileIdentifier},
    operation::{
        Command, Exchange, Program, Step,
        crud::{self, UpdateOptions},
    },
};
use bson::doc;
use std::time::Duration;

/// The program that renames a file, or all files of a name (GridFS Specification, *Renaming stored
/// files*).
#[derive(Debug)]
pub struct Renaming {
    bucket: Bucket,
    timeout: Option<Duration>,
    target: GridFsFileIdentifier,
    new_name: String,
}

impl Renaming {
    /// Returns the program that gives the files that `target` names the name `new_name`.
    #[must_use]
    pub fn new(
        bucket: Bucket,
        target: GridFsFileIdentifier,
        new_name: String,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            bucket,
            timeout,
            target,
            new_name,
        }
    }

    fn command(&self) -> Result<Command, Error> {
        self.bucket.check()?;
        let (filter, multi) = match &self.target {
            GridFsFileIdentifier::Id(id) => (equal("_id", id), false),
            GridFsFileIdentifier::Filename(name) => (doc! { "filename": name }, true),
        };
        let update = doc! { "$set": { "filename": &self.new_name } }.into();
        let options = UpdateOptions {
            timeout: self.timeout,
            ..UpdateOptions::default()
        };
        let (files, defaults) = (&self.bucket.files, &self.bucket.defaults);
        crud::update(files, &filter, &update, multi, &options, defaults)
    }
}

impl Program for Renaming {
    type Output = ();

    fn start(&mut self) -> Step<()> {
        match self.command() {
            Ok(command) => Step::Run(command),
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<()> {
        Step::Done(match has_affected(exchange.reply()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(not_found(self.target.clone())),
            Err(error) => Err(error),
        })
    }
}
