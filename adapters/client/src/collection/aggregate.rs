//! The `aggregate` operation.

use super::{Collection, raw};
use crate::{Cursor, Execution, Runtime, decode::OpenCursor, futures::AggregateFuture};
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

/// An `aggregate` operation that runs when it is awaited. Its documents are decoded as `U`.
#[must_use = "a call runs when it is awaited"]
pub struct Aggregate<'a, R: Runtime, T, U = Document> {
    pub(super) collection: &'a Collection<R, T>,
    pub(super) pipeline: Vec<Document>,
    pub(super) options: AggregateOptions,
    pub(super) marker: PhantomData<fn() -> U>,
}

impl<'a, R: Runtime, T, U> Aggregate<'a, R, T, U> {
    /// Sets the type as which documents are decoded. Default: [`Document`], because the results of
    /// a pipeline seldom have the type of the collection.
    pub fn with_type<V>(self) -> Aggregate<'a, R, T, V> {
        Aggregate {
            collection: self.collection,
            pipeline: self.pipeline,
            options: self.options,
            marker: PhantomData,
        }
    }

    /// Sets the maximum number of documents per batch. Default: chosen by the server.
    pub fn batch_size(mut self, size: u32) -> Self {
        self.options.batch_size = Some(size);
        self
    }

    /// Sets the read preference. Default: that of the client. A pipeline that ends with `$out` or
    /// `$merge` uses `primary` while some available server is older than 5.0 ([SEL-34]).
    ///
    /// [SEL-34]: onionskin_core::requirements::server_selection#SEL-34
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.options.read_preference = Some(Arc::new(preference));
        self
    }

    /// Sets the read concern. Default: that of the client.
    pub fn read_concern(mut self, concern: ReadConcern) -> Self {
        self.options.read_concern = Some(concern);
        self
    }

    /// Sets the write concern of `$out` and `$merge`. Default: that of the client.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
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

impl<R: Runtime, T: Send + Sync, U> IntoFuture for Aggregate<'_, R, T, U> {
    type Output = Result<Cursor<R, U>, Error>;
    type IntoFuture = AggregateFuture<R, U>;

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
        AggregateFuture(Execution::new(client, Single::new(command, opener)))
    }
}
