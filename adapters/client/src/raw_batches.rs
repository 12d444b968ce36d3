//! Cursors whose batches are not decoded.

use crate::{
    Client, ClientSession, CloseCursor, Runtime, cursor::Batches, session_cursor::check_session,
};
use futures_core::Stream;
use onionskin_core::{
    client::SessionId,
    error::Error,
    operation::{self, RawBatch},
};
use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The batches of a query or an aggregation as the server sent them. A cursor is a [`Stream`] of
/// `Result<RawBatch>`.
///
/// Each reply of the server is one batch, also a reply without documents: a query that matches
/// nothing has one empty batch, and a cursor of the type
/// [`TailableAwait`](crate::options::CursorType::TailableAwait) has one each time the server has
/// waited in vain. Time limits, closing and load balancers are as for a [`Cursor`](crate::Cursor).
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
/// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
/// let mut batches = people.find(doc! {}).batch_size(1000).batch().await?;
/// while let Some(batch) = batches.next().await {
///     for document in batch?.doc_slices()? {
///         println!("{} bytes", document?.as_document().map_or(0, |d| d.as_bytes().len()));
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a cursor gives its batches only when it is polled"]
pub struct RawBatchCursor<R: Runtime> {
    batches: Batches<R>,
}

impl<R: Runtime> fmt::Debug for RawBatchCursor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cursor = self.batches.fetch.program();
        f.debug_struct("RawBatchCursor")
            .field("server", cursor.server())
            .field("is_open", &cursor.is_open())
            .finish_non_exhaustive()
    }
}

impl<R: Runtime> RawBatchCursor<R> {
    pub(crate) fn new(client: Client<R>, mut cursor: operation::Cursor) -> Self {
        cursor.give_whole_batches();
        Self {
            batches: Batches::new(client, cursor),
        }
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{RawBatchCursor, Runtime};
    /// # fn example<R: Runtime + Clone>(cursor: RawBatchCursor<R>) {
    /// // A runtime that blocks polls the cursor with an executor of its own.
    /// let runtime = cursor.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.batches.fetch.runtime()
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RawBatch, Error>>> {
        let has_next = ready!(self.batches.poll(context, false));
        let batch = self.batches.fetch.program_mut().take_raw_batch();
        Poll::Ready(match has_next {
            Ok(_) => batch.map(Ok),
            Err(error) => Some(Err(error)),
        })
    }

    /// Returns the next batch; `None` at the end. Fails with a timeout error if no time is left to
    /// fetch another batch. After a batch could not be fetched, the cursor returns no more batches.
    ///
    /// The future can be dropped without a loss of batches, as that of
    /// [`Cursor::next`](crate::Cursor::next).
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut batches = people.find(doc! {}).batch().await?;
    /// while let Some(batch) = batches.next().await {
    ///     println!("{} bytes", batch?.as_raw_document().as_bytes().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<RawBatch, Error>> {
        poll_fn(|context| self.poll_batch(context)).await
    }

    /// Closes the cursor on the server, as [`Cursor::close`](crate::Cursor::close).
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut batches = people.find(doc! {}).batch().await?;
    /// let first = batches.next().await.transpose()?;
    /// batches.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> CloseCursor<R> {
        self.batches.close()
    }
}

impl<R: Runtime> Stream for RawBatchCursor<R> {
    type Item = Result<RawBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_batch(context)
    }
}

/// A [`RawBatchCursor`] of a call in a session. All its methods that can fetch a batch need the
/// session, so that no other operation of the session runs meanwhile.
///
/// ```no_run
/// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
/// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
/// let people = client.database("app").collection::<Document>("people");
/// let mut session = client.start_session().await?;
/// let mut batches = people.find(doc! {}).session(&mut session).batch().await?;
/// while let Some(batch) = batches.next(&mut session).await {
///     println!("{} bytes", batch?.as_raw_document().as_bytes().len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a cursor gives its batches only when it is polled"]
pub struct SessionRawBatchCursor<R: Runtime> {
    cursor: RawBatchCursor<R>,
    session: SessionId,
}

impl<R: Runtime> SessionRawBatchCursor<R> {
    pub(crate) const fn new(cursor: RawBatchCursor<R>, session: SessionId) -> Self {
        Self { cursor, session }
    }

    fn check(&self, session: &ClientSession<R>) -> Result<(), Error> {
        check_session(self.cursor.batches.fetch.client(), self.session, session)
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, SessionRawBatchCursor};
    /// # fn example<R: Runtime + Clone>(cursor: SessionRawBatchCursor<R>) {
    /// // A runtime that blocks polls the cursor with an executor of its own.
    /// let runtime = cursor.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.cursor.runtime()
    }

    /// Returns the next batch, as [`RawBatchCursor::next`]; `None` at the end. Fails also for
    /// another session than that of the call.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut batches = people.find(doc! {}).session(&mut session).batch().await?;
    /// while let Some(batch) = batches.next(&mut session).await {
    ///     println!("{} bytes", batch?.as_raw_document().as_bytes().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(
        &mut self,
        session: &mut ClientSession<R>,
    ) -> Option<Result<RawBatch, Error>> {
        match self.check(session) {
            Ok(()) => self.cursor.next().await,
            Err(error) => Some(Err(error)),
        }
    }

    /// Returns the batches as a stream, which borrows the session. With another session than that
    /// of the call, the stream gives an error and ends.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// use futures_util::TryStreamExt;
    /// use onionskin::RawBatch;
    ///
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut batches = people.find(doc! {}).session(&mut session).batch().await?;
    /// let all: Vec<RawBatch> = batches.stream(&mut session).try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream<'a>(
        &'a mut self,
        session: &'a mut ClientSession<R>,
    ) -> SessionRawBatchCursorStream<'a, R> {
        let checked = self.check(session);
        SessionRawBatchCursorStream {
            cursor: checked.map(|()| &mut self.cursor).map_err(Some),
            _session: session,
        }
    }

    /// Closes the cursor on the server, as [`Cursor::close`](crate::Cursor::close).
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut batches = people.find(doc! {}).session(&mut session).batch().await?;
    /// let first = batches.next(&mut session).await.transpose()?;
    /// batches.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> CloseCursor<R> {
        self.cursor.close()
    }
}

/// The batches of a [`SessionRawBatchCursor`] as a [`Stream`] of `Result<RawBatch>`.
#[must_use = "a stream gives its batches only when it is polled"]
pub struct SessionRawBatchCursorStream<'a, R: Runtime> {
    /// The cursor, or the error of another session until it was returned.
    cursor: Result<&'a mut RawBatchCursor<R>, Option<Error>>,
    _session: &'a mut ClientSession<R>,
}

impl<R: Runtime> fmt::Debug for SessionRawBatchCursorStream<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}

impl<R: Runtime> SessionRawBatchCursorStream<'_, R> {
    /// Returns the next batch; `None` at the end.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut batches = people.find(doc! {}).session(&mut session).batch().await?;
    /// let mut stream = batches.stream(&mut session);
    /// while let Some(batch) = stream.next().await {
    ///     println!("{} bytes", batch?.as_raw_document().as_bytes().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<RawBatch, Error>> {
        poll_fn(|context| self.poll_batch(context)).await
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RawBatch, Error>>> {
        match &mut self.cursor {
            Ok(cursor) => cursor.poll_batch(context),
            Err(refused) => Poll::Ready(refused.take().map(Err)),
        }
    }
}

impl<R: Runtime> Stream for SessionRawBatchCursorStream<'_, R> {
    type Item = Result<RawBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_batch(context)
    }
}
