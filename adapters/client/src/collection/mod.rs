//! Collections and their operations.

mod aggregate;
mod read;
mod write;

pub use aggregate::Aggregate;
pub use read::{CountDocuments, Find, FindOne};
pub use write::{Delete, InsertMany, InsertOne, Update};

use crate::{Client, Execution, Runtime};
use bson::{Bson, Document, RawDocumentBuf};
use onionskin_core::{
    bson::DocumentWriter,
    error::{Error, ErrorKind},
    operation::{
        Command, Decode, Single,
        crud::{
            AggregateOptions, CountOptions, FindOptions, Namespace, UpdateOptions, WriteOptions,
            encode_insert,
        },
    },
    options::ReadPreference,
};
use serde::Serialize;
use std::{borrow::Borrow, collections::BTreeMap, marker::PhantomData, sync::Arc};

/// A handle to a collection whose documents are read and written as `T`. Cloning is cheap.
///
/// Read preference, read concern and write concern are those of the client, unless a call sets
/// them. `retryReads` and `retryWrites` are always those of the client.
pub struct Collection<R: Runtime, T> {
    client: Client<R>,
    namespace: Result<Namespace, Error>,
    name: Arc<str>,
    marker: PhantomData<fn() -> T>,
}

impl<R: Runtime, T> Clone for Collection<R, T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, T: Send + Sync> Collection<R, T> {
    pub(crate) fn new(client: Client<R>, database: Arc<str>, name: &str) -> Self {
        let namespace = Namespace::new(database, name);
        Self {
            client,
            namespace,
            name: name.into(),
            marker: PhantomData,
        }
    }

    /// Returns the name of the collection, without that of its database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a handle to the same collection whose documents are read and written as `U`.
    #[must_use]
    pub fn clone_with_type<U: Send + Sync>(&self) -> Collection<R, U> {
        Collection {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            marker: PhantomData,
        }
    }

    /// Inserts a document. If it has no `_id`, the driver adds an ObjectId.
    pub fn insert_one(&self, document: impl Borrow<T>) -> InsertOne<'_, R, T>
    where
        T: Serialize,
    {
        let mut bytes = Vec::with_capacity(SMALL_DOCUMENT_BYTES);
        let id = self.encode(document.borrow(), &mut bytes);
        let document = id.map(|id| (bytes, id));
        InsertOne {
            collection: self,
            document,
            options: self.write_options(),
        }
    }

    /// Inserts documents in order, with one or more commands. The insert ends at the first document
    /// that fails. An [`unordered`](InsertMany::unordered) insert continues.
    pub fn insert_many(
        &self,
        documents: impl IntoIterator<Item = impl Borrow<T>>,
    ) -> InsertMany<'_, R, T>
    where
        T: Serialize,
    {
        let mut bytes = Vec::new();
        let ids = documents.into_iter().enumerate().map(|(place, document)| {
            let id = self.encode(document.borrow(), &mut bytes)?;
            Ok((place, id))
        });
        let ids: Result<BTreeMap<usize, Bson>, Error> = ids.collect();
        let documents = ids.map(|ids| (bytes, ids));
        InsertMany {
            collection: self,
            documents,
            options: self.write_options(),
        }
    }

