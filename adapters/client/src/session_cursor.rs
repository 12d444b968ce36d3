//! Cursors of sessions that an application has started.

use crate::{Client, ClientSession, CloseCursor, Cursor, Runtime};
use bson::RawDocument;
use futures_core::Stream;
use onionskin_core::{client::SessionId, error::Error};
use serde::de::{Deserialize, DeserializeOwned};
use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A [`Cursor`] of a call in a session. All its methods that can fetch a batch need the session, so
/// that no other operation of the session runs meanwhile.
///
/// ```no_run
/// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
/// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
/// let people = client.database("app").collection::<Document>("people");
/// let mut session = client.start_session().await?;
/// let mut cursor = people.find(doc! {}).session(&mut session).await?;
/// while let Some(person) = cursor.next(&mut session).await {
///     println!("{}", person?);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a cursor gives its documents only when it is polled"]
pub struct SessionCursor<R: Runtime, T> {
    cursor: Cursor<R, T>,
    session: SessionId,
}

impl<R: Runtime, T> fmt::Debug for SessionCursor<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}

impl<R: Runtime, T> SessionCursor<R, T> {
    pub(crate) const fn new(cursor: Cursor<R, T>, session: SessionId) -> Self {
        Self { cursor, session }
    }

    fn check(&self, session: &ClientSession<R>) -> Result<(), Error> {
        check_session(self.cursor.client(), self.session, session)
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, SessionCursor};
    /// # fn example<R: Runtime + Clone>(cursor: SessionCursor<R, ()>) {
    /// // A runtime that blocks polls the cursor with an executor of its own.
    /// let runtime = cursor.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.cursor.runtime()
    }

    /// Returns this cursor with documents of another type.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct PerYear { _id: i32, count: i64 }
    ///
    /// let group = doc! { "$group": { "_id": "$born", "count": { "$sum": 1_i64 } } };
    /// let years = people.aggregate([group]).session(&mut session).await?;
    /// let mut years = years.with_type::<PerYear>();
    /// while let Some(year) = years.next(&mut session).await {
    ///     println!("{} people", year?.count);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_type<D>(self) -> SessionCursor<R, D> {
        SessionCursor {
            cursor: self.cursor.with_type(),
            session: self.session,
        }
    }

    /// Moves to the next document, as [`Cursor::advance`]. Fails also for another session than that
    /// of the call.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
    /// while cursor.advance(&mut session).await? {
    ///     println!("{} bytes", cursor.current().as_bytes().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advance(&mut self, session: &mut ClientSession<R>) -> Result<bool, Error> {
        self.check(session)?;
        self.cursor.advance().await
    }

    /// Returns the bytes of the document to which [`advance`](Self::advance) moved, as
    /// [`Cursor::current`].
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
    /// while cursor.advance(&mut session).await? {
    ///     println!("{}", cursor.current().get_str("name")?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `advance` was not called, or did not return true.
    #[must_use]
    pub fn current(&self) -> &RawDocument {
        self.cursor.current()
    }

    /// Decodes the document to which [`advance`](Self::advance) moved, as
    /// [`Cursor::deserialize_current`].
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct Name<'a> { name: &'a str }
    ///
    /// let people = people.clone_with_type::<Name<'_>>();
    /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
    /// while cursor.advance(&mut session).await? {
    ///     println!("{}", cursor.deserialize_current()?.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn deserialize_current<'a>(&'a self) -> Result<T, Error>
    where
        T: Deserialize<'a>,
    {
        self.cursor.deserialize_current()
    }

    /// Decodes the document to which [`advance`](Self::advance) moved, as
    /// [`Cursor::deserialize_current_as`].
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// #[derive(serde::Deserialize)]
    /// struct Name<'a> { name: &'a str }
    ///
    /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
    /// while cursor.advance(&mut session).await? {
    ///     let person: Name<'_> = cursor.deserialize_current_as()?;
    ///     println!("{}", person.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn deserialize_current_as<'a, D: Deserialize<'a>>(&'a self) -> Result<D, Error> {
        self.cursor.deserialize_current_as()
    }

    /// Closes the cursor on the server, as [`Cursor::close`].
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
    /// let first = cursor.next(&mut session).await.transpose()?;
    /// cursor.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> CloseCursor<R> {
        self.cursor.close()
    }
}

