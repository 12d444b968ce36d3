//! Collections.

use crate::{
    Client, Cursor, Decode, Execution, Runtime,
    cursor::{OpenCursor, decode, open},
};
use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use onionskin_core::{
    error::{Error, ErrorKind},
    operation::{
        Command, Lease,
        crud::{
            self, CountOptions, DeleteResult, FindOptions, InsertManyResult, InsertOneResult,
            Namespace, UpdateOptions, UpdateResult, WriteOptions, ensure_id, first_document,
        },
    },
    options::{ReadConcern, ReadPreference, WriteConcern},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    borrow::Borrow, collections::BTreeMap, future::IntoFuture, marker::PhantomData, sync::Arc,
    time::Duration,
};

/// A collection whose documents are read and written as `T`. Cloning is cheap.
///
/// Read preference, concerns and whether to retry come from the client's options unless a call says
/// otherwise.
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
        Self { client, namespace, name: name.into(), marker: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same collection, with documents read and written as `U`.
    #[must_use]
    pub fn clone_with_type<U: Send + Sync>(&self) -> Collection<R, U> {
        Collection {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            marker: PhantomData,
        }
    }

    /// Inserts a document. One without `_id` gets an ObjectId.
    pub fn insert_one(&self, document: impl Borrow<T>) -> InsertOne<'_, R, T>
    where
        T: Serialize,
    {
        let document = encode(document.borrow());
        InsertOne { collection: self, document, options: self.write_options() }
    }

    /// Inserts documents with one command, in order; the first failure ends it unless
    /// [`unordered`](InsertMany::unordered).
    pub fn insert_many(
        &self,
        documents: impl IntoIterator<Item = impl Borrow<T>>,
    ) -> InsertMany<'_, R, T>
    where
        T: Serialize,
    {
        let documents = documents.into_iter().map(|d| encode(d.borrow())).collect();
        InsertMany { collection: self, documents, options: self.write_options() }
    }

    /// Finds the first document that matches.
    pub fn find_one(&self, filter: Document) -> FindOne<'_, R, T> {
        let mut options = self.find_options();
        options.limit = Some(1);
        FindOne { collection: self, filter, options }
    }

    /// Finds all documents that match.
    pub fn find(&self, filter: Document) -> Find<'_, R, T> {
        Find { collection: self, filter, options: self.find_options() }
    }

    /// Changes the first document that matches, by operators such as `$set`.
    pub fn update_one(&self, filter: Document, update: Document) -> UpdateOne<'_, R, T> {
        self.update(filter, update, false)
    }

    /// Changes all documents that match.
    pub fn update_many(&self, filter: Document, update: Document) -> UpdateOne<'_, R, T> {
        self.update(filter, update, true)
    }

    /// Deletes the first document that matches.
    pub fn delete_one(&self, filter: Document) -> DeleteOne<'_, R, T> {
        DeleteOne { collection: self, filter, multi: false, options: self.write_options() }
    }

    /// Deletes all documents that match.
    pub fn delete_many(&self, filter: Document) -> DeleteOne<'_, R, T> {
        DeleteOne { collection: self, filter, multi: true, options: self.write_options() }
    }

    /// Counts the documents that match, exactly.
    pub fn count_documents(&self, filter: Document) -> CountDocuments<'_, R, T> {
        let mut options = CountOptions::default();
        options.read_preference = self.read_preference();
        options.read_concern = self.client.options().read_concern().cloned();
        CountDocuments { collection: self, filter, options }
    }

    fn update(&self, filter: Document, update: Document, multi: bool) -> UpdateOne<'_, R, T> {
        let mut options = UpdateOptions::default();
        options.write = self.write_options();
        UpdateOne { collection: self, filter, update, multi, options }
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
        let preference = self.client.read_preference();
        Some(preference.clone())
    }

    fn execute<D: Decode>(&self, command: Result<Command, Error>, decode: D) -> Execution<R, D> {
        Execution::new(self.client.shared().clone(), command, decode)
    }
}

fn encode<T: Serialize>(value: &T) -> Result<RawDocumentBuf, Error> {
    bson::serialize_to_raw_document_buf(value).map_err(|error| bson_error(&error))
}

