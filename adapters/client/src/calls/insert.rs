//! `insert_one` and `insert_many`.

use super::{collection_call, setters, single};
use crate::{
    Collection, Execution, Runtime,
    decode::InsertedOne,
    futures::{InsertManyFuture, InsertOneFuture},
    options::*,
};
use bson::Bson;
use onionskin_core::{
    error::Error,
    operation::{
        Prepared,
        crud::{self, InsertManyResult, InsertOneResult},
    },
};
use std::{collections::BTreeMap, future::IntoFuture, time::Duration};

collection_call! {
    /// An `insert_one` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::WriteConcern;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let result = people
    ///     .insert_one(doc! { "name": "Ada" })
    ///     .write_concern(WriteConcern::majority())
    ///     .bypass_document_validation(true)
    ///     .comment("import of 2026")
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    InsertOne {
        // The encoded document and its `_id`.
        document: Result<(Vec<u8>, Bson), Error>,
    } with InsertOneOptions listed by insert_one_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for InsertOne<'_, R, T> {
    type Output = Result<InsertOneResult, Error>;
    type IntoFuture = InsertOneFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = InsertOneOptions::or_unset(self.options.as_deref());
        let collection = self.collection;
        let (command, id) = match (self.document, collection.checked_namespace()) {
            (Ok((document, id)), Ok(namespace)) => {
                let command = crud::insert(namespace, document, options, collection.defaults());
                (command, id)
            }
            (Err(error), _) | (_, Err(error)) => (Err(error), Bson::Null),
        };
        InsertOneFuture(single(
            collection.client(),
            self.session,
            command,
            InsertedOne(id),
        ))
    }
}

collection_call! {
    /// An `insert_many` that runs when it is awaited.
    ///
    /// Documents that do not fit into one command are sent in several commands, one after the
    /// other. The limits are `maxWriteBatchSize` and `maxMessageSizeBytes` of the server. A
    /// document larger than `maxBsonObjectSize` is not sent and ends the insert with an error.
    ///
    /// If the server refuses documents, the error lists them by their index
    /// ([`InsertManyError`](onionskin_core::error::InsertManyError)). The error also has the
    /// `_id`s of the documents that the server confirmed as inserted ([`Error::partial_insert`]),
    /// unless the call failed before its first command.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::WriteConcern;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let result = people
    ///     .insert_many([doc! { "name": "Ada" }, doc! { "name": "Grace" }])
    ///     .ordered(false)
    ///     .write_concern(WriteConcern::majority())
    ///     .bypass_document_validation(true)
    ///     .comment("import of 2026")
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(60))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    InsertMany {
        // The encoded documents, one after the other, and their `_id`s.
        documents: Result<(Vec<u8>, BTreeMap<usize, Bson>), Error>,
    } with InsertManyOptions listed by insert_many_options
}

impl<R: Runtime, T: Send + Sync> InsertMany<'_, R, T> {
    /// Continues with the next document after a document fails: `ordered(false)`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let documents = [doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }];
    /// // If the first `_id` exists already, the second document is inserted nevertheless.
    /// people.insert_many(documents).unordered().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unordered(self) -> Self {
        self.ordered(false)
    }

    fn prepare(self) -> Result<crud::InsertMany, Error> {
        let (documents, ids) = self.documents?;
        let namespace = self.collection.checked_namespace()?.clone();
        let options = self.options.map(|options| *options).unwrap_or_default();
        let defaults = self.collection.shared_defaults().clone();
        let mut insert = crud::InsertMany::new(namespace, documents, ids, options, defaults)?;
        if let Some(session) = self.session {
            insert.set_session(session.checked()?);
        }
        Ok(insert)
    }
}

impl<R: Runtime, T: Send + Sync> IntoFuture for InsertMany<'_, R, T> {
    type Output = Result<InsertManyResult, Error>;
    type IntoFuture = InsertManyFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.collection.client().clone();
        InsertManyFuture(Execution::new(client, Prepared::new(self.prepare())))
    }
}
