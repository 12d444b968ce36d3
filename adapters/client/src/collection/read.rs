//! Searching and counting.

use super::{Collection, call, raw};
use crate::{
    Cursor, Execution, Runtime,
    decode::{Counted, FirstDocument, OpenCursor},
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

/// A search for one document that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct FindOne<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) options: FindOptions,
}

impl<R: Runtime, T> FindOne<'_, R, T> {
    /// Chooses which servers may answer.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// Bounds the whole operation: finding a server, waiting for a connection, the exchange, and
    /// retries. Default: the client's `timeoutMS`; zero is no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

impl<R: Runtime, T: Send + Sync + DeserializeOwned> IntoFuture for FindOne<'_, R, T> {
    type Output = Result<Option<T>, Error>;
    type IntoFuture = Execution<R, Single<FirstDocument<T>>>;

    fn into_future(self) -> Self::IntoFuture {
        let command = raw(&self.filter).and_then(|filter| {
            Ok(crud::find(
                self.collection.namespace()?,
                &filter,
                &self.options,
            ))
        });
        self.collection.execute(command, FirstDocument(PhantomData))
    }
}

/// A search that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct Find<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) options: FindOptions,
    /// An option that cannot be encoded; the call fails with it.
    pub(super) refused: Option<Error>,
}

impl<R: Runtime, T> Find<'_, R, T> {
    /// Order of the results.
    pub fn sort(mut self, sort: Document) -> Self {
        match raw(&sort) {
            Ok(sort) => self.options.sort = Some(sort),
            Err(error) => self.refused = Some(error),
        }
        self
    }

    /// Fields to return.
    pub fn projection(mut self, projection: Document) -> Self {
        match raw(&projection) {
            Ok(projection) => self.options.projection = Some(projection),
            Err(error) => self.refused = Some(error),
        }
        self
    }

    /// Documents to leave out at the beginning.
    pub fn skip(mut self, skip: u64) -> Self {
        self.options.skip = Some(skip);
        self
    }

    /// Documents to return at most; zero for all.
    pub fn limit(mut self, limit: i64) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// Documents per batch.
    pub fn batch_size(mut self, size: u32) -> Self {
        self.options.batch_size = Some(size);
        self
    }

    /// Chooses which servers may answer.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// Bounds this call and all batches that its cursor fetches, together: finding servers, waiting
    /// for connections, the exchanges, and retries. The time runs from the first poll of this call,
    /// also while the cursor is not read (`CURSOR_LIFETIME` of the specifications, RUN-25). When it
    /// is over, [`Cursor::next`] fails with a timeout and sends nothing. Default: the client's
    /// `timeoutMS`, in the same way; zero is no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

impl<R: Runtime, T: Send + Sync> IntoFuture for Find<'_, R, T> {
    type Output = Result<Cursor<R, T>, Error>;
    type IntoFuture = Execution<R, Single<OpenCursor<R, T>>>;

    fn into_future(self) -> Self::IntoFuture {
        let namespace = self.collection.namespace();
        let command = match self.refused {
            Some(error) => Err(error),
            None => raw(&self.filter)
                .and_then(|filter| Ok(crud::find(namespace.clone()?, &filter, &self.options))),
        };
        let client = self.collection.client.clone();
        let opener = OpenCursor {
            client: client.clone(),
            database: namespace.map_or_else(|_| "".into(), |n| n.database().into()),
            batch_size: self.options.batch_size,
            marker: PhantomData,
        };
        Execution::new(client, Single::new(command, opener))
    }
}

/// A count that is about to run.
#[must_use = "a call runs when it is awaited"]
pub struct CountDocuments<'a, R: Runtime, T> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) filter: Document,
    pub(super) options: CountOptions,
}

call!(CountDocuments, options, u64, Counted);

impl<R: Runtime, T: Send + Sync> CountDocuments<'_, R, T> {
    /// Chooses which servers may answer.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// How durable the documents must be.
    pub fn read_concern(mut self, concern: ReadConcern) -> Self {
        self.options.read_concern = Some(concern);
        self
    }

    fn prepare(self) -> (Result<Command, Error>, Counted) {
        let command = raw(&self.filter).and_then(|filter| {
            crud::count_documents(self.collection.namespace()?, &filter, &self.options)
        });
        (command, Counted(()))
    }
}
