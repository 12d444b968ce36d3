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
