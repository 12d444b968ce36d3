//! `watch`, on collections, databases and clients.

use super::{read_preference, setters, single};
use crate::{
    ChangeStream, Client, Collection, Database, Runtime, SessionChangeStream,
    decode::{OpenSessionStream, OpenStream},
    futures::{SessionChangeStreamFuture, WatchFuture},
    options::*,
    session::{ExplicitSession, ImplicitSession, UsedSession},
};
use bson::{Bson, Document, Timestamp};
use onionskin_core::{
    error::Error,
    operation::crud::{
        self, ChangeStreamEvent, ChangeStreamOptions, Defaults, ResumeToken, SharedNamespace,
    },
};
use std::{future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

/// A `watch` that runs when it is awaited. Its result is a [`ChangeStream`], or in a session a
/// [`SessionChangeStream`], of [`ChangeStreamEvent`]s whose documents are decoded as `T`.
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
/// use onionskin::{
///     bson::Timestamp,
///     options::{
///         Collation, FullDocumentBeforeChangeType, FullDocumentType, ReadConcern, ReadPreference,
///     },
/// };
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
/// let mut changes = people
///     .watch()
///     .full_document(FullDocumentType::UpdateLookup)
///     .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
///     .show_expanded_events(true)
///     .join_split_events(true)
///     .collation(Collation::builder().locale("de").build())
///     .batch_size(100)
///     .max_await_time(Duration::from_secs(10))
///     .comment("search index")
///     .timeout(Duration::from_secs(60))
///     .await?;
/// let event = changes.next().await.transpose()?;
/// // After the program has started again, the stream resumes after its last event.
/// if let Some(token) = changes.resume_token() {
///     let changes = people
///         .watch()
///         .resume_after(token.clone())
///         .selection_criteria(ReadPreference::secondary_preferred(None).into())
///         .read_concern(ReadConcern::majority())
///         .await?;
///     // The collection was dropped, and is created again.
///     let changes = people.watch().start_after(token).await?;
/// }
/// let start = Timestamp { time: 1_767_268_800, increment: 0 };
/// let changes = people.watch().start_at_operation_time(start).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct Watch<R: Runtime, T = Document, S = ImplicitSession> {
    client: Client<R>,
    target: Target,
    defaults: Arc<Defaults>,
    pipeline: Vec<Document>,
    options: Option<Box<ChangeStreamOptions>>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> (T, S)>,
}

/// The part of the data that is watched.
enum Target {
    Collection(SharedNamespace),
    Database(Arc<str>),
    Deployment,
}

impl<R: Runtime> Client<R> {
    /// Watches the changes of all databases of the deployment.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let mut changes = client.watch().await?;
    /// while let Some(event) = changes.next().await {
    ///     println!("{:?}", event?.operation_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self) -> Watch<R> {
        let defaults = self.database("admin").shared_defaults().clone();
        Watch::new(self.clone(), Target::Deployment, defaults)
    }
}

impl<R: Runtime> Database<R> {
    /// Watches the changes of all collections of the database.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let mut changes = database.watch().await?;
    /// while let Some(event) = changes.next().await {
    ///     println!("{:?}", event?.ns);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self) -> Watch<R> {
        let target = Target::Database(self.shared_name().clone());
        Watch::new(
            self.client().clone(),
            target,
            self.shared_defaults().clone(),
        )
    }
}

impl<R: Runtime, T> Collection<R, T> {
    /// Watches the changes of the collection.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # use onionskin::options::FullDocumentType;
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let adults = doc! { "$match": { "fullDocument.age": { "$gte": 18 } } };
    /// let watch = people.watch().pipeline([adults]);
    /// let mut changes = watch.full_document(FullDocumentType::UpdateLookup).await?;
    /// while let Some(event) = changes.next().await {
    ///     println!("{:?}", event?.full_document);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self) -> Watch<R, T> {
        let target = Target::Collection(self.shared_namespace().clone());
        Watch::new(
            self.client().clone(),
            target,
            self.shared_defaults().clone(),
        )
    }
}

impl<R: Runtime, T> Watch<R, T> {
    const fn new(client: Client<R>, target: Target, defaults: Arc<Defaults>) -> Self {
        Self {
            client,
            target,
            defaults,
            pipeline: Vec::new(),
            options: None,
            session: None,
            marker: PhantomData,
        }
    }

    /// Makes the call run in this session. Its result is a [`SessionChangeStream`].
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut session = people.client().start_session().await?;
    /// let mut changes = people.watch().session(&mut session).await?;
    /// while let Some(event) = changes.next(&mut session).await? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(self, session: &mut crate::ClientSession<R>) -> Watch<R, T, ExplicitSession> {
        let used = session.used_by(&self.client);
        Watch {
            client: self.client,
            target: self.target,
            defaults: self.defaults,
            pipeline: self.pipeline,
            options: self.options,
            session: Some(used),
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, T, S> Watch<R, T, S> {
    /// Sets the stages that filter and change the events. A stage must not change or remove the
    /// `_id` of events, because a stream resumes by it.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let inserts = doc! { "$match": { "operationType": "insert" } };
    /// let mut changes = people.watch().pipeline([inserts]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn pipeline(mut self, stages: impl IntoIterator<Item = Document>) -> Self {
        self.pipeline = stages.into_iter().collect();
        self
    }

    /// Returns the call for the core.
    fn into_core(self) -> (Client<R>, crud::Watch, Option<UsedSession>) {
        let options = self.options.map(|options| *options).unwrap_or_default();
        let (pipeline, defaults) = (self.pipeline, self.defaults);
        let watch = match self.target {
            Target::Collection(name) => crud::Watch::collection(name, pipeline, options, defaults),
            Target::Database(name) => crud::Watch::database(name, pipeline, options, defaults),
            Target::Deployment => crud::Watch::deployment(pipeline, options, defaults),
        };
        (self.client, watch, self.session)
    }
}

onionskin_core::change_stream_options! { setters [R: Runtime, T, S] [Watch<R, T, S>] }

read_preference!([R: Runtime, T, S] Watch<R, T, S>);

impl<R: Runtime, T> IntoFuture for Watch<R, T> {
    type Output = Result<ChangeStream<R, ChangeStreamEvent<T>>, Error>;
    type IntoFuture = WatchFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let (client, watch, _) = self.into_core();
        let command = watch.command();
        let opener = OpenStream::new(&client, watch);
        WatchFuture(single(&client, None, command, opener))
    }
}

impl<R: Runtime, T> IntoFuture for Watch<R, T, ExplicitSession> {
    type Output = Result<SessionChangeStream<R, ChangeStreamEvent<T>>, Error>;
    type IntoFuture = SessionChangeStreamFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let (client, watch, used) = self.into_core();
        let command = watch.command();
        let opener = OpenStream::new(&client, watch);
        let session = used.and_then(|used| used.checked().ok());
        let opener = OpenSessionStream { opener, session };
        SessionChangeStreamFuture(single(&client, used, command, opener))
    }
}