fn raw(document: &Document) -> Result<RawDocumentBuf, Error> {
    RawDocumentBuf::try_from(document).map_err(|error| bson_error(&error))
}

fn bson_error(error: &bson::error::Error) -> Error {
    ErrorKind::Bson { message: error.to_string() }.into()
}

/// Gives each kind of call its limits and its way to be awaited.
macro_rules! call {
    ($name:ident, $options:ident $(. $part:ident)?, $output:ty, $decode:ty) => {
        impl<'a, R: Runtime, T: Send + Sync> $name<'a, R, T> {
            /// Bounds the whole operation: finding a server, waiting for a connection, the
            /// exchange, and retries.
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.$options$(.$part)?.timeout = Some(timeout);
                self
            }
        }

        impl<'a, R: Runtime, T: Send + Sync> IntoFuture for $name<'a, R, T> {
            type Output = Result<$output, Error>;
            type IntoFuture = Execution<R, $decode>;

            fn into_future(self) -> Self::IntoFuture {
                let collection = self.collection;
                let (command, decode) = self.prepare();
                collection.execute(command, decode)
            }
        }
    };
}

/// An insert of one document that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct InsertOne<'a, R: Runtime, T> {
    collection: &'a Collection<R, T>,
    document: Result<RawDocumentBuf, Error>,
    options: WriteOptions,
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
            ensure_id(&mut documents, &document, || shared.ids.next(shared.wall_time()))
        });
        match (id, self.collection.namespace()) {
            (Ok(id), Ok(namespace)) => {
                (Ok(crud::insert(namespace, documents, &self.options)), InsertedOne(id))
            }
            (Err(error), _) | (_, Err(error)) => (Err(error), InsertedOne(Bson::Null)),
        }
    }
}

/// Knows the `_id` of the document that was inserted.
#[derive(Debug)]
pub struct InsertedOne(Bson);

impl Decode for InsertedOne {
    type Output = InsertOneResult;

    fn decode(&mut self, _: &mut Lease) -> Result<InsertOneResult, Error> {
        Ok(InsertOneResult::new(std::mem::replace(&mut self.0, Bson::Null)))
    }
}

/// An insert of several documents that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct InsertMany<'a, R: Runtime, T> {
    collection: &'a Collection<R, T>,
    documents: Result<Vec<RawDocumentBuf>, Error>,
    options: WriteOptions,
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
                let new_id = || shared.ids.next(shared.wall_time());
                ids.insert(place, ensure_id(&mut bytes, document, new_id)?);
            }
            Ok(crud::insert(self.collection.namespace()?, bytes, &self.options))
        });
        (command, InsertedMany(ids))
    }
}

/// Knows the `_id`s of the documents that were inserted.
#[derive(Debug)]
pub struct InsertedMany(BTreeMap<usize, Bson>);

impl Decode for InsertedMany {
    type Output = InsertManyResult;

    fn decode(&mut self, _: &mut Lease) -> Result<InsertManyResult, Error> {
        Ok(InsertManyResult::new(std::mem::take(&mut self.0)))
    }
}

/// A search for one document that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct FindOne<'a, R: Runtime, T> {
    collection: &'a Collection<R, T>,
    filter: Document,
    options: FindOptions,
}

impl<R: Runtime, T> FindOne<'_, R, T> {
    /// Chooses which servers may answer.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// Bounds the whole operation: finding a server, waiting for a connection, the exchange, and
    /// retries.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

impl<R: Runtime, T: Send + Sync + DeserializeOwned> IntoFuture for FindOne<'_, R, T> {
    type Output = Result<Option<T>, Error>;
    type IntoFuture = Execution<R, FirstDocument<T>>;

    fn into_future(self) -> Self::IntoFuture {
        let command = raw(&self.filter).and_then(|filter| {
            Ok(crud::find(self.collection.namespace()?, &filter, &self.options))
        });
        self.collection.execute(command, FirstDocument(PhantomData))
    }
}

/// Reads the first document of the reply, in place.
#[derive(Debug)]
pub struct FirstDocument<T>(PhantomData<fn() -> T>);

impl<T: DeserializeOwned> Decode for FirstDocument<T> {
    type Output = Option<T>;