    /// Finds the first document that matches `filter`.
    pub fn find_one(&self, filter: Document) -> FindOne<'_, R, T> {
        let mut options = self.find_options();
        options.limit = Some(1);
        FindOne {
            collection: self,
            filter,
            options,
        }
    }

    /// Finds all documents that match `filter`.
    pub fn find(&self, filter: Document) -> Find<'_, R, T> {
        Find {
            collection: self,
            filter,
            options: self.find_options(),
            option_error: None,
        }
    }

    /// Runs an aggregation pipeline. The last stage can be `$out` or `$merge`.
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_, R, T> {
        let mut options = AggregateOptions::default();
        options.read_preference = self.read_preference();
        options.read_concern = self.client.options().read_concern().cloned();
        options.write_concern = self.client.options().write_concern().cloned();
        Aggregate {
            collection: self,
            pipeline: pipeline.into_iter().collect(),
            options,
            marker: PhantomData,
        }
    }

    /// Updates the first document that matches `filter`, with operators such as `$set`.
    pub fn update_one(&self, filter: Document, update: Document) -> Update<'_, R, T> {
        self.update(filter, update, false)
    }

    /// Updates all documents that match `filter`, with operators such as `$set`.
    pub fn update_many(&self, filter: Document, update: Document) -> Update<'_, R, T> {
        self.update(filter, update, true)
    }

    /// Deletes the first document that matches `filter`.
    pub fn delete_one(&self, filter: Document) -> Delete<'_, R, T> {
        Delete {
            collection: self,
            filter,
            multi: false,
            options: self.write_options(),
        }
    }

    /// Deletes all documents that match `filter`.
    pub fn delete_many(&self, filter: Document) -> Delete<'_, R, T> {
        Delete {
            collection: self,
            filter,
            multi: true,
            options: self.write_options(),
        }
    }

    /// Counts the documents that match `filter`. The result is exact.
    pub fn count_documents(&self, filter: Document) -> CountDocuments<'_, R, T> {
        let mut options = CountOptions::default();
        options.read_preference = self.read_preference();
        options.read_concern = self.client.options().read_concern().cloned();
        CountDocuments {
            collection: self,
            filter,
            options,
        }
    }

    fn update(&self, filter: Document, update: Document, multi: bool) -> Update<'_, R, T> {
        let mut options = UpdateOptions::default();
        options.write = self.write_options();
        Update {
            collection: self,
            filter,
            update,
            multi,
            options,
        }
    }

    /// Encodes a document to insert at the end of `documents`, and returns its `_id`.
    fn encode(&self, document: &T, documents: &mut Vec<u8>) -> Result<Bson, Error>
    where
        T: Serialize,
    {
        encode_insert(document, documents, || self.client.shared().new_object_id())
    }

    fn namespace(&self) -> Result<&Namespace, Error> {
        self.namespace.as_ref().map_err(Clone::clone)
    }

    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.write_concern = self.client.options().write_concern().cloned();
        options
    }

    fn find_options(&self) -> FindOptions {
        let mut options = FindOptions::default();
        options.read_preference = self.read_preference();
        options.read_concern = self.client.options().read_concern().cloned();
        options
    }

    fn read_preference(&self) -> Option<Arc<ReadPreference>> {
        Some(self.client.read_preference().clone())
    }

    fn execute<D: Decode>(
        &self,
        command: Result<Command, Error>,
        decode: D,
    ) -> Execution<R, Single<D>> {
        Execution::new(self.client.clone(), Single::new(command, decode))
    }
}

/// The initial capacity of a buffer in bytes, so that the encoding of a small document allocates
/// once.
const SMALL_DOCUMENT_BYTES: usize = 256;

fn raw(document: &Document) -> Result<RawDocumentBuf, Error> {
    let mut bytes = Vec::with_capacity(SMALL_DOCUMENT_BYTES);
    let mut writer = DocumentWriter::begin(&mut bytes);
    writer.tree(document)?;
    writer.end();
    RawDocumentBuf::from_bytes(bytes).map_err(|error| bson_error(&error))
}

fn bson_error(error: &bson::error::Error) -> Error {
    ErrorKind::Bson {
        message: error.to_string(),
        path: String::new(),
    }
    .into()
}

/// Implements `timeout` and `IntoFuture` for an operation of one command.
macro_rules! call {
    ($name:ident, $options:ident $(. $part:ident)?, $output:ty, $future:ident) => {
        impl<'a, R: Runtime, T: Send + Sync> $name<'a, R, T> {
            /// Sets the time limit of the whole operation: server selection, check out, the
            /// exchange with the server, and retries. Default: `timeoutMS` of the client; zero
            /// means no limit.
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.$options$(.$part)?.timeout = Some(timeout);
                self
            }
        }

        impl<'a, R: Runtime, T: Send + Sync> IntoFuture for $name<'a, R, T> {
            type Output = Result<$output, Error>;
            type IntoFuture = $future<R>;

            fn into_future(self) -> Self::IntoFuture {
                let collection = self.collection;
                let (command, decode) = self.prepare();
                $future(collection.execute(command, decode))
            }
        }
    };
}

use call;
