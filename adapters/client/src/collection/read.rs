//! Read operations: `find_one`, `find` and `count_documents`.

use super::{Collection, call, raw};
use crate::{
    Cursor, Execution, Runtime,
    decode::{Counted, FirstDocument, OpenCursor},
    futures::{CountDocumentsFuture, FindFuture, FindOneFuture},
};
use bson::Document;
use onionskin_core::{
    error::Error,
    operation::{
        Command, Single,
        crud::{self, CountOptions, FindOptions},
    },
    options::{ReadConcern, ReadPreference},
};
use serde::de::DeserializeOwned;
use std::{future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

/// A `find_one` operation that runs when it is awaited.
#[must_use = "a call runs when it is awaited"]
pub struct FindOne<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) options: FindOptions,
}

impl<R: Runtime, T> FindOne<'_, R, T> {
    /// Sets the read preference. Default: that of the client.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// Sets the time limit of the whole operation: server selection, check out, the exchange with
    /// the server, and retries. Default: `timeoutMS` of the client; zero means no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

impl<R: Runtime, T: Send + Sync + DeserializeOwned + 'static> IntoFuture for FindOne<'_, R, T> {
    type Output = Result<Option<T>, Error>;
    type IntoFuture = FindOneFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let namespace = self.collection.namespace();
        let command =
            namespace.and_then(|namespace| crud::find(namespace, &self.filter, &self.options));
        FindOneFuture(self.collection.execute(command, FirstDocument(PhantomData)))
    }
}

/// A `find` operation that runs when it is awaited.
#[must_use = "a call runs when it is awaited"]
pub struct Find<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) options: FindOptions,
    /// The error of an option that cannot be encoded. The operation fails with this error.
    pub(super) option_error: Option<Error>,
}

impl<R: Runtime, T> Find<'_, R, T> {
    /// Sets the order of the documents. Default: the server chooses the order.
    pub fn sort(mut self, sort: Document) -> Self {
        match raw(&sort) {
            Ok(sort) => self.options.sort = Some(sort),
            Err(error) => self.option_error = Some(error),
        }
        self
    }

    /// Sets the fields to return. Default: all fields.
    pub fn projection(mut self, projection: Document) -> Self {
        match raw(&projection) {
            Ok(projection) => self.options.projection = Some(projection),
            Err(error) => self.option_error = Some(error),
        }
        self
    }

    /// Sets the number of documents to skip. Default: 0.
    pub fn skip(mut self, skip: u64) -> Self {
        self.options.skip = Some(skip);
        self
    }

    /// Sets the maximum number of documents to return. Default: no limit; zero means no limit. A
    /// negative number also limits the result to one batch: `-5` means at most five documents, in
    /// one batch.
    pub fn limit(mut self, limit: i64) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// Sets the maximum number of documents per batch. Default: chosen by the server.
    pub fn batch_size(mut self, size: u32) -> Self {
        self.options.batch_size = Some(size);
        self
    }

    /// Sets the read preference. Default: that of the client.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// Sets the time limit of this operation and of all batches of its cursor together: server
    /// selections, check outs, exchanges with the server, and retries.
    ///
    /// The time starts with the first poll of the operation, and also counts while the cursor is
    /// not read (`CURSOR_LIFETIME` of the specifications, [RUN-25]). After the limit,
    /// [`Cursor::next`] returns the documents that were fetched before and then a timeout error.
    /// Default: `timeoutMS` of the client; zero means no limit.
    ///
    /// [RUN-25]: onionskin_core::requirements::messages#RUN-25
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

impl<R: Runtime, T: Send + Sync> IntoFuture for Find<'_, R, T> {
    type Output = Result<Cursor<R, T>, Error>;
    type IntoFuture = FindFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let namespace = self.collection.namespace();
        let command = match self.option_error {
            Some(error) => Err(error),
            None => namespace
                .clone()
                .and_then(|namespace| crud::find(namespace, &self.filter, &self.options)),
        };
        let client = self.collection.client.clone();
        let opener = OpenCursor {
            client: client.clone(),
            database: namespace.map_or_else(|_| "".into(), |n| n.database().into()),
            batch_size: self.options.batch_size,
            marker: PhantomData,
        };
        FindFuture(Execution::new(client, Single::new(command, opener)))
    }
}

/// A `count_documents` operation that runs when it is awaited.
#[must_use = "a call runs when it is awaited"]
pub struct CountDocuments<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) options: CountOptions,
}

call!(CountDocuments, options, u64, CountDocumentsFuture);

impl<R: Runtime, T: Send + Sync> CountDocuments<'_, R, T> {
    /// Sets the read preference. Default: that of the client.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// Sets the read concern. Default: that of the client.
    pub fn read_concern(mut self, concern: ReadConcern) -> Self {
        self.options.read_concern = Some(concern);
        self
    }

    fn prepare(self) -> (Result<Command, Error>, Counted) {
        let command = raw(&self.filter).and_then(|filter| {
            crud::count_documents(self.collection.namespace()?, &filter, &self.options)
        });
        (command, Counted)
    }
}
