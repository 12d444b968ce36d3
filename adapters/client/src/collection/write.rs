//! Write operations: `insert_one`, `insert_many`, updates and deletes.

use super::{Collection, call, raw};
use crate::{
    Execution, Runtime,
    decode::{Deleted, InsertedOne, Updated},
    futures::{DeleteFuture, InsertManyFuture, InsertOneFuture, UpdateFuture},
};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::{
        Command, Prepared,
        crud::{
            self, DeleteResult, InsertManyResult, InsertOneResult, UpdateOptions, UpdateResult,
            WriteOptions,
        },
    },
    options::WriteConcern,
};
use std::{collections::BTreeMap, future::IntoFuture, time::Duration};

/// An `insert_one` operation that runs when it is awaited.
#[must_use = "a call runs when it is awaited"]
pub struct InsertOne<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    /// The encoded document and its `_id`.
    pub(super) document: Result<(Vec<u8>, Bson), Error>,
    pub(super) options: WriteOptions,
}

call!(InsertOne, options, InsertOneResult, InsertOneFuture);

impl<R: Runtime, T: Send + Sync> InsertOne<'_, R, T> {
    /// Sets the write concern. Default: that of the client.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
        self
    }

    fn prepare(self) -> (Result<Command, Error>, InsertedOne) {
        match (self.document, self.collection.namespace()) {
            (Ok((document, id)), Ok(namespace)) => (
                Ok(crud::insert(namespace, document, &self.options)),
                InsertedOne(id),
            ),
            (Err(error), _) | (_, Err(error)) => (Err(error), InsertedOne(Bson::Null)),
        }
    }
}

/// An `insert_many` operation that runs when it is awaited.
///
/// Documents that do not fit into one command are sent in several commands, one after the other.
/// The limits are `maxWriteBatchSize` and `maxMessageSizeBytes` of the server. A document larger
/// than `maxBsonObjectSize` is not sent and ends the insert with an error.
///
/// If the server refuses documents, the error lists them by their index
/// ([`WriteFailure::errors`](onionskin_core::error::WriteFailure)). The error also has the `_id`s
/// of the documents that the server confirmed as inserted ([`Error::partial_insert`]), unless the
/// call failed before its first command.
#[must_use = "a call runs when it is awaited"]
pub struct InsertMany<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    /// The encoded documents, one after the other, and their `_id`s.
    pub(super) documents: Result<(Vec<u8>, BTreeMap<usize, Bson>), Error>,
    pub(super) options: WriteOptions,
}

impl<R: Runtime, T: Send + Sync> InsertMany<'_, R, T> {
    /// Sets the write concern. Default: that of the client.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
        self
    }

    /// Continues with the next document after a document fails. Default: the insert ends.
    pub fn unordered(mut self) -> Self {
        self.options.unordered = true;
        self
    }

    /// Sets the time limit of the whole operation with all its commands: server selections, check
    /// outs, exchanges with the server, and retries. Default: `timeoutMS` of the client; zero means
    /// no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    fn prepare(self) -> Result<crud::InsertMany, Error> {
        let (documents, ids) = self.documents?;
        let namespace = self.collection.namespace()?.clone();
        crud::InsertMany::new(namespace, documents, ids, self.options)
    }
}

impl<R: Runtime, T: Send + Sync> IntoFuture for InsertMany<'_, R, T> {
    type Output = Result<InsertManyResult, Error>;
    type IntoFuture = InsertManyFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.collection.client.clone();
        InsertManyFuture(Execution::new(client, Prepared::new(self.prepare())))
    }
}

/// An update that runs when it is awaited.
#[must_use = "a call runs when it is awaited"]
pub struct Update<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) update: Document,
    pub(super) multi: bool,
    pub(super) options: UpdateOptions,
}

call!(Update, options.write, UpdateResult, UpdateFuture);

impl<R: Runtime, T: Send + Sync> Update<'_, R, T> {
    /// Sets whether a document is inserted if none matches. Default: false.
    pub fn upsert(mut self, upsert: bool) -> Self {
        self.options.upsert = upsert;
        self
    }

    /// Sets the write concern. Default: that of the client.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write.write_concern = Some(concern);
        self
    }

    fn prepare(self) -> (Result<Command, Error>, Updated) {
        let command = raw(&self.filter).and_then(|filter| {
            let update = raw(&self.update)?;
            let namespace = self.collection.namespace()?;
            crud::update(namespace, &filter, &update, self.multi, &self.options)
        });
        (command, Updated)
    }
}

/// A delete that runs when it is awaited.
#[must_use = "a call runs when it is awaited"]
pub struct Delete<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) multi: bool,
    pub(super) options: WriteOptions,
}

call!(Delete, options, DeleteResult, DeleteFuture);

impl<R: Runtime, T: Send + Sync> Delete<'_, R, T> {
    /// Sets the write concern. Default: that of the client.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
        self
    }

    fn prepare(self) -> (Result<Command, Error>, Deleted) {
        let command = raw(&self.filter).and_then(|filter| {
            let namespace = self.collection.namespace()?;
            Ok(crud::delete(namespace, &filter, self.multi, &self.options))
        });
        (command, Deleted)
    }
}