    fn decode(&mut self, lease: &mut Lease) -> Result<Option<T>, Error> {
        let reply = lease.reply().unwrap_or(RawDocument::EMPTY);
        first_document(reply)?.map(decode).transpose()
    }
}

/// A search that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct Find<'a, R: Runtime, T> {
    collection: &'a Collection<R, T>,
    filter: Document,
    options: FindOptions,
}

impl<R: Runtime, T> Find<'_, R, T> {
    /// Order of the results.
    pub fn sort(mut self, sort: Document) -> Self {
        self.options.sort = raw(&sort).ok();
        self
    }

    /// Fields to return.
    pub fn projection(mut self, projection: Document) -> Self {
        self.options.projection = raw(&projection).ok();
        self
    }

    /// Documents to leave out at the beginning.
    pub fn skip(mut self, skip: u64) -> Self {
        self.options.skip = Some(skip);
        self
    }

    /// Documents to return at most; zero for all.
    pub fn limit(mut self, limit: i64) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// Documents per batch.
    pub fn batch_size(mut self, size: u32) -> Self {
        self.options.batch_size = Some(size);
        self
    }

    /// Chooses which servers may answer.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// Bounds the first answer, and then each further batch: finding a server, waiting for a
    /// connection, the exchange, and retries.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

impl<R: Runtime, T: Send + Sync> IntoFuture for Find<'_, R, T> {
    type Output = Result<Cursor<R, T>, Error>;
    type IntoFuture = Execution<R, OpenCursor<R, T>>;

    fn into_future(self) -> Self::IntoFuture {
        let namespace = self.collection.namespace();
        let command = raw(&self.filter)
            .and_then(|filter| Ok(crud::find(namespace?, &filter, &self.options)));
        let shared = self.collection.client.shared().clone();
        let opener = OpenCursor {
            shared: shared.clone(),
            database: namespace.map_or_else(|_| "".into(), |n| n.database().into()),
            batch_size: self.options.batch_size,
            timeout: self.options.timeout,
            marker: PhantomData,
        };
        open(shared, command, opener)
    }
}

/// An update that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct UpdateOne<'a, R: Runtime, T> {
    collection: &'a Collection<R, T>,
    filter: Document,
    update: Document,
    multi: bool,
    options: UpdateOptions,
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

/// Reads what an update did.
#[derive(Debug)]
pub struct Updated(());

impl Decode for Updated {
    type Output = UpdateResult;

    fn decode(&mut self, lease: &mut Lease) -> Result<UpdateResult, Error> {
        Ok(lease.reply().map(UpdateResult::from_reply).unwrap_or_default())
    }
}

/// A delete that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct DeleteOne<'a, R: Runtime, T> {
    collection: &'a Collection<R, T>,
    filter: Document,
    multi: bool,
    options: WriteOptions,
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

/// Reads what a delete did.
#[derive(Debug)]
pub struct Deleted(());

impl Decode for Deleted {
    type Output = DeleteResult;

    fn decode(&mut self, lease: &mut Lease) -> Result<DeleteResult, Error> {
        Ok(lease.reply().map(DeleteResult::from_reply).unwrap_or_default())
    }
}

/// A count that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct CountDocuments<'a, R: Runtime, T> {
    collection: &'a Collection<R, T>,
    filter: Document,
    options: CountOptions,
}

call!(CountDocuments, options, u64, Counted);

impl<R: Runtime, T: Send + Sync> CountDocuments<'_, R, T> {
    /// Chooses which servers may answer.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// How durable the documents must be.
    pub fn read_concern(mut self, concern: ReadConcern) -> Self {
        self.options.read_concern = Some(concern);
        self
    }

    fn prepare(self) -> (Result<Command, Error>, Counted) {
        let command = raw(&self.filter).and_then(|filter| {
            crud::count_documents(self.collection.namespace()?, &filter, &self.options)
        });
        (command, Counted(()))
    }
}

/// Reads the number of a count.
#[derive(Debug)]
pub struct Counted(());

impl Decode for Counted {
    type Output = u64;

    fn decode(&mut self, lease: &mut Lease) -> Result<u64, Error> {
        crud::counted(lease.reply().unwrap_or(RawDocument::EMPTY))
    }
}
