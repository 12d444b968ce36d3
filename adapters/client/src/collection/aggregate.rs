//! Aggregations.

use super::{Collection, raw};
use crate::{Cursor, Execution, Runtime, decode::OpenCursor};
use bson::Document;
use onionskin_core::{
    error::Error,
    operation::{
        Single,
        crud::{self, AggregateOptions},
    },
    options::{ReadConcern, ReadPreference, WriteConcern},
};
use std::{future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

/// An aggregation that is about to run. Its documents are read as `U`.
#[must_use = "a call runs when it is awaited"]
pub struct Aggregate<'a, R: Runtime, T, U = Document> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) pipeline: Vec<Document>,
    pub(super) options: AggregateOptions,
    pub(super) marker: PhantomData<fn() -> U>,
}

impl<'a, R: Runtime, T, U> Aggregate<'a, R, T, U> {
    /// Reads the documents of the result as `V`. Default: as documents, because a pipeline seldom
    /// gives what the collection holds.
    pub fn with_type<V>(self) -> Aggregate<'a, R, T, V> {
        Aggregate {
            collection: self.collection,
            pipeline: self.pipeline,
            options: self.options,
            marker: PhantomData,
        }
    }

    /// Documents per batch.
    pub fn batch_size(mut self, size: u32) -> Self {
        self.options.batch_size = Some(size);
        self
    }

    /// Chooses which servers may answer. A pipeline that ends in `$out` or `$merge` goes to the
    /// primary all the same while some available server is older than 5.0 (SEL-34).
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// How durable the documents must be.
    pub fn read_concern(mut self, concern: ReadConcern) -> Self {
        self.options.read_concern = Some(concern);
        self
    }

    /// How the documents that `$out` or `$merge` writes are confirmed.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
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

impl<R: Runtime, T: Send + Sync, U> IntoFuture for Aggregate<'_, R, T, U> {
    type Output = Result<Cursor<R, U>, Error>;
    type IntoFuture = Execution<R, Single<OpenCursor<R, U>>>;

    fn into_future(self) -> Self::IntoFuture {
        let namespace = self.collection.namespace();
        let pipeline: Result<Vec<_>, Error> = self.pipeline.iter().map(raw).collect();
        let command = pipeline.and_then(|pipeline| {
            let namespace = namespace.clone()?;
            Ok(crud::aggregate(namespace, &pipeline, &self.options))
        });
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
