//! `update_one`, `update_many` and `replace_one`.

use super::{collection_call, setters, single};
use crate::{
    Collection, Runtime,
    decode::Updated,
    futures::{ReplaceFuture, UpdateFuture},
    options::*,
};
use bson::{Bson, Document, RawDocumentBuf};
use onionskin_core::{
    error::Error,
    operation::crud::{self, UpdateResult},
};
use std::{future::IntoFuture, time::Duration};

collection_call! {
    /// An `update_one` or `update_many` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, Hint, WriteConcern};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(students: Collection<R, Document>) -> Result<(), Error> {
    /// // Raises the low grades of the student who was inserted first.
    /// let result = students
    ///     .update_one(
    ///         doc! { "$expr": { "$eq": ["$city", "$$city"] } },
    ///         doc! { "$set": { "grades.$[low]": 5 } },
    ///     )
    ///     .let_vars(doc! { "city": "Berlin" })
    ///     .array_filters([doc! { "low": { "$lt": 5 } }])
    ///     .sort(doc! { "_id": 1 })
    ///     .hint(Hint::from("city_1"))
    ///     .collation(Collation::builder().locale("de").build())
    ///     .comment("end of term")
    ///     .await?;
    /// // Inserts the student if there is none of this name.
    /// students
    ///     .update_one(doc! { "name": "Ada" }, doc! { "$set": { "active": true } })
    ///     .upsert(true)
    ///     .bypass_document_validation(true)
    ///     .write_concern(WriteConcern::majority())
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    Update {
        filter: Document,
        modifications: UpdateModifications,
        multi: bool,
    } with UpdateOptions listed by update_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for Update<'_, R, T> {
    type Output = Result<UpdateResult, Error>;
    type IntoFuture = UpdateFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = UpdateOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            let (filter, changes) = (&self.filter, &self.modifications);
            let defaults = self.collection.defaults();
            crud::update(namespace, filter, changes, self.multi, options, defaults)
        });
        UpdateFuture(single(
            self.collection.client(),
            self.session,
            command,
            Updated,
        ))
    }
}

collection_call! {
    /// A `replace_one` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, Hint, WriteConcern};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let result = people
    ///     .replace_one(doc! { "$expr": { "$eq": ["$name", "$$name"] } }, doc! { "name": "Ada" })
    ///     .let_vars(doc! { "name": "ada" })
    ///     .collation(Collation::builder().locale("en").build())
    ///     .hint(Hint::from("name_1"))
    ///     .sort(doc! { "_id": 1 })
    ///     .comment("correction of a name")
    ///     .await?;
    /// // Inserts the document if there is none of this name.
    /// people
    ///     .replace_one(doc! { "name": "Grace" }, doc! { "name": "Grace", "born": 1906 })
    ///     .upsert(true)
    ///     .bypass_document_validation(true)
    ///     .write_concern(WriteConcern::majority())
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    Replace {
        filter: Document,
        replacement: Result<RawDocumentBuf, Error>,
    } with ReplaceOptions listed by replace_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for Replace<'_, R, T> {
    type Output = Result<UpdateResult, Error>;
    type IntoFuture = ReplaceFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = ReplaceOptions::or_unset(self.options.as_deref());
        let collection = self.collection;
        let command = self.replacement.and_then(|replacement| {
            let namespace = collection.checked_namespace()?;
            crud::replace(
                namespace,
                &self.filter,
                &replacement,
                options,
                collection.defaults(),
            )
        });
        ReplaceFuture(single(collection.client(), self.session, command, Updated))
    }
}
