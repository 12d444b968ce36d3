//! Calls for the indexes of a collection.

use super::{collection_call, cursor_call, setters, single};
use crate::{
    Client, Collection, Cursor, Execution, Runtime, SessionCursor,
    decode::{Done, IndexCreated, IndexesCreated, OpenCursor},
    futures::{
        CreateIndexFuture, CreateIndexesFuture, DropIndexFuture, ListIndexNamesFuture,
        ListIndexesFuture, SessionCursorFuture,
    },
    options::*,
    session::{ImplicitSession, UsedSession},
};
use bson::Bson;
use onionskin_core::{
    error::Error,
    operation::{
        Command,
        crud::{self, CreateIndexResult, CreateIndexesResult},
    },
};
use std::{future::IntoFuture, marker::PhantomData, time::Duration};

collection_call! {
    /// A `create_index` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::{IndexModel, options::{CommitQuorum, WriteConcern}};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let by_name = IndexModel::builder().keys(doc! { "name": 1 }).build();
    /// let result = people
    ///     .create_index(by_name.clone())
    ///     .commit_quorum(CommitQuorum::Majority)
    ///     .write_concern(WriteConcern::majority())
    ///     .comment("release 7")
    ///     .max_time(Duration::from_secs(600))
    ///     .raw_data(false)
    ///     .await?;
    ///
    /// people.create_index(by_name).timeout(Duration::from_secs(600)).await?;
    /// # Ok(())
    /// # }
    /// ```
    CreateIndex { index: IndexModel, } with CreateIndexOptions listed by create_index_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for CreateIndex<'_, R, T> {
    type Output = Result<CreateIndexResult, Error>;
    type IntoFuture = CreateIndexFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let indexes = [self.index];
        let command = create(self.collection, &indexes, self.options.as_deref());
        let decode = IndexCreated(names(&indexes));
        CreateIndexFuture(single(
            self.collection.client(),
            self.session,
            command,
            decode,
        ))
    }
}

collection_call! {
    /// A `create_indexes` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::{IndexModel, options::{CommitQuorum, WriteConcern}};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let indexes = ["name", "city"].map(|f| IndexModel::builder().keys(doc! { f: 1 }).build());
    /// let result = people
    ///     .create_indexes(indexes.clone())
    ///     .commit_quorum(CommitQuorum::Majority)
    ///     .write_concern(WriteConcern::majority())
    ///     .comment("release 7")
    ///     .max_time(Duration::from_secs(600))
    ///     .raw_data(false)
    ///     .await?;
    ///
    /// people.create_indexes(indexes).timeout(Duration::from_secs(600)).await?;
    /// # Ok(())
    /// # }
    /// ```
    CreateIndexes { indexes: Vec<IndexModel>, }
    with CreateIndexOptions listed by create_index_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for CreateIndexes<'_, R, T> {
    type Output = Result<CreateIndexesResult, Error>;
    type IntoFuture = CreateIndexesFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let command = create(self.collection, &self.indexes, self.options.as_deref());
        let decode = IndexesCreated(names(&self.indexes));
        CreateIndexesFuture(single(
            self.collection.client(),
            self.session,
            command,
            decode,
        ))
    }
}

fn create<R: Runtime, T>(
    collection: &Collection<R, T>,
    indexes: &[IndexModel],
    options: Option<&CreateIndexOptions>,
) -> Result<Command, Error> {
    let options = CreateIndexOptions::or_unset(options);
    let namespace = collection.checked_namespace()?;
    crud::create_indexes(namespace, indexes, options, collection.defaults())
}

fn names(indexes: &[IndexModel]) -> Vec<String> {
    indexes.iter().map(IndexModel::name).collect()
}

collection_call! {
    /// A `drop_index` or `drop_indexes` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// use onionskin::options::WriteConcern;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// people
    ///     .drop_index("name_1")
    ///     .write_concern(WriteConcern::majority())
    ///     .comment("release 7")
    ///     .max_time(Duration::from_secs(10))
    ///     .raw_data(false)
    ///     .await?;
    /// people.drop_indexes().timeout(Duration::from_secs(10)).await?;
    /// # Ok(())
    /// # }
    /// ```
    DropIndex { name: Option<String>, } with DropIndexOptions listed by drop_index_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for DropIndex<'_, R, T> {
    type Output = Result<(), Error>;
    type IntoFuture = DropIndexFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = DropIndexOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            let (name, defaults) = (self.name.as_deref(), self.collection.defaults());
            crud::drop_indexes(namespace, name, options, defaults)
        });
        DropIndexFuture(single(
            self.collection.client(),
            self.session,
            command,
            Done::OnSuccess,
        ))
    }
}

/// A `list_indexes` that runs when it is awaited. Its result is a [`Cursor`], or in a session a
/// [`SessionCursor`].
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::Document};
/// use onionskin::options::TimeoutMode;
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
/// let indexes = people
///     .list_indexes()
///     .batch_size(10)
///     .comment("check after the release")
///     .max_time(Duration::from_secs(1))
///     .raw_data(false)
///     .await?;
/// let indexes = people
///     .list_indexes()
///     .timeout(Duration::from_secs(5))
///     .timeout_mode(TimeoutMode::CursorLifetime)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct ListIndexes<'a, R: Runtime, T, S = ImplicitSession> {
    collection: &'a Collection<R, T>,
    options: Option<Box<ListIndexesOptions>>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> S>,
}

onionskin_core::list_indexes_options! { setters [R: Runtime, T, S] [ListIndexes<'_, R, T, S>] }

cursor_call! {
    ['a, R: Runtime, T: Send + Sync] ListIndexes<'a, R, T> { collection }
    => ListIndexesFuture<R>, IndexModel
}

impl<'a, R: Runtime, T> ListIndexes<'a, R, T> {
    pub(crate) const fn new(collection: &'a Collection<R, T>) -> Self {
        Self {
            collection,
            options: None,
            session: None,
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, T, S> ListIndexes<'_, R, T, S> {
    const fn client(&self) -> &Client<R> {
        self.collection.client()
    }

    fn prepare(&self) -> (Result<Command, Error>, OpenCursor<R, IndexModel>) {
        let options = ListIndexesOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::list_indexes(namespace, options, self.collection.defaults())
        });
        let opener = OpenCursor::new(self.client(), self.collection.shared_database());
        (command, opener)
    }
}

collection_call! {
    /// A `list_index_names` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// use onionskin::options::TimeoutMode;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let names = people
    ///     .list_index_names()
    ///     .batch_size(10)
    ///     .comment("check after the release")
    ///     .max_time(Duration::from_secs(1))
    ///     .raw_data(false)
    ///     .await?;
    /// let names = people
    ///     .list_index_names()
    ///     .timeout(Duration::from_secs(5))
    ///     .timeout_mode(TimeoutMode::CursorLifetime)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ListIndexNames {} with ListIndexesOptions listed by list_indexes_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for ListIndexNames<'_, R, T> {
    type Output = Result<Vec<String>, Error>;
    type IntoFuture = ListIndexNamesFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = ListIndexesOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::list_indexes(namespace, options, self.collection.defaults())
        });
        let command = UsedSession::apply(self.session, command);
        let database = self.collection.shared_database().clone();
        let names = crud::Names::new(database, command);
        let names = names.of_what_may_be_missing();
        ListIndexNamesFuture(Execution::new(self.collection.client().clone(), names))
    }
}
