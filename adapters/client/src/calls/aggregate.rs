//! `aggregate`, on collections and on databases.

use super::{RawBatches, cursor_call, read_preference, setters, single};
use crate::{
    Client, Collection, Cursor, Database, Runtime, SessionCursor,
    decode::OpenCursor,
    futures::{AggregateFuture, SessionCursorFuture},
    options::*,
    session::{ImplicitSession, UsedSession},
};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::{
        Command,
        crud::{self, Defaults, SharedNamespace},
    },
};
use std::{future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

/// An `aggregate` that runs when it is awaited. Its result is a [`Cursor`], or in a session a
/// [`SessionCursor`], whose documents are decoded as `U`.
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
/// use onionskin::options::{
///     Collation, Hint, ReadConcern, ReadPreference, TimeoutMode, WriteConcern,
/// };
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
/// // The cursor waits for each batch at most five seconds.
/// let born = people
///     .aggregate([doc! { "$match": { "$expr": { "$gt": ["$born", "$$year"] } } }])
///     .let_vars(doc! { "year": 1900 })
///     .hint(Hint::from("born_1"))
///     .collation(Collation::builder().locale("de").build())
///     .allow_disk_use(true)
///     .batch_size(500)
///     .selection_criteria(ReadPreference::secondary_preferred(None).into())
///     .read_concern(ReadConcern::majority())
///     .timeout(Duration::from_secs(5))
///     .timeout_mode(TimeoutMode::Iteration)
///     .await?;
/// // Writes the result to another collection.
/// people
///     .aggregate([doc! { "$sortByCount": "$city" }, doc! { "$out": "cities" }])
///     .write_concern(WriteConcern::majority())
///     .bypass_document_validation(true)
///     .comment("statistics")
///     .max_time(Duration::from_secs(60))
///     .raw_data(false)
///     .await?;
/// // Reads changes with a stage of its own, and waits for them on the server.
/// let changes = people
///     .aggregate([doc! { "$changeStream": {} }])
///     .max_await_time(Duration::from_secs(1))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct Aggregate<R: Runtime, U = Document, S = ImplicitSession> {
    client: Client<R>,
    target: Target,
    defaults: Arc<Defaults>,
    pipeline: Vec<Document>,
    options: Option<Box<AggregateOptions>>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> (U, S)>,
}

/// On what the pipeline runs.
enum Target {
    Collection(SharedNamespace),
    Database(Arc<str>),
}

impl<R: Runtime> Aggregate<R> {
    pub(crate) fn on_collection<T>(
        collection: &Collection<R, T>,
        pipeline: impl IntoIterator<Item = Document>,
    ) -> Self {
        Self {
            client: collection.client().clone(),
            target: Target::Collection(collection.shared_namespace().clone()),
            defaults: collection.shared_defaults().clone(),
            pipeline: pipeline.into_iter().collect(),
            options: None,
            session: None,
            marker: PhantomData,
        }
    }

    pub(crate) fn on_database(
        database: &Database<R>,
        pipeline: impl IntoIterator<Item = Document>,
    ) -> Self {
        Self {
            client: database.client().clone(),
            target: Target::Database(database.shared_name().clone()),
            defaults: database.shared_defaults().clone(),
            pipeline: pipeline.into_iter().collect(),
            options: None,
            session: None,
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, U, S> Aggregate<R, U, S> {
    /// Sets the type as which documents are decoded. Default: [`Document`], because the results of
    /// a pipeline seldom have the type of the collection.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct PerYear { _id: i32, count: i64 }
    ///
    /// let group = doc! { "$group": { "_id": "$born", "count": { "$sum": 1_i64 } } };
    /// let mut years = people.aggregate([group]).with_type::<PerYear>().await?;
    /// while let Some(year) = years.next().await.transpose()? {
    ///     println!("{}: {}", year._id, year.count);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_type<V>(self) -> Aggregate<R, V, S> {
        Aggregate {
            client: self.client,
            target: self.target,
            defaults: self.defaults,
            pipeline: self.pipeline,
            options: self.options,
            session: self.session,
            marker: PhantomData,
        }
    }
}

onionskin_core::aggregate_options! { setters [R: Runtime, U, S] [Aggregate<R, U, S>] }

read_preference!([R: Runtime, U, S] Aggregate<R, U, S>);

cursor_call! {
    [R: Runtime, U] Aggregate<R, U> { client, target, defaults, pipeline }
    => AggregateFuture<R, U>, U
}

impl<R: Runtime, U, S> Aggregate<R, U, S> {
    /// Makes the result of the call whole batches, as the server sends them, whose documents are
    /// neither decoded nor copied: a [`RawBatchCursor`](crate::RawBatchCursor). Set the options and
    /// the session of the call before.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let sample = doc! { "$sample": { "size": 10_000 } };
    /// let mut batches = people.aggregate([sample]).batch_size(1000).batch().await?;
    /// while let Some(batch) = batches.next().await {
    ///     println!("{} bytes", batch?.as_raw_document().as_bytes().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch(self) -> RawBatches<R, S> {
        let (command, opener) = self.prepare();
        RawBatches::new(self.session, command, opener)
    }

    const fn client(&self) -> &Client<R> {
        &self.client
    }

    fn prepare(&self) -> (Result<Command, Error>, OpenCursor<R, U>) {
        let options = AggregateOptions::or_unset(self.options.as_deref());
        let (pipeline, defaults) = (&self.pipeline, &self.defaults);
        let (command, database) = match &self.target {
            Target::Collection(namespace) => {
                let command = namespace
                    .check()
                    .and_then(|()| crud::aggregate(namespace, pipeline, options, defaults));
                (command, namespace.shared_database())
            }
            Target::Database(name) => {
                let command = crud::aggregate_database(name, pipeline, options, defaults);
                (command, name)
            }
        };
        let opener = OpenCursor::new(&self.client, database);
        (command, opener)
    }
}
