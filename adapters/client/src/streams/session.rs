//! Change streams of sessions that an application has started.

use super::ChangeStream;
use crate::{ClientSession, CloseCursor, Runtime, session_cursor::check_session};
use futures_core::Stream;
use onionskin_core::{client::SessionId, error::Error, operation::crud::ResumeToken};
use serde::de::DeserializeOwned;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// A [`ChangeStream`] of a call in a session. All its methods that can fetch a batch need the
/// session, so that no other operation of the session runs meanwhile.
///
/// ```no_run
/// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
/// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
/// let people = client.database("app").collection::<Document>("people");
/// let mut session = client.start_session().await?;
/// let mut changes = people.watch().session(&mut session).await?;
/// while let Some(event) = changes.next(&mut session).await? {
///     println!("{:?}", event.operation_type);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a change stream gives its events only when it is polled"]
pub struct SessionChangeStream<R: Runtime, T> {
    stream: ChangeStream<R, T>,
    session: SessionId,
}

impl<R: Runtime, T> fmt::Debug for SessionChangeStream<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl<R: Runtime, T> SessionChangeStream<R, T> {
    pub(crate) const fn new(stream: ChangeStream<R, T>, session: SessionId) -> Self {
        Self { stream, session }
    }

    fn check(&self, session: &ClientSession<R>) -> Result<(), Error> {
        check_session(self.stream.client(), self.session, session)
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, SessionChangeStream};
    /// # fn example<R: Runtime + Clone>(changes: SessionChangeStream<R, ()>) {
    /// // A runtime that blocks polls the stream with an executor of its own.
    /// let runtime = changes.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.stream.runtime()
    }

    /// Returns this stream with events of another type.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let key = doc! { "$project": { "key": "$documentKey._id" } };
    /// let changes = people.watch().pipeline([key]).session(&mut session).await?;
    /// let mut keys = changes.with_type::<Document>();
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_type<D>(self) -> SessionChangeStream<R, D> {
        SessionChangeStream {
            stream: self.stream.with_type(),
            session: self.session,
        }
    }

    /// Returns the token with which the stream would resume, as [`ChangeStream::resume_token`].
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut changes = people.watch().session(&mut session).await?;
    /// let first = changes.next(&mut session).await?;
    /// if let Some(token) = changes.resume_token() {
    ///     let rest = people.watch().resume_after(token).session(&mut session).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.stream.resume_token()
    }

    /// True while further events can come, as [`ChangeStream::is_alive`].
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut changes = people.watch().session(&mut session).await?;
    /// while changes.is_alive() {
    ///     match changes.next_if_any(&mut session).await? {
    ///         Some(event) => println!("{:?}", event.operation_type),
    ///         None => println!("no news"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.stream.is_alive()
    }

    /// Closes the stream on the server, as [`ChangeStream::close`].
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut changes = people.watch().session(&mut session).await?;
    /// let first = changes.next(&mut session).await?;
    /// changes.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> CloseCursor<R> {
        self.stream.close()
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> SessionChangeStream<R, T> {
    /// Returns the next event, as [`ChangeStream::next`]; `None` at the end of the stream. Fails
    /// also for another session than that of the call.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut changes = people.watch().session(&mut session).await?;
    /// while let Some(event) = changes.next(&mut session).await? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self, session: &mut ClientSession<R>) -> Result<Option<T>, Error> {
        self.check(session)?;
        self.stream.next().await.transpose()
    }

    /// Returns the next event, for which it fetches one batch at most, as
    /// [`ChangeStream::next_if_any`]. Fails also for another session than that of the call.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut changes = people.watch().session(&mut session).await?;
    /// while let Some(event) = changes.next_if_any(&mut session).await? {
    ///     println!("{:?}", event.operation_type);
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
        self.stream.next_if_any().await
    }

    /// Returns the events as a stream, which borrows the session. With another session than that of
    /// the call, the stream gives an error and ends.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut changes = people.watch().session(&mut session).await?;
    /// let mut values = changes.values(&mut session);
    /// while let Some(event) = values.next().await {
    ///     println!("{:?}", event?.operation_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn values<'a>(
        &'a mut self,
        session: &'a mut ClientSession<R>,
    ) -> SessionChangeStreamValues<'a, R, T> {
        let checked = self.check(session);
        SessionChangeStreamValues {
            stream: checked.map(|()| &mut self.stream).map_err(Some),
            _session: session,
        }
    }
}

/// The events of a [`SessionChangeStream`] as a [`Stream`] of `Result<T>`.
#[must_use = "a stream gives its events only when it is polled"]
pub struct SessionChangeStreamValues<'a, R: Runtime, T> {
    /// The stream, or the error of another session until it was returned.
    stream: Result<&'a mut ChangeStream<R, T>, Option<Error>>,
    _session: &'a mut ClientSession<R>,
}

impl<R: Runtime, T: DeserializeOwned + 'static> SessionChangeStreamValues<'_, R, T> {
    /// Returns the next event; `None` at the end of the stream.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let mut changes = people.watch().session(&mut session).await?;
    /// let mut values = changes.values(&mut session);
    /// if let Some(event) = values.next().await {
    ///     println!("{:?}", event?.operation_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        match &mut self.stream {
            Ok(stream) => stream.next().await,
            Err(refused) => refused.take().map(Err),
        }
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> Stream for SessionChangeStreamValues<'_, R, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.stream {
            Ok(stream) => Pin::new(&mut **stream).poll_next(context),
            Err(refused) => Poll::Ready(refused.take().map(Err)),
        }
    }
}