/// Fails unless `session` is the one of a cursor, whose client and session these are.
pub(crate) fn check_session<R: Runtime>(
    client: &Client<R>,
    own: SessionId,
    session: &ClientSession<R>,
) -> Result<(), Error> {
    let is_of_client = Arc::ptr_eq(session.shared(), client.shared());
    match is_of_client && session.key() == own {
        true => Ok(()),
        false => Err(Error::argument(
            "the cursor belongs to another session; use the one of the call that opened it",
        )),
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> SessionCursor<R, T> {
    /// Returns the next document, as [`Cursor::next`]; `None` at the end. Fails also for another
    /// session than that of the call.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let archive = session.client().database("archive").collection::<Document>("people");
    /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
    /// while let Some(person) = cursor.next(&mut session).await {
    ///     // Between two calls of `next`, the session is free for other operations.
    ///     archive.insert_one(person?).session(&mut session).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self, session: &mut ClientSession<R>) -> Option<Result<T, Error>> {
        match self.check(session) {
            Ok(()) => self.cursor.next().await,
            Err(error) => Some(Err(error)),
        }
    }

    /// Returns the next document, for which it fetches one batch at most, as
    /// [`Cursor::next_if_any`]. Fails also for another session than that of the call.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// use onionskin::options::CursorType;
    ///
    /// # async fn example<R: Runtime>(
    /// #     log: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let tail = log.find(doc! {}).cursor_type(CursorType::TailableAwait);
    /// let mut lines = tail.session(&mut session).await?;
    /// while let Some(line) = lines.next_if_any(&mut session).await? {
    ///     println!("{line}");
    /// }
    /// println!("no news, so the session is free for something else");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_if_any(
        &mut self,
        session: &mut ClientSession<R>,
    ) -> Result<Option<T>, Error> {
        self.check(session)?;
        self.cursor.next_if_any().await
    }

    /// Returns the documents as a stream, which borrows the session. With another session than that
    /// of the call, the stream gives an error and ends.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// use futures_util::TryStreamExt;
    ///
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
    /// let all: Vec<Document> = cursor.stream(&mut session).try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream<'a>(
        &'a mut self,
        session: &'a mut ClientSession<R>,
    ) -> SessionCursorStream<'a, R, T> {
        let checked = self.check(session);
        SessionCursorStream {
            cursor: checked.map(|()| &mut self.cursor).map_err(Some),
            _session: session,
        }
    }
}

/// The documents of a [`SessionCursor`] as a [`Stream`] of `Result<T>`.
#[must_use = "a stream gives its documents only when it is polled"]
pub struct SessionCursorStream<'a, R: Runtime, T> {
    /// The cursor, or the error of another session until it was returned.
    cursor: Result<&'a mut Cursor<R, T>, Option<Error>>,
    _session: &'a mut ClientSession<R>,
}

impl<R: Runtime, T> fmt::Debug for SessionCursorStream<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> SessionCursorStream<'_, R, T> {
    /// Returns the next document; `None` at the end.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut cursor = people.find(doc! {}).session(&mut session).await?;
    /// let mut stream = cursor.stream(&mut session);
    /// while let Some(person) = stream.next().await {
    ///     println!("{}", person?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        match &mut self.cursor {
            Ok(cursor) => cursor.next().await,
            Err(refused) => refused.take().map(Err),
        }
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> Stream for SessionCursorStream<'_, R, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.cursor {
            Ok(cursor) => Pin::new(&mut **cursor).poll_next(context),
            Err(refused) => Poll::Ready(refused.take().map(Err)),
        }
    }
}
