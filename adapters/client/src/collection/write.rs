//! Inserting, changing and deleting.

use super::{Collection, call, raw};
use crate::{
    Execution, Runtime,
    decode::{Deleted, InsertedMany, InsertedOne, Updated},
};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::{
        Command, Single,
        crud::{
            self, DeleteResult, InsertManyResult, InsertOneResult, UpdateOptions, UpdateResult,
            WriteOptions, ensure_id,
        },
    },
    options::WriteConcern,
};
use std::{collections::BTreeMap, future::IntoFuture, time::Duration};

/// An insert of one document that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct InsertOne<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) document: Result<Vec<u8>, Error>,
    pub(super) options: WriteOptions,
}

call!(InsertOne, options, InsertOneResult, InsertedOne);

impl<R: Runtime, T: Send + Sync> InsertOne<'_, R, T> {
    /// When the write counts as done.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
        self
    }

    fn prepare(self) -> (Result<Command, Error>, InsertedOne) {
        let shared = self.collection.client.shared();
        let mut documents = Vec::new();
        let id = self.document.and_then(|document| {
            documents = document;
            ensure_id(&mut documents, 0, || shared.new_object_id())
        });
        match (id, self.collection.namespace()) {
            (Ok(id), Ok(namespace)) => (
                Ok(crud::insert(namespace, documents, &self.options)),
                InsertedOne(id),
            ),
            (Err(error), _) | (_, Err(error)) => (Err(error), InsertedOne(Bson::Null)),
        }
    }
}

/// An insert of several documents that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct InsertMany<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) documents: Result<Vec<Vec<u8>>, Error>,
    pub(super) options: WriteOptions,
}

call!(InsertMany, options, InsertManyResult, InsertedMany);

impl<R: Runtime, T: Send + Sync> InsertMany<'_, R, T> {
    /// When the write counts as done.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
        self
    }

    /// Goes on with the next document after one has failed.
    pub fn unordered(mut self) -> Self {
        self.options.unordered = true;
        self
    }

    fn prepare(self) -> (Result<Command, Error>, InsertedMany) {
        let shared = self.collection.client.shared();
        let mut bytes = Vec::new();
        let mut ids = BTreeMap::new();
        let command = self.documents.and_then(|documents| {
            if documents.is_empty() {
                return Err(Error::argument("there is no document to insert"));
            }
            for (place, document) in documents.iter().enumerate() {
                let start = bytes.len();
                bytes.extend_from_slice(document);
                let new_id = || shared.new_object_id();
                ids.insert(place, ensure_id(&mut bytes, start, new_id)?);
            }
            Ok(crud::insert(
                self.collection.namespace()?,
                bytes,
                &self.options,
            ))
        });
        (command, InsertedMany(ids))
    }
}

/// An update that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct UpdateOne<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) update: Document,
    pub(super) multi: bool,
    pub(super) options: UpdateOptions,
}

call!(UpdateOne, options.write, UpdateResult, Updated);

impl<R: Runtime, T: Send + Sync> UpdateOne<'_, R, T> {
    /// Inserts a document where none matches.
    pub fn upsert(mut self, upsert: bool) -> Self {
        self.options.upsert = upsert;
        self
    }

    /// When the write counts as done.
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
        (command, Updated(()))
    }
}

/// A delete that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct DeleteOne<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) multi: bool,
    pub(super) options: WriteOptions,
}

call!(DeleteOne, options, DeleteResult, Deleted);

impl<R: Runtime, T: Send + Sync> DeleteOne<'_, R, T> {
    /// When the write counts as done.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
        self
    }

    fn prepare(self) -> (Result<Command, Error>, Deleted) {
        let command = raw(&self.filter).and_then(|filter| {
            let namespace = self.collection.namespace()?;
            Ok(crud::delete(namespace, &filter, self.multi, &self.options))
        });
        (command, Deleted(()))
    }
}
