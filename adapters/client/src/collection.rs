//! Handles of collections.

mod bulk_write;
mod find_and_modify;
mod indexes;
mod search_indexes;

use crate::{
    Aggregate, Client, CountDocuments, Database, Delete, Distinct, DropCollection,
    EstimatedDocumentCount, Find, FindOne, InsertMany, InsertOne, RenameCollection, Replace,
    Runtime, Update,
    options::{
        CollectionOptions, ReadConcern, SelectionCriteria, UpdateModifications, WriteConcern,
    },
};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::crud::{Defaults, Namespace, SharedNamespace, encode_insert, encode_replacement},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{borrow::Borrow, collections::BTreeMap, fmt, marker::PhantomData, sync::Arc};

/// A handle of a collection whose documents are read and written as `T`. Cloning is cheap.
///
/// Read preference, read concern and write concern are those of the database, unless the handle
/// ([`Database::collection_with_options`]) or a call sets them. `retryReads` and `retryWrites` are
/// always those of the client.
pub struct Collection<R: Runtime, T> {
    client: Client<R>,
    namespace: SharedNamespace,
    /// True if [`Namespace::check`] succeeds.
    is_valid: bool,
    defaults: Arc<Defaults>,
    marker: PhantomData<fn() -> T>,
}

impl<R: Runtime, T> Clone for Collection<R, T> {
    fn clone(&self) -> Self {
        self.handle()
    }
}

impl<R: Runtime, T> fmt::Debug for Collection<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection")
            .field("namespace", &self.namespace)
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}

/// Functions for handles of any type of document.
impl<R: Runtime, T> Collection<R, T> {
    /// Returns a handle of the same collection with documents of any type.
    fn handle<U>(&self) -> Collection<R, U> {
        Collection {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            is_valid: self.is_valid,
            defaults: self.defaults.clone(),
            marker: PhantomData,
        }
    }

    /// Returns the client of the collection.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Runtime, bson::Document};
    /// # fn example<R: Runtime>(orders: Collection<R, Document>) {
    /// let old = orders.client().database("archive").collection::<Document>(orders.name());
    /// # }
    /// ```
    #[must_use]
    pub const fn client(&self) -> &Client<R> {
        &self.client
    }

    /// Returns the names of the database and the collection.
    ///
    /// ```no_run
    /// # fn example<R: onionskin::Runtime>(people: onionskin::Collection<R, ()>) {
    /// println!("reading {}", people.namespace()); // reading app.people
    /// # }
    /// ```
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        Namespace::from(&self.namespace)
    }

    /// Returns the name of the collection, without that of its database.
    ///
    /// ```no_run
    /// # fn example<R: onionskin::Runtime>(people: onionskin::Collection<R, ()>) {
    /// println!("reading {}", people.name()); // reading people
    /// # }
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        self.namespace.collection()
    }

    /// Returns how servers are selected for reads; `None` for the primary.
    ///
    /// ```no_run
    /// # fn example<R: onionskin::Runtime>(people: onionskin::Collection<R, ()>) {
    /// if people.selection_criteria().is_none() {
    ///     println!("the primary serves all reads of {}", people.name());
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.defaults.selection_criteria()
    }

    /// Returns the read concern; `None` for the default of the server.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Runtime, options::ReadConcern};
    /// # fn example<R: Runtime>(people: Collection<R, ()>) {
    /// let is_durable = people.read_concern() == Some(&ReadConcern::majority());
    /// # }
    /// ```
    #[must_use]
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.defaults.read_concern.as_ref()
    }

    /// Returns the write concern; `None` for the default of the server.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Runtime};
    /// # fn example<R: Runtime>(people: Collection<R, ()>) {
    /// let waits = people.write_concern().is_none_or(|concern| concern.is_acknowledged());
    /// # }
    /// ```
    #[must_use]
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.defaults.write_concern.as_ref()
    }

    pub(crate) const fn shared_namespace(&self) -> &SharedNamespace {
        &self.namespace
    }

    /// Returns the namespace, or the error of its names.
    pub(crate) fn checked_namespace(&self) -> Result<&SharedNamespace, Error> {
        match self.is_valid {
            true => Ok(&self.namespace),
            false => self.namespace.check().map(|()| &self.namespace),
        }
    }

    /// Returns the name of the database.
    pub(crate) const fn shared_database(&self) -> &Arc<str> {
        self.namespace.shared_database()
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    pub(crate) const fn shared_defaults(&self) -> &Arc<Defaults> {
        &self.defaults
    }
}

