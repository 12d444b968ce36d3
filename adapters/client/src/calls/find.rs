//! `find` and `find_one`.

use super::{RawBatches, collection_call, cursor_call, read_preference, setters, single};
use crate::{
    Client, Collection, Cursor, Runtime, SessionCursor,
    decode::{FirstDocument, OpenCursor},
    futures::{FindFuture, FindOneFuture, SessionCursorFuture},
    options::*,
    session::{ImplicitSession, UsedSession},
};
use bson::{Bson, Document};
use onionskin_core::{
    error::Error,
    operation::{Command, crud},
};
use serde::de::DeserializeOwned;
use std::{future::IntoFuture, marker::PhantomData, time::Duration};

collection_call! {
    /// A `find_one` that runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::{Collation, Hint, ReadConcern, ReadPreference};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// // The second oldest person of a city.
    /// let person = people
    ///     .find_one(doc! { "$expr": { "$eq": ["$city", "$$city"] } })
    ///     .let_vars(doc! { "city": "Berlin" })
    ///     .collation(Collation::builder().locale("de").build())
    ///     .sort(doc! { "born": 1 })
    ///     .skip(1)
    ///     .projection(doc! { "name": 1 })
    ///     .comment("birthdays")
    ///     .max_time(Duration::from_secs(2))
    ///     .await?;
    /// // The smallest key of an index between two bounds.
    /// let key = people
    ///     .find_one(doc! {})
    ///     .hint(Hint::from(doc! { "born": 1 }))
    ///     .min(doc! { "born": 1900 })
    ///     .max(doc! { "born": 2000 })
    ///     .return_key(true)
    ///     .show_record_id(false)
    ///     .raw_data(false)
    ///     .await?;
    /// // Any member may serve this read, and shards may be missing.
    /// let somebody = people
    ///     .find_one(doc! {})
    ///     .selection_criteria(ReadPreference::nearest(None).into())
    ///     .read_concern(ReadConcern::local())
    ///     .allow_partial_results(true)
    ///     .timeout(Duration::from_millis(200))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    FindOne { filter: Document, } with FindOneOptions listed by find_one_options
}

read_preference!([R: Runtime, T] FindOne<'_, R, T>);

impl<R: Runtime, T: Send + Sync + DeserializeOwned + 'static> IntoFuture for FindOne<'_, R, T> {
    type Output = Result<Option<T>, Error>;
    type IntoFuture = FindOneFuture<R, T>;

    fn into_future(self) -> Self::IntoFuture {
        let options = FindOneOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::find_one(namespace, &self.filter, options, self.collection.defaults())
        });
        let (client, decode) = (self.collection.client(), FirstDocument(PhantomData));
        FindOneFuture(single(client, self.session, command, decode))
    }
}

/// A `find` that runs when it is awaited. Its result is a [`Cursor`], or in a session a
/// [`SessionCursor`].
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
/// use onionskin::options::{
///     Collation, CursorType, Hint, ReadConcern, SelectionCriteria, TimeoutMode,
/// };
/// use std::{sync::Arc, time::Duration};
///
/// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
/// // The second page of a list, in German order.
/// let page = people
///     .find(doc! { "$expr": { "$eq": ["$city", "$$city"] } })
///     .let_vars(doc! { "city": "Berlin" })
///     .collation(Collation::builder().locale("de").build())
///     .sort(doc! { "name": 1 })
///     .skip(100)
///     .limit(100)
///     .projection(doc! { "name": 1 })
///     .comment("address book")
///     .max_time(Duration::from_secs(2))
///     .await?;
/// // A report on the server of a rack. Each batch may take a minute.
/// let rack = SelectionCriteria::Predicate(Arc::new(|server| server.tags.contains_key("rack")));
/// let report = people
///     .find(doc! {})
///     .selection_criteria(rack)
///     .read_concern(ReadConcern::majority())
///     .allow_disk_use(true)
///     .allow_partial_results(true)
///     .batch_size(5_000)
///     .no_cursor_timeout(true)
///     .timeout(Duration::from_secs(60))
///     .timeout_mode(TimeoutMode::Iteration)
///     .await?;
/// // The keys of an index between two bounds.
/// let keys = people
///     .find(doc! {})
///     .hint(Hint::from(doc! { "born": 1 }))
///     .min(doc! { "born": 1900 })
///     .max(doc! { "born": 2000 })
///     .return_key(true)
///     .show_record_id(false)
///     .raw_data(false)
///     .await?;
/// // The documents of a capped collection, and those that are added later.
/// let added = people
///     .find(doc! {})
///     .cursor_type(CursorType::TailableAwait)
///     .max_await_time(Duration::from_secs(10))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct Find<'a, R: Runtime, T, S = ImplicitSession> {
    collection: &'a Collection<R, T>,
    filter: Document,
    options: Option<Box<FindOptions>>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> S>,
}

onionskin_core::find_options! { setters [R: Runtime, T, S] [Find<'_, R, T, S>] }

read_preference!([R: Runtime, T, S] Find<'_, R, T, S>);

cursor_call! {
    ['a, R: Runtime, T: Send + Sync] Find<'a, R, T> { collection, filter }
    => FindFuture<R, T>, T
}

impl<'a, R: Runtime, T> Find<'a, R, T> {
    pub(crate) const fn new(collection: &'a Collection<R, T>, filter: Document) -> Self {
        Self {
            collection,
            filter,
            options: None,
            session: None,
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, T, S> Find<'_, R, T, S> {
    /// Makes the result of the call whole batches, as the server sends them, whose documents are
    /// neither decoded nor copied: a [`RawBatchCursor`](crate::RawBatchCursor). Set the options and
    /// the session of the call before.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut copy = Vec::new();
    /// let mut batches = people.find(doc! {}).batch_size(1000).batch().await?;
    /// while let Some(batch) = batches.next().await {
    ///     for person in batch?.doc_slices()? {
    ///         if let Some(person) = person?.as_document() {
    ///             copy.extend_from_slice(person.as_bytes());
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch(self) -> RawBatches<R, S> {
        let (command, opener) = self.prepare();
        RawBatches::new(self.session, command, opener)
    }

    const fn client(&self) -> &Client<R> {
        self.collection.client()
    }

    fn prepare(&self) -> (Result<Command, Error>, OpenCursor<R, T>) {
        let options = FindOptions::or_unset(self.options.as_deref());
        let namespace = self.collection.checked_namespace();
        let command = namespace.and_then(|namespace| {
            crud::find(namespace, &self.filter, options, self.collection.defaults())
        });
        let opener = OpenCursor::new(self.collection.client(), self.collection.shared_database());
        (command, opener)
    }
}
