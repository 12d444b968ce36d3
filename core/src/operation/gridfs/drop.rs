//! The program that drops a bucket.

use super::Bucket;
use crate::{
    error::Error,
    operation::{
        Exchange, Program, Step,
        crud::{self, DropCollectionOptions, SharedNamespace, is_missing_namespace},
    },
};
use std::time::Duration;

/// The program that drops the two collections of a bucket, first that of the files (GridFS
/// Specification, *Dropping an entire GridFS bucket*). A collection that does not exist is no
/// error.
#[derive(Debug)]
pub struct Dropping {
    bucket: Bucket,
    timeout: Option<Duration>,
    has_dropped_files: bool,
}

impl Dropping {
    /// Returns the program of a bucket.
    #[must_use]
    pub const fn new(bucket: Bucket, timeout: Option<Duration>) -> Self {
        Self {
            bucket,
            timeout,
            has_dropped_files: false,
        }
    }

    fn drop(&self, namespace: &SharedNamespace) -> Step<()> {
        let options = DropCollectionOptions {
            timeout: self.timeout,
            ..DropCollectionOptions::default()
        };
        let command = namespace
            .check()
            .and_then(|()| crud::drop_collection(namespace, &options, &self.bucket.defaults));
        match command {
            Ok(command) => Step::Run(command),
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn next(&mut self) -> Step<()> {
        match std::mem::replace(&mut self.has_dropped_files, true) {
            false => self.drop(&self.bucket.chunks),
            true => Step::Done(Ok(())),
        }
    }
}

impl Program for Dropping {
    type Output = ();

    fn start(&mut self) -> Step<()> {
        self.drop(&self.bucket.files)
    }

    fn handle_reply(&mut self, _: &mut Exchange) -> Step<()> {
        self.next()
    }

    fn handle_error(&mut self, error: Error) -> Step<()> {
        match is_missing_namespace(&error) {
            true => self.next(),
            false => Step::Done(Err(error.of_one_write())),
        }
    }
}