impl<R: Runtime, T: Send + Sync> Collection<R, T> {
    pub(crate) fn new(database: &Database<R>, name: &str, options: CollectionOptions) -> Self {
        let namespace = SharedNamespace::unchecked(database.shared_name().clone(), name.into());
        let defaults = match options == CollectionOptions::default() {
            true => database.shared_defaults().clone(),
            false => Arc::new(database.shared_defaults().with(options.into())),
        };
        Self {
            client: database.client().clone(),
            is_valid: namespace.check().is_ok(),
            namespace,
            defaults,
            marker: PhantomData,
        }
    }

    /// Returns a handle of the same collection whose documents are read and written as `U`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct Name { name: String }
    ///
    /// let names = people.clone_with_type::<Name>();
    /// let first = names.find_one(doc! {}).projection(doc! { "name": 1 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn clone_with_type<U: Send + Sync>(&self) -> Collection<R, U> {
        self.handle()
    }

    /// Inserts a document. If it has no `_id`, the driver adds an ObjectId.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let result = people.insert_one(doc! { "name": "Ada" }).await?;
    /// println!("inserted {}", result.inserted_id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_one(&self, document: impl Borrow<T>) -> InsertOne<'_, R, T>
    where
        T: Serialize,
    {
        let mut bytes = Vec::with_capacity(SMALL_DOCUMENT_BYTES);
        let id = self.encode(document.borrow(), &mut bytes);
        InsertOne::new(self, id.map(|id| (bytes, id)))
    }

    /// Inserts documents in order, with one or more commands. The insert ends at the first document
    /// that fails. With [`ordered(false)`](InsertMany::ordered) it continues.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people.insert_many([doc! { "name": "Ada" }, doc! { "name": "Grace" }]).await?;
    /// # Ok(())
    /// # }
    /// ```
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
        InsertMany::new(self, ids.map(|ids| (bytes, ids)))
    }

    /// Finds the first document that matches `filter`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let oldest = people.find_one(doc! { "active": true }).sort(doc! { "born": 1 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The type of the collection must implement `Deserialize`. Without it the compiler says so:
    ///
    /// ```compile_fail,E0277
    /// # use onionskin::{Collection, Error, Runtime, bson::doc};
    /// struct Person {
    ///     name: String,
    /// }
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Person>) -> Result<(), Error> {
    /// let ada = people.find_one(doc! { "name": "Ada" }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one(&self, filter: Document) -> FindOne<'_, R, T>
    where
        T: DeserializeOwned,
    {
        FindOne::new(self, filter)
    }

    /// Finds all documents that match `filter`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! { "active": true }).limit(10).await?;
    /// while let Some(person) = cursor.next().await {
    ///     println!("{}", person?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The type of the collection can borrow from the cursor, and
    /// [`deserialize_current`](crate::Cursor::deserialize_current) then returns the documents. For
    /// `next`, `into_vec` and streams it must implement `Deserialize` without a borrow. Otherwise
    /// the compiler says so there:
    ///
    /// ```compile_fail,E0599
    /// # use onionskin::{Collection, Error, Runtime, bson::doc};
    /// struct Person {
    ///     name: String,
    /// }
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Person>) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! { "active": true }).await?;
    /// let first = cursor.next().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn find(&self, filter: Document) -> Find<'_, R, T> {
        Find::new(self, filter)
    }

    /// Runs an aggregation pipeline. The last stage can be `$out` or `$merge`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let group = doc! { "$group": { "_id": "$born", "n": { "$sum": 1 } } };
    /// let years: Vec<Document> = people.aggregate([group]).await?.into_vec().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<R> {
        Aggregate::on_collection(self, pipeline)
    }

    /// Changes the first document that matches `filter`, with operators such as `$set` or with a
    /// pipeline.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let set = doc! { "$set": { "active": true } };
    /// let result = people.update_one(doc! { "name": "Ada" }, set).upsert(true).await?;
    /// assert_eq!(result.matched_count + u64::from(result.upserted_id.is_some()), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_one(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_, R, T> {
        Update::new(self, filter, update.into(), false)
    }

    /// Changes all documents that match `filter`, with operators such as `$set` or with a pipeline.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let age = vec![doc! { "$set": { "age": { "$subtract": [2026, "$born"] } } }];
    /// people.update_many(doc! {}, age).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_many(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_, R, T> {
        Update::new(self, filter, update.into(), true)
    }

    /// Replaces the first document that matches `filter`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people.replace_one(doc! { "name": "Ada" }, doc! { "name": "Ada", "born": 1815 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace_one(&self, filter: Document, replacement: impl Borrow<T>) -> Replace<'_, R, T>
    where
        T: Serialize,
    {
        Replace::new(self, filter, encode_replacement(replacement.borrow()))
    }

    /// Deletes the first document that matches `filter`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let result = people.delete_one(doc! { "name": "Ada" }).await?;
    /// println!("{} deleted", result.deleted_count);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_one(&self, filter: Document) -> Delete<'_, R, T> {
        Delete::new(self, filter, false)
    }

    /// Deletes all documents that match `filter`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people.delete_many(doc! { "active": false }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_many(&self, filter: Document) -> Delete<'_, R, T> {
        Delete::new(self, filter, true)
    }

    /// Counts the documents that match `filter`. The result is exact.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let active = people.count_documents(doc! { "active": true }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_documents(&self, filter: Document) -> CountDocuments<'_, R, T> {
        CountDocuments::new(self, filter)
    }

    /// Returns the number of documents from the metadata of the collection, which can be wrong on a
    /// sharded cluster and after a crash, but takes no scan.
    ///
    /// The command is `count`. It is in version 1 of the Stable API from server 5.0.9 and 6.0 on;
    /// with older servers and a strict API version the call fails.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let about = people.estimated_document_count().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn estimated_document_count(&self) -> EstimatedDocumentCount<'_, R, T> {
        EstimatedDocumentCount::new(self)
    }

    /// Returns the different values of a field in the documents that match `filter`. The values of
    /// an array count one by one.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let years = people.distinct("born", doc! { "active": true }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn distinct(&self, field: impl AsRef<str>, filter: Document) -> Distinct<'_, R, T> {
        Distinct::new(self, field.as_ref().to_owned(), filter)
    }

    /// Drops the collection with its documents and indexes. A collection that does not exist is no
    /// error.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people.drop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop(&self) -> DropCollection<'_, R, T> {
        DropCollection::new(self)
    }

    /// Gives the collection another name in its database. The handle keeps the old name.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people.rename("persons").drop_target(true).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename(&self, name: impl AsRef<str>) -> RenameCollection<'_, R, T> {
        let database = self.namespace.shared_database().clone();
        RenameCollection::new(
            self,
            SharedNamespace::unchecked(database, name.as_ref().into()),
        )
    }

    /// Encodes a document to insert at the end of `documents`, and returns its `_id`.
    fn encode(&self, document: &T, documents: &mut Vec<u8>) -> Result<Bson, Error>
    where
        T: Serialize,
    {
        encode_insert(document, documents, || self.client.shared().new_object_id())
    }
}

/// The initial capacity of a buffer in bytes, so that the encoding of a small document allocates
/// once.
const SMALL_DOCUMENT_BYTES: usize = 256;
