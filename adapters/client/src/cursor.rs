//! Cursors.

use crate::{Client, CloseCursor, Runtime, kept::Kept};
use bson::RawDocument;
use futures_core::Stream;
use onionskin_core::{error::Error, operation};
use serde::de::{Deserialize, DeserializeOwned};
use std::{
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The documents of a query or an aggregation, fetched in batches. A cursor is a [`Stream`] of
/// `Result<T>`.
///
/// All methods need exclusive access, so no two calls run at once. Behind a load balancer, a cursor
/// pins a connection until it is exhausted, closed or dropped ([LB-38], [LB-30]).
///
/// The time limit of the call that opened the cursor applies to that call and to all batches
/// together. With [`TimeoutMode::Iteration`](crate::options::TimeoutMode::Iteration), and for
/// tailable cursors, it applies to the call and then to each [`next`](Self::next). The limit is
/// that of [`Find::timeout`](crate::Find::timeout) or
/// [`Aggregate::timeout`](crate::Aggregate::timeout), or else `timeoutMS` of the client. After the
/// limit, `next` returns the documents that were fetched before and then a timeout error.
/// For [`close`](Self::close) the limit begins anew.
///
/// A cursor keeps its client open. If a cursor is dropped early, `killCursors` is sent in the
/// background, with a limit of five seconds.
///
/// [LB-38]: onionskin_core::requirements::load_balancers#LB-38
/// [LB-30]: onionskin_core::requirements::load_balancers#LB-30
#[must_use = "a cursor gives its documents only when it is polled"]
pub struct Cursor<R: Runtime, T> {
    batches: Batches<R>,
    marker: PhantomData<fn() -> T>,
}

/// The core's cursor, and the operation that fetches its batches.
pub(crate) type Batches<R> = Kept<R, operation::Cursor>;

impl<R: Runtime, T> fmt::Debug for Cursor<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cursor = self.batches.fetch.program();
        f.debug_struct("Cursor")
            .field("server", cursor.server())
            .field("is_open", &cursor.is_open())
            .finish_non_exhaustive()
    }
}

impl<R: Runtime, T> Cursor<R, T> {
    pub(crate) fn new(client: Client<R>, cursor: operation::Cursor) -> Self {
        Self {
            batches: Batches::new(client, cursor),
            marker: PhantomData,
        }
    }

    pub(crate) fn client(&self) -> &Client<R> {
        self.batches.fetch.client()
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Cursor, Runtime};
    /// # fn example<R: Runtime + Clone>(cursor: Cursor<R, ()>) {
    /// // A runtime that blocks polls the cursor with an executor of its own.
    /// let runtime = cursor.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.batches.fetch.runtime()
    }

    /// Returns this cursor with documents of another type.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct PerYear { _id: i32, count: i64 }
    ///
    /// let group = doc! { "$group": { "_id": "$born", "count": { "$sum": 1_i64 } } };
    /// let years = people.aggregate([group]).await?.with_type::<PerYear>().into_vec().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_type<D>(self) -> Cursor<R, D> {
        Cursor {
            batches: self.batches,
            marker: PhantomData,
        }
    }

    /// Moves to the next document, which [`current`](Self::current) and
    /// [`deserialize_current`](Self::deserialize_current) then return without a copy of its bytes.
    /// Returns false at the end.
    ///
    /// Fails with a timeout error if no time is left to fetch another batch, and if the document is
    /// not BSON. After an error there is no current document.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).await?;
    /// while cursor.advance().await? {
    ///     println!("{} bytes", cursor.current().as_bytes().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advance(&mut self) -> Result<bool, Error> {
        poll_fn(|context| self.poll_advance(context)).await
    }

    fn poll_advance(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        let has_next = ready!(self.batches.poll(context, false));
        // This also forgets the previous document if there is no next one.
        let next = self.batches.fetch.program_mut().advance();
        Poll::Ready(has_next.and_then(|_| match next {
            Some(result) => result.map(|()| true),
            None => Ok(false),
        }))
    }

    /// False if there is certainly no further document: the current batch was read, and the server
    /// has closed the cursor or a batch could not be fetched. If this is true, the next batch can
    /// still be empty.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).limit(10).await?;
    /// let first = cursor.next().await.transpose()?;
    /// if cursor.has_next() {
    ///     println!("perhaps there is somebody else");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn has_next(&self) -> bool {
        let cursor = self.batches.fetch.program();
        cursor.has_next() || cursor.is_open()
    }

    /// Returns the bytes of the document to which [`advance`](Self::advance) moved. They are not
    /// checked further than that they are one document: reading a malformed element fails.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).await?;
    /// while cursor.advance().await? {
    ///     println!("{}", cursor.current().get_str("name")?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `advance` was not called, or did not return true. [`next`](Self::next) moves on, too.
    #[must_use]
    pub fn current(&self) -> &RawDocument {
        let current = self.batches.fetch.program().current();
        current.expect("`advance` must return true before there is a current document")
    }

    /// Decodes the document to which [`advance`](Self::advance) moved. Strings and binary data of
    /// the type can borrow from the batch of the cursor.
    ///
    /// Fails if there is no current document, or if it does not have the form that `T` needs.
    ///
    /// A `Document` is decoded here as the crate `bson` does it, which takes an inner document such
    /// as `{ "$numberInt": "5" }` for Extended JSON. [`next`](Self::next) returns it as it is.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn names<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct Name<'a> { name: &'a str }
    ///
    /// let people = people.clone_with_type::<Name<'_>>();
    /// let mut cursor = people.find(doc! {}).await?;
    /// while cursor.advance().await? {
    ///     let person = cursor.deserialize_current()?;
    ///     println!("{}", person.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn deserialize_current<'a>(&'a self) -> Result<T, Error>
    where
        T: Deserialize<'a>,
    {
        self.deserialize_current_as()
    }

    /// Decodes the document to which [`advance`](Self::advance) moved, as another type than the
    /// cursor's. Fails as [`deserialize_current`](Self::deserialize_current).
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct Name<'a> { name: &'a str }
    ///
    /// let mut cursor = people.find(doc! {}).await?;
    /// while cursor.advance().await? {
    ///     let person: Name<'_> = cursor.deserialize_current_as()?;
    ///     println!("{}", person.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn deserialize_current_as<'a, D: Deserialize<'a>>(&'a self) -> Result<D, Error> {
        self.batches.fetch.program().decode_borrowed()
    }

    /// Closes the cursor on the server and waits for the reply. The time limit of the cursor, if it
    /// has one, begins anew; without one, the call waits for two seconds at most.
    /// [`CloseCursor::timeout`] sets another limit. If the future of `close` or the cursor itself
    /// is dropped, the cursor is closed in the background.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).await?;
    /// let first = cursor.next().await.transpose()?;
    /// cursor.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> CloseCursor<R> {
        self.batches.close()
    }
}

