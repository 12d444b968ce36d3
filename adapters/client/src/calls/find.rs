//! `find` and `find_one`.

use super::{collection_call, read_preference, setters, single};
use crate::{
    Collection, Cursor, Runtime,
    decode::{FirstDocument, OpenCursor},
    futures::{FindFuture, FindOneFuture},
    options::*,
};
use bson::{Bson, Document};
use onionskin_core::{error::Error, operation::crud};
use serde::de::DeserializeOwned;
use std::{future::IntoFuture, marker::PhantomData, time::Duration};

collection_call! {
    /// A `find_one` that runs when it is awaited.
    FindOne { filter: Document, } with FindOneOptions listed by find_one_options
}

read_preference!([R: Runtime, T] FindOne<'_, R, T>);

impl<R: Runtime, T: Send + Sync + DeserializeOwned + 'static> IntoFuture for FindOne<'_, R, T> {
    type Output = Result<Option<T>, Error>;
    type IntoFuture = FindOneFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let options = self.options.as_deref().unwrap_or(FindOneOptions::unset());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::find_one(namespace, &self.filter, options, self.collection.defaults())
        });
        FindOneFuture(single(
            self.collection.client(),
            command,
            FirstDocument(PhantomData),
        ))
    }
}

collection_call! {
    /// A `find` that runs when it is awaited. Its result is a [`Cursor`].
    Find { filter: Document, } with FindOptions listed by find_options
}

read_preference!([R: Runtime, T] Find<'_, R, T>);

impl<R: Runtime, T: Send + Sync> IntoFuture for Find<'_, R, T> {
    type Output = Result<Cursor<R, T>, Error>;
    type IntoFuture = FindFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let options = self.options.as_deref().unwrap_or(FindOptions::unset());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::find(namespace, &self.filter, options, self.collection.defaults())
        });
        let waits = options.cursor_type == Some(CursorType::TailableAwait);
        let opener = OpenCursor {
            client: self.collection.client().clone(),
            database: self.collection.namespace().shared_database().clone(),
            batch_size: options.batch_size,
            max_await_time: options.max_await_time.filter(|_| waits),
            marker: PhantomData,
        };
        FindFuture(single(self.collection.client(), command, opener))
    }
}
