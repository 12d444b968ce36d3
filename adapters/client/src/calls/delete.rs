//! `delete_one` and `delete_many`.

use super::{collection_call, setters, single};
use crate::{Collection, Runtime, decode::Deleted, futures::DeleteFuture, options::*};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::crud::{self, DeleteResult},
};
use std::{future::IntoFuture, time::Duration};

collection_call! {
    /// A `delete_one` or `delete_many` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, Hint, WriteConcern};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let result = people
    ///     .delete_many(doc! { "$expr": { "$eq": ["$city", "$$city"] } })
    ///     .let_vars(doc! { "city": "Berlin" })
    ///     .collation(Collation::builder().locale("de").build())
    ///     .hint(Hint::from("city_1"))
    ///     .comment("clean-up")
    ///     .write_concern(WriteConcern::majority())
    ///     .raw_data(false)
    ///     .timeout(Duration::from_secs(30))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    Delete { filter: Document, multi: bool, } with DeleteOptions listed by delete_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for Delete<'_, R, T> {
    type Output = Result<DeleteResult, Error>;
    type IntoFuture = DeleteFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = DeleteOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            let defaults = self.collection.defaults();
            crud::delete(namespace, &self.filter, self.multi, options, defaults)
        });
        DeleteFuture(single(
            self.collection.client(),
            self.session,
            command,
            Deleted,
        ))
    }
}
