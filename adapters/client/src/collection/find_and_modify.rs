//! Functions that change one document of a collection and return it.

use super::Collection;
use crate::{
    FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate, Runtime, options::UpdateModifications,
};
use bson::Document;
use onionskin_core::operation::crud::encode_replacement;
use serde::{Serialize, de::DeserializeOwned};
use std::borrow::Borrow;

impl<R: Runtime, T: Send + Sync> Collection<R, T> {
    /// Deletes the first document that matches `filter` and returns it, or `None` if none matches.
    ///
    /// With a write concern `w: 0` that the collection has or inherits, the call returns `None`
    /// once the command is sent, without waiting for an answer of the server. Errors of the server
    /// are not known then. A call that sets `w: 0` itself fails.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(jobs: Collection<R, Document>) -> Result<(), Error> {
    /// let next = jobs.find_one_and_delete(doc! {}).sort(doc! { "priority": -1 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one_and_delete(&self, filter: Document) -> FindOneAndDelete<'_, R, T>
    where
        T: DeserializeOwned,
    {
        FindOneAndDelete::new(self, filter)
    }

    /// Replaces the first document that matches `filter`, and returns the document before or after
    /// it. Returns `None` if none matches.
    ///
    /// With a write concern `w: 0` that the collection has or inherits, the call returns `None`
    /// once the command is sent, without waiting for an answer of the server. Errors of the server
    /// are not known then. A call that sets `w: 0` itself fails.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(jobs: Collection<R, Document>) -> Result<(), Error> {
    /// let replacement = doc! { "state": "done" };
    /// let before = jobs.find_one_and_replace(doc! { "_id": 1 }, replacement).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one_and_replace(
        &self,
        filter: Document,
        replacement: impl Borrow<T>,
    ) -> FindOneAndReplace<'_, R, T>
    where
        T: Serialize + DeserializeOwned,
    {
        FindOneAndReplace::new(self, filter, encode_replacement(replacement.borrow()))
    }

    /// Changes the first document that matches `filter`, and returns it before or after the change.
    /// Returns `None` if none matches.
    ///
    /// With a write concern `w: 0` that the collection has or inherits, the call returns `None`
    /// once the command is sent, without waiting for an answer of the server. Errors of the server
    /// are not known then. A call that sets `w: 0` itself fails.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::ReturnDocument;
    ///
    /// # async fn example<R: Runtime>(jobs: Collection<R, Document>) -> Result<(), Error> {
    /// let take = doc! { "$set": { "state": "taken" } };
    /// let job = jobs
    ///     .find_one_and_update(doc! { "state": "new" }, take)
    ///     .return_document(ReturnDocument::After)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one_and_update(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> FindOneAndUpdate<'_, R, T>
    where
        T: DeserializeOwned,
    {
        FindOneAndUpdate::new(self, filter, update.into())
    }
}