impl<R: Runtime> Batches<R> {
    /// Fetches a batch if the current one was read and the cursor is open. The result is true if
    /// there is something to read, and false if the cursor has no more documents.
    ///
    /// With `fetches_one`, one batch is fetched at most, and the result is false if it is empty.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        fetches_one: bool,
    ) -> Poll<Result<bool, Error>> {
        self.fetch.program_mut().set_fetches_one(fetches_one);
        if self.fetch.is_over() {
            let cursor = self.fetch.program_mut();
            if cursor.has_next() || !cursor.is_open() {
                return Poll::Ready(Ok(cursor.has_next()));
            }
            self.restart()?;
        }
        Pin::new(&mut self.fetch).poll(context)
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> Cursor<R, T> {
    fn poll_document(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        self.poll_some(context, false)
    }

    /// Polls the next document, for which one batch is fetched at most if `fetches_one` is true.
    fn poll_some(
        &mut self,
        context: &mut Context<'_>,
        fetches_one: bool,
    ) -> Poll<Option<Result<T, Error>>> {
        match ready!(self.batches.poll(context, fetches_one)) {
            Err(error) => Poll::Ready(Some(Err(error))),
            Ok(false) => Poll::Ready(None),
            Ok(true) => {
                let cursor = self.batches.fetch.program_mut();
                let next = cursor.advance();
                Poll::Ready(next.map(|result| {
                    result?;
                    cursor.decode()
                }))
            }
        }
    }

    /// Returns the next document; `None` at the end. Fails with a timeout error if no time is left
    /// to fetch another batch. After a batch could not be fetched, the cursor returns no more
    /// documents.
    ///
    /// The future can be dropped without a loss of documents, for example by
    /// `timeout(.., cursor.next())` of a runtime. If it was fetching a batch, the next call of
    /// `next` continues that. Until then the fetch keeps its connection: nothing else can use the
    /// connection before the cursor is polled again, closed or dropped, or before one second after
    /// the time limit of the cursor, which goes on meanwhile. So set a time limit for the cursor
    /// ([`Find::timeout`](crate::Find::timeout)), or drop a cursor that is not needed any more.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).await?;
    /// while let Some(person) = cursor.next().await {
    ///     println!("{}", person?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        poll_fn(|context| self.poll_document(context)).await
    }

    /// Returns the next document, for which it fetches one batch at most. `None` if that batch is
    /// empty, and at the end. This is for tailable cursors, whose [`next`](Self::next) waits until
    /// there is a document. Fails and can be dropped like `next`.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}, options::CursorType};
    /// # async fn example<R: Runtime>(log: Collection<R, Document>) -> Result<(), Error> {
    /// let mut lines = log.find(doc! {}).cursor_type(CursorType::TailableAwait).await?;
    /// while let Some(line) = lines.next_if_any().await? {
    ///     println!("{line}");
    /// }
    /// println!("no news, so there is time for something else");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_if_any(&mut self) -> Result<Option<T>, Error> {
        poll_fn(|context| self.poll_some(context, true))
            .await
            .transpose()
    }

    /// Returns all remaining documents as a list, or the first error.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let youngest = people.find(doc! {}).sort(doc! { "born": -1 }).limit(10);
    /// let youngest: Vec<Document> = youngest.await?.into_vec().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn into_vec(mut self) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        while let Some(document) = self.next().await {
            all.push(document?);
        }
        Ok(all)
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> Stream for Cursor<R, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_document(context)
    }
}
