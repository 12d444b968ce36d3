//! Calls for the search indexes of a collection.

use super::{collection_call, cursor_call, setters, single};
use crate::{
    Client, Collection, Cursor, Runtime, SessionCursor,
    decode::{Done, OpenCursor, SearchIndexCreated, SearchIndexesCreated},
    futures::{
        CreateSearchIndexFuture, CreateSearchIndexesFuture, DropSearchIndexFuture,
        ListSearchIndexesFuture, SessionCursorFuture, UpdateSearchIndexFuture,
    },
    options::*,
    session::{ImplicitSession, UsedSession},
};
use bson::Document;
use onionskin_core::{
    error::Error,
    operation::{Command, crud},
};
use std::{future::IntoFuture, marker::PhantomData, time::Duration};

collection_call! {
    /// A `create_search_index` that runs when it is awaited. Its result is the name of the index.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::SearchIndexModel;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let dynamic = doc! { "mappings": { "dynamic": true } };
    /// let index = SearchIndexModel::builder().definition(dynamic).build();
    /// let name = films.create_search_index(index).timeout(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    CreateSearchIndex { index: SearchIndexModel, }
    with CreateSearchIndexOptions listed by create_search_index_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for CreateSearchIndex<'_, R, T> {
    type Output = Result<String, Error>;
    type IntoFuture = CreateSearchIndexFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let command = create(self.collection, &[self.index], self.options.as_deref());
        let client = self.collection.client();
        let decode = SearchIndexCreated;
        CreateSearchIndexFuture(single(client, self.session, command, decode))
    }
}

collection_call! {
    /// A `create_search_indexes` that runs when it is awaited. Its result are the names of the
    /// indexes, in the order of the call.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::SearchIndexModel;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let dynamic = doc! { "mappings": { "dynamic": true } };
    /// let index = SearchIndexModel::builder().definition(dynamic).build();
    /// let names = films.create_search_indexes([index]).timeout(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    CreateSearchIndexes { indexes: Vec<SearchIndexModel>, }
    with CreateSearchIndexOptions listed by create_search_index_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for CreateSearchIndexes<'_, R, T> {
    type Output = Result<Vec<String>, Error>;
    type IntoFuture = CreateSearchIndexesFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let command = create(self.collection, &self.indexes, self.options.as_deref());
        let client = self.collection.client();
        let decode = SearchIndexesCreated(self.indexes.len());
        CreateSearchIndexesFuture(single(client, self.session, command, decode))
    }
}

fn create<R: Runtime, T>(
    collection: &Collection<R, T>,
    indexes: &[SearchIndexModel],
    options: Option<&CreateSearchIndexOptions>,
) -> Result<Command, Error> {
    let options = CreateSearchIndexOptions::or_unset(options);
    crud::create_search_indexes(
        collection.checked_namespace()?,
        indexes,
        options,
        collection.defaults(),
    )
}

collection_call! {
    /// An `update_search_index` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let fixed = doc! { "mappings": { "dynamic": false } };
    /// films.update_search_index("plot", fixed).timeout(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    UpdateSearchIndex { name: String, definition: Document, }
    with UpdateSearchIndexOptions listed by update_search_index_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for UpdateSearchIndex<'_, R, T> {
    type Output = Result<(), Error>;
    type IntoFuture = UpdateSearchIndexFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = UpdateSearchIndexOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::update_search_index(
                namespace,
                &self.name,
                &self.definition,
                options,
                self.collection.defaults(),
            )
        });
        let client = self.collection.client();
        UpdateSearchIndexFuture(single(client, self.session, command, Done::OnSuccess))
    }
}

collection_call! {
    /// A `drop_search_index` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// films.drop_search_index("plot").timeout(Duration::from_secs(10)).await?;
    /// # Ok(())
    /// # }
    /// ```
    DropSearchIndex { name: String, }
    with DropSearchIndexOptions listed by drop_search_index_options
}

impl<R: Runtime, T: Send + Sync> IntoFuture for DropSearchIndex<'_, R, T> {
    type Output = Result<(), Error>;
    type IntoFuture = DropSearchIndexFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = DropSearchIndexOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.map(|namespace| {
            crud::drop_search_index(namespace, &self.name, options, self.collection.defaults())
        });
        let client = self.collection.client();
        DropSearchIndexFuture(single(client, self.session, command, Done::OrMissing))
    }
}

/// A `list_search_indexes` that runs when it is awaited. Its result is a [`Cursor`], or in a
/// session a [`SessionCursor`].
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::Document};
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
/// let mut indexes = films.list_search_indexes().timeout(Duration::from_secs(10)).await?;
/// while let Some(index) = indexes.next().await.transpose()? {
///     println!("{index}");
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct ListSearchIndexes<'a, R: Runtime, T, S = ImplicitSession> {
    collection: &'a Collection<R, T>,
    name: Option<String>,
    aggregate_options: Option<Box<AggregateOptions>>,
    options: Option<Box<ListSearchIndexOptions>>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> S>,
}

onionskin_core::list_search_index_options! {
    setters [R: Runtime, T, S] [ListSearchIndexes<'_, R, T, S>]
}

cursor_call! {
    ['a, R: Runtime, T: Send + Sync] ListSearchIndexes<'a, R, T> {
        collection, name, aggregate_options
    }
    => ListSearchIndexesFuture<R, Document>, Document
}

impl<'a, R: Runtime, T> ListSearchIndexes<'a, R, T> {
    pub(crate) const fn new(collection: &'a Collection<R, T>) -> Self {
        Self {
            collection,
            name: None,
            aggregate_options: None,
            options: None,
            session: None,
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, T, S> ListSearchIndexes<'_, R, T, S> {
    /// Restricts the list to the index of this name. Default: all indexes.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let mut indexes = films.list_search_indexes().name("plot").await?;
    /// let exists = indexes.next().await.transpose()?.is_some();
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the options of the aggregation that lists the indexes. Its read concern and its write
    /// concern are not sent, because servers refuse them (Index Management, *Where are read concern
    /// and write concern?*).
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::AggregateOptions;
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(films: Collection<R, Document>) -> Result<(), Error> {
    /// let options = AggregateOptions::builder().max_time(Duration::from_secs(5)).build();
    /// let mut indexes = films.list_search_indexes().aggregate_options(options).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn aggregate_options(mut self, options: impl Into<Option<AggregateOptions>>) -> Self {
        self.aggregate_options = options.into().map(Box::new);
        self
    }

    const fn client(&self) -> &Client<R> {
        self.collection.client()
    }

    fn prepare(&self) -> (Result<Command, Error>, OpenCursor<R, Document>) {
        let own = ListSearchIndexOptions::or_unset(self.options.as_deref());
        let options = AggregateOptions::or_unset(self.aggregate_options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            let (name, defaults) = (self.name.as_deref(), self.collection.defaults());
            crud::list_search_indexes(namespace, name, own, options, defaults)
        });
        let opener = OpenCursor::new(self.client(), self.collection.shared_database());
        (command, opener)
    }
}
