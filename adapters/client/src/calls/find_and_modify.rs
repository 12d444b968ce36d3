//! The calls that change one document and return it.

use super::{collection_call, setters, single};
use crate::{
    Collection, Runtime,
    decode::FoundDocument,
    futures::{FindOneAndDeleteFuture, FindOneAndReplaceFuture, FindOneAndUpdateFuture},
    options::*,
};
use bson::{Bson, Document, RawDocumentBuf};
use onionskin_core::{error::Error, operation::crud};
use serde::de::DeserializeOwned;
use std::{future::IntoFuture, marker::PhantomData, time::Duration};

collection_call! {
    /// A `find_one_and_delete` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, Hint, WriteConcern};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(jobs: Collection<R, Document>) -> Result<(), Error> {
    /// // Takes the most urgent job.
    /// let job = jobs
    ///     .find_one_and_delete(doc! { "$expr": { "$eq": ["$state", "$$state"] } })
    ///     .let_vars(doc! { "state": "new" })
    ///     .collation(Collation::builder().locale("en").build())
    ///     .hint(Hint::from("state_1"))
    ///     .sort(doc! { "priority": -1 })
    ///     .projection(doc! { "task": 1 })
    ///     .comment("worker 7")
    ///     .max_time(Duration::from_secs(2))
    ///     .await?;
    /// let done = jobs
    ///     .find_one_and_delete(doc! { "state": "done" })
    ///     .write_concern(WriteConcern::majority())
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    FindOneAndDelete { filter: Document, }
    with FindOneAndDeleteOptions listed by find_one_and_delete_options
}

impl<R: Runtime, T: Send + Sync + DeserializeOwned + 'static> IntoFuture
    for FindOneAndDelete<'_, R, T>
{
    type Output = Result<Option<T>, Error>;
    type IntoFuture = FindOneAndDeleteFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let options = FindOneAndDeleteOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            let defaults = self.collection.defaults();
            crud::find_one_and_delete(namespace, &self.filter, options, defaults)
        });
        let decode = FoundDocument(PhantomData);
        FindOneAndDeleteFuture(single(
            self.collection.client(),
            self.session,
            command,
            decode,
        ))
    }
}

collection_call! {
    /// A `find_one_and_replace` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, Hint, ReturnDocument, WriteConcern};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(jobs: Collection<R, Document>) -> Result<(), Error> {
    /// // Takes the most urgent job.
    /// let job = jobs
    ///     .find_one_and_replace(
    ///         doc! { "$expr": { "$eq": ["$state", "$$state"] } },
    ///         doc! { "state": "taken" },
    ///     )
    ///     .let_vars(doc! { "state": "new" })
    ///     .collation(Collation::builder().locale("en").build())
    ///     .hint(Hint::from("state_1"))
    ///     .sort(doc! { "priority": -1 })
    ///     .projection(doc! { "task": 1 })
    ///     .comment("worker 7")
    ///     .max_time(Duration::from_secs(2))
    ///     .await?;
    /// // Inserts the document if there is none, and returns the new one in each case.
    /// let stored = jobs
    ///     .find_one_and_replace(doc! { "_id": 1 }, doc! { "state": "new" })
    ///     .upsert(true)
    ///     .return_document(ReturnDocument::After)
    ///     .bypass_document_validation(true)
    ///     .write_concern(WriteConcern::majority())
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    FindOneAndReplace { filter: Document, replacement: Result<RawDocumentBuf, Error>, }
    with FindOneAndReplaceOptions listed by find_one_and_replace_options
}

impl<R: Runtime, T: Send + Sync + DeserializeOwned + 'static> IntoFuture
    for FindOneAndReplace<'_, R, T>
{
    type Output = Result<Option<T>, Error>;
    type IntoFuture = FindOneAndReplaceFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let options = FindOneAndReplaceOptions::or_unset(self.options.as_deref());
        let collection = self.collection;
        let command = self.replacement.and_then(|replacement| {
            let (namespace, defaults) = (collection.checked_namespace()?, collection.defaults());
            crud::find_one_and_replace(namespace, &self.filter, &replacement, options, defaults)
        });
        let decode = FoundDocument(PhantomData);
        FindOneAndReplaceFuture(single(collection.client(), self.session, command, decode))
    }
}

collection_call! {
    /// A `find_one_and_update` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, Hint, ReturnDocument, WriteConcern};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(jobs: Collection<R, Document>) -> Result<(), Error> {
    /// // Takes the most urgent job.
    /// let job = jobs
    ///     .find_one_and_update(
    ///         doc! { "$expr": { "$eq": ["$state", "$$state"] } },
    ///         doc! { "$set": { "state": "taken" } },
    ///     )
    ///     .let_vars(doc! { "state": "new" })
    ///     .collation(Collation::builder().locale("en").build())
    ///     .hint(Hint::from("state_1"))
    ///     .sort(doc! { "priority": -1 })
    ///     .projection(doc! { "task": 1 })
    ///     .comment("worker 7")
    ///     .max_time(Duration::from_secs(2))
    ///     .await?;
    /// // Sets a step of a job to done, and returns the job after that.
    /// let stored = jobs
    ///     .find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "steps.$[step].done": true } })
    ///     .array_filters([doc! { "step.name": "test" }])
    ///     .upsert(false)
    ///     .return_document(ReturnDocument::After)
    ///     .bypass_document_validation(true)
    ///     .write_concern(WriteConcern::majority())
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    FindOneAndUpdate { filter: Document, modifications: UpdateModifications, }
    with FindOneAndUpdateOptions listed by find_one_and_update_options
}

impl<R: Runtime, T: Send + Sync + DeserializeOwned + 'static> IntoFuture
    for FindOneAndUpdate<'_, R, T>
{
    type Output = Result<Option<T>, Error>;
    type IntoFuture = FindOneAndUpdateFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let options = FindOneAndUpdateOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            let (filter, changes) = (&self.filter, &self.modifications);
            let defaults = self.collection.defaults();
            crud::find_one_and_update(namespace, filter, changes, options, defaults)
        });
        let decode = FoundDocument(PhantomData);
        FindOneAndUpdateFuture(single(
            self.collection.client(),
            self.session,
            command,
            decode,
        ))
    }
}
