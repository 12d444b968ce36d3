//! The bulk writes of a client and of a collection.

use super::{collection_call, setters};
use crate::{
    Client, ClientSession, Collection, Execution, Runtime,
    futures::{BulkWriteFuture, CollectionBulkWriteFuture},
    options::*,
    results::{BulkWriteResult, SummaryBulkWriteResult, VerboseBulkWriteResult},
    session::UsedSession,
};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::{Prepared, crud},
};
use std::{future::IntoFuture, marker::PhantomData, time::Duration};

/// A `bulk_write` of a client that runs when it is awaited.
///
/// The operations are sent with as many commands as the limits of the server require, one after the
/// other. If operations fail, the error has the kind
/// [`ErrorKind::BulkWrite`](onionskin_core::error::ErrorKind::BulkWrite), with the errors by the
/// index of the operation and the results of the operations that succeeded.
///
/// ```no_run
/// # use onionskin::{Client, Error, Namespace, Runtime, bson::doc};
/// use onionskin::options::{DeleteManyModel, WriteConcern};
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
/// let old = doc! { "$expr": { "$gt": ["$age", "$$limit"] } };
/// let delete = DeleteManyModel::builder().namespace(Namespace::new("app", "log")).filter(old);
/// let result = client
///     .bulk_write([delete.build()])
///     .let_vars(doc! { "limit": 100 })
///     .ordered(false)
///     .write_concern(WriteConcern::majority())
///     .bypass_document_validation(true)
///     .comment("nightly job")
///     .raw_data(false)
///     .timeout(Duration::from_secs(60))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct BulkWrite<'a, R: Runtime, O = SummaryBulkWriteResult> {
    client: &'a Client<R>,
    models: Result<crud::EncodedModels, Error>,
    is_verbose: bool,
    options: Option<Box<BulkWriteOptions>>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> O>,
}

onionskin_core::bulk_write_options! { setters [R: Runtime, O] [BulkWrite<'_, R, O>] }

impl<'a, R: Runtime> BulkWrite<'a, R> {
    pub(crate) fn new(
        client: &'a Client<R>,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> Self {
        let new_id = || client.shared().new_object_id();
        Self {
            client,
            models: crud::EncodedModels::of(models, new_id),
            is_verbose: false,
            options: None,
            session: None,
            marker: PhantomData,
        }
    }

    /// Makes the server return the result of each operation.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Namespace, Runtime, bson::doc};
    /// use onionskin::options::InsertOneModel;
    ///
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let people = Namespace::new("app", "people");
    /// let insert = InsertOneModel::builder().namespace(people).document(doc! { "name": "Ada" });
    /// let result = client.bulk_write([insert.build()]).verbose_results().await?;
    /// for (index, insert) in &result.insert_results {
    ///     println!("operation {index} inserted {}", insert.inserted_id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn verbose_results(self) -> BulkWrite<'a, R, VerboseBulkWriteResult> {
        BulkWrite {
            client: self.client,
            models: self.models,
            is_verbose: true,
            options: self.options,
            session: self.session,
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, O> BulkWrite<'_, R, O> {
    /// Makes the call run in this session.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, options::WriteModel};
    /// # async fn example<R: Runtime>(
    /// #     client: Client<R>, operations: Vec<WriteModel>,
    /// # ) -> Result<(), Error> {
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().await?;
    /// client.bulk_write(operations).session(&mut session).await?;
    /// session.commit_transaction().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: &mut ClientSession<R>) -> Self {
        self.session = Some(session.used_by(self.client));
        self
    }

    fn prepare(self) -> Result<crud::BulkWrite<O>, Error> {
        let options = self.options.map(|options| *options).unwrap_or_default();
        let defaults = self.client.defaults().clone();
        let mut program = crud::BulkWrite::new(self.models?, self.is_verbose, options, defaults);
        if let Some(session) = self.session {
            program.set_session(session.checked()?);
        }
        Ok(program)
    }
}

impl<R: Runtime, O: From<VerboseBulkWriteResult>> IntoFuture for BulkWrite<'_, R, O> {
    type Output = Result<O, Error>;
    type IntoFuture = BulkWriteFuture<R, O>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.client.clone();
        BulkWriteFuture(Execution::new(client, Prepared::new(self.prepare())))
    }
}

collection_call! {
    /// A `bulk_write` of a collection that runs when it is awaited.
    ///
    /// If operations fail, the error has the kind
    /// [`ErrorKind::BulkWrite`](onionskin_core::error::ErrorKind::BulkWrite), with the errors by
    /// the index of the operation and the result of the operations that succeeded.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{DeleteManyModel, WriteConcern};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let old = doc! { "$expr": { "$gt": ["$age", "$$limit"] } };
    /// let result = people
    ///     .bulk_write([DeleteManyModel::builder().filter(old).build()])
    ///     .let_vars(doc! { "limit": 100 })
    ///     .ordered(false)
    ///     .write_concern(WriteConcern::majority())
    ///     .bypass_document_validation(true)
    ///     .comment("nightly job")
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(60))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    CollectionBulkWrite { models: Vec<WriteModel>, }
    with BulkWriteOptions listed by bulk_write_options
}

impl<R: Runtime, T> CollectionBulkWrite<'_, R, T> {
    fn prepare(self) -> Result<crud::CollectionBulkWrite, Error> {
        let options = self.options.map(|options| *options).unwrap_or_default();
        let collection = self.collection;
        let namespace = collection.checked_namespace()?.clone();
        let defaults = collection.shared_defaults().clone();
        let new_id = || collection.client().shared().new_object_id();
        let models = &self.models;
        let mut program =
            crud::CollectionBulkWrite::new(namespace, models, options, defaults, new_id)?;
        if let Some(session) = self.session {
            program.set_session(session.checked()?);
        }
        Ok(program)
    }
}

impl<R: Runtime, T: Send + Sync> IntoFuture for CollectionBulkWrite<'_, R, T> {
    type Output = Result<BulkWriteResult, Error>;
    type IntoFuture = CollectionBulkWriteFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.collection.client().clone();
        CollectionBulkWriteFuture(Execution::new(client, Prepared::new(self.prepare())))
    }
}
