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
